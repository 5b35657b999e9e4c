"""Settings of a collection, and those that are known to serve a task."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lifesafe._config import from_plain, read_toml
from lifesafe.errors import ConfigError

PRESETS = Path(__file__).with_name("presets.toml")


@dataclass(frozen=True, kw_only=True)
class CollectionConfig:
    """PPO-Lagrangian with one network for all limits, its whole training logged."""

    steps: int = 4_000_000
    """Steps of the environment to take in all; the step size and the sweep are laid out over them."""
    stop: int = 0
    """Steps after which to end early, with everything laid out as for all of them; 0 for no early end. A collection
    that was broken off is made again, to the last bit, by naming the steps it had taken."""
    tightest: float = 5.0
    """Smallest limit that the behavior is trained for, per cost."""
    loosest: float = 100.0
    """Largest limit that the behavior is trained for at the start, per cost."""
    narrowed: float = 1.0
    """Fraction of it that is left once half of the steps are taken: skill is found under loose limits, and then more
    episodes are left for the tight ones."""
    forfeit: float = 1.0
    """Cost of each step that an episode misses because it ended by itself, as a fraction of the largest. It is charged
    in learning only, and not logged: to fall must not be a way to save costs."""
    rows: int = 32
    """Environments that learn together."""
    exhibits: int = 4
    """Further environments in which the behavior acts with little noise; they are logged but not learned from."""
    segment: int = 128
    """Steps of every environment between two updates."""
    width: int = 64
    """Units of each of the two hidden layers."""
    noise: float = 0.6
    """Standard deviation of the action noise at the start; it is learned."""
    least_noise: float = 0.1
    """Standard deviation below which the noise does not fall."""
    discount: float = 0.99
    """Discount of rewards."""
    cost_discount: float = 0.99
    """Discount of costs."""
    trace: float = 0.95
    """Weight of longer returns in an advantage, lambda of GAE."""
    learning_rate: float = 1e-3
    """Step size of Adam at the start; it falls to a tenth at the end."""
    epochs: int = 8
    """Passes over each batch."""
    minibatch: int = 512
    """Transitions in one gradient step."""
    clip: float = 0.2
    """Farthest that a probability ratio may move from one."""
    divergence: float = 0.03
    """Mean divergence from the old behavior at which an update ends early."""
    entropy: float = 0.0
    """Weight of the entropy of the behavior."""
    knots: int = 9
    """Points of the sweep that have a Lagrange multiplier of their own; it is interpolated between them."""
    multiplier_rate: float = 0.08
    """Largest change of the logarithm of a multiplier that one episode makes."""
    least_multiplier: float = 0.05
    """Multiplier below which none falls."""
    damping: float = 2.0
    """How strongly the present excess of cost weighs beside what has added up; it damps the swings."""
    episodes: int = 2000
    """Episodes of the dataset, about; they are thinned evenly over the plane of cost and reward."""
    kept: float = 1.0
    """Episodes that cost more than this fraction of the loosest limit are left out of the dataset."""
    cost_cells: int = 60
    """Cells of that plane along the cost."""
    reward_cells: int = 50
    """Cells of that plane along the reward."""
    save_seconds: float = 20.0
    """Time between two checkpoints."""

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                raise ConfigError(f"{name} must be at least {least}; got {getattr(self, name)}.")
        for name in ("discount", "cost_discount", "trace"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} must be between 0 and 1; got {getattr(self, name)}.")
        for name in _POSITIVE:
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be above 0; got {getattr(self, name)}.")
        if not 0 <= self.stop <= self.steps:
            raise ConfigError(f"stop must lie between 0 and steps = {self.steps}; got {self.stop}.")
        if not 0 < self.tightest < self.loosest:
            raise ConfigError(f"Give 0 < tightest < loosest; got {self.tightest} and {self.loosest}.")
        if not 0 < self.narrowed <= 1 or self.narrowed * self.loosest <= self.tightest:
            raise ConfigError(
                f"narrowed must lie between 0 and 1 and leave more than tightest; got {self.narrowed} of {self.loosest}"
                f" and {self.tightest}."
            )


def preset(task: str) -> CollectionConfig:
    """Return the settings for a task of that name; the defaults where none are known.

    Examples:
        >>> preset("CarCircle").loosest
        300.0
    """
    return from_plain(CollectionConfig, read_toml(PRESETS).get(task, {}), f"{PRESETS.name}: {task}")


_LEAST = {
    **dict.fromkeys(("steps", "rows", "segment", "width", "epochs", "minibatch"), 1),
    **dict.fromkeys(("episodes", "cost_cells", "reward_cells"), 1),
    **dict.fromkeys(("exhibits", "save_seconds", "entropy", "forfeit", "damping"), 0),
    "knots": 2,
}
_POSITIVE = (
    *("noise", "least_noise", "kept", "learning_rate", "clip"),
    *("divergence", "multiplier_rate", "least_multiplier"),
)
