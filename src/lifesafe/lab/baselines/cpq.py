"""CPQ: constraints penalized Q-learning.

Xu et al. 2022, "Constraints penalized Q-learning for safe offline reinforcement learning". Cost critics are pushed
up at actions unlike the logged ones, as a VAE judges; a reward is counted only as far as the costs keep their limits.

NOTE: Where OSRL departs from this, a setting says so, and `CPQConfig.osrl` has them all. The most telling: its
conservative term has no gradient, so its cost critics are not conservative. Which actions are unlike the logged ones
the paper leaves to a threshold on the VAE's divergence; ours is a quantile of the divergences of the logged actions
themselves, which needs no scale. And by the paper's rule an actor whose actions all look unsafe has no gradient and
stays there; `rescue` mends the method in this, so it is off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from lifesafe.data import Dataset
from lifesafe.lab.baselines.estimates import careful, moved, signs, squared_errors
from lifesafe.lab.baselines.markov import GaussianPolicy, snapshot
from lifesafe.lab.baselines.networks import ActionVAE, Critics, GaussianActor, divergence
from lifesafe.lab.baselines.offline import OfflineConfig, OfflineLearner, each
from lifesafe.lab.baselines.transitions import TransitionBatch
from lifesafe.policies.learner import check_settings

_LOG_WEIGHT_RANGE = (-5.0, 5.0)


@dataclass(frozen=True, kw_only=True)
class CPQConfig(OfflineConfig):
    """CPQ: cost critics that mistrust unknown actions, rewards that count only where costs keep their limits."""

    as_published: ClassVar[Mapping[str, Any]] = {
        "reward_ends": "episodes",
        "cost_ends": "never",
        "finite_limit": True,
        "unknown": "quarter",
        "conservative": False,
        "squashed": False,
        "optimistic_costs": True,
    }

    actor_rate: float = 1e-4
    """Step size of the actor."""
    critic_rate: float = 1e-3
    """Step size of the critics."""
    vae_rate: float = 1e-3
    """Step size of the VAE."""
    weight_rate: float = 1e-4
    """Step size of the logarithm of the conservative term's weight."""
    vae_width: int = 400
    """Neurons of every hidden layer of the VAE."""
    vae_weight: float = 0.5
    """Weight of the divergence in the VAE's loss."""
    follow_rate: float = 0.005
    """How fast target networks follow."""
    critics: int = 2
    """Critics of each return."""
    samples: int = 10
    """Actions of the actor that are judged at each observation."""
    margin: float = 1.5
    """Unknown actions should cost at least this much times the limit."""
    known: float = 0.95
    """An action is unknown if its divergence exceeds that of this fraction of the logged actions."""
    unknown: Literal["beyond logged", "quarter"] = "beyond logged"
    """Which sampled actions count as unknown; OSRL takes the quarter of them with the largest divergence."""
    conservative: bool = True
    """Whether the conservative term has a gradient; in OSRL it has none."""
    squashed: bool = True
    """Whether sampled actions are squashed to [-1, 1] before they are judged; OSRL forgets to."""
    optimistic_costs: bool = False
    """Whether the least of the cost critics counts, as in OSRL, rather than the most."""
    rescue: bool = False
    """Whether the actor also learns to lower costs that exceed their limits, which the paper's does not."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_settings(
            self, counts=("vae_width", "critics", "samples"), positive=("known", "margin"), shares=("known",)
        )

    def build(self, dataset: Dataset, *, seed: int, device: str = "cpu", compile: bool = False) -> CPQLearner:
        """Return a learner before its first step."""
        return CPQLearner(self, dataset, seed=seed, device=device, compile=compile)


class CPQNetworks(nn.Module):
    """All that CPQ learns."""

    limits: Tensor
    signs: Tensor
    log_weights: Tensor

    def __init__(self, config: CPQConfig, sizes: Mapping[str, int], limits: tuple[float, ...]) -> None:
        super().__init__()
        o, a, k = sizes["observations"], sizes["actions"], sizes["costs"]
        self.actor = GaussianActor(o, a, config.width, config.depth)
        self.reward_critics = Critics(o + a, config.width, config.depth, returns=1, critics=config.critics)
        self.cost_critics = Critics(o + a, config.width, config.depth, returns=k, critics=config.critics)
        self.vae = ActionVAE(o, a, config.vae_width, latent=2 * a)
        self.register_buffer("limits", torch.tensor(limits).view(-1, 1))
        self.register_buffer("signs", signs(k, optimistic=config.optimistic_costs))
        self.register_buffer("log_weights", torch.zeros(k))


class CPQ(GaussianPolicy):
    """The actor of CPQ."""


class CPQLearner(OfflineLearner):
    """Learns CPQ."""

    name = "cpq"
    followed = ("reward_critics", "cost_critics")
    config: CPQConfig
    model: CPQNetworks

    def _build(self, dataset: Dataset) -> CPQNetworks:
        return CPQNetworks(self.config, self.sizes, self.config.critic_limits(dataset))

    def _rates(self) -> dict[str, float]:
        config = self.config
        return {
            "vae": config.vae_rate,
            "reward_critics": config.critic_rate,
            "cost_critics": config.critic_rate,
            "actor": config.actor_rate,
        }

    def _update(self, batch: TransitionBatch, step: int) -> dict[str, Tensor]:
        vae_loss = self.vae_loss(batch)
        self._descend("vae", vae_loss)
        rewards, costs = self.targets(batch)
        reward_loss = squared_errors(self.model.reward_critics(batch.pairs), rewards)
        self._descend("reward_critics", reward_loss)
        cost_loss = squared_errors(self.model.cost_critics(batch.pairs), costs)
        unknown = self.unknown_costs(batch)
        lack = self.config.margin * self.model.limits.squeeze(1) - unknown
        self._descend("cost_critics", cost_loss + self.model.log_weights.exp() @ lack)
        self.model.log_weights = moved(
            self.model.log_weights, lack.detach(), self.config.weight_rate, _LOG_WEIGHT_RANGE
        )
        actor_loss, safe = self.actor_loss(batch)
        self._descend("actor", actor_loss)
        self._follow()
        return {
            "loss": reward_loss + cost_loss,
            "vae_loss": vae_loss,
            "actor_loss": actor_loss,
            "safe": safe,
            **each("unknown_cost", unknown),
            **each("weight", self.model.log_weights.exp()),
        }

    def vae_loss(self, batch: TransitionBatch) -> Float[Tensor, ""]:
        noise = self.normal(len(batch.actions), self.model.vae.latent)
        return self.model.vae.loss(batch.pairs, batch.actions, noise, self.config.vae_weight)

    @torch.no_grad()
    def targets(self, batch: TransitionBatch) -> tuple[Float[Tensor, "1 m"], Float[Tensor, "k m"]]:
        """Return what the critics should say; rewards beyond the step count only if the limits are kept from there."""
        pairs = torch.cat([batch.next_observations, self.sampled(batch.next_observations)], dim=1)
        costs = careful(self.slow["cost_critics"](pairs), self.model.signs[1:])
        rewards = careful(self.slow["reward_critics"](pairs), self.model.signs[:1]) * self.safe(costs)
        targets = batch.returns.T + self.config.discount * batch.goes_on.T * torch.cat([rewards, costs])
        return targets[:1], targets[1:]

    def unknown_costs(self, batch: TransitionBatch) -> Float[Tensor, " k"]:
        """Return what the cost critics expect of actions unlike the logged ones."""
        count = self.config.samples
        with torch.no_grad():
            actions = self.sampled(batch.observations, count=count, squashed=self.config.squashed)
            pairs = torch.cat([batch.observations.repeat_interleave(count, dim=0), actions], dim=1)
            divergences = divergence(*self.model.vae.encode(pairs))
        if self.config.unknown == "quarter":
            unknown = divergences >= divergences.quantile(0.75)
        else:
            with torch.no_grad():
                logged = divergence(*self.model.vae.encode(batch.pairs))
            unknown = divergences > logged.quantile(self.config.known)
        if not self.config.conservative:
            with torch.no_grad():
                expected = careful(self.slow["cost_critics"](pairs), self.model.signs[1:])
            return (expected * unknown).mean(-1)
        if not unknown.any():
            return self.config.margin * self.model.limits.squeeze(1)  # nothing is lacking
        costs: Tensor = self.model.cost_critics(pairs[unknown]).mean((1, 2))  # so that every critic learns from it
        return costs

    def actor_loss(self, batch: TransitionBatch) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Return the loss of the actor, and the share of its actions that keep the limits."""
        pairs = torch.cat([batch.observations, self.sampled(batch.observations)], dim=1)
        costs = careful(self.model.cost_critics(pairs), self.model.signs[1:])
        safe = self.safe(costs)
        loss = -(safe * careful(self.model.reward_critics(pairs), self.model.signs[:1])).mean()
        if self.config.rescue:
            loss = loss + (costs - self.model.limits).relu().mean(-1).sum()
        return loss, safe.float().mean()

    def sampled(
        self, observations: Float[Tensor, "m o"], *, count: int = 1, squashed: bool = True
    ) -> Float[Tensor, "mn a"]:
        """Return so many samples of the actor for each observation, one after the other."""
        means, stds = (moment.repeat_interleave(count, dim=0) for moment in self.model.actor(observations))
        actions: Tensor = means + stds * self.normal(*means.shape)
        return torch.tanh(actions) if squashed else actions

    def safe(self, costs: Float[Tensor, "k m"]) -> Bool[Tensor, " m"]:
        """Return whether all costs keep their limits."""
        return (costs <= self.model.limits).all(0)

    def policy(self) -> CPQ:
        return CPQ(self.config, snapshot(self.model.actor), self.sizes)
