"""Weights trained with OSRL, under our names: for those who have a checkpoint, and for the test that both agree."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

_NAMES = {
    "embedding.times": "timestep_emb",
    "embedding.reward": "return_emb",
    "embedding.costs": "cost_emb",
    "embedding.observation": "state_emb",
    "embedding.action": "action_emb",
    "transformer.norm_in": "emb_norm",
    "transformer.norm_out": "out_norm",
    "cost_head": "cost_pred_head",
}
_BLOCK_NAMES = {
    "norm1.": "norm1.",
    "attention.": "attention.in_proj_",
    "out.": "attention.out_proj.",
    "norm2.": "norm2.",
    "up.": "mlp.0.",
    "down.": "mlp.2.",
}


def weights_from_osrl(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of a `CDTConfig.osrl()` network from the `state_dict` of OSRL's CDT.

    OSRL's head that predicts the next observation is left out: its weight in the loss is 0.
    """
    weights = {}
    for ours, theirs in _NAMES.items():
        for kind in ("weight", "bias"):
            if f"{theirs}.{kind}" in state:
                weights[f"{ours}.{kind}"] = state[f"{theirs}.{kind}"]
    layers = 1 + max(int(name.split(".")[1]) for name in state if name.startswith("blocks."))
    for layer in range(layers):
        for ours, theirs in _BLOCK_NAMES.items():
            for kind in ("weight", "bias"):
                weights[f"transformer.blocks.{layer}.{ours}{kind}"] = state[f"blocks.{layer}.{theirs}{kind}"]
    for kind in ("weight", "bias"):
        parts = [state[f"action_head.{part}.{kind}"] for part in ("mu", "log_std")]
        weights[f"action_head.{kind}"] = torch.cat(parts)
    return weights
