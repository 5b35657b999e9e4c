"""How soon the monitor notices that the system has changed: python benchmarks/drift.py RUN.

RUN is a finished search of PointCircle or HopperVelocity (`lifesafe demo`, `lifesafe run`). For every seed, operation
is begun anew: quiet episodes on the system as it was, in which every alarm is a false one; then the system changes, and
episodes go on until the alarm; then some more at the targets that were fallen back to, in some of the operations or in
all. The monitor judges after every single episode.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

from changed import HOPPER, MORE_HOPPER, changes
from lifesafe._files import write_atomic
from lifesafe._random import integer
from lifesafe.environments import Evaluator, Task, task
from lifesafe.lifetime.manifest import read_manifest
from lifesafe.operation import Operation
from lifesafe.optimizer import SafeOptimizer
from lifesafe.optimizer.journal import read_events
from lifesafe.policies import load

RESULTS = Path(__file__).resolve().parent / "results"


@dataclass
class Seed:
    """One operation, and what became of it."""

    operation: Operation
    false_alarm: int | None = None
    """Quiet episode of a false alarm."""
    delay: int | None = None
    """Episodes from the change to the alarm."""
    costs: tuple[float, ...] = ()
    """Of the episodes from the change to the alarm."""
    after: tuple[float, ...] = ()
    """Of the episodes after it."""
    alarms: int = 0
    halted: bool = False


def main() -> None:
    options = arguments()
    recorded = read_manifest(options.run)
    if recorded is None:
        raise SystemExit(f"{options.run} holds no run; `lifesafe demo` makes one.")
    known = task(recorded["run"]["task"], limits=tuple(recorded["run"]["limits"]))
    policy, events = load(options.run), read_events(options.run / "journal.sqlite")
    searched = list(takewhile(lambda event: event.kind not in ("serving", "limits"), events))  # the first search
    rows = []
    for name, changed in changes(known, hopper=HOPPER | MORE_HOPPER):
        if options.only and options.only not in name:
            continue
        with (
            Evaluator(policy, known, workers=options.workers) as before,
            Evaluator(policy, changed, workers=options.workers) as after,
            Progress(console=Console(stderr=True)) as progress,
        ):
            seeds = [Seed(Operation(SafeOptimizer.replay(searched))) for _ in range(options.seeds)]
            for each in seeds:
                each.operation.begin()
            study(seeds, before, after, options, progress, f"{known.name}: {name}")
        rows.append(summary(known, name, seeds, options))
        print(json.dumps(rows[-1]), flush=True)
    path = RESULTS / "drift.json"
    kept = [row for row in _known(path) if (row["task"], row["change"]) not in {(r["task"], r["change"]) for r in rows}]
    table = sorted(kept + rows, key=lambda row: (row["task"] != "PointCircle", row["task"]))
    write_atomic(path, json.dumps(table, indent=2) + "\n")
    write_atomic(RESULTS / "drift.md", page(table))
    print(page(table))


def study(
    seeds: list[Seed], before: Evaluator, after: Evaluator, options: argparse.Namespace, progress: Progress, title: str
) -> None:
    """Let all seeds operate side by side: quiet, changed until the alarm, and then some more."""
    bar = progress.add_task(title, total=3 * len(seeds))
    # Quiet episodes of their own for every change: the same ones again would count false alarms once, not six times.
    for number, costs in _episodes(seeds, before, options.quiet, "quiet", title):
        _tell(seeds[number], costs)
        if seeds[number].alarms:
            seeds[number].false_alarm = seeds[number].operation.episodes
        progress.advance(bar)
    waiting = [seed for seed in seeds if seed.false_alarm is None]
    for first in range(0, options.most, options.together):
        active = [seed for seed in waiting if seed.delay is None]
        for number, returns in _episodes(active, after, options.together, "changed", first):
            told = _tell(active[number], returns)
            active[number].costs += told
            if active[number].alarms:
                active[number].delay = len(active[number].costs)
                progress.advance(bar)
    followed = _followed(waiting, options)
    for first in range(0, options.after, options.together):
        active = [seed for seed in followed if seed.operation.target is not None]
        for number, returns in _episodes(active, after, options.together, "after", first):
            active[number].after += _tell(active[number], returns)
    for seed in followed:
        seed.halted = seed.operation.target is None
        progress.advance(bar)


def _followed(seeds: list[Seed], options: argparse.Namespace) -> list[Seed]:
    return [seed for seed in seeds if seed.delay is not None][: options.followed]


def _episodes(seeds: list[Seed], evaluator: Evaluator, count: int, *names: str | int) -> Any:
    """Run so many episodes of every seed at its target, all in one batch; give those of one seed after the other."""
    targets, numbers = [], []
    for number, seed in enumerate(seeds):
        assert seed.operation.target is not None
        targets += [seed.operation.target] * count
        numbers += [integer(number, "drift", *names, i) for i in range(count)]
    returns = evaluator.run(targets, numbers).returns if targets else []
    for number in range(len(seeds)):
        yield number, returns[number * count : (number + 1) * count]


def _tell(seed: Seed, returns: Any) -> tuple[float, ...]:
    """Tell episodes one by one, up to an alarm; return the costs of those told."""
    costs: tuple[float, ...] = ()
    for each in returns:
        if seed.operation.target is None:
            break
        verdict = seed.operation.tell([each])
        costs += (each.costs[0],)
        if verdict.alarm is not None:
            seed.alarms += 1
            break  # the rest was run at a target that is served no more
    return costs


def summary(known: Task, change: str, seeds: list[Seed], options: argparse.Namespace) -> dict[str, Any]:
    noticed, followed = [seed for seed in seeds if seed.delay is not None], _followed(seeds, options)
    delays = np.array([seed.delay for seed in noticed if seed.delay is not None])
    unnoticed = [cost for seed in noticed for cost in seed.costs]
    later = [cost for seed in followed for cost in seed.after[-options.last :] if not seed.halted]
    ended = [len(seed.costs) + len(seed.after) for seed in followed if seed.halted]
    return {
        "task": known.name,
        "change": change,
        "limit": known.limits[0],
        "seeds": len(seeds),
        "quiet": options.quiet,
        "false_alarms": sum(seed.false_alarm is not None for seed in seeds),
        "noticed": len(noticed),
        "most": options.most,
        "delay": {name: float(np.quantile(delays, q)) for name, q in QUANTILES.items()} if len(delays) else None,
        "cost_until_alarm": float(np.mean(unnoticed)) if unnoticed else None,
        "cost_after": float(np.mean(later)) if later else None,
        "followed": len(followed),
        "alarms": float(np.mean([seed.alarms for seed in followed])) if followed else None,
        "halted": len(ended),
        "until_halt": float(np.median(ended)) if ended else None,
        "options": {key: value for key, value in vars(options).items() if isinstance(value, int | float)},
    }


QUANTILES = {"median": 0.5, "q90": 0.9, "largest": 1.0}


def page(rows: list[dict[str, Any]]) -> str:
    """Return the results in Markdown."""
    lines = ["# How soon the monitor notices a change", "", "Made by `python benchmarks/drift.py RUN`.", ""]
    lines += (__doc__ or "").split("\n\n", 1)[1].strip().splitlines()
    headings = ["task", "change", "false alarms", "noticed", "delay: median, 90 %, largest", "cost until then"]
    headings += ["alarms", "halted", "episodes to the halt", "cost at the end"]
    lines += ["", f"| {' | '.join(headings)} |", "|---|---" + "|---:" * 8 + "|"]
    for row in rows:
        delay = "-" if row["delay"] is None else ", ".join(f"{row['delay'][name]:.0f}" for name in QUANTILES)
        lines.append(
            f"| {row['task']} | {row['change']} | {row['false_alarms']} in {row['seeds']} x {row['quiet']} |"
            f" {row['noticed']} within {row['most']} | {delay} | {_number(row['cost_until_alarm'])} |"
            f" {_number(row['alarms'])} | {row['halted']} of {row['followed']} | {_number(row['until_halt'])} |"
            f" {_number(row['cost_after'])} |"
        )
    limits = ", ".join(sorted({f"{row['limit']:g}" for row in rows}))
    lines += ["", f"Limit {limits}; costs are means per episode. *Delay*: episodes from the change to the first alarm."]
    lines += ["*Alarms*: how many there were in all, in the mean. *To the halt*: from the change, the median."]
    lines += ["*At the end*: the last episodes, at the targets fallen back to, where operation has not halted."]
    return "\n".join(lines) + "\n"


def _number(value: float | None) -> str:
    return "-" if value is None or not np.isfinite(value) else f"{value:.1f}"


def _known(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    return rows


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("run", type=Path)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--quiet", type=int, default=100, help="episodes before the change")
    parser.add_argument("--most", type=int, default=200, help="episodes to wait for the alarm")
    parser.add_argument("--after", type=int, default=60, help="episodes after it")
    parser.add_argument("--followed", type=int, default=100, help="operations that go on after the alarm, at most")
    parser.add_argument("--last", type=int, default=20, help="of these, the last ones that are averaged")
    parser.add_argument("--together", type=int, default=10, help="episodes of a seed that run side by side")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--only", help="only changes with this word in their name")
    return parser.parse_args()


if __name__ == "__main__":
    main()
