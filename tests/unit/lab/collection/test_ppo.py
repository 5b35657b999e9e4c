from dataclasses import replace

import numpy as np
import pytest
import torch

from lifesafe.lab.collection.config import CollectionConfig
from lifesafe.lab.collection.ppo import Learner, PPOBatch, level, sweep
from lifesafe.lab.collection.sampler import Explorer
from lifesafe.systems import open_vector, task

POINT = task("PointCircle")
SMALL = CollectionConfig(rows=14, exhibits=2, segment=100, width=32, knots=3, entropy=0.01, minibatch=350)


def sampled(learner: Learner, seed: int = 0) -> tuple[Explorer, np.random.Generator]:
    size = learner.config.rows + learner.config.exhibits
    return Explorer(POINT, open_vector(POINT, size), learner.config.exhibits, seed), np.random.default_rng(seed)


def batch_of(learner: Learner) -> PPOBatch:
    sampler, random = sampled(learner)
    return learner.prepare(sampler.segment(learner.act, learner.deviation, 20, random))


@pytest.mark.parametrize(
    ("term", "moved"),
    [
        ("behavior", ("behavior.mean", "behavior.log_deviation")),
        ("entropy", ("behavior.log_deviation",)),
        ("reward", ("critics.reward",)),
        ("cost", ("critics.cost",)),
    ],
)
def test_every_term_of_the_loss_moves_the_parameters_that_it_should_and_no_others(
    term: str, moved: tuple[str, ...]
) -> None:
    learner = Learner(POINT, SMALL, seed=0)
    batch = batch_of(learner)
    learner.losses(batch)[0][term].backward()
    networks = {"behavior": learner.behavior, "critics": learner.critics}
    for prefix, network in networks.items():
        for name, parameter in network.named_parameters():
            has_gradient = parameter.grad is not None and bool(parameter.grad.abs().sum() > 0)
            assert has_gradient == f"{prefix}.{name}".startswith(moved), name


def test_where_multipliers_are_large_advantages_follow_the_costs() -> None:
    learner = Learner(POINT, replace(SMALL, exhibits=0), seed=0)
    sampler, random = sampled(learner)
    segment = sampler.segment(learner.act, np.array([3.0, 3.0]), 200, random)
    segment.gains[..., 1] = random.random(segment.ends.shape) < 0.5
    for logarithm, sign in ((9.0, -1), (-9.0, 0)):
        learner.multipliers.logarithms[:] = logarithm
        advantages = learner.prepare(segment).advantages.numpy()
        correlation = np.corrcoef(advantages, segment.gains[..., 1].ravel())[0, 1]
        assert correlation < -0.2 if sign else abs(correlation) < 0.1


def test_learning_earns_more_and_keeps_tight_limits_better_than_loose_ones() -> None:
    config = CollectionConfig(rows=16, exhibits=0, segment=100, width=32, minibatch=400, epochs=4, knots=3)
    learner = Learner(POINT, config, seed=0)
    sampler, random = sampled(learner)
    rewards, costs = [], []
    for update in range(60):
        segment = sampler.segment(learner.act, learner.deviation, config.segment, random)
        learner.update(segment, sampler.finished, update / 60, random)
        rewards.append(segment.gains[..., 0].mean())
        half = segment.positions[:-1] < 0.5
        costs.append([segment.gains[half, 1].mean(), segment.gains[~half, 1].mean()])
    assert np.mean(rewards[-5:]) > np.mean(rewards[:5]) + 0.3
    tight, loose = np.mean(costs[-10:], axis=0)
    assert tight < 0.6 * loose


def test_a_learner_that_was_saved_goes_on_as_if_it_had_not_been() -> None:
    first = Learner(POINT, SMALL, seed=0)
    sampler, random = sampled(first)
    for _ in range(3):
        first.update(sampler.segment(first.act, first.deviation, 100, random), sampler.finished, 0.1, random)
    second = Learner(POINT, SMALL, seed=1)
    second.load_state({name: value.clone() for name, value in first.state().items()})
    segment = sampler.segment(first.act, first.deviation, 100, random)
    for learner in (first, second):
        learner.update(segment, sampler.finished, 0.2, np.random.default_rng(7))
    one, other = first.state(), second.state()
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_the_sweep_goes_from_the_tightest_to_the_loosest_limit_and_narrows_in_the_first_half() -> None:
    limits = sweep(SMALL, np.linspace(0, 1, 11))
    assert (limits[0], limits[-1]) == (SMALL.tightest, SMALL.loosest)
    assert (np.diff(limits) > 0).all()
    narrowing = replace(SMALL, narrowed=0.5)
    loosest = [float(sweep(narrowing, np.ones(1), progress)[0]) / SMALL.loosest for progress in (0, 0.25, 0.5, 0.9)]
    np.testing.assert_allclose(loosest, [1.0, 0.75, 0.5, 0.5])


def test_advantages_are_levelled_under_every_limit_whatever_their_size_there() -> None:
    random = np.random.default_rng(0)
    learner = Learner(POINT, replace(SMALL, knots=9), seed=0)
    positions, raw = random.random(5000), random.normal(size=5000)
    sizes = 0.05 + positions
    levelled = level(sizes * (raw + 1), learner.multipliers.features(positions))
    for low in (0.0, 0.4, 0.8):
        near = levelled[(positions >= low) & (positions < low + 0.2)]
        assert abs(near.mean()) < 0.1
        assert 0.7 < near.std() < 1.3
    assert np.corrcoef(levelled, raw)[0, 1] > 0.97


def test_an_episode_that_ends_early_is_charged_for_the_steps_it_misses() -> None:
    learner = Learner(POINT, replace(SMALL, exhibits=0, forfeit=0.5, cost_discount=0.9), seed=0)
    sampler, random = sampled(learner)
    segment = sampler.segment(learner.act, learner.deviation, 200, random)
    assert (learner.forfeits(segment) == 0).all()  # nothing ends early here
    segment.ends[-3:, 2] = True
    charged = learner.forfeits(segment)
    assert np.count_nonzero(charged) == 2  # the last step of the horizon misses nothing
    np.testing.assert_allclose(charged[-3:, 2, 0], [0.5 * (0.9 + 0.81), 0.5 * 0.9, 0.0])
