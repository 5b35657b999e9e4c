"""Runs of every kind that a report meets, made in a second or two from simulated systems."""

import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np

from lifesafe._config import toml_text
from lifesafe.errors import GuaranteeWarning, NoSafeTargetError
from lifesafe.operation import Operation
from lifesafe.returns import Returns
from lifesafe.safety import Problem, SafeOptimizer, Trial
from lifesafe.safety.problem import Target

System = Callable[[Trial], list[Returns]]
LIMIT = 20.0


def problem(**settings: Any) -> Problem:
    """Return the problem of `system`: one cost, with a stop unless told otherwise."""
    box = {"axes": {"reward": (0, 500), "cost": (0, 60)}, "starts": [Returns(200, 2)], "limits": LIMIT}
    return Problem(**({"stop_at": 60.0, "episodes": 120} | box | settings))


def episode(rng: np.random.Generator, reward: float, mean: float, stop: float = 61.0) -> Returns:
    """Return an episode whose cost comes in lumps of four, up to a stop."""
    return Returns(float(rng.normal(reward, 12)), min(4.0 * rng.poisson(max(mean, 0.0) / 4), stop))


def means(target: Target) -> tuple[float, float]:
    """Return mean reward and mean cost of a target of returns: eager targets cost more than they say."""
    assert isinstance(target, Returns)
    return min(target.reward, 260 + 4 * target.costs[0]), 1 + 0.4 * target.costs[0] + 9 * (target.reward / 500) ** 2


def system(seed: int = 0, stop: float = 61.0) -> System:
    rng = np.random.default_rng(seed)
    return lambda trial: [episode(rng, *means(target), stop) for target in trial.targets]


def search(optimizer: SafeOptimizer, run: System, trials: int = 10**6) -> None:
    """Run trials until the search is over or held, or so many were told."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuaranteeWarning)
        while trials > 0 and (trial := optimizer.ask()):
            optimizer.tell(trial, run(trial))
            trials -= 1


def serve(operation: Operation, mean: float, episodes: int, seed: int) -> None:
    """Serve episodes of some mean cost, until there are enough or operation halts."""
    rng = np.random.default_rng(seed)
    while episodes > 0 and operation.target is not None:
        operation.tell([episode(rng, 300.0, mean) for _ in range(5)])
        episodes -= 5


def searched(path: Path, run: System | None = None, /, **settings: Any) -> Path:
    """A whole search, and nothing else."""
    with SafeOptimizer.open(path, problem(**settings)) as optimizer:
        search(optimizer, run or system())
    return path


def short(path: Path) -> Path:
    """A search that is over soon."""
    return searched(path, episodes=50)


def begun(path: Path) -> Path:
    """Opened, and nothing tried yet."""
    SafeOptimizer.open(path, problem()).close()
    return path


def asked(path: Path) -> Path:
    """A first trial is under way."""
    with SafeOptimizer.open(path, problem()) as optimizer:
        optimizer.ask()
    return path


def operated(path: Path, task: str = "PointCircle") -> Path:
    """A life in operation without an alarm, with a run.toml."""
    manifest = {
        "run": {"task": task, "limits": [LIMIT], "seed": 0, "delta": 0.1, "start": "data"},
        "data": {"fingerprint": "8080087c" * 8},
        "policy": {"kind": "CDT", "config": {"steps": 600}},
        "versions": {"python": "3.11", "lifesafe": "0.1.0"},
    }
    _then(short(path), lambda operation: serve(operation, 12.0, 40, seed=0))
    (path / "run.toml").write_text(toml_text(manifest), encoding="utf-8")
    return path


def alarmed(path: Path) -> Path:
    """The cost rises in operation: an alarm, a fallback, and quiet afterwards."""

    def story(operation: Operation) -> None:
        serve(operation, 12.0, 60, seed=0)
        first = operation.target
        while operation.target == first:
            serve(operation, 44.0, 5, seed=operation.episodes)
        serve(operation, 3.0, 60, seed=1)

    return _then(searched(path), story)


def halted(path: Path) -> Path:
    """The cost rises and stays high whatever is served: alarms, fallbacks, a halt."""

    def story(operation: Operation) -> None:
        serve(operation, 12.0, 30, seed=0)
        serve(operation, 45.0, 10_000, seed=1)
        assert operation.halted is not None

    return _then(searched(path), story)


def two_costs(path: Path) -> Path:
    """Two costs, in operation."""
    axes = {"reward": (0, 500), "cost 1": (0, 60), "cost 2": (0, 3)}
    rng = np.random.default_rng(0)

    def run(trial: Trial) -> list[Returns]:
        found = []
        for target in trial.targets:
            assert isinstance(target, Returns)
            first = rng.poisson(1 + 0.4 * target.costs[0] + target.reward / 100)
            second = rng.poisson(0.02 + 0.2 * target.costs[1])
            found.append(Returns(float(rng.normal(target.reward, 10)), (min(first, 60), min(second, 4))))
        return found

    searched(path, run, axes=axes, starts=[Returns(200, (0, 0))], limits=(LIMIT, 1.0), stop_at=(60.0, 3.0))

    def story(operation: Operation) -> None:
        for _ in range(4):
            firsts, seconds = rng.poisson(4, 5).tolist(), [0, 0, 1, 0, 0]
            operation.tell([Returns(300, pair) for pair in zip(firsts, seconds, strict=True)])

    return _then(path, story)


def knobs(path: Path) -> Path:
    """Three knobs, with an incident that is assumed."""
    return searched(
        path, _of_knobs(), axes={"speed": (0, 2, "m/s"), "gain": (0, 1), "tilt": (-1, 1)},
        starts=[{"speed": 0.5, "gain": 0.1, "tilt": 0.0}], rewards=(0, 900), stop_at=None, episodes=90,
    )  # fmt: skip


def one_knob(path: Path) -> Path:
    """One knob."""
    settings: dict[str, Any] = {"axes": {"speed": (0, 2, "m/s")}, "starts": [{"speed": 0.4}], "rewards": (0, 900)}
    return searched(path, _of_knobs(), episodes=90, **settings)


def six_knobs(path: Path) -> Path:
    """As many knobs and costs as a search may have."""
    names, rng = ("speed", "gain", "tilt", "grip", "lift", "turn"), np.random.default_rng(3)

    def run(trial: Trial) -> list[Returns]:
        found = []
        for target in trial.targets:
            assert isinstance(target, dict)
            costs = [min(float(rng.poisson(1 + 6 * value)), 31.0) for value in list(target.values())[:4]]
            found.append(Returns(float(rng.normal(150 * sum(target.values()), 20)), costs))
        return found

    return searched(
        path, run, axes=dict.fromkeys(names, (0, 1)), starts=[dict.fromkeys(names, 0.2)], rewards=(0, 900),
        limits=(12.0, 10.0, 8.0, 6.0), stop_at=30.0, episodes=80,
    )  # fmt: skip


def listed(path: Path) -> Path:
    """A finite list of targets, any episode of which may cost as much as its horizon allows."""
    targets = [Returns(reward, cost) for reward in (150, 200, 250, 300) for cost in (2, 10, 20, 30)]
    return searched(path, targets=targets, stop_at=None, incident="horizon", largest=50.0, episodes=100)


def total(path: Path) -> Path:
    """The promise on the total, with an account, in operation."""
    searched(path, system(stop=41.0), promise="total", stop_at=40.0, episodes=60)
    return _then(path, lambda operation: serve(operation, 6.0, 40, seed=2))


def sure(path: Path) -> Path:
    """The stop is so low that every single episode keeps the limit."""
    return searched(path, system(stop=19.0), stop_at=18.0, episodes=60)


def held(path: Path) -> Path:
    """A trial that was thought safe is clearly above the limit, and the search waits for somebody to confirm."""
    with SafeOptimizer.open(path, problem(stop_at=None)) as optimizer:
        search(optimizer, system(), 3)
        search(optimizer, lambda trial: [Returns(100.0, 55.0 + i % 7) for i in range(trial.episodes)], 1)
        assert optimizer.held is not None
    return path


def confirmed(path: Path) -> Path:
    """It is confirmed, and the search goes on."""
    with SafeOptimizer.open(held(path)) as optimizer:
        optimizer.confirm("a wheel was loose; it is mended")
        search(optimizer, system(1))
    return path


def breached(path: Path) -> Path:
    """The stop did not work in one episode."""
    with SafeOptimizer.open(path, problem(stop_at=40.0)) as optimizer:
        search(optimizer, system(stop=41.0), 3)
        search(optimizer, lambda trial: [Returns(200.0, 95.0), *system(5, 41.0)(trial)[1:]], 1)
    return path


def retracted(path: Path) -> Path:
    """Two trials were told wrongly; of one the true episodes are known. A trial that was open is dropped."""
    with SafeOptimizer.open(path, problem()) as optimizer:
        search(optimizer, system(), 5)
        optimizer.ask()
        optimizer.retract(3, "the log of another machine")
        optimizer.retract(4, "costs in seconds", [Returns(210.0, 4.0), Returns(190.0, 8.0)])
        search(optimizer, system(3), 3)
    return path


def other_limit(path: Path) -> Path:
    """The limit is raised after some trials."""
    with SafeOptimizer.open(path, problem(episodes=50)) as optimizer:
        search(optimizer, system())
        optimizer.change_limits(26.0)
        search(optimizer, system(1))
    return path


def failed(path: Path) -> Path:
    """Both starts cost too much: there is nothing to search from."""
    with SafeOptimizer.open(path, problem(starts=[Returns(200, 2), Returns(100, 2)])) as optimizer:
        try:
            search(optimizer, lambda trial: [Returns(1.0, 45.0)] * trial.episodes)
        except NoSafeTargetError:
            return path
    raise AssertionError("a start was trusted")


class Writer:
    """Another process that writes to a run: it tells one trial for every line it is sent, and says when it has."""

    SCRIPT = """
import sys
from pathlib import Path
from lifesafe.safety import SafeOptimizer
from report_runs import problem, search, system

run = system()
with SafeOptimizer.open(Path(sys.argv[1]), problem()) as optimizer:
    print(0, flush=True)
    for _ in sys.stdin:
        search(optimizer, run, 1)
        print(len(optimizer.trials), flush=True)
"""

    def __init__(self, run: Path) -> None:
        place = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.SCRIPT, run], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=os.environ | {"PYTHONPATH": place},
        )  # fmt: skip
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "0\n"

    def tell(self) -> int:
        """Let it run a trial, and return the number of that."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def _of_knobs() -> System:
    rng = np.random.default_rng(1)

    def run(trial: Trial) -> list[Returns]:
        found = []
        for target in trial.targets:
            assert isinstance(target, dict)
            speed, gain = target["speed"], target.get("gain", 0.3)
            found.append(episode(rng, 400 * speed + 80 * gain, 1 + 6 * speed**2 + 4 * gain))
        return found

    return run


def _then(path: Path, story: Callable[[Operation], None]) -> Path:
    with SafeOptimizer.open(path) as optimizer:
        operation = Operation(optimizer)
        operation.begin()
        story(operation)
    return path


KINDS: dict[str, Callable[[Path], Path]] = {
    made.__name__: made
    for made in (
        searched, begun, asked, operated, alarmed, halted, two_costs, knobs, one_knob, six_knobs, listed, total, sure,
        held, confirmed, breached, retracted, other_limit, failed,
    )
}  # fmt: skip
"""All of them, by name."""
