"""Acting with a Constrained Decision Transformer: many episodes at once, each at its own time with its own target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lifesafe.errors import TrialError
from lifesafe.policies.cdt_network import CDTNetwork, Steps
from lifesafe.policies.scaling import Scaling
from lifesafe.policies.streaming import Stream
from lifesafe.returns import Returns, returns_array


class Memory(Protocol):
    """What a network has seen of several episodes."""

    def features(self, steps: Steps, times: Int[np.ndarray, " m"], rows: Int[np.ndarray, " m"] | None) -> Tensor:
        """Return the features of the current step of each named row; the action in `steps` is that before it."""
        ...


class StreamingMemory:
    """Keeps keys and values: a step costs one step's tokens. Exact, for networks with windows."""

    def __init__(self, network: CDTNetwork, episodes: int) -> None:
        self._embedding = network.embedding
        self._stream = Stream(network.transformer, episodes)

    def features(self, steps: Steps, times: Int[np.ndarray, " m"], rows: Int[np.ndarray, " m"] | None) -> Tensor:
        return self._stream.step(self._embedding.newest(steps), times, rows)


class WindowMemory:
    """Keeps the last steps and runs the network over all of them every time, as OSRL does."""

    def __init__(self, network: CDTNetwork, episodes: int, context: int) -> None:
        self._network = network
        self._context = context
        sizes = network.sizes
        device = network.action_head.weight.device
        self._steps = Steps(
            torch.zeros(episodes, context, 1 + sizes.costs, device=device),
            torch.zeros(episodes, context, sizes.observations, device=device),
            torch.zeros(episodes, context, sizes.actions, device=device),
            torch.zeros(episodes, context, dtype=torch.int64, device=device),
        )

    def features(self, steps: Steps, times: Int[np.ndarray, " m"], rows: Int[np.ndarray, " m"] | None) -> Tensor:
        chosen = torch.arange(len(times)) if rows is None else torch.from_numpy(rows)
        time = torch.from_numpy(times)
        full = chosen[time >= self._context]
        for kept in self._steps:
            kept[full, :-1] = kept[full, 1:].clone()
        place = time.clamp(max=self._context - 1)
        # Steps not yet reached lie to the right, where nothing looks.
        for kept, new in zip(self._steps, steps, strict=True):
            kept[chosen, place] = new[:, 0]
        if self._network.tokens > 1:  # there an action is kept with its own step, not with the next one
            later = place > 0
            self._steps.actions[chosen[later], place[later] - 1] = steps.actions[later, 0]
            self._steps.actions[chosen, place] = 0.0
        longest = int(place.max()) + 1
        history = Steps(*(kept[chosen, :longest] for kept in self._steps))
        slot = self._network.acting_slot
        features = self._network.transformer(self._network.embedding(history), slice(slot, slot + 1))
        current: Tensor = features[torch.arange(len(chosen)), place, 0]
        return current


class CDTActor:
    """Acts for a batch of episodes and keeps account of what is still to come in each.

    After every step the reward and the costs it brought are taken off the target. If `clamped`, a cost-to-go stops at
    0: the data know no negative ones, so a spent budget means "no more cost". OSRL lets it go negative.
    """

    def __init__(
        self,
        network: CDTNetwork,
        scaling: Scaling,
        memory: Memory,
        targets: Sequence[Returns],
        *,
        clamped: bool,
        noise: np.random.Generator | None,
    ) -> None:
        self._network = network
        self._scaling = scaling
        self._memory = memory
        self._clamped = clamped
        self._noise = noise
        self._coming = self._check(targets)
        self._times = np.zeros(len(targets), dtype=np.int64)
        self._actions = np.zeros((len(targets), network.sizes.actions), dtype=np.float32)

    @torch.inference_mode()
    def act(
        self, observations: Float[np.ndarray, "m o"], rows: Int[np.ndarray, " m"] | None = None
    ) -> Float[np.ndarray, "m a"]:
        chosen = slice(None) if rows is None else rows
        times = self._times[chosen]
        if not len(times):
            return np.zeros((0, self._network.sizes.actions), dtype=np.float32)
        device = self._network.action_head.weight.device
        parts = (self._scaling.coming(self._coming[chosen]), self._scaling.observations(observations))
        steps = Steps(*(torch.from_numpy(part)[:, None].to(device) for part in (*parts, self._actions[chosen], times)))
        gaussian = self._network.gaussian(self._memory.features(steps, times, rows)[:, None])
        actions: np.ndarray = gaussian.mean[:, 0].cpu().numpy()
        if self._noise is not None:
            deviations = gaussian.log_std[:, 0].exp().cpu().numpy()
            actions = actions + deviations * self._noise.standard_normal(actions.shape, dtype=np.float32)
        actions = np.clip(actions, -1.0, 1.0)
        self._actions[chosen] = actions
        return actions

    def observe(
        self,
        rewards: Float[np.ndarray, " m"],
        costs: Float[np.ndarray, "m k"],
        rows: Int[np.ndarray, " m"] | None = None,
    ) -> None:
        chosen = slice(None) if rows is None else rows
        coming = self._coming[chosen]
        coming[:, 0] -= rewards
        coming[:, 1:] -= costs
        if self._clamped:
            np.maximum(coming[:, 1:], 0.0, out=coming[:, 1:])
        self._coming[chosen] = coming
        self._times[chosen] += 1

    def restart(self, targets: Sequence[Returns], rows: Int[np.ndarray, " m"]) -> None:
        if len(targets) != len(rows):
            raise TrialError(f"Got {len(targets)} targets for {len(rows)} rows; give one target per row.")
        if len(rows):
            self._coming[rows] = self._check(targets)
            self._times[rows] = 0
            self._actions[rows] = 0.0

    def _check(self, targets: Sequence[Returns]) -> Float[np.ndarray, "m r"]:
        wanted = returns_array(targets)
        costs = self._network.sizes.costs
        if wanted.shape[1] != 1 + costs:
            raise TrialError(
                f"Targets have {wanted.shape[1] - 1} costs, the policy learned from data with {costs};"
                " give one target cost for each."
            )
        return wanted
