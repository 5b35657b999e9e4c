"""Time one ask + tell of the optimizer beside SafeOpt and BoTorch: `make bench`.

Each contestant is a process in its own environment, on one thread. For each number of candidates all get the
same candidates, observations, kernel and limit; then they are measured in turns, repetition by repetition, so
that what else the machine does hits all alike. The rivals' files say what is measured of them and why.
"""

from __future__ import annotations

import argparse
import itertools
import platform
import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

import results
import scene
from contest import Worker

HERE = Path(__file__).resolve().parent
RIVALS = HERE.parent / ".venv-rivals" / "bin" / "python"
CONTESTANTS = {
    "lifesafe": (Path(sys.executable), HERE / "ours.py"),
    "SafeOpt": (RIVALS, HERE / "rivals" / "safeopt_worker.py"),
    "BoTorch": (RIVALS, HERE / "rivals" / "botorch_worker.py"),
}
REMEDY = "`make bench` makes it"
WARM = 1.0  # seconds below which a measurement is done twice, as the turn of the others has cooled the caches
OURS = ("lifesafe", "ask + tell, exploring")

# Goals: seconds of our ask + tell, and how many times as long a rival takes at 10 000 candidates.
SECONDS = {10_000: 0.005, 100_000: 0.06, 1_000_000: 0.6}
RATIOS = {
    ("SafeOpt", "first guess expands"): 15,
    ("SafeOpt", "all expanders"): 1_000,
    ("BoTorch", "posterior, 2,000 at once"): 20,
}

HOW = """\
Two returns, reward and one cost, with the Matern 3/2 kernel and one length-scale per axis, which all
contestants have. Candidates, observations, limit, length-scales and deviations are the same for all; the
prior mean of the cost is the limit, that of the reward is the target in ours and a constant in the rivals.
The contestants took turns in one run: median of {repetitions} repetitions after a warm-up; what takes less
than a second is done twice in each repetition and timed the second time, with warm caches. The ratio is to
our ask + tell while exploring, in the same repetition (median).

- lifesafe: `tell` and `ask` in memory, with noise learned from the episodes of each trial, from the 51st
  trial on.
  *Exploring*: every ask looks for an expander and finds one. The reach is the largest of 0.1 (the default),
  0.05, 0.03, 0.02 and 0.01 with which it still finds one then: the larger, the more there is to search.
  *Maximizing*: the default schedule, which by then explores no more.
  *Slowest*: once in the first 50 trials of these two runs. A tell is slow when it rebuilds the posterior
  because the noise was misjudged, an ask when few trials would expand.
- SafeOpt: `add_new_data_point`, with one noise level for all trials (it has no other), and then:
  *safe set only* is `optimize(ucb=True)`, which looks for no expander;
  *first guess expands* is `optimize()` stopped after the first candidate it tries, its luckiest case;
  *optimize()* is as it came;
  *all expanders* is what it costs when every safe candidate must be tried, as when none expands; it is
  stopped after {cap:g} s and extrapolated (~) from the part of the safe candidates that is shown.
- BoTorch: the posterior of both returns at all candidates, without safe set, expanders or choice.
""".splitlines()


def main() -> None:
    options = arguments()
    workers = [Worker(name, *CONTESTANTS[name], threads=1, remedy=REMEDY) for name in ("lifesafe", *options.rivals)]
    try:
        versions = {worker.name: worker("versions") for worker in workers}
        with Progress(console=Console(stderr=True)) as progress:
            sizes = [
                contest(workers, candidates, options.repetitions, options.cap, progress)
                for candidates in options.candidates
            ]
    finally:
        for worker in workers:
            worker.close()
    outcome = {
        "observations": scene.OBSERVATIONS,
        "how": [line.format(repetitions=options.repetitions, cap=options.cap) for line in HOW],
        "cpu": cpu(),
        "system": f"{platform.system()}, Python {platform.python_version()}",
        "versions": versions,
        "goals": goals(sizes),
        "sizes": sizes,
    }
    results.show(outcome)
    results.write(outcome, options.output)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Time the optimizer beside SafeOpt and BoTorch.")
    parser.add_argument("--candidates", type=int, nargs="+", choices=scene.SHAPES, default=list(scene.SHAPES))
    parser.add_argument("--rivals", nargs="*", choices=list(CONTESTANTS)[1:], default=list(CONTESTANTS)[1:])
    parser.add_argument("--repetitions", type=int, default=5, help="after a warm-up (default 5)")
    parser.add_argument("--cap", type=float, default=3.0, help="seconds for all of SafeOpt's expanders (default 3)")
    parser.add_argument("--output", type=Path, default=HERE / "results", help="directory of the results")
    return parser.parse_args()


def contest(workers: list[Worker], candidates: int, repetitions: int, cap: float, progress: Progress) -> dict[str, Any]:
    """Return all that was measured with so many candidates."""
    task = progress.add_task(f"{candidates:,} candidates", total=repetitions + 2)
    answers = prepare(workers, candidates, cap)
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    extrapolated: dict[tuple[str, str], float] = {}
    for repetition in range(repetitions + 1):
        advance(progress, task, f"{candidates:,} candidates, repetition {repetition} of {repetitions}")
        first = repetition % len(workers)
        for worker in workers[first:] + workers[:first]:
            for what in answers[worker.name]["measures"]:
                answer = worker("measure", what=what)
                if max(answer["rows"].values()) < WARM:
                    answer = worker("measure", what=what)
                if repetition == 0:
                    continue  # the warm-up
                for row, seconds in answer["rows"].items():
                    times[worker.name, row].append(seconds)
                    if "extrapolated" in answer:
                        extrapolated[worker.name, row] = answer["extrapolated"]
    for name, answer in answers.items():
        for row, seconds in answer.get("once", {}).items():
            times[name, row] = [seconds] * repetitions
    advance(progress, task, f"{candidates:,} candidates")
    keys = sorted(times, key=lambda key: list(CONTESTANTS).index(key[0]))
    return {
        "candidates": candidates,
        "facts": {name: answer["facts"] for name, answer in answers.items()},
        "rows": [summary(key, times[key], times.get(OURS), extrapolated.get(key)) for key in keys],
    }


def advance(progress: Progress, task: Any, description: str) -> None:
    progress.update(task, advance=1, description=description)
    if not progress.console.is_terminal:
        progress.console.print(description)


def prepare(workers: list[Worker], candidates: int, cap: float) -> dict[str, dict[str, Any]]:
    """Let our optimizer run its trials, give the rivals what it observed, and return what each answered."""
    ours, *rivals = workers
    answers = {ours.name: ours("prepare", candidates=candidates)}
    rewards, costs = zip(*answers[ours.name]["means"], strict=True)
    for rival in rivals:
        answers[rival.name] = rival(
            "prepare",
            axes=[axis.tolist() for axis in scene.axes(candidates)],
            lengthscales=scene.LENGTHSCALES,
            sd=scene.SD,
            mean=scene.MEAN,
            noise_sd=scene.NOISE,
            limit=scene.LIMIT,
            indices=answers[ours.name]["indices"],
            rewards=rewards,
            costs=costs,
            cap=cap,
        )
    compare_posteriors({rival.name: answers[rival.name]["posterior"] for rival in rivals})
    return answers


def compare_posteriors(posteriors: dict[str, dict[str, list[float]]]) -> None:
    """Refuse to go on if the rivals do not compute the same posterior."""
    for (one, first), (other, second) in itertools.pairwise(posteriors.items()):
        for moment, values in first.items():
            if not np.allclose(values, second[moment], rtol=1e-6, atol=1e-6):
                raise SystemExit(
                    f"{one} and {other} differ in the {moment} of the cost, {values} and {second[moment]}: "
                    "they do not solve the same problem."
                )


def summary(
    key: tuple[str, str], times: list[float], ours: list[float] | None, extrapolated: float | None
) -> dict[str, Any]:
    return {
        "contestant": key[0],
        "what": key[1],
        "median": statistics.median(times),
        "min": min(times),
        "max": max(times),
        "ratio": statistics.median(t / o for t, o in zip(times, ours, strict=True)) if ours else None,
        "extrapolated": extrapolated,
    }


def goals(sizes: list[dict[str, Any]]) -> list[str]:
    """Return one line per goal that was measured."""
    lines = []
    for size in sizes:
        where = f"at {size['candidates']:,} candidates"
        for row in size["rows"]:
            key = (row["contestant"], row["what"])
            if key == OURS and size["candidates"] in SECONDS:
                goal, value = SECONDS[size["candidates"]], row["median"]
                text = f"ask + tell within {results.duration(goal)} {where}: {results.duration(value)}"
                lines.append(("met: " if value <= goal else "MISSED: ") + text)
            if key in RATIOS and size["candidates"] == 10_000 and row["ratio"]:
                goal, value = RATIOS[key], row["ratio"]
                text = f"{goal:,} times as fast as {key[0]} ({key[1]}) {where}: {results.times(value)}"
                lines.append(("met: " if value >= goal else "MISSED: ") + text)
    return lines


def cpu() -> str:
    """Return the model of the processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


if __name__ == "__main__":
    main()
