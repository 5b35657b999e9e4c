import numpy as np
import pytest

from lifesafe.lab.collection.multipliers import Multipliers

LIMITS = np.array([[1.0], [10.0], [40.0]])
MIDDLE = np.array([0.5])
USUAL = {"damping": 2.0, "least": 0.05}


def test_a_multiplier_rises_while_episodes_cost_more_than_the_limit_and_falls_otherwise() -> None:
    for cost, direction in ((30.0, 1), (2.0, -1)):
        multipliers = Multipliers(LIMITS, rate=0.1, **USUAL)
        history = [float(multipliers(MIDDLE)[0, 0])]
        for _ in range(10):
            multipliers.update(MIDDLE, np.array([[cost]]))
            history.append(float(multipliers(MIDDLE)[0, 0]))
        assert (direction * np.diff(history) > 0).all()


def test_episodes_teach_only_the_knots_next_to_their_limit() -> None:
    multipliers = Multipliers(LIMITS, rate=0.1, **USUAL)
    before = multipliers(np.array([0.0, 0.5, 1.0]))
    multipliers.update(np.array([0.3, 0.4]), np.full((2, 1), 90.0))
    after = multipliers(np.array([0.0, 0.5, 1.0]))
    assert (after[:2] > before[:2]).all()
    assert after[2] == before[2]


def test_only_the_ratio_of_cost_and_limit_matters() -> None:
    small, large = Multipliers(LIMITS, rate=0.1, **USUAL), Multipliers(1000 * LIMITS, rate=0.1, **USUAL)
    for cost in (3.0, 50.0, 12.0):
        small.update(MIDDLE, np.array([[cost]]))
        large.update(MIDDLE, np.array([[1000 * cost]]))
    np.testing.assert_allclose(small(MIDDLE), large(MIDDLE))


def test_none_falls_below_the_least_and_without_damping_it_stands_there() -> None:
    multipliers = Multipliers(LIMITS, rate=1.0, damping=0.0, least=0.02)
    for _ in range(200):
        multipliers.update(np.array([1.0]), np.array([[0.0]]))
    assert multipliers(np.array([1.0]))[0, 0] == pytest.approx(0.02)


@pytest.mark.parametrize("position", [0.0, 0.13, 0.5, 0.99, 1.0])
def test_features_share_a_position_between_its_two_knots(position: float) -> None:
    multipliers = Multipliers(LIMITS, rate=0.1, **USUAL)
    shares = multipliers.features(np.array([position]))[0]
    assert shares.sum() == pytest.approx(1)
    assert (shares > 0).sum() <= 2
    assert shares @ multipliers.positions == pytest.approx(position)
