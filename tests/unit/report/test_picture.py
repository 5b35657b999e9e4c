"""The picture shows the charts of the page, and needs neither a browser nor matplotlib."""

import re
import struct
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from lifesafe.errors import ConfigError
from lifesafe.report import picture as module
from lifesafe.report.picture import picture, write_picture
from lifesafe.report.promise import statement
from lifesafe.report.reading import Reading
from lifesafe.report.svg import WIDE
from lifesafe.report.trial_charts import trial_figure
from report_runs import KINDS


def read(kind: str, place: Path) -> Reading:
    return Reading.read(KINDS[kind](place / kind), replay=False)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_run_has_a_picture_with_its_promise(tmp_path: Path, kind: str) -> None:
    reading = read(kind, tmp_path)
    svg = picture(reading)
    root = ET.fromstring(svg)
    words = " ".join("".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text"))
    assert statement(reading) in words
    assert "var(" not in svg
    names = re.findall(r' id="([^"]+)"', svg)
    assert len(names) == len(set(names))


def test_the_picture_has_the_charts_of_the_page(tmp_path: Path) -> None:
    reading = read("alarmed", tmp_path)
    chart = trial_figure(reading, 1).charts[0](WIDE)
    assert chart.inside in picture(reading)


def test_a_png_is_as_large_as_the_sheet_twice_and_not_empty(tmp_path: Path) -> None:
    svg = picture(read("short" if "short" in KINDS else "begun", tmp_path))
    write_picture(svg, tmp_path / "deep" / "run.png")
    found = (tmp_path / "deep" / "run.png").read_bytes()
    assert found.startswith(b"\x89PNG")
    sizes = re.search(r'width="(\d+)" height="(\d+)"', svg)
    assert sizes is not None
    assert struct.unpack(">II", found[16:24]) == (2 * int(sizes[1]), 2 * int(sizes[2]))
    assert len(found) > 10_000
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["run.png"]


def test_other_endings_are_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"or print the page \(\.html\) into a PDF"):
        write_picture("<svg/>", tmp_path / "run.pdf")
    with pytest.raises(ConfigError, match=r"give a file that ends in \.svg or \.png"):
        write_picture("<svg/>", tmp_path / "run.gif")


def test_a_png_without_a_font_is_refused_and_not_written_without_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FONTS", 'font-family="No Such Font"')
    with pytest.raises(ConfigError, match=r"needs a font such as DejaVu Sans, .* or give a \.svg"):
        write_picture("<svg/>", tmp_path / "run.png")
    assert list(tmp_path.iterdir()) == []
