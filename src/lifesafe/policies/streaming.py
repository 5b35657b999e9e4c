"""A transformer with windows, fed one step at a time: earlier keys and values are kept, not computed again.

Since every layer sees the last steps only, what it returns is what the whole sequence at once would give.

Notation: m sequences; s tokens a step, of which the action's comes with the next step; a ring of p steps.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from lifesafe.policies.transformer import Block, Transformer


class _Layer(NamedTuple):
    """The weights of a block, matrices transposed: products with a few tokens are then almost twice as fast."""

    heads: int
    norm1: nn.LayerNorm
    attention: tuple[Tensor, Tensor]
    out: tuple[Tensor, Tensor]
    norm2: nn.LayerNorm
    up: tuple[Tensor, Tensor]
    down: tuple[Tensor, Tensor]


def _layer(block: Block) -> _Layer:
    parts = (block.attention, block.out, block.up, block.down)
    attention, out, up, down = ((part.bias, part.weight.t().contiguous()) for part in parts)
    return _Layer(block.heads, block.norm1, attention, out, block.norm2, up, down)


class Stream:
    """The keys and values of the last steps of several sequences, each of which may be at another time."""

    def __init__(self, transformer: Transformer, sequences: int) -> None:
        if transformer.window is None:
            raise ValueError("only a transformer with windows can be streamed")
        self._transformer = transformer
        self._slots = transformer.slots
        # With an action's token that comes one step late, its window reaches one step further back.
        self._ring = transformer.window + (transformer.slots > 1)
        self._layers = [_layer(cast(Block, block)) for block in transformer.blocks]
        weight = transformer.norm_out.weight
        size = len(weight) // transformer.heads
        shape = (2, sequences, transformer.heads, self._ring * self._slots, size)
        self._kept = [torch.zeros(shape, device=weight.device) for _ in self._layers]
        self._masks = torch.from_numpy(visible(transformer.window, self._slots)).to(weight.device)

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
        phases = times % self._ring
        together = rows is None and bool((times == times[0]).all())
        if together:  # the usual case: what is the same for all rows is looked up once
            phases, times = phases[:1], times[:1]
        places = self._places(phases)
        mask = self._masks[phases, np.minimum(times, self._ring)][:, None]
        tokens = _norm(tokens, self._transformer.norm_in)
        for index, layer in enumerate(self._layers):
            keys_values = self._keep(index, layer, tokens, places, rows, together)
            if index == len(self._layers) - 1:
                tokens, mask = tokens[:, -1:], mask[:, :, -1:]
            tokens = _advance(layer, tokens, keys_values, mask)
        return _norm(tokens[:, -1], self._transformer.norm_out)

    def _places(self, phases: Int[np.ndarray, " m"]) -> Int[Tensor, "m s"]:
        """Return where in the ring the new tokens belong."""
        if self._slots == 1:
            return torch.from_numpy(phases[:, None])
        late = (phases - 1) % self._ring * self._slots + self._slots - 1
        places = phases[:, None] * self._slots + np.arange(self._slots - 1)
        return torch.from_numpy(np.concatenate([late[:, None], places], axis=1))

    def _keep(
        self,
        index: int,
        layer: _Layer,
        tokens: Float[Tensor, "m s w"],
        places: Int[Tensor, "p s"],
        rows: Int[np.ndarray, " m"] | None,
        together: bool,
    ) -> tuple[Tensor, Float[Tensor, "2 m h t d"]]:
        """Return the queries of the new tokens, and the keys and values of all, the new ones put in their places."""
        m, s, w = tokens.shape
        projected = torch.addmm(layer.attention[0], _norm(tokens, layer.norm1).view(m * s, w), layer.attention[1])
        queries, *_ = parts = projected.view(m, s, 3, layer.heads, -1).permute(2, 0, 3, 1, 4)
        kept, fresh = self._kept[index], parts[1:]
        if together:
            for token, place in enumerate(places[0].tolist()):
                kept[:, :, :, place] = fresh[:, :, :, token]
            return queries, kept
        chosen = torch.arange(kept.shape[1]) if rows is None else torch.from_numpy(rows)
        kept[:, chosen[:, None], :, places] = fresh.permute(1, 3, 0, 2, 4)
        return queries, kept if rows is None else kept[:, chosen]


def _advance(layer: _Layer, tokens: Tensor, attended: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
    """Return what tokens become in a layer: `Block.forward` for given queries, keys and values."""
    queries, (keys, values) = attended
    m, s, w = tokens.shape
    seen = functional.scaled_dot_product_attention(queries[:, :, -s:], keys, values, attn_mask=mask)
    flat = torch.addmm(tokens.reshape(m * s, w), seen.transpose(1, 2).reshape(m * s, w), layer.out[1]).add_(
        layer.out[0]
    )
    inner = functional.gelu(torch.addmm(layer.up[0], _norm(flat, layer.norm2), layer.up[1]))
    return torch.addmm(flat, inner, layer.down[1]).add_(layer.down[0]).view(m, s, w)


def _norm(tokens: Tensor, norm: nn.LayerNorm) -> Tensor:
    return functional.layer_norm(tokens, tokens.shape[-1:], norm.weight, norm.bias, norm.eps)


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
