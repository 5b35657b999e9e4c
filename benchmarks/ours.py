"""lifesafe as a contestant: `tell` and `ask`, in memory.

Two runs are timed, as a decision costs more while exploring. *Exploring*: with the largest reach of a few
with which there is still something to expand to after 50 trials; the larger the reach, the more there is to
search. *Maximizing*: the default schedule but for the number of trials. Our optimizer chooses its own trials;
the first 50 of the exploring run are the observations that the rivals get. Each measurement is the run's next
trial, from the 51st on; a run that has left its stage starts again.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np

import scene
from lifesafe import Problem, Returns, SafeOptimizer, Schedule, Stage
from lifesafe.optimizer import Prior, Priors
from rivals.protocol import serve, timed

TRIALS = 100
REACHES = (0.1, 0.05, 0.03, 0.02, 0.01)  # the default first


def problem(candidates: int) -> Problem:
    """Return the scene as a problem."""
    rewards, limit, lengths = scene.REWARDS[1] - scene.REWARDS[0], scene.LIMIT, scene.LENGTHSCALES
    priors = Priors(
        reward=Prior(mean="target", kernel="matern32", lengthscales=lengths, sd=scene.SD[0] / rewards),
        cost=Prior(mean="limit", kernel="matern32", lengthscales=lengths, sd=scene.SD[1] / limit),
    )
    return Problem(candidates=scene.targets(candidates), seeds=(0,), limits=(limit,), delta=0.05, priors=priors)


class Run:
    """One optimizer that goes on from trial to trial, each of them timed; it begins with 50."""

    def __init__(self, candidates: int, schedule: Schedule) -> None:
        self.schedule, self.shape = schedule, scene.SHAPES[candidates]
        self.optimizer = SafeOptimizer(problem(candidates), schedule)
        self.generator = np.random.default_rng(0)
        self.trial = self.optimizer.ask()
        self.indices: list[int] = []
        self.means: list[list[float]] = []
        self.tells: list[float] = []
        self.asks: list[float] = []
        for _ in range(scene.OBSERVATIONS):
            self.step()

    def step(self) -> None:
        """Run the open trial, tell it and ask for the next."""
        assert self.trial is not None
        place = np.array(np.unravel_index(self.trial.index, self.shape))
        episodes = scene.run(place / np.subtract(self.shape, 1), self.generator)
        self.indices.append(self.trial.index)
        self.means.append(episodes.mean(axis=0).tolist())
        returns = [Returns(reward, cost) for reward, cost in episodes.tolist()]
        _, tell = timed(lambda: self.optimizer.tell(self.trial, returns))
        self.trial, ask = timed(self.optimizer.ask)
        self.tells.append(tell)
        self.asks.append(ask)

    def is_in(self, stage: Stage) -> bool:
        return self.trial is not None and self.trial.stage is stage


class LifesafeContestant:
    """The two runs."""

    def versions(self) -> dict[str, str]:
        return {name: version(name) for name in ("lifesafe", "numpy", "scipy")}

    def prepare(self, candidates: int) -> dict[str, Any]:
        """Begin both runs and return what the rivals are to observe."""
        self.candidates = candidates
        exploring, maximizing = exploring_run(candidates), Run(candidates, Schedule(trials=TRIALS))
        self.runs = {"exploring": exploring, "maximizing": maximizing}
        return {
            "measures": list(self.runs),
            "facts": {
                "safe while exploring": int(exploring.optimizer.safe.sum()),
                "reach": exploring.schedule.reach,
            },
            "once": {
                "slowest tell of 50": max(exploring.tells + maximizing.tells),
                "slowest ask of 50": max(exploring.asks + maximizing.asks),
            },
            "indices": exploring.indices,
            "means": exploring.means,
        }

    def measure(self, what: str) -> dict[str, Any]:
        stage = Stage.EXPLORE if what == "exploring" else Stage.MAXIMIZE
        run = self.runs[what]
        run.step()
        if not run.is_in(stage):
            run = self.runs[what] = Run(self.candidates, run.schedule)
            run.step()
        if not run.is_in(stage):
            raise RuntimeError(f"no run is {what} after {len(run.indices)} trials; change the scene")
        tell, ask = run.tells[-1], run.asks[-1]
        return {"rows": {f"tell, {what}": tell, f"ask, {what}": ask, f"ask + tell, {what}": tell + ask}}


def exploring_run(candidates: int) -> Run:
    """Return the run with the largest reach that still explores when it is to be timed."""
    for reach in REACHES:
        run = Run(candidates, Schedule(trials=TRIALS, exploration=TRIALS, reach=reach))
        if run.is_in(Stage.EXPLORE):
            run.step()
            if run.is_in(Stage.EXPLORE):
                return Run(candidates, run.schedule)
    raise RuntimeError(f"no run explores after {scene.OBSERVATIONS} trials; change the scene")


if __name__ == "__main__":
    serve(LifesafeContestant())
