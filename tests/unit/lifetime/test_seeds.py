"""Where a search begins."""

from dataclasses import replace

import numpy as np
import pytest

from lifesafe.data import Dataset
from lifesafe.environments import task
from lifesafe.errors import ConfigError, NoSafeTargetError
from lifesafe.lifetime.seeds import problem_of, skilled
from lifesafe.optimizer import Problem
from logs import careful, reckless


def logs() -> np.ndarray:
    """Return returns like those of CarCircle: reward up to 500, and more of it costs more."""
    rng = np.random.default_rng(0)
    rewards = rng.uniform(0, 500, 600)
    costs = np.maximum(0, rng.normal(0.2, 0.1, 600)) * rewards * rng.integers(0, 2, 600)
    return np.column_stack([rewards, costs])


def test_seeds_from_data_ask_for_no_cost_and_for_less_and_more_than_the_first() -> None:
    problem = problem_of(task("CarCircle"), logs(), delta=0.1, bounds=(300.0,), start="data")
    targets = [problem.target(index) for index in problem.seeds]
    assert [target.costs[0] for target in targets] == [0.0] * 5
    first, less, more, least, most = (target.reward for target in targets)
    assert least < less < first < more < most
    assert problem.cost_bounds == (300.0,)


def test_the_papers_boxes_are_about_one_cost() -> None:
    two = replace(task("CarCircle"), limits=(20.0, 20.0), largest_costs=(1.0, 1.0))
    returns = np.column_stack([logs(), logs()[:, 1]])
    with pytest.raises(ConfigError, match="starts from targets with one cost, and 'CarCircle' has 2"):
        problem_of(two, returns, delta=0.1, bounds=(300.0, 300.0), start="paper")


def test_a_policy_that_knows_relabeled_targets_begins_with_all_reward_at_no_cost() -> None:
    known, other = (
        problem_of(task("CarCircle"), logs(), delta=0.1, bounds=(300.0,), start="data", relabeled=relabeled)
        for relabeled in (True, False)
    )
    first = known.target(known.seeds[0])
    assert first.costs[0] == 0.0
    assert first.reward == known.candidates[known.candidates[:, 1] == 0, 0].max()
    assert known.seeds[1:] == other.seeds
    calm = problem_of(task("CarCircle"), logs(), delta=0.1, bounds=(300.0,), start="calm", relabeled=True)
    assert calm.seeds == other.seeds


def test_seeds_of_the_paper_lie_in_its_box_the_cheapest_first() -> None:
    problem = problem_of(task("CarCircle"), logs(), delta=0.1, bounds=(300.0,), start="paper")
    targets = [problem.target(index) for index in problem.seeds]
    assert all(400 <= target.reward <= 475 and 0 <= target.costs[0] <= 5 for target in targets)
    assert targets[0].costs[0] == min(target.costs[0] for target in targets)


def test_a_task_without_a_box_cannot_start_like_the_paper() -> None:
    with pytest.raises(ConfigError, match="names no targets"):
        problem_of(task("PointCircle"), logs(), delta=0.1, bounds=(300.0,), start="paper")


def test_a_search_does_not_begin_by_logs_whose_cheap_episodes_are_luck() -> None:
    logged = reckless(np.random.default_rng(0))
    with pytest.raises(NoSafeTargetError, match=r"other half alone costs 0\.9 limits or more.*Log behaviors"):
        skilled(begun(logged, 10.0), logged)


def test_seeds_of_careful_logs_stay() -> None:
    logged = careful(np.random.default_rng(0))
    problem = begun(logged, 20.0)
    assert skilled(problem, logged).seeds == problem.seeds


def test_a_search_begins_with_the_rewards_that_careful_behaviors_had() -> None:
    rng = np.random.default_rng(0)
    calm, daring = careful(rng), reckless(rng)
    daring = replace(daring, rewards=daring.rewards + 1)  # luck earns more than care ever does
    logged = Dataset.from_episodes([*calm, *daring])
    problem = begun(logged, 10.0)
    rewards = {seed: problem.target(seed).reward for seed in problem.seeds}
    assert max(rewards.values()) > calm.returns[:, 0].max()
    left = skilled(problem, logged).seeds
    assert left == tuple(seed for seed in problem.seeds if rewards[seed] < calm.returns[:, 0].max())
    assert left


def begun(logged: Dataset, limit: float) -> Problem:
    """Return the problem of a policy that was trained on relabeled episodes."""
    known = task("PointCircle", limits=limit)
    return problem_of(known, logged.returns, delta=0.1, bounds=(200.0,), start="data", relabeled=True)
