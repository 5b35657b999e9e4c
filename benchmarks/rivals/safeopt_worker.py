"""SafeOpt: its own loop, `add_new_data_point` and `optimize`, on two GPy models.

SafeOpt bounds every constraint from below, so its second function is the slack, limit - cost, at least 0.
It finds an expander by adding a fake point to the live model, predicting every unsafe candidate and removing
the point again. How many candidates it must try so is luck, hence the four measurements.
"""

import collections
import collections.abc
import math
import time
import warnings
from importlib.metadata import version

import numpy as np
from protocol import grid, probes, serve, timed

warnings.simplefilter("ignore")

# SafeOpt 0.16 is imported by Python >= 3.10 and NumPy >= 1.24 only with these; it runs unmodified after that.
collections.Sequence = collections.abc.Sequence
np.bool = bool
np.float = float  # noqa: NPY001

import GPy  # noqa: E402
import safeopt  # noqa: E402

BETA = 2.0  # SafeOpt's own default


class EnoughError(Exception):
    """The search for expanders has used what it was given."""


class SafeOptContestant:
    """One SafeOpt instance, brought back to the same observations before each measurement."""

    def versions(self):
        return {name: version(name) for name in ("safeopt", "GPy", "numpy", "scipy")}

    def prepare(self, axes, lengthscales, sd, mean, noise_sd, limit, indices, rewards, costs, cap):
        self.cap = cap
        inputs = grid(axes)
        self.x = inputs[indices]
        self.y = np.column_stack([np.subtract(rewards, mean[0]), np.subtract(limit, costs)])
        models = [
            GPy.models.GPRegression(
                self.x,
                self.y[:, [k]],
                GPy.kern.Matern32(2, variance=sd[k] ** 2, lengthscale=lengthscales, ARD=True),
                noise_var=noise_sd[k] ** 2,
            )
            for k in range(2)
        ]
        self.optimizer = safeopt.SafeOpt(models, inputs, fmin=[-np.inf, 0.0], beta=BETA)
        self.look_ahead = self.optimizer._add_data_point
        tried, _ = self.search(self.optimizer.optimize)
        slack, variance = models[1].predict_noiseless(inputs[probes(len(inputs))])
        return {
            "measures": ["safe set only", "first guess expands", "optimize()", "all expanders"],
            "facts": {"safe": int(self.optimizer.S.sum()), "look-aheads of optimize()": tried},
            "posterior": {"slack": slack.ravel().tolist(), "variance": variance.ravel().tolist()},
        }

    def measure(self, what):
        self.optimizer.remove_last_data_point()
        _, tell = timed(lambda: self.optimizer.add_new_data_point(self.x[-1], self.y[-1]))
        if what == "safe set only":
            _, ask = timed(lambda: self.optimizer.optimize(ucb=True))
        elif what == "optimize()":
            _, ask = timed(self.optimizer.optimize)
        elif what == "first guess expands":
            _, ask = timed(self.optimize_luckily)
        else:
            return self.measure_all_expanders(tell)
        return {"rows": {what: tell + ask}}

    def optimize_luckily(self):
        """Do what `optimize()` does when the first candidate it tries is an expander."""
        self.search(self.optimizer.optimize, most=1)
        return self.optimizer.get_new_query_point()

    def measure_all_expanders(self, tell):
        """Time the full set of expanders; past the cap, extrapolate from the candidates tried."""
        _, posterior = timed(self.optimizer.update_confidence_intervals)
        (tried, searching), sets = timed(
            lambda: self.search(lambda: self.optimizer.compute_sets(full_sets=True), cap=self.cap)
        )
        safe = int(self.optimizer.S.sum())
        answer = {"rows": {"all expanders": tell + posterior + sets - searching + searching * safe / tried}}
        return answer | ({"extrapolated": tried / safe} if tried < safe else {})

    def search(self, work, most=math.inf, cap=math.inf):
        """Work until enough candidates were tried; return how many, and the seconds since the first."""
        tried, first = 0, None

        def counted(*arguments, **options):
            nonlocal tried, first
            first = first or time.perf_counter()
            if tried >= most or time.perf_counter() - first > cap:
                raise EnoughError
            tried += 1
            return self.look_ahead(*arguments, **options)

        self.optimizer._add_data_point = counted
        try:
            work()
        except EnoughError:
            pass
        finally:
            self.optimizer._add_data_point = self.look_ahead
        return tried, time.perf_counter() - first if first else 0.0


if __name__ == "__main__":
    serve(SafeOptContestant())
