"""The nano reading takes the decisions of the package, trial by trial, from the same episodes."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import lifesafe as ls
from lifesafe._random import generator
from lifesafe.data.relabel import AugmentationConfig, relabel
from lifesafe.lab.coverage.worlds import FAMILIES
from lifesafe.operation import Watch
from lifesafe.safety.betting import Bet

SCRIPT = Path(__file__).parents[2] / "examples" / "nano.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("nano", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


nano = load()


def test_it_is_read_in_one_sitting_and_knows_nothing_of_the_package_but_the_environment() -> None:
    lines = SCRIPT.read_text().splitlines()
    assert len(lines) <= 600
    imports = [line for line in lines if line.startswith(("import ", "from ")) and "lifesafe" in line]
    assert len(imports) == 1
    assert imports[0].startswith("from lifesafe.systems")


CASES = [
    ("overshoot", 0, "trial", None),
    ("overshoot", 0, "total", 2.0),
    ("cliff", 1, "trial", 2.0),
    ("cliff", 1, "total", 2.0),
    ("smooth", 1, "trial", None),
    ("costs_2", 0, "trial", None),
    ("costs_2", 0, "total", 2.0),
]


@pytest.mark.parametrize(("family", "number", "promise", "stop"), CASES)
def test_from_the_same_episodes_it_takes_the_same_decisions(
    family: str, number: int, promise: str, stop: float | None
) -> None:
    world = FAMILIES[family](generator(number, "lab", "world", family))
    limits, (low, high) = np.array(world.limits), np.array(list(world.axes.values())).T
    stops = None if stop is None else tuple(stop * limits)
    problem = ls.Problem(
        axes=world.axes, starts=[world.start], limits=world.limits, promise=promise, stop_at=stops, seed=number
    )
    start = tuple(((np.array(world.start) - low) / (high - low)).tolist())
    ours, theirs = (
        ls.SafeOptimizer(problem),
        nano.Search(low, high, limits, start, np.array(problem.lumps) / limits, promise, seed=number),
    )
    stages = set()
    while (trial := ours.ask()) is not None:
        again = theirs.ask()
        assert isinstance(again, nano.Trial), f"trial {trial.number}: {again}"
        stages.add(trial.stage)
        assert (again.number, again.stage) == (trial.number, trial.stage)
        wanted = np.array([tuple(target) for target in trial.targets])
        np.testing.assert_allclose(theirs.target(again.tickets), wanted, rtol=1e-6, atol=1e-6)
        asked = ours.history.trials[trial.number].asked
        assert again.charge == pytest.approx(asked.charge, rel=1e-6, abs=1e-12)
        returns = world.draw(wanted, generator(number, "episodes", family, trial.number), stops)
        ours.tell(trial, [ls.Returns(reward, costs) for reward, *costs in returns.tolist()])
        theirs.tell(again, returns)
        same_beliefs(ours, theirs)
    assert isinstance(theirs.ask(), str)
    assert ours.held is None
    assert sum(len(trial.tickets) for trial in theirs.trials) == ours.history.searched
    assert stages >= ({"start", "search"} if promise == "trial" else {"start", "base", "newcomer"})


def same_beliefs(ours: ls.SafeOptimizer, theirs: object) -> None:
    """Both would operate the same target, hold the same account and have won the same bets."""
    search, beliefs = theirs, ours.beliefs
    best = search.best()  # type: ignore[attr-defined]
    assert (best is None) == (ours.best is None)
    if best is not None and ours.best is not None:
        np.testing.assert_allclose(search.target(best), ours.best.point, rtol=1e-6, atol=1e-6)  # type: ignore[attr-defined]
    assert search.spent == pytest.approx(ours.spent, rel=1e-6)  # type: ignore[attr-defined]
    if beliefs.account is None:
        return
    np.testing.assert_allclose(search.account * ours.problem.limits, beliefs.account.holds, atol=1e-9)  # type: ignore[attr-defined]
    assert len(search.bets) == len(beliefs.bets)  # type: ignore[attr-defined]
    for mine, bet in zip(search.bets.values(), beliefs.bets.values(), strict=True):  # type: ignore[attr-defined]
        wealth = np.logaddexp.reduce(mine.log_wealth, axis=1)
        np.testing.assert_allclose(wealth, bet.log_wealths, rtol=1e-6, atol=1e-9)
        assert mine.won.all() == bet.certified


@pytest.mark.parametrize("costs", [1, 2])
def test_bets_win_at_the_same_episode(costs: int) -> None:
    rng, H = np.random.default_rng(0), np.full(costs, 2.05)
    for mean in (0.2, 0.6, 0.9):
        ours, theirs = Bet.start((20.0,) * costs, (41.0,) * costs, 0.025), nano.Bet(H, 0.025)
        for x in np.minimum(rng.poisson(20 * mean, (200, costs)), 41).astype(float):
            ours = ours.update(x[None])
            assert theirs.add(x / 20) == ours.certified


@pytest.mark.parametrize(("change", "rule"), [(1.0, None), (1.6, "mean"), (4.0, "bound")])
def test_the_watch_raises_its_alarm_at_the_same_episode(change: float, rule: str | None) -> None:
    rng = np.random.default_rng(1)
    costs = rng.poisson(14.0, (600, 2)).astype(float)
    costs[300:] = np.floor(costs[300:] * change)
    ours = Watch.start((20.0, 20.0), 0.01, (50.0, 50.0)).update(costs)
    theirs = nano.Watch(np.array([2.5, 2.5]))
    found = ((t, why) for t, x in enumerate(costs / 20, 1) if (why := theirs.add(x)))
    alarm = next(found, None)
    assert alarm == (None if ours.alarm is None else (ours.alarm.episode, ours.alarm.rule))
    assert rule == (None if alarm is None else alarm[1])


def test_logs_give_the_same_box_start_and_relabeled_episodes() -> None:
    rng = np.random.default_rng(0)
    returns = np.column_stack([rng.uniform(20, 500, 300), rng.poisson(30, 300) * rng.random(300)])
    problem, search = ls.Problem.from_returns(returns, limits=20.0), nano.Search.from_logs(returns, 20.0, None)
    np.testing.assert_allclose(search.target(search.start), problem.starts[0], atol=1e-9)
    np.testing.assert_allclose([search.low, search.high - search.low], [problem.low, problem.extents])
    assert (search.s * 20.0, search.delta, search.left) == (problem.lumps, problem.delta, problem.episodes)
    episodes, targets = nano.relabel(returns, np.random.default_rng(2))
    ours = relabel(returns, AugmentationConfig(fraction=0.3), np.random.default_rng(2))
    np.testing.assert_array_equal(episodes, ours.episodes)
    np.testing.assert_allclose(targets, ours.targets)


def test_the_script_lives_a_whole_life() -> None:
    command = [sys.executable, str(SCRIPT), "--limit", "100", "--steps", "150", "--episodes", "40", "--operate", "20"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "  1 start " in done.stdout
    assert "  2 search " in done.stdout
    assert "Operated (" in done.stdout


def test_a_life_under_total_ends_episodes_and_saves(capsys: pytest.CaptureFixture[str]) -> None:
    nano.live("total", stop=None, limit=100.0, steps=150, episodes=40, operate=20)
    told = capsys.readouterr().out
    assert " newcomer " in told
    assert "Operated (" in told
