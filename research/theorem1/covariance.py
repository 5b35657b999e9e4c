"""The Gaussian process of Theorem 1, exactly: how the returns of a fitted policy vary from dataset to dataset.

Notation:
    psi(x, a)   gradient of -ln p_theta(a | x) + Phi(theta)                                     (C, A, d)
    I           second derivatives of the risk at theta*                                        (d, d)
    V           covariance of psi; by step, as printed, or by episode                           (d, d)
    U(z)        dJ(theta*, z) / dtheta, divided by H²                                           (Z, m, d)
    k           covariance of sqrt(n) / H² (J(theta_n) - J(theta*)), all targets and returns    (Z m, Z m)

Theorem 7 of the paper has k = U I^-1 V I^-1 U^T with V = E[psi psi^T] at a step drawn at random. But the n independent
things of a dataset are its episodes, each with the mean psi of its H steps, so that the limit has the covariance
of that mean:

    V_episode = E[(1/H sum_t psi_t) (1/H sum_t psi_t)^T]   instead of   V_step = 1/H sum_t E[psi_t psi_t^T].

V_episode is never larger (Jensen). Where the class holds beta_z and has no penalty, psi_t has mean 0 given the returns
and all that came before, different steps are uncorrelated, and V_episode = V_step / H: the printed k is H times too
large.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from theorem1.behavior import LoggedEpisodes
from theorem1.rcsl import SoftmaxClass

Sampling = Literal["episode", "step"]


@dataclass(frozen=True, kw_only=True)
class Limit:
    """What fitted policies tend to with ever more episodes, and how they scatter around it."""

    theta: Float[np.ndarray, " d"]
    """theta*."""
    returns: Float[np.ndarray, "Z m"]
    """J(theta*, z)."""
    realizability: float
    """epsilon_P, the risk at theta*."""
    jacobian: Float[np.ndarray, "Z m d"]
    """H² U."""
    information: Float[np.ndarray, "d d"]
    """I."""
    by_step: Float[np.ndarray, "d d"]
    """V as printed."""
    by_episode: Float[np.ndarray, "d d"]
    """V of whole episodes."""
    horizon: int
    """H."""

    @property
    def U(self) -> Float[np.ndarray, "Z m d"]:  # noqa: N802
        """Jacobian of the returns, normalized as in the paper."""
        return np.asarray(self.jacobian / self.horizon**2)

    def covariance(self, sampling: Sampling = "episode") -> Float[np.ndarray, "Zm Zm"]:
        """Return k for all targets and returns, the returns of one target side by side.

        Args:
            sampling: What counts as independent: `episode`, which is right, or `step`, which the paper prints.
        """
        V = self.by_episode if sampling == "episode" else self.by_step
        half = np.linalg.solve(self.information, self.U.reshape(-1, len(self.theta)).T)  # I^-1 U^T
        return np.asarray(half.T @ V @ half)

    def linear(self, gradient: Float[np.ndarray, " d"]) -> Float[np.ndarray, "Z m"]:
        """Return the first-order deviation -H² U I^-1 g of the returns, for the gradient of a dataset at theta*."""
        return np.asarray(-self.jacobian @ np.linalg.solve(self.information, gradient))


def limit(logged: LoggedEpisodes, policies: SoftmaxClass) -> Limit:
    """Return theta* and the exact law of the fitted policies around it.

    Raises:
        ConfigError: If no single theta* has the smallest risk, which the paper's assumption of regularity asks for.
    """
    H = logged.graph.mdp.horizon
    weights = logged.visits / H
    theta = policies.fit(weights, tolerance=1e-12)
    information = policies.hessian(theta, weights)
    policy = policies.policy(theta)
    scores = policies.scores(policy)
    psi = np.where(policies.allowed[:, :, None], policies.penalty * theta - scores, 0.0)
    return Limit(
        theta=theta,
        returns=logged.graph.expected_returns(policy),
        realizability=max(0.0, policies.risk(theta, logged)),
        jacobian=logged.graph.jacobian(policy, scores),
        information=information,
        by_step=np.einsum("ca,cad,cae->de", weights, psi, psi, optimize=True),
        by_episode=_episode_covariance(logged, psi),
        horizon=H,
    )


def _episode_covariance(logged: LoggedEpisodes, psi: Float[np.ndarray, "C A d"]) -> Float[np.ndarray, "d d"]:
    """Return the covariance of the mean of psi over a logged episode, from the last step back.

    E[S S^T] for S = sum_t psi_t is the sum over t of E[psi_t psi_t^T + psi_t B_t^T + B_t psi_t^T], where B_t is what is
    expected of the later psi after step t.
    """
    graph = logged.graph
    expected = np.zeros((len(graph) + 1, psi.shape[2]))  # of psi from a context on
    products = np.zeros((psi.shape[2], psi.shape[2]))
    for layer in reversed(graph.layers):
        later = np.einsum("cao,caod->cad", logged.outcomes[layer], expected[graph.children[layer]])
        expected[layer] = np.einsum("ca,cad->cd", logged.actions[layer], psi[layer] + later)
        visits = logged.visits[layer]
        crossed = np.einsum("ca,cad,cae->de", visits, psi[layer], later, optimize=True)
        products += np.einsum("ca,cad,cae->de", visits, psi[layer], psi[layer], optimize=True) + crossed + crossed.T
    mean = logged.coverage @ expected[graph.starts]
    return np.asarray((products - np.outer(mean, mean)) / graph.mdp.horizon**2)
