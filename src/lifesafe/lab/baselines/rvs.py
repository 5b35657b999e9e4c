"""RvS: a perceptron that is told how much reward and cost the rest of the episode shall bring.

After Emmons et al. 2021, "RvS: What is essential for offline RL via supervised learning?". Each transition is labeled
with what its episode went on to earn and cost; the network learns which action was taken given that and the
observation. There is no history, so it is small and quick, and a yardstick for the transformer.

NOTE: The paper conditions on the mean reward of the remaining steps. We give the remaining *sums* and the time passed:
the same knowledge, without dividing by a number of steps that goes to zero, and targets are sums as well. The head is
a Gaussian whose spread depends on the entry of the action but not on the observation: its mean is then fitted as by
least squares, and held-out likelihoods can be compared with those of other methods.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from lifesafe._random import integer
from lifesafe.data import Dataset
from lifesafe.data.segments import held_out_transitions, returns_to_go, steps_done
from lifesafe.lab.baselines.networks import gaussian_log_density, mlp, perceptron
from lifesafe.policies.export import Exportable
from lifesafe.policies.learner import check_settings, load_optimizer_tensors, optimizer_tensors, prefixed, under
from lifesafe.policies.scaling import Scaling
from lifesafe.policies.to_go import ToGoActor, seen_by_torch
from lifesafe.returns import Returns

_LOG_STD_RANGE = (-5.0, 2.0)
_CHUNK = 8192


@dataclass(frozen=True, kw_only=True)
class RvSConfig:
    """RvS, a return-conditioned perceptron (Emmons et al. 2021)."""

    steps: int = 20_000
    """Gradient steps."""
    batch: int = 512
    """Transitions per gradient step."""
    width: int = 256
    """Neurons of every hidden layer."""
    depth: int = 2
    """Hidden layers."""
    dropout: float = 0.1
    """Fraction of the hidden neurons left out at random in every gradient step."""
    learning_rate: float = 1e-3
    """Step size of AdamW at the start; it falls to zero along a cosine."""
    weight_decay: float = 1e-4
    """Weight decay of AdamW."""
    time: bool = True
    """Whether the network is told how much of the horizon has passed."""
    held_out: float = 0.05
    """Fraction of the episodes that is not trained on, to measure the likelihood on; 0 for none."""

    def __post_init__(self) -> None:
        check_settings(
            self,
            counts=("steps", "batch", "width", "depth"),
            positive=("learning_rate",),
            not_negative=("weight_decay",),
            shares=("dropout", "held_out"),
        )

    def build(self, dataset: Dataset, *, seed: int, device: str = "cpu", compile: bool = False) -> RvSLearner:
        """Return a learner before its first step."""
        return RvSLearner(self, dataset, seed=seed, device=device, compile=compile)


class Inputs(nn.Module):
    """Turns observations, returns to go and steps done into what the network sees, in float64 until the end.

    Attributes:
        scaling: Brings all to the size a network likes.
        least: The least returns to go in the data. Beyond the range seen nothing was learned, so asking for more than
            the most means asking for the most.
        most: The most.
        horizon: The longest episode in the data.
        time: Whether the network is told the time.
    """

    least: Float[Tensor, " r"]
    most: Float[Tensor, " r"]

    def __init__(
        self,
        scaling: Scaling,
        least: Float[np.ndarray, " r"],
        most: Float[np.ndarray, " r"],
        horizon: int,
        *,
        time: bool,
    ) -> None:
        super().__init__()
        self.scaling, self.horizon, self.time = scaling, horizon, time
        self.register_buffer("least", torch.tensor(least, dtype=torch.float64))
        self.register_buffer("most", torch.tensor(most, dtype=torch.float64))

    @property
    def size(self) -> int:
        """How many numbers the network sees."""
        return len(self.scaling.mean) + len(self.least) + int(self.time)

    def forward(
        self, observations: Float[Tensor, "m o"], to_go: Float[Tensor, "m r"], steps: Int[Tensor, " m"]
    ) -> Float[Tensor, "m i"]:
        parts = list(self.scaling(observations, to_go.clamp(self.least, self.most)))
        if self.time:
            parts.append((steps / self.horizon).clamp(max=1.0)[:, None])
        return torch.cat(parts, dim=1)


class RvSNetwork(nn.Module):
    """From scaled inputs to the mean of the action; its spread is the same everywhere."""

    def __init__(self, config: RvSConfig, inputs: int, actions: int) -> None:
        super().__init__()
        self.layers = mlp(inputs, config.width, config.depth, actions, config.dropout)
        self.log_stds = nn.Parameter(torch.zeros(actions))

    def forward(self, inputs: Float[Tensor, "m i"]) -> Float[Tensor, "m a"]:
        means: Tensor = torch.tanh(self.layers(inputs))
        return means


class RvS:
    """A trained return-conditioned perceptron; acts by the mean of its Gaussian."""

    def __init__(self, config: RvSConfig, network: RvSNetwork, inputs: Inputs) -> None:
        self.config = config
        self._network = network.eval().requires_grad_(False)
        self._inputs = inputs

    def actor(self, targets: Sequence[Returns]) -> RvSActor:
        """Return an actor with one row per target, each at the start of an episode."""
        return RvSActor(self._network, self._inputs, targets)

    def tensors(self) -> dict[str, Tensor]:
        return dict(self._network.state_dict())

    def plain(self) -> dict[str, Any]:
        return {
            "actions": len(self._network.log_stds),
            "horizon": self._inputs.horizon,
            "scaling": self._inputs.scaling.plain(),
            "least": self._inputs.least.tolist(),
            "most": self._inputs.most.tolist(),
        }

    def exportable(self) -> Exportable:
        """Return what can be exported of the policy: a step that remembers nothing."""
        network, inputs = copy.deepcopy(self._network), self._inputs
        return Exportable(
            step=RvSStep(network, inputs).eval(),
            state={},
            scaling=inputs.scaling,
            actions=len(network.log_stds),
            horizon=inputs.horizon,
            clamped=False,
        )

    @classmethod
    def from_parts(cls, config: RvSConfig, tensors: Mapping[str, Tensor], plain: Mapping[str, Any]) -> Self:
        scaling = Scaling.from_plain(plain["scaling"])
        inputs = Inputs(scaling, np.array(plain["least"]), np.array(plain["most"]), plain["horizon"], time=config.time)
        with torch.device("meta"):  # without drawing weights that nobody needs
            network = RvSNetwork(config, inputs.size, plain["actions"])
        network.load_state_dict({name: tensor.cpu().clone() for name, tensor in tensors.items()}, assign=True)
        return cls(config, network, inputs)


class RvSStep(nn.Module):
    """The policy as a function of what it sees, for export."""

    def __init__(self, network: RvSNetwork, inputs: Inputs) -> None:
        super().__init__()
        self.network, self.inputs = network, inputs

    def forward(self, observations: Tensor, returns: Tensor, actions: Tensor, times: Tensor) -> tuple[Tensor, ...]:
        return (self.network(self.inputs(observations, returns, times)),)


class RvSActor(ToGoActor):
    """Acts for a batch of episodes."""

    def __init__(self, network: RvSNetwork, inputs: Inputs, targets: Sequence[Returns]) -> None:
        super().__init__(targets, len(inputs.least) - 1)
        linear = [layer for layer in network.layers if isinstance(layer, nn.Linear)]
        # Weights alone: for one row, calling modules takes as long as the work that they do.
        self._weights, self._biases = [layer.weight.t() for layer in linear], [layer.bias for layer in linear]
        self._inputs = inputs

    @torch.inference_mode()
    def act(
        self, observations: Float[np.ndarray, "m o"], rows: Int[np.ndarray, " m"] | None = None
    ) -> Float[np.ndarray, "m a"]:
        chosen = slice(None) if rows is None else rows
        to_go, times = self.to_go[chosen], self.times[chosen]
        inputs = self._inputs(seen_by_torch(observations), torch.from_numpy(to_go), torch.from_numpy(times))
        means: np.ndarray = perceptron(inputs, self._weights, self._biases).tanh_().numpy()
        return means


class RvSLearner:
    """Fits the network to random transitions by maximum likelihood."""

    def __init__(self, config: RvSConfig, dataset: Dataset, *, seed: int, device: str, compile: bool) -> None:
        self._config = config
        self._device = torch.device(device)
        to_go, horizon = returns_to_go(dataset), int(dataset.lengths.max())
        scaling = Scaling.from_dataset(dataset)
        self._inputs = Inputs(scaling, to_go.min(axis=0), to_go.max(axis=0), horizon, time=config.time)
        steps = torch.from_numpy(steps_done(dataset))
        inputs = self._inputs(torch.tensor(dataset.observations), torch.from_numpy(to_go), steps)
        self._columns = inputs.to(self._device), torch.tensor(dataset.actions, device=self._device)
        held_out = held_out_transitions(dataset, config.held_out, seed=seed)
        self._rows = torch.from_numpy(np.flatnonzero(~held_out))
        self._held_out = torch.from_numpy(np.flatnonzero(held_out))
        with torch.random.fork_rng(devices=[]):  # the weights depend on the seed alone
            torch.manual_seed(integer(seed, "rvs", "weights"))
            network = RvSNetwork(config, self._inputs.size, dataset.actions.shape[1])
        _set_spread(network, dataset.actions)
        self._network = network.to(self._device)
        self._means = torch.compile(self._network) if compile else self._network
        self._generator = torch.Generator().manual_seed(integer(seed, "rvs", "batches"))
        matrices = [parameter for parameter in self._network.parameters() if parameter.ndim > 1]
        vectors = [parameter for parameter in self._network.parameters() if parameter.ndim <= 1]
        groups: list[dict[str, Any]] = [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]
        self._optimizer = torch.optim.AdamW(
            groups,
            lr=config.learning_rate,
            weight_decay=config.weight_decay,
            fused=self._device.type in ("cpu", "cuda"),
        )

    def update(self, step: int) -> dict[str, Tensor]:
        drawn = torch.randint(len(self._rows), (self._config.batch,), generator=self._generator)
        nll, squared_error = self._losses(self._rows[drawn])
        loss = nll.mean()
        rate = self._config.learning_rate * 0.5 * (1 + math.cos(math.pi * step / self._config.steps))
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        with torch.no_grad():
            self._network.log_stds.clamp_(*_LOG_STD_RANGE)
        return {"loss": loss.detach(), "squared_error": squared_error.detach().mean()}

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        if not len(self._held_out):
            return {}
        self._network.eval()
        chunks = [self._losses(rows) for rows in self._held_out.chunk(math.ceil(len(self._held_out) / _CHUNK))]
        self._network.train()
        nll, squared_error = (torch.cat(parts).double().mean().item() for parts in zip(*chunks, strict=True))
        return {"nll": nll, "squared_error": squared_error}

    def policy(self) -> RvS:
        network = copy.deepcopy(self._network).cpu()
        return RvS(self._config, network, self._inputs)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {
            **prefixed("network", self._network.state_dict()),
            **prefixed("optimizer", optimizer_tensors(self._optimizer)),
            "generator": self._generator.get_state(),
        }
        return {name: tensor.detach().clone() for name, tensor in tensors.items()}, {}

    def load_state(self, tensors: Mapping[str, Tensor], plain: Mapping[str, Any]) -> None:
        self._network.load_state_dict(under("network", tensors))
        load_optimizer_tensors(self._optimizer, under("optimizer", tensors))
        self._generator.set_state(tensors["generator"])

    def _losses(self, rows: Int[Tensor, " m"]) -> tuple[Float[Tensor, " m"], Float[Tensor, " m"]]:
        """Return the negative log-likelihood and the mean squared error of each transition's action."""
        rows = rows.to(self._device)
        inputs, actions = (column.index_select(0, rows) for column in self._columns)
        means = self._means(inputs)
        squared_error = (means.detach() - actions).square().mean(-1)
        log_density = gaussian_log_density(actions, means, self._network.log_stds.exp().expand_as(means))
        return -log_density / actions.shape[1], squared_error


def _set_spread(network: RvSNetwork, actions: Float[np.ndarray, "n a"]) -> None:
    """Begin with the spread of all actions: a good guess while the mean knows nothing."""
    spread = np.maximum(actions.std(axis=0, dtype=np.float64), math.exp(_LOG_STD_RANGE[0]))
    with torch.no_grad():
        network.log_stds.copy_(torch.from_numpy(np.log(spread)))
