"""Posterior beliefs about the reward and every cost, from the raw returns of episodes.

Notation:
    y       a return as it is modeled: rewards as a fraction of their axis, costs on the scale of their prior
    w_k     weight of the k-th process of a mixture: prior weight times marginal likelihood
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from lifesafe.optimizer.gp import GridGP
from lifesafe.optimizer.noise import Dispersion, score_sd, shrunk_variance
from lifesafe.optimizer.priors import Prior, scale_slope, to_scale
from lifesafe.optimizer.problem import Problem
from lifesafe.theory.normal import probability_below

_MeanAndFactor = tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n s"] | None]

_REWARD_NOISE = 0.1  # prior spread of episode rewards, as a fraction of the reward axis
_REWARD_FLOOR = 1e-6  # smallest variance of a trial's mean reward, as a fraction of the squared axis
_DRIFT = 0.05  # relative change of the pooled dispersion after which all noises are computed anew


@dataclass(frozen=True, eq=False)
class Observation:
    """What the episodes of one trial returned."""

    index: int
    """Row of the candidate that was tried."""
    episodes: Float[np.ndarray, "m r"]
    """One row per episode: the reward, then every cost, raw units."""


class CostModel:
    """Mixture of Gaussian processes for one cost, on the scale of its prior."""

    def __init__(self, problem: Problem, prior: Prior, cost: int) -> None:
        self._prior, self._unit = prior, problem.reference[cost]
        lengths = prior.lengths(problem.candidates.shape[1])
        mean, factor = _prior_of_cost(problem, prior, cost)
        self._gps = [
            GridGP(problem.scaled, prior.kernel, tuple(f * length for length in lengths), g * prior.sd, mean, factor)
            for f, g, _ in prior.components
        ]

    @property
    def weights(self) -> Float[np.ndarray, " k"]:
        """Posterior weight of every process."""
        log = np.array([gp.log_likelihood for gp in self._gps])
        weights = np.array([w for _, _, w in self._prior.components]) * np.exp(log - log.max())
        return np.asarray(weights / weights.sum())

    @property
    def processes(self) -> tuple[GridGP, ...]:
        """The processes that are averaged."""
        return tuple(self._gps)

    def modeled(self, mean_cost: float, noise_sd: float) -> tuple[float, float]:
        """Return the mean cost of a trial (raw units) on the scale of the prior, and its noise variance."""
        y = float(to_scale(self._prior.scale, np.asarray(mean_cost), self._unit))
        noise = noise_sd * scale_slope(self._prior.scale, mean_cost, self._unit)
        return y, noise * noise

    def append(self, index: int, mean_cost: float, noise_sd: float) -> float:
        """Add the mean cost of a trial (raw units) and return its innovation, averaged over the mixture."""
        y, variance = self.modeled(mean_cost, noise_sd)
        weights = self.weights
        return float(weights @ [gp.append(index, y, variance) for gp in self._gps])

    def moments(self) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Return the posterior mean and standard deviation at every candidate."""
        if len(self._gps) == 1:
            return self._gps[0].mean, np.sqrt(self._gps[0].var)
        pairs = list(zip(self.weights, self._gps, strict=True))
        mean = sum(w * gp.mean for w, gp in pairs)
        square = sum(w * (gp.var + gp.mean**2) for w, gp in pairs)
        return mean, np.sqrt(np.maximum(square - mean**2, 0.0))

    def tail(self, limit: float) -> Float[np.ndarray, " n"]:
        """Return the probability that the cost exceeds the limit (on the modeled scale) at every candidate."""
        total = np.zeros_like(self._gps[0].mean)
        for w, gp in zip(self.weights, self._gps, strict=True):
            total += w * probability_below((gp.mean - limit) / np.sqrt(gp.var))
        return total

    def tail_after(
        self, limit: float, tried: Int[np.ndarray, " a"], judged: Int[np.ndarray, " b"], optimism: float
    ) -> Float[np.ndarray, "a b"]:
        """Return the tails at some candidates if another one turned out so many deviations below its mean.

        Closed form of adding one exact observation: for c tried and f judged, with covariance k(c, f),
        mean_f - optimism k / sd_c and var_f - k^2 / var_c.
        """
        total = np.zeros((len(tried), len(judged)))
        for w, gp in zip(self.weights, self._gps, strict=True):
            gain = gp.covariance(tried, judged)
            gain /= np.sqrt(gp.var[tried])[:, None]
            var = np.maximum(gp.var[judged] - gain**2, 1e-12 * gp.var[judged])
            total += w * probability_below((gp.mean[judged] - optimism * gain - limit) / np.sqrt(var))
        return total

    def copy(self) -> CostModel:
        """Return a model that can be changed without changing this one."""
        twin = copy.copy(self)
        twin._gps = [gp.copy() for gp in self._gps]
        return twin

    def hallucinate(self, index: int, noise_sd: float) -> None:
        """Add a pretended trial that comes out as predicted: it narrows the bands and moves no mean."""
        for gp in self._gps:
            gp.append(index, float(gp.mean[index]), noise_sd**2)


class Posterior:
    """Beliefs about all returns at every candidate, given the observations so far."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.observations: list[Observation] = []
        self.dispersions = list(problem.dispersions)
        pairs = zip(problem.reference, problem.dispersions, strict=True)
        self._pooled = [Dispersion(unit, prior) for unit, prior in pairs]
        prior, Z = problem.priors.reward, problem.candidates
        self._low, self._extent = float(Z[:, 0].min()), problem.extents[0]
        mean, factor = self._prior_of_reward(prior)
        self.reward = GridGP(problem.scaled, prior.kernel, prior.lengths(Z.shape[1]), prior.sd, mean, factor)
        self.costs = [CostModel(problem, problem.priors.cost, k) for k in range(len(problem.limits))]

    def observe(self, observation: Observation) -> tuple[float, ...]:
        """Add the episodes of a trial and return the standardized innovation of every cost."""
        self.observations.append(observation)
        self.reward.append(observation.index, *self._modeled_reward(observation))
        return tuple(self._observe_cost(k) for k in range(len(self.costs)))

    def modeled(self) -> tuple[Float[np.ndarray, "r n"], Float[np.ndarray, "r n"]]:
        """Return the observations as they are modeled and their noise variances, one row per return."""
        rows = [[self._modeled_reward(o) for o in self.observations]]
        for k, model in enumerate(self.costs):
            costs = [o.episodes[:, 1 + k] for o in self.observations]
            rows.append([model.modeled(float(x.mean()), self.noise_sd(k, x)) for x in costs])
        pairs = np.array(rows).reshape(len(rows), -1, 2)
        return pairs[:, :, 0], pairs[:, :, 1]

    def own_episodes(self, index: int) -> Float[np.ndarray, "m r"]:
        """Return all episodes at one candidate."""
        own = [o.episodes for o in self.observations if o.index == index]
        return np.concatenate(own) if own else np.empty((0, 1 + len(self.costs)))

    def noise_sd(self, cost: int, costs: Float[np.ndarray, " m"]) -> float:
        """Return how well the mean of some episode costs is known."""
        return score_sd(float(costs.mean()), len(costs), self.dispersions[cost])

    def copy(self) -> Posterior:
        """Return a posterior that can be changed without changing this one."""
        twin = copy.copy(self)
        twin.observations, twin.dispersions = list(self.observations), list(self.dispersions)
        twin._pooled = [copy.copy(pooled) for pooled in self._pooled]
        twin.reward, twin.costs = self.reward.copy(), [model.copy() for model in self.costs]
        return twin

    def pretend(self, index: int, episodes: int) -> None:
        """Add a pretended trial that comes out as predicted."""
        self.reward.append(index, float(self.reward.mean[index]), _REWARD_NOISE**2 / episodes)
        for k, model in enumerate(self.costs):
            unit = self._problem.reference[k]
            noise = score_sd(unit / 2, episodes, self.dispersions[k])
            model.hallucinate(index, noise * scale_slope(self._problem.priors.cost.scale, unit / 2, unit))

    def _prior_of_reward(self, prior: Prior) -> _MeanAndFactor:
        simulated = self._problem.simulated
        if prior.mean != "simulated" or simulated is None:
            return self._problem.scaled[0], None
        return simulated.modeled(0, lambda reward: (reward - self._low) / self._extent)

    def _modeled_reward(self, observation: Observation) -> tuple[float, float]:
        rewards = (observation.episodes[:, 0] - self._low) / self._extent
        return float(rewards.mean()), max(shrunk_variance(rewards, _REWARD_NOISE), _REWARD_FLOOR)

    def _observe_cost(self, k: int) -> float:
        self._pooled[k].add(self.observations[-1].episodes[:, 1 + k])
        phi = self._pooled[k].phi
        if abs(phi / self.dispersions[k] - 1) <= _DRIFT:
            return self._append(k, self.observations[-1])
        # All noises depend on the pooled dispersion: start again from the prior.
        self.dispersions[k] = phi
        self.costs[k] = CostModel(self._problem, self._problem.priors.cost, k)
        return [self._append(k, observation) for observation in self.observations][-1]

    def _append(self, k: int, observation: Observation) -> float:
        costs = observation.episodes[:, 1 + k]
        return self.costs[k].append(observation.index, float(costs.mean()), self.noise_sd(k, costs))


def _prior_of_cost(problem: Problem, prior: Prior, cost: int) -> _MeanAndFactor:
    unit = problem.reference[cost]
    if prior.mean == "simulated" and problem.simulated is not None:
        return problem.simulated.modeled(1 + cost, lambda raw: to_scale(prior.scale, raw, unit))
    target = to_scale(prior.scale, problem.candidates[:, 1 + cost], unit)
    if prior.mean == "target":
        return target, None
    return (np.maximum(target, 1.0) if prior.mean == "larger" else np.ones_like(target)), None
