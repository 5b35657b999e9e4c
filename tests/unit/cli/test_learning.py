"""The commands that learn: what they print, where they write, how they refuse."""

from pathlib import Path

import pytest

from lifesafe.console.settings import parse_settings, settings_help, with_settings
from lifesafe.errors import ConfigError
from lifesafe.policies import CDTConfig, load
from lifesafe.systems import task
from shell import Shell

QUICK = ["--method", "rvs", "--set", "steps=3", "--set", "batch=16", "--set", "width=8"]


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


def test_training_again_is_free_and_other_settings_are_refused(shell: Shell) -> None:
    words = ["train", "PointCircle", *QUICK, "--out", "run"]
    assert shell(*words).out == "Policy: run/policy\n"
    assert shell(*words, "--json").json["policy"] == "run/policy"
    assert "steps" in shell(*words, "--set", "steps=4", code=2).err


def test_an_unknown_setting_is_named_with_the_nearest(shell: Shell) -> None:
    assert "Did you mean 'width'?" in shell("train", "PointCircle", "--set", "witdh=8", code=2).err


def test_an_unknown_task_is_named_with_the_nearest(shell: Shell) -> None:
    for command in (["train"], ["alignment"], ["data", "collect"]):
        assert "Did you mean 'PointCircle'?" in shell(*command, "PointCirle", code=2).err


def test_help_lists_the_settings(shell: Shell) -> None:
    assert "Gradient steps." in shell("train", "PointCircle", "--method", "rvs", "--set", "help").out
    assert "Gradient steps." in shell("alignment", "PointCircle", "--method", "rvs", "--set", "help").out
    assert not Path("runs").exists()
    assert "steps = 2000000" in shell("data", "collect", "CarCircle", "--set", "help").out


def test_alignment_draws_and_tells(shell: Shell) -> None:
    words = ["alignment", "PointCircle", *QUICK, "--seeds", "2", "--rewards", "2", "--costs", "2", "--episodes", "2"]
    assert shell(*words, "--workers", "0", "--out", "study").out.endswith("Picture: study/alignment.png\n")
    assert Path("study/alignment.png").read_bytes().startswith(b"\x89PNG")
    told = shell(*words, "--workers", "0", "--out", "study", "--json").json
    assert len(told["points"]) == 8


def test_alignment_runs_policies_that_are_there(shell: Shell) -> None:
    for seed in ("0", "1"):
        shell("train", "PointCircle", *QUICK, "--seed", seed, "--out", f"run-{seed}")
    words = ["alignment", "PointCircle", "--policy", "run-0", "run-1/policy", "--rewards", "2", "--costs", "2"]
    told = shell(*words, "--episodes", "2", "--workers", "0", "--json").json
    assert told["picture"] == "runs/alignment-PointCircle-policies/alignment.png"
    assert [point["seed"] for point in told["points"]] == [0] * 4 + [1] * 4
    for training in (["--set", "steps=3"], ["--seeds", "2"]):
        assert "--set and --seeds are for those that are trained here" in shell(*words, *training, code=2).err


def test_collecting_gives_data_that_can_be_trained_on(shell: Shell) -> None:
    few = ["--set", "steps=2000", "--set", "rows=4", "--set", "exhibits=1", "--set", "segment=50", "--set", "epochs=1"]
    told = shell("data", "collect", "PointCircle", *few, "--out", "made", "--json").json
    assert told["episodes"] >= 5
    assert shell("data", "collect", "PointCircle", *few, "--out", "again").out.endswith(
        f"Data: again/PointCircle.hdf5, fingerprint {told['fingerprint'][:8]}\n"
    )
    shell("train", "PointCircle", *QUICK, "--data", told["path"], "--out", "run")


def test_a_dotted_key_reaches_into_a_setting() -> None:
    config = with_settings(CDTConfig(), ["steps=7", "augmentation.fraction=0.5"])
    assert (config.steps, config.augmentation.fraction, config.augmentation.spacing) == (7, 0.5, 2.0)


@pytest.mark.parametrize("word", ["steps.more=1", "nothing.more=1"])
def test_a_dotted_key_into_nothing_is_refused(word: str) -> None:
    with pytest.raises(ConfigError, match=r"has no settings of its own"):
        with_settings(CDTConfig(), [word])


def test_a_baseline_is_trained_for_its_limit_and_evaluated(shell: Shell) -> None:
    quick = ["--set", "steps=3", "--set", "batch=16", "--set", "width=8", "--set", "vae_width=8"]
    path = "runs/train-PointCircle-cpq-30-0/policy"
    assert shell("train", "PointCircle", "--method", "cpq", "--limit", "30", *quick).out == f"Policy: {path}\n"
    assert load(path).config.limits == (30.0,)

    words = ["evaluate", "PointCircle", path, "--episodes", "2", "--workers", "0"]
    shown = shell(*words, "--limit", "30", "--json", code=None)
    assert len(shown.json["returns"]) == 2
    assert shown.json["safe"] == (shown.code == 0)
    shown = shell(*words, code=None)
    assert "cost (limit 20)" in shown.out
    assert "asked for" not in shown.out


def test_evaluation_shows_what_a_policy_was_asked_for(shell: Shell) -> None:
    shell("train", "PointCircle", *QUICK, "--out", "run")
    words = ["evaluate", "PointCircle", "run", "--limit", "30", "--episodes", "1", "--workers", "0"]
    for given, reward in (([], task("PointCircle").reference[1]), (["--reward", "123"], 123.0)):
        lines = shell(*words, *given, code=None).out.splitlines()
        row = next(line for line in lines if line.startswith("asked for"))
        assert row.split() == ["asked", "for", f"{reward:.1f}", "30.0"]


@pytest.mark.parametrize("method", ["cdt", "rvs", "bc-all"])
def test_a_policy_of_another_task_is_not_evaluated(method: str, shell: Shell) -> None:
    heads = ["--set", "heads=2"] if method == "cdt" else []
    shell("train", "PointCircle", *QUICK, *heads, "--method", method, "--out", "run")
    assert (
        "sees 5 numbers and acts by 2; task 'HopperVelocity' has 11"
        in shell("evaluate", "HopperVelocity", "run", "--workers", "0", code=2).err
    )


def test_limits_are_given_by_their_own_option(shell: Shell) -> None:
    assert (
        "give them by --limit"
        in shell("train", "PointCircle", "--method", "cpq", "--limit", "20", "--set", "limits=[40.0]", code=2).err
    )
