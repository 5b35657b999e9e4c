import csv
import json
import math
import os
import re
import shutil
import signal
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lifesafe.data import Dataset
from lifesafe.errors import CheckpointError, ConfigError, DatasetError
from lifesafe.interfaces import Progress
from lifesafe.lab.baselines import RvSConfig
from lifesafe.lab.baselines.rvs import RvSLearner
from lifesafe.policies import CDTConfig, StoredPolicy, load, train
from small_cdt import small_config
from small_data import small_dataset
from small_methods import METHODS

SMALL = RvSConfig(steps=30, batch=16, width=8)


class StopError(Exception):
    """Stops a training from within."""


def stop_at(step: int) -> Any:
    def report(now: Progress) -> None:
        if now.done >= step:
            raise StopError

    return report


def same(first: StoredPolicy, second: StoredPolicy) -> bool:
    a, b = first.tensors(), second.tensors()
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def rows(directory: Path) -> list[dict[str, str]]:
    with (directory / "training" / "log.csv").open(newline="") as stream:
        return [{name: value for name, value in row.items() if name != "seconds"} for row in csv.DictReader(stream)]


def test_actions_that_no_policy_can_take_are_refused() -> None:
    data = small_dataset()
    wide = replace(data, actions=2 * data.actions / np.abs(data.actions).max())
    with pytest.raises(DatasetError, match=r"policies act in \[-1, 1\]. Scale them"):
        train(SMALL, wide)


def test_a_directory_does_not_change_the_result_and_nothing_is_written_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = train(SMALL, small_dataset(), seed=3)
    assert list(tmp_path.iterdir()) == []
    second = train(SMALL, small_dataset(), seed=3, directory="run", checkpoint_every=0, log_every=7)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert same(first, second)
    assert same(first, load(tmp_path / "run"))
    assert not same(first, train(SMALL, small_dataset(), seed=4))


def test_the_callers_random_state_neither_matters_nor_changes() -> None:
    policies = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        policies.append(train(SMALL, small_dataset()))
        assert torch.equal(torch.get_rng_state(), before)
    assert same(*policies)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("checkpoint_every", [0, 1e9])
def test_an_interrupted_training_goes_on_bit_by_bit(tmp_path: Path, method: str, checkpoint_every: float) -> None:
    config, dataset = replace(METHODS[method], steps=20), small_dataset()
    options: dict[str, Any] = {"log_every": 3, "validate_every": 8, "checkpoint_every": checkpoint_every}
    whole = train(config, dataset, directory=tmp_path / "whole", **options)
    for step in (4, 9, 10, 17):
        with pytest.raises(StopError):
            train(config, dataset, directory=tmp_path / "run", report=stop_at(step), **options)
    assert same(train(config, dataset, directory=tmp_path / "run", **options), whole)
    assert rows(tmp_path / "run") == rows(tmp_path / "whole")


def test_the_log_has_the_means_between_its_rows(tmp_path: Path) -> None:
    dataset = small_dataset()
    train(SMALL, dataset, directory=tmp_path / "each", log_every=1, validate_every=10)
    train(SMALL, dataset, directory=tmp_path / "ten", log_every=10, validate_every=20)
    each, ten = rows(tmp_path / "each"), rows(tmp_path / "ten")
    assert [int(row["step"]) for row in each] == list(range(1, 31))
    assert [int(row["step"]) for row in ten] == [10, 20, 30]
    for index, row in enumerate(ten):
        mean = np.mean([float(one["loss"]) for one in each[10 * index : 10 * index + 10]])
        assert float(row["loss"]) == pytest.approx(mean, rel=1e-5)
    assert [row["step"] for row in ten if row["held_out_nll"]] == ["20", "30"]  # the last step is always measured


def test_a_finished_training_returns_its_policy_at_once(tmp_path: Path) -> None:
    first = train(SMALL, small_dataset(), directory=tmp_path)
    shutil.rmtree(tmp_path / "training")

    def never(_: Progress) -> None:
        raise StopError

    assert same(train(SMALL, small_dataset(), directory=tmp_path, report=never), first)


def test_a_lost_policy_is_written_again_from_the_last_checkpoint(tmp_path: Path) -> None:
    first = train(SMALL, small_dataset(), directory=tmp_path)
    shutil.rmtree(tmp_path / "policy")
    assert same(train(SMALL, small_dataset(), directory=tmp_path), first)
    assert same(load(tmp_path), first)
    assert len(rows(tmp_path)) == 1


@pytest.mark.parametrize("finished", [True, False])
def test_another_training_in_the_same_directory_is_refused(tmp_path: Path, finished: bool) -> None:
    dataset = small_dataset()
    if finished:
        train(SMALL, dataset, directory=tmp_path)
    else:
        with pytest.raises(StopError):
            train(SMALL, dataset, directory=tmp_path, log_every=5, checkpoint_every=0, report=stop_at(10))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(ConfigError, match=r"another training, .*config\.width = 8 there, 9 here"):
        train(replace(SMALL, width=9), dataset, directory=tmp_path)
    with pytest.raises(ConfigError, match=r"seed 0 there, 1 here"):
        train(SMALL, dataset, seed=1, directory=tmp_path)
    with pytest.raises(ConfigError, match=r"dataset [0-9a-f]{8} there, [0-9a-f]{8} here"):
        train(SMALL, small_dataset(seed=1), directory=tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_ctrl_c_keeps_the_step_it_came_in(tmp_path: Path) -> None:
    def interrupt(now: Progress) -> None:
        if now.done == 10:
            os.kill(os.getpid(), signal.SIGINT)

    dataset, handler = small_dataset(), signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        train(SMALL, dataset, directory=tmp_path / "run", log_every=5, report=interrupt)
    assert signal.getsignal(signal.SIGINT) is handler
    assert json.loads((tmp_path / "run" / "training" / "state.json").read_text())["step"] == 10
    assert same(train(SMALL, dataset, directory=tmp_path / "run"), train(SMALL, dataset))


def test_a_handler_of_the_caller_is_left_alone(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        own = signal.getsignal(signal.SIGINT)
        found: list[Any] = []
        train(
            SMALL, small_dataset(), directory=tmp_path, report=lambda _: found.append(signal.getsignal(signal.SIGINT))
        )
        assert set(found) == {own}
    finally:
        signal.signal(signal.SIGINT, before)


def test_training_runs_in_other_threads_too(tmp_path: Path) -> None:
    found: list[StoredPolicy] = []
    thread = threading.Thread(target=lambda: found.append(train(SMALL, small_dataset(), directory=tmp_path)))
    thread.start()
    thread.join()
    assert same(found[0], train(SMALL, small_dataset()))


def test_a_full_disk_is_reported_and_the_checkpoint_before_stays(small_disk: Path) -> None:
    config, dataset = RvSConfig(steps=30, batch=16, width=16), small_dataset()

    def fill(now: Progress) -> None:
        if now.done == 20:
            with (small_disk / "filler").open("ab", buffering=0) as stream:
                while True:
                    try:
                        stream.write(b"x" * 4096)
                    except OSError:
                        break

    options: dict[str, Any] = {"directory": small_disk / "run", "log_every": 10, "checkpoint_every": 0}
    with pytest.raises(CheckpointError, match=r"No space left on device\. Step 20 is lost, the checkpoint before"):
        train(config, dataset, report=fill, **options)
    (small_disk / "filler").unlink()
    assert json.loads((small_disk / "run" / "training" / "state.json").read_text())["step"] == 19
    assert same(train(config, dataset, **options), train(config, dataset))


def test_a_checkpoint_of_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"directory": tmp_path, "log_every": 5, "checkpoint_every": 0}
    with pytest.raises(StopError):
        train(SMALL, small_dataset(), report=stop_at(10), **options)
    real = RvSLearner.load_state

    def without_generator(self: RvSLearner, tensors: Mapping[str, Tensor], plain: Mapping[str, Any]) -> None:
        real(self, {name: value for name, value in tensors.items() if name != "generator"}, plain)

    monkeypatch.setattr(RvSLearner, "load_state", without_generator)
    with pytest.raises(CheckpointError, match="checkpoint of step 9 does not fit"):
        train(SMALL, small_dataset(), **options)


def test_a_loss_that_is_not_finite_ends_the_training() -> None:
    with pytest.raises(ConfigError, match=r"loss is (nan|inf) at step \d+\. Give a smaller learning_rate"):
        train(replace(SMALL, learning_rate=1e38), small_dataset(), log_every=5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"log_every": 0}, "at least 1"),
        ({"validate_every": 0}, "at least 1"),
        ({"checkpoint_every": -1}, "at least 0"),
        ({"checkpoint_every": math.nan}, "at least 0"),
        ({"device": "cuda:99"}, "is not here"),
        ({"seed": -1}, "seed"),
        ({"config": small_config(sampling="Mild")}, r"'Mild' is not one of 'even', 'mild'\. Did you mean 'mild'\?"),
        ({"config": small_config(clip=math.inf)}, "clip = inf is not a finite number"),
        ({"config": replace(SMALL, steps=5.0)}, r"steps = 5\.0 is not a whole number"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_arguments_and_settings_are_checked_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], message: str
) -> None:
    def build(*_: Any, **__: Any) -> None:
        raise StopError

    for config in (CDTConfig, RvSConfig):
        monkeypatch.setattr(config, "build", build)
    with pytest.raises(ConfigError, match=message):
        train(**{"config": SMALL, "dataset": small_dataset(), "directory": tmp_path / "run", **arguments})
    assert list(tmp_path.iterdir()) == []


def test_a_policy_folder_that_holds_something_else_is_refused_before_the_training(tmp_path: Path) -> None:
    lost = tmp_path / "policy" / "weights.safetensors"  # of a run that was copied half
    lost.parent.mkdir()
    lost.write_bytes(b"half")
    with pytest.raises(CheckpointError, match=r"policy exists already; give another directory, or remove this one"):
        train(SMALL, small_dataset(), directory=tmp_path, report=stop_at(0))
    assert lost.read_bytes() == b"half"
    lost.unlink()
    assert same(train(SMALL, small_dataset(), directory=tmp_path), train(SMALL, small_dataset()))


def test_subnormal_numbers_are_flushed_while_training_and_only_then() -> None:
    def tiny() -> float:
        return float(torch.tensor(2e-38) * 0.1)

    seen: list[float] = []
    assert tiny() > 0
    train(SMALL, small_dataset(), report=lambda now: seen.append(tiny()))
    assert set(seen) == {0.0}
    assert tiny() > 0
    torch.set_flush_denormal(True)
    try:
        train(SMALL, small_dataset())
        assert tiny() == 0
    finally:
        torch.set_flush_denormal(False)


def test_reports_tell_steps_metrics_and_throughput() -> None:
    told: list[Progress] = []
    train(SMALL, small_dataset(), log_every=10, validate_every=20, report=told.append)
    assert (told[-1].doing, told[-1].done, told[-1].total) == ("training", 30, 30)
    assert told[-1].figures["steps_per_second"] > 0
    assert {"loss", "held_out_nll"} <= told[-1].figures.keys()
    steps = [one.done for one in told]
    assert steps == sorted(set(steps))
    assert set(steps) >= {10, 20, 30}
    assert not told[0].figures  # nothing is known yet


def overfitting() -> tuple[RvSConfig, Dataset]:
    """A large network and a few episodes of noise: it learns them by heart."""
    data = small_dataset(episodes=12)
    noise = np.random.default_rng(0).uniform(-1, 1, size=data.actions.shape).astype(np.float32)
    config = RvSConfig(steps=2000, batch=64, width=128, dropout=0.0, learning_rate=3e-3, held_out=0.3)
    return config, replace(data, actions=noise)


def test_a_training_that_learns_by_heart_keeps_its_best_weights_says_so_and_ends(tmp_path: Path) -> None:
    config, data = overfitting()
    notes: list[str] = []
    options: dict[str, Any] = {"validate_every": 20, "log_every": 20, "checkpoint_every": 0}
    policy = train(
        config,
        data,
        directory=tmp_path / "run",
        report=lambda now: notes.append(now.note) if now.note else None,
        **options,
    )
    measured = {int(row["step"]): float(row["held_out_nll"]) for row in rows(tmp_path / "run")}
    best = min(measured, key=lambda step: measured[step])
    assert best < max(measured) < 1000
    assert re.fullmatch(
        rf"held-out episodes are less likely than at step {best}: the weights of then are kept", notes[-2]
    )
    assert notes[-1] == "the held-out likelihood does not recover: training ends"
    learner = config.build(data, seed=0)
    torch.manual_seed(0)
    for step in range(best):
        learner.update(step)
    for name, tensor in learner.policy().tensors().items():
        assert torch.equal(policy.tensors()[name], tensor), name
    with pytest.raises(StopError):
        train(config, data, directory=tmp_path / "again", report=stop_at(best + 10), **options)
    assert same(train(config, data, directory=tmp_path / "again", **options), policy)
    shutil.rmtree(tmp_path / "run" / "policy")
    assert same(train(config, data, directory=tmp_path / "run", **options), policy)


def test_a_training_that_still_learns_gets_its_last_weights() -> None:
    told: list[Progress] = []
    first = train(SMALL, small_dataset(), validate_every=5, report=told.append)
    assert told[-1].done == SMALL.steps
    assert not any(now.note for now in told)
    assert same(first, train(SMALL, small_dataset(), validate_every=30))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the compiler's own
@pytest.mark.parametrize("method", ["rvs-timeless", "bc", "bcq-lag", "bear-lag", "cpq", "coptidice", "ccac"])
def test_a_compiled_training_learns_the_same(method: str) -> None:
    config = replace(METHODS[method], steps=10)
    first, second = (train(config, small_dataset(), compile=flag).tensors() for flag in (False, True))
    for name, tensor in first.items():
        torch.testing.assert_close(second[name], tensor, rtol=1e-3, atol=1e-5)
