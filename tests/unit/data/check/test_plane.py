"""How the plane of cost and reward is covered around a limit."""

import numpy as np
import pytest

from lifesafe.data.check import Finding, check
from logs import reckless


def columns(rewards: list[float], costs: list[float]) -> dict[str, np.ndarray]:
    """Return episodes of two steps with these returns."""
    n = len(rewards)
    random = np.random.default_rng(0)
    return {
        "observations": random.normal(size=(2 * n, 2)),
        "actions": random.uniform(-1, 1, size=(2 * n, 1)),
        "rewards": np.repeat(rewards, 2) / 2,
        "costs": np.repeat(costs, 2) / 2,
        "terminals": np.zeros(2 * n),
        "timeouts": np.tile([0, 1], n),
    }


def found(rewards: list[float], costs: list[float], limit: float = 20.0) -> dict[str, Finding]:
    return {finding.code: finding for finding in check(columns(rewards, costs), limits=limit)}


CAREFUL, STEEP = list(np.linspace(0, 60, 121)), list(np.linspace(100, 400, 121))
POOR_NEAR = [300.0 if cost < 5 or cost > 40 else 10.0 + cost / 100 for cost in CAREFUL]
FLAT = [400.0 + cost / 100 if index % 2 else 0.0 for index, cost in enumerate(CAREFUL)]


def test_episodes_are_counted_below_near_and_above_the_limit() -> None:
    finding = found(STEEP, CAREFUL)["coverage"]
    assert finding.message == (
        "41 of 121 episodes keep the limit 20 and earn up to 200; 31 lie near it (cost 10 to 25), 15 of them with"
        " a good reward (190 or more); 80 exceed it."
    )


def test_a_steep_and_dense_frontier_has_nothing_to_complain_about() -> None:
    assert {code for code, finding in found(STEEP, CAREFUL).items() if finding.code != "missing"} == {"coverage"}


@pytest.mark.parametrize(
    ("rewards", "costs", "code", "severity", "words"),
    [
        (STEEP, [cost + 30 for cost in CAREFUL], "none-under-limit", "error", "the cheapest costs 30"),
        (STEEP, [cost + 15 for cost in CAREFUL], "few-under-limit", "warning", "Only 11 episodes keep"),
        (STEEP, [0.0] * 60 + [100.0] * 61, "gap-at-limit", "warning", "the nearest to the limit cost 0 and 100"),
        (POOR_NEAR, CAREFUL, "poor-at-limit", "warning", "0 earn a good reward"),
        (STEEP, [cost / 4 for cost in CAREFUL], "none-above-limit", "note", "the costliest costs 15"),
        (FLAT, CAREFUL, "flat-frontier", "note", "more cost hardly earns more"),
    ],
)
def test_what_the_data_lack_around_the_limit_is_told(
    rewards: list[float], costs: list[float], code: str, severity: str, words: str
) -> None:
    finding = found(rewards, costs)[code]
    assert finding.severity == severity
    assert words in finding.message


def test_without_a_limit_the_ranges_are_told() -> None:
    (finding,) = [f for f in check(columns([1.0, 3.0, 9.0], [0.0, 2.0, 8.0])) if f.code == "returns"]
    assert finding.message == "3 episodes earn 1 to 9 and cost 0 to 8 (median 2)."


def test_an_unfinished_episode_does_not_count() -> None:
    data = columns(STEEP, CAREFUL)
    data["timeouts"][-1] = 0
    (finding,) = [f for f in check(data, limits=20.0) if f.code == "coverage"]
    assert "of 120 episodes" in finding.message


def test_cheap_episodes_that_were_lucky_are_a_warning() -> None:
    logged = reckless(np.random.default_rng(0))
    ends = np.zeros(len(logged.rewards))
    ends[logged.offsets[1:] - 1] = 1
    table = {name: np.asarray(getattr(logged, name)) for name in ("observations", "actions", "rewards", "costs")}
    (finding,) = [
        finding
        for finding in check({**table, "terminals": ends * 0, "timeouts": ends}, limits=10.0)
        if finding.code == "luck"
    ]
    assert finding.severity == "warning"
    assert "the other half alone costs 1." in finding.message
    assert "luck" not in found(STEEP, CAREFUL)
