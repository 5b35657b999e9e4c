"""The `osrl` presets compute what OSRL's own baselines compute; recorded by benchmarks/record_osrl_baselines.py.

The same weights, batches and noise go in; losses, multipliers, weights and actions must come out. OSRL draws the
actions behind the targets of reward and cost apart and lifesafe once for both, so OSRL was given the same noise twice.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lifesafe.data import Dataset
from lifesafe.lab.baselines import BCQLagConfig, BEARLagConfig, COptiDICEConfig, CPQConfig
from lifesafe.returns import Returns

ASSET = Path(__file__).parent / "assets" / "baselines_osrl.npz"
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
SMALL: dict[str, Any] = {"limits": (1.0,), "width": 8, "batch": 16}
CONFIGS = {
    "bcq-lag": BCQLagConfig.osrl(**SMALL, vae_width=12, proposals=4),
    "bear-lag": BEARLagConfig.osrl(**SMALL, vae_width=12, proposals=4, samples=4),
    "cpq": CPQConfig.osrl(**SMALL, vae_width=12, samples=4),
    "coptidice": COptiDICEConfig.osrl(**SMALL),
}
STEPS = 3

Recorded = dict[str, Tensor]


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    with np.load(ASSET) as arrays:
        return {name: torch.from_numpy(arrays[name]) for name in arrays.files}


def part(recorded: Recorded, prefix: str) -> Recorded:
    return {name.removeprefix(prefix): value for name, value in recorded.items() if name.startswith(prefix)}


# The weights: OSRL's networks are one layer after the other, ensembles were stacked when recorded.


def layers(weights: Recorded, *names: str | tuple[str, str], prefix: str) -> Recorded:
    """Return layers of OSRL as those of a perceptron; two heads become one layer."""
    ours = {}
    for index, heads in enumerate(names):
        for kind in ("weight", "bias"):
            parts = [weights[f"{name}.{kind}"] for name in ((heads,) if isinstance(heads, str) else heads)]
            ours[f"{prefix}.{2 * index}.{kind}"] = torch.cat(parts)
    return ours


def vae(weights: Recorded) -> Recorded:
    encoder = layers(weights, "vae.e1", "vae.e2", ("vae.mean", "vae.log_std"), prefix="vae.encoder")
    return encoder | layers(weights, "vae.d1", "vae.d2", "vae.d3", prefix="vae.decoder")


def gaussian_actor(weights: Recorded, name: str = "actor") -> Recorded:
    heads = (f"{name}.mu_layer", f"{name}.log_std_layer")
    return layers(weights, f"{name}.net.0", f"{name}.net.2", heads, prefix="actor.layers")


def perturbation(weights: Recorded, name: str = "actor") -> Recorded:
    return layers(weights, *(f"{name}.pi.{index}" for index in (0, 2, 4)), prefix="actor.layers")


def critics(weights: Recorded, *names: str, prefix: str) -> Recorded:
    """Return ensembles of OSRL, one per return, as critics side by side."""
    stacks = {
        f"{index}.{kind}": torch.cat([weights[f"{name}.{index}.{kind}"] for name in names])
        for index in (0, 2, 4)
        for kind in ("weight", "bias")
    }
    ours = {"first.weight": stacks["0.weight"].flatten(0, 1), "first.bias": stacks["0.bias"].flatten()}
    for layer, index in enumerate((2, 4)):
        ours[f"weights.{layer}"] = stacks[f"{index}.weight"].transpose(1, 2)
        ours[f"biases.{layer}"] = stacks[f"{index}.bias"].unsqueeze(1)
    return {f"{prefix}.{name}": value for name, value in ours.items()}


def proposal_weights(actor: Callable[[Recorded, str], Recorded]) -> Callable[[Recorded], tuple[Recorded, Recorded]]:
    def weights(theirs: Recorded) -> tuple[Recorded, Recorded]:
        model = vae(theirs) | actor(theirs, "actor") | critics(theirs, "critic", "cost_critic", prefix="critics")
        slow = critics(theirs, "critic_old", "cost_critic_old", prefix="critics")
        return model, actor(theirs, "actor_old") | slow

    return weights


def cpq_weights(theirs: Recorded) -> tuple[Recorded, Recorded]:
    def both(suffix: str) -> Recorded:
        rewards = critics(theirs, f"critic{suffix}", prefix="reward_critics")
        return rewards | critics(theirs, f"cost_critic{suffix}", prefix="cost_critics")

    return vae(theirs) | gaussian_actor(theirs) | both(""), both("_old")


def coptidice_weights(theirs: Recorded) -> tuple[Recorded, Recorded]:
    values = critics(theirs, "nu_network", prefix="values")
    return gaussian_actor(theirs) | values | critics(theirs, "chi_network", prefix="cost_values"), {}


WEIGHTS = {
    "bcq-lag": proposal_weights(perturbation),
    "bear-lag": proposal_weights(gaussian_actor),
    "cpq": cpq_weights,
    "coptidice": coptidice_weights,
}


def weights(method: str, recorded: Recorded, when: int) -> tuple[Recorded, Recorded]:
    """Return OSRL's weights and those of its targets, under our names, before (0) or after (-1) the steps."""
    theirs = {name: value[when] for name, value in part(recorded, f"{method}.weights.").items()}
    return WEIGHTS[method](theirs)


# The noise, in the order and the shapes in which our learners ask for it.


def noise(method: str, recorded: Recorded) -> Iterator[Tensor]:
    for step in range(STEPS):
        given = {name: value[step] for name, value in part(recorded, f"{method}.noise.").items() if name != "act"}
        match method:
            case "bcq-lag":
                yield from (given["vae"], given["targets"], given["actor"])
            case "bear-lag":
                yield from (given["vae"], given["targets"], given["samples"].view(-1, 4, 2))
                yield given["imitations"].flatten(0, 1)
            case "cpq":
                yield from (given["vae"], given["targets"], given["unknown"].transpose(0, 1).flatten(0, 1))
                yield given["actor"]
            case "coptidice":
                yield torch.cat([given["observations"], given["actions"]], dim=1)


def learner(method: str, recorded: Recorded) -> Any:
    """Return our learner with OSRL's weights, which draws what OSRL drew."""
    arrays = {name: value.numpy() for name, value in part(recorded, "data.").items()}
    made = CONFIGS[method].build(Dataset.from_arrays(**arrays), seed=0)
    model, slow = weights(method, recorded, 0)
    load(made.model, model)
    load(made.slow, slow)
    batches, drawn = iter(recorded["chosen"]), noise(method, recorded)

    def normal(*shape: int) -> Tensor:
        given = next(drawn)
        assert given.shape == shape
        return given.clone()

    made.draw = lambda: made.transitions.batch(next(batches))
    made.normal = normal
    return made


def load(module: torch.nn.Module, given: Recorded) -> None:
    """Load all weights; multipliers and limits are none."""
    assert given.keys() >= {name for name, value in module.named_parameters() if value.ndim > 1}
    module.load_state_dict(given, strict=False)


def trained(method: str, recorded: Recorded) -> tuple[Any, dict[str, Tensor]]:
    """Return our learner after as many steps as were recorded, and the metrics of all steps."""
    made = learner(method, recorded)
    metrics = [made.update(step) for step in range(STEPS)]
    with pytest.raises(StopIteration):  # nothing is left over
        made.normal(1)
    return made, {name: torch.stack([step[name] for step in metrics]) for name in metrics[0]}


@pytest.mark.parametrize("method", CONFIGS)
def test_weights_and_targets_agree_after_three_gradient_steps(method: str, recorded: Recorded) -> None:
    made, _ = trained(method, recorded)
    before, after = weights(method, recorded, 0), weights(method, recorded, -1)
    for ours, first, expected in zip((made.model.state_dict(), made.slow.state_dict()), before, after, strict=True):
        for name, value in expected.items():
            torch.testing.assert_close(ours[name], value, msg=lambda text, name=name: f"{name}: {text}", **CLOSE)
            assert not torch.equal(first[name], value), f"{name} did not move, so nothing was compared"


@pytest.mark.parametrize("method", ["bcq-lag", "bear-lag"])
def test_the_losses_and_multipliers_of_lagrangian_methods_agree(method: str, recorded: Recorded) -> None:
    made, metrics = trained(method, recorded)
    theirs = part(recorded, f"{method}.logged.")
    agree(metrics["vae_loss"], theirs["loss_vae"])
    agree(metrics["loss"], theirs["critic_loss"] + theirs["cost_critic_loss"])
    agree(metrics["actor_loss"], theirs["actor_loss"])
    agree(metrics["multiplier"], theirs["lagrangian"])
    assert (theirs["lagrangian"] > 0.01).all()  # the constraint is felt
    agree(made.model.multipliers.integrals, recorded[f"{method}.after.integral"].view(1))
    agree(made.model.multipliers.errors, recorded[f"{method}.after.error"].view(1))
    if method == "bear-lag":
        agree(metrics["discrepancy"], theirs["mmd_loss"])
        agree(made.model.log_weight, recorded["bear-lag.after.log_alpha"], rtol=1e-4, atol=1e-8)


def test_the_losses_and_weights_of_cpq_agree(recorded: Recorded) -> None:
    made, metrics = trained("cpq", recorded)
    theirs = part(recorded, "cpq.logged.")
    agree(metrics["vae_loss"], theirs["loss_vae"])
    agree(metrics["actor_loss"], theirs["actor_loss"])
    # OSRL's loss of the cost critic has the conservative term in it, with the weight before it was moved.
    used = torch.cat([torch.ones(1), theirs["alpha_value"][:-1]])
    lack = 1.5 * made.model.limits.flatten() - metrics["unknown_cost"]
    agree(metrics["loss"] + used * lack, theirs["critic_loss"] + theirs["cost_critic_loss"])
    agree(made.model.log_weights, recorded["cpq.after.log_alpha"].view(1), rtol=1e-4, atol=1e-8)
    assert ((metrics["safe"] > 0) & (metrics["safe"] < 1)).all()  # both sides of the limit


def test_the_losses_and_multipliers_of_coptidice_agree(recorded: Recorded) -> None:
    made, metrics = trained("coptidice", recorded)
    theirs = part(recorded, "coptidice.logged.")
    agree(metrics["loss"], theirs["nu_loss"])
    agree(metrics["actor_loss"], theirs["actor_loss"])
    agree(metrics["cost_divergence"], theirs["D_kl"])
    agree(metrics["multiplier"], theirs["lmbda"])
    agree(metrics["multiplier"] * (made.model.limits - metrics["cost"]), theirs["lmbda_loss"])
    agree(made.model.multipliers.raw.detach(), recorded["coptidice.after.lmbda"], rtol=1e-7, atol=1e-7)
    agree(made.model.temperatures.raw.detach(), recorded["coptidice.after.tau"], rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("method", CONFIGS)
def test_actions_agree_after_training(method: str, recorded: Recorded) -> None:
    made, _ = trained(method, recorded)
    policy = made.policy()
    if method == "bcq-lag":  # one random proposal
        policy._noise = recorded["bcq-lag.noise.act"].expand(len(policy._noise), 1, -1)
    expected = recorded[f"{method}.actions"].numpy()
    actor = policy.actor([Returns(0.0, 1.0)] * len(expected))
    np.testing.assert_allclose(actor.act(recorded["data.observations"][: len(expected)].numpy()), expected, **CLOSE)


def agree(ours: Tensor, theirs: Tensor, **tolerances: float) -> None:
    torch.testing.assert_close(ours, theirs, **CLOSE | tolerances)
