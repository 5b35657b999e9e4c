"""A study trains, runs every target, keeps all episodes, and does nothing twice."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lifesafe.errors import CheckpointError, ConfigError, DatasetError
from lifesafe.lab.alignment.results import FILE, read_alignment
from lifesafe.lab.alignment.study import study, study_policies, target_grid
from lifesafe.lab.baselines import RvSConfig
from lifesafe.policies import load, save, train
from lifesafe.systems import task
from lifesafe.systems.simulators.behaviors import collect

TASK = task("PointCircle")
DATA = collect(60)
CONFIG = RvSConfig(steps=3, batch=16, width=8)
SMALL = {"rewards": 2, "costs": 3, "episodes": 2}


def test_targets_lie_within_the_data() -> None:
    targets = target_grid(DATA.returns, rewards=4, costs=5)
    assert len(targets) == 20
    rewards, costs = np.array([tuple(target) for target in targets]).T
    assert rewards.min() == pytest.approx(np.median(DATA.returns[:, 0]))
    assert rewards.max() == pytest.approx(DATA.returns[:, 0].max())
    assert costs.min() == 0
    assert costs.max() == pytest.approx(np.quantile(DATA.returns[:, 1], 0.95))


def test_data_without_any_cost_leave_nothing_to_ask_for() -> None:
    returns = DATA.returns.copy()
    returns[:, 1] = 0
    with pytest.raises(DatasetError, match="cost nothing"):
        target_grid(returns, rewards=2, costs=2)


def test_a_study_keeps_every_episode_of_every_seed(tmp_path: Path) -> None:
    heard: list[tuple[int, int, int]] = []
    parts = study(
        TASK, DATA, CONFIG, tmp_path, seeds=(0, 1), **SMALL, evaluation_progress=lambda *told: heard.append(told)
    )
    assert [part.seed for part in parts] == [0, 1]
    assert all(len(part.points) == 6 for part in parts)
    assert all(len(point.episodes) == 2 for part in parts for point in part.points)
    assert parts[0].points[0].episodes != parts[1].points[0].episodes  # other weights, other starts
    assert heard[-1] == (1, 12, 12)
    assert [read_alignment(tmp_path / f"seed-{seed}") for seed in (0, 1)] == parts


def test_what_is_finished_is_not_done_again(tmp_path: Path) -> None:
    first = study(TASK, DATA, CONFIG, tmp_path, seeds=(0,), **SMALL)
    before = (tmp_path / "seed-0" / FILE).stat().st_mtime_ns
    again = study(TASK, DATA, CONFIG, tmp_path, seeds=(0, 1), **SMALL)
    assert again[0] == first[0]
    assert (tmp_path / "seed-0" / FILE).stat().st_mtime_ns == before


def test_a_study_of_something_else_is_refused(tmp_path: Path) -> None:
    study(TASK, DATA, CONFIG, tmp_path, seeds=(0,), **SMALL)
    others = {
        "dataset": lambda: study(TASK, collect(61), CONFIG, tmp_path, seeds=(0,), **SMALL),
        "config": lambda: study(TASK, DATA, replace(CONFIG, steps=4), tmp_path, seeds=(0,), **SMALL),
        "task": lambda: study(replace(TASK, name="Other"), DATA, CONFIG, tmp_path, seeds=(0,), **SMALL),
        "other targets or episodes": lambda: study(TASK, DATA, CONFIG, tmp_path, seeds=(0,), **{**SMALL, "costs": 4}),
    }
    for words, run in others.items():
        with pytest.raises(ConfigError, match=words):
            run()


def test_policies_that_were_trained_before_do_the_same(tmp_path: Path) -> None:
    own = study(TASK, DATA, CONFIG, tmp_path / "own", seeds=(0, 1), **SMALL)
    places = [tmp_path / "own" / "seed-1" / "policy", tmp_path / "own" / "seed-0"]  # a policy; a training that has one
    again = study_policies(TASK, DATA, places, tmp_path / "again", **SMALL)
    assert [part.seed for part in again] == [1, 0]
    assert [part.points for part in again] == [own[1].points, own[0].points]
    assert study_policies(TASK, DATA, places, tmp_path / "again", **SMALL) == again
    assert study(TASK, DATA, CONFIG, tmp_path / "again", seeds=(0, 1), **SMALL) == again[::-1]  # one kind of directory


def test_policies_that_are_no_study_together_are_refused(tmp_path: Path) -> None:
    for name, config in {"a": CONFIG, "b": replace(CONFIG, steps=4)}.items():
        train(config, DATA, seed=7, directory=tmp_path / name)
    train(replace(CONFIG, steps=4), DATA, seed=8, directory=tmp_path / "c")
    save(load(tmp_path / "a"), tmp_path / "by-hand")
    out = tmp_path / "study"
    with pytest.raises(ConfigError, match=r"both have seed 7; give one per seed"):
        study_policies(TASK, DATA, [tmp_path / "a", tmp_path / "b"], out, **SMALL)
    with pytest.raises(ConfigError, match=r"a and .*c were trained with different settings or methods"):
        study_policies(TASK, DATA, [tmp_path / "a", tmp_path / "c"], out, **SMALL)
    with pytest.raises(ConfigError, match=r"learned from data \w{8}; those given are \w{8}"):
        study_policies(TASK, collect(61), [tmp_path / "a"], out, **SMALL)
    with pytest.raises(CheckpointError, match="does not say how it was trained"):
        study_policies(TASK, DATA, [tmp_path / "by-hand"], out, **SMALL)
    with pytest.raises(CheckpointError, match="holds no saved policy"):
        study_policies(TASK, DATA, [tmp_path / "nothing"], out, **SMALL)
    assert not out.exists()
    study_policies(TASK, DATA, [tmp_path / "a"], out, **SMALL)
    with pytest.raises(ConfigError, match="holds a study with config"):
        study_policies(TASK, DATA, [tmp_path / "b"], out, **SMALL)
