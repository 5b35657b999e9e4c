"""The commands that learn: what they print, where they write, how they refuse."""

import json
from pathlib import Path

import pytest

from lifesafe.cli import main
from lifesafe.console.settings import parse_settings, settings_help, with_settings
from lifesafe.errors import ConfigError
from lifesafe.policies import CDTConfig, load
from lifesafe.systems import task

QUICK = ["--method", "rvs", "--set", "steps=3", "--set", "batch=16", "--set", "width=8"]


@pytest.fixture(autouse=True)
def _empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("word", "value"),
    [("steps=20", 20), ("width = 8", 8), ("lr=1e-3", 1e-3), ("sliding=false", False), ("mode=mild", "mild")],
)
def test_settings_are_read_as_toml(word: str, value: object) -> None:
    assert list(parse_settings([word]).values()) == [value]


@pytest.mark.parametrize("word", ["steps", "=3", ""])
def test_a_setting_without_a_key_is_refused(word: str) -> None:
    with pytest.raises(ConfigError, match="KEY=VALUE"):
        parse_settings([word])


def test_the_settings_are_listed_with_their_texts() -> None:
    text = settings_help(CDTConfig(width=64))
    assert "width = 64\n    Size of every token.\n" in text


def test_training_again_is_free_and_other_settings_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "PointCircle", *QUICK, "--out", "run"]) == 0
    assert main(["train", "PointCircle", *QUICK, "--out", "run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.partition("\n")[2])["policy"] == "run/policy"
    assert main(["train", "PointCircle", *QUICK, "--set", "steps=4", "--out", "run"]) == 2
    assert "steps" in capsys.readouterr().err


def test_an_unknown_setting_is_named_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "PointCircle", "--set", "witdh=8"]) == 2
    assert "Did you mean 'width'?" in capsys.readouterr().err


def test_an_unknown_task_is_named_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["train"], ["alignment"], ["data", "collect"]):
        assert main([*command, "PointCirle"]) == 2
        assert "Did you mean 'PointCircle'?" in capsys.readouterr().err


def test_help_lists_the_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "PointCircle", "--method", "rvs", "--set", "help"]) == 0
    assert "Gradient steps." in capsys.readouterr().out
    assert main(["alignment", "PointCircle", "--method", "rvs", "--set", "help"]) == 0
    assert "Gradient steps." in capsys.readouterr().out
    assert not Path("runs").exists()
    assert main(["data", "collect", "CarCircle", "--set", "help"]) == 0
    assert "steps = 2000000" in capsys.readouterr().out


def test_alignment_draws_and_tells(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["alignment", "PointCircle", *QUICK, "--seeds", "2", "--rewards", "2", "--costs", "2", "--episodes", "2"]
    assert main([*words, "--workers", "0", "--out", "study"]) == 0
    assert capsys.readouterr().out.endswith("Picture: study/alignment.png\n")
    assert Path("study/alignment.png").read_bytes().startswith(b"\x89PNG")
    assert main([*words, "--workers", "0", "--out", "study", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["points"]) == 8


def test_alignment_runs_policies_that_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    for seed in ("0", "1"):
        assert main(["train", "PointCircle", *QUICK, "--seed", seed, "--out", f"run-{seed}"]) == 0
    words = ["alignment", "PointCircle", "--policy", "run-0", "run-1/policy", "--rewards", "2", "--costs", "2"]
    capsys.readouterr()
    assert main([*words, "--episodes", "2", "--workers", "0", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["picture"] == "runs/alignment-PointCircle-policies/alignment.png"
    assert [point["seed"] for point in told["points"]] == [0] * 4 + [1] * 4
    for training in (["--set", "steps=3"], ["--seeds", "2"]):
        assert main([*words, *training]) == 2
        assert "--set and --seeds are for those that are trained here" in capsys.readouterr().err


def test_collecting_gives_data_that_can_be_trained_on(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--set", "steps=2000", "--set", "rows=4", "--set", "exhibits=1", "--set", "segment=50", "--set", "epochs=1"]
    assert main(["data", "collect", "PointCircle", *few, "--out", "made", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["episodes"] >= 5
    assert main(["data", "collect", "PointCircle", *few, "--out", "again"]) == 0
    assert capsys.readouterr().out.endswith(f"Data: again/PointCircle.hdf5, fingerprint {told['fingerprint'][:8]}\n")
    assert main(["train", "PointCircle", *QUICK, "--data", told["path"], "--out", "run"]) == 0


def test_a_dotted_key_reaches_into_a_setting() -> None:
    config = with_settings(CDTConfig(), ["steps=7", "augmentation.fraction=0.5"])
    assert (config.steps, config.augmentation.fraction, config.augmentation.spacing) == (7, 0.5, 2.0)


@pytest.mark.parametrize("word", ["steps.more=1", "nothing.more=1"])
def test_a_dotted_key_into_nothing_is_refused(word: str) -> None:
    with pytest.raises(ConfigError, match=r"has no settings of its own"):
        with_settings(CDTConfig(), [word])


def test_a_baseline_is_trained_for_its_limit_and_evaluated(capsys: pytest.CaptureFixture[str]) -> None:
    quick = ["--set", "steps=3", "--set", "batch=16", "--set", "width=8", "--set", "vae_width=8"]
    assert main(["train", "PointCircle", "--method", "cpq", "--limit", "30", *quick]) == 0
    path = "runs/train-PointCircle-cpq-30-0/policy"
    assert capsys.readouterr().out == f"Policy: {path}\n"
    assert load(path).config.limits == (30.0,)

    code = main(["evaluate", "PointCircle", path, "--limit", "30", "--episodes", "2", "--workers", "0", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert len(told["returns"]) == 2
    assert told["safe"] == (code == 0)
    assert main(["evaluate", "PointCircle", path, "--episodes", "2", "--workers", "0"]) in (0, 1)
    shown = capsys.readouterr().out
    assert "cost (limit 20)" in shown
    assert "asked for" not in shown


def test_evaluation_shows_what_a_policy_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "PointCircle", *QUICK, "--out", "run"]) == 0
    words = ["evaluate", "PointCircle", "run", "--limit", "30", "--episodes", "1", "--workers", "0"]
    for given, reward in (([], task("PointCircle").reference[1]), (["--reward", "123"], 123.0)):
        capsys.readouterr()
        assert main([*words, *given]) in (0, 1)
        row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("asked for"))
        assert row.split() == ["asked", "for", f"{reward:.1f}", "30.0"]


@pytest.mark.parametrize("method", ["cdt", "rvs", "bc-all"])
def test_a_policy_of_another_task_is_not_evaluated(method: str, capsys: pytest.CaptureFixture[str]) -> None:
    heads = ["--set", "heads=2"] if method == "cdt" else []
    assert main(["train", "PointCircle", *QUICK, *heads, "--method", method, "--out", "run"]) == 0
    assert main(["evaluate", "HopperVelocity", "run", "--workers", "0"]) == 2
    assert "sees 5 numbers and acts by 2; task 'HopperVelocity' has 11" in capsys.readouterr().err


def test_limits_are_given_by_their_own_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "PointCircle", "--method", "cpq", "--limit", "20", "--set", "limits=[40.0]"]) == 2
    assert "give them by --limit" in capsys.readouterr().err
