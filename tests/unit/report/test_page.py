"""The page tells the numbers of the run, whatever kind of run it is."""

import re
import shutil
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from lifesafe.journal import JOURNAL, Journal, read_records
from lifesafe.journal import events as e
from lifesafe.operation import Operation
from lifesafe.report.account_chart import path as account_path
from lifesafe.report.checks import all_checks
from lifesafe.report.moments import LIKELY, small_risk
from lifesafe.report.page import page_html, write_page
from lifesafe.report.plane import SIZES, plane_chart, plane_shapes
from lifesafe.report.promise import not_promised, qualifications, statement
from lifesafe.report.reading import Reading, episodes_of, scout_of
from lifesafe.report.svg import WIDE, Chart, ticks
from lifesafe.report.trial_charts import cost_figure, reward_figure, trial_tip
from lifesafe.report.verdict import badges, headline, price, result, toll, tone
from lifesafe.report.wording import number, percent, target_texts
from lifesafe.returns import Returns
from lifesafe.safety import SafeOptimizer
from lifesafe.safety.beliefs import believed
from report_runs import KINDS, operated, problem, searched

VOID = {"meta", "link", "input", "br", "img", "rect", "path", "circle", "use"}
LARGEST = 270_000  # bytes of a page


class Page(HTMLParser):
    """A page taken apart: its elements, its text, the rows of its tables."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.texts: list[str] = []
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

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        if "script" not in self.open and "style" not in self.open:
            self.texts.append(data)
            if {"td", "th"} & set(self.open):
                self.rows[-1][-1] += data

    @property
    def text(self) -> str:
        return re.sub(r"[ \n]+", " ", " ".join(self.texts)).strip()

    def table(self, first: str) -> tuple[list[str], list[list[str]]]:
        """Return the heading of the table whose first column has a name, and its rows."""
        start = next(i for i, row in enumerate(self.rows) if row[:1] == [first])
        rows = []
        for row in self.rows[start + 1 :]:
            if len(row) != len(self.rows[start]):
                break
            rows.append(row)
        return self.rows[start], rows


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


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("runs"))


def told_and_served(run: Path) -> Iterator[tuple[str, e.Episode]]:
    """Return every episode of a record without retractions, with the kind of its event, in order."""
    for record in read_records(run / JOURNAL):
        if isinstance(record.event, e.Told | e.Served):
            yield from ((e.kind_of(record.event), episode) for episode in record.event.episodes)


# --- every page


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_run_has_a_whole_page(runs: Runs, kind: str) -> None:
    page, html = runs.page(kind), runs.html(kind)
    assert page.open == []
    assert len(html.encode()) <= LARGEST
    assert headline(runs.reading(kind)) in page.text
    assert statement(runs.reading(kind)) in page.text
    assert runs.reading(kind).notices == ()
    assert not re.search(r"\bnan\b|\binf\b|None\b|Traceback|array\(|Returns\(", page.text)
    names = [attributes.get("id") for _, attributes in page.elements if attributes.get("id")]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_comes_from_elsewhere(runs: Runs, kind: str) -> None:
    for tag, attributes in runs.page(kind).elements:
        assert tag not in ("iframe", "object", "embed", "base", "form")
        assert "src" not in attributes
        if "href" in attributes:
            assert str(attributes["href"]).startswith(("#", "data:,"))
    assert not re.search(r"https?://|@import", runs.html(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_every_chart_says_what_it_shows(runs: Runs, kind: str) -> None:
    charts = [a for tag, a in runs.page(kind).elements if tag == "svg" and "chart" in str(a.get("class"))]
    assert charts
    assert all(a["role"] == "img" and len(str(a["aria-label"])) > 20 for a in charts)
    sections = [a["id"] for tag, a in runs.page(kind).elements if tag == "section"]
    assert sections == [
        "promise", "costs", "reward", "paid", "targets", "forecasts", "operation", "trials", "settings", "sign-off",
    ]  # fmt: skip
    shapes = {a["id"] for tag, a in runs.page(kind).elements if tag == "path" and "id" in a}
    assert {str(a["href"])[1:] for tag, a in runs.page(kind).elements if tag == "use"} <= shapes


def test_the_same_journal_gives_the_same_page(runs: Runs) -> None:
    assert page_html(Reading.read(runs.reading("two_costs").run)) == runs.html("two_costs")


def test_the_page_is_written_whole(runs: Runs, tmp_path: Path) -> None:
    write_page(runs.reading("searched"), tmp_path / "deep" / "page.html")
    assert (tmp_path / "deep" / "page.html").read_text(encoding="utf-8") == runs.html("searched")
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["page.html"]


def test_a_long_operation_is_thinned_and_says_so(runs: Runs, tmp_path: Path) -> None:
    with SafeOptimizer.open(runs.copy("total", tmp_path)) as optimizer:
        operation, rng = Operation(optimizer), np.random.default_rng(0)
        operation.tell([Returns(300, float(x)) for x in rng.poisson(7, 5000)])
    html = page_html(Reading.read(tmp_path))
    assert "5,040 episodes are drawn in steps of 11" in Page(html).text
    assert len(html.encode()) <= LARGEST


# --- the headline


def test_the_headline_tells_what_is_operated_and_what_it_took(runs: Runs) -> None:
    reading = runs.reading("operated")
    costs = np.array([episode[1] for _, episode in told_and_served(reading.run)])
    best = reading.chosen
    assert best is not None
    assert headline(reading) == (
        f"PointCircle is operated at target {reading.text(best.point)}: mean reward {number(best.means[0])}, mean cost"
        f" {number(best.means[1])} (limit 20; by the model at most {number(best.expected[0])}) over {best.episodes}"
        f" episodes. Of {len(costs)} real episodes (30 start, {len(costs) - 70} search, 40 operation),"
        f" {(costs > 20).sum()} ({percent((costs > 20).mean())}) cost more than the limit; the worst cost"
        f" {number(costs.max())} ({reading.tally.where[0]}). The stop ended no episode and the search has used"
        f" {number(reading.beliefs.spent, 2)} of the allowed risk 0.1."
    )


@pytest.mark.parametrize("kind", ["operated", "alarmed", "halted", "total", "sure", "two_costs", "breached", "failed"])
def test_the_tally_is_that_of_the_record(runs: Runs, kind: str) -> None:
    reading = runs.reading(kind)
    found = list(told_and_served(reading.run))
    costs = np.array([episode[1:] for _, episode in found])
    tally, stop = reading.tally, reading.problem.stop_at
    assert tally.total == tally.counted == len(found)
    assert tally.operation == sum(kind == "served" for kind, _ in found)
    assert tally.above == (costs > np.array(reading.problem.limits)).any(axis=1).sum()
    assert tally.ended == (costs >= np.array(stop)).any(axis=1).sum()
    assert tally.largest == tuple(costs.max(axis=0))


def test_episodes_that_were_retracted_do_not_count_and_that_is_said(runs: Runs) -> None:
    reading = runs.reading("retracted")
    run = {number_: each.was_told for number_, each in reading.history.trials.items()}
    assert reading.tally.total == sum(run.values())
    assert reading.tally.counted == sum(run.values()) - run[3] - run[4] + 2
    page = runs.page("retracted")
    assert f"Of {reading.tally.counted} episodes that count, of {reading.tally.total} real episodes" in page.text
    assert f"of the {reading.tally.counted} episodes that count" in page.text
    assert "Trial 6 was open at a retraction and was dropped" in page.text
    results = {row[0]: row[-1] for row in page.table("trial")[1]}
    assert results["6"] == "dropped, never run"
    assert (results["3"], results["4"]) == ("retracted", "retracted, told anew")
    assert qualifications(reading)[0].startswith(
        "What was told of trial 3 was retracted (“the log of another machine”)"
    )


def test_without_a_stop_none_is_counted(runs: Runs) -> None:
    assert runs.reading("knobs").tally.ended is None
    assert "stop" not in price(runs.reading("knobs"))


def test_the_headline_is_honest(runs: Runs) -> None:
    said = {kind: result(runs.reading(kind)) for kind in KINDS}
    assert said["begun"] == headline(runs.reading("begun")) == "Run begun has only just begun: no trial is told."
    assert said["asked"].endswith("a first trial is asked for and not yet told.")
    assert " is to be operated at target " in said["searched"]
    assert " would be operated, as of now, at target " in said["held"]
    assert " after 1 alarm: " in said["alarmed"]
    assert re.match(
        r"Run halted has halted after \d+ episodes of operation and \d alarms, and no target", said["halted"]
    )
    assert said["failed"] == "No target of Run failed is fit to be operated."
    assert "1 trial had a mean clearly above a limit" in price(runs.reading("held"))
    assert "none cost more than the limit" in toll(runs.reading("sure"))


def test_the_tone_is_that_of_what_happened(runs: Runs) -> None:
    tones = {kind: tone(runs.reading(kind)) for kind in KINDS}
    assert {tones[kind] for kind in ("begun", "asked")} == {"plain"}
    assert {tones[kind] for kind in ("searched", "operated", "total", "sure", "knobs", "listed")} == {"good"}
    assert {tones[kind] for kind in ("alarmed", "retracted")} == {"warn"}
    assert {tones[kind] for kind in ("halted", "failed", "held", "confirmed", "breached")} == {"bad"}
    for kind, found in tones.items():
        worst = {badge.tone for badge in badges(runs.reading(kind))}
        assert found == next((each for each in ("bad", "warn") if each in worst), found)


def test_the_headline_counts_every_episode_of_the_target(runs: Runs) -> None:
    reading = runs.reading("operated")
    best = reading.chosen
    assert best is not None
    pairs = [pair for tried in reading.history.told for pair in zip(tried.points, tried.episodes, strict=False)]
    own = [row for point, row in pairs if point == best.point]
    own += [row for served in reading.services if served.target == best.point for row in served.episodes]
    assert best.episodes == len(own)
    np.testing.assert_allclose(best.means, np.mean(own, axis=0))


# --- promises


def test_the_promise_that_was_made_is_stated(runs: Runs) -> None:
    said = {kind: statement(runs.reading(kind)) for kind in ("searched", "two_costs", "total", "sure")}
    assert said["searched"].startswith("With probability at least 0.9, no trial’s mean cost exceeds the limit 20")
    assert "no trial’s mean costs exceed the limits 20 and 1" in said["two_costs"]
    assert said["total"].startswith("All episodes together cost at most the limit 20 an episode")
    assert said["sure"].startswith("Every single episode keeps the limit 20, for sure")
    for kind, name in (("searched", "trial"), ("total", "total"), ("sure", "every episode")):
        assert f"promise {name}" in runs.page(kind).text


def test_what_paid_is_a_ledger_or_an_account_or_nothing(runs: Runs) -> None:
    text = {kind: runs.page(kind).text for kind in ("searched", "total", "sure")}
    assert "What paid for it? The ledger" in text["searched"]
    assert "What paid for it? The account" in text["total"]
    assert "no risk is charged and no account is needed" in text["sure"]
    assert ("account holds" in text["total"], "account holds" in text["searched"]) == (True, False)
    assert ("risk used" in text["searched"], "risk used" in text["total"]) == (True, False)
    charged = {kind: "used so far" in runs.page(kind).table("trial")[0] for kind in text}
    assert charged == {"searched": True, "total": False, "sure": False}


def test_the_account_is_drawn_as_every_episode_changed_it(runs: Runs) -> None:
    reading = runs.reading("total")
    account = reading.beliefs.account
    assert account is not None
    held, expected = 0.0, []
    for _, (_, cost) in told_and_served(reading.run):
        held = min(held + 20 - cost, account.capacity[0])
        expected.append(held)
    xs, ys = account_path(reading.saved, 0)
    np.testing.assert_array_equal(xs, np.arange(1, len(expected) + 1))
    np.testing.assert_allclose(ys, expected)
    assert account.holds == (pytest.approx(expected[-1]),)
    assert "an episode of a newcomer has the price 21" in runs.html("total")


def test_a_newcomer_finds_its_price_in_the_account(runs: Runs) -> None:
    reading = runs.reading("total")
    before = {part.first + len(part.holds): float(part.holds[-1, 0]) for part in reading.saved}
    newcomers = [part for part in reading.saved if part.is_newcomer]
    assert newcomers
    assert all(before[part.first] >= 21 * len(part.holds) for part in newcomers)
    assert min(float(part.holds.min()) for part in newcomers) >= 0


def test_the_risk_charged_adds_up(runs: Runs) -> None:
    reading = runs.reading("searched")
    header, rows = runs.page("searched").table("trial")
    total, column = 0.0, header.index("used so far") - 1
    for tried, row in zip(reading.history.told, rows, strict=True):
        total += tried.asked.charge
        assert row[column : column + 2] == [number(tried.asked.charge, 2), number(total, 2)]
    assert reading.spent_after[-1] == (len(rows), pytest.approx(reading.beliefs.spent))
    assert total <= 0.1 + 1e-9


# --- trials are lotteries


@pytest.mark.parametrize("kind", ["searched", "two_costs", "other_limit", "total", "knobs"])
def test_the_table_of_trials_is_the_record(runs: Runs, kind: str) -> None:
    reading, (header, rows) = runs.reading(kind), runs.page(kind).table("trial")
    assert len(rows) == len(reading.history.told) > 5
    for tried, row in zip(reading.history.told, rows, strict=True):
        cells = dict(zip(header, row, strict=True))
        assert row[:3] == [str(tried.number), tried.asked.stage, reading.text(tried.center)]
        assert cells["episodes"] == str(len(tried.episodes))
        assert cells["mean reward"] == number(float(tried.episodes[:, 0].mean()), 4)
        scout = scout_of(tried)
        if "scout" in header:
            assert cells["scout"] == ("–" if scout is None else reading.text(scout))
        for name, costs in zip(reading.names[1:], tried.episodes.T[1:], strict=True):
            assert cells[f"mean {name}"].startswith(f"{number(float(costs.mean()))} ± ")


def test_the_chart_shows_the_mean_of_a_lottery_beside_those_of_its_center_and_its_scout(runs: Runs) -> None:
    reading = runs.reading("searched")
    chart = cost_figure(reading, 0).charts[0](WIDE).inside
    scouted = [each for each in reading.history.told if scout_of(each) is not None]
    assert len(scouted) > 5
    known = [("center", episodes_of(each, 0)) for each in scouted] + [
        ("scout", episodes_of(each, 1)) for each in scouted
    ]
    known += [("stage-search", each.episodes) for each in scouted]
    values: list[float] = []
    heights: list[float] = []
    for kind in ("center", "scout", "stage-search"):
        spots = re.findall(rf'class="mark {kind}" transform="translate\([\d.]+ ([\d.]+)\)"', chart)
        own = [float(rows[:, 1].mean()) for name, rows in known if name == kind]
        assert len(spots) == len(own)
        values, heights = values + own, heights + [float(each) for each in spots]
    slope, start = np.polyfit(values, heights, 1)
    assert slope < 0
    np.testing.assert_allclose(heights, np.array(values) * slope + start, atol=0.15)  # tenths of a pixel


def test_the_pointer_is_told_of_center_and_scout(runs: Runs) -> None:
    reading = runs.reading("searched")
    tried = next(each for each in reading.history.told if scout_of(each) is not None)
    lines = trial_tip(reading, tried).splitlines()
    scout = scout_of(tried)
    assert scout is not None
    assert lines[0] == f"Trial {tried.number}, search: 10 episodes"
    assert lines[1] == f"center {reading.text(tried.center)}"
    assert lines[2] == f"scout {reading.text(scout)}, {len(episodes_of(tried, 1))} episodes"
    assert lines[4].endswith("(limit 20)")


def test_targets_that_are_almost_the_same_do_not_read_the_same(runs: Runs) -> None:
    points = [(320.71, 0.0), (320.69, 0.0), (200.0, 2.0)]
    assert list(target_texts(problem(), points).values()) == ["(320.71, 0)", "(320.69, 0)", "(200, 2)"]
    for kind in ("searched", "total", "knobs"):
        reading = runs.reading(kind)
        tried = {point for each in reading.history.told for point in each.asked.targets}
        assert len({reading.text(point) for point in tried}) == len(tried)


def test_new_limits_are_shown_where_they_began(runs: Runs) -> None:
    reading = runs.reading("other_limit")
    ((place, limits),) = reading.limit_changes
    changed = sum(tried.limits == (20.0,) for tried in reading.history.trials.values())
    assert (place, limits) == (changed + 0.5, (26.0,))
    assert ">limit 26<" in runs.html("other_limit")
    assert "New limits begin a new ledger." in runs.page("other_limit").text
    assert "cost more than a limit" in toll(reading)


def test_one_bad_episode_does_not_flatten_the_chart_of_rewards(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with SafeOptimizer.open(tmp_path, problem(axes={"reward": (0, 4000), "cost": (0, 60)})) as optimizer:
        for number_ in range(3):
            trial = optimizer.ask()
            assert trial is not None
            rewards = rng.normal(3000, 20, trial.episodes)
            rewards[0] = 900.0 if number_ == 1 else 3000.0
            optimizer.tell(trial, [Returns(float(reward), 1.0) for reward in rewards])
    figure = reward_figure(Reading.read(tmp_path))
    assert figure.notes == ("1 episode beyond the chart, drawn as arrows at its edge: 900 (trial 2).",)
    chart = figure.charts[0](WIDE).inside
    assert len(re.findall('class="beyond', chart)) == 1
    assert ">1,000<" not in chart
    assert ">3,000<" in chart


def test_a_trial_under_way_is_announced(runs: Runs) -> None:
    assert "Trial 1 is under way: 30 episodes at (200, 2)." in runs.page("asked").text


# --- what the promise rests on


def findings(reading: Reading) -> dict[str, str]:
    return {check.assumption: check.finding for check in all_checks(reading)}


def test_each_promise_is_checked_by_its_own_assumptions(runs: Runs) -> None:
    first = {kind: all_checks(runs.reading(kind))[0] for kind in ("searched", "knobs", "listed")}
    assert list(findings(runs.reading("searched")).values()) == ["holds", "quiet", "quiet", "open"]
    assert first["searched"].assumption.startswith("No episode costs more than 61: an episode is ended as soon as its")
    assert first["knobs"].assumption == "One mishap costs at most 60."
    assert first["listed"].assumption == "No episode costs more than 50, the most that its length allows."
    total = findings(runs.reading("total"))
    assert total["A newcomer runs only while the account can pay for its worst episode."] == "holds"
    assert total["What is called certified has a mean cost within the limits."] == "holds"
    assert not any("draw from the stated processes" in assumption for assumption in total)
    assert len(findings(runs.reading("sure"))) == 1


def test_an_assumption_that_failed_shows_at_the_top(runs: Runs) -> None:
    reading = runs.reading("breached")
    assert all_checks(reading)[0].finding == "failed"
    top = runs.page("breached").text.partition("The promise, and what it rests on")[0]
    assert "assumptions 1 failed" in top
    assert "Promise, with qualifications." in top
    assert "An assumption of the promise failed in trial 4: an episode cost 95" in top
    assert statement(reading).startswith("An assumption failed in this run (largest cost of an episode), so this does")
    assert "assumptions" not in runs.page("operated").text.partition("The promise, and what it rests on")[0]


def test_a_promise_that_was_broken_is_said_to_be(runs: Runs) -> None:
    for kind in ("held", "confirmed"):
        reading = runs.reading(kind)
        assert "The promise was broken, as far as episodes can show it, in trial 4" in qualifications(reading)[0]
        assert "failed" in findings(reading).values()
    assert "“a wheel was loose; it is mended”" in runs.page("confirmed").text
    assert "The search is held: trial 4" in runs.page("held").text


def test_a_change_of_the_system_is_in_doubt_after_an_alarm(runs: Runs) -> None:
    changed = "An episode of a target costs what that target costs on average: days and wear make no difference."
    found = {kind: findings(runs.reading(kind))[changed] for kind in ("searched", "operated", "alarmed", "halted")}
    assert found == {"searched": "open", "operated": "quiet", "alarmed": "doubt", "halted": "failed"}
    assert qualifications(runs.reading("operated")) == []
    assert "1 alarm in operation" in qualifications(runs.reading("alarmed"))[0]


def test_what_is_not_promised_is_said_with_numbers(runs: Runs) -> None:
    reading = runs.reading("alarmed")
    tally = reading.tally
    assert (
        f"{tally.above} episodes of {tally.counted} ({percent(tally.above / tally.counted)})"
        in not_promised(reading)[0]
    )
    assert any(text.startswith("Targets without the stop.") for text in not_promised(reading))
    assert not any(text.startswith("Targets without the stop.") for text in not_promised(runs.reading("knobs")))
    assert not any(text.startswith("Single episodes.") for text in not_promised(runs.reading("sure")))


# --- targets


def test_the_shapes_of_a_plane_are_the_risks_of_that_moment(runs: Runs) -> None:
    reading = runs.reading("searched")
    (plane,) = reading.planes
    told = [i for i, record in enumerate(reading.records) if isinstance(record.event, e.Told)]
    html = plane_shapes(reading, 0)
    for j, moment in enumerate(reading.moments):
        beliefs = believed(reading.records[: told[moment.trial - 1] + 1])
        found = plane.grid(beliefs.model.expect(plane.points).risks())
        for kind, risk in (("likely", LIKELY), ("safe", small_risk(reading.problem))):
            (shape,) = re.findall(rf'id="plane-0-{j}-{kind}" d="([^"]*)"', html)
            np.testing.assert_array_equal(cells(shape, *found.shape), found <= risk)


def cells(shape: str, rows: int, columns: int) -> np.ndarray:
    """Return which cells of a plane of 1000 by 1000 a path of rectangles covers, none of them twice."""
    covered = np.zeros((rows, columns), dtype=bool)
    x, y = (np.round(1000 * (np.arange(count) + 0.5) / count) for count in (columns, rows))
    for left, low, right, high in re.findall(r"M(\d+) (\d+)H(\d+)V(\d+)H\d+z", shape):
        own = np.ix_((y >= int(low)) & (y < int(high)), (x >= int(left)) & (x < int(right)))
        assert not covered[own].any()
        covered[own] = True
    return covered


def test_every_tried_target_stands_once_in_the_plane(runs: Runs) -> None:
    for kind in ("searched", "total"):
        reading = runs.reading(kind)
        picture = plane_chart(reading, 0, len(reading.moments) - 1, SIZES["wide"]).inside
        expected = {(each.center, each.asked.stage) for each in reading.history.told}
        expected |= {(point, "scout") for each in reading.history.told if (point := scout_of(each)) is not None}
        assert len(re.findall(r'class="mark [a-z-]+ tried"', picture)) == len(expected)


def test_two_costs_have_a_plane_each_and_many_knobs_none(runs: Runs) -> None:
    assert [plane.names for plane in runs.reading("two_costs").planes] == [("reward", "cost 1"), ("reward", "cost 2")]
    assert sum(tag == "option" for tag, _ in runs.page("two_costs").elements) == 2
    assert len(runs.reading("knobs").planes) == 3
    assert runs.reading("six_knobs").planes == runs.reading("one_knob").planes == ()
    assert "tilt" in runs.page("six_knobs").text
    assert "mean cost 2 = " in runs.page("two_costs").text


def test_the_table_of_targets_begins_with_the_one_that_is_served(runs: Runs) -> None:
    reading = runs.reading("operated")
    header, rows = runs.page("operated").table("target")
    best = reading.chosen
    assert best is not None
    cells = dict(zip(header, rows[0], strict=True))
    assert (cells["target"], cells["status"]) == (reading.text(best.point), "being served, paid")
    assert (cells["episodes"], cells["mean cost"]) == (str(best.episodes), number(best.means[1]))
    statuses = {row[1] for row in runs.page("total").table("target")[1]}
    assert any(status.startswith("being served, certified at level ") for status in statuses)
    assert "withdrawn" in {row[1] for row in runs.page("alarmed").table("target")[1]}


# --- operation


def test_operation_is_told_as_the_watch_saw_it(runs: Runs) -> None:
    reading = runs.reading("halted")
    alarms = [record.event for record in reading.records if isinstance(record.event, e.Alarm)]
    assert len(alarms) > 1
    assert all(served.agrees for served in reading.services)
    assert [served.alarm for served in reading.services] == alarms
    first = reading.services[0]
    path, at = first.path[0][:, 0], alarms[0].episode - 1
    assert int(np.argmax(path >= first.line)) == at
    assert reading.halts == (reading.history.served,)
    assert f"alarm at its {alarms[0].episode}. (mean)" in runs.page("halted").text
    assert "Halted : " in runs.page("halted").text


def test_an_alarm_that_does_not_follow_from_the_costs_is_noticed(runs: Runs, tmp_path: Path) -> None:
    records = runs.reading("operated").records
    serving = next(record.event for record in records if isinstance(record.event, e.Serving))
    journal, _ = Journal.open(tmp_path / JOURNAL)
    for record in records:
        journal.append(record.event)
    journal.append(e.Alarm(target=serving.target, rule="mean", cost=0, episode=40, mean=30.0, limit=20.0))
    journal.close()
    reading = Reading.read(tmp_path)
    assert not reading.services[-1].agrees
    assert "the recorded alarms do not follow from the costs" in Page(page_html(reading)).text
    assert reading.phase == "alarm, fallback pending"  # as after a kill between the alarm and what follows


def test_costs_served_are_counted_as_they_were_recorded(runs: Runs) -> None:
    reading = runs.reading("alarmed")
    served = np.array([episode for kind, episode in told_and_served(reading.run) if kind == "served"])
    np.testing.assert_array_equal(np.concatenate([each.episodes for each in reading.services]), served)


# --- the record


def test_the_journal_itself_may_be_named(runs: Runs) -> None:
    run = runs.reading("operated").run
    assert Reading.read(run / JOURNAL).version == runs.reading("operated").version


def test_reading_changes_nothing(runs: Runs, tmp_path: Path) -> None:
    runs.copy("operated", tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    page_html(Reading.read(tmp_path))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_decisions_that_cannot_be_made_again_are_said(runs: Runs, tmp_path: Path) -> None:
    journal, _ = Journal.open(tmp_path / JOURNAL)
    opened, asked = (record.event for record in runs.reading("asked").records)
    assert isinstance(asked, e.Asked)
    journal.append(opened)
    journal.append(type(asked)(**{**{name: getattr(asked, name) for name in asked.__struct_fields__}, "charge": 0.05}))
    journal.close()
    reading = Reading.read(tmp_path)
    assert reading.replayed is False
    assert "chain whole, decisions differ" in Page(page_html(reading)).text
    assert tone(reading) == "bad"


def test_damaged_settings_are_left_out_and_said(runs: Runs, tmp_path: Path) -> None:
    runs.copy("operated", tmp_path)
    (tmp_path / "run.toml").write_text("not = [toml", encoding="utf-8")
    reading = Reading.read(tmp_path)
    assert len(reading.notices) == 1
    assert "The settings of the run are left out." in Page(page_html(reading)).text


def test_odd_settings_do_no_harm(runs: Runs, tmp_path: Path) -> None:
    runs.copy("operated", tmp_path)
    (tmp_path / "run.toml").write_text('run = 5\ndata = ["x"]\nday = 2026-01-01\n', encoding="utf-8")
    assert Reading.read(tmp_path).name == f"Run {tmp_path.name}"
    assert "2026-01-01" in Page(page_html(Reading.read(tmp_path))).text


def test_a_name_that_is_a_script_is_only_a_name(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&"
    run = operated(tmp_path / "a<b>&\"'", task=evil)
    with (run / "run.toml").open("a", encoding="utf-8") as stream:
        stream.write('\n["<i>table</i>"]\n"<b>key</b>" = "<svg onload=alert(1)>"\n')
    html = page_html(Reading.read(run))
    page = Page(html)
    assert page.open == []
    assert sum(tag == "script" for tag, _ in page.elements) == 1
    assert not any(
        tag in ("img", "i", "b") and not attributes.keys() <= {"style", "class"} for tag, attributes in page.elements
    )
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert evil in page.text
    assert "<svg onload=alert(1)>" in page.text
    assert "<script>alert" not in html


def test_names_of_knobs_are_only_names(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    run = searched(
        tmp_path, lambda trial: [Returns(1.0, 1.0)] * trial.episodes, axes={evil: (0, 1, "<b>m</b>")},
        starts=[{evil: 0.5}], rewards=(0, 2), episodes=40,
    )  # fmt: skip
    html = page_html(Reading.read(run))
    assert evil not in html
    assert "<b>m</b>" not in html
    assert Page(html).open == []


def test_only_the_script_of_the_page_may_run(runs: Runs) -> None:
    policy = next(str(a["content"]) for tag, a in runs.page("searched").elements if tag == "meta" and "http-equiv" in a)
    assert "default-src 'none'" in policy
    assert re.search(r"script-src 'sha256-[A-Za-z0-9+/=]{44}'", policy)
    assert "connect-src" not in policy
    live = Page(page_html(runs.reading("searched"), live=True))
    assert any("connect-src 'self'" in str(a.get("content")) for tag, a in live.elements if tag == "meta")


def test_a_search_that_is_over_says_so_and_one_that_is_not_does_not(runs: Runs) -> None:
    assert runs.reading("searched").phase == "ready to operate"
    assert runs.reading("failed").phase == "ended without a target"
    assert runs.reading("held").phase == "search held"
    assert runs.reading("asked").phase == "searching, start stage"
    assert runs.reading("retracted").phase == "searching, search stage"
    assert runs.reading("halted").phase == "halted"


# --- charts


def test_numbers_are_written_for_people() -> None:
    assert [number(x) for x in (0, 20.0, 0.5, -3.14159, 1234567.0, float("inf"), float("nan"))] == [
        "0", "20", "0.5", "−3.14", "1,234,567", "∞", "–",
    ]  # fmt: skip


def test_few_is_not_none_and_most_is_not_all() -> None:
    shares = (0.0, 0.001, 0.27, 0.999, 1.0)
    assert [percent(share).replace("\N{NO-BREAK SPACE}", "") for share in shares] == [
        "0%",
        "<1%",
        "27%",
        ">99%",
        "100%",
    ]


def test_ticks_are_round_and_inside() -> None:
    assert ticks(0.5, 30.5, 10, whole=True) == [5, 10, 15, 20, 25, 30]
    assert ticks(-0.02, 0.11, 5) == [0.0, 0.05, 0.1]
    assert ticks(0.6, 1.4, 4, whole=True) == [1.0]


def test_an_axis_has_more_than_one_number() -> None:
    assert ticks(-1.6, 4.9, 3) == [0.0, 2.5]
    assert all(len(ticks(-low, 4.9, 3)) >= 2 for low in np.linspace(0, 30, 61))


def test_long_numbers_leave_the_name_of_their_axis_free() -> None:
    for top, letters in ((10.0, 2), (30_000.0, 6), (3_000_000.0, 9)):
        chart = Chart("rewards", size=(470, 300), x=(0, 1), y=(0, top), name="test")
        chart.axes("trial", "reward")
        assert chart.left - 7 - 6.6 * letters > 20


def test_a_bar_below_zero_ends_where_it_should() -> None:
    chart = Chart("losses", size=(300, 200), x=(0, 1), y=(-100, -10), name="test")
    chart.intervals([0.5], [-40], [-12], "stage-start")
    (start, stop) = re.findall(r'class="bar stage-start" d="M[\d.]+ ([\d.]+)V([\d.]+)"', chart.inside)[0]
    assert (float(start), float(stop)) == pytest.approx((chart.y(-40), chart.y(-12)), abs=0.1)


def test_the_limit_can_be_read_on_white() -> None:
    colors = re.findall(
        r"--limit: #(\w{6})", resources.files("lifesafe.report").joinpath("templates/style.css").read_text()
    )
    for color in (colors[0], colors[-1]):  # on a light screen, and in print
        channels = np.array([int(color[i : i + 2], 16) for i in (0, 2, 4)]) / 255
        linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
        assert 1.05 / (linear @ (0.2126, 0.7152, 0.0722) + 0.05) >= 4.5  # contrast as WCAG 2 has it


def test_a_chart_escapes_its_words() -> None:
    chart = Chart("<b>", size=(300, 200), x=(0, 1), y=(0, 1), name="test")
    chart.axes("a & b", "<i>")
    chart.mark(0.5, 0.5, "circle", "stage-start", "</title><script>")
    svg = chart.__html__()
    assert not re.search(r"<(b|i|u|script)>", svg)
    assert "a &amp; b" in svg


def test_names_above_a_chart_do_not_meet() -> None:
    chart = Chart("alarms", size=(300, 200), x=(0, 100), y=(0, 1), name="test")
    chart.annotate([(10.0 * i, f"alarm {i}", "alarm") for i in range(10)])
    spots = re.findall(r'<text class="note( end)? alarm" x="([\d.]+)" y="([\d.]+)">(alarm \d)<', chart.inside)
    spans = [
        (y, float(x) - (6.6 * len(t) if end else 0), float(x) + (0 if end else 6.6 * len(t))) for end, x, y, t in spots
    ]
    assert len(spots) > 6
    for i, (row, left, right) in enumerate(spans):
        assert not any(row == y and left < b and a < right for y, a, b in spans[i + 1 :])
