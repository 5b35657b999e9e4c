"""Every example in the docs and in the docstrings runs as it is written."""

import contextlib
import doctest
import functools
import importlib
import io
import re
import shlex
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from pkgutil import resolve_name
from typing import NamedTuple

import pytest
import tyro

from lifesafe.cli import COMMANDS, main

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
MODULES = sorted(path for path in (ROOT / "src").rglob("*.py") if ">>>" in path.read_text(encoding="utf-8"))
COMPUTED = ("plan",)
"""Commands whose output follows from their options alone."""
ROOMS = {path.stem for path in (ROOT / "src" / "lifesafe").iterdir()} | {"lifesafe", "theorem1"}
OTHER = ("journal.sqlite", "life.phase", "life.optimizer.confirm")
"""A file, and attributes of a variable: they look like names in the package."""
FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^`\n]*)\n(?P<body>.*?)^(?P=indent)``` *$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block."""

    info: str
    """Words behind the opening fence."""
    code: str
    """Its text."""
    line: int
    """Number of the line above it."""
    output: str | None = None
    """Text of the block ```text that follows at once, if one does: what it prints."""


def blocks(text: str) -> list[Block]:
    matches = list(FENCE.finditer(text))
    found = [
        Block(
            info=match["info"].strip(),
            code=re.sub(f"^{match['indent']}", "", match["body"], flags=re.MULTILINE),
            line=text.count("\n", 0, match.start("body")),
        )
        for match in matches
    ]
    for i, (one, other) in enumerate(pairwise(matches)):
        if found[i + 1].info == "text" and not text[one.end() : other.start()].strip():
            found[i] = found[i]._replace(output=found[i + 1].code)
    return found


def is_python(block: Block) -> bool:
    return re.match(r"(python|py|pycon)\b", block.info) is not None


def page_name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def command_lines(text: str) -> list[list[str]]:
    """Return the words of every `lifesafe` command in the shell blocks of a page."""
    lines = [line for block in blocks(text) if block.info == "bash" for line in block.code.splitlines()]
    words = [shlex.split(line, comments=True) for line in lines]
    return [each[each.index("lifesafe") + 1 :] for each in words if "lifesafe" in each]


def parsed(words: list[str]) -> None:
    """Read a command line as `lifesafe` does, and run nothing.

    Raises:
        SystemExit: If there is no such command or option, or a value does not fit.
    """
    name = next((name for n in (2, 1) if (name := " ".join(words[:n])) in COMMANDS), None)
    if name is None:
        raise SystemExit(f"There is no command {words[0]!r}.")
    rest = words[len(name.split()) : words.index("|") if "|" in words else None]
    command = resolve_name(f"lifesafe.{COMMANDS[name][0]}")
    tyro.cli(_idle(command), prog=name, args=rest, config=(tyro.conf.FlagCreatePairsOff,))


def _idle(command: Callable[..., int]) -> Callable[..., int]:
    @functools.wraps(command)
    def nothing(*_: object, **__: object) -> int:
        return 0

    return nothing


@pytest.mark.parametrize("path", PAGES, ids=page_name)
def test_the_examples_of_a_page_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the blocks of a page one after the other, in one namespace and an empty directory.

    A block that is followed by ```text prints just that.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))  # the examples set it, and must not keep it set
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in filter(is_python, blocks(path.read_text(encoding="utf-8"))):
        # Empty lines in front make a traceback show the line of the page.
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * block.line + block.code, path, "exec"), namespace)
        if block.output is not None:
            assert printed.getvalue() == block.output, f"{path.name}, line {block.line}, prints something else"


@pytest.mark.parametrize("path", PAGES, ids=page_name)
def test_commands_print_what_a_page_shows(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for block in blocks(path.read_text(encoding="utf-8")):
        words = command_lines(f"```bash\n{block.code}```") if block.info == "bash" and block.output else []
        if words and all(each[0] in COMPUTED for each in words):
            for each in words:
                assert main(each) == 0
            assert capfd.readouterr().out == block.output, f"{path.name}, line {block.line}, prints something else"


@pytest.mark.parametrize("path", PAGES, ids=page_name)
def test_no_example_is_exempt(path: Path) -> None:
    odd = [block for block in blocks(path.read_text(encoding="utf-8")) if is_python(block) and block.info != "python"]
    assert not odd, f"{path.name}: write ```python alone, so that the example is run"


@pytest.mark.parametrize("path", PAGES, ids=page_name)
def test_the_shell_commands_of_a_page_exist_with_their_options(path: Path) -> None:
    for words in command_lines(path.read_text(encoding="utf-8")):
        try:
            parsed(words)
        except SystemExit as error:
            pytest.fail(f"{path.name}: lifesafe {shlex.join(words)}: {error}")


@pytest.mark.parametrize("path", PAGES, ids=page_name)
def test_the_names_and_files_that_a_page_mentions_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for name in re.findall(r"(?:`|^::: )([a-z_]\w*(?:\.\w+)+)(?:[`(]|$)", text, re.MULTILINE):
        if name.split(".")[0] in ROOMS and name not in OTHER:
            try:
                resolve_name(name if name.startswith(("lifesafe.", "theorem1.")) else f"lifesafe.{name}")
            except (AttributeError, ImportError) as error:
                pytest.fail(f"{path.name}: {error}")
    for file in re.findall(r"`((?:tests|benchmarks|examples|research)/[\w/.-]+\.\w+)`", text):
        assert (ROOT / file).exists(), f"{path.name}: there is no {file}"


def test_a_shell_command_with_an_option_that_is_gone_is_found() -> None:
    assert command_lines("```bash\nlifesafe run A --dither 0 | jq .  # why\nls\n```\n") == [
        ["run", "A", "--dither", "0", "|", "jq", "."]
    ]
    for words in (["run", "A", "--dither", "0"], ["improve"]):
        with pytest.raises(SystemExit):
            parsed(words)


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


def test_an_output_belongs_to_the_block_right_above_it() -> None:
    printing, other = "```python\nprint(1)\n```\n", "```text\n1\n```\n"
    assert [block.output for block in blocks(f"{printing}\n{other}")] == ["1\n", None]
    assert [block.output for block in blocks(f"{printing}\nWords.\n\n{other}")] == [None, None]
