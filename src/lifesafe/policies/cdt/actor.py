"""Acting with a Constrained Decision Transformer: many episodes at once, each at its own time with its own target.

Earlier keys and values are kept, not computed again. Since every layer sees the last steps only, the result is what the
whole sequence at once would give. One step of a few episodes is little work, so half of the time would go into calling
small operations: what can be looked up is looked up once.

Notation: m episodes; a ring of p steps, the window; width w, h heads of size d.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Self, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from lifesafe.policies.cdt.network import Block, CDTNetwork, window_mask
from lifesafe.policies.scaling import Scaling
from lifesafe.policies.to_go import ToGoActor, seen_by_torch
from lifesafe.returns import Returns


class CDTActor(ToGoActor):
    """Acts for a batch of episodes. The cost still allowed stops at 0."""

    def __init__(self, network: CDTNetwork, scaling: Scaling, targets: Sequence[Returns]) -> None:
        super().__init__(targets, network.sizes.costs, clamped=True)
        head, actions = network.action_head, network.sizes.actions
        self._scaling = scaling
        # The token of a step is one product: what it is at each time if all that is seen is 0, and what an entry adds.
        self._at_time = network.situation.bias + network.times.weight
        self._of_entry = network.situation.weight.t()
        self._mean = head.weight[:actions], head.bias[:actions]
        self._stream = Stream(network, len(targets))
        self._actions = torch.zeros(len(targets), actions)

    @torch.inference_mode()
    def act(
        self, observations: Float[np.ndarray, "m o"], rows: Int[np.ndarray, " m"] | None = None
    ) -> Float[np.ndarray, "m a"]:
        chosen = slice(None) if rows is None else rows
        times = self.times[chosen]
        coming = torch.from_numpy(self.to_go[chosen])
        if not len(times):
            return np.zeros((0, self._actions.shape[1]), dtype=np.float32)
        seen, coming = self._scaling(seen_by_torch(observations), coming)
        shown = torch.cat([coming, seen, self._actions[chosen]], dim=1)
        at_time = self._at_time[torch.from_numpy(np.minimum(times, len(self._at_time) - 1))]
        features = self._stream.step(torch.addmm(at_time, shown, self._of_entry), times, rows)
        actions = functional.linear(features, *self._mean).clamp_(-1.0, 1.0)
        self._actions[chosen] = actions
        acted: np.ndarray = actions.numpy()
        return acted

    def restart(self, targets: Sequence[Returns], rows: Int[np.ndarray, " m"]) -> None:
        super().restart(targets, rows)
        self._actions[rows] = 0.0


class _Norm(NamedTuple):
    """The weights of a layer norm."""

    weight: Tensor
    bias: Tensor
    eps: float

    @classmethod
    def of(cls, norm: nn.LayerNorm) -> Self:
        return cls(norm.weight, norm.bias, norm.eps)

    def __call__(self, tokens: Float[Tensor, "m w"]) -> Float[Tensor, "m w"]:
        return functional.layer_norm(tokens, self.weight.shape, self.weight, self.bias, self.eps)


class _Linear(NamedTuple):
    """The weights of a linear map, transposed: products with a few tokens are then almost twice as fast."""

    weight: Tensor
    bias: Tensor

    @classmethod
    def of(cls, linear: nn.Linear) -> Self:
        return cls(linear.weight.t().contiguous(), linear.bias)

    def __call__(self, tokens: Float[Tensor, "m i"]) -> Float[Tensor, "m o"]:
        return torch.addmm(self.bias, tokens, self.weight)

    def added(self, to: Float[Tensor, "m o"], tokens: Float[Tensor, "m i"]) -> Float[Tensor, "m o"]:
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

    def advance(self, tokens: Float[Tensor, "m w"], seen: Float[Tensor, "m w"]) -> Float[Tensor, "m w"]:
        """Return what tokens become, given what their attention saw: the rest of `Block.forward`."""
        tokens = self.out.added(tokens, seen)
        return self.down.added(tokens, functional.gelu(self.up(self.norm2(tokens))))


class Stream:
    """The keys and values of the last steps of several sequences, each of which may be at another time."""

    def __init__(self, network: CDTNetwork, sequences: int) -> None:
        self._ring = network.window
        self._norm_in, self._norm_out = _Norm.of(network.norm_in), _Norm.of(network.norm_out)
        blocks = [cast(Block, block) for block in network.blocks]
        self._layers = [_Layer.of(block) for block in blocks]
        heads, width = blocks[0].heads, len(network.norm_out.weight)
        self._kept = [torch.zeros(2, self._ring, sequences, heads, width // heads) for _ in blocks]
        self._places = [kept.unbind(1) for kept in self._kept]
        # Row t: which places of the ring are filled at step t, and at all later steps in the last row.
        self._masks = window_mask(self._ring, self._ring)

    def step(
        self, tokens: Float[Tensor, "m w"], times: Int[np.ndarray, " m"], rows: Int[np.ndarray, " m"] | None = None
    ) -> Float[Tensor, "m w"]:
        """Return the features of the newest step, given its token in each named row.

        Args:
            tokens: The embedded steps.
            times: Number of this step in each row, from 0.
            rows: The rows; all if None.
        """
        last = self._ring - 1
        together = rows is None and bool((times == times[0]).all())  # the usual case
        if together:
            place: int | Tensor = int(times[0]) % self._ring
            mask = self._masks[min(int(times[0]), last)][:, None, None]
        else:
            place = torch.from_numpy(times % self._ring)
            mask = self._masks[torch.from_numpy(np.minimum(times, last))].t()[..., None]
        sequences = torch.arange(len(times)) if rows is None else torch.from_numpy(rows)
        tokens = self._norm_in(tokens)
        for layer, kept, places in zip(self._layers, self._kept, self._places, strict=True):
            new = layer.attention(layer.norm1(tokens)).view(len(tokens), 3, *kept.shape[-2:])
            known = kept
            if together:
                places[cast(int, place)].copy_(new[:, 1:].transpose(0, 1))
            else:
                kept[:, place, sequences] = new[:, 1:].transpose(0, 1)
                known = kept if rows is None else kept[:, :, sequences]
            tokens = layer.advance(tokens, _attend(new[:, 0], known[0], known[1], mask).flatten(1))
        return self._norm_out(tokens)


def _attend(
    queries: Float[Tensor, "m h d"],
    keys: Float[Tensor, "p m h d"],
    values: Float[Tensor, "p m h d"],
    mask: Float[Tensor, "p x 1"],
) -> Float[Tensor, "m h d"]:
    """Return what queries see, by products entry by entry: faster than batched products of matrices this small."""
    scores = (keys * (queries / math.sqrt(queries.shape[-1]))).sum(-1)
    return ((scores + mask).softmax(0)[..., None] * values).sum(0)
