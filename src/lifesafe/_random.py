"""Named seed streams: the same number for the same purpose, in any order.

One seed belongs to a whole run. Every purpose draws from a stream of its own, found by name, so adding a draw
in one place, or doing things in another order or in parallel, changes nothing elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import operator

import numpy as np

from lifesafe.errors import ConfigError


def is_whole(value: object) -> bool:
    """Return whether a value is a whole number; true and false are none."""
    return not isinstance(value, bool | np.ndarray) and hasattr(value, "__index__")


def seed_sequence(seed: int, *names: str | int) -> np.random.SeedSequence:
    """Return NumPy's seed for one purpose of a run, named from coarse to fine: `"evaluate", "CarCircle", 17`."""
    if not is_whole(seed) or operator.index(seed) < 0:
        raise ConfigError(f"A seed is a whole number that is not negative; got {seed!r}.")
    path = [name if isinstance(name, str) else operator.index(name) for name in names]
    digest = hashlib.sha256(json.dumps(path).encode()).digest()
    words = [int.from_bytes(digest[i : i + 4], "little") for i in range(0, len(digest), 4)]
    return np.random.SeedSequence(operator.index(seed), spawn_key=words)


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """Return the random generator for one purpose of a run.

    Examples:
        >>> first = generator(0, "noise", 3).integers(1000, size=2)
        >>> again = generator(0, "noise", 3).integers(1000, size=2)
        >>> bool((first == again).all())
        True
    """
    # PCG64 by name: NumPy may change what default_rng means.
    return np.random.Generator(np.random.PCG64(seed_sequence(seed, *names)))


def integer(seed: int, *names: str | int) -> int:
    """Return a seed of 31 bits for one purpose, for libraries that take a number: PyTorch, Gymnasium."""
    return int(seed_sequence(seed, *names).generate_state(1, np.uint32)[0] >> 1)
