"""Proximal policy optimization (Schulman et al. 2017) of the Lagrangian, for all limits at once.

Every step has its own multipliers lambda, those of the limit its episode runs under, and the advantage
A = (A_reward - sum_k lambda_k A_cost_k) / (1 + sum_k lambda_k).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lifesafe.lab.collection.advantages import advantages
from lifesafe.lab.collection.config import CollectionConfig
from lifesafe.lab.collection.multipliers import Multipliers
from lifesafe.lab.collection.networks import BehaviorNetwork, Scale, ValueNetworks, log_density
from lifesafe.lab.collection.sampler import Finished, Segment
from lifesafe.systems.task import Task


@dataclass(frozen=True, eq=False)
class PPOBatch:
    """Transitions to learn from, as tensors.

    Attributes:
        inputs: Normalized observation, position of the limit and time.
        actions: What was chosen.
        densities: Logarithm of the density with which it was chosen.
        advantages: How much better it was than expected, reward and costs weighed.
        targets: Scaled returns that the critics should have expected.
    """

    inputs: Float[Tensor, "n i"]
    actions: Float[Tensor, "n a"]
    densities: Float[Tensor, " n"]
    advantages: Float[Tensor, " n"]
    targets: Float[Tensor, "n r"]

    def __getitem__(self, rows: Tensor) -> PPOBatch:
        return PPOBatch(**{name: value[rows] for name, value in vars(self).items()})


class Learner:
    """The behavior, its critics and multipliers, and how a segment improves them."""

    def __init__(self, task: Task, config: CollectionConfig, seed: int) -> None:
        torch.manual_seed(seed)
        costs = len(task.limits)
        self.config = config
        inputs = task.observations + config.knots
        self.behavior = BehaviorNetwork(inputs, task.actions, config.width, config.noise, config.least_noise)
        self.critics = ValueNetworks(inputs, costs, config.width)
        self.parameters = [*self.behavior.parameters(), *self.critics.parameters()]
        self.optimizer = torch.optim.Adam(self.parameters, eps=1e-5, fused=True)
        self.multipliers = Multipliers(
            self._limits(costs, 0.0),
            rate=config.multiplier_rate,
            damping=config.damping,
            least=config.least_multiplier,
        )
        self.horizon, self.largest_costs = task.horizon, np.array(task.largest_costs)
        self.observations = Scale(task.observations)
        self.gains = Scale(1 + costs)
        self.discounts = np.array([config.discount] + [config.cost_discount] * costs)

    def _limits(self, costs: int, progress: float) -> Float[np.ndarray, "knots k"]:
        return np.tile(sweep(self.config, np.linspace(0, 1, self.config.knots), progress)[:, None], costs)

    @property
    def deviation(self) -> Float[np.ndarray, " a"]:
        """Standard deviation of the noise on each action."""
        with torch.no_grad():
            return torch.maximum(self.behavior.log_deviation, self.behavior.least).exp().double().numpy()

    def act(
        self, observations: Float[np.ndarray, "n o"], positions: Float[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n a"]:
        """Return the means of the actions."""
        inputs = np.hstack([self.observations(observations), self.multipliers.features(positions)])
        with torch.no_grad():
            means: np.ndarray = self.behavior.mean(_tensor(inputs)).double().numpy()
        return means

    def update(
        self, segment: Segment, finished: list[Finished], progress: float, shuffle: np.random.Generator
    ) -> dict[str, float]:
        """Improve on what happened, and return what to log."""
        self.multipliers.limits = self._limits(len(self.largest_costs), progress)
        noisy = [one for one in finished if one.noise == 1.0]
        if noisy:
            costs = np.array([one.episode.returns.costs for one in noisy])
            self.multipliers.update(np.array([one.position for one in noisy]), costs)
        batch = self.prepare(segment)
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.learning_rate * (1 - 0.9 * progress)
        divergence, epochs = 0.0, 0
        while epochs < self.config.epochs and divergence <= self.config.divergence:
            order = torch.from_numpy(shuffle.permutation(len(batch.actions)))
            steps = [self._descend(batch[chosen]) for chosen in torch.split(order, self.config.minibatch)]
            divergence = float(torch.stack([moved for _, moved in steps]).mean())
            epochs += 1
        metrics = {name: float(loss.detach()) for name, loss in steps[-1][0].items()}
        return {**metrics, "divergence": divergence, "epochs": float(epochs)}

    def _descend(self, batch: PPOBatch) -> tuple[dict[str, Tensor], Tensor]:
        losses, moved = self.losses(batch)
        self.optimizer.zero_grad()
        torch.stack(list(losses.values())).sum().backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        return losses, moved

    def prepare(self, segment: Segment) -> PPOBatch:
        """Return a segment as a batch, and let the scales learn from it."""
        steps, rows = segment.ends.shape
        normal = self.observations(segment.observations)
        features = self.multipliers.features(segment.positions)
        inputs = np.concatenate([normal, features, 2 * segment.times[..., None] - 1], axis=-1)
        inputs_tensor = _tensor(inputs.reshape(-1, inputs.shape[-1]))
        with torch.no_grad():
            values = self.critics(inputs_tensor).double().numpy().reshape(steps + 1, rows, -1)
            used = inputs_tensor[: steps * rows]
            actions = _tensor(segment.actions.reshape(steps * rows, -1))
            means, log_deviation = self.behavior(used[:, :-1])
            densities = log_density(actions, means, log_deviation)
        gains = segment.gains.copy()
        gains[..., 1:] += self.forfeits(segment)
        raw = advantages(gains / self._gain_scale(), values, segment.ends, self.discounts, self.config.trace)
        targets = raw + values[:-1]
        weights = self.multipliers(segment.positions[:-1].ravel()).reshape(steps, rows, -1)
        weighed = (raw[..., 0] - (weights * raw[..., 1:]).sum(axis=-1)) / (1 + weights.sum(axis=-1))
        weighed = level(weighed.ravel(), features[:-1].reshape(steps * rows, -1))
        # The scales move last, so that the batch is seen as the behavior saw it.
        self.observations.update(segment.observations[:-1].reshape(steps * rows, -1))
        self.gains.update((targets * self._gain_scale()).reshape(steps * rows, -1))
        return PPOBatch(used, actions, densities, _tensor(weighed), _tensor(targets.reshape(steps * rows, -1)))

    def forfeits(self, segment: Segment) -> Float[np.ndarray, "t n k"]:
        """Return what is charged for the steps that episodes missed because they ended before their horizon."""
        missed = self.horizon * (1 - segment.times[:-1]) - 1
        discounted = np.cumsum(self.config.cost_discount ** np.arange(self.horizon)) * self.config.cost_discount
        worth = np.append(0.0, discounted)[np.rint(missed).astype(np.int64)] * segment.ends
        charged: np.ndarray = self.config.forfeit * worth[..., None] * self.largest_costs
        return charged

    def losses(self, batch: PPOBatch) -> tuple[dict[str, Tensor], Tensor]:
        """Return every term of the loss, and how far the behavior has moved."""
        means, log_deviation = self.behavior(batch.inputs[:, :-1])
        difference = log_density(batch.actions, means, log_deviation) - batch.densities
        ratio = difference.exp()
        clipped = ratio.clamp(1 - self.config.clip, 1 + self.config.clip)
        errors = (self.critics(batch.inputs) - batch.targets).square().mean(dim=0)
        losses = {
            "behavior": -torch.minimum(ratio * batch.advantages, clipped * batch.advantages).mean(),
            "entropy": -self.config.entropy * log_deviation.sum(),
            "reward": 0.5 * errors[0],
            "cost": 0.5 * errors[1:].sum(),
        }
        return losses, (ratio - 1 - difference).mean().detach()

    def state(self) -> dict[str, Tensor]:
        """Return all that was learned, as tensors by name."""
        adam = self.optimizer.state_dict()["state"]
        return {
            **{f"behavior.{name}": value for name, value in self.behavior.state_dict().items()},
            **{f"critics.{name}": value for name, value in self.critics.state_dict().items()},
            **{f"adam.{index}.{name}": value for index, moments in adam.items() for name, value in moments.items()},
            **{name: torch.from_numpy(value.copy()) for name, value in self._arrays().items()},
        }

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Become what `state` described."""
        self.behavior.load_state_dict(_within(state, "behavior."))
        self.critics.load_state_dict(_within(state, "critics."))
        moments: dict[int, dict[str, Tensor]] = {}
        for name, value in _within(state, "adam.").items():
            index, _, moment = name.partition(".")
            moments.setdefault(int(index), {})[moment] = value
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": moments})
        for name, array in self._arrays().items():
            array[...] = state[name].numpy()

    def _arrays(self) -> dict[str, np.ndarray]:
        """Return the learned arrays, which may be written into."""
        return {
            "multipliers.logarithms": self.multipliers.logarithms,
            "multipliers.means": self.multipliers.means,
            **{f"observations.{name}": value for name, value in vars(self.observations).items()},
            **{f"gains.{name}": value for name, value in vars(self.gains).items()},
        }

    def _gain_scale(self) -> Float[np.ndarray, " r"]:
        # A cost that never occurs must not be blown up: below one whole cost the scale stays.
        return np.maximum(np.sqrt(self.gains.variance), 1.0)


def level(advantages: Float[np.ndarray, " n"], shares: Float[np.ndarray, "n knots"]) -> Float[np.ndarray, " n"]:
    """Return advantages of mean 0 and deviation about 1 near every knot.

    Under a tight limit rewards count little beside costs, so once no costs are left the advantages there are small.
    Scaled all together, tight limits would learn the slowest.
    """
    seen = np.maximum(shares.sum(axis=0), 1e-9)
    centered = advantages - shares @ (shares.T @ advantages / seen)
    variances = shares @ (shares.T @ centered**2 / seen)
    levelled: np.ndarray = centered / np.sqrt(variances + 1e-8)
    return levelled


def sweep(
    config: CollectionConfig, positions: Float[np.ndarray, " n"], progress: float = 0.0
) -> Float[np.ndarray, " n"]:
    """Return the limits at positions from 0 to 1, dense where they are tight, after a fraction of all steps."""
    loosest = config.loosest * (1 - (1 - config.narrowed) * min(2 * progress, 1.0))
    return config.tightest + (loosest - config.tightest) * positions**2


def _within(state: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


def _tensor(values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))
