"""Asking and telling from the shell: what a search is begun by, and how what does not fit it is refused."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lifesafe.cli import main
from lifesafe.data import Dataset
from lifesafe.data.dsrl import write_dsrl
from lifesafe.optimizer import SafeOptimizer
from lifesafe.optimizer.journal import read_events
from lifesafe.returns import Returns
from logs import careful, reckless

BEGIN = ["--data", "logs.hdf5", "--limit", "10"]


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def _lab(_inside: None) -> None:
    """Begin a search by careful logs."""
    write_dsrl(careful(np.random.default_rng(0)), "logs.hdf5")
    assert main(["ask", "lab", *BEGIN]) == 0


def test_a_lab_does_not_begin_by_logs_whose_cheap_episodes_are_luck(capsys: pytest.CaptureFixture[str]) -> None:
    write_dsrl(reckless(np.random.default_rng(0)), "logs.hdf5")
    assert main(["ask", "lab", *BEGIN]) == 2
    assert "their cheap episodes look like luck" in capsys.readouterr().err
    assert not Path("lab").exists()


def test_a_lab_begins_with_the_rewards_that_careful_behaviors_had(capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    calm, daring = careful(rng), reckless(rng)
    daring = replace(daring, rewards=daring.rewards + 1)  # luck earns more than care ever does
    write_dsrl(Dataset.from_episodes([*calm, *daring]), "logs.hdf5")
    assert main(["ask", "lab", *BEGIN]) == 0
    with SafeOptimizer.open("lab") as optimizer:
        rewards = [optimizer.problem.target(seed).reward for seed in optimizer.problem.seeds]
    assert max(rewards) < calm.returns[:, 0].max()
    assert json.loads(capsys.readouterr().out)["target"]["reward"] == rewards[0]


@pytest.mark.usefixtures("_lab")
def test_a_search_that_was_begun_takes_no_other_limit(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--limit", "30"], ["--data", "logs.hdf5", "--limit", "30"]):
        assert main(["ask", "lab", *words]) == 2
        assert "The search in lab has the limit 10; got 30." in capsys.readouterr().err
    assert main(["ask", "lab", *BEGIN]) == 0


@pytest.mark.usefixtures("_lab")
def test_the_command_that_began_a_search_still_asks_after_its_limit_was_changed() -> None:
    with SafeOptimizer.open("lab") as optimizer:
        (trial,) = optimizer.open_trials
        optimizer.tell(trial, [Returns(1.0, 0.0)] * trial.episodes)
        optimizer.change_limits(12.0)
    assert main(["ask", "lab", *BEGIN]) == 0


@pytest.mark.usefixtures("_lab")
@pytest.mark.parametrize("option", [["--delta", "0.1"], ["--dither", "0.05"], ["--seed", "0"], ["--cost-bounds", "99"]])
def test_options_that_begin_a_search_are_refused_later(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ask", "lab", *option]) == 2
    assert "It keeps the bounds, delta, dither and seed that it was begun with." in capsys.readouterr().err


@pytest.mark.usefixtures("_lab")
def test_a_file_that_is_no_text_tells_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    Path("noise.json").write_bytes(b"\xff\xfe\xfd" * 9)
    assert main(["tell", "lab", "noise.json", "--trial", "1"]) == 2
    assert "noise.json is not JSON" in capsys.readouterr().err
    assert [event.kind for event in read_events("lab/journal.sqlite")] == ["opened", "asked"]


@pytest.mark.usefixtures("_lab")
@pytest.mark.parametrize("command", ["optimize", "operate"])
def test_a_search_without_an_environment_is_said_to_be_one(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "lab"]) == 2
    err = capsys.readouterr().err
    assert "The run in lab was begun by `lifesafe ask` or SafeOptimizer" in err
    assert "There is no run" not in err
