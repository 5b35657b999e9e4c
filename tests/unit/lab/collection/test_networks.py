import numpy as np
import torch

from lifesafe.lab.collection.networks import BehaviorNetwork, Scale, log_density


def test_a_scale_knows_mean_and_variance_of_all_it_has_seen() -> None:
    random = np.random.default_rng(0)
    values = random.normal([3.0, -1.0], [0.2, 5.0], size=(1000, 2))
    scale = Scale(2)
    for part in np.split(values, [10, 400]):
        scale.update(part)
    np.testing.assert_allclose(scale.mean, values.mean(axis=0), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(scale.variance, values.var(axis=0), rtol=1e-2)
    normal = scale(values)
    np.testing.assert_allclose(normal.std(axis=0), 1, rtol=1e-2)
    assert scale(np.array([[1e9, -1e9]])).tolist() == [[10, -10]]


def test_log_density_is_that_of_a_normal_distribution() -> None:
    torch.manual_seed(0)
    actions, means, log_deviation = torch.randn(5, 3), torch.randn(5, 3), torch.randn(3)
    expected = torch.distributions.Normal(means, log_deviation.exp()).log_prob(actions).sum(dim=-1)
    torch.testing.assert_close(log_density(actions, means, log_deviation), expected)


def test_noise_does_not_fall_below_the_least() -> None:
    behavior = BehaviorNetwork(4, 2, width=8, noise=0.5, least_noise=0.2)
    with torch.no_grad():
        behavior.log_deviation.fill_(-9.0)
    torch.testing.assert_close(behavior(torch.zeros(1, 4))[1].exp(), torch.full((2,), 0.2))
