"""Small MDPs on a lattice, and all their episodes one by one, to count what the laboratory computes by recursion."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from theorem1 import LatticeMDP

Choose = Callable[[int, int, tuple[int, ...]], np.ndarray]
"""Probability of each action, given time, state and what was earned before."""


class Move(NamedTuple):
    """One step of an episode."""

    time: int
    state: int
    earned: tuple[int, ...]
    """Before the step, in lattice steps."""
    action: int
    outcome: int


class Path(NamedTuple):
    """One episode and its probability."""

    probability: float
    moves: tuple[Move, ...]
    returns: tuple[int, ...]


def random_mdp(seed: int, *, horizon: int = 3, outcomes: int = 2, units: tuple[int, ...] = (2, 1)) -> LatticeMDP:
    """Return an MDP of two states and three actions, drawn by a seed."""
    rng = np.random.default_rng(seed)
    states, actions = 2, 3
    return LatticeMDP(
        horizon=horizon,
        units=units,
        probabilities=rng.dirichlet(np.ones(outcomes), (states, actions)),
        successors=rng.integers(states, size=(states, actions, outcomes)),
        rewards=rng.integers(np.array(units) + 1, size=(states, actions, outcomes, len(units))),
    )


def random_behavior(mdp: LatticeMDP, seed: int) -> np.ndarray:
    """Return probabilities of the actions, by time and state."""
    return np.random.default_rng([seed, 1]).dirichlet(2 * np.ones(mdp.actions), (mdp.horizon, mdp.states))


def paths(mdp: LatticeMDP, choose: Choose) -> list[Path]:
    """Return every episode that has a probability."""
    return list(_continue(mdp, choose, 1.0, (), mdp.start, (0,) * mdp.objectives))


def behaving(behavior: np.ndarray) -> Choose:
    """Return how a policy chooses that knows time and state alone."""
    return lambda time, state, earned: behavior[time, state]


def _continue(
    mdp: LatticeMDP, choose: Choose, probability: float, moves: tuple[Move, ...], state: int, earned: tuple[int, ...]
) -> Iterator[Path]:
    time = len(moves)
    if time == mdp.horizon:
        yield Path(probability, moves, earned)
        return
    for action, chance in enumerate(choose(time, state, earned)):
        for outcome in range(mdp.outcomes):
            here = probability * chance * mdp.probabilities[state, action, outcome]
            if here > 0:
                after = tuple(int(e + r) for e, r in zip(earned, mdp.rewards[state, action, outcome], strict=True))
                move = Move(time, state, earned, action, outcome)
                yield from _continue(
                    mdp, choose, here, (*moves, move), int(mdp.successors[state, action, outcome]), after
                )


class Numbering:
    """The number of a context in a graph, by what it is."""

    def __init__(self, graph):
        keys = zip(graph.times, graph.states, map(tuple, graph.remaining), strict=True)
        self._numbers = {(int(t), int(s), tuple(map(int, left))): n for n, (t, s, left) in enumerate(keys)}

    def of(self, move: Move, target: tuple[int, ...]) -> int:
        return self._numbers[move.time, move.state, tuple(int(z - e) for z, e in zip(target, move.earned, strict=True))]
