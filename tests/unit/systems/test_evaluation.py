"""Evaluation: the same returns in this process and in any number of workers, whatever happens to them."""

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acting import Drift, Faulty, drift_task, feedback, targets
from lifesafe._random import integer
from lifesafe.errors import ConfigError, EpisodeError, TrialError
from lifesafe.interfaces import Progress
from lifesafe.returns import Returns
from lifesafe.systems import Evaluator, Rollout, evaluate, evaluate_many, open_vector, rollout, task
from lifesafe.systems.evaluation import episode_seeds


@dataclass(frozen=True)
class Flaky:
    """Makes a Drift some of whose episodes end their process, each so many times."""

    faults: dict[int, int]  # by the seed of the episode
    marks: Path  # where each fault leaves a file

    def __call__(self) -> Drift:
        return _FlakyDrift(self)


class _FlakyDrift(Drift):
    def __init__(self, flaky: Flaky) -> None:
        self._flaky = flaky

    def step(self, action: np.ndarray) -> Any:
        seed = self.episode_seed or 0
        done = len(list(self._flaky.marks.glob(f"{seed}-*")))
        if self.steps == 0 and done < self._flaky.faults.get(seed, 0):
            (self._flaky.marks / f"{seed}-{done}").touch()
            os._exit(3)
        return super().step(action)


class Slow(Drift):
    """Takes half a second to be made."""

    def __init__(self) -> None:
        time.sleep(0.5)


class Leaving(Drift):
    """Leaves a file when it is closed."""

    def close(self) -> None:
        Path("closed").touch()


DRIFT = drift_task()
POLICY = feedback(DRIFT)
TARGET = Returns(30.0, (3.0, 3.0))


def alone(asked: list[Returns], seeds: Sequence[int], *, record: bool = False) -> Rollout:
    """Run episodes in this process, without an evaluator."""
    return rollout(POLICY, open_vector(DRIFT, 4), asked, seeds, record=record)


def test_episodes_have_the_seeds_they_are_said_to_have() -> None:
    seeds = [integer(5, "evaluate", number) for number in range(4)]
    expected = alone([TARGET] * 4, seeds).returns
    assert evaluate(POLICY, DRIFT, TARGET, 4, seed=5) == expected
    assert evaluate(POLICY, DRIFT, TARGET, 4, seed=6) != expected
    assert len(evaluate(POLICY, DRIFT, TARGET)) == 20
    several = evaluate_many(POLICY, DRIFT, targets(3), 4)
    assert several == [evaluate(POLICY, DRIFT, target, 4) for target in targets(3)]


def test_the_number_of_workers_and_rows_changes_nothing_and_progress_is_told() -> None:
    asked, seeds = targets(13), list(range(13))
    expected = alone(asked, seeds, record=True)
    for workers, rows in ((0, 2), (1, 4), (2, 3)):
        told: list[Progress] = []
        with Evaluator(POLICY, DRIFT, workers=workers, rows=rows) as evaluator:
            assert evaluator.run(asked, seeds, progress=told.append).returns == expected.returns
            assert evaluator.run(asked[:1], seeds[:1]).returns == expected.returns[:1], "fewer episodes than workers"
            again = evaluator.run(asked, seeds, record=True)
            assert again.dataset.fingerprint == expected.dataset.fingerprint, "an open evaluator has no memory"
        evaluator.close()
        with pytest.raises(ConfigError, match="This evaluator is closed; open a new one"):
            evaluator.run([TARGET], [0])
        assert [state.done for state in told] == sorted({state.done for state in told})
        assert (told[-1].doing, told[-1].done, told[-1].total) == ("episodes", 13, 13)
        assert told[-1].figures["steps"] == expected.steps


def test_an_episode_ends_at_the_stop_in_a_worker_too() -> None:
    returns = [evaluate(POLICY, DRIFT, TARGET, 6, workers=workers, stop_at=[2, 50]) for workers in (0, 1)]
    assert returns[0] == returns[1]
    assert max(each.costs[0] for each in returns[0]) == 2.0


def test_a_killed_worker_changes_nothing_but_for_a_warning() -> None:
    hopper = task("HopperVelocity")
    policy, asked, seeds, killed = feedback(hopper), [Returns(1000.0, 10.0)] * 40, list(range(40)), list[int]()

    def kill(state: Progress) -> None:
        if not killed:
            killed.append(evaluator.pids[0] or 0)
            os.kill(killed[0], signal.SIGKILL)

    with Evaluator(policy, hopper) as here:
        expected = here.run(asked, seeds).returns
    with Evaluator(policy, hopper, workers=2, rows=2) as evaluator:
        with pytest.warns(RuntimeWarning, match=r"Worker processes crashed or hung 1 time\(s\) and were started again"):
            done = evaluator.run(asked, seeds, progress=kill)
        assert killed[0] not in evaluator.pids
    assert done.returns == expected


@pytest.mark.parametrize(
    ("fault", "timeout", "reason"),
    [
        ("kill", 60.0, "signal 9 ended a worker"),
        ("hang", 2.0, "a worker took longer than 2 s an episode"),
        ("raise", 60.0, "a worker raised OSError: the gripper is stuck"),
    ],
)
def test_what_crashes_hangs_or_fails_once_is_run_again_and_the_log_says_why(
    fault: str, timeout: float, reason: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    faulty = drift_task(Faulty(fault, seed=2, mark=str(tmp_path / "mark")))
    with (
        caplog.at_level(logging.WARNING),
        pytest.warns(RuntimeWarning, match="was run again from its seeds"),
        Evaluator(POLICY, faulty, workers=1, timeout=timeout) as evaluator,
    ):
        returns = evaluator.run([TARGET] * 3, [0, 1, 2]).returns
    assert returns == alone([TARGET] * 3, [0, 1, 2]).returns
    assert f"The workers of task Drift are started again, 3 episodes are run again: {reason}" in caplog.text


@pytest.mark.parametrize("faults", [(1, 1, 1), (3, 0, 1)])
def test_faults_of_several_episodes_are_not_added_up(faults: tuple[int, ...], tmp_path: Path) -> None:
    flaky = Flaky(dict(zip(episode_seeds(0, 3), faults, strict=True)), tmp_path)
    with pytest.warns(RuntimeWarning, match=rf"crashed or hung {sum(faults)} time\(s\)"):
        returns = evaluate(POLICY, drift_task(flaky), TARGET, 3, workers=1)
    assert returns == evaluate(POLICY, DRIFT, TARGET, 3)
    assert len(list(tmp_path.iterdir())) == sum(faults)


@pytest.mark.parametrize(("episodes", "faults"), [(1, 3), (3, 4)])
def test_an_episode_is_given_up_after_three_faults_of_its_own(episodes: int, faults: int, tmp_path: Path) -> None:
    """In company nobody knows whose fault it was."""
    last = episode_seeds(0, episodes)[-1]
    message = rf"task 'Drift' with seed {last} failed 3 times by itself: a worker ended with exit code 3\."
    with pytest.raises(EpisodeError, match=message):
        evaluate(POLICY, drift_task(Flaky({last: 99}, tmp_path)), TARGET, episodes, workers=1)
    assert len(list(tmp_path.iterdir())) == faults


def test_a_mistake_of_the_caller_is_told_and_not_repeated(caplog: pytest.LogCaptureFixture) -> None:
    one_cost = drift_task(limits=(1.0,), largest_costs=(1.0,))
    with pytest.raises(ConfigError, match=r"has 1 limit\(s\), but its environment gives costs of shape \(2,\)"):
        evaluate(feedback(one_cost), one_cost, Returns(1.0, 1.0), 2, workers=1)
    assert "started again" not in caplog.text


def test_time_is_given_for_each_episode_side_by_side() -> None:
    with Evaluator(POLICY, drift_task(Slow), workers=1, timeout=1.0) as evaluator:
        assert len(evaluator.run([TARGET] * 4, range(4)).returns) == 4  # a restart would be a warning, here an error


def test_an_evaluator_works_on_after_a_failure_and_after_an_interrupt() -> None:
    def interrupt(state: Progress) -> None:
        raise KeyboardInterrupt

    with Evaluator(POLICY, drift_task(Faulty("raise", seed=2)), workers=2, rows=2) as evaluator:
        with pytest.raises(EpisodeError, match=r"with seed 2 failed 3 times by itself.*the gripper is stuck"):
            evaluator.run([TARGET] * 5, range(5))
        assert evaluator.run([TARGET] * 2, [0, 1]).returns == alone([TARGET] * 2, [0, 1]).returns
        with pytest.raises(KeyboardInterrupt):
            evaluator.run([TARGET] * 9, range(3, 12), progress=interrupt)
        assert evaluator.run([TARGET], [3]).returns == alone([TARGET], [3]).returns


def test_a_worker_that_hangs_is_told_of_with_what_helps() -> None:
    words = r"longer than 0\.5 s an episode; .* give a larger timeout, or workers = 0, which waits as long as it takes"
    hanging = drift_task(Faulty("hang", seed=7))
    with Evaluator(POLICY, hanging, workers=1, timeout=0.5) as evaluator, pytest.raises(EpisodeError, match=words):
        evaluator.run([TARGET], [7])


def test_workers_close_their_environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    evaluate(POLICY, drift_task(Leaving), TARGET, 1, workers=1)
    assert Path("closed").exists()


def script(place: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Run a script, to the end of its standard output: its workers hold that too."""
    (place / "script.py").write_text("import os, signal\nfrom acting import *\nfrom lifesafe.systems import *\n" + text)
    found = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, place / "script.py"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=found, check=False)


def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    done = script(
        tmp_path,
        "if __name__ == '__main__':\n"
        "    evaluator = Evaluator(feedback(drift_task()), drift_task(), workers=2)\n"
        "    print(len(evaluator.run(targets(4), range(4)).returns), flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n",
    )
    assert (done.stdout, done.returncode) == ("4\n", -signal.SIGKILL)


def test_a_script_without_its_guard_is_told(tmp_path: Path) -> None:
    done = script(tmp_path, "evaluate_many(feedback(drift_task()), drift_task(), targets(2), 1, workers=1)\n")
    assert done.returncode != 0
    assert 'must do so under `if __name__ == "__main__":`' in done.stderr


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"workers": -1}, "needs workers >= 0, rows >= 1 and timeout > 0"),
        ({"rows": 0}, "needs workers >= 0, rows >= 1 and timeout > 0"),
        ({"timeout": 0.0}, "needs workers >= 0, rows >= 1 and timeout > 0"),
        ({"stop_at": [0.0, 1.0]}, "stop_at must be positive; got"),
        ({"stop_at": [1.0, 1.0, 1.0]}, "Got 3 numbers as stop_at for 2 costs; give one per cost"),
        ({"stop_at": "much"}, "stop_at must be a number"),
        ({"task": drift_task(lambda: None), "workers": 1}, r"Cannot send this to a worker process.*or use workers = 0"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Evaluator(**{"policy": POLICY, "task": DRIFT, **settings})


def test_no_episode_and_no_target_are_refused() -> None:
    with pytest.raises(ConfigError, match="Give at least 1 episode; got 0"):
        evaluate(POLICY, DRIFT, TARGET, 0)
    with pytest.raises(ConfigError, match="Got 0 targets"):
        evaluate_many(POLICY, DRIFT, [])
    with pytest.raises(TrialError, match=r"The target Returns\(.*\) asks for 1 costs, the task has 2"):
        evaluate(POLICY, DRIFT, Returns(1.0, 1.0), workers=1)
