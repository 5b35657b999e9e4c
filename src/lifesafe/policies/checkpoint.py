"""Save a policy to a directory, and load it again.

The directory holds `config.json` (which policy, and its settings), `weights.safetensors`, `plain.json` (sizes, scales)
and `manifest.json` with the SHA-256 of the others. It is written under another name and then renamed, so it is there
whole or not at all. Nothing in it is code: loading runs only classes that are listed here or were registered.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from lifesafe._config import canonical_json, from_plain, nearest, to_plain
from lifesafe._files import sha256, sync_directory, write_atomic
from lifesafe._kinds import KINDS, Kind, register_kind
from lifesafe.errors import CheckpointError, ConfigError
from lifesafe.policies.learner import StoredPolicy

FORMAT = 1
MANIFEST = "manifest.json"
CONFIG, WEIGHTS, PLAIN = "config.json", "weights.safetensors", "plain.json"

_WAY_OUT = "Restore it from a copy, or train again into another directory."


def register_policy(name: str, policy: type[StoredPolicy], config: type[Any]) -> None:
    """Make policies of your own class savable, under a name that is written to the files.

    Args:
        name: The name; once files carry it, keep it.
        policy: The class; it must be found by its name in its module.
        config: Its frozen dataclass of settings.

    Raises:
        ConfigError: If the name stands for another class already.
    """
    if policy.__module__ != config.__module__ or "." in policy.__qualname__ + config.__qualname__:
        raise ConfigError(f"{policy.__qualname__} and its config must stand in one module, at its top level.")
    register_kind(name, Kind(policy.__module__, policy.__qualname__, config.__qualname__))


def save(policy: StoredPolicy, directory: str | Path, *, training: Mapping[str, Any] | None = None) -> None:
    """Write a policy to a new directory, whole or not at all.

    Args:
        policy: Any policy that `train` returned, or one of a registered class.
        directory: Where to; it must not exist yet, or be empty.
        training: What it was trained from, for the manifest: plain values.

    Raises:
        CheckpointError: If there is something in the directory, or it cannot be written.
    """
    directory = Path(directory)
    config = {"policy": policy_kind(policy), "config": to_plain(policy.config)}
    files = {
        CONFIG: json_bytes(config),
        WEIGHTS: tensor_bytes(policy.tensors()),
        PLAIN: json_bytes(policy.plain()),
    }
    manifest = {
        "format": FORMAT,
        "files": {name: sha256(content) for name, content in files.items()},
        "versions": {package: version(package) for package in ("lifesafe", "torch")},
        "training": None if training is None else dict(training),
    }
    check_free(directory)
    with writing_whole(directory) as unfinished:
        for name, content in files.items():
            write_atomic(unfinished / name, content)
        write_atomic(unfinished / MANIFEST, json_bytes(manifest))


def load(directory: str | Path) -> StoredPolicy:
    """Return the policy saved in a directory, or in its `policy` folder if it is that of a training run.

    Raises:
        CheckpointError: If there is none, it is not whole, or it does not fit together.
    """
    directory = policy_folder(directory)
    manifest = read_manifest(directory)
    files = {name: read_checked(directory / name, _listed(manifest, directory, name)) for name in (CONFIG, PLAIN)}
    config, plain = (parse(directory / name, content) for name, content in files.items())
    tensors = read_tensors(directory / WEIGHTS, _listed(manifest, directory, WEIGHTS))
    name = config.get("policy")
    policy_class: type[StoredPolicy]
    policy_class, config_class = _known(name, f"{directory / CONFIG} holds").classes()
    try:
        return policy_class.from_parts(
            from_plain(config_class, config["config"], str(directory / CONFIG)), tensors, plain
        )
    except (KeyError, ValueError, TypeError, RuntimeError) as error:
        raise CheckpointError(f"The parts of the policy in {directory} do not fit together: {error}") from error


def policy_folder(directory: str | Path) -> Path:
    """Return the directory, or its `policy` folder if it is that of a training run."""
    directory = Path(directory)
    inner = directory / "policy"
    return inner if not (directory / MANIFEST).exists() and (inner / MANIFEST).exists() else directory


def policy_kind(value: object) -> str:
    """Return the name that a policy, or those trained with a config, have in files.

    Raises:
        CheckpointError: If the class is not known.
    """
    module, name = type(value).__module__, type(value).__qualname__
    for kind, known in KINDS.items():
        if module == known.module and name in (known.policy, known.config):
            return kind
    raise CheckpointError(
        f"Policies of class {module}.{name} cannot be saved yet: call lifesafe.policies.register_policy first."
    )


def config_class(name: str) -> type[Any]:
    """Return the class of the settings of policies that have this name in files.

    Raises:
        CheckpointError: If there is no such kind of policy.
    """
    found: type[Any] = _known(name, "There is").classes()[1]
    return found


def _known(name: object, where: str) -> Kind:
    if not isinstance(name, str) or name not in KINDS:
        raise CheckpointError(
            f"{where} a policy of the unknown kind {name!r}.{nearest(str(name), KINDS)} Import lifesafe.lab first for"
            " the methods that ours are compared with, or your module that calls lifesafe.policies.register_policy."
        )
    return KINDS[name]


def read_manifest(directory: Path) -> dict[str, Any]:
    """Return the manifest of a saved policy.

    Raises:
        CheckpointError: If it is missing, damaged or of another format.
    """
    path = directory / MANIFEST
    if not path.exists():
        raise CheckpointError(f"{directory} holds no saved policy: {MANIFEST} is missing.")
    manifest = parse(path, read(path))
    if manifest.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} has format {manifest.get('format')!r}; this version of lifesafe reads {FORMAT}. Upgrade lifesafe."
        )
    return manifest


def tensor_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Return tensors as the content of a safetensors file."""
    # Copies, since safetensors refuses tensors that share memory.
    return safetensors.torch.save(
        {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    )


def read_tensors(path: Path, digest: str) -> dict[str, Tensor]:
    """Return the tensors in a safetensors file whose SHA-256 is known.

    Raises:
        CheckpointError: If the file is missing or damaged.
    """
    content = read_checked(path, digest)
    try:
        return safetensors.torch.load(content)
    except (SafetensorError, KeyError, ValueError) as error:
        raise CheckpointError(f"{path} is not a safetensors file: {error}. {_WAY_OUT}") from error


def read_checked(path: Path, digest: str) -> bytes:
    """Return the content of a file whose SHA-256 is known.

    Raises:
        CheckpointError: If the file is missing or has another content.
    """
    content = read(path)
    if sha256(content) != digest:
        raise CheckpointError(f"{path} is damaged or was edited: its SHA-256 is not the recorded one. {_WAY_OUT}")
    return content


def check_free(directory: Path) -> None:
    """Refuse a directory that has something in it.

    Raises:
        CheckpointError: If it has.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise CheckpointError(f"{directory} exists already; give another directory, or remove this one first.")


@contextlib.contextmanager
def writing_whole(directory: Path) -> Iterator[Path]:
    """Give a directory to write into that gets its name in the end, and is removed if something goes wrong."""
    directory = directory.absolute()
    unfinished = directory.with_name(f".{directory.name}.unfinished")
    with writing(directory):
        shutil.rmtree(unfinished, ignore_errors=True)
        try:
            unfinished.mkdir(parents=True)
            yield unfinished
            unfinished.rename(directory)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        sync_directory(directory.parent)


@contextlib.contextmanager
def writing(directory: Path, hint: str = "") -> Iterator[None]:
    """Turn an OSError into a CheckpointError that says what to do."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"Cannot write to {directory}: {os.strerror(error.errno) if error.errno else error}."
            f" {hint}Make room or give another directory, and call again."
        ) from error


def _listed(manifest: Mapping[str, Any], directory: Path, name: str) -> str:
    files = manifest.get("files")
    digest = files.get(name) if isinstance(files, dict) else None
    if not isinstance(digest, str):
        raise CheckpointError(f"{directory / MANIFEST} is damaged or was edited: it does not list {name}. {_WAY_OUT}")
    return digest


def read(path: Path) -> bytes:
    """Return the content of a file.

    Raises:
        CheckpointError: If it cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise CheckpointError(f"{path} is missing. {_WAY_OUT}") from error
    except OSError as error:
        raise CheckpointError(f"Cannot read {path}: {error.strerror}.") from error


def parse(path: Path, content: bytes) -> dict[str, Any]:
    """Return the table in the content of a JSON file.

    Raises:
        CheckpointError: If it holds none.
    """
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged or was edited: it is not JSON ({error}). {_WAY_OUT}") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} is damaged or was edited: it does not hold a table. {_WAY_OUT}")
    return value


def json_bytes(plain: Mapping[str, Any]) -> bytes:
    """Return plain values as the content of a JSON file."""
    canonical_json(plain)  # refuses what would not come back
    return (json.dumps(plain, indent=2, sort_keys=True, allow_nan=False) + "\n").encode()
