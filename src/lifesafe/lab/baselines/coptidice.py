"""COptiDICE: offline constrained policy optimization by stationary distribution correction estimation.

Lee et al. 2022, "COptiDICE: offline constrained reinforcement learning via stationary distribution correction
estimation". Instead of critics, it learns by how much the best distribution of states and actions that keeps the
limits weighs each transition, then imitates the logged actions with these weights. Costs are estimated from above, as
the worst within a ball around the data.

NOTE: Where OSRL departs from this, a setting says so, and `COptiDICEConfig.osrl` has them all. The most telling: it
compares the average cost of a step with the limit on a discounted sum, a hundred times as much, so no limit binds.
The authors' code also has a mixture of Gaussians as actor and a faint gradient penalty; OSRL and we have neither.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import softplus

from lifesafe.data import Dataset
from lifesafe.lab.baselines.markov import GaussianPolicy, snapshot
from lifesafe.lab.baselines.networks import Critics, GaussianActor, gaussian_log_density
from lifesafe.lab.baselines.offline import OfflineConfig, OfflineLearner, each
from lifesafe.lab.baselines.transitions import TransitionBatch
from lifesafe.policies.learner import check_settings


@dataclass(frozen=True, kw_only=True)
class COptiDICEConfig(OfflineConfig):
    """COptiDICE: imitation with the weights of the best distribution that keeps the limits (Lee et al. 2022)."""

    as_published: ClassVar[Mapping[str, Any]] = {
        "reward_ends": "episodes",
        "cost_ends": "episodes",
        "finite_limit": True,
        "drawn_starts": False,
        "exact_bound": False,
        "binding": False,
        "fitted": False,
    }

    actor_rate: float = 1e-4
    """Step size of the actor."""
    critic_rate: float = 1e-4
    """Step size of the networks behind weights and cost bounds."""
    scalar_rate: float = 1e-4
    """Step size of multipliers and temperatures."""
    caution: float = 0.5
    """How strongly weights are kept near 1: α of the paper."""
    ball: float = 0.01
    """Divergence from the data within which the worst cost is sought: ε of the paper; 0 for none."""
    critics: int = 2
    """Networks behind weights, and behind cost bounds; the least counts."""
    jitter: float = 0.1
    """Noise on what the actor learns from, in standard deviations of the data."""
    drawn_starts: bool = True
    """Whether first observations are drawn besides the batch; OSRL takes those that are in it, mostly none."""
    exact_bound: bool = True
    """Whether the cost bound is the exact dual of the worst cost; OSRL's follows another gradient."""
    binding: bool = True
    """Whether limits are those of an average step; OSRL compares with a discounted sum."""
    fitted: bool = True
    """Whether the likelihood is that of the action which is taken; OSRL's is one of before it is squashed."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_settings(self, counts=("critics",), positive=("caution",), not_negative=("ball", "jitter"))

    def build(self, dataset: Dataset, *, seed: int, device: str = "cpu", compile: bool = False) -> COptiDICELearner:
        """Return a learner before its first step."""
        return COptiDICELearner(self, dataset, seed=seed, device=device, compile=compile)


def chosen_weight(advantages: Float[Tensor, " m"]) -> Float[Tensor, " m"]:
    """Return the weights whose marginal divergence is as given: the inverse of the derivative of the soft χ²."""
    return torch.where(advantages < 0, advantages.clamp(max=0.0).exp(), advantages + 1)


def soft_chi(weights: Float[Tensor, " m"]) -> Float[Tensor, " m"]:
    """Return the soft χ² of weights: like χ² above 1, like the Kullback-Leibler divergence below."""
    below = weights * (torch.log(weights + 1e-10) - 1) + 1
    return torch.where(weights < 1, below, 0.5 * (weights - 1).square())


class Scalars(nn.Module):
    """Numbers that stay positive."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.raw = nn.Parameter(torch.ones(count))

    def forward(self) -> Float[Tensor, " k"]:
        return softplus(self.raw)


class COptiDICENetworks(nn.Module):
    """All that COptiDICE learns; ν, χ, λ and τ of the paper."""

    limits: Tensor

    def __init__(self, config: COptiDICEConfig, sizes: Mapping[str, int], limits: tuple[float, ...]) -> None:
        super().__init__()
        o, k = sizes["observations"], sizes["costs"]
        self.actor = GaussianActor(o, sizes["actions"], config.width, config.depth)
        self.values = Critics(o, config.width, config.depth, returns=1, critics=config.critics)
        self.cost_values = Critics(o, config.width, config.depth, returns=k, critics=config.critics)
        self.multipliers = Scalars(k)
        self.temperatures = Scalars(k)
        self.register_buffer("limits", torch.tensor(limits))


class COptiDICE(GaussianPolicy):
    """The actor of COptiDICE."""


class COptiDICELearner(OfflineLearner):
    """Learns COptiDICE."""

    name = "coptidice"
    config: COptiDICEConfig
    model: COptiDICENetworks

    def __init__(self, config: COptiDICEConfig, dataset: Dataset, *, seed: int, device: str, compile: bool) -> None:
        super().__init__(config, dataset, seed=seed, device=device, compile=compile)
        rows = self.transitions.rows
        self._starts = rows[torch.from_numpy(dataset.offsets[:-1]).to(self.device), : self.sizes["observations"]]
        pairs = rows[:, : self.sizes["observations"] + self.sizes["actions"]]
        self._jitter = config.jitter * pairs.std(0, correction=0)

    def _build(self, dataset: Dataset) -> COptiDICENetworks:
        limits = self.config.critic_limits(dataset)
        if self.config.binding:
            limits = tuple((1 - self.config.discount) * limit for limit in limits)
        return COptiDICENetworks(self.config, self.sizes, limits)

    def _rates(self) -> dict[str, float]:
        config = self.config
        bounds = {"cost_values": config.critic_rate, "temperatures": config.scalar_rate} if config.ball else {}
        return {
            "values": config.critic_rate,
            "multipliers": config.scalar_rate,
            "actor": config.actor_rate,
            **bounds,
        }

    def _update(self, batch: TransitionBatch, step: int) -> dict[str, Tensor]:
        starts = self.starts(batch)
        multipliers = self.model.multipliers()
        loss, weights = self.value_loss(batch, starts, multipliers.detach())
        costs, divergences = self.bound_costs(batch, starts, weights.detach())
        self._descend("values", loss)
        self._descend("multipliers", multipliers @ (self.model.limits - costs))
        with torch.no_grad():
            _, weights = self.value_loss(batch, starts, multipliers)
        actor_loss = self.actor_loss(batch, weights)
        self._descend("actor", actor_loss)
        return {
            "loss": loss,
            "actor_loss": actor_loss,
            "weight": weights.mean(),
            **each("cost", costs),
            **each("cost_divergence", divergences),
            **each("multiplier", multipliers),
        }

    def starts(self, batch: TransitionBatch) -> tuple[Float[Tensor, "m o"], Float[Tensor, " m"]]:
        """Return observations and their weights, of which the mean is one over first observations."""
        if not self.config.drawn_starts:
            share = len(self._starts) / len(self.transitions)
            return batch.observations, batch.initial / share
        size = (len(batch.observations),)
        chosen = torch.randint(len(self._starts), size, generator=self._generator, device=self.device)
        return self._starts.index_select(0, chosen), torch.ones(size, device=self.device)

    def value_loss(
        self, batch: TransitionBatch, starts: tuple[Tensor, Tensor], multipliers: Float[Tensor, " k"]
    ) -> tuple[Float[Tensor, ""], Float[Tensor, " m"]]:
        """Return the loss of ν, and the weights of the transitions that belong to it."""
        config = self.config
        now, then, first = self._three(self.model.values, batch, starts[0])
        rewards = batch.returns[:, 0] - batch.returns[:, 1:] @ multipliers
        advantages = rewards + config.discount * batch.goes_on[:, 0] * then[0] - now[0]
        weights = chosen_weight(advantages / config.caution)
        gained = weights * advantages - config.caution * soft_chi(weights)
        return (1 - config.discount) * (first[0] * starts[1]).mean() + gained.mean(), weights

    def bound_costs(
        self, batch: TransitionBatch, starts: tuple[Tensor, Tensor], weights: Float[Tensor, " m"]
    ) -> tuple[Float[Tensor, " k"], Float[Tensor, " k"]]:
        """Return the average costs of a step under the weights, estimated from above; tightens the bound.

        Also returns how far from the data the worst case is.
        """
        config, costs = self.config, batch.returns[:, 1:].T
        if not config.ball:
            return (weights * costs).mean(-1), torch.zeros(len(costs), device=self.device)
        now, then, first = self._three(self.model.cost_values, batch, starts[0])
        flow = weights * (costs + config.discount * batch.goes_on[:, 1:].T * then - now)
        terms = (1 - config.discount) * first * starts[1] + flow
        temperatures = self.model.temperatures()
        scaled = terms / temperatures.detach().unsqueeze(1)
        count = terms.shape[1]
        log_shares = torch.log_softmax(scaled, dim=1) + math.log(count)
        shares = log_shares.exp()
        divergences = (shares * log_shares - shares + 1).mean(-1).detach()
        if config.exact_bound:
            bounds = temperatures.detach() * (torch.logsumexp(scaled, dim=1) - math.log(count))
        else:
            bounds = (shares * terms).mean(-1)
        self._descend("cost_values", bounds.sum())
        self._descend("temperatures", temperatures @ (config.ball - divergences))
        return (shares.detach() * weights * costs).mean(-1), divergences

    def actor_loss(self, batch: TransitionBatch, weights: Float[Tensor, " m"]) -> Float[Tensor, ""]:
        """Return the weighted negative log-likelihood of the logged actions, a little shaken."""
        pairs = batch.pairs + self._jitter * self.normal(*batch.pairs.shape)
        observations, actions = pairs[:, : self.sizes["observations"]], pairs[:, self.sizes["observations"] :]
        means, stds = self.model.actor(observations)
        if self.config.fitted:
            means = torch.tanh(means)
        return -(weights * gaussian_log_density(actions, means, stds)).mean()

    def _three(
        self, network: nn.Module, batch: TransitionBatch, starts: Float[Tensor, "m o"]
    ) -> tuple[Float[Tensor, "r m"], Float[Tensor, "r m"], Float[Tensor, "r m"]]:
        """Return the least of the critics at this observation, the next one and the first one, in one go."""
        seen = [batch.observations, batch.next_observations]
        if self.config.drawn_starts:
            seen.append(starts)
        now, then, *first = network(torch.cat(seen)).amin(1).chunk(len(seen), dim=1)
        return now, then, first[0] if first else now

    def policy(self) -> COptiDICE:
        return COptiDICE(self.config, snapshot(self.model.actor), self.sizes)
