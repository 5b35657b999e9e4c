import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lifesafe.data.dsrl import read_dsrl, read_source
from lifesafe.errors import CheckpointError, ConfigError, DatasetError
from lifesafe.interfaces import Progress
from lifesafe.lab.collection import CollectionConfig, collect
from lifesafe.lab.collection.shards import read_returns
from lifesafe.systems import task, task_from_id

POINT = task("PointCircle")
TINY = CollectionConfig(
    steps=12 * 50 * 12,
    rows=10,
    exhibits=2,
    segment=50,
    width=8,
    epochs=1,
    minibatch=500,
    episodes=20,
    cost_cells=4,
    reward_cells=4,
    save_seconds=0,
    loosest=200.0,
)


class StopError(Exception):
    """Stops a collection from within."""


def stop_at(steps: int) -> object:
    def progress(now: Progress) -> None:
        if now.done >= steps:
            raise StopError

    return progress


def logged(directory: Path) -> np.ndarray:
    return np.concatenate([read_returns(path) for path in sorted((directory / "shards").glob("shard-*.npz"))])


def test_the_dataset_is_one_that_the_reader_takes_and_progress_is_told_after_every_update(tmp_path: Path) -> None:
    told: list[Progress] = []
    path = collect(replace(POINT, name="lab/Point"), TINY, tmp_path, seed=0, progress=told.append)
    assert path == tmp_path / "lab-Point.hdf5"
    dataset = read_dsrl(path)
    assert read_source(path) == f"lifesafe data collect lab/Point, seed 0, {TINY.steps:,} steps"
    assert 10 <= len(dataset) <= 30
    assert dataset.observations.shape[1] == 5
    assert (dataset.lengths == 200).all()
    assert not dataset.terminated.any()
    assert np.abs(dataset.actions).max() <= 1
    assert set(np.unique(dataset.costs)) <= {0.0, 1.0}
    np.testing.assert_array_equal(dataset[3].observations[1:], dataset[3].next_observations[:-1])
    assert [now.done for now in told] == [600 * (n + 1) for n in range(12)]
    returns = logged(tmp_path)
    assert told[-1].figures["episodes"] == len(returns) == 12 * 3
    assert told[-1].figures["best within the limits"] == pytest.approx(returns[returns[:, 1] <= 20, 0].max())


def test_the_seed_decides_the_data_and_a_collection_goes_on_only_with_its_own_settings(tmp_path: Path) -> None:
    first, again, other = (
        read_dsrl(collect(POINT, TINY, tmp_path / name, seed=seed)).fingerprint
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    assert first == again != other
    told: list[Progress] = []
    finished = collect(POINT, TINY, tmp_path / "a", seed=0, progress=told.append)
    assert (read_dsrl(finished).fingerprint, told) == (first, []), "what is finished is not run again"
    for name, value in {"width": 9, "loosest": 50.0}.items():
        with pytest.raises(ConfigError, match=name):
            collect(POINT, replace(TINY, **{name: value}), tmp_path / "a", seed=0)
    more = replace(TINY, steps=2 * TINY.steps, episodes=40)
    before = logged(tmp_path / "a")
    collect(POINT, more, tmp_path / "a", seed=0)
    np.testing.assert_array_equal(logged(tmp_path / "a")[: len(before)], before)
    assert len(logged(tmp_path / "a")) > len(before)
    (tmp_path / "b" / "shards" / "shard-000000.npz").unlink()
    with pytest.raises(DatasetError, match=r"shard-000000.npz cannot be read.* Restore it"):
        collect(POINT, more, tmp_path / "b", seed=0, progress=told.append)
    assert told == [], "nothing is taken before that is noticed"
    with pytest.raises(ConfigError, match="No episode ended within 600 steps"):
        collect(POINT, replace(TINY, steps=600), tmp_path / "d", seed=0)


def test_a_stopped_collection_goes_on_and_keeps_what_was_logged(tmp_path: Path) -> None:
    with pytest.raises(StopError):
        collect(POINT, TINY, tmp_path, seed=0, progress=stop_at(600 * 7))
    before = logged(tmp_path)
    told: list[Progress] = []
    collect(POINT, TINY, tmp_path, seed=0, progress=told.append)
    assert told[0].done == 600 * 7  # of these the last 600 are taken again
    after = logged(tmp_path)
    np.testing.assert_array_equal(after[: len(before)], before)
    assert len(np.unique(after, axis=0)) == len(after) == told[-1].figures["episodes"]


def test_a_collection_that_ends_early_is_the_beginning_of_the_whole(tmp_path: Path) -> None:
    early = replace(TINY, stop=TINY.steps // 2)
    told: list[Progress] = []
    collect(POINT, early, tmp_path / "early", seed=0, progress=told.append)
    collect(POINT, replace(TINY, steps=early.stop), tmp_path / "short", seed=0)
    collect(POINT, TINY, tmp_path / "whole", seed=0)
    begun = logged(tmp_path / "early")
    assert told[-1].done == told[-1].total == early.stop
    np.testing.assert_array_equal(begun, logged(tmp_path / "whole")[: len(begun)])
    assert not np.array_equal(begun, logged(tmp_path / "short"))


def dear(observation: Any, action: Any, next_observation: Any, info: Any) -> float:
    return 2.0


def cheap(observation: Any, action: Any, next_observation: Any, info: Any) -> float:
    return 0.5


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"cost": f"{__name__}:cheap"}, "config.cost ="),
        ({"horizon": 40}, "config.horizon = 50 there, 40 here"),
        ({"largest_costs": 3.0}, "config.largest_costs ="),
        ({"limits": (20.0, 20.0), "largest_costs": (2.0, 2.0)}, "config.largest_costs ="),
    ],
)
def test_another_cost_or_horizon_in_the_same_directory_is_refused(
    tmp_path: Path, change: dict[str, Any], complaint: str
) -> None:
    settings: dict[str, Any] = {"cost": f"{__name__}:dear", "horizon": 50, "largest_costs": 2.0, "limits": 20.0}
    pendulum = task_from_id("Pendulum-v1", **settings)
    collect(pendulum, TINY, tmp_path, seed=0, workers=0)
    with pytest.raises(ConfigError, match=complaint):
        collect(task_from_id("Pendulum-v1", **settings | change), TINY, tmp_path, seed=0, workers=0)


def test_two_collections_do_not_share_a_directory(tmp_path: Path) -> None:
    def inside(now: Progress) -> None:
        collect(POINT, TINY, tmp_path, seed=0)

    with pytest.raises(CheckpointError, match="Another process"):
        collect(POINT, TINY, tmp_path, seed=0, progress=inside)


def test_a_killed_collection_loses_and_doubles_nothing(tmp_path: Path) -> None:
    script = (
        "import sys; from lifesafe.lab.collection import CollectionConfig, collect;"
        "from lifesafe.systems import task;"
        f"collect(task('PointCircle'), {TINY!r}, sys.argv[1], seed=0,"
        " progress=lambda now: print(now.done, flush=True))"
    )
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as lines:
        while int(next(lines)) < 600 * 9:
            pass
        process.send_signal(signal.SIGKILL)  # in the next update, or while it saves this one
        process.wait()
    before = logged(tmp_path)
    told: list[Progress] = []
    dataset = read_dsrl(collect(POINT, replace(TINY, episodes=1000), tmp_path, seed=0, progress=told.append))
    assert 600 * 9 <= told[0].done <= TINY.steps
    everything = logged(tmp_path)
    assert len(before) >= 24  # two rounds of 12 episodes had counted
    np.testing.assert_array_equal(everything[:24], before[:24])
    assert len(np.unique(everything, axis=0)) == len(everything) == len(dataset)
