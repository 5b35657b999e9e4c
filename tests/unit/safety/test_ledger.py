"""The ledger: risks are those of the joint posterior, and allowances never add up to more than delta."""

from collections.abc import Callable

import jaxtyping
import numpy as np
import pytest

from lifesafe.returns import Returns
from lifesafe.safety import Problem, SafeOptimizer
from lifesafe.safety.beliefs import Beliefs
from lifesafe.safety.ledger import FIRST_EPISODES, allowance, lottery, start_allowance, step_risks
from lifesafe.safety.posterior import Model
from unit.safety.machines import LIMIT, free, plain, problem, run

LENGTHS, DEVIATIONS = (0.5, 1.0), (2.0, 0.7)
DRAWS = 40_000
# Draws give a risk to 0.002; quadrature is off by up to 0.01 where the center itself is in doubt.
TOLERANCE = {"abs": 0.007, "rel": 0.05}


def cost_at(f: np.ndarray) -> np.ndarray:
    """Return the mean cost, in limits, of a value on the modeled scale, written out."""
    return 0.0125 * np.logaddexp(0.0, (5.0 ** np.minimum(f, 8.0) - 1) / 0.05)


def covariance(Z: np.ndarray, X: np.ndarray, q: int) -> np.ndarray:
    r = np.sqrt(5) * np.linalg.norm(Z[:, None] - X[None], axis=-1) / LENGTHS[q]
    return DEVIATIONS[q] ** 2 * (1 + r + r**2 / 3) * np.exp(-r)


def draws(model: Model, Z: np.ndarray) -> list[np.ndarray]:
    """Return mean costs at some targets, drawn from the joint posterior of every component."""
    rng, found, fitted, X = np.random.default_rng(0), [], model.fitted, model.sums.X
    for c in range(len(fitted.a)):
        k = covariance(Z, X, c % 2)
        joint = covariance(Z, Z, c % 2) - k @ fitted.A[c] @ k.T + 1e-9 * np.eye(len(Z))
        normal = rng.standard_normal((DRAWS // 2, len(Z)))
        f = np.concatenate([normal, -normal]) @ np.linalg.cholesky(joint).T
        found.append(cost_at(1 + k @ fitted.a[c] + f))
    return found


def probabilities(beliefs: Beliefs, Z: np.ndarray, event: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return the probability of each of several events, with the weights that make it larger, summed over the costs."""
    shares = np.array([event(m).mean(axis=0) for m in draws(beliefs.model, Z)])
    total = sum((beliefs.model.weights[:, k] @ shares).max(axis=0) for k in range(len(beliefs.problem.limits)))
    return np.minimum(total, 1.0)


def two_costs(target: Returns, rng: np.random.Generator) -> Returns:
    return Returns(target.reward, (rng.poisson(0.6 * target.costs[0]), 4 * rng.poisson(0.1 * target.costs[1])))


def stopped(target: Returns, rng: np.random.Generator) -> Returns:
    return Returns(target.reward, min(float(rng.poisson(0.8 * target.costs[0])), 50.0))


@pytest.fixture(scope="module")
def searches() -> dict[str, Beliefs]:
    jaxtyping.config.update("jaxtyping_disable", True)  # whole searches: others check the shapes
    axes = {"reward": (0.0, 400.0), "cost 1": (0.0, 60.0), "cost 2": (0.0, 60.0)}
    two = Problem(axes=axes, starts=[Returns(100, (0, 0))], limits=(LIMIT, 15.0))
    return {
        "one cost": run(SafeOptimizer(problem(seed=4)), plain, 7).beliefs,
        "one cost, a stop": run(SafeOptimizer(problem(stop_at=50)), stopped, 6).beliefs,
        "two costs": run(SafeOptimizer(two), two_costs, 6).beliefs,
    }


CASES = ["one cost", "one cost, a stop", "two costs"]


def cloud(beliefs: Beliefs, count: int = 12) -> np.ndarray:
    """Return targets from near those that were tried to far out, where costs are high."""
    rng, X = np.random.default_rng(1), beliefs.problem.scaled(beliefs.tried)
    near = X[rng.integers(len(X), size=count)] + rng.uniform(-0.1, 0.1, (count, X.shape[1]))
    near[:, 1:] += np.linspace(0.0, 0.8, count)[:, None]
    return np.clip(near, 0.0, 1.0)


@pytest.mark.parametrize("case", CASES)
def test_the_risk_of_a_target_is_that_of_the_posterior(searches: dict[str, Beliefs], case: str) -> None:
    beliefs = searches[case]
    Z = cloud(beliefs)
    found = beliefs.model.expect(Z).risks()
    assert found.min() < 0.02
    assert found.max() > 0.2
    assert found == pytest.approx(probabilities(beliefs, Z, lambda m: m > 1), **TOLERANCE)
    # Of another limit, too: here of three quarters.
    found = beliefs.model.expect(Z).risks(0.75)
    assert found == pytest.approx(probabilities(beliefs, Z, lambda m: m > 0.75), **TOLERANCE)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("share", [0.2, 0.5])
def test_what_a_scout_adds_is_that_the_center_keeps_the_limits_and_the_lottery_does_not(
    searches: dict[str, Beliefs], case: str, share: float
) -> None:
    beliefs = searches[case]
    Z = cloud(beliefs)
    z = Z[np.argmin(np.abs(beliefs.model.expect(Z).risks() - 0.1))]  # a center in some doubt
    found = beliefs.model.expect(Z).added_to(beliefs.model.expect(z[None]), share)
    assert found.max() > 0.03

    at_least = beliefs.model.expect(Z).added_at_least(beliefs.model.expect(z[None]), share)
    assert (at_least <= found + 1e-9).all()

    def breaks(m: np.ndarray) -> np.ndarray:
        return (m[:, :1] <= 1) & ((1 - share) * m[:, :1] + share * m[:, 1:] > 1)

    assert found == pytest.approx(probabilities(beliefs, np.vstack([z, Z]), breaks), **TOLERANCE)


@pytest.mark.parametrize("case", CASES)
def test_what_a_step_adds_is_that_it_breaks_a_limit_and_the_nearest_that_has_paid_does_not(
    searches: dict[str, Beliefs], case: str
) -> None:
    beliefs = searches[case]
    Z = cloud(beliefs)
    paid = np.vstack([beliefs.problem.scaled(sorted(beliefs.paid)), Z[4], Z[8]])
    found = step_risks(beliefs.model.expect(paid), beliefs.model.expect(Z))
    nearest = [int(np.abs(paid - z).max(axis=1).argmin()) for z in Z]
    assert len(set(nearest)) > 2

    def steps(m: np.ndarray) -> np.ndarray:
        return (m[:, nearest] <= 1) & (m[:, len(paid) :] > 1)

    true = probabilities(beliefs, np.vstack([paid, Z]), steps)
    assert found == pytest.approx(true, **TOLERANCE)
    assert found[4] < 1e-3 < 0.05 < found.max()  # the fifth is where somebody has paid
    assert (found <= beliefs.model.expect(Z).risks() + TOLERANCE["abs"]).all()


def test_rows_are_those_of_the_chosen_targets(searches: dict[str, Beliefs]) -> None:
    beliefs = searches["two costs"]
    Z, chosen = cloud(beliefs), np.array([5, 2, 2])
    some, same = beliefs.model.expect(Z).rows(chosen), beliefs.model.expect(Z[chosen])
    np.testing.assert_allclose(some.risks(), same.risks(), rtol=1e-9)
    np.testing.assert_allclose(some.reward_sd, same.reward_sd, rtol=1e-9)
    np.testing.assert_allclose(some.at.means, same.at.means, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(some.at.explained, same.at.explained, rtol=1e-9, atol=1e-12)


def test_no_risk_of_several_costs_is_more_than_certain(searches: dict[str, Beliefs]) -> None:
    beliefs, Z = searches["two costs"], np.array([[0.5, 1.0, 1.0]])
    assert beliefs.model.expect(Z).risks(0.001)[0] == pytest.approx(1.0, abs=0.01)


def test_a_cost_that_is_sure_has_no_risk() -> None:
    beliefs = run(SafeOptimizer(problem(stop_at=19.0)), free, 2).beliefs
    Z = cloud(beliefs)
    assert beliefs.model.costs == (None,)
    assert not beliefs.model.expect(Z).risks().any()


def test_the_order_of_tickets_is_random_and_the_same_for_the_same_trial() -> None:
    numbers = [(seed, trial) for seed in range(20) for trial in range(20)]
    orders = [lottery(10, seed, trial) for seed, trial in numbers]
    assert orders == [lottery(10, seed, trial) for seed, trial in numbers]
    assert len(set(orders)) > 40  # of 45 that are possible
    assert {tuple(sorted(order)) for order in orders} == {(0,) * 8 + (1,) * 2}
    # A trial that ends early ran a fair sample: every place is a scout's equally often.
    assert np.abs(np.mean(orders, axis=0) - 0.2).max() < 4 * np.sqrt(0.2 * 0.8 / len(orders))


def test_an_allowance_is_an_even_share_of_what_is_left() -> None:
    optimizer = SafeOptimizer(problem(episodes=150, delta=0.2))
    assert allowance(optimizer.beliefs) == pytest.approx(0.2 / 15)
    run(optimizer, free, 2)
    assert optimizer.spent > 0
    assert optimizer.beliefs.searched == 40
    assert allowance(optimizer.beliefs) == pytest.approx((0.2 - optimizer.spent) / 11)


def test_the_last_episodes_may_have_what_is_left() -> None:
    optimizer = run(SafeOptimizer(problem(episodes=45)), free, 2)
    assert optimizer.beliefs.searched == 40
    assert allowance(optimizer.beliefs) == pytest.approx(0.1 - optimizer.spent)


def test_starts_may_have_a_half_a_quarter_and_so_on_and_never_more_than_is_left() -> None:
    optimizer = SafeOptimizer(problem(delta=0.2))
    assert [start_allowance(optimizer.beliefs, number) for number in range(3)] == pytest.approx([0.1, 0.05, 0.025])
    run(optimizer, plain, 8)
    assert 0.1 < optimizer.spent <= 0.2
    assert start_allowance(optimizer.beliefs, 0) == pytest.approx(min(0.1, 0.2 - optimizer.spent))


def test_the_charge_of_a_start_is_its_risk() -> None:
    optimizer = SafeOptimizer(problem(incident=150.0))
    run(optimizer, free, 1)
    before = optimizer.beliefs
    assert before.searched == FIRST_EPISODES
    while (trial := optimizer.ask()) is not None and trial.stage == "start":
        optimizer.tell(trial, [free(target, np.random.default_rng()) for target in trial.targets])
        before = optimizer.beliefs
    asked = optimizer.history.trials[trial.number].asked
    start = before.problem.scaled(before.problem.starts)
    (risk,) = before.model.expect(start).risks()
    assert asked.paid[0] == before.problem.starts[0]
    assert risk <= asked.charge <= asked.allowance
    assert risk > allowance(before)  # more than a trial may have, and less than a start may
    assert asked.charge == pytest.approx(risk)
