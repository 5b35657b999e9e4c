"""SafeOpt as a rival search, with the interface of `lifesafe.lab.paper.PaperSearch`.

SafeOpt runs in a process of its own environment (rivals/safeopt_search.py). Starting one takes seconds, so many
searches, one after the other, may share one:

    with contextlib.closing(open_safeopt()) as worker:
        for world in worlds:
            search = SafeOptSearch(world.candidates, (world.start,), world.limit, worker=worker)
            for _ in range(30):
                row = search.ask()
                search.tell(row, world.draw(row, 10, rng))
            print(search.best)
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

import numpy as np

from contest import Worker

HERE = Path(__file__).resolve().parent
PYTHON = HERE.parent / ".venv-rivals" / "bin" / "python"


def open_safeopt() -> Worker:
    """Start SafeOpt's process; its `close` ends it."""
    script = HERE / "rivals" / "safeopt_search.py"
    return Worker("SafeOpt", PYTHON, script, threads=1, remedy="`make .venv-rivals/.installed` makes it")


class SafeOptSearch:
    """One safe-UCB search. Use it in a `with` block, or close it; a shared process is left running.

    Args:
        candidates: The targets in raw units, (n, d), the reward first.
        starts: Rows of the targets assumed safe; each is tried once before SafeOpt chooses.
        limits: One for each cost.
        lengthscale: Of the kernels, as a fraction of each axis; none for that of SafeOpt's examples, 0.1.
        variance: Of the kernels, in ranges of the reward and in limits; none for that of the examples, 2.
        noise: Standard deviation of one trial's mean in the same units; none for that of the examples, 0.05.
        worker: A process to share; a search that is begun on it ends the one before.
    """

    def __init__(
        self,
        candidates: np.ndarray,
        starts: tuple[int, ...],
        limits: float | tuple[float, ...],
        *,
        lengthscale: float | None = None,
        variance: float | None = None,
        noise: float | None = None,
        worker: Worker | None = None,
    ) -> None:
        self._own, self._worker = worker is None, worker or open_safeopt()
        given = {"lengthscale": lengthscale, "variance": variance, "noise": noise}
        self._worker(
            "open",
            candidates=np.asarray(candidates).tolist(),
            starts=[int(start) for start in starts],
            limits=np.atleast_1d(limits).tolist(),
            **{name: value for name, value in given.items() if value is not None},
        )

    def ask(self) -> int:
        """Return the row to try next."""
        return int(self._worker("ask"))

    def tell(self, index: int, episodes: np.ndarray) -> None:
        """Add a trial: the returns of its episodes, (m, 1 + K), the reward first; their mean is one observation."""
        self._worker("tell", row=int(index), mean=np.asarray(episodes, dtype=float).mean(axis=0).tolist())

    @property
    def best(self) -> int:
        """The row that SafeOpt would operate."""
        return int(self._worker("best"))

    @property
    def safe(self) -> int:
        """How many rows SafeOpt calls safe."""
        return int(self._worker("safe"))

    def close(self) -> None:
        """End the process, unless it is shared."""
        if self._own:
            self._worker.close()

    def __enter__(self) -> SafeOptSearch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
