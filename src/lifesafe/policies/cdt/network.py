"""The network of the Constrained Decision Transformer: from the steps of a sequence to a Gaussian over each action.

A step is what is still to come (reward R, costs G), the observation s and the action a. It becomes

    4 tokens:  R | G | s | a                 as in the paper; the action is read off s
    2 tokens:  (R, G, s) | a                 the same knowledge in half the tokens
    1 token:   (R, G, s, previous action)    the same knowledge in a quarter

Notation: b sequences of l steps; k costs, o observations, a actions, width w.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from lifesafe.policies.cdt.dropout import Dropouts
from lifesafe.policies.cdt.transformer import Transformer, small_normal

Tokens = Literal[1, 2, 4]
CostModel = Literal["none", "share", "classes"]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes that the data decide."""

    observations: int
    actions: int
    costs: int
    times: int
    """Steps of the longest episode: later steps are taken for the last one."""


class Steps(NamedTuple):
    """Sequences of steps, scaled as the network wants them."""

    coming: Float[Tensor, "b l r"]
    """Reward and costs still to come."""
    observations: Float[Tensor, "b l o"]
    actions: Float[Tensor, "b l a"]
    """The actions taken; with one token a step, the actions taken *before* each step, zeros before the first."""
    times: Int[Tensor, "b l"]
    """Number of each step within its episode, from 0."""


class Gaussian(NamedTuple):
    """Independent normal distributions, one per entry of an action.

    NOTE: Not squashed by tanh. Recorded actions were clipped, so many lie on the bounds, where a squashed density is
    infinite; a plain one needs no special case, and acting clips its mean.
    """

    mean: Float[Tensor, "b l a"]
    log_std: Float[Tensor, "b l a"]

    def log_prob(self, actions: Float[Tensor, "b l a"]) -> Float[Tensor, "b l a"]:
        """Return the log-density of each entry."""
        z = (actions - self.mean) * torch.exp(-self.log_std)
        return -0.5 * z.square() - self.log_std - 0.5 * math.log(2 * math.pi)

    def entropy(self) -> Float[Tensor, "b l a"]:
        """Return the entropy of each entry."""
        return self.log_std + 0.5 * (1 + math.log(2 * math.pi))


class Embedding(nn.Module):
    """Turns steps into tokens."""

    def __init__(self, sizes: Sizes, tokens: Tokens, width: int) -> None:
        super().__init__()
        self.tokens = tokens
        self.times = nn.Embedding(sizes.times, width)
        if tokens == 4:
            self.reward = nn.Linear(1, width)
            self.costs = nn.Linear(sizes.costs, width)
            self.observation = nn.Linear(sizes.observations, width)
        elif tokens == 2:
            self.situation = nn.Linear(1 + sizes.costs + sizes.observations, width)
        else:
            self.situation = nn.Linear(1 + sizes.costs + sizes.observations + sizes.actions, width)
        if tokens > 1:
            self.action = nn.Linear(sizes.actions, width)

    def forward(self, steps: Steps) -> Float[Tensor, "b l s w"]:
        time = self.times(steps.times.clamp(max=self.times.num_embeddings - 1))
        if self.tokens == 1:
            situation = self.situation(torch.cat([steps.coming, steps.observations, steps.actions], dim=-1))
            return torch.stack([situation + time], dim=2)
        return torch.stack([part + time for part in (*self._before_action(steps), self.action(steps.actions))], dim=2)

    def newest(self, steps: Steps) -> Float[Tensor, "b s w"]:
        """Return the tokens that one step adds, the action in it being that of the step before.

        The action's token comes first, with the time of its own step; then those that come before the next action.
        """
        if self.tokens == 1:
            return self.forward(steps)[:, 0]
        time = self.times(steps.times.clamp(max=self.times.num_embeddings - 1))
        earlier = self.times((steps.times - 1).clamp(0, self.times.num_embeddings - 1))
        new = [self.action(steps.actions) + earlier, *(part + time for part in self._before_action(steps))]
        return torch.cat(new, dim=1)

    def _before_action(self, steps: Steps) -> tuple[Tensor, ...]:
        if self.tokens == 2:
            return (self.situation(torch.cat([steps.coming, steps.observations], dim=-1)),)
        coming = steps.coming
        return self.reward(coming[..., :1]), self.costs(coming[..., 1:]), self.observation(steps.observations)


class CDTNetwork(nn.Module):
    """Predicts each action of a sequence from all that is known before it, and optionally what the action costs."""

    def __init__(
        self,
        sizes: Sizes,
        *,
        tokens: Tokens,
        window: int | None,
        width: int,
        layers: int,
        heads: int,
        log_std_bounds: tuple[float, float] | None,
        cost_model: CostModel,
    ) -> None:
        super().__init__()
        self.sizes = sizes
        self.tokens = tokens
        self.cost_model = cost_model
        self.log_std_bounds = log_std_bounds
        self.embedding = Embedding(sizes, tokens, width)
        self.transformer = Transformer(width=width, heads=heads, layers=layers, slots=tokens, window=window)
        self.action_head = nn.Linear(width, 2 * sizes.actions)  # means, then logarithms of deviations
        if cost_model == "classes":
            self.cost_head = nn.Linear(width, 2)
        elif cost_model == "share":
            self.cost_head = nn.Linear(width + sizes.actions, sizes.costs)
        small_normal(self)

    @property
    def acting_slot(self) -> int:
        """Which token of a step the action is read off."""
        return max(self.tokens - 2, 0)

    def forward(self, steps: Steps, dropout: Dropouts | None = None) -> tuple[Gaussian, Float[Tensor, "b l w"]]:
        """Return the distribution of each action, and the features from which its cost is predicted."""
        slot = self.acting_slot
        after = self.cost_model == "classes"  # OSRL predicts the cost from the token of the action
        features = self.transformer(self.embedding(steps), slice(slot, slot + 1 + after), dropout)
        return self.gaussian(features[:, :, 0]), features[:, :, -1]

    def gaussian(self, features: Float[Tensor, "b l w"]) -> Gaussian:
        """Return the distribution of the action that follows."""
        mean, log_std = self.action_head(features).chunk(2, dim=-1)
        if self.log_std_bounds is not None:
            low, high = self.log_std_bounds
            # Smooth, so that the gradient does not vanish at once as with a clamp.
            log_std = (low + high) / 2 + (high - low) / 2 * torch.tanh(log_std)
        return Gaussian(mean, log_std)

    @torch.no_grad()
    def begin_at(self, mean: Float[Tensor, " a"], std: Float[Tensor, " a"]) -> None:
        """Let the untrained network say that actions have this mean and deviation, whatever it sees."""
        log_std = std.clamp(min=1e-3).log()
        if self.log_std_bounds is not None:
            low, high = self.log_std_bounds
            log_std = ((2 * log_std - low - high) / (high - low)).clamp(-0.9, 0.9).atanh()
        self.action_head.bias.copy_(torch.cat([mean, log_std]))

    def cost_loss(
        self, features: Float[Tensor, "b l w"], actions: Float[Tensor, "b l a"], costs: Float[Tensor, "b l k"]
    ) -> Float[Tensor, "b l"]:
        """Return how badly the cost of each step is predicted from the features and the action.

        With the model "share", a cost is given as its share of the largest cost of a step in the data, and the loss
        is the cross-entropy with that share: right for costs of 0 and 1, and for any others in between. With
        "classes" it is OSRL's, for one cost that is 0 or 1.
        """
        if self.cost_model == "classes":
            logits = functional.log_softmax(self.cost_head(features), dim=-1)
            return -logits.gather(-1, costs[..., :1].long())[..., 0]
        logits = self.cost_head(torch.cat([features, actions], dim=-1))
        return functional.binary_cross_entropy_with_logits(logits, costs, reduction="none").mean(-1)
