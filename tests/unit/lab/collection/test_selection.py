import numpy as np
import pytest

from lifesafe.lab.collection.selection import frontier, select


def plane(episodes: int = 3000) -> np.ndarray:
    random = np.random.default_rng(0)
    costs = random.gamma(1.0, 20.0, size=episodes).round()
    return np.column_stack([random.normal(200 + costs, 40), costs])


@pytest.mark.parametrize("costs", [1, 2])
def test_the_frontier_is_what_no_episode_beats(costs: int) -> None:
    random = np.random.default_rng(costs)
    returns = random.integers(0, 12, size=(150, 1 + costs)).astype(float)
    gains = returns * np.array([1] + [-1] * costs)
    for index, found in enumerate(frontier(returns)):
        better = (gains >= gains[index]).all(axis=1) & (gains > gains[index]).any(axis=1)
        twins = np.flatnonzero((gains == gains[index]).all(axis=1))
        assert found == (not better.any() and twins[0] == index)


@pytest.mark.parametrize("costs", [1, 2])
def test_fewer_episodes_than_cells_may_be_asked_for(costs: int) -> None:
    random = np.random.default_rng(0)
    returns = random.random((2000, 1 + costs))
    chosen = select(returns, highest=1.0, episodes=50, cost_cells=20, reward_cells=20, seed=0)
    best = np.flatnonzero(frontier(returns))
    assert set(best) <= set(chosen)
    assert 50 <= len(chosen) <= 50 + len(best)
    cells = np.floor(returns[np.setdiff1d(chosen, best)] / np.ptp(returns, axis=0) * 4)
    assert len(np.unique(cells, axis=0)) > 10  # from all over the plane


def test_crowded_places_are_thinned_and_lonely_ones_are_not() -> None:
    crowd = np.column_stack([np.full(1000, 100.0), np.full(1000, 5.0)])
    lonely = np.array([[0.0, 90.0], [50.0, 60.0]])
    chosen = select(np.vstack([crowd, lonely]), highest=1e9, episodes=30, cost_cells=10, reward_cells=10, seed=0)
    assert {1000, 1001} <= set(chosen)
    assert len(chosen) <= 31


def test_all_are_kept_where_there_are_few() -> None:
    returns = plane(50)
    assert len(select(returns, highest=1e9, episodes=2000, cost_cells=60, reward_cells=50, seed=0)) == 50


def test_episodes_that_cost_too_much_are_left_out() -> None:
    returns = plane()
    chosen = select(returns, highest=40.0, episodes=500, cost_cells=10, reward_cells=10, seed=0)
    assert returns[chosen, 1].max() == 40
    assert set(np.flatnonzero(frontier(returns) & (returns[:, 1] <= 40))) <= set(chosen)
    assert 400 < len(chosen) <= 500 + frontier(returns).sum()
    assert (np.diff(chosen) > 0).all()
