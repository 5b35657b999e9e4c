"""What belongs to OSRL: its settings per task, and weights trained with it under our names."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from lifesafe.data.relabel import AugmentationConfig

_FRONTS = {
    # task: degree of the curve through the front, largest target reward, largest drop (examples/configs/cdt_configs.py)
    "CarCircle": (4, 600.0, 100.0),
    "AntRun": (3, 1000.0, 150.0),
    "AntCircle": (2, 500.0, 100.0),
    "DroneRun": (1, 700.0, 100.0),
    "DroneCircle": (1, 1000.0, 100.0),
    "AntVelocity": (1, 3000.0, 500.0),
    "HalfCheetahVelocity": (1, 3000.0, 500.0),
    "HopperVelocity": (1, 2000.0, 300.0),
    "Walker2dVelocity": (1, 3600.0, 800.0),
}

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


def osrl_augmentation(task: str | None = None) -> AugmentationConfig:
    """Return how OSRL relabels episodes of a task; as of CarCircle, its base, where it has no settings for the task."""
    degree, reward, drop = _FRONTS.get(task or "", _FRONTS["CarCircle"])
    return AugmentationConfig(fraction=0.2, rule="osrl", degree=degree, largest_reward=reward, largest_drop=drop)


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
