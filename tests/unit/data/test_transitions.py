import numpy as np
import pytest

from lifesafe.data.transitions import held_out_transitions, returns_to_go, steps_done
from lifesafe.errors import DatasetError
from small_data import small_dataset


@pytest.mark.parametrize("costs", [1, 2])
def test_returns_to_go_are_the_sums_to_the_end_of_the_episode(costs: int) -> None:
    dataset = small_dataset(costs, episodes=7)
    expected = [
        [episode.rewards[step:].sum(dtype=np.float64), *episode.costs[step:].sum(axis=0, dtype=np.float64)]
        for episode in dataset
        for step in range(len(episode))
    ]
    np.testing.assert_allclose(returns_to_go(dataset), expected, rtol=0, atol=1e-12)


def test_the_first_returns_to_go_are_those_of_the_episode() -> None:
    dataset = small_dataset(2)
    np.testing.assert_allclose(returns_to_go(dataset)[dataset.offsets[:-1]], dataset.returns, atol=1e-12)


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
