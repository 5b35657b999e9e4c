"""An environment of your own with two costs, through a whole life. Takes a minute or two.

A cart is paid for the way it makes, in gusty wind. A step costs 1 if it was faster than 1 m/s, and the effort of its
motor costs, too. Its logs are made on the spot, by drivers of all kinds; bring your own instead.
"""

import gymnasium
import numpy as np

from lifesafe.data.recorder import Recorder
from lifesafe.lab.baselines import RvSConfig
from lifesafe.life import Lifetime, Plan
from lifesafe.systems import Task


class Cart(gymnasium.Env):
    """Sees its speed and the wind, and pushes."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.speed = self.wind = 0.0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.wind = 0.9 * self.wind + 0.2 * self.np_random.normal()
        self.speed += 0.1 * (3.0 * float(action[0]) - 1.5 * self.speed + self.wind)
        seen = np.array([self.speed, self.wind], np.float32)
        costs = (float(self.speed > 1.0), float(action[0]) ** 2)
        return seen, 0.1 * self.speed, False, False, {"cost": costs}


cart = Task(
    name="Cart",
    make=Cart,
    observations=2,
    actions=1,
    horizon=100,
    limits=(20.0, 25.0),
    largest_costs=(1.0, 1.0),
)


def logs(episodes=600):
    """Return episodes of drivers that hold a speed of their own, some steadily, some not."""
    rng = np.random.default_rng(0)
    environment = Recorder(gymnasium.wrappers.TimeLimit(cart.environment(), cart.horizon))
    for number in range(episodes):
        wanted, gain, noise = rng.uniform(0.0, 1.4), rng.uniform(0.5, 3.0), rng.uniform(0.0, 0.3)
        seen, _ = environment.reset(seed=number)
        ended = False
        while not ended:
            push = 0.5 * wanted + gain * (wanted - seen[0]) + noise * rng.normal()
            seen, _, terminated, truncated, _ = environment.step(np.clip([push], -1, 1).astype(np.float32))
            ended = terminated or truncated
    return environment.dataset()


if __name__ == "__main__":
    data = logs()
    print(data.summary(cart.limits))
    with Lifetime.open("runs/cart", Plan(task=cart, method=RvSConfig(steps=2000)), data=data) as life:
        life.train()
        print(life.optimize())
        served = list(life.operate(50))
    print("operated:", served[-1].target, "mean costs", np.mean([each.returns.costs for each in served], axis=0))
