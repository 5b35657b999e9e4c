"""Q-learning among proposed actions, under Lagrange multipliers: what BCQ-Lag and BEAR-Lag share.

Both learn critics of the reward and of every cost that look ahead to the best of several actions which their actor
proposes; they differ in what keeps these proposals close to the logged actions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from lifesafe._random import generator
from lifesafe.data import Dataset
from lifesafe.errors import ConfigError
from lifesafe.lab.baselines.estimates import (
    PIDMultipliers,
    best_of,
    careful,
    lagrangian,
    lagrangian_loss,
    mixed,
    signs,
    squared_errors,
)
from lifesafe.lab.baselines.markov import MarkovPolicy
from lifesafe.lab.baselines.networks import ActionVAE, Critics
from lifesafe.lab.baselines.offline import OfflineConfig, OfflineLearner, each
from lifesafe.lab.baselines.transitions import TransitionBatch
from lifesafe.policies.learner import check_settings

LATENT_BOUND = 0.5
"""Actions are decoded from the middle of the VAE's prior."""
_MOMENTS = 64


@dataclass(frozen=True, kw_only=True)
class ProposalConfig(OfflineConfig):
    """Settings of Q-learning among proposed actions."""

    as_published: ClassVar[Mapping[str, Any]] = {
        "reward_ends": "episodes",
        "cost_ends": "never",
        "finite_limit": True,
        "critics": 4,
        "choices": 1,
        "optimistic_costs": True,
        "costliest": True,
        "rescaled": False,
        "one_sided": True,
    }

    actor_rate: float = 1e-3
    """Step size of the actor."""
    critic_rate: float = 1e-3
    """Step size of the critics."""
    vae_rate: float = 1e-3
    """Step size of the VAE."""
    vae_width: int = 400
    """Neurons of every hidden layer of the VAE."""
    vae_weight: float = 0.5
    """Weight of the divergence in the VAE's loss."""
    gains: tuple[float, float, float] = (0.1, 0.003, 0.001)
    """How strongly a multiplier answers to a violation, to the sum of past ones, and to its growth."""
    one_sided: bool = False
    """Whether slack does not lower a multiplier at once, only by and by, as in OSRL."""
    follow_rate: float = 0.005
    """How fast target networks follow."""
    proposals: int = 10
    """Actions proposed for each next observation in training."""
    mixture: float = 0.75
    """Weight of the more careful critic in a target; the other one has the rest."""
    critics: int = 2
    """Critics of each return, an even number. With 4, each half counts by its more careful one, as in OSRL."""
    choices: int = 100
    """Actions proposed when acting, of which the best is taken."""
    optimistic_costs: bool = False
    """Whether the least of the cost critics counts as the careful one, as in OSRL, rather than the most."""
    costliest: bool = False
    """Whether the cost target takes the costliest proposal, as in OSRL, rather than the one that would be taken."""
    rescaled: bool = True
    """Whether the actor's loss is divided by 1 + multipliers (Stooke et al.); OSRL does not."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.critics < 2 or self.critics % 2:
            raise ConfigError(f"critics must be an even number; got {self.critics}.")
        check_settings(self, counts=("proposals", "choices", "vae_width"))


class ProposalNetworks(nn.Module, ABC):
    """All that is learned; a method adds its actor."""

    signs: Tensor
    actor: nn.Module
    noise: int
    """Numbers that one proposal is drawn from."""

    def __init__(self, config: ProposalConfig, sizes: Mapping[str, int], limits: tuple[float, ...]) -> None:
        super().__init__()
        observations, actions, returns = sizes["observations"], sizes["actions"], 1 + sizes["costs"]
        self.vae = ActionVAE(observations, actions, config.vae_width, latent=2 * actions)
        self.critics = Critics(
            observations + actions, config.width, config.depth, returns=returns, critics=config.critics
        )
        self.multipliers = PIDMultipliers(limits, config.gains, one_sided=config.one_sided)
        self.register_buffer("signs", signs(sizes["costs"], optimistic=config.optimistic_costs))

    @abstractmethod
    def propose(
        self, actor: nn.Module, observations: Float[Tensor, "m o"], noise: Float[Tensor, "mn z"], count: int = 1
    ) -> Float[Tensor, "mn a"]:
        """Return so many actions for each observation, one after the other; normal noise decides which."""


class ProposalPolicy(MarkovPolicy):
    """Takes the best of several proposals, by what the critics expect of the reward and of the weighted costs."""

    model: ProposalNetworks

    def __init__(self, config: Any, model: nn.Module, sizes: Mapping[str, int]) -> None:
        super().__init__(config, model, sizes)
        # Drawn once, so that acting is no matter of luck: other proposals at every step of an episode, for some time.
        noise = generator(0, "proposals").normal(size=(_MOMENTS, config.choices, self.model.noise))
        self._noise = torch.from_numpy(noise.astype(np.float32))

    def actions(
        self, observations: Float[Tensor, "m o"], to_go: Float[np.ndarray, "m r"], times: Int[np.ndarray, " m"]
    ) -> Float[Tensor, "m a"]:
        count = self.config.choices
        seen = observations.repeat_interleave(count, dim=0)
        noise = self._noise[times % _MOMENTS].flatten(0, 1)
        proposed = self.model.propose(self.model.actor, observations, noise, count)
        if count == 1:
            return proposed
        values = self.model.critics(torch.cat([seen, proposed], dim=1))
        scores = lagrangian(careful(values, self.model.signs), self.model.multipliers.values).view(-1, count)
        return proposed.view(*scores.shape, -1)[torch.arange(len(scores)), scores.argmax(1)]


class ProposalLearner(OfflineLearner):
    """Fits the VAE, the critics and the actor in turn, and moves the multipliers."""

    followed = ("actor", "critics")
    model: ProposalNetworks

    @abstractmethod
    def _build(self, dataset: Dataset) -> ProposalNetworks: ...

    def _rates(self) -> dict[str, float]:
        config = self.config
        return {"vae": config.vae_rate, "critics": config.critic_rate, "actor": config.actor_rate}

    def _update(self, batch: TransitionBatch, step: int) -> dict[str, Tensor]:
        vae_loss = self.vae_loss(batch)
        self._descend("vae", vae_loss)
        critic_loss = self.critic_loss(batch)
        self._descend("critics", critic_loss)
        actor_loss, metrics = self.actor_loss(batch, step)
        self._descend("actor", actor_loss)
        self._follow()
        return {"loss": critic_loss, "vae_loss": vae_loss, "actor_loss": actor_loss, **metrics}

    @abstractmethod
    def actor_loss(self, batch: TransitionBatch, step: int) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
        """Return the loss of the actor and metrics; moves the multipliers first."""

    def vae_loss(self, batch: TransitionBatch) -> Float[Tensor, ""]:
        noise = self.normal(len(batch.actions), self.model.vae.latent)
        return self.model.vae.loss(batch.pairs, batch.actions, noise, self.config.vae_weight)

    def critic_loss(self, batch: TransitionBatch) -> Float[Tensor, ""]:
        return squared_errors(self.model.critics(batch.pairs), self.targets(batch))

    @torch.no_grad()
    def targets(self, batch: TransitionBatch) -> Float[Tensor, "r m"]:
        """Return what the critics should say: what the step brought, and what the best proposal makes of the rest."""
        count = self.config.proposals
        observations = batch.next_observations.repeat_interleave(count, dim=0)
        noise = self.normal(len(observations), self.model.noise)
        actions = self.model.propose(self.slow["actor"], batch.next_observations, noise, count)
        values = self.slow["critics"](torch.cat([observations, actions], dim=1))
        coming = mixed(values, self.model.signs, self.config.mixture).view(len(values), -1, count)
        coming = coming.amax(-1) if self.config.costliest else best_of(coming, self.model.multipliers.values)
        targets: Tensor = batch.returns.T + self.config.discount * batch.goes_on.T * coming
        return targets

    def constrained_loss(
        self, observations: Float[Tensor, "m o"], actions: Float[Tensor, "m a"], *, counts: bool = True
    ) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
        """Return the Lagrangian loss of the actor's actions, and metrics; the multipliers answer to them first.

        If it does not count yet, the loss is 0 and the multipliers stay.
        """
        expected = careful(self.model.critics(torch.cat([observations, actions], dim=1)), self.model.signs)
        costs, multipliers = expected[1:].mean(-1), self.model.multipliers
        if counts:
            multipliers.update(costs.detach())
            loss = lagrangian_loss(expected, multipliers, rescaled=self.config.rescaled)
        else:
            loss = expected.new_zeros(())
        return loss, {"reward": expected[0].mean(), **each("cost", costs), **each("multiplier", multipliers.values)}
