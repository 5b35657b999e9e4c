"""Every command through the real entry point, in this process."""

import json
import shutil
import sqlite3
import warnings
from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace

import pytest

import lifesafe
from lifesafe.cli import COMMANDS, main
from lifesafe.cli.words import shell_words
from lifesafe.console.tables import print_json
from lifesafe.errors import GuaranteeWarning
from lifesafe.journal import events as e
from lifesafe.journal import read_records
from lifesafe.lab.coverage.deployment import CoverageRow
from lifesafe.lab.coverage.suite import SUITES
from lifesafe.report.reading import Reading
from lifesafe.safety import SafeOptimizer
from shell import Shell

OLD = Path(__file__).parents[2] / "formats" / "assets" / "journal-v1.sqlite"
SHORT = ["theory", "simulate", "--episodes", "60"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("finished") / "demo"
    assert main([*SHORT, "--out", str(path)]) == 0
    return path


@pytest.fixture
def run(finished: Path, place: Path) -> Path:
    shutil.copytree(finished, place / "runs/simulated")
    return Path("runs/simulated")


@pytest.fixture
def old(place: Path) -> Path:
    """A run of version 0.1."""
    (place / "old").mkdir()
    shutil.copyfile(OLD, place / "old/journal.sqlite")
    return Path("old")


def add(monkeypatch: pytest.MonkeyPatch, name: str, function: Callable[[], int]) -> None:
    """Let there be another command."""
    monkeypatch.setattr(lifesafe, "made_up", SimpleNamespace(command=function), raising=False)
    monkeypatch.setitem(COMMANDS, name, ("made_up.command", "Made up."))


def damage(run: Path) -> None:
    connection = sqlite3.connect(run / "journal.sqlite")
    connection.execute("DROP TRIGGER no_update")
    connection.execute("UPDATE event SET body = replace(body, '0', '1') WHERE number = 3")
    connection.commit()
    connection.close()


def test_help_lists_every_command_with_one_line(shell: Shell) -> None:
    out = shell("--help").out
    for name, (place, line) in COMMANDS.items():
        assert f"  {name.ljust(15)}  {line}\n" in out
        assert resolve_name(f"lifesafe.{place}").__doc__.splitlines()[0] == line


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_teaches(name: str, shell: Shell) -> None:
    out = shell(*name.split(), "--help").out
    assert f"lifesafe {name}" in out.partition("Examples:")[2]
    assert "Exit codes: 0" in out
    assert "None" not in out
    assert "(default: )" not in out


def test_a_group_lists_its_commands(shell: Shell) -> None:
    out = shell("journal", "--help").out
    assert "journal verify" in out
    assert "journal export" in out
    assert "theory budget" not in out


@pytest.mark.parametrize("words", [[], ["journal"]])
def test_no_command_is_an_error_that_shows_the_help(words: list[str], shell: Shell) -> None:
    captured = shell(*words, code=2)
    assert captured.out == ""
    assert "commands:" in captured.err


def test_version(shell: Shell) -> None:
    assert shell("--version").out.startswith("lifesafe 0.")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["jornal", "verify", "x"], "Unknown command 'jornal'."),
        (["journal", "verfy", "x"], "Unknown command 'journal verfy'. Did you mean 'journal verify'?"),
        (["journal", "verify", "nowhere"], "nowhere does not exist; give the directory of a run"),
        (["journal", "export", "."], ". has no journal.sqlite"),
        (["report", "nowhere"], "nowhere does not exist"),
        (["theory", "simulate", "nope"], "Unknown family 'nope'. The families are overshoot, "),
        (["theory", "simulate", "--delta", "2"], "--delta must lie between 0 and 1; got 2.0."),
        (["theory", "simulate", "--delta", "nan"], "--delta must lie between 0 and 1; got nan."),
        (["theory", "simulate", "--seed", "-1"], "A seed is a whole number that is not negative"),
        (["theory", "simulate", "--episodes", "0"], "--episodes must be a whole number of at least 1; got 0."),
        (["theory", "simulate", "--promise", "total"], "--promise total needs --stop"),
        (["theory", "simulate", "--stop", "-1"], "--stop must be a positive number, in limits: 2 or 3, say; got -1."),
        (["theory", "simulate", "--stop", "inf"], "--stop must be a positive number"),
        (["theory", "coverage", "--family", "nope"], "The suite quick has no family 'nope'; it has "),
        (["theory", "budget", "--points", "1"], "give at least 2 points"),
        (["theory", "budget", "--points", "90", "--costs", "2"], "are 729,000 candidates; give at most 10,000"),
        (["theory", "budget", "--points", "3", "--delta", "0"], "delta"),
    ],
)
def test_an_error_is_a_message_without_a_traceback(words: list[str], message: str, shell: Shell, place: Path) -> None:
    captured = shell(*words, code=2)
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    "words", [["theory", "simulate", "--promise", "nope"], ["theory", "simulate", "--nope"], ["journal", "verify"]]
)
def test_wrong_options_are_explained(words: list[str], shell: Shell) -> None:
    captured = shell(*words, code=2)
    assert "--help" in captured.err
    assert "Traceback" not in captured.err


@pytest.mark.parametrize("words", [["--debug", "report", "nowhere"], ["report", "nowhere", "--debug"]])
def test_debug_shows_the_traceback(words: list[str], shell: Shell) -> None:
    err = shell(*words, code=2).err
    assert "Traceback" in err
    assert "nowhere does not exist" in err


def test_an_error_of_the_system_is_a_message_too(run: Path, shell: Shell) -> None:
    err = shell("journal", "export", str(run), "--out", "no/such/place.jsonl", code=2).err
    assert "no/such/place.jsonl" in err
    assert "Traceback" not in err


def test_a_mistake_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> int:
        """Break."""
        raise RuntimeError("a bug")

    add(monkeypatch, "broken", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        main(["broken"])


def test_warnings_are_shown_as_sentences(monkeypatch: pytest.MonkeyPatch, shell: Shell) -> None:
    def warning() -> int:
        """Warn."""
        warnings.warn("Take care.", GuaranteeWarning, stacklevel=2)
        return 0

    add(monkeypatch, "warn", warning)
    assert shell("warn").err == "warning: Take care.\n"


def test_words_of_python_become_words_of_the_shell() -> None:
    said = {
        "stop_at = 40 is never reached": "--stop-at 40 is never reached",
        "Got 2 numbers as largest_step for 1 costs": "Got 2 numbers as --largest-step for 1 costs",
        "promise = 'total' needs stop_at": "--promise total needs --stop-at",
        "Limits must be positive numbers; got (20.0, -1.0).": "Limits must be positive numbers; got 20 -1.",
        "got (inf,).": "got inf.",
        "{'speed': 5.0, 'gain': 0.1} is no target": "speed=5,gain=0.1 is no target",
        "Returns(reward=200.0, costs=(2.0,)) is no target": "reward=200,cost=2 is no target",
        "Returns(reward=2.5, costs=(1.0, 0.0)): no": "reward=2.5,cost 1=1,cost 2=0: no",
        "give rewards = (low, high)": "give --rewards LOW HIGH",
        "A trial (of ten) stops at nothing.": "A trial (of ten) stops at nothing.",
    }
    assert {text: shell_words(text) for text in said} == said


def test_json_is_laid_out_with_short_lists_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    told = {"limits": [20.0], "targets": [{"speed": 0.5, "gain": 0.1}] * 9, "best": None, "none": []}
    print_json(told)
    out = capsys.readouterr().out
    assert json.loads(out) == told
    assert '\n  "limits": [20.0],\n' in out
    assert out.count('\n    {"speed": 0.5, "gain": 0.1}') == 9
    with pytest.raises(ValueError, match="JSON"):
        print_json({"cost": float("nan")})


# --- one simulated deployment


def test_a_simulation_tells_its_story(shell: Shell) -> None:
    captured = shell(*SHORT, code=None)
    assert "The run is in runs/simulated." in captured.err
    assert "trial   1  start" in captured.err
    assert "true cost, limit 20" in captured.out
    assert "The promise 'trial' was" in captured.out
    assert "Report: lifesafe report runs/simulated" in captured.out
    with SafeOptimizer.open("runs/simulated") as optimizer:
        assert captured.code == (0 if optimizer.best is not None else 1)
        assert f"The search took {optimizer.history.searched} episodes and is over: {optimizer.done}." in captured.out


@pytest.mark.parametrize("promise", [[], ["--stop", "3"], ["--promise", "total", "--stop", "2"]])
def test_a_simulation_tells_the_numbers_of_the_run_to_machines(promise: list[str], shell: Shell) -> None:
    told = shell(*SHORT, "--episodes", "40", "--seed", "2", *promise, "--json", code=None).json
    reading = Reading.read(Path(told["run"]))
    best = reading.beliefs, reading.chosen
    assert told["recommended"] == (None if best[1] is None else list(best[1].point))
    assert told["episodes"] == reading.history.searched
    assert told["spent"] == reading.beliefs.spent
    assert reading.problem.promise == ("total" if "total" in promise else "trial")
    assert reading.problem.stop_at == ((20.0 * float(promise[-1]),) if promise else None)
    assert told["broken_sure"] is False


def test_a_simulation_says_when_no_target_is_fit(shell: Shell) -> None:
    assert shell("theory", "simulate", "--episodes", "5", "--json", code=1).json["recommended"] is None


def test_a_simulation_leaves_another_run_alone(run: Path, shell: Shell) -> None:
    before = (run / "journal.sqlite").read_bytes()
    for words in (["theory", "simulate", "cliff"], [*SHORT, "--seed", "1"], ["theory", "simulate"]):
        assert "runs/simulated holds a run of another machine, or one with other options." in shell(*words, code=2).err
    assert (run / "journal.sqlite").read_bytes() == before


def test_a_finished_simulation_is_told_again(run: Path, shell: Shell) -> None:
    before = (run / "journal.sqlite").read_bytes()
    first = shell(*SHORT, "--json").out
    assert shell(*SHORT, "--json").out == first
    assert (run / "journal.sqlite").read_bytes() == before


# --- the record


def test_verify_counts_and_replays_and_writes_nothing(run: Path, shell: Shell) -> None:
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    out = shell("journal", "verify", str(run)).out
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before
    records = read_records(run / "journal.sqlite")
    trials = sum(isinstance(record.event, e.Told) for record in records)
    assert f"is sound: {len(records)} events, the last with fingerprint {records[-1].hash[:12]}." in out
    assert f"Replayed to the same decisions: {trials} trials with 60 episodes, 0 episodes of operation" in out


def test_verify_tells_machines(run: Path, shell: Shell) -> None:
    told = shell("journal", "verify", str(run), "--json").json
    assert (told["sound"], told["replayed"], told["stage"], told["searched"]) == (True, True, "done", 60)
    assert "replayed" not in shell("journal", "verify", str(run), "--chain-only", "--json").json


def test_a_damaged_journal_is_refused_by_every_command(run: Path, shell: Shell) -> None:
    damage(run)
    Path("one.json").write_text('[{"reward": 1, "cost": 1}]')
    before = (run / "journal.sqlite").read_bytes()
    tell = ["tell", str(run), "one.json", "--trial", "1"]
    for words in (["journal", "verify"], ["journal", "export"], ["report"], ["plan"], ["ask"]):
        captured = shell(*words, str(run), code=2)
        assert "was edited or moved: expected fingerprint" in captured.err
        assert "Traceback" not in captured.err
        assert captured.out == ""
    for words in (tell, ["confirm", str(run), "--reason", "x"], ["retract", str(run), "1", "--reason", "x"]):
        assert "was edited or moved: expected fingerprint" in shell(*words, code=2).err
    assert (run / "journal.sqlite").read_bytes() == before


def test_a_run_of_version_0_1_is_refused_by_every_command(old: Path, shell: Shell) -> None:
    Path("one.json").write_text('[{"reward": 1, "cost": 1}]')
    before = {path.name: path.read_bytes() for path in old.iterdir()}
    commands = (
        ["journal", "verify", "old"],
        ["journal", "export", "old"],
        ["report", "old"],
        ["plan", "old"],
        ["ask", "old"],
        ["tell", "old", "one.json", "--trial", "1"],
        ["confirm", "old", "--reason", "x"],
        ["retract", "old", "1", "--reason", "x"],
        ["limits", "old", "--limit", "30"],
        ["theory", "simulate", "--out", "old"],
    )
    for words in commands:
        captured = shell(*words, code=2)
        assert "recorded by lifesafe 0.1, which was never released; begin a new run." in captured.err
        assert captured.out == ""
    assert {path.name: path.read_bytes() for path in old.iterdir()} == before


def test_export_writes_every_event(run: Path, shell: Shell) -> None:
    out = shell("journal", "export", str(run)).out
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["kind"] for row in rows] == [e.kind_of(each.event) for each in read_records(run / "journal.sqlite")]
    shell("journal", "export", str(run), "--out", "events.jsonl")
    assert Path("events.jsonl").read_text() == out


# --- reports


def test_a_report_is_written_where_it_is_told(run: Path, shell: Shell) -> None:
    out = shell("report", str(run)).out
    assert (run / "report.html").is_file()
    out += shell("report", str(run), "--out", "figures/run.svg").out
    assert Path("figures/run.svg").read_bytes().startswith(b"<svg")
    assert [line for line in out.splitlines() if line.startswith(("Report: ", "Picture: "))] == [
        f"Report: {run / 'report.html'}",
        "Picture: figures/run.svg",
    ]
    assert "Of 60 real episodes (30 start, 30 search), " in out
    assert out.count("Promise: With probability at least 0.9") == 1


def test_the_journal_may_be_named_instead_of_its_directory(run: Path) -> None:
    assert main(["report", str(run / "journal.sqlite")]) == 0
    assert (run / "report.html").is_file()
    assert main(["plan", str(run / "journal.sqlite")]) == 0


def test_a_picture_has_the_name_of_the_task_or_of_the_run_and_no_path_of_this_machine(run: Path) -> None:
    for given, name in ((run, str(run)), (run.resolve(), "simulated")):
        assert main(["report", str(given), "--out", "plain.svg"]) == 0
        assert f">Run {name} " in Path("plain.svg").read_text()
    (run / "run.toml").write_text('[run]\ntask = "PointCircle"\n')
    assert main(["report", str(run), "--out", "named.svg"]) == 0
    drawn = Path("named.svg").read_text()
    assert ">PointCircle " in drawn
    assert str(run) not in drawn


def test_a_picture_says_what_could_not_be_read(run: Path, shell: Shell) -> None:
    (run / "run.toml").write_text("[run\n")
    assert "The settings of the run are left out." in shell("report", str(run), "--out", "plain.png").err


def test_words_that_do_not_fit_together_are_refused(run: Path, shell: Shell) -> None:
    for words, message in (
        (["--live", "--out", "x.html"], "give either --live or --out"),
        (["--port", "8000"], "add --live"),
        (["--out", "x.txt"], "give a file that ends in one of .html, .png, .svg"),
    ):
        assert message in shell("report", str(run), *words, code=2).err


# --- theory


def test_budget_prints_its_table_with_advice_and_tells_machines_the_same(shell: Shell) -> None:
    words = ["theory", "budget", "--points", "6"]
    told = shell(*words, "--json").json
    out = shell(*words).out
    assert f"{told['trials']:,}" in out
    assert "Budget of Theorem 3, corrected constants" in out
    assert "worst case" in out
    assert told["trials"] == told["exploration"] + told["maximization"]
    assert told["episodes"] == 20 * told["trials"]


def test_a_coverage_keeps_what_was_simulated_before(monkeypatch: pytest.MonkeyPatch, shell: Shell) -> None:
    monkeypatch.setitem(SUITES, "headline", ((CoverageRow(family="rare", episodes=40), CoverageRow(family="cliff")), 2))
    words = ["theory", "coverage", "headline", "--family", "rare", "--deployments", "1", "--workers", "1", "--json"]
    told = shell(*words).json
    assert told
    assert all(row["deployments"] == 1 for row in told)
    assert json.loads(Path("runs/coverage/headline.json").read_text()) == told
    assert "rare" in Path("runs/coverage/headline.md").read_text()
    before = {path: path.stat().st_mtime_ns for path in Path("runs/coverage/headline").rglob("*") if path.is_file()}
    assert before
    assert shell(*words).json == told
    assert {path: path.stat().st_mtime_ns for path in before} == before
