"""Policies that the same logs might as well have given: the last layer drawn from its Laplace approximation.

A trained policy is one draw: other logs of the same kind would have led to other parameters. Theorem 1 describes how
they vary; here that is done for the last layer alone, where it has a closed form. The action is Gaussian with mean
m(W phi), and its spread has parameters of its own, so the Fisher information of W has one block per row.

Notation:
    phi     what the last layer sees, and a 1 for its bias                                         (m, w)
    W       its weights and bias, for the means of the action                                      (a, w)
    m       what follows it: nothing (CDT), tanh (RvS)
    c       curvature of a step: (dm/du)^2 / sigma^2 with u = W phi                                (m, a)
    P_j     precision of row j: sum of c_j phi phi^T over all logged steps, and that of the prior  (w, w)
    L_j     Cholesky factor of P_j

Only the means are drawn, since policies act by them, and the layers before stay as they are. So members differ less
than policies trained anew would; `temperature` is there to make up for that.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lifesafe._random import generator
from lifesafe.data import Dataset
from lifesafe.data.sequences import Segments
from lifesafe.data.transitions import returns_to_go, steps_done
from lifesafe.errors import ConfigError
from lifesafe.interfaces import Policy
from lifesafe.policies.cdt import CDT
from lifesafe.policies.cdt_batches import Table
from lifesafe.policies.rvs import RvS

_SAMPLE = 50_000  # logged steps, spread evenly, that stand for all
_CHUNK = 256  # segments at a time
_LEAST_PRECISION = 1.0  # of weights that neither the logs nor weight decay say anything about


class LastLayer(NamedTuple):
    """The last layer of a policy, and what a sample of logged steps says about it."""

    weight: str
    """Name of its weights among the tensors of the policy."""
    bias: str
    features: Float[np.ndarray, "m w"]
    """What it sees at every step; the last column is 1."""
    curvatures: Float[np.ndarray, "m a"]


def laplace_members(
    policy: Policy, dataset: Dataset, *, members: int = 8, temperature: float = 1.0, seed: int = 0
) -> tuple[Policy, ...]:
    """Return policies like the one given, each with a last layer of its own.

    Args:
        policy: A trained CDT or RvS; it stays as it is.
        dataset: The logs that it was trained on.
        members: How many.
        temperature: Factor on the variance of the weights; above 1 for members that differ more.
        seed: Decides the draws.

    Raises:
        ConfigError: If the policy is of another kind, or a number is impossible.
    """
    if members < 1 or not 0 < temperature < np.inf:
        raise ConfigError(f"Give at least 1 member and a positive temperature; got {members} and {temperature}.")
    layer = last_layer(policy, dataset)
    assert isinstance(policy, CDT | RvS)
    entries = layer.curvatures.shape[1]
    # The loss is a mean over steps and entries, so weight decay weighs as much as so many times itself in the sum.
    prior = max(policy.config.weight_decay * dataset.transitions * entries, _LEAST_PRECISION)
    factors = precision_factors(layer.features, layer.curvatures, total=dataset.transitions, prior=prior)
    random = generator(seed, "laplace")
    return tuple(_with_layer(policy, layer, deviations(factors, random, temperature)) for _ in range(members))


def precision_factors(
    features: Float[np.ndarray, "m w"], curvatures: Float[np.ndarray, "m a"], *, total: int, prior: float
) -> Float[np.ndarray, "a w w"]:
    """Return the Cholesky factor of the precision of every row of the layer.

    Args:
        features: phi, of a sample of steps.
        curvatures: c, of the same steps.
        total: Number of steps that the sample stands for.
        prior: Precision before any step was seen.
    """
    share = total / len(features)
    information = np.stack([features.T @ (c[:, None] * features) for c in curvatures.T])
    return np.linalg.cholesky(share * information + prior * np.eye(features.shape[1]))


def deviations(
    factors: Float[np.ndarray, "a w w"], random: np.random.Generator, temperature: float = 1.0
) -> Float[np.ndarray, "a w"]:
    """Return one draw of how the layer differs: L^-T e has the covariance P^-1."""
    drawn = random.standard_normal(factors.shape[:2])
    moved: np.ndarray = np.linalg.solve(factors.transpose(0, 2, 1), drawn[..., None])[..., 0]
    return np.asarray(np.sqrt(temperature) * moved)


@singledispatch
def last_layer(policy: Any, dataset: Dataset) -> LastLayer:
    """Return the last layer of a policy, and what logged steps say about it.

    Raises:
        ConfigError: If there is no closed form for the kind of the policy.
    """
    raise ConfigError(
        f"Members can be drawn from a CDT or an RvS; got a {type(policy).__name__}. Train it with other seeds, "
        "and take those policies for members."
    )


@last_layer.register
@torch.inference_mode()
def _of_cdt(policy: CDT, dataset: Dataset) -> LastLayer:
    network, length = policy._network, policy.config.segment
    table = Table(
        dataset,
        policy._scaling,
        np.ones(dataset.costs.shape[1]),
        previous_actions=policy.config.tokens == 1,
        device=torch.device("cpu"),
    )
    segments = Segments(dataset.offsets[:-1], dataset.lengths, np.ones(len(dataset)), length=length)
    rows = segments.cover(max(_SAMPLE // length, 1))
    slot, parts = network.acting_slot, []
    for chunk in np.array_split(np.arange(len(rows.rows)), -(-len(rows.rows) // _CHUNK)):
        batch = table.gather(rows.pick(chunk))
        features = network.transformer(network.embedding(batch.steps), slice(slot, slot + 1), None)[:, :, 0]
        curvatures = torch.exp(-2 * network.gaussian(features).log_std)
        real = batch.real > 0
        parts.append((features[real], curvatures[real]))
    seen, curved = (torch.cat(column) for column in zip(*parts, strict=True))
    return LastLayer("action_head.weight", "action_head.bias", _with_one(seen), curved.double().numpy())


@last_layer.register
@torch.inference_mode()
def _of_rvs(policy: RvS, dataset: Dataset) -> LastLayer:
    network = policy._network
    count = min(_SAMPLE, dataset.transitions)
    rows = np.unique(np.linspace(0, dataset.transitions - 1, count).astype(np.int64))
    inputs = policy._inputs(dataset.observations[rows], returns_to_go(dataset)[rows], steps_done(dataset)[rows])
    hidden: Tensor = network.layers[:-1](torch.from_numpy(inputs))
    slopes = 1 - torch.tanh(network.layers[-1](hidden)).square()
    curvatures = slopes.square() * torch.exp(-2 * network.log_stds)
    name = f"layers.{len(network.layers) - 1}"
    return LastLayer(f"{name}.weight", f"{name}.bias", _with_one(hidden), curvatures.double().numpy())


def _with_one(features: Float[Tensor, "m w"]) -> Float[np.ndarray, "m v"]:
    return np.concatenate([features.double().numpy(), np.ones((len(features), 1))], axis=1)


def _with_layer(policy: CDT | RvS, layer: LastLayer, moved: Float[np.ndarray, "a w"]) -> Policy:
    tensors = {name: tensor.clone() for name, tensor in policy.tensors().items()}
    means = slice(len(moved))  # of the CDT's outputs, logarithms of deviations come after
    tensors[layer.weight][means] += torch.from_numpy(moved[:, :-1]).float()
    tensors[layer.bias][means] += torch.from_numpy(moved[:, -1]).float()
    # A policy is frozen: the members are built anew from parts, as when a policy is loaded.
    return type(policy).from_parts(policy.config, tensors, policy.plain())  # type: ignore[arg-type]
