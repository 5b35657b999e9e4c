import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifesafe.errors import ConfigError, TrialError
from lifesafe.theory.betting import (
    alarm_test,
    detector_path,
    drift_detector,
    safety_test,
    wealth_path,
)

LIMIT, BOUND = 20.0, 200.0
TESTS = (safety_test, alarm_test)


def streams(random, law, mean, shape, bound=BOUND):
    """Costs in [0, bound] whose mean is exactly as given: two-point laws, or a beta law."""
    if law == "lumps":
        return np.where(random.random(shape) < mean / bound, bound, 0.0)
    if law == "near":
        return np.where(random.random(shape) < 0.5, mean - 15.0, mean + 15.0)
    return bound * random.beta(2.0 * mean / bound, 2.0 - 2.0 * mean / bound, shape)


def share_crossing(paths, threshold):
    return np.mean(np.any(paths >= math.log(threshold), axis=-1))


def most_allowed(level, runs):
    return level + 2 * math.sqrt(level * (1 - level) / runs)


@given(
    costs=st.lists(st.floats(0.0, BOUND), min_size=1, max_size=12),
    make=st.sampled_from(TESTS),
    limit=st.floats(1.0, 150.0),
)
def test_wealth_equals_the_product_written_out(costs, make, limit):
    fresh = make(limit, BOUND)
    expected = 0.0
    for bet, log_weight in zip(fresh.bets, fresh.log_wealths, strict=True):
        product = math.exp(log_weight)
        for cost in costs:
            product *= 1 + bet * (cost - limit)
        expected += product
    assert fresh.update(costs).log_wealth == pytest.approx(math.log(expected), rel=1e-9, abs=1e-9)


@given(costs=st.lists(st.floats(0.0, BOUND), min_size=1, max_size=12))
def test_detector_equals_the_recursion_written_out(costs):
    detector = drift_detector(LIMIT, BOUND)
    values = [0.0] * 12
    for cost in costs:
        bets = detector.bets
        values = [(1 + bet * (cost - LIMIT)) * (old + 1 / 12) for bet, old in zip(bets, values, strict=True)]
    assert detector.update(costs).log_value == pytest.approx(math.log(sum(values)), rel=1e-9, abs=1e-9)


def test_the_alarm_bets_are_those_of_the_specification():
    np.testing.assert_allclose(alarm_test(LIMIT, BOUND).bets, 0.95 / LIMIT * np.geomspace(0.01, 1, 12))


@given(
    costs=st.lists(st.floats(0.0, BOUND), max_size=30),
    cuts=st.lists(st.integers(0, 30), max_size=4),
    make=st.sampled_from((*TESTS, drift_detector)),
)
def test_one_update_or_many_give_the_same_value_bit_by_bit(costs, cuts, make):
    whole = make(LIMIT, BOUND).update(costs)
    pieces = make(LIMIT, BOUND)
    for start, end in itertools.pairwise(sorted([0, *cuts, 30])):
        pieces = pieces.update(costs[start:end])
    assert pieces == whole


@pytest.mark.parametrize("make", TESTS)
@pytest.mark.parametrize("low", [0.0, 10.0, 19.0])
def test_wealth_is_one_on_average_when_the_mean_is_the_limit(make, low):
    chance = (LIMIT - low) / (BOUND - low)
    average = 0.0
    for costs in itertools.product([low, BOUND], repeat=7):
        probability = math.prod(chance if cost == BOUND else 1 - chance for cost in costs)
        average += probability * math.exp(make(LIMIT, BOUND).update(costs).log_wealth)
    assert average == pytest.approx(1.0, rel=1e-9)


def test_detector_grows_by_one_an_episode_on_average_when_the_mean_is_the_limit():
    average = 0.0
    for costs in itertools.product([0.0, BOUND], repeat=7):
        probability = math.prod(LIMIT / BOUND if cost else 1 - LIMIT / BOUND for cost in costs)
        average += probability * math.exp(drift_detector(LIMIT, BOUND).update(costs).log_value)
    assert average == pytest.approx(7.0, rel=1e-9)


@pytest.mark.parametrize("make", TESTS)
@pytest.mark.parametrize("law", ["lumps", "near", "beta"])
def test_false_rejections_at_the_limit_stay_under_the_level(make, law):
    costs = streams(np.random.default_rng(0), law, LIMIT, (300, 500))
    assert share_crossing(wealth_path(make(LIMIT, BOUND, 0.05), costs), 20) <= most_allowed(0.05, 300)


@pytest.mark.slow
@pytest.mark.parametrize(("make", "level"), [(safety_test, 0.05), (alarm_test, 0.01)])
@pytest.mark.parametrize("law", ["lumps", "near", "beta"])
def test_false_rejections_over_2000_episodes_and_many_streams(make, level, law):
    random = np.random.default_rng(1)
    paths = (wealth_path(make(LIMIT, BOUND, level), streams(random, law, LIMIT, (100, 2000))) for _ in range(30))
    shares = [share_crossing(path, 1 / level) for path in paths]
    assert np.mean(shares) <= most_allowed(level, 3000)


@pytest.mark.slow
@pytest.mark.parametrize("law", ["lumps", "near", "beta"])
def test_mean_time_to_a_false_alarm_of_drift(law):
    costs = streams(np.random.default_rng(2), law, LIMIT, (300, 4000))
    paths = detector_path(drift_detector(LIMIT, BOUND, run_length=200.0), costs)
    hit = paths >= math.log(200.0)
    times = np.where(hit.any(axis=-1), hit.argmax(axis=-1) + 1, 4000)
    assert np.mean(times) >= 200 - 2 * np.std(times) / math.sqrt(300)


def test_a_safe_target_is_certified_and_an_unsafe_one_raises_the_alarm():
    random = np.random.default_rng(3)
    low, high = streams(random, "beta", 5.0, 200), streams(random, "beta", 60.0, 200)
    assert safety_test(LIMIT, BOUND).update(low).rejected
    assert not alarm_test(LIMIT, BOUND).update(low).rejected
    assert alarm_test(LIMIT, BOUND).update(high).rejected
    assert not safety_test(LIMIT, BOUND).update(high).rejected


@pytest.mark.parametrize(("bound", "episodes"), [(200.0, 34), (300.0, 52), (1000.0, 178)])
def test_a_target_without_cost_is_certified_after_a_known_number_of_episodes(bound, episodes):
    assert safety_test(LIMIT, bound).update(np.zeros(1000)).rejected_at == episodes


def test_a_rejection_stays_and_keeps_its_episode():
    test = safety_test(LIMIT, BOUND).update([0.0] * 40)
    later = test.update([BOUND] * 50)
    assert later.rejected_at == test.rejected_at == 34
    assert later.log_wealth < 0
    assert later.episodes == 90


def test_detector_finds_a_change_after_a_long_safe_time():
    random = np.random.default_rng(4)
    before, after = streams(random, "beta", 12.0, 500), streams(random, "beta", 50.0, 300)
    detector = drift_detector(LIMIT, BOUND).update(before)
    assert not detector.alarmed
    detector = detector.update(after)
    assert 500 < detector.alarmed_at < 650
    assert detector.alarmed_at + 100 < alarm_test(LIMIT, BOUND).update([*before, *after]).rejected_at


def test_update_leaves_the_old_value_alone_and_no_episodes_change_nothing():
    for fresh in (safety_test(LIMIT, BOUND), drift_detector(LIMIT, BOUND)):
        fresh.update([1.0, 2.0])
        assert fresh.episodes == 0
        assert fresh.update([]) is fresh
    assert drift_detector(LIMIT, BOUND).log_value == -math.inf
    assert safety_test(LIMIT, BOUND).log_wealth == pytest.approx(0.0, abs=1e-12)


def test_paths_of_many_streams_are_those_of_each():
    costs = streams(np.random.default_rng(5), "beta", 15.0, (3, 40))
    for make, path in (
        (safety_test, wealth_path),
        (alarm_test, wealth_path),
        (drift_detector, detector_path),
    ):
        rows = path(make(LIMIT, BOUND), costs)
        assert rows.shape == (3, 40)
        for row, stream in zip(rows, costs, strict=True):
            end = make(LIMIT, BOUND).update(stream)
            value = end.log_value if make is drift_detector else end.log_wealth
            assert row[-1] == pytest.approx(value, rel=1e-12)


def test_wealth_survives_what_would_overflow_or_vanish():
    rich = safety_test(LIMIT, BOUND).update(np.zeros(20_000))
    assert rich.log_wealth > 1000
    poor = safety_test(LIMIT, BOUND).update(np.full(20_000, BOUND))
    assert -math.inf < poor.log_wealth < -700


@pytest.mark.parametrize("make", [safety_test, alarm_test, drift_detector])
@pytest.mark.parametrize("cost", [-0.5, 200.5, math.nan, math.inf])
def test_costs_out_of_range_are_refused(make, cost):
    with pytest.raises(TrialError, match=r"Got an episode cost of .*; the test holds for costs from 0 to 200"):
        make(LIMIT, BOUND).update([1.0, cost])


@pytest.mark.wrong_shapes
@pytest.mark.parametrize("make", [safety_test, drift_detector])
def test_an_update_takes_one_stream(make):
    with pytest.raises(TrialError, match="one number per episode"):
        make(LIMIT, BOUND).update(np.zeros((2, 3)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: safety_test(0.0, BOUND), "Got limit = 0.0"),
        (lambda: alarm_test(LIMIT, math.inf), "Got bound = inf"),
        (lambda: safety_test(LIMIT, LIMIT), "give a bound above the limit"),
        (lambda: alarm_test(LIMIT, BOUND, 0.0), "Got level = 0.0"),
        (
            lambda: drift_detector(LIMIT, BOUND, 1.0),
            "Got run_length = 1.0; give a number of episodes above 1",
        ),
        (lambda: drift_detector(30.0, LIMIT), "give a bound above the limit"),
    ],
)
def test_impossible_values_are_refused(call, message):
    with pytest.raises(ConfigError, match=message):
        call()
