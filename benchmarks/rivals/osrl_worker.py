"""OSRL's Constrained Decision Transformer: its own loader, its own trainer's gradient step, its own rollout.

Settings are those of OSRL's example (`CDTTrainConfig`), without augmentation, which only changes what is loaded.
"""

from importlib.metadata import version

import numpy as np
import torch
from osrl_import import Logger, osrl, timed
from protocol import serve

CDT, CDTTrainer, SequenceDataset = osrl()


class OSRLContestant:
    """One model of OSRL, trained and rolled out as OSRL does."""

    def versions(self):
        return {name: version(name) for name in ("osrl-lib", "torch", "numpy")}

    def prepare(self, path, threads, clock):
        torch.set_num_threads(threads)
        self.clock = clock
        with np.load(path) as arrays:
            data = {name: arrays[name] for name in arrays.files}
        lengths = np.flatnonzero(data["timeouts"] + data["terminals"])
        self.episode_len = int(np.diff(np.concatenate([[-1], lengths])).max())
        self.data = SequenceDataset(
            data,
            seq_len=10,
            reward_scale=0.1,
            cost_sample=True,
            cost_transform=lambda cost: 70 - cost,
        )
        self.observations = data["observations"]
        torch.manual_seed(0)
        self.model = CDT(
            state_dim=data["observations"].shape[1],
            action_dim=data["actions"].shape[1],
            max_action=1.0,
            seq_len=10,
            episode_len=self.episode_len,
            embedding_dim=128,
            num_layers=3,
            num_heads=8,
            attention_dropout=0.1,
            residual_dropout=0.1,
            embedding_dropout=0.1,
            use_rew=True,
            use_cost=True,
            cost_transform=True,
            stochastic=True,
            target_entropy=-data["actions"].shape[1],
        )
        self.trainer = CDTTrainer(
            self.model, self, logger=Logger(), lr_warmup_steps=500, reward_scale=0.1, loss_cost_weight=0.02
        )
        self.batches = {}

    def loader(self, batch):
        return iter(torch.utils.data.DataLoader(self.data, batch_size=batch))

    def measure(self, what, batch, steps=50):
        if what == "act":
            return self.act(batch, steps) / steps
        if batch not in self.batches:
            self.batches[batch] = next(self.loader(batch))
        if what == "load":
            loader = self.loader(batch)
            return timed(lambda: next(loader), self.clock)
        if what == "step":
            return timed(lambda: self.trainer.train_one_step(*self.batches[batch]), self.clock)
        raise ValueError(what)

    def act(self, rows, steps):
        """Time the actions of so many episodes, one after the other, in an environment that does nothing."""
        self.steps, self.taken = steps, 0
        self.model.eval()
        seconds = timed(lambda: self.trainer.rollout(self.model, self, 150.0, 20.0), self.clock) * rows
        self.model.train()
        return seconds

    def reset(self):
        self.taken = 0
        return self.observations[0], {}

    def step(self, action):
        self.taken += 1
        return self.observations[self.taken], 0.1, self.taken >= self.steps, False, {"cost": 0.0}


if __name__ == "__main__":
    serve(OSRLContestant())
