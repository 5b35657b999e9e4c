"""What is believed about the map from targets to returns before the first trial.

A prior is free of units: length-scales are fractions of each axis, standard deviations are fractions of the limit
(costs) or of the range of the reward axis. Hyperparameters are fixed before the first trial and never refitted: a
length-scale learned on the flat side of a cliff is what kills (docs/decisions/0003).

Notation:
    J       the mean return of a target, raw units
    b       limit of a cost
    y       what the Gaussian process models: J / b, or on the logarithmic scale log(1 + J / (b/4)) / log(5)
    Both scales map 0 to 0 and the limit to 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float

from lifesafe.errors import ConfigError
from lifesafe.theory.kernels import Kernel

Mean = Literal["target", "limit", "larger", "simulated"]
Scale = Literal["linear", "log"]
Mixture = Literal[1, 3, 9]

_KNEE = 0.25  # costs below this share of the limit are on a nearly linear scale, above on a logarithmic one


@dataclass(frozen=True, kw_only=True)
class Prior:
    """Belief about one return as a function of the target."""

    mean: Mean
    """Prior mean: the target itself, the limit (unknown means unsafe), the larger of the two, or what a simulation
    returned (`Problem.simulated`); kernel and deviation are then those of the residual."""
    kernel: Kernel
    """How rough the map may be; rbf is the smoothest and the least forgiving."""
    lengthscales: tuple[float, ...]
    """Distance over which the map bends, as a fraction of each axis; one number stands for all axes."""
    sd: float
    """Standard deviation, in units of the limit (costs, on their scale) or of the range of the reward axis."""
    scale: Scale = "linear"
    """Scale a cost is modeled on; a cost that grows by a factor per step is a straight line on the log scale."""
    mixture: Mixture = 1
    """Number of Gaussian processes averaged: 3 half and double the length-scale, 9 the deviation as well."""

    def __post_init__(self) -> None:
        if self.kernel not in get_args(Kernel):
            raise ConfigError(f"Unknown kernel {self.kernel!r}; choose one of {', '.join(get_args(Kernel))}.")
        if self.mean not in get_args(Mean):
            raise ConfigError(f"Unknown prior mean {self.mean!r}; choose one of {', '.join(get_args(Mean))}.")
        if self.scale not in get_args(Scale):
            raise ConfigError(f"Unknown scale {self.scale!r}; choose linear or log.")
        if self.mixture not in get_args(Mixture):
            raise ConfigError(f"Got a mixture of {self.mixture}; choose 1, 3 or 9 Gaussian processes.")
        if not self.lengthscales or not all(0 < length < np.inf for length in self.lengthscales):
            raise ConfigError(f"Length-scales must be positive numbers; got {self.lengthscales}.")
        if not 0 < self.sd < np.inf:
            raise ConfigError(f"The prior standard deviation must be positive; got {self.sd}.")

    def lengths(self, axes: int) -> tuple[float, ...]:
        """Return one length-scale per axis.

        Raises:
            ConfigError: If several are given, but not one per axis.
        """
        if len(self.lengthscales) == 1:
            return self.lengthscales * axes
        if len(self.lengthscales) != axes:
            raise ConfigError(f"Got {len(self.lengthscales)} length-scales for {axes} axes; give one, or one per axis.")
        return self.lengthscales

    @property
    def components(self) -> tuple[tuple[float, float, float], ...]:
        """Factor of the length-scale, factor of the deviation and prior weight of every process averaged.

        The weights lean to the rough side: data may argue for a smoother map, but not before they are there.
        """
        lengths = ((0.5, 0.5), (1.0, 0.35), (2.0, 0.15))
        sds = ((0.5, 0.15), (1.0, 0.35), (2.0, 0.5))
        if self.mixture == 1:
            return ((1.0, 1.0, 1.0),)
        if self.mixture == 3:
            return tuple((length, 1.0, weight) for length, weight in lengths)
        return tuple((length, sd, w * v) for length, w in lengths for sd, v in sds)


@dataclass(frozen=True, kw_only=True)
class Priors:
    """Beliefs about the reward and about every cost; the defaults are for policies nobody has measured yet."""

    reward: Prior = Prior(mean="target", kernel="matern52", lengthscales=(0.5,), sd=0.15)
    cost: Prior = Prior(mean="limit", kernel="matern52", lengthscales=(0.5,), sd=2.0, scale="log")
    """The same for every cost: each is measured in units of its own limit."""

    def __post_init__(self) -> None:
        if self.reward.mean not in ("target", "simulated") or self.reward.scale != "linear" or self.reward.mixture != 1:
            raise ConfigError(
                "The reward is modeled by one process on the linear scale around its target or a simulation; got "
                f"mean {self.reward.mean!r}, scale {self.reward.scale!r}, mixture {self.reward.mixture}."
            )


def paper_priors(axis_ranges: tuple[float, ...], *, velocity: bool = False) -> Priors:
    """Return the hyperparameters of the paper, read in the one way that is well defined.

    RBF kernels; length-scales 50 (velocity tasks: 100) along R and 5 along every G, in raw units; unit variance of
    the cost in units of its limit, and of the reward in units of its spread (velocity: variance 100).

    Args:
        axis_ranges: Range of the candidates along R, G_1, G_2, ... in raw units.
        velocity: Whether the task is one of the velocity tasks, for which the paper has other numbers.
    """
    raw = (100.0 if velocity else 50.0, *(5.0 for _ in axis_ranges[1:]))
    lengths = tuple(length / extent for length, extent in zip(raw, axis_ranges, strict=True))
    # NOTE: the paper writes a zero mean; Theorem 1 says the mean is the target, and zero makes unknown targets safe.
    return Priors(
        reward=Prior(mean="target", kernel="rbf", lengthscales=lengths, sd=10.0 if velocity else 1.0),
        cost=Prior(mean="larger", kernel="rbf", lengthscales=lengths, sd=1.0),
    )


def residual_priors() -> Priors:
    """Return the beliefs about how a real system differs from its simulation: `Problem.with_simulated` uses them.

    The costs keep a wide residual: on the logarithmic scale a deviation of 1.5 makes ten times the simulated cost
    ordinary, and even where the simulation costs nothing, no target is admissible before a trial. It still violates
    more often than the default prior where the simulator is wrong about where costs rise, and a narrower one far more:
    docs/methods/simulated-prior.md.
    """
    return Priors(
        reward=Prior(mean="simulated", kernel="matern52", lengthscales=(0.5,), sd=0.15),
        cost=Prior(mean="simulated", kernel="matern52", lengthscales=(0.5,), sd=1.5, scale="log"),
    )


def to_scale(scale: Scale, cost: Float[np.ndarray, "*s"], limit: float) -> Float[np.ndarray, "*s"]:
    """Return raw costs on the scale they are modeled on; the limit becomes 1."""
    if scale == "linear":
        return np.asarray(cost / limit)
    return np.asarray(np.log1p(np.maximum(cost, 0.0) / (_KNEE * limit)) / np.log1p(1 / _KNEE))


def from_scale(scale: Scale, y: Float[np.ndarray, "*s"], limit: float) -> Float[np.ndarray, "*s"]:
    """Return modeled costs in raw units."""
    if scale == "linear":
        return np.asarray(y * limit)
    # Far above anything seen the exponential may overflow; a cost of infinity is then the honest answer.
    with np.errstate(over="ignore"):
        return np.asarray(np.expm1(y * np.log1p(1 / _KNEE)) * (_KNEE * limit))


def scale_slope(scale: Scale, cost: float, limit: float) -> float:
    """Return the derivative of the scale at a raw cost: turns a small raw error into a modeled one."""
    if scale == "linear":
        return 1 / limit
    return 1 / ((max(cost, 0.0) + _KNEE * limit) * float(np.log1p(1 / _KNEE)))
