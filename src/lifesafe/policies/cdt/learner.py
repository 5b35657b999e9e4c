"""Constrained Decision Transformer: actions from the reward and the costs still wanted, and the steps so far.

After Liu et al. 2023, "Constrained Decision Transformer for Offline Safe Reinforcement Learning". Where the authors'
package OSRL does otherwise (lifesafe/lab/osrl.py computes what it does):

    ours                                                        OSRL
    one token a step: (R, G, s, previous action)                four: R, G, s, a
    each layer sees the last K steps; trained on 2 K steps      K steps, all seen by every layer
    acting computes the new token only, exactly                 acting computes all 4 K tokens again
    scales from the data; any number of costs                   0.1 R and 50 - G; one cost
    every episode is drawn, costly ones more rarely             those that cost 70 or more are never drawn
    the policy has averaged weights                             the last ones
    deviations bounded; no entropy bonus                        unbounded; a bonus that fades
    costs are not predicted                                     costs of 0 and 1, an auxiliary loss
    the cost still allowed stops at 0                           goes negative
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self, cast

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from lifesafe._random import generator, integer
from lifesafe.data import Dataset
from lifesafe.data.relabel import AugmentationConfig, relabel
from lifesafe.data.segments import SegmentRows, Segments, held_out_transitions
from lifesafe.errors import ConfigError
from lifesafe.policies.cdt.actor import CDTActor
from lifesafe.policies.cdt.batches import Batch, Sampler, TransitionTable
from lifesafe.policies.cdt.network import CDTNetwork, Dropout, Gaussian, Sizes
from lifesafe.policies.device import keep_freed_memory
from lifesafe.policies.export.steps import Exportable, stream_step
from lifesafe.policies.learner import check_settings, load_optimizer_tensors, optimizer_tensors, prefixed, under
from lifesafe.policies.scaling import Scaling, typical_costs
from lifesafe.returns import Returns

_HELD_OUT_SEGMENTS = 1024


@dataclass(frozen=True, kw_only=True)
class CDTConfig:
    """Constrained Decision Transformer (Liu et al. 2023)."""

    steps: int = 5_000
    """Gradient steps."""
    batch: int = 128
    """Segments per gradient step."""
    segment: int = 20
    """Steps of a segment. Longer than the context, so that deeper layers learn to use what they will see."""
    context: int = 10
    """Past steps that each layer sees, the current one among them (K in the paper)."""
    width: int = 128
    """Size of every token."""
    layers: int = 3
    """Layers of the transformer."""
    heads: int = 8
    """Heads of each layer's attention."""
    dropout: float = 0.1
    """Chance with which an entry of a token, or of what a layer adds to it, is left out in training."""
    learning_rate: float = 1e-3
    """Step size of AdamW after the warm-up."""
    final_learning_rate: float = 0.1
    """The step size falls along a cosine to this share of the learning rate; 1 keeps it."""
    warmup: int = 200
    """Steps over which the step size rises to the learning rate."""
    average: float = 0.1
    """The policy gets a moving average of the weights that remembers this share of all steps; 0 for the last weights.
    Late steps hardly change the loss, but what episodes cost: see docs/decisions/0013-training-for-the-start.md."""
    weight_decay: float = 1e-4
    """Weight decay of AdamW."""
    clip: float = 0.25
    """Largest norm of a gradient; longer ones are shortened to it."""
    held_out: float = 0.05
    """Fraction of the episodes that is not trained on, to measure the likelihood on; 0 for none."""
    sampling: Literal["mild", "even"] = "mild"
    """How episodes are drawn: in proportion to length / (1 + cost / typical cost), so that every episode is drawn, or
    to length alone."""
    augmentation: AugmentationConfig = field(default_factory=lambda: AugmentationConfig(fraction=0.3))
    """Episodes relabeled with targets beyond the data, so that the cost comes first when both cannot be had."""
    log_std_bounds: tuple[float, float] = (-5.0, 2.0)
    """Bounds on the logarithm of the deviation of an action."""

    def __post_init__(self) -> None:
        check_settings(
            self,
            counts=("steps", "batch", "segment", "context", "width", "layers", "heads"),
            positive=("learning_rate", "clip"),
            not_negative=("final_learning_rate", "warmup", "weight_decay"),
            shares=("dropout", "held_out", "average"),
        )
        if self.width % self.heads:
            raise ConfigError(f"width must be a multiple of heads; got {self.width} and {self.heads}.")
        if not self.log_std_bounds[0] < self.log_std_bounds[1]:
            raise ConfigError(f"log_std_bounds must rise; got {self.log_std_bounds}.")

    @classmethod
    def dt_cost(cls, **changes: Any) -> Self:
        """Return the settings of DT-Cost, a Decision Transformer with one more return: changes by keyword.

        The spread of actions is fixed, so that the likelihood is the squared error and the policy deterministic; every
        step of the data is drawn alike; nothing is relabeled.
        """
        plain = {"log_std_bounds": (0.0, 1e-6), "sampling": "even", "augmentation": AugmentationConfig()}
        return cls(**{**plain, "average": 0.0, **changes})

    def build(self, dataset: Dataset, *, seed: int, device: str = "cpu", compile: bool = False) -> CDTLearner:
        """Return a learner before its first step."""
        return CDTLearner(self, dataset, seed=seed, device=device, compile=compile)

    def network(self, sizes: Sizes, seed: int = 0) -> CDTNetwork:
        """Return a network before training; its weights depend on the seed alone."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(integer(seed, "cdt", "weights"))
            return CDTNetwork(
                sizes,
                window=self.context,
                width=self.width,
                layers=self.layers,
                heads=self.heads,
                log_std_bounds=self.log_std_bounds,
            )


class CDT:
    """A trained Constrained Decision Transformer; acts by the mean of its Gaussian."""

    def __init__(self, config: CDTConfig, network: CDTNetwork, scaling: Scaling) -> None:
        self.config = config
        self._network = network.cpu().eval().requires_grad_(False)
        self._scaling = scaling

    def actor(self, targets: Sequence[Returns]) -> CDTActor:
        """Return an actor with one row per target, each at the start of an episode."""
        return CDTActor(self._network, self._scaling, targets)

    def tensors(self) -> dict[str, Tensor]:
        return dict(self._network.state_dict())

    def plain(self) -> dict[str, Any]:
        return {"sizes": asdict(self._network.sizes), "scaling": self._scaling.plain()}

    @classmethod
    def from_parts(cls, config: CDTConfig, tensors: Mapping[str, Tensor], plain: Mapping[str, Any]) -> Self:
        network = config.network(Sizes(**plain["sizes"]))
        network.load_state_dict(dict(tensors))
        return cls(config, network, Scaling.from_plain(plain["scaling"]))

    def exportable(self) -> Exportable:
        """Return what can be exported of the policy."""
        return stream_step(copy.deepcopy(self._network), self._scaling)


class CDTLearner:
    """Fits the network to random segments by maximum likelihood."""

    def __init__(self, config: CDTConfig, dataset: Dataset, *, seed: int, device: str, compile: bool) -> None:
        self._config = config
        self._device = torch.device(device)
        if self._device.type == "cpu":
            keep_freed_memory()
        sizes = Sizes(
            observations=dataset.observations.shape[1],
            actions=dataset.actions.shape[1],
            costs=dataset.costs.shape[1],
            times=int(dataset.lengths.max()),
        )
        self._scaling = Scaling.from_dataset(dataset)
        self._table = TransitionTable(dataset, self._scaling, self._device)
        held_out = held_out_transitions(dataset, config.held_out, seed=seed)[dataset.offsets[:-1]]
        self._sampler = _sampler(config, dataset, ~held_out, generator(seed, "cdt", "relabel"))
        self._held_out = _cover(config, dataset, held_out)
        self._network = config.network(sizes, seed).to(self._device)
        actions = torch.tensor(dataset.actions)
        self._network.begin_at(actions.mean(dim=0), actions.std(dim=0, correction=0))
        self._predict = torch.compile(self._network) if compile else self._network
        self._average = _average(self._network, config) if config.average else None
        self._batches = generator(seed, "cdt", "batches")
        self._drops = generator(seed, "cdt", "dropout")
        own = self._device.type == "cpu" and not compile
        self._drop = Dropout(config.dropout, self._drops if own else None)
        self._optimizer = torch.optim.AdamW(
            self._network.parameters(),
            lr=config.learning_rate,
            weight_decay=config.weight_decay,
            fused=self._device.type in ("cpu", "cuda"),
        )

    def draw(self) -> Batch:
        """Return a random batch."""
        return self._table.gather(*self._sampler.draw(self._batches, self._config.batch))

    def update(self, step: int) -> dict[str, Tensor]:
        batch = self.draw()
        losses = _losses(self._predict(batch.steps, self._drop), batch)
        self._optimizer.zero_grad(set_to_none=True)
        losses["nll"].backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(self._network.parameters(), self._config.clip)
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate(self._config, step)
        self._optimizer.step()
        if self._average is not None:
            self._average.update_parameters(self._network)
        metrics = {"loss": losses["nll"], "gradient_norm": norm, **losses}
        return {name: value.detach() for name, value in metrics.items()}

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        sums: dict[str, float] = {}
        count = 0.0
        for batch in self._held_out_batches():
            steps = float(batch.real.sum())
            predicted = self._learned(batch.steps)
            errors = (predicted.mean.clamp(-1, 1) - batch.actions).square().mean(-1) * batch.real
            parts = {**_losses(predicted, batch), "squared_error": errors.sum() / steps}
            sums = {name: sums.get(name, 0.0) + steps * float(value) for name, value in parts.items()}
            count += steps
        return {name: value / count for name, value in sums.items()}

    def policy(self) -> CDT:
        return CDT(self._config, copy.deepcopy(self._learned), self._scaling)

    @property
    def _learned(self) -> CDTNetwork:
        """The network that the policy gets."""
        return self._network if self._average is None else cast("CDTNetwork", self._average.module)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {
            **prefixed("network", self._network.state_dict()),
            **prefixed("optimizer", optimizer_tensors(self._optimizer)),
            **({} if self._average is None else prefixed("average", self._average.state_dict())),
        }
        plain = {"batches": self._batches.bit_generator.state, "dropout": self._drops.bit_generator.state}
        return {name: tensor.detach().clone() for name, tensor in tensors.items()}, copy.deepcopy(plain)

    def load_state(self, tensors: Mapping[str, Tensor], plain: Mapping[str, Any]) -> None:
        self._network.load_state_dict(under("network", tensors))
        if self._average is not None:
            self._average.load_state_dict(under("average", tensors))
        load_optimizer_tensors(self._optimizer, under("optimizer", tensors))
        self._batches.bit_generator.state = plain["batches"]
        self._drops.bit_generator.state = plain["dropout"]

    def _held_out_batches(self) -> list[Batch]:
        if self._held_out is None:
            return []
        chunks = np.array_split(np.arange(len(self._held_out.episodes)), -(-len(self._held_out.episodes) // 256))
        return [self._table.gather(self._held_out.pick(chunk)) for chunk in chunks]


def _losses(predicted: Gaussian, batch: Batch) -> dict[str, Tensor]:
    """Return the parts of the loss, each a mean over real steps, and over the entries of an action."""
    share = batch.real[..., None] / (batch.real.sum() * batch.actions.shape[-1])
    return {
        "nll": -(predicted.log_prob(batch.actions) * share).sum(),
        "entropy": (predicted.entropy() * share).sum(),
    }


def _average(network: CDTNetwork, config: CDTConfig) -> AveragedModel:
    decay = 1 - 1 / max(config.average * config.steps, 1.0)
    return AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(decay))  # type: ignore[no-untyped-call]


def learning_rate(config: CDTConfig, step: int) -> float:
    """Return the step size of a gradient step: it rises along a line, then falls along a cosine."""
    rise = min((step + 1) / config.warmup, 1.0) if config.warmup else 1.0
    done = min(step / config.steps, 1.0)
    fall = config.final_learning_rate + (1 - config.final_learning_rate) * 0.5 * (1 + math.cos(math.pi * done))
    return config.learning_rate * rise * fall


def episode_weights(
    config: CDTConfig, lengths: np.ndarray, costs: Float[np.ndarray, "e k"], typical: Float[np.ndarray, " k"]
) -> Float[np.ndarray, " e"]:
    """Return the weight with which each episode is drawn, given the typical costs of the data."""
    if config.sampling == "even":
        return lengths.astype(np.float64)
    weights: np.ndarray = lengths / (1.0 + (costs / typical).mean(axis=1))
    return weights


def _sampler(
    config: CDTConfig, dataset: Dataset, episodes: Bool[np.ndarray, " e"], random: np.random.Generator
) -> Sampler:
    returns, lengths = dataset.returns[episodes], dataset.lengths[episodes]
    relabeled = relabel(returns, config.augmentation, random)
    costs = np.concatenate([returns[:, 1:], relabeled.targets[:, 1:]]) if len(relabeled.episodes) else returns[:, 1:]
    lengths = np.concatenate([lengths, lengths[relabeled.episodes]])
    weights = episode_weights(config, lengths, costs, typical_costs(dataset))
    return Sampler(dataset, episodes, relabeled, weights, length=config.segment)


def _cover(config: CDTConfig, dataset: Dataset, episodes: Bool[np.ndarray, " e"]) -> SegmentRows | None:
    """Return segments spread over the held-out episodes."""
    if not episodes.any():
        return None
    chosen = np.flatnonzero(episodes)
    segments = Segments(
        dataset.offsets[:-1][chosen], dataset.lengths[chosen], np.ones(len(chosen)), length=config.segment
    )
    return segments.cover(_HELD_OUT_SEGMENTS)
