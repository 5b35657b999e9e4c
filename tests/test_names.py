"""One word, one thing: a public name stands at the top of one module only."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from lifesafe.cli import COMMANDS

SOURCE = Path(__file__).parents[1] / "src" / "lifesafe"
CALLED = {tuple(where.split(":")) for where, *_ in COMMANDS.values()}
"""Commands of the shell, by module and function: each may share its verb with what it calls."""
SAME = {
    "choose": "the next trial, under one promise and under the other",
    "collect": "a dataset in simulation, by the drivers of PointCircle and by PPO",
    "FORMAT": "the number of a format, each of its own file; the stepper is copied to robots, and imports nothing",
    "Learner": "PPO learns from an environment, the others from logs",
    "M": "the type of a module, for the checker of types",
    "T": "any type, for the checker of types",
    "TASKS": "the tasks of one simulator; all of them are put together in lifesafe.systems",
}
"""Names of several modules that mean the same there, each with what."""


def public(tree: ast.Module) -> Iterator[str]:
    """Yield the public classes, functions and constants at the top of a module."""
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                names = [name]
            case ast.Assign(targets=targets):
                names = [target.id for target in targets if isinstance(target, ast.Name)]
            case _:
                names = []
        yield from (name for name in names if not name.startswith("_"))


def modules_by_name() -> dict[str, list[str]]:
    found = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        for name in public(ast.parse(path.read_text(encoding="utf-8"))):
            if path.name != "__init__.py" and (module, name) not in CALLED:
                found[name].append(module)
    return found


def test_a_public_name_has_one_meaning() -> None:
    several = {name: modules for name, modules in modules_by_name().items() if len(modules) > 1}
    new = {name: modules for name, modules in several.items() if name not in SAME}
    assert not new, "Rename one of each, or put an underscore before it where nobody imports it."
