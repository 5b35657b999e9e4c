"""SafeOpt as a search: one whole run of its safe-UCB, one request at a time (protocol.py); it runs in .venv-rivals.

SafeOpt's own code decides: `optimize(ucb=True)`, `add_new_data_point` and `get_maximum` on one GPy model for each
return. Here its inputs are only scaled. Rewards are ranges of the reward targets above the lowest one; SafeOpt bounds
every constraint from below, so its constraints are the slacks (limit - cost) / limit, at least 0. Its prior mean is 0
throughout, so what is unknown is expected at the limit.
"""

import collections
import collections.abc
import warnings
from importlib.metadata import version

import numpy as np
from protocol import serve, timed

warnings.simplefilter("ignore")

# SafeOpt 0.16 is imported by Python >= 3.10 and NumPy >= 1.24 only with these; it runs unmodified after that.
collections.Sequence = collections.abc.Sequence
np.bool = bool
np.float = float  # noqa: NPY001

import GPy  # noqa: E402
import safeopt  # noqa: E402

# From examples/2d_example.ipynb of befelix/SafeOpt: `bounds = [(-5., 5.), (-5., 5.)]`, on which candidates are scaled,
# `GPy.kern.RBF(variance=2., lengthscale=1.0, ARD=True)`: a tenth of each axis, and `noise_var = 0.05 ** 2`. The example
# with several constraints has the same kernel for each. BETA is the default of `safeopt.SafeOpt`.
BOUNDS = (-5.0, 5.0)
VARIANCE = 2.0
LENGTHSCALE = 1.0
NOISE_VARIANCE = 0.05**2
BETA = 2.0


class SafeOptRun:
    """The current search: the starts are tried first, as SafeOpt needs safe data before it can begin."""

    def versions(self):
        return {name: version(name) for name in ("safeopt", "GPy", "numpy", "scipy")}

    def open(self, candidates, starts, limits, lengthscale=None, variance=VARIANCE, noise=NOISE_VARIANCE**0.5):
        """Begin a search; the length-scale is a fraction of each axis, none for the example's."""
        candidates = np.asarray(candidates, dtype=float)
        low, width = candidates.min(axis=0), np.ptp(candidates, axis=0)
        unit = (candidates - low) / np.where(width > 0, width, 1.0)
        self.inputs = BOUNDS[0] + (BOUNDS[1] - BOUNDS[0]) * unit
        self.lengthscale = LENGTHSCALE if lengthscale is None else lengthscale * (BOUNDS[1] - BOUNDS[0])
        self.variance, self.noise_variance = variance, noise**2
        self.lowest, self.range = low[0], width[0] or 1.0
        self.starts, self.limits = list(starts), np.asarray(limits, dtype=float)
        self.told, self.values, self.optimizer = [], [], None

    def ask(self):
        """Return the row to try next."""
        left = [start for start in self.starts if start not in self.told]
        if left:
            return left[0]
        try:
            return self.row(self.optimizer.optimize(ucb=True))
        except OSError:  # EnvironmentError of SafeOpt: no target is safe by its bounds but the start is assumed to be
            return self.starts[0]

    def tell(self, row, mean):
        """Add the means of a trial's returns, the reward first."""
        mean = np.asarray(mean, dtype=float)
        value = np.append((mean[0] - self.lowest) / self.range, (self.limits - mean[1:]) / self.limits)
        self.told.append(row)
        self.values.append(value)
        if self.optimizer is not None:
            self.optimizer.add_new_data_point(self.inputs[row], value)
        elif set(self.starts) <= set(self.told):
            self.begin()

    def best(self):
        """Return the row that SafeOpt calls its maximum: the largest lower bound of the reward among the safe."""
        found = None if self.optimizer is None else self.optimizer.get_maximum()
        return self.starts[0] if found is None else self.row(found[0])

    def safe(self):
        """Return how many rows are safe by their bounds."""
        if self.optimizer is None:
            return len(self.starts)
        self.optimizer.update_confidence_intervals()
        self.optimizer.compute_safe_set()
        return int(self.optimizer.S.sum())

    def measure(self, means, trials, repetitions, clock, **given):
        """Return the median time of one ask + tell after some trials, where every target returns its mean."""
        self.open(**given)
        times = []
        for _ in range(trials + repetitions):
            row, asking = timed(self.ask, clock)
            _, telling = timed(lambda row=row: self.tell(row, means[row]), clock)
            times.append(asking + telling)
        return float(np.median(times[trials:]))

    def begin(self):
        axes, X, Y = self.inputs.shape[1], self.inputs[self.told], np.array(self.values)
        models = [
            GPy.models.GPRegression(
                X,
                Y[:, [k]],
                GPy.kern.RBF(axes, variance=self.variance, lengthscale=self.lengthscale, ARD=True),
                noise_var=self.noise_variance,
            )
            for k in range(Y.shape[1])
        ]
        fmin = [-np.inf] + [0.0] * len(self.limits)
        self.optimizer = safeopt.SafeOpt(models, self.inputs, fmin=fmin, lipschitz=None, beta=BETA)

    def row(self, point):
        return int(np.flatnonzero((self.inputs == point).all(axis=1))[0])


if __name__ == "__main__":
    serve(SafeOptRun())
