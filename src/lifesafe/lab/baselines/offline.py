"""What methods that learn from single transitions share: settings, batches, optimizers, state, and a policy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from lifesafe._random import integer
from lifesafe.data import Dataset
from lifesafe.errors import ConfigError
from lifesafe.lab.baselines.estimates import critic_limits
from lifesafe.lab.baselines.networks import follow, target_of
from lifesafe.lab.baselines.transitions import Ends, TransitionBatch, Transitions
from lifesafe.policies.device import keep_freed_memory
from lifesafe.policies.learner import check_settings, load_optimizer_tensors, optimizer_tensors, prefixed, under


@dataclass(frozen=True, kw_only=True)
class OfflineConfig:
    """Settings that all of these methods have; values as in the appendix of Wachi et al. 2025 and in OSRL."""

    as_published: ClassVar[Mapping[str, Any]]
    """Settings in which the published code departs from the paper."""

    limits: tuple[float, ...]
    """What an episode may cost, one number per cost."""
    steps: int = 100_000
    """Gradient steps."""
    batch: int = 512
    """Transitions per gradient step."""
    width: int = 256
    """Neurons of every hidden layer of actors and critics."""
    depth: int = 2
    """Hidden layers of actors and critics."""
    discount: float = 0.99
    """What a reward or a cost is worth one step later."""
    horizon: int | None = None
    """Steps of an episode, over which a limit is spread; unless given, those of the longest one logged."""
    reward_scale: float = 0.1
    """Factor on rewards."""
    reward_ends: Ends = "terminals"
    """Where the reward critic stops to look ahead. OSRL also stops at time limits ("episodes")."""
    cost_ends: Ends = "terminals"
    """Where the cost critics stop to look ahead. OSRL goes on beyond the death of the system ("never")."""
    finite_limit: bool = False
    """Whether limits are discounted over the horizon only, as in OSRL, whose cost critics look beyond it."""

    def __post_init__(self) -> None:
        rates = [name for name in self.__dataclass_fields__ if name.endswith("_rate")]
        check_settings(self, counts=("steps", "batch", "width", "depth"), positive=("reward_scale", *rates))
        if not 0 < self.discount < 1:
            raise ConfigError(f"discount must lie between 0 and 1; got {self.discount}.")
        if any(not limit >= 0 for limit in self.limits):
            raise ConfigError(f"limits must not be negative; got {self.limits}.")
        if self.horizon is not None and self.horizon < 1:
            raise ConfigError(f"horizon must be at least 1; got {self.horizon}.")

    @classmethod
    def osrl(cls, **settings: Any) -> Self:
        """Return the settings with which the method computes what its published code does; changes by keyword."""
        return cls(**{**cls.as_published, **settings})

    def critic_limits(self, dataset: Dataset) -> tuple[float, ...]:
        """Return what discounted cost critics are compared with.

        Raises:
            ConfigError: If there is not one limit per cost.
        """
        costs = dataset.costs.shape[1]
        if len(self.limits) != costs:
            raise ConfigError(f"The data have {costs} costs, but limits are {self.limits}; give one limit per cost.")
        horizon = int(dataset.lengths.max()) if self.horizon is None else self.horizon
        return critic_limits(self.limits, horizon=horizon, discount=self.discount, finite=self.finite_limit)


class OfflineLearner(ABC):
    """Learns from random batches of transitions.

    A method builds its networks as one module, whose children are its *parts*, and tells in `_update` how a batch
    moves them; `_descend` moves one part. All that changes in training is in the module, the optimizers of its parts
    and the generator, so this class can save and restore it.
    """

    name: ClassVar[str]
    followed: ClassVar[tuple[str, ...]] = ()
    """Parts that have a target network, which follows slowly: `self.slow[part]`."""

    def __init__(
        self,
        config: Any,
        dataset: Dataset,
        *,
        seed: int,
        device: str,
        compile: bool,
        extra: Float[np.ndarray, "n x"] | None = None,
    ) -> None:
        self.config = config
        self.device = torch.device(device)
        if self.device.type == "cpu":
            keep_freed_memory()
        self.sizes = {
            "observations": dataset.observations.shape[1],
            "actions": dataset.actions.shape[1],
            "costs": dataset.costs.shape[1],
        }
        self.transitions = self._load(dataset, extra)
        with torch.random.fork_rng(devices=[]):  # the weights depend on the seed alone
            torch.manual_seed(integer(seed, self.name, "weights"))
            self.model = self._build(dataset).to(self.device)
        self.slow = nn.ModuleDict({part: target_of(self.model.get_submodule(part)) for part in self.followed})
        self._generator = torch.Generator(self.device).manual_seed(integer(seed, self.name, "batches"))
        self._optimizers = {
            part: torch.optim.Adam(
                self.model.get_submodule(part).parameters(), lr=rate, fused=self.device.type in ("cpu", "cuda")
            )
            for part, rate in self._rates().items()
        }
        if compile:
            for part in self._rates():
                self.model.get_submodule(part).compile()

    def _load(self, dataset: Dataset, extra: Float[np.ndarray, "n x"] | None) -> Transitions:
        config = self.config
        return Transitions.from_dataset(
            dataset,
            self.device,
            reward_scale=config.reward_scale,
            reward_ends=config.reward_ends,
            cost_ends=config.cost_ends,
            extra=extra,
        )

    @abstractmethod
    def _build(self, dataset: Dataset) -> nn.Module:
        """Return all networks and multipliers, one child each."""

    @abstractmethod
    def _rates(self) -> dict[str, float]:
        """Return the step size of each part that learns."""

    @abstractmethod
    def _update(self, batch: TransitionBatch, step: int) -> dict[str, Tensor]:
        """Move the parts, and return metrics, which may still be part of a graph."""

    @abstractmethod
    def policy(self) -> Any:
        """Return the policy learned so far."""

    def draw(self) -> TransitionBatch:
        """Return a random batch."""
        size = (self.config.batch,)
        return self.transitions.batch(
            torch.randint(len(self.transitions), size, generator=self._generator, device=self.device)
        )

    def normal(self, *shape: int) -> Tensor:
        """Return standard normal noise."""
        return torch.randn(shape, generator=self._generator, device=self.device)

    def update(self, step: int) -> dict[str, Tensor]:
        return {name: value.detach() for name, value in self._update(self.draw(), step).items()}

    def validate(self) -> dict[str, float]:
        return {}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {
            **prefixed("model", self.model.state_dict()),
            **prefixed("slow", self.slow.state_dict()),
            "generator": self._generator.get_state(),
        }
        for part, optimizer in self._optimizers.items():
            tensors |= prefixed(f"optimizer.{part}", optimizer_tensors(optimizer))
        return {name: tensor.detach().clone() for name, tensor in tensors.items()}, {}

    def load_state(self, tensors: Mapping[str, Tensor], plain: Mapping[str, Any]) -> None:
        self.model.load_state_dict(under("model", tensors))
        self.slow.load_state_dict(under("slow", tensors))
        for part, optimizer in self._optimizers.items():
            load_optimizer_tensors(optimizer, under(f"optimizer.{part}", tensors))
        self._generator.set_state(tensors["generator"].cpu())

    def _descend(self, part: str, loss: Float[Tensor, ""]) -> None:
        """Take a step of one part down the gradient of a loss; other parts that the loss depends on stay."""
        optimizer = self._optimizers[part]
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            parameter.grad = gradient
        optimizer.step()

    def _follow(self) -> None:
        """Move the target networks a little towards what they follow."""
        for part, target in self.slow.items():
            follow(target, self.model.get_submodule(part), self.config.follow_rate)


def each(name: str, values: Float[Tensor, " k"]) -> dict[str, Tensor]:
    """Return one metric per cost."""
    return {name if len(values) == 1 else f"{name}_{index}": value for index, value in enumerate(values)}
