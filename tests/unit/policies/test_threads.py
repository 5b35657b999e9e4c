"""The number of threads that a training uses."""

from collections.abc import Mapping

import pytest
import torch

from lifesafe.errors import ConfigError
from lifesafe.interfaces import Progress
from lifesafe.lab.baselines import RvSConfig
from lifesafe.policies import train
from lifesafe.policies.threads import ThreadChoice
from small_data import small_dataset

SMALL = RvSConfig(steps=40, batch=16, width=8)


def run(choice: ThreadChoice, seconds: Mapping[int, float], steps: int) -> list[int]:
    """Let steps take so many seconds with so many threads, and return the threads of each."""
    used = []
    for _ in range(steps):
        used.append(choice.threads)
        choice.took(seconds[choice.threads])
    return used


def test_the_faster_number_is_used_once_each_was_tried() -> None:
    assert run(ThreadChoice((1, 2)), {1: 0.2, 2: 0.1}, 50)[12:] == [2] * 38
    assert run(ThreadChoice((1, 2)), {1: 0.1, 2: 0.15}, 50)[12:] == [1] * 38


def test_a_number_that_is_far_slower_is_soon_given_up() -> None:
    assert run(ThreadChoice((1, 2)), {1: 0.1, 2: 2.0}, 50).count(2) == 3


def test_a_slowdown_is_noticed_and_numbers_are_tried_again() -> None:
    choice = ThreadChoice((1, 2))
    assert run(choice, {1: 0.2, 2: 0.1}, 60)[-1] == 2
    assert run(choice, {1: 0.2, 2: 2.0}, 60)[-20:] == [1] * 20  # another process has begun
    assert run(choice, {1: 0.25, 2: 0.1}, 60) == [1] * 60  # a little slower is no reason


def test_a_given_number_is_used_and_the_one_before_comes_back() -> None:
    seen: set[int] = set()

    def report(_: Progress) -> None:
        seen.add(torch.get_num_threads())

    before = torch.get_num_threads()
    for threads in (1, 2):
        seen.clear()
        train(SMALL, small_dataset(), threads=threads, log_every=1, report=report)
        assert seen == {threads}
        assert torch.get_num_threads() == before
    with pytest.raises(ConfigError, match="threads must be at least 1; got 0"):
        train(SMALL, small_dataset(), threads=0)


def test_unless_given_all_that_are_allowed_are_tried() -> None:
    seen: set[int] = set()
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        train(SMALL, small_dataset(), log_every=1, report=lambda _: seen.add(torch.get_num_threads()))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == {1, 2}
