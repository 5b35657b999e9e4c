"""The commands of a life: what they print, that they go on, how they refuse."""

import json
import shutil
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from lifesafe.cli import main
from lifesafe.cli.real_system import read_episodes
from lifesafe.data.dsrl import write_dsrl
from lifesafe.errors import TrialError
from lifesafe.operation import MonitorConfig
from lifesafe.optimizer.journal import read_events
from lifesafe.returns import Returns
from report_runs import held
from small_life import data, small_life

SETTINGS = ["steps=500", "width=32", "batch=256", "dropout=0.0", "held_out=0.0"]
RUN = ["run", "PointCircle", "--method", "rvs", *(word for each in SETTINGS for word in ("--set", each))]
QUICK = [*RUN, "--trials", "4", "--seed", "1", "--episodes", "10", "--workers", "0", "--out", "life"]


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """Return where a whole life was lived, and what the command has printed and said."""
    place, out, err = tmp_path_factory.mktemp("commands"), StringIO(), StringIO()
    with chdir(place), redirect_stdout(out), redirect_stderr(err):
        assert main([*QUICK, "--json"]) == 0
    return place / "life", out.getvalue(), err.getvalue()


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def _life(lived: tuple[Path, str, str], _inside: None) -> None:
    """Put a copy of that life here."""
    shutil.copytree(lived[0], "life")


def test_a_whole_life_and_its_outcome(lived: tuple[Path, str, str]) -> None:
    _, out, err = lived
    outcome = json.loads(out)
    assert outcome["phase"] == "operate"
    assert outcome["trials"] == 4
    ours, plain = outcome["rows"]
    assert (ours["name"], ours["episodes"]) == ("lifesafe, operated", 10)
    assert (plain["name"], plain["episodes"]) == ("plain (R_max, limit)", 100)
    assert plain["costs"][0] > ours["costs"][0]
    assert "    1  seed" in err


@pytest.mark.usefixtures("_life")
def test_the_same_command_finds_everything_done(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*QUICK, "--no-plain"]) == 0
    shown = capsys.readouterr()
    assert "lifesafe, operated" in shown.out
    assert "4 trials, 0 of them clearly above a limit" in shown.out
    assert "  1  seed" not in shown.err


@pytest.mark.usefixtures("_life")
def test_the_same_command_goes_back_to_its_limit_after_a_search_under_another(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["optimize", "life", "--limit", "40", "--workers", "0"]) == 0
    assert main([*QUICK, "--episodes", "12", "--no-plain"]) == 0
    assert "Back to the limit of this command, 20." in capsys.readouterr().err
    kinds = [(event.kind, event.body.get("limits")) for event in read_events(Path("life/journal.sqlite"))]
    assert [limits for kind, limits in kinds if kind == "limits"] == [[40.0], [20.0]]
    assert all(limits == [20.0] for kind, limits in kinds if kind == "serving")


def test_the_settings_of_a_life_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, "--set", "help"]) == 0
    assert "width = 32\n" in capsys.readouterr().out
    assert not Path("runs").exists()


@pytest.mark.usefixtures("_life")
def test_other_settings_in_the_same_directory_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*QUICK, "--delta", "0.05"]) == 2
    assert "begun otherwise: run.delta is 0.1 there, 0.05 here" in capsys.readouterr().err


def test_a_simulator_gives_the_prior_and_must_be_a_task(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*RUN, "--trials", "1", "--episodes", "0", "--no-plain", "--workers", "0", "--out", "simulated"]
    assert main([*words, "--simulator", "Nowhere"]) == 2
    assert "Nowhere" in capsys.readouterr().err
    assert not Path("simulated").exists()
    assert main([*words, "--simulator", "PointCircle", "--json"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["trials"] == 1
    assert "simulated" in read_events(Path("simulated/journal.sqlite"))[0].body["problem"]


@pytest.mark.usefixtures("_life")
def test_operating_further_prints_every_episode(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["operate", "life", "--episodes", "3", "--workers", "0", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["episode"] for line in lines] == [11, 12, 13]
    assert all(line["alarm"] is None for line in lines)


def test_operation_may_end_at_an_alarm_and_goes_on_with_the_target_fallen_back_to(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with small_life(Path("jumpy"), limit=40.0, monitor=MonitorConfig(level=0.99, run_length=1.01)) as life:
        life.train()
        life.optimize()
    words = ["operate", "jumpy", "--together", "1", "--workers", "0", "--json"]
    assert main([*words, "--episodes", "50", "--until-alarm"]) == 1
    shown = capsys.readouterr()
    *before, last = [json.loads(line) for line in shown.out.splitlines()]
    assert all(line["alarm"] is None for line in before)
    assert last["alarm"] is not None
    assert last["episode"] < 50
    assert "ALARM at" in shown.err
    assert last["next_target"] is not None
    assert main([*words, "--episodes", "1"]) == 0
    (line,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (line["episode"], line["target"]) == (last["episode"] + 1, last["next_target"])


@pytest.mark.usefixtures("_life")
def test_several_limits_in_one_go(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", "life", "--limit", "30", "40", "--workers", "0", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["limits"] for row in rows] == [[30.0], [40.0]]
    assert all(row["costs"][0] <= row["limits"][0] for row in rows)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run"], "Give either a task"),
        (["run", "PointCircle", "--env", "Pendulum-v1"], "Give either a task"),
        (["run", "--env", "Pendulum-v1"], "Give --limit for Pendulum-v1"),
        (["optimize", "nowhere"], "There is no run in nowhere"),
        (["operate", "nowhere"], "There is no run in nowhere"),
        (["ask", "nowhere"], "begin one with --data LOGS --limit NUMBER"),
        (["ask", "nowhere", "--limit", "20"], "give both --data and --limit"),
        (["tell", "nowhere", "missing.json", "--trial", "1"], "nowhere does not exist"),
        (["run", "--env", "Pendulum-v1", "--limit", "20"], "has no data of its own; give some: --data FILE"),
        (["run", "--env", "nowhere:Cart-v0", "--limit", "20"], "Gymnasium cannot make 'nowhere:Cart-v0'"),
    ],
)
def test_what_is_missing_is_asked_for(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err
    assert not Path("nowhere").exists()


def test_a_lab_asks_and_tells_without_a_simulator(capsys: pytest.CaptureFixture[str]) -> None:
    write_dsrl(data(), "logs.hdf5")
    begin = ["ask", "lab", "--data", "logs.hdf5", "--limit", "20", "--cost-bounds", "200"]
    assert main(begin) == 0
    trial = json.loads(capsys.readouterr().out)
    assert trial["stage"] == "seed"
    assert main(["ask", "lab"]) == 0
    assert json.loads(capsys.readouterr().out) == trial
    episodes = [{"reward": 150.0 + i, "cost": 1} for i in range(trial["episodes"])]
    Path("episodes.json").write_text(json.dumps(episodes))
    assert main(["tell", "lab", "episodes.json", "--trial", "1"]) == 0
    assert f"Trial 1: {len(episodes)} episodes" in capsys.readouterr().out
    assert main(["tell", "lab", "episodes.json", "--trial", "1"]) == 2
    assert "Trial 1 is not open; open trials: none" in capsys.readouterr().err
    assert main(["ask", "lab"]) == 0
    assert json.loads(capsys.readouterr().out)["stage"] == "explore"


def test_a_lab_that_dithers_is_given_a_target_for_every_episode(capsys: pytest.CaptureFixture[str]) -> None:
    write_dsrl(data(), "logs.hdf5")
    assert main(["ask", "lab", "--data", "logs.hdf5", "--limit", "20", "--dither", "0.05"]) == 0
    asked = json.loads(capsys.readouterr().out)
    assert len(asked["targets"]) == asked["episodes"]
    assert len({target["reward"] for target in asked["targets"]}) == asked["episodes"]
    assert main(["ask", "lab"]) == 0
    assert json.loads(capsys.readouterr().out) == asked
    assert main(["ask", "other", "--data", "logs.hdf5", "--limit", "20", "--dither", "0.05", "--seed", "1"]) == 0
    other = json.loads(capsys.readouterr().out)
    assert other["target"] == asked["target"]
    assert not {target["reward"] for target in other["targets"]} & {target["reward"] for target in asked["targets"]}
    assert main(["ask", "wild", "--data", "logs.hdf5", "--limit", "20", "--dither", "5"]) == 2
    assert "dither must lie between 0 and 0.3" in capsys.readouterr().err


def test_a_lab_confirms_after_a_violation(capsys: pytest.CaptureFixture[str]) -> None:
    held(Path("lab"))
    assert main(["ask", "lab"]) == 0
    assert json.loads(capsys.readouterr().out)["held_by"] == "violation"
    assert main(["confirm", "lab", "--reason", " "]) == 2
    assert "The reason is empty" in capsys.readouterr().err
    assert main(["confirm", "lab", "--reason", "a wheel was loose"]) == 0
    assert "was held up by a violation; its trials are used up" in capsys.readouterr().out
    assert read_events(Path("lab") / "journal.sqlite")[-1].body == {"reason": "a wheel was loose"}
    assert main(["ask", "lab"]) == 0
    assert json.loads(capsys.readouterr().out)["held_by"] is None
    assert main(["confirm", "lab", "--reason", "again"]) == 2
    assert "nothing to confirm" in capsys.readouterr().err
    assert main(["confirm", "nowhere", "--reason", "none"]) == 2
    assert "nowhere does not exist" in capsys.readouterr().err
    assert not Path("nowhere").exists()


def test_a_search_that_was_confirmed_tries_new_targets(capsys: pytest.CaptureFixture[str]) -> None:
    held(Path("lab"), told=6)
    tried = {event.body["index"] for event in read_events(Path("lab") / "journal.sqlite") if event.kind == "asked"}
    assert main(["confirm", "lab", "--reason", "a wheel was loose"]) == 0
    assert "it goes on" in capsys.readouterr().out
    assert main(["ask", "lab"]) == 0
    asked = read_events(Path("lab") / "journal.sqlite")[-1].body
    assert json.loads(capsys.readouterr().out)["trial"] == asked["trial"] == 7
    assert asked["index"] not in tried


def test_a_search_without_cost_bounds_is_held_up_by_a_violation_too(capsys: pytest.CaptureFixture[str]) -> None:
    write_dsrl(data(), "logs.hdf5")
    assert main(["ask", "lab", "--data", "logs.hdf5", "--limit", "20"]) == 0
    assert json.loads(capsys.readouterr().out)["held_by"] is None
    assert read_events(Path("lab") / "journal.sqlite")[0].body["schedule"]["on_violation"] == "hold"


def test_episodes_may_have_several_costs() -> None:
    assert read_episodes('[{"reward": 1, "costs": [2, 3]}]', "x") == [Returns(1.0, [2.0, 3.0])]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "x is not JSON"),
        ("{}", "must hold a list"),
        ("[]", "must hold a list"),
        ('[{"reward": 1, "cost": 2}, {"reward": 1}]', r"episode 2 is \{'reward': 1\}"),
        ('[{"reward": "much", "cost": 2}]', "episode 1 is"),
        ('[{"reward": NaN, "cost": 2}]', "episode 1 is"),
        ("[3]", "episode 1 is 3"),
    ],
)
def test_what_is_no_episode_is_named(text: str, message: str) -> None:
    with pytest.raises(TrialError, match=message):
        read_episodes(text, "x")


def test_an_environment_of_ones_own_from_its_id_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "swinging.py").write_text(
        "def cost(observation, action, next_observation, info):\n    return float(abs(next_observation[2]) > 1.0)\n"
        "def broken(observation, action, next_observation, info):\n    return info['nothing']\n"
    )
    from lifesafe.data import Dataset, Episode

    rng = np.random.default_rng(0)
    episodes = []
    for number in range(40):
        seen = rng.normal(size=(201, 3)).astype(np.float32)
        costs = (rng.random((200, 1)) < number / 400).astype(np.float32)
        episodes.append(
            Episode(
                observations=seen[:-1],
                actions=rng.uniform(-1, 1, (200, 1)).astype(np.float32),
                rewards=np.full(200, -5 + number / 20, dtype=np.float32),
                costs=costs,
                next_observations=seen[1:],
                terminated=False,
            )
        )
    write_dsrl(Dataset.from_episodes(episodes), tmp_path / "logs.hdf5")
    own = ["run", "--env", "Pendulum-v1", "--limit", "190", "--out", str(tmp_path / "own"), "--workers", "0"]
    small = ["--data", str(tmp_path / "logs.hdf5"), "--method", "rvs", "--set", "steps=5", "--trials", "1"]
    for cost, message in (([], "--cost module:function"), (["--cost", "swinging:broken"], "KeyError: 'nothing'")):
        assert main([*own, *small, *cost]) == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / "own").exists()  # found before the training
    assert main([*own, *small, "--cost", "swinging:cost", "--no-plain", "--episodes", "1"]) in (0, 1)
    assert main(["optimize", str(tmp_path / "own"), "--workers", "0"]) in (0, 1)
