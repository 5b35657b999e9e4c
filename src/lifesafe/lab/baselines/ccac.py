"""CCAC: constraint-conditioned actor-critic.

Guo et al. 2025, "Constraint-conditioned actor-critic for offline safe reinforcement learning". Actor and critics are
told how much cost may still come; in the logs that is what did come. So one training serves all limits. A conditional
VAE generates observations and actions for each such *condition*, a classifier tells which of them belong to larger
ones, and the cost critics are pushed up there.

NOTE: Where the authors' code departs from this, a setting says so, and `CCACConfig.osrl` has them all (it is a fork of
OSRL). The most telling: it compares a discounted critic with the condition, which is not discounted, a slack of up to
ten in episodes of 1000 steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, mse_loss, softplus

from lifesafe.data import Dataset
from lifesafe.data.segments import returns_to_go, steps_done
from lifesafe.errors import DatasetError
from lifesafe.lab.baselines.estimates import careful, signs, squared_errors
from lifesafe.lab.baselines.markov import MarkovPolicy, snapshot
from lifesafe.lab.baselines.networks import Critics, GaussianActor, divergence, mlp
from lifesafe.lab.baselines.offline import OfflineConfig, OfflineLearner
from lifesafe.lab.baselines.transitions import Ends, TransitionBatch
from lifesafe.policies.learner import check_settings

_VAE_LOG_STD_RANGE = (-4.0, 15.0)
_LOG_WEIGHT_RANGE = (-20.0, 5.0)


@dataclass(frozen=True, kw_only=True)
class CCACConfig(OfflineConfig):
    """CCAC: actor and critics that are told how much cost may still come (Guo et al. 2025)."""

    as_published: ClassVar[Mapping[str, Any]] = {
        "steps": 400_000,
        "reward_ends": "episodes",
        "discounted_condition": False,
        "scaled_condition": False,
        "one_reference": True,
        "positive_rewards": True,
        "optimistic_costs": True,
        "through_bounds": True,
    }

    limits: tuple[float, ...] = ()
    """Not needed: it learns for all limits at once, and is told one when it acts."""
    steps: int = 200_000
    """Gradient steps, of both stages together."""
    warmup: float = 0.5
    """Fraction of the steps in which only VAE and classifier learn."""
    cost_ends: Ends = "episodes"
    """Where the cost critics stop to look ahead: like the condition, which counts to the end of the episode."""
    actor_rate: float = 1e-4
    """Step size of the actor and of the multipliers."""
    critic_rate: float = 1e-3
    """Step size of the critics."""
    vae_rate: float = 1e-3
    """Step size of VAE and classifier."""
    vae_width: int = 512
    """Neurons of every hidden layer of the VAE, the classifier and the multipliers."""
    latent: int = 64
    """Size of the VAE's latent variable."""
    vae_weight: float = 0.5
    """Weight of the divergence in the VAE's loss."""
    follow_rate: float = 0.005
    """How fast target networks follow."""
    critics: int = 4
    """Critics of each return."""
    decay: float = 0.01
    """Weight of the squared weights of the multipliers' networks in their loss."""
    discounted_condition: bool = True
    """Whether the condition is discounted, as the critics are, before they are compared; the authors' is not."""
    scaled_condition: bool = True
    """Whether networks see the condition as a share of the largest one; the authors' see it as it is."""
    one_reference: bool = False
    """Whether the classifier compares a whole batch with its first condition, as the authors' does, or each row
    with that of another."""
    positive_rewards: bool = False
    """Whether reward critics cannot be negative, as the authors' cannot."""
    optimistic_costs: bool = False
    """Whether the least of the cost critics counts, as in the authors' code, rather than the most."""
    through_bounds: bool = False
    """Whether a multiplier at its bound still has a gradient, as in the authors' code."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_settings(self, counts=("vae_width", "latent", "critics"), not_negative=("decay",), shares=("warmup",))

    def build(self, dataset: Dataset, *, seed: int, device: str = "cpu", compile: bool = False) -> CCACLearner:
        """Return a learner before its first step.

        Raises:
            DatasetError: If there are several costs: the classifier needs conditions that can be ordered.
        """
        if dataset.costs.shape[1] != 1:
            raise DatasetError(
                f"CCAC knows one cost, since its classifier puts conditions in order; the data have"
                f" {dataset.costs.shape[1]}. Choose another method, or add the costs up."
            )
        conditions = Conditions.from_dataset(dataset, self)
        return CCACLearner(self, dataset, seed=seed, device=device, compile=compile, extra=conditions.columns(dataset))


@dataclass(frozen=True)
class Conditions:
    """How much cost may still come, as networks see it.

    Attributes:
        scale: The condition that networks see as 1.
        horizon: The longest episode.
        discount: Of the critics; 1 if the condition is not discounted.
    """

    scale: float
    horizon: int
    discount: float

    @classmethod
    def from_dataset(cls, dataset: Dataset, config: CCACConfig) -> Self:
        largest = float(dataset.returns[:, 1].max())
        return cls(
            scale=largest if config.scaled_condition and largest > 0 else 1.0,
            horizon=int(dataset.lengths.max()) if config.horizon is None else config.horizon,
            discount=config.discount if config.discounted_condition else 1.0,
        )

    def columns(self, dataset: Dataset) -> Float[np.ndarray, "n 3"]:
        """Return before and after each step what networks see, and what the cost critics are compared with.

        A condition that is spread evenly over the n steps left comes to (1 - γ^n) / (1 - γ) / n of it, discounted.
        """
        coming = returns_to_go(dataset)[:, 1]
        after = coming - dataset.costs[:, 0]
        left = np.maximum(self.horizon - steps_done(dataset), 1)
        share = 1.0 if self.discount == 1 else (1 - self.discount**left) / (1 - self.discount) / left
        return np.column_stack([coming / self.scale, np.maximum(after, 0.0) / self.scale, coming * share])


class ConditionalVAE(nn.Module):
    """A variational autoencoder of observations and actions, given the condition."""

    low: Tensor
    high: Tensor

    def __init__(self, pairs: int, width: int, latent: int) -> None:
        super().__init__()
        self.latent = latent
        self.encoder = mlp(pairs + 1, width, 2, 2 * latent)
        self.decoder = mlp(latent + 1, width, 2, pairs)
        self.register_buffer("low", torch.full((pairs,), -torch.inf))
        self.register_buffer("high", torch.full((pairs,), torch.inf))

    def forward(
        self, pairs: Float[Tensor, "m i"], conditions: Float[Tensor, "m 1"], noise: Float[Tensor, "m l"]
    ) -> tuple[Float[Tensor, "m i"], Float[Tensor, " m"]]:
        """Return the pairs, encoded and decoded again, and the divergence of their latent variables."""
        means, log_stds = self.encoder(torch.cat([pairs, conditions], dim=1)).chunk(2, dim=1)
        stds = log_stds.clamp(*_VAE_LOG_STD_RANGE).exp()
        return self.decode(means + stds * noise, conditions), divergence(means, stds)

    def decode(self, latents: Float[Tensor, "m l"], conditions: Float[Tensor, "m 1"]) -> Float[Tensor, "m i"]:
        """Return observations and actions such as have the condition, within the range of the data."""
        decoded: Tensor = self.decoder(torch.cat([latents, conditions], dim=1))
        beyond = decoded.detach() - decoded.detach().clamp(self.low, self.high)
        return decoded - beyond  # with the gradient of what is not cut off, so that it can come back


class Weight(nn.Module):
    """A multiplier for every condition."""

    def __init__(self, width: int, *, through_bounds: bool) -> None:
        super().__init__()
        self._through_bounds = through_bounds
        self.layers = mlp(1, width, 2, 1)

    def forward(self, conditions: Float[Tensor, "m 1"]) -> Float[Tensor, " m"]:
        logarithms: Tensor = self.layers(conditions).squeeze(1)
        bounded = logarithms.clamp(*_LOG_WEIGHT_RANGE)
        if self._through_bounds:
            bounded = logarithms + (bounded - logarithms).detach()
        return bounded.exp()

    def size(self) -> Float[Tensor, ""]:
        """Return the sum of squares of what is learned."""
        return torch.stack([parameter.square().sum() for parameter in self.parameters()]).sum()


class CCACNetworks(nn.Module):
    """All that CCAC learns."""

    signs: Tensor

    def __init__(self, config: CCACConfig, sizes: Mapping[str, int]) -> None:
        super().__init__()
        o, a = sizes["observations"], sizes["actions"]
        self.actor = GaussianActor(o + 1, a, config.width, config.depth)
        self.reward_critics = Critics(o + 1 + a, config.width, config.depth, returns=1, critics=config.critics)
        self.cost_critics = Critics(o + 1 + a, config.width, config.depth, returns=1, critics=config.critics)
        self.vae = ConditionalVAE(o + a, config.vae_width, config.latent)
        self.classifier = mlp(o + a + 1, config.vae_width, 2, 1)
        self.cost_weight = Weight(config.vae_width, through_bounds=config.through_bounds)
        self.actor_weight = Weight(config.vae_width, through_bounds=config.through_bounds)
        self.register_buffer("signs", signs(1, optimistic=config.optimistic_costs))


class CCAC(MarkovPolicy):
    """The actor of CCAC: it is told how much of the target's cost is left."""

    @classmethod
    def _network(cls, config: CCACConfig, sizes: Mapping[str, Any]) -> nn.Module:
        return GaussianActor(sizes["observations"] + 1, sizes["actions"], config.width, config.depth)

    def actions(
        self, observations: Float[Tensor, "m o"], to_go: Float[np.ndarray, "m r"], times: Int[np.ndarray, " m"]
    ) -> Float[Tensor, "m a"]:
        conditions = torch.from_numpy((to_go[:, 1:] / self.sizes["scale"]).astype(np.float32))
        means, _ = self.model(torch.cat([observations, conditions], dim=1))
        return torch.tanh(means)


class CCACLearner(OfflineLearner):
    """Learns CCAC: first what belongs to which condition, then actor and critics as well."""

    name = "ccac"
    followed = ("reward_critics", "cost_critics")
    config: CCACConfig
    model: CCACNetworks

    def _build(self, dataset: Dataset) -> CCACNetworks:
        networks = CCACNetworks(self.config, self.sizes)
        pairs = self.transitions.rows[:, : self.sizes["observations"] + self.sizes["actions"]]
        networks.vae.low, networks.vae.high = pairs.amin(0), pairs.amax(0)
        self._scale = Conditions.from_dataset(dataset, self.config).scale
        return networks

    def _rates(self) -> dict[str, float]:
        config = self.config
        return {
            "vae": config.vae_rate,
            "classifier": config.vae_rate,
            "reward_critics": config.critic_rate,
            "cost_critics": config.critic_rate,
            "cost_weight": config.actor_rate,
            "actor": config.actor_rate,
            "actor_weight": config.actor_rate,
        }

    def _update(self, batch: TransitionBatch, step: int) -> dict[str, Tensor]:
        vae_loss, classifier_loss = self.generator_losses(batch)
        self._descend("vae", vae_loss)
        self._descend("classifier", classifier_loss)
        metrics = {"vae_loss": vae_loss, "classifier_loss": classifier_loss}
        names = ("loss", "actor_loss", "cost", "unknown_cost", "cost_weight", "actor_weight")
        if step < self.config.warmup * self.config.steps:
            return metrics | dict.fromkeys(names, vae_loss.new_zeros(()))
        return metrics | dict(zip(names, self._learn_to_act(batch), strict=True))

    def generator_losses(self, batch: TransitionBatch) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Return the losses of the VAE and of the classifier."""
        conditions = batch.extra[:, :1]
        noise = self.normal(len(conditions), self.config.latent)
        decoded, divergences = self.model.vae(batch.pairs, conditions, noise)
        vae_loss = mse_loss(decoded, batch.pairs) + self.config.vae_weight * divergences.mean()
        others = conditions[:1].expand_as(conditions) if self.config.one_reference else conditions.roll(1, dims=0)
        pairs = torch.cat([batch.pairs, decoded.detach()])
        logits = self.model.classifier(torch.cat([pairs, others.repeat(2, 1)], dim=1)).squeeze(1)
        larger = (conditions > others).float().squeeze(1).repeat(2)
        return vae_loss, binary_cross_entropy_with_logits(logits, larger)

    def _learn_to_act(self, batch: TransitionBatch) -> tuple[Tensor, ...]:
        """Move critics, actor and multipliers, and return metrics."""
        model = self.model
        conditions, allowed = batch.extra[:, :1], batch.extra[:, 2]
        rewards, costs = self.targets(batch)
        seen = torch.cat([batch.observations, conditions, batch.actions], dim=1)
        reward_loss = squared_errors(self._rewards(model.reward_critics, seen), rewards)
        self._descend("reward_critics", reward_loss)

        unknown_pairs, shares = self.unknown(batch)
        unknown_costs = self._pushed(softplus(model.cost_critics(unknown_pairs)))
        excess = unknown_costs - allowed
        weights = model.cost_weight(conditions)
        cost_loss = squared_errors(softplus(model.cost_critics(seen)), costs)
        self._descend("cost_critics", cost_loss - shares @ (weights.detach() * excess))
        decay = self.config.decay
        self._descend("cost_weight", shares @ (weights * excess.detach()) + decay * model.cost_weight.size())

        actions = torch.cat([batch.observations, conditions, self.sampled(batch.observations, conditions)], dim=1)
        expected = careful(softplus(model.cost_critics(actions)), model.signs[1:])[0]
        earned = careful(self._rewards(model.reward_critics, actions), model.signs[:1])[0]
        actor_weights = model.actor_weight(conditions)
        actor_loss = (actor_weights.detach() * (expected - allowed) - earned).mean()
        self._descend("actor", actor_loss)
        push = (actor_weights * (allowed - expected.detach())).mean()
        self._descend("actor_weight", push + decay * model.actor_weight.size())
        self._follow()
        return (
            reward_loss + cost_loss,
            actor_loss,
            expected.mean(),
            shares @ unknown_costs,
            weights.mean(),
            actor_weights.mean(),
        )

    @torch.no_grad()
    def targets(self, batch: TransitionBatch) -> tuple[Float[Tensor, "1 m"], Float[Tensor, "1 m"]]:
        """Return what the critics should say."""
        conditions = batch.extra[:, 1:2]
        actions = self.sampled(batch.next_observations, conditions)
        pairs = torch.cat([batch.next_observations, conditions, actions], dim=1)
        rewards = careful(self._rewards(self.slow["reward_critics"], pairs), self.model.signs[:1])
        costs = careful(softplus(self.slow["cost_critics"](pairs)), self.model.signs[1:])
        targets = batch.returns.T + self.config.discount * batch.goes_on.T * torch.cat([rewards, costs])
        return targets[:1], targets[1:]

    @torch.no_grad()
    def unknown(self, batch: TransitionBatch) -> tuple[Float[Tensor, "m i"], Float[Tensor, " m"]]:
        """Return generated inputs of the cost critics, and weights for a mean over those that cost too much."""
        conditions, o = batch.extra[:, :1], self.sizes["observations"]
        latents = self.normal(len(conditions), self.config.latent).clamp(-1, 1)
        pairs = self.model.vae.decode(latents, conditions)
        larger = (self.model.classifier(torch.cat([pairs, conditions], dim=1)).squeeze(1) > 0).float()
        return torch.cat([pairs[:, :o], conditions, pairs[:, o:]], dim=1), larger / larger.sum().clamp(min=1)

    def sampled(self, observations: Float[Tensor, "m o"], conditions: Float[Tensor, "m 1"]) -> Float[Tensor, "m a"]:
        """Return a sample of the actor for each observation and condition."""
        means, stds = self.model.actor(torch.cat([observations, conditions], dim=1))
        return torch.tanh(means + stds * self.normal(*means.shape))

    def _rewards(self, critics: nn.Module, inputs: Float[Tensor, "m i"]) -> Float[Tensor, "1 q m"]:
        values: Tensor = critics(inputs)
        return softplus(values) if self.config.positive_rewards else values

    def _pushed(self, values: Float[Tensor, "1 q m"]) -> Float[Tensor, " m"]:
        """Return the estimate that is pushed up: of all critics, but the authors push the least alone."""
        return values[0].amin(0) if self.config.optimistic_costs else values[0].mean(0)

    def policy(self) -> CCAC:
        return CCAC(self.config, snapshot(self.model.actor), {**self.sizes, "scale": self._scale})
