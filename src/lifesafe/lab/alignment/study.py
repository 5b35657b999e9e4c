"""Run policies of several seeds at a grid of targets (Figure 2 of Wachi et al. 2025), trained for it or before.

The directory of a study has one folder per seed: what its policy did at every target and, if it was trained here, the
policy and its training. What is finished there is not done again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from lifesafe._config import fingerprint, to_plain
from lifesafe.data import Dataset
from lifesafe.errors import ConfigError, DatasetError
from lifesafe.interfaces import Progress, Report
from lifesafe.lab.alignment.results import FILE, Alignment, TargetResult, read_alignment, write_alignment
from lifesafe.policies import LearnerConfig, StoredPolicy, load, train
from lifesafe.policies.training import trained_as
from lifesafe.returns import Returns, returns_array
from lifesafe.systems import Task, evaluate_many

_HIGHEST = 0.95  # quantile of the data's costs up to which targets go


def target_grid(returns: Float[np.ndarray, "e r"], rewards: int, costs: int) -> list[Returns]:
    """Return a grid of targets within the data.

    Rewards go from the median to the best, costs from none to the 95 % quantile; several costs rise together.

    Raises:
        DatasetError: If all episodes cost the same, so that there is nothing to ask for.
    """
    best, middle = returns[:, 0].max(), np.median(returns[:, 0])
    tops = np.quantile(returns[:, 1:], _HIGHEST, axis=0)
    if not (tops > 0).all():
        raise DatasetError(f"95 % of the episodes cost nothing (quantiles {tops}); there are no cost targets to try.")
    shares = np.linspace(0.0, 1.0, costs)
    return [Returns(reward, share * tops) for reward in np.linspace(middle, best, rewards) for share in shares]


def study(
    task: Task,
    dataset: Dataset,
    config: LearnerConfig,
    directory: str | Path,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    rewards: int = 5,
    costs: int = 6,
    episodes: int = 20,
    workers: int = 0,
    training_progress: Callable[[int, Progress], None] | None = None,
    evaluation_progress: Callable[[int, int, int], None] | None = None,
) -> list[Alignment]:
    """Train and evaluate one policy per seed; what a directory holds already is taken from there.

    Args:
        task: Where the policies act.
        dataset: What they learn from.
        config: Which policy.
        directory: Where everything is kept.
        seeds: One policy each.
        rewards: Reward targets of the grid.
        costs: Cost targets of the grid.
        episodes: Episodes at each target.
        workers: Processes that run episodes; with none, this one does.
        training_progress: Called with the seed and how far its training is.
        evaluation_progress: Called with the seed, the episodes done, and how many there are.

    Raises:
        ConfigError: If the directory holds a study of another task, with other data, settings or targets.
    """
    grid = _Grid(task, dataset, target_grid(dataset.returns, rewards, costs), episodes, workers, evaluation_progress)
    parts = []
    for seed in seeds:
        path = Path(directory) / f"seed-{seed}"
        learn = partial(
            train,
            config,
            dataset,
            seed=seed,
            directory=path,
            report=None if training_progress is None else partial(training_progress, seed),
        )
        parts.append(grid.part(path, seed, to_plain(config), learn))
    return parts


def study_policies(
    task: Task,
    dataset: Dataset,
    policies: Sequence[str | Path],
    directory: str | Path,
    *,
    rewards: int = 5,
    costs: int = 6,
    episodes: int = 20,
    workers: int = 0,
    evaluation_progress: Callable[[int, int, int], None] | None = None,
) -> list[Alignment]:
    """Evaluate policies that were trained before, by `train`, in a life or in a suite, as `study` does with its own.

    `policies` are directories of policies, or of the trainings or lives that have them: one setting, several seeds.
    The other arguments are those of `study`.

    Raises:
        ConfigError: If a policy learned from other data, two have one seed or different settings, or the directory
            holds a study of another task, with other data, settings or targets.
        CheckpointError: If a directory holds no whole policy, or one that does not say how it was trained.
    """
    grid = _Grid(task, dataset, target_grid(dataset.returns, rewards, costs), episodes, workers, evaluation_progress)
    places: dict[int, Path] = {}
    origins = [(Path(policy), trained_as(policy)) for policy in policies]
    for place, origin in origins:
        if origin.dataset != dataset.fingerprint:
            raise ConfigError(
                f"The policy in {place} learned from data {origin.dataset[:8]}; those given are"
                f" {dataset.fingerprint[:8]}. Give the data it learned from: targets are laid out over them."
            )
        if places.setdefault(origin.seed, place) != place:
            raise ConfigError(f"{places[origin.seed]} and {place} both have seed {origin.seed}; give one per seed.")
        if (origin.method, origin.config) != (origins[0][1].method, origins[0][1].config):
            raise ConfigError(
                f"The policies in {origins[0][0]} and {place} were trained with different settings or methods; a study"
                " is of one setting. Give them apart, each with a directory of its own."
            )
    return [
        grid.part(Path(directory) / f"seed-{origin.seed}", origin.seed, origin.config, partial(load, place))
        for place, origin in origins
    ]


@dataclass(frozen=True)
class _Grid:
    """What every policy of a study is run at."""

    task: Task
    dataset: Dataset
    targets: Sequence[Returns]
    episodes: int
    workers: int
    progress: Callable[[int, int, int], None] | None

    def part(self, path: Path, seed: int, config: Mapping[str, Any], obtain: Callable[[], StoredPolicy]) -> Alignment:
        """Return what the policy of one seed did at every target: from its directory, else by running it."""
        identity = {"task": self.task.name, "dataset": self.dataset.fingerprint, "config": fingerprint(config)}
        if (path / FILE).is_file():
            part = read_alignment(path)
            self._check(part, identity, path)
            return part
        begun = time.monotonic()
        policy = obtain()
        trained = time.monotonic()
        found = evaluate_many(
            policy, self.task, self.targets, self.episodes,
            seed=seed, workers=self.workers, progress=_with(seed, self.progress),
        )  # fmt: skip
        part = Alignment(
            **identity,
            seed=seed,
            training=trained - begun,
            evaluation=time.monotonic() - trained,
            points=tuple(
                TargetResult(target=tuple(target), episodes=tuple(map(tuple, returns_array(each).tolist())))
                for target, each in zip(self.targets, found, strict=True)
            ),
        )
        write_alignment(part, path)
        return part

    def _check(self, part: Alignment, identity: Mapping[str, str], path: Path) -> None:
        for name, asked in identity.items():
            found = getattr(part, name)
            if found != asked:
                raise ConfigError(
                    f"{path} holds a study with {name} {found}; asked for is {asked}. Give another directory."
                )
        grid = [(point.target, len(point.episodes)) for point in part.points]
        if grid != [(tuple(target), self.episodes) for target in self.targets]:
            raise ConfigError(f"{path} holds a study of {len(grid)} other targets or episodes. Give another directory.")


def _with(seed: int, progress: Callable[[int, int, int], None] | None) -> Report | None:
    return None if progress is None else lambda state: progress(seed, state.done, state.total or 0)
