"""The report as a user meets it: the command, the file in a browser, the live page beside a run that goes on."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser import MISSING, Browser, find_browser
from lifesafe.report.page import page_html
from lifesafe.report.reading import Reading
from lifesafe.report.verdict import headline
from lifesafe.safety import SafeOptimizer
from report_runs import KINDS, System, operated, problem, search, searched, short, system

# The command as `lifesafe report` calls it, without the other commands.
COMMAND = (
    "import tyro; from lifesafe.cli.report import report; "
    "raise SystemExit(tyro.cli(report, config=(tyro.conf.FlagCreatePairsOff,)))"
)


def report(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", COMMAND, *words], cwd=cwd, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return searched(tmp_path_factory.mktemp("report") / "run")


def test_the_page_is_written_into_the_run(run: Path) -> None:
    done = report("run", cwd=run.parent)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "Report: run/report.html"
    assert done.stdout.startswith(headline(Reading.read(run)))
    assert "Promise: With probability at least 0.9, no trial’s mean cost exceeds the limit 20" in done.stdout
    html = (run / "report.html").read_text(encoding="utf-8")
    for live in ([], ["--live"]):
        assert "nowhere does not exist" in report("nowhere", *live, cwd=run.parent).stderr
    assert "<code>run</code>" in html
    assert html == page_html(Reading.read(run)).replace(f"<code>{run}</code>", "<code>run</code>").replace(
        f" {run}", " run"
    )


def test_the_page_loads_no_drawing_and_no_learning(run: Path, tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from lifesafe.cli.report import report; "
        f"report(Path({str(run)!r}), out=Path('page.html')); print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120
    )
    assert not {"matplotlib", "torch", "gymnasium", "h5py"} & set(done.stderr.split())


class Live:
    """The live report in a process of its own."""

    def __init__(self, run: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, str(run), "--live"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("Report: http://127.0.0.1:"), line
        self.address = line.removeprefix("Report: ").strip()

    def read(self, path: str) -> bytes:
        with urllib.request.urlopen(self.address + path, timeout=60) as answer:
            content: bytes = answer.read()
            return content

    def interrupt(self) -> tuple[int, str, str]:
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    server = Live(short(tmp_path / "run"))
    yield server
    server.process.kill()
    server.process.communicate()


def test_the_live_page_ends_cleanly(live: Live) -> None:
    assert json.loads(live.read("state"))["notice"].startswith("The run has ended")
    with pytest.raises(urllib.error.HTTPError, match="404"):
        live.read("journal.sqlite")
    code, out, err = live.interrupt()
    assert (code, out) == (0, "")
    assert err == "Ctrl-C ends it; the run itself is not touched.\n\nThe live report has ended.\n"


# Where a browser must be, its absence is a fault and no reason to skip: set LIFESAFE_BROWSER=required.
needs_browser = pytest.mark.skipif(
    find_browser() is None and os.environ.get("LIFESAFE_BROWSER") != "required", reason=MISSING
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    executable = find_browser()
    assert executable is not None, MISSING
    with Browser(executable) as found:
        yield found


@pytest.fixture
def page(browser: Browser) -> Browser:
    """Give the browser as it is in the beginning: a large light screen, no complaints."""
    browser.complaints.clear()
    browser.media("", dark=False)
    browser.size(1400, 900)
    return browser


def opened(browser: Browser, run: Path, place: Path) -> Reading:
    reading = Reading.read(run)
    path = place / "page.html"
    path.write_text(page_html(reading), encoding="utf-8")
    browser.open(path.as_uri())
    return reading


@needs_browser
@pytest.mark.parametrize("kind", ["asked", "halted", "two_costs", "six_knobs", "other_limit", "total", "breached"])
def test_pages_load_without_complaint(page: Browser, kind: str, tmp_path: Path) -> None:
    opened(page, KINDS[kind](tmp_path / kind), tmp_path)
    assert page.complaints == []
    assert len(page.picture()) > 30_000  # an empty screen has 5 kB
    assert page.value("document.querySelector('html').classList.contains('script')")
    assert page.value(CUT_OFF) == []
    # Nothing is cut off on a phone: no part of the page is wider than the screen.
    page.size(390, 844, mobile=True)
    assert page.value("document.documentElement.scrollWidth") <= 390
    assert page.value(CUT_OFF) == []


# The words of charts that leave their chart to the left or to the right, or stand on another chart.
CUT_OFF = """[...document.querySelectorAll('svg.chart')].filter((svg) => svg.checkVisibility()).flatMap((svg) => {
  const box = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')].filter((text) => {
    const own = text.getBoundingClientRect();
    return own.left < box.left - 1 || own.right > box.right + 8 || own.top < box.top - 1 || own.bottom > box.bottom + 1;
  }).map((text) => text.textContent);
})"""


@needs_browser
def test_every_sign_of_a_legend_can_be_seen(page: Browser, tmp_path: Path) -> None:
    for kind, dark in (("total", False), ("alarmed", True)):
        opened(page, KINDS[kind](tmp_path / kind), tmp_path)
        page.media("", dark=dark)
        signs = "[...document.querySelectorAll('.legend .symbol > *')].map((sign) => { const style ="
        signs += " getComputedStyle(sign); return [style.display, style.stroke, style.fill]; })"
        found = page.value(signs)
        assert len(found) > 20
        assert not [each for each in found if each[0] == "none" or each[1] == each[2] == "none"]


@needs_browser
def test_earlier_moments_of_the_plane_can_be_looked_at(page: Browser, run: Path, tmp_path: Path) -> None:
    reading = opened(page, run, tmp_path)
    caption = "document.getElementById('moment-caption').textContent"
    shape = "document.querySelector('.view svg.chart [data-kind=safe]').getAttribute('href')"
    shown = "document.querySelector('.view .on-wide svg.chart').querySelectorAll('.tried:not(.later)').length"
    still = "[...document.querySelectorAll('.view svg.chart')].map((svg) => svg.outerHTML).join()"
    last, before, tried = page.value(caption), page.value(still), page.value(shown)
    assert last.startswith(f"After trial {reading.history.told[-1].number}, ")
    final = page.value(shape)
    page.value("document.querySelector('.thumb').click()")
    assert page.value(caption).startswith("After trial 1, ")
    assert page.value(shape) != final
    assert page.value(shown) == 1 < tried
    page.value("[...document.querySelectorAll('.thumb')].pop().click()")
    assert (page.value(caption), page.value(shape), page.value(shown)) == (last, final, tried)
    # Nothing but empty class attributes, which the script leaves behind, differs from the page as it came.
    assert page.value(still).replace(' class=""', "") == before.replace(' class=""', "")
    assert page.complaints == []


@needs_browser
def test_the_pointer_is_told_about_a_trial(page: Browser, run: Path, tmp_path: Path) -> None:
    opened(page, run, tmp_path)
    page.value("document.getElementById('costs').scrollIntoView({behavior: 'instant'})")
    box = "document.querySelector('#costs .mark.stage-start').getBoundingClientRect()"
    at = page.value(f"[{box}.x + {box}.width / 2, {box}.y + {box}.height / 2]")
    tip = "document.getElementById('tip')"
    assert page.value(f"{tip}.hidden")
    page.value("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50)))")  # scrolling hides tips
    page.send("Input.dispatchMouseEvent", type="mouseMoved", x=at[0], y=at[1])
    page.wait(f"!{tip}.hidden")
    assert page.value(f"{tip}.textContent").startswith("Trial 1, start: 30 episodes\ncenter (200, 2)\n")
    page.send("Input.dispatchMouseEvent", type="mouseMoved", x=at[0], y=at[1] + 30)
    page.wait(f"{tip}.hidden")


@needs_browser
def test_with_two_costs_the_plane_can_be_chosen(page: Browser, tmp_path: Path) -> None:
    opened(page, KINDS["two_costs"](tmp_path / "run"), tmp_path)
    visible = "[...document.querySelectorAll('.view')].map((view) => view.checkVisibility())"
    assert page.value(visible) == [True, False]
    page.value(
        "const choice = document.getElementById('plane-view'); choice.value = '1'; "
        "choice.dispatchEvent(new Event('input', {bubbles: true}))"
    )
    assert page.value(visible) == [False, True]
    page.media("print")
    assert page.value(visible) == [True, True]
    assert page.complaints == []


@needs_browser
def test_light_dark_and_print(page: Browser, run: Path, tmp_path: Path) -> None:
    opened(page, run, tmp_path)
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.value(background)
    page.media("", dark=True)
    dark = page.value(background)
    assert light != dark
    page.value("document.getElementById('theme').click()")
    assert page.value(background) == light
    page.value("document.getElementById('theme').click()")
    page.media("print", dark=True)
    assert page.value(background) == light
    assert not page.value("document.querySelector('nav').checkVisibility()")
    assert page.value("document.querySelector('.thumb').checkVisibility()")
    assert page.value("document.getElementById('sign-off').checkVisibility()")
    # All trials are on paper: their table neither scrolls nor ends.
    table = "document.querySelector('#trials .scroll')"
    assert page.value(f"[getComputedStyle({table}).maxHeight, getComputedStyle({table}).overflowY]") == [
        "none",
        "visible",
    ]
    assert page.pdf().startswith(b"%PDF")
    page.media("")
    assert not page.value("document.getElementById('sign-off').checkVisibility()")
    assert page.complaints == []


@needs_browser
def test_the_essentials_need_no_script(page: Browser, run: Path, tmp_path: Path) -> None:
    page.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        reading = opened(page, run, tmp_path)
        text = page.value("document.body.innerText")
        assert str(reading.problem.fingerprint) in text
        assert headline(reading).replace("\N{NO-BREAK SPACE}", " ") in " ".join(text.split())
        assert page.value("document.querySelector('.view svg.chart').checkVisibility()")
        charts = "[...document.querySelectorAll('.on-wide svg.chart')].filter((chart) => !chart.closest('[hidden]'))"
        heights = page.value(f"{charts}.map((chart) => chart.getBoundingClientRect().height)")
        assert len(heights) == 6  # costs, rewards, ledger, plane, and two of forecasts
        assert min(heights) > 100
    finally:
        page.send("Emulation.setScriptExecutionDisabled", value=False)


@needs_browser
def test_a_name_cannot_run_a_script(page: Browser, tmp_path: Path) -> None:
    evil = "</title></script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
    opened(page, operated(tmp_path / "run", task=evil), tmp_path)
    assert page.value("window.hacked === undefined")
    assert page.complaints == []
    # Even if a script got into the page, the policy would not let it run.
    page.value(
        "const s = document.createElement('script'); s.textContent = 'window.hacked = 1'; document.body.append(s)"
    )
    assert page.value("window.hacked === undefined")


@needs_browser
def test_the_live_page_follows_the_run_and_keeps_its_place(page: Browser, tmp_path: Path) -> None:
    run, machine = tmp_path / "run", system()
    caption = "document.getElementById('moment-caption').textContent"
    with SafeOptimizer.open(run, problem(episodes=80)) as optimizer:
        for _ in range(3):
            tell(optimizer, machine)
        server = Live(run)
        try:
            page.open(server.address)
            page.wait("document.getElementById('live').textContent.startsWith('Live: process')")
            page.value("document.querySelector('.thumb').click()")
            page.value("document.querySelector('details').open = true")
            first, count = page.value(caption), len(optimizer.trials)
            tell(optimizer, machine)
            page.wait(f"document.querySelectorAll('#trials tbody tr').length === {count + 1}")
            assert page.value(caption) == first
            assert page.value("document.querySelector('details').open")
            # Who looks at the newest trial is taken along.
            page.value("[...document.querySelectorAll('.thumb')].pop().click()")
            search(optimizer, machine)
            count = len(optimizer.trials)
            page.wait(f"document.querySelectorAll('#trials tbody tr').length === {count}")
            assert page.value(caption).startswith(f"After trial {count}, ")
            optimizer.close()
            page.wait("document.getElementById('live').textContent.startsWith('The run has ended')")
            assert page.complaints == []
            assert server.interrupt()[0] == 0
            page.wait("document.getElementById('live').textContent.startsWith('The server does not answer')")
        finally:
            server.process.kill()
            server.process.communicate()


def tell(optimizer: SafeOptimizer, machine: System) -> None:
    trial = optimizer.ask()
    assert trial is not None
    optimizer.tell(trial, machine(trial))
