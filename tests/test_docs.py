"""Every example in the docs and in the docstrings runs as it is written."""

import doctest
import importlib
import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
MODULES = sorted(path for path in (ROOT / "src").rglob("*.py") if ">>>" in path.read_text(encoding="utf-8"))
FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^`\n]*)\n(?P<body>.*?)^(?P=indent)``` *$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block: what follows the opening fence, its text, and the line it starts at."""

    info: str
    code: str
    line: int


def blocks(text: str) -> list[Block]:
    return [
        Block(
            info=match["info"].strip(),
            code=re.sub(f"^{match['indent']}", "", match["body"], flags=re.MULTILINE),
            line=text.count("\n", 0, match.start("body")),
        )
        for match in FENCE.finditer(text)
    ]


def is_python(block: Block) -> bool:
    return re.match(r"(python|py|pycon)\b", block.info) is not None


def page_name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", PAGES, ids=page_name)
def test_the_examples_of_a_page_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the blocks of a page one after the other, in one namespace and an empty directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))  # the examples set it, and must not keep it set
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in filter(is_python, blocks(path.read_text(encoding="utf-8"))):
        # Empty lines in front make a traceback show the line of the page.
        exec(compile("\n" * block.line + block.code, path, "exec"), namespace)


@pytest.mark.parametrize("path", PAGES, ids=page_name)
def test_no_example_is_exempt(path: Path) -> None:
    odd = [block for block in blocks(path.read_text(encoding="utf-8")) if is_python(block) and block.info != "python"]
    assert not odd, f"{path.name}: write ```python alone, so that the example is run"


@pytest.mark.parametrize("path", MODULES, ids=page_name)
def test_the_examples_of_a_module_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.attempted
    assert not result.failed


def test_blocks_are_found_with_their_lines() -> None:
    text = "a\n\n```python\nx = 1\n```\n\n- item\n\n    ```bash\n    ls\n    ```\n"
    assert blocks(text) == [Block("python", "x = 1\n", 3), Block("bash", "ls\n", 9)]
