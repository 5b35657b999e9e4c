"""OSRL's evaluation of its Constrained Decision Transformer: one environment, one episode after the other."""

import os
import time
import warnings
from importlib.metadata import version

os.environ["TQDM_DISABLE"] = "1"  # OSRL draws a bar for every evaluation

import gymnasium
import numpy as np
import torch
from osrl_import import Logger
from osrl_worker import CDTTrainer, OSRLContestant
from protocol import serve

SCALE = 0.1  # of rewards, as in OSRL's example


class Environment:
    """A task as OSRL's wrappers show it: rewards scaled, the cost in `info`; started by one seed after the other."""

    def __init__(self, task):
        warnings.filterwarnings("ignore", ".*is out of date", DeprecationWarning)
        if task == "HopperVelocity":
            self.inner = gymnasium.make("Hopper-v4", disable_env_checker=True)
        else:
            import bullet_safety_gym  # noqa: F401 - it registers its tasks

            self.inner = gymnasium.make(f"Safety{task}-v0", disable_env_checker=True)
        self.velocity = task == "HopperVelocity"
        self.seed = 0

    def reset(self):
        self.seed += 1
        return self.inner.reset(seed=self.seed - 1)

    def step(self, action):
        observation, reward, terminated, truncated, info = self.inner.step(action)
        if self.velocity:
            info["cost"] = float(info["x_velocity"] > 0.7402)
        return observation, SCALE * reward, terminated, truncated, info


class OSRLRollouts:
    """A model of OSRL for each task."""

    def versions(self):
        names = ("osrl-lib", "torch", "numpy", "gymnasium", "mujoco", "pybullet", "bullet-safety-gym")
        return {name: version(name) for name in names}

    def prepare(self, task, path, weights, steps):
        """Make a model, train it for so many steps, and write its weights down for the others."""
        contestant = OSRLContestant()
        contestant.prepare(path, threads=1, clock="wall")
        trainer = CDTTrainer(
            contestant.model, None, logger=Logger(), learning_rate=1e-3, lr_warmup_steps=20, reward_scale=SCALE
        )
        loader = contestant.loader(32)
        for _ in range(steps):
            trainer.train_one_step(*next(loader))
        self.trainers = {**getattr(self, "trainers", {}), task: trainer}
        trainer.env = Environment(task)
        np.savez(weights, **{name: value.numpy() for name, value in contestant.model.state_dict().items()})

    def measure(self, task, episodes, target, threads):
        """Return the steps of some episodes, the seconds they took, and the mean reward."""
        torch.set_num_threads(threads)
        trainer = self.trainers[task]
        trainer.env.seed = 0
        wall, cpu = time.perf_counter(), time.process_time()
        reward, _, length = trainer.evaluate(episodes, SCALE * target[0], target[1])
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        return {"steps": float(length) * episodes, "wall": wall, "cpu": cpu, "reward": float(reward)}


if __name__ == "__main__":
    serve(OSRLRollouts())
