"""A search on a system of one's own from the shell: plan, ask, tell, confirm, retract, limits, and what is refused."""

import io
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lifesafe.cli import main
from lifesafe.data import Dataset
from lifesafe.data.dsrl import write_dsrl
from lifesafe.journal import events as e
from lifesafe.journal import read_records
from lifesafe.safety import SafeOptimizer
from logs import careful, reckless
from report_runs import held
from shell import Shell, Shown

Tell = Callable[..., Shown]
KNOBS = ["--axis", "speed=0:2:m/s", "--axis", "gain=0:1", "--begin-at", "speed=0.5,gain=0.1", "--rewards", "0", "900"]
RETURNS = ["--axis", "reward=0:500", "--axis", "cost=0:60", "--begin-at", "reward=200,cost=2"]
TWO = [
    "--axis", "reward=0:500", "--axis", "cost 1=0:60", "--axis", "cost 2=0:3", "--begin-at",
    "reward=200,cost 1=2,cost 2=0",
]  # fmt: skip
LIST = [*RETURNS[:4], "--begin-at", "reward=240,cost=2", "--limit", "20", "--stop-at", "40"]
LIST += [word for cost in (2, 4, 6, 9) for word in ("--target", f"reward={200 + 20 * cost},cost={cost}")]
LOGS = ["--data", "logs.hdf5", "--limit", "10", "--episodes", "40"]
BEGINNINGS = {
    "knobs, trial": [*KNOBS, "--limit", "20"],
    "knobs, trial, stop": [*KNOBS, "--limit", "20", "--stop-at", "40", "--episodes", "60"],
    "returns, total": [*RETURNS, "--limit", "20", "--stop-at", "40", "--promise", "total"],
    "two costs, trial": [*TWO, "--limit", "20", "1", "--stop-at", "40", "3"],
    "two costs, total": [*TWO, "--limit", "20", "1", "--stop-at", "40", "3", "--promise", "total"],
    "returns, sure": [*RETURNS, "--limit", "20", "--stop-at", "18"],
    "list, trial": LIST,
    "list, total": [*LIST, "--promise", "total"],
    "knobs, horizon": [*KNOBS, "--limit", "20", "--incident", "horizon", "--largest", "90"],
}


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Knobs with a stop at 40, and the first trial asked for."""
    path = tmp_path_factory.mktemp("begun") / "lab"
    assert main(["ask", str(path), *BEGINNINGS["knobs, trial, stop"]]) == 0
    return path


@pytest.fixture
def lab(begun: Path) -> Path:
    shutil.copytree(begun, "lab")
    return Path("lab")


def kinds(run: str | Path) -> list[str]:
    return [e.kind_of(record.event) for record in read_records(Path(run) / "journal.sqlite")]


def episodes(count: int, cost: float = 1.0, reward: float = 200.0) -> list[dict[str, Any]]:
    return [{"reward": reward + i % 5, "cost": cost} for i in range(count)]


def write(told: object, name: str = "episodes.json") -> str:
    Path(name).write_text(json.dumps(told))
    return name


@pytest.fixture
def tell(shell: Shell) -> Tell:
    def told(run: Path, trial: int, told: object, *words: str, code: int | None = 0) -> Shown:
        return shell("tell", str(run), write(told), "--trial", str(trial), *words, code=code)

    return told


def machine(target: dict[str, Any], costs: int, stops: Sequence[float], rng: np.random.Generator) -> dict[str, Any]:
    """Return an episode of a made-up system: what earns more costs more."""
    asked = target["reward"] / 500 if "reward" in target else (target["speed"] / 2 + target["gain"]) / 2
    drawn = [float(rng.poisson(scale * (1 + 6 * asked**2))) for scale in (1.0, 0.02)[:costs]]
    own = [min(cost, stop + 1.0) for cost, stop in zip(drawn, stops or [np.inf] * costs, strict=True)]
    return {"reward": float(rng.normal(400 * asked, 5)), **({"costs": own} if costs > 1 else {"cost": own[0]})}


# --- a whole search


@pytest.mark.parametrize("name", ["knobs, trial", "returns, total"])
def test_before_the_first_trial_is_said_what_the_search_takes(name: str, shell: Shell) -> None:
    begin = [*BEGINNINGS[name], "--episodes", "40"]  # the last one given counts
    planned = shell("plan", *begin).out
    assert planned.startswith("The search takes at most 40 real episodes; as a rule ")
    shown = shell("ask", "lab", *begin)
    first = planned.partition("\n")[0]
    assert shown.err == f"{first} `lifesafe plan lab` tells more.\n"
    asked = json.loads(shown.out)
    assert asked["promise"] == ("total" if "total" in name else "trial")
    assert len(asked["targets"]) == asked["episodes"] > 0


@pytest.mark.parametrize(
    "name", ["knobs, trial, stop", "two costs, total", "returns, sure", "list, trial", "list, total"]
)
def test_a_whole_search_by_ask_and_tell(name: str, shell: Shell, tell: Tell) -> None:
    asked, rng, told = shell("ask", "lab", *BEGINNINGS[name], "--episodes", "40").json, np.random.default_rng(0), 0
    costs, stops = len(asked["limits"]), asked["stop_at"]
    assert stops == ([40.0, 3.0] if costs == 2 else [18.0] if "sure" in name else [40.0])
    listed = [{"reward": 200.0 + 20 * cost, "costs": [float(cost)]} for cost in (2, 4, 6, 9)]
    while asked["trial"] is not None:
        assert len(asked["targets"]) == asked["episodes"]
        assert "list" not in name or all(target in listed for target in asked["targets"])
        own = [machine(target, costs, stops, rng) for target in asked["targets"]]
        line = tell(Path("lab"), asked["trial"], own, code=None).out
        told += len(own)
        assert line.startswith(f"Trial {asked['trial']}: {len(own)} episode")
        shown = shell("ask", "lab", code=None)
        asked = shown.json
    assert told <= 40
    assert (asked["stage"], asked["episodes"], asked["targets"]) == ("done", 0, [])
    assert asked["done"]
    assert shown.code == (0 if asked["best"] is not None else 1)
    assert shell("journal", "verify", "lab", "--json").json["searched"] == told
    assert f"Of {told} real episodes (" in shell("report", "lab").out


def test_asking_again_gives_the_same_trial_and_says_nothing_of_the_plan(lab: Path, shell: Shell) -> None:
    first = shell("ask", str(lab))
    assert shell("ask", str(lab), *BEGINNINGS["knobs, trial, stop"]) == first
    assert first.err == ""
    assert json.loads(first.out)["targets"] == [{"speed": 0.5, "gain": 0.1}] * 30
    assert kinds(lab) == ["opened", "asked"]


def test_a_trial_is_told_by_a_file_or_by_standard_input(
    lab: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(episodes(30)).encode())))
    told = shell("tell", str(lab), "-", "--trial", "1", "--json").json
    assert told == {
        "trial": 1, "episodes": 30, "mean": {"reward": 202.0, "costs": [1.0]}, "held": None, "stage": "search"
    }  # fmt: skip
    with SafeOptimizer.open(lab) as optimizer:
        assert [tuple(row) for row in optimizer.trials[0].episodes] == [(200.0 + i % 5, 1.0) for i in range(30)]


def test_a_trial_that_ended_early_is_told_as_such(lab: Path, tell: Tell) -> None:
    assert "Got 12 episodes, and trial 1 has 30 targets." in (err := tell(lab, 1, episodes(12), code=2).err)
    assert "add --early" in err
    assert "Got 31 episodes, and trial 1 has 30 targets." in tell(lab, 1, episodes(31), "--early", code=2).err
    said = tell(lab, 1, episodes(12), "--early").out
    assert "Trial 1: 12 of 30 episodes, mean reward 201.8, mean cost 1 (limit 20)." in said


# --- what is refused leaves no trace


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "episodes.json is not JSON"),
        ("", "episodes.json is not JSON"),
        ("[" * 100_000, "episodes.json is not JSON"),
        ("{}", "must hold a list"),
        ("[]", "must hold a list"),
        ('[{"reward": 1, "cost": 2}, {"reward": 1}]', 'episode 2 is {"reward": 1}'),
        ('[{"reward": 1, "cost": 2, "costs": [2]}]', "episode 1 is"),
        ('[{"reward": "much", "cost": 2}]', "episode 1 is"),
        ('[{"reward": true, "cost": 2}]', "episode 1 is"),
        ('[{"reward": NaN, "cost": 2}]', "all finite numbers"),
        ('[{"reward": 1, "cost": Infinity}]', "all finite numbers"),
        ('[{"reward": 1, "cost": 1e400}]', "all finite numbers"),
        (f'[{{"reward": 1, "cost": 1{"0" * 400}}}]', "all finite numbers"),
        ('[{"reward": 1, "costs": []}]', "episode 1 is"),
        ('["cost"]', 'episode 1 is "cost"'),
        ("[3]", "episode 1 is 3"),
        ('[{"reward": 1, "cost": -0.5}]', "episode 1 has a cost of -0.5; costs are never negative."),
        ('[{"reward": 1, "costs": [1, 2]}]', "episode 1 has 2 costs, and the search has 1 limit"),
        (json.dumps([*episodes(29), {"reward": 1, "costs": [1, 2]}]), "episode 30 has 2 costs"),
        (json.dumps(episodes(30, cost=1e200)), "that is no return of an episode"),
    ],
)
def test_what_is_no_episode_is_named_and_not_recorded(lab: Path, text: str, message: str, shell: Shell) -> None:
    before = (lab / "journal.sqlite").read_bytes()
    Path("episodes.json").write_text(text)
    err = shell("tell", str(lab), "episodes.json", "--trial", "1", code=2).err
    assert message in err
    assert "Traceback" not in err
    assert (lab / "journal.sqlite").read_bytes() == before


def test_a_file_that_is_no_text_tells_nothing(lab: Path, shell: Shell) -> None:
    Path("noise.json").write_bytes(b"\xff\xfe\xfd" * 9)
    assert "noise.json is not JSON" in shell("tell", str(lab), "noise.json", "--trial", "1", code=2).err
    for missing in ("missing.json", "."):
        assert (
            f"{missing} is no file; give the episodes of the trial as JSON"
            in shell("tell", str(lab), missing, "--trial", "1", code=2).err
        )
    assert kinds(lab) == ["opened", "asked"]


def test_another_trial_than_the_open_one_is_refused(lab: Path, shell: Shell, tell: Tell) -> None:
    for trial in ("0", "2", "-1"):
        assert (
            f"Trial {trial} is not open. Trial 1 is open; `lifesafe ask lab` prints"
            in shell("tell", str(lab), write(episodes(30)), "--trial", trial, code=2).err
        )
    tell(lab, 1, episodes(30))
    said = tell(lab, 1, episodes(30), code=2).err
    assert "Trial 1 was told already. No trial is open; if what was told is wrong" in said
    assert kinds(lab) == ["opened", "asked", "told"]


def test_a_cost_above_what_an_episode_can_have_is_refused(shell: Shell, tell: Tell) -> None:
    shell("ask", "lab", *BEGINNINGS["knobs, horizon"], "--episodes", "50")
    said = tell(Path("lab"), 1, [*episodes(29), {"reward": 1, "cost": 90.5}], code=2).err
    assert "Episode 30 has a cost of 90.5, and no episode can cost more than 90 (--largest)" in said
    assert kinds("lab") == ["opened", "asked"]


def test_two_costs_are_told_as_two(shell: Shell, tell: Tell) -> None:
    asked = shell("ask", "lab", *BEGINNINGS["two costs, trial"], "--episodes", "40").json
    assert asked["targets"][0] == {"reward": 200.0, "costs": [2.0, 0.0]}
    assert (
        'has 1 cost, and the search has 2 limits; give one cost for each limit, as {"reward": 12.5, "costs": [3, 3]}'
        in tell(Path("lab"), 1, episodes(30), code=2).err
    )
    assert "mean cost 3, 0.5 (limit 20, 1)." in tell(Path("lab"), 1, [{"reward": 200, "costs": [3, 0.5]}] * 30).out


@pytest.mark.parametrize("run", ["nowhere", "empty", "logs.txt"])
def test_what_holds_no_search_is_named(run: str, shell: Shell) -> None:
    Path("empty").mkdir()
    Path("logs.txt").write_text("nothing")
    for words in (
        ["tell", run, write(episodes(1)), "--trial", "1"],
        ["confirm", run, "--reason", "none"],
        ["retract", run, "1", "--reason", "none"],
        ["limits", run, "--limit", "3"],
    ):
        err = shell(*words, code=2).err
        assert f"{run} " in err
        assert "give the directory of a run" in err
    assert not Path("nowhere").exists()
    assert list(Path("empty").iterdir()) == []


# --- beginning


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "or without logs with --axis, --begin-at and --limit"),
        (["--limit", "20"], "Give either --data with logs, or an --axis for everything that you can set."),
        ([*KNOBS], "Give --limit: the largest mean cost of an episode"),
        (["--data", "none.hdf5", "--limit", "20"], "none.hdf5"),
        ([*KNOBS, "--data", "none.hdf5", "--limit", "20"], "Give either --data with logs, or an --axis"),
        (
            ["--axis", "speed=0:2", "--rewards", "0", "9", "--limit", "2"],
            "Give --begin-at: a target that you know to be",
        ),
        (["--axis", "speed=0:2", "--begin-at", "speed=1", "--limit", "2"], "give --rewards LOW HIGH."),
        (["--axis", "speed", *KNOBS, "--limit", "2"], "An axis is given as NAME=LOW:HIGH or NAME=LOW:HIGH:UNIT"),
        (["--axis", "speed=0:two", *KNOBS, "--limit", "2"], "An axis is given as NAME=LOW:HIGH"),
        (["--axis", "speed=0:2", *KNOBS, "--limit", "2"], "Every --axis needs a name of its own"),
        (["--axis", "a,b=0:1", *KNOBS, "--limit", "2"], "no name may have one; got 'a,b'."),
        (["--axis", "lift=0:nan", *KNOBS, "--limit", "2"], "must run from a number to a larger one; got 0 to nan."),
        (["--axis", "lift=2:1", *KNOBS, "--limit", "2"], "must run from a number to a larger one; got 2 to 1."),
        ([*KNOBS, "--begin-at", "speed=9,gain=0", "--limit", "2"], "speed=9,gain=0: speed = 9 lies outside its axis"),
        ([*KNOBS, "--begin-at", "speed=1", "--limit", "2"], "speed=1 is no target of the axes speed, gain."),
        ([*KNOBS, "--begin-at", "speed", "--limit", "2"], "A target is given as speed=0.5,gain=0.1, say; got 'speed'."),
        ([*KNOBS, "--begin-at", "speed=1,speed=2", "--limit", "2"], "names speed twice"),
        ([*KNOBS, "--target", "speed=1", "--limit", "2"], "speed=1 is no target of the axes speed, gain."),
        ([*KNOBS, "--target", "speed=9,gain=0", "--limit", "2"], "speed=9,gain=0: speed = 9 lies outside its axis"),
        ([*KNOBS, "--target", "speed=0,gain=0", "--limit", "2"], "Got fewer than two targets to choose from"),
        (
            [*KNOBS, "--target", "speed=0,gain=0", "--target", "speed=1,gain=0", "--limit", "2"],
            "The start speed=0.5,gain=0.1 is none of the targets; add it to them.",
        ),
        (["--data", "none.hdf5", "--target", "reward=1,cost=0", "--limit", "2"], "safe, and one of --target"),
        ([*KNOBS, "--limit", "inf"], "Limits must be positive numbers; got inf."),
        ([*KNOBS, "--limit", "-3"], "Limits must be positive numbers; got -3."),
        ([*KNOBS, "--limit", "nan"], "Limits must be positive numbers; got nan."),
        ([*KNOBS, "--limit", "1", "2", "3", "4", "5"], "Got 5 limits; a search keeps one to 4 costs"),
        ([*KNOBS, "--limit", "20", "--delta", "1.5"], "--delta must lie between 0 and 1; got 1.5."),
        ([*KNOBS, "--limit", "20", "--promise", "total"], "--promise total needs --stop-at: the account pays"),
        ([*KNOBS, "--limit", "20", "--stop-at", "-1"], "--stop-at must be positive; got -1."),
        ([*KNOBS, "--limit", "20", "--stop-at", "40", "60"], "numbers as --stop-at for 1 cost"),
        ([*KNOBS, "--limit", "20", "--stop-at", "40", "--incident", "9"], "Give --stop-at or --incident, not both"),
        (
            [*KNOBS, "--limit", "20", "--incident", "much"],
            '--incident is a number, one per cost, or "horizon"; got much.',
        ),
        ([*KNOBS, "--limit", "20", "--incident", "horizon"], "--incident horizon needs --largest:"),
        ([*KNOBS, "--limit", "20", "--stop-at", "40", "--largest", "30"], "--stop-at 40 is never reached"),
        ([*KNOBS, "--limit", "20", "--episodes", "-2"], "--episodes must be a whole number of at least 1; got -2."),
        ([*KNOBS, "--limit", "20", "--seed", "-1"], "A seed is a whole number that is not negative"),
        ([*KNOBS, "--limit", "20", "--rewards", "9", "0"], "Rewards must range from a number to a larger one"),
        (
            [*KNOBS, "--limit", "20", "--episodes", "10", "--delta", "0.001"],
            "With --episodes 10 and --delta 0.001 the search could never leave its start",
        ),
    ],
)
def test_what_cannot_be_begun_is_explained_by_plan_and_ask(words: list[str], message: str, shell: Shell) -> None:
    for command in (["plan"], ["ask", "lab"]):
        shown = shell(*command, *words, code=2)
        assert message in shown.err
        assert shown.out == ""
        assert not any(sign in shown.err for sign in ("Traceback", "{'", "stop_at", "largest_step", "Returns("))
        assert not Path("lab").exists()


def test_a_plan_says_what_would_shorten_the_search_and_offers_the_other_promise(
    shell: Shell,
) -> None:
    short = ["plan", *KNOBS, "--limit", "20", "--episodes", "50"]
    told = shell(*short, "--stop-at", "40", "--json").json
    assert (told["most"], told["done"], told["promise"], told["sure"]) == (50, 0, "trial", False)
    assert set(told["shorter"]) <= {"--promise total"}
    assert "--promise total (what all episodes have cost never exceeds" in shell(*short, "--stop-at", "40").out
    assert (
        "every single episode keeps them for sure, and only reward is searched" in shell(*short, "--stop-at", "18").out
    )
    assert list(Path().iterdir()) == []


def test_the_plan_of_a_run_counts_what_is_done(lab: Path, shell: Shell, tell: Tell) -> None:
    tell(lab, 1, episodes(30))
    assert "30 episodes done so far; `lifesafe report lab`" in shell("plan", str(lab)).out
    assert (
        "Give either the directory of a run, or what a search would be begun with."
        in shell("plan", str(lab), "--limit", "20", code=2).err
    )
    assert "nowhere does not exist" in shell("plan", "nowhere", code=2).err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--limit", "30"], "--limit is 20 there, 30 here"),
        (["--stop-at", "50"], "--stop-at is 40 there, 50 here"),
        (["--delta", "0.05"], "--delta is 0.1 there, 0.05 here"),
        (["--seed", "3"], "--seed is 0 there, 3 here"),
        (["--promise", "total"], "--promise is trial there, total here"),
        (["--episodes", "150"], "--episodes is 60 there, 150 here"),
        (["--incident", "horizon"], "--incident is none there, horizon here"),
        (["--rewards", "0", "1"], "--rewards is 0, 900 there, 0, 1 here"),
        (["--begin-at", "speed=0.6,gain=0.1"], "its starts are others"),
        (["--target", "speed=0.5,gain=0.1"], "its targets are others"),
        (["--axis", "speed=0:2:m/s"], "its axes are others"),
        (["--axis", "speed=0:3:m/s", "--axis", "gain=0:1"], "its axes are others"),
    ],
)
def test_a_search_that_was_begun_takes_no_other_settings(
    lab: Path, words: list[str], message: str, shell: Shell
) -> None:
    err = shell("ask", str(lab), *words, code=2).err
    assert f"The search in lab was begun otherwise: {message}" in err
    assert "For other limits: lifesafe limits lab --limit NUMBER." in err
    assert kinds(lab) == ["opened", "asked"]


# --- beginning with logs


def test_a_lab_begins_with_logs(shell: Shell) -> None:
    rng = np.random.default_rng(0)
    calm, daring = careful(rng), reckless(rng)
    daring = replace(daring, rewards=daring.rewards + 1)  # luck earns more than care ever does
    write_dsrl(Dataset.from_episodes([*calm, *daring]), "logs.hdf5")
    asked = shell("ask", "lab", *LOGS).json
    with SafeOptimizer.open("lab") as optimizer:
        rewards = [start[0] for start in optimizer.problem.starts]
    assert max(rewards) < calm.returns[:, 0].max()
    assert asked["targets"][0] == {"reward": rewards[0], "costs": [0.0]}
    shell("ask", "lab", *LOGS)
    shell("ask", "lab", "--data", "logs.hdf5")
    shell("ask", "lab", *LOGS, "--begin-at", "reward=0,cost=0", code=2)
    write_dsrl(calm, "logs.hdf5")
    assert "The search in lab was begun otherwise: its axes are others" in shell("ask", "lab", *LOGS, code=2).err


def test_a_lab_does_not_begin_by_logs_whose_cheap_episodes_are_luck(shell: Shell) -> None:
    write_dsrl(reckless(np.random.default_rng(0)), "logs.hdf5")
    assert "their cheap episodes look like luck" in shell("ask", "lab", *LOGS, code=2).err
    assert not Path("lab").exists()


def test_logs_with_steps_that_cost_more_than_said_are_refused(shell: Shell) -> None:
    logs = careful(np.random.default_rng(0))
    write_dsrl(replace(logs, costs=3 * logs.costs), "logs.hdf5")
    assert "with --largest-step 1 none costs more" in shell("ask", "lab", *LOGS, "--stop-at", "20", code=2).err
    assert not Path("lab").exists()


@pytest.mark.parametrize("command", ["optimize", "operate"])
def test_a_search_without_an_environment_is_said_to_be_one(lab: Path, command: str, shell: Shell) -> None:
    err = shell(command, str(lab), code=2).err
    assert "The run in lab was begun by `lifesafe ask` or SafeOptimizer" in err
    assert "There is no run" not in err


# --- held, confirmed, retracted


def test_an_episode_beyond_the_stop_is_recorded_and_holds_the_search(lab: Path, shell: Shell, tell: Tell) -> None:
    shown = tell(lab, 1, [*episodes(29), {"reward": 200, "cost": 41.5}], code=1)
    assert "Trial 1: 30 episodes" in shown.out
    assert "The search is held: trial 1: an episode cost 41.5, and with --stop-at 40 none can cost more than 41" in (
        shown.err
    )
    assert "lifesafe confirm lab --reason" in shown.err
    assert "lifesafe retract lab TRIAL --reason" in shown.err
    asked = shell("ask", str(lab), code=1).json
    assert (asked["trial"], asked["stage"]) == (None, "held")
    assert asked["held"].startswith("trial 1: an episode cost 41.5")


def test_an_episode_at_the_stop_and_one_step_is_as_said(lab: Path, tell: Tell) -> None:
    tell(lab, 1, [*episodes(29), {"reward": 200, "cost": 41.0}])


def test_a_search_that_is_held_goes_on_once_it_is_confirmed(shell: Shell) -> None:
    lab = held(Path("lab"))
    assert "clearly above the limit 20" in shell("ask", "lab", code=1).json["held"]
    assert "The reason is empty" in shell("confirm", "lab", "--reason", " ", code=2).err
    before = len(kinds(lab))
    told = shell("confirm", "lab", "--reason", "a wheel was loose", "--json").json
    assert "clearly above" in told["held_before"]
    assert told["held"] is None
    last = read_records(lab / "journal.sqlite")[-1].event
    assert last == e.Confirmed(reason="a wheel was loose")
    assert len(kinds(lab)) == before + 1
    assert shell("ask", "lab").json["held"] is None
    assert "nothing to confirm" in shell("confirm", "lab", "--reason", "again", code=2).err


def test_a_mistold_trial_is_taken_back(lab: Path, shell: Shell, tell: Tell) -> None:
    tell(lab, 1, [*episodes(29), {"reward": 200, "cost": 99.0}], code=1)
    told = shell("retract", str(lab), "1", "--reason", "another machine", "--json").json
    assert (told["trial"], told["known"], told["held"], told["stage"]) == (1, 0, None, "start")
    assert (
        "Trial 1 cannot be retracted; trials that can be: none."
        in shell("retract", str(lab), "1", "--reason", "again", code=2).err
    )


def test_a_mistold_trial_is_told_anew(lab: Path, shell: Shell, tell: Tell) -> None:
    tell(lab, 1, episodes(30, cost=2.0))
    true = write(episodes(30, cost=3.0), "true.json")
    assert (
        "Got 29 episodes, and 30 were told of trial 1"
        in shell("retract", str(lab), "1", write(episodes(29), "few.json"), "--reason", "x", code=2).err
    )
    assert (
        "costs are never negative"
        in shell("retract", str(lab), "1", write(episodes(30, cost=-1.0), "less.json"), "--reason", "x", code=2).err
    )
    shell("retract", str(lab), "1", true, "--reason", "", code=2)
    assert (
        "Trial 7 cannot be retracted; trials that can be: 1."
        in shell("retract", str(lab), "7", true, "--reason", "x", code=2).err
    )
    assert kinds(lab) == ["opened", "asked", "told"]
    assert (
        "Trial 1 is retracted; its true returns count: 30 episodes."
        in shell("retract", str(lab), "1", true, "--reason", "files swapped").out
    )
    with SafeOptimizer.open(lab) as optimizer:
        assert optimizer.trials[0].episodes[:, 1].tolist() == [3.0] * 30


def test_a_trial_that_was_chosen_from_what_was_wrong_is_not_run(lab: Path, shell: Shell, tell: Tell) -> None:
    tell(lab, 1, episodes(30))
    shell("ask", str(lab))
    assert (
        "Trial 2 was chosen from what was wrong: do not run it."
        in shell("retract", str(lab), "1", "--reason", "another machine").out
    )
    assert "Trial 2 was dropped by a retraction" in tell(lab, 2, episodes(10), code=2).err
    assert shell("ask", str(lab)).json["trial"] == 3


# --- other limits


def test_a_search_goes_on_under_other_limits(lab: Path, shell: Shell, tell: Tell) -> None:
    for words, message in (
        (["--limit", "30"], "Trial 1 is open; tell it before changing the limits."),
        (["--limit", "30", "40"], "Got 2 limits for 1 costs"),
        (["--limit", "-1"], "Limits must be positive numbers; got -1."),
    ):
        assert message in shell("limits", str(lab), *words, code=2).err
    tell(lab, 1, episodes(30))
    assert "The limits are 20 already." in shell("limits", str(lab), "--limit", "20", code=2).err
    assert (
        "speed=9,gain=0: speed = 9 lies outside its axis, 0 to 2."
        in shell("limits", str(lab), "--limit", "30", "--begin-at", "speed=9,gain=0", code=2).err
    )
    assert kinds(lab) == ["opened", "asked", "told"]
    assert "The limit was 20 and is 30; next: " in shell("limits", str(lab), "--limit", "30").out
    asked = shell("ask", str(lab), *BEGINNINGS["knobs, trial, stop"]).json  # the command that began it still asks
    assert asked["limits"] == [30.0]


def test_lower_limits_begin_at_a_target_that_is_named(lab: Path, shell: Shell, tell: Tell) -> None:
    tell(lab, 1, episodes(30))
    told = shell("limits", str(lab), "--limit", "15", "--begin-at", "speed=0.3,gain=0.1", "--json").json
    assert (told["limits"], told["starts"]) == ([15.0], [{"speed": 0.3, "gain": 0.1}])


def test_lower_limits_that_no_target_is_known_to_keep_are_refused(lab: Path, shell: Shell, tell: Tell) -> None:
    tell(lab, 1, episodes(30, cost=9.0))
    assert "shows a target that keeps the lower limits 0.5" in shell("limits", str(lab), "--limit", "0.5", code=2).err
    assert kinds(lab) == ["opened", "asked", "told"]


def test_a_life_is_not_asked_or_told(shell: Shell) -> None:
    Path("life").mkdir()
    Path("life/run.toml").write_text('[run]\ntask = "PointCircle"\n')
    for words in (
        ["ask", "life"],
        ["tell", "life", write(episodes(1)), "--trial", "1"],
        ["limits", "life", "--limit", "3"],
    ):
        err = shell(*words, code=2).err
        assert "life holds a life, whose trials lifesafe runs in simulation" in err
        assert "lifesafe optimize life" in err
