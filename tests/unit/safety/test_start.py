"""Where a search begins: the order of the starts, when one is left, and that enough episodes can certify one."""

from typing import Any

import pytest

from lifesafe.errors import ConfigError, NoSafeTargetError
from lifesafe.journal.events import Point
from lifesafe.returns import Returns
from lifesafe.safety import SafeOptimizer
from lifesafe.safety.certificate import check_start, start_episodes
from lifesafe.safety.start import current_start
from unit.safety.machines import listed, problem, run_until, tell_all

STARTS = [Returns(100, 0), Returns(300, 10), Returns(50, 0)]
TOTAL: dict[str, Any] = {"promise": "total", "stop_at": 39.0}


def search(**settings: Any) -> SafeOptimizer:
    return SafeOptimizer(problem(**{"starts": STARTS, "episodes": 900} | settings))


def tell(optimizer: SafeOptimizer, cost: float) -> Point:
    """Tell the next trial, and return the start that it was for."""
    trial = optimizer.ask()
    assert trial.stage == "start"
    optimizer.tell(trial, [Returns(100, cost)] * trial.episodes)
    return optimizer.problem.point(trial.targets[0])


def risk_of(optimizer: SafeOptimizer, point: Point) -> float:
    beliefs = optimizer.beliefs
    return float(beliefs.expect([point]).risks()[0])


def test_a_start_that_is_more_likely_unsafe_than_not_is_left_for_the_one_least_likely_to_be() -> None:
    optimizer = search()
    first = tell(optimizer, 25)
    assert risk_of(optimizer, first) > 0.5
    found = current_start(optimizer.beliefs)
    assert found is not None
    assert found[0] == 1
    others = [point for point in optimizer.problem.starts if point != first]
    assert found[1] == min(others, key=lambda point: risk_of(optimizer, point))


def test_a_start_in_doubt_is_left_after_sixty_episodes_if_there_is_another() -> None:
    several, alone = search(), search(starts=STARTS[0])
    for _ in range(3):
        assert tell(several, 18.5) == tell(alone, 18.5) == (100.0, 0.0)
    for optimizer in (several, alone):
        tell(optimizer, 18.5)
        assert 0.05 < risk_of(optimizer, (100.0, 0.0)) < 0.5
    assert several.beliefs.own[(100.0, 0.0)].episodes == 60
    assert current_start(several.beliefs)[1] != (100.0, 0.0)
    assert current_start(alone.beliefs) == (0, (100.0, 0.0))


def test_starts_fail_one_after_the_other_each_with_half_of_what_was_allowed_before() -> None:
    optimizer, allowed, seen = search(), [], []
    while (trial := optimizer.ask()) is not None and len(seen) < 3:
        allowed.append(optimizer.history.trials[trial.number].asked.allowance)
        seen.append(tell(optimizer, 35))
        if len(seen) == 3:
            break
    assert set(seen) == set(optimizer.problem.starts)
    assert allowed == pytest.approx([0.05, 0.025, 0.0125])
    with pytest.raises(NoSafeTargetError, match=r"No start can be trusted to keep the limit 20: .* cost 35 on average"):
        optimizer.ask()
    assert optimizer.done is not None
    assert "Give starts that cost less, train the policy longer, or raise the limit." in optimizer.done
    assert optimizer.stage == "done"
    assert optimizer.spent == 0.0


def test_the_last_start_is_tried_while_there_is_some_hope() -> None:
    optimizer = search(starts=STARTS[0])
    tell(optimizer, 21)
    assert 0.5 < risk_of(optimizer, (100.0, 0.0)) < 0.95
    assert current_start(optimizer.beliefs) == (0, (100.0, 0.0))
    while optimizer.done is None:
        tell(optimizer, 24)
    assert risk_of(optimizer, (100.0, 0.0)) >= 0.95
    assert optimizer.history.searched < 900


def test_before_thirty_episodes_no_start_has_failed() -> None:
    optimizer = search()
    trial = optimizer.ask()
    assert trial is not None
    optimizer.tell(trial, [Returns(100, 60)] * 29)
    assert risk_of(optimizer, (100.0, 0.0)) > 0.95
    assert current_start(optimizer.beliefs) == (0, (100.0, 0.0))


def test_a_later_start_pays_from_what_is_allowed_to_it() -> None:
    optimizer = search()
    tell(optimizer, 35)
    run_until(optimizer, "search")
    trial = optimizer.ask()
    asked = optimizer.history.trials[trial.number].asked
    assert asked.paid[0] in optimizer.problem.starts[1:]
    assert asked.charge <= 0.025


@pytest.mark.parametrize(
    ("settings", "episodes"),
    [
        ({}, 30),
        (TOTAL, 10),
        (TOTAL | {"stop_at": 79.0}, 15),
        ({"stop_at": 15.0}, 0),
        (TOTAL | {"stop_at": 15.0}, 0),
        ({"episodes": 20}, None),
    ],
)
def test_how_many_clean_episodes_a_start_takes_is_what_a_search_takes(
    settings: dict[str, Any], episodes: int | None
) -> None:
    given = problem(**settings)
    assert start_episodes(given) == episodes
    if episodes:
        optimizer = SafeOptimizer(given)
        while optimizer.stage == "start":
            tell_all(optimizer, 100, 0)
        assert optimizer.history.searched == episodes


def test_lumps_that_cannot_be_ruled_out_take_more_episodes_of_a_start_or_too_many() -> None:
    counts = [start_episodes(problem(incident=20.0 * lumps, delta=0.05, episodes=2000)) for lumps in (3, 50, 200)]
    assert None not in counts
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


def test_where_nothing_is_assumed_of_lumps_a_start_takes_longest() -> None:
    assumed, open_to_all = (
        start_episodes(problem(episodes=3000, **settings))
        for settings in ({"incident": 400.0}, {"incident": "horizon", "largest": 400.0})
    )
    assert assumed is not None
    assert open_to_all is not None
    assert open_to_all > assumed
    # A mean of one limit in lumps of twenty shows no cost in an episode with a probability of 0.95.
    assert 0.95**open_to_all < 0.1 < 0.95**assumed


def test_the_refusal_of_a_start_names_what_helps() -> None:
    said = r"With episodes = 40 and delta = 0.05 the search could never leave its start: a cost of 4000 can come .*"
    with pytest.raises(ConfigError, match=said + r' larger delta, or stop_at = 40 with promise = "total"'):
        check_start(problem(incident=4000.0, delta=0.05, episodes=40))
    with pytest.raises(ConfigError, match=r"cost of 1001 can come at once.* Give a lower stop_at or more episodes"):
        check_start(problem(promise="total", stop_at=1000.0, episodes=40))
    check_start(listed())
