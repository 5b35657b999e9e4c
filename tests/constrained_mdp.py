"""A small constrained MDP whose best policies are known exactly: a laboratory for methods that learn from logs.

A car drives along open road, through villages and around bends, for `HORIZON` steps or until it leaves the road. The
action is its speed, from -1 (a crawl) to 1. Speed earns, most on the first half; it costs as its square, least on open
road and most in a bend; it brings more bends, and in a bend it may end the episode. Learners see which section they
are on, and nothing once they are off the road.

Rewards are concave, costs convex and transitions linear in the speed. So there is nothing to gain from acting at
random, the best policy changes smoothly with the limit, and one that acts nearly as the best one is nearly as good. A
linear program over all policies, those that know the time included, found less than 1 % more than the best of the
stationary deterministic ones, which are simply tried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lifesafe.data import Dataset
from lifesafe.interfaces import Policy
from lifesafe.returns import Returns

SECTIONS = ("open road", "village", "bend")
HORIZON = 50
LIMIT = 5.0
"""Less than half of what the best policy without a limit costs."""
DISCOUNT = 0.95
"""For critics: far enough ahead to see all sections, and soon blind to what came before."""

START = np.full(3, 1 / 3)
GAIN = np.array([10.0, 10.0, 10.0])
"""What full speed earns per step in each section."""
HARM = np.array([0.15, 0.5, 1.0])
"""What full speed costs per step in each section."""
CRAWLING = np.array([[0.6, 0.3, 0.1], [0.5, 0.3, 0.2], [0.5, 0.3, 0.2]])
"""Probabilities of the next section (column) after a step without speed."""
RACING = np.array([[0.4, 0.3, 0.3], [0.3, 0.4, 0.3], [0.45, 0.3, 0.2]])
"""The same at full speed; what a row lacks to 1 is the probability of leaving the road."""

ACTIONS = np.linspace(-1.0, 1.0, 41)
OBSERVATIONS = np.eye(3, dtype=np.float32)
OFF_ROAD = np.zeros(3, dtype=np.float32)

BOLD, CAUTIOUS = 0.8, -0.6
"""What drivers usually do, wherever they are; in between they act seldom, though never never."""


class Value(NamedTuple):
    """Expected reward and cost of an episode; arrays for several policies."""

    reward: Any
    cost: Any


def rewards(actions: np.ndarray, sections: np.ndarray | None = None) -> np.ndarray:
    """Return what a step earns; the last axis of the actions is the section unless sections are named."""
    speed = (actions + 1) / 2
    return (GAIN if sections is None else GAIN[sections]) * speed * (1.5 - 0.5 * speed)


def costs(actions: np.ndarray, sections: np.ndarray | None = None) -> np.ndarray:
    """Return what a step costs."""
    speed = (actions + 1) / 2
    return (HARM if sections is None else HARM[sections]) * speed**2


def transitions(actions: np.ndarray, sections: np.ndarray | None = None) -> np.ndarray:
    """Return the probabilities of the next section, which add up to less than 1 where an episode may end."""
    speed = (actions[..., None] + 1) / 2
    chosen = slice(None) if sections is None else sections
    return (1 - speed) * CRAWLING[chosen] + speed * RACING[chosen]


def always(actions: Any) -> np.ndarray:
    """Return actions by section (last axis) as a plan that does the same at all times (first axis)."""
    actions = np.asarray(actions, dtype=float)
    return np.broadcast_to(actions, (HORIZON, *actions.shape))


def evaluate(plan: np.ndarray) -> Value:
    """Return the exact value of deterministic policies: actions by time (first axis) and section (last axis)."""
    present, reward, cost = START, 0.0, 0.0
    for actions in plan:
        reward = reward + (present * rewards(actions)).sum(-1)
        cost = cost + (present * costs(actions)).sum(-1)
        present = np.einsum("...s,...sf->...f", present, transitions(actions))
    return Value(reward, cost)


def best_deterministic(limit: float = np.inf) -> tuple[Value, np.ndarray]:
    """Return the best of all stationary deterministic policies on the grid, and its action in each section."""
    every = np.stack(np.meshgrid(*[ACTIONS] * len(SECTIONS), indexing="ij"), axis=-1).reshape(-1, len(SECTIONS))
    reward, cost = evaluate(always(every))
    best = np.where(cost <= limit, reward, -np.inf).argmax()
    return Value(float(reward[best]), float(cost[best])), every[best]


Choose = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""From the episodes that still run, and the section each is in, to their actions."""


class Log(NamedTuple):
    """Simulated episodes, one per row and one step per column; what lies beyond an episode's end means nothing."""

    sections: np.ndarray
    actions: np.ndarray
    following: np.ndarray
    lengths: np.ndarray
    terminated: np.ndarray


def simulate(choose: Choose, episodes: int, rng: np.random.Generator, observe: Any = None) -> Log:
    """Return episodes driven by a rule.

    Args:
        choose: The rule.
        episodes: How many.
        rng: What decides where the road leads.
        observe: Told after each step which episodes moved, what each earned and what it cost.
    """
    sections = np.zeros((episodes, HORIZON), dtype=int)
    actions, following = np.zeros((episodes, HORIZON)), np.zeros((episodes, HORIZON), dtype=int)
    lengths = np.zeros(episodes, dtype=int)
    present, rows = rng.choice(len(SECTIONS), size=episodes, p=START), np.arange(episodes)
    for time in range(HORIZON):
        taken = choose(rows, present)
        reached = rng.random(len(rows))[:, None] > transitions(taken, present).cumsum(-1)
        sections[rows, time], actions[rows, time], following[rows, time] = present, taken, reached.sum(-1)
        lengths[rows] += 1
        if observe is not None:
            observe(rows, rewards(taken, present), costs(taken, present))
        on_road = following[rows, time] < len(SECTIONS)
        rows, present = rows[on_road], following[rows[on_road], time]
    last = following[np.arange(episodes), lengths - 1]
    return Log(sections, actions, following, lengths, last == len(SECTIONS))


def returns(log: Log) -> np.ndarray:
    """Return what each simulated episode earned and cost."""
    driven = np.arange(HORIZON) < log.lengths[:, None]
    earned, spent = rewards(log.actions, log.sections), costs(log.actions, log.sections)
    return np.stack([(earned * driven).sum(1), (spent * driven).sum(1)], axis=1)


def logged_dataset(episodes: int = 800, seed: int = 0) -> Dataset:
    """Return what drivers logged who are bold in some steps and cautious in others, some more often than others."""
    rng = np.random.default_rng(seed)
    boldness = rng.uniform(0.1, 1.0, size=episodes)

    def drive(rows: np.ndarray, _: np.ndarray) -> np.ndarray:
        usual = np.where(rng.random(len(rows)) < boldness[rows], BOLD, CAUTIOUS) + 0.2 * rng.normal(size=len(rows))
        any_speed = rng.uniform(-1, 1, size=len(rows))
        return np.clip(np.where(rng.random(len(rows)) < 0.1, any_speed, usual), -1, 1)

    log = simulate(drive, episodes, rng)
    driven = np.arange(HORIZON) < log.lengths[:, None]
    seen = np.concatenate([OBSERVATIONS, OFF_ROAD[None]])
    ends = np.arange(HORIZON) == log.lengths[:, None] - 1
    sections, actions, terminals = log.sections[driven], log.actions[driven], ends & log.terminated[:, None]
    return Dataset.from_arrays(
        observations=seen[sections],
        actions=actions,
        rewards=rewards(actions, sections),
        costs=costs(actions, sections),
        next_observations=seen[log.following[driven]],
        terminals=terminals[driven],
        timeouts=(ends & ~terminals)[driven],
    )


def plan_of(policy: Policy, target: Returns) -> np.ndarray:
    """Return the actions of a policy that depends on nothing but time and what it sees, by time and section."""
    actor = policy.actor([target] * len(SECTIONS))
    plan = np.empty((HORIZON, len(SECTIONS)))
    for time in range(HORIZON):
        plan[time] = actor.act(OBSERVATIONS)[:, 0]
        actor.observe(np.zeros(len(SECTIONS)), np.zeros((len(SECTIONS), 1)))
    return plan


def play(policy: Policy, target: Returns, episodes: int, seed: int = 0) -> np.ndarray:
    """Return what simulated episodes of a policy earned and cost, whatever its actions depend on."""
    actor = policy.actor([target] * episodes)
    log = simulate(
        lambda rows, present: actor.act(OBSERVATIONS[present], rows)[:, 0].astype(float),
        episodes,
        np.random.default_rng(seed),
        lambda rows, earned, spent: actor.observe(earned, spent[:, None], rows),
    )
    return returns(log)
