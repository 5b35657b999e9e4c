"""Commands run in this process, with what they print."""

import json
from typing import Any, NamedTuple

import pytest

from lifesafe.cli import main


class Shown(NamedTuple):
    """What a command has printed, and its exit code."""

    out: str
    err: str
    code: int

    @property
    def json(self) -> Any:
        """What it has printed for machines."""
        return json.loads(self.out)


class Shell:
    """Runs commands; each must end with the exit code that is expected, if one is."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str, code: int | None = 0) -> Shown:
        self._capsys.readouterr()
        ended = main(words)
        shown = Shown(*self._capsys.readouterr(), ended)
        assert code in (None, ended), shown.err
        return shown
