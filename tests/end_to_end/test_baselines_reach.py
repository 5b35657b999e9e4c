"""Every method, trained on logs of the small constrained MDP, against what is known to be possible there.

The best policy within the limit of 5 earns 323 (321 if stationary and deterministic); without a limit 380, at 12. The
logged drivers earn 270 at 8.9, and the best single speed for all sections 275. What a method reaches is computed, not
sampled, unless its actions depend on more than time and section.
"""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from constrained_mdp import (
    DISCOUNT,
    HARM,
    HORIZON,
    LIMIT,
    SECTIONS,
    Value,
    always,
    best_deterministic,
    evaluate,
    logged_dataset,
    plan_of,
    play,
)
from lifesafe.data import Dataset
from lifesafe.lab.baselines import (
    BCConfig,
    BCQLagConfig,
    BEARLagConfig,
    CCACConfig,
    COptiDICEConfig,
    CPQConfig,
    RvSConfig,
)
from lifesafe.policies import CDTConfig, train
from lifesafe.returns import Returns

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return logged_dataset()


def optimum(_: Dataset) -> Value:
    """Return what the best policy within the limit reaches."""
    return best_deterministic(LIMIT)[0]


def even_costs(_: Dataset) -> Value:
    """Return what is reached if every step costs the same, so that a cost critic says the same everywhere.

    That is what CPQ aims at: in each section by itself, as much speed as its critic allows.
    """
    return evaluate(always(2 * np.sqrt(LIMIT / HORIZON / HARM) - 1))


def imitation(config: BCConfig) -> Callable[[Dataset], Value]:
    """Return what the mean actions of the episodes that are imitated reach."""

    def reached(dataset: Dataset) -> Value:
        imitated = config.chosen(dataset)
        sections = imitated.observations.argmax(1)
        return evaluate(always([imitated.actions[sections == section].mean() for section in range(len(SECTIONS))]))

    return reached


class Row(NamedTuple):
    """What is asked of a method.

    Attributes:
        config: Small, but otherwise as it comes.
        share: The least share of the reachable reward.
        most: The largest cost, as a share of the limit; infinite for methods that promise nothing.
        reachable: What the method could reach at best.
        conditioned: Whether its actions depend on what an episode has cost so far.
    """

    config: Any
    share: float
    most: float
    reachable: Callable[[Dataset], Value] = optimum
    conditioned: bool = False


SMALL: dict[str, Any] = {"steps": 3000, "batch": 128, "width": 64}
CRITICS: dict[str, Any] = {**SMALL, "limits": (LIMIT,), "discount": DISCOUNT}
FAST: dict[str, Any] = {**CRITICS, "follow_rate": 0.05, "vae_width": 64}
SHORT: dict[str, Any] = {
    **{"steps": 1500, "batch": 64, "segment": 10, "context": 5},
    **{"width": 64, "layers": 2, "heads": 4},
}
BC_ALL = BCConfig(**SMALL)
BC_SAFE = BCConfig(**SMALL, episodes="safe", limits=(LIMIT,))
BC_FRONTIER = BCConfig(**SMALL, episodes="frontier")

# Beside each: what was measured, as reward at cost. Settings and shares were chosen on seeds 0 to 2: of BCQ-Lag the
# best of five settings, of COptiDICE one of four where the multiplier settled, of CCAC the only one of four that
# learned. Seeds 3 and 4 were looked at afterwards. Seed 0 again, after the sources had been edited: BCQ-Lag 318 rather
# than 322, BEAR-Lag 296 rather than 301.
METHODS = {
    "bc": Row(BC_ALL, share=0.95, most=np.inf, reachable=imitation(BC_ALL)),
    "bc-safe": Row(BC_SAFE, share=0.95, most=1.0, reachable=imitation(BC_SAFE)),
    # 302 at 6.5, 303 at 6.6.
    "bc-frontier": Row(BC_FRONTIER, share=0.95, most=np.inf, reachable=imitation(BC_FRONTIER)),
    # 322 at 5.1, 315 at 4.9, 307 at 4.5; 312 at 4.8, 308 at 4.5.
    "bcq-lag": Row(BCQLagConfig(**FAST), share=0.92, most=1.1),
    # 301 at 4.8, 297 at 4.5, 302 at 4.8; 302 at 4.7, 298 at 4.7.
    "bear-lag": Row(BEARLagConfig(**FAST), share=0.9, most=1.1),
    # 318 at 5.4, 308 at 4.7, 308 at 4.7, before the sources were edited.
    "cpq": Row(CPQConfig(**FAST, actor_rate=1e-3, rescue=True), share=0.95, most=1.1, reachable=even_costs),
    # 279, 278, 280; 277, 283, all at 3.1 to 3.4: about the best at that cost, but a third of the limit is left unused.
    "coptidice": Row(
        COptiDICEConfig(**{**CRITICS, "batch": 256}, actor_rate=1e-3, critic_rate=1e-3, scalar_rate=1e-2, caution=0.1),
        share=0.84,
        most=1.0,
    ),
    # 221 at 3.5, 253 at 3.2, 244 at 2.8; 257 at 3.5, but 17 at 0.0 with seed 4. Three other settings came to rest near
    # 0 at 0 with seed 0. So this row shows what is possible, not what is to be expected.
    "ccac": Row(
        CCACConfig(**{**FAST, "limits": (), "steps": 5000}, latent=16, actor_rate=1e-3, warmup=0.25),
        share=0.62,
        most=1.0,
        conditioned=True,
    ),
    # These ask for a return and promise no limit, but here it nearly comes out. 308 at 4.8, 304 at 4.6.
    "rvs": Row(RvSConfig(steps=3000, batch=128), share=0.9, most=1.1, conditioned=True),
    # 293 at 5.1, 285 at 5.0.
    "cdt": Row(CDTConfig(**SHORT), share=0.85, most=1.1, conditioned=True),
    # 296 at 4.8, 301 at 5.1.
    "dt-cost": Row(CDTConfig.dt_cost(**SHORT), share=0.87, most=1.1, conditioned=True),
}


def reached(policy: Any, conditioned: bool, limit: float = LIMIT) -> Value:
    target = Returns(350.0, [limit])
    if conditioned:
        return Value(*play(policy, target, episodes=4000).mean(0))
    return evaluate(plan_of(policy, target))


@pytest.fixture(scope="module")
def trained(dataset: Dataset) -> Callable[[str], Any]:
    return functools.cache(lambda method: train(METHODS[method].config, dataset, seed=0))


@pytest.mark.parametrize("method", METHODS)
def test_a_method_comes_near_to_what_it_can_reach_and_keeps_its_limit_if_it_promises_to(method, dataset, trained):
    row = METHODS[method]
    value = reached(trained(method), row.conditioned)
    assert value.reward >= row.share * row.reachable(dataset).reward
    assert value.cost <= row.most * LIMIT


def test_one_training_of_ccac_serves_several_limits(trained):
    values = [reached(trained("ccac"), conditioned=True, limit=limit) for limit in (2.5, 5.0, 10.0)]
    assert [value.cost <= limit for value, limit in zip(values, (2.5, 5.0, 10.0), strict=True)] == [True] * 3
    assert values[0].reward < values[1].reward < values[2].reward


def test_cpq_as_published_does_not_come_back_from_where_all_looks_unsafe(dataset):
    """A weakness of the method: 362 at 18, three times the limit, with each of five seeds."""
    config = replace(METHODS["cpq"].config, rescue=False)
    assert reached(train(config, dataset, seed=0), conditioned=False).cost > 2 * LIMIT
    learner = config.build(dataset, seed=0)
    safe = [learner.update(step)["safe"].item() for step in range(1500)]
    assert safe[0] == 1.0
    assert max(safe[-100:]) == 0.0
    loss, _ = learner.actor_loss(learner.draw())
    assert all(gradient.abs().max() == 0 for gradient in torch.autograd.grad(loss, [*learner.model.actor.parameters()]))
