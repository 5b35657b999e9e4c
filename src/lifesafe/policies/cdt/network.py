"""The network of the Constrained Decision Transformer: from the steps of a sequence to a Gaussian over each action.

A step is one token: what is still to come (reward R, costs G), the observation s, and the action before it. The paper
makes four tokens of a step; one holds the same knowledge at a quarter of the work.

The transformer has GPT-2's layers: norm first, GELU, four times as wide inside. Every layer sees only the last steps.
What a token becomes then depends on the past alone, never on where the sequence was cut, so that keys and values can be
kept while acting (actor.py).

Notation: b sequences of l steps; k costs, o observations, a actions; width w, h heads of size d.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes that the data decide."""

    observations: int
    actions: int
    costs: int
    times: int
    """Steps of the longest episode: later steps are taken for the last one."""


class Steps(NamedTuple):
    """Steps of sequences, scaled as the network wants them."""

    coming: Float[Tensor, "*b r"]
    """Reward and costs still to come."""
    observations: Float[Tensor, "*b o"]
    before: Float[Tensor, "*b a"]
    """The action before each step; zeros before the first."""
    times: Int[Tensor, "*b"]
    """Number of each step within its episode, from 0."""


class Gaussian(NamedTuple):
    """Independent normal distributions, one per entry of an action.

    NOTE: Not squashed by tanh. Recorded actions were clipped, so many lie on the bounds, where a squashed density is
    infinite; a plain one needs no special case, and acting clips its mean.
    """

    mean: Float[Tensor, "b l a"]
    log_std: Float[Tensor, "b l a"]

    def log_prob(self, actions: Float[Tensor, "b l a"]) -> Float[Tensor, "b l a"]:
        """Return the log-density of each entry."""
        z = (actions - self.mean) * torch.exp(-self.log_std)
        return -0.5 * z.square() - self.log_std - 0.5 * math.log(2 * math.pi)

    def entropy(self) -> Float[Tensor, "b l a"]:
        """Return the entropy of each entry."""
        return self.log_std + 0.5 * (1 + math.log(2 * math.pi))


class Dropout:
    """Sets random entries to 0 and scales up the rest, so that the mean stays.

    With a generator, four entries come from every draw of 64 bits; the chance is right to 2^-17. PyTorch draws one
    number per entry, on one core, which is an eighth of the work of a gradient step of a small transformer on a CPU;
    this takes a quarter of that. Without one, PyTorch's global generator is used: for GPUs, and for compiled networks.
    """

    def __init__(self, rate: float, generator: np.random.Generator | None) -> None:
        self._rate = rate
        self._generator = generator

    def __call__(self, values: Tensor) -> Tensor:
        """Return the values after dropout."""
        return values * self.factors(values) if self._rate else values

    def add(self, kept: Tensor, values: Tensor) -> Tensor:
        """Return what is kept plus the values after dropout."""
        return torch.addcmul(kept, values, self.factors(values)) if self._rate else kept + values

    def factors(self, like: Tensor) -> Tensor:
        """Return a 0 or the common factor for each entry."""
        if self._generator is None:
            return functional.dropout(torch.ones_like(like), self._rate)
        zeros = round(self._rate * 2**16)
        words = self._generator.integers(-(2**63), 2**63, math.ceil(like.numel() / 4), dtype=np.int64)
        bits = torch.from_numpy(words).view(torch.int16)[: like.numel()].view(like.shape)
        kept = (bits >= zeros - 2**15).to(device=like.device, dtype=like.dtype)
        return kept.mul_(2**16 / (2**16 - zeros))


def window_mask(steps: int, window: int) -> Float[Tensor, "l l"]:
    """Return what to add to the scores: 0 where a step (row) sees another (column), -infinity elsewhere.

    A step sees the last `window` steps, itself among them.
    """
    visible = torch.ones(steps, steps, dtype=torch.bool).tril().triu(1 - window)
    return torch.zeros(visible.shape).masked_fill(~visible, -math.inf)


def attend(
    queries: Float[Tensor, "b l h d"],
    keys: Float[Tensor, "b l h d"],
    values: Float[Tensor, "b l h d"],
    mask: Float[Tensor, "l l"],
) -> Float[Tensor, "b l h*d"]:
    """Return, for every token, the mean of the values weighted by the softmax of its scores.

    On a CPU, PyTorch's own attention takes about twice as long for 20 to 40 tokens, forth and back, as two batched
    products and a softmax on contiguous memory.
    """
    b, length, h, d = queries.shape
    asked, known, told = (part.transpose(1, 2).reshape(b * h, -1, d) for part in (queries, keys, values))
    weights = torch.baddbmm(mask, asked, known.transpose(1, 2), alpha=1 / math.sqrt(d)).softmax(-1)
    return torch.bmm(weights, told).view(b, h, length, d).transpose(1, 2).reshape(b, length, h * d)


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
        self, tokens: Float[Tensor, "b l w"], mask: Float[Tensor, "l l"], drop: Dropout | None
    ) -> Float[Tensor, "b l w"]:
        """Return what the tokens become."""
        b, length, w = tokens.shape
        projected = self.attention(self.norm1(tokens)).view(b, length, 3, self.heads, w // self.heads)
        queries, keys, values = projected.unbind(2)
        seen = self.out(attend(queries, keys, values, mask))
        tokens = drop.add(tokens, seen) if drop else tokens + seen
        thought = self.think(tokens)
        return drop.add(tokens, thought) if drop else tokens + thought

    def think(self, tokens: Float[Tensor, "*b w"]) -> Float[Tensor, "*b w"]:
        """Return what the network on each token adds to it."""
        thought: Tensor = self.down(functional.gelu(self.up(self.norm2(tokens))))
        return thought


class CDTNetwork(nn.Module):
    """Predicts each action of a sequence from all that is known before it."""

    def __init__(
        self,
        sizes: Sizes,
        *,
        window: int,
        width: int,
        layers: int,
        heads: int,
        log_std_bounds: tuple[float, float],
    ) -> None:
        super().__init__()
        self.sizes = sizes
        self.window = window
        self.log_std_bounds = log_std_bounds
        self.times = nn.Embedding(sizes.times, width)
        self.situation = nn.Linear(1 + sizes.costs + sizes.observations + sizes.actions, width)
        self.norm_in = nn.LayerNorm(width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm_out = nn.LayerNorm(width)
        self.action_head = nn.Linear(width, 2 * sizes.actions)  # means, then logarithms of deviations
        self._masks: dict[tuple[int, torch.device], Tensor] = {}
        for part in self.modules():  # begin as GPT-2 does
            if isinstance(part, (nn.Linear, nn.Embedding)):
                nn.init.normal_(part.weight, std=0.02)
            if isinstance(part, nn.Linear):
                nn.init.zeros_(part.bias)

    def forward(self, steps: Steps, drop: Dropout | None = None) -> Gaussian:
        """Return the distribution of each action."""
        tokens = self.norm_in(self.embed(steps))
        if drop:
            tokens = drop(tokens)
        mask = self._mask(tokens)
        for block in self.blocks:
            tokens = block(tokens, mask, drop)
        return self.gaussian(self.norm_out(tokens))

    def embed(self, steps: Steps) -> Float[Tensor, "*b w"]:
        """Return the token of each step."""
        time = self.times(steps.times.clamp(max=self.times.num_embeddings - 1))
        token: Tensor = self.situation(torch.cat([steps.coming, steps.observations, steps.before], dim=-1)) + time
        return token

    def gaussian(self, features: Float[Tensor, "b l w"]) -> Gaussian:
        """Return the distribution of the action that follows."""
        mean, log_std = self.action_head(features).chunk(2, dim=-1)
        low, high = self.log_std_bounds
        # Smooth, so that the gradient does not vanish at once as with a clamp.
        return Gaussian(mean, (low + high) / 2 + (high - low) / 2 * torch.tanh(log_std))

    @torch.no_grad()
    def begin_at(self, mean: Float[Tensor, " a"], std: Float[Tensor, " a"]) -> None:
        """Let the untrained network say that actions have this mean and deviation, whatever it sees."""
        low, high = self.log_std_bounds
        log_std = ((2 * std.clamp(min=1e-3).log() - low - high) / (high - low)).clamp(-0.9, 0.9).atanh()
        self.action_head.bias.copy_(torch.cat([mean, log_std]))

    def _mask(self, tokens: Float[Tensor, "b l w"]) -> Float[Tensor, "l l"]:
        key = (tokens.shape[1], tokens.device)
        if key not in self._masks:
            self._masks[key] = window_mask(tokens.shape[1], self.window).to(tokens.device)
        return self._masks[key]
