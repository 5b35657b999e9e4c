"""run.toml."""

from pathlib import Path

import pytest

from lifesafe.errors import ConfigError
from lifesafe.lifetime import Lifetime
from lifesafe.lifetime.manifest import NAME, begin, differences, read_manifest

MANIFEST = {
    "run": {"task": "A", "limits": [20.0], "dither": 0.0},
    "data": {"file": "a.hdf5"},
    "policy": {"config": {"clip": None}},
}


def test_what_was_written_is_found_again_with_versions(tmp_path: Path) -> None:
    begin(tmp_path / "run", MANIFEST)
    recorded = read_manifest(tmp_path / "run")
    assert recorded is not None
    assert recorded["run"] == MANIFEST["run"]
    assert {"python", "lifesafe", "torch"} <= recorded["versions"].keys()
    assert differences(recorded, MANIFEST) == []


def test_beginning_again_with_the_same_changes_nothing(tmp_path: Path) -> None:
    begin(tmp_path, MANIFEST)
    before = (tmp_path / NAME).read_bytes()
    begin(tmp_path, MANIFEST)
    assert (tmp_path / NAME).read_bytes() == before


def test_a_run_from_before_dither_existed_has_none(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('[run]\ntask = "A"\nlimits = [20.0]\n')
    begin(tmp_path, {"run": MANIFEST["run"]})
    with pytest.raises(ConfigError, match=r"run.dither is 0.0 there, 0.05 here"):
        begin(tmp_path, {"run": {"task": "A", "limits": [20.0], "dither": 0.05}})


def test_a_run_from_before_the_horizon_was_written_down_may_go_on(tmp_path: Path) -> None:
    begin(tmp_path, MANIFEST)
    begin(tmp_path, {"run": {"task": "A", "horizon": 50}})
    begin(tmp_path / "new", {"run": {"task": "A", "horizon": 50}})
    with pytest.raises(ConfigError, match=r"run.horizon is 50 there, 60 here"):
        begin(tmp_path / "new", {"run": {"task": "A", "horizon": 60}})


def test_a_moved_file_is_no_difference_but_all_else_is(tmp_path: Path) -> None:
    begin(tmp_path, MANIFEST)
    begin(tmp_path, {**MANIFEST, "data": {"file": "moved.hdf5"}})
    with pytest.raises(
        ConfigError, match=r"run.task is 'A' there, 'B' here; run.limits is \[20.0\] there, \[10.0\] here"
    ):
        begin(tmp_path, {**MANIFEST, "run": {"task": "B", "limits": [10.0]}})


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("run = [")
    with pytest.raises(ConfigError, match="is not TOML"):
        begin(tmp_path, MANIFEST)


@pytest.mark.parametrize(("text", "missing"), [("", "run.task, "), ("[run]\ntask = 'A'\n", "run.limits, ")])
def test_a_manifest_that_lost_something_is_refused(tmp_path: Path, text: str, missing: str) -> None:
    (tmp_path / NAME).write_text(text)
    with pytest.raises(ConfigError, match=rf"lacks {missing}.*policy.config: .* Restore it from a copy"):
        Lifetime.open(tmp_path)
