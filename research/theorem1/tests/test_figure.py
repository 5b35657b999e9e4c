import numpy as np
import pytest

from lifesafe.errors import ConfigError
from theorem1 import Settings, make_case, study
from theorem1.figure import draw_bias, draw_covariance, draw_quantiles, draw_scaling, theorem1_figure


@pytest.fixture(scope="module")
def studies():
    quick = Settings(datasets=12, episodes=(200, 800))
    return [study(make_case(name), quick) for name in ("exact", "unrealizable")]


@pytest.fixture
def axes():
    return theorem1_axes()


def theorem1_axes():
    from matplotlib.figure import Figure

    return Figure().subplots()


def test_every_case_has_a_row_of_four_panels(studies):
    figure = theorem1_figure(studies)
    titles = [row.get_suptitle() for row in figure.subfigs]
    assert [title.split(":")[0] for title in titles] == ["exact", "unrealizable"]
    assert [len(row.axes) for row in figure.subfigs] == [4, 4]
    assert "k = 0" in figure.subfigs[0].axes[0].texts[0].get_text()


def test_covariances_are_drawn_over_their_prediction(studies, axes):
    draw_covariance(axes, studies[1])
    printed, right = axes.lines[:2]
    K = studies[1].covariance()
    upper = np.triu_indices(len(K))
    np.testing.assert_allclose(right.get_xdata(), K[upper])
    np.testing.assert_allclose(right.get_ydata(), np.cov(studies[1].samples[-1].deviations.T)[upper])
    np.testing.assert_allclose(printed.get_xdata(), studies[1].covariance("step")[upper])


def test_quantiles_of_the_smallest_and_the_largest_datasets_are_drawn(studies, axes):
    draw_quantiles(axes, studies[1])
    assert [line.get_label() for line in axes.lines[:2]] == ["n = 200", "n = 800"]
    assert len(axes.lines[0].get_xdata()) == 12


def test_deviations_are_drawn_over_the_episodes(studies, axes):
    draw_scaling(axes, studies[1])
    found = next(line for line in axes.lines if line.get_label() == "found")
    assert list(found.get_xdata()) == [200, 800]
    assert list(found.get_ydata()) == [row.deviation for row in studies[1].agreements]


def test_returns_are_drawn_over_their_targets(studies, axes):
    draw_bias(axes, studies[1])
    reward, cost = axes.lines[:2]
    assert list(reward.get_ydata()) == [row.policy[0] for row in studies[1].bias]
    assert list(cost.get_xdata()) == [row.target[1] for row in studies[1].bias]


def test_no_case_is_refused():
    with pytest.raises(ConfigError, match="Got no case"):
        theorem1_figure([])
