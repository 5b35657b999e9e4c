"""The plan: its numbers are those of searches, and what it says would be shorter is."""

from typing import Any

import jaxtyping
import numpy as np
import pytest

from lifesafe.errors import ConfigError
from lifesafe.preparation import planning
from lifesafe.preparation.planning import Effort, effort
from lifesafe.returns import Returns
from lifesafe.safety import Problem, SafeOptimizer
from lifesafe.safety.certificate import start_episodes
from unit.safety.machines import START, problem

KNOBS = {"speed": (0.0, 2.0), "gain": (0.0, 1.0)}


@pytest.fixture(autouse=True)
def _without_checks_of_shapes() -> None:
    """A plan runs many searches: others check the shapes of what they do."""
    jaxtyping.config.update("jaxtyping_disable", True)


def as_planned(target: Returns, rng: np.random.Generator) -> Returns:
    """Return an episode of the machine that plans are made for."""
    mean = target.costs[0] / 20
    reward = target.reward * (0.5 + 0.5 * min(mean, 1.0))
    return Returns(reward + 20 * rng.standard_normal(), 10 * rng.poisson(mean / 0.5))


@pytest.fixture(scope="module")
def planned() -> Effort:
    jaxtyping.config.update("jaxtyping_disable", True)
    return effort(problem(episodes=100))


def test_a_plan_says_what_the_search_takes_at_most_and_what_the_start_takes(planned: Effort) -> None:
    assert (planned.most, planned.start, planned.sure) == (100, start_episodes(problem()), False)
    assert planned.start == 30
    assert planned.usual is None or planned.start < planned.usual <= planned.most
    assert planned.limited_by in ("lumps", "noise", "distance")


def test_what_a_plan_says_is_about_what_a_search_takes(planned: Effort) -> None:
    """The middle of three searches on the machine as planned finds as much as was foretold."""
    found = []
    for seed in (11, 12, 13):
        optimizer, rng = SafeOptimizer(problem(seed=seed, episodes=100)), np.random.default_rng(seed)
        while trial := optimizer.ask():
            optimizer.tell(trial, [as_planned(target, rng) for target in trial.targets])
        reward = as_planned(optimizer.best.target, np.random.default_rng(0)).reward
        found.append((reward - 50) / (400 * 0.875 - 50))
    assert sorted(found)[1] == pytest.approx(planned.gained, abs=0.25)


@pytest.mark.parametrize(
    ("usual", "known"),
    [(90, "most of what can be gained is found after about 90."), (None, "they find about 0% of what can be gained.")],
)
def test_a_plan_speaks_of_what_is_found_or_of_how_much_is_not(usual: int | None, known: str) -> None:
    made = Effort(
        most=150, start=30, usual=usual, gained=-0.2, limited_by="noise", shorter={"stop_at = 40": 60}, sure=False
    )
    now = "more than 150" if usual is None else "90"
    assert known in str(made)
    assert str(made).endswith(f"With stop_at = 40: about 60 instead of {now}.")
    assert "What limits it is how much the episodes of one target differ." in str(made)


def test_where_every_episode_is_safe_there_is_no_start_to_certify_and_nothing_to_offer() -> None:
    made = effort(problem(stop_at=15.0))
    assert (made.start, made.sure, made.shorter) == (0, True, {})
    assert made.usual is not None
    assert made.usual <= 60
    assert "The start takes" not in str(made)


@pytest.mark.parametrize(
    ("settings", "offers"),
    [
        ({}, {"stop_at = 40", 'stop_at = 40 and promise = "total"'}),
        ({"stop_at": 60.0}, {'promise = "total"'}),
        ({"stop_at": 60.0, "promise": "total"}, set()),
        ({"largest": 35.0}, set()),  # no episode ever gets to a stop at 40
    ],
)
def test_only_what_was_not_said_already_and_is_shorter_is_offered(settings: dict[str, Any], offers: set[str]) -> None:
    made = effort(problem(episodes=70, **settings))
    assert set(made.shorter) <= offers
    now = made.most if made.usual is None else made.usual
    assert all(count <= now for count in made.shorter.values())


def test_of_a_long_search_the_first_episodes_are_simulated_and_the_start_is_exact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planning, "_PLANNED", 60)
    given = problem(incident="horizon", largest=1000.0, episodes=200)
    made = effort(given)
    assert (made.most, made.start) == (200, start_episodes(given))
    assert made.start > 60
    assert "as a rule the first 60 find about 0% of what can be gained" in str(made)


def test_a_search_that_cannot_leave_its_start_is_refused_before_it_is_planned() -> None:
    with pytest.raises(
        ConfigError, match=r"could never leave its start: .* Give more episodes, a larger delta, or stop_at"
    ):
        effort(problem(incident=4000.0, delta=0.05, episodes=40))


def test_the_same_problem_has_the_same_plan_whatever_its_seed() -> None:
    one, other = (effort(problem(seed=seed, episodes=50)) for seed in (0, 99))
    assert one == other  # searches for plans have seeds of their own


def test_knobs_lists_and_several_costs_can_be_planned() -> None:
    knobs = Problem(axes=KNOBS, starts=[(0.2, 0.1)], limits=20.0, rewards=(0, 9), episodes=45)
    axes = {"reward": (0, 400), "cost 1": (0, 60), "cost 2": (0, 60)}
    two = Problem(axes=axes, starts=[Returns(100, (0, 0))], limits=(20, 10), episodes=45)
    few = problem(targets=[START, Returns(100, 15), Returns(200, 15)], episodes=45)
    for given in (knobs, two, few):
        made = effort(given)
        assert (made.most, made.start) == (45, 30)
        assert -1 <= made.gained <= 1.2
