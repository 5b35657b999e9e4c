"""A transformer with windows, fed one step at a time: earlier keys and values are kept, not computed again.

Since every layer sees the last steps only, what it returns is what the whole sequence at once would give.

One step of a few episodes is little work, so half of the time would go into calling small operations: what can be
looked up is looked up once. Tokens lie in the order (token, sequence): each new one is then one block of the ring.

Notation: m sequences; s tokens a step, of which the action's comes with the next step; a ring of p steps, so t = p s
tokens; width w, h heads of size d.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Self, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from lifesafe.policies.cdt.transformer import Block, Transformer


class _Norm(NamedTuple):
    """The weights of a layer norm."""

    weight: Tensor
    bias: Tensor
    eps: float

    @classmethod
    def of(cls, norm: nn.LayerNorm) -> Self:
        return cls(norm.weight, norm.bias, norm.eps)

    def __call__(self, tokens: Float[Tensor, "n w"]) -> Float[Tensor, "n w"]:
        return functional.layer_norm(tokens, self.weight.shape, self.weight, self.bias, self.eps)


class _Linear(NamedTuple):
    """The weights of a linear map, transposed: products with a few tokens are then almost twice as fast."""

    weight: Tensor
    bias: Tensor

    @classmethod
    def of(cls, linear: nn.Linear) -> Self:
        return cls(linear.weight.t().contiguous(), linear.bias)

    def __call__(self, tokens: Float[Tensor, "n i"]) -> Float[Tensor, "n o"]:
        return torch.addmm(self.bias, tokens, self.weight)

    def added(self, to: Float[Tensor, "n o"], tokens: Float[Tensor, "n i"]) -> Float[Tensor, "n o"]:
        return torch.addmm(to, tokens, self.weight).add_(self.bias)


class _Layer(NamedTuple):
    """The weights of a block."""

    norm1: _Norm
    attention: _Linear
    out: _Linear
    norm2: _Norm
    up: _Linear
    down: _Linear

    @classmethod
    def of(cls, block: Block) -> Self:
        attention, out, up, down = (_Linear.of(part) for part in (block.attention, block.out, block.up, block.down))
        return cls(_Norm.of(block.norm1), attention, out, _Norm.of(block.norm2), up, down)

    def advance(self, tokens: Float[Tensor, "n w"], seen: Float[Tensor, "n w"]) -> Float[Tensor, "n w"]:
        """Return what tokens become, given what their attention saw: the rest of `Block.forward`."""
        tokens = self.out.added(tokens, seen)
        return self.down.added(tokens, functional.gelu(self.up(self.norm2(tokens))))


class _Place(NamedTuple):
    """Where in the ring the new tokens belong, and what they may see."""

    tokens: list[int] | Int[Tensor, "s m"]
    """For all sequences at once, or for each its own."""
    sequences: Int[Tensor, " m"] | None
    """The sequences, if each has its own."""
    mask: Float[Tensor, "s t x 1"]


class Stream:
    """The keys and values of the last steps of several sequences, each of which may be at another time.

    Attributes:
        slots: Tokens a step.
    """

    def __init__(self, transformer: Transformer, sequences: int) -> None:
        if transformer.window is None:
            raise ValueError("only a transformer with windows can be streamed")
        self.slots = transformer.slots
        # With an action's token that comes one step late, its window reaches one step further back.
        self._ring = transformer.window + (transformer.slots > 1)
        self._norm_in, self._norm_out = _Norm.of(transformer.norm_in), _Norm.of(transformer.norm_out)
        self._layers = [_Layer.of(cast(Block, block)) for block in transformer.blocks]
        weight = transformer.norm_out.weight
        shape = (2, self._ring * transformer.slots, sequences, transformer.heads, len(weight) // transformer.heads)
        self._kept = [torch.zeros(shape, device=weight.device) for _ in self._layers]
        self._blocks = [kept.unbind(1) for kept in self._kept]
        self._places = places(self._ring, transformer.slots)
        masks = visible(transformer.window, transformer.slots)[..., None, None]
        self._masks = torch.from_numpy(masks).to(weight.device)

    def step(
        self,
        tokens: Float[Tensor, "m s w"],
        times: Int[np.ndarray, " m"],
        rows: Int[np.ndarray, " m"] | None = None,
    ) -> Float[Tensor, "m w"]:
        """Return the features of the last token, given the tokens that are new in each named row.

        Args:
            tokens: The action of the step before (anything in the first step), then the tokens of this step that
                come before its action; with one token a step, just that.
            times: Number of this step in each row, from 0.
            rows: The rows; all if None.
        """
        m, s, w = tokens.shape
        place = self._place(times, rows)
        mask = place.mask
        flat = self._norm_in(tokens.transpose(0, 1).reshape(s * m, w))
        for index, layer in enumerate(self._layers):
            new = layer.attention(layer.norm1(flat)).view(s, m, 3, *self._kept[index].shape[-2:])
            keys, values = self._keep(index, new.narrow(2, 1, 2), place, whole=rows is None)
            queries = new.select(2, 0)
            if index == len(self._layers) - 1:
                queries, mask, flat = queries[-1:], mask[-1:], flat[-m:]
            flat = layer.advance(flat, _attend(queries, keys, values, mask).view(flat.shape))
        return self._norm_out(flat)

    def _place(self, times: Int[np.ndarray, " m"], rows: Int[np.ndarray, " m"] | None) -> _Place:
        if rows is None and (times == times[0]).all():  # the usual case
            time = int(times[0])
            phase = time % self._ring
            return _Place(self._places[phase].tolist(), None, self._masks[phase, min(time, self._ring)])
        phases = times % self._ring
        mask = self._masks[phases, np.minimum(times, self._ring)].squeeze(-1).permute(1, 2, 0, 3)
        sequences = np.arange(len(times)) if rows is None else rows
        return _Place(torch.from_numpy(self._places[phases].T), torch.from_numpy(sequences), mask)

    def _keep(
        self, index: int, new: Float[Tensor, "s m 2 h d"], place: _Place, *, whole: bool
    ) -> Float[Tensor, "2 t m h d"]:
        """Put new keys and values of a layer in their places; return all of their sequences, or of the whole batch."""
        kept = self._kept[index]
        if place.sequences is None:
            for token, where in zip(new.unbind(0), place.tokens, strict=True):
                self._blocks[index][where].copy_(token.transpose(0, 1))
            return kept
        kept[:, place.tokens, place.sequences] = new.permute(2, 0, 1, 3, 4)
        return kept if whole else kept[:, :, place.sequences]


def _attend(
    queries: Float[Tensor, "s m h d"],
    keys: Float[Tensor, "t m h d"],
    values: Float[Tensor, "t m h d"],
    mask: Float[Tensor, "s t x 1"],
) -> Float[Tensor, "s m h d"]:
    """Return what queries see, by products entry by entry: faster than batched products of matrices this small."""
    scores = (keys * (queries / math.sqrt(queries.shape[-1]))[:, None]).sum(-1)
    return ((scores + mask).softmax(1)[..., None] * values).sum(1)


def places(ring: int, slots: int) -> Int[np.ndarray, "p s"]:
    """Return, per place of the current step in the ring, the places of the new tokens."""
    phases = np.arange(ring)[:, None]
    if slots == 1:
        return phases
    late = (phases - 1) % ring * slots + slots - 1
    return np.concatenate([late, phases * slots + np.arange(slots - 1)], axis=1)


def visible(window: int, slots: int) -> Float[np.ndarray, "p n s t"]:
    """Return, per place of the current step in the ring and per time up to a full ring, the mask of the new tokens.

    An entry is 0 where the new token (row) may see the token kept at a place of the ring (column), else -infinity.
    """
    ring = window + (slots > 1)
    queries = [(0, 0)] if slots == 1 else [(1, slots - 1)] + [(0, slot) for slot in range(slots - 1)]
    age = (np.arange(ring)[:, None] - np.arange(ring)[None, :]) % ring  # [phase, place]: how many steps ago
    age = np.repeat(age, slots, axis=1)[:, None, :]
    slot = np.tile(np.arange(slots), ring)
    masks = np.zeros((ring, ring + 1, len(queries), ring * slots), dtype=np.float32)
    exists = age <= np.arange(ring + 1)[None, :, None]
    for index, (late, own) in enumerate(queries):
        past = age - late
        allowed = exists & (past >= 0) & (past < window) & ((past > 0) | (slot <= own))
        # Before the first action there is none: let its stand-in see anything, since nothing will ever look at it.
        allowed |= ~allowed.any(axis=-1, keepdims=True)
        masks[:, :, index] = np.where(allowed, 0.0, -np.inf)
    return masks
