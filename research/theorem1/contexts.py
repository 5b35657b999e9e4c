"""What a return-conditioned policy sees, as a finite graph: time, state, and what is left of the target.

The paper lets a policy see the whole history. With a behavior that looks at time and state only, the history before
matters for nothing but what it has earned, so that a context x_t is (t, s_t, z - sum_{h < t} r_h).

Notation:
    C           contexts, ordered by time
    Z           targets z                                                                       (Z, m)
    policy      probability of each action in each context                                      (C, A)
    Q           mean of what is still earned after an action in a context, in units             (C, A, m)
    J           mean returns of a policy asked for each target, in units                        (Z, m)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int

from lifesafe.errors import ConfigError
from theorem1.mdp import LatticeMDP

_MOST_CONTEXTS = 20_000


@dataclass(frozen=True, kw_only=True)
class ContextGraph:
    """All contexts that some policy can come to from the targets, and how they follow each other."""

    mdp: LatticeMDP
    targets: Int[np.ndarray, "Z m"]
    """In lattice steps."""
    starts: Int[np.ndarray, " Z"]
    """The first context of each target."""
    times: Int[np.ndarray, " C"]
    """0, ..., H - 1."""
    states: Int[np.ndarray, " C"]
    remaining: Int[np.ndarray, "C m"]
    """In lattice steps; below 0 when more was earned than asked for."""
    children: Int[np.ndarray, "C A O"]
    """The context after each outcome; C when the episode is over."""

    def __len__(self) -> int:
        return len(self.times)

    @cached_property
    def layers(self) -> list[slice]:
        """The contexts of each step, the first step first."""
        ends = np.searchsorted(self.times, np.arange(self.mdp.horizon + 1))
        return [slice(int(low), int(high)) for low, high in pairwise(ends)]

    @property
    def asked(self) -> Float[np.ndarray, "Z m"]:
        """The targets in units."""
        return np.asarray(self.targets / np.array(self.mdp.units))

    @cached_property
    def outcomes(self) -> Float[np.ndarray, "C A O"]:
        """Probability of each outcome."""
        return np.asarray(self.mdp.probabilities[self.states])

    @cached_property
    def earned(self) -> Float[np.ndarray, "C A m"]:
        """Mean rewards of each action, in units."""
        rewards = self.mdp.rewards[self.states] / np.array(self.mdp.units)
        return np.asarray(np.einsum("cao,caom->cam", self.outcomes, rewards))

    def action_values(self, policy: Float[np.ndarray, "C A"]) -> Float[np.ndarray, "C A m"]:
        """Return Q, by dynamic programming from the last step back."""
        Q = self.earned.copy()
        values = np.zeros((len(self) + 1, self.mdp.objectives))
        for layer in reversed(self.layers):
            Q[layer] += np.einsum("cao,caom->cam", self.outcomes[layer], values[self.children[layer]])
            values[layer] = np.einsum("ca,cam->cm", policy[layer], Q[layer])
        return Q

    def expected_returns(self, policy: Float[np.ndarray, "C A"]) -> Float[np.ndarray, "Z m"]:
        """Return J, exactly."""
        Q = self.action_values(policy)
        return np.asarray(np.einsum("za,zam->zm", policy[self.starts], Q[self.starts]))

    def jacobian(
        self, policy: Float[np.ndarray, "C A"], scores: Float[np.ndarray, "C A d"]
    ) -> Float[np.ndarray, "Z m d"]:
        """Return dJ / dtheta, exactly: the policy gradient theorem (Corollary 3), summed from the last step back.

        Args:
            policy: The policy.
            scores: Gradient of the logarithm of each of its probabilities.
        """
        Q = self.action_values(policy)
        slopes = np.zeros((len(self) + 1, self.mdp.objectives, scores.shape[2]))
        for layer in reversed(self.layers):
            here = np.einsum("ca,cam,cad->cmd", policy[layer], Q[layer], scores[layer], optimize=True)
            chances = policy[layer][:, :, None] * self.outcomes[layer]
            later = np.einsum("cao,caomd->cmd", chances, slopes[self.children[layer]], optimize=True)
            slopes[layer] = here + later
        return np.asarray(slopes[self.starts])


def context_graph(mdp: LatticeMDP, targets: Int[np.ndarray, "Z m"]) -> ContextGraph:
    """Return the graph of all contexts that can follow from the targets.

    Raises:
        ConfigError: If there is no target, or there are too many contexts.
    """
    if not len(targets):
        raise ConfigError("Got no targets; give at least one.")
    layers: list[dict[tuple[int, ...], int]] = [{}]  # of each step: context to its number
    for target in targets:
        layers[0].setdefault((mdp.start, *map(int, target)), len(layers[0]))
    first, children = len(layers[0]), []
    for _ in range(mdp.horizon):
        following: dict[tuple[int, ...], int] = {}
        for state, *left in layers[-1]:
            for action, outcome in np.ndindex(mdp.actions, mdp.outcomes):
                earned = mdp.rewards[state, action, outcome]
                rest = (int(x - r) for x, r in zip(left, earned, strict=True))
                key = (int(mdp.successors[state, action, outcome]), *rest)
                children.append(following.setdefault(key, first + len(following)))
        first += len(following)
        if first > _MOST_CONTEXTS:
            raise ConfigError(
                f"There are more than {_MOST_CONTEXTS:,} contexts; give a shorter horizon, a coarser lattice or fewer "
                "targets."
            )
        layers.append(following)
    keys = np.array([key for layer in layers[:-1] for key in layer])
    total = len(keys)
    return ContextGraph(
        mdp=mdp,
        targets=np.asarray(targets),
        starts=np.array([layers[0][(mdp.start, *map(int, target))] for target in targets]),
        times=np.repeat(np.arange(mdp.horizon), [len(layer) for layer in layers[:-1]]),
        states=keys[:, 0],
        remaining=keys[:, 1:],
        children=np.minimum(children, total).reshape(total, mdp.actions, mdp.outcomes),
    )
