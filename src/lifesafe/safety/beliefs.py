"""What is believed of every target, computed from the facts of a run. `choice` decides on it, and on nothing else.

A target may be tried or served if it has *paid*: its risk was charged to the ledger under the present limits, or (with
the promise "total") a bet on its own episodes has certified it. Three things end what was paid or certified before:
other limits, an episode that cost more than can be, and, for one target, an alarm in operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float

from lifesafe.errors import JournalError
from lifesafe.journal import events as e
from lifesafe.journal.events import Point
from lifesafe.journal.history import History, Tried
from lifesafe.journal.store import Record
from lifesafe.safety.account import Account
from lifesafe.safety.betting import ROUNDING, Bet
from lifesafe.safety.likelihood import FLOOR
from lifesafe.safety.posterior import Expected, Model, Sums
from lifesafe.safety.problem import Problem

_START_SHARE = 0.25  # of delta, for the bet on the first start; the next has half of that, and so on
_TEST_SHARE = 0.5  # of delta, for the bets on all other targets together
_INCIDENTS = 2.0  # that an episode may have beyond the mean of its target before the assumption counts as refuted
_CLEARLY = 2.0  # standard deviations


@dataclass
class Own:
    """The episodes of one target, raw units."""

    episodes: int
    totals: Float[np.ndarray, " r"]
    squares: Float[np.ndarray, " r"]

    @property
    def means(self) -> Float[np.ndarray, " r"]:
        return np.asarray(self.totals / self.episodes)


@dataclass(frozen=True, eq=False)
class Beliefs:
    """What is believed after everything that has happened so far."""

    problem: Problem
    history: History
    account: Account | None = None
    """None unless the promise is "total"."""

    @cached_property
    def own(self) -> dict[Point, Own]:
        """The episodes of every target that has any, those of operation included, in the order of their first."""
        told = [each for tried in self.history.told for each in tried.by_target]
        served = [(each.target, each.episodes, each.sums, each.squares) for each in self.history.services]
        found: dict[Point, Own] = {}
        for target, count, sums, squares in (*told, *served):
            if count:
                own = found.setdefault(target, Own(0, np.zeros(len(sums)), np.zeros(len(sums))))
                own.episodes += count
                own.totals, own.squares = own.totals + sums, own.squares + squares
        return found

    @property
    def tried(self) -> tuple[Point, ...]:
        """The targets that have episodes."""
        return tuple(self.own)

    @property
    def searched(self) -> int:
        """Episodes that the search under the present limits has taken."""
        return sum(each.was_told for each in self.history.told if each.asked_number > self.history.limited_at)

    # --- the model

    @cached_property
    def model(self) -> Model:
        """What is known of all mean returns: rewards as shares of their range, costs in limits."""
        limits, (low, high) = self.problem.limits, self.problem.rewards  # type: ignore[misc]  # made so by the problem
        shift, scale = np.array([low, *np.zeros(len(limits))]), np.array([high - low, *limits])
        n = np.array([own.episodes for own in self.own.values()], dtype=np.float64)
        totals = np.array([own.totals for own in self.own.values()]).reshape(len(n), len(scale))
        squares = np.array([own.squares for own in self.own.values()]).reshape(len(n), len(scale))
        modeled = (totals - n[:, None] * shift) / scale
        modeled_squares = (squares - 2 * shift * totals + n[:, None] * shift**2) / scale**2
        sums = Sums(self.problem.scaled(self.tried), n, modeled, modeled_squares)
        lumps = [None if sure else s / b for sure, s, b in zip(self.sure, self.lumps, limits, strict=True)]
        least = 1.0 if self.problem.incident == "horizon" else FLOOR
        return Model.given(sums, lumps, self.problem.asks_for_reward, least)

    def expect(self, points: Sequence[Point]) -> Expected:
        """Return what is expected of some targets."""
        return self.model.expect(self.problem.scaled(points))

    @property
    def sure(self) -> tuple[bool, ...]:
        """For each cost, whether every single episode keeps its limit; none does after one beyond its bound."""
        return self.problem.sure if not self.breaches else (False,) * len(self.problem.limits)

    @cached_property
    def lumps(self) -> tuple[float, ...]:
        """Largest cost that can come at once: as the problem says, or what was seen if that was more than can be."""
        if not self.breaches:
            return self.problem.lumps
        seen = zip(self.problem.lumps, self.history.largest.tolist(), self._least_allowed, strict=True)
        return tuple(max(s, x) if x > most else s for s, x, most in seen)

    @property
    def bounds(self) -> tuple[float, ...]:
        """Largest cost of an episode: as the problem says, or what was seen if that was more."""
        assert self.problem.bounds is not None
        seen = self.history.largest.tolist()
        return tuple(max(bound, x) for bound, x in zip(self.problem.bounds, seen, strict=True))

    @property
    def most(self) -> tuple[float, ...]:
        """Most that an episode of a target within the limits may cost before what was assumed counts as refuted."""
        if self.problem.bounds is not None and (self.problem.stop_at is not None or self.problem.incident == "horizon"):
            return self.bounds
        return tuple(b + _INCIDENTS * s for b, s in zip(self.problem.limits, self.lumps, strict=True))

    # --- what holds up a search

    @cached_property
    def breaches(self) -> tuple[tuple[int, str], ...]:
        """Episodes that cost more than the problem allows: the number of the event, and what was found."""
        told = [(tried, self._over(tried)) for tried in self.history.told]
        found = [(tried.counted_number, f"trial {tried.number}: {over}") for tried, over in told if over]
        for service in self.history.services:
            if service.alarm is not None:  # of either rule: the one that came first may hide the other
                over_bound = service.largest > np.array(service.serving.largest) * (1 + ROUNDING)
                for k in np.flatnonzero(over_bound)[:1].tolist():
                    too_much = self._too_much(float(service.largest[k]), k)
                    found.append((service.alarm_number, f"operation: {too_much}"))
        return tuple(sorted(found))

    @cached_property
    def held(self) -> str | None:
        """What holds up the search until somebody confirms that it may go on; none if nothing does."""
        confirmed = self.history.confirmed[-1][0] if self.history.confirmed else 0
        for number, found in self.breaches:
            if number > confirmed:
                return found
        for tried in self.history.told:
            if tried.counted_number > confirmed and (found_costs := self.exceeded(tried)):
                return f"trial {tried.number}: {found_costs}"
        return None

    def exceeded(self, tried: Tried) -> str | None:
        """Return how the episodes of a trial show that its mean cost is clearly above a limit; none if they do not."""
        if tried.asked.stage != "search" or not tried.told or (tried.mean_costs <= tried.limits).all():
            return None
        costs = tried.episodes[:, 1:] / np.array(tried.limits)
        mean, n = costs.mean(axis=0), len(costs)
        seen = costs.var(axis=0, ddof=1) / np.maximum(mean, 1e-9) if n > 1 else np.zeros(len(mean))
        modeled = [0.0 if cost is None else cost.phi for cost in self.model.costs]  # in the limits of now
        phi = np.maximum(np.array(modeled) * self.problem.limits / np.array(tried.limits), seen)
        low = mean - _CLEARLY * np.sqrt(phi * mean / n)
        k = int(low.argmax())
        if low[k] <= 1 or self.sure[k]:
            return None
        return f"its mean cost {mean[k] * tried.limits[k]:.4g} is clearly above the limit {tried.limits[k]:g}"

    # --- who has paid

    @property
    def is_vouched(self) -> bool:
        """Whether somebody has named the starts as safe under the present limits."""
        return not self.history.limited or bool(self.history.limited[-1][1].starts)

    @property
    def spent(self) -> float:
        """Risk charged under the present limits."""
        asked = self.history.trials.values()
        return sum(each.asked.charge for each in asked if each.asked_number > self.history.limited_at)

    @cached_property
    def paid(self) -> frozenset[Point]:
        """Targets that may be tried and served: charged under the present limits, and not withdrawn since.

        What was charged while a trial stood wrong in the record does not count: its risk was another one.
        """
        wrong = [(each.told_number, each.retracted_number) for each in self.history.told if each.retracted is not None]
        return frozenset(
            point
            for each in self.history.trials.values()
            if each.asked_number > self._fresh_from
            and not any(told < each.asked_number < retracted for told, retracted in wrong)
            for point in each.asked.paid
            if each.asked_number > self.withdrawn.get(point, 0)
        )

    @cached_property
    def withdrawn(self) -> dict[Point, int]:
        """Targets that an alarm has withdrawn, with the number of the event; a later payment brings one back."""
        return {each.target: each.alarm_number for each in self.history.services if each.alarm is not None}

    @cached_property
    def bets(self) -> dict[Point, Bet]:
        """The bets on targets that were put to the test, each on its own episodes since then.

        An alarm ends a bet, and so does an episode that cost more than can be, of any target; a later test begins
        another one, at a level of its own. Levels count those that ended, so the level of a bet never changes, and all
        of them together stay below delta. The promise "trial" has none: its starts pay the ledger.
        """
        if self.problem.promise != "total":
            return {}
        # Events that voided bets when they came, those that were taken back included.
        back = [tried for tried in self.history.told if tried.retracted is not None]
        voids = [number for number, _ in self.breaches]
        voids += [tried.told_number for tried in back if self._over(replace(tried, told=tried.first_told))]
        bets: dict[Point, Bet] = {}
        begun: dict[Point, int] = {}
        episodes: dict[tuple[Point, int], list[Float[np.ndarray, "m k"]]] = {}
        starts = tests = 0
        for tried in self.history.trials.values():
            center, number = tried.center, tried.asked_number
            if number <= self.history.limited_at:
                continue
            alarms = [each.alarm_number for each in self.history.services if each.alarm and each.target == center]
            is_new = begun.get(center, -1) < max((end for end in (*alarms, *voids) if end < number), default=0)
            if is_new and tried.asked.stage in ("start", "test"):
                if tried.asked.stage == "start":
                    starts += 1
                    level = self.problem.delta * _START_SHARE * 0.5 ** (starts - 1)
                else:
                    tests += 1
                    level = self.problem.delta * _TEST_SHARE / (tests * (tests + 1))
                bets[center], begun[center] = Bet.start(self.problem.limits, self.bounds, level), number
            if center in bets and tried.told:
                episodes.setdefault((center, begun[center]), []).append(tried.episodes[:, 1:])
        for point, bet in bets.items():
            if rows := episodes.get((point, begun[point])):
                bets[point] = bet.update(np.concatenate(rows))
        ends = {point: max(self._fresh_from, self.withdrawn.get(point, 0)) for point in bets}
        return {point: bet for point, bet in bets.items() if begun[point] > ends[point]}

    @cached_property
    def certified(self) -> frozenset[Point]:
        """Targets whose own episodes prove, without a model, that every mean cost keeps its limit."""
        return frozenset(point for point, bet in self.bets.items() if bet.certified)

    @property
    def admitted(self) -> frozenset[Point]:
        """Targets that may be served: paid or certified, whatever is promised."""
        return self.certified if self.problem.promise == "total" and not all(self.sure) else self.paid

    @cached_property
    def _fresh_from(self) -> int:
        """Number of the event that voided what was paid before."""
        return max([self.history.limited_at, *(number for number, _ in self.breaches)])

    @cached_property
    def _least_allowed(self) -> Float[np.ndarray, " k"]:
        """What an episode may cost if all others of its target cost nothing."""
        return np.asarray(self._allowed(np.zeros((1, len(self.problem.limits))), (0,))[0])

    def _over(self, tried: Tried) -> str | None:
        """Return which episode of a trial costs more than can be; none if none does."""
        if (tried.largest <= self._least_allowed).all():  # nearly always
            return None
        costs = tried.episodes[:, 1:]
        over = costs > self._allowed(costs, tried.asked.tickets)
        if not over.any():
            return None
        k = int(over.any(axis=0).argmax())
        return self._too_much(float(costs[over[:, k].argmax(), k]), k)

    def _allowed(self, costs: Float[np.ndarray, "m k"], tickets: Sequence[int]) -> Float[np.ndarray, "#m k"]:
        """Return the most that each episode may cost: up to the stop, or two mishaps beyond others of its target."""
        if self.problem.stop_at is not None:
            assert self.problem.bounds is not None
            return np.array(self.problem.bounds)[None] * (1 + ROUNDING)
        if self.problem.incident == "horizon":
            return np.full((1, costs.shape[1]), np.inf)  # more than can be is refused before it is recorded
        same = np.equal.outer(tickets[: len(costs)], tickets[: len(costs)])
        np.fill_diagonal(same, False)
        means = same @ costs / np.maximum(same.sum(axis=1), 1)[:, None]  # of the other episodes
        return np.asarray(np.maximum(self.problem.limits, means) + _INCIDENTS * np.array(self.problem.lumps))

    def _too_much(self, cost: float, k: int) -> str:
        if self.problem.stop_at is not None:
            return (
                f"an episode cost {cost:.4g}, and with stop_at = {self.problem.stop_at[k]:g} none can cost more than"
                f" {self.problem.stop_at[k] + self.problem.steps[k]:g}; the stop did not work, or steps cost more"
            )
        return (
            f"an episode cost {cost:.4g}, which incidents of at most {self.problem.lumps[k]:g} do not explain: mishaps"
            " are larger than was assumed"
        )


@dataclass
class Books:
    """The books of a run, kept event by event: its facts, its problem as limits change, and its account."""

    problem: Problem
    history: History = field(default_factory=History)
    account: Account | None = field(init=False)
    """None unless the promise is "total". Unlike beliefs it depends on the order of episodes."""

    def __post_init__(self) -> None:
        self.account = None
        if self.problem.promise == "total":
            assert self.problem.bounds is not None
            self.account = Account.begin(self.problem.limits, self.problem.bounds)

    def apply(self, record: Record) -> None:
        """Add one event."""
        event = record.event
        self.history.apply(record)
        if isinstance(event, e.Limited):
            self.problem = self.problem.with_limits(event.limits, event.starts or None)
        if self.account is not None:
            self._book(event, self.account)

    def _book(self, event: e.Event, account: Account) -> None:
        limits = np.array(account.limits)
        match event:
            case e.Told(episodes=episodes) | e.Served(episodes=episodes):
                account = account.after(_costs(episodes))
            case e.Retracted(trial=trial, episodes=episodes):
                told = _costs(self.history.trials[trial].first_told)
                true = np.broadcast_to(account.bounds, told.shape) if episodes is None else _costs(episodes)
                dearer = np.maximum((true - limits).sum(axis=0) - (told - limits).sum(axis=0), 0.0)
                account = account.after((limits + dearer)[None])
            case e.Limited(limits=others):  # savings are gone, debts stay
                account = replace(account, limits=others, holds=tuple(min(held, 0.0) for held in account.holds))
            case e.Snapshot(account=holds):
                account = replace(account, holds=holds)
        if not isinstance(event, e.Served):  # an episode of operation beyond its bound counts with the alarm after it
            account = replace(account, bounds=self.beliefs.bounds)
        self.account = account

    @property
    def beliefs(self) -> Beliefs:
        """What is believed now."""
        return Beliefs(self.problem, self.history, self.account)


def believed(records: Sequence[Record]) -> Beliefs:
    """Return the beliefs that the records of a run lead to.

    Raises:
        JournalError: If they are no record of a search.
    """
    books = Books(opened_problem(records))
    for record in records:
        books.apply(record)
    return books.beliefs


def opened_problem(records: Sequence[Record]) -> Problem:
    """Return the problem that the records of a run begin with.

    Raises:
        JournalError: If they are no record of a search, or this version cannot read the problem.
    """
    if not records or not isinstance(records[0].event, e.Opened):
        raise JournalError("The journal does not begin with an opened run; it is no record of a search.")
    try:
        return Problem.from_plain(records[0].event.problem)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        by = records[0].event.version
        raise JournalError(f"The problem that lifesafe {by} recorded cannot be read by this one: {error}.") from error


def _costs(episodes: Sequence[e.EpisodeReturns]) -> Float[np.ndarray, "m k"]:
    return np.array(episodes, dtype=np.float64)[:, 1:]
