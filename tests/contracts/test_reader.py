"""Every way into a dataset gives the same one, or says in one sentence why not."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from lifesafe.data import Dataset, read_dsrl, read_minari, write_dsrl, write_minari
from lifesafe.data.recorder import Recorder
from logs import dataset

Way = Callable[[Dataset, Path], Dataset]


def through_hdf5(made: Dataset, place: Path) -> Dataset:
    write_dsrl(made, place / "logs.hdf5")
    return read_dsrl(place / "logs.hdf5")


def through_mapped_hdf5(made: Dataset, place: Path) -> Dataset:
    write_dsrl(made, str(place / "logs.hdf5"), compress=False)
    return read_dsrl(str(place / "logs.hdf5"))


def through_minari(made: Dataset, place: Path) -> Dataset:
    write_minari(made, "test/logs-v0")
    return read_minari("test/logs-v0")


def through_arrays(made: Dataset, place: Path) -> Dataset:
    ends = np.isin(np.arange(made.transitions), made.offsets[1:] - 1)
    fell = np.repeat(made.terminated, made.lengths)
    return Dataset.from_arrays(
        observations=made.observations.tolist(),
        actions=made.actions.astype(np.float64),
        rewards=made.rewards,
        costs=made.costs,
        terminals=ends & fell,
        timeouts=ends & ~fell,
        next_observations=made.next_observations,
    )


def through_episodes(made: Dataset, place: Path) -> Dataset:
    return Dataset.from_episodes(iter(made))


class Replay(gymnasium.Env[Any, Any]):
    """Lets the episodes of a dataset happen again."""

    def __init__(self, made: Dataset) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, made.observations.shape[1:])
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, made.actions.shape[1:])
        self.episodes: Iterator[Any] = iter(made)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.now, self.time = next(self.episodes), 0
        return self.now.observations[0], {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        t, now = self.time, self.now
        self.time += 1
        last = self.time == len(now)
        ends = last and now.terminated, last and not now.terminated
        return now.next_observations[t], now.rewards[t], *ends, {"cost": now.costs[t]}


def through_recorder(made: Dataset, place: Path) -> Dataset:
    recorder = Recorder(Replay(made))
    for episode in made:
        recorder.reset()
        for action in episode.actions:
            recorder.step(action)
    return recorder.dataset()


@pytest.fixture(
    params=[
        through_hdf5, through_mapped_hdf5, through_minari, through_arrays, through_episodes, through_recorder,
    ],
    ids=lambda way: way.__name__,
)  # fmt: skip
def way(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Way:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    given: Way = request.param
    return given


@pytest.mark.parametrize("costs", [1, 2, 3])
def test_the_dataset_comes_through_unchanged(way: Way, costs: int, tmp_path: Path) -> None:
    made = dataset(12, costs=costs)
    through = way(made, tmp_path)
    assert through.fingerprint == made.fingerprint
    np.testing.assert_array_equal(through.returns, made.returns)


@pytest.mark.parametrize(("episodes", "longest"), [(5, 1), (1, 12)])
def test_single_steps_and_single_episodes_come_through(way: Way, episodes: int, longest: int, tmp_path: Path) -> None:
    made = dataset(episodes, longest=longest)
    assert way(made, tmp_path).fingerprint == made.fingerprint
