"""Segments of consecutive steps."""

import numpy as np
import pytest

from lifesafe.data.sequences import Segments
from lifesafe.errors import DatasetError

FIRST, LENGTHS = np.array([0, 10, 13]), np.array([10, 3, 50])


def segments(length: int = 5, **options: object) -> Segments:
    return Segments(FIRST, LENGTHS, options.pop("weights", np.ones(3)), length=length, **options)


@pytest.mark.parametrize("starts", ["whole", "anywhere"])
def test_segments_are_consecutive_steps_of_one_episode(starts: str) -> None:
    rows = segments(starts=starts).draw(np.random.default_rng(0), 500)
    within = rows.rows - FIRST[rows.episodes][:, None]
    np.testing.assert_array_equal(within[rows.real], rows.times[rows.real])
    assert (np.diff(rows.times, axis=1) == 1).all()
    np.testing.assert_array_equal(rows.real, rows.times < LENGTHS[rows.episodes][:, None])
    np.testing.assert_array_equal(within[~rows.real], (LENGTHS[rows.episodes][:, None] - 1 + 0 * within)[~rows.real])
    assert rows.real[:, 0].all()


def test_whole_segments_are_padded_only_if_the_episode_is_shorter() -> None:
    rows = segments().draw(np.random.default_rng(0), 500)
    np.testing.assert_array_equal(rows.real.all(axis=1), LENGTHS[rows.episodes] >= 5)
    assert (segments(starts="anywhere").draw(np.random.default_rng(0), 500).real.all(axis=1)).mean() < 0.8


def test_no_step_is_seen_more_rarely_than_those_in_the_middle() -> None:
    only = np.array([0.0, 0.0, 1.0])
    rows = segments(weights=only).draw(np.random.default_rng(0), 40_000)
    counts = np.bincount(rows.times.ravel(), minlength=50)
    assert counts.min() > 0.9 * counts[10:40].mean()
    rows = segments(weights=only, starts="anywhere").draw(np.random.default_rng(0), 40_000)
    counts = np.bincount(rows.times[rows.real], minlength=50)
    assert counts[0] == pytest.approx(counts[10:40].mean() / 5, rel=0.15)  # OSRL's defect, which the preset keeps


def test_episodes_are_drawn_by_weight() -> None:
    rows = segments(weights=np.array([1.0, 0.0, 3.0])).draw(np.random.default_rng(0), 20_000)
    shares = np.bincount(rows.episodes, minlength=3) / 20_000
    np.testing.assert_allclose(shares, [0.25, 0.0, 0.75], atol=0.02)


def test_the_same_generator_draws_the_same_segments() -> None:
    one, two = (segments().draw(np.random.default_rng(5), 20) for _ in range(2))
    np.testing.assert_array_equal(one.rows, two.rows)


def test_cover_goes_once_over_every_step() -> None:
    rows = segments().cover(1000)
    np.testing.assert_array_equal(np.sort(rows.rows[rows.real]), np.arange(63))
    few = segments().cover(4)
    assert len(few.episodes) == 4
    assert few.episodes[0] == 0
    assert few.episodes[-1] == 2


def test_picking_keeps_what_belongs_together() -> None:
    rows = segments().cover(1000)
    picked = rows.pick(np.array([3, 0]))
    np.testing.assert_array_equal(picked.rows, rows.rows[[3, 0]])
    np.testing.assert_array_equal(picked.episodes, rows.episodes[[3, 0]])


@pytest.mark.parametrize("weights", [[0.0, 0.0, 0.0], [1.0, -1.0, 1.0], [1.0, np.nan, 1.0]])
def test_weights_that_make_no_sense_are_refused(weights: list[float]) -> None:
    with pytest.raises(DatasetError, match="weights"):
        segments(weights=np.array(weights))
