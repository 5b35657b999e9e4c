"""The networks of actor-critic methods: critics side by side, a Gaussian actor, a VAE of the logged actions."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Sequence
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import mse_loss, relu

M = TypeVar("M", bound=nn.Module)
_LOG_2PI = math.log(2 * math.pi)


def mlp(
    inputs: int,
    width: int,
    depth: int,
    outputs: int,
    dropout: float = 0.0,
    activation: type[nn.Module] = nn.ReLU,
) -> nn.Sequential:
    """Return a perceptron with `depth` hidden layers, each followed by dropout if there is any."""
    sizes = [inputs, *[width] * depth]
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(sizes):
        layers += [nn.Linear(before, after), activation()]
        if dropout:
            layers.append(nn.Dropout(dropout))
    return nn.Sequential(*layers, nn.Linear(sizes[-1], outputs))


def perceptron(
    inputs: Float[Tensor, "m i"], weights: Sequence[Tensor], biases: Sequence[Tensor]
) -> Float[Tensor, "m o"]:
    """Return what a perceptron with these weights, each (inputs, outputs), says."""
    hidden = torch.addmm(biases[0], inputs, weights[0])
    for weight, bias in zip(weights[1:], biases[1:], strict=True):
        hidden = torch.addmm(bias, hidden.relu_(), weight)
    return hidden


class Critics(nn.Module):
    """Perceptrons of one shape, side by side.

    For every return (the reward, each cost) there are as many critics; their weights are drawn independently.
    """

    def __init__(self, inputs: int, width: int, depth: int, *, returns: int, critics: int) -> None:
        super().__init__()
        self.returns, self.critics = returns, critics
        members = returns * critics
        self.first = nn.Linear(inputs, members * width)
        sizes = [width] * depth + [1]
        self.weights = nn.ParameterList(_uniform((members, i, j), i) for i, j in itertools.pairwise(sizes))
        self.biases = nn.ParameterList(_uniform((members, 1, j), i) for i, j in itertools.pairwise(sizes))

    def forward(self, inputs: Float[Tensor, "m i"]) -> Float[Tensor, "r q m"]:
        # A GPU is meant for few large products; a CPU took some 15 % less time for one critic after the other.
        values = self._in_turn(inputs) if inputs.device.type == "cpu" else self._at_once(inputs)
        return values.view(self.returns, self.critics, len(inputs))

    def _at_once(self, inputs: Float[Tensor, "m i"]) -> Float[Tensor, "rq m 1"]:
        """Return the values of all critics; the first layer is one product, the others batched ones."""
        hidden: Tensor = self.first(inputs).view(len(inputs), self.returns * self.critics, -1).transpose(0, 1)
        for weight, bias in zip(self.weights, self.biases, strict=True):
            hidden = torch.baddbmm(bias, relu(hidden), weight)
        return hidden

    def _in_turn(self, inputs: Float[Tensor, "m i"]) -> Float[Tensor, "rq m 1"]:
        """Return the values of one critic after the other."""
        members = self.returns * self.critics
        first = self.first.weight.view(members, -1, inputs.shape[1]).transpose(1, 2)
        weights = zip(*(layer.unbind() for layer in (first, *self.weights)), strict=True)
        biases = zip(*(layer.unbind() for layer in (self.first.bias.view(members, 1, -1), *self.biases)), strict=True)
        return torch.stack([perceptron(inputs, *member) for member in zip(weights, biases, strict=True)])


class GaussianActor(nn.Module):
    """From observations to a Gaussian over actions before they are squashed by tanh."""

    log_std_range = (-20.0, 2.0)

    def __init__(self, inputs: int, actions: int, width: int, depth: int) -> None:
        super().__init__()
        self.layers = mlp(inputs, width, depth, 2 * actions)

    def forward(self, inputs: Float[Tensor, "m i"]) -> tuple[Float[Tensor, "m a"], Float[Tensor, "m a"]]:
        """Return means and standard deviations."""
        means, log_stds = self.layers(inputs).chunk(2, dim=-1)
        return means, log_stds.clamp(*self.log_std_range).exp()


class ActionVAE(nn.Module):
    """A variational autoencoder of the actions that were logged, given the observation."""

    log_std_range = (-4.0, 15.0)

    def __init__(self, observations: int, actions: int, width: int, latent: int) -> None:
        super().__init__()
        self.latent = latent
        self.encoder = mlp(observations + actions, width, 2, 2 * latent)
        self.decoder = mlp(observations + latent, width, 2, actions)

    def encode(self, pairs: Float[Tensor, "m i"]) -> tuple[Float[Tensor, "m l"], Float[Tensor, "m l"]]:
        """Return mean and standard deviation of the latent variable of each (observation, action)."""
        means, log_stds = self.encoder(pairs).chunk(2, dim=-1)
        return means, log_stds.clamp(*self.log_std_range).exp()

    def decode_raw(self, observations: Float[Tensor, "m o"], latents: Float[Tensor, "m l"]) -> Float[Tensor, "m a"]:
        """Return actions before they are squashed."""
        raw: Tensor = self.decoder(torch.cat([observations, latents], dim=-1))
        return raw

    def decode(self, observations: Float[Tensor, "m o"], latents: Float[Tensor, "m l"]) -> Float[Tensor, "m a"]:
        return torch.tanh(self.decode_raw(observations, latents))

    def loss(
        self, pairs: Float[Tensor, "m i"], actions: Float[Tensor, "m a"], noise: Float[Tensor, "m l"], weight: float
    ) -> Float[Tensor, ""]:
        """Return the squared error of actions that were encoded and decoded again, plus weighted divergence."""
        means, stds = self.encode(pairs)
        decoded = self.decode(pairs[:, : -actions.shape[1]], means + stds * noise)
        return mse_loss(decoded, actions) + weight * divergence(means, stds).mean()


def divergence(means: Float[Tensor, "m l"], stds: Float[Tensor, "m l"]) -> Float[Tensor, " m"]:
    """Return the Kullback-Leibler divergence from the standard normal, a mean over the entries."""
    return 0.5 * (means.square() + stds.square() - 1 - 2 * stds.log()).mean(-1)


def gaussian_log_density(
    values: Float[Tensor, "m a"], means: Float[Tensor, "m a"], stds: Float[Tensor, "m a"]
) -> Float[Tensor, " m"]:
    """Return the log-density of each row under independent Gaussians."""
    return -(0.5 * ((values - means) / stds).square() + stds.log() + 0.5 * _LOG_2PI).sum(-1)


def target_of(network: M) -> M:
    """Return a copy that follows slowly, and that no gradient reaches."""
    return copy.deepcopy(network).requires_grad_(False)


@torch.no_grad()
def follow(target: nn.Module, network: nn.Module, rate: float) -> None:
    """Move a target network a little towards the network it follows."""
    for slow, fast in zip(target.parameters(), network.parameters(), strict=True):
        slow.lerp_(fast, rate)


def _uniform(shape: tuple[int, ...], inputs: int) -> nn.Parameter:
    """Return weights drawn as `nn.Linear` draws them."""
    bound = 1 / math.sqrt(inputs)
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
