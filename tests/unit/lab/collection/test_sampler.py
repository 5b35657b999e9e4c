import numpy as np
import pytest

from lifesafe.errors import EpisodeError
from lifesafe.lab.collection.sampler import Explorer, Finished, Segment
from lifesafe.systems import Task
from lifesafe.systems.vector import Step

HORIZON = 10
TASK = Task(name="Count", make="none:none", observations=2, actions=1, horizon=HORIZON)


class Counting:
    """Rows that show the seed of their episode and how many steps it has; row r falls after r + 4 steps, if it can."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.seen = np.zeros((size, 2))
        self.running = np.zeros(size, dtype=bool)

    def reset(self, rows: np.ndarray, seeds: list[int]) -> np.ndarray:
        assert not self.running[rows].any()
        self.running[rows] = True
        self.seen[rows] = np.column_stack([np.array(seeds) % 100_003, np.zeros(len(rows))])
        return self.seen[rows]

    def step(self, rows: np.ndarray, actions: np.ndarray) -> Step:
        assert self.running[rows].all()
        assert np.abs(actions).max() <= 1
        self.seen[rows, 1] += 1
        times = self.seen[rows, 1]
        terminated, truncated = times == rows + 4, times == HORIZON
        self.running[rows[terminated | truncated]] = False
        return Step(self.seen[rows].copy(), actions[:, 0], 0.5 * times[:, None], terminated, truncated & ~terminated)

    def close(self) -> None: ...


def act(observations: np.ndarray, positions: np.ndarray) -> np.ndarray:
    return positions[:, None]


def run(steps: int, exhibits: int = 2) -> tuple[Segment, list[Finished]]:
    sampler = Explorer(TASK, Counting(9), exhibits, seed=0)
    segments = []
    finished: list[Finished] = []
    random = np.random.default_rng(0)
    for _ in range(steps // 15):
        segments.append(sampler.segment(act, np.array([0.8]), 15, random))
        finished += sampler.finished
    return segments[-1], finished


def test_every_episode_is_whole_and_its_own() -> None:
    _, finished = run(60)
    assert len(finished) > 60
    seeds = [float(one.episode.observations[0, 0]) for one in finished]
    assert len(set(seeds)) > 0.9 * len(seeds)
    lengths = {(len(one.episode), one.episode.terminated) for one in finished}
    assert lengths == {(n, True) for n in range(4, 11)} | {(HORIZON, False)}
    for one in finished:
        episode, length = one.episode, len(one.episode)
        assert (episode.observations[:, 0] == episode.observations[0, 0]).all()
        np.testing.assert_array_equal(episode.observations[:, 1], np.arange(length))
        np.testing.assert_array_equal(episode.next_observations[:, 1], np.arange(1, length + 1))
        np.testing.assert_array_equal(episode.rewards, episode.actions[:, 0])
        np.testing.assert_array_equal(episode.costs[:, 0], 0.5 * np.arange(1, length + 1))
        assert np.abs(episode.actions).max() <= 1


def test_a_segment_holds_what_the_learners_saw_and_chose() -> None:
    segment, _ = run(60)
    assert segment.ends.shape == (15, 7)
    assert np.abs(segment.actions).max() > 1  # not clipped: densities are those of what was drawn
    going = ~segment.ends
    np.testing.assert_array_equal(segment.observations[1:][going][:, 1], segment.observations[:-1][going][:, 1] + 1)
    np.testing.assert_array_equal(segment.positions[1:][going], segment.positions[:-1][going])
    np.testing.assert_allclose(segment.times, segment.observations[..., 1] / HORIZON)
    assert (segment.times[1:][segment.ends] == 0).all()
    np.testing.assert_array_equal(segment.gains[..., 0], np.clip(segment.actions[..., 0], -1, 1))


def test_every_episode_has_a_limit_of_its_own_and_exhibits_have_less_noise() -> None:
    _, finished = run(300)
    positions = np.array([one.position for one in finished])
    assert len(set(positions)) == len(positions)
    assert 0 <= positions.min() < 0.05
    assert 0.95 < positions.max() <= 1
    noises = np.array([one.noise for one in finished])
    assert (noises == 1).sum() > (noises < 1).sum() > 0
    assert noises[noises < 1].max() <= 0.5
    quiet = [one for one in finished if one.noise < 0.1 and one.position < 0.5]
    assert quiet
    for one in quiet:
        assert np.abs(one.episode.actions - one.position).max() < 0.4


def test_a_sampler_that_goes_on_does_not_repeat_episodes() -> None:
    first = Explorer(TASK, Counting(3), 0, seed=0)
    second = Explorer(TASK, Counting(3), 0, seed=0, begun=first.begun)
    random = np.random.default_rng(0)
    seen = [set(s.segment(act, np.zeros(1), 1, random).observations[0, :, 0]) for s in (first, second)]
    assert not seen[0] & seen[1]


def test_numbers_that_are_not_finite_are_refused() -> None:
    vector = Counting(3)
    sampler = Explorer(TASK, vector, 0, seed=0)
    vector.seen[1, 0] = np.nan
    with pytest.raises(EpisodeError, match="not finite"):
        sampler.segment(act, np.zeros(1), 1, np.random.default_rng(0))
