"""Train a policy: the one loop, whatever the method, resumable after any interruption."""

from __future__ import annotations

import contextlib
import math
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lifesafe._config import to_plain
from lifesafe._random import integer
from lifesafe.data import Dataset
from lifesafe.errors import CheckpointError, ConfigError, DatasetError
from lifesafe.interfaces import Progress, Report
from lifesafe.policies.checkpoint import MANIFEST, check_free, load, policy_folder, read_manifest, save
from lifesafe.policies.device import check_device, random_state, set_random_state
from lifesafe.policies.learner import Learner, LearnerConfig, StoredPolicy, prefixed, under
from lifesafe.policies.threads import chosen_threads
from lifesafe.policies.training_state import CSVLog, Identity, TrainingDirectory, TrainingState

POLICY, TRAINING = "policy", "training"
_REPORT_SECONDS = 0.5
_TURNED = 0.05  # in nats an entry of an action
_PATIENCE = 3  # measurements in a row
_ROUNDING = 1e-3


def train(
    config: LearnerConfig,
    dataset: Dataset,
    *,
    seed: int = 0,
    directory: str | Path | None = None,
    device: str = "cpu",
    compile: bool = False,
    threads: int | None = None,
    log_every: int = 100,
    validate_every: int = 1000,
    checkpoint_every: float = 60.0,
    report: Report | None = None,
) -> StoredPolicy:
    """Return the policy that a method learns from a dataset.

    With a directory, a training that was killed or interrupted goes on from its last checkpoint when called again
    with the same config, dataset and seed, and ends with the same weights as one that was not: bit by bit on a CPU with
    a given number of threads, to rounding where it is chosen. A finished one returns its policy at once. The directory
    then holds `policy` (see `load`) and `training` (the last checkpoint, the log).

    Where the likelihood of held-out episodes is measured and has become clearly worse than it was, the policy gets the
    best weights in place of the last ones, and after three such measurements in a row the training ends early.

    Args:
        config: The method and its settings: `CDTConfig()`, `RvSConfig()`.
        dataset: What to learn from.
        seed: Decides all that is random.
        directory: Where to keep checkpoints, logs and the policy; without one nothing is written.
        device: "cpu", "cuda", "cuda:1" or "mps".
        compile: Whether to let `torch.compile` fuse the computation: slow to start, faster to run.
        threads: Threads on a CPU. Unless given, one or as many as PyTorch may use, whichever makes steps faster:
            measured with the first steps, and again when they slow down.
        log_every: Steps that are averaged into one row of the log, `training/log.csv`.
        validate_every: Steps between measurements on held-out episodes; the last step is always measured.
        checkpoint_every: Seconds between checkpoints; 0 for one after every step.
        report: Called about twice a second and whenever metrics are logged; `figures` has the last metrics by name, and
            `steps_per_second` once it is known.

    Raises:
        ConfigError: If an argument or a setting is impossible, the directory belongs to another training, or the
            loss is not finite any more.
        DatasetError: If the dataset cannot be learned from.
        CheckpointError: If a checkpoint is damaged or cannot be written, or something else lies where `policy` goes.
    """
    if log_every < 1 or validate_every < 1 or not checkpoint_every >= 0:
        raise ConfigError(
            "log_every and validate_every must be at least 1, checkpoint_every at least 0;"
            f" got {log_every}, {validate_every} and {checkpoint_every}."
        )
    settings = to_plain(config)  # refuses a setting that is none of its choices, or of another type
    if threads is not None and threads < 1:
        raise ConfigError(f"threads must be at least 1; got {threads}.")
    if config.steps < 1:
        raise ConfigError(f"steps must be at least 1; got {config.steps}.")
    _check_actions(dataset)
    place = check_device(device)
    root = None if directory is None else Path(directory)
    schedule = _Schedule(config.steps, log_every, validate_every, checkpoint_every)
    with _private_random_state(place, seed), _without_subnormals(), chosen_threads(threads, place) as stepped:
        if root is None:
            learner = config.build(dataset, seed=seed, device=device, compile=compile)
            return _Training(learner, schedule, place, report).run(stepped)
        identity = Identity(type(config).__name__, settings, dataset.fingerprint, int(seed))
        files = TrainingDirectory(root / TRAINING, identity)
        with files.open():
            if (root / POLICY / MANIFEST).exists():
                identity.check(read_manifest(root / POLICY).get("training"), root / POLICY)
                return load(root / POLICY)
            check_free(root / POLICY)  # `save` would notice only after the training
            state = files.read()  # before the learner is built, which may take a while
            learner = config.build(dataset, seed=seed, device=device, compile=compile)
            training = _Training(learner, schedule, place, report, files)
            if state is not None:
                training.load_state(state)
            training.log = CSVLog(root / TRAINING / "log.csv", step=training.step)
            policy = training.run(stepped)
            save(policy, root / POLICY, training=identity.plain())
            return policy


def trained_as(directory: str | Path) -> Identity:
    """Return what decided a saved policy: its method, settings, data and seed.

    Args:
        directory: Of the policy, or of the training run that has it.

    Raises:
        CheckpointError: If there is no policy, or it was saved by hand and does not say.
    """
    folder = policy_folder(directory)
    try:
        return Identity(**read_manifest(folder)["training"])
    except (KeyError, TypeError) as error:
        raise CheckpointError(
            f"The policy in {folder} does not say how it was trained; `lifesafe train` makes policies that do."
        ) from error


def _check_actions(dataset: Dataset) -> None:
    """Refuse actions that no policy could take: they all act in [-1, 1]."""
    low, high = float(dataset.actions.min()), float(dataset.actions.max())
    if low < -1 - _ROUNDING or high > 1 + _ROUNDING:
        raise DatasetError(
            f"Actions range from {low:g} to {high:g}, but policies act in [-1, 1]. Scale them by the bounds of their"
            " space, or record them from `task.environment()`, which takes actions in [-1, 1]."
        )


@dataclass(frozen=True)
class _Schedule:
    """When what is due."""

    steps: int
    log_every: int
    validate_every: int
    checkpoint_every: float

    def validates(self, step: int) -> bool:
        return step % self.validate_every == 0 or step == self.steps

    def logs(self, step: int) -> bool:
        return step % self.log_every == 0 or self.validates(step)


@dataclass
class _Means:
    """Sums of metrics since the last row of the log, kept on the device until then."""

    count: int = 0
    sums: dict[str, Tensor] = field(default_factory=dict)

    def add(self, metrics: Mapping[str, Tensor]) -> None:
        self.sums = {name: self.sums[name] + value if self.count else value for name, value in metrics.items()}
        self.count += 1

    def values(self) -> dict[str, float]:
        return {name: float(total) / self.count for name, total in self.sums.items()}


@dataclass
class _Best:
    """The policy that found held-out episodes most likely so far."""

    nll: float = math.inf
    step: int = 0
    policy: StoredPolicy | None = None
    behind: int = 0
    """How many of the last measurements were clearly worse."""

    def measure(self, nll: float, step: int, learner: Learner) -> str:
        """Take a measurement, and return what is to be said about it: nothing, unless the likelihood turns."""
        if nll < self.nll:
            self.nll, self.step, self.policy = nll, step, learner.policy()
        self.behind = self.behind + 1 if nll > self.nll + _TURNED else 0
        if self.behind == 1:
            return f"held-out episodes are less likely than at step {self.step}: the weights of then are kept"
        return "the held-out likelihood does not recover: training ends" if self.hopeless else ""

    @property
    def hopeless(self) -> bool:
        return self.behind >= _PATIENCE

    def plain(self) -> dict[str, Any] | None:
        if self.policy is None:
            return None
        return {"nll": self.nll, "step": self.step, "behind": self.behind, "policy": self.policy.plain()}

    @classmethod
    def from_parts(cls, plain: dict[str, Any] | None, tensors: dict[str, Tensor], like: StoredPolicy) -> _Best:
        if plain is None:
            return cls()
        policy = like.from_parts(like.config, tensors, plain["policy"])
        return cls(plain["nll"], plain["step"], policy, plain["behind"])


class _Training:
    """A learner on its way."""

    def __init__(
        self,
        learner: Learner,
        schedule: _Schedule,
        device: torch.device,
        report: Report | None,
        files: TrainingDirectory | None = None,
    ) -> None:
        self.step = 0
        self.log: CSVLog | None = None
        self._learner = learner
        self._schedule = schedule
        self._device = device
        self._files = files
        self._means = _Means()
        self._best = _Best()
        self._began = time.monotonic()  # that much earlier if it is resumed
        self._report = _Reporter(schedule.steps, report)
        self._saved_step = -1
        self._saved_at = time.monotonic()

    def run(self, stepped: Callable[[], None]) -> StoredPolicy:
        with _held_interrupts(self._files is not None) as interrupted:
            while not self._is_over():
                self._means.add(self._learner.update(self.step))
                self.step += 1
                metrics, note = self._log() if self._schedule.logs(self.step) else (None, "")
                self._report(self.step, metrics, note)
                if interrupted.is_set() or self._is_checkpoint_due():
                    self._checkpoint()
                if interrupted.is_set():
                    raise KeyboardInterrupt
                stepped()
        return self._best.policy if self._best.policy and self._best.behind else self._learner.policy()

    def load_state(self, state: TrainingState) -> None:
        try:
            self._learner.load_state(under("learner", state.tensors), state.plain["learner"])
            self._means = _Means(state.plain["averaged"], under("metrics", state.tensors))
            self._means.sums = {name: value.to(self._device) for name, value in self._means.sums.items()}
            self._best = _Best.from_parts(state.plain["best"], under("best", state.tensors), self._learner.policy())
            self._began = time.monotonic() - state.plain["seconds"]
            set_random_state(self._device, under("random", state.tensors))
        except (KeyError, ValueError, TypeError, RuntimeError) as error:
            raise CheckpointError(
                f"The checkpoint of step {state.step} does not fit this version of lifesafe: {error}."
                " Train again into another directory."
            ) from error
        self.step = self._saved_step = state.step

    def _seconds(self) -> float:
        """Return how long the training took so far, before it was resumed included."""
        return time.monotonic() - self._began

    def _is_over(self) -> bool:
        return self.step == self._schedule.steps or self._best.hopeless

    def _log(self) -> tuple[dict[str, float], str]:
        """Write a row of the log; return its metrics, and what else there is to say."""
        metrics, note = self._means.values(), ""
        self._means = _Means()
        if self._schedule.validates(self.step):
            metrics |= {f"held_out_{name}": value for name, value in self._learner.validate().items()}
        broken = {name: value for name, value in metrics.items() if not math.isfinite(value)}
        if broken:
            name, value = next(iter(broken.items()))
            raise ConfigError(
                f"Training broke down: {name} is {value} at step {self.step}. Give a smaller learning_rate, or look"
                ' for extreme values in the data ("lifesafe data check").'
            )
        if self.log is not None:
            self.log.write(self.step, {**metrics, "seconds": round(self._seconds(), 3)})
        if "held_out_nll" in metrics:
            note = self._best.measure(metrics["held_out_nll"], self.step, self._learner)
        return metrics, note

    def _is_checkpoint_due(self) -> bool:
        waited = time.monotonic() - self._saved_at
        return waited >= self._schedule.checkpoint_every or self._is_over()

    def _checkpoint(self) -> None:
        if self._files is None or self.step == self._saved_step:
            return
        tensors, plain = self._learner.state()
        best = self._best.policy.tensors() if self._best.policy else {}
        self._files.write(
            TrainingState(
                step=self.step,
                tensors={
                    **prefixed("learner", tensors),
                    **prefixed("metrics", self._means.sums),
                    **prefixed("best", best),
                    **prefixed("random", random_state(self._device)),
                },
                plain={
                    "learner": plain,
                    "averaged": self._means.count,
                    "best": self._best.plain(),
                    "seconds": self._seconds(),
                },
            )
        )
        self._saved_step, self._saved_at = self.step, time.monotonic()


class _Reporter:
    """Tells a caller how training goes, now and then."""

    def __init__(self, steps: int, callback: Report | None) -> None:
        self._steps = steps
        self._callback = callback
        self._metrics: dict[str, float] = {}
        self._marks: deque[tuple[float, int]] = deque(maxlen=20)  # when which step was done
        self._told = -math.inf

    def __call__(self, step: int, metrics: dict[str, float] | None, note: str) -> None:
        if self._callback is None:
            return
        now = time.monotonic()
        self._metrics |= metrics or {}
        if metrics is None and now - self._told < _REPORT_SECONDS:
            return
        self._told = now
        self._marks.append((now, step))
        seconds = now - self._marks[0][0]
        rate = {"steps_per_second": (step - self._marks[0][1]) / seconds} if seconds > 0 else {}
        self._callback(Progress("training", step, self._steps, note, self._metrics | rate))


@contextlib.contextmanager
def _private_random_state(device: torch.device, seed: int) -> Iterator[None]:
    """Seed torch's global generators, from which dropout draws, and give the caller's back at the end."""
    before = random_state(device)
    torch.manual_seed(integer(seed, "train"))
    try:
        yield
    finally:
        set_random_state(device, before)


@contextlib.contextmanager
def _without_subnormals() -> Iterator[None]:
    """Let numbers below 1e-38 be 0, and give the caller's way back at the end.

    They are as good as 0, and processors are slow with them. Weights that decay and averages of gradients that vanish
    end there: after 5000 steps of CCAC nearly half of a layer, and a step took twenty times as long as the first.
    """
    before = float(torch.tensor(2e-38) * 0.1) == 0.0  # torch does not tell otherwise
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


@contextlib.contextmanager
def _held_interrupts(hold: bool) -> Iterator[threading.Event]:
    """Let the first Ctrl-C set the event, so that a step is not torn; the second one acts as usual."""
    interrupted = threading.Event()
    is_main = threading.current_thread() is threading.main_thread()
    if not hold or not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield interrupted
        return

    def hold_once(*_: Any) -> None:
        interrupted.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, hold_once)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
