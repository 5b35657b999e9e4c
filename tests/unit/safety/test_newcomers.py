"""The choice under the promise "total": whom the account pays for, who is the base, and whom to put to the test."""

from collections.abc import Callable
from typing import Any

import jaxtyping
import numpy as np
import pytest

from lifesafe.errors import NoSafeTargetError
from lifesafe.journal import events as e
from lifesafe.journal.events import Point
from lifesafe.returns import Returns
from lifesafe.safety import Problem, SafeOptimizer
from lifesafe.safety.account import NEWCOMERS, Account
from lifesafe.safety.beliefs import Beliefs
from lifesafe.safety.newcomers import TRIES
from unit.safety.machines import START, followed, free, listed, problem, run, run_until, stopped, tell_all

TOTAL: dict[str, Any] = {"promise": "total", "stop_at": 39.0, "episodes": 250}


def at_once(target: Returns, rng: np.random.Generator) -> Returns:
    """Cost nothing, or as much as can be: a little less than the limit on average where it is asked for."""
    return Returns(target.reward, 40.0 * (rng.random() < 0.012 * target.costs[0]))


def adversary(target: Returns, rng: np.random.Generator) -> Returns:
    return Returns(400, 40.0 if tuple(target) != tuple(START) else 5.0)


SEARCHES: dict[str, tuple[Problem, Callable[..., Returns]]] = {
    "a box": (problem(**TOTAL), stopped),
    "a list": (listed(**TOTAL), stopped),
    "all or nothing": (problem(seed=2, **TOTAL), at_once),
    "newcomers that always cost the most": (problem(**TOTAL | {"episodes": 120}), adversary),
}


@pytest.fixture(scope="module")
def searches() -> dict[str, list[tuple[Beliefs, e.Asked]]]:
    jaxtyping.config.update("jaxtyping_disable", True)  # whole searches: others check the shapes
    return {name: followed(SafeOptimizer(given), machine) for name, (given, machine) in SEARCHES.items()}


def account(beliefs: Beliefs) -> Account:
    assert beliefs.account is not None
    return beliefs.account


@pytest.mark.parametrize("name", SEARCHES)
def test_whoever_is_not_certified_is_a_newcomer_or_a_start_without_a_base(searches: dict[str, Any], name: str) -> None:
    for before, made in searches[name]:
        (target,) = made.targets
        if target not in before.certified and made.stage not in NEWCOMERS:
            assert made.stage == "start"
            assert target in before.problem.starts
            assert not before.certified
        assert made.stage != "base" or target in before.certified
        assert (made.charge, made.allowance, made.paid) == (0.0, 0.0, ())


@pytest.mark.parametrize("name", SEARCHES)
def test_the_base_is_the_cheapest_certified_target_and_runs_until_a_newcomer_can_be_paid_for(
    searches: dict[str, Any], name: str
) -> None:
    bases = 0
    for before, made in searches[name]:
        if made.stage == "base":
            own = before.own
            assert own[made.targets[0]].means[1] == min(own[point].means[1] for point in before.certified)
            assert account(before).affords == 0
            missing = account(before).prices[0] - account(before).holds[0]
            saving = 20.0 - own[made.targets[0]].means[1]
            assert (len(made.tickets) - 1) * saving < missing + 1e-6
            assert len(made.tickets) <= 10
            bases += 1
    assert bases > 0


@pytest.mark.parametrize("name", SEARCHES)
def test_proposals_get_six_episodes_each_and_a_test_after_three(searches: dict[str, Any], name: str) -> None:
    had: dict[Any, int] = {}
    since: set[Any] = set()
    tests = 0
    for before, made in searches[name]:
        target = made.targets[0]
        if made.stage == "newcomer":
            had[target] = had.get(target, 0) + len(made.tickets)
            since.add(target)
            assert len(made.tickets) <= TRIES == 6
            assert had[target] <= TRIES or before.problem.targets is not None  # a list has no others some time
            assert target not in before.certified
        elif made.stage == "test":
            assert target in had or target in before.bets
            assert target in before.bets or len(since) >= 3 or made is searches[name][-1][1] or before.searched > 60
            since.clear()
            tests += 1
    assert tests > 0 or name == "newcomers that always cost the most"


def test_proposals_on_a_list_are_of_the_list(searches: dict[str, Any]) -> None:
    for before, made in searches["a list"]:
        assert made.targets[0] in before.problem.targets


def test_a_newcomer_that_always_costs_the_most_is_never_certified(searches: dict[str, Any]) -> None:
    before, _ = searches["newcomers that always cost the most"][-1]
    assert before.certified == {(100.0, 0.0)}


def test_a_search_finds_more_than_its_start(searches: dict[str, Any]) -> None:
    for name in ("a box", "a list"):
        before, _ = searches[name][-1]
        assert max(point[0] for point in before.certified) > 200


def test_a_newcomer_whose_episodes_are_told_in_part_gets_the_others_later() -> None:
    optimizer = run_until(SafeOptimizer(problem(**TOTAL)), "newcomer")
    trial = optimizer.ask()
    assert trial is not None
    optimizer.tell(trial, [Returns(300, 0)])
    again = run_until(optimizer, "newcomer").ask()
    assert again.targets[0] == trial.targets[0]


@pytest.mark.parametrize("seed", range(3))
def test_nobody_of_a_list_is_looked_at_twice(seed: int) -> None:
    optimizer = run(SafeOptimizer(listed(**TOTAL)), stopped, seed=seed)
    looks: dict[Point, int] = {}
    for tried in optimizer.history.told:
        if tried.asked.stage == "newcomer":
            looks[tried.center] = looks.get(tried.center, 0) + tried.was_told
    assert len(looks) > 3
    assert set(looks.values()) <= set(range(1, TRIES + 1))


def test_a_search_is_over_when_nobody_is_likely_to_earn_more() -> None:
    optimizer = SafeOptimizer(problem(starts=[Returns(400, 0)], **TOTAL))
    run(optimizer, free)
    assert optimizer.done == "no target is likely to earn more and to keep the limits"
    assert optimizer.history.searched < 200


@pytest.mark.parametrize("episodes", [7, 33])
def test_a_search_takes_no_more_episodes_than_it_may(episodes: int) -> None:
    optimizer = run(SafeOptimizer(problem(**TOTAL | {"episodes": episodes})), stopped)
    assert optimizer.history.searched == episodes
    assert optimizer.done == f"the {episodes} episodes are used up"


def test_a_start_without_a_certificate_is_tried_in_tens() -> None:
    optimizer = SafeOptimizer(problem(**TOTAL))
    tell_all(optimizer, 100, 15)
    trial = optimizer.ask()
    assert (trial.stage, trial.targets) == ("start", (START,) * 10)
    assert optimizer.best is None


def test_when_every_start_fails_the_search_says_so() -> None:
    optimizer = SafeOptimizer(problem(**TOTAL))
    while optimizer.done is None:
        tell_all(optimizer, 100, 39)
    assert optimizer.done.startswith("No start can be trusted to keep the limit 20: ")
    with pytest.raises(NoSafeTargetError, match="cost 39 on average"):
        optimizer.ask()
