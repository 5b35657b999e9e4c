"""How long a seed is tried."""

import numpy as np
import pytest

from lifesafe.environments import task
from lifesafe.lifetime.trials import default_schedule, schedule_for, seed_episodes
from lifesafe.optimizer.certificates import LEVEL
from lifesafe.theory.betting import safety_test


@pytest.mark.parametrize(("limit", "bound"), [(20.0, 200.0), (20.0, 1000.0), (40.0, 300.0)])
def test_so_many_episodes_certify_a_seed_that_costs_a_quarter_of_its_limit(limit: float, bound: float) -> None:
    count = seed_episodes([limit], [bound], 20)
    assert count % 20 == 0
    free = safety_test(limit, bound, LEVEL).update(np.zeros(count)).rejected_at
    assert free is not None
    assert free <= count / 1.4
    assert safety_test(limit, bound, LEVEL).update(np.full(count, limit / 4)).rejected


def test_the_schedule_of_a_lifetime_certifies_seeds_by_betting() -> None:
    schedule = schedule_for([20.0], [300.0])
    assert schedule == default_schedule(task("CarCircle"))
    assert schedule.certification == "betting"
    assert schedule.seed_episodes == seed_episodes([20.0], [300.0], schedule.episodes)
