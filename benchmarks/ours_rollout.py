"""Our evaluation of a Constrained Decision Transformer, in every way it can be run."""

import os
import sys
import time
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent / "rivals"))
from protocol import serve

from lifesafe.data import Dataset
from lifesafe.lab.osrl import OSRLCDT, OSRLCDTConfig, OSRLCDTNetwork, weights_from_osrl
from lifesafe.policies import CDTConfig, train
from lifesafe.returns import Returns
from lifesafe.systems import task as find_task
from lifesafe.systems.evaluation import Evaluator

WAYS = {
    "in process": {},
    "2 workers": {"workers": 2},
}
TICKS = os.sysconf("SC_CLK_TCK")


class OurRollouts:
    """For each task a policy with OSRL's own weights and one with our settings; evaluators are kept open."""

    def versions(self):
        names = ("lifesafe", "torch", "numpy", "gymnasium", "mujoco", "pybullet", "bullet-safety-gym", "envpool")
        return {name: version(name) for name in names}

    def prepare(self, task, path, weights, steps):
        """Train our policy for so many steps, and take over OSRL's."""
        self.policies = {**getattr(self, "policies", {}), (task, "as OSRL"): from_osrl(weights)}
        self.evaluators = {}
        with np.load(path) as arrays:
            dataset = Dataset.from_arrays(**{name: arrays[name] for name in arrays.files})
        torch.set_num_threads(1)
        self.policies[task, "default"] = train(CDTConfig(steps=steps, warmup=20), dataset)

    def measure(self, task, config, way, episodes, target, threads, horizon):
        """Return the steps of some episodes, the seconds they took (of all processes), and the mean reward."""
        torch.set_num_threads(threads)
        key = task, config, way
        if key not in self.evaluators:
            cut = replace(find_task(task), horizon=horizon)
            self.evaluators[key] = Evaluator(self.policies[task, config], cut, **WAYS[way])
        evaluator = self.evaluators[key]
        wall, cpu = time.perf_counter(), processor_time(evaluator)
        rollout = evaluator.run([Returns(*target)] * episodes, range(episodes))
        wall, cpu = time.perf_counter() - wall, processor_time(evaluator) - cpu
        reward = float(np.mean([returns.reward for returns in rollout.returns]))
        return {"steps": rollout.steps, "wall": wall, "cpu": cpu, "reward": reward}


def from_osrl(path):
    """Return the policy with the weights that OSRL wrote down."""
    with np.load(path) as arrays:
        state = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    observations, actions = state["state_emb.weight"].shape[1], state["action_emb.weight"].shape[1]
    config = OSRLCDTConfig()
    network = OSRLCDTNetwork(config, observations, actions, times=len(state["timestep_emb.weight"]))
    network.load_state_dict(weights_from_osrl(state))
    return OSRLCDT(config, network)


def processor_time(evaluator):
    """Return the processor seconds of this process and of the evaluator's workers (as Linux counts them)."""
    ticks = 0
    for pid in evaluator.pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])  # in the user's code and in the system's
    return time.process_time() + ticks / TICKS


if __name__ == "__main__":
    serve(OurRollouts())
