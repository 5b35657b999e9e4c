"""Starts under lower limits: targets that are fit and keep them with room, or a refusal."""

from typing import Any

import numpy as np
import pytest

from lifesafe.errors import NoSafeTargetError
from lifesafe.operation import Operation, use
from lifesafe.preparation.limits import change_limits, starts_under
from lifesafe.returns import Returns
from lifesafe.safety import SafeOptimizer
from properties.runs import advance, system
from unit.safety.machines import problem, run


def dear(target: Returns, rng: np.random.Generator) -> Returns:
    """Cost three and half of what is asked for."""
    return Returns(rng.normal(target.reward, 10.0), rng.poisson(3.0 + 0.5 * target.costs[0]))


@pytest.fixture(scope="module")
def optimizer() -> SafeOptimizer:
    return run(SafeOptimizer(problem(episodes=110)), dear)


def test_starts_are_fit_and_keep_the_lower_limit_those_with_most_room_first(optimizer: SafeOptimizer) -> None:
    starts = starts_under(optimizer, [8.0])
    fit = {optimizer.problem.point(each.target): use(each, [8.0]) for each in optimizer.fit}
    uses = [fit[optimizer.problem.point(start)] for start in starts]
    assert uses == sorted(uses)
    assert uses[-1] <= 1
    assert len(starts) == sum(share <= 1 for share in fit.values())
    assert 0 < len(starts) < len(fit)


def test_a_limit_that_nothing_keeps_is_refused_with_what_the_cheapest_uses(optimizer: SafeOptimizer) -> None:
    count = len(optimizer.trials)
    message = rf"None of the {count} trials shows a target that keeps the lower limits 1; the cheapest may use \d+%"
    with pytest.raises(NoSafeTargetError, match=message):
        starts_under(optimizer, [1.0])


def test_before_anything_is_fit_there_is_no_start() -> None:
    with pytest.raises(NoSafeTargetError, match=r"None of the 0 trials .* limits 10\. Begin a run with these limits"):
        starts_under(SafeOptimizer(problem()), [10.0])


@pytest.mark.parametrize("promised", [{}, {"promise": "total", "episodes": 100}], ids=["trial", "total"])
def test_after_lower_limits_only_what_paid_under_them_is_tried_and_served(promised: dict[str, Any]) -> None:
    plant, rng = system(0, stop_at=40.0, steep=1.5, **promised), np.random.default_rng(1)
    again = SafeOptimizer(plant.problem)
    advance(again, plant, rng, 100)
    assert again.fit
    change_limits(again, [18.0])
    assert again.beliefs.is_vouched == bool(promised)  # under "trial" nobody has said that a start is safe
    assert (again.fit, again.spent) == ((), 0)
    with pytest.raises(NoSafeTargetError):
        Operation(again).begin()
    trials = len(again.trials)
    while (trial := again.ask()) is not None:
        charged = [tried.asked for tried in list(again.history.trials.values())[trials:]]
        paid = {point for asked in charged for point in asked.paid}
        assert again.beliefs.paid <= paid
        assert {target.point for target in again.fit} <= (paid | again.beliefs.certified)
        assert sum(asked.charge for asked in charged) == pytest.approx(again.spent)
        assert again.spent <= again.problem.delta
        if not promised:
            assert all(asked.stage == "search" for asked in charged)  # nothing runs without having paid
            assert {asked.targets[0] for asked in charged} <= paid
        again.tell(trial, plant.episodes(trial.targets, rng))
    assert sum(bet.level for bet in again.beliefs.bets.values()) < again.problem.delta
    assert bool(again.spent) != bool(promised)
    assert promised or again.best.point in paid
