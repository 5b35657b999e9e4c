"""Record what OSRL's baselines compute, for tests/reference/test_baselines_osrl.py.

Run in an environment with OSRL, which lifesafe does not need:

    make .venv-osrl/.installed
    .venv-osrl/bin/python benchmarks/record_osrl_baselines.py tests/reference/assets/baselines_osrl.npz

osrl-lib 0.1.0 and the repository at 03a4586 differ in the layout of lines only, as far as these methods go. Small
models of BCQ-Lag, BEAR-Lag, CPQ and COptiDICE with weights far from their start, targets that differ from what they
follow, three gradient steps on batches of a made-up dataset, through OSRL's own loader and trainers, and the actions
for some observations afterwards.

Noise comes from here, so that it can be recorded, and is told by what it is for. OSRL draws the actions behind the
targets of reward and cost apart, lifesafe once for both: here OSRL gets the same noise both times, which is the one
thing that is changed. What OSRL draws and never uses is not recorded.
"""

import re
import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent / "rivals"))
from osrl_baselines_worker import baseline, step

OBSERVATIONS, ACTIONS, LENGTHS, BATCH, STEPS = 5, 2, (20, 13, 20), 16, 3
SMALL = {"vae_hidden_sizes": 12, "sample_action_num": 4}
SETTINGS = {"bcq-lag": SMALL, "bear-lag": SMALL | {"num_samples_mmd_match": 4}, "cpq": SMALL, "coptidice": {}}
COSTS = {"bcq-lag": 1.7, "bear-lag": 1.5, "cpq": 0.7}
"""What the cost critics expect, about: so near the limit that multipliers move, and some actions are safe."""
DRAWS = {
    "bcq-lag": ("vae", "targets", "targets", "actor"),
    "bear-lag": ("vae", "targets", "targets", "imitations", "samples"),
    "cpq": ("vae", "targets", "targets", "unused", "unknown", "unused", "actor"),
    "coptidice": ("observations", "actions", "unused"),
}
"""What each method draws noise for in a gradient step, in this order; the same word is the same noise."""


def normal(shape, random):
    return torch.empty(shape).normal_(generator=random)  # not by torch.randn, which is replaced


class Noise:
    """Standard normal noise that is remembered under a name."""

    def __init__(self):
        self.random = torch.Generator().manual_seed(2)
        self.expect(())

    def expect(self, names):
        """Give the draws to come these names."""
        self.names, self.drawn = iter(names), {}

    def __call__(self, shape):
        name = next(self.names)
        if name not in self.drawn or name == "unused":
            self.drawn[name] = normal(shape, self.random)
        assert self.drawn[name].shape == tuple(shape)
        return self.drawn[name].clone()

    def finished(self):
        """Return what was drawn and used, by name."""
        assert next(self.names, None) is None
        return {name: value for name, value in self.drawn.items() if name != "unused"}


def made_up_data(random):
    ends = np.cumsum(LENGTHS) - 1
    count = sum(LENGTHS)
    terminals, timeouts = np.zeros(count), np.zeros(count)
    timeouts[ends[[0, 2]]] = terminals[ends[1]] = 1
    return {
        "observations": random.normal(size=(count, OBSERVATIONS)).astype(np.float32),
        "next_observations": random.normal(size=(count, OBSERVATIONS)).astype(np.float32),
        "actions": random.uniform(-1, 1, size=(count, ACTIONS)).astype(np.float32),
        "rewards": random.uniform(0, 20, size=count).astype(np.float32),
        "costs": (random.random(count) < 0.4).astype(np.float32),
        "terminals": terminals,
        "timeouts": timeouts,
    }


def record(method, data, chosen, noise):
    """Return what one method computes."""
    torch.manual_seed(0)
    loader, model, trainer = baseline(method, data, cost_limit=1, width=8, **SETTINGS[method])
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter += 0.1 * normal(parameter.shape, random)
            if name.startswith("cost_critic") and name.endswith("4.bias"):
                parameter += COSTS[method]
    states, logged, drawn = [weights(model)], [], []
    rows = [loader._TransitionDataset__prepare_sample(index) for index in range(len(data["rewards"]))]
    for indices in chosen:
        noise.expect(DRAWS[method])
        step(method, trainer, torch.utils.data.default_collate([rows[index] for index in indices]))
        drawn.append(noise.finished())
        stored = trainer.logger.values
        logged.append({name.removeprefix("loss/"): torch.tensor(value) for name, value in stored.items()})
    states.append(weights(model))
    recorded = stacked("weights.", states) | stacked("logged.", logged) | stacked("noise.", drawn) | scalars(model)
    acting = {"bcq-lag": ((), "act")}  # the others are asked for their mean
    arguments, *draws = acting.get(method, ((True, True),))
    noise.expect(draws * 4)
    actions = [model.act(observation, *arguments)[0] for observation in data["observations"][:4]]
    recorded |= {f"noise.{name}": value for name, value in noise.finished().items()}
    return recorded | {"actions": torch.from_numpy(np.stack(actions))}


def stacked(prefix, records):
    """Return several records of the same things as one, things first."""
    return {f"{prefix}{name}": torch.stack([record[name] for record in records]) for name in records[0]}


def weights(model):
    """Return the weights of a model, and of the targets that follow it; those of an ensemble stacked."""
    stacks = {}
    for name, value in model.state_dict().items():
        stacks.setdefault(re.sub(r"\.q[12]?_nets\.\d", "", name), []).append(value.clone())
    return {name: values[0] if len(values) == 1 else torch.stack(values) for name, values in stacks.items()}


def scalars(model):
    """Return the state that OSRL keeps outside of its weights, as it is in the end."""
    kept = {name: getattr(model, name, None) for name in ("log_alpha", "tau", "lmbda")}
    if hasattr(model, "controller"):
        kept |= {"integral": model.controller.error_integral, "error": model.controller.error_old}
    return {f"after.{name}": v.detach().clone() for name, v in kept.items() if isinstance(v, torch.Tensor)}


def main(path):
    noise = Noise()
    torch.randn = lambda shape: noise(shape)
    torch.randn_like = lambda tensor: noise(tensor.shape)
    gaussian = torch.distributions.Normal
    gaussian.rsample = lambda self, shape=(): self.loc + self.scale * noise((*shape, *self.loc.shape))
    gaussian.sample = lambda self, shape=(): self.rsample(shape).detach()
    random = np.random.default_rng(0)
    data = made_up_data(random)
    chosen = random.integers(len(data["rewards"]), size=(STEPS, BATCH))
    chosen[0, :6] = np.concatenate([np.cumsum(LENGTHS) - 1, [0], np.cumsum(LENGTHS)[:-1]])  # all ends and starts
    recorded = {f"data.{name}": values for name, values in data.items()} | {"chosen": chosen}
    for method in DRAWS:
        recorded |= {f"{method}.{name}": value.numpy() for name, value in record(method, data, chosen, noise).items()}
    np.savez_compressed(path, **recorded)


if __name__ == "__main__":
    main(sys.argv[1])
