"""What to try next: a pure function of the state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from lifesafe.errors import ConfigError, NoSafeTargetError
from lifesafe.optimizer.confidence import Confidence, allowance, confidence, raw_bands
from lifesafe.optimizer.posterior import Posterior
from lifesafe.optimizer.problem import Problem
from lifesafe.optimizer.recommendation import recommend
from lifesafe.optimizer.schedule import Schedule, Stage
from lifesafe.optimizer.sets import SLACK, expander, frontier, safe_set
from lifesafe.optimizer.state import State, known_now


@dataclass(frozen=True)
class Decision:
    """The next trial and the numbers it rests on, raw units."""

    stage: Stage
    index: int
    risk: float
    allowance: float
    lower: tuple[float, ...]
    """Lower confidence bound of each return at the target."""
    upper: tuple[float, ...]


def admissible(state: State, known: Confidence) -> Bool[np.ndarray, " n"]:
    """Return the safe set: what may be tried now."""
    if state.frozen or state.stage is Stage.SEED:
        safe = np.zeros(len(state.problem.candidates), dtype=bool)
    elif state.problem.lipschitz:
        safe = state.lipschitz_set & ~state.closed
    else:
        safe = safe_set(known, state.distance, state.schedule.reach) & ~state.closed
    if state.holding:
        safe &= state.distance == 0
    safe[list(state.free)] = True
    safe[list(state.withdrawn)] = False
    return safe


def decide(state: State) -> Decision | None:
    """Return the next trial, or none when there is nothing left to do.

    Raises:
        NoSafeTargetError: If every seed has failed and no other target is known to be safe.
    """
    if is_over(state):
        return None
    known = known_now(state)
    if state.stage is Stage.SEED:
        return _at(state, known, Stage.SEED, _seed(state))
    safe = admissible(state, known)
    if not safe.any():  # the certified seeds have failed since: go on with the next
        return _at(state, known, Stage.SEED, _seed(state))
    spread = state.pretended()
    if spread is not state.posterior:
        known_spread = confidence(state.schedule, state.problem, spread, known.allowance)
    else:
        known_spread = known
    if state.frozen:  # a seed, in whatever stage: the search goes on from here once it is confirmed
        return _at(state, known, state.stage, int(np.where(safe, known_spread.reward_upper, -np.inf).argmax()))
    if state.stage is Stage.EXPLORE and not state.holding and state.explored < state.schedule.exploration:
        index = _expander(state, spread, known_spread, safe)
        if index is not None:
            return _at(state, known, Stage.EXPLORE, index)
    if _is_accurate(state, known, safe):
        return None
    index = int(np.where(safe, known_spread.reward_upper, -np.inf).argmax())
    return _at(state, known, Stage.MAXIMIZE, index)


def is_done(state: State) -> bool:
    """Return whether nothing is left to ask: the run is over, or accurate enough."""
    if is_over(state) or state.stage is Stage.SEED or state.schedule.accuracy <= 0:
        return is_over(state)
    return bool(admissible(state, known_now(state)).any()) and decide(state) is None


def is_over(state: State) -> bool:
    """Return whether the trials are used up, or a violation ends the run."""
    stopped = state.schedule.on_violation == "stop" and state.exceeded
    return stopped or state.trial > state.schedule.trials


def check_steps(problem: Problem, schedule: Schedule) -> None:
    """Refuse candidates so far apart that a search could never leave its seeds.

    Raises:
        ConfigError: If no seed has another candidate within the reach.
    """
    if problem.lipschitz:  # its steps are as long as the slopes allow
        return
    X = problem.scaled
    distances = np.abs(X[:, :, None] - X[:, None, list(problem.seeds)]).max(axis=0)
    nearest = float(distances[distances > 0].min())
    if nearest > schedule.reach + SLACK:
        raise ConfigError(
            f"The candidate nearest to a seed is {nearest:.3g} of an axis away, and no step may be longer than the"
            f" reach, {schedule.reach:g}: nothing but the seeds could be tried. Give a reach of {nearest:.3g} or more,"
            " a wider dither if there is one, or candidates that lie closer."
        )


def check_prior(problem: Problem, schedule: Schedule) -> None:
    """Refuse a prior under which targets that nobody has tried count as safe.

    Raises:
        ConfigError: If the prior certifies candidates beyond the seeds, or the settings do not fit together.
    """
    if schedule.certification == "betting" and not problem.cost_bounds:
        raise ConfigError("The betting certificate needs cost_bounds: the largest possible cost of an episode.")
    if problem.lipschitz and (schedule.risk == "ledger" or problem.priors.cost.scale != "linear"):
        raise ConfigError(
            f"Slope bounds need bands that hold at all targets at once, on a linear scale; got the {schedule.risk} "
            f"schedule on the {problem.priors.cost.scale} scale. Use the paper schedule and a linear prior."
        )
    if problem.trust_prior:
        return
    share = certified_by_prior(problem, schedule)
    if share > 0:
        raise ConfigError(
            f"The prior alone certifies {share:.1%} of the candidates, which nobody has tried. Give the costs a larger "
            "prior sd, the prior mean 'limit' or 'larger', or set trust_prior if you know that the prior is right."
        )


def certified_by_prior(problem: Problem, schedule: Schedule) -> float:
    """Return the share of the candidates which the prior alone calls safe, seeds aside, whenever it calls most so."""
    allowed = max(allowance(schedule, problem, 0.0, trial) for trial in (1, schedule.trials))
    risk = confidence(schedule, problem, Posterior(problem), allowed).risk
    risk[list(problem.seeds)] = 1.0
    return float((risk <= allowed).mean())


def _seed(state: State) -> int:
    index = state.seed
    if index is None:
        raise NoSafeTargetError(_no_target(state))
    return index


def _no_target(state: State) -> str:
    problem, failed = state.problem, [i for i in state.problem.seeds if i in state.failed | state.withdrawn]
    shown = ", ".join(str(problem.target(i)) for i in failed[:3])
    beyond = len(problem.seeds) - len(failed)
    rest = f", and {beyond} more lie beyond costlier ones" if beyond else ""
    return (
        f"No target is known to keep the limits {problem.limits}: {'' if beyond else 'all '}{len(failed)} seeds failed"
        f" ({shown}{', ...' if len(failed) > 3 else ''}){rest}. Train the policy longer, or give more conservative"
        " seeds or higher limits."
    )


def _expander(state: State, posterior: Posterior, known: Confidence, safe: Bool[np.ndarray, " n"]) -> int | None:
    schedule, problem = state.schedule, state.problem
    front = frontier(known, problem.scaled, safe, state.distance, schedule.reach, state.closed)
    slopes = np.array(problem.lipschitz) / np.array(problem.reference) if problem.lipschitz else None
    return expander(schedule, posterior, known, problem.scaled, safe, front, state.distance, slopes)


def _is_accurate(state: State, known: Confidence, safe: Bool[np.ndarray, " n"]) -> bool:
    """Whether no safe target can beat the recommendation by more than the accuracy asked for."""
    if state.schedule.accuracy <= 0:
        return False
    best = recommend(state)
    if best is None:
        return False
    return bool(known.reward_upper[safe].max() - known.reward_lower[best.index] <= state.schedule.accuracy)


def _at(state: State, known: Confidence, stage: Stage, index: int) -> Decision:
    at = raw_bands(state.problem, _column(known, index))
    return Decision(
        stage=stage,
        index=index,
        risk=float(known.risk[index]),
        allowance=known.allowance,
        lower=tuple(float(v) for v in at.lower[:, 0]),
        upper=tuple(float(v) for v in at.upper[:, 0]),
    )


def _column(known: Confidence, index: int) -> Confidence:
    one = slice(index, index + 1)
    return Confidence(
        risk=known.risk[one],
        allowance=known.allowance,
        multiplier=known.multiplier,
        reward_mean=known.reward_mean[one],
        reward_sd=known.reward_sd[one],
        cost_means=known.cost_means[:, one],
        cost_sds=known.cost_sds[:, one],
        limits=known.limits,
    )
