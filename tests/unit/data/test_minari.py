"""Minari datasets are read with their costs and written without loss."""

import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import minari
import numpy as np
import pytest
from gymnasium import spaces

from lifesafe.data import Dataset, read_minari, write_minari
from lifesafe.errors import DatasetError, DependencyError
from logs import dataset, plane

BOX = spaces.Box(-np.inf, np.inf, (2,), np.float64)
ACTIONS = spaces.Box(-1.0, 1.0, (1,), np.float32)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep Minari's datasets of a test in its own directory."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    return tmp_path


def foreign(infos: Any, *, observations: Any = None, space: spaces.Space[Any] = BOX, steps: int = 3) -> Any:
    """Return a Minari dataset of one episode that another tool has written."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Minari misses about the data is of no interest here
        return minari.create_dataset_from_buffers(
            "foreign-v0",
            [
                minari.data_collector.EpisodeBuffer(
                    observations=np.arange(2.0 * steps + 2).reshape(-1, 2) if observations is None else observations,
                    actions=np.zeros((steps, 1), dtype=np.float32),
                    rewards=np.ones(steps),
                    terminations=np.zeros(steps, dtype=bool),
                    truncations=np.arange(steps) == steps - 1,
                    infos=infos,
                )
            ],
            observation_space=space,
            action_space=ACTIONS,
        )


def test_a_dataset_is_taken_as_well_as_its_name() -> None:
    made = dataset(5)
    written = write_minari(made, "logs-v0", author="me", algorithm="dice", description="a few logs")
    assert read_minari(written).fingerprint == made.fingerprint
    assert read_minari(written.filter_episodes(lambda episode: episode.id < 2)).transitions == made.offsets[2]
    assert written.storage.metadata["author"] == {"me"}


def test_the_environment_is_kept() -> None:
    made = plane([(0.0, 0.0)])
    pendulum = Dataset(
        observations=made.observations, actions=made.actions[:, :1], rewards=made.rewards, costs=made.costs,
        next_observations=made.next_observations, terminated=made.terminated, offsets=made.offsets,
    )  # fmt: skip
    written = write_minari(pendulum, "pendulum-v0", environment="Pendulum-v1")
    assert written.recover_environment().spec.id == "Pendulum-v1"
    assert read_minari(written).fingerprint == pendulum.fingerprint


def test_the_box_of_actions_holds_all_of_them() -> None:
    assert write_minari(dataset(2), "narrow-v0").action_space.high.max() == 1.0
    wide = dataset(2)
    wide.actions[0] = 7.0
    assert write_minari(wide, "wide-v0").action_space.contains(wide.actions[0])


@pytest.mark.parametrize("cost", [[0.0, 0.0, 1.0, 2.0], [0.0, 1.0, 2.0]])
def test_the_info_of_the_reset_is_no_step(cost: list[float]) -> None:
    read = read_minari(foreign({"cost": np.array(cost)}))
    np.testing.assert_array_equal(read.costs, [[0.0], [1.0], [2.0]])
    np.testing.assert_array_equal(read.next_observations, [[2.0, 3.0], [4.0, 5.0], [6.0, 7.0]])
    assert not read.terminated[0]


def test_costs_may_have_other_names_and_be_several() -> None:
    infos = {"cost_speed": np.arange(4.0), "cost_wall": np.ones(4), "both": np.zeros((4, 2))}
    stored = foreign(infos)
    np.testing.assert_array_equal(read_minari(stored, cost=("cost_speed", "cost_wall")).costs, [[1, 1], [2, 1], [3, 1]])
    assert read_minari(stored, cost="both").costs.shape == (3, 2)


def test_costs_may_be_computed() -> None:
    stored = foreign({"speed": np.array([9.0, 0.1, 0.5, 0.9]), "pose": {"x": np.arange(4.0)}})
    fast = read_minari(stored, cost=lambda o, a, o2, info: float(info["speed"] > 0.4))
    np.testing.assert_array_equal(fast.costs[:, 0], [0, 1, 1])
    two = read_minari(stored, cost=lambda o, a, o2, info: (o2[0] - o[0], info["pose"]["x"]))
    np.testing.assert_array_equal(two.costs, [[2, 1], [2, 2], [2, 3]])


@pytest.mark.parametrize(
    ("infos", "found"), [({"speed": np.zeros(4)}, r"\['speed'\]; name the entry"), ({}, "nothing")]
)
def test_missing_costs_are_named_with_what_there_is(infos: dict[str, Any], found: str) -> None:
    stored = foreign(infos)
    with pytest.raises(DatasetError, match=rf"'foreign-v0'.*no 'cost', only {found}"):
        read_minari(stored)
    assert read_minari(stored, cost=lambda *step: 1.0).returns[0, 1] == 3.0


def test_observations_in_parts_become_one_row_as_gymnasium_flattens_them() -> None:
    space = spaces.Dict({"pose": spaces.Box(-9, 9, (2, 2)), "goal": spaces.Tuple([spaces.Box(-9, 9, (1,))])})
    rng = np.random.default_rng(0)
    pose, goal = rng.normal(size=(4, 2, 2)).astype(np.float32), rng.normal(size=(4, 1)).astype(np.float32)
    stored = foreign({"cost": np.zeros(4)}, observations={"pose": pose, "goal": (goal,)}, space=space)
    flat = spaces.flatten(space, {"pose": pose[1], "goal": (goal[1],)})
    np.testing.assert_array_equal(read_minari(stored).observations[1], flat)


def test_spaces_that_are_not_numbers_are_refused() -> None:
    stored = foreign({"cost": np.zeros(4)}, observations=np.arange(4), space=spaces.Discrete(9))
    with pytest.raises(DatasetError, match=r"'foreign-v0'.*observations are of space Discrete\(9\)"):
        read_minari(stored)


def test_an_episode_without_its_last_observation_is_refused() -> None:
    stored = foreign({"cost": np.zeros(3)}, observations=np.zeros((3, 2)))
    with pytest.raises(DatasetError, match="3 steps and 3 observations"):
        read_minari(stored)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(DatasetError, match=r"'nowhere-v0'.*minari list local"):
        read_minari("nowhere-v0")


def test_a_name_is_given_once() -> None:
    write_minari(dataset(2, seed=0), "logs-v0")
    with pytest.raises(DatasetError, match="'logs-v0' already"):
        write_minari(dataset(2, seed=1), "logs-v0")
    assert read_minari("logs-v0").fingerprint == dataset(2, seed=0).fingerprint


def test_a_name_that_minari_refuses_leaves_nothing_behind(place: Path) -> None:
    with pytest.raises(DatasetError, match="'bad name!'"):
        write_minari(dataset(2), "bad name!")
    assert not [found for found in place.rglob("*") if found.is_file()]


def test_observations_that_are_no_chain_are_refused() -> None:
    made = dataset(3, longest=6)
    made.next_observations[0] += 1
    with pytest.raises(DatasetError, match=r"after transition 0 is not.*1 transitions.*write_dsrl"):
        write_minari(made, "logs-v0")


def test_without_minari_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(DependencyError, match=r"lifesafe\[minari\]"):
        read_minari(SimpleNamespace())
    with pytest.raises(DependencyError, match=r"lifesafe\[minari\]"):
        write_minari(dataset(2), "logs-v0")
