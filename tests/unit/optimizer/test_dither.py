"""Dither: what is asked for in each episode of one target."""

from typing import Any

import numpy as np
import pytest

from lifesafe.errors import ConfigError
from lifesafe.optimizer import Problem, SafeOptimizer, Schedule
from lifesafe.optimizer.dither import dithered
from lifesafe.returns import Returns, returns_array

AXES = [np.linspace(100, 500, 21), np.linspace(0, 60, 21)]
MIDDLE = Returns(300, 30)


def problem(dither: float, **settings: Any) -> Problem:
    return Problem.on_grid(AXES, seeds=[Returns(200, 0)], limits=20.0, dither=dither, **settings)


def test_without_dither_every_episode_asks_for_the_target() -> None:
    assert dithered(problem(0.0), MIDDLE, range(5), "trial", 1) == [MIDDLE] * 5


def test_episodes_scatter_around_the_target_by_the_stated_fraction_of_each_axis() -> None:
    asked = returns_array(dithered(problem(0.05), MIDDLE, range(4000), "trial", 1))
    draws = (asked - tuple(MIDDLE)) / [20.0, 3.0]
    np.testing.assert_allclose(draws.mean(axis=0), 0.0, atol=4 / 4000**0.5)
    np.testing.assert_allclose(draws.std(axis=0), 1.0, rtol=0.05)
    assert abs(np.corrcoef(draws.T)[0, 1]) < 4 / 4000**0.5


def test_nothing_outside_the_candidates_is_asked_for() -> None:
    asked = returns_array(dithered(problem(0.3), Returns(500, 0), range(500), "trial", 1))
    assert (asked >= [100.0, 0.0]).all()
    assert (asked <= [500.0, 60.0]).all()
    assert (asked[:, 1] == 0.0).mean() == pytest.approx(0.5, abs=0.1)


def test_an_episode_asks_for_the_same_however_often_and_beside_whatever_it_is_run() -> None:
    whole = dithered(problem(0.05), MIDDLE, range(20), "trial", 3)
    assert dithered(problem(0.05), MIDDLE, range(10, 20), "trial", 3) == whole[10:]
    assert dithered(problem(0.05), MIDDLE, range(20), "trial", 4) != whole
    assert dithered(problem(0.05), MIDDLE, range(20), "operate") != whole


@pytest.mark.parametrize("width", [-0.01, 0.31, float("nan"), float("inf")])
def test_an_impossible_width_is_refused(width: float) -> None:
    with pytest.raises(ConfigError, match=r"dither must lie between 0 and 0\.3"):
        problem(width)


def test_a_problem_with_dither_is_another_and_is_read_back_with_it() -> None:
    plain, wide = problem(0.0), problem(0.05)
    assert "dither" not in plain.to_plain()  # so that older records keep their fingerprints
    assert wide.fingerprint != plain.fingerprint
    assert Problem.from_plain(wide.to_plain()).dither == 0.05
    assert Problem.from_plain(plain.to_plain()).dither == 0.0


def test_every_seed_draws_for_itself() -> None:
    wide, other = problem(0.05), problem(0.05, dither_seed=1)
    draws = [returns_array(dithered(each, MIDDLE, range(2000), "trial", 1))[:, 1] for each in (wide, other)]
    assert abs(np.corrcoef(draws)[0, 1]) < 4 / 2000**0.5
    assert Problem.from_plain(other.to_plain()).dither_seed == 1
    assert other.fingerprint != wide.fingerprint
    assert "dither_seed" not in wide.to_plain()  # so that older records keep their fingerprints
    assert problem(0.0, dither_seed=1).fingerprint == problem(0.0).fingerprint  # nothing is drawn
    with pytest.raises(ConfigError, match="whole number that is not negative; got -1"):
        problem(0.05, dither_seed=-1)


def test_a_trial_has_a_target_for_each_of_its_episodes() -> None:
    optimizer = SafeOptimizer(problem(0.05), Schedule(episodes=12))
    trial = optimizer.ask()
    assert trial is not None
    targets = optimizer.targets(trial)
    assert len(set(targets)) == 12
    assert targets == optimizer.targets(trial)
