"""The commands of a life: what they print, that they go on, how they refuse."""

import json
import shutil
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from lifesafe.cli import main
from lifesafe.data import Dataset, Episode
from lifesafe.data.dsrl import write_dsrl
from lifesafe.journal import events as e
from lifesafe.journal import read_records
from lifesafe.life import Lifetime
from shell import Shell

SETTINGS = ["steps=500", "width=32", "batch=256", "dropout=0.0", "held_out=0.0"]
RUN = ["run", "PointCircle", "--method", "rvs", *(word for each in SETTINGS for word in ("--set", each))]
QUICK = [*RUN, "--seed", "2", "--episodes", "50", "--operate", "10", "--workers", "0", "--out", "life"]
STOPPED = [*QUICK, "--stop-at", "40"]
TOTAL = [*STOPPED, "--promise", "total"]


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """Return where a whole life was lived, and what the command has printed and said."""
    place, out, err = tmp_path_factory.mktemp("commands"), StringIO(), StringIO()
    with chdir(place), redirect_stdout(out), redirect_stderr(err):
        assert main([*STOPPED, "--json"]) == 0
    return place / "life", out.getvalue(), err.getvalue()


@pytest.fixture
def _life(lived: tuple[Path, str, str], place: Path) -> None:
    """Put a copy of that life here."""
    shutil.copytree(lived[0], "life")


def recorded(run: str = "life") -> list[e.Event]:
    return [record.event for record in read_records(Path(run) / "journal.sqlite")]


def costs_of(events: list[e.Event]) -> np.ndarray:
    rows = [row for event in events if isinstance(event, e.Told | e.Served) for row in event.episodes]
    return np.array(rows)[:, 1]


def swings() -> Dataset:
    """Return episodes of Pendulum that cost more and more, and earn more."""
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
    return Dataset.from_episodes(episodes)


# --- a whole life


def test_a_whole_life_and_its_outcome(lived: tuple[Path, str, str]) -> None:
    run, out, err = lived
    outcome, events = json.loads(out), recorded(str(run))
    assert (outcome["phase"], outcome["promise"], outcome["stop_at"]) == ("operate", "trial", [40.0])
    assert outcome["trials"] == sum(isinstance(event, e.Told) for event in events)
    assert outcome["searched"] == sum(len(event.episodes) for event in events if isinstance(event, e.Told))
    assert (outcome["served"], outcome["account"], outcome["held"]) == (10, None, None)
    assert outcome["stopped"] == (costs_of(events) >= 40).sum()
    assert 0 < outcome["spent"] <= outcome["delta"] == 0.1
    ours, plain = outcome["rows"]
    assert (ours["name"], ours["episodes"]) == ("lifesafe, operated", 10)
    assert (plain["name"], plain["episodes"]) == ("plain (R_max, limit)", 100)
    assert plain["costs"][0] > ours["costs"][0]
    assert plain["ended"] > 0
    assert "The search takes at most 50 real episodes" in err
    assert "--promise total (what all episodes have cost never exceeds" in err
    assert "    1  start" in err


def test_a_life_under_the_promise_on_the_total(shell: Shell) -> None:
    shown = shell(*TOTAL, "--no-plain")
    assert "The account holds " in shown.out
    assert "Risk spent" not in shown.out
    assert "The stop at 40 ended " in shown.out
    assert "  account" in shown.err
    held = 0.0
    with Lifetime.open("life") as life:
        account = life.optimizer.beliefs.account
        assert account is not None
        for cost in costs_of(recorded()):
            held = min(held + 20 - cost, account.capacity[0])
        assert account.holds == (pytest.approx(held),)
    assert f"The account holds {held:.4g}; limit 20." in shown.out
    assert ", 10 operation), " in shell("report", "life").out


def test_a_life_whose_stop_keeps_the_limit_for_sure(shell: Shell) -> None:
    shown = shell(*QUICK, "--stop-at", "19", "--no-plain", "--operate", "0", code=None)
    assert "Every single episode keeps the limit 20 for sure." in shown.out
    assert "every single episode keeps them for sure, and only reward is searched" in shown.err
    assert costs_of(recorded()).max() <= 20


def test_a_life_without_a_stop_counts_none(shell: Shell) -> None:
    outcome = shell(*QUICK, "--episodes", "40", "--operate", "0", "--no-plain", "--json", code=None).json
    assert outcome["stop_at"] is outcome["stopped"] is None
    with Lifetime.open("life") as life:
        assert life.optimizer.problem.incident == (60.0,)


@pytest.mark.usefixtures("_life")
def test_the_same_command_finds_everything_done(shell: Shell) -> None:
    before = recorded()
    shown = shell(*STOPPED, "--no-plain")
    assert "lifesafe, operated" in shown.out
    assert "after the start, none is clearly above a limit" in shown.out
    assert "  1  start" not in shown.err
    assert recorded() == before


@pytest.mark.usefixtures("_life")
def test_the_same_command_goes_back_to_its_limit_after_a_search_under_another(shell: Shell) -> None:
    shell("optimize", "life", "--limit", "40", "--workers", "0")
    shown = shell(*STOPPED, "--operate", "12", "--no-plain", code=None)
    assert "Back to the limit of this command, 20." in shown.err
    events = recorded()
    assert [event.limits for event in events if isinstance(event, e.Limited)] == [(40.0,), (20.0,)]
    assert all(event.limits == (20.0,) for event in events if isinstance(event, e.Serving))


def test_the_settings_of_a_life_are_listed(shell: Shell) -> None:
    assert "width = 32\n" in shell(*RUN, "--set", "help").out
    assert not Path("runs").exists()


@pytest.mark.usefixtures("_life")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--delta", "0.05"], "search.delta is 0.1 there, 0.05 here"),
        (["--promise", "total"], "search.promise is"),
        (["--stop-at", "30"], "search.stop_at is"),
        (["--limit", "30"], "run.limits is"),
        (["--limit", "30"], "To search that run under other limits: `lifesafe optimize life --limit NUMBER`."),
    ],
)
def test_other_settings_in_the_same_directory_are_refused(words: list[str], message: str, shell: Shell) -> None:
    before = recorded()
    err = shell(*STOPPED, *words, code=2).err
    assert "begun otherwise: " in err
    assert message in err
    assert recorded() == before


# --- operate and optimize


@pytest.mark.usefixtures("_life")
def test_operating_further_prints_every_episode(shell: Shell) -> None:
    lines = [
        json.loads(line)
        for line in shell("operate", "life", "--episodes", "3", "--workers", "0", "--json").out.splitlines()
    ]
    assert [line["episode"] for line in lines] == [11, 12, 13]
    assert all(line["alarm"] is None for line in lines)
    last = recorded()[-1]
    assert isinstance(last, e.Served)
    assert [[row[0], *row[1:]] for row in last.episodes] == [
        [line["returns"]["reward"], *line["returns"]["costs"]] for line in lines
    ]


def test_operation_may_end_at_an_alarm_and_goes_on_with_the_target_fallen_back_to(
    monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    """A machine that costs nothing until it is worn, and then something at every step."""
    monkeypatch.syspath_prepend(Path().resolve())
    Path("wearing.py").write_text(
        "from pathlib import Path\n\n"
        "def cost(observation, action, next_observation, info):\n    return float(Path('worn').exists())\n"
    )
    write_dsrl(swings(), "logs.hdf5")
    own = ["run", "--env", "Pendulum-v1", "--cost", "wearing:cost", "--limit", "50", "--stop-at", "100", "--promise"]
    small = ["--data", "logs.hdf5", "--method", "rvs", "--set", "steps=5", "--workers", "0", "--no-plain"]
    shell(*own, "total", *small, "--episodes", "40", "--operate", "2", "--out", "life")
    Path("worn").touch()
    words = ["operate", "life", "--together", "1", "--workers", "0", "--json"]
    shown = shell(*words, "--episodes", "50", "--until-alarm", code=1)
    *before, last = [json.loads(line) for line in shown.out.splitlines()]
    assert all(line["alarm"] is None for line in before)
    assert (last["alarm"]["rule"], last["returns"]["costs"]) == ("mean", [100.0])
    assert last["episode"] == 3 + len(before) < 52
    assert "ALARM at (" in shown.err
    assert "Returns(" not in shown.err
    assert last["next_target"] is not None
    (line,) = [json.loads(line) for line in shell(*words, "--episodes", "1").out.splitlines()]
    assert (line["episode"], line["target"]) == (last["episode"] + 1, last["next_target"])
    shown = shell(*words, "--episodes", "500", code=1)  # until nothing is left to fall back to
    assert "operation halts" in shown.err
    shown = shell("operate", "life", "--workers", "0", code=1)
    assert "Operation has halted: alarm in episode " in shown.out
    assert "Look at the system" in shown.out
    assert "Phase: halted." in shown.out


@pytest.mark.usefixtures("_life")
def test_several_limits_in_one_go(shell: Shell) -> None:
    rows = shell("optimize", "life", "--limit", "30", "35", "--workers", "0", "--json").json["rows"]
    assert [row["limits"] for row in rows] == [[30.0], [35.0]]
    assert all(row["costs"][0] <= row["limits"][0] for row in rows)


@pytest.mark.usefixtures("_life")
def test_an_impossible_limit_changes_nothing(shell: Shell) -> None:
    before = recorded()
    for limit in ("-1", "nan", "0"):
        shown = shell("optimize", "life", "--limit", limit, "--workers", "0", code=2)
        assert "imits must be " in shown.err
    assert recorded() == before


@pytest.mark.usefixtures("_life")
def test_verify_report_and_export_of_a_life(shell: Shell) -> None:
    assert "10 episodes of operation" in shell("journal", "verify", "life").out
    assert shell("report", "life").out.startswith("PointCircle is operated at target (")
    assert "episodes done so far" in shell("plan", "life").out


# --- what is missing or impossible


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run"], "Give either a task"),
        (["run", "PointCircle", "--env", "Pendulum-v1"], "Give either a task"),
        (["run", "PointCirle"], "Did you mean 'PointCircle'?"),
        (["run", "--env", "Pendulum-v1"], "Give --limit for Pendulum-v1"),
        (["run", "--env", "Pendulum-v1", "--limit", "20"], "has no data of its own; give some: --data FILE"),
        (["run", "--env", "nowhere:Cart-v0", "--limit", "20"], "Gymnasium cannot make 'nowhere:Cart-v0'"),
        (["optimize", "nowhere"], "There is no run in nowhere"),
        (["operate", "nowhere"], "There is no run in nowhere; `lifesafe run` begins one."),
        ([*QUICK, "--promise", "total"], "--promise total needs --stop-at"),
        ([*QUICK, "--stop-at", "-1"], "--stop-at must be positive; got -1."),
        ([*QUICK, "--stop-at", "40", "50"], "Got 2 numbers as --stop-at for 1 cost"),
        ([*QUICK, "--stop-at", "40", "--incident", "30"], "Give --stop-at or --incident, not both"),
        ([*QUICK, "--stop-at", "900"], "--stop-at 900 is never reached: no episode can cost more than 200."),
        ([*QUICK, "--incident", "much"], '--incident is a number, one per cost, or "horizon"; got much.'),
        ([*QUICK, "--level", "2"], "--level must lie between 0 and 1; got 2"),
        ([*QUICK, "--delta", "0"], "--delta must lie between 0 and 1; got 0"),
        ([*QUICK, "--episodes", "0"], "--episodes must be a whole number of at least 1; got 0."),
        ([*QUICK, "--limit", "inf"], "Limits must be"),
    ],
)
def test_what_is_missing_or_impossible_is_said_before_anything_is_made(
    words: list[str], message: str, shell: Shell
) -> None:
    err = shell(*words, code=2).err
    assert message in err
    assert not any(sign in err for sign in ("Traceback", "stop_at", "(inf", "Run: "))
    assert list(Path().iterdir()) == []


def test_a_run_of_version_0_1_is_refused(shell: Shell) -> None:
    Path("life").mkdir()
    Path("life/run.toml").write_text('[run]\ntask = "PointCircle"\n[schedule]\ntrials = 30\n')
    for words in (STOPPED, ["optimize", "life"], ["operate", "life"]):
        assert "life was begun by lifesafe 0.1, which was never released; begin a new run." in shell(*words, code=2).err
    assert [path.name for path in Path("life").iterdir()] == ["run.toml"]


def test_the_demo_writes_a_report(shell: Shell) -> None:
    shown = shell("demo", "--out", "small", "--steps", "20", "--workers", "0", "--json", code=None)
    outcome = shown.json
    assert shown.code == (0 if outcome["phase"] == "operate" else 1)
    assert outcome["rows"][-1]["name"] == "plain (R_max, limit)"
    page = Path("small/report.html").read_text(encoding="utf-8")
    assert f"Of {outcome['searched'] + outcome['served']} real episodes (" in page


def test_an_environment_of_ones_own_from_its_id_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "swinging.py").write_text(
        "def cost(observation, action, next_observation, info):\n    return float(abs(next_observation[2]) > 1.0)\n"
        "def broken(observation, action, next_observation, info):\n    return info['nothing']\n"
    )
    write_dsrl(swings(), tmp_path / "logs.hdf5")
    own = ["run", "--env", "Pendulum-v1", "--limit", "190", "--out", str(tmp_path / "own"), "--workers", "0"]
    small = ["--data", str(tmp_path / "logs.hdf5"), "--method", "rvs", "--set", "steps=5", "--incident", "20"]
    for cost, message in (([], "--cost module:function"), (["--cost", "swinging:broken"], "KeyError: 'nothing'")):
        assert message in shell(*own, *small, *cost, code=2).err
        assert not (tmp_path / "own").exists()  # found before the training
    shell(*own, *small, "--cost", "swinging:cost", "--no-plain", "--operate", "1", "--episodes", "40", code=None)
    shell("optimize", str(tmp_path / "own"), "--workers", "0", code=None)
