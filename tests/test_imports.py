"""What importing a package brings along, and which layer may import which."""

import importlib
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# These train or run what was trained. Everything else must do without PyTorch, the command line too.
TRAINING = {"policies", "lab", "life"}

# The import linter does not see what a package's __init__ brings along; a fresh interpreter does.
FOREIGN = {"torch", "gpytorch", "matplotlib", "pandas", "sklearn", "gymnasium", "h5py", "minari", "mujoco", "pybullet"}
SLOW = {"matplotlib", "rich", "tyro", "scipy.stats", "scipy.optimize", "http.client"}


def module_names() -> list[str]:
    """Return the names of all modules; a folder that lacks its __init__ is not passed over."""
    source = ROOT / "src"
    files = (path for path in source.rglob("*.py") if path.name != "__main__.py")
    parts = (path.parent if path.name == "__init__.py" else path.with_suffix("") for path in files)
    return sorted(".".join(path.relative_to(source).parts) for path in parts)


def torch_free() -> list[str]:
    """Return lifesafe and its direct parts that must do without PyTorch."""
    parts = (name for name in module_names() if name.count(".") <= 1)
    return [name for name in parts if name.partition(".")[2] not in TRAINING]


@cache
def loaded_by(name: str) -> frozenset[str]:
    script = f"import sys, json, {name}; print(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return frozenset(json.loads(done.stdout))


@pytest.mark.parametrize("name", module_names())
def test_every_module_can_be_imported(name: str) -> None:
    importlib.import_module(name)  # an optional package is asked for when it is used, not when a module is loaded


@pytest.mark.parametrize("name", torch_free())
def test_deciding_does_not_load_the_tools_of_learning(name: str) -> None:
    assert not loaded_by(name) & FOREIGN


def test_importing_lifesafe_loads_nothing_slow() -> None:
    assert not loaded_by("lifesafe") & SLOW


def test_layers_point_down() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


WITHOUT = """
import sys
class Missing:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] == sys.argv[1]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing)
from lifesafe.cli import main
print(main(sys.argv[2:]))
"""


@pytest.mark.parametrize(
    ("missing", "extra", "commands"),
    [
        (
            "torch",
            "train",
            ("demo", "train PointCircle", "run PointCircle", "data collect PointCircle", "bench run smoke"),
        ),
        ("matplotlib", "lab", ("bench figure nowhere",)),
    ],
)
def test_a_command_that_needs_an_extra_names_it(
    missing: str, extra: str, commands: tuple[str, ...], tmp_path: Path
) -> None:
    for words in commands:
        command = [sys.executable, "-c", WITHOUT, missing, *words.split()]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout == "2\n"
        assert done.stderr.startswith("lifesafe: ")
        assert done.stderr.endswith(f'pip install "lifesafe[{extra}]".\n')
        assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
