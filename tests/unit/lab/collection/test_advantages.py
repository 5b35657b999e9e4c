import numpy as np

from lifesafe.lab.collection.advantages import advantages

DISCOUNTS = np.array([0.9, 0.97])
TRACE = 0.8


def slow(rewards: np.ndarray, values: np.ndarray, ends: np.ndarray, discount: float) -> list[float]:
    """Return the advantages of one row by the definition: a sum over all later errors of the same episode."""
    result = []
    for start in range(len(rewards)):
        total, weight = 0.0, 1.0
        for step in range(start, len(rewards)):
            ahead = 0.0 if ends[step] else values[step + 1]
            total += weight * (rewards[step] + discount * ahead - values[step])
            if ends[step]:
                break
            weight *= discount * TRACE
        result.append(total)
    return result


def test_advantages_equal_the_sum_over_later_errors() -> None:
    random = np.random.default_rng(0)
    rewards, values = random.normal(size=(30, 4, 2)), random.normal(size=(31, 4, 2))
    ends = random.random((30, 4)) < 0.15
    assert ends.any()
    found = advantages(rewards, values, ends, DISCOUNTS, TRACE)
    for row in range(4):
        for column in range(2):
            expected = slow(rewards[:, row, column], values[:, row, column], ends[:, row], DISCOUNTS[column])
            np.testing.assert_allclose(found[:, row, column], expected, rtol=1e-12)
