"""Perceptrons and critics."""

import torch
from torch import nn

from lifesafe.lab.baselines.networks import Critics, mlp


def test_dropout_follows_every_hidden_layer() -> None:
    layers = mlp(3, 8, 2, 4, dropout=0.5)
    assert [type(layer) for layer in layers] == 2 * [nn.Linear, nn.ReLU, nn.Dropout] + [nn.Linear]
    assert not any(isinstance(layer, nn.Dropout) for layer in mlp(3, 8, 3, 4))


def test_critics_say_the_same_at_once_as_in_turn_and_learn_the_same() -> None:
    torch.manual_seed(0)
    critics = Critics(5, width=7, depth=3, returns=2, critics=3)
    inputs = torch.randn(11, 5, requires_grad=True)
    learned = [inputs, *critics.parameters()]
    in_turn, at_once = critics._in_turn(inputs), critics._at_once(inputs)
    assert in_turn.shape == at_once.shape == (6, 11, 1)
    torch.testing.assert_close(in_turn, at_once)
    for one, other in zip(
        torch.autograd.grad(in_turn.square().sum(), learned),
        torch.autograd.grad(at_once.square().sum(), learned),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
