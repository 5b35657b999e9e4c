"""Workers: whatever happens to them, the steps are the same, and the caller is told."""

import logging
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from acting import Drift, Faulty, drift_task, feedback, targets
from lifesafe.errors import ConfigError, EpisodeError
from lifesafe.lab.collection.workers import Workers
from lifesafe.returns import Returns
from lifesafe.systems import Task, open_vector, rollout
from lifesafe.systems.worker import Worker

SEEDS = [11, 12, 13, 14, 15]
UNHARMED = drift_task()


def run(task: Task, *, timeout: float = 60.0) -> tuple[list[Returns], int]:
    vector = Workers(task, 3, workers=2, timeout=timeout)
    try:
        done = rollout(feedback(task), vector, targets(5), SEEDS)
        return done.returns, done.replaced
    finally:
        vector.close()


@pytest.fixture(scope="module")
def undisturbed() -> list[Returns]:
    return rollout(feedback(UNHARMED), open_vector(UNHARMED, 3), targets(5), SEEDS).returns


@pytest.mark.parametrize(
    ("fault", "timeout", "reason"),
    [
        ("kill", 60.0, "signal 9 ended it"),
        ("raise", 60.0, "the gripper is stuck"),
        ("hang", 1.0, "it said nothing for "),
    ],
)
def test_a_lost_worker_is_replaced_and_nothing_is_lost(
    fault: str,
    timeout: float,
    reason: str,
    undisturbed: list[Returns],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    task = drift_task(Faulty(fault, seed=14, mark=str(tmp_path / "mark")))
    with (
        caplog.at_level(logging.WARNING),
        pytest.warns(RuntimeWarning, match=r"worker process\(es\) crashed or hung and were replaced"),
    ):
        returns, replaced = run(task, timeout=timeout)
    assert (tmp_path / "mark").exists()
    assert returns == undisturbed
    assert replaced >= 1  # a busy machine may be silent for a second, too
    assert "of task Drift is replaced" in caplog.text
    assert reason in caplog.text


def test_a_worker_killed_between_two_steps_is_replaced() -> None:
    vector = Workers(UNHARMED, 3, workers=1)
    expected = open_vector(UNHARMED, 3)
    rows, actions = np.arange(3), np.full((3, 2), 0.9)
    assert np.array_equal(vector.reset(rows, [1, 11, 12]), expected.reset(rows, [1, 11, 12]))
    for _ in range(3):
        assert np.array_equal(vector.step(rows, actions).rewards, expected.step(rows, actions).rewards)
    (pid,) = vector.pids
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    # One row begins anew, the others go on from where they were.
    assert np.array_equal(vector.reset(rows[:1], [9]), expected.reset(rows[:1], [9]))
    assert np.array_equal(vector.step(rows, actions).observations, expected.step(rows, actions).observations)
    assert vector.replaced == 1
    vector.close()


def test_an_episode_that_always_fails_is_given_up_with_the_reason() -> None:
    task = drift_task(Faulty("raise", seed=14))
    with pytest.raises(EpisodeError, match=r"Task 'Drift' lost 3 workers at the same step(.|\n)*the gripper is stuck"):
        run(task)


def test_a_mistake_of_the_caller_is_told_and_not_repeated() -> None:
    vector = Workers(drift_task(limits=(1.0,), largest_costs=(1.0,)), 1, workers=1)
    vector.reset(np.array([0]), [0])
    with pytest.raises(ConfigError, match=r"has 1 limit\(s\), but its environment gives costs of shape \(2,\)"):
        vector.step(np.array([0]), np.zeros((1, 2)))
    assert vector.replaced == 0
    vector.close()


def test_an_interrupted_step_leaves_no_answers_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    vector, expected = Workers(UNHARMED, 2, workers=1), open_vector(UNHARMED, 2)
    rows = np.arange(2)
    vector.reset(rows, [1, 11])
    with monkeypatch.context() as patch:
        patch.setattr(Worker, "receive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            vector.step(rows, np.ones((2, 2)))
    assert np.array_equal(vector.reset(rows, [11, 12]), expected.reset(rows, [11, 12]))
    vector.close()


def interrupted(worker: Worker, steps: int) -> None:
    raise KeyboardInterrupt


class Slow(Drift):
    """Takes half a second to be made."""

    def __init__(self) -> None:
        time.sleep(0.5)


def test_time_is_given_for_each_environment_of_a_worker() -> None:
    vector = Workers(drift_task(Slow), 4, workers=1, timeout=1.0)
    vector.reset(np.arange(4), [1, 2, 3, 4])
    assert vector.replaced == 0
    vector.close()


def test_what_cannot_be_sent_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Cannot send this to a worker process.*or use workers = 0"):
        Workers(drift_task(lambda: None), 1, workers=1)


def test_closed_environments_say_so() -> None:
    vector = Workers(UNHARMED, 1, workers=1)
    (pid,) = vector.pids
    vector.close()
    with pytest.raises(ConfigError, match="These environments are closed; open new ones"):
        vector.reset(np.array([0]), [0])
    with pytest.raises(ProcessLookupError):
        os.kill(pid or 0, 0)


def test_a_script_without_its_guard_is_told(tmp_path: Path) -> None:
    import subprocess
    import sys

    script = tmp_path / "script.py"
    script.write_text(
        "from lifesafe.lab.collection.workers import Workers\n"
        "from lifesafe.systems import task\n"
        "import numpy as np\n"
        "Workers(task('PointCircle'), 1, workers=1).reset(np.array([0]), [0])\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert 'must do so under `if __name__ == "__main__":`' in done.stderr
