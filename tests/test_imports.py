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
SLOW = {"matplotlib", "rich", "tyro", "scipy.stats", "scipy.optimize"}


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
