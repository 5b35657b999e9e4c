"""Members: draws of a policy's last layer around the trained one."""

from typing import Any

import numpy as np
import pytest
import torch

from lifesafe._random import generator
from lifesafe.data.sequences import Segments
from lifesafe.data.transitions import returns_to_go, steps_done
from lifesafe.errors import ConfigError
from lifesafe.policies import CDTConfig
from lifesafe.policies.cdt_batches import Table
from lifesafe.policies.laplace import deviations, laplace_members, last_layer, precision_factors
from small_data import OBSERVATIONS, small_dataset, small_targets
from small_methods import METHODS

DATA = small_dataset()
KINDS = ("cdt", "cdt-osrl", "rvs")


def trained(kind: str) -> Any:
    learner = METHODS[kind].build(DATA, seed=0)
    for step in range(20):
        learner.update(step)
    return learner.policy()


def actions(policy: Any) -> np.ndarray:
    targets = small_targets()
    seen = np.random.default_rng(0).normal(size=(len(targets), OBSERVATIONS)).astype(np.float32)
    return np.array(policy.actor(targets).act(seen))


def test_the_covariance_of_a_linear_gaussian_model_is_the_exact_one() -> None:
    rng = np.random.default_rng(0)
    features, sds, prior = rng.normal(size=(200, 4)), np.array([0.3, 2.0]), 0.7
    curvatures = np.broadcast_to(sds**-2, (200, 2))
    factors = precision_factors(features, curvatures, total=200, prior=prior)
    for L, sd in zip(factors, sds, strict=True):
        exact = np.linalg.inv(features.T @ features / sd**2 + prior * np.eye(4))  # Bayesian linear regression
        np.testing.assert_allclose(np.linalg.inv(L @ L.T), exact, rtol=1e-9)


def test_draws_have_the_covariance_and_temperature_multiplies_it() -> None:
    rng = np.random.default_rng(1)
    factors = precision_factors(rng.normal(size=(50, 3)), rng.uniform(0.5, 2, (50, 2)), total=50, prior=1.0)
    for temperature in (1.0, 9.0):
        drawn = np.stack([deviations(factors, rng, temperature) for _ in range(5_000)])
        for row, L in enumerate(factors):
            exact = temperature * np.linalg.inv(L @ L.T)
            np.testing.assert_allclose(np.cov(drawn[:, row].T), exact, atol=0.1 * np.abs(exact).max())


def test_a_sample_stands_for_all_steps() -> None:
    rng = np.random.default_rng(2)
    features, curvatures = rng.normal(size=(30, 3)), rng.uniform(0.5, 2, (30, 1))
    twice = precision_factors(np.tile(features, (2, 1)), np.tile(curvatures, (2, 1)), total=60, prior=1.0)
    np.testing.assert_allclose(precision_factors(features, curvatures, total=60, prior=1.0), twice)


def test_the_information_of_a_perceptron_is_that_of_its_jacobian() -> None:
    policy = trained("rvs")
    layer, network, inputs = last_layer(policy, DATA), policy._network, policy._inputs
    seen = torch.from_numpy(inputs(DATA.observations, returns_to_go(DATA), steps_done(DATA)))
    hidden, last = network.layers[:-1](seen), network.layers[-1]

    def means(weight: torch.Tensor) -> torch.Tensor:
        """Return the first entry of every action."""
        return torch.tanh(hidden @ weight + last.bias[0])

    slopes = torch.autograd.functional.jacobian(means, last.weight[0].clone())
    expected = (slopes.double().T @ slopes.double()) * torch.exp(-2 * network.log_stds[0].double())
    (L, _) = precision_factors(layer.features, layer.curvatures, total=DATA.transitions, prior=1e-6)
    np.testing.assert_allclose((L @ L.T)[:-1, :-1], expected.numpy(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", ["cdt", "cdt-osrl", "dt-cost"])
def test_a_transformer_is_seen_as_it_acts(kind: str) -> None:
    policy = trained(kind)
    layer, config = last_layer(policy, DATA), policy.config
    table = Table(DATA, policy._scaling, np.ones(1), previous_actions=config.tokens == 1, device=torch.device("cpu"))
    segments = Segments(DATA.offsets[:-1], DATA.lengths, np.ones(len(DATA)), length=config.segment).cover(10**6)
    batch = table.gather(segments)
    gaussian, _ = policy._network(batch.steps)
    real = batch.real > 0
    head = [policy.tensors()[name].double().numpy() for name in (layer.weight, layer.bias)]
    means = (layer.features[:, :-1] @ head[0].T + head[1])[:, : layer.curvatures.shape[1]]
    np.testing.assert_allclose(means, gaussian.mean[real].numpy(), atol=1e-5)
    np.testing.assert_allclose(layer.curvatures, np.exp(-2 * gaussian.log_std[real].double().numpy()), rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_small_logs_are_used_whole(kind: str) -> None:
    layer = last_layer(trained(kind), DATA)
    assert len(layer.features) == DATA.transitions
    np.testing.assert_array_equal(layer.features[:, -1], 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_members_differ_and_the_policy_stays(kind: str) -> None:
    policy = trained(kind)
    before, tensors = actions(policy), {name: tensor.clone() for name, tensor in policy.tensors().items()}
    members = laplace_members(policy, DATA, members=3)
    shown = [actions(member) for member in members]
    for i, one in enumerate(shown):
        assert not np.allclose(one, before)
        assert all(not np.allclose(one, other) for other in shown[:i])
    np.testing.assert_array_equal(actions(policy), before)
    assert all(torch.equal(tensor, tensors[name]) for name, tensor in policy.tensors().items())
    layer = last_layer(policy, DATA)
    for name, tensor in members[0].tensors().items():  # type: ignore[attr-defined]
        assert torch.equal(tensor, tensors[name]) == (name not in (layer.weight, layer.bias))


def test_only_the_means_of_a_transformer_are_drawn() -> None:
    policy = trained("cdt")
    (member,) = laplace_members(policy, DATA, members=1)
    ours, theirs = (each.tensors()["action_head.weight"] for each in (policy, member))  # type: ignore[attr-defined]
    assert torch.equal(ours[2:], theirs[2:])
    assert not torch.equal(ours[:2], theirs[:2])


def test_the_same_seed_gives_the_same_members() -> None:
    policy = trained("rvs")
    once, again, other = (laplace_members(policy, DATA, members=2, seed=seed) for seed in (5, 5, 6))
    for one, two in zip(once, again, strict=True):
        np.testing.assert_array_equal(actions(one), actions(two))
    assert not np.allclose(actions(once[0]), actions(other[0]))


def test_more_temperature_makes_members_differ_more() -> None:
    policy = trained("rvs")
    before = actions(policy)
    cold, hot = (
        np.mean([np.abs(actions(m) - before).mean() for m in laplace_members(policy, DATA, members=4, temperature=t)])
        for t in (0.01, 1.0)
    )
    assert hot > 3 * cold


@pytest.mark.parametrize("given", [{"members": 0}, {"temperature": 0.0}, {"temperature": float("nan")}])
def test_impossible_numbers_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="at least 1 member and a positive temperature"):
        laplace_members(trained("rvs"), DATA, **given)


def test_other_policies_have_no_closed_form() -> None:
    bc = METHODS["bc"].build(DATA, seed=0).policy()
    with pytest.raises(ConfigError, match=r"CDT or an RvS; got a \w+\. Train it with other seeds"):
        laplace_members(bc, DATA)


def test_weights_that_nothing_informs_stay_near_the_trained_ones() -> None:
    factors = precision_factors(np.zeros((10, 2)), np.ones((10, 1)), total=10, prior=1.0)
    drawn = np.stack([deviations(factors, generator(0, "draw", i)) for i in range(2000)])
    assert drawn.std() == pytest.approx(1.0, rel=0.05)


def test_config_of_members_is_that_of_the_policy() -> None:
    (member,) = laplace_members(trained("cdt"), DATA, members=1)
    assert isinstance(member.config, CDTConfig)  # type: ignore[attr-defined]
