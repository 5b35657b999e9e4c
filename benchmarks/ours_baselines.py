"""Our baselines, as OSRL's worker measures its own: gradient steps."""

import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, str(Path(__file__).parent / "rivals"))
from osrl_import import timed
from protocol import serve

from lifesafe.data import Dataset
from lifesafe.lab.baselines import BCQLagConfig, BEARLagConfig, COptiDICEConfig, CPQConfig

CONFIGS = {"bcq-lag": BCQLagConfig, "bear-lag": BEARLagConfig, "cpq": CPQConfig, "coptidice": COptiDICEConfig}


class OurContestant:
    """Learners of some settings."""

    def versions(self):
        return {name: version(name) for name in ("lifesafe", "torch", "numpy")}

    def prepare(self, path, threads, clock):
        torch.set_num_threads(threads)
        self.clock = clock
        with np.load(path) as arrays:
            self.dataset = Dataset.from_arrays(**{name: arrays[name] for name in arrays.files})
        self.learners = {}

    def measure(self, method, batch, steps, preset):
        """Return the seconds of a gradient step, the mean of so many."""
        learner = self.learner(method, batch, preset)
        late = learner.config.steps  # past any warm-up
        return timed(lambda: [learner.update(late) for _ in range(steps)], self.clock) / steps

    def count(self, method, batch, preset):
        """Return how many floating point operations the matrix products of a gradient step are."""
        learner = self.learner(method, batch, preset)
        with FlopCounterMode(display=False) as counter:
            learner.update(learner.config.steps)
        return counter.get_total_flops()

    def learner(self, method, batch, preset):
        key = method, batch, preset
        if key not in self.learners:
            config = CONFIGS[method].osrl if preset == "as OSRL" else CONFIGS[method]
            self.learners[key] = config(limits=(20.0,), batch=batch).build(self.dataset, seed=0)
        return self.learners[key]


if __name__ == "__main__":
    serve(OurContestant())
