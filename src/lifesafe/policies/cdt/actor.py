"""Acting with a Constrained Decision Transformer: many episodes at once, each at its own time with its own target."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor
from torch.nn import functional

from lifesafe.policies.cdt.network import CDTNetwork, Steps
from lifesafe.policies.cdt.streaming import Stream
from lifesafe.policies.scaling import Scaling
from lifesafe.policies.to_go import ToGoActor
from lifesafe.returns import Returns


class Seen(NamedTuple):
    """What a network is shown of one step of several episodes, scaled as it wants it."""

    coming: Float32[np.ndarray, "m r"]
    observations: Float32[np.ndarray, "m o"]
    actions: Float32[np.ndarray, "m a"]
    """Of the step before; zeros before the first."""


class Memory(Protocol):
    """What a network has seen of several episodes."""

    def features(self, seen: Seen, times: Int[np.ndarray, " m"], rows: Int[np.ndarray, " m"] | None) -> Tensor:
        """Return the features of the current step of each named row."""
        ...


class StreamingMemory:
    """Keeps keys and values: a step costs one step's tokens. Exact, for networks with windows."""

    def __init__(self, network: CDTNetwork, episodes: int) -> None:
        self._stream = Stream(network.transformer, episodes)
        self._at_time, self._of_entry = _affine(network)

    def features(self, seen: Seen, times: Int[np.ndarray, " m"], rows: Int[np.ndarray, " m"] | None) -> Tensor:
        shown = torch.from_numpy(np.concatenate(seen, axis=1)).to(self._of_entry.device)
        at_time = self._at_time[torch.from_numpy(np.minimum(times, len(self._at_time) - 1))]
        tokens = torch.addmm(at_time, shown, self._of_entry)
        return self._stream.step(tokens.view(len(times), self._stream.slots, -1), times, rows)


def _affine(network: CDTNetwork) -> tuple[Float[Tensor, "times v"], Float[Tensor, "e v"]]:
    """Return what the new tokens of a step are at every time if all that is seen is 0, and what each entry adds.

    Embedding is then one product instead of a dozen small operations; these would take up to a fifth of the time of
    acting, most of it waiting for memory, since a simulator has run in between.
    """
    sizes = network.sizes
    embedding = copy.deepcopy(network.embedding).cpu().double()  # the difference below must not lose digits
    parts = [1 + sizes.costs, sizes.observations, sizes.actions]

    def newest(shown: Float[Tensor, "b e"], times: Int[Tensor, " b"]) -> Tensor:
        coming, observations, actions = torch.split(shown[:, None], parts, dim=-1)
        return embedding.newest(Steps(coming, observations, actions, times[:, None])).flatten(1)

    times = torch.arange(sizes.times + 1)  # beyond the last known one, the action before still has that one's
    at_time = newest(torch.zeros(len(times), sum(parts), dtype=torch.float64), times)
    of_entry = newest(torch.eye(sum(parts), dtype=torch.float64), times.new_zeros(sum(parts))) - at_time[0]
    to = network.action_head.weight
    return at_time.to(to), of_entry.to(to)


class WindowMemory:
    """Keeps the last steps and runs the network over all of them every time, as OSRL does."""

    def __init__(self, network: CDTNetwork, episodes: int, context: int) -> None:
        self._network = network
        self._context = context
        sizes = network.sizes
        self._device = network.action_head.weight.device
        self._steps = Steps(
            torch.zeros(episodes, context, 1 + sizes.costs, device=self._device),
            torch.zeros(episodes, context, sizes.observations, device=self._device),
            torch.zeros(episodes, context, sizes.actions, device=self._device),
            torch.zeros(episodes, context, dtype=torch.int64, device=self._device),
        )

    def features(self, seen: Seen, times: Int[np.ndarray, " m"], rows: Int[np.ndarray, " m"] | None) -> Tensor:
        chosen = torch.arange(len(times)) if rows is None else torch.from_numpy(rows)
        time = torch.from_numpy(times)
        now = Steps(*(torch.from_numpy(part).to(self._device) for part in (*seen, times)))
        full = chosen[time >= self._context]
        for kept in self._steps:
            kept[full, :-1] = kept[full, 1:].clone()
        place = time.clamp(max=self._context - 1)
        # Steps not yet reached lie to the right, where nothing looks.
        for kept, new in zip(self._steps, now, strict=True):
            kept[chosen, place] = new
        if self._network.tokens > 1:  # there an action is kept with its own step, not with the next one
            later = place > 0
            self._steps.actions[chosen[later], place[later] - 1] = now.actions[later]
            self._steps.actions[chosen, place] = 0.0
        longest = int(place.max()) + 1
        history = Steps(*(kept[chosen, :longest] for kept in self._steps))
        slot = self._network.acting_slot
        features = self._network.transformer(self._network.embedding(history), slice(slot, slot + 1))
        current: Tensor = features[torch.arange(len(chosen)), place, 0]
        return current


class CDTActor(ToGoActor):
    """Acts for a batch of episodes. Unless `clamped`, a cost-to-go may become negative, as OSRL lets it."""

    def __init__(
        self,
        network: CDTNetwork,
        scaling: Scaling,
        memory: Memory,
        targets: Sequence[Returns],
        *,
        clamped: bool,
    ) -> None:
        super().__init__(targets, network.sizes.costs, clamped=clamped)
        self._network = network
        head = network.action_head
        self._mean = head.weight[: network.sizes.actions], head.bias[: network.sizes.actions]
        self._scaling = scaling
        self._memory = memory
        self._actions = np.zeros((len(targets), network.sizes.actions), dtype=np.float32)

    @torch.inference_mode()
    def act(
        self, observations: Float[np.ndarray, "m o"], rows: Int[np.ndarray, " m"] | None = None
    ) -> Float[np.ndarray, "m a"]:
        chosen = slice(None) if rows is None else rows
        times = self._to_go.times[chosen]
        if not len(times):
            return np.zeros((0, self._network.sizes.actions), dtype=np.float32)
        coming = self._scaling.coming(self._to_go.returns[chosen])
        seen = Seen(coming, self._scaling.observations(observations), self._actions[chosen])
        means = functional.linear(self._memory.features(seen, times, rows), *self._mean)
        actions = means.clamp_(-1.0, 1.0).cpu().numpy()
        self._actions[chosen] = actions
        return actions

    def restart(self, targets: Sequence[Returns], rows: Int[np.ndarray, " m"]) -> None:
        super().restart(targets, rows)
        self._actions[rows] = 0.0
