"""One default for everybody: Python, the shell and a life take the same decisions from the same inputs."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jaxtyping
import pytest

from lifesafe.cli import main
from lifesafe.data import Dataset
from lifesafe.data.dsrl import write_dsrl
from lifesafe.journal import JOURNAL, read_records
from lifesafe.journal import events as e
from lifesafe.life import Search
from lifesafe.preparation.logs import problem_from_logs
from lifesafe.returns import Returns
from lifesafe.safety import SafeOptimizer
from small_life import data, small_life

LIMIT, SEED = 20.0, 2
SEARCHES: dict[str, dict[str, Any]] = {
    "trial": {"episodes": 80},
    "trial with a stop": {"episodes": 80, "stop_at": 40.0},
    "trial with incidents": {"episodes": 80, "incident": 30.0, "delta": 0.05},
    "total": {"episodes": 40, "stop_at": 30.0, "promise": "total"},
}
TASK: dict[str, Any] = {"largest_step": 1.0, "largest": 200.0, "seed": SEED}
"""What a life knows from its task and its seed."""


@pytest.fixture(autouse=True)
def _without_checks_of_shapes() -> None:
    """Four whole searches, three times each: other tests check the shapes of what they do."""
    jaxtyping.config.update("jaxtyping_disable", True)


class Python:
    """SafeOptimizer, in memory."""

    def __init__(self, logs: Dataset, settings: dict[str, Any]) -> None:
        self.optimizer = SafeOptimizer(problem_from_logs(logs, limits=LIMIT, **settings))

    def ask(self) -> list[Returns] | None:
        trial = self.optimizer.ask()
        return None if trial is None else list(trial.targets)  # type: ignore[arg-type]

    def tell(self, episodes: Sequence[e.EpisodeReturns]) -> None:
        trial = self.optimizer.open_trial
        assert trial is not None
        self.optimizer.tell(trial, [Returns(reward, costs) for reward, *costs in episodes])

    def best(self) -> list[float] | None:
        return None if self.optimizer.best is None else list(self.optimizer.best.point)


class Shell:
    """`lifesafe ask` and `lifesafe tell`."""

    def __init__(
        self, place: Path, logs: Dataset, settings: dict[str, Any], output: pytest.CaptureFixture[str]
    ) -> None:
        self.run, self.file, self._output, self._trial = str(place / "run"), place / "told.json", output, 0
        write_dsrl(logs, place / "logs.hdf5")
        self._begin = ["--data", str(place / "logs.hdf5"), "--limit", str(LIMIT)]
        for name, value in settings.items():
            self._begin += [f"--{name.replace('_', '-')}", str(value)]

    def ask(self) -> list[Returns] | None:
        found = self._call("ask", self.run, *self._begin)
        self._begin, self._trial = [], found["trial"]
        if self._trial is None:
            return None
        return [Returns(target["reward"], target["costs"]) for target in found["targets"]]

    def tell(self, episodes: Sequence[e.EpisodeReturns]) -> None:
        self.file.write_text(json.dumps([{"reward": reward, "costs": costs} for reward, *costs in episodes]))
        self._call("tell", self.run, str(self.file), "--trial", str(self._trial), "--early", "--json")

    def best(self) -> list[float] | None:
        best = self._call("ask", self.run)["best"]
        return None if best is None else [best["target"]["reward"], *best["target"]["costs"]]

    def _call(self, *words: str) -> dict[str, Any]:
        assert main(list(words)) == 0
        found: dict[str, Any] = json.loads(self._output.readouterr().out)
        return found


def decisions(optimizer: SafeOptimizer) -> list[e.Asked]:
    """Return all that was decided: targets and their order, charges, allowances and forecasts."""
    return [tried.asked for tried in optimizer.history.trials.values()]


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_python_the_shell_and_a_life_take_the_same_decisions(
    tmp_path: Path, search: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with small_life(tmp_path / "life", limit=LIMIT, seed=SEED, search=Search(**search)) as life:
        life.optimize()
        lived = life.optimizer
        point, problem = None if lived.best is None else list(lived.best.point), lived.problem
    python = Python(data(), search | TASK)
    shell = Shell(tmp_path, data(), search | TASK, capsys)
    assert python.optimizer.problem.fingerprint == problem.fingerprint
    for tried in lived.history.told:
        wanted = [problem.target(target) for target in tried.points]
        for door in (python, shell):
            assert door.ask() == wanted
            door.tell(tried.told or ())
    for door in (python, shell):
        assert door.ask() is None
        assert door.best() == point
    told = SafeOptimizer.replay(read_records(tmp_path / "run" / JOURNAL))
    assert told.problem.fingerprint == problem.fingerprint
    assert decisions(python.optimizer) == decisions(told) == decisions(lived)
    assert len(decisions(lived)) > 3
