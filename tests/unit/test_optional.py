"""Optional dependencies are imported, or the message says how to get them."""

import json
from pathlib import Path

import pytest

from lifesafe._optional import require
from lifesafe.errors import DependencyError


def refusal(module: str) -> DependencyError:
    with pytest.raises(DependencyError) as caught:
        require(module, name="Bullet-Safety-Gym", extra="bullet", user="Task 'CarCircle'")
    return caught.value


def test_an_installed_module_is_returned() -> None:
    assert require("json", name="JSON", extra="dev", user="This test") is json


@pytest.mark.parametrize("module", ["no_such_module", "no_such_module.inner", "json.no_such_module"])
def test_a_missing_module_is_named_with_the_command_that_installs_it(module: str) -> None:
    error = refusal(module)
    assert str(error) == "Task 'CarCircle' needs Bullet-Safety-Gym: pip install \"lifesafe[bullet]\"."
    assert error.name == module


def test_a_module_that_lacks_another_names_that_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lacking_module.py").write_text("import no_such_module\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "which misses 'no_such_module': pip install" in str(refusal("lacking_module"))


def test_a_broken_module_gives_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_module.py").write_text("from json import no_such_name\n")
    monkeypatch.syspath_prepend(tmp_path)
    message = str(refusal("broken_module"))
    assert "installed but does not import" in message
    assert "no_such_name" in message
