"""The report of a run: one page, one picture, or a page that follows a run as it goes on."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated, Literal

import tyro

from lifesafe.console.arguments import OutFile, Run
from lifesafe.console.progress import progress
from lifesafe.console.prompts import OK, say
from lifesafe.errors import ConfigError
from lifesafe.report.live import LiveServer
from lifesafe.report.page import write_page
from lifesafe.report.picture import picture, write_picture
from lifesafe.report.promise import statement
from lifesafe.report.reading import Reading
from lifesafe.report.verdict import headline

_PAGES = (".html", ".htm")
_PICTURES = (".png", ".svg", ".pdf")

Port = Annotated[int, tyro.conf.arg(metavar="N")]


def report(
    run: Run, *, out: OutFile = None, live: bool = False, port: Port = 0, open: Literal["yes", "no"] = "no"
) -> int:
    """Write the report of a run, as a page or a picture.

    The page is one HTML file that needs no network; the picture is for a paper. The page says what is operated,
    what was promised and how many real episodes it took, and which assumptions were checked and how that came out.
    It shows the cost of every trial against its limit, what paid for it (the ledger or the account), what is
    believed of the targets, what was forecast and what came back, and operation with its alarms.
    `docs/guides/report.md` explains how to read it.

    Reads the journal of the run and changes nothing in it; the run may still be going on. With --live the page is
    served on this machine only, and follows the run until Ctrl-C.

    Examples:
        lifesafe report runs/demo
        lifesafe report runs/demo --out figure3.png
        lifesafe report runs/hopper --live

    Exit codes: 0 written, or live and ended by Ctrl-C; 2 an error.

    Args:
        run: Directory of the run.
        out: File to write, by its ending a page (.html) or a picture (.png, .svg); report.html in the run
            unless told.
        live: Serve the page on this machine and keep it up to date, instead of writing it.
        port: Port of the live page; a free one unless told.
        open: Whether to show the page in the browser.
    """
    if live:
        if out is not None:
            raise ConfigError("A live page is not written; give either --live or --out.")
        return _serve(run, port, show=open == "yes")
    if port:
        raise ConfigError(f"Port {port} is for a live page; add --live.")
    target = out or (run.parent if run.is_file() else run) / "report.html"
    if target.suffix.lower() in _PAGES:
        _write_page(run, target)
    elif target.suffix.lower() in _PICTURES:
        _draw(run, target)
    else:
        raise ConfigError(f"Cannot report into {target}: give a file that ends in one of .html, .png, .svg.")
    if open == "yes":
        webbrowser.open(target.resolve().as_uri())
    return OK


def _write_page(run: Path, target: Path) -> None:
    with progress("reading and replaying the run"):
        reading = Reading.read(run)
        write_page(reading, target)
    print(f"{headline(reading)}\nPromise: {statement(reading)}\n\nReport: {target}")


def _draw(run: Path, target: Path) -> None:

    reading = Reading.read(run, replay=False)
    for notice in reading.notices:
        say(notice)
    with progress("drawing"):
        write_picture(picture(reading), target)
    print(f"Picture: {target}")


def _serve(run: Path, port: int, *, show: bool) -> int:
    if not run.exists():
        raise ConfigError(f"{run} does not exist; give the directory of a run.")
    with LiveServer(run, port) as server:
        print(f"Report: {server.address}", flush=True)
        say("Ctrl-C ends it; the run itself is not touched.")
        if show:
            webbrowser.open(server.address)
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            say("\nThe live report has ended.")
    return OK
