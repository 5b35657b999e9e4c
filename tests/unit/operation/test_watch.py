"""The watch: rarely wrong for as long as one likes, soon after a change, and silence proves something for sure."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from lifesafe.errors import ConfigError, TrialError
from lifesafe.operation.watch import Watch, silent_mean

LIMIT, LEVEL = 20.0, 0.01
BETS = 0.95 * np.geomspace(0.02, 1, 8)
rows_of_two = st.lists(st.tuples(st.floats(0, 60), st.floats(0, 1e6)), max_size=30)


def fresh(largest=None, level=LEVEL):
    return Watch.start((LIMIT,), level, largest)


def tail_sum():
    """Return the sum of 1 / (n log^2 n) over n >= 11: a part of it, and the rest by Euler and Maclaurin."""
    end = 10_000
    last, slope = 1 / (end * math.log(end) ** 2), -(1 + 2 / math.log(end)) / (end * math.log(end)) ** 2
    return math.fsum(1 / (n * math.log(n) ** 2) for n in range(11, end)) + 1 / math.log(end) + last / 2 - slope / 12


def shares(episodes):
    n = np.arange(1, episodes + 1) + 9.0
    gamma = 0.5 / tail_sum() / (n * np.log(n) ** 2)
    gamma[0] = 0.5
    return gamma


def totals(costs):
    """Return sum_i M_t,i after each episode for many streams of costs in limits, written out: (episodes, runs)."""
    M, path = np.zeros((costs.shape[1], len(BETS))), np.empty(costs.shape)
    for t, gamma in enumerate(shares(len(costs)) / len(BETS)):
        M = (1 + BETS * (costs[t][:, None] - 1)) * np.minimum(M + gamma, 1e100)
        path[t] = M.sum(axis=1)
    return path


def lumps(size):
    return lambda random, mean, shape: size * (random.random(shape) < mean / size)


def counts(random, mean, shape):
    """Return costs as the referee's "nb3": negative binomial with k = 3, at a limit of 20."""
    return random.negative_binomial(3, 3 / (3 + LIMIT * mean), shape) / LIMIT


LAWS = {"nb3": counts, "cap 3": lumps(3.0), "lumps 7.5": lumps(7.5), "lumps 15": lumps(15.0), "lumps 50": lumps(50.0)}


def share_at_most(hits, runs):
    """Return the upper end of the one-sided 95 % interval of a share."""
    return binomtest(hits, runs, alternative="less").proportion_ci(0.95).high


@given(costs=st.lists(st.floats(0, 300), min_size=1, max_size=25))
def test_evidence_equals_the_recursion_written_out(costs):
    watch = fresh(level=1e-90).update([[cost] for cost in costs])
    expected = totals(np.array(costs)[:, None] / LIMIT)[-1, 0]
    assert watch.log_evidence[0] == pytest.approx(math.log(expected), rel=1e-9, abs=1e-9)


def test_the_shares_that_ever_bet_sum_to_one():
    known = fresh(level=1e-90)
    given_out, before = 0.0, 0.0
    for _ in range(300):  # at X = b nothing is won or lost: the evidence is what has begun to bet
        known = known.update([[LIMIT]])
        before, given_out = given_out, math.exp(known.log_evidence[0])
        assert given_out > before
    rest = 0.5 * (1 - math.fsum(1 / (n * math.log(n) ** 2) for n in range(11, 310)) / tail_sum())
    assert given_out + rest == pytest.approx(1.0, abs=1e-11)
    assert given_out + rest <= 1 + 1e-13


@given(rows=rows_of_two, cuts=st.lists(st.integers(0, 30), max_size=4))
def test_one_update_or_many_give_the_same_value_bit_by_bit(rows, cuts):
    whole = pieces = Watch.start((20.0, 10.0), 0.05, (None, 9e5))
    whole = whole.update(rows)
    for start, end in itertools.pairwise(sorted([0, *cuts, 30])):
        pieces = pieces.update(rows[start:end])
    assert pieces == whole
    assert pieces.log_evidence == whole.log_evidence


def test_more_episodes_than_are_handled_at_once_give_the_same_value_as_in_batches_of_ten():
    costs = np.random.default_rng(0).uniform(0, 30, (10_000, 2))
    whole = pieces = Watch.start((LIMIT, LIMIT), LEVEL)
    whole = whole.update(costs)
    for batch in np.split(costs, 1000):
        pieces = pieces.update(batch)
    assert pieces == whole


@given(rows=rows_of_two, largest=st.sampled_from([None, (60.0, None), (60.0, 50.0)]))
def test_what_is_stored_comes_back_exactly(rows, largest):
    watch = Watch.start((20.0, 10.0), LEVEL, largest).update(rows)
    again = Watch.from_plain(json.loads(json.dumps(watch.to_plain(), allow_nan=False)))
    assert again == watch
    assert again.update([[5.0, 5.0]]) == watch.update([[5.0, 5.0]])


def test_evidence_beyond_all_numbers_can_be_stored():
    watch = fresh().update([[1e308]] + [[1e300]] * 3)
    assert watch.alarm is not None
    assert 600 < watch.log_evidence[0] < math.inf
    assert Watch.from_plain(watch.to_plain()) == watch
    assert fresh().log_evidence == (-math.inf,)
    assert Watch.from_plain(fresh().to_plain()) == fresh()


@pytest.mark.parametrize("law", LAWS)
def test_a_safe_target_is_hardly_ever_withdrawn_in_20_000_episodes(law):
    random = np.random.default_rng(1)
    for mean in (0.9, 1.0):  # 200 runs cannot tell 1 % from 3 %; the slow test below can
        false = (totals(LAWS[law](random, mean, (20_000, 200))) >= 1 / LEVEL).any(axis=0).sum()
        assert share_at_most(false, 200) <= 3 * LEVEL


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("mean", [0.75, 0.9, 1.0])
def test_false_alarms_in_20_000_episodes_are_at_most_the_level(law, mean):
    random, false = np.random.default_rng(2), 0
    for _ in range(8):
        false += (totals(LAWS[law](random, mean, (20_000, 500))) >= 1 / LEVEL).any(axis=0).sum()
    assert share_at_most(false, 4000) <= LEVEL


def test_false_alarms_of_two_costs_together_are_at_most_the_level():
    costs = LIMIT * lumps(3.0)(np.random.default_rng(3), 1.0, (1000, 400, 2))
    false = sum(Watch.start((LIMIT, LIMIT), 0.05).update(run).alarm is not None for run in costs)
    assert false > 0
    assert share_at_most(false, 1000) <= 0.05


@pytest.mark.parametrize(
    ("law", "mean", "measured"),
    [("nb3", 1.5, 77), ("nb3", 4, 15), ("lumps 7.5", 2, 205), ("lumps 7.5", 4, 35), ("cap 3", 2, 66), ("cap 2", 2, 26)],
)
def test_a_change_after_2000_quiet_episodes_is_found_as_soon_as_was_measured(law, mean, measured):
    draw, random = {**LAWS, "cap 2": lumps(2.0)}[law], np.random.default_rng(4)
    costs = np.concatenate([draw(random, 0.5, (2000, 300)), draw(random, mean, (1000, 300))])
    late = totals(costs)[2000:] >= 1 / LEVEL
    delays = np.where(late.any(axis=0), late.argmax(axis=0) + 1, 1000)
    assert np.median(delays) == pytest.approx(measured, rel=0.15)


def test_a_change_is_found_by_the_watch_itself():
    alarm = fresh().update(np.zeros((2000, 1))).update(np.full((40, 1), 60.0)).alarm
    assert (alarm.rule, alarm.cost, alarm.limit) == ("mean", 0, LIMIT)
    assert 2000 < alarm.episode <= 2020
    assert alarm.mean == pytest.approx(60 * (alarm.episode - 2000) / alarm.episode)


@pytest.mark.parametrize(
    ("largest", "referee"),
    [
        (2.0, [1.8, 1.5, 1.4, 1.2, 1.1]),
        (3.0, [2.2, 1.8, 1.5, 1.3, 1.2]),
        (10.0, [4.0, 2.8, 2.2, 1.7, 1.4]),
        (50.0, [9.9, 6.0, 4.2, 2.7, 1.9]),
    ],
)
def test_silence_proves_what_the_table_of_the_referee_says(largest, referee):
    bounds = [silent_mean(1.0, largest, LEVEL, episodes) for episodes in (20, 50, 100, 300, 1000)]
    assert bounds == pytest.approx(referee, rel=0.1)


@pytest.mark.parametrize("first", ["dear", "cheap", "greedy", "random"])
@pytest.mark.parametrize("largest", [40.0, 60.0, 200.0])
def test_no_adversary_stays_silent_with_a_mean_above_the_bound(first, largest):
    random, watch, closest = np.random.default_rng(5), fresh((largest,)), 0.0
    for t in range(400):
        tried = {
            "dear": (largest, 0.0),
            "cheap": (largest if t >= 150 else 0.0, LIMIT / 2, 0.0),
            "greedy": (*np.linspace(largest, 0, 9),),
            "random": (random.uniform(0, largest), 0.0),
        }[first]
        watch = next(after for cost in tried if (after := watch.update([[cost]])).alarm is None)
        (bound,) = watch.realised_bounds
        assert watch.sums[0] / watch.episodes <= bound
        closest = max(closest, watch.sums[0] / watch.episodes / bound)
    assert closest > 0.5


def test_each_cost_has_its_bound_where_it_can_have_one():
    limits = (20.0, 20.0, 90.0)
    watch = Watch.start(limits, 0.03, (60.0, None, 60.0)).update(np.zeros((50, 3)))
    first, second, third = watch.realised_bounds
    assert first == pytest.approx(silent_mean(20.0, 60.0, 0.01, 50), rel=1e-4)
    assert (second, third) == (math.inf, pytest.approx(60.0, rel=1e-4))


def test_an_alarm_proves_nothing():
    watch = fresh((60.0,)).update(np.full((30, 1), 60.0))
    assert watch.alarm is not None
    assert watch.realised_bounds == (math.inf,)


def test_the_cost_that_is_too_high_is_named():
    alarm = Watch.start((20.0, 10.0), LEVEL).update(np.column_stack([np.zeros(30), np.full(30, 50.0)])).alarm
    assert (alarm.cost, alarm.limit, alarm.mean) == (1, 10.0, 50.0)
    noticed = "the mean is above the limit by now (mean of all episodes 50, limit 10, rule mean)"
    assert str(alarm) == f"alarm in episode {alarm.episode} for cost 2: {noticed}"
    assert str(replace(alarm, costs=1)) == f"alarm in episode {alarm.episode}: {noticed}"


def test_a_cost_above_the_largest_is_an_alarm_whatever_the_evidence_says():
    watch = Watch.start((20.0, 20.0), LEVEL, (100.0, 100.0)).update(np.zeros((7, 2)))
    alarm = watch.update([[0.0, 0.0], [0.0, 101.0], [0.0, 0.0]]).alarm
    assert (alarm.rule, alarm.cost, alarm.episode, alarm.mean) == ("bound", 1, 9, pytest.approx(101 / 9))
    assert "alarm in episode 9 for cost 2: it exceeded the largest cost stated" in str(alarm)


def test_rounding_above_the_largest_cost_is_no_alarm():
    costliest = sum([0.1] * 200)
    assert costliest > 200 * 0.1
    watch = fresh((200 * 0.1,))
    assert watch.update([[costliest]]).alarm is None
    assert watch.update([[20.1]]).alarm is not None


def test_without_a_largest_cost_the_mean_is_watched_all_the_same():
    assert fresh().update([[LIMIT]] * 500).alarm is None
    assert fresh().update([[1e9]]).alarm.rule == "mean"


def test_the_first_alarm_stays_with_its_evidence_while_episodes_go_on():
    first = fresh().update(np.full((10, 1), 90.0))
    later = first.update(np.zeros((50, 1)))
    assert later.alarm == first.alarm is not None
    assert (later.log_evidence, later.episodes, later.sums) == (first.log_evidence, 60, (900.0,))


@pytest.mark.wrong_shapes
@pytest.mark.parametrize("costs", [[[1.0, 2.0], [3.0, 4.0]], [[1.0], [-1.0]], [[math.nan]]])
def test_costs_that_are_no_costs_are_refused(costs):
    with pytest.raises(TrialError, match="Got"):
        fresh().update(costs)


@pytest.mark.parametrize(
    ("limits", "level", "largest", "message"),
    [
        ((), 0.01, None, "Got 0 limits"),
        ((20.0,), 0.01, (60.0, 60.0), "Got 1 limits and 2 largest costs"),
        ((0.0,), 0.01, None, "finite numbers above 0"),
        ((20.0,), 0.01, (math.inf,), "finite numbers above 0"),
        ((20.0,), 1.0, None, "Got level = 1.0"),
    ],
)
def test_impossible_values_are_refused(limits, level, largest, message):
    with pytest.raises(ConfigError, match=message):
        Watch.start(limits, level, largest)
