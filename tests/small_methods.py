"""Every way of learning, small enough for tests."""

from lifesafe.data.augmentation import AugmentationConfig
from lifesafe.policies import CDTConfig, RvSConfig

METHODS = {
    "cdt": CDTConfig(steps=40, batch=8, width=16, layers=2, heads=2, context=4, segment=6, warmup=5, held_out=0.1),
    # OSRL's cost model and relabeling know a single cost, and the contracts ask for two.
    "cdt-osrl": CDTConfig.osrl(
        steps=40,
        batch=8,
        width=16,
        layers=2,
        heads=2,
        context=4,
        segment=4,
        warmup=5,
        held_out=0.1,
        cost_model="share",
        augmentation=AugmentationConfig(),
    ),
    "rvs": RvSConfig(steps=40, batch=32, width=16, held_out=0.1),
    "rvs-timeless": RvSConfig(steps=40, batch=32, width=16, time=False, dropout=0.0, held_out=0.1),
}
