"""Episodes relabeled with targets above the Pareto front."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifesafe.data.relabel import AugmentationConfig, relabel
from lifesafe.errors import ConfigError


def cloud(episodes: int = 400, seed: int = 0) -> np.ndarray:
    """Rewards up to a front that rises with the cost."""
    random = np.random.default_rng(seed)
    costs = random.integers(0, 100, episodes).astype(float)
    return np.column_stack([(200 + 3 * costs) * random.random(episodes), costs])


def test_every_target_lies_above_the_front_and_its_episode_costs_no_more() -> None:
    returns = cloud()
    made = relabel(returns, AugmentationConfig(fraction=0.3), np.random.default_rng(1))
    assert len(made.episodes) == len(made.targets) == 120
    for episode, (reward, cost) in zip(made.episodes, made.targets, strict=True):
        best = returns[returns[:, 1] <= cost, 0].max()
        assert best <= reward <= 1.1 * np.ptp(returns[:, 0]) + returns[:, 0].min()
        assert returns[episode, 1] <= cost
        assert returns[episode, 0] >= best - 0.1 * (best - returns[:, 0].min())


def test_reckless_rewards_do_not_lower_what_is_imitated_at_low_costs() -> None:
    calm = np.column_stack([np.linspace(300, 400, 101), np.zeros(101)])
    reckless = np.column_stack([np.linspace(0, 2000, 50), np.full(50, 90.0)])
    made = relabel(np.concatenate([calm, reckless]), AugmentationConfig(fraction=2.0), np.random.default_rng(0))
    imitated = calm[made.episodes[made.targets[:, 1] < 90], 0]
    assert 360 <= imitated.min() < 362
    assert imitated.max() > 398
    assert made.targets[:, 0].max() > 2000


@pytest.mark.parametrize(("spacing", "share"), [(1.0, 0.04), (2.0, 0.2)])
def test_target_costs_are_the_closer_the_lower(spacing: float, share: float) -> None:
    returns = np.column_stack([np.linspace(1, 9, 1000), np.linspace(0, 100, 1000)])
    costs = relabel(returns, AugmentationConfig(fraction=1.0, spacing=spacing), np.random.default_rng(0)).targets[:, 1]
    assert (costs.min(), costs.max()) == (0, 100)
    assert (np.diff(np.diff(costs)) >= -1e-9).all()
    assert (costs <= 4).mean() == pytest.approx(share, abs=0.002)


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 3)), min_size=1, max_size=12))
def test_odd_data_never_give_nan(points: list[tuple[int, int]]) -> None:
    returns = np.array(points * 3, dtype=float)
    made = relabel(returns, AugmentationConfig(fraction=0.5), np.random.default_rng(0))
    assert np.isfinite(made.targets).all()
    assert (returns[made.episodes, 1] <= made.targets[:, 1] + 1e-9).all()


def test_with_several_costs_an_episode_costs_no_more_than_its_target_in_any() -> None:
    returns = np.column_stack([cloud(), cloud(seed=1)[:, 1]])
    made = relabel(returns, AugmentationConfig(fraction=0.3), np.random.default_rng(0))
    assert 60 <= len(made.episodes) <= 120  # nothing is as cheap as some targets in both
    assert (returns[made.episodes, 1:] <= made.targets[:, 1:]).all()
    for reward, *costs in made.targets:
        assert reward >= returns[(returns[:, 1:] <= costs).all(axis=1), 0].max()


@pytest.mark.parametrize("change", [{"fraction": -0.1}, {"spacing": 0.9}, {"spacing": np.nan}])
def test_impossible_settings_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(change))):
        AugmentationConfig(**change)


@pytest.mark.parametrize("costs", [1, 2])
def test_relabeling_in_parts_is_relabeling_at_once(costs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    returns = np.random.default_rng(0).gamma(2.0, 10.0, (200, 1 + costs))
    once = relabel(returns, AugmentationConfig(fraction=0.3), np.random.default_rng(1))
    monkeypatch.setattr("lifesafe.data.relabel._PAIRS", 7 * len(returns))
    parts = relabel(returns, AugmentationConfig(fraction=0.3), np.random.default_rng(1))
    np.testing.assert_array_equal(parts.episodes, once.episodes)
    np.testing.assert_array_equal(parts.targets, once.targets)
