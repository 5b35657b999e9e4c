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

Notation: b rows (episodes); s tokens a step, t tokens seen; width w, h heads; window or context of K steps.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, TypeVar, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from lifesafe.errors import CheckpointError
from lifesafe.lab.baselines.rvs import Inputs, RvS, RvSNetwork
from lifesafe.policies.cdt.attention import window_mask
from lifesafe.policies.cdt.learner import CDT
from lifesafe.policies.cdt.network import CDTNetwork, Steps
from lifesafe.policies.cdt.streaming import visible
from lifesafe.policies.cdt.transformer import Block, Transformer
from lifesafe.policies.scaling import Scaling

N = TypeVar("N", bound=nn.Module)


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


@singledispatch
def exportable(policy: Any) -> Exportable:
    """Return what can be exported of a policy; `exportable.register` teaches it policies of another class.

    Raises:
        CheckpointError: If nobody has said how policies of its class are exported.
    """
    raise CheckpointError(
        f"Policies of class {type(policy).__qualname__} cannot be exported yet:"
        " say how by lifesafe.policies.export.exportable.register."
    )


class Scale(nn.Module):
    """`Scaling`, in PyTorch."""

    mean: Tensor
    deviation: Tensor
    center: Tensor
    scale: Tensor

    def __init__(self, scaling: Scaling) -> None:
        super().__init__()
        for name in ("mean", "deviation", "center", "scale"):
            self.register_buffer(name, torch.from_numpy(getattr(scaling, name)))
        self.logarithmic = scaling.logarithmic

    def forward(
        self, observations: Float[Tensor, "b o"], returns: Float[Tensor, "b r"]
    ) -> tuple[Float[Tensor, "b o"], Float[Tensor, "b r"]]:
        seen = (observations - self.mean) / self.deviation
        coming = (returns - self.center) / self.scale
        if self.logarithmic:
            costs = coming[:, 1:]
            coming = torch.cat([coming[:, :1], costs.sign() * costs.abs().log1p()], dim=1)
        return seen.float(), coming.float()


class RvSStep(nn.Module):
    """Remembers nothing."""

    least: Tensor
    most: Tensor

    def __init__(self, network: RvSNetwork, inputs: Inputs) -> None:
        super().__init__()
        self.network = network
        self.scale = Scale(inputs.scaling)
        self.register_buffer("least", torch.from_numpy(inputs.least))
        self.register_buffer("most", torch.from_numpy(inputs.most))
        self.horizon, self.time = inputs.horizon, inputs.time

    def forward(self, observations: Tensor, returns: Tensor, actions: Tensor, times: Tensor) -> tuple[Tensor, ...]:
        parts = list(self.scale(observations, returns.clamp(self.least, self.most)))
        if self.time:
            parts.append((times.double() / self.horizon).clamp(max=1.0).float()[:, None])
        return (self.network(torch.cat(parts, dim=1)),)


class StreamStep(nn.Module):
    """Remembers the keys and values of the last steps in every layer, the newest last: for networks with windows."""

    masks: Tensor

    def __init__(self, network: CDTNetwork, scaling: Scaling) -> None:
        super().__init__()
        self.network = network
        self.scale = Scale(scaling)
        transformer = network.transformer
        assert transformer.window is not None
        # The newest step lies where a ring begins anew; the token of its action is yet to come.
        masks = torch.from_numpy(visible(transformer.window, transformer.slots)[-1])
        self.register_buffer("masks", masks if transformer.slots == 1 else masks[..., :-1])

    def state(self) -> dict[str, tuple[int, ...]]:
        shape = (2, self.masks.shape[-1], self.network.action_head.in_features)
        return {f"layer_{index}": shape for index in range(len(self.network.transformer.blocks))}

    def forward(
        self, observations: Tensor, returns: Tensor, actions: Tensor, times: Tensor, *kept: Tensor
    ) -> tuple[Tensor, ...]:
        seen, coming = self.scale(observations, returns)
        now = Steps(coming[:, None], seen[:, None], actions[:, None], times[:, None])
        mask = self.masks[times.clamp(max=len(self.masks) - 1)]
        tokens = self.network.embedding.newest(now)
        features, *kept_now = transform(self.network.transformer, tokens, mask, slice(-1, None), kept)
        return (act(self.network, features[:, 0]), *kept_now)


class WindowStep(nn.Module):
    """Remembers the last steps as they were shown, and computes all of them again: for networks without windows."""

    places: Tensor
    mask: Tensor

    def __init__(self, network: CDTNetwork, scaling: Scaling, context: int) -> None:
        super().__init__()
        self.network = network
        self.scale = Scale(scaling)
        self.context = context
        self.register_buffer("places", torch.arange(context))
        self.register_buffer("mask", window_mask(context, network.tokens, None)[None])

    def state(self) -> dict[str, tuple[int, ...]]:
        sizes = self.network.sizes
        return {
            "past_returns": (self.context, 1 + sizes.costs),
            "past_observations": (self.context, sizes.observations),
            "past_actions": (self.context, sizes.actions),
        }

    def forward(
        self, observations: Tensor, returns: Tensor, actions: Tensor, times: Tensor, *kept: Tensor
    ) -> tuple[Tensor, ...]:
        seen, coming = self.scale(observations, returns)
        place = times.clamp(max=self.context - 1)
        # With a token of its own, an action is kept with its own step; before the first step there is none.
        places = place, place, place - int(self.network.tokens > 1)
        past = [self._put(*part, times) for part in zip(kept, (coming, seen, actions), places, strict=True)]
        # Steps not yet reached lie to the right, where nothing looks.
        history = Steps(past[0], past[1], past[2], (times - place)[:, None] + self.places)
        slots, slot = self.network.tokens, self.network.acting_slot
        tokens = self.network.embedding(history).flatten(1, 2)
        features, *_ = transform(self.network.transformer, tokens, self.mask, slice(slot, None, slots))
        current = place[:, None, None].expand(-1, 1, features.shape[-1])
        return (act(self.network, features.gather(1, current)[:, 0]), *past)

    def _put(
        self,
        kept: Float[Tensor, "b k n"],
        new: Float[Tensor, "b n"],
        place: Int[Tensor, " b"],
        times: Int[Tensor, " b"],
    ) -> Float[Tensor, "b k n"]:
        """Return what is kept with something new in its place; where all places are taken, the oldest leaves."""
        full = (times >= self.context)[:, None, None]
        shifted = torch.where(full, kept.roll(-1, 1), kept)
        return torch.where(self.places.eq(place[:, None])[..., None], new[:, None], shifted)


def transform(
    transformer: Transformer,
    tokens: Float[Tensor, "b s w"],
    mask: Float[Tensor, "x s t"],
    asked: slice,
    kept: Sequence[Float[Tensor, "b 2 t w"]] | None = None,
) -> tuple[Tensor, ...]:
    """Return the features of the asked tokens, and the keys and values of every layer: the new ones added to the kept.

    As `Transformer.forward`, with earlier keys and values and a mask for each row.
    """
    tokens = transformer.norm_in(tokens)
    all_kept = []
    for index, module in enumerate(transformer.blocks):
        block = cast(Block, module)
        queries, keys, values = block.attention(block.norm1(tokens)).chunk(3, dim=-1)
        known = torch.stack([keys, values], dim=1)
        if kept is not None:
            known = torch.cat([kept[index][:, :, transformer.slots :], known], dim=2)
        all_kept.append(known)
        if index == len(transformer.blocks) - 1:
            queries, tokens, mask = queries[:, asked], tokens[:, asked], mask[:, asked]
        tokens = tokens + block.out(attend(queries, known, mask, transformer.heads))
        tokens = tokens + block.think(tokens)
    return (transformer.norm_out(tokens), *all_kept)


def attend(
    queries: Float[Tensor, "b q w"], known: Float[Tensor, "b 2 t w"], mask: Float[Tensor, "x q t"], heads: int
) -> Float[Tensor, "b q w"]:
    """Return what queries see of the keys and values; as in attention.py, with a mask for each row."""
    asked = queries.view(*queries.shape[:-1], heads, -1).transpose(1, 2)
    keys, values = known.view(*known.shape[:-1], heads, -1).transpose(2, 3).unbind(1)
    scores = asked @ keys.transpose(-1, -2) / math.sqrt(asked.shape[-1]) + mask[:, None]
    seen: Tensor = (scores.softmax(-1) @ values).transpose(1, 2).flatten(2)
    return seen


def act(network: CDTNetwork, features: Float[Tensor, "b w"]) -> Float[Tensor, "b a"]:
    """Return the means of the actions, clipped."""
    means: Tensor = network.action_head(features)[:, : network.sizes.actions]
    return means.clamp(-1.0, 1.0)


@exportable.register
def _of_cdt(policy: CDT) -> Exportable:
    network, scaling = _own(policy._network), policy._scaling
    step: StreamStep | WindowStep
    step = (
        StreamStep(network, scaling) if policy.config.sliding else WindowStep(network, scaling, policy.config.context)
    )
    return Exportable(
        step=step.eval(),
        state=step.state(),
        scaling=scaling,
        actions=network.sizes.actions,
        horizon=network.sizes.times,
        clamped=policy.config.clamped,
    )


@exportable.register
def _of_rvs(policy: RvS) -> Exportable:
    network, inputs = _own(policy._network), policy._inputs
    return Exportable(
        step=RvSStep(network, inputs).eval(),
        state={},
        scaling=inputs.scaling,
        actions=len(network.log_stds),
        horizon=inputs.horizon,
        clamped=False,
    )


def _own(network: N) -> N:
    """Return a copy on the CPU, so that the policy stays where and as it is."""
    return copy.deepcopy(network).cpu()
