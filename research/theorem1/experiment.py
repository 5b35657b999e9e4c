"""Theorem 1 against many datasets: fit a policy to each, and compare how its returns vary with what is predicted.

Notation:
    n         episodes of a dataset                                                         ()
    D         datasets of each size                                                         ()
    theta_n   parameters fitted to one of them                                              (d,)
    Y         sqrt(n) / H² (J(theta_n) - J(theta*)), at the targets looked at               (D, q)
    Y_1       the same to first order, -sqrt(n) U I^-1 (gradient of the dataset)            (D, q)

Y - Y_1 is sqrt(n) / H² times the o(1/sqrt(n)) of the theorem.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from lifesafe._random import generator
from lifesafe.errors import ConfigError
from lifesafe.interfaces import Progress, Report
from lifesafe.lab.theory._checks import check_count
from theorem1 import comparison
from theorem1.cases import Case
from theorem1.covariance import Limit, Sampling, limit
from theorem1.gap import Gap, bias_bound, likelihood_bias

_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Which datasets are drawn."""

    datasets: int = 400
    """D, of each size."""
    episodes: tuple[int, ...] = (500, 2_000, 8_000, 32_000)
    """n, one or more sizes."""
    coverage: float = 0.01
    """Targets are looked at that at least this share of episodes returns."""
    seed: int = 0
    """Seed of all draws."""

    def __post_init__(self) -> None:
        check_count("datasets", self.datasets)
        if self.datasets < 2:
            raise ConfigError("Got one dataset; give at least 2, to see how they differ.")
        for episodes in self.episodes:
            check_count("episodes", episodes)
        if not self.episodes or len(set(self.episodes)) < len(self.episodes):
            raise ConfigError(f"Got episodes = {self.episodes}; give sizes that differ, say 500 2000 8000.")
        if not 0.0 < self.coverage < 1.0:
            raise ConfigError(f"Got coverage = {self.coverage!r}; give a share strictly between 0 and 1, say 0.01.")


@dataclass(frozen=True, kw_only=True)
class TargetBias:
    """What one target gets on average, part by part, and what is promised; in units."""

    target: tuple[float, ...]
    """z."""
    coverage: float
    """eta_z."""
    behavior: tuple[float, ...]
    """J(beta_z)."""
    policy: tuple[float, ...]
    """J(theta*, z)."""
    bound: Gap
    """epsilon(z), with the likelihood part mended."""
    printed_likelihood: float
    """Likelihood part as the paper prints it."""

    @property
    def rcsl(self) -> float:
        """Largest of |J(beta_z) - z|."""
        return max(abs(b - z) for b, z in zip(self.behavior, self.target, strict=True))

    @property
    def likelihood(self) -> float:
        """Largest of |J(theta*, z) - J(beta_z)|."""
        return max(abs(p - b) for p, b in zip(self.policy, self.behavior, strict=True))


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Fitted policies of datasets of one size, and how they compare with the law."""

    episodes: int
    """n."""
    deviations: Float[np.ndarray, "D q"]
    """Y."""
    linear: Float[np.ndarray, "D q"]
    """Y_1."""
    farthest: float
    """Largest |J(theta_n) - z| of all datasets and targets, in units."""


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How far a sample is from the Gaussian process."""

    episodes: int
    deviation: float
    """Root mean square of J(theta_n) - J(theta*) around its mean, in units."""
    predicted: float
    """What it should be."""
    covariance_error: float
    """|S - k| / |k|."""
    chance_error: float
    """What so few datasets give by chance."""
    scale: float
    """c for which c k is nearest to S."""
    printed_scale: float
    """The same for k as printed."""
    distance_p_value: float
    """Test that squared distances are chi-square."""
    leading_p_value: float
    """Test that the direction of most variance is normal."""
    printed_p_value: float
    """Test of the distances under k as printed."""
    shift: float
    """Root mean square of the mean of Y, as a share of what is predicted of Y; falls with 1/sqrt(n)."""
    remainder: float
    """Root mean square of Y - Y_1, as a share of what is predicted of Y; falls with 1/sqrt(n)."""


@dataclass(frozen=True, kw_only=True)
class Correlation:
    """Correlation of the reward and a cost of one target, over datasets."""

    target: tuple[float, ...]
    cost: int
    """Which cost, from 1."""
    predicted: float
    found: float
    error: float
    """Standard error of what was found."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """All about one case."""

    case: Case
    settings: Settings
    limit: Limit
    shown: Bool[np.ndarray, " Z"]
    """Targets looked at."""
    bias: tuple[TargetBias, ...]
    samples: tuple[Sample, ...]
    """By size, smallest first."""

    def covariance(self, sampling: Sampling = "episode") -> Float[np.ndarray, "q q"]:
        """Return k at the targets looked at."""
        rows = np.flatnonzero(np.repeat(self.shown, self.case.logged.graph.mdp.objectives))
        return self.limit.covariance(sampling)[np.ix_(rows, rows)]

    @property
    def varies(self) -> bool:
        """Whether the fitted policies return anything but always the same."""
        return comparison.has_variance(self.covariance())

    @cached_property
    def agreements(self) -> tuple[Agreement, ...]:
        """How each sample compares with the law; none if nothing varies."""
        return tuple(self._agreement(sample) for sample in self.samples) if self.varies else ()

    @cached_property
    def slope(self) -> comparison.Slope | None:
        """Slope of log deviation over log n, -1/2 by the theorem; none if nothing varied or there is one size."""
        if len(self.agreements) < 2 or not all(row.deviation > 0 for row in self.agreements):
            return None
        sizes, found = np.array([(float(a.episodes), a.deviation) for a in self.agreements]).T
        return comparison.log_slope(sizes, found, comparison.deviation_error(self.covariance(), self.settings.datasets))

    @cached_property
    def correlations(self) -> tuple[Correlation, ...]:
        """Correlations of reward and costs in the largest datasets, at targets where both vary."""
        if not self.varies:
            return ()
        m = self.case.logged.graph.mdp.objectives
        K, Y = self.covariance(), self.samples[-1].deviations
        found = []
        for row, target in enumerate(self.case.logged.graph.asked[self.shown]):
            for cost in range(1, m):
                r, g = row * m, row * m + cost
                if min(K[r, r], K[g, g]) <= 1e-6 * np.trace(K) or not np.all(np.ptp(Y[:, [r, g]], axis=0) > 0):
                    continue
                predicted = float(K[r, g] / math.sqrt(K[r, r] * K[g, g]))
                found.append(
                    Correlation(
                        target=tuple(map(float, target)),
                        cost=cost,
                        predicted=predicted,
                        found=float(np.corrcoef(Y[:, r], Y[:, g])[0, 1]),
                        error=max(0.0, 1.0 - predicted**2) / math.sqrt(self.settings.datasets - 1),
                    )
                )
        return tuple(found)

    def to_plain(self) -> dict[str, Any]:
        """Return all numbers but the single datasets, for JSON."""
        slope = self.slope
        return {
            "case": self.case.name,
            "says": self.case.says,
            "horizon": self.limit.horizon,
            "parameters": len(self.limit.theta),
            "contexts": len(self.case.logged.graph),
            "realizability": self.limit.realizability,
            "determinism": asdict(self.case.logged.graph.mdp.determinism(self.case.delta)),
            "farthest": {str(sample.episodes): sample.farthest for sample in self.samples},
            "slope": None if slope is None else asdict(slope),
            "law": [asdict(agreement) for agreement in self.agreements],
            "correlations": [asdict(correlation) for correlation in self.correlations],
            "bias": [asdict(bias) | {"total": bias.bound.total} for bias in self.bias],
        }

    def _agreement(self, sample: Sample) -> Agreement:
        K, printed, Y = self.covariance(), self.covariance("step"), sample.deviations
        raw = self.limit.horizon**2 / math.sqrt(sample.episodes)
        predicted = math.sqrt(float(np.trace(K)) / len(K))
        return Agreement(
            episodes=sample.episodes,
            deviation=raw * math.sqrt(float(Y.var(axis=0, ddof=1).mean())),
            predicted=raw * predicted,
            covariance_error=comparison.covariance_error(Y, K),
            chance_error=comparison.chance_error(K, len(Y)),
            scale=comparison.scale(Y, K),
            printed_scale=comparison.scale(Y, printed),
            distance_p_value=comparison.distance_p_value(Y, K),
            leading_p_value=comparison.leading_p_value(Y, K),
            printed_p_value=comparison.distance_p_value(Y, printed),
            shift=_root_mean_square(Y.mean(axis=0)) / predicted,
            remainder=_root_mean_square(Y - sample.linear) / predicted,
        )


def study(case: Case, settings: Settings, *, report: Report = lambda _: None) -> Study:
    """Draw datasets of every size, fit a policy to each, and keep what it returns.

    Args:
        case: The system, its episodes and the class of policies.
        settings: Which datasets.
        report: Told how many datasets have been fitted.

    Raises:
        ConfigError: If no target has enough coverage, or a dataset has no single fit.
    """
    shown = case.logged.coverage >= settings.coverage - _ROUNDING
    if not shown.any():
        raise ConfigError(
            f"No target of the case {case.name} is returned by a share of {settings.coverage:g} of the episodes; the "
            f"most frequent has {case.logged.coverage.max():.3g}. Give a smaller coverage."
        )
    law = limit(case.logged, case.policies)
    biases = target_biases(case, law)
    samples = []
    for episodes in sorted(settings.episodes):
        report(Progress("datasets", len(samples) * settings.datasets, len(settings.episodes) * settings.datasets))
        samples.append(_sample(case, law, shown, settings, episodes))
    return Study(
        case=case,
        settings=settings,
        limit=law,
        shown=shown,
        bias=tuple(bias for bias, is_shown in zip(biases, shown, strict=True) if is_shown),
        samples=tuple(samples),
    )


def target_biases(case: Case, law: Limit) -> list[TargetBias]:
    """Return the bias of every target by its parts, beside its bound."""
    logged, H = case.logged, law.horizon
    determinism = logged.graph.mdp.determinism(case.delta)
    behavior = logged.graph.expected_returns(logged.actions)
    rows = zip(logged.graph.asked, logged.densities(case.delta), behavior, law.returns, strict=True)
    return [
        TargetBias(
            target=tuple(map(float, target)),
            coverage=density.coverage,
            behavior=tuple(map(float, given)),
            policy=tuple(map(float, returns)),
            bound=bias_bound(H, density, determinism=determinism, realizability=law.realizability),
            printed_likelihood=likelihood_bias(H, law.realizability),
        )
        for target, density, given, returns in rows
    ]


def _root_mean_square(values: Float[np.ndarray, "*n"]) -> float:
    return math.sqrt(float(np.mean(values**2)))


def _sample(
    case: Case,
    law: Limit,
    shown: Bool[np.ndarray, " Z"],
    settings: Settings,
    episodes: int,
) -> Sample:
    graph, policies = case.logged.graph, case.policies
    rng = generator(settings.seed, "theorem 1", case.name, episodes)
    weights = case.logged.draw(episodes, settings.datasets, rng) / (episodes * law.horizon)
    returns, linear = [], []
    for w in weights:
        theta = policies.fit(w, law.theta)
        returns.append(graph.expected_returns(policies.policy(theta))[shown])
        linear.append(law.linear(policies.gradient(law.theta, w))[shown])
    found = np.array(returns)
    raw = math.sqrt(episodes) / law.horizon**2
    return Sample(
        episodes=episodes,
        deviations=(raw * (found - law.returns[shown])).reshape(settings.datasets, -1),
        linear=(raw * np.array(linear)).reshape(settings.datasets, -1),
        farthest=float(np.abs(found - graph.asked[shown]).max()),
    )
