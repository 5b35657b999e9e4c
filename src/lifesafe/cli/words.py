"""The words of the shell: messages of the package with Python's names and values turned into options."""

from __future__ import annotations

import re
from collections.abc import Callable

from lifesafe.returns import return_names

_OPTIONS = "stop_at|largest_step|largest|incident|promise|delta|episodes|seed|level|rewards|horizon|start"
_NUMBER = r"-?\d(?:[\d.e+-]*\d)?"
_VALUE = r"(?:-?[\d.e+-]+|nan|-?inf)"
_PYTHON: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    # What messages of the package say in Python's words, and how the shell says it.
    (re.compile(r"Returns\(reward=([^,()]+), costs=\(([^()]*?),?\)\)"), lambda found: _shell_returns(*found.groups())),
    (re.compile(rf"\{{('[^'{{}}]+': {_VALUE}(?:, '[^'{{}}]+': {_VALUE})*)\}}"), lambda found: _shell_target(found[1])),
    (re.compile(rf"\(({_VALUE}(?:, {_VALUE})*),?\)"), lambda found: _shell_numbers(found[1])),
    (re.compile(r"(?<=can be: )\[(\d+(?:, \d+)*)\]"), r"\1"),
    (re.compile(r"rewards = \(low, high\)"), "--rewards LOW HIGH"),
    (re.compile(r"give a plan to begin one"), "`lifesafe run` begins one"),
    (re.compile(rf"(?<![\w.-])({_OPTIONS}) = ['\"](\w+)['\"]"), r"--\1 \2"),
    (
        re.compile(rf"(?<![\w.-])({_OPTIONS}) = ({_NUMBER}(?:, {_NUMBER})*)"),
        lambda found: f"--{found[1]} {found[2].replace(',', '')}",
    ),
    (re.compile(r"(?<![\w.-])(stop_at|largest_step)\b"), r"--\1"),
    (re.compile(rf"(?<![\w.-])({_OPTIONS})(?= (?:must|are given) )"), r"--\1"),
    (re.compile(r"(?<= or )incident(?=, not both)"), "--incident"),
    (re.compile(r"(needs |\()(largest)(?=[:)])"), r"\1--\2"),
)


def shell_words(text: str) -> str:
    """Return a message with the settings named in Python named as options: `stop_at = 40` becomes `--stop-at 40`."""
    for pattern, words in _PYTHON:
        text = pattern.sub(words, text)
    return re.sub(r"--\w+", lambda match: match.group().replace("_", "-"), text)


def in_shell(text: str | None) -> str | None:
    """Return a message in the words of the shell; none for none."""
    return None if text is None else shell_words(text)


def _shell_target(text: str) -> str:
    """Return a setting of knobs in Python as `--begin-at` takes it: `'speed': 0.5` becomes `speed=0.5`."""
    pairs = (part.rpartition("': ") for part in text.split(", "))
    return ",".join(f"{name.lstrip(chr(39))}={float(value):g}" for name, _, value in pairs)


def _shell_returns(reward: str, costs: str) -> str:
    """Return a target of returns in Python as `--begin-at` takes it."""
    values = [reward, *costs.split(", ")]
    names = return_names(len(values) - 1)
    return ",".join(f"{name}={float(value):g}" for name, value in zip(names, values, strict=True))


def _shell_numbers(text: str) -> str:
    """Return the numbers of a tuple of Python as the shell takes them: `1.0, 2.5` becomes `1 2.5`."""
    try:
        return " ".join(f"{float(word):g}" for word in text.split(","))
    except ValueError:
        return f"({text})"
