"""Whether cheap episodes are told apart by skill and by luck."""

from dataclasses import replace

import numpy as np
import pytest

from lifesafe.data import Dataset
from lifesafe.data.luck import luck
from logs import careful, reckless

LIMIT = 20.0


def of_best(data: Dataset, limits: list[float]) -> float:
    """Return the luck of the best cheap episodes."""
    (told,) = luck(data, limits, [np.inf])
    return float(told)


def test_episodes_of_careful_behaviors_are_cheap_by_skill() -> None:
    assert of_best(careful(np.random.default_rng(0)), [LIMIT]) < 0.3


def test_the_lucky_episodes_of_a_reckless_behavior_are_told() -> None:
    assert of_best(reckless(np.random.default_rng(0)), [10.0]) > 1


def test_costs_that_come_late_are_no_sign_of_luck() -> None:
    rng = np.random.default_rng(0)
    data = careful(rng)
    late = np.array(data.costs).reshape(len(data), -1)
    half = late.shape[1] // 2
    late[:, :half] = 0
    data = replace(data, costs=late.reshape(-1, 1))
    first, second = late[:, :half].sum(axis=1), late[:, half:].sum(axis=1)
    assert second[first == 0].mean() > LIMIT  # the cheap beginning says nothing
    assert of_best(data, [LIMIT]) < 0.1


def test_the_worst_of_several_costs_counts() -> None:
    chance = reckless(np.random.default_rng(0))
    both = replace(chance, costs=np.concatenate([chance.costs * 0, chance.costs], axis=1))
    assert of_best(both, [LIMIT, 10.0]) == of_best(chance, [10.0])


@pytest.mark.parametrize("limit", [0.0, 1e-9])
def test_a_limit_that_nearly_no_episode_keeps_tells_nothing(limit: float) -> None:
    data = careful(np.random.default_rng(0))
    assert of_best(replace(data, costs=data.costs + 1), [limit]) == 0.0


def test_few_cheap_episodes_tell_nothing() -> None:
    data = reckless(np.random.default_rng(0))
    cheap = np.flatnonzero(data.returns[:, 1] <= 2.5)
    assert len(cheap) >= 20
    dear = np.flatnonzero(data.returns[:, 1] > 2.5)
    few = Dataset.from_episodes([data[i] for i in (*cheap[:19], *dear)])
    enough = Dataset.from_episodes([data[i] for i in (*cheap[:20], *dear)])
    assert of_best(few, [10.0]) == 0.0
    assert of_best(enough, [10.0]) > 1


def test_each_reward_has_its_own_luck() -> None:
    rng = np.random.default_rng(0)
    calm, daring = careful(rng, episodes=2000), reckless(rng)
    daring = replace(daring, rewards=daring.rewards + 2)
    both = Dataset.from_episodes([*calm, *daring])
    little, much = (float(np.median(part.returns[part.returns[:, 1] <= 2.5, 0])) for part in (calm, daring))
    low, high, beyond = luck(both, [10.0], [little, much, 10 * much])
    assert low < 0.5
    assert high > 1
    assert beyond == luck(both, [10.0], [both.returns[both.returns[:, 1] <= 2.5, 0].max()])
