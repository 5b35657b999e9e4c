"""Causal attention over short sequences of tokens, several tokens a step, within a window of steps.

Notation: b sequences of l steps with s tokens each, t = l * s tokens; q of them ask; h heads of size d.

On a CPU, PyTorch's own attention takes about twice as long for 20 to 40 tokens, forth and back, as two batched products
and a softmax on contiguous memory, so that is what `attend` does.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from lifesafe.policies.cdt.dropout import Drop


def window_mask(steps: int, slots: int, window: int | None) -> Float[Tensor, "t t"]:
    """Return what to add to the scores: 0 where a token (row) may see another (column), -infinity elsewhere.

    A token sees itself, the tokens before it in its own step, and the tokens of the last `window` steps, its own
    step among them; of all steps before if the window is None.
    """
    moment = torch.arange(steps).repeat_interleave(slots)
    age = moment[:, None] - moment[None, :]
    visible = torch.ones(steps * slots, steps * slots, dtype=torch.bool).tril()
    if window is not None:
        visible &= age < window
    return torch.zeros(visible.shape).masked_fill(~visible, -math.inf)


def attend(
    queries: Float[Tensor, "b q h d"],
    keys: Float[Tensor, "b t h d"],
    values: Float[Tensor, "b t h d"],
    mask: Float[Tensor, "q t"],
    drop: Drop | None = None,
) -> Float[Tensor, "b q h*d"]:
    """Return, for every token that asks, the mean of the values weighted by the softmax of its scores."""
    b, q, h, d = queries.shape
    asked, known, told = (part.transpose(1, 2).reshape(b * h, -1, d) for part in (queries, keys, values))
    weights = torch.baddbmm(mask, asked, known.transpose(1, 2), alpha=1 / math.sqrt(d)).softmax(-1)
    if drop is not None:
        weights = drop(weights)
    return torch.bmm(weights, told).view(b, h, q, d).transpose(1, 2).reshape(b, q, h * d)
