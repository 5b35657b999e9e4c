"""Return-conditioned supervised learning with a softmax policy: regularized maximum likelihood, solved to the end.

Notation:
    theta           parameters                                                                  (d,)
    phi(x, a)       features of an action in a context                                          (C, A, d)
    p_theta(a | x)  exp(theta phi(x, a)), divided by its sum over the allowed actions           (C, A)
    w(x, a)         share of context and action among all steps of a dataset, adding up to 1    (C, A)
    lambda          penalty: Phi(theta) = lambda |theta|² / 2                                   ()

The target is part of the context. With the weights of a dataset, the smallest loss

    L(theta) = -sum w(x, a) ln p_theta(a | x) + Phi(theta)

is at the fitted parameters; with the weights of the population, d(x, a) / H, at theta*. L is convex, so Newton's
method finds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from jaxtyping import Bool, Float

from lifesafe.errors import ConfigError
from theorem1.behavior import LoggedEpisodes
from theorem1.contexts import ContextGraph

_MOST_STEPS = 100
_SMALLEST_STEP = 2.0**-30
_FLAT = 1e-8  # smallest eigenvalue, of the sum of all, that counts as more than 0
_ROUNDING = 1e-13  # of a loss: close to the end, steps change it by less


@dataclass(frozen=True, kw_only=True)
class SoftmaxClass:
    """A class of return-conditioned policies, p_theta for all theta, with its penalty."""

    features: Float[np.ndarray, "C A d"]
    """phi."""
    allowed: Bool[np.ndarray, "C A"]
    """Actions that have a probability at all; at least one in every context."""
    penalty: float = 0.0
    """lambda."""

    def __post_init__(self) -> None:
        if self.features.shape[:2] != self.allowed.shape or not np.all(self.allowed.any(axis=1)):
            raise ConfigError(
                f"Got features of shape {self.features.shape} and allowed actions of shape {self.allowed.shape}; give "
                "(C, A, d) and (C, A), with an allowed action in every context."
            )
        if not self.dimension:
            raise ConfigError("Got no features, so nothing is left to fit; give at least one.")
        if not 0.0 <= self.penalty < np.inf:
            raise ConfigError(f"Got penalty = {self.penalty!r}; give a finite number that is not negative.")

    @property
    def dimension(self) -> int:
        """Number of parameters, d."""
        return int(self.features.shape[2])

    def log_probabilities(self, theta: Float[np.ndarray, " d"]) -> Float[np.ndarray, "C A"]:
        """Return ln p_theta, minus infinity for actions that are not allowed."""
        logits = np.where(self.allowed, self.features @ theta, -np.inf)
        logits -= logits.max(axis=1, keepdims=True)
        return np.asarray(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))

    def policy(self, theta: Float[np.ndarray, " d"]) -> Float[np.ndarray, "C A"]:
        """Return p_theta."""
        return np.asarray(np.exp(self.log_probabilities(theta)))

    def scores(self, policy: Float[np.ndarray, "C A"]) -> Float[np.ndarray, "C A d"]:
        """Return the gradients of ln p_theta(a | x): phi(x, a) less its mean; 0 for actions that are not allowed."""
        means = np.einsum("ca,cad->cd", policy, self.features)
        return np.where(self.allowed[:, :, None], self.features - means[:, None], 0.0)

    def loss(self, theta: Float[np.ndarray, " d"], weights: Float[np.ndarray, "C A"]) -> float:
        """Return L(theta)."""
        logs = np.where(weights > 0, self.log_probabilities(theta), 0.0)
        return float(self.penalty * theta @ theta / 2.0 - np.sum(weights * logs))

    def gradient(self, theta: Float[np.ndarray, " d"], weights: Float[np.ndarray, "C A"]) -> Float[np.ndarray, " d"]:
        """Return the gradient of L."""
        surplus = weights - weights.sum(axis=1, keepdims=True) * self.policy(theta)
        return np.asarray(self.penalty * theta - np.einsum("ca,cad->d", surplus, self.features))

    def hessian(self, theta: Float[np.ndarray, " d"], weights: Float[np.ndarray, "C A"]) -> Float[np.ndarray, "d d"]:
        """Return the second derivatives of L, which depend on how often contexts come, not on the actions taken."""
        policy = self.policy(theta)
        root = np.sqrt(weights.sum(axis=1, keepdims=True) * policy)
        X = (root[:, :, None] * self.scores(policy)).reshape(-1, self.dimension)
        return np.asarray(X.T @ X + self.penalty * np.eye(self.dimension))

    def risk(self, theta: Float[np.ndarray, " d"], logged: LoggedEpisodes) -> float:
        """Return the mean divergence of p_theta from beta_z in logged episodes, plus Phi(theta)."""
        weights = logged.visits / logged.graph.mdp.horizon
        taken = weights > 0
        entropy = -float(np.sum(weights[taken] * np.log(logged.actions[taken])))
        return self.loss(theta, weights) - entropy

    def fit(
        self,
        weights: Float[np.ndarray, "C A"],
        start: Float[np.ndarray, " d"] | None = None,
        *,
        tolerance: float = 1e-10,
    ) -> Float[np.ndarray, " d"]:
        """Return the parameters of the smallest loss, by Newton's method with halved steps.

        Args:
            weights: w.
            start: Where to begin; 0 if not given.
            tolerance: Largest part of the gradient that counts as 0.

        Raises:
            ConfigError: If an action was taken that is not allowed, or no finite parameters have the smallest loss.
        """
        if np.any(weights[~self.allowed] > 0):
            raise ConfigError("A dataset has actions that the class of policies does not allow; allow them.")
        rows = weights.sum(axis=1) > 0  # contexts that the dataset lacks add nothing to the loss
        part = SoftmaxClass(features=self.features[rows], allowed=self.allowed[rows], penalty=self.penalty)
        weights = weights[rows]
        theta = np.zeros(self.dimension) if start is None else np.array(start, dtype=np.float64)
        for _ in range(_MOST_STEPS):
            gradient = part.gradient(theta, weights)
            if np.abs(gradient).max() <= tolerance:
                break
            theta = part._step(theta, gradient, weights)
        else:
            part._refuse()
        # Without a penalty a gradient of 0 may be one that fades on the way to infinity, or along a whole line.
        if not self.penalty and is_flat(part.hessian(theta, weights)):
            part._refuse()
        return theta

    def _refuse(self) -> NoReturn:
        raise ConfigError(
            f"The likelihood has no finite maximum, or none that is single (penalty {self.penalty:g}); give a larger "
            "penalty, more episodes or fewer features."
        )

    def _step(
        self, theta: Float[np.ndarray, " d"], gradient: Float[np.ndarray, " d"], weights: Float[np.ndarray, "C A"]
    ) -> Float[np.ndarray, " d"]:
        """Return the parameters after one step of Newton's method, halved until the loss falls."""
        hessian = self.hessian(theta, weights)
        if self.penalty > 0:
            step = np.linalg.solve(hessian, gradient)
        else:  # the loss may be flat in some direction, which least squares do not take
            step = np.linalg.lstsq(hessian, gradient, rcond=None)[0]
        slope = float(gradient @ step)
        enough = self.loss(theta, weights) + _ROUNDING
        size = 1.0
        while size > _SMALLEST_STEP and self.loss(theta - size * step, weights) > enough - 1e-4 * size * slope:
            size /= 2.0
        return np.asarray(theta - size * step)


def is_flat(hessian: Float[np.ndarray, "d d"]) -> bool:
    """Tell whether second derivatives vanish in some direction, rounding aside."""
    return bool(np.linalg.eigvalsh(hessian)[0] <= _FLAT * np.trace(hessian))


def tabular(logged: LoggedEpisodes, *, penalty: float = 0.0, masked: bool = True) -> SoftmaxClass:
    """Return the class with one parameter for every context and action, but one action: the largest there is.

    Actions after which the target cannot be returned any more have probability 0 under beta_z, which no finite theta
    gives. Masked, the class knows these actions and does not allow them, and so holds beta_z itself; else it can only
    come near, and needs a penalty. Where no logged episode comes, the policy is uniform.
    """
    allowed = logged.feasible if masked else np.ones_like(logged.feasible)
    free = allowed & logged.seen[:, None]
    free[np.arange(len(free)), logged.actions.argmax(axis=1)] = False  # what the other actions are compared with
    features = np.zeros((*allowed.shape, int(free.sum())))
    features[(*np.nonzero(free), np.arange(features.shape[2]))] = 1.0
    return SoftmaxClass(features=features, allowed=allowed, penalty=penalty)


def paced(graph: ContextGraph, *, penalty: float) -> SoftmaxClass:
    """Return a small class that is smooth in the target: a logit is linear in the state and in the pace asked for.

    The pace is what is left of the target per step that is left. Such a class does not hold beta_z.
    """
    left = graph.mdp.horizon - graph.times
    pace = graph.remaining / np.array(graph.mdp.units) / left[:, None]
    state = graph.states[:, None] == np.arange(graph.mdp.states)
    return _by_action(graph, np.hstack([state, pace]), penalty)


def blind(graph: ContextGraph, *, penalty: float = 0.0) -> SoftmaxClass:
    """Return the class of policies that do not look at the target, nor at anything else."""
    return _by_action(graph, np.ones((len(graph), 1)), penalty)


def _by_action(graph: ContextGraph, inputs: Float[np.ndarray, "C k"], penalty: float) -> SoftmaxClass:
    """Give every action but the first a logit that is linear in the inputs."""
    actions = graph.mdp.actions
    own = np.eye(actions)[:, 1:]  # (A, A - 1)
    features = np.einsum("ab,ck->cabk", own, inputs).reshape(len(graph), actions, -1)
    return SoftmaxClass(features=features, allowed=np.ones((len(graph), actions), dtype=bool), penalty=penalty)
