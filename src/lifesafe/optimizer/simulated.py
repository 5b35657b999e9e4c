"""What a simulation says of every candidate: the returns of the policy, and of members that might have been it.

Theorem 1 has the returns of a trained policy vary around their targets as its parameters vary with the data. Where a
simulator exists, both can be had by running it: the policy's own returns are the prior mean, and the returns of
members, policies that the same data might as well have given, are draws around it. What is left, the residual, is how
the real system differs from the simulator; it keeps a kernel of its own and is learned on the real system.

Notation:
    J(z)    mean returns of the policy in simulation, raw units                            (r, n)
    J_s(z)  those of member s                                                              (s, r, n)
    y       a return as it is modeled: see priors.py
    F       factor: its columns are (y(J_s) - y(J)) / sqrt(s), so that F F^T is the covariance (n, s)
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from jaxtyping import Float

from lifesafe.errors import ConfigError

_STORED = "<f4"  # seven digits: far more than a simulation knows


@dataclass(frozen=True, kw_only=True, eq=False)
class Simulated:
    """Mean returns at every candidate in simulation, raw units: they know neither limits nor scales.

    Examples:
        >>> Simulated(means=np.zeros((2, 5)), members=np.ones((3, 2, 5)))
        Simulated(5 candidates, 1 cost, 3 members)
    """

    means: Float[np.ndarray, "r n"]
    """Returns of the policy: the reward, then every cost; one column per candidate."""
    members: Float[np.ndarray, "s _ _"] = field(default_factory=lambda: np.empty((0, 0, 0)))
    """Returns of the members, if there are any; each has the shape of the means."""

    def __post_init__(self) -> None:
        means, members = _rounded(self.means), _rounded(self.members)
        if means.ndim != 2 or len(means) < 2:
            raise ConfigError(
                f"Got simulated means of shape {means.shape}; give one row for the reward and one per cost, and one "
                "column per candidate."
            )
        if not len(members):
            members = np.empty((0, *means.shape))
        if members.shape[1:] != means.shape:
            raise ConfigError(
                f"Got simulated members of shape {members.shape} beside means of shape {means.shape}; give each "
                "member the shape of the means."
            )
        for name, values in (("means", means), ("members", members)):
            if not np.isfinite(values).all():
                place = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
                raise ConfigError(
                    f"Simulated {name} must be finite; at {place} there is {values[place]}. Leave out candidates "
                    "that cannot be simulated."
                )
            values.setflags(write=False)
        object.__setattr__(self, "means", means)
        object.__setattr__(self, "members", members)

    def __repr__(self) -> str:
        costs = len(self.means) - 1
        counts = (self.means.shape[1], "candidate"), (costs, "cost"), (len(self.members), "member")
        return f"Simulated({', '.join(f'{count} {word}' + 's' * (count != 1) for count, word in counts)})"

    def modeled(
        self, row: int, scale: Callable[[Float[np.ndarray, "*s"]], Float[np.ndarray, "*s"]]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n s"] | None]:
        """Return the prior mean of one return and the factor of its covariance, none without members.

        Deviations are from the policy, not from the members' mean: should all members earn less than the policy, that
        is part of what is not known.

        Args:
            row: 0 for the reward, 1 for the first cost, ...
            scale: Brings raw returns to the scale that they are modeled on.
        """
        mean = scale(self.means[row])
        if not len(self.members):
            return mean, None
        deviations = scale(self.members[:, row]) - mean
        return mean, np.ascontiguousarray(deviations.T) / np.sqrt(len(deviations))

    def to_plain(self) -> dict[str, Any]:
        """Return the simulation as JSON values, compressed."""
        returns = np.concatenate([self.means[None], self.members])
        packed = zlib.compress(np.ascontiguousarray(returns, dtype=_STORED).tobytes(), 6)
        return {"shape": list(returns.shape), "returns": base64.b64encode(packed).decode("ascii")}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Return the simulation that `to_plain` wrote."""
        data = zlib.decompress(base64.b64decode(plain["returns"]))
        returns = np.frombuffer(data, dtype=_STORED).reshape(plain["shape"])
        return cls(means=returns[0], members=returns[1:])


def _rounded(values: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """Return a copy as it will be read back from a journal, so that a replay starts from the same bits."""
    with np.errstate(over="ignore"):  # too large becomes infinite, and is refused as such
        return np.asarray(values, dtype=_STORED).astype(np.float64)
