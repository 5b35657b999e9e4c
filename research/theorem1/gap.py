"""How far the actual returns of a return-conditioned policy may lie from its target: the bias of Theorem 1.

Notation:
    z           target returns, R in the appendix of the paper                              (m,)
    H           steps of an episode; the reward and the cost of a step lie in [0, 1]        ()
    beta_z      behavior given that the episode returns z (Bayes' rule)
    f(z | x)    density of the returns of the behavior from context x on                    ()
    eta_z       coverage, f(z | s_1)                                                        ()
    C_z         sup over x of f(z | x)                                                      ()
    c_z(delta)  sup over x and |z' - z| <= 2 delta of |f(z' | x) - f(z | x)|                ()
    delta       noise of a step's reward and cost that is not counted as chance             ()
    epsilon     probability that a step departs from its usual result by more than that     ()
    epsilon_P   realizability: smallest regularized risk of the policy class                ()
    theta*      the parameters with that risk

    J(pi_theta, z) - z = [J(beta_z) - z] + [J(theta*, z) - J(beta_z)] + [J(theta, z) - J(theta*, z)]
                           bias of RCSL       bias of the likelihood      chance: `limit`

Where returns lie on a lattice there is no density; every statement here then holds with probabilities in its place
(the proofs use nothing of densities but that they add up), and C_z <= 1.

References: Wachi et al. 2025, *A Provable Approach for End-to-End Safe Reinforcement Learning*, Theorem 1; its
formal version is Theorem 4 in the appendix, with the parts in Theorems 5 to 7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from lifesafe.errors import ConfigError
from lifesafe.lab.theory._checks import check_count, check_positive


@dataclass(frozen=True, kw_only=True)
class Determinism:
    """How nearly an action decides what follows: the constants of Assumption 1.

    Examples:
        >>> Determinism(epsilon_state=0.1).epsilon
        0.1
    """

    epsilon_reward: float = 0.0
    """Bound on the density of reward and cost of a step further than delta from the usual ones."""
    epsilon_state: float = 0.0
    """Largest probability of a next state other than the usual one."""
    delta: float = 0.0
    """Distance up to which reward and cost of a step count as usual."""

    def __post_init__(self) -> None:
        _check_not_negative("epsilon_reward", self.epsilon_reward)
        _check_share("epsilon_state", self.epsilon_state)
        _check_not_negative("delta", self.delta)

    @property
    def epsilon(self) -> float:
        """epsilon_r + epsilon_s."""
        return self.epsilon_reward + self.epsilon_state


@dataclass(frozen=True, kw_only=True)
class Density:
    """What is known of the returns of the behavior at one target: the constants of Assumptions 2 to 4."""

    coverage: float
    """eta_z, above 0."""
    bound: float = 1.0
    """C_z."""
    continuity: float = 0.0
    """c_z(delta)."""

    def __post_init__(self) -> None:
        check_positive("coverage", self.coverage)
        check_positive("bound", self.bound)
        _check_not_negative("continuity", self.continuity)
        if self.bound < self.coverage:
            raise ConfigError(
                f"Got bound = {self.bound!r} below coverage = {self.coverage!r}; C_z is the largest density over all "
                "contexts, the first of which has density eta_z."
            )


@dataclass(frozen=True, kw_only=True)
class Gap:
    """The bias bound epsilon(z) of Theorem 1, by its parts."""

    rcsl: float
    """Bound on |J(beta_z) - z|: the behavior given z does not quite return z."""
    likelihood: float
    """Bound on |J(theta*, z) - J(beta_z)|: the best policy of the class is not quite that behavior."""

    @property
    def total(self) -> float:
        """epsilon(z)."""
        return self.rcsl + self.likelihood


def bias_bound(
    horizon: int,
    density: Density,
    *,
    determinism: Determinism,
    realizability: float = 0.0,
    literal: bool = False,
) -> Gap:
    """Return epsilon(z) of Theorem 4, the formal version of Theorem 1.

    Returns of H-step episodes lie in [0, H], so a total of H or more says nothing.

    Args:
        horizon: H.
        density: Coverage, bound and continuity of the returns at z.
        determinism: How nearly actions decide what follows.
        realizability: epsilon_P, the smallest regularized risk of the class, averaged over returns.
        literal: Take the likelihood part as the paper prints it; see `likelihood_bias`.

    Raises:
        ConfigError: If a value is out of range.

    Examples:
        >>> bias_bound(10, Density(coverage=0.05), determinism=Determinism()).total
        0.0
        >>> gap = bias_bound(10, Density(coverage=0.05), determinism=Determinism(epsilon_state=1e-4))
        >>> round(gap.rcsl, 3), round(gap.likelihood, 3)
        (0.4, 0.9)
    """
    likelihood = (
        likelihood_bias(horizon, realizability)
        if literal
        else likelihood_bias_at(horizon, density, determinism=determinism, realizability=realizability)
    )
    return Gap(rcsl=rcsl_bias(horizon, density, determinism=determinism), likelihood=likelihood)


def rcsl_bias(horizon: int, density: Density, *, determinism: Determinism) -> float:
    """Return (2 max(C_z, 1) (H² epsilon + delta) + H² c_z(delta)) / eta_z, the bound of Theorem 5.

    Raises:
        ConfigError: If a value is out of range.
    """
    check_count("horizon", horizon)
    square = horizon**2
    chance = 2.0 * max(density.bound, 1.0) * (square * determinism.epsilon + determinism.delta)
    return (chance + square * density.continuity) / density.coverage


def likelihood_bias(horizon: int, realizability: float) -> float:
    """Return H² sqrt(epsilon_P / 2), Theorem 6 as printed; it does not hold at single targets.

    Its proof takes the divergence at z for epsilon_P. But epsilon_P is a mean over returns, and a class may serve the
    usual ones well and a rare one badly: `likelihood_bias_at` says what then holds, and `python -m theorem1
    --case rare` shows a class whose bias is several times this value.

    Raises:
        ConfigError: If a value is out of range.
    """
    check_count("horizon", horizon)
    _check_not_negative("realizability", realizability)
    return horizon**2 * math.sqrt(realizability / 2.0)


def likelihood_bias_at(horizon: int, density: Density, *, determinism: Determinism, realizability: float) -> float:
    """Return H² (sqrt(epsilon_P / (2 eta_z)) + (H - 1) (epsilon C_z + c_z(delta)) / (2 eta_z)); Theorem 6, mended.

    For returns on a lattice, where eta_z is a probability. Two steps of the printed proof are replaced. A share eta_z
    of episodes returns z, so the divergence at z is at most epsilon_P / eta_z, not epsilon_P. And the divergence is
    measured on logged episodes that returned z, while the policy acts on the system itself: where that has chance,
    the logged episodes were lucky. Up to step t the two laws of contexts differ in total variation by at most
    (t - 1) (epsilon C_z + c_z(delta)) / eta_z, since E|X - E X| <= 2 (epsilon C_z + c_z(delta)) for the probability
    X = f(z | x') in the next context; and where they differ, a step may cost H.

    Raises:
        ConfigError: If a value is out of range.
    """
    check_count("horizon", horizon)
    _check_not_negative("realizability", realizability)
    divergence = math.sqrt(realizability / (2.0 * density.coverage))
    luck = (determinism.epsilon * density.bound + density.continuity) / (2.0 * density.coverage)
    return horizon**2 * (divergence + (horizon - 1) * luck)


def _check_not_negative(name: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise ConfigError(f"Got {name} = {value!r}; give a finite number that is not negative.")


def _check_share(name: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise ConfigError(f"Got {name} = {value!r}; give a probability from 0 to 1.")
