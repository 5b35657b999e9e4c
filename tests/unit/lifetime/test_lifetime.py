"""A life: its phases, what it refuses, and that it goes on as if it had never stopped."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lifesafe.data.augmentation import AugmentationConfig
from lifesafe.environments import task
from lifesafe.environments.rollout import Rollout
from lifesafe.errors import CheckpointError, ConfigError, DatasetError, NoSafeTargetError
from lifesafe.lifetime import Lifetime, Phase
from lifesafe.lifetime.lifetime import _relabels
from lifesafe.lifetime.trials import run_trial
from lifesafe.optimizer import SafeOptimizer, Schedule, Stage
from lifesafe.optimizer.journal import read_events
from lifesafe.policies import CDTConfig, RvSConfig, load, save, train
from lifesafe.returns import Returns
from logs import by_luck
from small_life import CONFIG, data, small_life


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a life that has been through all phases."""
    directory = tmp_path_factory.mktemp("lives") / "life"
    with small_life(directory) as life:
        assert life.phase is Phase.TRAIN
        life.train()
        assert life.phase is Phase.OPTIMIZE
        assert life.optimize() is not None
        assert life.phase is Phase.OPERATE
        assert len(list(life.operate(20))) == 20
        assert life.phase is Phase.OPERATE
    return directory


def copied(lived: Path, place: Path) -> Path:
    return Path(shutil.copytree(lived, place / "life"))


def test_the_record_tells_the_whole_life_and_replays(lived: Path) -> None:
    events = read_events(lived / "journal.sqlite")
    kinds = [event.kind for event in events]
    assert kinds[:3] == ["opened", "asked", "told"]
    assert kinds[-3:] == ["serving", "served", "served"]
    replayed = SafeOptimizer.replay(events)
    assert replayed.stage is Stage.DONE
    assert len(replayed.trials) == 5


def test_its_policy_is_the_one_that_training_alone_gives_for_the_seed(lived: Path, tmp_path: Path) -> None:
    train(CONFIG, data(), seed=2, directory=tmp_path)
    for path in (lived / "policy").iterdir():
        assert path.read_bytes() == (tmp_path / "policy" / path.name).read_bytes()


def test_a_seed_is_tried_until_it_is_certified_and_no_longer(lived: Path) -> None:
    first = SafeOptimizer.replay(read_events(lived / "journal.sqlite")).trials[0]
    assert first.trial.stage is Stage.SEED
    assert first.trial.episodes == 120
    assert len(first.episodes) < 120


def test_a_life_goes_on_from_its_directory_alone(lived: Path, tmp_path: Path) -> None:
    with Lifetime.open(copied(lived, tmp_path)) as life:
        assert (life.phase, life.task.name, life.seed, life.config) == (Phase.OPERATE, "PointCircle", 2, CONFIG)
        (served,) = life.operate(1)
        assert served.episode == 21
        assert served.next_target == served.target


def test_the_same_episodes_are_served_however_they_are_grouped(lived: Path, tmp_path: Path) -> None:
    with Lifetime.open(copied(lived, tmp_path / "a")) as one, Lifetime.open(copied(lived, tmp_path / "b")) as other:
        together = [tuple(served.returns) for served in one.operate(6, together=6)]
        apart = [tuple(served.returns) for served in other.operate(6, together=2)]
    np.testing.assert_allclose(apart, together, rtol=1e-5)  # products of other sizes round otherwise


def test_what_a_life_was_begun_with_cannot_be_changed(lived: Path) -> None:
    with pytest.raises(ConfigError, match=r"begun otherwise: run.seed is 2 there, 4 here"):
        small_life(lived, seed=4)
    with pytest.raises(ConfigError, match=r"run.limits is \[20.0\] there, \[30.0\] here"):
        Lifetime.open(lived, task("PointCircle", limits=30.0))
    with pytest.raises(ConfigError, match=r"policy.kind is 'RvS' there, 'CDT' here"):
        Lifetime.open(lived, config=CDTConfig())


@pytest.mark.parametrize(
    ("change", "complaint"),
    [({"horizon": 100}, "run.horizon is 200 there, 100 here"), ({"largest_costs": (2.0,)}, "run.largest_costs is")],
)
def test_a_life_goes_on_with_the_horizon_and_the_largest_costs_it_was_begun_with(
    lived: Path, change: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        Lifetime.open(lived, replace(task("PointCircle"), **change))


def test_a_policy_of_another_training_is_not_taken_for_that_of_the_life(lived: Path, tmp_path: Path) -> None:
    train(CONFIG, data(), seed=3, directory=tmp_path / "run")
    with pytest.raises(ConfigError, match=r"belongs to another training.*seed 3 there, 2 here"):
        small_life(tmp_path / "run")
    assert not (tmp_path / "run" / "run.toml").exists()
    life = copied(lived, tmp_path)
    shutil.rmtree(life / "policy")
    shutil.copytree(tmp_path / "run" / "policy", life / "policy")
    with pytest.raises(ConfigError, match=r"belongs to another training.*seed 3 there, 2 here"):
        Lifetime.open(life)


def test_a_policy_from_before_a_setting_existed_is_still_that_of_the_life(lived: Path, tmp_path: Path) -> None:
    life = copied(lived, tmp_path)
    manifest = json.loads((life / "policy" / "manifest.json").read_text())
    setting = next(
        name for name, value in manifest["training"]["config"].items() if value == getattr(RvSConfig(), name)
    )
    del manifest["training"]["config"][setting]
    (life / "policy" / "manifest.json").write_text(json.dumps(manifest))
    with Lifetime.open(life) as opened:
        assert opened.phase is Phase.OPERATE


def test_a_policy_that_does_not_say_how_it_was_trained_is_not_operated(lived: Path, tmp_path: Path) -> None:
    save(load(lived), tmp_path / "policy")
    with pytest.raises(CheckpointError, match="does not say how it was trained"):
        small_life(tmp_path)


def test_only_relabeled_costs_of_our_own_rule_are_begun_with() -> None:
    assert _relabels(CDTConfig())
    assert not _relabels(CDTConfig.osrl())
    assert not _relabels(CDTConfig(augmentation=AugmentationConfig(fraction=0.0)))
    assert not _relabels(CONFIG)


def test_a_dithered_life_asks_for_other_targets_in_each_episode_and_goes_on_so(lived: Path, tmp_path: Path) -> None:
    shutil.copytree(lived / "policy", tmp_path / "policy")
    asked: list[Returns] = []
    with small_life(tmp_path, dither=None) as life:  # as every life, unless told otherwise
        run = life.evaluator.run

        def seen(targets: Sequence[Returns], seeds: Sequence[int]) -> Rollout:
            asked.extend(targets)
            return run(targets, seeds)

        life.evaluator.run = seen  # type: ignore[assignment, method-assign]
        trial = life.optimizer.ask()
        assert trial is not None
        returned = run_trial(life.evaluator, life.optimizer, trial, life.seed)
    assert asked == life.optimizer.targets(trial)[: len(returned)]
    assert len(set(asked)) == len(returned)
    with Lifetime.open(tmp_path) as life:
        assert (life.optimizer.problem.dither, life.optimizer.problem.dither_seed) == (0.05, life.seed)
    with pytest.raises(ConfigError, match=r"run.dither is 0.05 there, 0.0 here"):
        small_life(tmp_path, dither=0.0)


def test_a_life_from_before_seeds_drew_for_themselves_goes_on_with_its_draws(tmp_path: Path) -> None:
    with small_life(tmp_path, dither=0.05) as life:
        older = replace(life._from_logs(), dither_seed=0)
        SafeOptimizer.open(tmp_path, older, life._schedule).close()
    with small_life(tmp_path, dither=0.05) as life:
        assert life.seed != 0
        assert life.optimizer.problem.fingerprint == older.fingerprint


def test_an_impossible_dither_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"dither must lie between 0 and 0\.3"):
        small_life(tmp_path / "life", dither=5.0)
    assert not (tmp_path / "life").exists()


def test_a_life_needs_a_task_to_begin_and_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"There is no run in .*nowhere; give a task to begin one"):
        Lifetime.open(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_other_data_are_refused_before_anything_is_learned_from_them(tmp_path: Path) -> None:
    small_life(tmp_path / "life").close()
    other = data().select(range(50))
    with small_life(tmp_path / "life", data=other) as life, pytest.raises(DatasetError, match="Give the original data"):
        life.train()


def test_logs_that_cost_more_than_is_said_to_be_possible_are_refused_before_anything_is_trained(tmp_path: Path) -> None:
    dear = data().costs.copy()
    dear[7] = 1.5
    with pytest.raises(DatasetError, match=r"step costs 1\.5 \(cost 1\); by task 'PointCircle' none .* than 1,"):
        small_life(tmp_path / "life", data=replace(data(), costs=dear))
    assert not (tmp_path / "life").exists()


def test_higher_limits_reuse_every_trial(lived: Path, tmp_path: Path) -> None:
    with Lifetime.open(copied(lived, tmp_path)) as life:
        before = len(life.optimizer.trials)
        life.change_limits(40.0)
        assert life.phase is Phase.OPTIMIZE
        life.optimize()
        assert life.optimizer.problem.limits == (40.0,)
        assert len(life.optimizer.trials) > before
        assert all(result.trial.stage is not Stage.SEED for result in life.optimizer.trials[before:])
        assert next(life.operate(1)).next_target is not None
    with Lifetime.open(tmp_path / "life") as again:
        assert again.optimizer.problem.limits == (40.0,)


def test_lower_limits_start_from_what_was_cheap_or_are_refused(lived: Path, tmp_path: Path) -> None:
    with Lifetime.open(copied(lived, tmp_path)) as life:
        cheapest = min(target.cost_upper[0] for target in life.optimizer.fit)
        with pytest.raises(NoSafeTargetError, match="Run a life with these limits from its beginning"):
            life.change_limits(cheapest / 2)
        life.change_limits(cheapest * 1.01)
        assert all(index in {target.index for target in life.optimizer.fit} for index in life.optimizer.problem.seeds)
        with pytest.raises(ConfigError, match="Got 2 limits for 1 costs"):
            life.change_limits((10.0, 10.0))


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_limits_are_refused_and_change_nothing(lived: Path, tmp_path: Path, limit: float) -> None:
    with Lifetime.open(copied(lived, tmp_path)) as life:
        events = len(read_events(life.directory / "journal.sqlite"))
        with pytest.raises(ConfigError, match="Limits must be positive numbers"):
            life.change_limits(limit)
        assert life.optimizer.problem.limits == (20.0,)
        assert len(read_events(life.directory / "journal.sqlite")) == events


def test_the_paper_names_no_start_for_tasks_it_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="The paper names no targets to start from for 'PointCircle'"):
        small_life(tmp_path / "life", start="paper")
    assert not (tmp_path / "life").exists()


def test_what_cannot_be_searched_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    logged = data()
    costly = logged.select([i for i, (_, cost) in enumerate(logged.returns) if cost > 5])
    with pytest.raises(
        DatasetError, match=r"No offline episode keeps the limits \(5.0,\): the cheapest costs \(6.0,\)\."
    ):
        Lifetime.open(tmp_path / "life", task("PointCircle", limits=5.0), CONFIG, data=costly)
    with pytest.raises(ConfigError, match=r"no step may be longer than the reach, 0\.001: nothing but the seeds"):
        small_life(tmp_path / "life", schedule=Schedule(reach=0.001))
    assert not (tmp_path / "life").exists()


def test_logs_of_luck_are_refused_before_anything_is_trained(tmp_path: Path) -> None:
    logged = by_luck(data(), np.random.default_rng(0))
    for start in ("data", "calm"):
        with pytest.raises(NoSafeTargetError, match="look like luck"):
            small_life(tmp_path, data=logged, start=start)
    assert not list(tmp_path.iterdir())
