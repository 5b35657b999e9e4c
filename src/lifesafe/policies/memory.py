"""Keep the memory that tensors give back, so that the next gradient step does not fetch it from the system again."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # names of glibc's mallopt


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
