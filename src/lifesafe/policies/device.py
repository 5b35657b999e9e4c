"""The machine that training runs on: its device, its random state, its memory."""

from __future__ import annotations

import ctypes
import sys

import torch
from torch import Tensor

from lifesafe.errors import ConfigError

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # names of glibc's mallopt


def check_device(device: str) -> torch.device:
    """Return the device of this name: "cpu", "cuda", "cuda:1" or "mps".

    Raises:
        ConfigError: If there is no such device here.
    """
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ConfigError(f'device = {device!r} is not a device; give "cpu", "cuda" or "mps".') from error
    if found.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (found.index or 0) >= count:
            raise ConfigError(
                f'device = {device!r} is not here: PyTorch finds {count} CUDA devices. Give device="cpu".'
            )
    elif found.type == "mps":
        if not torch.backends.mps.is_available():
            raise ConfigError(f'device = {device!r} is not here: PyTorch finds no Apple GPU. Give device="cpu".')
    elif found.type != "cpu":
        raise ConfigError(f'device = {device!r} is not supported; give "cpu", "cuda" or "mps".')
    return found


def random_state(device: torch.device) -> dict[str, Tensor]:
    """Return the state of torch's global generators that training on a device draws from."""
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    elif device.type == "mps":
        states["mps"] = torch.mps.get_rng_state()
    return states


def set_random_state(device: torch.device, states: dict[str, Tensor]) -> None:
    """Put torch's global generators into a state that `random_state` returned.

    The state of a device that it does not have, as when training moves to another device, is left as it is.
    """
    torch.set_rng_state(states["cpu"])
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)
    elif device.type == "mps" and "mps" in states:
        torch.mps.set_rng_state(states["mps"])


def keep_freed_memory() -> bool:
    """Tell the C library to keep freed memory for this process; return whether it listened.

    glibc takes large blocks from the system and gives them back at once, and the system clears each page anew: in
    training that is up to half of the time. Only Linux with glibc does so, and only there anything is changed.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library
        return False
    return bool(mallopt(_MMAP_MAX, 0)) and bool(mallopt(_TRIM_THRESHOLD, 2**31 - 1))
