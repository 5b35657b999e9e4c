"""State of a run: a fold over its events, so that replaying them gives the same state bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from lifesafe.optimizer.certificates import EPISODES, seed_certified, violated
from lifesafe.optimizer.confidence import Confidence, allowance, confidence
from lifesafe.optimizer.posterior import Observation, Posterior
from lifesafe.optimizer.problem import Problem
from lifesafe.optimizer.schedule import Schedule, Stage
from lifesafe.optimizer.sets import lipschitz_safe_set
from lifesafe.returns import Returns

_SURPRISE = 2.5  # deviations above its prediction from which a cost is a surprise
_PROMISING = 0.85  # share of a limit up to which a seed is measured on, though it is not certified yet
_CLOSED = 0.25  # radius of what a violation closes, in reaches


@dataclass(frozen=True)
class Trial:
    """One target to be tried for some episodes."""

    number: int
    target: Returns
    index: int
    """Row of the target in the candidates."""
    stage: Stage
    episodes: int
    """Episodes asked for; any number of at least one may be told."""
    risk: float
    """Posterior probability that the target exceeds a limit, when it was asked for."""


@dataclass(frozen=True, eq=False)
class Result:
    """A trial that was told, and what it showed."""

    trial: Trial
    episodes: Float[np.ndarray, "m r"]
    innovations: tuple[float, ...]
    """Standardised difference between each mean cost and its prediction."""
    violated: bool
    """Whether the trial shows that a limit was exceeded."""


def known_now(state: State) -> Confidence:
    """Return what the real observations say at every candidate."""
    allowed = allowance(state.schedule, state.problem, state.spent, state.trial)
    return confidence(state.schedule, state.problem, state.posterior, allowed)


class State:
    """Everything a decision depends on."""

    def __init__(self, problem: Problem, schedule: Schedule) -> None:
        n = len(problem.candidates)
        self.problem, self.schedule = problem, schedule
        self.posterior = Posterior(problem)
        self.stage = Stage.SEED
        self.results: list[Result] = []
        self.open: dict[int, Trial] = {}
        self.asked = 0
        self.distance = np.full(n, np.inf)  # to the nearest tried target, largest axis difference
        self.surprises = 0
        self.withdrawn: set[int] = set()  # targets that operation raised an alarm for
        self._served: dict[int, list[Float[np.ndarray, "m r"]]] = {}  # episodes of operation, not yet in the posterior
        self._batches: dict[int, int] = {}  # how many of them make an observation
        self._begin_epoch(charged=set())

    @property
    def frozen(self) -> bool:
        """Whether surprises have stopped the search until somebody confirms."""
        return self.surprises >= self.schedule.surprises

    @property
    def holding(self) -> bool:
        """Whether a violation keeps the search to targets already tried until somebody confirms."""
        return self.schedule.on_violation == "hold" and self.refuted

    @property
    def held_by(self) -> Literal["surprises", "violation"] | None:
        """What holds up the search until somebody confirms; none if nothing does."""
        if self.frozen:
            return "surprises"
        return "violation" if self.holding else None

    @property
    def free(self) -> set[int]:
        """Seeds that may be tried at no charge: the certified ones, all if they are asserted, none that failed."""
        seeds = set(self.problem.seeds) if self.schedule.certification == "asserted" else self.certified
        return seeds - self.failed

    @property
    def trial(self) -> int:
        """Number of the coming trial since the limits were last set, from 1."""
        return self.asked - self._epoch_start + 1

    @property
    def seed(self) -> int | None:
        """The seed to be measured next, of those that have not failed; none if there is none.

        The first one, then the cheapest so far, as long as it looks as if it can be certified. If it does not, the
        first of those not tried yet that are nearer to it than to one that costs more: which way costs fall is not
        known beforehand. What lies beyond one that costs more is not tried.
        """
        left = [i for i in self.problem.seeds if i not in self.failed | self.withdrawn]
        shares = self._seed_shares()
        new = [i for i in left if i not in shares]
        if shares:
            cheapest = min(shares, key=lambda i: shares[i])
            if cheapest in left and shares[cheapest] <= _PROMISING:
                return cheapest
            near = [i for i in new if all(self._apart(i, cheapest) <= self._apart(i, j) for j in shares)]
            if near:
                return near[0]
            tried = [i for i in left if i in shares]
            return min(tried, key=lambda i: shares[i]) if tried else None
        return next(iter(new), None)

    def ask(self, trial: Trial) -> None:
        """Open a trial and charge its risk."""
        self.asked = trial.number
        self.open[trial.number] = trial
        self.stage = trial.stage
        self.explored += trial.stage is Stage.EXPLORE
        if trial.stage is not Stage.SEED and trial.index not in self.free | self.charged:
            self.spent += trial.risk
            self.charged.add(trial.index)

    def tell(self, number: int, episodes: Float[np.ndarray, "m r"]) -> Result:
        """Close a trial with the returns of its episodes."""
        trial = self.open.pop(number)
        innovations = self.posterior.observe(Observation(trial.index, episodes))
        X = self.problem.scaled
        np.minimum(self.distance, np.abs(X - X[:, [trial.index]]).max(axis=0), out=self.distance)
        bad = violated(self.problem, self.posterior, episodes)
        if bad:
            self._close(trial.index)
            self.exceeded = True
            self.refuted |= trial.stage is not Stage.SEED
        if len(self.results) and max(innovations) > _SURPRISE:
            self.surprises += 1
        self._judge_seed(trial, bad)
        if self.problem.lipschitz:
            self._grow_lipschitz_set()
        self.results.append(Result(trial, episodes, innovations, bad))
        return self.results[-1]

    def operate(self, kind: str, body: Mapping[str, Any]) -> None:
        """Take note of an event of operation."""
        if kind == "served":
            self.serve(body["index"], np.array(body["episodes"], dtype=np.float64))
        elif kind == "alarm":
            self.withdraw(body["index"])

    def serve(self, index: int, episodes: Float[np.ndarray, "m r"]) -> None:
        """Learn from episodes of operation.

        They become observations in batches that double: operation may last for ever, the posterior must stay small.
        """
        waiting = self._served.setdefault(index, [])
        waiting.append(episodes)
        batch = self._batches.setdefault(index, self.schedule.episodes)
        if sum(map(len, waiting)) >= batch:
            self.posterior.observe(Observation(index, np.concatenate(waiting)))
            self._batches[index] = 2 * batch
            waiting.clear()

    def withdraw(self, index: int) -> None:
        """Never try or recommend a target again."""
        self.withdrawn.add(index)
        self.certified.discard(index)

    def confirm(self) -> None:
        """Go on after surprises, or after a violation."""
        self.surprises, self.refuted = 0, False

    def change(self, problem: Problem) -> None:
        """Go on under other limits, keeping every observation; the risk ledger starts again.

        Targets already visited stay paid for only if no limit became lower: otherwise the event to be avoided changed.
        A violation that is one under these limits, too, holds the search up as before, and a seed that shows one has
        failed.
        """
        lower = any(b < old for b, old in zip(problem.limits, self.problem.limits, strict=True))
        held, self.problem = self.refuted, problem
        self._begin_epoch(charged=set() if lower else self.charged | self.certified)
        for result in self.results:
            if violated(problem, self.posterior, result.episodes):
                self._close(result.trial.index)
                self.exceeded |= result.violated  # no trial was wrong that kept the limits of its time
                self.refuted |= held and result.violated and result.trial.stage is not Stage.SEED
        for index in problem.seeds:
            own = self.posterior.own_episodes(index)
            if len(own) and violated(problem, self.posterior, own):
                self.failed.add(index)
            elif index not in self.withdrawn and seed_certified(problem, self.schedule, self.posterior, index):
                self._accept(index)

    def pretended(self) -> Posterior:
        """Return the posterior as if every open trial had come out as predicted; it only spreads the choice."""
        if not self.open:
            return self.posterior
        posterior = self.posterior.copy()
        for trial in self.open.values():
            posterior.pretend(trial.index, trial.episodes)
        return posterior

    def _begin_epoch(self, charged: set[int]) -> None:
        self.spent, self.charged = 0.0, set(charged)
        self.certified: set[int] = set()
        self.failed: set[int] = set()
        self.explored = 0
        self.exceeded = False  # whether a trial exceeded a limit, then and now
        self.refuted = False  # whether one did so that was thought to be safe
        self.stage = Stage.SEED
        self.closed = np.zeros(len(self.problem.candidates), dtype=bool)
        self.lipschitz_set = np.zeros(len(self.problem.candidates), dtype=bool)
        self.lipschitz_set[list(self.free)] = True
        self._epoch_start = self.asked

    def _seed_shares(self) -> dict[int, float]:
        """Return the share of its limit that the mean cost of each seed tried takes, the largest of all costs."""
        limits, shares = np.array(self.problem.limits), {}
        for index in self.problem.seeds:
            episodes = [result.episodes for result in self.results if result.trial.index == index]
            if episodes:
                shares[index] = float((np.concatenate(episodes)[:, 1:].mean(axis=0) / limits).max())
        return shares

    def _apart(self, i: int, j: int) -> float:
        return float(np.abs(self.problem.scaled[:, i] - self.problem.scaled[:, j]).max())

    def _judge_seed(self, trial: Trial, bad: bool) -> None:
        index, schedule = trial.index, self.schedule
        if index not in self.problem.seeds:
            return
        own = self.posterior.own_episodes(index)
        if bad or violated(self.problem, self.posterior, own):
            self.failed.add(index)
            self.certified.discard(index)
        elif seed_certified(self.problem, schedule, self.posterior, index) and index not in self.withdrawn:
            self._accept(index)
        elif trial.stage is Stage.SEED:
            tries = sum(r.trial.index == index and r.trial.number > self._epoch_start for r in self.results)
            hopeless = violated(self.problem, self.posterior, own, share=_PROMISING)
            if hopeless or (tries + 1 >= schedule.seed_trials and len(own) >= EPISODES):
                self.failed.add(index)

    def _accept(self, index: int) -> None:
        self.certified.add(index)
        self.lipschitz_set[index] = True
        if self.stage is Stage.SEED:
            self.stage = Stage.EXPLORE

    def _grow_lipschitz_set(self) -> None:
        problem = self.problem
        slopes = np.array(problem.lipschitz) / np.array(problem.reference)
        self.lipschitz_set = lipschitz_safe_set(known_now(self), problem.scaled, self.lipschitz_set, slopes)
        self.lipschitz_set[list(self.free)] = True

    def _close(self, index: int) -> None:
        X = self.problem.scaled
        self.closed |= np.abs(X - X[:, [index]]).max(axis=0) <= _CLOSED * self.schedule.reach
