"""Check Theorem 1 on problems so small that all it speaks of is exact: `make theorem1`, or `python -m theorem1`.

The theorem says that a policy fitted to n episodes and asked for z returns z + H² / sqrt(n) F(z), where F is drawn from
a Gaussian process with a stated covariance k, up to a bias. Here k and the bias are computed exactly, many datasets are
drawn, a policy is fitted to each, and its exact returns are compared with that law: covariance, normality, 1/sqrt(n),
correlation of reward and cost, and the bias with its bound.

Cases: `exact` and `soft` keep all assumptions (in `exact` nothing varies: k = 0); `stochastic` has chance in the
transitions, `noisy` in the rewards, `unrealizable` too small a class of policies; `rare` is a counterexample to the
printed bound on the bias of the likelihood. docs/theorem1.md says what came out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt

from lifesafe._files import write_atomic
from lifesafe.console.progress import progress
from lifesafe.errors import LifesafeError
from theorem1 import CASES, Settings, make_case, study
from theorem1.figure import theorem1_figure
from theorem1.table import markdown


def main(arguments: Sequence[str] | None = None) -> int:
    """Study the cases, and write their tables, numbers and picture."""
    options = _arguments(arguments)
    settings = Settings(
        datasets=options.datasets, episodes=tuple(options.episodes), coverage=options.coverage, seed=options.seed
    )
    names = list(CASES) if options.case == "all" else [options.case]
    studies = []
    for number, name in enumerate(names, start=1):
        with progress(f"{number}/{len(names)} {name}") as report:
            studies.append(study(make_case(name), settings, report=report))
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    write_atomic(out / f"{options.case}.md", markdown(studies))
    write_atomic(out / f"{options.case}.json", json.dumps([found.to_plain() for found in studies], indent=1) + "\n")
    figure = theorem1_figure(studies)
    figure.savefig(out / f"{options.case}.png", dpi=150)
    plt.close(figure)
    print(f"{markdown(studies)}\nTable, numbers and picture: {out / options.case}.md, .json, .png")
    return 0


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m theorem1", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", choices=["all", *CASES], default="all", help="which problem (all)")
    parser.add_argument("--datasets", type=int, default=400, help="datasets of each size (400)")
    parser.add_argument(
        "--episodes", type=int, nargs="+", default=(500, 2_000, 8_000, 32_000), help="sizes of a dataset, in episodes"
    )
    parser.add_argument(
        "--coverage", type=float, default=0.01, help="share of episodes that must return a target to count (0.01)"
    )
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same tables (0)")
    parser.add_argument("--out", type=Path, default=Path("runs/theorem1"), help="directory of what is written")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LifesafeError as error:
        sys.exit(f"theorem1: {error}")
