import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifesafe.errors import ConfigError
from lifesafe.lab.theory.kernels import correlation_matrix

KERNELS = ("rbf", "matern32", "matern52")
OBVIOUS = {
    "rbf": lambda r: np.exp(-(r**2) / 2),
    "matern32": lambda r: (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r),
    "matern52": lambda r: (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r),
}


@given(
    kernel=st.sampled_from(KERNELS),
    n=st.integers(0, 7),
    m=st.integers(0, 9),
    d=st.integers(1, 4),
    seed=st.integers(0, 2**32 - 1),
)
def test_matrix_follows_the_formula_of_the_book(kernel, n, m, d, seed):
    random = np.random.default_rng(seed)
    X, Y = random.normal(size=(n, d)), random.normal(size=(m, d))
    distances = np.linalg.norm(X[:, None, :] - Y[None, :, :], axis=-1)
    np.testing.assert_allclose(correlation_matrix(kernel, X, Y), OBVIOUS[kernel](distances), rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("kernel", KERNELS)
def test_gram_matrix_is_symmetric_with_unit_diagonal_even_far_from_the_origin(kernel):
    X = 1e6 + np.random.default_rng(0).random((150, 3))
    K = correlation_matrix(kernel, X, X)
    np.testing.assert_array_equal(np.diag(K), 1.0)
    np.testing.assert_array_equal(K, K.T)
    assert np.linalg.eigvalsh(K).min() > -1e-10


def test_unknown_kernel_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"Unknown kernel 'matern12'; choose one of rbf, matern32"):
        correlation_matrix("matern12", np.zeros((1, 1)), np.zeros((1, 1)))
