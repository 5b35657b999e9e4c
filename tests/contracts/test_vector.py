"""What every vector promises, whoever steps its environments."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from acting import Drift, drift_task
from lifesafe.errors import ConfigError, EpisodeError
from lifesafe.lab.collection.workers import Workers
from lifesafe.systems import Step, Task, Vector, open_vector, task

SIZE, HORIZON = 4, 25


def opened(given: Task, size: int, backend: Any, workers: int = 1) -> Vector:
    return Workers(given, size, workers=workers) if backend == "workers" else open_vector(given, size)


class Case(NamedTuple):
    """A task, and how it is run."""

    task: Task
    vector: Vector


@pytest.fixture(
    scope="module",
    params=["process", "workers", "native", "shortened", "stopped"],
)
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    backend = "native" if request.param in ("shortened", "stopped") else request.param
    if backend == "native":
        known = task("PointCircle")
        given = known if request.param == "native" else replace(known, horizon=HORIZON)
    else:
        given = drift_task(horizon=HORIZON)
    vector = opened(given, SIZE, backend, workers=2)
    if request.param == "stopped":
        vector = open_vector(given, SIZE, stop_at=1e9)
    yield Case(given, vector)
    vector.close()
    vector.close()  # which does no harm


def actions_for(case: Case, seed: int, steps: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (50, case.task.actions)).astype(np.float32)[:steps]


def play_alone(case: Case, row: int, seed: int, steps: int) -> list[np.ndarray]:
    """Return all that an episode gives when nobody else plays."""
    rows = np.array([row])
    seen = [case.vector.reset(rows, [seed])[0]]
    for action in actions_for(case, seed, steps):
        step = case.vector.step(rows, action[None])
        seen.append(flat(step)[0])
        if step.terminated[0] or step.truncated[0]:
            break
    return seen


def flat(step: Step) -> np.ndarray:
    columns = (step.observations, step.rewards, step.costs, step.terminated, step.truncated)
    return np.column_stack(columns)


def equal(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return len(one) == len(other) and all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_seed_decides_the_episode_whatever_the_row_and_the_other_rows(case: Case) -> None:
    seeds, steps = [5, 6, 7, 5], 12
    alone = {seed: play_alone(case, 2, seed, steps) for seed in set(seeds)}
    together: list[list[np.ndarray]] = [[seen] for seen in case.vector.reset(np.arange(SIZE), seeds)]
    rows = np.arange(SIZE)
    for t in range(steps):
        if not len(rows):
            break
        step = case.vector.step(rows, np.stack([actions_for(case, seeds[row], steps)[t] for row in rows]))
        for i, row in enumerate(rows):
            together[row].append(flat(step)[i])
        rows = rows[~(step.terminated | step.truncated)]
    assert all(equal(together[row], alone[seeds[row]]) for row in range(SIZE))
    assert not np.array_equal(alone[5][0], alone[6][0])


def test_rows_that_are_not_named_stand_still(case: Case) -> None:
    undisturbed = play_alone(case, 1, 2, 6)
    others = np.array([0, 3])
    case.vector.reset(np.array([1]), [2])
    seen = []
    for t, action in enumerate(actions_for(case, 2, len(undisturbed) - 1)):
        case.vector.reset(others, [t, t + 1])
        case.vector.step(others, np.zeros((2, case.task.actions)))
        seen.append(flat(case.vector.step(np.array([1]), action[None]))[0])
    assert len(seen) > 3
    assert equal(seen, undisturbed[1:])


def test_the_order_of_the_rows_is_the_order_of_the_results(case: Case) -> None:
    rows = np.array([3, 0, 2])
    first = case.vector.reset(rows, [1, 2, 3])
    actions = actions_for(case, 0, 3)
    forward = case.vector.step(rows, actions)
    again = case.vector.reset(rows[::-1], [3, 2, 1])
    backward = case.vector.step(rows[::-1], actions[::-1])
    assert np.array_equal(first, again[::-1])
    assert np.array_equal(flat(forward), flat(backward)[::-1])


def test_actions_are_clipped(case: Case) -> None:
    rows = np.arange(2)
    case.vector.reset(rows, [1, 1])
    large = np.full(case.task.actions, 7.0)
    step = case.vector.step(rows, np.stack([large, np.sign(large)]))
    assert np.array_equal(flat(step)[0], flat(step)[1])


def test_an_episode_is_cut_off_at_its_horizon_and_waits_for_its_reset(case: Case) -> None:
    row = np.array([0])
    still = np.zeros((1, case.task.actions))
    for seed in range(20):  # until an episode lasts
        case.vector.reset(row, [seed])
        steps = [case.vector.step(row, still)]
        while not (steps[-1].terminated[0] or steps[-1].truncated[0]):
            steps.append(case.vector.step(row, still))
        with pytest.raises(ConfigError, match="Row 0 has no episode under way; reset it first"):
            case.vector.step(row, still)
        if steps[-1].truncated[0]:
            break
    assert len(steps) == case.task.horizon
    assert not steps[-1].terminated[0]


def test_what_is_seen_has_the_sizes_of_the_task(case: Case) -> None:
    assert (case.vector.size, case.vector.costs) == (SIZE, len(case.task.limits))
    seen = case.vector.reset(np.arange(3), [1, 2, 3])
    step = case.vector.step(np.arange(3), np.zeros((3, case.task.actions)))
    assert seen.shape == step.observations.shape == (3, case.task.observations)
    assert seen.dtype == step.observations.dtype == np.float32
    assert step.costs.shape == (3, len(case.task.limits))
    assert (step.costs <= case.task.largest_costs).all()
    with pytest.raises(ConfigError, match="Got 1 seeds for 2 rows; give one seed per row"):
        case.vector.reset(np.arange(2), [1])


@pytest.mark.parametrize("backend", ["process", "workers"])
def test_gymnasium_alone_gives_the_same_episode(backend: str) -> None:
    given = drift_task(horizon=HORIZON)
    vector = opened(given, 2, backend)
    environment = given.environment()
    observation, _ = environment.reset(seed=8)
    assert np.array_equal(vector.reset(np.array([1]), [8])[0], observation.astype(np.float32))
    for action in np.random.default_rng(0).uniform(-1, 1, (5, 2)).astype(np.float32):
        step = vector.step(np.array([1]), action[None])
        observation, reward, terminated, _, info = environment.step(action)
        assert np.array_equal(step.observations[0], observation.astype(np.float32))
        assert (step.rewards[0], step.terminated[0]) == (reward, terminated)
        assert np.array_equal(step.costs[0], info["cost"])
        if terminated:
            break
    vector.close()


def test_an_action_that_is_not_finite_is_refused() -> None:
    vector = open_vector(drift_task(), 2)
    vector.reset(np.arange(2), [0, 1])
    with pytest.raises(EpisodeError, match=r"gave the action \[0.0, nan\]; every number must be finite"):
        vector.step(np.arange(2), np.array([[0.0, 0.0], [0.0, np.nan]]))


class Blind(Drift):
    """Loses sight of its second coordinate after the first step, in episodes of odd seeds."""

    blind_at = 1

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        observation, info = super().reset(seed=seed)
        return self._seen(observation), info

    def step(self, action: np.ndarray) -> Any:
        observation, *rest = super().step(action)
        return self._seen(observation), *rest

    def _seen(self, observation: np.ndarray) -> np.ndarray:
        lost = self.steps == self.blind_at and (self.episode_seed or 0) % 2
        return np.array([observation[0], np.nan]) if lost else observation


class BlindFromTheStart(Blind):
    """Loses sight of it at the reset."""

    blind_at = 0


@pytest.mark.parametrize("make", [Blind, BlindFromTheStart])
@pytest.mark.parametrize("backend", ["process", "workers"])
def test_an_observation_that_is_not_finite_is_blamed_on_the_environment(backend: Any, make: Any) -> None:
    vector = opened(drift_task(make), 2, backend)
    begin_and_step(vector, [0, 2])
    with pytest.raises(
        EpisodeError, match=r"The environment of task 'Drift' gave nan as entry 1 of an observation; every"
    ):
        begin_and_step(vector, [0, 1])
    vector.close()


def begin_and_step(vector: Vector, seeds: list[int]) -> None:
    vector.reset(np.arange(2), seeds)
    vector.step(np.arange(2), np.zeros((2, 2)))
