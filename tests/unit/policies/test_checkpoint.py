import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from lifesafe._files import sha256_file
from lifesafe.errors import CheckpointError, ConfigError
from lifesafe.lab.baselines import RvSConfig
from lifesafe.lab.baselines.rvs import RvS
from lifesafe.policies import StoredPolicy, load, register_policy, save
from small_data import small_dataset, small_targets

FILES = ("config.json", "weights.safetensors", "plain.json", "manifest.json")


@pytest.fixture(scope="module")
def policy() -> StoredPolicy:
    return RvSConfig(width=8).build(small_dataset(), seed=0).policy()


@pytest.fixture
def saved(policy: StoredPolicy, tmp_path: Path) -> Path:
    save(policy, tmp_path / "policy")
    return tmp_path / "policy"


def sign(directory: Path) -> None:
    """Write the checksums of the files as they are now."""
    manifest = json.loads((directory / "manifest.json").read_text())
    manifest["files"] = {name: sha256_file(directory / name) for name in FILES[:3]}
    (directory / "manifest.json").write_text(json.dumps(manifest))


def edit(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_a_run_directory_can_be_loaded_too(policy: StoredPolicy, saved: Path) -> None:
    seen, targets = np.zeros((3, 3), dtype=np.float32), small_targets()
    np.testing.assert_array_equal(load(saved.parent).actor(targets).act(seen), policy.actor(targets).act(seen))


def test_parents_are_made_and_an_empty_directory_is_used(policy: StoredPolicy, tmp_path: Path) -> None:
    save(policy, tmp_path / "a" / "b" / "policy")
    load(tmp_path / "a" / "b" / "policy")
    (tmp_path / "empty").mkdir()
    save(policy, tmp_path / "empty")
    load(tmp_path / "empty")


def test_what_is_there_is_not_overwritten(policy: StoredPolicy, saved: Path) -> None:
    before = (saved / "manifest.json").read_bytes()
    with pytest.raises(CheckpointError, match=r"exists already; give another directory"):
        save(policy, saved)
    assert (saved / "manifest.json").read_bytes() == before


def test_a_missing_policy_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"nowhere holds no saved policy: manifest\.json is missing"):
        load(tmp_path / "nowhere")


@pytest.mark.parametrize("name", FILES[:3])
def test_a_changed_truncated_or_missing_file_is_refused(saved: Path, name: str) -> None:
    content, chance = (saved / name).read_bytes(), random.Random(0)
    for _ in range(20):
        place = chance.randrange(len(content))
        changed = bytearray(content)
        changed[place] ^= 1 << chance.randrange(8)
        (saved / name).write_bytes(bytes(changed))
        with pytest.raises(CheckpointError, match=rf"{name} is damaged or was edited"):
            load(saved)
    for length in (0, 1, len(content) // 2, len(content) - 2):
        (saved / name).write_bytes(content[:length])
        with pytest.raises(CheckpointError, match=rf"{name} is damaged or was edited"):
            load(saved)
    (saved / name).unlink()
    with pytest.raises(CheckpointError, match=rf"{name} is missing\. Restore it from a copy"):
        load(saved)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "damaged or was edited"),
        ('{"format": 1', "damaged or was edited"),
        ("[]", "does not hold a table"),
        ("3", "does not hold a table"),
        ("{}", "has format None"),
        ('{"format": 2}', r"has format 2; this version of lifesafe reads 1\. Upgrade lifesafe"),
        ('{"format": 1}', "does not list"),
        ('{"format": 1, "files": []}', "does not list"),
        ("[" * 100_000, "not JSON"),
    ],
    ids=lambda value: value[:20],
)
def test_a_strange_manifest_is_refused(saved: Path, content: str, message: str) -> None:
    (saved / "manifest.json").write_text(content)
    with pytest.raises(CheckpointError, match=rf"manifest\.json .*{message}"):
        load(saved)


def test_a_file_cannot_name_code_to_run(saved: Path) -> None:
    for name in ("os:system", "lifesafe.lab.baselines.rvs:RvS", "RVS", None, ["RvS"]):
        edit(saved / "config.json", policy=name)
        sign(saved)
        with pytest.raises(CheckpointError, match="unknown kind"):
            load(saved)


def test_weights_that_are_no_weights_are_refused(saved: Path) -> None:
    for content in (b"", b"\x80\x04.", b"\xff" * 64):
        (saved / "weights.safetensors").write_bytes(content)
        sign(saved)
        with pytest.raises(CheckpointError, match="not a safetensors file"):
            load(saved)


def test_parts_that_do_not_fit_are_refused(saved: Path) -> None:
    weights = safetensors.torch.load_file(saved / "weights.safetensors")
    safetensors.torch.save_file({"log_stds": weights["log_stds"]}, saved / "weights.safetensors")
    sign(saved)
    with pytest.raises(CheckpointError, match="do not fit together"):
        load(saved)
    safetensors.torch.save_file({**weights, "log_stds": torch.zeros(7)}, saved / "weights.safetensors")
    sign(saved)
    with pytest.raises(CheckpointError, match="do not fit together"):
        load(saved)


def test_settings_of_another_version_are_refused(saved: Path) -> None:
    edit(saved / "config.json", config={"widht": 8})
    sign(saved)
    with pytest.raises(CheckpointError, match=r"unknown key 'widht'.*Did you mean 'width'"):
        load(saved)


def test_a_full_disk_leaves_nothing_behind(small_disk: Path) -> None:
    large = RvSConfig(width=300).build(small_dataset(), seed=0).policy()
    with pytest.raises(CheckpointError, match=r"No space left on device.*Make room or give another directory"):
        save(large, small_disk / "policy")
    assert list(small_disk.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(policy: StoredPolicy, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=r"Cannot write to .*policy: Not a directory"):
        save(policy, tmp_path / "file" / "policy")
    with pytest.raises(CheckpointError, match="exists already"):
        save(policy, tmp_path / "file")


@dataclass(frozen=True, kw_only=True)
class OwnConfig:
    steps: int = 1


class Own(RvS):
    """A policy that lifesafe does not know."""


def test_a_policy_of_an_own_class_is_saved_once_it_is_registered(tmp_path: Path, policy: StoredPolicy) -> None:
    own = Own.from_parts(RvSConfig(width=8), policy.tensors(), policy.plain())
    with pytest.raises(CheckpointError, match=r"Own cannot be saved yet: call lifesafe\.policies\.register"):
        save(own, tmp_path / "own")
    with pytest.raises(ConfigError, match="already stands for RvS"):
        register_policy("RvS", Own, OwnConfig)
    with pytest.raises(ConfigError, match="in one module"):
        register_policy("Own", Own, RvSConfig)
