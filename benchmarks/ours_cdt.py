"""Our Constrained Decision Transformer, as OSRL's worker measures its own: gradient step, loading, acting."""

import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent / "rivals"))
from osrl_import import timed
from protocol import serve

from lifesafe.data import Dataset
from lifesafe.lab.osrl import OSRLCDTConfig
from lifesafe.policies import CDTConfig
from lifesafe.returns import Returns

# Batches count segments of OSRL's 10 steps; ours get the same number of steps in segments of their own length.
CONFIGS = {
    "as OSRL": lambda batch: OSRLCDTConfig(batch=batch),
    "default": lambda batch: CDTConfig(batch=batch * 10 // CDTConfig().segment),
}


class OurContestant:
    """Learners and actors of some settings."""

    def versions(self):
        return {name: version(name) for name in ("lifesafe", "torch", "numpy")}

    def prepare(self, path, threads, clock):
        torch.set_num_threads(threads)
        self.clock = clock
        with np.load(path) as arrays:
            self.dataset = Dataset.from_arrays(**{name: arrays[name] for name in arrays.files})
        self.learners = {}
        self.steps = 0

    def measure(self, what, batch, config, steps=50):
        if what == "act":
            return self.act(batch, config, steps) / steps
        key = config, batch
        if key not in self.learners:
            self.learners[key] = CONFIGS[config](batch).build(self.dataset, seed=0)
            self.learners[key].update(0)
        learner = self.learners[key]
        if what == "load":
            return timed(learner.draw, self.clock)
        return timed(lambda: learner.update(0), self.clock)

    def act(self, rows, config, steps):
        """Time the actions of so many episodes at once, in an environment that does nothing."""
        key = config, 256
        if key not in self.learners:
            self.learners[key] = CONFIGS[config](256).build(self.dataset, seed=0)
        actor = self.learners[key].policy().actor([Returns(150.0, 20.0)] * rows)
        rewards, costs = np.full(rows, 0.1), np.zeros((rows, 1))

        def act():
            for step in range(steps):
                actor.act(self.dataset.observations[step : step + rows])
                actor.observe(rewards, costs)

        return timed(act, self.clock)


if __name__ == "__main__":
    serve(OurContestant())
