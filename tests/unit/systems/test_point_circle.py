"""PointCircle: its physics, reward and cost as defined, one row or thousands, and its physics adrift."""

import math

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from lifesafe.errors import ConfigError
from lifesafe.systems.simulators.behaviors import drive
from lifesafe.systems.simulators.point_circle import HORIZON, TASK, Physics, PointCircle, make
from lifesafe.systems.task import load_entry_point
from unit.systems.best_drivers import BEST

ROWS = np.arange(6)
SEEDS = [3, 1, 4, 1, 5, 9]


def pushes(seed: int, rows: int = len(ROWS)) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1.5, 1.5, (HORIZON, rows, 2))


def whole_episodes(points: PointCircle, actions: np.ndarray, rows: np.ndarray = ROWS) -> dict[str, np.ndarray]:
    """Return what whole episodes in those rows gave, time first; row i gets the i-th seed and column of actions."""
    seen = [points.reset(rows, [SEEDS[row] for row in rows])]
    steps = []
    for now in actions[:, rows]:
        steps.append(points.step(rows, now))
        seen.append(steps[-1].observations)
    return {
        "observations": np.array(seen),
        "rewards": np.array([step.rewards for step in steps]),
        "costs": np.array([step.costs for step in steps]),
        "truncated": np.array([step.truncated for step in steps]),
        "terminated": np.array([step.terminated for step in steps]),
    }


def mean_returns(limit: float, physics: Physics, episodes: int = 60) -> tuple[float, float]:
    reward, cost = drive([BEST[limit][0]] * episodes, range(episodes), physics).returns.mean(axis=0)
    return float(reward), float(cost)


def test_the_task_names_what_is_here() -> None:
    assert load_entry_point(str(TASK.vector)) is PointCircle
    environment = TASK.environment()
    assert environment.observation_space.shape == (TASK.observations,)
    assert environment.action_space.shape == (TASK.actions,)


def test_the_single_environment_is_a_gymnasium_environment() -> None:
    check_env(make(), skip_render_check=True)


def test_a_single_environment_gives_the_same_episode_as_a_row() -> None:
    actions = pushes(0)
    expected = whole_episodes(PointCircle(len(ROWS)), actions)
    environment = make()
    for row, seed in enumerate(SEEDS):
        seen, _ = environment.reset(seed=seed)
        np.testing.assert_array_equal(seen, expected["observations"][0, row])
        assert seen.dtype == np.float32
        for time in range(HORIZON):
            seen, reward, terminated, truncated, info = environment.step(actions[time, row])
            np.testing.assert_array_equal(seen, expected["observations"][time + 1, row])
            assert reward == expected["rewards"][time, row]
            assert info["cost"] == expected["costs"][time, row, 0]
            assert not terminated
            assert truncated == (time == HORIZON - 1)


def test_reward_and_cost_are_as_defined() -> None:
    """Recomputed from what is seen, one step at a time, with the formula of the Circle tasks."""
    points = PointCircle(len(ROWS))
    found = whole_episodes(points, 2.0 * pushes(5))
    inside = []
    for time in range(HORIZON):
        for row in ROWS:
            x, y, vx, vy = found["observations"][time + 1, row, :4].astype(float) / (0.1, 0.1, 0.2, 0.2)
            expected = 0.1 * (-x * vy + y * vx) / (1 + abs(math.hypot(x, y) - 7))
            assert found["rewards"][time, row] == pytest.approx(expected, abs=1e-5)
            assert found["observations"][time + 1, row, 4] == pytest.approx(0.1 * (math.hypot(x, y) - 7), abs=1e-6)
            if abs(abs(x) - 5) > 1e-5:  # nearer than that, single precision cannot tell
                assert found["costs"][time, row, 0] == float(abs(x) > 5)
            inside.append(abs(x) <= 5)
    assert 0 < sum(inside) < len(inside)


def test_the_point_obeys_its_equation_of_motion() -> None:
    physics = Physics(friction=0.5, friction_spread=0.0, payload=1.0, gust=0.0)
    points, row = PointCircle(1, physics), np.arange(1)
    seen = points.reset(row, [7])[0].astype(float)
    position, velocity = seen[:2] / 0.1, seen[2:4] / 0.2
    for action in pushes(6, rows=1)[:30]:
        # m dv/dt = F a - c v with the friction of the new velocity, solved by hand for m = 2, c = 0.5, dt = 0.2, F = 4
        velocity = (velocity + 0.4 * np.clip(action[0], -1, 1)) / 1.05
        position = position + 0.2 * velocity
        seen = points.step(row, action).observations[0]
        np.testing.assert_allclose(seen[:4], [*(0.1 * position), *(0.2 * velocity)], atol=1e-5)


def test_starts_lie_in_a_ring_at_rest() -> None:
    seen = PointCircle(2000).reset(np.arange(2000), range(2000)).astype(float)
    distance = np.hypot(*(seen[:, :2].T / 0.1))
    assert 2 <= distance.min() < 2.1
    assert 3.9 < distance.max() <= 4 + 1e-5
    assert not seen[:, 2:4].any()
    angles = np.arctan2(seen[:, 1], seen[:, 0])
    assert abs(np.exp(1j * angles).mean()) < 4 / math.sqrt(2000)


def test_the_walls_stop_a_point() -> None:
    found = whole_episodes(PointCircle(len(ROWS)), np.full((HORIZON, len(ROWS), 2), [1.0, 0.0]))
    np.testing.assert_allclose(found["observations"][-1, :, 0], 1.0, atol=0.05)
    assert np.abs(found["observations"][..., :2]).max() <= 1.0
    assert found["costs"].sum(axis=0).min() > 100


def test_a_drift_of_the_physics_is_felt() -> None:
    usual, safe = mean_returns(math.inf, Physics())[0], mean_returns(0.0, Physics())[1]
    assert safe == 0
    for physics in (Physics(friction=1.2), Physics(payload=1.0)):
        assert mean_returns(math.inf, physics)[0] < 0.95 * usual
    assert mean_returns(0.0, Physics(friction=0.4))[1] > 1
    for bias in (-1.0, 1.0):
        assert mean_returns(0.0, Physics(sensor_bias=(bias, 0.0)))[1] > 10


def test_physics_can_change_in_the_middle_of_an_episode() -> None:
    points, row = PointCircle(1), np.arange(1)
    points.reset(row, [0])
    before = points.step(row, np.zeros((1, 2))).observations
    points.physics = Physics(gust=0.0, sensor_bias=(1.0, -2.0))
    after = points.step(row, np.zeros((1, 2))).observations
    np.testing.assert_allclose((after - before)[0, :2], [0.1, -0.2], atol=0.01)
    plain, biased = (each.reset(seed=0)[0] for each in (make(), make(sensor_bias=(1.0, 0.0))))
    assert (biased - plain)[:2] == pytest.approx([0.1, 0.0], abs=1e-6)


@pytest.mark.parametrize(
    ("physics", "message"),
    [
        ({"friction": -0.1}, "friction must be finite and not negative; got -0.1"),
        ({"payload": math.nan}, "payload must be finite and not negative; got nan"),
        ({"gust": math.inf}, "gust must be finite and not negative; got inf"),
        ({"friction_spread": 1.5}, "friction_spread is a fraction from 0 to 1; got 1.5"),
        ({"sensor_bias": (0.0, math.inf)}, "sensor_bias is one finite number for x and one for y"),
    ],
)
def test_impossible_physics_are_refused(physics: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Physics(**physics)  # type: ignore[arg-type]


def test_without_friction_it_stays_finite_and_with_much_it_stays_slow() -> None:
    for friction in (0.0, 1e6):
        points = PointCircle(len(ROWS), Physics(friction=friction))
        found = whole_episodes(points, pushes(8))
        assert np.isfinite(found["rewards"]).all()
    assert np.abs(found["observations"][..., 2:4]).max() < 1e-4
