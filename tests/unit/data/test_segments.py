"""Segments of consecutive steps, and facts about single transitions."""

import numpy as np
import pytest

from lifesafe.data.segments import Segments, held_out_transitions, returns_to_go, steps_done
from lifesafe.errors import DatasetError
from small_data import small_dataset

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


def test_cover_goes_once_over_every_step() -> None:
    rows = segments().cover(1000)
    np.testing.assert_array_equal(np.sort(rows.rows[rows.real]), np.arange(63))
    few = segments().cover(4)
    assert len(few.episodes) == 4
    assert few.episodes[0] == 0
    assert few.episodes[-1] == 2


@pytest.mark.parametrize("weights", [[0.0, 0.0, 0.0], [1.0, -1.0, 1.0], [1.0, np.nan, 1.0]])
def test_weights_that_make_no_sense_are_refused(weights: list[float]) -> None:
    with pytest.raises(DatasetError, match="weights"):
        segments(weights=np.array(weights))


@pytest.mark.parametrize("costs", [1, 2])
def test_returns_to_go_are_the_sums_to_the_end_of_the_episode(costs: int) -> None:
    dataset = small_dataset(costs, episodes=7)
    expected = [
        [episode.rewards[step:].sum(dtype=np.float64), *episode.costs[step:].sum(axis=0, dtype=np.float64)]
        for episode in dataset
        for step in range(len(episode))
    ]
    np.testing.assert_allclose(returns_to_go(dataset), expected, rtol=0, atol=1e-12)


def test_steps_are_counted_from_the_start_of_the_episode() -> None:
    dataset = small_dataset(episodes=6)
    assert steps_done(dataset).tolist() == [step for episode in dataset for step in range(len(episode))]


def test_whole_episodes_are_held_out() -> None:
    dataset = small_dataset(episodes=10)
    mask = held_out_transitions(dataset, 0.3, seed=0)
    parts = np.split(mask, dataset.offsets[1:-1])
    assert all(len(set(part.tolist())) == 1 for part in parts)
    assert sum(bool(part[0]) for part in parts) == 3
    assert (mask == held_out_transitions(dataset, 0.3, seed=0)).all()
    assert (mask != held_out_transitions(dataset, 0.3, seed=1)).any()


def test_at_least_one_episode_is_held_out_unless_none_is_wanted() -> None:
    dataset = small_dataset(episodes=5)
    assert held_out_transitions(dataset, 0.01, seed=0).any()
    assert not held_out_transitions(dataset, 0.0, seed=0).any()


def test_something_must_be_left_to_learn_from() -> None:
    with pytest.raises(DatasetError, match=r"Holding out 0\.05 of 1 episodes leaves none to learn from"):
        held_out_transitions(small_dataset(episodes=1), 0.05, seed=0)
