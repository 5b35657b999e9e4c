"""Aggregates over tasks and seeds, and their intervals."""

from dataclasses import replace

import numpy as np
import pytest

from lifesafe.lab.benchmark.statistics import aggregates, interval, middle_mean
from small_results import ROW


def test_the_middle_mean_leaves_out_a_quarter_at_each_end() -> None:
    assert middle_mean(np.array([-100.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 900.0])) == pytest.approx((2 + 3 + 4 + 5) / 4)


def test_an_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(0)
    hits = 0
    for trial in range(200):
        strata = [random.normal(shift, 1.0, size=20) for shift in (0.0, 1.0, 2.0)]
        found = interval(strata, np.mean, seed=trial)
        assert found.low <= found.value <= found.high
        hits += found.low <= 1.0 <= found.high
    assert 180 <= hits <= 199


def test_seeds_are_drawn_within_their_task() -> None:
    sure = interval([np.full(5, 0.0), np.full(5, 10.0)], np.mean)
    assert (sure.value, sure.low, sure.high) == (5.0, 5.0, 5.0)  # only tasks differ, and all are always there


def test_methods_are_aggregated_over_tasks_limits_and_seeds() -> None:
    rows = [
        replace(ROW, task=task, seed=seed, cost=cost) for task, cost in (("A", 10.0), ("B", 30.0)) for seed in (0, 1)
    ]
    rows.append(replace(ROW, method="pls", cost=None, reward=None))
    rows.append(replace(ROW, method="pls", cost=18.0, seed=1))
    found = aggregates(rows)
    assert found["cpq"].safe.value == 0.5
    assert found["cpq"].cost.value == pytest.approx(1.0)
    assert (found["cpq"].runs, found["cpq"].idle, found["pls"].idle) == (4, 0, 1)
    assert found["pls"].safe.value == 1.0  # one did nothing, one kept the limit
    assert found["pls"].cost.value == pytest.approx(0.9)
    assert str(found["cpq"].reward) == "0.50 [0.50, 0.50]"
    assert str(found["pls"].reward) == "0.50"


def test_one_seed_gives_no_interval() -> None:
    alone = interval([np.array([0.2]), np.array([0.6])], np.mean)
    assert alone.value == pytest.approx(0.4)
    assert np.isnan([alone.low, alone.high]).all()
    some = interval([np.array([0.2]), np.array([0.4, 0.8])], np.mean)
    assert some.low < some.value < some.high
