"""The protocols that a way of learning satisfies: its config, its learner, and the policy it leaves behind.

`train` (training.py) is the only loop; it and `save` and `load` (checkpoint.py) know nothing else of a method.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from lifesafe.data import Dataset
from lifesafe.errors import ConfigError
from lifesafe.interfaces import Policy


class StoredPolicy(Policy, Protocol):
    """A policy that comes apart into a config, tensors and plain values, and can be put together again."""

    @property
    def config(self) -> Any:
        """The frozen dataclass it was trained with."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Return the weights by name."""
        ...

    def plain(self) -> dict[str, Any]:
        """Return what else it needs and JSON can hold: sizes, scales, the horizon."""
        ...

    @classmethod
    def from_parts(cls, config: Any, tensors: Mapping[str, Tensor], plain: Mapping[str, Any]) -> Self:
        """Return the policy with these parts; it acts as the one they came from."""
        ...


class Learner(Protocol):
    """Learns from a dataset, one gradient step at a time."""

    def update(self, step: int) -> dict[str, Tensor]:
        """Take one gradient step, numbered from 0, and return its metrics.

        The learner draws its own batch, from a generator whose state is part of `state()`. Metrics are detached
        tensors without dimensions on the learner's device, so that nothing waits for them.
        """
        ...

    def validate(self) -> dict[str, float]:
        """Return metrics on held-out episodes; changes nothing, random state included.

        Methods that imitate tell `nll`, the negative log-likelihood of an action, a mean over steps and the entries of
        an action. Without held-out episodes there are none, and methods that learn values hold none out.
        """
        ...

    def policy(self) -> StoredPolicy:
        """Return the policy learned so far; training on leaves it as it is."""
        ...

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return all it takes to go on bit-identically: tensors by name, and plain values.

        Torch's global generators (dropout draws from them) are not part of it: `train` seeds and keeps those.
        """
        ...

    def load_state(self, tensors: Mapping[str, Tensor], plain: Mapping[str, Any]) -> None:
        """Go back to a state that `state()` returned."""
        ...


class LearnerConfig(Protocol):
    """The settings of a way of learning: a frozen, keyword-only dataclass."""

    @property
    def steps(self) -> int:
        """Gradient steps of the whole training."""
        ...

    def build(self, dataset: Dataset, *, seed: int, device: str = "cpu", compile: bool = False) -> Learner:
        """Return a learner before its first step."""
        ...


def check_settings(
    config: object,
    *,
    counts: Iterable[str] = (),
    positive: Iterable[str] = (),
    not_negative: Iterable[str] = (),
    shares: Iterable[str] = (),
) -> None:
    """Refuse settings, by name, that are smaller or larger than their kind can be; shares lie in [0, 1)."""
    rules: tuple[tuple[Iterable[str], Callable[[float], bool], str], ...] = (
        (counts, lambda value: value >= 1, "be at least 1"),
        (positive, lambda value: value > 0, "be positive"),
        (not_negative, lambda value: value >= 0, "not be negative"),
        (shares, lambda value: 0 <= value < 1, "lie in [0, 1)"),
    )
    for names, holds, rule in rules:
        for name in names:
            if not holds(value := getattr(config, name)):
                raise ConfigError(f"{name} must {rule}; got {value}.")


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the state of an optimizer as tensors by name; its settings are not part of it."""
    states = optimizer.state_dict()["state"]
    return {f"{index}.{name}": value for index, state in states.items() for name, value in state.items()}


def load_optimizer_tensors(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put an optimizer into a state that `optimizer_tensors` returned."""
    states: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        index, _, name = key.partition(".")
        states.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": states, "param_groups": optimizer.state_dict()["param_groups"]})


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors under names that begin with "prefix."."""
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names begin with "prefix.", by the rest of their names."""
    start = f"{prefix}."
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
