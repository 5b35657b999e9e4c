"""`lifesafe theory theorem1` through the real entry point, in this process."""

import json
from pathlib import Path

import pytest

from lifesafe.cli import main

QUICK = ["theory", "theorem1", "--case", "unrealizable", "--datasets", "10", "--episodes", "200", "800"]


@pytest.fixture(autouse=True)
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_tables_numbers_and_picture_are_made(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(QUICK) == 0
    out = capsys.readouterr().out
    place = Path("runs/theorem1")
    assert (place / "unrealizable.md").read_text() in out
    assert "## Bias" in out
    assert (place / "unrealizable.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((place / "unrealizable.json").read_text())[0]["case"] == "unrealizable"


def test_machines_are_told_the_same_for_the_same_seed(capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for seed in ("3", "3", "4"):
        assert main([*QUICK, "--json", "--seed", seed, "--out", f"seed {seed}"]) == 0
        told.append(json.loads(capsys.readouterr().out))
    assert told[0] == told[1] != told[2]
    assert [row["episodes"] for row in told[0][0]["law"]] == [200, 800]


def test_all_cases_are_studied_unless_one_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["theory", "theorem1", "--datasets", "2", "--episodes", "300", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [study["case"] for study in told] == ["exact", "soft", "stochastic", "noisy", "unrealizable", "rare"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--datasets", "1"], "Got one dataset; give at least 2"),
        (["--episodes", "0"], "Got --episodes 0; give a whole number of at least 1"),
        (["--coverage", "0.9"], "Give a smaller coverage"),
        (["--seed", "-1"], "A seed is a whole number that is not negative"),
    ],
)
def test_impossible_settings_are_explained(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["theory", "theorem1", "--case", "exact", *words]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""
