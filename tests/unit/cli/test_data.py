"""The commands for tasks and data, through the real entry point."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lifesafe.cli import main
from lifesafe.console.settings import data_directory
from lifesafe.data import fetch as downloads
from lifesafe.systems import task, tasks
from logged import circling, hdf5
from shell import Shell
from unruly_server import Unruly, refuse, serving

NAME = "SafetyCarCircle-v0-100-1450.hdf5"


def car_circle(**options: Any) -> dict[str, np.ndarray]:
    """Return data of the sizes of CarCircle."""
    columns = circling(**options)
    for name in ("observations", "next_observations"):
        columns[name] = np.hstack([columns[name], columns[name] ** 2])
    return columns


CONTENT = hdf5(car_circle(), compression="gzip")


@pytest.fixture(autouse=True)
def _data(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIFESAFE_DATA", str(place / "data"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Unruly]:
    """Stand in for the public mirror."""
    with serving(CONTENT) as unruly:
        monkeypatch.setattr(downloads, "MIRRORS", (unruly.address,))
        yield unruly


def test_tasks_are_listed_with_their_sizes(shell: Shell) -> None:
    lines = shell("tasks").out.splitlines()
    assert lines[0].split() == ["task", "observations", "actions", "steps", "limit", "needs", "public", "data"]
    row = next(line for line in lines if line.startswith("CarCircle")).split()
    assert row[:5] == ["CarCircle", "8", "2", "300", "20"]
    assert row[-1] == NAME
    assert all(any(line.startswith(known.name) for line in lines) for known in tasks())


def test_tasks_are_told_to_machines(shell: Shell) -> None:
    told = {row["name"]: row for row in shell("tasks", "--json").json}
    assert set(told) == {known.name for known in tasks()}
    assert told["HopperVelocity"]["horizon"] == task("HopperVelocity").horizon
    assert told["HopperVelocity"]["needs"] == "MuJoCo"
    assert (told["PointCircle"]["needs"], told["PointCircle"]["installed"]) == ("nothing", True)


def test_a_simulator_that_is_missing_is_told_with_the_way_to_get_it(
    monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "mujoco" else find(name))
    out = shell("tasks").out
    assert "MuJoCo (missing)" in out
    assert 'MuJoCo is not installed: pip install "lifesafe[mujoco]"' in out


def test_data_are_fetched_to_the_place_in_the_environment(server: Unruly, place: Path, shell: Shell) -> None:
    captured = shell("data", "fetch", "CarCircle")
    assert captured.out == f"{place / 'data' / NAME}\n"
    assert captured.err == ""
    assert (place / "data" / NAME).read_bytes() == CONTENT


def test_data_are_fetched_where_one_says_and_told_to_machines(server: Unruly, place: Path, shell: Shell) -> None:
    first, second = shell("data", "fetch", "CarCircle", "Other-1.hdf5", "--data-dir", "here", "--json").json
    assert (first["name"], first["path"], first["size"]) == ("CarCircle", f"here/{NAME}", len(CONTENT))
    assert (second["path"], second["sha256"]) == ("here/Other-1.hdf5", first["sha256"])


def test_a_given_mirror_is_asked_first(server: Unruly, place: Path) -> None:
    (place / "mirror").mkdir()
    (place / "mirror" / NAME).write_bytes(CONTENT)
    assert main(["data", "fetch", "CarCircle", "--mirror", "nowhere", "--mirror", "mirror"]) == 0
    assert not server.asked


def test_waiting_is_explained(server: Unruly, shell: Shell) -> None:
    server.answers = [refuse(503, Retry_After="0")]
    assert (
        "CarCircle: the server answers 503 Service Unavailable; trying again in 1 s"
        in shell("data", "fetch", "CarCircle").err
    )


def test_a_changed_file_needs_force(server: Unruly, place: Path, shell: Shell) -> None:
    shell("data", "fetch", "CarCircle")
    (place / "data" / NAME).write_bytes(CONTENT[:-1])
    assert "--force" in shell("data", "fetch", "CarCircle", code=2).err
    shell("data", "fetch", "CarCircle", "--force")
    shell("data", "fetch", "CarCircle", "--offline")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fetch"], "Give the name of at least one task"),
        (["fetch", "CarCirle"], "Unknown task 'CarCirle'. Did you mean 'CarCircle'?"),
        (["fetch", "PointCircle"], "Task 'PointCircle' has no public data"),
        (["fetch", "../x.hdf5"], "is not the name of a data file"),
        (["fetch", "CarCircle", "--offline"], f"looked for {{data}}/{NAME}"),
        (["fetch", "CarCircle", "--mirror", "gopher://x"], "'gopher://x' is not a mirror"),
        (["check", "nowhere.hdf5"], "nowhere.hdf5 does not exist; give an HDF5 file"),
        (["check", "CarCirle"], "Did you mean 'CarCircle'?"),
        (["check", "CarCircle"], f"{{data}}/{NAME} does not exist; get it with: lifesafe data fetch CarCircle"),
        (["check", ".", "--task", "Car"], "Unknown task 'Car'"),
        (["check", ".", "--limit", "-1"], "A limit is a number that is not negative; got -1"),
        (["check", ".", "--limit", "nan"], "A limit is a number that is not negative; got nan"),
        (["summary", "."], ". is not a file"),
        (["plot", "."], ". is not a file"),
    ],
)
def test_an_error_is_a_message(words: list[str], message: str, place: Path, shell: Shell) -> None:
    captured = shell("data", *words, code=2)
    assert message.format(data=place / "data") in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""


def test_check_finds_nothing_wrong_in_good_data(place: Path, shell: Shell) -> None:
    Path("logs.hdf5").write_bytes(CONTENT)
    lines = shell("data", "check", "--limit", "8", "logs.hdf5").out.splitlines()
    assert lines[0].startswith("note     coverage: ")
    assert lines[-1] == "logs.hdf5: no errors, no warnings, 1 note"
    assert all(len(line) <= 120 for line in lines)


def test_check_counts_errors_and_warnings(shell: Shell) -> None:
    columns = car_circle()
    columns["timeouts"][-1] = 0
    Path("logs.hdf5").write_bytes(hdf5(columns))
    shell("data", "check", "logs.hdf5")
    shell("data", "check", "logs.hdf5", "--strict", code=1)
    columns["costs"][3] = -1
    Path("logs.hdf5").write_bytes(hdf5(columns))
    told = shell("data", "check", "logs.hdf5", "--json", code=1).json
    assert (told["error"], told["warning"], told["note"], told["task"]) == (1, 1, 1, None)
    assert [finding["code"] for finding in told["findings"]] == ["negative-cost", "trailing", "returns"]
    assert told["findings"][0]["rows"] == [3]


def test_check_knows_the_task_of_a_public_file(place: Path, shell: Shell) -> None:
    (place / "data").mkdir()
    (place / "data" / NAME).write_bytes(CONTENT)
    for words in (["CarCircle"], [f"data/{NAME}"]):
        assert f"{NAME} as CarCircle: no errors" in shell("data", "check", *words).out
    assert (
        "A row has 8 observations, those of HopperVelocity have 11."
        in shell("data", "check", f"data/{NAME}", "--task", "HopperVelocity", code=1).out
    )


@pytest.mark.parametrize("content", [b"", b"text", CONTENT[:5000], CONTENT[:-10]])
def test_check_says_what_it_cannot_read(content: bytes, shell: Shell) -> None:
    Path("logs.hdf5").write_bytes(content)
    captured = shell("data", "check", "logs.hdf5", "--limit", "20", code=1)
    assert captured.out.startswith("error    unreadable: ")
    assert captured.err == ""


def test_summary_prints_the_figures(shell: Shell) -> None:
    Path("logs.hdf5").write_bytes(CONTENT)
    assert shell("data", "summary", "logs.hdf5", "--limit", "8").out.startswith("100 episodes, 5,000 transitions")
    told = shell("data", "summary", "logs.hdf5", "--limit", "8", "--json").json
    assert (told["episodes"], told["limits"]) == (100, [8.0])


def test_plot_draws_where_it_is_told(shell: Shell) -> None:
    Path("logs.hdf5").write_bytes(CONTENT)
    assert shell("data", "plot", "logs.hdf5", "--limit", "8").out == "Picture: logs.png\n"
    assert Path("logs.png").read_bytes().startswith(b"\x89PNG")
    shell("data", "plot", "logs.hdf5", "--out", "figures/logs.svg")
    assert Path("figures/logs.svg").read_bytes().startswith(b"<svg")


def test_the_place_of_data_is_chosen_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    assert data_directory(Path("given")) == Path("given")
    monkeypatch.setenv("LIFESAFE_DATA", "/chosen")
    assert data_directory() == Path("/chosen")
    monkeypatch.delenv("LIFESAFE_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert data_directory() == Path("/cache/lifesafe/datasets")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert data_directory() == Path("~/.cache/lifesafe/datasets").expanduser()
