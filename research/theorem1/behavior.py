"""The behavior that logged the data: the exact law of its returns, and what it does in episodes that return z.

Notation:
    beta(a | s, t)    the behavior                                                      (H, S, A)
    f_t(z | s)        probability that the behavior earns z from step t on              (H + 1, S, *box)
    beta_z(a | x)     its actions in episodes that return z: Bayes' rule                (C, A)
    d(x, a)           expected visits of a context and action in a logged episode       (C, A)

In episodes that return z, context and action form a Markov chain on the context graph: actions follow beta_z, and
outcomes their own probability times f of the context they lead to. All that a fitted policy depends on is how often
the chain passes each context and action.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from lifesafe.errors import ConfigError
from lifesafe.lab.theory._checks import check_count
from theorem1.contexts import ContextGraph, context_graph
from theorem1.gap import Density
from theorem1.mdp import LatticeMDP


def return_law(mdp: LatticeMDP, behavior: Float[np.ndarray, "H S A"]) -> Float[np.ndarray, "H1 S *box"]:
    """Return f, the joint law of all returns to go, from the last step back.

    Raises:
        ConfigError: If the behavior is not a probability for each step and state.
    """
    shape = (mdp.horizon, mdp.states, mdp.actions)
    if behavior.shape != shape or np.any(behavior < 0) or not np.allclose(behavior.sum(axis=2), 1.0, atol=1e-12):
        raise ConfigError(
            f"Got a behavior of shape {behavior.shape}; give probabilities of the shape {shape} of steps, states and "
            "actions that add up to 1 over the actions."
        )
    law = np.zeros((mdp.horizon + 1, mdp.states, *mdp.box))
    law[mdp.horizon].reshape(mdp.states, -1)[:, 0] = 1.0  # after the last step all that is earned is 0
    for t in reversed(range(mdp.horizon)):
        for s, a, o in np.ndindex(mdp.states, mdp.actions, mdp.outcomes):
            chance = behavior[t, s, a] * mdp.probabilities[s, a, o]
            earned = mdp.rewards[s, a, o]
            # What lies beyond the box has no probability: H steps earn at most H units.
            to = tuple(slice(int(r), None) for r in earned)
            came = tuple(slice(0, size - int(r)) for r, size in zip(earned, mdp.box, strict=True))
            law[t, s][to] += chance * law[t + 1, mdp.successors[s, a, o]][came]
    return law


def _look_up(
    law: Float[np.ndarray, "H1 S *box"],
    times: Int[np.ndarray, "*n"],
    states: Int[np.ndarray, "*n"],
    remaining: Int[np.ndarray, "*n m"],
) -> Float[np.ndarray, "*n"]:
    """Return f_t(remaining | s), 0 outside the box."""
    box = np.array(law.shape[2:])
    inside = np.all((remaining >= 0) & (remaining < box), axis=-1)
    safe = np.where(inside[..., None], remaining, 0)
    return np.where(inside, law[(times, states, *np.moveaxis(safe, -1, 0))], 0.0)


@dataclass(frozen=True, kw_only=True)
class LoggedEpisodes:
    """The law of the logged episodes on the contexts that they can come to."""

    graph: ContextGraph
    law: Float[np.ndarray, "H1 S *box"]
    """f."""
    coverage: Float[np.ndarray, " Z"]
    """eta_z = f_1(z | s_1)."""
    seen: Bool[np.ndarray, " C"]
    """Contexts with f(z | x) > 0."""
    actions: Float[np.ndarray, "C A"]
    """beta_z(a | x); uniform where no logged episode comes, about which Bayes' rule says nothing."""
    outcomes: Float[np.ndarray, "C A O"]
    """Probability of each outcome, given that the episode returns z; 0 where it cannot."""

    @property
    def feasible(self) -> Bool[np.ndarray, "C A"]:
        """Actions after which the target can still be returned; all of them where no logged episode comes."""
        return np.asarray((self.actions > 0) | ~self.seen[:, None])

    @cached_property
    def visits(self) -> Float[np.ndarray, "C A"]:
        """d(x, a), adding up to H."""
        arrivals = np.zeros(len(self.graph) + 1)
        arrivals[self.graph.starts] = self.coverage
        for layer in self.graph.layers:
            passing = (arrivals[layer, None] * self.actions[layer])[:, :, None] * self.outcomes[layer]
            np.add.at(arrivals, self.graph.children[layer], passing)
        return np.asarray(arrivals[:-1, None] * self.actions)

    def draw(self, episodes: int, datasets: int, rng: np.random.Generator) -> Int[np.ndarray, "D C A"]:
        """Return how often each of many datasets has each context and action.

        Every dataset has the same number of independent episodes. Their counts are drawn at once, by splitting them
        down the graph, so the time taken does not depend on the number of episodes.
        """
        check_count("episodes", episodes)
        check_count("datasets", datasets)
        counts = np.zeros((datasets, *self.actions.shape), dtype=np.int64)
        arrivals = np.zeros((datasets, len(self.graph) + 1), dtype=np.int64)
        arrivals[:, self.graph.starts] = rng.multinomial(episodes, self.coverage / self.coverage.sum(), datasets)
        for x in np.flatnonzero(self.seen):
            counts[:, x] = rng.multinomial(arrivals[:, x], self.actions[x])
            for a in np.flatnonzero(self.actions[x]):
                if len(to := np.flatnonzero(self.outcomes[x, a])) == 1:
                    arrivals[:, self.graph.children[x, a, to[0]]] += counts[:, x, a]
                    continue
                split = rng.multinomial(counts[:, x, a], self.outcomes[x, a])
                for o in to:
                    arrivals[:, self.graph.children[x, a, o]] += split[:, o]
        return counts

    def densities(self, delta: float = 0.0) -> list[Density]:
        """Return the constants of Assumptions 2 to 4 at each target, with probabilities for densities.

        Args:
            delta: Noise of a step, in units.
        """
        t, s, past = _histories(self.graph.mdp)
        steps = np.floor(2.0 * delta * np.array(self.graph.mdp.units) + 1e-9).astype(int)
        near = np.stack(np.meshgrid(*(np.arange(-n, n + 1) for n in steps), indexing="ij"), axis=-1)
        found = []
        for target, eta in zip(self.graph.targets, self.coverage, strict=True):
            f = _look_up(self.law, t, s, target - past)
            moves = [
                np.abs(_look_up(self.law, t, s, target + shift - past) - f).max()
                for shift in near.reshape(-1, len(steps))
            ]
            found.append(Density(coverage=float(eta), bound=float(f.max()), continuity=float(max(moves))))
        return found


def log_episodes(mdp: LatticeMDP, behavior: Float[np.ndarray, "H S A"]) -> LoggedEpisodes:
    """Return the law of the episodes that the behavior logs; the targets are all returns that they can have."""
    law = return_law(mdp, behavior)
    targets = np.argwhere(law[0, mdp.start] > 0)
    graph = context_graph(mdp, targets)
    here = _look_up(law, graph.times, graph.states, graph.remaining)
    after = graph.remaining[:, None, None] - mdp.rewards[graph.states]  # (C, A, O, m)
    following = mdp.successors[graph.states]
    times = np.broadcast_to(graph.times[:, None, None] + 1, following.shape)
    paths = graph.outcomes * _look_up(law, times, following, after)  # (C, A, O)
    by_action = paths.sum(axis=2)  # f(z | x, a)
    chosen = behavior[graph.times, graph.states] * by_action
    total = chosen.sum(axis=1)  # equal to f(z | x) but for rounding
    seen = here > 0
    return LoggedEpisodes(
        graph=graph,
        law=law,
        coverage=law[(0, mdp.start, *targets.T)],
        seen=seen,
        actions=np.where(seen[:, None], chosen / np.where(seen, total, 1.0)[:, None], 1.0 / mdp.actions),
        outcomes=paths / np.where(by_action > 0, by_action, 1.0)[:, :, None],
    )


def _histories(mdp: LatticeMDP) -> tuple[Int[np.ndarray, " h"], Int[np.ndarray, " h"], Int[np.ndarray, "h m"]]:
    """Return time, state and what was earned before, of every history that any policy can have."""
    graph = context_graph(mdp, np.zeros((1, mdp.objectives), dtype=np.int64))
    return graph.times, graph.states, -graph.remaining
