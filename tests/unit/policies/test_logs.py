import csv
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from lifesafe.errors import ConfigError, DependencyError
from lifesafe.policies.logs import CSVLog, Log, check_log, open_log


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def opened(kind: Any, directory: Path | None, step: int = 0) -> Log:
    return open_log(kind, directory, step=step, run="run-1", config={"width": 8})


def test_a_csv_log_has_one_row_per_step(tmp_path: Path) -> None:
    log = opened("csv", tmp_path)
    log.write(10, {"loss": 0.5})
    log.write(20, {"loss": 1 / 3})
    log.close()
    assert rows(tmp_path / "log.csv") == [{"step": "10", "loss": "0.5"}, {"step": "20", "loss": repr(1 / 3)}]


def test_a_metric_may_come_later_and_be_missing(tmp_path: Path) -> None:
    log = opened("csv", tmp_path)
    log.write(10, {"loss": 0.5})
    log.write(20, {"loss": 0.25, "held_out_nll": 2.0})
    log.write(30, {"loss": 0.125})
    assert [row["held_out_nll"] for row in rows(tmp_path / "log.csv")] == ["", "2.0", ""]
    assert [row["loss"] for row in rows(tmp_path / "log.csv")] == ["0.5", "0.25", "0.125"]


def test_rows_can_be_read_while_training_goes_on(tmp_path: Path) -> None:
    log = opened("csv", tmp_path)
    for step in (1, 2):
        log.write(step, {"loss": 0.5})
        assert len(rows(tmp_path / "log.csv")) == step


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


def test_without_a_directory_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for kind, directory in (("csv", None), ("none", tmp_path)):
        log = opened(kind, directory)
        log.write(1, {"loss": 1.0})
        log.close()
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_log_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"log = 'tensorbord' is not one of csv, .*Did you mean 'tensorboard'"):
        check_log("tensorbord", Path())  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["tensorboard", "wandb"])
def test_services_need_a_directory(kind: Any) -> None:
    with pytest.raises(ConfigError, match="needs a directory"):
        check_log(kind, None)


@pytest.mark.parametrize(("kind", "module"), [("tensorboard", "tensorboard"), ("wandb", "wandb")])
def test_a_package_that_is_missing_is_named(kind: Any, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    with pytest.raises(DependencyError, match=rf'pip install "lifesafe\[{kind}\]"'):
        check_log(kind, Path())


class Calls:
    """Stands in for TensorBoard's writer and for a run of Weights & Biases; neither can be installed everywhere."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.calls: list[tuple[Any, ...]] = [("init", arguments, options)]

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **options: self.calls.append((name, arguments, options))


def test_tensorboard_gets_scalars_and_drops_later_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, writers = ModuleType("torch.utils.tensorboard"), []

    def writer(*arguments: Any, **options: Any) -> Calls:
        writers.append(Calls(*arguments, **options))
        return writers[-1]

    module.SummaryWriter = writer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tensorboard", ModuleType("tensorboard"))
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    log = opened("tensorboard", tmp_path, step=25)
    log.write(30, {"loss": 0.5})
    log.close()
    assert writers[0].calls == [
        ("init", (str(tmp_path / "tensorboard"),), {"purge_step": 26}),
        ("add_scalar", ("loss", 0.5, 30), {}),
        ("flush", (), {}),
        ("close", (), {}),
    ]


def test_wandb_goes_on_in_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, runs = ModuleType("wandb"), []

    def init(**options: Any) -> Calls:
        runs.append(Calls(**options))
        return runs[-1]

    module.init = init  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", module)
    log = opened("wandb", tmp_path, step=25)
    log.write(30, {"loss": 0.5})
    log.close()
    options = {"dir": str(tmp_path), "id": "run-1", "resume": "allow", "config": {"width": 8}}
    assert runs[0].calls == [("init", (), options), ("log", ({"loss": 0.5},), {"step": 30}), ("finish", (), {})]
