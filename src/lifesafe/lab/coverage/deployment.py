"""One simulated deployment: a machine is drawn, a search runs on it to its end, and the truth judges what it did.

Deployments are numbered. A number draws the same machine in every row with the same family, and the same episodes for
the same requests, so rows can be compared deployment by deployment.

A trial is judged by the true mean cost of its lottery, the mean over its tickets; a day factor is averaged over days.
Where nothing is recommended, the start counts as what is operated, since its reward is what one has without a search.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from jaxtyping import Float

from lifesafe._config import nearest
from lifesafe._random import generator
from lifesafe.errors import ConfigError, GuaranteeWarning, NoSafeTargetError
from lifesafe.journal.events import Point
from lifesafe.lab.coverage.worlds import FAMILIES, HELD_OUT, HELD_OUT_2, World
from lifesafe.lab.paper import PaperSearch, PaperSettings
from lifesafe.returns import Returns
from lifesafe.safety.account import Account
from lifesafe.safety.problem import Problem, Promise
from lifesafe.safety.search import SafeOptimizer, Trial

Searcher = Literal["ours", "printed", "consistent", "safeopt"]
CHECKPOINTS = (100, 150, 300, 600)
"""Episodes after which the recommendation of the promise "total" is judged; the end is judged as well."""
_HORIZON = 60.0
"""Largest cost of an episode, in limits, where nothing is said about mishaps."""
TRIAL = 10
"""Episodes of a rival's trial."""
GRID = 40
"""Targets along each axis among which a rival chooses."""
_NEWCOMERS = ("newcomer", "test")  # stages


@dataclass(frozen=True, kw_only=True)
class CoverageRow:
    """What many deployments have in common: one line of the table."""

    family: str
    """Kind of machine; see `lifesafe.lab.coverage.worlds`."""
    search: Searcher = "ours"
    """Ours, the paper's search in two readings of its formulas, or SafeOpt."""
    promise: Promise = "trial"
    """What our search promises."""
    stop: float | None = None
    """Cost at which an episode is ended, in limits."""
    incident: float | Literal["horizon"] | None = None
    """Largest cost of one mishap that is assumed, in limits, where there is no stop; the default if None."""
    delta: float = 0.1
    """Probability with which the promise may fail."""
    episodes: int = 150
    """Real episodes that the search takes at most."""
    lengthscale: float | None = None
    """Of a rival's model, as a share of each axis; that of its authors if None."""

    def __post_init__(self) -> None:
        known = FAMILIES | HELD_OUT | HELD_OUT_2
        if self.family not in known:
            hint = nearest(self.family, known)
            raise ConfigError(f"Unknown family {self.family!r}.{hint} The families are {', '.join(known)}.")
        if self.search != "ours" and self.promise != "trial":
            raise ConfigError(f"The search {self.search!r} makes no promise {self.promise!r}; give promise 'trial'.")

    @property
    def name(self) -> str:
        """A short name, different for every row; also that of its file."""
        parts = [self.family, self.search, self.promise]
        parts += [] if self.stop is None else [f"stop{self.stop:g}"]
        parts += [] if self.incident is None else [f"incident_{self.incident}"]
        parts += [] if self.lengthscale is None else [f"length{self.lengthscale:g}"]
        return "-".join([*parts, f"delta{self.delta:g}", f"{self.episodes}"])

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """Episodes after which the recommendation is judged. The promise "trial" paces itself: only its end counts."""
        before = [number for number in CHECKPOINTS if number < self.episodes and self.promise == "total"]
        return (*before, self.episodes)


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """What one deployment came to. Costs are in limits, the largest of several ones."""

    number: int
    violated: bool
    """The promise that may fail with probability delta was broken. "trial": the mean cost of a trial was above a limit;
    those that certify the start do not count. "total": a target above a limit was certified."""
    worst: float
    """Largest mean cost of such a trial, or of a certified target."""
    share: float
    """Share of those trials whose mean cost was above a limit; with "total", of all episodes."""
    broken_sure: bool
    """With "total", the account was below zero right after a newcomer's episode, which must never happen."""
    lowest: float
    """Lowest amount that an account held."""
    window: float
    """Largest sum of (cost - limit) over episodes in a row of which the last was a newcomer's."""
    operates_unsafe: bool
    """The recommended target has a mean cost above a limit."""
    regrets: tuple[float, ...]
    """Reward missed by the recommendation, as a share of the range, at each checkpoint of the row."""
    use: float
    """Mean cost of the recommended target."""
    recommended: bool
    """Whether any target was recommended at the end."""
    episodes: int
    """Real episodes that were used."""
    held: bool
    """Whether the search was held at the end."""
    ended: str
    """Why it ended."""
    spent: float
    """Risk charged."""


@dataclass(frozen=True)
class JudgedTrial:
    """A trial, as the judge needs it."""

    stage: str
    points: tuple[Point, ...]
    """The target of each episode."""
    costs: Float[np.ndarray, "m k"]
    is_newcomer: bool
    """Whether its target was not certified, and no start."""


class RowSearch(Protocol):
    """A rival: it chooses among the rows of an array of targets."""

    def ask(self) -> int:
        """Return the row to try next."""
        ...

    def tell(self, index: int, episodes: Float[np.ndarray, "m r"]) -> None:
        """Add the returns of the episodes of a trial."""
        ...

    @property
    def best(self) -> int:
        """The row to operate."""
        ...


class Judge:
    """Knows the truth of a machine, and judges the trials and recommendations of a search on it."""

    def __init__(self, row: CoverageRow, world: World) -> None:
        self.row, self.world = row, world
        self._limits = np.array(world.limits)
        self._stop = None if row.stop is None else tuple(row.stop * limit for limit in world.limits)
        self.reference = world.best(self._stop, connected=row.promise == "trial")
        """The best target that a search could find: with "trial" only what is connected with the start."""
        self._means: dict[Point, Float[np.ndarray, " r"]] = {}

    def outcome(
        self,
        number: int,
        trials: Sequence[JudgedTrial],
        certified: Sequence[Point],
        best: Sequence[Point | None],
        **rest: Any,
    ) -> Deployment:
        """Return what a deployment came to.

        Args:
            number: Of the deployment.
            trials: Everything that was tried.
            certified: The targets that were ever certified.
            best: What was recommended at each checkpoint.
            rest: Further fields.
        """
        self._learn({point for trial in trials for point in trial.points} | {*certified})
        if self.row.promise == "trial":
            means = [self._cost(trial.points) for trial in trials if trial.stage != "start"]
            share = float(np.mean([mean > 1 for mean in means])) if means else 0.0
        else:
            means = [self._cost((point,)) for point in certified]
            episodes = [self._cost((point,)) > 1 for trial in trials for point in trial.points]
            share = float(np.mean(episodes)) if episodes else 0.0
        lowest, broken_sure, window = self._account(trials)
        operated = self._at(best[-1])
        return Deployment(
            number=number,
            violated=any(mean > 1 for mean in means),
            worst=max(means, default=0.0),
            share=share,
            broken_sure=broken_sure,
            lowest=lowest,
            window=window,
            operates_unsafe=bool(operated[1:].max() > 1),
            regrets=tuple(self._regret(point) for point in best),
            use=float(operated[1:].max()),
            recommended=best[-1] is not None,
            **rest,
        )

    def means(self, point: Point) -> Float[np.ndarray, " r"]:
        """Return the true mean reward and costs of a target."""
        return np.asarray(self.world.means(np.array([point]), self._stop)[0])

    def _account(self, trials: Sequence[JudgedTrial]) -> tuple[float, bool, float]:
        """Return the least that the account held, whether a newcomer overdrew it, and the largest excess of a window.

        All of it is computed from the episodes, not taken from the search.
        """
        if self.row.promise != "total":
            return 0.0, False, 0.0
        assert self._stop is not None  # the problem has made sure of that
        bounds = tuple(stop + self.world.largest_step for stop in self._stop)
        account, excess = Account.begin(self.world.limits, bounds), np.zeros(len(self._limits))
        lowest, broken, window = 0.0, False, 0.0
        for trial in trials:
            for costs in trial.costs:
                account = account.after(costs[None])
                held = float((np.array(account.holds) / self._limits).min())
                excess = np.maximum(excess, 0.0) + costs / self._limits - 1
                lowest = min(lowest, held)
                if trial.is_newcomer:
                    broken |= held < -1e-9
                    window = max(window, float(excess.max()))
        return lowest, broken, window

    def _cost(self, points: tuple[Point, ...]) -> float:
        """Return the true mean cost of a lottery, in limits, of the largest one."""
        return float(np.mean([self._means[point][1:] for point in points], axis=0).max())

    def _regret(self, point: Point | None) -> float:
        best, lowest = self.reference.best, self.reference.lowest
        return float((best - self._at(point)[0]) / (best - lowest))

    def _at(self, point: Point | None) -> Float[np.ndarray, " r"]:
        """Return true reward, and costs in limits; those of the start for None."""
        self._learn({point or self.world.start})
        return self._means[point or self.world.start]

    def _learn(self, points: set[Point]) -> None:
        new = sorted(points - self._means.keys())
        if new:
            means = self.world.means(np.array(new), self._stop)
            means[:, 1:] /= self._limits
            self._means.update(zip(new, means, strict=True))


def deploy(row: CoverageRow, number: int) -> Deployment:
    """Return what one deployment came to.

    Raises:
        ConfigError: If the row names SafeOpt, which needs a process of its own: benchmarks/coverage_rivals.py runs it.
    """
    if row.search == "safeopt":
        raise ConfigError(
            "SafeOpt runs in an environment of its own; benchmarks/coverage_rivals.py simulates its rows."
        )
    if row.search != "ours":
        return deploy_rival(row, number, _paper)
    world = draw_world(row, number)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuaranteeWarning)  # a search that is held ends; the outcome says so
        optimizer = SafeOptimizer(problem_for(row, world, number))
        return search(optimizer, Judge(row, world), number)


def draw_world(row: CoverageRow, number: int) -> World:
    """Return the machine of a deployment."""
    return (FAMILIES | HELD_OUT | HELD_OUT_2)[row.family](generator(number, "lab", "world", row.family))


def problem_for(row: CoverageRow, world: World, number: int) -> Problem:
    """Return the problem that our search is given: it knows the box and the start, and not what targets return."""

    def scaled(amount: float) -> tuple[float, ...]:
        return tuple(amount * limit for limit in world.limits)

    return Problem(
        axes=world.axes,
        starts=(world.start,),
        limits=world.limits,
        rewards=None if "reward" in world.axes else world.rewards,  # the axis is the range where there is one
        delta=row.delta,
        promise=row.promise,
        stop_at=None if row.stop is None else scaled(row.stop),
        largest_step=None if row.stop is None else (world.largest_step,) * len(world.limits),
        incident=scaled(row.incident) if isinstance(row.incident, float) else row.incident,
        largest=scaled(_HORIZON) if row.incident == "horizon" else None,
        episodes=row.episodes,
        seed=number,
    )


def drawn_episodes(
    row: CoverageRow, world: World, number: int, trial: int, points: Sequence[Point]
) -> Float[np.ndarray, "m r"]:
    """Return the episodes of a trial: the same for the same deployment, trial and targets."""
    stop = None if row.stop is None else tuple(row.stop * limit for limit in world.limits)
    drawn = world.draw(np.array(points), generator(number, "lab", "episodes", row.family, trial), stop)
    if row.incident == "horizon":
        drawn[:, 1:] = np.minimum(drawn[:, 1:], _HORIZON * np.array(world.limits))
    return drawn


def search(
    optimizer: SafeOptimizer,
    judge: Judge,
    number: int,
    advance: Callable[[Trial, Float[np.ndarray, "m r"]], None] = lambda trial, episodes: None,
) -> Deployment:
    """Run our search to its end, or on from where it stands, and judge it.

    Args:
        optimizer: The search.
        judge: Knows the machine.
        number: Of the deployment.
        advance: Called after every trial with what it returned.
    """
    row, world, problem = judge.row, judge.world, optimizer.problem
    seen = optimizer.history
    trials = [
        JudgedTrial(tried.asked.stage, tried.points, tried.episodes[:, 1:], tried.asked.stage in _NEWCOMERS)
        for tried in seen.told
    ]
    used, now = seen.searched, _certified(optimizer)
    certified = dict.fromkeys(now)
    best: list[Point | None] = []
    ended = ""
    while True:
        try:
            trial = optimizer.ask()
        except NoSafeTargetError as error:
            ended = str(error)
            break
        if trial is None:
            break
        while len(best) < len(row.checkpoints) - 1 and used + trial.episodes > row.checkpoints[len(best)]:
            best.append(_best(optimizer))
        points = tuple(map(problem.point, trial.targets))
        episodes = drawn_episodes(row, world, number, trial.number, points)
        is_newcomer = trial.stage != "start" and not now.issuperset(points)
        trials.append(JudgedTrial(trial.stage, points, episodes[:, 1:], is_newcomer))
        optimizer.tell(trial, [Returns(reward, costs) for reward, *costs in episodes.tolist()])
        used += trial.episodes
        now = _certified(optimizer)
        certified |= dict.fromkeys(now)
        advance(trial, episodes)
    best += [_best(optimizer)] * (len(row.checkpoints) - len(best))
    return judge.outcome(
        number,
        trials,
        tuple(certified),
        best,
        episodes=used,
        held=optimizer.held is not None,
        ended=ended or optimizer.held or optimizer.done or "",
        spent=optimizer.spent,
    )


def deploy_rival(
    row: CoverageRow, number: int, begin: Callable[[CoverageRow, Float[np.ndarray, "n d"], int, World], RowSearch]
) -> Deployment:
    """Return what one deployment of a rival came to: trials at one target each, chosen on a grid of the box.

    Args:
        row: The row.
        number: Of the deployment.
        begin: Returns the rival, given the row, the targets, which of them is the start, and the machine.
    """
    world = draw_world(row, number)
    if len(world.axes) != 2:
        raise ConfigError(
            f"Rivals choose on a grid of two axes; {row.family} has {len(world.axes)}. Take another family."
        )
    ends = [np.linspace(low, high, GRID) for low, high in world.axes.values()]
    grid = np.stack(np.meshgrid(*ends, indexing="ij"), axis=-1).reshape(-1, 2)
    targets = np.concatenate([grid, np.array([world.start])])
    rival = begin(row, targets, len(grid), world)
    judge, trials = Judge(row, world), []
    for trial in range(1, row.episodes // TRIAL + 1):
        index = rival.ask()
        points = (tuple(targets[index].tolist()),) * TRIAL
        episodes = drawn_episodes(row, world, number, trial, points)
        rival.tell(index, episodes)
        trials.append(JudgedTrial("start" if index == len(grid) else "search", points, episodes[:, 1:], False))
    best = tuple(targets[rival.best].tolist())
    used, ended = TRIAL * len(trials), "the episodes are used up"
    return judge.outcome(number, trials, (), (best,), episodes=used, held=False, ended=ended, spent=0.0)


def _paper(row: CoverageRow, targets: Float[np.ndarray, "n d"], start: int, world: World) -> PaperSearch:
    assert row.search in ("printed", "consistent")
    count = row.episodes // TRIAL
    settings = PaperSettings(trials=count, exploration=count // 2)
    if row.lengthscale is not None:
        lengths = tuple(row.lengthscale * (high - low) for low, high in world.axes.values())
        settings = PaperSettings(trials=count, exploration=count // 2, lengthscales=lengths)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuaranteeWarning)  # the printed reading is a counter-example, as the table says
        return PaperSearch(targets, (start,), world.limits, delta=row.delta, reading=row.search, settings=settings)


def _certified(optimizer: SafeOptimizer) -> frozenset[Point]:
    """Return the targets that are certified now; without an account nobody bets on them."""
    return optimizer.beliefs.certified if optimizer.problem.promise == "total" else frozenset()


def _best(optimizer: SafeOptimizer) -> Point | None:
    found = optimizer.best
    return None if found is None else found.point
