"""A recorder keeps what happened, and changes nothing of it."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import Autoreset, TimeLimit

from lifesafe.data.recorder import Recorder
from lifesafe.errors import DatasetError


class Walk(gymnasium.Env[Any, Any]):
    """Moves by its action, falls beyond 3, costs the distance from 0; it writes all it sees into one array."""

    observation_space: spaces.Space[Any] = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space: spaces.Space[Any] = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self) -> None:
        self.seen = np.zeros(2)
        self.taken: list[Any] = []
        self.fails = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if self.fails:
            raise ConnectionError("the robot does not answer")
        self.seen[:] = self.np_random.uniform(-0.1, 0.1), 0
        return self.view(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        if self.fails:
            raise ConnectionError("the robot does not answer")
        self.taken.append(action)
        self.seen += np.clip(action, -1, 1)[0], 1
        position = float(self.seen[0])
        return self.view(), np.float64(position), abs(position) > 3, False, {"cost": self.cost(position)}

    def view(self) -> Any:
        return self.seen

    def cost(self, position: float) -> Any:
        return abs(position)


class Parts(Walk):
    observation_space = spaces.Dict({"where": spaces.Box(-9, 9, (1,)), "when": spaces.Discrete(9)})

    def view(self) -> Any:
        return {"where": self.seen[:1].astype(np.float32), "when": int(self.seen[1])}


def play(environment: Any, actions: float, *, steps: int, seed: int | None = 0) -> None:
    """Begin an episode and take up to so many equal steps."""
    environment.reset(seed=seed)
    for _ in range(steps):
        *_, terminated, truncated, _ = environment.step(np.array([actions], dtype=np.float32))
        if terminated or truncated:
            return


def test_episodes_are_kept_with_their_ends() -> None:
    recorder = Recorder(TimeLimit(Walk(), 10))
    play(recorder, 1.0, steps=99)
    play(recorder, 0.1, steps=99, seed=1)
    made = recorder.dataset()
    assert list(made.lengths) == [4 if made.observations[0, 0] < 0 else 3, 10]
    assert list(made.terminated) == [True, False]
    np.testing.assert_array_equal(made.next_observations[:, 0], made.rewards)
    np.testing.assert_array_equal(made.costs[:, 0], np.abs(made.next_observations[:, 0]))
    inner = np.setdiff1d(np.arange(made.transitions), made.offsets[1:] - 1)
    np.testing.assert_array_equal(made.next_observations[inner], made.observations[inner + 1])
    np.testing.assert_array_equal(made.observations[:, 1], [*range(made.lengths[0]), *range(10)])


def test_the_environment_behaves_as_without() -> None:
    plain, recorded = TimeLimit(Walk(), 5), Recorder(TimeLimit(Walk(), 5))
    for environment in (plain, recorded):
        play(environment, 7.0, steps=2)
    np.testing.assert_array_equal(plain.unwrapped.seen, recorded.unwrapped.seen)  # type: ignore[attr-defined]
    assert recorded.unwrapped.taken == [np.float32(7.0)] * 2  # type: ignore[attr-defined]
    assert recorded.observation_space is recorded.env.observation_space


def test_actions_are_kept_as_clipped() -> None:
    recorder = Recorder(TimeLimit(Walk(), 2))
    play(recorder, -7.0, steps=2)
    np.testing.assert_array_equal(recorder.dataset().actions, [[-1.0], [-1.0]])


def test_costs_may_be_computed() -> None:
    seen: list[Any] = []

    def cost(before: Any, action: Any, after: Any, info: dict[str, Any]) -> Any:
        seen.append((before, action, after, info["cost"]))
        return after[0] - before[0], 1.0

    recorder = Recorder(TimeLimit(Walk(), 3), cost=cost)
    play(recorder, 0.5, steps=9)
    made = recorder.dataset()
    np.testing.assert_allclose(made.costs, [[0.5, 1.0]] * 3, rtol=1e-6)
    np.testing.assert_array_equal([step[0] for step in seen], made.observations)
    np.testing.assert_array_equal([step[2] for step in seen], made.next_observations)


def test_observations_in_parts_become_a_row() -> None:
    recorder = Recorder(TimeLimit(Parts(), 3))
    play(recorder, 0.5, steps=9)
    made = recorder.dataset()
    space = Parts.observation_space
    row = spaces.flatten(space, {"where": made.rewards[:1], "when": 1})
    np.testing.assert_array_equal(made.next_observations[0], row)


def test_an_episode_cut_by_reset_is_dropped_and_counted() -> None:
    recorder = Recorder(TimeLimit(Walk(), 5))
    play(recorder, 0.1, steps=3)
    play(recorder, 0.1, steps=5)
    recorder.reset()
    recorder.reset()  # nothing was under way
    assert list(recorder.dataset().lengths) == [5]
    assert recorder.dropped == 1


def test_cut_episodes_are_kept_on_request() -> None:
    recorder = Recorder(Walk(), keep_cut=True)
    play(recorder, 0.1, steps=3)
    play(recorder, 0.1, steps=2)
    assert list(recorder.dataset().lengths) == [3, 2]  # the second is under way
    recorder.step([0.1])
    recorder.close()
    made = recorder.dataset()
    assert list(made.lengths) == [3, 3]
    assert not made.terminated.any()
    assert recorder.dropped == 0


def test_finished_episodes_survive_an_exception() -> None:
    recorder = Recorder(TimeLimit(Walk(), 4))
    world: Any = recorder.unwrapped
    play(recorder, 0.1, steps=4)
    play(recorder, 0.2, steps=2)
    world.fails = True
    for act in (lambda: recorder.step([0.0]), recorder.reset):
        with pytest.raises(ConnectionError, match="does not answer"):
            act()
    world.fails = False
    play(recorder, 0.3, steps=4)
    assert list(recorder.dataset().lengths) == [4, 4]
    np.testing.assert_allclose(recorder.dataset().actions[:, 0], [0.1] * 4 + [0.3] * 4)
    assert recorder.dropped == 1


def test_steps_after_an_exception_belong_to_no_episode() -> None:
    """What is left of an episode has lost its beginning, and would be taken for a short one."""
    recorder = Recorder(TimeLimit(Walk(), 6))
    world: Any = recorder.unwrapped
    play(recorder, 0.1, steps=2)
    world.fails = True
    with pytest.raises(ConnectionError):
        recorder.step([0.0])
    world.fails = False
    while not any(recorder.step([0.1])[2:4]):
        pass
    assert recorder.episodes == ()
    play(recorder, 0.1, steps=6)
    assert list(recorder.dataset().lengths) == [6]


def test_steps_before_the_first_reset_belong_to_no_episode() -> None:
    world = Walk()
    world.reset(seed=0)
    recorder = Recorder(world)
    while not recorder.step([1.0])[2]:
        pass
    assert recorder.episodes == ()


def test_an_environment_that_restarts_by_itself_is_recorded() -> None:
    recorder = Recorder(Autoreset(TimeLimit(Walk(), 3)))
    recorder.reset(seed=0)
    for _ in range(11):  # three steps, and one that restarts
        recorder.step(np.array([0.1], dtype=np.float32))
    made = recorder.dataset()
    assert list(made.lengths) == [3, 3, 3]
    np.testing.assert_array_equal(made.observations[:, 1], [0, 1, 2] * 3)


def test_without_a_whole_episode_it_says_what_to_do() -> None:
    recorder = Recorder(Walk())
    play(recorder, 0.1, steps=3)
    recorder.close()
    with pytest.raises(DatasetError, match=r"No episode has ended yet, 1 were cut.*keep_cut=True"):
        recorder.dataset()


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        (None, r'no "cost", only nothing; give a function'),
        (lambda *step: "much", "numbers only"),
        (lambda *step: [], "0 costs"),
        (lambda *step: {"speed": 1.0}, "numbers only"),
    ],
)
def test_a_step_without_costs_in_numbers_is_refused(cost: Any, message: str) -> None:
    recorder = Recorder(gymnasium.make("Pendulum-v1"), cost=cost)
    recorder.reset(seed=0)
    with pytest.raises(DatasetError, match=message):
        recorder.step([0.1])


def test_a_step_that_costs_less_than_nothing_is_refused_and_not_kept() -> None:
    recorder = Recorder(Walk(), cost=lambda before, action, after, info: 1.5 - after[1], keep_cut=True)
    recorder.reset(seed=0)
    recorder.step([0.1])
    with pytest.raises(DatasetError, match=r"A step costs -0\.5 \(cost 1\); costs are never negative. Shift them"):
        recorder.step([0.1])
    np.testing.assert_array_equal(recorder.dataset().costs, [[0.5]])


def test_every_step_has_the_same_number_of_costs() -> None:
    recorder = Recorder(Walk(), cost=lambda before, action, after, info: np.zeros(int(after[1])))
    recorder.reset(seed=0)
    recorder.step([0.1])
    with pytest.raises(DatasetError, match="A step has 2 costs, those before it 1"):
        recorder.step([0.1])


def test_only_boxes_of_actions_and_observations_of_a_fixed_size_are_recorded() -> None:
    class Telling(Walk):
        observation_space = spaces.Sequence(spaces.Discrete(3))

    with pytest.raises(DatasetError, match=r"Only actions in a Box.*Discrete"):
        Recorder(gymnasium.make("CartPole-v1"))
    with pytest.raises(DatasetError, match="fixed number of entries"):
        Recorder(Telling())


def test_a_dataset_of_nan_names_it_and_the_episodes_stay() -> None:
    recorder = Recorder(TimeLimit(Walk(), 2), cost=lambda before, action, after, info: float("nan"))
    play(recorder, 0.1, steps=2)
    with pytest.raises(DatasetError, match="costs of transition 0"):
        recorder.dataset()
    assert len(recorder.episodes) == 1


class Careless(Walk):
    """Writes its costs into one array, too, and into the action that it was given; its reward is an array."""

    def __init__(self) -> None:
        super().__init__()
        self.paid = np.zeros(1, dtype=np.float32)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, *rest = super().step(action)
        action[:] = 9.0
        return observation, np.array([reward]), *rest

    def cost(self, position: float) -> Any:
        self.paid[:] = self.seen[1]
        return self.paid


def test_what_an_environment_writes_over_later_is_kept_as_it_was() -> None:
    recorder = Recorder(TimeLimit(Careless(), 4))
    play(recorder, 0.5, steps=4)
    episode = recorder.dataset()[0]
    np.testing.assert_array_equal(episode.costs[:, 0], [1, 2, 3, 4])
    np.testing.assert_array_equal(episode.actions, np.full((4, 1), 0.5))
    np.testing.assert_allclose(episode.rewards, episode.next_observations[:, 0], rtol=1e-6)
