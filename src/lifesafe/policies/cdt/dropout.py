"""Dropout from a generator of its own, four entries from every draw of 64 bits.

PyTorch draws one number per entry, on one core, which is an eighth of the work of a gradient step of a small
transformer on a CPU; this takes a quarter of that, and leaves PyTorch's global generator alone.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional


class Drop(Protocol):
    """Sets random entries to 0 and scales up the rest, so that the mean stays."""

    def __call__(self, values: Tensor) -> Tensor:
        """Return the values after dropout."""
        ...

    def add(self, kept: Tensor, values: Tensor) -> Tensor:
        """Return what is kept plus the values after dropout."""
        ...


class Dropouts(NamedTuple):
    """Where a transformer drops."""

    tokens: Drop
    """On tokens, and on what the layers add to them."""
    weights: Drop
    """On the weights of attention."""


class Dropout:
    """Sets each entry to 0 with the given chance (to within 2^-17) and scales up the rest, so that the mean stays."""

    def __init__(self, rate: float, generator: np.random.Generator) -> None:
        self._zeros = round(rate * 2**16)
        self._factor = 2**16 / (2**16 - self._zeros)
        self._generator = generator

    def __call__(self, values: Tensor) -> Tensor:
        return values * self.factors(values) if self._zeros else values

    def add(self, kept: Tensor, values: Tensor) -> Tensor:
        return torch.addcmul(kept, values, self.factors(values)) if self._zeros else kept + values

    def factors(self, like: Tensor) -> Tensor:
        """Return a 0 or the common factor for each entry."""
        words = self._generator.integers(-(2**63), 2**63, math.ceil(like.numel() / 4), dtype=np.int64)
        bits = torch.from_numpy(words).view(torch.int16)[: like.numel()].view(like.shape)
        kept = (bits >= self._zeros - 2**15).to(device=like.device, dtype=like.dtype)
        return kept.mul_(self._factor)


class TorchDropout:
    """The same from PyTorch's global generator: for GPUs, and for compiled networks."""

    def __init__(self, rate: float) -> None:
        self._rate = rate

    def __call__(self, values: Tensor) -> Tensor:
        return functional.dropout(values, self._rate)

    def add(self, kept: Tensor, values: Tensor) -> Tensor:
        return kept + functional.dropout(values, self._rate)
