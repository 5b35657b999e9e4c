import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lifesafe.theory.kernels as kernels
from lifesafe.errors import ConfigError
from lifesafe.theory.kernels import correlation, correlation_matrix

KERNELS = ("rbf", "matern32", "matern52")
OBVIOUS = {
    "rbf": lambda r: np.exp(-(r**2) / 2),
    "matern32": lambda r: (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r),
    "matern52": lambda r: (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r),
}


def obvious_matrix(kernel, X, Y):
    return OBVIOUS[kernel](np.linalg.norm(X[:, None, :] - Y[None, :, :], axis=-1))


@pytest.mark.parametrize("kernel", KERNELS)
def test_correlation_follows_its_formula(kernel):
    r = np.linspace(0, 12, 400).reshape(20, 20)
    np.testing.assert_allclose(correlation(kernel, r), OBVIOUS[kernel](r), rtol=1e-13, atol=1e-300)


@pytest.mark.parametrize("kernel", KERNELS)
def test_correlation_falls_from_exactly_one_to_zero_and_keeps_the_shape(kernel):
    values = correlation(kernel, np.array([0.0, 1e-9, 0.1, 1.0, 5.0, 1e4]))
    assert values[0] == 1.0
    assert np.all(np.diff(values) <= 0)
    assert values[-1] == 0.0
    assert correlation(kernel, np.array(0.0)).shape == ()
    assert correlation(kernel, np.empty((0, 3))).shape == (0, 3)


def test_correlation_leaves_its_argument_alone():
    r = np.array([0.0, 1.0, 2.0])
    correlation("matern52", r)
    np.testing.assert_array_equal(r, [0.0, 1.0, 2.0])


@given(
    kernel=st.sampled_from(KERNELS),
    n=st.integers(0, 7),
    m=st.integers(0, 9),
    d=st.integers(1, 4),
    block=st.sampled_from([1, 3, 8, 1000]),
    seed=st.integers(0, 2**32 - 1),
)
def test_matrix_equals_the_obvious_formula_at_any_block_size(kernel, n, m, d, block, seed):
    random = np.random.default_rng(seed)
    X, Y = random.normal(size=(n, d)), random.normal(size=(m, d))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "_BLOCK", block)
        result = correlation_matrix(kernel, X, Y)
    assert result.shape == (n, m)
    np.testing.assert_allclose(result, obvious_matrix(kernel, X, Y), rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("kernel", KERNELS)
def test_gram_matrix_is_symmetric_with_unit_diagonal_even_far_from_the_origin(kernel):
    X = 1e6 + np.random.default_rng(0).random((150, 3))
    K = correlation_matrix(kernel, X, X)
    np.testing.assert_array_equal(np.diag(K), 1.0)
    np.testing.assert_array_equal(K, K.T)
    assert np.linalg.eigvalsh(K).min() > -1e-10


def test_one_row_equals_the_same_row_of_the_matrix():
    X = np.random.default_rng(1).random((300, 2))
    K = correlation_matrix("matern32", X, X)
    np.testing.assert_array_equal(correlation_matrix("matern32", X[17:18], X)[0], K[17])


def test_candidates_may_be_stored_by_columns():
    X = np.random.default_rng(2).random((50, 3))
    np.testing.assert_array_equal(
        correlation_matrix("rbf", X[:2], np.asfortranarray(X)), correlation_matrix("rbf", X[:2], X)
    )


def test_unknown_kernel_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"Unknown kernel 'matern12'; choose one of rbf, matern32"):
        correlation("matern12", np.zeros(1))
    with pytest.raises(ConfigError, match="Unknown kernel"):
        correlation_matrix("cubic", np.zeros((1, 1)), np.zeros((1, 1)))


@pytest.mark.wrong_shapes
@pytest.mark.parametrize("shapes", [((3,), (3, 2)), ((3, 2), (3, 1)), ((2, 2), (2, 2, 2))])
def test_inputs_that_do_not_fit_are_refused(shapes):
    with pytest.raises(ConfigError, match="same number of columns"):
        correlation_matrix("rbf", np.zeros(shapes[0]), np.zeros(shapes[1]))
