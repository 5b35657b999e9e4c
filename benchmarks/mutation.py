"""Change random lines of the heart, one at a time, and see whether a test notices: `make mutation`.

A mutant is one small change: a comparison that is turned or loosened, an operator or a constant that is exchanged, a
condition that is negated, a value that is not returned. Docstrings, messages, annotations and imports are left alone. A
mutant is *noticed* if a test fails, or if the tests take far longer than they did. Tests of the changed module run
first. Survivors are listed, to be read: some mutants change nothing.

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
import time
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("safety", "journal", "operation")
RESULT = ROOT / "benchmarks" / "results" / "mutation.json"
REST = ("tests/unit/safety", "tests/unit/journal", "tests/unit/operation", "tests/properties", "tests/contracts")
PATIENCE = 600.0  # seconds for all tests of one mutant; they take a tenth of it

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


def mutants(path: Path) -> list[Mutant]:
    """Return every mutant of a module."""
    text = path.read_text()
    tree = ast.parse(text)
    places = [i for i, node in enumerate(ast.walk(tree)) if _changed(deepcopy(node)) is not None]
    silent = _silent(tree)
    found = []
    for place in places:
        copy = deepcopy(tree)
        node = list(ast.walk(copy))[place]
        line = getattr(node, "lineno", None)
        if line is None or any(first <= line <= last for first, last in silent):
            continue
        was = ast.unparse(node)
        changed = _changed(node)
        assert changed is not None
        found.append(Mutant(str(path.relative_to(ROOT)), line, was[:120], changed[:120], ast.unparse(copy)))
    return found


def _silent(tree: ast.Module) -> list[tuple[int, int]]:
    """Return the lines whose change no test should have to notice: docstrings, messages, imports, annotations."""
    spans = []
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text or isinstance(node, ast.Import | ast.ImportFrom | ast.Raise | ast.JoinedStr):
            spans.append((node.lineno, node.end_lineno or node.lineno))
        annotations = (getattr(node, "annotation", None), getattr(node, "returns", None))
        spans += [(each.lineno, each.lineno) for each in annotations if isinstance(each, ast.expr)]
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
            node.value = node.value + 1
        case ast.Return(value=value) if value is not None and not isinstance(value, ast.Constant):
            node.value = ast.Constant(None)
        case _:
            return None
    ast.fix_missing_locations(node)
    return ast.unparse(node)


def noticed_by(mutant: Mutant) -> str | None:
    """Return the first test that fails with a mutant; none if all pass."""
    with tempfile.TemporaryDirectory() as place:
        source = Path(place) / "src"
        _link_tree(ROOT / "src" / "lifesafe", source / "lifesafe", ROOT / mutant.file)
        changed = source / Path(mutant.file).relative_to("src")
        changed.write_text(mutant.source)
        module = Path(mutant.file)
        own = ROOT / "tests" / "unit" / module.parent.name / f"test_{module.stem}.py"
        first = [str(own)] if own.exists() else []
        environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        for tests in (first, list(REST)):
            if not tests:
                continue
            command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
            try:
                done = subprocess.run(
                    command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
                )
            except subprocess.TimeoutExpired:
                return "took too long"
            if done.returncode != 0:
                lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
                return lines[0][:200] if lines else f"exit code {done.returncode}"
    return None


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
    options = parser.parse_args()
    files = [file for room in ROOMS for file in sorted((ROOT / "src" / "lifesafe" / room).glob("*.py"))]
    lines: dict[tuple[str, int], list[Mutant]] = {}
    for mutant in (each for file in files for each in mutants(file)):
        lines.setdefault((mutant.file, mutant.line), []).append(mutant)
    rng = random.Random(options.seed)
    chosen = [rng.choice(lines[place]) for place in rng.sample(sorted(lines), options.mutants)]
    began, survived, rows = time.monotonic(), 0, []
    with ThreadPoolExecutor(options.processes) as pool:
        for number, (mutant, found) in enumerate(zip(chosen, pool.map(noticed_by, chosen), strict=True), start=1):
            survived += found is None
            rows.append(
                {name: value for name, value in asdict(mutant).items() if name != "source"} | {"noticed": found}
            )
            word = "SURVIVED" if found is None else "noticed"
            print(f"{number:4} {word:8} {mutant.file}:{mutant.line}  {mutant.was!r} -> {mutant.became!r}", flush=True)
    document = {"mutants": len(chosen), "seed": options.seed, "noticed": len(chosen) - survived, "rows": rows}
    options.out.write_text(json.dumps(document, indent=1) + "\n")
    print(f"{len(chosen) - survived} of {len(chosen)} noticed, {time.monotonic() - began:.0f} s: {options.out}")


if __name__ == "__main__":
    main()
