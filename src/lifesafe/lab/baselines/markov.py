"""Policies that look at the present observation alone."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from lifesafe.lab.baselines.networks import GaussianActor
from lifesafe.policies.to_go import ToGoActor
from lifesafe.returns import Returns

M = TypeVar("M", bound=nn.Module)


def snapshot(model: M) -> M:
    """Return a copy on the CPU that training on leaves as it is."""
    return copy.deepcopy(model).cpu()


class MarkovPolicy(ABC):
    """A policy that looks at the present observation alone; most also ignore the target they are given."""

    def __init__(self, config: Any, model: nn.Module, sizes: Mapping[str, Any]) -> None:
        self.config = config
        self.model = model.eval().requires_grad_(False)
        self.sizes = dict(sizes)

    @classmethod
    @abstractmethod
    def _network(cls, config: Any, sizes: Mapping[str, Any]) -> nn.Module:
        """Return the networks of a policy; their weights do not matter yet."""

    @abstractmethod
    def actions(
        self, observations: Float[Tensor, "m o"], to_go: Float[np.ndarray, "m r"], times: Int[np.ndarray, " m"]
    ) -> Float[Tensor, "m a"]:
        """Return the action for each observation, seen after so many steps, with so much of the target to come."""

    def actor(self, targets: Sequence[Returns]) -> MarkovActor:
        """Return an actor with one row per target, each at the start of an episode."""
        return MarkovActor(self, targets)

    def tensors(self) -> dict[str, Tensor]:
        return dict(self.model.state_dict())

    def plain(self) -> dict[str, Any]:
        return dict(self.sizes)

    @classmethod
    def from_parts(cls, config: Any, tensors: Mapping[str, Tensor], plain: Mapping[str, Any]) -> Self:
        with torch.device("meta"):  # without drawing weights that nobody needs
            model = cls._network(config, plain)
        model.load_state_dict({name: tensor.cpu().clone() for name, tensor in tensors.items()}, assign=True)
        return cls(config, model, plain)


class MarkovActor(ToGoActor):
    """Acts for a batch of episodes, of which it remembers no observation."""

    def __init__(self, policy: MarkovPolicy, targets: Sequence[Returns]) -> None:
        super().__init__(targets, policy.sizes["costs"], clamped=True)
        self._policy = policy

    @torch.inference_mode()
    def act(
        self, observations: Float[np.ndarray, "m o"], rows: Int[np.ndarray, " m"] | None = None
    ) -> Float[np.ndarray, "m a"]:
        chosen = slice(None) if rows is None else rows
        seen = torch.from_numpy(np.ascontiguousarray(observations, dtype=np.float32))
        actions = self._policy.actions(seen, self.to_go[chosen], self.times[chosen])
        bounded: np.ndarray = actions.clamp(-1, 1).numpy()
        return bounded


class GaussianPolicy(MarkovPolicy):
    """Takes the squashed mean of a Gaussian actor."""

    @classmethod
    def _network(cls, config: Any, sizes: Mapping[str, Any]) -> nn.Module:
        return GaussianActor(sizes["observations"], sizes["actions"], config.width, config.depth)

    def actions(
        self, observations: Float[Tensor, "m o"], to_go: Float[np.ndarray, "m r"], times: Int[np.ndarray, " m"]
    ) -> Float[Tensor, "m a"]:
        means, _ = self.model(observations)
        return torch.tanh(means)
