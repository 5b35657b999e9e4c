"""The tutorials run as they are, and print what is stored in them."""

from itertools import pairwise
from pathlib import Path

import pytest

import tutorials


@pytest.mark.parametrize("path", tutorials.TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_prints_what_is_stored_in_it(path: Path, tmp_path: Path) -> None:
    stored, now = tutorials.read(path), tutorials.executed(path, tmp_path)
    for number, (before, after) in enumerate(zip(stored.cells, now.cells, strict=True), 1):
        place = f"{path.name}, cell {number}"
        assert tutorials.outputs(after) == tutorials.outputs(before), f"{place} is stale; run `make tutorials`"


@pytest.mark.parametrize("path", tutorials.TUTORIALS, ids=lambda path: path.stem)
def test_words_stand_between_the_cells_of_a_tutorial_and_no_path_of_a_machine(path: Path) -> None:
    cells = tutorials.read(path).cells
    kinds = [cell.cell_type for cell in cells]
    assert kinds[0] == kinds[-1] == "markdown"
    assert ("code", "code") not in pairwise(kinds)
    printed = "\n".join(text for cell in cells for text in tutorials.outputs(cell))
    assert not any(str(place) in printed for place in (Path(__file__).parents[2], Path.home(), "/tmp/"))
