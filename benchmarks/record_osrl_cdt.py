"""Record what OSRL's Constrained Decision Transformer computes, for tests/reference/test_cdt_osrl.py.

Run in an environment with OSRL, which lifesafe does not need:

    make .venv-osrl/.installed
    .venv-osrl/bin/python benchmarks/record_osrl_cdt.py tests/reference/assets/cdt_osrl.npz

osrl-lib 0.1.0 and the repository at 03a4586 differ in the layout of lines only, as far as this model goes. A small
model with weights far from their start, a batch with padding, the forward pass, all terms of the loss, three gradient
steps without dropout, and the actions of one episode in a small made-up environment.
"""

import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent / "rivals"))
from osrl_import import Logger, osrl

OBSERVATIONS, ACTIONS, CONTEXT, EPISODE, BATCH = 5, 3, 4, 12, 6
TARGET = (3.0, 2.0)


class Circle:
    """A made-up environment: deterministic, with rewards and costs that depend on the action."""

    def __init__(self):
        self.log = {name: [] for name in ("observations", "actions", "rewards", "costs")}

    def reset(self):
        self.state = np.linspace(-1, 1, OBSERVATIONS).astype(np.float32)
        return self.state, {}

    def step(self, action):
        reward, cost = float(action.sum() + 0.1), float(action[0] > 0)
        for name, value in zip(self.log, (self.state, action, reward, cost), strict=True):
            self.log[name].append(value)
        self.state = np.cos(np.roll(self.state, 1) + action.mean() + np.arange(OBSERVATIONS)).astype(np.float32)
        return self.state, reward, False, False, {"cost": cost}


def batch(random):
    mask = torch.ones(BATCH, CONTEXT)
    mask[1, 3:] = mask[4, 1:] = 0
    starts = torch.tensor([0, 9, 3, 8, 11, 5])
    real = mask[..., None]
    costs = (torch.rand(BATCH, CONTEXT, generator=random) < 0.4).float() * mask
    return {
        "states": torch.randn(BATCH, CONTEXT, OBSERVATIONS, generator=random) * real,
        "actions": torch.rand(BATCH, CONTEXT, ACTIONS, generator=random).mul(2).sub(1) * real,
        "returns": torch.rand(BATCH, CONTEXT, generator=random) * 5 * mask,
        "costs_return": torch.rand(BATCH, CONTEXT, generator=random).mul(30).floor() * mask,
        "time_steps": starts[:, None] + torch.arange(CONTEXT),
        "mask": mask,
        "costs": costs,
    }


def main(path):
    cdt, trainer_class, _ = osrl()
    torch.manual_seed(0)
    model = cdt(
        state_dim=OBSERVATIONS,
        action_dim=ACTIONS,
        max_action=1.0,
        seq_len=CONTEXT,
        episode_len=EPISODE,
        embedding_dim=32,
        num_layers=2,
        num_heads=4,
        use_rew=True,
        use_cost=True,
        cost_transform=True,
        stochastic=True,
        init_temperature=0.1,
        target_entropy=-ACTIONS,
    )
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=random)
        model.cost_emb.weight *= 0.1  # 50 - C is large
    recorded = {f"weights.{name}": value.clone() for name, value in model.state_dict().items()}
    data = batch(random)
    recorded |= {f"batch.{name}": value for name, value in data.items()}
    with torch.no_grad():
        gaussian, cost_preds, _ = model(
            data["states"],
            data["actions"],
            data["returns"],
            data["costs_return"],
            data["time_steps"],
            ~data["mask"].bool(),
        )
    recorded |= {"mean": gaussian.mean, "std": gaussian.stddev, "cost_preds": cost_preds}

    environment = Circle()
    logger = Logger()
    trainer = trainer_class(
        model,
        environment,
        logger=logger,
        learning_rate=1e-3,
        lr_warmup_steps=2,
        reward_scale=0.1,
        loss_cost_weight=0.02,
    )
    model.eval()
    trainer.rollout(model, _Scaled(environment), TARGET[0] * 0.1, TARGET[1])
    recorded |= {f"rollout.{name}": torch.from_numpy(np.array(values)) for name, values in environment.log.items()}
    model.train()
    for step in range(3):
        trainer.train_one_step(
            data["states"],
            data["actions"],
            data["returns"],
            data["costs_return"],
            data["time_steps"],
            data["mask"],
            None,
            data["costs"],
        )
        for name in ("nll", "ent", "cost_loss", "all_loss"):
            recorded[f"step{step}.{name}"] = torch.tensor(logger.values[name])
    recorded |= {f"trained.{name}": value for name, value in model.state_dict().items()}
    recorded["trained.log_temperature"] = model.log_temperature.detach()
    kept = {name: value.numpy() for name, value in recorded.items() if "mask" not in name or name == "batch.mask"}
    kept = {name: v.astype(np.float32) if v.dtype == np.float64 and v.ndim else v for name, v in kept.items()}
    np.savez_compressed(path, **kept)


class _Scaled:
    """The environment as OSRL's wrapper shows it: rewards times 0.1."""

    def __init__(self, environment):
        self.environment = environment

    def reset(self):
        return self.environment.reset()

    def step(self, action):
        observation, reward, *rest = self.environment.step(action)
        return observation, 0.1 * reward, *rest


if __name__ == "__main__":
    main(sys.argv[1])
