"""Seed streams: the same number for the same purpose, in any order."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifesafe._random import generator, integer
from lifesafe.errors import ConfigError

names = st.lists(st.text() | st.integers(), max_size=4)


def test_streams_never_change_between_versions() -> None:
    assert generator(0).integers(10**6, size=3).tolist() == [814845, 919190, 305804]
    assert generator(7, "noise", 3).integers(10**6, size=3).tolist() == [788379, 11130, 237538]
    assert integer(7, "noise", 3) == 1091225677


@given(st.integers(0, 2**80), names)
def test_the_same_purpose_gives_the_same_numbers(seed: int, path: list[str | int]) -> None:
    assert np.array_equal(generator(seed, *path).random(4), generator(seed, *path).random(4))
    assert 0 <= integer(seed, *path) < 2**31


def test_different_purposes_and_seeds_give_different_numbers() -> None:
    paths: list[tuple[str | int, ...]] = [
        (), ("a",), ("b",), ("a", "b"), ("ab",), ("b", "a"), (1,), ("1",), (-1,), ("a", 1), ("a", 2), ("",),
    ]  # fmt: skip
    seeds = [0, 1, 2**32, 2**32 + 1, 2**70]
    draws = {generator(seed, *path).random() for seed in seeds for path in paths}
    assert len(draws) == len(seeds) * len(paths)


@pytest.mark.parametrize("seed", [-1, True, 1.5, "0", None])
def test_a_seed_is_a_whole_number_that_is_not_negative(seed: Any) -> None:
    with pytest.raises(ConfigError, match="A seed is a whole number"):
        generator(seed)
