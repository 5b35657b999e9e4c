"""Our Gaussian process against scikit-learn, GPyTorch and a direct Cholesky factorization."""

import math
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from lifesafe.optimizer.gp import GridGP

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it uses parts of torch that are
    import gpytorch
    import torch

KERNELS = ("rbf", "matern32", "matern52")
NU = {"matern32": 1.5, "matern52": 2.5}
OBVIOUS = {
    "rbf": lambda r: np.exp(-(r**2) / 2),
    "matern32": lambda r: (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r),
    "matern52": lambda r: (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r),
}


@dataclass(frozen=True)
class Case:
    """A random problem: candidates X (M, d), their prior mean, and observations at some of them."""

    kernel: str
    X: np.ndarray
    lengthscales: tuple[float, ...]
    sd: float
    mean: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    noises: np.ndarray

    def ours(self, order=None) -> GridGP:
        gp = GridGP(np.ascontiguousarray(self.X.T), self.kernel, self.lengthscales, self.sd, self.mean)
        for j in range(len(self.indices)) if order is None else order:
            gp.append(int(self.indices[j]), float(self.values[j]), float(self.noises[j]))
        return gp

    def covariance(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        apart = (A[:, None, :] - B[None, :, :]) / np.array(self.lengthscales)
        return self.sd**2 * OBVIOUS[self.kernel](np.sqrt((apart**2).sum(axis=-1)))


@st.composite
def cases(draw) -> Case:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kernel = draw(st.sampled_from(KERNELS))
    d, M, n = draw(st.integers(1, 3)), draw(st.integers(2, 30)), draw(st.integers(1, 20))
    indices = rng.integers(0, M, n)
    if draw(st.booleans()):
        indices[n // 2 :] = indices[0]  # the same candidate again and again
    sd = float(rng.uniform(0.2, 3.0))
    return Case(
        kernel=kernel,
        X=rng.uniform(0, 1, (M, d)),
        lengthscales=tuple(float(v) for v in rng.uniform(0.05, 2.0, d)),
        sd=sd,
        mean=rng.normal(0, 2, M),
        indices=indices,
        values=rng.normal(0, 2, n),
        noises=sd**2 * rng.uniform(1e-3, 1.0, n),
    )


def direct(case: Case) -> tuple[np.ndarray, np.ndarray, float]:
    """Return mean, covariance of all candidates and log marginal likelihood, Rasmussen & Williams Eq. 2.25-2.30."""
    observed = case.X[case.indices]
    K = case.covariance(observed, observed) + np.diag(case.noises)
    cross = case.covariance(observed, case.X)
    L = np.linalg.cholesky(K)
    residual = case.values - case.mean[case.indices]
    a = np.linalg.solve(L.T, np.linalg.solve(L, residual))
    V = np.linalg.solve(L, cross)
    likelihood = -0.5 * residual @ a - np.log(np.diag(L)).sum() - 0.5 * len(a) * math.log(2 * math.pi)
    return case.mean + cross.T @ a, case.covariance(case.X, case.X) - V.T @ V, float(likelihood)


def by_sklearn(case: Case) -> tuple[np.ndarray, np.ndarray, float]:
    lengths = case.lengthscales
    kernel = RBF(lengths) if case.kernel == "rbf" else Matern(lengths, nu=NU[case.kernel])
    regressor = GaussianProcessRegressor(ConstantKernel(case.sd**2) * kernel, alpha=case.noises, optimizer=None)
    regressor.fit(case.X[case.indices], case.values - case.mean[case.indices])
    mean, covariance = regressor.predict(case.X, return_cov=True)
    return case.mean + mean, covariance, float(regressor.log_marginal_likelihood_value_)


class ExactGP(gpytorch.models.ExactGP):
    def __init__(self, X, y, likelihood, kernel) -> None:
        super().__init__(X, y, likelihood)
        self.mean_module, self.covar_module = gpytorch.means.ZeroMean(), kernel

    def forward(self, X):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))


def by_gpytorch(case: Case) -> tuple[np.ndarray, np.ndarray, float]:
    d = case.X.shape[1]
    if case.kernel == "rbf":
        kernel = gpytorch.kernels.RBFKernel(ard_num_dims=d)
    else:
        kernel = gpytorch.kernels.MaternKernel(nu=NU[case.kernel], ard_num_dims=d)
    kernel = gpytorch.kernels.ScaleKernel(kernel).double()
    kernel.base_kernel.lengthscale = torch.tensor(case.lengthscales, dtype=torch.float64)
    kernel.outputscale = torch.tensor(case.sd**2, dtype=torch.float64)
    X, y = torch.tensor(case.X[case.indices]), torch.tensor(case.values - case.mean[case.indices])
    likelihood = gpytorch.likelihoods.FixedNoiseGaussianLikelihood(torch.tensor(case.noises)).double()
    model = ExactGP(X, y, likelihood, kernel).double()
    exact = gpytorch.settings.fast_computations(covar_root_decomposition=False, log_prob=False, solves=False)
    with torch.no_grad(), exact, gpytorch.settings.debug(False), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns when it is evaluated where it was observed
        model.train()
        likelihood.train()
        likelihood_value = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)(model(X), y) * len(y)
        model.eval()
        likelihood.eval()
        posterior = model(torch.tensor(case.X))
        covariance = posterior.covariance_matrix.numpy()
        return case.mean + posterior.mean.numpy(), covariance, float(likelihood_value)


def compare(case: Case, reference: tuple[np.ndarray, np.ndarray, float], tolerance: float) -> None:
    mean, covariance, likelihood = reference
    gp, every = case.ours(), np.arange(len(case.X))
    scale = case.sd**2
    assert len(gp) == len(case.indices)
    np.testing.assert_allclose(gp.mean, mean, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(gp.var / scale, np.diag(covariance) / scale, rtol=0, atol=tolerance)
    block = every[: len(every) // 2 + 1], every[len(every) // 2 :]
    np.testing.assert_allclose(
        gp.covariance(*block) / scale, covariance[np.ix_(*block)] / scale, rtol=0, atol=tolerance
    )
    np.testing.assert_allclose(gp.covariance_with(1) / scale, covariance[1] / scale, rtol=0, atol=tolerance)
    assert gp.log_likelihood == pytest.approx(likelihood, rel=tolerance, abs=tolerance)


@given(case=cases())
def test_posterior_equals_a_direct_cholesky(case: Case) -> None:
    compare(case, direct(case), 1e-9)


@settings(max_examples=25)
@given(case=cases())
def test_posterior_equals_that_of_scikit_learn(case: Case) -> None:
    compare(case, by_sklearn(case), 1e-8)


@settings(max_examples=25)
@given(case=cases())
def test_posterior_equals_that_of_gpytorch(case: Case) -> None:
    compare(case, by_gpytorch(case), 1e-8)


@given(case=cases(), seed=st.integers(0, 999))
def test_posterior_does_not_depend_on_the_order_of_observations(case: Case, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(case.indices))
    one, other = case.ours(), case.ours(order)
    np.testing.assert_allclose(one.mean, other.mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(one.var, other.var, rtol=1e-8, atol=1e-8 * case.sd**2)
    assert one.log_likelihood == pytest.approx(other.log_likelihood, rel=1e-8, abs=1e-8)


@given(case=cases())
def test_the_same_observations_in_the_same_order_give_the_same_bits(case: Case) -> None:
    one, other = case.ours(), case.ours()
    assert one.mean.tobytes() == other.mean.tobytes()
    assert one.var.tobytes() == other.var.tobytes()
    assert one.log_likelihood == other.log_likelihood


@pytest.mark.slow
@settings(max_examples=500)
@given(case=cases())
def test_posterior_equals_all_references_on_many_problems(case: Case) -> None:
    compare(case, direct(case), 1e-9)
    compare(case, by_sklearn(case), 1e-8)
    compare(case, by_gpytorch(case), 1e-8)
