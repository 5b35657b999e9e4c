from dataclasses import replace

import numpy as np
import pytest

from lifesafe.errors import ConfigError
from small_mdp import random_mdp
from theorem1.cases import machine, noisy_machine

MDP = random_mdp(0)


def test_a_machine_without_chance_is_deterministic():
    found = machine(3).determinism()
    assert (found.epsilon, found.delta) == (0.0, 0.0)


def test_slipping_is_a_chance_of_the_next_state():
    found = machine(3, slip=0.1).determinism()
    assert found.epsilon_state == pytest.approx(0.1)
    assert found.epsilon_reward == 0.0


def test_noise_is_chance_until_it_is_tolerated():
    mdp = noisy_machine(2)
    assert mdp.determinism().epsilon_reward == pytest.approx(0.5)
    assert mdp.determinism(1 / 6).epsilon_reward == pytest.approx(0.0)
    assert mdp.determinism(1 / 6).epsilon_state == 0.0


def test_returns_lie_in_the_box():
    assert machine(3).box == (7, 7)
    assert noisy_machine(2).box == (13, 5)


@pytest.mark.wrong_shapes
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"horizon": 0}, "Got horizon = 0"),
        ({"units": (2, 0)}, "Got units = 0"),
        ({"units": (2,)}, "for 1 objectives"),
        ({"probabilities": 0.9 * MDP.probabilities}, "add up to 1"),
        ({"successors": MDP.successors + 1}, "Got a state outside 0, ..., 1"),
        ({"start": 2}, "Got a state outside"),
        ({"rewards": MDP.rewards + 1}, "each objective earns between 0 and one unit"),
        ({"rewards": MDP.rewards[..., :1]}, "give"),
    ],
)
def test_an_impossible_mdp_is_refused(change, message):
    with pytest.raises(ConfigError, match=message):
        replace(MDP, **change)


def test_probabilities_of_outcomes_are_kept():
    np.testing.assert_allclose(MDP.probabilities.sum(axis=2), 1.0)
