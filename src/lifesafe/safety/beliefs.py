"""What is believed of every target, computed from the facts of a run. `choice` decides on it, and on nothing else.

A target may be tried or served if it has *paid*: its risk was charged to the ledger under the present limits, or (with
the promise "total") a bet on its own episodes has certified it. Three things end what was paid or certified before:
other limits, an episode that cost more than can be, and, for one target, an alarm in operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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

    def add(self, episodes: int, totals: Float[np.ndarray, " r"], squares: Float[np.ndarray, " r"]) -> None:
        """Add some episodes."""
        self.episodes += episodes
        self.totals, self.squares = self.totals + totals, self.squares + squares

    @property
    def means(self) -> Float[np.ndarray, " r"]:
        return np.asarray(self.totals / self.episodes)


class Books:
    """The account of a run, kept event by event: unlike all other beliefs it depends on the order of episodes."""

    def __init__(self, problem: Problem) -> None:
        self.account = _new_account(problem)
        """None unless the promise is "total"."""

    def apply(self, record: Record, history: History, problem: Problem) -> None:
        """Take an event into account; `history` has it already."""
        if self.account is None:
            return
        match record.event:
            case e.Told(episodes=episodes) | e.Served(episodes=episodes):
                self.account = self.account.after(_costs(episodes))
            case e.Retracted(trial=trial, episodes=episodes):
                told = _costs(history.trials[trial].first_told)
                true = np.broadcast_to(self.account.bounds, told.shape) if episodes is None else _costs(episodes)
                limits = np.array(self.account.limits)
                dearer = np.maximum((true - limits).sum(axis=0) - (told - limits).sum(axis=0), 0.0)
                self.account = self.account.after((limits + dearer)[None])
            case e.Limited():  # savings are gone, debts stay
                debts = tuple(min(held, 0.0) for held in self.account.holds)
                self.account = _new_account(problem)
                self.account = self.account and replace(self.account, holds=debts)
            case e.Snapshot(account=holds):
                self.account = replace(self.account, holds=holds)
        if self.account is not None and not isinstance(record.event, e.Served):
            # An episode of operation beyond its bound counts with the alarm that follows.
            bounds = _bounds(problem, _largest_seen(history, len(problem.limits)))
            self.account = replace(self.account, bounds=bounds)


class Beliefs:
    """What is believed after everything that has happened so far."""

    def __init__(self, problem: Problem, history: History, account: Account | None = None) -> None:
        self.problem, self.history, self.account = problem, history, account

    @cached_property
    def own(self) -> dict[Point, Own]:
        """The episodes of every target that has any, those of operation included, in the order of their first."""
        found: dict[Point, Own] = {}
        width = 1 + len(self.problem.limits)

        def of(point: Point) -> Own:
            return found.setdefault(point, Own(0, np.zeros(width), np.zeros(width)))

        for tried in self.history.told:
            for target, count, sums, squares in tried.by_target:
                of(target).add(count, sums, squares)
        for service in self.history.services:
            if service.episodes:
                of(service.target).add(service.episodes, service.sums, service.squares)
        return found

    @cached_property
    def tried(self) -> tuple[Point, ...]:
        """The targets that have episodes."""
        return tuple(self.own)

    @cached_property
    def searched(self) -> int:
        """Episodes that the search under the present limits has taken."""
        first = self._limited_at
        return sum(each.was_told for each in self.history.told if each.asked_number > first)

    # --- the model

    @cached_property
    def sums(self) -> Sums:
        """The episodes as they are modeled: rewards as shares of their range, costs in limits."""
        low, high = self.problem.rewards  # type: ignore[misc]  # made so by the problem
        shift = np.array([low, *np.zeros(len(self.problem.limits))])
        scale = np.array([high - low, *self.problem.limits])
        n = np.array([own.episodes for own in self.own.values()], dtype=np.float64)
        totals = np.array([own.totals for own in self.own.values()]).reshape(len(n), len(scale))
        squares = np.array([own.squares for own in self.own.values()]).reshape(len(n), len(scale))
        modeled = (totals - n[:, None] * shift) / scale
        modeled_squares = (squares - 2 * shift * totals + n[:, None] * shift**2) / scale**2
        return Sums(self.problem.scaled(self.tried), n, modeled, modeled_squares)

    @cached_property
    def sure(self) -> tuple[bool, ...]:
        """For each cost, whether every single episode keeps its limit; none does after one beyond its bound."""
        return self.problem.sure if not self.breaches else (False,) * len(self.problem.limits)

    @cached_property
    def model(self) -> Model:
        """What is known of all mean returns."""
        names, least = self.problem.names, 1.0 if self.problem.incident == "horizon" else FLOOR
        scaled = zip(self.sure, self.lumps, self.problem.limits, strict=True)
        lumps = [None if sure else s / b for sure, s, b in scaled]
        return Model.given(self.sums, lumps, names.index("reward") if "reward" in names else None, least)

    def expect(self, points: Sequence[Point]) -> Expected:
        """Return what is expected of some targets."""
        return self.model.expect(self.problem.scaled(points))

    @cached_property
    def lumps(self) -> tuple[float, ...]:
        """Largest cost that can come at once: as the problem says, or what was seen if that was more."""
        seen = self._largest
        return tuple(
            max(s, float(x)) if broken else s
            for s, x, broken in zip(self.problem.lumps, seen, self._broken, strict=True)
        )

    @property
    def bounds(self) -> tuple[float, ...]:
        """Largest cost of an episode: as the problem says, or what was seen if that was more."""
        return _bounds(self.problem, self._largest)

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
        found = []
        for tried in self.history.told:
            over = self._over(tried)
            if over:
                found.append((tried.counted_number, f"trial {tried.number}: {over}"))
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
        return sum(each.asked.charge for each in self.history.trials.values() if each.asked_number > self._limited_at)

    @cached_property
    def paid(self) -> frozenset[Point]:
        """Targets that may be tried and served: charged under the present limits, and not withdrawn since.

        What was charged while a trial stood wrong in the record does not count: its risk was another one.
        """
        paid: set[Point] = set()
        wrong = [(each.told_number, each.retracted_number) for each in self.history.told if each.retracted is not None]
        for each in self.history.trials.values():
            if any(told < each.asked_number < retracted for told, retracted in wrong):
                continue
            if each.asked_number > self._fresh_from:
                paid |= {point for point in each.asked.paid if each.asked_number > self.withdrawn.get(point, 0)}
        return frozenset(paid)

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
        voids = self._voids
        bets: dict[Point, Bet] = {}
        begun: dict[Point, int] = {}
        episodes: dict[tuple[Point, int], list[Float[np.ndarray, "m k"]]] = {}
        starts = tests = 0
        for tried in self.history.trials.values():
            center, number = tried.center, tried.asked_number
            if number <= self._limited_at:
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

    @cached_property
    def admitted(self) -> frozenset[Point]:
        """Targets that may be served: paid or certified, whatever is promised."""
        needs_no_bet = self.problem.promise == "trial" or all(self.sure)
        return self.paid if needs_no_bet else self.certified

    @property
    def _limited_at(self) -> int:
        return self.history.limited[-1][0] if self.history.limited else 0

    @property
    def _fresh_from(self) -> int:
        """Number of the event that voided what was paid before."""
        return max(self._limited_at, max((number for number, _ in self.breaches), default=0))

    @property
    def _voids(self) -> list[int]:
        """Numbers of all events that voided bets when they came, those that were taken back included."""
        back = [tried for tried in self.history.told if tried.retracted is not None]
        over = [tried.told_number for tried in back if self._over(replace(tried, told=tried.first_told))]
        return [*(number for number, _ in self.breaches), *over]

    @cached_property
    def _largest(self) -> Float[np.ndarray, " k"]:
        return _largest_seen(self.history, len(self.problem.limits))

    @cached_property
    def _broken(self) -> tuple[bool, ...]:
        """For each cost, whether an episode cost more than the problem allows."""
        return tuple(bool(self.breaches) and bool(over) for over in self._largest > self._least_allowed)

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


def believed(records: Sequence[Record]) -> Beliefs:
    """Return the beliefs that the records of a run lead to.

    Raises:
        JournalError: If they are no record of a search.
    """
    problem, history = opened_problem(records), History()
    books = Books(problem)
    for record in records:
        problem = step(record, history, books, problem)
    return Beliefs(problem, history, books.account)


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


def step(record: Record, history: History, books: Books, problem: Problem) -> Problem:
    """Fold one event into the facts and the books, and return the problem from then on."""
    history.apply(record)
    if isinstance(record.event, e.Limited):
        named = [problem.target(start) for start in record.event.starts]
        problem = problem.with_limits(record.event.limits, named or None)
    books.apply(record, history, problem)
    return problem


def _new_account(problem: Problem) -> Account | None:
    if problem.promise != "total":
        return None
    assert problem.bounds is not None
    return Account.begin(problem.limits, problem.bounds)


def _bounds(problem: Problem, seen: Float[np.ndarray, " k"]) -> tuple[float, ...]:
    assert problem.bounds is not None
    return tuple(max(bound, float(x)) for bound, x in zip(problem.bounds, seen, strict=True))


def _largest_seen(history: History, costs: int) -> Float[np.ndarray, " k"]:
    """Return the largest cost of an episode that counts."""
    largest = np.zeros(costs)
    for tried in history.told:
        largest = np.maximum(largest, tried.largest)
    for service in history.services:
        largest = np.maximum(largest, service.largest)
    return largest


def _costs(episodes: Sequence[e.Episode]) -> Float[np.ndarray, "m k"]:
    return np.array(episodes, dtype=np.float64)[:, 1:]
