"""The page tells the numbers of the run, whatever kind of run it is."""

import re
import shutil
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from lifesafe.journal import JOURNAL, Journal, read_records
from lifesafe.journal import events as e
from lifesafe.operation import Operation
from lifesafe.report.account_chart import path as account_path
from lifesafe.report.checks import all_checks
from lifesafe.report.forecasts import Calibration, calibration, outcomes
from lifesafe.report.moments import LIKELY, small_risk
from lifesafe.report.page import page_html, write_page
from lifesafe.report.plane import SIZES, plane_chart, plane_shapes
from lifesafe.report.promise import qualifications, statement
from lifesafe.report.reading import PREPAID, Reading, episodes_of, scout_of
from lifesafe.report.svg import WIDE, Chart
from lifesafe.report.trial_charts import trial_figure
from lifesafe.report.verdict import badges, headline, result, toll, tone
from lifesafe.report.wording import number, percent, target_texts
from lifesafe.returns import Returns
from lifesafe.safety import SafeOptimizer
from lifesafe.safety.beliefs import believed
from report_runs import KINDS, operated, problem, searched

VOID = {"meta", "link", "br", "rect", "path", "use"}
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

    @property
    def top(self) -> str:
        return self.text.partition("The promise, and what it rests on")[0]

    def table(self, first: str) -> list[dict[str, str]]:
        """Return the rows of the table whose first column has a name."""
        start = next(i for i, row in enumerate(self.rows) if row[:1] == [first])
        header, rows = self.rows[start], []
        for row in self.rows[start + 1 :]:
            if len(row) != len(header):
                break
            rows.append(dict(zip(header, row, strict=True)))
        return rows


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


def told_and_served(run: Path) -> Iterator[tuple[str, e.EpisodeReturns]]:
    """Return every episode of a record without retractions, with the kind of its event, in order."""
    for record in read_records(run / JOURNAL):
        if isinstance(record.event, e.Told | e.Served):
            yield from ((e.kind_of(record.event), episode) for episode in record.event.episodes)


# --- every page


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_run_has_a_whole_page_that_needs_nothing_else(runs: Runs, kind: str) -> None:
    reading, page, html = runs.reading(kind), runs.page(kind), runs.html(kind)
    assert page.open == []
    assert len(html.encode()) <= LARGEST
    assert headline(reading) in page.text
    assert statement(reading) in page.text
    assert reading.notices == ()
    assert not re.search(r"\bnan\b|\binf\b|None\b|Traceback|array\(|Returns\(|\.[A-Z][a-z]", page.text)
    names = [attributes.get("id") for _, attributes in page.elements if attributes.get("id")]
    assert len(names) == len(set(names))
    for tag, attributes in page.elements:
        assert tag not in ("iframe", "object", "embed", "base", "form")
        assert "src" not in attributes
        assert str(attributes.get("href", "#")).startswith(("#", "data:,"))
    assert not re.search(r"https?://|@import", html)


@pytest.mark.parametrize("kind", KINDS)
def test_every_chart_says_what_it_shows_and_none_is_empty(runs: Runs, kind: str) -> None:
    elements = runs.page(kind).elements
    charts = [a for tag, a in elements if tag == "svg" and "chart" in str(a.get("class"))]
    assert charts
    assert all(a["role"] == "img" and len(str(a["aria-label"])) > 20 for a in charts)
    for inside in re.findall(r'<svg class="chart".*?</svg>', runs.html(kind), re.DOTALL):
        assert re.search(r'class="(mark|dots|fill|bar|cell-other|line (?!limit|zero|diagonal))', inside)
    sections = [a["id"] for tag, a in elements if tag == "section"]
    assert sections == [
        "promise", "costs", "reward", "paid", "targets", "forecasts", "operation", "trials", "settings", "sign-off",
    ]  # fmt: skip
    shapes = {a["id"] for tag, a in elements if tag == "path" and "id" in a}
    assert {str(a["href"])[1:] for tag, a in elements if tag == "use"} <= shapes


def test_the_same_journal_gives_the_same_page_and_is_not_changed(runs: Runs, tmp_path: Path) -> None:
    run = runs.reading("two_costs").run
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    write_page(Reading.read(run), tmp_path / "deep" / "page.html")
    assert (tmp_path / "deep" / "page.html").read_text(encoding="utf-8") == runs.html("two_costs")
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["page.html"]
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before
    assert Reading.read(run / JOURNAL).version == runs.reading("two_costs").version  # the journal may be named itself


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
    pairs = [pair for tried in reading.history.told for pair in zip(tried.points, tried.episodes, strict=False)]
    own = [row for point, row in pairs if point == best.point]
    own += [row for served in reading.services if served.service.target == best.point for row in served.episodes]
    assert best.episodes == len(own)
    np.testing.assert_allclose(best.means, np.mean(own, axis=0))


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
    reading, page = runs.reading("retracted"), runs.page("retracted")
    run = {number_: each.was_told for number_, each in reading.history.trials.items()}
    assert reading.tally.total == sum(run.values())
    assert reading.tally.counted == sum(run.values()) - run[3] - run[4] + 2
    assert f"Of {reading.tally.counted} episodes that count, of {reading.tally.total} real episodes" in page.text
    assert f"{reading.tally.total - reading.tally.counted} episodes of retracted trials do not count" in page.text
    assert "Trial 6 was open at a retraction and was dropped" in page.text
    assert qualifications(reading)[0].startswith(
        "What was told of trial 3 was retracted (“the log of another machine”)"
    )
    results = {row["trial"]: row["result"] for row in page.table("trial")}
    assert (results["3"], results["4"], results["6"]) == ("retracted", "retracted, told anew", "dropped, never run")


def test_the_headline_is_honest(runs: Runs) -> None:
    said = {kind: result(runs.reading(kind)) for kind in KINDS}
    assert said["begun"] == headline(runs.reading("begun")) == "Run begun has only just begun: no trial is told."
    assert said["asked"].endswith("a first trial is asked for and not yet told.")
    assert "Trial 1 is under way: 30 episodes at (200, 2)." in runs.page("asked").text
    assert " is to be operated at target " in said["searched"]
    assert " would be operated, as of now, at target " in said["held"]
    assert " after 1 alarm: " in said["alarmed"]
    assert re.match(
        r"Run halted has halted after \d+ episodes of operation and \d alarms, and no target", said["halted"]
    )
    assert said["failed"] == "No target of Run failed is fit to be operated."
    assert "1 trial had a mean clearly above a limit" in headline(runs.reading("held")).lower()
    assert "none cost more than the limit" in toll(runs.reading("sure"))
    assert "stop" not in headline(runs.reading("knobs"))  # which has none


def test_the_edge_has_the_color_of_the_worst_badge(runs: Runs) -> None:
    tones = {kind: tone(runs.reading(kind)) for kind in KINDS}
    assert {tones[kind] for kind in ("begun", "asked")} == {"plain"}
    assert {tones[kind] for kind in ("searched", "operated", "total", "sure", "knobs", "listed")} == {"good"}
    assert {tones[kind] for kind in ("alarmed", "retracted")} == {"warn"}
    assert {tones[kind] for kind in ("halted", "failed", "held", "confirmed", "breached")} == {"bad"}
    for kind, found in tones.items():
        worst = {badge.tone for badge in badges(runs.reading(kind))}
        assert found == next((each for each in ("bad", "warn") if each in worst), found)
        assert f'class="top tone-{found}"' in runs.html(kind)


def test_the_phase_is_named(runs: Runs) -> None:
    assert {kind: runs.reading(kind).phase for kind in ("searched", "failed", "held", "asked", "retracted")} == {
        "searched": "ready to operate", "failed": "ended without a target", "held": "search held",
        "asked": "searching, start stage", "retracted": "searching, search stage",
    }  # fmt: skip


# --- promises, and what they rest on


def findings(reading: Reading) -> dict[str, str]:
    return {check.topic: check.finding for check in all_checks(reading)}


def test_the_promise_that_was_made_is_stated_with_what_paid_for_it(runs: Runs) -> None:
    said = {kind: statement(runs.reading(kind)) for kind in ("searched", "two_costs", "total", "sure")}
    assert said["searched"].startswith("With probability at least 0.9, no trial’s mean cost exceeds the limit 20")
    assert "no trial’s mean costs exceed the limits 20 and 1" in said["two_costs"]
    assert said["total"].startswith("All episodes together cost at most the limit 20 an episode")
    assert said["sure"].startswith("Every single episode keeps the limit 20, for sure")
    for kind, name, paid in (
        ("searched", "promise mean of every trial", "What paid for it? The ledger"),
        ("total", "promise total of all episodes", "What paid for it? The account"),
        ("sure", "promise every episode", "no risk is charged and no account is needed"),
    ):
        assert name in runs.page(kind).text
        assert paid in runs.page(kind).text
        assert ("account holds" in runs.page(kind).top) == (kind == "total")
        assert ("risk used" in runs.page(kind).top) == (kind == "searched")
        assert ("used so far" in runs.page(kind).table("trial")[0]) == (kind == "searched")


def test_each_promise_is_checked_by_its_own_assumptions(runs: Runs) -> None:
    first = {kind: all_checks(runs.reading(kind))[0].assumption for kind in ("searched", "knobs", "listed")}
    assert list(findings(runs.reading("searched")).values()) == ["holds", "quiet", "quiet", "open", "quiet"]
    assert first["searched"].startswith("No episode costs more than 61: an episode is ended as soon as its")
    assert first["knobs"] == "One mishap adds at most 60 to the cost of an episode."
    assert first["listed"] == "No episode costs more than 50, the most that its length allows."
    assert findings(runs.reading("total")) == {
        "largest cost of an episode": "holds", "account": "holds", "certificates": "holds",
        "safety of the starts": "quiet", "no change over time": "quiet", "model of the reward": "quiet",
    }  # fmt: skip
    assert findings(runs.reading("sure")) == {"largest cost of an episode": "holds", "model of the reward": "quiet"}
    changed = {kind: findings(runs.reading(kind))["no change over time"] for kind in ("operated", "alarmed", "halted")}
    assert changed == {"operated": "quiet", "alarmed": "doubt", "halted": "failed"}


def test_an_assumption_that_failed_qualifies_the_promise_at_the_top(runs: Runs) -> None:
    reading, top = runs.reading("breached"), runs.page("breached").top
    assert statement(reading).startswith(
        "An assumption failed in this run (largest cost of an episode), so this does not hold as it stands: With"
    )
    for words in ("failed largest cost", "Promise, with qualifications.", "failed in trial 4: an episode cost 95"):
        assert words in top
    assert not re.search("failed|in doubt", runs.page("operated").top)
    assert qualifications(runs.reading("operated")) == []
    assert "1 alarm in operation" in qualifications(runs.reading("alarmed"))[0]


def test_a_promise_that_was_broken_is_said_to_be(runs: Runs) -> None:
    for kind in ("held", "confirmed"):
        reading = runs.reading(kind)
        assert "The promise was broken, as far as episodes can show it, in trial 4" in qualifications(reading)[0]
        assert findings(reading)["model of the costs"] == "failed"
    assert "“a wheel was loose; it is mended”" in runs.page("confirmed").text
    assert "The search is held: trial 4" in runs.page("held").text


def test_what_is_not_promised_is_said_with_numbers(runs: Runs) -> None:
    tally = runs.reading("alarmed").tally
    share = percent(tally.above / tally.counted)
    assert (
        f"Limits are on the mean: {tally.above} episodes of {tally.counted} ({share}) cost" in runs.page("alarmed").text
    )
    for kind, single, stop in (("alarmed", True, True), ("knobs", True, False), ("sure", False, True)):
        said = runs.page(kind).text
        assert ("Single episodes. Limits are" in said, "Targets without the stop." in said) == (single, stop)


def test_a_model_is_in_doubt_only_if_an_interval_says_so() -> None:
    for surprises, count, doubtful in ((0, 10, False), (1, 3, False), (2, 40, False), (3, 8, True), (9, 40, True)):
        found = Calibration(surprises, count)
        low, high = found.interval
        assert low <= surprises / count <= high
        assert found.is_doubtful == doubtful == (low > 0.05)
    assert Calibration(0, 10).interval == (0.0, pytest.approx(1 - 0.025**0.1))


def test_rewards_beyond_their_forecasts_put_the_model_of_the_reward_in_doubt_and_not_the_promise(runs: Runs) -> None:
    reading = runs.reading("breached")
    found = calibration(outcomes(reading, 0))
    assert (found.surprises, found.outcomes, found.is_doubtful) == (3, 7, True)
    assert (findings(reading)["model of the reward"], findings(reading)["model of the costs"]) == ("doubt", "quiet")
    assert "in doubt model of the reward" in runs.page("breached").top
    assert f"Clearly beyond their forecast: {found}." in runs.page("breached").text
    assert "reward" not in statement(reading)
    for kind in ("held", "breached"):
        for axis in (0, 1):
            for each in outcomes(runs.reading(kind), axis):
                low, high = each.forecast
                above, below = each.measured - each.half > high, each.measured + each.half < low
                assert each.is_surprise == (above or (axis == 0 and below))
    assert outcomes(runs.reading("sure"), 1) == []  # no episode can exceed the limit, so nothing is forecast


# --- what paid


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
    before = {part.first + len(part.holds): float(part.holds[-1, 0]) for part in reading.saved}
    newcomers = [part for part in reading.saved if part.stage in PREPAID]
    assert newcomers
    assert all(before[part.first] >= 21 * len(part.holds) for part in newcomers)


def test_the_risk_used_adds_up(runs: Runs) -> None:
    reading, total = runs.reading("searched"), 0.0
    for tried, row in zip(reading.history.told, runs.page("searched").table("trial"), strict=True):
        total += tried.asked.charge
        assert (row["risk"], row["used so far"]) == (number(tried.asked.charge, 2), number(total, 2))
    assert reading.spent_after[-1] == (len(reading.history.told), pytest.approx(reading.beliefs.spent))
    assert total <= 0.1 + 1e-9


# --- trials and targets


@pytest.mark.parametrize("kind", ["searched", "two_costs", "other_limit", "total", "knobs"])
def test_the_table_of_trials_is_the_record(runs: Runs, kind: str) -> None:
    reading, rows = runs.reading(kind), runs.page(kind).table("trial")
    assert len(rows) == len(reading.history.trials) > 5
    for tried, cells in zip(reading.history.told, rows, strict=True):
        assert list(cells.values())[:3] == [str(tried.number), tried.asked.stage, reading.text(tried.center)]
        assert cells["episodes"] == str(len(tried.episodes))
        assert cells["mean reward"] == number(float(tried.episodes[:, 0].mean()), 4)
        scout = scout_of(tried)
        assert cells.get("scout", "–") == ("–" if scout is None else reading.text(scout))
        for name, costs in zip(reading.names[1:], tried.episodes.T[1:], strict=True):
            assert cells[f"mean {name}"].startswith(f"{number(float(costs.mean()))} ± ")


def test_the_chart_shows_the_mean_of_a_lottery_beside_those_of_its_center_and_its_scout(runs: Runs) -> None:
    reading = runs.reading("searched")
    chart = trial_figure(reading, 1).charts[0](WIDE).inside
    scouted = [each for each in reading.history.told if scout_of(each) is not None]
    assert len(scouted) > 5
    known = {"stage-search": [each.episodes for each in scouted]}
    known |= {kind: [episodes_of(each, i) for each in scouted] for i, kind in enumerate(("center", "scout"))}
    values = [float(rows[:, 1].mean()) for parts in known.values() for rows in parts]
    mark = r'class="mark {}" transform="translate\([\d.]+ ([\d.]+)\)"'
    heights = [float(y) for kind in known for y in re.findall(mark.format(kind), chart)]
    slope, start = np.polyfit(values, heights, 1)
    assert slope < 0
    np.testing.assert_allclose(heights, np.array(values) * slope + start, atol=0.15)  # tenths of a pixel


def test_every_extreme_episode_is_drawn_and_listed(runs: Runs, tmp_path: Path) -> None:
    figure = trial_figure(runs.reading("breached"), 1)
    assert figure.notes == ("1 episode beyond the chart, drawn as arrows at its edge: 95 (trial 4).",)
    rng = np.random.default_rng(0)
    with SafeOptimizer.open(tmp_path, problem(axes={"reward": (0, 4000), "cost": (0, 60)})) as optimizer:
        for number_ in range(3):
            trial = optimizer.ask()
            assert trial is not None
            rewards = rng.normal(3000, 20, trial.episodes)
            rewards[0] = 900.0 if number_ == 1 else 3000.0
            optimizer.tell(trial, [Returns(float(reward), 1.0) for reward in rewards])
    figure = trial_figure(Reading.read(tmp_path), 0)
    assert figure.notes == ("1 episode beyond the chart, drawn as arrows at its edge: 900 (trial 2).",)
    chart = figure.charts[0](WIDE).inside
    assert len(re.findall('class="beyond', chart)) == 1
    assert ">1,000<" not in chart  # one bad episode does not flatten the chart
    assert ">3,000<" in chart


def test_targets_that_are_almost_the_same_do_not_read_the_same(runs: Runs) -> None:
    points = [(320.71, 0.0), (320.69, 0.0), (200.0, 2.0)]
    assert list(target_texts(problem(), points).values()) == ["(320.71, 0)", "(320.69, 0)", "(200, 2)"]
    for kind in ("searched", "total", "knobs"):
        reading = runs.reading(kind)
        tried = {point for each in reading.history.told for point in each.asked.targets}
        assert len({reading.text(point) for point in tried}) == len(tried)


def test_new_limits_are_shown_where_they_began(runs: Runs) -> None:
    reading = runs.reading("other_limit")
    changed = sum(tried.limits == (20.0,) for tried in reading.history.trials.values())
    assert reading.limit_changes == ((changed + 0.5, (26.0,)),)
    assert ">limit 26<" in runs.html("other_limit")
    assert "New limits begin a new ledger." in runs.page("other_limit").text
    assert "cost more than a limit" in toll(reading)


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


def test_planes_show_every_tried_target_once_and_are_left_out_with_many_knobs(runs: Runs) -> None:
    for kind in ("searched", "total"):
        reading = runs.reading(kind)
        picture = plane_chart(reading, 0, len(reading.moments) - 1, SIZES["wide"]).inside
        expected = {(each.center, each.asked.stage) for each in reading.history.told}
        expected |= {(point, "scout") for each in reading.history.told if (point := scout_of(each)) is not None}
        assert len(re.findall(r'class="mark [a-z-]+ tried"', picture)) == len(expected)
    assert [plane.names for plane in runs.reading("two_costs").planes] == [("reward", "cost 1"), ("reward", "cost 2")]
    assert len(runs.reading("knobs").planes) == 3
    assert runs.reading("six_knobs").planes == runs.reading("one_knob").planes == ()


def test_the_table_of_targets_begins_with_the_one_that_is_served(runs: Runs) -> None:
    reading, first = runs.reading("operated"), runs.page("operated").table("target")[0]
    best = reading.chosen
    assert best is not None
    assert (first["target"], first["status"]) == (reading.text(best.point), "being served, paid")
    assert (first["episodes"], first["mean cost"]) == (str(best.episodes), number(best.means[1]))
    statuses = [row["status"] for row in runs.page("total").table("target")]
    assert statuses[0].startswith("being served, certified at level ")
    assert "withdrawn" in {row["status"] for row in runs.page("alarmed").table("target")}


# --- operation


def test_operation_is_told_as_the_watch_saw_it(runs: Runs) -> None:
    reading = runs.reading("halted")
    alarms = [record.event for record in reading.records if isinstance(record.event, e.Alarm)]
    assert len(alarms) > 1
    assert all(served.agrees for served in reading.services)
    assert [served.service.alarm for served in reading.services] == alarms
    first = reading.services[0]
    path, at = first.path[0][:, 0], alarms[0].episode - 1
    assert int(np.argmax(path >= first.line)) == at
    assert reading.halts == (reading.history.served,)
    assert f"alarm at its {alarms[0].episode}. (mean)" in runs.page("halted").text
    assert "Halted : " in runs.page("halted").text
    served = np.array([episode for kind, episode in told_and_served(reading.run) if kind == "served"])
    np.testing.assert_array_equal(np.concatenate([each.episodes for each in reading.services]), served)


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


# --- the record


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


def test_damaged_and_odd_settings_do_no_harm_and_that_is_said(runs: Runs, tmp_path: Path) -> None:
    runs.copy("operated", tmp_path)
    (tmp_path / "run.toml").write_text("not = [toml", encoding="utf-8")
    assert "The settings of the run are left out." in Reading.read(tmp_path).notices[0]
    (tmp_path / "run.toml").write_text('run = 5\ndata = ["x"]\nday = 2026-01-01\n', encoding="utf-8")
    assert Reading.read(tmp_path).name == f"Run {tmp_path.name}"
    assert "2026-01-01" in Page(page_html(Reading.read(tmp_path))).text


def test_names_from_files_are_only_names(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&"
    run = operated(tmp_path / "a<b>&\"'", task=evil)
    with (run / "run.toml").open("a", encoding="utf-8") as stream:
        stream.write('\n["<i>table</i>"]\n"<b>key</b>" = "<svg onload=alert(1)>"\n')
    knobs = searched(
        tmp_path / "knobs", lambda trial: [Returns(1.0, 1.0)] * trial.episodes, axes={evil: (0, 1, "<i>m</i>")},
        starts=[{evil: 0.5}], rewards=(0, 2), episodes=40,
    )  # fmt: skip
    for path in (run, knobs):
        html = page_html(Reading.read(path))
        page = Page(html)
        assert page.open == []
        assert sum(tag == "script" for tag, _ in page.elements) == 1
        assert not any(tag in ("img", "i", "b") and not a.keys() <= {"style", "class"} for tag, a in page.elements)
        assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
        assert evil in page.text
        assert "<script>alert" not in html
    assert "<svg onload=alert(1)>" in Page(page_html(Reading.read(run))).text


def test_only_the_script_of_the_page_may_run(runs: Runs) -> None:
    live = Page(page_html(runs.reading("searched"), live=True))
    for page, may_ask in ((runs.page("searched"), False), (live, True)):
        policy = next(str(a["content"]) for tag, a in page.elements if tag == "meta" and "http-equiv" in a)
        assert "default-src 'none'" in policy
        assert re.search(r"script-src 'sha256-[A-Za-z0-9+/=]{44}'", policy)
        assert ("connect-src 'self'" in policy) == may_ask


# --- charts


def test_numbers_are_written_for_people() -> None:
    assert [number(x) for x in (0, 20.0, 0.5, -3.14159, 1234567.0, float("inf"), float("nan"))] == [
        "0", "20", "0.5", "−3.14", "1,234,567", "∞", "–",
    ]  # fmt: skip
    shares = [percent(share).replace("\N{NO-BREAK SPACE}", "") for share in (0.0, 0.001, 0.27, 0.999, 1.0)]
    assert shares == ["0%", "<1%", "27%", ">99%", "100%"]


def chart(**ends: tuple[float, float]) -> Chart:
    return Chart("<b>", **{"size": (300, 200), "x": (0, 1), "y": (0, 1)} | ends, name="test")  # type: ignore[arg-type]


def test_names_above_a_chart_do_not_meet() -> None:
    made = chart(x=(0, 100))
    made.annotate([(10.0 * i, f"alarm {i}", "alarm") for i in range(10)])
    spots = re.findall(r'<text class="note( end)? alarm" x="([\d.]+)" y="([\d.]+)">(alarm \d)<', made.inside)
    assert len(spots) > 6
    spans = [(y, float(x) - 6.6 * len(t) * bool(end), float(x) + 6.6 * len(t) * (not end)) for end, x, y, t in spots]
    for i, (row, left, right) in enumerate(spans):
        assert not any(row == y and left < b and a < right for y, a, b in spans[i + 1 :])
