"""Trials and episodes that a guarantee costs.

Notation:
    N_dagger   trials after which exploration has found all that is reachable with margin zeta     ()
    N_sharp    trials after which the best tried target is within epsilon of the best reachable    ()
    zeta       width of a cost band at which exploration stops, in units of the cost               ()
    epsilon    accuracy of the reward, curly E in the paper, in units of the reward                ()
    nu²        noise variance of the mean of one trial                                             ()
    sigma_f²   prior variance                                                                      ()
    xi_N       bound on the information gain of N trials                                           ()
    alpha_j    multiplier of trial j                                                               ()
    varpi      episodes of one trial                                                               ()
    kappa      share of the unspent risk that one first visit may spend                            ()

References: Wachi et al. 2025, *A Provable Approach for End-to-End Safe Reinforcement Learning*, Theorem 3 and
its proof; Sui et al. 2015, *Safe Exploration for Optimization with Gaussian Processes*, Theorem 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from lifesafe.console.tables import Table
from lifesafe.errors import ConfigError
from lifesafe.lab.theory._checks import check_candidates, check_count, check_positive
from lifesafe.lab.theory.bounds import GainBound, paper_multiplier
from lifesafe.lab.theory.kernels import Kernel

_MOST_TRIALS = 10**15
_SCANNED = 512


def gain_constant(noise_variance: float, variance: float = 1.0) -> float:
    """Return C_nu = sigma_f² / log(1 + sigma_f² / nu²): variance per nat of information, at most.

    s / log(1 + s / nu²) grows with s, so that every posterior variance s <= sigma_f² is at most
    C_nu log(1 + s / nu²) (Lemma 5.4 of Srinivas et al. 2012).

    Raises:
        ConfigError: If a variance is not positive.
    """
    # NOTE: Theorem 3 has 1 / log(1 + nu^-2), which is this at sigma_f = 1 and wrong for the prior variances
    # up to 100 of the paper's experiments.
    check_positive("noise variance", noise_variance)
    check_positive("variance", variance)
    return variance / math.log1p(variance / noise_variance)


def maximization_trials(
    accuracy: float,
    gain: Callable[[int], float],
    *,
    candidates: int,
    delta: float,
    constant: float,
    events: int = 1,
    before: int = 0,
) -> int:
    """Return N_sharp, the trials of maximization that Theorem 3 of Wachi et al. 2025 asks for.

    The smallest N with 4 sqrt(C_nu xi_N log(|Z| N² pi² / (6 delta)) / N) <= epsilon.

    Args:
        accuracy: epsilon.
        gain: xi, the information gain of N trials or a bound on it, such as a GainBound.
        candidates: |Z|.
        delta: Failure probability.
        constant: C_nu, from gain_constant.
        events: Returns whose bands must hold together, each with delta / events.
        before: Trials made before, in exploration; the multiplier of trial N is alpha at before + N.

    Raises:
        ConfigError: If a value is out of range or more than 10^15 trials are needed.
    """
    check_positive("accuracy", accuracy)
    check_positive("constant", constant)
    if before < 0:
        raise ConfigError(f"Got before = {before!r}; give a whole number of at least 0.")

    def holds(N: int) -> bool:
        alpha = paper_multiplier(candidates, before + N, delta, events=events)
        # alpha² = 2 log(...), so that 16 C xi log(...) / N = 8 C xi alpha² / N.
        return 8.0 * constant * gain(N) * alpha**2 <= N * accuracy**2

    return _smallest(holds, f"accuracy = {accuracy!r}")


def exploration_trials(
    tolerance: float,
    gain: Callable[[int], float],
    *,
    candidates: int,
    delta: float,
    constant: float,
    events: int = 1,
) -> int:
    """Return N_dagger, the trials of exploration in the proof of Theorem 3 of Wachi et al. 2025.

    The smallest N with N / (alpha_N² xi_N) >= C_dagger (|Z| + 1) / zeta²: every candidate may be reachable.

    Args:
        tolerance: zeta.
        gain: xi, the information gain of N trials or a bound on it; of all costs together.
        candidates: |Z|.
        delta: Failure probability.
        constant: C_dagger. The paper calls it a positive constant and says no more; Theorem 1 of Sui et al.
            2015 has 8 / log(1 + nu^-2), that is 8 gain_constant(nu²).
        events: Returns whose bands must hold together, each with delta / events.

    Raises:
        ConfigError: If a value is out of range or more than 10^15 trials are needed.
    """
    check_positive("tolerance", tolerance)
    check_positive("constant", constant)

    def holds(N: int) -> bool:
        alpha = paper_multiplier(candidates, N, delta, events=events)
        return N * tolerance**2 >= constant * (candidates + 1) * alpha**2 * gain(N)

    return _smallest(holds, f"tolerance = {tolerance!r}")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What Theorem 3 asks for: an upper bound on the trials, usually far above what is needed."""

    candidates: int
    """|Z|."""
    delta: float
    """Failure probability."""
    events: int
    """Returns that share delta."""
    tolerance: float
    """zeta, in units of the cost."""
    accuracy: float
    """epsilon, in units of the reward."""
    episodes_per_trial: int
    """varpi."""
    exploration: int
    """N_dagger, in trials."""
    exploration_gain: float
    """Bound on the information gain of the costs at N_dagger, in nats."""
    exploration_multiplier: float
    """alpha at the last trial of exploration."""
    maximization: int
    """N_sharp, in trials."""
    maximization_gain: float
    """Bound on the information gain of the reward at N_sharp, in nats."""
    maximization_multiplier: float
    """alpha at the last trial of maximization."""
    literal: bool
    """Whether the formulas are the paper's as printed."""

    @property
    def trials(self) -> int:
        """Trials of both stages."""
        return self.exploration + self.maximization

    @property
    def episodes(self) -> int:
        """Episodes of both stages: varpi (N_dagger + N_sharp)."""
        return self.episodes_per_trial * self.trials

    def rows(self) -> list[tuple[str, str, str]]:
        """Return (quantity, symbol, value) for a table."""
        return [
            ("candidates", "|Z|", f"{self.candidates:,}"),
            ("failure probability", "delta", f"{self.delta:g}, shared by {self.events}"),
            ("cost band width", "zeta", f"{self.tolerance:g}"),
            ("reward accuracy", "epsilon", f"{self.accuracy:g}"),
            ("exploration trials", "N_dagger", f"{self.exploration:,}"),
            ("  multiplier at the end", "alpha", f"{self.exploration_multiplier:.2f}"),
            ("  information gain, at most", "xi", f"{self.exploration_gain:.1f} nats"),
            ("maximization trials", "N_sharp", f"{self.maximization:,}"),
            ("  multiplier at the end", "alpha", f"{self.maximization_multiplier:.2f}"),
            ("  information gain, at most", "xi", f"{self.maximization_gain:.1f} nats"),
            ("trials", "N_dagger + N_sharp", f"{self.trials:,}"),
            ("episodes", f"{self.episodes_per_trial} a trial", f"{self.episodes:,}"),
        ]

    def __str__(self) -> str:
        title = "Budget of Theorem 3, " + ("as printed" if self.literal else "corrected constants")
        first, *rows = self.rows()
        return f"{title}\n{Table(first, rows).text()}"


def trial_budget(
    Z: Float[np.ndarray, "n d"],
    *,
    accuracy: float,
    tolerance: float,
    reward_sd: float,
    reward_noise_sd: float,
    cost_sd: float,
    cost_noise_sd: float,
    delta: float = 0.1,
    costs: int = 1,
    kernel: Kernel = "matern52",
    episodes_per_trial: int = 20,
    literal: bool = False,
) -> Budget:
    """Return the trials and episodes after which Theorem 3 promises a near-optimal safe target.

    Args:
        Z: Candidates, each axis divided by its length-scale.
        accuracy: epsilon, in units of the reward.
        tolerance: zeta, in units of the cost.
        reward_sd: Prior deviation of the reward, sigma_f.
        reward_noise_sd: Deviation of the mean reward of one trial, nu.
        cost_sd: Prior deviation of each cost.
        cost_noise_sd: Deviation of the mean cost of one trial.
        delta: Failure probability of the whole promise.
        costs: Number of costs; their gains add up and delta is shared by the costs and the reward.
        kernel: Kernel of all returns.
        episodes_per_trial: varpi.
        literal: Use the formulas as printed: C_nu for prior variance 1, the whole delta for each return, and
            trials counted from 1 again in maximization. Not a guarantee; for comparison.

    Raises:
        ConfigError: If a value is out of range or more than 10^15 trials are needed.
    """
    Z = check_candidates(Z)
    check_count("costs", costs)
    check_count("episodes_per_trial", episodes_per_trial)
    deviations = {
        "reward_sd": reward_sd,
        "reward_noise_sd": reward_noise_sd,
        "cost_sd": cost_sd,
        "cost_noise_sd": cost_noise_sd,
    }
    for name, value in deviations.items():
        check_positive(name, value)
    cost_gain_each = GainBound.on(kernel, Z, cost_noise_sd**2, variance=cost_sd**2)
    reward_gain = GainBound.on(kernel, Z, reward_noise_sd**2, variance=reward_sd**2)

    def cost_gain(N: int) -> float:
        return costs * cost_gain_each(N)

    # NOTE: The corrections: C_nu of the prior variance in use (Srinivas' lemma is for variance 1), delta
    # shared by all bands that must hold together, one count of trials over both stages.
    events = 1 if literal else costs + 1
    exploration = exploration_trials(
        tolerance,
        cost_gain,
        candidates=len(Z),
        delta=delta,
        constant=8.0 * gain_constant(cost_noise_sd**2, 1.0 if literal else cost_sd**2),
        events=events,
    )
    before = 0 if literal else exploration
    maximization = maximization_trials(
        accuracy,
        reward_gain,
        candidates=len(Z),
        delta=delta,
        constant=gain_constant(reward_noise_sd**2, 1.0 if literal else reward_sd**2),
        events=events,
        before=before,
    )
    return Budget(
        candidates=len(Z),
        delta=delta,
        events=events,
        tolerance=tolerance,
        accuracy=accuracy,
        episodes_per_trial=episodes_per_trial,
        exploration=exploration,
        exploration_gain=cost_gain(exploration),
        exploration_multiplier=paper_multiplier(len(Z), exploration, delta, events=events),
        maximization=maximization,
        maximization_gain=reward_gain(maximization),
        maximization_multiplier=paper_multiplier(len(Z), before + maximization, delta, events=events),
        literal=literal,
    )


def _smallest(holds: Callable[[int], bool], setting: str) -> int:
    """Return the smallest N that holds: every small N is tried, beyond that by doubling and halving.

    Halving relies on what holds at N holding later too; at small N, where the information gain is still
    linear and the logarithm grows, it need not.
    """
    for N in range(1, _SCANNED + 1):
        if holds(N):
            return N
    low, high = _SCANNED, 2 * _SCANNED
    while not holds(high):
        low, high = high, 2 * high
        if high > _MOST_TRIALS:
            raise ConfigError(
                f"Got {setting}, which needs more than {_MOST_TRIALS:.0e} trials; give a larger value or less noise."
            )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
