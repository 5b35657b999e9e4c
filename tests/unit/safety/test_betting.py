"""The certificate of one target: rarely wrong, the same however the episodes come, and as quick as it was measured."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from lifesafe.errors import ConfigError, TrialError
from lifesafe.safety.betting import Bet, clean_episodes

LIMIT = 20.0
STAKES, WEIGHTS = (0.99, 0.75, 0.5, 0.25, 0.12, 0.05), (0.5, 0.1, 0.1, 0.1, 0.1, 0.1)
rows_of_two = st.lists(st.tuples(st.floats(0, 60), st.floats(0, 90)), max_size=30)


def fresh(largest: float = 60.0, level: float = 0.05) -> Bet:
    return Bet.start((LIMIT,), (largest,), level)


def share_at_most(hits: int, runs: int) -> float:
    """Return the upper end of the one-sided 95 % interval of a share."""
    return binomtest(hits, runs, alternative="less").proportion_ci(0.95).high


def wealth(costs: list[float], m: float, largest: float) -> float:
    products = [math.prod(1 + stake * (m - cost) / (largest - m) for cost in costs) for stake in STAKES]
    return sum(weight * product for weight, product in zip(WEIGHTS, products, strict=True))


@given(costs=st.lists(st.floats(0.0, 60.0), max_size=12), limit=st.floats(1.0, 59.0))
def test_wealth_equals_the_product_written_out(costs, limit):
    bet = Bet.start((limit,), (60.0,), 0.05).update([[cost] for cost in costs])
    assert bet.log_wealths[0] == pytest.approx(math.log(wealth(costs, limit, 60.0)), rel=1e-9, abs=1e-9)


@given(rows=rows_of_two, cuts=st.lists(st.integers(0, 30), max_size=4))
def test_one_update_or_many_give_the_same_value_bit_by_bit(rows, cuts):
    whole = pieces = Bet.start((20.0, 10.0), (60.0, 90.0), 0.05)
    whole = whole.update(rows)
    for start, end in itertools.pairwise(sorted([0, *cuts, 30])):
        pieces = pieces.update(rows[start:end])
    assert pieces == whole
    assert (pieces.log_wealths, pieces.certified) == (whole.log_wealths, whole.certified)


def test_several_costs_hold_the_level_without_a_split():
    random = np.random.default_rng(3)
    costs = random.uniform(0, 2, (2000, 400, 3))
    costs[:, :, 1] = np.where(random.random((2000, 400)) < LIMIT / 60, 60.0, 0.0)  # its mean is the limit
    bet = Bet.start((LIMIT,) * 3, (60.0,) * 3, 0.05)
    wrong = sum(bet.update(run).certified for run in costs)
    assert wrong > 0
    assert share_at_most(wrong, 2000) <= 0.05


@pytest.mark.parametrize("largest", [40.0, 60.0, 200.0, 1000.0])
@pytest.mark.parametrize("low", [0.0, 10.0, 19.0])
def test_the_exact_probability_of_a_wrong_certificate_is_at_most_the_level(largest, low):
    # With costs of `low` or `largest` the wealth depends only on how many of each there were, so all paths of 3000
    # episodes can be followed: `chances[n]` is the probability of n large costs so far and no certificate yet.
    chance, most = (LIMIT - low) / (largest - low), 3000
    won, lost = (np.log1p(np.array(STAKES) * (LIMIT - cost) / (largest - LIMIT)) for cost in (low, largest))
    chances, large = np.eye(1, most + 1)[0], np.arange(most + 1)[:, None]
    for t in range(1, most + 1):
        chances = (1 - chance) * chances + chance * np.roll(chances, 1)
        rows = large[: t + 1]
        log_wealth = np.logaddexp.reduce(np.log(WEIGHTS) + rows * lost + (t - rows) * won, axis=1)
        chances[: t + 1][log_wealth >= math.log(20)] = 0.0
    assert 1 - chances.sum() <= 0.05


@pytest.mark.parametrize(("largest", "episodes"), [(40, 6), (60, 9), (200, 34), (300, 52), (1000, 178)])
def test_a_target_without_cost_is_certified_after_a_known_number_of_episodes(largest, episodes):
    assert clean_episodes(LIMIT, largest, 0.05) == episodes
    assert fresh(largest).update(np.zeros((400, 1))).reached_at == (episodes,)


@given(limit=st.floats(0.1, 100), ratio=st.floats(0.5, 20), level=st.floats(1e-6, 0.5))
def test_clean_episodes_are_those_after_which_the_bet_certifies(limit, ratio, level):
    count = clean_episodes(limit, limit * ratio, level)
    bet = Bet.start((limit,), (limit * ratio,), level)
    assert bet.update(np.zeros((count, 1))).certified
    assert count == 0 or not bet.update(np.zeros((count - 1, 1))).certified


def test_a_certificate_stays():
    certified = fresh().update(np.zeros((9, 1)))
    later = certified.update(np.full((50, 1), 60.0))
    assert (certified.certified, later.certified, later.reached_at) == (True, True, (9,))


def test_a_cost_that_cannot_exceed_its_limit_needs_no_test():
    both = Bet.start((20.0, 90.0), (60.0, 90.0), 0.05)
    assert not both.update([[0.0, 90.0]] * 8).certified
    assert both.update([[0.0, 90.0]] * 9).certified
    assert both.update([[0.0, 90.0]] * 9).log_wealths[1] == pytest.approx(0.0, abs=1e-12)
    alone = Bet.start((90.0,), (60.0,), 0.05)
    assert alone.certified
    assert clean_episodes(90.0, 60.0, 0.05) == 0


def test_before_the_first_episode_nothing_is_known():
    bet = fresh()
    assert (bet.episodes, bet.certified) == (0, False)
    assert bet.log_wealths[0] == pytest.approx(0.0, abs=1e-12)
    assert bet.update([]) is bet


def test_wealth_survives_what_would_overflow_or_vanish():
    assert fresh().update(np.zeros((20_000, 1))).log_wealths[0] > 1000
    assert -math.inf < fresh().update(np.full((20_000, 1), 60.0)).log_wealths[0] < -700


def test_rounding_above_the_largest_cost_is_clipped():
    assert fresh().update([[60.0 * (1 + 1e-6)]]) == fresh().update([[60.0]])
    with pytest.raises(TrialError, match=r"costs up to \[60.1\]; the bet holds for costs up to \[60.\]"):
        fresh().update([[0.0], [60.1]])


@pytest.mark.parametrize("cost", [-0.5, math.nan, math.inf])
def test_costs_that_are_no_costs_are_refused(cost):
    with pytest.raises(TrialError, match="costs are finite and at least 0"):
        fresh().update([[1.0], [cost]])


@pytest.mark.wrong_shapes
@pytest.mark.parametrize("costs", [[[1.0, 2.0]], [1.0, 2.0], [[], []]])
def test_an_episode_with_a_different_number_of_costs_is_refused(costs):
    with pytest.raises(TrialError, match="one row per episode, with 1 costs each"):
        fresh().update(costs)


@pytest.mark.parametrize(
    ("limits", "largest", "level", "message"),
    [
        ((), (), 0.05, "Got 0 limits and 0 largest costs"),
        ((20.0, 20.0), (60.0,), 0.05, "Got 2 limits and 1 largest costs"),
        ((0.0,), (60.0,), 0.05, "finite numbers above 0"),
        ((20.0,), (math.inf,), 0.05, "finite numbers above 0"),
        ((20.0,), (60.0,), 0.0, "Got level = 0.0"),
        ((20.0,), (60.0,), 1.0, "Got level = 1.0"),
    ],
)
def test_impossible_values_are_refused(limits, largest, level, message):
    with pytest.raises(ConfigError, match=message):
        Bet.start(limits, largest, level)
