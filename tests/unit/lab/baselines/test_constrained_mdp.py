"""The laboratory itself: its optimum is one, simulation agrees with arithmetic, and its logs are fit to learn from."""

from collections.abc import Sequence

import numpy as np
import pytest

from constrained_mdp import (
    HORIZON,
    LIMIT,
    SECTIONS,
    Value,
    best_deterministic,
    best_policy,
    costs,
    evaluate,
    evaluate_random,
    logged_dataset,
    plan_of,
    play,
    returns,
    rewards,
    simulate,
)
from lifesafe.data import Dataset
from lifesafe.data.check import check
from lifesafe.returns import Returns


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return logged_dataset()


@pytest.fixture(scope="module")
def deterministic() -> tuple[Value, np.ndarray]:
    return best_deterministic(LIMIT)


def sections_of(dataset: Dataset) -> np.ndarray:
    return dataset.observations.argmax(1)


def test_no_stationary_policy_within_the_limit_earns_more_than_the_linear_program_says(deterministic):
    assert deterministic[0].cost <= LIMIT
    assert deterministic[0].reward <= best_policy(LIMIT).value.reward


@pytest.mark.parametrize("limit", [2.0, LIMIT, np.inf])
def test_the_optimum_is_worth_what_the_linear_program_says(limit):
    optimum = best_policy(limit)
    assert evaluate_random(optimum.probabilities) == pytest.approx(optimum.value)
    assert optimum.value.cost <= limit + 1e-6


def test_to_know_the_time_or_to_act_at_random_gains_less_than_one_percent(deterministic):
    assert deterministic[0].reward > 0.99 * best_policy(LIMIT).value.reward


def test_simulated_episodes_earn_and_cost_what_was_computed():
    plan = np.random.default_rng(3).uniform(-1, 1, size=(HORIZON, len(SECTIONS)))
    clock = np.zeros(20_000, dtype=int)

    def follow(rows: np.ndarray, present: np.ndarray) -> np.ndarray:
        clock[rows] += 1
        return plan[clock[rows] - 1, present]

    simulated = returns(simulate(follow, len(clock), np.random.default_rng(4)))
    errors = simulated.std(0) / np.sqrt(len(simulated))
    assert (np.abs(simulated.mean(0) - np.array(evaluate(plan))) < 4 * errors).all()


def test_the_logs_hold_what_the_laboratory_says(dataset):
    sections, actions = sections_of(dataset), dataset.actions[:, 0].astype(float)
    assert dataset.rewards == pytest.approx(rewards(actions, sections), rel=1e-5, abs=1e-5)
    assert dataset.costs[:, 0] == pytest.approx(costs(actions, sections), rel=1e-5, abs=1e-5)
    assert np.isin(dataset.observations, [0, 1]).all()
    assert (dataset.observations.sum(1) == 1).all()


def test_nothing_is_wrong_with_the_logs(dataset):
    ends = np.zeros(dataset.transitions, dtype=bool)
    ends[dataset.offsets[1:] - 1] = True
    terminals = ends.copy()
    terminals[dataset.offsets[1:] - 1] = dataset.terminated
    columns = {name: getattr(dataset, name) for name in ("observations", "actions", "rewards", "costs")}
    findings = check(
        columns
        | {"next_observations": dataset.next_observations, "terminals": terminals, "timeouts": ends & ~terminals}
    )
    assert [finding for finding in findings if finding.severity == "error"] == []


def test_some_logged_episodes_keep_the_limit_and_some_cost_much_more(dataset):
    assert (dataset.returns[:, 1] <= LIMIT).mean() > 0.1
    assert (dataset.returns[:, 1] > 2 * LIMIT).mean() > 0.1


class Planned:
    """Follows a plan by time and section."""

    def __init__(self, plan: np.ndarray) -> None:
        self.plan = plan

    def actor(self, targets: Sequence[Returns]) -> "PlannedActor":
        return PlannedActor(self.plan, len(targets))


class PlannedActor:
    def __init__(self, plan: np.ndarray, rows: int) -> None:
        self._plan = plan
        self._times = np.zeros(rows, dtype=int)

    def act(self, observations: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        times = self._times if rows is None else self._times[rows]
        return self._plan[times, observations.argmax(1)][:, None].astype(np.float32)

    def observe(self, rewards: np.ndarray, costs: np.ndarray, rows: np.ndarray | None = None) -> None:
        self._times[slice(None) if rows is None else rows] += 1

    def restart(self, targets: Sequence[Returns], rows: np.ndarray) -> None:
        self._times[rows] = 0


def test_the_plan_of_a_policy_is_what_it_does_and_playing_it_earns_what_the_plan_is_worth():
    plan = np.random.default_rng(6).uniform(-1, 1, size=(HORIZON, len(SECTIONS))).astype(np.float32)
    target = Returns(300.0, [LIMIT])
    assert np.array_equal(plan_of(Planned(plan), target), plan)
    played = play(Planned(plan), target, episodes=10_000)
    assert (np.abs(played.mean(0) - np.array(evaluate(plan))) < 4 * played.std(0) / 100).all()
