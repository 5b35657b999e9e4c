"""The page tells the numbers of the run, whatever kind of run it is."""

import json
import re
import shutil
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from lifesafe.optimizer import Priors, Problem, SafeOptimizer, Schedule
from lifesafe.optimizer.certificates import upper_bounds
from lifesafe.optimizer.journal import Journal, read_events
from lifesafe.report.history import History
from lifesafe.report.page.checks import not_promised
from lifesafe.report.page.document import page_html, write_page
from lifesafe.report.page.operated import Operated
from lifesafe.report.page.plane import frames, views
from lifesafe.report.page.reading import Reading
from lifesafe.report.page.svg import Chart, ticks
from lifesafe.report.page.target_charts import tried_targets
from lifesafe.report.page.trial_charts import observation_kinds, reward_figure
from lifesafe.report.page.verdict import headline, tone
from lifesafe.report.page.wording import number, target_text
from lifesafe.report.shown import moments_shown
from lifesafe.returns import Returns
from report_runs import KINDS, SIMULATION, operated

VOID = {"meta", "link", "input", "br", "img", "rect", "path", "circle"}


class Page(HTMLParser):
    """A page taken apart: its elements, its text, the rows of its tables."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        if "script" in self.open:
            self.scripts.append(data)
        elif "style" not in self.open:
            self.texts.append(data)
            if {"td", "th"} & set(self.open):
                self.rows[-1][-1] += data

    @property
    def text(self) -> str:
        return re.sub(r"[ \n]+", " ", " ".join(self.texts)).strip()

    @property
    def data(self) -> dict[str, object]:
        told: dict[str, object] = json.loads(self.scripts[0])
        return told


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> "Runs":
    return Runs(tmp_path_factory.mktemp("runs"))


class Runs:
    """Every kind of run, made when it is asked for."""

    def __init__(self, place: Path) -> None:
        self.reading = cache(lambda kind: Reading.read(KINDS[kind](place / kind)))
        self.html = cache(lambda kind: page_html(self.reading(kind)))
        self.page = cache(lambda kind: Page(self.html(kind)))

    def copy(self, kind: str, path: Path) -> Path:
        """Return a run of one's own, to be changed."""
        shutil.copytree(self.reading(kind).run, path, dirs_exist_ok=True)
        return path


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_run_has_a_whole_page(runs: Runs, kind: str) -> None:
    page, html = runs.page(kind), runs.html(kind)
    assert page.open == []
    assert len(html) < 1_000_000
    assert headline(runs.reading(kind)) in page.text
    assert runs.reading(kind).notices == ()
    assert not re.search(r"\bnan\b|\binf\b|None\b|Traceback", page.text)
    names = [attributes.get("id") for _, attributes in page.elements if attributes.get("id")]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_comes_from_elsewhere(runs: Runs, kind: str) -> None:
    for tag, attributes in runs.page(kind).elements:
        assert tag not in ("iframe", "object", "embed", "base", "form")
        assert "src" not in attributes
        if "href" in attributes:
            assert str(attributes["href"]).startswith(("#", "data:,"))
    assert "http://" not in runs.html(kind)
    assert "https://" not in runs.html(kind)
    assert "@import" not in runs.html(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_every_chart_says_what_it_shows(runs: Runs, kind: str) -> None:
    charts = [a for tag, a in runs.page(kind).elements if tag == "svg" and "chart" in str(a.get("class"))]
    assert charts
    assert all(a["role"] == "img" and len(str(a["aria-label"])) > 20 for a in charts)
    sections = [a["id"] for tag, a in runs.page(kind).elements if tag == "section"]
    if runs.reading(kind).history.moments:
        assert sections == [
            "guarantee", "costs", "reward", "safe-set", "targets", "risk", "calibration", "operation", "trials",
            "settings",
        ]  # fmt: skip


@pytest.mark.parametrize("kind", ["plain", "two_costs", "other_limit", "violated"])
def test_the_table_of_trials_is_the_history(runs: Runs, kind: str) -> None:
    reading = runs.reading(kind)
    history, rows = History.read(reading.run), runs.page(kind).rows
    start = next(i for i, row in enumerate(rows) if row[:2] == ["trial", "stage"]) + 1
    assert len(history.moments) > 5
    for moment, row in zip(history.moments, rows[start : start + len(history.moments)], strict=True):
        trial, episodes = moment.result.trial, moment.result.episodes
        assert row[:4] == [str(trial.number), trial.stage.value, target_text(trial.target), str(len(episodes))]
        assert row[4] == number(float(episodes[:, 0].mean()), 4)
        for k, limit in enumerate(moment.limits):
            assert row[5 + 2 * k].startswith(f"{number(float(episodes[:, 1 + k].mean()))} ± ")
            assert row[6 + 2 * k] == number(limit)
        assert row[-3:-1] == [number(moment.spent, 2), f"{int(moment.safe.sum()):,}"]
        assert (row[-1] == "violation") == moment.result.violated


def test_the_headline_tells_what_is_operated(runs: Runs) -> None:
    reading, history = runs.reading("operated"), History.read(runs.reading("operated").run)
    best = reading.chosen
    assert best is not None
    with SafeOptimizer.open(reading.run) as optimizer:
        serves = next(each for each in optimizer.fit if each.index == optimizer.operation[0][1]["index"])
        assert (best.target, best.reward_lower) == (serves.target, serves.reward_lower)
        assert reading.stage is optimizer.stage
        np.testing.assert_array_equal(reading.bands.upper, optimizer.bands.upper)
    assert headline(reading) == (
        f"PointCircle is operated at target {target_text(best.target)}: mean reward {number(best.means.reward)}, mean"
        f" cost {number(best.means.costs[0])} (at most {number(best.cost_upper[0])}, limit 20) over {best.episodes}"
        f" episodes; 0 of 12 trials show a violation, and {number(history.moments[-1].spent, 2)} of the allowed risk"
        " 0.1 is spent."
    )


def test_the_headline_counts_every_episode_of_the_target(runs: Runs) -> None:
    reading = runs.reading("operated")
    best = reading.chosen
    assert best is not None
    tried = [m.result.episodes for m in reading.history.moments if m.result.trial.index == best.index]
    own = np.concatenate([*tried, *(serving.episodes for serving in reading.operated.servings)])
    assert best.episodes == len(own) > len(reading.state.posterior.own_episodes(best.index))  # 20 wait for their batch
    np.testing.assert_allclose(tuple(best.means), own.mean(axis=0))
    assert upper_bounds(reading.state.posterior, own) == best.cost_upper
    measured = next(each for each in tried_targets(reading) if each.index == best.index)
    assert measured.episodes == len(own)


def test_a_run_whose_seeds_have_failed_has_ended(seedless: Path) -> None:
    reading = Reading.read(seedless)
    assert (reading.phase, tone(reading)) == ("ended without a target", "bad")
    assert headline(reading).startswith("No target of Run seedless is fit to be operated; 2 of 2 trials")
    text = Page(page_html(reading)).text
    assert "assumptions 1 failed" in text
    assert "in doubt" not in text.partition("The guarantee")[0]
    assert "failed after 20 episodes. 1 further seed not tried: beyond costlier ones." in text


def test_seeds_that_may_still_be_needed_are_not_called_needless(seedless: Path) -> None:
    told = [number for number, event in enumerate(read_events(seedless / "journal.sqlite"), 1) if event.kind == "told"]
    with Journal.open(seedless / "before" / "journal.sqlite") as journal:
        for event in read_events(seedless / "journal.sqlite")[: told[0]]:
            journal.append(event.kind, event.body)
    reading = Reading.read(seedless / "before")
    assert reading.phase == "optimizing, seed stage"
    assert "2 further seeds not tried." in Page(page_html(reading)).text


def test_the_headline_is_honest(runs: Runs) -> None:
    said = {kind: headline(runs.reading(kind)) for kind in KINDS}
    tones = {kind: tone(runs.reading(kind)) for kind in KINDS}
    assert said["begun"] == "Run begun has only just begun: no trial is told."
    assert "is to be operated" in said["plain"]
    assert "3 of 15 trials show a violation, and the fixed schedule gives no guarantee" in said["violated"]
    assert said["halted"].startswith(
        "Run halted has halted after 60 episodes of operation and 3 alarms, and no target is"
    )
    assert "after 1 alarm" in said["alarmed"]
    assert (tones["plain"], tones["operated"], tones["begun"]) == ("good", "good", "plain")
    assert (tones["violated"], tones["alarmed"], tones["frozen"], tones["halted"]) == ("warn", "warn", "warn", "bad")


@pytest.mark.parametrize("kind", ["plain", "violated", "other_limit", "operated"])
def test_the_slider_draws_the_sets_of_every_moment(runs: Runs, kind: str) -> None:
    reading = runs.reading(kind)
    for view in views(reading):
        assert not view.coarse
        before = ["", "", ""]
        for moment, told in zip(reading.history.moments, frames(reading, view), strict=True):
            shapes = [old if now == 0 else str(now) for old, now in zip(before, told, strict=True)]
            masks = (moment.closed, moment.frontier & ~moment.closed, moment.safe)
            for shape, mask in zip(shapes, masks, strict=True):
                np.testing.assert_array_equal(cells(view.x_edges, view.y_edges, shape, view), mask[view.rows])
            before = shapes
    whole = views(reading)[-1]
    assert len(whole.rows) == len(reading.problem.candidates)


def cells(x_edges: np.ndarray, y_edges: np.ndarray, shape: str, view: object) -> np.ndarray:
    """Return which shown candidates a path of rectangles covers."""
    covered = np.zeros((len(y_edges) - 1, len(x_edges) - 1), dtype=bool)
    for left, low, right, high in re.findall(r"M(\d+) (\d+)H(\d+)V(\d+)H\d+z", shape):
        columns = (x_edges[:-1] >= int(left)) & (x_edges[1:] <= int(right))
        rows = (y_edges[:-1] >= int(low)) & (y_edges[1:] <= int(high))
        assert not covered[np.ix_(rows, columns)].any()
        covered[np.ix_(rows, columns)] = True
    return covered[view.row, view.column]  # type: ignore[attr-defined, no-any-return]


def test_the_page_carries_what_the_slider_needs(runs: Runs) -> None:
    reading, data = runs.reading("plain"), runs.page("plain").data
    captions = data["captions"]
    assert isinstance(captions, list)
    assert len(captions) == len(reading.history.moments)
    for caption, moment in zip(captions, reading.history.moments, strict=True):
        assert f"Safe set: {int(moment.safe.sum()):,} target" in caption
        assert f"mean cost {number(moment.mean_costs[0])} (limit 20)" in caption
    assert data["version"] == f"{len(reading.events)}-{reading.events[-1].hash}"


def test_with_two_costs_the_reader_chooses_the_plane(runs: Runs) -> None:
    reading = runs.reading("two_costs")
    shown = views(reading)
    assert [view.cost for view in shown] == [0, 0, 1, 1]
    assert reading.focus is not None
    focus = reading.problem.candidates[reading.focus]
    for view, other in zip(shown[1::2], (2, 1), strict=True):
        np.testing.assert_allclose(reading.problem.candidates[view.rows, other], focus[other])
    assert sum(tag == "option" for tag, _ in runs.page("two_costs").elements) == 4
    assert "mean cost 2 = " in runs.page("two_costs").text


def test_checks_say_how_the_run_came_out(runs: Runs) -> None:
    def findings(kind: str) -> dict[str, str]:
        rows = runs.page(kind).rows
        start = next(i for i, row in enumerate(rows) if row == ["It assumes that", "Finding", "In this run"]) + 1
        return {row[0]: f"{row[1]}: {row[2]}" for row in rows[start : start + 6] if len(row) == 3}

    operated, violated, frozen = findings("operated"), findings("violated"), findings("frozen")
    seeds = runs.reading("operated").history.moments
    own = sum(len(m.result.episodes) for m in seeds if m.result.trial.stage.value == "seed")
    assert operated["The seeds are safe."].startswith("✓ checked, holds")
    assert f"was certified by {own} episodes" in operated["The seeds are safe."]
    assert "Largest of" in operated["No episode costs more than the bounds stated."]
    assert operated["Mean returns do not change."].startswith("✓ nothing against it: 0 alarms in 40 episodes")
    assert "trust_prior" in violated["The prior alone calls no untried target safe."]
    model = "Each return, as a function of the target, is a draw from the stated Gaussian process."
    assert frozen[model].startswith("✗ failed: The search is frozen by surprises")
    assert findings("held")[model].startswith("✗ failed: A trial thought safe exceeded a limit: nothing new is tried")
    assert "search held up by a violation" in runs.page("held").text
    assert findings("halted")["Mean returns do not change."].startswith("✗ failed: 3 alarms")
    assert findings("alarmed")["Mean returns do not change."].startswith("! in doubt: 1 alarm ")
    assert all(
        "not checked yet" in told for told in (findings("begun")[model], findings("begun")["The seeds are safe."])
    )


def test_an_assumption_in_doubt_shows_at_the_top(runs: Runs) -> None:
    assert "assumptions 1 in doubt" in runs.page("alarmed").text
    assert "assumptions" not in runs.page("operated").text.partition("The guarantee")[0]
    assert (
        "No guarantee: the fixed schedule uses 0.3 standard deviations, whatever delta is, and bounds no probability. "
        in (runs.page("violated").text)
    )


def test_a_prior_that_calls_untried_targets_safe_is_in_doubt(tmp_path: Path) -> None:
    certain = replace(
        KINDS_PROBLEM, priors=Priors(cost=replace(Priors().cost, mean="target", sd=0.1)), trust_prior=True
    )
    SafeOptimizer.open(tmp_path, certain).close()
    text = Page(page_html(Reading.read(tmp_path))).text
    assert re.search(
        r"! in doubt It certifies \d+\xa0% of the candidates beyond the seeds. You have set trust_prior", text
    )


def test_a_dithered_run_says_what_its_targets_stand_for(tmp_path: Path) -> None:
    for width, said in ((0.0, False), (0.05, True)):
        with SafeOptimizer.open(tmp_path / str(width), replace(SIMULATION.problem(0.1), dither=width)) as optimizer:
            optimizer.ask()
        words = " ".join(not_promised(Reading.read(tmp_path / str(width))))
        assert ("by 5\xa0% of each axis (one deviation)" in words) == said


def test_what_is_not_promised_is_said_with_numbers(runs: Runs) -> None:
    reading = runs.reading("plain")
    costs = np.concatenate([m.result.episodes[:, 1] for m in reading.history.moments])
    above = int((costs > 20).sum())
    assert f"{above} episodes of {len(costs)} (" in runs.page("plain").text
    assert "Not promised" in runs.page("plain").text


def test_operation_is_told_as_the_monitor_saw_it(runs: Runs) -> None:
    reading = runs.reading("halted")
    alarms = [event.body for event in reading.events if event.kind == "alarm"]
    first, *_ = reading.operated.servings
    assert len(alarms) == len(reading.operated.alarms) == 3
    assert all(serving.agrees for serving in reading.operated.servings)
    for serving, body in zip(reading.operated.servings, alarms, strict=True):
        assert serving.alarm is not None
        assert serving.alarm.episode == serving.first + body["episode"] - 1
        at = body["episode"] - 1
        crossed = serving.log_wealth[0] >= serving.wealth_alarm, serving.log_drift[0] >= serving.drift_alarm
        assert min(int(np.argmax(path)) for path in crossed if path.any()) == at
    assert reading.operated.halts == (reading.operated.episodes,)
    assert reading.operated.fallbacks == 2
    text = runs.page("halted").text
    assert f"alarm at episode {first.alarm.episode} (rule" in text if first.alarm else False
    assert "Halted:" in text


def test_evidence_that_was_tampered_with_is_noticed(runs: Runs) -> None:
    reading = runs.reading("operated")
    events = list(reading.events)
    last = events[-1]
    body = last.body | {"verdict": {"log_wealth": [-3.0], "log_drift": [-3.0]}}
    events[-1] = type(last)(last.number, last.kind, body, last.time, last.hash)
    assert not Operated.read(events, reading.problem).servings[-1].agrees


def test_episodes_served_without_a_monitor_are_told_as_such(runs: Runs, tmp_path: Path) -> None:
    runs.copy("plain", tmp_path)
    with SafeOptimizer.open(tmp_path) as optimizer:
        assert optimizer.best is not None
        optimizer.serve(optimizer.best.index, [Returns(400, 3.0)] * 4)
    page = Page(page_html(Reading.read(tmp_path)))
    assert "served without a monitor" in page.text


def test_a_negative_cost_that_was_served_is_no_evidence(runs: Runs, tmp_path: Path) -> None:
    runs.copy("operated", tmp_path)
    with SafeOptimizer.open(tmp_path) as optimizer:
        optimizer.serve(optimizer.operation[0][1]["index"], [Returns(400, -1.0)])
    reading = Reading.read(tmp_path)
    assert np.isnan(reading.operated.servings[-1].log_wealth).all()
    assert "A cost lies outside its bounds" in Page(page_html(reading)).text


def test_the_journal_itself_may_be_named(runs: Runs) -> None:
    run = runs.reading("operated").run
    assert Reading.read(run / "journal.sqlite").version == runs.reading("operated").version


def test_a_kill_between_alarm_and_fallback_is_no_surprise(runs: Runs, tmp_path: Path) -> None:
    runs.copy("operated", tmp_path)
    with SafeOptimizer.open(tmp_path) as optimizer:
        index = optimizer.operation[0][1]["index"]
        optimizer.withdraw(index, {"rule": "mean", "cost": 0, "episode": 40, "mean": 30.0, "limit": 20.0})
    reading = Reading.read(tmp_path)
    assert reading.phase == "alarm, fallback pending"
    assert "alarm at episode 40" in Page(page_html(reading)).text


def test_a_name_that_is_a_script_is_only_a_name(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&"
    run = operated(tmp_path / "a<b>&\"'", task=evil)
    with (run / "run.toml").open("a", encoding="utf-8") as stream:
        stream.write('\n["<i>table</i>"]\n"<b>key</b>" = "<svg onload=alert(1)>"\n')
    html = page_html(Reading.read(run))
    page = Page(html)
    assert page.open == []
    assert sum(tag == "script" for tag, _ in page.elements) == 2
    assert not any(
        tag in ("img", "i", "b") and not attributes.keys() <= {"style", "class"} for tag, attributes in page.elements
    )
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert evil in page.text
    assert "<svg onload=alert(1)>" in page.text
    assert "<script>alert" not in html


def test_only_the_script_of_the_page_may_run(runs: Runs) -> None:
    page = runs.page("plain")
    policy = next(str(a["content"]) for tag, a in page.elements if tag == "meta" and "http-equiv" in a)
    assert "default-src 'none'" in policy
    assert re.search(r"script-src 'sha256-[A-Za-z0-9+/=]{44}'", policy)
    assert "connect-src" not in policy
    live = Page(page_html(runs.reading("plain"), live=True))
    assert any("connect-src 'self'" in str(a.get("content")) for tag, a in live.elements if tag == "meta")


def test_damaged_settings_are_left_out_and_said(runs: Runs, tmp_path: Path) -> None:
    runs.copy("operated", tmp_path)
    (tmp_path / "run.toml").write_text("not = [toml", encoding="utf-8")
    (tmp_path / "simulation.toml").write_text('family = "nothing"\n', encoding="utf-8")
    reading = Reading.read(tmp_path)
    assert len(reading.notices) == 2
    text = Page(page_html(reading)).text
    assert "The settings of the run are left out." in text
    assert "The truth of the simulation is left out." in text


def test_odd_settings_do_no_harm(runs: Runs, tmp_path: Path) -> None:
    runs.copy("operated", tmp_path)
    (tmp_path / "run.toml").write_text('run = 5\ndata = ["x"]\nday = 2026-01-01\n', encoding="utf-8")
    assert Reading.read(tmp_path).name == f"Run {tmp_path.name}"
    assert "2026-01-01" in Page(page_html(Reading.read(tmp_path))).text


def test_decisions_that_cannot_be_made_again_are_said(tmp_path: Path) -> None:
    with SafeOptimizer.open(tmp_path / "run", KINDS_PROBLEM, Schedule(trials=3)) as optimizer:
        optimizer.ask()
    events = Reading.read(tmp_path / "run").events
    with Journal.open(tmp_path / "other" / "journal.sqlite") as journal:
        journal.append("opened", events[0].body)
        journal.append("asked", events[1].body | {"risk": 0.123})
    reading = Reading.read(tmp_path / "other")
    assert reading.replayed is False
    assert "chain whole, decisions differ" in Page(page_html(reading)).text
    assert tone(reading) == "bad"


KINDS_PROBLEM = Problem.on_grid([np.linspace(0, 500, 11), np.linspace(0, 60, 11)], seeds=[Returns(200, 0)], limits=20.0)


def test_a_page_of_very_many_candidates_is_thinned_and_says_so(tmp_path: Path) -> None:
    axes = [np.linspace(0, 500, 300), np.linspace(0, 60, 300)]
    rng = np.random.default_rng(0)
    problem = Problem.on_grid(axes, seeds=[Returns(200, 2)], limits=20.0)
    with SafeOptimizer.open(tmp_path, problem, Schedule(trials=5)) as optimizer:
        while trial := optimizer.ask():
            mean = 2 + 0.5 * trial.target.costs[0]
            optimizer.tell(trial, [Returns(trial.target.reward, float(x)) for x in rng.poisson(mean, 20)])
    html = page_html(Reading.read(tmp_path))
    assert "The 90,000 candidates are drawn in coarser cells" in Page(html).text
    assert len(html) < 500_000


def test_scattered_candidates_are_drawn_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    Z = np.stack([rng.uniform(0, 500, 400), rng.uniform(0, 60, 400)], axis=1)
    problem = Problem(candidates=Z, seeds=(int(Z[:, 1].argmin()),), limits=(20.0,))
    with SafeOptimizer.open(tmp_path, problem, Schedule(trials=4)) as optimizer:
        while trial := optimizer.ask():
            optimizer.tell(trial, [Returns(trial.target.reward, float(x)) for x in rng.poisson(2, 20)])
    reading = Reading.read(tmp_path)
    assert any(view.coarse for view in views(reading))
    assert Page(page_html(reading)).open == []


def test_a_long_operation_is_thinned_and_says_so(runs: Runs, tmp_path: Path) -> None:
    runs.copy("operated", tmp_path)
    rng = np.random.default_rng(0)
    with SafeOptimizer.open(tmp_path) as optimizer:
        index = optimizer.operation[0][1]["index"]
        optimizer.serve(index, [Returns(400, float(x)) for x in rng.poisson(12, 5000)])
    html = page_html(Reading.read(tmp_path))
    assert "5,040 episodes are drawn in steps of 5" in Page(html).text
    assert len(html) < 400_000


def test_observations_know_where_they_come_from(runs: Runs) -> None:
    reading = runs.reading("operated")
    kinds = observation_kinds(reading)
    trials = [f"trial {m.result.trial.number}" for m in reading.history.moments]
    assert kinds == [*trials, "20 episodes of operation"]
    assert len(kinds) == len(reading.history.calibration.returns[0].residuals)


def test_new_limits_are_shown_where_they_began(runs: Runs) -> None:
    reading = runs.reading("other_limit")
    assert reading.limit_changes == ((8.5, (26.0,)),)
    assert runs.html("other_limit").count(">limit 26<") == 2
    assert "New limits begin a new ledger." in runs.page("other_limit").text


def test_a_trial_under_way_is_announced(runs: Runs) -> None:
    assert "Trial 1 (seed) is under way" in runs.page("asked").text


def test_the_page_is_written_whole(runs: Runs, tmp_path: Path) -> None:
    write_page(runs.reading("plain"), tmp_path / "deep" / "page.html")
    assert (tmp_path / "deep" / "page.html").read_text(encoding="utf-8") == runs.html("plain")
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["page.html"]


def test_the_same_journal_gives_the_same_page(runs: Runs) -> None:
    assert page_html(Reading.read(runs.reading("two_costs").run)) == runs.html("two_costs")


def test_moments_shown_lie_close_together_in_the_beginning() -> None:
    assert moments_shown(0) == []
    assert moments_shown(1) == [0]
    assert moments_shown(30)[0] == 0
    assert moments_shown(30)[-1] == 29
    assert np.all(np.diff(moments_shown(100)) > 0)


def test_numbers_are_written_for_people() -> None:
    assert [number(x) for x in (0, 20.0, 0.5, -3.14159, 1234567.0, float("inf"), float("nan"))] == [
        "0", "20", "0.5", "−3.14", "1,234,567", "∞", "–",
    ]  # fmt: skip


def test_ticks_are_round_and_inside() -> None:
    assert ticks(0.5, 30.5, 10, whole=True) == [5, 10, 15, 20, 25, 30]
    assert ticks(-0.02, 0.11, 5) == [0.0, 0.05, 0.1]
    assert ticks(0.6, 1.4, 4, whole=True) == [1.0]


def test_an_axis_has_more_than_one_number() -> None:
    assert ticks(-1.6, 4.9, 3) == [0.0, 2.5]
    assert all(len(ticks(-low, 4.9, 3)) >= 2 for low in np.linspace(0, 30, 61))


def test_long_numbers_leave_the_name_of_their_axis_free() -> None:
    for top, letters in ((10.0, 2), (30_000.0, 6), (3_000_000.0, 9)):
        chart = Chart("rewards", width=470, height=300, x=(0, 1), y=(0, top), name="test")
        chart.axes("trial", "reward")
        assert chart.left - 7 - 6.6 * letters > 20


def test_a_bar_below_zero_ends_where_it_should() -> None:
    chart = Chart("losses", width=300, height=200, x=(0, 1), y=(-100, -10), name="test")
    chart.interval(0.5, -40, -12, "stage-seed")
    (start, stop) = re.findall(r'class="bar stage-seed" d="M[\d.]+ ([\d.]+)V([\d.]+)"', chart.svg())[0]
    assert (float(start), float(stop)) == pytest.approx((chart.y(-40), chart.y(-12)), abs=0.1)


def test_one_bad_episode_does_not_flatten_the_chart_of_rewards(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with SafeOptimizer.open(tmp_path, KINDS_PROBLEM, Schedule(trials=3)) as optimizer:
        while trial := optimizer.ask():
            rewards = rng.normal(3000, 20, 40)
            rewards[7] = 900.0 if trial.number == 2 else 3000.0
            optimizer.tell(trial, [Returns(float(r), 1.0) for r in rewards])
    chart, notes = reward_figure(Reading.read(tmp_path))
    assert notes == ["1 episode beyond the ends of the chart not drawn."]
    assert ">1,000<" not in chart
    assert ">3,000<" in chart


def test_the_limit_can_be_read_on_white() -> None:
    colors = re.findall(r"--limit: #(\w{6})", resources.files("lifesafe.report.page").joinpath("style.css").read_text())
    for color in (colors[0], colors[-1]):  # on a light screen, and in print
        channels = np.array([int(color[i : i + 2], 16) for i in (0, 2, 4)]) / 255
        linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
        assert 1.05 / (linear @ (0.2126, 0.7152, 0.0722) + 0.05) >= 4.5  # contrast as WCAG 2 has it


def test_a_chart_escapes_its_words() -> None:
    chart = Chart("<b>", width=300, height=200, x=(0, 1), y=(0, 1), name="test")
    chart.axes("a & b", "<i>")
    chart.mark(0.5, 0.5, "circle", "stage-seed", "</title><script>")
    chart.note(0.5, 0.5, "<u>")
    svg = chart.svg()
    assert not re.search(r"<(b|i|u|script)>", svg)
    assert "a &amp; b" in svg


def test_names_above_a_chart_do_not_meet() -> None:
    chart = Chart("alarms", width=300, height=200, x=(0, 100), y=(0, 1), name="test")
    chart.annotate([(10.0 * i, f"alarm {i}", "alarm") for i in range(10)])
    spots = re.findall(r'<text class="note( end)? alarm" x="([\d.]+)" y="([\d.]+)">(alarm \d)<', chart.svg())
    spans = [
        (y, float(x) - (6.6 * len(t) if end else 0), float(x) + (0 if end else 6.6 * len(t))) for end, x, y, t in spots
    ]
    assert len(spots) > 6
    for i, (row, left, right) in enumerate(spans):
        assert not any(row == y and left < b and a < right for y, a, b in spans[i + 1 :])
