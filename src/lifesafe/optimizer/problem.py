"""The problem: which targets may be asked for, which are believed safe, and what must hold."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from lifesafe._config import fingerprint, from_plain, to_plain
from lifesafe._random import seed_sequence
from lifesafe.errors import ConfigError, DatasetError, TrialError
from lifesafe.optimizer.priors import Priors, residual_priors
from lifesafe.optimizer.simulated import Simulated
from lifesafe.returns import Returns, return_names, returns_array

_GRID = 60  # points per axis of the default candidate grid
_COARSE = 0.5  # share of an axis: where less of it has episodes near it, the points go there
_SUPPORT = 0.15  # distance, in axis lengths, within which a target needs offline episodes ...
_NEIGHBORS = 10  # ... and how many
_HIGHEST = 3.0  # target cost of the default candidates, in limits
_SEED_QUANTILES = (0.6, 0.4, 0.8, 0.2, 0.9)  # of the rewards of calm episodes
_WIDEST = 0.3  # dither
_LARGEST = 50_000  # candidates of a default grid at the most: with several costs its axes are coarser


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """Find the target with the most reward whose mean costs stay at or below their limits.

    Examples:
        >>> rewards, costs = np.linspace(0, 500, 41), np.linspace(0, 60, 41)
        >>> problem = Problem.on_grid([rewards, costs], seeds=[Returns(200, 3)], limits=20.0)
        >>> problem.candidates.shape, problem.target(problem.seeds[0])
        ((1681, 2), Returns(reward=200.0, costs=(3.0,)))
    """

    candidates: Float[np.ndarray, "n d"]
    """Targets that may be asked for: one row per target, the reward first, then the costs; raw units."""
    seeds: tuple[int, ...]
    """Rows of the candidates that are believed to be safe, the most trusted first."""
    limits: tuple[float, ...]
    """Upper limit of the mean of every cost."""
    delta: float = 0.1
    """Probability with which any trial at all may exceed a limit, under the model."""
    priors: Priors = field(default_factory=Priors)
    dispersions: tuple[float, ...] = ()
    """Expected variance-to-mean ratio of each episode cost; half the limit where not given."""
    cost_bounds: tuple[float, ...] = ()
    """Largest possible cost of an episode, for the betting certificate; none where not known."""
    lipschitz: tuple[float, ...] = ()
    """Largest slope of each mean cost, in raw cost per axis length; turns the Lipschitz rule on."""
    trust_prior: bool = False
    """Accept a prior that certifies targets nobody has tried."""
    reference: tuple[float, ...] = ()
    """Limits that the priors are measured in; they stay when the limits change."""
    simulated: Simulated | None = None
    """Returns in simulation, for priors whose mean is "simulated"."""
    dither: float = 0.0
    """How much what is asked for differs from episode to episode of one target: standard deviation, as a fraction of
    each axis. A target is then safe if it is so in the mean over these episodes; see `lifesafe.optimizer.dither`. Make
    `Schedule.reach` no longer than it, as lives do: an edge is else stepped over twice as often."""
    dither_seed: int = 0
    """Decides what is drawn. Searches that are to be independent need one each; a life has that of its own."""

    def __post_init__(self) -> None:
        Z = np.array(self.candidates, dtype=np.float64)
        Z.setflags(write=False)
        _set(self, "candidates", Z)
        _set(self, "limits", _floats(self.limits))
        _set(self, "reference", _floats(self.reference) or self.limits)
        _set(self, "dispersions", _floats(self.dispersions) or tuple(b / 2 for b in self.reference))
        _set(self, "cost_bounds", _floats(self.cost_bounds))
        _set(self, "lipschitz", _floats(self.lipschitz))
        _set(self, "seeds", tuple(dict.fromkeys(int(i) for i in self.seeds)))
        self._check()

    @classmethod
    def on_grid(
        cls,
        axes: Sequence[Float[np.ndarray, " _"]],
        *,
        seeds: Iterable[Returns],
        limits: float | Sequence[float],
        **settings: Any,
    ) -> Problem:
        """Return the problem on a product grid; every seed is moved to the nearest grid point.

        Args:
            axes: Values of the reward target, then of each cost target.
            seeds: Targets believed to be safe.
            limits: One limit per cost.
            settings: Further fields of `Problem`.
        """
        Z = _product(axes)
        indices = tuple(nearest(Z, seed) for seed in seeds)
        return cls(candidates=Z, seeds=indices, limits=_floats(limits), **settings)

    @classmethod
    def from_returns(
        cls,
        returns: Sequence[Returns] | Float[np.ndarray, "m d"],
        *,
        limits: float | Sequence[float],
        delta: float = 0.1,
        **settings: Any,
    ) -> Problem:
        """Return the problem whose grid and seed come from offline returns.

        The reward axis spans the returns seen, each cost axis runs from 0 to three limits: a conservative policy may
        need a target far above the limit, but steps are fractions of an axis, and must be small beside the limit.
        Targets far from every episode are left out: the policy has seen nothing like them, and Theorem 1 does not hold
        there; where that leaves less than half of an axis, the grid is drawn anew over what is left. The seeds ask for
        no cost, or as little as the targets that are left allow, and for rewards as the episodes that cost least have
        them: first a middling one, then less and more, should it fail.

        Args:
            returns: Returns of the offline episodes, or an array with one row per episode, the reward first.
            limits: One limit per cost.
            delta: Probability with which any trial at all may exceed a limit.
            settings: Further fields of `Problem`.

        Raises:
            DatasetError: If there are fewer than ten episodes, all rewards are equal, or no episode keeps the limits.
        """
        seen = _seen(returns)
        b = np.asarray(_floats(limits))
        if len(seen) < 10:
            raise DatasetError(f"Got the returns of {len(seen)} episodes; give at least 10.")
        if seen.shape[1] != 1 + len(b):
            raise ConfigError(f"Got {len(b)} limits for {seen.shape[1] - 1} costs; give one limit per cost.")
        if not all(0 < limit < np.inf for limit in b):
            raise ConfigError(f"Limits must be positive numbers; got {tuple(b.tolist())}.")
        if np.ptp(seen[:, 0]) <= 0:
            raise DatasetError(f"All {len(seen)} episodes have reward {seen[0, 0]:g}; there is nothing to choose.")
        relative = (seen[:, 1:] / b).max(axis=1)
        calm = seen[relative <= min(max(0.5, float(np.quantile(relative, 0.1))), 1.0)]  # no seed above a limit
        if relative.min() > 1:
            raise DatasetError(
                f"No offline episode keeps the limits {tuple(b.tolist())}: the cheapest costs"
                f" {tuple(seen[relative.argmin(), 1:].tolist())}. Raise the limits, or give seeds that are known to be"
                " safe."
            )
        points = grid_points(len(b))
        low, high = np.array([seen[:, 0].min(), *np.zeros(len(b))]), np.array([seen[:, 0].max(), *(_HIGHEST * b)])
        Z = _supported(_grid(low, high, points), seen, low, high - low)
        if len(Z) and (np.ptp(Z, axis=0) < _COARSE * (high - low)).any():
            Z = _supported(_grid(Z.min(axis=0), Z.max(axis=0), points), seen, low, high - low)
        modest: Bool[np.ndarray, " n"] = np.all(Z[:, 1:] <= b, axis=1)
        if not modest.any() or (np.ptp(Z, axis=0) <= 0).any():
            raise DatasetError(
                f"The {len(seen)} episodes are too few or too scattered: hardly any target within the limits has "
                f"{_NEIGHBORS} of them near it. Give more episodes, or candidates of your own with Problem.on_grid."
            )
        settings = {"seeds": _seeds(Z, calm, modest)} | settings
        return cls(candidates=Z, limits=_floats(limits), delta=delta, **settings)

    def with_limits(self, limits: float | Sequence[float], seeds: Iterable[int] | None = None) -> Problem:
        """Return the same problem under other limits; what was observed stays valid, since returns know no limit.

        Raises:
            ConfigError: If a limit is lower than before and no seeds are named: they must be believed safe anew.
        """
        new = _floats(limits)
        if seeds is None and any(b < old for b, old in zip(new, self.limits, strict=False)):
            raise ConfigError(
                f"The limits {new} are lower than {self.limits}, so the seeds need not be safe any more; "
                "name seeds that are safe under the new limits."
            )
        return replace(self, limits=new, seeds=self.seeds if seeds is None else tuple(seeds))

    def with_simulated(self, simulated: Simulated, priors: Priors | None = None) -> Problem:
        """Return the same problem with a prior from simulation.

        Args:
            simulated: What the simulation returned at every candidate.
            priors: Beliefs about the residual, how the real system differs; `residual_priors()` unless given.
        """
        return replace(self, simulated=simulated, priors=priors or residual_priors())

    def target(self, index: int) -> Returns:
        """Return a candidate as the returns to ask for."""
        reward, *costs = self.candidates[index]
        return Returns(float(reward), [float(cost) for cost in costs])

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the returns: reward, cost, or reward, cost 1, cost 2, ..."""
        return return_names(len(self.limits))

    @cached_property
    def extents(self) -> tuple[float, ...]:
        """Range of the candidates along each axis, raw units."""
        return tuple(float(extent) for extent in np.ptp(self.candidates, axis=0))

    @cached_property
    def scaled(self) -> Float[np.ndarray, "d n"]:
        """Candidates with every axis from 0 to 1, one row per axis."""
        return np.ascontiguousarray(((self.candidates - self.candidates.min(axis=0)) / self.extents).T)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of everything that decides what is asked."""
        return fingerprint(self.to_plain())

    def to_plain(self) -> dict[str, Any]:
        """Return the problem as JSON values, the candidates compressed."""
        settings = {name: list(getattr(self, name)) for name in _TUPLES}
        packed = zlib.compress(np.ascontiguousarray(self.candidates, dtype="<f8").tobytes(), 6)
        return settings | {
            "delta": self.delta,
            "trust_prior": self.trust_prior,
            "priors": to_plain(self.priors),
            "shape": list(self.candidates.shape),
            "candidates": base64.b64encode(packed).decode("ascii"),
            # Only if there is one: problems without keep the fingerprints that they had before it existed.
            **({} if self.simulated is None else {"simulated": self.simulated.to_plain()}),
            **({} if not self.dither else {"dither": self.dither}),
            **({} if not (self.dither and self.dither_seed) else {"dither_seed": int(self.dither_seed)}),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Problem:
        """Return the problem that `to_plain` wrote."""
        data = zlib.decompress(base64.b64decode(plain["candidates"]))
        return cls(
            candidates=np.frombuffer(data, dtype="<f8").reshape(plain["shape"]),
            delta=plain["delta"],
            trust_prior=plain["trust_prior"],
            priors=from_plain(Priors, plain["priors"]),
            simulated=Simulated.from_plain(plain["simulated"]) if "simulated" in plain else None,
            dither=plain.get("dither", 0.0),
            dither_seed=plain.get("dither_seed", 0),
            **{name: tuple(plain[name]) for name in _TUPLES},
        )

    def _check(self) -> None:
        Z, costs = self.candidates, len(self.limits)
        if not costs:
            raise ConfigError("Got no limits; give one per cost, and at least one cost.")
        if Z.ndim != 2 or Z.shape[1] != 1 + costs or len(Z) < 2:
            raise ConfigError(
                f"Got candidates of shape {Z.shape} for {costs} limits; give at least two rows with one column for "
                "the reward and one per cost."
            )
        if not np.isfinite(Z).all():
            row = int(np.flatnonzero(~np.isfinite(Z).all(axis=1))[0])
            raise ConfigError(f"Candidates must be finite; row {row} is {Z[row]}.")
        for name, extent in zip(self.names, self.extents, strict=True):
            if extent <= 0:
                raise ConfigError(f"All candidates ask for the same {name}; every axis needs at least two values.")
        if not all(0 < b < np.inf for b in self.limits + self.reference):
            raise ConfigError(f"Limits must be positive numbers; got {self.limits}.")
        if not 0 < self.delta < 1:
            raise ConfigError(f"delta must lie between 0 and 1; got {self.delta}.")
        check_dither(self.dither)
        seed_sequence(self.dither_seed)  # refuses what is no seed
        for name in ("reference", "dispersions", "cost_bounds", "lipschitz"):
            values = getattr(self, name)
            if values and len(values) != costs:
                raise ConfigError(f"Got {len(values)} {name} for {costs} costs; give one per cost.")
            if not all(0 < value < np.inf for value in values):
                raise ConfigError(f"The {name} must be positive numbers; got {values}.")
        if any(bound <= b for bound, b in zip(self.cost_bounds, self.limits, strict=False)):
            raise ConfigError(f"Cost bounds {self.cost_bounds} must exceed the limits {self.limits}.")
        if not self.seeds:
            raise ConfigError("Got no seeds; name at least one target that is believed to be safe.")
        outside = [i for i in self.seeds if not 0 <= i < len(Z)]
        if outside:
            raise ConfigError(f"Seeds {outside} are not rows of the {len(Z)} candidates.")
        for prior in (self.priors.reward, self.priors.cost):
            prior.lengths(Z.shape[1])
        self._check_simulated()

    def _check_simulated(self) -> None:
        wanted = "simulated" in (self.priors.reward.mean, self.priors.cost.mean)
        if self.simulated is None:
            if wanted:
                raise ConfigError(
                    "The prior mean 'simulated' needs a simulation; give `simulated`, or another prior mean."
                )
            return
        if not wanted:
            raise ConfigError(
                "Got a simulation that no prior uses; give a prior the mean 'simulated', or use with_simulated."
            )
        shape = (1 + len(self.limits), len(self.candidates))
        if self.simulated.means.shape != shape:
            raise ConfigError(
                f"Got simulated means of shape {self.simulated.means.shape} for {shape[1]} candidates and "
                f"{len(self.limits)} costs; give {shape[0]} rows of {shape[1]}."
            )


def check_dither(width: float) -> None:
    """Refuse a dither that makes no sense, for those who learn of it long before there is a problem.

    Raises:
        ConfigError: If it is negative, or so wide that all targets would be the same.
    """
    if not 0 <= width <= _WIDEST:
        raise ConfigError(
            f"dither must lie between 0 and {_WIDEST:g}, as a fraction of each axis; got {width}. Wider, all targets "
            "would be the same."
        )


def nearest(candidates: Float[np.ndarray, "n d"], target: Returns) -> int:
    """Return the row of the candidate nearest to a target, every axis measured by its range.

    Raises:
        ConfigError: If the target has another number of costs, or lies outside the candidates.
    """
    z = np.array(tuple(target))
    low, high = candidates.min(axis=0), candidates.max(axis=0)
    if len(z) != len(low):
        raise ConfigError(f"Target {target} has {len(z) - 1} costs, the candidates have {len(low) - 1}.")
    slack = 1e-9 * (high - low)
    if (z < low - slack).any() or (z > high + slack).any():
        raise ConfigError(f"Target {target} lies outside the candidates, which run from {low} to {high}.")
    return int((((candidates - z) / (high - low)) ** 2).sum(axis=1).argmin())


def inside(candidates: Float[np.ndarray, "n d"], low: Returns, high: Returns) -> tuple[int, ...]:
    """Return the rows of the candidates in a box, as the seed boxes of the paper are given."""
    within = (candidates >= np.array(tuple(low))) & (candidates <= np.array(tuple(high)))
    return tuple(int(i) for i in np.flatnonzero(within.all(axis=1)))


_TUPLES = ("seeds", "limits", "reference", "dispersions", "cost_bounds", "lipschitz")


def _seen(returns: Sequence[Returns] | Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m d"]:
    if not isinstance(returns, np.ndarray):
        try:
            returns = returns_array(returns)
        except TrialError as error:
            raise DatasetError(str(error)) from error
    if returns.ndim != 2 or not np.isfinite(returns).all():
        raise DatasetError(f"Offline returns must be finite, one row per episode; got an array of {returns.shape}.")
    return returns.astype(np.float64)


def _product(axes: Sequence[Float[np.ndarray, " _"]]) -> Float[np.ndarray, "n d"]:
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def _grid(low: Float[np.ndarray, " d"], high: Float[np.ndarray, " d"], points: int) -> Float[np.ndarray, "n d"]:
    return _product(list(np.linspace(low, high, points).T))


def grid_points(costs: int) -> int:
    """Return how many points each axis of a default grid has, for so many costs."""
    return max(5, min(_GRID, int(_LARGEST ** (1 / (1 + costs)))))


def _supported(
    candidates: Float[np.ndarray, "n d"],
    seen: Float[np.ndarray, "m d"],
    low: Float[np.ndarray, " d"],
    extent: Float[np.ndarray, " d"],
) -> Float[np.ndarray, "k d"]:
    """Return the candidates that have enough offline episodes near them, every axis measured by its extent."""
    from scipy.spatial import cKDTree  # only here: it would double the time that `import lifesafe` takes

    count = min(_NEIGHBORS, len(seen))
    distances, _ = cKDTree((seen - low) / extent).query((candidates - low) / extent, k=[count])
    return candidates[np.asarray(distances)[:, 0] <= _SUPPORT]


def _seeds(
    candidates: Float[np.ndarray, "n d"], calm: Float[np.ndarray, "m d"], modest: Bool[np.ndarray, " n"]
) -> tuple[int, ...]:
    """Return targets with the rewards of the calm episodes and no cost, one in the middle first.

    NOTE: less reward is not always safer. Where skill is what keeps costs low, as in flying, a policy that is asked for
    little does as the logged beginners did; where speed costs, asking for less helps. So seeds lie on both sides.
    """
    rows = []
    for quantile in _SEED_QUANTILES:
        wanted = np.array([np.quantile(calm[:, 0], quantile), *np.zeros(calm.shape[1] - 1)])
        difference = (candidates - wanted) / np.ptp(candidates, axis=0)
        rows.append(int(np.where(modest, (difference**2).sum(axis=1), np.inf).argmin()))
    return tuple(dict.fromkeys(rows))


def _floats(values: float | Iterable[float]) -> tuple[float, ...]:
    return tuple(float(v) for v in values) if isinstance(values, Iterable) else (float(values),)


def _set(instance: Problem, name: str, value: Any) -> None:
    object.__setattr__(instance, name, value)  # the class is frozen for everybody else
