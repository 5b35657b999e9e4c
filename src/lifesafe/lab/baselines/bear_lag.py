"""BEAR-Lag: bootstrapping error accumulation reduction under a cost limit.

Kumar et al. 2019, "Stabilizing off-policy Q-learning via bootstrapping error reduction", with Lagrange multipliers
under PID control (Stooke et al. 2020). A Gaussian actor is kept near the support of the logged actions, which a VAE
imitates, by a limit on the maximum mean discrepancy between samples of both.

NOTE: Where OSRL departs from this, a setting says so, and `BEARLagConfig.osrl` has them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lifesafe.data import Dataset
from lifesafe.errors import ConfigError
from lifesafe.lab.baselines.estimates import moved
from lifesafe.lab.baselines.markov import snapshot
from lifesafe.lab.baselines.networks import GaussianActor
from lifesafe.lab.baselines.proposals import (
    LATENT_BOUND,
    ProposalConfig,
    ProposalLearner,
    ProposalNetworks,
    ProposalPolicy,
)
from lifesafe.lab.baselines.transitions import TransitionBatch
from lifesafe.policies.learner import check_settings


@dataclass(frozen=True, kw_only=True)
class BEARLagConfig(ProposalConfig):
    """BEAR-Lag: an actor near the support of the logged actions (Kumar et al. 2019), under Lagrange multipliers."""

    as_published: ClassVar[Mapping[str, Any]] = {
        **ProposalConfig.as_published,
        "steps": 300_000,
        "most_weight": 5.0,
        "warmup": 0.0,
    }

    choices: int = 10
    """Actions sampled when acting, of which the best is taken. With 1 it is the mean, as in OSRL."""
    samples: int = 10
    """Actions of the actor and of the VAE that are compared at each observation."""
    kernel_width: float = 50.0
    """Width of the Gaussian kernel: exp(-distance² / (2 width))."""
    discrepancy: float = 0.05
    """How far the actor may be from the logged actions."""
    weight_rate: float = 1e-3
    """Step size of the logarithm of the discrepancy's weight."""
    most_weight: float = 10.0
    """The largest logarithm of that weight; OSRL has 5."""
    warmup: float = 0.2
    """Fraction of the steps in which the actor only learns to stay near the data; OSRL has none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.warmup <= 1:
            raise ConfigError(f"warmup must lie in [0, 1]; got {self.warmup}.")
        check_settings(self, counts=("samples",), positive=("kernel_width", "discrepancy"))

    def build(self, dataset: Dataset, *, seed: int, device: str = "cpu", compile: bool = False) -> BEARLagLearner:
        """Return a learner before its first step."""
        return BEARLagLearner(self, dataset, seed=seed, device=device, compile=compile)


def mean_discrepancy(
    first: Float[Tensor, "m n a"], second: Float[Tensor, "m n a"], width: float
) -> Float[Tensor, " m"]:
    """Return the maximum mean discrepancy between two samples in each row, under a Gaussian kernel."""

    def kernel(one: Tensor, other: Tensor) -> Tensor:
        distances = (one.unsqueeze(2) - other.unsqueeze(1)).square().sum(-1)
        return torch.exp(-distances / (2 * width)).mean((1, 2))

    squared = kernel(first, first) + kernel(second, second) - 2 * kernel(first, second)
    return torch.sqrt(squared + 1e-6)


class BEARLagNetworks(ProposalNetworks):
    """All that BEAR-Lag learns."""

    log_weight: Tensor
    actor: GaussianActor

    def __init__(self, config: BEARLagConfig, sizes: Mapping[str, int], limits: tuple[float, ...]) -> None:
        super().__init__(config, sizes, limits)
        self.actor = GaussianActor(sizes["observations"], sizes["actions"], config.width, config.depth)
        self.noise = sizes["actions"]
        self.register_buffer("log_weight", torch.zeros(()))

    def propose(
        self, actor: nn.Module, observations: Float[Tensor, "m o"], noise: Float[Tensor, "mn z"], count: int = 1
    ) -> Float[Tensor, "mn a"]:
        """Return samples of the actor."""
        means, stds = (moment.repeat_interleave(count, dim=0) for moment in actor(observations))
        return torch.tanh(means + stds * noise)


class BEARLag(ProposalPolicy):
    """Takes the best of several samples of the actor, or its mean."""

    def __init__(self, config: BEARLagConfig, model: nn.Module, sizes: Mapping[str, int]) -> None:
        super().__init__(config, model, sizes)
        if config.choices == 1:
            self._noise = torch.zeros_like(self._noise)

    @classmethod
    def _network(cls, config: BEARLagConfig, sizes: Mapping[str, int]) -> BEARLagNetworks:
        return BEARLagNetworks(config, sizes, (0.0,) * sizes["costs"])


class BEARLagLearner(ProposalLearner):
    """Learns BEAR-Lag."""

    name = "bear-lag"
    model: BEARLagNetworks

    def _build(self, dataset: Dataset) -> BEARLagNetworks:
        return BEARLagNetworks(self.config, self.sizes, self.config.critic_limits(dataset))

    def actor_loss(self, batch: TransitionBatch, step: int) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
        actions = self.samples(batch)
        discrepancy = mean_discrepancy(actions, self.imitations(batch), self.config.kernel_width).mean()
        excess = discrepancy - self.config.discrepancy
        weight = self.model.log_weight.exp()
        self.model.log_weight = moved(
            self.model.log_weight, excess.detach(), self.config.weight_rate, (-5.0, self.config.most_weight)
        )
        warming = step < self.config.warmup * self.config.steps
        loss, metrics = self.constrained_loss(batch.observations, torch.tanh(actions[:, 0]), counts=not warming)
        return loss + weight * excess, {**metrics, "discrepancy": discrepancy, "discrepancy_weight": weight}

    def samples(self, batch: TransitionBatch) -> Float[Tensor, "m n a"]:
        """Return actions of the actor before they are squashed."""
        means, stds = self.model.actor(batch.observations)
        noise = self.normal(len(means), self.config.samples, self.sizes["actions"])
        actions: Tensor = means.unsqueeze(1) + stds.unsqueeze(1) * noise
        return actions

    @torch.no_grad()
    def imitations(self, batch: TransitionBatch) -> Float[Tensor, "m n a"]:
        """Return actions of the VAE before they are squashed."""
        count = self.config.samples
        observations = batch.observations.repeat_interleave(count, dim=0)
        latents = self.normal(len(observations), self.model.vae.latent).clamp(-LATENT_BOUND, LATENT_BOUND)
        return self.model.vae.decode_raw(observations, latents).view(-1, count, self.sizes["actions"])

    def policy(self) -> BEARLag:
        return BEARLag(self.config, snapshot(self.model), self.sizes)
