"""The problem: which targets may be asked for, where the search begins, and what must hold.

Targets live in a box of named axes, or in a finite list. Where the axes are "reward" and "cost" (or "cost 1", "cost 2"
and so on), a target is what a policy is asked to return; otherwise it is a setting of knobs, by name.

A search must know how large costs can come at once, because episodes without cost prove nothing about larger lumps.
One of three is said:

    stop_at     an episode is ended as soon as its cost reaches this: a fact, checked in every episode
    incident    the largest cost that one mishap adds: an assumption, checked in every episode
    "horizon"   neither: any episode may cost as much as `largest` says
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from lifesafe._config import fingerprint
from lifesafe._random import is_whole, seed_sequence
from lifesafe.errors import ConfigError, DatasetError
from lifesafe.journal.events import Point
from lifesafe.returns import Returns, return_names, returns_array

Promise = Literal["trial", "total"]
Target = Returns | dict[str, float]
"""What a user asks a system for: returns, or the value of every knob."""

INCIDENT = 3.0
"""Largest cost of one mishap, in limits, unless told otherwise: that of policies on the nine tasks is at most 3.2."""
EPISODES = 150
"""Real episodes that a search takes at most, unless told otherwise."""
MOST_COSTS, MOST_AXES, MOST_EPISODES = 4, 6, 10_000
_SAME = 1e-9  # of every axis: targets that lie closer are one
_HUGE = 1e30  # no size is larger, and none smaller than one over it
_HIGHEST = 3.0  # target cost of a box from logs, in limits
_START_QUANTILES = (0.6, 0.4, 0.8, 0.2, 0.9)  # of the rewards of calm episodes


@dataclass(frozen=True)
class Axis:
    """The range of one axis."""

    low: float
    high: float
    unit: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """Find the target with the most reward whose mean costs stay at or below their limits.

    Examples:
        >>> problem = Problem(axes={"reward": (0, 500), "cost": (0, 60)}, starts=[Returns(200, 2)], limits=20.0)
        >>> problem.target(problem.starts[0])
        Returns(reward=200.0, costs=(2.0,))
        >>> knobs = {"speed": (0, 2, "m/s"), "gain": (0, 1)}
        >>> problem = Problem(axes=knobs, starts=[{"speed": 0.5, "gain": 0.1}], limits=20.0, rewards=(0, 900))
        >>> problem.target(problem.starts[0])
        {'speed': 0.5, 'gain': 0.1}
    """

    axes: Mapping[str, Axis | tuple[Any, ...]]
    """Range of each axis, by name: (low, high) or (low, high, unit)."""
    starts: tuple[Any, ...]
    """Targets that you know to be safe, the most trusted first."""
    limits: tuple[float, ...]
    """Upper limit of the mean of every cost."""
    delta: float = 0.1
    """Probability with which the promise may fail."""
    promise: Promise = "trial"
    """What is promised: "trial", no trial's mean cost exceeds a limit, under the model; or "total", what has been spent
    never exceeds what was allowed, without a model. The second needs `stop_at`."""
    stop_at: tuple[float, ...] | None = None
    """Cost at which an episode is ended, for each cost."""
    largest_step: tuple[float, ...] | None = None
    """Largest cost of one step, by which an episode may exceed `stop_at`: 1 unless told."""
    incident: tuple[float, ...] | Literal["horizon"] | None = None
    """Largest cost that one mishap adds, where there is no stop: 3 limits unless told."""
    largest: tuple[float, ...] | None = None
    """Largest cost that an episode can have at all: its steps times the largest cost of a step."""
    rewards: tuple[float, float] | None = None
    """Range in which rewards lie, where no axis asks for them; the axis "reward" is the range where there is one."""
    targets: tuple[Any, ...] | None = None
    """The only targets that may be asked for; anything in the box unless told."""
    episodes: int = EPISODES
    """Real episodes that the search takes at most."""
    seed: int = 0
    """Decides what is drawn. Searches that are to be independent need one each."""
    names: tuple[str, ...] = field(init=False, default=())
    """Names of the axes, in their order."""

    def __post_init__(self) -> None:
        if not isinstance(self.axes, Mapping):
            raise ConfigError(f"Axes are given by name, as {{'speed': (0, 2)}}; got {self.axes!r}.")
        axes = {str(name): _axis(name, axis) for name, axis in self.axes.items()}
        _set(self, axes=axes, names=tuple(axes), limits=floats(self.limits), delta=_number("delta", self.delta))
        _check_numbers(self)
        _set(self, seed=operator.index(self.seed), episodes=operator.index(self.episodes))
        amounts = {name: getattr(self, name) for name in ("stop_at", "largest_step", "largest", "incident")}
        if self.incident is None and self.stop_at is None:  # stays when the limits change
            amounts["incident"] = [INCIDENT * b for b in self.limits]
        _set(self, **{name: _per_cost(name, value, len(self.limits)) for name, value in amounts.items()})
        _set(self, targets=None if self.targets is None else tuple(map(self.point, _several(self.targets))))
        _set(self, starts=tuple(dict.fromkeys(map(self.point, _several(self.starts)))))
        _set(self, rewards=self._reward_range())
        self._check()

    @classmethod
    def from_returns(
        cls, returns: Sequence[Returns] | Float[np.ndarray, "m r"], *, limits: float | Sequence[float], **settings: Any
    ) -> Problem:
        """Return the problem whose box and starts come from the returns of logged episodes.

        The reward axis spans the rewards seen; each cost axis runs from 0 to three limits, since a careful policy may
        need a target far above the limit. The starts ask for no cost, and for rewards as the episodes that cost least
        have them: first a middling one, then less and more, should it fail.

        Args:
            returns: Returns of the logged episodes, or an array with one row per episode, the reward first.
            limits: One limit per cost.
            settings: Further fields of `Problem`.

        Raises:
            DatasetError: If there are fewer than ten episodes, all rewards are equal, or no episode keeps the limits.
        """
        b = np.asarray(floats(limits))
        seen = _seen(returns, b)
        relative = (seen[:, 1:] / b).max(axis=1)
        calm = seen[relative <= min(max(0.5, float(np.quantile(relative, 0.1))), 1.0)]  # no start above a limit
        names = return_names(len(b))
        ends = [(float(seen[:, 0].min()), float(seen[:, 0].max())), *((0.0, _HIGHEST * float(limit)) for limit in b)]
        rewards = [float(np.quantile(calm[:, 0], quantile)) for quantile in _START_QUANTILES]
        starts = [Returns(reward, [0.0] * len(b)) for reward in rewards]
        box = {"axes": dict(zip(names, ends, strict=True)), "starts": starts}
        return cls(limits=floats(limits), **(box | settings))

    @cached_property
    def asks_for_returns(self) -> bool:
        """Whether a target is what a policy is asked to return, and not a setting of knobs."""
        return self.names == return_names(len(self.limits))

    @cached_property
    def low(self) -> Float[np.ndarray, " d"]:
        """Lower end of each axis."""
        return np.array([axis.low for axis in self._axes])

    @cached_property
    def extents(self) -> Float[np.ndarray, " d"]:
        """Length of each axis."""
        return np.array([axis.high - axis.low for axis in self._axes])

    @property
    def asks_for_reward(self) -> int | None:
        """Number of the axis that asks for a reward, from 0; none for knobs."""
        return self.names.index("reward") if "reward" in self.names else None

    @cached_property
    def listed(self) -> Float[np.ndarray, "n d"] | None:
        """The only targets there are, every axis from 0 to 1; none if any in the box may be asked for."""
        return None if self.targets is None else self.scaled(self.targets)

    @property
    def _axes(self) -> list[Axis]:
        return list(self.axes.values())  # type: ignore[arg-type]  # made so by __post_init__

    @cached_property
    def bounds(self) -> tuple[float, ...] | None:
        """Largest cost that an episode can have as things are: with the stop, or at all. None where not known."""
        if self.stop_at is not None:
            return tuple(stop + step for stop, step in zip(self.stop_at, self.steps, strict=True))
        return self.largest

    @property
    def steps(self) -> tuple[float, ...]:
        """Largest cost of one step."""
        return self.largest_step or (1.0,) * len(self.limits)

    @cached_property
    def lumps(self) -> tuple[float, ...]:
        """Largest cost that can come at once and is never ruled out, for each cost."""
        if self.stop_at is not None:
            assert self.bounds is not None
            return self.bounds
        if self.incident == "horizon":
            assert self.largest is not None
            return self.largest
        assert isinstance(self.incident, tuple)
        return tuple(map(min, self.incident, self.largest)) if self.largest is not None else self.incident

    @cached_property
    def sure(self) -> tuple[bool, ...]:
        """For each cost, whether every single episode keeps its limit for sure."""
        if self.bounds is None:
            return (False,) * len(self.limits)
        return tuple(bound <= limit for bound, limit in zip(self.bounds, self.limits, strict=True))

    def point(self, target: Any) -> Point:
        """Return a target as one plain number for each axis.

        Raises:
            ConfigError: If it is no target of this problem.
        """
        if isinstance(target, Returns):
            values, names = tuple(target), return_names(len(target.costs))
        elif isinstance(target, Mapping):
            values, names = tuple(target.values()), tuple(map(str, target))
            if set(names) == set(self.names):
                values, names = tuple(target[name] for name in self.names), self.names
        else:
            values, names = target, self.names
        try:
            point = tuple(float(value) for value in values)
        except (TypeError, ValueError, OverflowError) as error:
            raise ConfigError(f"{target!r} is no target: {error}.") from error
        if names != self.names or len(point) != len(self.names):
            raise ConfigError(f"{target!r} is no target of the axes {', '.join(self.names)}.")
        for name, axis, value in zip(self.names, self._axes, point, strict=True):
            slack = 1e-9 * (axis.high - axis.low)
            if not axis.low - slack <= value <= axis.high + slack:
                raise ConfigError(
                    f"{target!r}: {name} = {value:g} lies outside its axis, {axis.low:g} to {axis.high:g}."
                )
        return point

    def target(self, point: Point) -> Target:
        """Return a point as what a user asks the system for."""
        if self.asks_for_returns:
            return Returns(point[0], point[1:])
        return dict(zip(self.names, point, strict=True))

    def scaled(self, points: Sequence[Point]) -> Float[np.ndarray, "n d"]:
        """Return points with every axis from 0 to 1."""
        raw = np.array(points, dtype=np.float64).reshape(-1, len(self.names))
        return np.asarray((raw - self.low) / self.extents)

    def raw(self, scaled: Float[np.ndarray, "n d"]) -> tuple[Point, ...]:
        """Return scaled points in the user's units."""
        return tuple(map(tuple, (self.low + self.extents * scaled).tolist()))

    def with_limits(self, limits: float | Sequence[float], starts: Iterable[Any] | None = None) -> Problem:
        """Return the same problem under other limits; returns know no limit, so what was observed stays valid."""
        plain = self.to_plain() | {"limits": list(floats(limits))}
        if starts is not None:
            plain["starts"] = [list(self.point(start)) for start in starts]
        return Problem.from_plain(plain)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of everything that decides what is asked."""
        return fingerprint(self.to_plain())

    def to_plain(self) -> dict[str, Any]:
        """Return the problem as JSON values."""
        plain = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        axes = zip(self.names, self._axes, strict=True)
        plain["axes"] = tuple((name, axis.low, axis.high, axis.unit) for name, axis in axes)
        return {name: _listed(value) for name, value in plain.items()}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Problem:
        """Return the problem that `to_plain` wrote."""
        lists = {name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()}
        return cls(**lists | {"axes": {name: tuple(axis) for name, *axis in plain["axes"]}})

    def _reward_range(self) -> tuple[float, float]:
        given = None if self.rewards is None else floats(self.rewards)
        if given is not None and len(given) != 2:
            raise ConfigError(f"rewards are given as (low, high); got {self.rewards!r}.")
        if self.asks_for_reward is not None:
            axis = self._axes[self.asks_for_reward]
            if given not in (None, (axis.low, axis.high)):
                raise ConfigError(
                    f"The axis 'reward' asks for rewards from {axis.low:g} to {axis.high:g}, which is their range;"
                    f" leave out rewards = {self.rewards!r}."
                )
            return (axis.low, axis.high)
        if given is None:
            raise ConfigError(
                "No axis is named 'reward', so nothing tells how large rewards are; give rewards = (low, high)."
            )
        low, high = given
        if not low < high or not high - low < np.inf:
            raise ConfigError(f"Rewards must range from a number to a larger one; got {low:g} to {high:g}.")
        _check_size("the range of rewards", [high - low])
        return (low, high)

    def _check(self) -> None:
        if not self.starts:
            raise ConfigError("Got no starts; name at least one target that you know to be safe.")
        if self.targets is not None:
            self._check_list(self.targets)
        if self.stop_at is not None and self.incident is not None:
            raise ConfigError("Give stop_at or incident, not both: with a stop no episode can cost more.")
        if self.incident == "horizon" and self.largest is None:
            raise ConfigError('incident = "horizon" needs largest: the largest cost that an episode can have.')
        if self.promise == "total" and self.stop_at is None:
            raise ConfigError(
                "promise = 'total' needs stop_at: the account pays for the worst episode of a newcomer beforehand, and"
                " without a stop that is too much. Give stop_at, two or three limits say, or promise = 'trial'."
            )
        for stop, largest in zip(self.stop_at or (), self.largest or (), strict=False):
            if stop > largest:
                raise ConfigError(f"stop_at = {stop:g} is never reached: no episode can cost more than {largest:g}.")

    def _check_list(self, targets: tuple[Point, ...]) -> None:
        if len(set(targets)) < 2:
            raise ConfigError("Got fewer than two targets to choose from; there is nothing to search.")
        if np.ptp(self.scaled(targets), axis=0).max() < _SAME:
            raise ConfigError(
                f"All targets lie within {_SAME:g} of every axis; there is nothing to search. Let the axes span the"
                " targets."
            )
        for start in self.starts:
            if start not in targets:
                raise ConfigError(f"The start {self.target(start)!r} is none of the targets; add it to them.")


def floats(values: float | Iterable[float]) -> tuple[float, ...]:
    """Return one or several numbers as a tuple of floats.

    Raises:
        ConfigError: If they are no numbers.
    """
    several = values if isinstance(values, Iterable) and not isinstance(values, str | bytes) else (values,)
    try:
        found = [None if isinstance(v, str | bytes | bool | np.bool_) else float(v) for v in several]
    except (TypeError, ValueError, OverflowError):
        found = [None]
    if None in found:
        raise ConfigError(f"Got {values!r}; give a number, or a list of numbers.")
    return tuple(v for v in found if v is not None)


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"{name} must be a number; got {value!r}.") from error


def _check_numbers(problem: Problem) -> None:
    costs = len(problem.limits)
    if not costs or costs > MOST_COSTS:
        raise ConfigError(f"Got {costs} limits; a search keeps one to {MOST_COSTS} costs, with one limit for each.")
    if not 1 <= len(problem.names) <= MOST_AXES:
        raise ConfigError(
            f"Got {len(problem.names)} axes; a search moves along one to {MOST_AXES}. With more, {problem.episodes}"
            " episodes are too few to leave the start: fix those that matter least."
        )
    if not all(0 < limit < np.inf for limit in problem.limits):
        raise ConfigError(f"Limits must be positive numbers; got {problem.limits}.")
    _check_size("limits", problem.limits)
    if not 0 < problem.delta < 1:
        raise ConfigError(f"delta must lie between 0 and 1; got {problem.delta}.")
    if not isinstance(problem.promise, str) or problem.promise not in ("trial", "total"):
        raise ConfigError(f"promise must be 'trial' or 'total'; got {problem.promise!r}.")
    if not is_whole(problem.episodes) or operator.index(problem.episodes) < 1:
        raise ConfigError(f"episodes must be a whole number of at least 1; got {problem.episodes!r}.")
    if problem.episodes > MOST_EPISODES:
        raise ConfigError(
            f"episodes must be at most {MOST_EPISODES}, got {problem.episodes}: a search takes hundreds. Operate the"
            " target that it finds for as long as you like."
        )
    seed_sequence(problem.seed)  # refuses what is no seed


def _check_size(name: str, values: Iterable[float]) -> None:
    """Refuse sizes whose squares no arithmetic keeps."""
    for value in values:
        if not 1 / _HUGE < value < _HUGE:
            raise ConfigError(f"{name}: {value:g} is no size that can be reckoned with; choose other units.")


def _axis(name: str, given: Any) -> Axis:
    try:
        low, high, *unit = (given.low, given.high, given.unit) if isinstance(given, Axis) else given
        axis = Axis(float(low), float(high), *(str(each) for each in unit))
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"Axis {name!r} is given as (low, high) or (low, high, unit); got {given!r}.") from error
    if not (axis.low < axis.high and np.isfinite(axis.high - axis.low)):
        raise ConfigError(f"Axis {name!r} must run from a number to a larger one; got {axis.low:g} to {axis.high:g}.")
    _check_size(f"axis {name!r}", [axis.high - axis.low])
    return axis


def _per_cost(name: str, values: Any, costs: int) -> Any:
    """Return one positive number per cost; a single one stands for all, and nothing for nothing."""
    if values is None or (isinstance(values, str) and name == "incident" and values == "horizon"):
        return values
    try:
        numbers = floats(values)
    except ConfigError as error:
        raise ConfigError(f"{name} must be a number, or one per cost; got {values!r}.") from error
    numbers = numbers * costs if len(numbers) == 1 else numbers
    if len(numbers) != costs:
        what = "1 cost" if costs == 1 else f"{costs} costs"
        raise ConfigError(f"Got {len(numbers)} numbers as {name} for {what}; give one per cost.")
    if not all(0 < value < np.inf for value in numbers):
        raise ConfigError(f"{name} must be positive; got {values!r}.")
    _check_size(name, numbers)
    return numbers


def _several(starts: Any) -> Sequence[Any]:
    if isinstance(starts, Returns | Mapping):
        return (starts,)
    if not isinstance(starts, Iterable):
        raise ConfigError(f"Targets are given as a list; got {starts!r}.")
    return tuple(starts)


def _seen(
    returns: Sequence[Returns] | Float[np.ndarray, "m r"], b: Float[np.ndarray, " k"]
) -> Float[np.ndarray, "m r"]:
    """Return the logged returns, or refuse those that nothing can be begun with."""
    if not isinstance(returns, np.ndarray):
        if not len(returns):
            raise DatasetError("Got the returns of no episodes; give at least 10.")
        returns = returns_array(returns)
    if returns.ndim != 2 or not np.isfinite(returns).all():
        raise DatasetError(f"Logged returns must be finite, one row per episode; got an array of {returns.shape}.")
    if len(returns) < 10:
        raise DatasetError(f"Got the returns of {len(returns)} episodes; give at least 10.")
    if returns.shape[1] != 1 + len(b):
        raise ConfigError(f"Got {len(b)} limits for {returns.shape[1] - 1} costs; give one limit per cost.")
    if not all(0 < limit < np.inf for limit in b):
        raise ConfigError(f"Limits must be positive numbers; got {tuple(b.tolist())}.")
    if (returns[:, 1:] < 0).any():
        raise DatasetError(f"A logged episode costs {returns[:, 1:].min():g}; costs are never negative. Mend the logs.")
    if np.ptp(returns[:, 0]) <= 0:
        raise DatasetError(f"All {len(returns)} episodes have reward {returns[0, 0]:g}; there is nothing to choose.")
    relative = (returns[:, 1:] / b).max(axis=1)
    if relative.min() > 1:
        cheapest = tuple(returns[relative.argmin(), 1:].tolist())
        raise DatasetError(
            f"No logged episode keeps the limits {tuple(b.tolist())}: the cheapest costs {cheapest}. Raise the limits,"
            " or give starts that are known to be safe."
        )
    return returns.astype(np.float64)


def _listed(value: Any) -> Any:
    return [_listed(each) for each in value] if isinstance(value, tuple) else value


def _set(instance: Problem, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(instance, name, value)  # the class is frozen for everybody else
