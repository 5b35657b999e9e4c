"""Write pictures, drawn by matplotlib without pyplot: no window, no state of the process."""

from __future__ import annotations

import io
from pathlib import Path

from matplotlib.figure import Figure

from lifesafe._files import write_atomic
from lifesafe.errors import ConfigError

LIMIT = "#D55E00"  # of Okabe and Ito, whose colors people with any color vision can tell apart
SMALL, NORMAL, LARGE = 7.5, 8.5, 10.5  # font sizes, points
_FORMATS = ("png", "pdf", "svg")


def save_figure(figure: Figure, path: Path, *, dpi: int = 150) -> None:
    """Write a figure, all of it or nothing; the ending of the path decides the format.

    Raises:
        ConfigError: If the ending is none of png, pdf and svg.
    """
    kind = path.suffix.removeprefix(".").lower()
    if kind not in _FORMATS:
        raise ConfigError(f"Cannot draw into {path}: give a file that ends in .{', .'.join(_FORMATS)}.")
    stream = io.BytesIO()
    figure.savefig(stream, format=kind, dpi=dpi)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, stream.getvalue())
