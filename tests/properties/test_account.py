"""The account against newcomers that want to overdraw it: the greedy, sleepers, bad days, and those of a search."""

from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lifesafe.returns import Returns
from lifesafe.safety import SafeOptimizer
from lifesafe.safety.account import Account
from properties.runs import ACTIONS, DISTURBING, LIMIT, System, act, advance, is_newcomer, system

ROUNDING = 1e-6
limits_of = st.lists(st.floats(0.5, 50.0), min_size=1, max_size=4)
seeds = st.integers(0, 2**32 - 1)

Newcomer = Callable[[Account, int, np.random.Generator], np.ndarray]


def always_worst(account: Account, t: int, rng: np.random.Generator) -> np.ndarray:
    return np.array(account.bounds)


def sleeper(account: Account, t: int, rng: np.random.Generator) -> np.ndarray:
    """Cost nothing at first, and as much as can be ever after."""
    return np.array(account.bounds) * float(t > 40)


def bad_days(account: Account, t: int, rng: np.random.Generator) -> np.ndarray:
    """Cost a factor more or less on every day of twenty episodes."""
    factor = np.random.default_rng(t // 20).lognormal(0.0, 1.0)
    return np.minimum(rng.exponential(factor, len(account.limits)) * np.array(account.limits), account.bounds)


def oracle(account: Account, t: int, rng: np.random.Generator) -> np.ndarray:
    """Save until the account is full, then take everything from it."""
    full = np.array(account.holds) >= np.array(account.capacity) - 1e-9
    return np.where(full.all() or rng.random() < 0.5, account.bounds, 0.0)


newcomers = st.sampled_from([always_worst, sleeper, bad_days, oracle])


@settings(max_examples=60)
@given(limits=limits_of, over=st.floats(1.0, 4.0), newcomer=newcomers, seed=seeds, base=st.floats(0.0, 1.0))
def test_no_newcomer_brings_the_account_below_zero(
    limits: list[float], over: float, newcomer: Newcomer, seed: int, base: float
) -> None:
    bounds = tuple(over * limit for limit in limits)
    account, rng, history = Account.begin(tuple(limits), bounds), np.random.default_rng(seed), []
    served = 0
    for _ in range(200):
        # The base keeps its limits on average, and its single episodes are as bad as they can be.
        if may := account.affords > 0:
            served, costs = served + 1, newcomer(account, served, rng)
        else:
            costs = np.where(rng.random(len(limits)) < base / over, bounds, 0.0)
        account = account.after(costs[None])
        history.append(costs - np.array(limits))
        if may:
            assert min(account.holds) >= -ROUNDING * max(bounds)
            # In any window that ends here costs are at most the limits and the capacity, less what is still held.
            windows = np.cumsum(np.array(history)[::-1], axis=0)
            room = np.array(account.capacity) - np.array(account.holds)
            assert (windows <= room + ROUNDING * np.array(bounds) * len(history)).all()


@settings(max_examples=60)
@given(
    limits=limits_of,
    over=st.floats(1.05, 4.0),
    costs=st.lists(st.floats(0.0, 1.0), max_size=30),
    cut=st.integers(0, 30),
)
def test_one_episode_at_a_time_or_many_give_the_same_account(
    limits: list[float], over: float, costs: list[float], cut: int
) -> None:
    account = Account.begin(tuple(limits), tuple(over * limit for limit in limits))
    rows = np.outer(costs, account.bounds).reshape(len(costs), len(limits))
    assert account.after(rows[:cut]).after(rows[cut:]) == account.after(rows)


@settings(max_examples=60)
@given(limits=limits_of, over=st.floats(1.05, 4.0), held=st.floats(-5.0, 2.0))
def test_what_it_affords_leaves_nothing_below_zero(limits: list[float], over: float, held: float) -> None:
    bounds = tuple(over * limit for limit in limits)
    empty = Account.begin(tuple(limits), bounds)
    account = Account(empty.limits, bounds, tuple(held * price for price in empty.prices))
    worst = account.after(np.tile(bounds, (account.affords, 1)))
    assert min(worst.holds) >= min(0.0, *account.holds) - ROUNDING * max(bounds)
    assert account.affords == max(int(held + 1e-9), 0)


accounts = st.builds(
    lambda seed, costs, stop, listed: system(
        seed, costs=costs, stop_at=stop, promise="total", episodes=400, listed=listed, largest_step=1.0
    ),
    seed=st.integers(0, 10_000), costs=st.sampled_from([1, 1, 2, 3]), stop=st.sampled_from([25.0, 40.0, 60.0]),
    listed=st.booleans(),
)  # fmt: skip


other_limits = st.floats(12.0, 24.0).filter(lambda limit: limit != LIMIT)


def stand(optimizer: SafeOptimizer) -> Account:
    account = optimizer.beliefs.account
    assert account is not None
    return account


@settings(max_examples=8)
@given(plant=accounts, newcomer=newcomers, seed=seeds, early=st.booleans())
def test_no_search_lets_a_newcomer_overdraw_the_account(
    plant: System, newcomer: Newcomer, seed: int, early: bool
) -> None:
    optimizer, rng, served, excess = SafeOptimizer(plant.problem), np.random.default_rng(seed), 0, []
    limits = np.array(plant.problem.limits)
    for _ in range(25):
        trial = optimizer.ask()
        if trial is None:
            break
        paid_by_account = is_newcomer(optimizer)
        assert not paid_by_account or trial.episodes <= stand(optimizer).affords
        rows = [newcomer(stand(optimizer), served + i, rng) if paid_by_account else rng.poisson(0.2 * limits)
                for i in range(trial.episodes)]  # fmt: skip
        rows = rows[: 1 + len(rows) // 2] if early else rows
        optimizer.tell(trial, [Returns(300.0, row) for row in rows])
        served += len(rows) * paid_by_account
        excess += [row - limits for row in rows]
        if paid_by_account:
            assert min(stand(optimizer).holds) >= -ROUNDING
            windows = np.cumsum(np.array(excess)[::-1], axis=0)
            assert (windows <= np.array(stand(optimizer).capacity) - np.array(stand(optimizer).holds) + ROUNDING).all()


@settings(max_examples=12)
@given(plant=accounts, actions=st.lists(st.sampled_from(ACTIONS), min_size=6, max_size=30), seed=seeds)
def test_no_sequence_of_events_lets_a_newcomer_overdraw_the_account(
    plant: System, actions: list[str], seed: int
) -> None:
    """Except that an account pays for what was told wrong, or cost more than it could, when that comes out."""
    optimizer, rng = SafeOptimizer(plant.problem), np.random.default_rng(seed)
    advance(optimizer, plant, rng, 2)
    asked_after = 0
    for i, action in enumerate(actions):
        was_open, before = optimizer.history.open, stand(optimizer)
        if was_open is None:
            asked_after = i
        act(optimizer, plant, rng, action)
        told = optimizer.trials[-1] if optimizer.trials else None
        if told is None or action in DISTURBING or told.asked.stage not in ("newcomer", "test") or told is was_open:
            continue
        if action in ("tell", "early", "costly") and not any(one in DISTURBING for one in actions[asked_after:i]):
            assert min(stand(optimizer).holds) >= min(-ROUNDING, *before.holds)


@settings(max_examples=12)
@given(plant=accounts, seed=seeds, after=st.integers(0, 8), limit=other_limits)
def test_other_limits_forgive_no_debt_and_keep_no_savings(plant: System, seed: int, after: int, limit: float) -> None:
    optimizer, rng = SafeOptimizer(plant.problem), np.random.default_rng(seed)
    advance(optimizer, plant, rng, after)
    for action in ("operate costly", "operate"):
        act(optimizer, plant, rng, action)
        held = stand(optimizer).holds
        if optimizer.history.open is None:
            starts = [optimizer.problem.target(start) for start in optimizer.problem.starts]
            optimizer.change_limits([limit] * len(held), starts)
            assert stand(optimizer).holds == tuple(min(each, 0.0) for each in held)
            limit += 0.5
