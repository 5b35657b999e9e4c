import torch
from torch import nn

from lifesafe.policies.networks import gaussian_nll, mlp


def test_a_perceptron_has_the_layers_asked_for() -> None:
    sizes = [(layer.in_features, layer.out_features) for layer in mlp(3, 8, 2, 4) if isinstance(layer, nn.Linear)]
    assert sizes == [(3, 8), (8, 8), (8, 4)]
    assert mlp(3, 8, 2, 4)(torch.zeros(5, 3)).shape == (5, 4)


def test_dropout_follows_every_hidden_layer() -> None:
    assert [type(layer) for layer in mlp(3, 8, 1, 4, dropout=0.5)] == [nn.Linear, nn.ReLU, nn.Dropout, nn.Linear]
    assert not any(isinstance(layer, nn.Dropout) for layer in mlp(3, 8, 3, 4))


def test_the_likelihood_is_that_of_independent_gaussians() -> None:
    torch.manual_seed(0)
    means, log_stds, actions = torch.randn(6, 3), torch.randn(3), torch.randn(6, 3)
    expected = -torch.distributions.Normal(means, log_stds.exp()).log_prob(actions).mean(-1)
    torch.testing.assert_close(gaussian_nll(means, log_stds, actions), expected)
