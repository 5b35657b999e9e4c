"""What the comparison costs: the parts of its jobs measured, predictions beside reality, hundreds of jobs on Ray.

    python benchmarks/scaling.py costs    # measures the costs that `lifesafe bench plan` uses
    python benchmarks/scaling.py smoke    # the smoke suite in 1 and 2 processes and on Ray, beside the prediction
    python benchmarks/scaling.py cluster  # all jobs of the paper suite on Ray; they sleep, an hour of work for a second

The last two write results/scaling.json, each its part, and results/scaling.md. Needs the packages of `make test`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cdt import random_data
from lifesafe._config import to_plain, toml_text
from lifesafe.lab.benchmark.cluster import RayTasks, run_remotely
from lifesafe.lab.benchmark.costs import measured_costs
from lifesafe.lab.benchmark.plan import Outlook, estimates, outlook
from lifesafe.lab.benchmark.processes import Processes
from lifesafe.lab.benchmark.results import ROWS, Row
from lifesafe.lab.benchmark.runner import Event, Pool, run_suite
from lifesafe.lab.benchmark.suite import PLS, Job, Suite, load_suite

if TYPE_CHECKING:
    from lifesafe.data import Dataset
    from lifesafe.policies import LearnerConfig
    from lifesafe.systems import Task

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
COSTS = HERE.parent / "src" / "lifesafe" / "benchmark" / "costs.toml"

LIMIT = 40.0  # random data have episodes within it
EPISODES = 20  # side by side
REPETITIONS = 3
LEAST_SECONDS = 0.4  # of a repetition
START = """
from pathlib import Path
from lifesafe.lab.benchmark.jobs import run_job
from lifesafe.lab.benchmark.suite import Grid, Suite
suite = Suite("start", Grid(tasks=("PointCircle",), methods=("bc-all",), seeds=1, episodes=1), {"bc-all": {"steps": 1}})
run_job(suite.jobs()[0], suite, None, Path("job"))
"""

MACHINES, CORES = (1, 4, 16, 64), 8
HOUR = 1.0  # seconds that a job sleeps for an hour of work
FAILS, DIES = 40, 90  # every so many jobs, one fails or its process dies, at half its first attempt


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("costs", help="measure what the parts of jobs cost")
    commands.add_parser("smoke", help="the smoke suite, beside its prediction")
    cluster = commands.add_parser("cluster", help="the jobs of the paper suite on Ray, asleep")
    cluster.add_argument("--places", type=int, default=16, help="jobs at once; each has a process that imports PyTorch")
    cluster.add_argument(
        "--cold", action="store_true", help="let the first jobs wait for the imports of their processes"
    )
    commands.add_parser("page", help="write results/scaling.md again")
    options = parser.parse_args()
    if options.command == "costs":
        COSTS.write_text(costs_text(costs()))
        return
    if options.command == "smoke":
        keep(smoke=[*keep().get("smoke", []), smoke()])  # every run is kept, the unlucky ones too
    if options.command == "cluster":
        keep(cluster=[*keep().get("cluster", []), cluster_of(options.places, cold=options.cold)])
    text = page(keep())
    (RESULTS / "scaling.md").write_text(text)
    print(text)


def keep(**parts: Any) -> dict[str, Any]:
    """Return all results, after putting in new parts."""
    path = RESULTS / "scaling.json"
    results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    results |= parts
    path.write_text(json.dumps(results, indent=2) + "\n")
    return results


# The smoke suite, beside its prediction.


def smoke() -> dict[str, Any]:
    """Return what the smoke suite took in different ways, and what was predicted."""
    suite = load_suite("smoke")
    cores = os.cpu_count() or 1
    ways: dict[str, tuple[int, Callable[[Path], Pool]]] = {
        "1 process": (1, lambda where: Processes(suite, where, processes=1)),
        "2 processes": (2, lambda where: Processes(suite, where, processes=2)),
        "Ray, half a processor a job": (2 * cores, lambda where: RayTasks(suite, where, cpus=0.5, work=noting)),
    }
    seconds = [each.seconds for each in estimates(suite, measured_costs())]
    rows = []
    for name, (places, pool_in) in ways.items():
        with tempfile.TemporaryDirectory() as directory:
            times, spent = Times(), children()
            pool = pool_in(Path(directory))
            assert not run_suite(suite, directory, pool, progress=times)
            noted = [line.split() for path in Path(directory).glob("*.spent") for line in path.read_text().splitlines()]
        # What was seen of each job holds all waiting for processors already: as if each had one of its own.
        seen = outlook(times.seconds(suite), machines=1, cores=places, places=places)
        rows.append(
            {
                "way": name,
                "wall": times.wall,
                "predicted from costs": outlook(seconds, machines=1, cores=cores, places=places).wall,
                "predicted from the jobs' own times": seen.wall,
                "processor seconds": sum(float(each) for _, each in noted) if noted else children() - spent,
                "processes": len({process for process, _ in noted}) if noted else len(seconds),
                "load": os.getloadavg()[0],
            }
        )
        print(rows[-1], file=sys.stderr)
    return {"machine": machine(), "predicted processor seconds": sum(seconds), "rows": rows}


def noting(
    job: Job, suite: Suite, data: Path | None, sent: list[Any], root: str, token: str, device: str
) -> tuple[list[dict[str, Any]], str | None]:
    """Run a job on Ray, and note its process and the processor time: Ray's processes are not children of this one."""
    begin = time.process_time()
    try:
        return run_remotely(job, suite, data, sent, root, token, device)
    finally:
        (Path(root) / f"{job.name}.spent").write_text(f"{os.getpid()} {time.process_time() - begin}\n")


class Times:
    """When jobs were begun and done, and in which order."""

    def __init__(self) -> None:
        self.begun: dict[Job, float] = {}
        self.done: dict[Job, float] = {}
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        if event.state == "begun":
            self.begun[event.job] = time.monotonic()
        if event.state == "done":
            self.done[event.job] = time.monotonic()

    @property
    def wall(self) -> float:
        return max(self.done.values()) - min(self.begun.values())

    def seconds(self, suite: Suite) -> list[float]:
        """Return how long each job was under way."""
        return [self.done[job] - self.begun[job] for job in suite.jobs()]


# Hundreds of jobs on Ray.


def cluster_of(places: int, *, cold: bool) -> dict[str, Any]:
    """Return how the jobs of the paper suite go on Ray if they only sleep, some fail and some processes die."""
    import ray

    suite = load_suite("paper")
    hours = {each.job.name: each.seconds / 3600 for each in estimates(suite, measured_costs())}
    names = list(hours)
    failing, dying = set(names[FAILS // 2 :: FAILS]), set(names[DIES // 2 + 1 :: DIES])
    sleeps = {name: HOUR * value for name, value in hours.items()}
    expected = [1.5 * sleep if name in failing | dying else sleep for name, sleep in sleeps.items()]
    ray.init(num_cpus=places, log_to_driver=False, configure_logging=False, include_dashboard=False)
    try:
        imports = None if cold else awake(places)
        with tempfile.TemporaryDirectory() as directory:
            times = Streamed(Path(directory))
            pool = RayTasks(suite, directory, work=asleep(sleeps, failing, dying))
            failed = run_suite(suite, directory, pool, progress=times)
            rows = len(list((Path(directory) / ROWS).glob("*.json")))
            entered = {path.stem: path.read_text().split() for path in Path(directory).glob("*.entered")}
    finally:
        ray.shutdown()
    well = [job for job in suite.jobs() if job.name not in failing | dying]
    waits = [float(entered[job.name][1]) - times.begun[job] for job in well]
    told = [times.done[job] - float(entered[job.name][1]) - sleeps[job.name] for job in well]
    begun = [event.job for event in times.events if event.state == "begun"]
    found: Outlook = outlook(expected, machines=1, cores=places, places=places)
    return {
        "machine": machine(),
        "load": os.getloadavg()[0],
        "places": places,
        "cold": cold,
        "jobs": len(names),
        "failing": len(failing),
        "dying": len(dying),
        "retried": sum(event.state == "retried" for event in times.events),
        "failed": len(failed),
        "in order": begun == suite.jobs(),
        "rows": rows,
        "rows that were there when their job was told done": times.there,
        "hour": HOUR,
        "wall": times.wall,
        "predicted": asdict(found),
        "processes": len({process for process, _ in entered.values()}),
        "imports": imports,
        "from begun to entered": {"mean": statistics.mean(waits), "max": max(waits)},
        "from the end of its sleep to told": {"mean": statistics.mean(told), "max": max(told)},
    }


def awake(places: int) -> float:
    """Begin all processes of Ray and have each import what jobs need; return how many seconds that took."""
    import ray

    def nap(_: Job) -> int:  # the job brings the imports along
        time.sleep(1.0)
        return os.getpid()

    begin, seen = time.monotonic(), set[int]()
    while len(seen) < places:
        job = Job("PointCircle", "bc-all", (LIMIT,), 0)
        seen |= set(ray.get([ray.remote(num_cpus=1)(nap).remote(job) for _ in range(places)]))
    return time.monotonic() - begin


class Streamed(Times):
    """Notes besides how many rows were there when their job was told done."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.directory, self.there = directory, 0

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        if event.state == "done":
            self.there += (self.directory / ROWS / f"{event.job.name}.json").exists()


def asleep(sleeps: dict[str, float], failing: set[str], dying: set[str]) -> Callable[..., Any]:
    """Return what a job does instead of its work."""

    def work(
        job: Job, suite: Suite, data: Path | None, sent: list[Any], root: str, token: str, device: str
    ) -> tuple[list[dict[str, Any]], str | None]:
        mark = Path(root) / f"{job.name}.entered"
        first = not mark.exists()
        mark.write_text(f"{os.getpid()} {time.monotonic()}")  # one clock for all processes of a machine
        if first and job.name in failing | dying:
            time.sleep(sleeps[job.name] / 2)
            if job.name in dying:
                os._exit(1)
            return [], "RuntimeError: it was made to fail"
        time.sleep(sleeps[job.name])
        return [to_plain(row_of(job))], None

    return work


def row_of(job: Job) -> Row:
    return Row(
        task=job.task, method=job.method, limit=job.limits[0], seed=job.seed, reward=None, cost=None,
        reward_deviation=None, cost_deviation=None, episodes=0, references=None, target=(), steps=0,
        training_seconds=0.0, seconds=0.0,
    )  # fmt: skip


# The page.


def page(results: dict[str, Any]) -> str:
    """Return the results in Markdown."""
    costs = measured_costs()
    lines = ["# What the comparison costs", "", "Made by `python benchmarks/scaling.py`.", ""]
    lines += [
        "Processor time of all jobs, and wall-clock time on machines with"
        f" {CORES} cores whose cores are like the one measured: {costs.machine}. Every job computes on one thread.",
        "The machines take jobs in the order of the suite (`lifesafe bench plan`); at best: no schedule is faster.",
        "",
        "| suite | jobs | processor hours | longest job | machines | wall-clock | at best | cores busy |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name in ("paper", "cpu"):
        seconds = [each.seconds for each in estimates(load_suite(name), costs)]
        words = [name, str(len(seconds)), f"{sum(seconds) / 3600:,.0f}", f"{max(seconds) / 3600:.1f} h"]
        for machines in MACHINES:
            found = outlook(seconds, machines=machines, cores=CORES, places=CORES)
            shown = f"{machines} | {found.wall / 3600:,.1f} h | {found.bound / 3600:,.1f} h | {found.utilization:.0%}"
            lines.append(f"| {' | '.join(words)} | {shown} |")
            words = [""] * len(words)
    if "smoke" in results:
        lines += ["", *smoke_lines(results["smoke"])]
    if "cluster" in results:
        lines += ["", *cluster_lines(results["cluster"])]
    return "\n".join(lines) + "\n"


def smoke_lines(runs: list[dict[str, Any]]) -> list[str]:
    predicted = runs[-1]["predicted processor seconds"]
    lines = [
        "## The smoke suite, predicted and run",
        "",
        f"{runs[-1]['machine']}, which had other work to do: see the load averages, the suite's own jobs included. All"
        " runs that were made. A ratio is what came to what was predicted.",
        "",
        "- Processor time: what the jobs used, and what the costs of their parts predict"
        f" ({predicted:.0f} s). Other work on the machine disturbs it little, so this is the check of the costs.",
        "- Schedule: the wall-clock time that list scheduling predicts from the time each job was seen to take. This is"
        " the check of the schedule; with 1 process it is only a sum.",
        "- Costs: the wall-clock time predicted from the costs alone, on a machine with nothing else to do. This one"
        " had, so these ratios say how busy it was, and nothing about the plan.",
        "- Ray keeps its processes for the next job: fewer pay for the imports than are predicted, and those before the"
        " first line of a job are not in the processor time noted. So its ratios to the costs check nothing.",
        "",
        "| way | processes | processor time | ratio | took | schedule | ratio | costs | ratio | load |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for run in runs:
        for row in run["rows"]:
            own, costs, used = (
                row[name]
                for name in ("predicted from the jobs' own times", "predicted from costs", "processor seconds")
            )
            all_in_all = run["predicted processor seconds"]
            spent = "not noted | " if used is None else f"{used:.0f} s | {used / all_in_all:.2f}"
            lines.append(
                f"| {row['way']} | {row.get('processes', '')} | {spent} | {row['wall']:.0f} s | {own:.0f} s"
                f" | {row['wall'] / own:.2f} | {costs:.0f} s | {row['wall'] / costs:.2f} | {row['load']:.1f} |"
            )
    return lines


def cluster_lines(runs: list[dict[str, Any]]) -> list[str]:
    last = runs[-1]
    ordered, back = (
        all(run["in order"] for run in runs),
        all(run["rows that were there when their job was told done"] == run["jobs"] for run in runs),
    )
    lines = [
        f"## The {last['jobs']} jobs of the paper suite on Ray",
        "",
        "Ray on one machine, which is told to have as many processors as there are places; a job sleeps"
        f" {last['hour']:g} s for an hour of its work. {last['failing']} jobs fail in the middle of their first"
        f" attempt, and the processes of {last['dying']} die. All runs that were made.",
        "",
        f"- All jobs were begun in the order of the suite: {'yes' if ordered else 'NO'}. The rows of every job were"
        f" there when it was told done: {'yes' if back else 'NO'}.",
        "- Schedule: what list scheduling predicts from the sleeps. To enter: mean time from the start of a job to its"
        " first line in its process; to tell: from the end of its sleep until the runner knows, who looks every 0.2 s.",
        f"- Cold: the processes import PyTorch when their first job comes, all on the {os.cpu_count()} cores of this"
        " machine; on a cluster each has a core of its own.",
        "",
        "| places | | tried again | failed | rows back | took | schedule | ratio | to enter | to tell | load |",
        "|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for run in runs:
        wall, predicted = run["wall"], run["predicted"]["wall"]
        parts = [run.get(name) for name in ("from begun to entered", "from the end of its sleep to told")]
        late = " | ".join("not noted" if part is None else f"{part['mean']:.2f} s" for part in parts)
        lines.append(
            f"| {run['places']} | {'cold' if run['cold'] else ''} | {run['retried']} | {run['failed']} | {run['rows']}"
            f" | {wall:.1f} s | {predicted:.1f} s | {wall / predicted:.2f} | {late} | {run['load']:.1f} |"
        )
    return lines


# What the parts of jobs cost.


def costs() -> dict[str, Any]:
    """Return what parts cost in processor time of one thread, which other jobs on the machine disturb less."""
    import torch

    from lifesafe.data import Dataset
    from lifesafe.lab.baselines.catalogue import METHODS
    from lifesafe.systems import tasks

    torch.set_num_threads(1)
    dataset = Dataset.from_arrays(**random_data())
    environment = {each.name: tell(each.name, seconds_of_steps(each)) for each in tasks()}
    return {
        "source": "benchmarks/scaling.py costs: processor time of one thread, the least of a few repetitions; random"
        " data of the size of HopperVelocity; environments and policies with 20 episodes side by side",
        "machine": f"{processor()}, {platform.system()}, torch {version('torch')}, MuJoCo {version('mujoco')},"
        f" PyBullet {version('pybullet')}; load average {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores",
        "start": tell("start", start()),
        "trial": tell("a trial", seconds_of_trial()),
        "gradients": [
            {
                "method": method,
                "batch": config.batch,
                "width": config.width,
                "milliseconds": tell(f"{method}, batch {config.batch}", 1000 * seconds_of_gradient(config, dataset)),
            }
            for method, config in configs()
        ],
        "environment": environment,
        "acting": {
            method: tell(f"{method} acting", seconds_of_acting(own(method)) - environment["PointCircle"])
            for method in METHODS
        },
    }


def configs() -> Iterator[tuple[str, Any]]:
    """Return the settings of all methods, their own and those of the suites, by batch and width."""
    from lifesafe.lab.baselines.catalogue import METHODS

    seen = set()
    suites = [load_suite(name) for name in ("paper", "cpu", "smoke")]
    changed = [
        ("cdt" if job.method == PLS else job.method, suite.config(Job(job.task, job.method, (LIMIT,), 0)))
        for suite in suites
        for job in suite.jobs()
    ]
    for method, config in [*((method, own(method)) for method in METHODS), *changed]:
        sizes: Any = config
        key = method, sizes.batch, sizes.width
        if key not in seen:
            seen.add(key)
            yield method, config


def own(method: str) -> LearnerConfig:
    """Return a method's own settings."""
    from lifesafe.lab.baselines.catalogue import method_config

    return method_config(method, limits=(LIMIT,), task="HopperVelocity")


def seconds_of_gradient(config: LearnerConfig, dataset: Dataset) -> float:
    """Return the processor seconds of a gradient step, over the whole of a training."""
    learner = config.build(dataset, seed=0)
    once = processor_seconds(lambda: [learner.update(config.steps - 1) for _ in range(2)]) / 2
    count = max(2, round(LEAST_SECONDS / once))
    numbers = [int(number) for number in np.linspace(0, config.steps - 1, count)]  # a warm-up may cost less
    each = [processor_seconds(lambda: [learner.update(n) for n in numbers]) / count for _ in range(REPETITIONS)]
    return min(each)


def seconds_of_steps(where: Task, most: int = 200) -> float:
    """Return the processor seconds of 1000 steps of an environment, with small random actions."""
    from lifesafe.systems import open_vector

    random, rows = np.random.default_rng(0), np.arange(EPISODES)
    vector = open_vector(where, EPISODES)
    try:
        vector.reset(rows, range(EPISODES))
        each = []
        for _ in range(REPETITIONS):
            taken, begin = 0, time.process_time()
            while taken < most and time.process_time() - begin < 2:
                step = vector.step(rows, 0.1 * random.normal(size=(EPISODES, where.actions)))
                ended = rows[step.terminated | step.truncated]
                if len(ended):
                    vector.reset(ended, ended.tolist())
                taken += 1
            each.append((time.process_time() - begin) / (taken * EPISODES / 1000))
    finally:
        vector.close()
    return min(each)


def seconds_of_acting(config: LearnerConfig) -> float:
    """Return the processor seconds of 1000 steps of a policy on PointCircle, whose own steps cost next to nothing."""
    from lifesafe.returns import Returns
    from lifesafe.systems import Evaluator, task

    where = task("PointCircle", limits=LIMIT)
    with Evaluator(config.build(where.dataset(), seed=0).policy(), where) as evaluator:

        def run() -> int:
            return evaluator.run([Returns(300.0, LIMIT)] * EPISODES, range(EPISODES)).steps

        steps = run()
        return min(processor_seconds(run) / (steps / 1000) for _ in range(REPETITIONS))


def seconds_of_trial() -> float:
    """Return the processor seconds of a trial of a safe search, besides its episodes."""
    from lifesafe.life import Lifetime
    from lifesafe.systems import task

    where = task("PointCircle", limits=LIMIT)
    config = load_suite("smoke").config(Job("PointCircle", "cdt", (LIMIT,), 0))
    with (
        tempfile.TemporaryDirectory() as directory,
        Lifetime.open(Path(directory) / "life", where, config, data=where.dataset(), seed=0) as life,
    ):
        life.train()
        seconds = processor_seconds(life.optimize)
        trials = life.optimizer.trials
    steps = sum(len(trial.episodes) for trial in trials) * where.horizon
    return max(0.0, seconds - steps / 1000 * seconds_of_acting(config)) / len(trials)


def start() -> float:
    """Return the processor seconds of a job that hardly does anything, in a process of its own."""
    each = []
    for _ in range(REPETITIONS):
        before = children()
        with tempfile.TemporaryDirectory() as directory:
            subprocess.run([sys.executable, "-c", START], cwd=directory, check=True)
        each.append(children() - before)
    return min(each)


def processor_seconds(action: Callable[[], object]) -> float:
    begin = time.process_time()
    action()
    return time.process_time() - begin


def tell(what: str, number: float) -> float:
    print(f"{what}: {number:.3g}", file=sys.stderr, flush=True)
    return float(f"{number:.3g}")


def processor() -> str:
    """Return what the machine calls its processor."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if platform.system() == "Linux" else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else 'unknown'} ({platform.machine()})"


def costs_text(plain: dict[str, Any]) -> str:
    """Return the text of the file, a line for each gradient step."""
    gradients = plain.pop("gradients")
    text = toml_text(plain)
    values, _, tables = text.partition("\n[")
    lines = [
        f'  {{ method = "{each["method"]}", batch = {each["batch"]}, width = {each["width"]},'
        f" milliseconds = {each['milliseconds']} }},"
        for each in gradients
    ]
    heading = "# What the parts of a job cost, in processor seconds; written by benchmarks/scaling.py."
    return "\n".join([heading, values, "gradients = [", *lines, "]", "", "[" + tables])


def machine() -> str:
    return f"{processor()}, {os.cpu_count()} cores, {platform.system()}"


def children() -> float:
    """Return the processor seconds of all processes that were begun here and have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
