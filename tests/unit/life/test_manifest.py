"""run.toml."""

from pathlib import Path
from typing import Any

import pytest

from lifesafe._config import from_plain
from lifesafe.errors import ConfigError
from lifesafe.life import Lifetime, Search
from lifesafe.life.manifest import NAME, begin, differences, read_run_toml

MANIFEST: dict[str, Any] = {
    "run": {"task": "A", "limits": [20.0], "horizon": 50, "largest_costs": [1.0], "level": 0.01, "seed": 0},
    "search": {"delta": 0.1, "promise": "trial", "stop_at": None, "episodes": 150, "start": "data"},
    "data": {"file": "a.hdf5", "fingerprint": "1234"},
    "policy": {"kind": "CDT", "config": {"clip": None}},
}


def changed(part: str, **values: Any) -> dict[str, Any]:
    return {**MANIFEST, part: {**MANIFEST[part], **values}}


def test_what_was_written_is_found_again_with_versions(tmp_path: Path) -> None:
    begin(tmp_path / "run", MANIFEST)
    recorded = read_run_toml(tmp_path / "run")
    assert recorded is not None
    assert recorded["run"] == MANIFEST["run"]
    assert {"python", "lifesafe", "torch"} <= recorded["versions"].keys()
    assert differences(recorded, MANIFEST) == []
    before = (tmp_path / "run" / NAME).read_bytes()
    begin(tmp_path / "run", MANIFEST)
    assert (tmp_path / "run" / NAME).read_bytes() == before, "beginning again with the same changes nothing"


def test_a_moved_file_is_no_difference_but_all_else_is(tmp_path: Path) -> None:
    begin(tmp_path, MANIFEST)
    begin(tmp_path, changed("data", file="moved.hdf5"))
    for other, complaint in (
        (changed("run", task="B", limits=[10.0]), r"run.task is 'A' there, 'B' here; run.limits is \[20.0\] there"),
        (changed("search", stop_at=[40.0]), r"search.stop_at is None there, \[40.0\] here"),
        (changed("data", fingerprint="5678"), "data.fingerprint is '1234' there, '5678' here"),
        (changed("policy", config={"clip": 0.1}), "policy.config.clip is None there, 0.1 here"),
        (MANIFEST | {"environment": {"id": "Own-v0"}}, "environment.id is None there, 'Own-v0' here"),
    ):
        with pytest.raises(ConfigError, match=complaint):
            begin(tmp_path, other)


def test_many_differences_are_cut_short(tmp_path: Path) -> None:
    begin(tmp_path, MANIFEST)
    with pytest.raises(ConfigError, match=r"^[^;]*;[^;]*;[^;]* \.\.\.\. Give another directory"):
        begin(tmp_path, changed("run", task="B", limits=[1.0], horizon=3, seed=9))


@pytest.mark.parametrize(
    "search",
    [
        Search(),
        Search(stop_at=40.0, promise="total", delta=0.05),
        Search(incident="horizon", start="calm"),
        Search(incident=(30.0, 40.0), episodes=600),
    ],
)
def test_every_search_is_recorded_and_read_again(tmp_path: Path, search: Search) -> None:
    begin(tmp_path, MANIFEST | {"search": vars(search)})
    recorded = read_run_toml(tmp_path)
    assert recorded is not None
    assert from_plain(Search, recorded["search"]) == search


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("run = [")
    with pytest.raises(ConfigError, match="is not TOML"):
        begin(tmp_path, MANIFEST)


@pytest.mark.parametrize(("text", "missing"), [("", "run.task, "), ("[run]\ntask = 'A'\n", "run.limits, ")])
def test_a_manifest_that_lost_something_is_refused(tmp_path: Path, text: str, missing: str) -> None:
    (tmp_path / NAME).write_text(text)
    with pytest.raises(ConfigError, match=rf"lacks {missing}.*policy.config: .* Restore it from a copy"):
        Lifetime.open(tmp_path)


@pytest.mark.parametrize("part", ["schedule", "monitor"])
def test_a_run_of_version_0_1_is_refused_in_one_sentence(tmp_path: Path, part: str) -> None:
    (tmp_path / NAME).write_text(f"[run]\ntask = 'PointCircle'\nlimits = [20.0]\n\n[{part}]\nepisodes = 20\n")
    with pytest.raises(ConfigError) as found:
        Lifetime.open(tmp_path)
    told = f"{tmp_path} was begun by lifesafe 0.1, which was never released; begin a new run."
    assert str(found.value) == told
