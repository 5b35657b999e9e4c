"""From logs to a problem: the box, the starts that are no luck, and what is refused."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from lifesafe.data import Dataset
from lifesafe.errors import DatasetError, NoSafeTargetError
from lifesafe.preparation.logs import check_logged_costs, episode_returns, problem_from_logs, skilled
from lifesafe.returns import Returns
from lifesafe.safety import Problem
from logs import careful, reckless

LIMIT = 20.0


@pytest.fixture(scope="module")
def logs() -> Dataset:
    return careful(np.random.default_rng(0))


def test_the_box_and_the_starts_are_those_of_the_returns_of_the_episodes(logs: Dataset) -> None:
    found = problem_from_logs(logs, limits=LIMIT, episodes=80, seed=3)
    assert found.fingerprint == Problem.from_returns(logs.returns, limits=LIMIT, episodes=80, seed=3).fingerprint
    assert found.fingerprint == problem_from_logs(logs, limits=LIMIT, episodes=80, seed=3).fingerprint


def test_the_returns_of_an_episode_are_the_sums_of_its_steps(logs: Dataset) -> None:
    returns = episode_returns(logs)
    assert len(returns) == len(logs)
    for i in (0, 17, len(logs) - 1):
        np.testing.assert_allclose(returns[i], [logs[i].rewards.sum(), logs[i].costs.sum()], rtol=1e-5)


def test_a_policy_that_was_trained_on_relabeled_episodes_begins_with_all_reward_at_no_cost(logs: Dataset) -> None:
    plain, relabeled = (problem_from_logs(logs, limits=LIMIT, relabeled=flag) for flag in (False, True))
    assert relabeled.starts[0] == (relabeled.axes["reward"].high, 0.0)
    assert relabeled.starts[1:] == plain.starts
    calm = problem_from_logs(logs, limits=LIMIT, relabeled=True, start="calm")
    assert calm.starts == plain.starts


def test_starts_that_are_given_are_taken_as_they_are() -> None:
    lucky = reckless(np.random.default_rng(0))
    start = Returns(float(lucky.returns[:, 0].mean()), 3)
    assert problem_from_logs(lucky, limits=10.0, relabeled=True, starts=[start]).starts == (tuple(start),)


def test_logs_whose_cheap_episodes_are_luck_give_no_start() -> None:
    lucky = reckless(np.random.default_rng(0))
    with pytest.raises(NoSafeTargetError, match=r"their cheap episodes look like luck.* costs \d+\.\d limits or more"):
        problem_from_logs(lucky, limits=10.0)
    sure = problem_from_logs(lucky, limits=10.0, stop_at=8.0)  # every episode is ended before the limit
    assert sure.sure == (True,)


def test_only_the_starts_that_are_luck_are_left_out() -> None:
    rng = np.random.default_rng(0)
    calm, daring = careful(rng, episodes=2000), reckless(rng)
    daring = replace(daring, rewards=daring.rewards + 2)
    both = Dataset.from_episodes([*calm, *daring])
    earned = [float(np.median(part.returns[part.returns[:, 1] <= 2.5, 0])) for part in (calm, daring)]
    given = Problem.from_returns(both.returns, limits=10.0, starts=[Returns(reward, 0) for reward in earned])
    assert skilled(given, both).starts == given.starts[:1]


def test_a_step_that_costs_less_than_nothing_is_refused(logs: Dataset) -> None:
    costs = logs.costs.copy()
    costs[5] = -0.5
    with pytest.raises(DatasetError, match=r"costs -0.5 \(cost 1, transition 5\); costs are never .* Shift them"):
        problem_from_logs(replace(logs, costs=costs), limits=LIMIT)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_cost_that_is_no_number_is_refused_and_what_lies_behind_the_last_episode_is_not_looked_at(
    value: float,
) -> None:
    costs = np.array([[1.0], [0.0], [value]])
    whole = SimpleNamespace(rewards=np.ones(3), costs=costs, offsets=np.array([0, 3]))
    with pytest.raises(DatasetError, match=r"A logged step has a cost that is no finite number. Mend the logs"):
        check_logged_costs(whole)
    check_logged_costs(SimpleNamespace(rewards=np.ones(3), costs=costs, offsets=np.array([0, 2])))


def test_a_step_that_costs_more_than_is_said_to_be_possible_is_refused(logs: Dataset) -> None:
    costs = logs.costs.copy()
    costs[5] = 2.5
    dear = replace(logs, costs=costs)
    message = r"A logged step costs 2.5 \(cost 1\), and with largest_step = 1 none costs more; .* Give the largest cost"
    with pytest.raises(DatasetError, match=message):
        problem_from_logs(dear, limits=LIMIT, stop_at=40.0)
    with pytest.raises(DatasetError, match="with largest_step = 2 none"):
        problem_from_logs(dear, limits=LIMIT, largest_step=2.0)
    assert problem_from_logs(dear, limits=LIMIT, stop_at=40.0, largest_step=2.5).bounds == (42.5,)
    problem_from_logs(dear, limits=LIMIT)  # nothing rests on the steps
    check_logged_costs(dear, [2.5 / (1 + 0.9e-5)])  # rounding is none of them


def test_the_second_cost_is_checked_too(logs: Dataset) -> None:
    with pytest.raises(DatasetError, match=r"costs -1 \(cost 2, "):
        replace(logs, costs=np.concatenate([logs.costs, logs.costs - 1], axis=1))
