"""What every search keeps to, whatever is told: the ledger, who may be tried, and who may be served."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lifesafe.operation import Operation
from lifesafe.safety import SafeOptimizer
from properties.runs import ACTIONS, System, act, system

actions = st.lists(st.sampled_from(ACTIONS), min_size=4, max_size=24)
seeds = st.integers(0, 2**32 - 1)
ledgers = st.builds(
    lambda seed, costs, delta, stop: system(seed, costs=costs, delta=delta, stop_at=stop),
    seed=st.integers(0, 10_000),
    costs=st.sampled_from([1, 1, 2]),
    delta=st.sampled_from([0.02, 0.1, 0.3]),
    stop=st.sampled_from([None, 40.0]),
)
accounts = st.builds(
    lambda seed, costs, stop: system(seed, costs=costs, stop_at=stop, promise="total", episodes=300),
    seed=st.integers(0, 10_000),
    costs=st.sampled_from([1, 1, 2]),
    stop=st.sampled_from([25.0, 40.0, 60.0]),
)


@settings(max_examples=10)
@given(plant=ledgers, actions=actions, seed=seeds)
def test_charges_never_exceed_delta_under_any_limits(plant: System, actions: list[str], seed: int) -> None:
    optimizer, rng, delta = SafeOptimizer(plant.problem), np.random.default_rng(seed), plant.problem.delta
    for action in actions:
        limited = len(optimizer.history.limited)
        before, asked = optimizer.spent, len(optimizer.history.trials)
        act(optimizer, plant, rng, action)
        if len(optimizer.history.limited) == limited:  # nothing but other limits gives a charge back
            assert optimizer.spent >= before
        assert optimizer.spent <= delta * (1 + 1e-12)
        for tried in list(optimizer.history.trials.values())[asked:]:
            assert 0 <= tried.asked.charge <= tried.asked.allowance * (1 + 1e-9)


@settings(max_examples=10)
@given(plant=ledgers, actions=actions, seed=seeds)
def test_every_center_is_a_start_or_has_paid_under_the_present_limits(
    plant: System, actions: list[str], seed: int
) -> None:
    optimizer, rng = SafeOptimizer(plant.problem), np.random.default_rng(seed)
    for action in actions:
        paid, asked = optimizer.beliefs.paid, len(optimizer.history.trials)
        act(optimizer, plant, rng, action)
        for tried in list(optimizer.history.trials.values())[asked:]:
            if tried.asked.stage == "start":
                assert tried.center in optimizer.problem.starts
                assert tried.asked.charge == 0
            else:
                assert tried.center in paid | set(tried.asked.paid)
                assert bool(tried.asked.paid) <= (tried.asked.charge > 0)


@settings(max_examples=10)
@given(plant=st.one_of(ledgers, accounts), actions=actions, seed=seeds)
def test_only_what_was_paid_or_certified_is_served(plant: System, actions: list[str], seed: int) -> None:
    optimizer, rng = SafeOptimizer(plant.problem), np.random.default_rng(seed)
    for action in actions:
        admitted, served = optimizer.beliefs.admitted, len(optimizer.history.services)
        act(optimizer, plant, rng, action)
        assert all(each.point in optimizer.beliefs.admitted for each in optimizer.fit)
        for service in optimizer.history.services[served:]:
            assert service.target in admitted
        serving = optimizer.history.serving
        if serving is not None and Operation(optimizer).target is not None and action != "ask":
            assert serving.target in optimizer.beliefs.admitted
        if optimizer.beliefs.breaches and optimizer.held is not None:
            assert optimizer.fit == ()


@settings(max_examples=10)
@given(plant=accounts, actions=actions, seed=seeds)
def test_levels_of_all_bets_ever_begun_stay_within_delta(plant: System, actions: list[str], seed: int) -> None:
    optimizer, rng, limited = SafeOptimizer(plant.problem), np.random.default_rng(seed), 0
    levels: dict[tuple[tuple[float, ...], float], float] = {}
    for action in actions:
        act(optimizer, plant, rng, action)
        if len(optimizer.history.limited) > limited:
            limited, levels = len(optimizer.history.limited), {}
        for point, bet in optimizer.beliefs.bets.items():
            levels[point, bet.level] = bet.level
        assert sum(levels.values()) < plant.problem.delta


@settings(max_examples=3)
@given(plant=ledgers, seed=seeds, shuffle=st.randoms(use_true_random=False))
def test_the_order_of_episodes_of_the_same_target_decides_nothing(plant: System, seed: int, shuffle) -> None:
    one, other, rng = SafeOptimizer(plant.problem), SafeOptimizer(plant.problem), np.random.default_rng(seed)
    for _ in range(8):
        trial = one.ask()
        assert other.ask() == trial
        if trial is None:
            break
        episodes = plant.episodes(trial.targets, rng)
        one.tell(trial, episodes)
        own: dict[object, list[object]] = {}
        for target, episode in zip(trial.targets, episodes, strict=True):
            own.setdefault(target, []).append(episode)
        for mixed in own.values():
            shuffle.shuffle(mixed)
        other.tell(trial, [own[target].pop() for target in trial.targets])
        assert other.spent == pytest.approx(one.spent, rel=1e-6, abs=1e-12)
