"""The tutorials run as they are, and print what is stored in them."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

import tutorials

NUMBER = re.compile(r"\s*-?\d+(?:,\d{3})*(?:\.\d+)?")
TRAINS = ("from_logs_to_operation",)
"""Tutorials that train a policy: another processor rounds otherwise, and its policy is a little different."""


def numbers(text: str) -> list[float]:
    return [float(found.replace(",", "")) for found in NUMBER.findall(text)]


@pytest.mark.parametrize("path", tutorials.TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_prints_what_is_stored_in_it(path: Path, tmp_path: Path) -> None:
    stored, now = tutorials.read(path), tutorials.executed(path, tmp_path)
    for number, (before, after) in enumerate(zip(stored.cells, now.cells, strict=True), 1):
        stale = f"{path.name}, cell {number} is stale; `make tutorials` renews it"
        old, new = "\n".join(tutorials.outputs(before)), "\n".join(tutorials.outputs(after))
        if path.stem in TRAINS:
            assert numbers(new) == pytest.approx(numbers(old), rel=0.4, abs=5.0), stale
            old, new = NUMBER.sub(" #", old), NUMBER.sub(" #", new)
        assert new == old, stale


@pytest.mark.parametrize("path", tutorials.TUTORIALS, ids=lambda path: path.stem)
def test_words_stand_between_the_cells_of_a_tutorial_and_no_path_of_a_machine(path: Path) -> None:
    cells = tutorials.read(path).cells
    kinds = [cell.cell_type for cell in cells]
    assert kinds[0] == kinds[-1] == "markdown"
    assert ("code", "code") not in pairwise(kinds)
    printed = "\n".join(text for cell in cells for text in tutorials.outputs(cell))
    assert not any(str(place) in printed for place in (Path(__file__).parents[2], Path.home(), "/tmp/"))
