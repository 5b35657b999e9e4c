"""A lottery: its tickets, their random order, and which target is its center."""

import numpy as np
import pytest

from lifesafe.safety.lottery import SCOUTS, Lottery, Ticket, lottery

CENTER, SCOUT = (100.0, 5.0), (150.0, 9.0)


def test_a_trial_without_a_scout_is_all_for_its_center() -> None:
    drawn = lottery(CENTER, 7)
    assert drawn.tickets == (Ticket(CENTER),) * 7
    assert (drawn.targets, drawn.draws) == ((CENTER,), (0,) * 7)


@pytest.mark.parametrize("trial", range(5))
def test_two_tickets_of_ten_go_to_the_scout(trial: int) -> None:
    drawn = lottery(CENTER, 10, SCOUT, trial=trial)
    assert SCOUTS == 2
    assert drawn.targets == (CENTER, SCOUT)
    assert sorted(drawn.draws) == [0] * 8 + [1] * 2
    assert [drawn.targets[i] for i in drawn.draws] == [ticket.target for ticket in drawn.tickets]


def test_the_order_is_random_and_the_same_for_the_same_seed_and_trial() -> None:
    orders = [lottery(CENTER, 10, SCOUT, seed=seed, trial=trial).draws for seed in range(20) for trial in range(20)]
    assert orders == [
        lottery(CENTER, 10, SCOUT, seed=seed, trial=trial).draws for seed in range(20) for trial in range(20)
    ]
    assert len(set(orders)) > 40  # of 45 that are possible
    # A trial that ends early ran a fair sample: every place is a scout's equally often.
    share = np.mean(orders, axis=0)
    assert np.abs(share - 0.2).max() < 4 * np.sqrt(0.2 * 0.8 / len(orders))


def test_the_center_comes_first_whatever_comes_first_in_the_order() -> None:
    drawn = Lottery((Ticket(SCOUT), Ticket(CENTER), Ticket(CENTER)))
    assert (drawn.targets, drawn.draws) == ((CENTER, SCOUT), (1, 0, 0))
