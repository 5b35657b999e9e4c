"""Environments in processes: what goes wrong in one of them is told, and nothing is left behind."""

import os
import signal

import numpy as np
import pytest

from acting import Faulty, drift_task
from lifesafe.errors import ConfigError, EpisodeError
from lifesafe.lab.collection.workers import Workers


def run(vector: Workers, steps: int = 8) -> None:
    rows = np.arange(vector.size)
    try:
        vector.reset(rows, [10, 11, 12])
        for _ in range(steps):
            vector.step(rows, np.full((vector.size, 2), 0.9))  # up, so that no episode ends
    finally:
        vector.close()


@pytest.mark.parametrize(("fault", "timeout"), [("kill", 60.0), ("hang", 3.0)])
def test_a_lost_process_ends_the_collection_with_the_way_to_go_on(fault: str, timeout: float) -> None:
    vector = Workers(drift_task(Faulty(fault, seed=11)), 3, workers=2, timeout=timeout)
    with pytest.raises(EpisodeError, match=rf"or said nothing for {timeout:g} s\. Collect again: that goes on"):
        run(vector)
    with pytest.raises(ConfigError, match="These environments are closed; open new ones"):
        vector.reset(np.array([0]), [0])


def test_an_environment_that_fails_says_why() -> None:
    with pytest.raises(EpisodeError, match="An environment failed: OSError: the gripper is stuck"):
        run(Workers(drift_task(Faulty("raise", seed=12)), 3, workers=2))


def test_a_mistake_of_the_caller_is_told() -> None:
    vector = Workers(drift_task(limits=(1.0,), largest_costs=(1.0,)), 3, workers=2)
    with pytest.raises(ConfigError, match=r"has 1 limit\(s\), but its environment gives costs of shape \(2,\)"):
        run(vector)


def test_what_cannot_be_sent_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Cannot send this to a worker process.*or use workers = 0"):
        Workers(drift_task(lambda: None), 1, workers=1)


def test_no_process_is_left_when_all_are_closed() -> None:
    vector = Workers(drift_task(), 3, workers=2)
    pids = [process.pid for process, _ in vector._processes]
    run(vector)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
