"""The choice under the promise "trial": where trials may be, what they are charged, and when a search is over."""

from collections.abc import Callable
from typing import Any

import jaxtyping
import numpy as np
import pytest

from lifesafe.journal import events as e
from lifesafe.returns import Returns
from lifesafe.safety import Problem, SafeOptimizer, choice
from lifesafe.safety.beliefs import Beliefs
from lifesafe.safety.choice import Choice, Done, choose, forecasts
from lifesafe.safety.ledger import FIRST_EPISODES, TRIAL_EPISODES
from unit.safety.machines import (
    LIMIT,
    START,
    asked,
    followed,
    happened,
    listed,
    plain,
    problem,
    run,
    run_until,
    tell_all,
    tried,
)

SLACK = 1e-9
AXES2 = {"reward": (0.0, 400.0), "cost 1": (0.0, 60.0), "cost 2": (0.0, 60.0)}


def in_steps(target: Returns, rng: np.random.Generator) -> Returns:
    """Earn what is asked for; cost nothing up to half of the box, and four limits beyond."""
    return Returns(target.reward, 80.0 * (target.costs[0] > 30))


def with_a_peak(target: Returns, rng: np.random.Generator) -> Returns:
    """Earn most in the middle, and cost too much beyond it."""
    reward, (cost,) = target.reward / 400, target.costs
    return Returns(rng.normal(300 - 600 * abs(reward - 0.5) - 3 * abs(cost - 18), 5), 26.0 * (reward > 0.55))


def of_knobs(target: dict[str, float], rng: np.random.Generator) -> Returns:
    total = sum(target.values())
    return Returns(rng.normal(total, 0.1), rng.poisson(4.0 * total))


KNOBS = Problem(
    axes=dict.fromkeys("abcdef", (0.0, 2.0)), starts=[(0.1,) * 6], limits=LIMIT, rewards=(0, 12), episodes=110
)
SEARCHES: dict[str, tuple[Problem, Callable[..., Returns]]] = {
    "a box": (problem(episodes=110), plain),
    "a box with an edge": (problem(episodes=110, seed=1), in_steps),
    "a peak beside an edge": (problem(episodes=150, seed=2), with_a_peak),
    "two costs": (Problem(axes=AXES2, starts=[Returns(100, (0, 0))], limits=(LIMIT, 12.0), episodes=90), plain),
    "six knobs": (KNOBS, of_knobs),
    "a list": (listed(episodes=110), plain),
    "a large delta": (problem(episodes=90, delta=0.6), plain),
}


@pytest.fixture(scope="module")
def searches() -> dict[str, list[tuple[Beliefs, e.Asked]]]:
    jaxtyping.config.update("jaxtyping_disable", True)  # six whole searches: others check the shapes
    return {name: followed(SafeOptimizer(given), machine) for name, (given, machine) in SEARCHES.items()}


def decisions(searches: dict[str, Any], name: str) -> list[tuple[Beliefs, e.Asked]]:
    """Return the decisions of the stage search."""
    found = [(before, made) for before, made in searches[name] if made.stage == "search"]
    assert len(found) > 3
    return found


def distance_to_lines(z: np.ndarray, ends: np.ndarray) -> float:
    """Return how far a point is from the nearest of all lines between two of some points, along the worst axis."""
    best = np.inf
    for one in ends:
        for other in ends:
            along, length = other - one, ((other - one) ** 2).sum()
            share = 0.0 if length == 0 else float(np.clip((z - one) @ along / length, 0, 1))
            best = min(best, float(np.abs(one + share * along - z).max()))
    return best


def test_centers_lie_on_lines_between_targets_that_kept_the_limits(searches: dict[str, Any]) -> None:
    new = 0
    for name in SEARCHES:
        near = 1e-9 if SEARCHES[name][0].targets is None else 0.1 + 1e-9
        for before, made in decisions(searches, name):
            center, limits = made.targets[0], np.array(before.problem.limits)
            if center not in before.tried:
                kept = [point for point, own in before.own.items() if (own.means[1:] <= limits).all()]
                z, ends = before.problem.scaled([center])[0], before.problem.scaled(kept)
                assert distance_to_lines(z, ends) <= near
                new += 1
    assert new > 0


@pytest.mark.parametrize("name", SEARCHES)
def test_a_scout_is_near_its_center_and_has_two_tickets_of_ten(searches: dict[str, Any], name: str) -> None:
    scouts = 0
    for before, made in decisions(searches, name):
        assert len(made.tickets) == TRIAL_EPISODES
        if len(made.targets) == 2:
            z, scout = before.problem.scaled(made.targets)
            assert np.abs(z - scout).max() <= 0.3 + SLACK
            assert sorted(made.tickets) == [0] * 8 + [1] * 2
            scouts += 1
    assert scouts > 0


@pytest.mark.parametrize("name", SEARCHES)
def test_targets_lie_in_the_box_or_on_the_list(searches: dict[str, Any], name: str) -> None:
    for before, made in searches[name]:
        for target in made.targets:
            assert before.problem.point(target) == target
            assert before.problem.targets is None or target in before.problem.targets


@pytest.mark.parametrize("name", SEARCHES)
def test_what_a_trial_is_charged_is_the_risk_of_what_pays_with_it(searches: dict[str, Any], name: str) -> None:
    """Nothing for a center that has paid; in full for one whose risk is large; for others no more than in full."""
    kinds = {"again": 0, "in full": 0, "a step": 0}
    for before, made in decisions(searches, name):
        center, alone = made.targets[0], len(made.targets) == 1
        (risk,) = before.expect([center]).risks()
        if center in before.paid:
            assert made.paid == ()
            assert not alone or made.charge == 0.0
            kinds["again"] += 1
        elif before.paid:
            assert made.paid == (center,)
            if risk > 0.1 * before.problem.delta:
                assert made.charge >= risk * (1 - 1e-6)
                kinds["in full"] += 1
            else:
                assert not alone or made.charge <= risk + 1e-4
                kinds["a step"] += 1
        else:  # the start pays with the first trial, and the center on top if it is another
            assert made.paid[0] in before.problem.starts
            assert set(made.paid) == {made.paid[0], center}
            (of_start,) = before.expect([made.paid[0]]).risks()
            assert made.charge >= of_start * (1 - 1e-6)
    assert kinds["a step"] + kinds["in full"] > 0


@pytest.mark.parametrize("name", SEARCHES)
def test_no_center_is_more_doubtful_than_half_of_delta(searches: dict[str, Any], name: str) -> None:
    for before, made in decisions(searches, name):
        if before.paid:
            (risk,) = before.expect(made.targets[:1]).risks()
            assert risk <= max(before.problem.delta / 2, made.allowance) * (1 + 1e-6)


@pytest.mark.parametrize("name", SEARCHES)
def test_forecasts_are_those_of_the_beliefs_before_the_trial(searches: dict[str, Any], name: str) -> None:
    for before, made in decisions(searches, name)[:3]:
        assert made.forecasts == forecasts(before, made.targets)
        assert [each.risk for each in made.forecasts] == pytest.approx(before.expect(made.targets).risks())
        for each in made.forecasts:
            low, high = before.problem.rewards
            assert low - (high - low) <= each.reward[0] <= high + (high - low)
            assert 0 < each.reward[1] < high - low
            assert all(0 <= median <= upper for median, upper in each.costs)


def test_a_search_begins_with_thirty_episodes_of_the_start_and_charges_nothing_for_them() -> None:
    optimizer = SafeOptimizer(problem())
    first = choose(optimizer.beliefs)
    assert isinstance(first, Choice)
    assert (first.stage, first.charge, first.paid) == ("start", 0.0, ())
    assert first.targets == ((100.0, 0.0),)
    assert len(first.tickets) == FIRST_EPISODES


def test_a_start_in_doubt_is_tried_in_tens_until_its_risk_fits() -> None:
    optimizer, seen = SafeOptimizer(problem(incident=2000.0, delta=0.05, episodes=600)), []
    while optimizer.stage == "start":
        before = optimizer.beliefs
        if before.own:
            (risk,) = before.expect(before.problem.starts).risks()
            assert risk > 0.025
            seen.append(risk)
        tell_all(optimizer, 100, 0)
    counts = [len(each.tickets) for each in asked(optimizer, "start")]
    assert counts == [30] + [10] * len(seen)
    assert len(seen) > 2
    (risk,) = optimizer.beliefs.expect(optimizer.problem.starts).risks()
    assert risk <= 0.025


@pytest.mark.parametrize("episodes", [1, 17, 30, 38, 63])
def test_a_search_takes_exactly_the_episodes_it_may(episodes: int) -> None:
    optimizer = run(SafeOptimizer(problem(episodes=episodes)), plain)
    assert optimizer.history.searched == episodes
    assert optimizer.done == f"the {episodes} episodes are used up"
    assert choose(optimizer.beliefs) == Done(optimizer.done)
    last = optimizer.trials[-1].asked
    assert len(last.targets) == 1 or len(last.tickets) == TRIAL_EPISODES  # no scout in a trial that is cut short


def test_the_same_facts_give_the_same_choice_and_another_seed_another() -> None:
    one, same, other = (run(SafeOptimizer(problem(seed=seed)), plain, 3) for seed in (1, 1, 2))
    assert one.ask() == same.ask()
    assert one.history.open.asked == same.history.open.asked
    assert other.ask() != one.ask()


@pytest.mark.parametrize("given", [problem(stop_at=19.0), listed(stop_at=19.0)], ids=["box", "list"])
def test_where_every_episode_is_safe_nothing_is_charged_and_the_whole_box_is_searched(given: Problem) -> None:
    optimizer = SafeOptimizer(given)

    def machine(target: Returns, rng: np.random.Generator) -> Returns:
        return Returns(target.reward, min(target.costs[0], 19.5))

    found = followed(optimizer, machine)
    assert {made.stage for _, made in found} == {"search"}
    assert all(made.charge == 0.0 and len(made.targets) == 1 for _, made in found)
    assert optimizer.best.means[0] > 390
    assert optimizer.done == "no target that may be tried can earn 1% of the reward range more"
    assert optimizer.history.searched < 150


def test_what_makes_everything_doubtful_sends_the_search_back_to_the_start() -> None:
    optimizer = run_until(SafeOptimizer(problem(episodes=300)), "search")
    while (trial := optimizer.ask()) is not None and trial.stage == "search":
        assert optimizer.history.open is not None
        # Costs of all or nothing: not clearly above the limit in any trial, and no more to be trusted.
        optimizer.tell(trial, [Returns(200, 60.0 * (i < 4)) for i in range(trial.episodes)])
        assert optimizer.held is None
    assert trial is not None, optimizer.done
    assert (trial.stage, trial.targets) == ("start", (START,) * 10)
    assert optimizer.history.trials[trial.number].asked.charge == 0.0


def test_a_scout_is_not_its_center_at_a_corner_of_the_box() -> None:
    beliefs = run(SafeOptimizer(problem()), plain, trials=3).beliefs
    scout, _, _ = choice._scout(beliefs, np.random.default_rng(0), (400.0, 0.0), room=0.0)
    assert scout != (400.0, 0.0)  # the corner itself would add no risk, so it would always fit


def test_a_search_without_risk_left_repeats_what_has_paid_ten_times_and_stops() -> None:
    start, rows = (100.0, 0.0), ((100.0, 0.0),) * 10
    events = [*tried(1, start, rows * 3, stage="start"), *tried(2, start, rows, charge=0.1)]
    for number in range(3, 13):
        found = choose(happened(problem(episodes=300), *events))
        assert (found.targets, found.charge, found.paid) == ((start,), 0.0, ())
        events += [found, e.Told(trial=number, episodes=rows)]
    found = choose(happened(problem(episodes=300), *events))
    assert found.why.startswith("in 10 trials nothing new could be tried: what is left of delta pays for no further")
