"""`lifesafe.lab.osrl` computes what OSRL's own CDT computes; recorded by benchmarks/record_osrl_cdt.py."""

from pathlib import Path

import numpy as np
import pytest
import torch

from lifesafe.data import Dataset
from lifesafe.lab.osrl import (
    OSRLCDT,
    OSRLBatch,
    OSRLCDTConfig,
    OSRLCDTLearner,
    OSRLCDTNetwork,
    OSRLSteps,
    weights_from_osrl,
)
from lifesafe.returns import Returns

ASSET = Path(__file__).parent / "assets" / "cdt_osrl.npz"
CONFIG = OSRLCDTConfig(
    context=4, width=32, layers=2, heads=4, dropout=0.0, learning_rate=1e-3, warmup=2, batch=6, held_out=0.0
)
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture(scope="module")
def recorded() -> dict[str, torch.Tensor]:
    with np.load(ASSET) as arrays:
        return {name: torch.from_numpy(arrays[name]) for name in arrays.files}


def part(recorded: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): value for name, value in recorded.items() if name.startswith(prefix)}


def network(recorded: dict[str, torch.Tensor]) -> OSRLCDTNetwork:
    made = OSRLCDTNetwork(CONFIG, observations=5, actions=3, times=len(recorded["weights.timestep_emb.weight"]))
    made.load_state_dict(weights_from_osrl(part(recorded, "weights.")))
    return made


def batch(recorded: dict[str, torch.Tensor]) -> OSRLBatch:
    data = part(recorded, "batch.")
    coming = torch.stack([data["returns"], 50 - data["costs_return"]], dim=-1)  # the rewards are scaled already
    return OSRLBatch(
        OSRLSteps(coming, data["states"], data["actions"], data["time_steps"]), data["costs"].long(), data["mask"]
    )


def test_the_forward_pass_agrees(recorded: dict[str, torch.Tensor]) -> None:
    made, given = network(recorded), batch(recorded)
    predicted, real = made(given.steps), given.real.bool()
    torch.testing.assert_close(predicted.mean[real], recorded["mean"][real], **CLOSE)
    torch.testing.assert_close(predicted.log_std.exp()[real], recorded["std"][real], **CLOSE)
    torch.testing.assert_close(predicted.cost[real], recorded["cost_preds"][real], **CLOSE)


def test_losses_weights_and_temperature_agree_over_three_gradient_steps(recorded: dict[str, torch.Tensor]) -> None:
    learner = small_learner()
    learner.network.load_state_dict(weights_from_osrl(part(recorded, "weights.")))
    for step in range(3):
        metrics = learner.fit(batch(recorded), step)
        for ours, theirs in {"nll": "nll", "entropy": "ent", "cost_loss": "cost_loss", "loss": "all_loss"}.items():
            expected = recorded[f"step{step}.{theirs}"]
            torch.testing.assert_close(metrics[ours].float(), expected.float(), msg=f"{ours} {step}", **CLOSE)
    for name, value in weights_from_osrl(part(recorded, "trained.")).items():
        # The keys' bias has no effect, so its gradient is rounding noise, which Adam blows up to full steps.
        ours = learner.network.state_dict()[name]
        if name.endswith("attention.in_proj_bias"):
            keep = [*range(32), *range(64, 96)]
            ours, value = ours[keep], value[keep]
        torch.testing.assert_close(ours, value, rtol=1e-4, atol=2e-5, msg=name)
    expected = recorded["trained.log_temperature"].double()
    torch.testing.assert_close(learner.log_temperature.detach(), expected, rtol=1e-7, atol=1e-7)


def small_learner() -> OSRLCDTLearner:
    """A learner on any data with an episode as long as the recorded time table."""
    random = np.random.default_rng(0)
    ends = np.arange(16) == 15
    dataset = Dataset.from_arrays(
        observations=random.normal(size=(16, 5)),
        actions=random.uniform(-1, 1, size=(16, 3)),
        rewards=random.normal(size=16),
        costs=np.zeros(16),
        terminals=np.zeros(16),
        timeouts=ends,
    )
    return CONFIG.build(dataset, seed=0)


def test_the_actions_of_an_episode_agree(recorded: dict[str, torch.Tensor]) -> None:
    episode = {name: value.numpy() for name, value in part(recorded, "rollout.").items()}
    actor = OSRLCDT(CONFIG, network(recorded)).actor([Returns(3.0, 2.0)])
    for step in range(len(episode["rewards"])):
        action = actor.act(episode["observations"][[step]])
        np.testing.assert_allclose(action[0], episode["actions"][step], **CLOSE)
        actor.observe(episode["rewards"][[step]].astype(np.float64), episode["costs"][[step], None])
    assert episode["costs"].sum() > 2  # the budget was overspent, so the cost-to-go went negative
