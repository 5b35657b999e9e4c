"""What every run keeps to: the safe set, the risk ledger, and what may be recommended."""

from contextlib import suppress
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lifesafe.errors import NoSafeTargetError
from lifesafe.optimizer import SafeOptimizer, Schedule, Stage
from lifesafe.optimizer.certificates import certified, violated
from lifesafe.returns import Returns
from properties.runs import LIMIT, Plant, lively, quick

# The priors are confident on purpose, so that something happens; now and then a trial goes wrong.
pytestmark = pytest.mark.filterwarnings("ignore::lifesafe.errors.GuaranteeWarning")

systems = st.builds(
    lambda seed, costs, mixture: lively(
        np.random.default_rng(seed), costs=costs, size=(0, 8, 5)[costs], mixture=mixture
    ),
    seed=st.integers(0, 10_000),
    costs=st.sampled_from([1, 1, 2]),
    mixture=st.sampled_from([1, 3]),
)
ledgers = st.builds(
    quick,
    share=st.none() | st.floats(0.05, 0.6),
    reach=st.floats(0.25, 1.0),
    exploration=st.integers(0, 6),
    certification=st.sampled_from(["score", "asserted"]),
)
seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=12)
@given(system=systems, schedule=ledgers, seed=seeds)
def test_no_trial_lies_outside_the_safe_set_computed_before_it(system: Plant, schedule: Schedule, seed: int) -> None:
    optimizer, rng = SafeOptimizer(system.problem, schedule), np.random.default_rng(seed)
    for _ in range(10):
        before = optimizer.safe
        trial = optimizer.ask()
        assert trial is not None
        assert before[trial.index] or trial.stage is Stage.SEED
        if trial.stage is Stage.SEED:
            assert trial.index in system.problem.seeds
        optimizer.tell(trial, system.episodes(trial.index, trial.episodes, rng))


@settings(max_examples=12)
@given(system=systems, schedule=ledgers, seed=seeds, all_seeds=st.booleans())
def test_each_charge_fits_its_share_and_all_fit_delta(
    system: Plant, schedule: Schedule, seed: int, all_seeds: bool
) -> None:
    if all_seeds:  # which changes nothing, unless that they are safe is asserted
        first, rest = system.problem.seeds[0], range(len(system.problem.candidates))
        problem = replace(system.problem, seeds=(first, *(i for i in rest if i != first)))
        system = replace(system, problem=problem)
    optimizer, rng = SafeOptimizer(system.problem, schedule), np.random.default_rng(seed)
    paid: set[int] = set()
    for _ in range(10):
        before, delta = optimizer.spent, system.problem.delta
        proven = {i for i in system.problem.seeds if certified(system.problem, optimizer._state.posterior, i)}
        free = set(system.problem.seeds) if schedule.certification == "asserted" else proven
        trial = optimizer.ask()
        assert trial is not None
        charge = optimizer.spent - before
        if trial.stage is Stage.SEED or trial.index in paid | free:
            assert charge == 0
        else:
            left = schedule.trials - trial.number + 1
            share = schedule.share if schedule.share is not None else 1 / left
            assert charge == pytest.approx(trial.risk, rel=1e-9, abs=1e-15)
            assert charge <= share * (delta - before) * (1 + 1e-12)
        assert optimizer.spent <= delta
        paid |= {trial.index} if charge else set()
        optimizer.tell(trial, system.episodes(trial.index, trial.episodes, rng))


@settings(max_examples=12)
@given(system=systems, schedule=ledgers, seed=seeds)
def test_only_tried_and_certified_targets_are_recommended(system: Plant, schedule: Schedule, seed: int) -> None:
    optimizer, rng = SafeOptimizer(system.problem, schedule), np.random.default_rng(seed)
    assert optimizer.best is None
    for _ in range(8):
        trial = optimizer.ask()
        assert trial is not None
        optimizer.tell(trial, system.episodes(trial.index, trial.episodes, rng))
        best = optimizer.best
        if best is None:
            continue
        own = np.concatenate([r.episodes for r in optimizer.trials if r.trial.index == best.index])
        assert best.episodes == len(own)
        np.testing.assert_allclose(tuple(best.means), own.mean(axis=0), rtol=1e-12)
        for upper, mean, limit in zip(best.cost_upper, best.means.costs, system.problem.limits, strict=True):
            assert mean < upper <= limit
        assert best.reward_lower == pytest.approx(optimizer.bands.lower[0, best.index])
        assert best.risk < system.problem.delta


@settings(max_examples=12)
@given(system=systems, seed=seeds, excess=st.floats(4.0, 50.0))
def test_a_target_far_above_its_limit_leaves_the_safe_set_for_good(system: Plant, seed: int, excess: float) -> None:
    optimizer, rng = SafeOptimizer(system.problem, quick(surprises=99)), np.random.default_rng(seed)
    steep = system.means[:, 0] > np.quantile(system.means[:, 0], 0.6)
    refuted: set[int] = set()
    for _ in range(10):
        trial = optimizer.ask()
        assert trial is not None
        assert trial.index not in refuted
        if steep[trial.index]:
            costs = [excess * limit for limit in system.problem.limits]
            optimizer.tell(trial, [Returns(100.0, costs)] * trial.episodes)
            assert optimizer.trials[-1].violated
        else:
            optimizer.tell(trial, system.episodes(trial.index, trial.episodes, rng))
        if optimizer.trials[-1].violated:
            refuted.add(trial.index)
        assert not optimizer.safe[list(refuted)].any()
        assert optimizer.best is None or optimizer.best.index not in refuted


@settings(max_examples=12)
@given(
    seed=seeds, limits=st.lists(st.floats(12, 60), min_size=1, max_size=3), how=st.sampled_from(["score", "asserted"])
)
def test_what_was_far_above_stays_out_under_every_limit_that_it_breaks(
    seed: int, limits: list[float], how: Literal["score", "asserted"]
) -> None:
    rng = np.random.default_rng(seed)
    system = lively(rng, size=8, seeds=4)
    own_seeds = system.problem.seeds
    system.means[list(own_seeds[1:]), 1] += 100.0
    optimizer = SafeOptimizer(system.problem, quick(trials=6, surprises=99, certification=how))
    for limit in (LIMIT, *limits):
        if (limit,) != optimizer.problem.limits:
            optimizer.change_limits(limit, own_seeds)
        refuted = {
            result.trial.index
            for result in optimizer.trials
            if violated(optimizer.problem, optimizer._state.posterior, result.episodes)
        }
        with suppress(NoSafeTargetError):
            while trial := optimizer.ask():
                assert trial.index not in refuted
                assert not optimizer.safe[list(refuted)].any()
                optimizer.tell(trial, system.episodes(trial.index, 20, rng))
                refuted |= {trial.index} if optimizer.trials[-1].violated else set()


@settings(max_examples=10)
@given(system=systems, seed=seeds, count=st.integers(2, 5))
def test_trials_in_parallel_are_admissible_on_real_data_alone(system: Plant, seed: int, count: int) -> None:
    optimizer, rng = SafeOptimizer(system.problem, quick()), np.random.default_rng(seed)
    for _ in range(3):
        while optimizer.stage is Stage.SEED:
            trial = optimizer.ask()
            assert trial is not None
            optimizer.tell(trial, system.episodes(trial.index, trial.episodes, rng))
        bands = optimizer.bands
        for number in range(1, count + 1):
            safe, known = optimizer.safe, {trial.number for trial in optimizer.open_trials}
            before = optimizer.spent
            for trial in optimizer.ask_many(number):
                if trial.number not in known:
                    assert safe[trial.index]
                    assert optimizer.spent - before in (0, pytest.approx(trial.risk))
        # Pretended outcomes are nobody's data: the means stay, and bands only widen as the allowance shrinks.
        assert (optimizer.bands.upper[1:] >= bands.upper[1:] - 1e-9).all()
        np.testing.assert_array_equal(optimizer.bands.upper[0], bands.upper[0])
        trials = list(optimizer.open_trials)
        rng.shuffle(trials)  # type: ignore[arg-type]
        for trial in trials:
            optimizer.tell(trial, system.episodes(trial.index, trial.episodes, rng))
        assert optimizer.spent <= system.problem.delta
