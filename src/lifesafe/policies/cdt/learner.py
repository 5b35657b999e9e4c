"""Constrained Decision Transformer: actions from the reward and the costs still wanted, and the steps so far.

After Liu et al. 2023, "Constrained Decision Transformer for Offline Safe Reinforcement Learning". `CDTConfig()` is
ours, `CDTConfig.osrl()` what the authors' package OSRL trains, to 1e-5 (tests/reference/test_cdt_osrl.py). They differ:

    ours                                                        OSRL
    one token a step: (R, G, s, previous action)                four: R, G, s, a
    each layer sees the last K steps; trained on 2 K steps      K steps, all seen by every layer
    acting computes the new token only, exactly                 acting computes all 4 K tokens again
    scales from the data; any number of costs                   0.1 R and 50 - G; one cost
    every episode is drawn, costly ones more rarely             those that cost 70 or more are never drawn
    the policy has averaged weights                             the last ones
    deviations bounded; no entropy bonus                        unbounded; a bonus that fades (see `temperature`)
    cost prediction off; if on, for any costs                   costs of 0 and 1, weight 0.02
    the cost still allowed stops at 0                           goes negative
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Self, cast

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from lifesafe._random import generator, integer
from lifesafe.data import Dataset
from lifesafe.data.relabel import AugmentationConfig, relabel
from lifesafe.data.segments import Rows, Segments, Starts, held_out_transitions
from lifesafe.errors import ConfigError, DatasetError
from lifesafe.policies.cdt.actor import CDTActor, StreamingMemory, WindowMemory
from lifesafe.policies.cdt.batches import Batch, Sampler, Table
from lifesafe.policies.cdt.dropout import Dropout, Dropouts, TorchDropout
from lifesafe.policies.cdt.network import CDTNetwork, CostModel, Gaussian, Sizes, Tokens
from lifesafe.policies.learner import load_optimizer_tensors, optimizer_tensors, prefixed, under
from lifesafe.policies.memory import keep_freed_memory
from lifesafe.policies.osrl import osrl_augmentation
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
    sliding: bool = True
    """Whether every layer sees just the context, so that acting can keep what it has computed. If not, segments are
    as long as the context, and acting computes the whole context again at every step."""
    tokens: Tokens = 1
    """Tokens a step: see cdt_network.py."""
    width: int = 128
    """Size of every token."""
    layers: int = 3
    """Layers of the transformer."""
    heads: int = 8
    """Heads of each layer's attention."""
    dropout: float = 0.1
    """Chance with which an entry of a token, or of what a layer adds to it, is left out in training."""
    attention_dropout: float = 0.0
    """The same for the weights of attention."""
    learning_rate: float = 1e-3
    """Step size of AdamW after the warm-up."""
    final_learning_rate: float = 0.1
    """The step size falls along a cosine to this share of the learning rate; 1 keeps it."""
    warmup: int = 200
    """Steps over which the step size rises to the learning rate."""
    average: float = 0.1
    """The policy gets a moving average of the weights that remembers this share of all steps; 0 for the last weights.
    Late steps hardly change the loss, but what episodes cost: see docs/decisions/0013-training-for-the-seed.md."""
    weight_decay: float = 1e-4
    """Weight decay of AdamW."""
    clip: float = 0.25
    """Largest norm of a gradient; longer ones are shortened to it."""
    held_out: float = 0.05
    """Fraction of the episodes that is not trained on, to measure the likelihood on; 0 for none."""
    scaling: Literal["data", "osrl"] = "data"
    """Scales from quantiles of the data, or OSRL's constants: `Scaling`."""
    sampling: Literal["mild", "even", "osrl"] = "mild"
    """How episodes are drawn: in proportion to length / (1 + cost / typical cost), so that every episode is drawn; to
    length alone; or to max(0, 70 - cost), as OSRL does, and then starting anywhere, the end padded."""
    augmentation: AugmentationConfig = field(default_factory=lambda: AugmentationConfig(fraction=0.3))
    """Episodes relabeled with targets beyond the data, so that the cost comes first when both cannot be had."""
    log_std_bounds: tuple[float, float] | Literal["free"] = (-5.0, 2.0)
    """Bounds on the logarithm of the deviation of an action; "free" for none, as OSRL's."""
    temperature: float = 0.0
    """Weight of the entropy of actions at the start; 0 for none. It is then learned as in OSRL, whose target is the
    negative number of actions while the entropy is a mean over actions: so it just fades, which is why it is off."""
    cost_weight: float = 0.0
    """Weight of predicting what an action costs, an auxiliary task; 0 for none."""
    cost_model: CostModel = "none"
    """How that cost is modeled: "none", "share" (any costs) or "classes" (OSRL's: one cost, 0 or 1)."""
    clamped: bool = True
    """Whether the cost still allowed stops at 0 while acting."""

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "segment", "context", "width", "layers", "heads"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1; got {getattr(self, name)}.")
        for name in ("dropout", "attention_dropout", "held_out", "average"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name} must lie in [0, 1); got {getattr(self, name)}.")
        for name in ("learning_rate", "clip"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be positive; got {getattr(self, name)}.")
        for name in ("final_learning_rate", "warmup", "weight_decay", "temperature", "cost_weight"):
            if not getattr(self, name) >= 0:
                raise ConfigError(f"{name} must not be negative; got {getattr(self, name)}.")
        if self.width % self.heads:
            raise ConfigError(f"width must be a multiple of heads; got {self.width} and {self.heads}.")
        if not self.sliding and self.segment != self.context:
            raise ConfigError(
                f"Without sliding, segments are as long as the context; got {self.segment} and {self.context}."
            )
        if self.log_std_bounds != "free" and not self.log_std_bounds[0] < self.log_std_bounds[1]:
            raise ConfigError(f"log_std_bounds must rise; got {self.log_std_bounds}.")
        if (self.cost_weight > 0) != (self.cost_model != "none"):
            raise ConfigError(
                f"cost_weight = {self.cost_weight} does not go with cost_model = {self.cost_model!r}:"
                ' give a positive weight and a model, or 0 and "none".'
            )
        if self.cost_model == "classes" and self.tokens == 1:
            raise ConfigError('cost_model = "classes" needs a token for the action; give tokens = 4, or "share".')

    @classmethod
    def osrl(cls, task: str | None = None, **changes: Any) -> Self:
        """Return the settings of OSRL for a task, but for a few held-out episodes; changes by keyword."""
        config = cls(
            steps=100_000,
            batch=2048,
            segment=10,
            context=10,
            sliding=False,
            tokens=4,
            attention_dropout=0.1,
            learning_rate=1e-4,
            final_learning_rate=1.0,
            warmup=500,
            average=0.0,
            scaling="osrl",
            sampling="osrl",
            augmentation=osrl_augmentation(task),
            log_std_bounds="free",
            temperature=0.1,
            cost_weight=0.02,
            cost_model="classes",
            clamped=False,
        )
        return replace(config, **changes)

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
                tokens=self.tokens,
                window=self.context if self.sliding else None,
                width=self.width,
                layers=self.layers,
                heads=self.heads,
                log_std_bounds=None if self.log_std_bounds == "free" else self.log_std_bounds,
                cost_model=self.cost_model,
            )


class CDT:
    """A trained Constrained Decision Transformer; acts by the mean of its Gaussian."""

    def __init__(self, config: CDTConfig, network: CDTNetwork, scaling: Scaling) -> None:
        self.config = config
        self._network = network.eval().requires_grad_(False)
        self._scaling = scaling

    def actor(self, targets: Sequence[Returns]) -> CDTActor:
        """Return an actor with one row per target, each at the start of an episode."""
        memory: StreamingMemory | WindowMemory
        with torch.inference_mode():
            if self.config.sliding:
                memory = StreamingMemory(self._network, len(targets))
            else:
                memory = WindowMemory(self._network, len(targets), self.config.context)
        return CDTActor(self._network, self._scaling, memory, targets, clamped=self.config.clamped)

    def tensors(self) -> dict[str, Tensor]:
        return dict(self._network.state_dict())

    def plain(self) -> dict[str, Any]:
        return {"sizes": asdict(self._network.sizes), "scaling": self._scaling.plain()}

    @classmethod
    def from_parts(cls, config: CDTConfig, tensors: Mapping[str, Tensor], plain: Mapping[str, Any]) -> Self:
        network = config.network(Sizes(**plain["sizes"]))
        network.load_state_dict(dict(tensors))
        return cls(config, network, Scaling.from_plain(plain["scaling"]))


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
        self._scaling = (
            Scaling.from_dataset(dataset) if config.scaling == "data" else Scaling.osrl(sizes.observations, sizes.costs)
        )
        self._table = Table(
            dataset,
            self._scaling,
            _largest_costs(config, dataset),
            previous_actions=config.tokens == 1,
            device=self._device,
        )
        held_out = held_out_transitions(dataset, config.held_out, seed=seed)[dataset.offsets[:-1]]
        self._sampler = _sampler(config, dataset, ~held_out, generator(seed, "cdt", "relabel"))
        self._held_out = _cover(config, dataset, held_out)
        self._network = config.network(sizes, seed).to(self._device)
        if config.scaling == "data":
            actions = torch.from_numpy(np.array(dataset.actions))
            self._network.begin_at(actions.mean(dim=0), actions.std(dim=0, correction=0))
        self._predict = torch.compile(self._network) if compile else self._network
        self._average = _average(self._network, config) if config.average else None
        self._batches = generator(seed, "cdt", "batches")
        self._drops = generator(seed, "cdt", "dropout")
        rates = config.dropout, config.attention_dropout
        own = self._device.type == "cpu" and not compile
        self._dropout = Dropouts(*(Dropout(rate, self._drops) if own else TorchDropout(rate) for rate in rates))
        self._optimizer = torch.optim.AdamW(
            self._network.parameters(),
            lr=config.learning_rate,
            weight_decay=config.weight_decay,
            fused=self._device.type in ("cpu", "cuda"),
        )
        self._log_temperature = torch.tensor(math.log(config.temperature or 1.0), dtype=torch.float64)
        self._temperature_optimizer = torch.optim.Adam([self._log_temperature.requires_grad_()], lr=1e-4)

    def update(self, step: int) -> dict[str, Tensor]:
        segments, shifts = self._sampler.draw(self._batches, self._config.batch)
        return self.fit(self._table.gather(segments, shifts), step)

    def fit(self, batch: Batch, step: int) -> dict[str, Tensor]:
        """Take one gradient step on a given batch and return its metrics."""
        losses = self.losses(batch, self._dropout)
        loss = losses["nll"]
        if self._config.temperature:
            loss = loss - self._log_temperature.detach().exp().to(loss.device) * losses["entropy"]
        if self._config.cost_weight:
            loss = loss + self._config.cost_weight * losses["cost_loss"]
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(self._network.parameters(), self._config.clip)
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate(self._config, step)
        self._optimizer.step()
        if self._average is not None:
            self._average.update_parameters(self._network)
        if self._config.temperature:
            self._update_temperature(losses["entropy"])
        metrics = {"loss": loss, "gradient_norm": norm, **losses}
        return {name: value.detach() for name, value in metrics.items()}

    def losses(self, batch: Batch, dropout: Dropouts | None = None) -> dict[str, Tensor]:
        """Return the parts of the loss, each a mean over real steps, and over the entries of an action."""
        return self._losses(self._predict(batch.steps, dropout), self._network, batch)

    def _losses(self, predicted: tuple[Gaussian, Tensor], network: CDTNetwork, batch: Batch) -> dict[str, Tensor]:
        gaussian, features = predicted
        share = batch.real[..., None] / (batch.real.sum() * batch.actions.shape[-1])
        losses = {
            "nll": -(gaussian.log_prob(batch.actions) * share).sum(),
            "entropy": (gaussian.entropy() * share).sum(),
        }
        if self._config.cost_weight:
            each = network.cost_loss(features, batch.actions, batch.costs) * batch.real
            # NOTE: OSRL divides by all steps, padding included.
            steps = batch.real.numel() if self._config.cost_model == "classes" else batch.real.sum()
            losses["cost_loss"] = each.sum() / steps
        return losses

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        sums: dict[str, float] = {}
        count = 0.0
        for batch in self._held_out_batches():
            steps = float(batch.real.sum())
            predicted = self._learned(batch.steps)
            parts = self._losses(predicted, self._learned, batch) | {
                "squared_error": ((predicted[0].mean.clamp(-1, 1) - batch.actions).square().mean(-1) * batch.real).sum()
                / batch.real.sum()
            }
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
            **prefixed("temperature_optimizer", optimizer_tensors(self._temperature_optimizer)),
            "log_temperature": self._log_temperature,
            **({} if self._average is None else prefixed("average", self._average.state_dict())),
        }
        plain = {"batches": self._batches.bit_generator.state, "dropout": self._drops.bit_generator.state}
        return {name: tensor.detach().clone() for name, tensor in tensors.items()}, copy.deepcopy(plain)

    def load_state(self, tensors: Mapping[str, Tensor], plain: Mapping[str, Any]) -> None:
        self._network.load_state_dict(under("network", tensors))
        if self._average is not None:
            self._average.load_state_dict(under("average", tensors))
        load_optimizer_tensors(self._optimizer, under("optimizer", tensors))
        load_optimizer_tensors(self._temperature_optimizer, under("temperature_optimizer", tensors))
        with torch.no_grad():
            self._log_temperature.copy_(tensors["log_temperature"])
        self._batches.bit_generator.state = plain["batches"]
        self._drops.bit_generator.state = plain["dropout"]

    def _update_temperature(self, entropy: Tensor) -> None:
        target = -self._network.sizes.actions
        self._temperature_optimizer.zero_grad()
        loss = self._log_temperature.exp() * (entropy.detach().cpu() - target)
        loss.backward()  # type: ignore[no-untyped-call]
        self._temperature_optimizer.step()

    def _held_out_batches(self) -> list[Batch]:
        if self._held_out is None:
            return []
        chunks = np.array_split(np.arange(len(self._held_out.episodes)), -(-len(self._held_out.episodes) // 256))
        return [self._table.gather(self._held_out.pick(chunk)) for chunk in chunks]


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
    if config.sampling == "osrl":
        return np.maximum(70.0 - costs[:, 0], 0.0)
    if config.sampling == "even":
        return lengths.astype(np.float64)
    weights: np.ndarray = lengths / (1.0 + (np.maximum(costs, 0.0) / typical).mean(axis=1))
    return weights


def _largest_costs(config: CDTConfig, dataset: Dataset) -> Float[np.ndarray, " k"]:
    """Return the largest cost of a step, by which costs are divided before they are predicted."""
    largest = dataset.costs.max(axis=0)
    if config.cost_model == "classes":
        if dataset.costs.shape[1] != 1 or not np.isin(dataset.costs, (0.0, 1.0)).all():
            raise DatasetError(
                f'cost_model = "classes" needs one cost that is 0 or 1; the data have {dataset.costs.shape[1]}, up to'
                f' {largest.tolist()}. Set cost_model to "share".'
            )
        return np.ones(1)
    if config.cost_model == "share" and (dataset.costs < 0).any():
        raise DatasetError(f"Only costs that are not negative can be predicted; got {dataset.costs.min()}.")
    return np.where(largest > 0, largest, 1.0)


def _sampler(
    config: CDTConfig, dataset: Dataset, episodes: Bool[np.ndarray, " e"], random: np.random.Generator
) -> Sampler:
    returns, lengths = dataset.returns[episodes], dataset.lengths[episodes]
    relabeled = relabel(returns, config.augmentation, random)
    costs = np.concatenate([returns[:, 1:], relabeled.targets[:, 1:]]) if len(relabeled.episodes) else returns[:, 1:]
    lengths = np.concatenate([lengths, lengths[relabeled.episodes]])
    weights = episode_weights(config, lengths, costs, typical_costs(dataset))
    if not weights.any():
        raise DatasetError(
            'OSRL\'s sampling leaves out episodes that cost 70 or more, and here all do; set sampling to "mild".'
        )
    starts: Starts = "anywhere" if config.sampling == "osrl" else "whole"
    return Sampler(dataset, episodes, relabeled, weights, length=config.segment, starts=starts)


def _cover(config: CDTConfig, dataset: Dataset, episodes: Bool[np.ndarray, " e"]) -> Rows | None:
    """Return segments spread over the held-out episodes."""
    if not episodes.any():
        return None
    chosen = np.flatnonzero(episodes)
    segments = Segments(
        dataset.offsets[:-1][chosen], dataset.lengths[chosen], np.ones(len(chosen)), length=config.segment
    )
    return segments.cover(_HELD_OUT_SEGMENTS)
