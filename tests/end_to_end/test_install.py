"""The package as others install it: sizes, what works without extras, and how a missing extra names itself."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOWNLOAD, INSTALLED = 70, 260  # MB at most, without extras
BEGIN = ["--axis", "speed=0:2:m/s", "--begin-at", "speed=0.5", "--rewards", "0", "900", "--limit", "20"]

pytestmark = pytest.mark.slow  # installs two environments


def done(*words: object, cwd: Path | None = None, code: int = 0) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run([*map(str, words)], cwd=cwd, capture_output=True, text=True, check=False)
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran


def megabytes(directory: Path) -> float:
    """Return how large the files of a directory are, what Python compiled at the installation included."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file()) / 1e6


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the wheel and the source distribution."""
    place = tmp_path_factory.mktemp("dist")
    done(sys.executable, "-m", "hatchling", "build", "--directory", place, cwd=ROOT)
    return {path.suffix: path for path in place.iterdir()}


def environment(place: Path) -> Path:
    done(sys.executable, "-m", "venv", place)
    return place / "bin"


def pip(binaries: Path, *words: object) -> None:
    quiet = ("--quiet", "--disable-pip-version-check")
    done(binaries / "python", "-m", "pip", *words[:1], *quiet, "--constraint", ROOT / "constraints.txt", *words[1:])


def test_without_extras_a_real_system_is_searched_and_what_needs_more_says_so(
    built: dict[str, Path], tmp_path: Path
) -> None:
    binaries, wheels = environment(tmp_path / "bare"), tmp_path / "wheels"
    before = megabytes(tmp_path / "bare")
    pip(binaries, "download", "--dest", wheels, built[".whl"])
    pip(binaries, "install", "--no-index", "--find-links", wheels, built[".whl"])
    download, installed = megabytes(wheels), megabytes(tmp_path / "bare") - before
    print(f"\nwithout extras: {download:.1f} MB to download, {installed:.1f} MB installed")
    assert download <= DOWNLOAD
    assert installed <= INSTALLED

    lifesafe = binaries / "lifesafe"
    assert done(lifesafe, "--version").stdout == "lifesafe 0.2.0\n"
    asked = json.loads(done(lifesafe, "ask", "lab", *BEGIN, cwd=tmp_path).stdout)
    episodes = [{"reward": 100.0, "cost": 1.0}] * asked["episodes"]
    (tmp_path / "episodes.json").write_text(json.dumps(episodes))
    done(lifesafe, "tell", "lab", "episodes.json", "--trial", asked["trial"], cwd=tmp_path)
    for words in ("plan", "report", "journal verify", "journal export"):
        done(lifesafe, *words.split(), "lab", cwd=tmp_path)
    assert (tmp_path / "lab/report.html").is_file()
    done(lifesafe, "tasks")
    for words in ("run --help", "train --help", "bench table --help"):
        done(lifesafe, *words.split())

    needs = {
        "train PointCircle": "lifesafe[train]",
        "run PointCircle": "lifesafe[train]",
        "demo": "lifesafe[train]",
        "data collect PointCircle": "lifesafe[train]",
        "bench run smoke": "lifesafe[train]",
        "bench figure nowhere": "lifesafe[lab]",
        "export lab": None,
    }
    for words, extra in needs.items():
        said = done(lifesafe, *words.split(), cwd=tmp_path, code=2).stderr
        assert said.count("\n") == 1, said
        assert said.startswith("lifesafe: ")
        assert extra is None or f'pip install "{extra}"' in said
    python = done(binaries / "python", "-c", "import lifesafe.policies", code=1).stderr
    assert 'pip install "lifesafe[train]"' in python


def test_with_extras_a_policy_is_trained_from_the_source_distribution(built: dict[str, Path], tmp_path: Path) -> None:
    binaries = environment(tmp_path / "full")
    before = megabytes(tmp_path / "full")
    pip(binaries, "install", f"{built['.gz']}[train]")
    print(f"\nwith lifesafe[train]: {megabytes(tmp_path / 'full') - before:.1f} MB installed")
    quick = ["--set", "steps=3", "--set", "batch=16", "--set", "width=8", "--set", "heads=2"]
    done(binaries / "lifesafe", "train", "PointCircle", *quick, "--out", "run", cwd=tmp_path)
    assert (tmp_path / "run/policy/manifest.json").is_file()
