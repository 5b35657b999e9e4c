"""The laboratory itself: simulation agrees with arithmetic, and its logs are fit to learn from."""

import numpy as np
import pytest

from constrained_mdp import (
    HORIZON,
    LIMIT,
    SECTIONS,
    best_deterministic,
    costs,
    evaluate,
    logged_dataset,
    plan_of,
    play,
    rewards,
)
from lifesafe.data import Dataset
from lifesafe.lab.baselines import BCConfig
from lifesafe.returns import Returns


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return logged_dataset()


def test_the_optimum_keeps_the_limit_and_is_worth_what_its_plan_is() -> None:
    value, actions = best_deterministic(LIMIT)
    assert value.cost <= LIMIT
    assert evaluate(np.tile(actions, (HORIZON, 1))) == pytest.approx(value)


def test_simulated_episodes_earn_and_cost_what_was_computed(dataset: Dataset) -> None:
    policy, target = BCConfig(width=8).build(dataset, seed=0).policy(), Returns(300.0, [LIMIT])
    plan = plan_of(policy, target)
    assert plan.shape == (HORIZON, len(SECTIONS))
    played = play(policy, target, episodes=10_000)
    assert (np.abs(played.mean(0) - np.array(evaluate(plan))) < 4 * played.std(0) / 100).all()


def test_the_logs_hold_what_the_laboratory_says(dataset: Dataset) -> None:
    sections, actions = dataset.observations.argmax(1), dataset.actions[:, 0].astype(float)
    assert dataset.rewards == pytest.approx(rewards(actions, sections), rel=1e-5, abs=1e-5)
    assert dataset.costs[:, 0] == pytest.approx(costs(actions, sections), rel=1e-5, abs=1e-5)
    assert np.isin(dataset.observations, [0, 1]).all()
    assert (dataset.observations.sum(1) == 1).all()


def test_some_logged_episodes_keep_the_limit_and_some_cost_much_more(dataset: Dataset) -> None:
    assert (dataset.returns[:, 1] <= LIMIT).mean() > 0.1
    assert (dataset.returns[:, 1] > 2 * LIMIT).mean() > 0.1
