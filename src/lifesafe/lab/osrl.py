"""OSRL's Constrained Decision Transformer, errors included: what lifesafe's own is compared with.

After Liu et al. 2023, "Constrained Decision Transformer for Offline Safe Reinforcement Learning", as their package OSRL
computes it, to 1e-5 (tests/reference/test_cdt_osrl.py). The table in lifesafe/policies/cdt/learner.py says where ours
departs from it. Modules carry OSRL's names, so its weights load as they are. Two things differ: some episodes can be
held out, and the head that predicts the next observation is left out, since its weight in OSRL's loss is 0.

Notation: b sequences of l steps; a step is four tokens, R | G | s | a, of width w; e episodes, m relabeled ones.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from lifesafe._random import generator, integer
from lifesafe.data import Dataset
from lifesafe.data.relabel import Relabeled
from lifesafe.data.segments import SegmentRows, Segments, held_out_transitions, returns_to_go
from lifesafe.errors import ConfigError, DatasetError
from lifesafe.policies.learner import check_settings, load_optimizer_tensors, optimizer_tensors, prefixed, under
from lifesafe.policies.to_go import ToGoActor
from lifesafe.returns import Returns

_FRONTS = {
    # task: degree of the curve through the front, largest target reward, largest drop (examples/configs/cdt_configs.py)
    "CarCircle": (4, 600.0, 100.0),
    "AntRun": (3, 1000.0, 150.0),
    "AntCircle": (2, 500.0, 100.0),
    "DroneRun": (1, 700.0, 100.0),
    "DroneCircle": (1, 1000.0, 100.0),
    "AntVelocity": (1, 3000.0, 500.0),
    "HalfCheetahVelocity": (1, 3000.0, 500.0),
    "HopperVelocity": (1, 2000.0, 300.0),
    "Walker2dVelocity": (1, 3600.0, 800.0),
}
_REWARD_SCALE, _MOST_COST, _NEVER_DRAWN = 0.1, 50.0, 70.0
_TEMPERATURE_RATE = 1e-4


@dataclass(frozen=True, kw_only=True)
class OSRLCDTConfig:
    """Constrained Decision Transformer as OSRL trains it (Liu et al. 2023); it knows one cost, of 0 or 1 a step."""

    steps: int = 100_000
    """Gradient steps."""
    batch: int = 2048
    """Segments per gradient step."""
    context: int = 10
    """Steps of a segment, and past steps that the policy sees."""
    width: int = 128
    """Size of every token."""
    layers: int = 3
    """Layers of the transformer."""
    heads: int = 8
    """Heads of each layer's attention."""
    dropout: float = 0.1
    """Chance with which an entry of a token, of a weight of attention or of what a layer adds is left out."""
    learning_rate: float = 1e-4
    """Step size of AdamW after the warm-up."""
    warmup: int = 500
    """Steps over which the step size rises to the learning rate."""
    weight_decay: float = 1e-4
    """Weight decay of AdamW."""
    clip: float = 0.25
    """Largest norm of a gradient."""
    temperature: float = 0.1
    """Weight of the entropy of actions at the start. Its target is the negative number of actions while the entropy is
    a mean over actions, so it just fades."""
    cost_weight: float = 0.02
    """Weight of predicting whether a step costs."""
    relabeled: float = 0.2
    """Relabeled episodes to add, as a fraction of those left after thinning; 0 for none."""
    degree: int = 4
    """Degree of the polynomial through the Pareto front of the data."""
    largest_reward: float = 600.0
    """Largest target reward of relabeled episodes."""
    largest_drop: float = 100.0
    """How much less than the nearest episode its stand-ins may earn."""
    held_out: float = 0.05
    """Fraction of the episodes that is not trained on, to measure the likelihood on; 0 for none."""

    def __post_init__(self) -> None:
        check_settings(
            self,
            counts=("steps", "batch", "context", "width", "layers", "heads"),
            positive=("learning_rate", "clip", "temperature"),
            not_negative=("warmup", "weight_decay", "cost_weight", "relabeled", "degree"),
            shares=("dropout", "held_out"),
        )
        if self.width % self.heads:
            raise ConfigError(f"width must be a multiple of heads; got {self.width} and {self.heads}.")

    @classmethod
    def of_task(cls, task: str | None, **changes: Any) -> Self:
        """Return OSRL's settings for a task; those of CarCircle, its base, where it has none."""
        degree, reward, drop = _FRONTS.get(task or "", _FRONTS["CarCircle"])
        return replace(cls(degree=degree, largest_reward=reward, largest_drop=drop), **changes)

    def build(self, dataset: Dataset, *, seed: int, device: str = "cpu", compile: bool = False) -> OSRLCDTLearner:
        """Return a learner before its first step.

        Raises:
            DatasetError: If there is not exactly one cost of 0 or 1, or all episodes cost 70 or more.
        """
        return OSRLCDTLearner(self, dataset, seed=seed, device=device, compile=compile)


class OSRLSteps(NamedTuple):
    """Steps of sequences; actions are those taken at each step."""

    coming: Float[Tensor, "b l 2"]
    observations: Float[Tensor, "b l o"]
    actions: Float[Tensor, "b l a"]
    times: Int[Tensor, "b l"]


class Predicted(NamedTuple):
    """What the network says: a Gaussian over each action, and how likely a cost of 0 and of 1 is."""

    mean: Float[Tensor, "b l a"]
    log_std: Float[Tensor, "b l a"]
    cost: Float[Tensor, "b l 2"]


class OSRLBlock(nn.Module):
    """One layer: attention, then a network on each token."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.drop = nn.Dropout(dropout)
        self.attention = nn.MultiheadAttention(width, heads, dropout, batch_first=True)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, tokens: Float[Tensor, "b t w"], hidden: Tensor) -> Float[Tensor, "b t w"]:
        normed = self.norm1(tokens)
        tokens = tokens + self.drop(self.attention(normed, normed, normed, attn_mask=hidden, need_weights=False)[0])
        thought: Tensor = tokens + self.mlp(self.norm2(tokens))
        return thought


class OSRLCDTNetwork(nn.Module):
    """Predicts each action from the token of its observation, and its cost from the token of the action."""

    def __init__(self, config: OSRLCDTConfig, observations: int, actions: int, times: int) -> None:
        super().__init__()
        width = config.width
        self.timestep_emb = nn.Embedding(times, width)
        self.return_emb, self.cost_emb = nn.Linear(1, width), nn.Linear(1, width)
        self.state_emb, self.action_emb = nn.Linear(observations, width), nn.Linear(actions, width)
        self.emb_norm, self.out_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.emb_drop = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList([OSRLBlock(width, config.heads, config.dropout) for _ in range(config.layers)])
        self.action_head = nn.ModuleDict({part: nn.Linear(width, actions) for part in ("mu", "log_std")})
        self.cost_pred_head = nn.Linear(width, 2)
        for part in self.modules():
            if isinstance(part, (nn.Linear, nn.Embedding)):
                nn.init.normal_(part.weight, std=0.02)
            if isinstance(part, nn.Linear):
                nn.init.zeros_(part.bias)

    def forward(self, steps: OSRLSteps) -> Predicted:
        time = self.timestep_emb(steps.times.clamp(max=self.timestep_emb.num_embeddings - 1))
        reward, cost = torch.split(steps.coming, 1, dim=-1)
        parts = (
            self.return_emb(reward),
            self.cost_emb(cost),
            self.state_emb(steps.observations),
            self.action_emb(steps.actions),
        )
        tokens = torch.stack([part + time for part in parts], dim=2).flatten(1, 2)
        hidden = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool, device=tokens.device).triu(1)
        tokens = self.emb_drop(self.emb_norm(tokens))
        for block in self.blocks:
            tokens = block(tokens, hidden)
        features = self.out_norm(tokens).unflatten(1, (-1, 4))
        mean, log_std = (self.action_head[part](features[:, :, 2]) for part in ("mu", "log_std"))
        return Predicted(mean, log_std, torch.log_softmax(self.cost_pred_head(features[:, :, 3]), dim=-1))


def weights_from_osrl(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of an `OSRLCDTNetwork` from the `state_dict` of OSRL's CDT."""
    return {name: value for name, value in state.items() if not name.startswith(("state_pred_head.", "log_temp"))}


def scaled(coming: Float[Tensor, "*b 2"]) -> Float[Tensor, "*b 2"]:
    """Return rewards- and costs-to-go as the network sees them: 0.1 R and 50 - G."""
    return torch.cat([_REWARD_SCALE * coming[..., :1], _MOST_COST - coming[..., 1:]], dim=-1).float()


class OSRLCDT:
    """A trained transformer; acts by the mean of its Gaussian."""

    def __init__(self, config: OSRLCDTConfig, network: OSRLCDTNetwork) -> None:
        self.config = config
        self.network = network.cpu().eval().requires_grad_(False)

    def actor(self, targets: Sequence[Returns]) -> OSRLCDTActor:
        """Return an actor with one row per target, each at the start of an episode."""
        return OSRLCDTActor(self.network, self.config.context, targets)

    def tensors(self) -> dict[str, Tensor]:
        return dict(self.network.state_dict())

    def plain(self) -> dict[str, Any]:
        actions, times = self.network.action_emb.in_features, self.network.timestep_emb.num_embeddings
        return {"observations": self.network.state_emb.in_features, "actions": actions, "times": times}

    @classmethod
    def from_parts(cls, config: OSRLCDTConfig, tensors: Mapping[str, Tensor], plain: Mapping[str, Any]) -> Self:
        network = OSRLCDTNetwork(config, plain["observations"], plain["actions"], plain["times"])
        network.load_state_dict(dict(tensors))
        return cls(config, network)


class OSRLCDTActor(ToGoActor):
    """Keeps the last steps, and runs the network over all of them every time. The cost-to-go may become negative."""

    def __init__(self, network: OSRLCDTNetwork, context: int, targets: Sequence[Returns]) -> None:
        super().__init__(targets, 1)
        self._network, self._context = network, context
        sizes = (2, network.state_emb.in_features, network.action_emb.in_features)
        coming, observations, actions = (torch.zeros(len(targets), context, size) for size in sizes)
        self._kept = OSRLSteps(coming, observations, actions, torch.zeros(len(targets), context, dtype=torch.int64))

    @torch.inference_mode()
    def act(
        self, observations: Float[np.ndarray, "m o"], rows: Int[np.ndarray, " m"] | None = None
    ) -> Float[np.ndarray, "m a"]:
        chosen = torch.arange(len(observations)) if rows is None else torch.from_numpy(rows)
        kept, time = self._kept, torch.from_numpy(self.times)[chosen]
        full = chosen[time >= self._context]
        for part in kept:
            part[full, :-1] = part[full, 1:].clone()
        place = time.clamp(max=self._context - 1)
        kept.coming[chosen, place] = scaled(torch.from_numpy(self.to_go)[chosen])
        kept.observations[chosen, place] = torch.tensor(observations, dtype=torch.float32)
        kept.actions[chosen, place] = 0.0
        kept.times[chosen, place] = time
        # Steps not yet reached lie to the right, where nothing looks.
        means = self._network(OSRLSteps(*(part[chosen] for part in kept))).mean
        actions = means[torch.arange(len(chosen)), place].clamp(-1.0, 1.0)
        kept.actions[chosen, place] = actions
        acted: np.ndarray = actions.numpy()
        return acted


class OSRLBatch(NamedTuple):
    """Segments, the costs of their steps, and which steps are real rather than padding."""

    steps: OSRLSteps
    costs: Int[Tensor, "b l"]
    real: Float[Tensor, "b l"]


class OSRLCDTLearner:
    """Maximizes likelihood and entropy, and predicts costs."""

    def __init__(self, config: OSRLCDTConfig, dataset: Dataset, *, seed: int, device: str, compile: bool) -> None:
        _check(dataset)
        self._config, self._device = config, torch.device(device)
        columns = (returns_to_go(dataset), dataset.observations, dataset.actions, dataset.costs)
        self._columns = [torch.tensor(column, dtype=torch.float32, device=self._device) for column in columns]
        held_out = held_out_transitions(dataset, config.held_out, seed=seed)[dataset.offsets[:-1]]
        own = np.flatnonzero(~held_out)
        relabeled = relabel_front(dataset.returns[own], config, generator(seed, "cdt-osrl", "relabel"))
        episodes = np.concatenate([own, own[relabeled.episodes]])
        self._shifts = np.zeros((len(episodes), 2), dtype=np.float32)
        self._shifts[len(own) :] = relabeled.targets - dataset.returns[own[relabeled.episodes]]
        costs = dataset.returns[episodes, 1] + self._shifts[:, 1]
        weights = np.maximum(_NEVER_DRAWN - costs, 0.0)
        if not weights.any():
            raise DatasetError("OSRL leaves out episodes that cost 70 or more, and here all do; choose another method.")
        self._segments = _segments(dataset, episodes, weights, config.context)
        cover = np.flatnonzero(held_out)
        self._held_out = (
            _segments(dataset, cover, np.ones(len(cover)), config.context).cover(1024) if len(cover) else None
        )
        with torch.random.fork_rng(devices=[]):  # the weights depend on the seed alone
            torch.manual_seed(integer(seed, "cdt-osrl", "weights"))
            sizes = (dataset.observations.shape[1], dataset.actions.shape[1], int(dataset.lengths.max()))
            self.network = OSRLCDTNetwork(config, *sizes).to(self._device)
        self._predict = torch.compile(self.network) if compile else self.network
        self._random = generator(seed, "cdt-osrl", "batches")
        self._optimizer = torch.optim.AdamW(
            self.network.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay
        )
        self.log_temperature = torch.tensor(math.log(config.temperature), dtype=torch.float64, requires_grad=True)
        self._temperature_optimizer = torch.optim.Adam([self.log_temperature], lr=_TEMPERATURE_RATE)

    def draw(self) -> OSRLBatch:
        """Return a random batch."""
        drawn = self._segments.draw(self._random, self._config.batch)
        return self._gather(drawn, self._shifts[drawn.episodes])

    def update(self, step: int) -> dict[str, Tensor]:
        return self.fit(self.draw(), step)

    def fit(self, batch: OSRLBatch, step: int) -> dict[str, Tensor]:
        """Take one gradient step on a given batch and return its metrics."""
        losses = self._losses(self._predict(batch.steps), batch)
        temperature = self.log_temperature.detach().exp().to(self._device, torch.float32)
        loss = losses["nll"] - temperature * losses["entropy"] + self._config.cost_weight * losses["cost_loss"]
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(self.network.parameters(), self._config.clip)
        rise = min((step + 1) / self._config.warmup, 1.0) if self._config.warmup else 1.0
        for group in self._optimizer.param_groups:
            group["lr"] = self._config.learning_rate * rise
        self._optimizer.step()
        self._temperature_optimizer.zero_grad()
        lack = losses["entropy"].detach().cpu() + batch.steps.actions.shape[-1]
        (self.log_temperature.exp() * lack).backward()  # type: ignore[no-untyped-call]
        self._temperature_optimizer.step()
        return {name: value.detach() for name, value in {"loss": loss, "gradient_norm": norm, **losses}.items()}

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        if self._held_out is None:
            return {}
        batch = self._gather(self._held_out)
        self.network.eval()
        losses = self._losses(self.network(batch.steps), batch)
        self.network.train()
        return {name: float(value) for name, value in losses.items()}

    def policy(self) -> OSRLCDT:
        return OSRLCDT(self._config, copy.deepcopy(self.network))

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {
            **prefixed("network", self.network.state_dict()),
            **prefixed("optimizer", optimizer_tensors(self._optimizer)),
            **prefixed("temperature_optimizer", optimizer_tensors(self._temperature_optimizer)),
            "log_temperature": self.log_temperature,
        }
        plain = {"batches": copy.deepcopy(self._random.bit_generator.state)}
        return {name: tensor.detach().clone() for name, tensor in tensors.items()}, plain

    def load_state(self, tensors: Mapping[str, Tensor], plain: Mapping[str, Any]) -> None:
        self.network.load_state_dict(under("network", tensors))
        load_optimizer_tensors(self._optimizer, under("optimizer", tensors))
        load_optimizer_tensors(self._temperature_optimizer, under("temperature_optimizer", tensors))
        with torch.no_grad():
            self.log_temperature.copy_(tensors["log_temperature"])
        self._random.bit_generator.state = plain["batches"]

    def _losses(self, predicted: Predicted, batch: OSRLBatch) -> dict[str, Tensor]:
        """Return the parts of the loss: means over real steps, and over the entries of an action."""
        real = batch.real[..., None] / (batch.real.sum() * batch.steps.actions.shape[-1])
        z = (batch.steps.actions - predicted.mean) * torch.exp(-predicted.log_std)
        log_prob = -0.5 * z.square() - predicted.log_std - 0.5 * math.log(2 * math.pi)
        each = functional.nll_loss(predicted.cost.flatten(0, 1), batch.costs.flatten(), reduction="none")
        return {
            "nll": -(log_prob * real).sum(),
            "entropy": ((predicted.log_std + 0.5 * (1 + math.log(2 * math.pi))) * real).sum(),
            # NOTE: OSRL divides by all steps, padding included.
            "cost_loss": (each * batch.real.flatten()).mean(),
        }

    def _gather(self, segments: SegmentRows, shifts: Float[np.ndarray, "b 2"] | None = None) -> OSRLBatch:
        """Return segments, with their returns-to-go shifted if they are relabeled."""
        rows, times, real = (
            torch.from_numpy(part).to(self._device) for part in (segments.rows, segments.times, segments.real)
        )
        coming, observations, actions, costs = (column[rows] for column in self._columns)
        if shifts is not None:
            coming = coming + torch.from_numpy(shifts).to(self._device)[:, None]
        return OSRLBatch(OSRLSteps(scaled(coming), observations, actions, times), costs[..., 0].long(), real.float())


def _check(dataset: Dataset) -> None:
    if dataset.costs.shape[1] != 1 or not np.isin(dataset.costs, (0.0, 1.0)).all():
        raise DatasetError(
            f"OSRL's CDT knows one cost that is 0 or 1; the data have {dataset.costs.shape[1]}, up to"
            f" {dataset.costs.max(axis=0).tolist()}. Choose cdt, which takes any."
        )


def _segments(dataset: Dataset, episodes: Int[np.ndarray, " m"], weights: np.ndarray, length: int) -> Segments:
    first, lengths = dataset.offsets[:-1][episodes], dataset.lengths[episodes]
    return Segments(first, lengths, weights, length=length, starts="anywhere")


def relabel_front(returns: Float[np.ndarray, "e 2"], config: OSRLCDTConfig, random: np.random.Generator) -> Relabeled:
    """Return relabeled episodes by OSRL's rules, its shuffled pairs included.

    Episodes are thinned on a grid, a polynomial is fitted through the front of the rest, and target rewards are drawn
    between it and `largest_reward`. An episode nearest to several targets keeps one; the others get stand-ins.

    NOTE: As in OSRL the stand-ins follow their episode in the list while targets stay in order of cost, so most
    pairs are not those that were matched; every episode still costs no more than its target. Where OSRL crashes (a
    front with fewer points than the polynomial has terms) the degree is lowered. OSRL's random numbers are not
    reproduced.
    """
    kept = thin(returns, random)
    rewards, costs = returns[kept, 0], returns[kept, 1]
    count = int(config.relabeled * len(kept))
    if not count:
        return Relabeled(np.zeros(0, dtype=np.int64), np.zeros((0, 2)))
    front = pareto_front(rewards, costs)
    terms = min(config.degree, len(np.unique(costs[front])) - 1)
    curve = np.polynomial.Polynomial.fit(costs[front], rewards[front], terms)
    wanted = np.linspace(costs.min(), costs.max(), count)
    low = np.asarray(curve(wanted)) + 1.0
    gained = low + (config.largest_reward - low) * random.random(count)  # even where low is higher
    distance = np.hypot(wanted[:, None] - costs, gained[:, None] - rewards)
    nearest = np.where(costs <= wanted[:, None], distance, np.inf).argmin(axis=1)
    chosen = _with_stand_ins(rewards, costs, nearest, config.largest_drop, random)
    return Relabeled(kept[chosen], np.column_stack([gained, wanted]))


def thin(returns: Float[np.ndarray, "e 2"], random: np.random.Generator) -> Int[np.ndarray, " m"]:
    """Return the episodes OSRL keeps: in a grid of 10 costs by 50 rewards, at most 10 per cell, none of 2 or fewer."""
    costs, rewards = returns[:, 1], returns[:, 0]
    cells = [np.floor((x - x.min()) / (np.ptp(x) / bins or 1.0)) for x, bins in ((costs, 10), (rewards, 50))]
    _, cell = np.unique(np.column_stack(cells), axis=0, return_inverse=True)
    order = random.permutation(len(returns))
    order = order[np.argsort(cell.ravel()[order], kind="stable")]
    counts = np.bincount(cell.ravel())
    rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    size = np.repeat(counts, counts)
    return np.sort(order[(rank < 10) & (size > 2)])


def _with_stand_ins(
    rewards: Float[np.ndarray, " e"],
    costs: Float[np.ndarray, " e"],
    nearest: Int[np.ndarray, " m"],
    largest_drop: float,
    random: np.random.Generator,
) -> Int[np.ndarray, " m"]:
    """Return the episode of every target: where several have the same, all but one get others like it."""
    chosen: list[int] = []
    indices, first, counts = np.unique(nearest, return_index=True, return_counts=True)
    for episode, count in sorted(zip(indices, counts, strict=True), key=lambda pair: first[indices == pair[0]][0]):
        chosen.append(episode)
        close = np.flatnonzero((costs <= costs[episode]) & (rewards >= rewards[episode] - largest_drop))
        chances = 1 / (np.hypot(costs[close] - costs[episode], rewards[close] - rewards[episode]) + 1.0)
        chosen.extend(random.choice(close, size=count - 1, p=chances / chances.sum()))
    return np.array(chosen, dtype=np.int64)


def pareto_front(rewards: Float[np.ndarray, " e"], costs: Float[np.ndarray, " e"]) -> Int[np.ndarray, " m"]:
    """Return the episodes that no other beats in one of reward and cost without losing in the other, by rising cost."""
    order = np.lexsort((-rewards, costs))
    best_before = np.concatenate([[-np.inf], np.maximum.accumulate(rewards[order])[:-1]])
    leaders = order[rewards[order] > best_before]
    points = {(costs[i], rewards[i]) for i in leaders}
    return np.array([i for i in order if (costs[i], rewards[i]) in points], dtype=np.int64)
