from pathlib import Path

import numpy as np
import pytest

from lifesafe.data import Episode
from lifesafe.errors import DatasetError
from lifesafe.lab.collection.shards import read_episodes, read_returns, write_shard


def episode(length: int, seed: int) -> Episode:
    random = np.random.default_rng(seed)
    seen = random.normal(size=(length + 1, 3)).astype(np.float32)
    return Episode(
        observations=seen[:-1],
        actions=random.normal(size=(length, 2)).astype(np.float32),
        rewards=random.normal(size=length).astype(np.float32),
        costs=random.integers(2, size=(length, 1)).astype(np.float32),
        next_observations=seen[1:],
        terminated=bool(seed % 2),
    )


def test_episodes_come_back_as_they_were_whichever_are_asked_for(tmp_path: Path) -> None:
    episodes = [episode(length, seed) for seed, length in enumerate((4, 1, 7, 3))]
    write_shard(tmp_path / "a.npz", episodes)
    for index, found in zip((1, 3), read_episodes(tmp_path / "a.npz", np.array([1, 3])), strict=True):
        for name, value in vars(episodes[index]).items():
            np.testing.assert_array_equal(getattr(found, name), value)
    returns = [tuple(one.returns) for one in episodes]
    np.testing.assert_array_equal(read_returns(tmp_path / "a.npz"), returns)


@pytest.mark.parametrize("keep", [0, 10, 700, -30])
def test_a_damaged_shard_is_refused_by_name(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "a.npz"
    write_shard(path, [episode(9, 0)])
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DatasetError, match=r"a\.npz cannot be read"):
        read_returns(path)
