"""BCQ-Lag: batch-constrained Q-learning under a cost limit.

Fujimoto et al. 2019, "Off-policy deep reinforcement learning without exploration", with Lagrange multipliers under
PID control (Stooke et al. 2020). A VAE proposes actions like the logged ones, a small network perturbs them a little,
and critics of the reward and of every cost choose the best.

NOTE: Where OSRL departs from this, a setting says so, and `BCQLagConfig.osrl` has them all. The most telling: when
acting, OSRL takes a random proposal instead of the best.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lifesafe.data import Dataset
from lifesafe.lab.baselines.markov import snapshot
from lifesafe.lab.baselines.networks import mlp
from lifesafe.lab.baselines.proposals import (
    LATENT_BOUND,
    ProposalConfig,
    ProposalLearner,
    ProposalNetworks,
    ProposalPolicy,
)
from lifesafe.lab.baselines.transitions import TransitionBatch


@dataclass(frozen=True, kw_only=True)
class BCQLagConfig(ProposalConfig):
    """BCQ-Lag: the best of actions like the logged ones (Fujimoto et al. 2019), under Lagrange multipliers."""

    as_published: ClassVar[Mapping[str, Any]] = {**ProposalConfig.as_published, "activation": "tanh"}

    perturbation: float = 0.05
    """How far an action may be moved away from the VAE's proposal."""
    activation: Literal["relu", "tanh"] = "relu"
    """Between the layers of the perturbation; OSRL has tanh."""

    def build(self, dataset: Dataset, *, seed: int, device: str = "cpu", compile: bool = False) -> BCQLagLearner:
        """Return a learner before its first step."""
        return BCQLagLearner(self, dataset, seed=seed, device=device, compile=compile)


class Perturbation(nn.Module):
    """Moves an action a little."""

    def __init__(self, config: BCQLagConfig, observations: int, actions: int) -> None:
        super().__init__()
        self._reach = config.perturbation
        activation = {"relu": nn.ReLU, "tanh": nn.Tanh}[config.activation]
        self.layers = mlp(observations + actions, config.width, config.depth, actions, activation=activation)

    def forward(self, observations: Float[Tensor, "m o"], actions: Float[Tensor, "m a"]) -> Float[Tensor, "m a"]:
        moves = self._reach * torch.tanh(self.layers(torch.cat([observations, actions], dim=-1)))
        return (actions + moves).clamp(-1, 1)


class BCQLagNetworks(ProposalNetworks):
    """All that BCQ-Lag learns."""

    def __init__(self, config: BCQLagConfig, sizes: Mapping[str, int], limits: tuple[float, ...]) -> None:
        super().__init__(config, sizes, limits)
        self.actor = Perturbation(config, sizes["observations"], sizes["actions"])
        self.noise = self.vae.latent

    def propose(
        self, actor: nn.Module, observations: Float[Tensor, "m o"], noise: Float[Tensor, "mn z"], count: int = 1
    ) -> Float[Tensor, "mn a"]:
        """Return actions like the logged ones, perturbed by the actor."""
        seen = observations.repeat_interleave(count, dim=0)
        decoded = self.vae.decode(seen, noise.clamp(-LATENT_BOUND, LATENT_BOUND))
        actions: Tensor = actor(seen, decoded)
        return actions


class BCQLag(ProposalPolicy):
    """Takes the best of actions like the logged ones."""

    @classmethod
    def _network(cls, config: BCQLagConfig, sizes: Mapping[str, int]) -> BCQLagNetworks:
        return BCQLagNetworks(config, sizes, (0.0,) * sizes["costs"])


class BCQLagLearner(ProposalLearner):
    """Learns BCQ-Lag."""

    name = "bcq-lag"

    def _build(self, dataset: Dataset) -> BCQLagNetworks:
        return BCQLagNetworks(self.config, self.sizes, self.config.critic_limits(dataset))

    def actor_loss(self, batch: TransitionBatch, step: int) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
        noise = self.normal(len(batch.observations), self.model.noise)
        actions = self.model.propose(self.model.actor, batch.observations, noise)
        return self.constrained_loss(batch.observations, actions)

    def policy(self) -> BCQLag:
        return BCQLag(self.config, snapshot(self.model), self.sizes)
