import csv
import json
import os
import random
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import torch

from lifesafe.errors import CheckpointError
from lifesafe.policies.training_state import CSVLog, Identity, TrainingDirectory, TrainingState

IDENTITY = Identity("RvSConfig", {"steps": 10, "width": 8}, "d" * 64, 0)


@pytest.fixture
def files(tmp_path: Path) -> TrainingDirectory:
    directory = TrainingDirectory(tmp_path / "run" / "training", IDENTITY)
    with directory.open():
        pass
    return directory


def state(step: int, size: int = 4) -> TrainingState:
    tensors = {"weights": torch.full((size,), float(step)), "random": torch.arange(5, dtype=torch.uint8)}
    return TrainingState(step, tensors, {"seconds": step / 3})


def check(found: TrainingState | None, step: int) -> None:
    assert found is not None
    expected = state(step, size=len(found.tensors["weights"]))
    assert found.step == step
    assert found.plain == expected.plain
    assert found.tensors.keys() == expected.tensors.keys()
    for name, tensor in expected.tensors.items():
        assert torch.equal(found.tensors[name], tensor)


def test_the_last_checkpoint_comes_back(files: TrainingDirectory) -> None:
    assert files.read() is None
    for step in (3, 5, 12):
        files.write(state(step))
        check(files.read(), step)


def test_what_killed_writers_left_is_passed_over_and_cleared_away(files: TrainingDirectory) -> None:
    files.write(state(3))
    (files.path / "state-5.safetensors").write_bytes(b"half")
    (files.path / ".state.json.abc.tmp").write_bytes(b"half")
    check(files.read(), 3)
    files.write(state(5))
    check(files.read(), 5)
    assert sorted(path.name for path in files.path.iterdir()) == ["state-5.safetensors", "state.json"]


@pytest.mark.parametrize("name", ["state.json", "state-3.safetensors"])
def test_damage_is_found(files: TrainingDirectory, name: str) -> None:
    files.write(state(3))
    body = json.loads((files.path / "state.json").read_text())
    content, chance = (files.path / name).read_bytes(), random.Random(0)
    for _ in range(30):
        place = chance.randrange(len(content) - 1)
        changed = bytearray(content)
        changed[place] ^= 0x80  # not ASCII any more
        (files.path / name).write_bytes(bytes(changed))
        with pytest.raises(CheckpointError, match="damaged or was edited"):
            files.read()
    for length in (0, len(content) // 2):
        (files.path / name).write_bytes(content[:length])
        with pytest.raises(CheckpointError, match="damaged or was edited"):
            files.read()
    (files.path / "state.json").write_text(json.dumps(body | {"step": 4}))
    with pytest.raises(CheckpointError, match=r"Remove .*training to train from the start"):
        files.read()
    files.write(state(3))
    (files.path / "state-3.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"state-3\.safetensors is missing"):
        files.read()


def test_two_trainings_in_one_place_are_refused(files: TrainingDirectory) -> None:
    with files.open(), pytest.raises(CheckpointError, match="Another process trains in"), ExitStack() as stack:
        stack.enter_context(TrainingDirectory(files.path, IDENTITY).open())
    with files.open():
        pass


@pytest.mark.parametrize("failing", ["fsync", "open", "replace"])
def test_whatever_fails_while_writing_the_last_checkpoint_is_whole(
    files: TrainingDirectory, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    files.write(state(3))
    real: Callable[..., object] = getattr(os, failing)
    for fails_at in range(1, 20):
        calls = 0

        def fail(*arguments: object, fails_at: int = fails_at, **options: object) -> object:
            nonlocal calls
            calls += 1
            if calls == fails_at:
                raise OSError(28, "No space left on device")
            return real(*arguments, **options)

        with monkeypatch.context() as patch:
            patch.setattr(os, failing, fail)
            with suppress(CheckpointError):
                files.write(state(5))
            last = files.read()
        assert last is not None
        check(last, last.step)
        if calls < fails_at:
            assert last.step == 5
            return
        files.write(state(3))
    pytest.fail("not all calls were made to fail")


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_the_log_can_be_read_while_training_goes_on_and_a_metric_may_come_later(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    log = CSVLog(path, step=0)
    log.write(10, {"loss": 1 / 3})
    assert rows(path) == [{"step": "10", "loss": repr(1 / 3)}]
    log.write(20, {"loss": 0.25, "held_out_nll": 2.0})
    log.write(30, {"loss": 0.125})
    assert [row["held_out_nll"] for row in rows(path)] == ["", "2.0", ""]
    assert [row["loss"] for row in rows(path)] == [repr(1 / 3), "0.25", "0.125"]


def test_a_resumed_log_has_no_row_twice(tmp_path: Path) -> None:
    log = CSVLog(tmp_path / "log.csv", step=0)
    for step in (10, 20, 30):
        log.write(step, {"loss": float(step)})
    again = CSVLog(tmp_path / "log.csv", step=25)
    again.write(30, {"loss": 31.0})
    assert [(row["step"], row["loss"]) for row in rows(tmp_path / "log.csv")] == [
        ("10", "10.0"),
        ("20", "20.0"),
        ("30", "31.0"),
    ]


def test_a_log_resumed_from_the_start_begins_anew(tmp_path: Path) -> None:
    CSVLog(tmp_path / "log.csv", step=0).write(10, {"loss": 1.0, "old": 2.0})
    CSVLog(tmp_path / "log.csv", step=0).write(10, {"loss": 3.0})
    assert rows(tmp_path / "log.csv") == [{"step": "10", "loss": "3.0"}]


@pytest.mark.parametrize("cut", range(1, 30))
def test_a_row_that_was_cut_off_is_dropped(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "log.csv"
    log = CSVLog(path, step=0)
    for step in (10, 20):
        log.write(step, {"loss": 0.123456})
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    kept = rows(path) if whole[:-cut].endswith(b"\n") else rows(path)[:-1]
    again = CSVLog(path, step=20)
    again.write(30, {"loss": 0.5})
    assert [row["step"] for row in rows(path)] == [*(row["step"] for row in kept), "30"]
