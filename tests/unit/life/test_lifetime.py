"""A life: its phases, what it refuses, and that it goes on as if it had never stopped."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import own_machine
from lifesafe.data import Dataset
from lifesafe.data.relabel import AugmentationConfig
from lifesafe.errors import CheckpointError, ConfigError, DatasetError, JournalError, NoSafeTargetError, TrialError
from lifesafe.interfaces import Progress
from lifesafe.journal import JOURNAL, Record, read_records
from lifesafe.journal import events as e
from lifesafe.lab.baselines import RvSConfig
from lifesafe.life import Lifetime, Phase, Plan, Search
from lifesafe.life.plan import relabels
from lifesafe.policies import CDTConfig, load, save, train
from lifesafe.returns import Returns
from lifesafe.safety import Problem, SafeOptimizer
from lifesafe.safety.account import NEWCOMERS
from lifesafe.systems import task, task_from_id
from logs import by_luck
from small_life import CONFIG, data, small_life

SEARCHES = {
    "trial": Search(episodes=60),
    "trial with a stop": Search(episodes=60, stop_at=40.0),
    "total": Search(episodes=40, stop_at=30.0, promise="total"),
}
SERVED = 20


def live(directory: Path, search: Search) -> None:
    """Live a life to its end, or go on with one."""
    with small_life(directory, search=search) as life:
        life.optimize()
        for _ in life.operate(SERVED - life.served):
            pass


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the directories of lives that have been through all phases, by the search; each is lived once."""

    @cache
    def directory(name: str) -> Path:
        place = tmp_path_factory.mktemp("lives") / "life"
        with small_life(place, search=SEARCHES[name]) as life:
            assert life.phase is Phase.TRAIN
            life.train()
            assert life.phase is Phase.OPTIMIZE
            assert life.optimize() is not None
            assert life.phase is Phase.OPERATE
            assert len(list(life.operate(SERVED))) == SERVED
            assert life.phase is Phase.OPERATE
        return place

    return directory


@pytest.fixture(params=SEARCHES)
def lived(request: pytest.FixtureRequest, lives: Callable[[str], Path]) -> Path:
    """Return the directory of a life, of every search in turn."""
    return lives(request.param)


@pytest.fixture
def operated(lives: Callable[[str], Path]) -> Path:
    """Return the directory of one such life."""
    return lives("trial with a stop")


def copied(lived: Path, place: Path) -> Path:
    return Path(shutil.copytree(lived, place / "life"))


def search_of(directory: Path) -> Search:
    with Lifetime.open(directory) as life:
        return life.plan.search


def events(directory: Path) -> list[tuple[int, e.Event]]:
    """Return everything that a record says, but for when."""
    return [(record.number, record.event) for record in records(directory)]


def records(directory: Path) -> list[Record]:
    return read_records(directory / JOURNAL)


def test_the_record_tells_the_whole_life_and_replays(lived: Path) -> None:
    told = [event for _, event in events(lived)]
    kinds = [type(event) for event in told]
    assert kinds[:3] == [e.Opened, e.Asked, e.Told]
    assert kinds[-3:] == [e.Serving, e.Served, e.Served]
    replayed = SafeOptimizer.replay(records(lived))
    problem = replayed.problem
    assert replayed.stage == "done"
    assert replayed.history.searched <= problem.episodes
    assert replayed.history.served == SERVED
    assert (problem.stop_at is None) is (problem.incident is not None)
    costs = [cost for event in told if isinstance(event, e.Told | e.Served) for _, cost in event.episodes]
    assert problem.bounds is None or max(costs) <= problem.bounds[0], "every episode ends at the stop"


def test_its_policy_is_the_one_that_training_alone_gives_for_the_seed(operated: Path, tmp_path: Path) -> None:
    train(CONFIG, data(), seed=2, directory=tmp_path)
    for path in (operated / "policy").iterdir():
        assert path.read_bytes() == (tmp_path / "policy" / path.name).read_bytes()


def test_a_life_that_stops_after_every_trial_and_batch_takes_the_same_decisions(lived: Path, tmp_path: Path) -> None:
    shutil.copytree(lived / "policy", tmp_path / "policy")
    search, told = search_of(copied(lived, tmp_path / "copy")), 0

    def stop(state: Progress) -> None:
        if life.optimizer.history.open is None:
            raise KeyboardInterrupt

    while told < 100:
        try:
            with small_life(tmp_path, search=search) as life:
                life.optimize(stop)
                break
        except KeyboardInterrupt:
            told += 1
    assert told > 3
    for _ in range(2):
        with Lifetime.open(tmp_path) as life:
            list(life.operate(SERVED // 2))
    assert events(tmp_path) == events(lived)


def test_a_life_that_stops_within_a_trial_runs_that_trial_again(lived: Path, tmp_path: Path) -> None:
    shutil.copytree(lived / "policy", tmp_path / "policy")
    search, left = search_of(copied(lived, tmp_path / "copy")), 3

    def stop(state: Progress) -> None:
        nonlocal left
        if life.optimizer.history.open is not None and state.figures["trials"] >= 3 - left:
            left -= 1  # once within each of the first trials
            raise KeyboardInterrupt

    while left:
        with small_life(tmp_path, search=search) as life, pytest.raises(KeyboardInterrupt):
            life.optimize(stop)
    live(tmp_path, search)
    assert events(tmp_path) == events(lived)


def test_a_life_goes_on_from_its_directory_alone(lived: Path, tmp_path: Path) -> None:
    with Lifetime.open(copied(lived, tmp_path)) as life:
        plan = Plan(task=task("PointCircle"), method=CONFIG, search=life.plan.search, seed=2)
        assert (life.phase, life.plan) == (Phase.OPERATE, plan)
        (served,) = life.operate(1)
        assert served.episode == SERVED + 1
        assert served.next_target == served.target


def test_the_same_episodes_are_served_however_they_are_grouped(operated: Path, tmp_path: Path) -> None:
    with Lifetime.open(copied(operated, tmp_path / "a")) as one, Lifetime.open(copied(operated, tmp_path / "b")) as two:
        together = [tuple(served.returns) for served in one.operate(6, together=6)]
        apart = [tuple(served.returns) for served in two.operate(6, together=2)]
    np.testing.assert_allclose(apart, together, rtol=1e-5)  # products of other sizes round otherwise


def test_an_alarm_stands_on_the_last_episode_of_its_batch_and_the_life_falls_back_or_halts(
    operated: Path, tmp_path: Path
) -> None:
    with Lifetime.open(copied(operated, tmp_path)) as life:
        first = life.optimizer.history.services[-1].target
        run = life.evaluator.run

        def worn(targets: Any, seeds: Any) -> Any:
            rollout = run(targets, seeds)
            costly = [replace(each, returns=Returns(each.returns.reward, 39.0)) for each in rollout.outcomes]
            return replace(rollout, outcomes=tuple(costly))

        life.evaluator.run = worn  # type: ignore[method-assign]
        served = list(life.operate(500))
        alarms = [each for each in served if each.alarm is not None]
        assert alarms
        assert all(each.episode % 10 == 0 for each in alarms)
        assert served[-1].next_target is None
        assert life.phase is Phase.HALTED
        assert list(life.operate(10)) == []
        assert life.optimizer.beliefs.withdrawn.keys() >= {first}
        assert "begin a new run: this search is over" in life.optimizer.history.halted.advice  # type: ignore[union-attr]


def test_nothing_is_operated_while_a_newcomer_that_the_account_pays_for_is_out(tmp_path: Path) -> None:
    def stop(state: Progress) -> None:
        opened = life.optimizer.history.open
        if opened is not None and opened.asked.stage in NEWCOMERS:
            raise KeyboardInterrupt

    with small_life(tmp_path, search=SEARCHES["total"]) as life:
        with pytest.raises(KeyboardInterrupt):
            life.optimize(stop)
        with pytest.raises(TrialError, match=r"is open and may spend what the account holds; call optimize\(\) first"):
            next(life.operate(1))
        assert life.served == 0


def test_an_alarm_that_a_kill_has_cut_off_is_known_to_the_search_that_goes_on(operated: Path, tmp_path: Path) -> None:
    with Lifetime.open(copied(operated, tmp_path)) as life:
        life.optimizer.record(e.Served(episodes=((100.0, 43.0),)))  # above the stop, and killed before the alarm
    with Lifetime.open(tmp_path / "life") as life:
        assert life.optimize() is None
        assert life.optimizer.held is not None
        assert "the stop did not work" in life.optimizer.held
        assert life.phase is Phase.HALTED


# What it was begun with


def test_what_a_life_was_begun_with_cannot_be_changed(operated: Path) -> None:
    stop = {"search": SEARCHES["trial with a stop"]}
    for change, complaint in (
        ({"seed": 4, **stop}, "run.seed is 2 there, 4 here"),
        ({"limit": 30.0, **stop}, r"run.limits is \[20.0\] there, \[30.0\] here"),
        ({"search": SEARCHES["trial"]}, r"search.stop_at is \[40.0\] there, None here"),
        ({"search": SEARCHES["total"]}, "search.promise is 'trial' there, 'total' here"),
        ({"search": replace(SEARCHES["trial with a stop"], delta=0.05)}, "search.delta is 0.1 there, 0.05 here"),
        ({"level": 0.05, **stop}, "run.level is 0.01 there, 0.05 here"),
        ({"method": CDTConfig(), **stop}, "policy.kind is 'RvS' there, 'CDT' here"),
        ({"task": replace(task("PointCircle"), horizon=100), **stop}, "run.horizon is 200 there, 100 here"),
        ({"task": replace(task("PointCircle"), largest_costs=(2.0,)), **stop}, "run.largest_costs is"),
    ):
        with pytest.raises(ConfigError, match=complaint):
            small_life(operated, **change)  # type: ignore[arg-type]


def test_a_policy_of_another_training_is_not_taken_for_that_of_the_life(operated: Path, tmp_path: Path) -> None:
    train(CONFIG, data(), seed=3, directory=tmp_path / "run")
    with pytest.raises(ConfigError, match=r"belongs to another training.*seed 3 there, 2 here"):
        small_life(tmp_path / "run")
    assert not (tmp_path / "run" / "run.toml").exists()
    life = copied(operated, tmp_path)
    shutil.rmtree(life / "policy")
    shutil.copytree(tmp_path / "run" / "policy", life / "policy")
    with pytest.raises(ConfigError, match=r"belongs to another training.*seed 3 there, 2 here"):
        Lifetime.open(life)


def test_a_policy_that_does_not_say_how_it_was_trained_is_not_operated(operated: Path, tmp_path: Path) -> None:
    save(load(operated), tmp_path / "policy")
    with pytest.raises(CheckpointError, match="does not say how it was trained"):
        small_life(tmp_path)


def test_the_record_of_another_search_is_not_taken_for_that_of_the_life(operated: Path, tmp_path: Path) -> None:
    problem = Problem(axes={"speed": (0, 1)}, starts=[{"speed": 0.1}], limits=5.0, rewards=(0, 1))
    SafeOptimizer.open(tmp_path, problem).close()
    with pytest.raises(ConfigError, match=r"holds the record of another search.*Give another directory"):
        small_life(tmp_path)
    assert not (tmp_path / "run.toml").exists()
    with pytest.raises(ConfigError, match=r"was begun by `lifesafe ask` or SafeOptimizer, and knows no environment"):
        Lifetime.open(tmp_path)
    with pytest.raises(ConfigError, match=r"There is no run in .*nowhere; give a plan to begin one"):
        Lifetime.open(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    life = copied(operated, tmp_path)
    (life / "run.toml").unlink()  # the same settings make the same problem, so the life is found again
    with pytest.raises(ConfigError, match="holds the record of another search"):
        small_life(life, search=SEARCHES["trial"])
    with small_life(life, search=SEARCHES["trial with a stop"]) as again:
        assert (again.phase, again.served) == (Phase.OPERATE, SERVED)


def test_a_life_has_one_writer(operated: Path, tmp_path: Path) -> None:
    directory = copied(operated, tmp_path)
    with Lifetime.open(directory) as life, Lifetime.open(directory) as other:
        assert life.phase is Phase.OPERATE
        with pytest.raises(JournalError, match="is open for writing"):
            other.optimizer  # noqa: B018


def test_only_policies_of_relabeled_episodes_begin_at_all_reward() -> None:
    assert relabels(CDTConfig())
    assert not relabels(CDTConfig(augmentation=AugmentationConfig(fraction=0.0)))
    assert not relabels(CONFIG)


# What cannot be begun is refused before anything is trained


def costing(cost: float) -> Dataset:
    """Return logs with one step of another cost."""
    costs = data().costs.copy()
    costs[7] = cost
    return replace(data(), costs=costs)


@pytest.mark.parametrize(
    ("logs", "error", "complaint"),
    [
        (lambda: costing(1.5), DatasetError, r"step costs 1\.5 \(cost 1\), and with largest_step = 1 none costs more"),
        (lambda: costing(-0.5), DatasetError, r"step costs -0\.5 \(cost 1, transition 7\); costs are never negative"),
        (
            lambda: data().select(np.flatnonzero(data().returns[:, 1] > 20)),
            DatasetError,
            r"No logged episode keeps the limits \(20.0,\): the cheapest costs \(21.0,\)",
        ),
        (lambda: by_luck(data(), np.random.default_rng(0)), NoSafeTargetError, "look like luck"),
    ],
)
def test_logs_that_cannot_be_searched_by_are_refused(
    tmp_path: Path, logs: Callable[[], Dataset], error: type[Exception], complaint: str
) -> None:
    with pytest.raises(error, match=complaint):
        small_life(tmp_path / "life", data=logs())
    assert not (tmp_path / "life").exists()


def test_other_data_are_refused_before_anything_is_learned_from_them(tmp_path: Path) -> None:
    small_life(tmp_path / "life").close()
    other = data().select(range(50))
    with small_life(tmp_path / "life", data=other) as life, pytest.raises(DatasetError, match="Give the original data"):
        life.train()


def test_an_environment_that_says_no_cost_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    silent = task_from_id("Pendulum-v1", limits=20.0)
    logged = own_machine.logs()
    wide = {
        name: np.column_stack([getattr(logged, name), np.zeros(logged.transitions)])
        for name in ("observations", "next_observations")
    }
    with pytest.raises(ConfigError, match="cost"):
        Lifetime.open(tmp_path / "life", Plan(task=silent, method=CONFIG), data=replace(logged, **wide))
    assert not (tmp_path / "life").exists()


@pytest.mark.parametrize(
    ("search", "complaint"),
    [
        ({"promise": "total"}, "promise = 'total' needs stop_at"),
        ({"stop_at": 40.0, "incident": 60.0}, "Give stop_at or incident, not both"),
        ({"stop_at": 500.0}, "stop_at = 500 is never reached: no episode can cost more than 200"),
        ({"stop_at": (40.0, 40.0)}, "Got 2 numbers as stop_at for 1 costs"),
        ({"delta": 2.0}, "delta must lie between 0 and 1"),
        ({"episodes": 0}, "episodes must be a whole number of at least 1"),
        ({"start": "paper"}, "The paper names no targets to start from for 'PointCircle'"),
    ],
)
def test_an_impossible_search_is_refused(tmp_path: Path, search: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        small_life(tmp_path / "life", search=Search(**search))
    assert not (tmp_path / "life").exists()


@pytest.mark.parametrize("level", [0.0, 1.0, float("nan")])
def test_a_level_that_is_no_probability_is_refused(level: float) -> None:
    with pytest.raises(ConfigError, match="level must lie between 0 and 1"):
        Plan(task=task("PointCircle"), level=level)


# Other limits


def test_higher_limits_use_every_episode_again(lived: Path, tmp_path: Path) -> None:
    with Lifetime.open(copied(lived, tmp_path)) as life:
        before, episodes = len(life.optimizer.trials), life.optimizer.history.searched
        life.change_limits(25.0)
        assert life.phase is Phase.OPTIMIZE
        assert life.optimizer.beliefs.admitted == frozenset()  # nothing is paid for under them
        best = life.optimize()
        assert life.optimizer.problem.limits == (25.0,)
        assert life.optimizer.problem.stop_at == life.plan.search.stop_at
        assert len(life.optimizer.trials) > before
        assert life.optimizer.history.searched - episodes <= life.plan.search.episodes
        assert best is not None
        assert {tuple(each.next_target or ()) for each in life.operate(10)} == {best.point}
        assert life.optimizer.history.services[-1].serving.limits == (25.0,)
    with Lifetime.open(tmp_path / "life") as again:
        assert again.optimizer.problem.limits == (25.0,)
        assert again.optimizer.history.serving is not None
    SafeOptimizer.replay(records(tmp_path / "life"))


def test_lower_limits_start_from_what_was_cheap_or_are_refused(operated: Path, tmp_path: Path) -> None:
    with Lifetime.open(copied(operated, tmp_path)) as life:
        fit = {target.target: target.expected[0] for target in life.optimizer.fit}
        cheapest = min(fit.values())
        with pytest.raises(NoSafeTargetError, match="Begin a run with these limits"):
            life.change_limits(cheapest / 2)
        life.change_limits(cheapest * 1.01)
        trial = life.optimizer.ask()  # nobody has said that a start is safe: the first target pays before it runs
        assert trial is None or trial.stage == "search"
        assert trial is None or life.optimizer.spent > 0
        with pytest.raises(ConfigError, match="Got 2 limits for 1 costs"):
            life.change_limits((10.0, 10.0))


def test_the_same_limits_and_impossible_ones_change_nothing(operated: Path, tmp_path: Path) -> None:
    with Lifetime.open(copied(operated, tmp_path)) as life:
        life.change_limits(20.0)
        for limit in (0.0, -1.0, float("inf"), float("nan")):
            with pytest.raises(ConfigError, match=r"[Ll]imits must be (positive numbers|a number)"):
                life.change_limits(limit)
        assert life.optimizer.problem.limits == (20.0,)
        assert life.phase is Phase.OPERATE
    assert events(tmp_path / "life") == events(operated)


def test_a_cost_that_is_a_function_is_given_again(tmp_path: Path) -> None:
    plan = Plan(task=task_from_id(own_machine.ID, limits=5.0, cost=own_machine.spills), method=CONFIG)
    Lifetime.open(tmp_path, plan, data=own_machine.logs()).close()
    with pytest.raises(ConfigError, match=r"is about the task 'own_machine:Belt-v0', which is not registered here"):
        Lifetime.open(tmp_path)
    with Lifetime.open(tmp_path, plan) as life:
        assert life.phase is Phase.TRAIN


def test_a_setting_that_came_later_has_its_default_in_a_policy_that_lacks_it(operated: Path, tmp_path: Path) -> None:
    life = copied(operated, tmp_path)
    manifest = json.loads((life / "policy" / "manifest.json").read_text())
    setting = next(
        name for name, value in manifest["training"]["config"].items() if value == getattr(RvSConfig(), name)
    )
    del manifest["training"]["config"][setting]
    (life / "policy" / "manifest.json").write_text(json.dumps(manifest))
    with Lifetime.open(life) as opened:
        assert opened.phase is Phase.OPERATE
