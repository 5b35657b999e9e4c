"""The page itself: its sections put into the template, one file without anything from elsewhere."""

from __future__ import annotations

import base64
import hashlib
from importlib.metadata import version as installed
from importlib.resources import files
from pathlib import Path
from string import Template

from lifesafe._files import write_atomic
from lifesafe.report.reading import Reading
from lifesafe.report.sections import all_sections
from lifesafe.report.wording import escaped


def write_page(reading: Reading, path: Path) -> None:
    """Write the report of a run as one HTML file, all of it or nothing.

    Raises:
        OSError: If it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, page_html(reading))


def page_html(reading: Reading, *, live: bool = False) -> str:
    """Return the report of a run as one HTML document that needs nothing else.

    Args:
        reading: The run.
        live: Whether the page asks its server for news.
    """
    return document(
        title=f"{reading.name}: safety report", main=all_sections(reading), version=reading.version, live=live
    )


def document(*, title: str, main: str, version: str, live: bool) -> str:
    """Return a whole document around its main part, which must be safe as it is.

    Args:
        title: Title of the document.
        main: Its main part, as HTML.
        version: What identifies the record as it is shown.
        live: Whether the page asks its server for news.
    """
    script, style = _part("script.js"), _part("style.css")
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{_digest(script)}'"
    )
    if live:
        policy += "; connect-src 'self'"
    return Template(_part("template.html")).substitute(
        title=escaped(title),
        policy=escaped(policy).replace("&#x27;", "'"),
        style=style,
        script=script,
        main=main,
        live="yes" if live else "no",
        shown=escaped(version),
        version=escaped(installed("lifesafe")),
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _part(name: str) -> str:
    return (files("lifesafe.report") / name).read_text(encoding="utf-8")
