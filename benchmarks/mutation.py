"""Change random lines of the heart, one at a time, and see whether a test notices: `make mutation`.

A mutant is one small change: a comparison that is turned or loosened, an operator or a constant that is exchanged, a
condition that is negated, a value that is not returned. Docstrings, messages, annotations, decorators and imports are
left alone. A mutant is *noticed* if a test fails, or if the tests take far longer than they did.

First all tests run once, and this file, as a plugin of pytest, writes down which functions each of them calls. A mutant
then meets the tests of its module and those that call the changed function, or for a constant the functions that name
it, the quick ones first; other lines outside of functions meet all tests. Results are written after every mutant, so a
run may be ended at any time. Survivors are listed, to be read: some mutants change nothing. Whoever finds one writes
the reason into the results as "equivalent"; later runs keep it, and do not try that mutant again.

    .venv/bin/python benchmarks/mutation.py --mutants 200 --processes 2
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import copy
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("safety", "journal", "operation")
RESULT = ROOT / "benchmarks" / "results" / "mutation.json"
TESTS = (*(f"tests/unit/{room}" for room in ROOMS), "tests/properties", "tests/formats")
PATIENCE = 5.0  # times as long as the tests took without a mutant, with a minute more

_TURNED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_EXCHANGED = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult, ast.Mod: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change."""

    file: str
    line: int
    was: str
    became: str
    source: str


def places(path: Path) -> dict[int, list[int]]:
    """Return for each line of a module the nodes that can be changed, as numbers of `ast.walk`."""
    tree, found = ast.parse(path.read_text()), {}
    silent = {line for first, last in _silent(tree) for line in range(first, last + 1)}
    for i, node in enumerate(ast.walk(tree)):
        line = getattr(node, "lineno", None)
        if line is not None and line not in silent and _changed(copy(node)) is not None:
            found.setdefault(line, []).append(i)
    return found


def mutant(path: Path, place: int) -> Mutant:
    """Return a module with one node changed."""
    tree = ast.parse(path.read_text())
    node: Any = list(ast.walk(tree))[place]
    line, was, changed = node.lineno, ast.unparse(node), _changed(node)
    assert changed is not None
    return Mutant(str(path.relative_to(ROOT)), line, was[:120], changed[:120], ast.unparse(tree))


def _silent(tree: ast.Module) -> list[tuple[int, int]]:
    """Return the lines whose change no test should have to notice: docstrings, messages and the like."""
    spans = []
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text or isinstance(node, ast.Import | ast.ImportFrom | ast.Raise | ast.JoinedStr):
            spans.append((node.lineno, node.end_lineno or node.lineno))
        annotations = (getattr(node, "annotation", None), getattr(node, "returns", None))
        guards = [*annotations, *getattr(node, "decorator_list", [])]
        spans += [(each.lineno, each.lineno) for each in guards if isinstance(each, ast.expr)]
    return spans


def _changed(node: ast.AST) -> str | None:
    """Change a node in place and return its new text; none if this kind of node is left alone."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in _TURNED:
            node.ops = [_TURNED[type(op)]()]
        case ast.BinOp(op=op) if type(op) in _EXCHANGED:
            node.op = _EXCHANGED[type(op)]()
        case ast.BoolOp(op=op):
            node.op = ast.Or() if isinstance(op, ast.And) else ast.And()
        case ast.UnaryOp(op=ast.Not()):
            node.op = ast.UAdd()
        case ast.If(test=test) | ast.IfExp(test=test):
            node.test = ast.UnaryOp(op=ast.Not(), operand=test)
        case ast.Constant(value=bool()):
            node.value = not node.value
        case ast.Constant(value=int() | float()):
            node.value = node.value + 1 if node.value + 1 != node.value else 2 * node.value
        case ast.Return(value=value) if value is not None and not isinstance(value, ast.Constant):
            node.value = ast.Constant(None)
        case _:
            return None
    ast.fix_missing_locations(node)
    return ast.unparse(node)


def function_of(tree: ast.AST, line: int, around: str = "") -> str | None:
    """Return the qualified name of the innermost function around a line; none outside of functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.lineno <= line <= (node.end_lineno or 0):
            name, is_class = f"{around}{node.name}", isinstance(node, ast.ClassDef)
            inner = function_of(node, line, f"{name}." if is_class else f"{name}.<locals>.")
            return inner if inner is not None or is_class else name
    return None


def changed_functions(mutant: Mutant) -> set[str]:
    """Return the functions that a mutant changes: the one around its line, or those that name its constant."""
    tree = ast.parse((ROOT / mutant.file).read_text())
    if (name := function_of(tree, mutant.line)) is not None:
        return {f"{mutant.file}:{name}"}
    lines = [each for each in tree.body if isinstance(each, ast.Assign) and each.lineno == mutant.line]
    constants = {node.id for line in lines for target in line.targets for node in ast.walk(target)
                 if isinstance(node, ast.Name)}  # fmt: skip
    found = set()
    for path in (file for room in ROOMS for file in (ROOT / "src" / "lifesafe" / room).glob("*.py")):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id in constants and (name := function_of(tree, node.lineno)):
                found.add(f"{path.relative_to(ROOT)}:{name}")
    return found


def tests_for(mutant: Mutant, reach: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the tests that may notice a mutant, file by file: those of its module, then the quick ones."""
    module, changed = Path(mutant.file), changed_functions(mutant)
    own = f"tests/unit/{module.parent.name}/test_{module.stem}.py"
    chosen = [each for each in reach if each["file"] == own or not changed.isdisjoint(each["calls"])]
    if all(changed.isdisjoint(each["calls"]) for each in chosen):  # only called in other processes, if at all
        chosen = reach
    seconds: dict[str, float] = {}
    for each in chosen:
        seconds[each["file"]] = seconds.get(each["file"], 0.0) + each["seconds"]

    def order(each: dict[str, Any]) -> tuple[bool, float, str, float]:
        return each["file"] != own, seconds[each["file"]], each["file"], each["seconds"]

    return sorted(chosen, key=order)


def noticed_by(mutant: Mutant, reach: list[dict[str, Any]]) -> str | None:
    """Return the first test that fails with a mutant; none if all pass."""
    with tempfile.TemporaryDirectory() as place:
        source = Path(place) / "src"
        _link_tree(ROOT / "src" / "lifesafe", source / "lifesafe", ROOT / mutant.file)
        (source / Path(mutant.file).relative_to("src")).write_text(mutant.source)
        tests, wanted = tests_for(mutant, reach), Path(place) / "tests.json"
        wanted.write_text(json.dumps([each["test"] for each in tests]))
        seconds, files = 60 + PATIENCE * sum(each["seconds"] for each in tests), [each["file"] for each in tests]
        try:
            done = _pytest(source, list(dict.fromkeys(files)), seconds, WANTED=wanted)
        except subprocess.TimeoutExpired:
            return "took too long"
        if done.returncode == 0:
            return None
        lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return lines[0][:200] if lines else f"exit code {done.returncode}"


def reached(seconds: float = 3600.0) -> list[dict[str, Any]]:
    """Run all tests of the heart and return for each what it calls of the heart, and how long it takes."""
    with tempfile.TemporaryDirectory() as place:
        found = Path(place) / "calls.json"
        done = _pytest(ROOT / "src", ["-o", _QUICK, *TESTS], seconds, CALLS=found)
        if done.returncode != 0:
            raise SystemExit(f"The tests fail without any mutant:\n{done.stdout[-3000:]}")
        rows: list[dict[str, Any]] = json.loads(found.read_text())
        return rows


def _pytest(source: Path, tests: list[str], seconds: float, **settings: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": f"{source}{os.pathsep}{Path(__file__).parent}", "CI": "1"}
    environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {f"MUTATION_{name}": str(path) for name, path in settings.items()}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "mutation", *tests]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds, check=False
    )


# --- the plugin of pytest

_QUICK = "addopts=-m 'not slow' --strict-markers --import-mode=importlib"  # without the checks of shapes
_calls: dict[str, dict[int, CodeType]] = {}
_rows: list[dict[str, Any]] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the wanted tests only, in their order."""
    if "MUTATION_WANTED" in os.environ:
        names = json.loads(Path(os.environ["MUTATION_WANTED"]).read_text())
        place = {name: i for i, name in enumerate(names)}
        items[:] = sorted((item for item in items if item.nodeid in place), key=lambda item: place[item.nodeid])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Note what fixtures call: all tests of a file may rest on it."""
    with _noted(item.nodeid.partition("::")[0]):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Note what a test calls, and how long it takes."""
    began = time.perf_counter()
    with _noted(item.nodeid):
        result = yield
    _rows.append({"test": item.nodeid, "seconds": time.perf_counter() - began})
    return result


def pytest_sessionfinish() -> None:
    """Write down what was noted."""
    if "MUTATION_CALLS" in os.environ:
        for row in _rows:
            row["file"] = row["test"].partition("::")[0]
            calls = (_calls.get(row["test"], {}) | _calls.get(row["file"], {})).values()
            places = [(os.path.relpath(code.co_filename, ROOT), code.co_qualname) for code in calls]
            row["calls"] = sorted({f"{file}:{name}" for file, name in places if file.startswith("src/lifesafe")})
        Path(os.environ["MUTATION_CALLS"]).write_text(json.dumps(_rows))


@contextmanager
def _noted(name: str) -> Iterator[None]:
    """Note the functions of the heart that are called meanwhile."""
    calls = _calls.setdefault(name, {})

    def note(frame: FrameType, event: str, argument: Any) -> None:
        calls[id(frame.f_code)] = frame.f_code

    is_wanted = "MUTATION_CALLS" in os.environ
    if is_wanted:
        threading.settrace(note)
        sys.settrace(note)
    try:
        yield
    finally:
        if is_wanted:
            sys.settrace(None)
            threading.settrace(None)


def _link_tree(source: Path, target: Path, changed: Path) -> None:
    """Make a package of links to another one, apart from one file."""
    target.mkdir(parents=True)
    for each in source.iterdir():
        if each.name == "__pycache__":
            continue
        if each.is_dir() and changed.is_relative_to(each):
            _link_tree(each, target / each.name, changed)
        elif each != changed:
            (target / each.name).symlink_to(each)


def main() -> None:
    """Try some mutants and write what became of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=200, help="how many lines to change (200)")
    parser.add_argument("--seed", type=int, default=0, help="decides which (0)")
    parser.add_argument("--processes", type=int, default=2, help="how many at once (2)")
    parser.add_argument("--out", type=Path, default=RESULT, help="file of the results")
    parser.add_argument("--reach", type=Path, help="file of what each test calls, made if it is missing")
    options = parser.parse_args()
    if options.reach is not None and options.reach.exists():
        reach = json.loads(options.reach.read_text())
    else:
        reach = reached()
        if options.reach is not None:
            options.reach.write_text(json.dumps(reach))
    files = [file for room in ROOMS for file in sorted((ROOT / "src" / "lifesafe" / room).glob("*.py"))]
    lines = [(file, nodes) for file in files for _, nodes in sorted(places(file).items())]
    rng = random.Random(options.seed)
    rng.shuffle(lines)
    chosen = [mutant(file, rng.choice(nodes)) for file, nodes in lines[: options.mutants]]
    before = json.loads(options.out.read_text())["rows"] if options.out.exists() else []
    known = {(row["file"], row["was"], row["became"]): row["equivalent"] for row in before if "equivalent" in row}
    began, rows = time.monotonic(), []

    def attempt(tried: Mutant) -> dict[str, Any]:
        row = {name: value for name, value in asdict(tried).items() if name != "source"}
        reason = known.get((tried.file, tried.was, tried.became))
        if reason is not None:
            return row | {"noticed": None, "equivalent": reason}
        return row | {"noticed": noticed_by(tried, reach)}

    with ThreadPoolExecutor(options.processes) as pool:
        for number, row in enumerate(pool.map(attempt, chosen), start=1):
            rows.append(row)
            noticed, same = sum(row["noticed"] is not None for row in rows), sum("equivalent" in row for row in rows)
            document = {"mutants": number, "seed": options.seed, "noticed": noticed, "equivalent": same, "rows": rows}
            options.out.write_text(json.dumps(document, indent=1) + "\n")
            word = "noticed" if row["noticed"] is not None else "the same" if "equivalent" in row else "SURVIVED"
            print(f"{number:4} {word:8} {row['file']}:{row['line']}  {row['was']!r} -> {row['became']!r}", flush=True)
    print(f"{noticed} of {len(rows)} noticed, {time.monotonic() - began:.0f} s: {options.out}")


if __name__ == "__main__":
    main()
