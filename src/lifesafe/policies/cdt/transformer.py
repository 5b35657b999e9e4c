"""A causal transformer over steps, each of a few tokens (GPT-2's layers: norm first, GELU, four times as wide inside).

With a window, every layer sees only the tokens of the last steps. What a token becomes then depends on the past
alone, never on where the sequence was cut, so that keys and values can be kept while acting (streaming.py).

Notation: b sequences of l steps with s tokens each; width w, h heads.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from lifesafe.policies.cdt.attention import attend, window_mask
from lifesafe.policies.cdt.dropout import Dropouts


class Block(nn.Module):
    """One layer: attention, then a network on each token."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.attention = nn.Linear(width, 3 * width)  # queries, keys and values in one product
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(
        self,
        tokens: Float[Tensor, "b l s w"],
        mask: Float[Tensor, "t t"],
        asked: slice,
        dropout: Dropouts | None,
    ) -> Float[Tensor, "b l a w"]:
        """Return what the asked tokens of each step become: the rest only serve as keys and values."""
        steps, slots, w = tokens.shape[1:]
        normed = self.norm1(tokens)
        if asked == slice(0, slots):
            queries, keys, values = self._heads(self.attention(normed), 3)
        else:
            tokens = tokens[:, :, asked]
            mask = mask.view(steps, slots, -1)[:, asked].flatten(0, 1)
            weight, bias = self.attention.weight, self.attention.bias
            (queries,) = self._heads(functional.linear(normed[:, :, asked], weight[:w], bias[:w]), 1)
            keys, values = self._heads(functional.linear(normed, weight[w:], bias[w:]), 2)
        seen = self.out(attend(queries, keys, values, mask, dropout.weights if dropout else None)).view(tokens.shape)
        tokens = dropout.tokens.add(tokens, seen) if dropout else tokens + seen
        thought = self.think(tokens)
        return dropout.tokens.add(tokens, thought) if dropout else tokens + thought

    def _heads(self, projected: Tensor, parts: int) -> tuple[Tensor, ...]:
        """Return queries, keys or values, split into heads."""
        size = projected.shape[-1] // parts // self.heads
        return projected.view(len(projected), -1, parts, self.heads, size).unbind(2)

    def think(self, tokens: Tensor) -> Tensor:
        """Return what the network on each token adds to it."""
        thought: Tensor = self.down(functional.gelu(self.up(self.norm2(tokens))))
        return thought


class Transformer(nn.Module):
    """Turns the tokens of a sequence into features of what is known at each of them."""

    def __init__(self, *, width: int, heads: int, layers: int, slots: int, window: int | None) -> None:
        super().__init__()
        self.slots = slots
        self.heads = heads
        self.window = window
        self.norm_in = nn.LayerNorm(width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm_out = nn.LayerNorm(width)
        self._masks: dict[tuple[int, torch.device], Tensor] = {}

    def forward(
        self,
        tokens: Float[Tensor, "b l s w"],
        asked: slice,
        dropout: Dropouts | None = None,
    ) -> Float[Tensor, "b l a w"]:
        """Return the features of the asked tokens of each step.

        Args:
            tokens: The embedded tokens.
            asked: Which tokens of each step are wanted; the last layer leaves out work for the others.
            dropout: For training.
        """
        mask = self._mask(tokens)
        tokens = self.norm_in(tokens)
        if dropout:
            tokens = dropout.tokens(tokens)
        for index, block in enumerate(self.blocks):
            last = index == len(self.blocks) - 1
            tokens = block(tokens, mask, asked if last else slice(0, self.slots), dropout)
        features: Tensor = self.norm_out(tokens)
        return features

    def _mask(self, tokens: Tensor) -> Tensor:
        key = (tokens.shape[1], tokens.device)
        if key not in self._masks:
            self._masks[key] = window_mask(tokens.shape[1], self.slots, self.window).to(tokens.device)
        return self._masks[key]


def small_normal(module: nn.Module) -> None:
    """Begin as GPT-2 does: weights N(0, 0.02), biases 0, norms 1 and 0."""
    for part in module.modules():
        if isinstance(part, (nn.Linear, nn.Embedding)):
            nn.init.normal_(part.weight, std=0.02)
        if isinstance(part, nn.Linear):
            nn.init.zeros_(part.bias)
