"""How many threads a training uses: one or all, whichever makes its steps faster now.

Threads that wait for each other beside other busy processes can be slower than one alone, by far: two beside one busy
process ran at 0.5 steps a second, one at 7.4.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence

import torch

_TRIAL = 6  # steps with each number; the first is not counted, since threads wake up
_HOPELESS = 2.0  # times as slow as the best so far: no need to try on
_WINDOW, _SLOWER = 20, 1.5  # over so many steps, so much slower than when it was chosen: try again


class ThreadChoice:
    """Chooses among numbers of threads by the seconds that steps take; tries again when they slow down."""

    def __init__(self, choices: Sequence[int]) -> None:
        self._choices = tuple(choices)
        self._begin()

    def _begin(self) -> None:
        self.threads = self._choices[0]
        self._measured: dict[int, float] = {}
        self._times: list[float] = []

    def took(self, seconds: float) -> int:
        """Take note of how long a step took, and return with how many threads to take the next."""
        self._times.append(seconds)
        if len(self._measured) < len(self._choices):
            self._try()
        elif len(self._times) == _WINDOW:
            slow = statistics.median(self._times) > _SLOWER * self._measured[self.threads]
            self._times = []
            if slow:
                self._begin()
        return self.threads

    def _try(self) -> None:
        counted, best = self._times[1:], min(self._measured.values(), default=float("inf"))
        hopeless = len(counted) >= 2 and min(counted) > _HOPELESS * best
        if len(self._times) < _TRIAL and not hopeless:
            return
        self._measured[self.threads] = statistics.median(counted)
        self._times = []
        left = [choice for choice in self._choices if choice not in self._measured]
        self.threads = left[0] if left else min(self._choices, key=lambda choice: self._measured[choice])


@contextlib.contextmanager
def chosen_threads(threads: int | None, device: torch.device) -> Iterator[Callable[[], None]]:
    """Use this many threads, or the faster number; give a function to be called after every step.

    The number of before comes back at the end.
    """
    before = torch.get_num_threads()
    choice = ThreadChoice((1, before)) if threads is None and before > 1 and device.type == "cpu" else None
    torch.set_num_threads(choice.threads if choice else threads or before)
    last = time.perf_counter()

    def stepped() -> None:
        nonlocal last
        now = time.perf_counter()
        if choice is not None and (wanted := choice.took(now - last)) != torch.get_num_threads():
            torch.set_num_threads(wanted)
        last = time.perf_counter()

    try:
        yield stepped
    finally:
        torch.set_num_threads(before)
