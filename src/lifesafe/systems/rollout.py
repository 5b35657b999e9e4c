"""Run a policy, one episode per target and seed, many side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, Int

from lifesafe.data import Dataset, Episode
from lifesafe.data.dataset import COLUMNS
from lifesafe.errors import ConfigError, EpisodeError, TrialError
from lifesafe.interfaces import Policy, Progress, Report
from lifesafe.returns import Returns
from lifesafe.systems.vector import Step, Vector, clip


@dataclass(frozen=True)
class Assignment:
    """One episode to run: the target to ask for, and the seed that decides what is random in it."""

    target: Returns
    seed: int


@dataclass(frozen=True, eq=False)
class Outcome:
    """How one episode went.

    Attributes:
        returns: What it earned and cost.
        length: Its steps.
        terminated: Whether it ended by itself rather than at its horizon.
        episode: The whole of it, if it was recorded.
    """

    returns: Returns
    length: int
    terminated: bool
    episode: Episode | None = None


@dataclass(frozen=True, eq=False)
class Rollout:
    """How all episodes went, in the order they were asked for."""

    outcomes: tuple[Outcome, ...]

    @property
    def returns(self) -> list[Returns]:
        """What each episode earned and cost."""
        return [outcome.returns for outcome in self.outcomes]

    @property
    def steps(self) -> int:
        """Steps of all episodes together."""
        return sum(outcome.length for outcome in self.outcomes)

    @property
    def dataset(self) -> Dataset:
        """All episodes, if they were recorded.

        Raises:
            ConfigError: If they were not.
        """
        episodes = [outcome.episode for outcome in self.outcomes if outcome.episode is not None]
        if len(episodes) < len(self.outcomes):
            raise ConfigError("The episodes were not recorded; roll out with record=True.")
        return Dataset.from_episodes(episodes)


def rollout(
    policy: Policy,
    vector: Vector,
    targets: Sequence[Returns],
    seeds: Sequence[int],
    *,
    record: bool = False,
    progress: Report | None = None,
) -> Rollout:
    """Return how the policy does in one episode per target and seed.

    As many episodes run side by side as the vector has rows; when one ends, the next begins in its row. How many
    these are changes no result, but for the rounding of a policy that computes many rows together.

    Args:
        policy: Who acts.
        vector: The environments; they stay open.
        targets: What each episode asks for.
        seeds: What decides all that is random in each episode.
        record: Whether to keep every step, for `Rollout.dataset`.
        progress: Called whenever episodes have ended.

    Raises:
        ConfigError: If there is not one seed per target, or no target.
        TrialError: If a target has not as many costs as the environments.
        EpisodeError: If an episode cannot be run.
    """
    jobs = jobs_of(targets, seeds, vector.costs)
    return gather(play(policy, vector, jobs, record=record), len(jobs), progress)


def gather(shares: Iterable[dict[int, Outcome]], episodes: int, progress: Report | None) -> Rollout:
    """Return all outcomes, given as they come about by the number of their job."""
    outcomes: dict[int, Outcome] = {}
    steps = 0
    for finished in shares:
        outcomes |= finished
        steps += sum(outcome.length for outcome in finished.values())
        if finished and progress is not None:
            progress(Progress("episodes", len(outcomes), episodes, figures={"steps": steps}))
    return Rollout(tuple(outcomes[number] for number in range(episodes)))


def jobs_of(targets: Sequence[Returns], seeds: Sequence[int], costs: int) -> list[Assignment]:
    """Return one job per target and seed, in a task with so many costs.

    Raises:
        ConfigError: If there is not one seed per target, or no target.
        TrialError: If a target has another number of costs.
    """
    if not targets or len(targets) != len(seeds):
        raise ConfigError(f"Got {len(targets)} targets and {len(seeds)} seeds; give one of each per episode.")
    strange = next((target for target in targets if len(target.costs) != costs), None)
    if strange is not None:
        raise TrialError(
            f"The target {strange} asks for {len(strange.costs)} costs, the task has {costs}; give one each."
        )
    return [Assignment(target, int(seed)) for target, seed in zip(targets, seeds, strict=True)]


def play(
    policy: Policy, vector: Vector, jobs: Sequence[Assignment], *, record: bool = False
) -> Iterator[dict[int, Outcome]]:
    """Run the jobs; after every step, give the outcomes of the jobs that just ended.

    Jobs begin in their order, and as many run side by side as the vector has rows. What ended is given before the next
    ones begin.
    """
    size = min(vector.size, len(jobs))
    actor = policy.actor([job.target for job in jobs[:size]])
    observations = vector.reset(np.arange(size), [job.seed for job in jobs[:size]])
    books = _Books(size, len(jobs[0].target.costs), record)
    active, job_in, following = np.arange(size), np.arange(size), size
    while len(active):
        named = None if len(active) == size else active
        seen = observations[active]
        actions = clip(np.asarray(actor.act(seen, named)))
        step = vector.step(active, actions)
        actor.observe(step.rewards, step.costs, named)
        observations[active] = step.observations
        books.note(active, seen, actions, step)
        ended = step.terminated | step.truncated
        yield {
            int(job_in[row]): books.close(int(row), terminated=bool(terminated))
            for row, terminated in zip(active[ended], step.terminated[ended], strict=True)
        }
        again = active[ended][: len(jobs) - following]  # rows in which the next jobs begin
        active = np.sort(np.concatenate([active[~ended], again]))
        if len(again):
            job_in[again] = np.arange(following, following + len(again))
            following += len(again)
            begun = [jobs[number] for number in job_in[again]]
            actor.restart([job.target for job in begun], again)
            observations[again] = vector.reset(again, [job.seed for job in begun])


class _Books:
    """What every row has earned and cost since its episode began, and all of its steps if they are recorded."""

    def __init__(self, size: int, costs: int, record: bool) -> None:
        self._returns = np.zeros((size, 1 + costs))
        self._lengths = np.zeros(size, dtype=np.int64)
        self._steps: list[list[tuple[Any, ...]]] | None = [[] for _ in range(size)] if record else None

    def note(
        self,
        rows: Int[np.ndarray, " m"],
        seen: Float[np.ndarray, "m o"],
        actions: Float32[np.ndarray, "m a"],
        step: Step,
    ) -> None:
        earned = np.column_stack([step.rewards, step.costs])
        if not np.isfinite(earned).all():
            reward, *costs = earned[~np.isfinite(earned).all(axis=1)][0]
            raise EpisodeError(f"A step earned {reward} and cost {costs}; every number must be finite.")
        self._returns[rows] += earned
        self._lengths[rows] += 1
        if self._steps is not None:
            columns = (seen, actions, step.rewards, step.costs, step.observations)
            for row, *values in zip(rows.tolist(), *columns, strict=True):
                self._steps[row].append(tuple(values))

    def close(self, row: int, *, terminated: bool) -> Outcome:
        """Return how the episode of a row went, and open the books of the next one."""
        reward, *costs = self._returns[row].tolist()
        length = int(self._lengths[row])
        self._returns[row], self._lengths[row] = 0.0, 0
        episode = None
        if self._steps is not None:
            columns = (np.array(column, dtype=np.float32) for column in zip(*self._steps[row], strict=True))
            episode = Episode(**dict(zip(COLUMNS, columns, strict=True)), terminated=terminated)
            self._steps[row] = []
        return Outcome(Returns(reward, costs), length, terminated, episode)
