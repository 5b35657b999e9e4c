"""`python -m theorem1`, in this process."""

import json
from pathlib import Path

import pytest

from lifesafe.errors import ConfigError
from theorem1.__main__ import main

QUICK = ["--case", "unrealizable", "--datasets", "10", "--episodes", "200", "800"]


@pytest.fixture(autouse=True)
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def numbers(name: str, out: str = "runs/theorem1"):
    return json.loads(Path(out, f"{name}.json").read_text())


def test_tables_numbers_and_picture_are_made(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(QUICK) == 0
    out = capsys.readouterr().out
    place = Path("runs/theorem1")
    assert (place / "unrealizable.md").read_text() in out
    assert "## Bias" in out
    assert (place / "unrealizable.png").read_bytes().startswith(b"\x89PNG")
    assert numbers("unrealizable")[0]["case"] == "unrealizable"


def test_the_same_seed_gives_the_same_numbers() -> None:
    told = []
    for seed in ("3", "3", "4"):
        assert main([*QUICK, "--seed", seed, "--out", f"seed {seed}"]) == 0
        told.append(numbers("unrealizable", f"seed {seed}"))
    assert told[0] == told[1] != told[2]
    assert [row["episodes"] for row in told[0][0]["law"]] == [200, 800]


def test_all_cases_are_studied_unless_one_is_named() -> None:
    assert main(["--datasets", "2", "--episodes", "300"]) == 0
    cases = [study["case"] for study in numbers("all")]
    assert cases == ["exact", "soft", "stochastic", "noisy", "unrealizable", "rare"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--datasets", "1"], "Got one dataset; give at least 2"),
        (["--episodes", "0"], "give a whole number of at least 1"),
        (["--coverage", "0.9"], "Give a smaller coverage"),
        (["--seed", "-1"], "A seed is a whole number that is not negative"),
    ],
)
def test_impossible_settings_are_explained(words: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        main(["--case", "exact", *words])
    assert not Path("runs").exists()
