"""The laboratory itself: its optimum is one, simulation agrees with arithmetic, and its logs are fit to learn from."""

from collections.abc import Sequence

import numpy as np
import pytest

from constrained_mdp import (
    ACTIONS,
    DISCOUNT,
    HORIZON,
    LIMIT,
    OFF_ROAD,
    SECTIONS,
    Value,
    always,
    best_deterministic,
    best_discounted,
    best_policy,
    costs,
    discounted_costs,
    evaluate,
    evaluate_random,
    logged_dataset,
    mean_actions,
    plan_of,
    play,
    returns,
    rewards,
    simulate,
    transitions,
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


def test_no_random_policy_within_the_limit_earns_more_than_the_linear_program_says():
    rng = np.random.default_rng(0)
    optimum = best_policy(LIMIT)
    for _ in range(200):
        other = rng.dirichlet(np.full(len(ACTIONS), 0.05), size=(HORIZON, len(SECTIONS)))
        # Towards the optimum, where there is something to beat.
        value = evaluate_random(0.9 * optimum.probabilities + 0.1 * other)
        assert value.cost > LIMIT or value.reward < optimum.value.reward


def test_to_know_the_time_or_to_act_at_random_gains_less_than_one_percent(deterministic):
    assert deterministic[0].reward > 0.99 * best_policy(LIMIT).value.reward


def test_neighbors_of_the_best_policy_are_nearly_as_good(deterministic):
    value, actions = deterministic
    for move in 0.1 * np.vstack([np.eye(3), -np.eye(3)]):
        moved = evaluate(always(actions + move))
        assert moved.reward == pytest.approx(value.reward, rel=0.05)
        assert moved.cost == pytest.approx(value.cost, rel=0.15)


def test_the_limit_binds():
    unlimited, _ = best_deterministic()
    assert 2 * LIMIT < unlimited.cost < 3 * LIMIT
    assert best_policy(LIMIT).value.cost == pytest.approx(LIMIT)


def test_discounted_critics_without_end_would_choose_nearly_the_same_policy(deterministic):
    value, actions = deterministic
    seen = mean_actions(best_discounted(LIMIT).probabilities)
    assert seen == pytest.approx(actions, abs=0.1)
    judged = evaluate(always(seen))
    assert judged.reward > 0.99 * value.reward
    assert judged.cost == pytest.approx(LIMIT, rel=0.03)


def test_a_perfect_critic_finds_the_limit_kept_where_the_logs_are(dataset, deterministic):
    shares = dataset.observations.mean(0)
    assert shares @ discounted_costs(deterministic[1]) == pytest.approx(LIMIT / HORIZON / (1 - DISCOUNT), rel=0.03)


def test_narrower_actions_reach_less():
    rewards_of = [best_policy(LIMIT, -reach, reach).value.reward for reach in (0.2, 0.5, 1.0)]
    assert rewards_of == sorted(rewards_of)
    assert rewards_of[0] < 0.97 * rewards_of[-1]


def test_a_single_speed_for_all_sections_is_clearly_worse(deterministic):
    reward, cost = evaluate(always(np.tile(ACTIONS[:, None], len(SECTIONS))))
    assert reward[cost <= LIMIT].max() < 0.9 * deterministic[0].reward


def test_drivers_and_their_mean_earn_less_and_cost_more_than_the_best_policy(dataset, deterministic):
    reward, cost = dataset.returns.mean(0)
    assert reward < 0.9 * deterministic[0].reward
    assert cost > 1.5 * LIMIT
    imitation = evaluate(always([dataset.actions[sections_of(dataset) == section].mean() for section in range(3)]))
    assert imitation.reward < 0.95 * deterministic[0].reward
    assert imitation.cost > 1.2 * LIMIT


def test_probabilities_add_up_to_one_unless_the_car_may_leave_the_road():
    stays = transitions(np.array([[-1.0] * 3, [1.0] * 3])).sum(-1)
    assert stays[0] == pytest.approx(np.ones(3))
    assert stays[1] == pytest.approx([1.0, 1.0, 0.95])


def test_simulated_episodes_earn_and_cost_what_was_computed():
    plan = np.random.default_rng(3).uniform(-1, 1, size=(HORIZON, len(SECTIONS)))
    clock = np.zeros(20_000, dtype=int)

    def follow(rows: np.ndarray, present: np.ndarray) -> np.ndarray:
        clock[rows] += 1
        return plan[clock[rows] - 1, present]

    simulated = returns(simulate(follow, len(clock), np.random.default_rng(4)))
    errors = simulated.std(0) / np.sqrt(len(simulated))
    assert (np.abs(simulated.mean(0) - np.array(evaluate(plan))) < 4 * errors).all()


def test_simulated_random_policies_earn_and_cost_what_was_computed():
    rng = np.random.default_rng(5)
    probabilities = rng.dirichlet(np.full(len(ACTIONS), 0.2), size=len(SECTIONS))
    simulated = returns(
        simulate(
            lambda _, present: ACTIONS[(rng.random((len(present), 1)) > probabilities[present].cumsum(1)).sum(1)],
            20_000,
            rng,
        )
    )
    exact = np.array(evaluate_random(np.broadcast_to(probabilities, (HORIZON, *probabilities.shape))))
    assert (np.abs(simulated.mean(0) - exact) < 4 * simulated.std(0) / np.sqrt(len(simulated))).all()


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


def test_logged_episodes_go_on_until_the_horizon_unless_the_car_leaves_the_road(dataset):
    lasts = dataset.next_observations[dataset.offsets[1:] - 1]
    assert (lasts[dataset.terminated] == OFF_ROAD).all()
    assert (lasts[~dataset.terminated].sum(1) == 1).all()
    assert (dataset.lengths[~dataset.terminated] == HORIZON).all()
    assert 0.15 < dataset.terminated.mean() < 0.5


def test_any_speed_was_tried_in_every_section(dataset):
    for section in range(len(SECTIONS)):
        tried, _ = np.histogram(dataset.actions[sections_of(dataset) == section], bins=10, range=(-1, 1))
        assert tried.min() > 50


def test_some_logged_episodes_keep_the_limit_and_some_cost_much_more(dataset):
    assert (dataset.returns[:, 1] <= LIMIT).mean() > 0.1
    assert (dataset.returns[:, 1] > 2 * LIMIT).mean() > 0.1


def test_the_same_seed_gives_the_same_logs(dataset):
    assert logged_dataset().fingerprint == dataset.fingerprint
    assert logged_dataset(seed=1).fingerprint != dataset.fingerprint


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
