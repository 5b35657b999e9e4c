import numpy as np
import pytest

from lifesafe.errors import ConfigError, GuaranteeWarning, TrialError
from lifesafe.lab.paper import PaperSearch, PaperSettings

SIDE, LIMIT = 15, 20.0
R, G = np.meshgrid(np.linspace(0.0, 500.0, SIDE), np.linspace(0.0, 60.0, SIDE), indexing="ij")
TARGETS = np.stack([R, G], axis=-1).reshape(-1, 2)
START = 5 * SIDE
REWARDS = 0.6 * TARGETS[:, 0] + 3.0 * TARGETS[:, 1]
COSTS = 2.0 + 0.5 * TARGETS[:, 1] + 0.02 * TARGETS[:, 0]
WIDE = PaperSettings(lengthscales=(400.0, 60.0), noise=0.05, exploration=8, trials=16)


def episodes(index, seed, costs=1):
    noise = np.random.default_rng([index, seed]).normal(0.0, 2.0, (20, 1 + costs))
    means = [REWARDS[index], COSTS[index], 0.4 * TARGETS[index, 0] / 10][: 1 + costs]
    return np.array(means) + noise


def run(search, trials=16, costs=1):
    rows = []
    for trial in range(trials):
        rows.append(search.ask())
        search.tell(rows[-1], episodes(rows[-1], trial, costs))
    return rows


def printed(settings=WIDE):
    with pytest.warns(GuaranteeWarning, match="calls every target safe"):
        return PaperSearch(TARGETS, (START,), LIMIT, reading="printed", settings=settings)


def alpha(trial):
    return np.sqrt(2 * np.log(len(TARGETS) * trial**2 * np.pi**2 / (6 * 0.1)))


def dense_posterior(rows, values, settings=WIDE):
    """Solve for the posterior at once; values are one return of each trial."""
    Z = TARGETS / np.array(settings.lengthscales)
    K = settings.sd**2 * np.exp(-0.5 * ((Z[:, None] - Z[None]) ** 2).sum(-1))
    A = K[np.ix_(rows, rows)] + settings.noise**2 * np.eye(len(rows))
    mean = K[:, rows] @ np.linalg.solve(A, values)
    return mean, np.sqrt(np.diag(K) - (K[:, rows] * np.linalg.solve(A, K[rows]).T).sum(1))


def test_as_printed_every_target_is_safe_after_one_step_and_limits_are_broken():
    search = printed()
    assert search.safe.all()
    assert (COSTS[run(search)] > LIMIT).any()


def test_as_printed_the_last_query_is_operated():
    search = printed()
    assert search.best == START
    rows = run(search)
    assert search.best == rows[-1]


def test_consistent_asks_only_targets_whose_own_bound_keeps_the_limit():
    search = PaperSearch(TARGETS, (START,), LIMIT, settings=WIDE)
    rows, upper = [], np.full(len(TARGETS), np.inf)
    upper[START] = 1.0
    for trial in range(WIDE.trials):
        means = [episodes(row, t)[:, 1].mean() / LIMIT for t, row in enumerate(rows)]
        mean, sd = dense_posterior(rows, np.array(means))
        upper = np.minimum(upper, mean + alpha(trial + 1) * sd)
        np.testing.assert_allclose(search.bounds[1][:, 0], upper, rtol=1e-6)
        rows.append(search.ask())
        assert upper[rows[-1]] <= 1.0
        search.tell(rows[-1], episodes(rows[-1], trial))
    assert rows[0] == START
    assert len(set(rows)) > 5
    assert (COSTS[rows] <= LIMIT).all()


def test_a_start_that_turns_out_unsafe_stays_in_the_safe_set_it_was_assumed_in():
    search = PaperSearch(TARGETS, (START,), 1.0, settings=WIDE)
    run(search, 4)
    assert search.safe[START]


def test_a_target_that_proves_too_costly_is_unsafe_again_and_not_operated():
    search = PaperSearch(TARGETS, (START,), LIMIT, settings=WIDE)
    run(search, 5)
    row = next(row for row in np.flatnonzero(search.safe)[::-1] if row != START)
    search.tell(row, np.tile([1e4, 5 * LIMIT], (20, 1)))
    assert not search.safe[row]
    assert search.best != row


def test_consistent_explores_the_widest_target_whose_optimistic_observation_adds_one():
    search = PaperSearch(TARGETS, (START,), LIMIT, settings=WIDE)
    rows = run(search, 5)
    costs = [episodes(row, trial)[:, 1].mean() / LIMIT for trial, row in enumerate(rows)]
    lower, upper = (bound[:, 0] for bound in search.bounds)
    expanders = []
    for row in np.flatnonzero(search.safe):
        mean, sd = dense_posterior([*rows, row], np.array([*costs, lower[row]]))
        if (mean + alpha(6) * sd <= 1.0)[~search.safe].any():
            expanders.append(row)
    assert 0 < len(expanders) < search.safe.sum()
    assert search.ask() == max(expanders, key=lambda row: upper[row] - lower[row])


def test_consistent_maximizes_the_optimistic_reward_after_exploring():
    search = PaperSearch(TARGETS, (START,), LIMIT, settings=WIDE)
    rows = run(search, WIDE.exploration)
    means, sd = search.posterior
    score = np.where(search.safe, means[:, 0] + alpha(len(rows) + 1) * sd, -np.inf)
    assert search.ask() == score.argmax()


def test_consistent_operates_a_tried_safe_target_with_the_largest_mean_reward():
    search = PaperSearch(TARGETS, (START,), LIMIT, settings=WIDE)
    rows = run(search)
    assert search.best in rows
    assert search.safe[search.best]
    assert search.posterior[0][search.best, 0] == search.posterior[0][rows, 0].max()
    assert REWARDS[search.best] > REWARDS[START] + 50


def test_the_posterior_equals_a_dense_solve():
    search = PaperSearch(TARGETS, (START,), LIMIT, settings=WIDE)
    rows = run(search)
    data = np.array([episodes(row, trial).mean(axis=0) for trial, row in enumerate(rows)])
    means, sd = search.posterior
    for column, scale in ((0, 500.0), (1, LIMIT)):
        mean, deviation = dense_posterior(rows, data[:, column] / scale)
        np.testing.assert_allclose(means[:, column], mean, atol=1e-8)
        np.testing.assert_allclose(sd, deviation, atol=1e-6)


def test_asking_twice_gives_the_same_target():
    search = PaperSearch(TARGETS, (START,), LIMIT, settings=WIDE)
    run(search, 4)
    assert search.ask() == search.ask()


def test_every_one_of_several_costs_keeps_its_own_limit():
    search = PaperSearch(TARGETS, (START,), (LIMIT, 12.0), settings=WIDE)
    rows = run(search, costs=2)
    assert (search.bounds[1][rows] <= 1.0).all()
    assert len(set(rows)) > 5
    assert (0.04 * TARGETS[rows, 0] <= 12.0).all()
    assert search.posterior[0].shape == (len(TARGETS), 3)


def test_several_costs_share_delta():
    one = PaperSearch(TARGETS, (START,), LIMIT, delta=0.1)
    two = PaperSearch(TARGETS, (START,), (LIMIT, 12.0), delta=0.2)
    assert one.bounds[1][0, 0] == two.bounds[1][0, 0]


def test_no_trial_is_asked_after_the_last():
    search = PaperSearch(TARGETS, (START,), LIMIT, settings=WIDE)
    run(search)
    with pytest.raises(TrialError, match="All 16 trials are done"):
        search.ask()


def test_returns_that_do_not_fit_are_refused():
    search = PaperSearch(TARGETS, (START,), LIMIT)
    with pytest.raises(TrialError, match=r"\(m, 2\)"):
        search.tell(START, np.zeros((20, 3)))
    with pytest.raises(TrialError, match="225 candidates"):
        search.tell(225, np.zeros((20, 2)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"starts": ()}, "give rows"),
        ({"starts": (225,)}, "give rows"),
        ({"limits": 0.0}, "above 0"),
        ({"delta": 1.0}, "between 0 and 1"),
        ({"reading": "improved"}, "printed or consistent"),
        ({"settings": PaperSettings(noise=0.0)}, "above 0"),
        ({"settings": PaperSettings(sd=0.1)}, "give a larger sd"),
    ],
)
def test_impossible_settings_are_refused(change, message):
    arguments = {"starts": (START,), "limits": LIMIT} | change
    with pytest.raises(ConfigError, match=message):
        PaperSearch(TARGETS, **arguments)
