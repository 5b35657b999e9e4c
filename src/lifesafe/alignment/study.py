"""Train a policy per seed and run it at a grid of targets (Figure 2 of Wachi et al. 2025).

The directory of a study has one folder per seed: the policy, its training and what it did at every target. What is
finished there is not done again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float

from lifesafe._config import fingerprint, to_plain
from lifesafe.alignment.results import FILE, Alignment, Point, read_alignment, write_alignment
from lifesafe.data import Dataset
from lifesafe.environments import Task, evaluate
from lifesafe.errors import ConfigError, DatasetError
from lifesafe.policies import train
from lifesafe.policies.learner import LearnerConfig
from lifesafe.policies.training import Progress
from lifesafe.returns import Returns, returns_array

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
        evaluation_progress: Called with the seed, the episodes and the steps done.

    Raises:
        ConfigError: If the directory holds a study of another task, with other data, settings or targets.
    """
    targets = target_grid(dataset.returns, rewards, costs)
    identity = {"task": task.name, "dataset": dataset.fingerprint, "config": fingerprint(to_plain(config))}
    parts = []
    for seed in seeds:
        path = Path(directory) / f"seed-{seed}"
        if (path / FILE).is_file():
            parts.append(read_alignment(path))
            _check(parts[-1], identity, targets, episodes, path)
            continue
        begun = time.monotonic()
        policy = train(config, dataset, seed=seed, directory=path, progress=_with(seed, training_progress))
        trained = time.monotonic()
        found = evaluate(
            policy, task, targets, episodes, seed=seed, workers=workers, progress=_with(seed, evaluation_progress)
        )
        part = Alignment(
            **identity,
            seed=seed,
            training=trained - begun,
            evaluation=time.monotonic() - trained,
            points=tuple(
                Point(target=tuple(target), episodes=tuple(map(tuple, returns_array(each).tolist())))
                for target, each in zip(targets, found, strict=True)
            ),
        )
        write_alignment(part, path)
        parts.append(part)
    return parts


def _check(part: Alignment, identity: Mapping[str, str], targets: Sequence[Returns], episodes: int, path: Path) -> None:
    for name, asked in identity.items():
        found = getattr(part, name)
        if found != asked:
            raise ConfigError(
                f"{path} holds a study with {name} {found}; asked for is {asked}. Give another directory."
            )
    grid = [(point.target, len(point.episodes)) for point in part.points]
    if grid != [(tuple(target), episodes) for target in targets]:
        raise ConfigError(f"{path} holds a study of {len(grid)} other targets or episodes. Give another directory.")


def _with(seed: int, progress: Callable[..., None] | None) -> Callable[..., None] | None:
    return None if progress is None else partial(progress, seed)
