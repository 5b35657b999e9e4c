"""How much may be risked, how far a step may go, and when to stop."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, get_args

from lifesafe.errors import ConfigError, GuaranteeWarning

Risk = Literal["ledger", "paper", "fixed"]
Certification = Literal["score", "betting", "asserted"]
OnViolation = Literal["continue", "hold", "stop"]


class Stage(StrEnum):
    """What the optimizer is doing."""

    SEED = "seed"
    """Measuring a seed until it is certified."""
    EXPLORE = "explore"
    """Enlarging the safe set where it may pay."""
    MAXIMIZE = "maximize"
    """Looking for the most reward inside the safe set."""
    DONE = "done"


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Settings of the search; they do not change what is safe, only what is allowed and tried."""

    risk: Risk = "ledger"
    """Ledger: pay the posterior risk of each new target out of delta. Paper: a union bound over all targets and
    times. Fixed: a constant multiplier, which guarantees nothing."""
    share: float | None = 0.25
    """Ledger: largest part of the risk left that one new target may take; none divides it by the trials left."""
    multiplier: float = 2.0
    """Fixed: width of the bands in standard deviations."""
    reach: float = 0.1
    """Largest step from a target already tried, along any axis, as a fraction of the axis."""
    trials: int = 30
    """Trials at the most, the seed's included."""
    exploration: int = 16
    """Trials of the explore stage at the most."""
    seed_trials: int = 10
    """Trials that each seed is given to be certified; fewer if together they show that it costs too much for that, more
    if they are so short that they have fewer than 20 episodes."""
    episodes: int = 20
    """Episodes that a trial asks for."""
    seed_episodes: int | None = None
    """Episodes that a trial of a seed asks for until it is certified; as any other trial unless given."""
    certification: Certification = "score"
    """How a seed is certified: by the upper score bound of its own episodes, by an anytime-valid bet on bounded
    costs (needs cost bounds), or not at all because you assert that it is safe."""
    tolerance: float = 0.0
    """Stop exploring when the widest cost band of an expander is at most this, in units of the limit (zeta)."""
    accuracy: float = 0.0
    """Stop when no target can beat the best by more than this, as a fraction of the reward axis (epsilon)."""
    on_violation: OnViolation = "continue"
    """What follows a trial clearly above a limit, by two deviations; its neighborhood is closed in any case. Hold: if
    it was not one of a seed, the model is refuted, so nothing new is tried until `confirm` is called. Stop: the run
    ends."""
    surprises: int = 3
    """So many costs far above what was predicted freeze the search until `confirm` is called."""

    def __post_init__(self) -> None:
        for name, words in (("risk", Risk), ("certification", Certification), ("on_violation", OnViolation)):
            if getattr(self, name) not in get_args(words):
                accepted = ", ".join(get_args(words))
                raise ConfigError(f"Unknown {name} {getattr(self, name)!r}; choose one of {accepted}.")
        for name in ("trials", "seed_trials", "episodes", "surprises"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1; got {getattr(self, name)}.")
        if self.seed_episodes is not None and self.seed_episodes < 1:
            raise ConfigError(f"seed_episodes must be at least 1; got {self.seed_episodes}.")
        if self.exploration < 0:
            raise ConfigError(f"exploration must not be negative; got {self.exploration}.")
        if self.share is not None and not 0 < self.share < 1:
            raise ConfigError(f"share must lie between 0 and 1, or be none; got {self.share}.")
        for name in ("multiplier", "reach"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be positive; got {getattr(self, name)}.")
        for name in ("tolerance", "accuracy"):
            if not getattr(self, name) >= 0:
                raise ConfigError(f"{name} must not be negative; got {getattr(self, name)}.")
        if self.risk == "fixed":
            warnings.warn(
                f"The fixed schedule uses {self.multiplier:g} standard deviations whatever delta is: "
                "it bounds no probability. Use the ledger for a guarantee.",
                GuaranteeWarning,
                stacklevel=3,
            )

    def episodes_of(self, stage: Stage) -> int:
        """Return how many episodes a trial of a stage asks for."""
        return self.seed_episodes if stage is Stage.SEED and self.seed_episodes is not None else self.episodes
