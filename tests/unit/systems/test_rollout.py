"""Rollouts: the same episodes, however many run side by side."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from acting import Drift, drift_task, feedback, targets
from lifesafe.errors import ConfigError, EpisodeError, TrialError
from lifesafe.returns import Returns
from lifesafe.systems import Rollout, Task, open_vector, rollout, task
from lifesafe.systems.rollout import Outcome, jobs_of, play

SEEDS = list(range(100, 113))


def run(task: Task, rows: int, *, record: bool = False) -> Rollout:
    vector = open_vector(task, rows)
    done = rollout(feedback(task), vector, targets(13, len(task.limits)), SEEDS, record=record)
    vector.close()
    return done


def by_hand(task: Task, target: Returns, seed: int) -> tuple[Returns, int, bool]:
    """Run one episode in the plainest way."""
    environment, actor = task.environment(), feedback(task).actor([target])
    observation, _ = environment.reset(seed=seed)
    reward, costs, length, terminated = 0.0, np.zeros(len(task.limits)), 0, False
    while length < task.horizon and not terminated:
        action = actor.act(observation.astype(np.float32)[None])[0].astype(np.float32)
        observation, earned, terminated, _, info = environment.step(action)
        actor.observe(np.array([earned]), np.atleast_1d(info["cost"])[None])
        reward, costs, length = reward + earned, costs + info["cost"], length + 1
    return Returns(reward, costs), length, terminated


def test_each_episode_goes_as_if_it_were_alone() -> None:
    drift = drift_task()
    expected = [by_hand(drift, target, seed) for target, seed in zip(targets(13), SEEDS, strict=True)]
    done = run(drift, 4)
    assert [(each.returns, each.length, each.terminated) for each in done.outcomes] == expected
    assert done.steps == sum(length for _, length, _ in expected)
    lengths = {length for _, length, _ in expected}
    assert len(lengths) > 3, "episodes must end at different times for this to mean something"
    assert drift.horizon in lengths


@pytest.mark.parametrize("rows", [1, 2, 13, 50])
def test_the_number_of_rows_changes_nothing(rows: int) -> None:
    assert run(drift_task(), rows).returns == run(drift_task(), 4).returns


@pytest.mark.parametrize("horizon", [1, 60, 200, 300])
def test_the_tasks_own_vector_gives_what_its_environment_gives_and_keeps_the_horizon(horizon: int) -> None:
    points = replace(task("PointCircle"), horizon=horizon)
    native, one_by_one = (
        rollout(feedback(points), open_vector(each, 2), targets(3, costs=1), SEEDS[:3])
        for each in (points, replace(points, vector=None))
    )
    assert native.returns == one_by_one.returns
    assert [outcome.length for outcome in native.outcomes] == [min(horizon, 200)] * 3


def test_what_is_recorded_is_what_happened() -> None:
    drift = drift_task()
    done = run(drift, 4, record=True)
    dataset = done.dataset
    assert dataset.lengths.tolist() == [outcome.length for outcome in done.outcomes]
    assert dataset.terminated.tolist() == [outcome.terminated for outcome in done.outcomes]
    np.testing.assert_allclose(dataset.returns, [tuple(each) for each in done.returns], atol=1e-4)
    assert np.abs(dataset.actions).max() <= 1
    episode = dataset[3]
    assert np.array_equal(episode.observations[1:], episode.next_observations[:-1])
    environment = drift.environment()
    assert np.array_equal(environment.reset(seed=SEEDS[3])[0].astype(np.float32), episode.observations[0])
    for i, action in enumerate(episode.actions):  # the recorded actions lead through the episode again, to the bit
        observation, *_ = environment.step(action)
        assert np.array_equal(observation.astype(np.float32), episode.next_observations[i])


def test_targets_and_seeds_must_fit() -> None:
    drift = drift_task()
    vector = open_vector(drift, 4)
    for count, seeds in ((2, [1]), (0, [])):
        with pytest.raises(ConfigError, match=f"Got {count} targets and {len(seeds)} seeds"):
            rollout(feedback(drift), vector, targets(count), seeds)
    with pytest.raises(ConfigError, match="A vector needs at least 1 row; got size = 0"):
        open_vector(task("CarCircle"), 0)
    with pytest.raises(ConfigError, match="The episodes were not recorded; roll out with record=True"):
        _ = run(drift, 4).dataset


class Unasked:
    """A policy that must not be asked."""

    def actor(self, targets: object) -> Any:
        raise AssertionError


@pytest.mark.parametrize("given", [drift_task(), task("PointCircle")], ids=lambda given: given.name)
def test_targets_need_as_many_costs_as_the_environments(given: Task) -> None:
    vector = open_vector(given, 2)
    asked = [Returns(1.0, [0.0] * vector.costs), Returns(1.0, (0.0, 0.0, 0.0))]
    with pytest.raises(TrialError, match=rf"asks for 3 costs, the task has {vector.costs}; give one each"):
        rollout(Unasked(), vector, asked, [0, 1])


def test_what_ended_is_told_before_the_next_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    vector, told = open_vector(drift_task(), 1), dict[int, Outcome]()
    ticks = play(feedback(drift_task()), vector, jobs_of(targets(2), [0, 1], 2))
    assert next(ticks) == {}  # the first episode is under way
    monkeypatch.delattr(type(vector), "reset")
    while not told:
        told |= next(ticks)
    with pytest.raises(AttributeError, match="reset"):
        next(ticks)
    assert list(told) == [0]


class Given(Drift):
    """Gives its rewards in another form."""

    def __init__(self, form: Any) -> None:
        self._form = form

    def step(self, action: np.ndarray) -> Any:
        observation, reward, *rest = super().step(action)
        return observation, self._form(reward), *rest


def test_a_reward_is_one_finite_number_or_an_array_of_one() -> None:
    plain, boxed, split, broken = (
        drift_task(partial(Given, form))
        for form in (float, lambda reward: np.array([reward]), lambda reward: np.array([reward, 0.0]), lambda _: np.nan)
    )
    assert run(boxed, 4).returns == run(plain, 4).returns == run(drift_task(), 4).returns
    with pytest.raises(ConfigError, match=r"A step of task 'Drift' earned array\(.*\); a reward is one number"):
        run(split, 4)
    with pytest.raises(EpisodeError, match=r"A step earned nan and cost .*; every number must be finite"):
        run(broken, 4)
