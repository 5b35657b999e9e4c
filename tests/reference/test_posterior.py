"""The process of a mean cost against dense quadrature over the joint prior, and against an independent sampler."""

import math

import numpy as np
import pytest
from scipy.special import logsumexp, ndtr

from lifesafe.safety import process
from lifesafe.safety.posterior import CostModel, Model, Reward, Sums
from lifesafe.safety.process import kernels

LENGTHS, DEVIATIONS = (0.5, 1.0), (2.0, 0.7)  # rough, smooth


def fit(X, n, S, phis):
    """Return the process of one cost."""
    return process.fit(X, n, np.tile(S, (len(phis), 1)), phis, np.zeros(len(phis), dtype=int))


def cost_at(f):
    """Return the mean cost of a value on the modeled scale, written out."""
    t = (np.exp(np.log(5) * np.minimum(f, 8.0)) - 1) / 0.05
    return 0.0125 * np.logaddexp(0.0, t)


def log_likelihood(f, n, S, phi):
    m = cost_at(f)
    return (S * np.log(m) - n * m) / phi


def covariance(Z, X, q):
    r = np.sqrt(5) * np.linalg.norm(Z[:, None] - X[None], axis=-1) / LENGTHS[q]
    return DEVIATIONS[q] ** 2 * (1 + r + r**2 / 3) * np.exp(-r)


def one_site(n, S, phi, sd):
    """Return mean, deviation, log evidence and P(m > 1) of a single target, on a grid that closes in on its peak."""
    f = np.linspace(1 - 12 * sd, 1 + 12 * sd, 200_001)
    for _ in range(3):
        log_density = log_likelihood(f, n, S, phi) - 0.5 * ((f - 1) / sd) ** 2
        near = np.flatnonzero(log_density > log_density.max() - 60)
        f = np.linspace(f[max(near[0] - 1, 0)], f[min(near[-1] + 1, len(f) - 1)], len(f))
    log_density = log_likelihood(f, n, S, phi) - 0.5 * ((f - 1) / sd) ** 2
    w = np.exp(log_density - log_density.max())
    mean = (w @ f) / w.sum()
    evidence = logsumexp(log_density) + math.log(f[1] - f[0]) - math.log(sd * math.sqrt(2 * math.pi))
    return mean, math.sqrt((w @ (f - mean) ** 2) / w.sum()), evidence, w[f > 1].sum() / w.sum()


def moments(fitted, X, Z):
    found = fitted.moments(kernels(Z, X))
    return found.means, found.sds


@pytest.mark.parametrize("n", [5, 10, 100, 10_000, 1_000_000])
@pytest.mark.parametrize("mean", [0.0, 0.001, 0.1, 0.5, 1.0, 3.0, 50.0])
def test_one_target_has_the_moments_and_the_evidence_of_dense_quadrature(n, mean):
    phis = np.array([0.1, 0.5, 3.0, 50.0])
    fitted = fit(np.array([[0.4, 0.4]]), np.array([float(n)]), np.array([n * mean]), phis)
    means, sds = moments(fitted, np.array([[0.4, 0.4]]), np.array([[0.4, 0.4]]))
    for p, phi in enumerate(phis):
        for q, prior in enumerate(DEVIATIONS):
            c = p * len(DEVIATIONS) + q
            true_mean, true_sd, true_evidence, _ = one_site(n, n * mean, phi, prior)
            assert means[c, 0] == pytest.approx(true_mean, abs=0.05 * true_sd + 1e-6)
            # Nothing is ever known better than to 3e-4; a larger deviation is on the safe side.
            assert true_sd * 0.98 < sds[c, 0] < true_sd * 1.02 + 4e-4
            assert fitted.log_evidence[c] == pytest.approx(true_evidence, abs=0.05, rel=1e-6)


@pytest.mark.parametrize(("n", "mean"), [(10, 0.4), (30, 0.3), (30, 0.7), (100, 0.6), (10, 1.3), (1000, 0.97)])
def test_the_risk_of_a_tried_target_is_close_to_that_of_dense_quadrature(n, mean):
    for phi in (0.2, 0.5, 1.5):
        fitted = fit(np.array([[0.4]]), np.array([float(n)]), np.array([n * mean]), np.array([phi]))
        means, sds = moments(fitted, np.array([[0.4]]), np.array([[0.4]]))
        for q, prior in enumerate(DEVIATIONS):
            true = one_site(n, n * mean, phi, prior)[3]
            # A normal density in f has a tail that is a little thinner than the true one where m is small.
            assert ndtr((means[q, 0] - 1) / sds[q, 0]) == pytest.approx(true, abs=0.02, rel=0.25)


def two_sites(X, n, S, phi, q, z):
    """Return the true moments of f at two targets, the log evidence, and P(m > 1) at a third."""
    K, k = covariance(X, X, q), covariance(np.array([z]), X, q)[0]
    axis = np.linspace(1 - 7 * DEVIATIONS[q], 1 + 5 * DEVIATIONS[q], 1601)
    a, b = np.meshgrid(axis, axis, indexing="ij")
    inverse = np.linalg.inv(K)
    da, db = a - 1, b - 1
    normal = -0.5 * (inverse[0, 0] * da**2 + 2 * inverse[0, 1] * da * db + inverse[1, 1] * db**2)
    log_density = normal + log_likelihood(a, n[0], S[0], phi) + log_likelihood(b, n[1], S[1], phi)
    w = np.exp(log_density - log_density.max())
    w /= w.sum()
    means = np.array([(w * a).sum(), (w * b).sum()])
    sds = np.sqrt([(w * (a - means[0]) ** 2).sum(), (w * (b - means[1]) ** 2).sum()])
    evidence = logsumexp(log_density) + 2 * math.log(axis[1] - axis[0])
    evidence -= 0.5 * np.linalg.slogdet(2 * np.pi * K)[1]
    slope = inverse @ k
    left = math.sqrt(DEVIATIONS[q] ** 2 - k @ slope)
    return means, sds, evidence, (w * ndtr((slope[0] * da + slope[1] * db) / left)).sum()


PAIRS = {
    "both clean": ((20, 30), (0.0, 0.0)),
    "clean and costly": ((30, 10), (0.0, 20.0)),
    "middling": ((20, 10), (8.0, 7.0)),
    "one barely seen": ((60, 1), (30.0, 0.0)),
    "two that disagree": ((10, 10), (1.0, 30.0)),
}


@pytest.mark.parametrize("case", PAIRS)
@pytest.mark.parametrize("apart", [0.05, 0.3])
def test_two_targets_have_the_moments_evidence_and_risks_of_dense_quadrature(case, apart):
    n, S = (np.array(values, dtype=np.float64) for values in PAIRS[case])
    X, z = np.array([[0.4, 0.4], [0.4 + apart, 0.4]]), np.array([0.5 + apart, 0.4])
    phis = np.array([0.5, 3.0])
    fitted = fit(X, n, S, phis)
    means, sds = moments(fitted, X, np.vstack([X, z]))
    for p, phi in enumerate(phis):
        for q in range(2):
            c = 2 * p + q
            true_means, true_sds, true_evidence, true_risk = two_sites(X, n, S, phi, q, z)
            assert np.abs(means[c, :2] - true_means).max() < 0.08 * true_sds.max()
            # Where no episode cost anything the true density is flat below and steep above. A normal one with nearly
            # its moments reaches further up: the risk next to it is too large there, never too small.
            clean = S.max() == 0
            np.testing.assert_allclose(sds[c, :2], true_sds, rtol=0.18 if clean else 0.06)
            assert fitted.log_evidence[c] == pytest.approx(true_evidence, abs=0.1)
            assert true_risk - 0.01 < ndtr((means[c, 2] - 1) / sds[c, 2]) < true_risk + 0.03


def sampled(X, n, S, phi, q, steps, seed, guess):
    """Return draws of f at the targets from the posterior, by elliptical slice sampling (Murray et al. 2010).

    The ellipses are those of a wide normal density around a guess, and its ratio to the prior is corrected for
    (Nishihara et al. 2014): draws are from the posterior whatever the guess is, and chains mix where it is much
    narrower than the prior.
    """
    random = np.random.default_rng(seed)
    K = covariance(X, X, q) + 1e-10 * np.eye(len(X))
    center, spread = guess
    root, inverse = np.linalg.cholesky(spread), np.linalg.inv(K)
    chains = 64
    g = root @ random.standard_normal((len(X), chains))
    kept = []

    def value(g):
        f = center[:, None] + g
        prior = -0.5 * ((f - 1) * (inverse @ (f - 1))).sum(axis=0)
        normal = -0.5 * (np.linalg.solve(root, g) ** 2).sum(axis=0)
        return log_likelihood(f, n[:, None], S[:, None], phi).sum(axis=0) + prior - normal

    for step in range(steps):
        other = root @ random.standard_normal((len(X), chains))
        floor = value(g) + np.log(random.random(chains))
        angle = random.uniform(0, 2 * np.pi, chains)
        low, high = angle - 2 * np.pi, angle.copy()
        new, waiting = g.copy(), np.ones(chains, dtype=bool)
        while waiting.any():
            proposed = g * np.cos(angle) + other * np.sin(angle)
            good = waiting & (value(proposed) > floor)
            new[:, good] = proposed[:, good]
            waiting &= ~good
            low, high = np.where(waiting & (angle < 0), angle, low), np.where(waiting & (angle >= 0), angle, high)
            angle = np.where(waiting, random.uniform(low, high), angle)
        g = new
        if step >= steps // 3:
            kept.append((center[:, None] + g).T)
    return np.concatenate(kept)


def wide_guess(fitted, X, q):
    """Return the mean of the fitted process at the targets, and twice its covariance."""
    prior = covariance(X, X, q)
    spread = prior - prior @ fitted.A[q] @ prior
    return moments(fitted, X, X)[0][q], 2 * spread + 1e-6 * np.eye(len(X))


def against_the_sampler(steps, seed, sites, phi, tolerance):
    random = np.random.default_rng(seed)
    X = random.random((sites, 2))
    n = random.choice([6.0, 8.0, 10.0, 30.0], sites)
    f = 1 + np.linalg.cholesky(covariance(X, X, 1) + 1e-9 * np.eye(sites)) @ random.standard_normal(sites) - 0.3
    S = phi * random.poisson(n * cost_at(f) / phi)
    Z = random.random((12, 2))
    fitted = fit(X, n, S, np.array([phi]))
    for q in range(2):
        draws = sampled(X, n, S, phi, q, steps, seed, wide_guess(fitted, X, q))
        means, sds = moments(fitted, X, X)
        assert np.abs(means[q] - draws.mean(axis=0)).max() < tolerance * draws.std(axis=0).max()
        # See above: where no episode cost anything a normal density is too narrow below.
        assert (np.abs(sds[q] / draws.std(axis=0) - 1) < np.where(S > 0, tolerance, 0.2)).all()
        # Held-out targets: given f at the targets that were tried they are normal.
        K, k = covariance(X, X, q) + 1e-10 * np.eye(sites), covariance(Z, X, q)
        slope = np.linalg.solve(K, k.T).T
        center = 1 + (draws - 1) @ slope.T
        left = np.sqrt(np.maximum(DEVIATIONS[q] ** 2 - (slope * k).sum(axis=1), 1e-9))
        risk = ndtr((center - 1) / left).mean(axis=0)
        means, sds = moments(fitted, X, Z)
        assert np.abs(means[q] - center.mean(axis=0)).max() < tolerance * DEVIATIONS[q]
        more = ndtr((means[q] - 1) / sds[q]) - risk
        assert more.min() > -0.35 * tolerance
        assert more.max() < 0.5 * tolerance  # too much is the safe side
        against_the_sampler_at_lotteries(X, n, fitted, phi, q, Z, draws, center, left, tolerance, random)


def against_the_sampler_at_lotteries(X, n, fitted, phi, q, Z, draws, center, left, tolerance, random):
    """Compare P(center keeps the limit, lottery does not), the center being a target that was tried."""
    sums = Sums(X, n, np.zeros((len(n), 2)), np.zeros((len(n), 2)))
    cost, weights = CostModel(np.array([phi]), np.ones(1)), np.eye(2)[[q, q]][:, None]
    i = int(np.abs(draws.mean(axis=0) - 0.7).argmin())
    model = Model(sums, (cost,), np.zeros(2, dtype=int), fitted, weights, Reward(sums, 0))
    found = model.expect(Z).added_to(model.expect(X[[i]]), 0.2)
    of_center = cost_at(draws[:, i])[:, None]
    of_scout = cost_at(center + left * random.standard_normal(center.shape))
    true = ((of_center <= 1) & (0.8 * of_center + 0.2 * of_scout > 1)).mean(axis=0)
    assert np.abs(found - true).max() < 0.35 * tolerance


@pytest.mark.parametrize(("seed", "sites", "phi"), [(0, 8, 0.4), (1, 15, 0.4), (2, 10, 3.0)])
def test_the_process_agrees_with_an_independent_sampler(seed, sites, phi):
    against_the_sampler(steps=600, seed=seed, sites=sites, phi=phi, tolerance=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("phi", [0.2, 0.8, 3.0])
def test_the_process_agrees_with_a_long_run_of_an_independent_sampler(seed, phi):
    against_the_sampler(steps=1500, seed=seed, sites=8 + seed, phi=phi, tolerance=0.04)
