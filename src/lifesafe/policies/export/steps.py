"""One step of a policy as a function: what it remembers comes in as tensors, and goes out as tensors.

The actors keep their memory and change it in place, which is fast and cannot be exported. Here the same weights are
called by the same modules where these allow it. Every step takes

    observations   float64 [b, o]   as the robot sees them
    returns        float64 [b, r]   reward and costs still to come
    actions        float32 [b, a]   the actions before; zeros before the first
    times          int64   [b]      number of the step within its episode, from 0
    *state         float32 [b, ...] what the step before returned; anything finite, zeros say, before the first

and returns the actions float32 [b, a], within [-1, 1], and the new state. Scales are applied inside, in float64 as
the actors do, so that a reward-to-go of a million loses no digits.

Notation: b rows (episodes); t steps seen; width w, h heads; window of t steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lifesafe.errors import CheckpointError
from lifesafe.policies.cdt.network import Block, CDTNetwork, Steps, window_mask
from lifesafe.policies.scaling import Scaling


@dataclass(frozen=True, kw_only=True, eq=False)
class Exportable:
    """What can be exported of a policy.

    Attributes:
        step: The function described above.
        state: Shape of every tensor of its state, of one row, by name.
        scaling: Of what it sees; the export is tried out on values of this size.
        actions: How many entries an action has.
        horizon: Steps of the longest episode it knows: later steps are taken for the last one.
        clamped: Whether a cost-to-go stops at 0.
    """

    step: nn.Module
    state: Mapping[str, tuple[int, ...]]
    scaling: Scaling
    actions: int
    horizon: int
    clamped: bool


def exportable(policy: object) -> Exportable:
    """Return what can be exported of a policy: its own `exportable()`, which shares nothing with it.

    Raises:
        CheckpointError: If policies of its class do not say how they are exported.
    """
    own = getattr(policy, "exportable", None)
    if own is None:
        raise CheckpointError(
            f"Policies of class {type(policy).__qualname__} cannot be exported: the class has no method"
            " exportable() that returns a lifesafe.policies.export.Exportable."
        )
    found: Exportable = own()
    return found


class StreamStep(nn.Module):
    """CDT's step: remembers the keys and values of the last steps in every layer, the newest last."""

    masks: Tensor

    def __init__(self, network: CDTNetwork, scaling: Scaling) -> None:
        super().__init__()
        self.network = network
        self.scaling = scaling
        # Row t: which of the kept steps exist at step t, and at all later steps in the last row.
        self.register_buffer("masks", window_mask(network.window, network.window).flip(1))

    def forward(
        self, observations: Tensor, returns: Tensor, actions: Tensor, times: Tensor, *kept: Tensor
    ) -> tuple[Tensor, ...]:
        seen, coming = self.scaling(observations, returns)
        tokens = self.network.norm_in(self.network.embed(Steps(coming, seen, actions, times)))
        mask = self.masks[times.clamp(max=len(self.masks) - 1)]
        state = []
        for module, past in zip(self.network.blocks, kept, strict=True):
            block = cast(Block, module)
            queries, keys, values = block.attention(block.norm1(tokens)).chunk(3, dim=-1)
            known = torch.cat([past[:, :, 1:], torch.stack([keys, values], dim=1)[:, :, None]], dim=2)
            tokens = tokens + block.out(_attend(queries, known, mask, block.heads))
            tokens = tokens + block.think(tokens)
            state.append(known)
        features = self.network.norm_out(tokens)
        means = self.network.action_head(features)[:, : self.network.sizes.actions]
        return (means.clamp(-1.0, 1.0), *state)


def _attend(
    queries: Float[Tensor, "b w"], known: Float[Tensor, "b 2 t w"], mask: Float[Tensor, "b t"], heads: int
) -> Float[Tensor, "b w"]:
    """Return what queries see of the keys and values."""
    asked = queries.view(queries.shape[0], heads, 1, queries.shape[1] // heads)  # `len` would fix the number of rows
    keys, values = known.view(*known.shape[:-1], heads, -1).transpose(2, 3).unbind(1)
    scores = asked @ keys.transpose(-1, -2) / math.sqrt(asked.shape[-1]) + mask[:, None, None]
    seen: Tensor = (scores.softmax(-1) @ values).flatten(1)
    return seen


def stream_step(network: CDTNetwork, scaling: Scaling) -> Exportable:
    """Return what can be exported of a CDT."""
    width = network.action_head.in_features
    return Exportable(
        step=StreamStep(network, scaling).eval(),
        state={f"layer_{index}": (2, network.window, width) for index in range(len(network.blocks))},
        scaling=scaling,
        actions=network.sizes.actions,
        horizon=network.sizes.times,
        clamped=True,
    )
