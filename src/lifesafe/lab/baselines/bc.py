"""BC: behavior cloning, of all episodes or of some.

The simplest yardsticks: imitate everybody (BC-All), only those who kept the limits (BC-Safe), or only those who earned
about as much as anybody at their cost (BC-Frontier), as in Liu et al. 2023, "Constrained Decision Transformer".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from lifesafe.data import Dataset
from lifesafe.data.segments import held_out_transitions
from lifesafe.errors import ConfigError, DatasetError
from lifesafe.lab.baselines.markov import GaussianPolicy, snapshot
from lifesafe.lab.baselines.networks import GaussianActor, gaussian_log_density
from lifesafe.lab.baselines.offline import OfflineLearner
from lifesafe.lab.baselines.transitions import TransitionBatch, Transitions
from lifesafe.policies.learner import check_settings

_CHUNK = 8192


@dataclass(frozen=True, kw_only=True)
class BCConfig:
    """Behavior cloning."""

    episodes: Literal["all", "safe", "frontier"] = "all"
    """Which are imitated: all, those within the limits, or those that earned about the most at their cost."""
    limits: tuple[float, ...] = ()
    """What an imitated episode may cost, one number per cost; for "safe" only."""
    slack: float = 0.1
    """How much less than the best a frontier episode may earn, as a share of the range of rewards."""
    steps: int = 100_000
    """Gradient steps."""
    batch: int = 512
    """Transitions per gradient step."""
    width: int = 256
    """Neurons of every hidden layer."""
    depth: int = 2
    """Hidden layers."""
    learning_rate: float = 1e-3
    """Step size of Adam."""
    held_out: float = 0.05
    """Fraction of the episodes that is not trained on, to measure the likelihood on; 0 for none."""

    def __post_init__(self) -> None:
        check_settings(
            self,
            counts=("steps", "batch", "width", "depth"),
            positive=("learning_rate",),
            not_negative=("slack",),
            shares=("held_out",),
        )

    def build(self, dataset: Dataset, *, seed: int, device: str = "cpu", compile: bool = False) -> BCLearner:
        """Return a learner before its first step.

        Raises:
            ConfigError: If there is not one limit per cost, and they matter.
            DatasetError: If fewer than two episodes keep the limits, or are on the frontier.
        """
        return BCLearner(self, self.chosen(dataset), seed=seed, device=device, compile=compile)

    def chosen(self, dataset: Dataset) -> Dataset:
        """Return the episodes that are imitated."""
        if self.episodes == "all":
            return dataset
        if self.episodes == "frontier":
            best = near_best(dataset.returns, self.slack)
            if len(best) < 2:
                raise DatasetError(
                    f"{len(best)} of {len(dataset)} episodes earned nearly the most at its cost, and two are needed."
                    f" Give more slack than {self.slack}, or imitate all episodes."
                )
            return dataset.select(best)
        if len(self.limits) != dataset.costs.shape[1]:
            raise ConfigError(
                f"The data have {dataset.costs.shape[1]} costs, but limits are {self.limits}; give one limit per cost."
            )
        safe = (dataset.returns[:, 1:] <= self.limits).all(axis=1)
        if safe.sum() < 2:
            least = dataset.returns[:, 1:].min(axis=0).tolist()
            raise DatasetError(
                f"{safe.sum()} of {len(dataset)} episodes keep the limits {self.limits}, the least costs are {least},"
                " and two are needed. Give larger limits, or imitate all episodes."
            )
        return dataset.select(np.flatnonzero(safe))


def near_best(returns: Float[np.ndarray, "e r"], slack: float) -> Int[np.ndarray, " m"]:
    """Return the episodes that earned nearly as much as the best that cost no more."""
    rewards, costs = returns[:, 0], returns[:, 1:]
    best = np.array([rewards[(costs <= cost).all(axis=1)].max() for cost in costs])
    return np.flatnonzero(rewards >= best - slack * np.ptp(rewards))


class BC(GaussianPolicy):
    """Acts as those whom it imitates, without their noise."""


class BCLearner(OfflineLearner):
    """Fits a Gaussian actor to the logged actions by maximum likelihood."""

    name = "bc"
    config: BCConfig
    model: nn.Module

    def __init__(self, config: BCConfig, dataset: Dataset, *, seed: int, device: str, compile: bool) -> None:
        held_out = held_out_transitions(dataset, config.held_out, seed=seed)
        self._rows = torch.from_numpy(np.flatnonzero(~held_out)).to(device)
        self._held_out = torch.from_numpy(np.flatnonzero(held_out)).to(device)
        super().__init__(config, dataset, seed=seed, device=device, compile=compile)

    def _load(self, dataset: Dataset, extra: np.ndarray | None) -> Transitions:
        return Transitions.from_dataset(dataset, self.device, reward_scale=1.0, reward_ends="never", cost_ends="never")

    def _build(self, dataset: Dataset) -> nn.Module:
        actor = GaussianActor(self.sizes["observations"], self.sizes["actions"], self.config.width, self.config.depth)
        return nn.ModuleDict({"actor": actor})

    def _rates(self) -> dict[str, float]:
        return {"actor": self.config.learning_rate}

    def draw(self) -> TransitionBatch:
        size = (self.config.batch,)
        drawn = torch.randint(len(self._rows), size, generator=self._generator, device=self.device)
        return self.transitions.batch(self._rows[drawn])

    def _update(self, batch: TransitionBatch, step: int) -> dict[str, Tensor]:
        loss = self.losses(batch).mean()
        self._descend("actor", loss)
        return {"loss": loss}

    def losses(self, batch: TransitionBatch) -> Float[Tensor, " m"]:
        """Return the negative log-likelihood of each action, a mean over its entries."""
        means, stds = self.model.get_submodule("actor")(batch.observations)
        losses: Tensor = -gaussian_log_density(batch.actions, torch.tanh(means), stds) / self.sizes["actions"]
        return losses

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        if not len(self._held_out):
            return {}
        chunks = self._held_out.chunk(math.ceil(len(self._held_out) / _CHUNK))
        losses = torch.cat([self.losses(self.transitions.batch(rows)) for rows in chunks])
        return {"nll": losses.double().mean().item()}

    def policy(self) -> BC:
        return BC(self.config, snapshot(self.model.get_submodule("actor")), self.sizes)
