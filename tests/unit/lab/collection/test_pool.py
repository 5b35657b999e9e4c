"""EnvPool: its own episodes, the same physics."""

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lifesafe.errors import ConfigError, DependencyError, EpisodeError
from lifesafe.lab.collection.pool import EnvPool
from lifesafe.systems import task
from lifesafe.systems.simulators.velocity import TASKS

pytest.importorskip("envpool")


@pytest.mark.parametrize("each", TASKS, ids=lambda each: each.name)
def test_a_step_earns_and_costs_what_it_does_in_gymnasium(each: Any) -> None:
    """Put Gymnasium's simulator where EnvPool's starts, and take the same steps in both."""
    pool, environment = EnvPool(each, 1), each.environment()
    row, random = np.array([0]), np.random.default_rng(0)
    seen = pool.reset(row, [3])[0]
    environment.reset(seed=0)
    inner = environment.unwrapped
    hidden = inner.model.nq + inner.model.nv - len(seen)  # the coordinates along the ground, which are not seen
    state = np.concatenate([np.zeros(hidden), seen])
    inner.set_state(state[: inner.model.nq], state[inner.model.nq :])
    for _ in range(8):
        action = random.uniform(-1, 1, each.actions).astype(np.float32)
        step = pool.step(row, action[None])
        observation, reward, terminated, _, info = environment.step(action)
        # The simulators are of different versions, and EnvPool's start is known in single precision only.
        np.testing.assert_allclose(step.observations[0], observation, atol=2e-3)
        assert step.rewards[0] == pytest.approx(reward, abs=2e-3)
        assert (step.costs[0, 0], step.terminated[0]) == (info["cost"], terminated)
    pool.close()
    environment.close()


def run(seeds: list[int]) -> np.ndarray:
    pool = EnvPool(task("HopperVelocity"), 2)
    seen = [pool.reset(np.arange(2), seeds[:2])]
    for seed in seeds[2:]:
        pool.step(np.arange(2), np.zeros((2, 3)))
        seen.append(pool.reset(np.array([1]), [seed]))
    pool.close()
    pool.close()
    return np.concatenate(seen)


def test_the_first_seeds_decide_all_episodes_of_their_rows() -> None:
    seen = run([1, 2, 1, 1])
    assert np.array_equal(seen, run([1, 2, 7, 8]))
    assert np.array_equal(seen[[1]], run([2, 2])[:1])
    assert len(np.unique(seen, axis=0)) == 4


def test_the_results_stand_in_the_order_of_the_rows_and_actions_are_clipped() -> None:
    hopper, actions = task("HopperVelocity"), np.random.default_rng(0).uniform(-3, 3, (4, 3))
    steps = []
    for rows in (np.array([0, 1, 2, 3]), np.array([3, 0, 2])):
        pool = EnvPool(hopper, 4)
        pool.reset(np.arange(4), [5, 6, 7, 8])
        steps.append(pool.step(rows, np.clip(actions, -1, 1)[rows] if len(rows) == 4 else actions[rows]))
        pool.close()
    for name, values in vars(steps[1]).items():
        assert np.array_equal(values, getattr(steps[0], name)[[3, 0, 2]])


def test_an_episode_is_cut_off_at_the_horizon_and_waits_for_its_reset() -> None:
    pool = EnvPool(replace(task("HopperVelocity"), horizon=3), 1)
    with pytest.raises(ConfigError, match="makes all rows at their first reset: name 0 to 0"):
        pool.reset(np.array([1]), [0])
    with pytest.raises(ConfigError, match="Row 0 has no episode under way"):
        pool.step(np.array([0]), np.zeros((1, 3)))
    pool.reset(np.array([0]), [0])
    assert [pool.step(np.array([0]), np.zeros((1, 3))).truncated[0] for _ in range(3)] == [False, False, True]
    with pytest.raises(ConfigError, match="Row 0 has no episode under way"):
        pool.step(np.array([0]), np.zeros((1, 3)))
    pool.close()


class Blind:
    """A pool that sees nothing in one entry."""

    def __init__(self, pool: Any, entry: int) -> None:
        self._pool, self._entry = pool, entry

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def recv(self) -> Any:
        seen, *rest = self._pool.recv()
        return np.where(np.arange(len(seen))[:, None] == self._entry, np.nan, seen), *rest


def test_an_observation_that_is_not_finite_is_blamed_on_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    vector: Any = EnvPool(task("HopperVelocity"), 2)
    made = vector._module.make_gymnasium
    monkeypatch.setattr(vector._module, "make_gymnasium", lambda *args, **settings: Blind(made(*args, **settings), 1))
    vector.reset(np.arange(2), [0, 1])
    with pytest.raises(EpisodeError, match="The environment of task 'HopperVelocity' gave nan as entry 0 of an obs"):
        vector.step(np.arange(2), np.zeros((2, 3)))
    vector.close()


def test_tasks_without_a_pool_are_refused() -> None:
    with pytest.raises(ConfigError, match="Task 'CarCircle' is not in EnvPool; only the velocity tasks are"):
        EnvPool(task("CarCircle"), 2)


def test_a_missing_envpool_is_named_with_the_way_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(DependencyError, match=r'needs EnvPool: pip install "lifesafe\[fast\]"'):
        EnvPool(task("HopperVelocity"), 1)
