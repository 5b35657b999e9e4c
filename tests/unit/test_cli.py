"""Every command through the real entry point, in this process."""

import json
import shutil
import sqlite3
import warnings
from pathlib import Path
from typing import Any

import pytest

from lifesafe.cli import COMMANDS, main
from lifesafe.errors import ConfigError, GuaranteeWarning
from lifesafe.optimizer.journal import read_events
from lifesafe.report.history import History
from lifesafe.report.simulation import Simulation


@pytest.fixture(autouse=True)
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("finished") / "demo"
    assert main(["theory", "simulate", "--out", str(path)]) == 0
    return path


@pytest.fixture
def run(finished: Path, empty_directory: Path) -> Path:
    shutil.copytree(finished, empty_directory / "runs/simulated")
    return Path("runs/simulated")


def damage(run: Path) -> None:
    connection = sqlite3.connect(run / "journal.sqlite")
    connection.execute("DROP TRIGGER no_update")
    connection.execute("UPDATE event SET body = replace(body, '20', '21') WHERE number = 3")
    connection.commit()
    connection.close()


def test_help_lists_every_command_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for name, function in COMMANDS.items():
        assert function.__doc__
        assert f"  {name.ljust(15)}  {function.__doc__.splitlines()[0]}" in out


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_teaches(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*name.split(), "--help"]) == 0
    out = capsys.readouterr().out
    assert f"lifesafe {name}" in out.partition("Examples:")[2]
    assert "Exit codes: 0" in out


def test_a_group_lists_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["journal", "--help"]) == 0
    out = capsys.readouterr().out
    assert "journal verify" in out
    assert "journal export" in out
    assert "theory budget" not in out


@pytest.mark.parametrize("words", [[], ["journal"]])
def test_no_command_is_an_error_that_shows_the_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "commands:" in captured.err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("lifesafe 0.")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["jornal", "verify", "x"], "Unknown command 'jornal'."),
        (["journal", "verfy", "x"], "Unknown command 'journal verfy'. Did you mean 'journal verify'?"),
        (["journal", "verify", "nowhere"], "nowhere does not exist; give the directory of a run"),
        (["journal", "export", "."], ". has no journal.sqlite"),
        (["report", "nowhere"], "nowhere does not exist"),
        (["theory", "simulate", "--limit", "-1"], "The limit must be a positive number; got -1.0."),
        (["theory", "simulate", "--delta", "2"], "delta must lie between 0 and 1; got 2.0."),
        (["theory", "simulate", "--seed", "-1"], "A seed is a whole number that is not negative"),
        (["theory", "simulate", "--limit", "0.5"], "No target is known to keep the limits (0.5,)"),
        (["theory", "budget", "--points", "1"], "give at least 2 points"),
        (["theory", "budget", "--points", "90", "--costs", "2"], "are 729,000 candidates; give at most 10,000"),
        (["theory", "budget", "--points", "3", "--delta", "0"], "delta"),
    ],
)
def test_an_error_is_a_message_without_a_traceback(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    "words", [["theory", "simulate", "--family", "nope"], ["theory", "simulate", "--nope"], ["journal", "verify"]]
)
def test_wrong_options_are_explained(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert "--help" in captured.err
    assert "Traceback" not in captured.err


@pytest.mark.parametrize("words", [["--debug", "report", "nowhere"], ["report", "nowhere", "--debug"]])
def test_debug_shows_the_traceback(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "nowhere does not exist" in err


def test_an_error_of_the_system_is_a_message_too(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["journal", "export", str(run), "--out", "no/such/place.jsonl"]) == 2
    err = capsys.readouterr().err
    assert "no/such/place.jsonl" in err
    assert "Traceback" not in err


def test_a_mistake_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> int:
        """Break."""
        raise RuntimeError("a bug")

    monkeypatch.setitem(COMMANDS, "broken", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        main(["broken"])


def test_an_error_inside_a_command_keeps_its_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refusing() -> int:
        """Refuse."""
        raise ConfigError("Not so.")  # a ValueError, which tyro must not take for one of its own

    monkeypatch.setitem(COMMANDS, "theory refuse", refusing)
    assert main(["theory", "refuse"]) == 2
    assert capsys.readouterr().err == "lifesafe: Not so.\n"


def test_warnings_are_shown_as_sentences(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def warning() -> int:
        """Warn."""
        warnings.warn("Take care.", GuaranteeWarning, stacklevel=2)
        return 0

    monkeypatch.setitem(COMMANDS, "warn", warning)
    assert main(["warn"]) == 0
    assert capsys.readouterr().err == "warning: Take care.\n"


def test_a_simulation_finds_a_safe_target_and_draws_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["theory", "simulate"]) == 0
    captured = capsys.readouterr()
    assert "Beginning a run in runs/simulated" in captured.err
    assert "30  maximize" in captured.err
    assert "plain (R_max, limit)" in captured.out
    assert "Picture: runs/simulated/report.png" in captured.out
    assert Path("runs/simulated/report.png").read_bytes().startswith(b"\x89PNG")


def test_a_simulation_tells_the_numbers_of_the_run_to_machines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["theory", "simulate", "--family", "overshoot", "--seed", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    history = History.read(Path(told["run"]))
    assert history.best is not None
    assert told["recommended"]["target"]["reward"] == history.best.target.reward
    assert told["trials"] == len(history.moments) == 30
    assert told["spent"] == history.moments[-1].spent
    assert told["plain"]["is_safe"] is False
    assert Path(told["report"]).is_file()


def test_a_simulation_leaves_a_finished_run_alone(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (run / "journal.sqlite").read_bytes()
    assert main(["theory", "simulate", "--family", "cliff"]) == 0
    assert "Beginning a run in runs/simulated-2" in capsys.readouterr().err
    assert (run / "journal.sqlite").read_bytes() == before


def test_a_simulation_says_when_no_target_is_fit(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["theory", "simulate", "--family", "rare", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert code == (0 if told["recommended"] else 1)


def test_interrupted_it_says_how_to_go_on_and_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["theory", "simulate", "--out", "a run", "--seed", "3"]
    assert main([*words[:2], "--out", "whole", *words[4:], "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)

    original, calls = Simulation.run, []

    def interrupted(self: Simulation, trial: Any) -> Any:
        calls.append(trial.number)
        if trial.number == 7:
            raise KeyboardInterrupt
        return original(self, trial)

    monkeypatch.setattr(Simulation, "run", interrupted)
    assert main(words) == 130
    err = capsys.readouterr().err
    assert "To go on: lifesafe theory simulate --out 'a run' --seed 3" in err
    assert "Traceback" not in err
    monkeypatch.setattr(Simulation, "run", original)
    assert main([*words, "--json"]) == 0
    captured = capsys.readouterr()
    assert "Resuming the unfinished run in a run" in captured.err
    resumed = json.loads(captured.out)
    assert all(resumed[name] == whole[name] for name in ("recommended", "trials", "spent", "violations"))


def test_verify_counts_and_replays(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["journal", "verify", str(run)]) == 0
    out = capsys.readouterr().out
    events = read_events(run / "journal.sqlite")
    assert f"is sound: {len(events)} events, the last with fingerprint {events[-1].hash[:12]}." in out
    assert "Replayed to the same decisions: 30 trials, stage done." in out


def test_verify_tells_machines(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["journal", "verify", str(run), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["sound"], told["replayed"], told["stage"], told["trials"]) == (True, True, "done", 30)
    assert main(["journal", "verify", str(run), "--chain-only", "--json"]) == 0
    assert "replayed" not in json.loads(capsys.readouterr().out)


def test_a_damaged_journal_is_refused_by_every_command(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage(run)
    for words in (["journal", "verify"], ["journal", "export"], ["report"]):
        assert main([*words, str(run)]) == 2
        captured = capsys.readouterr()
        assert "was edited or moved: expected fingerprint" in captured.err
        assert "Traceback" not in captured.err
        assert captured.out == ""


def test_verify_leaves_the_journal_as_it_is(run: Path) -> None:
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    assert main(["journal", "verify", str(run)]) == 0
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


def test_export_writes_every_event(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["journal", "export", str(run)]) == 0
    out = capsys.readouterr().out
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["kind"] for row in rows] == [event.kind for event in read_events(run / "journal.sqlite")]
    assert main(["journal", "export", str(run), "--out", "events.jsonl"]) == 0
    assert Path("events.jsonl").read_text() == out


def test_report_draws_where_it_is_told(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(run)]) == 0
    assert (run / "report.html").is_file()
    assert main(["report", str(run), "--out", "figures/run.pdf"]) == 0
    assert Path("figures/run.pdf").read_bytes().startswith(b"%PDF")
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if line.startswith(("Report: ", "Picture: "))] == [
        f"Report: {run / 'report.html'}",
        "Picture: figures/run.pdf",
    ]
    assert out.count("Calibration: each of") == 2


def test_a_picture_has_the_name_of_the_task_and_no_path(run: Path) -> None:
    assert main(["report", str(run), "--out", "plain.svg"]) == 0
    assert "<!-- Run simulated -->" in Path("plain.svg").read_text()
    (run / "run.toml").write_text('[run]\ntask = "PointCircle"\n')
    assert main(["report", str(run), "--out", "named.svg"]) == 0
    drawn = Path("named.svg").read_text()
    assert "<!-- PointCircle -->" in drawn
    assert str(run) not in drawn


def test_a_picture_says_what_could_not_be_read(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "run.toml").write_text("[run\n")
    assert main(["report", str(run), "--out", "plain.png"]) == 0
    assert "The settings of the run are left out." in capsys.readouterr().err


def test_budget_prints_both_tables_and_the_advice(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["theory", "budget", "--points", "6", "--visits", "3"]) == 0
    out = capsys.readouterr().out
    assert "Budget of Theorem 3, corrected constants" in out
    assert "worst case" in out
    assert out.splitlines()[-4].split() == ["visit", "allowance", "remaining", "alpha"]


def test_budget_tells_machines_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["theory", "budget", "--points", "6", "--visits", "3"]
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert main(words) == 0
    assert f"{told['theorem_3']['trials']:,}" in capsys.readouterr().out
    assert told["theorem_3"]["trials"] == told["theorem_3"]["exploration"] + told["theorem_3"]["maximization"]
    assert told["theorem_3"]["episodes"] == 20 * told["theorem_3"]["trials"]
    assert [row["visit"] for row in told["ledger"]] == [1, 2, 3]
    assert told["ledger"][0]["allowance"] == pytest.approx(0.025)


def test_a_coverage_of_fewer_deployments_keeps_what_was_simulated_before(empty_directory: Path) -> None:
    def simulated(*words: str) -> list[tuple[str, int]]:
        assert main(["theory", "coverage", "--workers", "1", "--out", "cov", *words]) == 0
        return [
            (line["row"]["family"], line["deployments"]) for line in json.loads(Path("cov/default.json").read_text())
        ]

    assert set(simulated("--family", "rare", "--deployments", "2")) == {("rare", 2)}
    both = simulated("--family", "rare", "--deployments", "1")
    assert set(both) == {("rare", 2), ("rare", 1)}
    assert simulated("--family", "rare", "--deployments", "2") == both
    assert Path("cov/default.md").read_text().count("| rare |") == len(both) / 2
