"""OSRL's BCQ-Lag, BEAR-Lag, CPQ and COptiDICE: its own loader, its own trainers' gradient steps.

Models and trainers are made as OSRL's training scripts make them, with the settings of its examples.
"""

from importlib.metadata import version

import numpy as np
import torch
from osrl_import import Logger, osrl, timed
from protocol import serve
from torch.utils.flop_counter import FlopCounterMode

SETTINGS = {
    "bcq-lag": {"vae_hidden_sizes": 400, "sample_action_num": 10, "beta": 0.5, "num_q": 2, "num_qc": 2},
    "bear-lag": {
        "vae_hidden_sizes": 400,
        "sample_action_num": 10,
        "beta": 0.5,
        "num_q": 2,
        "num_qc": 2,
        "start_update_policy_step": 0,
    },
    "cpq": {"vae_hidden_sizes": 400, "sample_action_num": 10, "beta": 0.5, "num_q": 2, "num_qc": 2},
    "coptidice": {"f_type": "softchi", "num_nu": 2, "num_chi": 2},
}
RATES = {
    "bcq-lag": {"actor_lr": 1e-3, "critic_lr": 1e-3, "vae_lr": 1e-3},
    "bear-lag": {"actor_lr": 1e-3, "critic_lr": 1e-3, "vae_lr": 1e-3},
    "cpq": {"actor_lr": 1e-4, "critic_lr": 1e-3, "alpha_lr": 1e-4, "vae_lr": 1e-3},
    "coptidice": {"actor_lr": 1e-4, "critic_lr": 1e-4, "scalar_lr": 1e-4},
}


def baseline(method, data, *, cost_limit, width=256, **settings):
    """Return OSRL's loader, model and trainer of a method for some data, a dictionary of flat arrays."""
    osrl()
    from osrl import algorithms
    from osrl.common.dataset import TransitionDataset

    model_class, trainer_class = {
        "bcq-lag": (algorithms.BCQL, algorithms.BCQLTrainer),
        "bear-lag": (algorithms.BEARL, algorithms.BEARLTrainer),
        "cpq": (algorithms.CPQ, algorithms.CPQTrainer),
        "coptidice": (algorithms.COptiDICE, algorithms.COptiDICETrainer),
    }[method]
    dice = method == "coptidice"
    loader = TransitionDataset(dict(data), reward_scale=0.1, cost_scale=1, state_init=dice)
    moments = {}
    if dice:
        names = ("init_state_propotion", "observations_std", "actions_std")
        moments = dict(zip(names, loader.get_dataset_states(), strict=True))
    ends = np.flatnonzero(data["timeouts"] + data["terminals"])
    model = model_class(
        state_dim=data["observations"].shape[1],
        action_dim=data["actions"].shape[1],
        max_action=1.0,
        a_hidden_sizes=[width, width],
        c_hidden_sizes=[width, width],
        cost_limit=cost_limit,
        episode_len=int(np.diff(np.concatenate([[-1], ends])).max()),
        **moments,
        **SETTINGS[method] | settings,
    )
    trainer = trainer_class(model, None, logger=Logger(), reward_scale=0.1, cost_scale=1, **RATES[method])
    return loader, model, trainer


def step(method, trainer, batch):
    """Take one gradient step, as OSRL's training scripts do."""
    if method == "coptidice":
        trainer.train_one_step(batch)
    else:
        trainer.train_one_step(*batch)


class OSRLContestant:
    """OSRL's baselines, trained as OSRL does, each on a batch that is there already."""

    def versions(self):
        return {name: version(name) for name in ("osrl-lib", "torch", "numpy")}

    def prepare(self, path, threads, clock):
        torch.set_num_threads(threads)
        self.clock = clock
        with np.load(path) as arrays:
            self.data = {name: arrays[name] for name in arrays.files}
        self.trainers = {}

    def measure(self, method, batch, steps):
        """Return the seconds of a gradient step, the mean of so many."""
        trainer, ready = self.ready(method, batch)
        return timed(lambda: [step(method, trainer, ready) for _ in range(steps)], self.clock) / steps

    def count(self, method, batch):
        """Return how many floating point operations the matrix products of a gradient step are."""
        trainer, ready = self.ready(method, batch)
        with FlopCounterMode(display=False) as counter:
            step(method, trainer, ready)
        return counter.get_total_flops()

    def ready(self, method, batch):
        key = method, batch
        if key not in self.trainers:
            torch.manual_seed(0)
            loader, _, trainer = baseline(method, self.data, cost_limit=20)
            self.trainers[key] = trainer, next(iter(torch.utils.data.DataLoader(loader, batch_size=batch)))
        return self.trainers[key]


if __name__ == "__main__":
    serve(OSRLContestant())
