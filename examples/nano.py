"""lifesafe in one file: from logs to a policy whose mean cost keeps its limit for as long as it is operated.

A policy is learned from logs that obeys a *target*: how much reward to earn, and how much cost to cause. What it really
returns at a target only real episodes show, and none of them may be too costly on average. So:

    logs -> constrained decision transformer -> start -> search -> operation under a watch

The search makes one of two promises. "trial": with probability 1 - delta no trial has a mean cost above a limit; a
Gaussian process tells the risk of each trial, which is charged to a ledger beforehand. "total": without any model,
unknown targets never spend more than was saved before; with probability 1 - delta no unsafe target is certified.

Decisions are those of `lifesafe.SafeOptimizer` and its `Watch`, trial by trial (tests/end_to_end/test_nano.py).
Left out are journals, replay, retraction, changes of limits, searches that are held, trials that end early, several
starts, listed targets, knobs, costs that no episode can exceed, the ladder after an alarm, and checks of what is given.

Notation. The search knows shares: targets and rewards lie between 0 and 1, costs are in limits, so each limit is 1.
    z       target: the reward and the costs that are asked for                 m       mean cost of a target
    x       cost of an episode                                                  f       m on the modeled scale
    s, H    most that can come at once; with a stop, most an episode can cost   phi     dispersion: Var x / E x
"""

import argparse
import hashlib
import itertools
import json
import math
from collections import namedtuple

import numpy as np
import torch
from scipy.spatial.distance import cdist
from scipy.special import ndtr, softmax
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from lifesafe.systems.simulators import behaviors, point_circle  # the environment, and drivers who make its logs


def stream(seed, *names):
    """Return the random generator for one purpose, found by name: a new draw changes nothing elsewhere."""
    words = np.frombuffer(hashlib.sha256(json.dumps(names).encode()).digest(), "<u4").tolist()
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=words)))


# ---- The policy: a transformer that is told what is still wanted, imitates the logs, and keeps to the cost in doubt.

WIDTH, LAYERS, HEADS, CONTEXT, BATCH = 64, 2, 4, 10, 64
SEGMENT = LAYERS * (CONTEXT - 1) + 1  # steps that can matter to an action: each layer sees CONTEXT of them


class CDT(nn.Module):
    """A constrained decision transformer with one token a step: (reward and cost to go, observation, last action)."""

    def __init__(self, observations, actions, to_go):
        super().__init__()
        inputs, outputs = sum(part.shape[2] for part in (to_go, observations, actions)), actions.shape[2]
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, 0.1, "gelu", batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        self.embed, self.norm = nn.Linear(inputs, WIDTH), nn.LayerNorm(WIDTH)
        self.times, self.head = nn.Embedding(actions.shape[1], WIDTH), nn.Linear(WIDTH, 2 * outputs)
        nn.init.normal_(self.times.weight, std=0.02)
        self.mean, self.deviation = observations.mean((0, 1)), observations.std((0, 1))
        low, self.center, high = np.quantile(to_go[..., 0], [0.05, 0.5, 0.95])
        self.spread, self.typical = (high - low) / 2, np.median(to_go[..., 1][to_go[..., 1] > 0])

    def tokens(self, to_go, observations, last_actions):
        """Return what the network sees of some steps, everything of a size of about 1."""
        reward, cost = (to_go[..., :1] - self.center) / self.spread, np.maximum(to_go[..., 1:], 0.0) / self.typical
        seen = (observations - self.mean) / self.deviation
        return torch.from_numpy(np.concatenate([reward, np.log1p(cost), seen, last_actions], -1).astype(np.float32))

    def forward(self, tokens, times):  # (b, l, inputs), (l,) or (b, l)
        """Return mean and log deviation of the action of each step, (b, l, a) each."""
        age = torch.arange(tokens.shape[1])[:, None] - torch.arange(tokens.shape[1])
        hidden = self.body(self.norm(self.embed(tokens) + self.times(times)), mask=(age < 0) | (age >= CONTEXT))
        mean, log_std = self.head(hidden).chunk(2, dim=-1)
        return mean, 3.5 * torch.tanh(log_std) - 1.5  # deviations from e^-5 to e^2


def relabel(returns, rng, fraction=0.3, margin=0.1):
    """Return episodes, and targets with their cost and more reward: if both cannot be had, the cost comes first."""
    rewards, costs = returns.T
    wanted = costs.min() + np.linspace(0, 1, int(fraction * len(returns))) ** 2 * np.ptp(costs)
    affordable = costs <= wanted[:, None]
    best = np.where(affordable, rewards, -np.inf).max(axis=1)
    good = affordable & (rewards >= (best - margin * (best - rewards.min()))[:, None])
    episodes = np.where(good, rng.random(good.shape), -1.0).argmax(axis=1)
    highest = rewards.max() + margin * np.ptp(rewards)
    return episodes, np.column_stack([best + (highest - best) * rng.random(len(best)), wanted])


def train(observations, actions, outcomes, steps, seed):
    """Return a policy that imitates logs, given what they went on to return: (e, t, o), (e, t, a), (e, t, 2)."""
    torch.manual_seed(seed)
    to_go = np.cumsum(outcomes[:, ::-1], axis=1, dtype=float)[:, ::-1]
    rng, horizon, returns = stream(seed, "train"), actions.shape[1], to_go[:, 0]
    last = np.roll(actions, 1, axis=1) * (np.arange(horizon) > 0)[:, None].astype(np.float32)
    again, targets = relabel(returns, rng)
    episodes = np.append(np.arange(len(returns)), again)
    shifts = np.concatenate([np.zeros_like(returns), targets - returns[again]])
    policy = CDT(observations, actions, to_go)
    weights = 1 / (1 + (returns[episodes] + shifts)[:, 1] / policy.typical)  # costly episodes are drawn more rarely
    average = AveragedModel(policy, multi_avg_fn=get_ema_multi_avg_fn(1 - 1 / max(0.1 * steps, 1)))
    adam = torch.optim.AdamW(policy.parameters(), weight_decay=1e-4, fused=True)
    for step in range(steps):
        i = rng.choice(len(episodes), BATCH, p=weights / weights.sum())
        start = np.clip(rng.integers(1 - SEGMENT, horizon, BATCH), 0, horizon - SEGMENT)  # ends as often as the rest
        at = episodes[i, None], start[:, None] + np.arange(SEGMENT)
        tokens = policy.tokens(to_go[at] + shifts[i, None], observations[at], last[at])
        mean, log_std = policy(tokens, torch.from_numpy(at[1]))
        loss = (0.5 * ((torch.from_numpy(actions[at]) - mean) / log_std.exp()) ** 2 + log_std).mean()
        adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 0.25)
        adam.param_groups[0]["lr"] = 5e-4 * min((step + 1) / 200, 1) * (1.1 + 0.9 * math.cos(math.pi * step / steps))
        adam.step()
        average.update_parameters(policy)  # late steps hardly change the loss, but what episodes cost
    return average.module.eval()


@torch.inference_mode()
def run_episodes(policy, targets, seeds, stop):
    """Return reward and cost of one episode for each target; with a stop, an episode ends when its cost reaches it."""
    size, to_go = len(targets), np.array(targets, dtype=float)
    points, returns = point_circle.PointCircle(size), np.zeros((size, 2))
    seen = points.reset(np.arange(size), [next(seeds) for _ in targets])
    action, history = np.zeros((size, 2), np.float32), []
    for time in range(points.horizon):
        history = [*history, policy.tokens(to_go, seen, action)][-SEGMENT:]
        action = policy(torch.stack(history, 1), torch.arange(time + 1)[-SEGMENT:])[0][:, -1].clamp(-1, 1).numpy()
        step = points.step(np.arange(size), action)
        brought, seen = np.column_stack([step.rewards, step.costs]), step.observations
        to_go -= brought  # what was asked for, less what came
        returns += brought * (returns[:, 1:] < (stop or math.inf))
    return returns


# ---- The model of one mean cost: a Gaussian process on a scale of its own, seen through what episodes add up to.

LOG5, SOFT = math.log(5), 0.05
LENGTHS, DEVIATIONS = np.array([0.5, 1.0]), np.array([2.0, 0.7])  # of a rough process and of a smooth one
ROUGH, FLOOR = 0.25, 0.1  # weights that the rough process and the largest phi keep, whatever was seen
REWARD = (0.2 / DEVIATIONS[1]) ** 2  # the mean reward is as smooth, with a deviation of 0.2 of its range


def mean_of(f):
    """Return m = (5^f - 1) / 4, softened below 0, where f may fall on while m is next to nothing."""
    return 0.25 * SOFT * np.logaddexp(0.0, np.expm1(LOG5 * np.minimum(f, 8.0)) / SOFT)


@np.errstate(divide="ignore")
def scale_of(m):
    """Return f; minus infinity where m is less than any f gives."""
    soft = np.asarray(m) / (0.25 * SOFT)
    return np.log1p(np.maximum(SOFT * (soft + np.log(-np.expm1(-soft))), -1.0)) / LOG5


def matern(distance):
    """Return the prior covariance of f at some distances, for both processes: (q, ...)."""
    r = math.sqrt(5) * np.multiply.outer(1 / LENGTHS, distance)
    return DEVIATIONS.reshape(-1, *(1,) * distance.ndim) ** 2 * (1 + r + r * r / 3) * np.exp(-r)


def dispersions(n, S, Q, s):
    """Return values of phi and their weights, given episodes, sums and squares of the costs of each target."""
    phis = 0.1 * 2.0 ** np.arange(40)
    phis = np.append(phis[phis < 0.9 * s], s)
    log_w = -0.5 * (np.log(phis / min(0.5, s)) / 0.7) ** 2  # prior: log-normal around half a limit
    for i in np.flatnonzero((S > 0) & (n >= 2)):  # zeros say nothing of how large lumps are
        mean = S[i] / n[i]
        spread = max(Q[i] - S[i] * mean, 0.0) / mean
        log_w -= 0.5 * min(1.0, 1 / mean) * ((n[i] - 1) * np.log(phis) + spread / phis)  # far above 1: less
    w = softmax(log_w)
    for i in range(len(w) - 1):  # what hardly matters goes to the next larger one: the safe side
        if w[i] < 0.01:
            w[i], w[i + 1] = 0.0, w[i] + w[i + 1]
    matter = (w > 0) | (phis == s)
    return phis[matter], w[matter]


def fit(X, n, S, phis):
    """Return A, a and the log evidence for each phi with each process: c components.

    The log-likelihood of a target is (S log m - n m) / phi, a Poisson law in steps of phi. Expectation propagation
    replaces it with a Gaussian *site* of precision tau and mean nu / tau: take the site out, multiply the rest by the
    true likelihood, match the moments. A = (K + 1 / tau)^-1, and a is A applied to nu / tau.
    """
    K = np.tile(matern(cdist(X, X)), (len(phis), 1, 1))
    gains, losses = (np.repeat(total / phis[:, None], 2, axis=0) for total in (S, n))
    tau, nu, log_evidence = np.full(gains.shape, 1e-10), np.zeros(gains.shape), np.zeros(len(K))
    (A, a, log_det), live = given_sites(K, tau, nu), np.arange(len(K))
    for _ in range(40):
        var = np.maximum(tau[live] / np.einsum("cii->ci", A[live]) - 1, 0.0) / tau[live] + 1e-9  # without the site
        mean = np.einsum("cij,cj->ci", K[live], a[live]) - a[live] * var
        m1, v1, log_z = tilted(mean, var, gains[live], losses[live])
        sites = log_z + 0.5 * np.log1p(tau[live] * var) - 0.5 * mean * a[live]
        log_evidence[live] = sites.sum(axis=1) - 0.5 * log_det[live]
        step_tau = np.clip(1 / v1 - 1 / var, 1e-10, 1e7) - tau[live]
        step_nu = m1 * (tau[live] + step_tau + 1 / var) - mean / var - nu[live]
        change = np.maximum(np.abs(step_tau) / (1 + tau[live]), np.abs(step_nu) / (1 + np.abs(nu[live])))
        tau[live], nu[live] = tau[live] + 0.95 * step_tau, nu[live] + 0.95 * step_nu  # whole steps may swing
        A[live], a[live], log_det[live] = given_sites(K[live], tau[live], nu[live])
        live = live[change.max(axis=1) >= 1e-3]
        if not len(live):
            break
    return A, a, log_evidence


def given_sites(K, tau, nu):
    """Return A, a and log det (I + K tau)."""
    root = np.sqrt(tau)
    regular = np.eye(K.shape[-1]) + root[:, :, None] * K * root[:, None, :]  # never near singular
    A = root[:, :, None] * np.linalg.inv(regular) * root[:, None, :]
    return A, np.einsum("cij,cj->ci", A, nu / tau), np.linalg.slogdet(regular)[1]


def tilted(mean, var, gains, losses):
    """Return mean, variance and log integral of N(mean, var) times the likelihood of each site, by quadrature."""
    sd = np.sqrt(var)

    def log_density(g):
        m, normal = mean_of(1 + g), ((g - mean[..., None]) / sd[..., None]) ** 2
        return gains[..., None] * np.log(m) - losses[..., None] * m - 0.5 * normal

    # The product peaks between the mean and the mode of the likelihood, which is flat where it says nothing.
    mode = np.maximum(scale_of(np.maximum(gains, 0.01) / losses), -5.0) - 1
    low, high = np.minimum(mean, mode) - 7 * sd, np.maximum(mean, mode) + 7 * sd
    found = log_density(np.linspace(low, high, 17, axis=-1))
    (left, right), (low, high) = around(found, 3.0, low, high), around(found, 25.0, low, high)
    for _ in range(12):  # close in on the peak
        found = log_density(np.linspace(left, right, 17, axis=-1))
        left, right = around(found, 3.0, left, right)
        if (found > found.max(axis=-1, keepdims=True) - 3.0).sum(axis=-1).min() >= 6:
            break
    # Nodes lie close together at the peak and ever further apart away from it, where a shoulder may be.
    center, width = 0.5 * (left + right), 0.25 * (right - left)
    u = np.linspace(np.arcsinh((low - center) / width), np.arcsinh((high - center) / width), 49, axis=-1)
    g = center[..., None] + width[..., None] * np.sinh(u)
    found = log_density(g)
    top = found.max(axis=-1)
    weights = np.exp(found - top[..., None]) * np.cosh(u)
    total = weights.sum(axis=-1)
    m1 = (weights * g).sum(axis=-1) / total
    v1 = np.maximum((weights * (g - m1[..., None]) ** 2).sum(axis=-1) / total, 1e-12)
    return m1, v1, top + np.log(total * width * (u[..., 1] - u[..., 0]) / (sd * math.sqrt(2 * math.pi)))


def around(log_density, drop, low, high):
    """Return the range in which a log density is this close to its largest, and one node more on both sides."""
    near = log_density > log_density.max(axis=-1, keepdims=True) - drop
    before, after, step = near.argmax(axis=-1), near[..., ::-1].argmax(axis=-1), (high - low) / 16
    return low + step * np.maximum(before - 1, 0), high - step * np.maximum(after - 1, 0)


class Cost:
    """What is known of one mean cost: a Gaussian process for each phi (p of them) and process (q = 2)."""

    def __init__(self, X, n, S, Q, s):
        phis, shares = dispersions(n, S, Q, s)
        A, a, log_evidence = fit(X, n, S, phis)
        self.X, self.A, self.a = X, A.reshape(-1, 2, *A.shape[1:]), a.reshape(-1, 2, len(X), 1)
        rough = softmax(log_evidence.reshape(-1, 2) + np.log([ROUGH, 1 - ROUGH]), axis=1)[:, 0]
        held = shares if shares[-1] >= FLOOR else np.append(shares[:-1] * (1 - FLOOR) / (1 - shares[-1]), FLOOR)
        # Weights that the data give, and the same held up by floors that no data argue away. A risk is computed with
        # both, and the larger one counts: smooth data on this side of an edge say nothing of the edge.
        pairs = (shares, rough), (held, np.maximum(rough, ROUGH))
        self.weights = np.array([np.stack([phi * r, phi * (1 - r)], axis=1) for phi, r in pairs])  # (2, p, q)

    def moments(self, Z):
        """Return means and deviations of f, (p, q, m), the prior covariance with X, and that times A: (p, q, m, n)."""
        cross = matern(cdist(Z, self.X))
        explained = cross @ self.A
        var = DEVIATIONS[:, None] ** 2 - (explained * cross).sum(axis=-1)
        return 1 + (cross @ self.a)[..., 0], np.sqrt(np.maximum(var, 1e-9)), cross, explained

    def exceeds(self, Z, limit):
        """Return the probability that the mean cost of each target exceeds a limit."""
        means, sds, *_ = self.moments(Z)
        return np.tensordot(self.weights, ndtr((means - scale_of(limit)) / sds)).max(axis=0)

    def adds(self, centers, others, share):
        """Return P(m(center) <= 1, and (1 - share) m(center) + share m(other) > 1) for each pair of targets.

        By quadrature over f at the center, u deviations from its mean; given it, f at the other target is normal.
        """
        (mean, sd, cross, _), (far, far_sd, _, explained) = self.moments(centers), self.moments(others)
        covariance = matern(np.linalg.norm(others - centers, axis=1)) - (explained * cross).sum(axis=-1)
        nodes, masses = np.polynomial.legendre.leggauss(96)
        half = 0.5 * (np.clip((1 - mean) / sd, -6, 6) + 6)[..., None]  # u from -6 to where m(center) = 1
        u = half * (nodes + 1) - 6
        mass = half * masses * np.exp(-0.5 * u**2) / math.sqrt(2 * math.pi)
        spent = (1 - share) * mean_of(mean[..., None] + sd[..., None] * u)
        threshold = scale_of(np.maximum((1 - spent) / share, 0.0))
        conditional = far[..., None] + (covariance / sd)[..., None] * u
        left = np.sqrt(np.maximum(far_sd**2 - (covariance / sd) ** 2, 1e-12))[..., None]
        return np.tensordot(self.weights, (ndtr((conditional - threshold) / left) * mass).sum(axis=-1)).max(axis=0)

    def scale(self, Z):
        """Return mean and deviation of f over all components, with the careful weights."""
        means, sds, *_ = self.moments(Z)
        mean, square = (np.tensordot(self.weights[1], values) for values in (means, sds**2 + means**2))
        return mean, np.sqrt(square - mean**2)


class Model:
    """What is known of all mean returns, given the episodes of each target: the costs, and a smooth reward."""

    def __init__(self, own, s):
        self.X, n = np.array(list(own)), np.array([float(len(rows)) for rows in own.values()])
        S, Q = (np.array([(rows**power).sum(axis=0) for rows in own.values()]) for power in (1, 2))
        self.costs = [Cost(self.X, n, S[:, k], Q[:, k], s[k - 1]) for k in range(1, len(s) + 1)]
        noise = (np.maximum(Q[:, 0] - S[:, 0] ** 2 / n, 0.0).sum() + 4 * 0.05**2) / ((n - 1).sum() + 4)
        self.inverse = np.linalg.inv(REWARD * matern(cdist(self.X, self.X))[1] + np.diag(noise / n + 1e-8))
        self.a = self.inverse @ (S[:, 0] / n - self.X[:, 0])  # around the reward that is asked for

    def reward(self, Z, optimism=0.0):
        """Return the mean reward of each target, and so many deviations more."""
        cross = REWARD * matern(cdist(Z, self.X))[1]
        var = np.maximum(0.2**2 - ((cross @ self.inverse) * cross).sum(axis=1), 1e-12)
        return Z[:, 0] + cross @ self.a + optimism * np.sqrt(var)

    def risks(self, Z, limit=1.0):
        """Return the probability that some mean cost of each target exceeds a limit."""
        return np.minimum(sum(cost.exceeds(Z, limit) for cost in self.costs), 1.0)

    def added(self, centers, others, share):
        """Return the probability that each center keeps the limits and its lottery with the other target does not."""
        return np.minimum(sum(cost.adds(centers, others, share) for cost in self.costs), 1.0)


# ---- The search: ask for a trial, run its episodes, tell what they returned.

FIRST, TRIAL, SCOUTS, TRIES = 30, 10, 2, 6  # episodes: of a start, of a trial, of its scout, of a newcomer
CANDIDATES, LUCKY, GAIN = 400, 1.5, 0.01  # drawn at once; deviations; share of the reward range that is worth a trial
Trial = namedtuple("Trial", "number stage center scout tickets charge is_new")  # tickets: the target of each episode


class Bet:
    """Bets that a target keeps its limits, one for each cost. If it does not, all ever win with probability `level`."""

    def __init__(self, H, level):
        self.H, self.log_wanted, self.won = H, -math.log(level), np.zeros(len(H), bool)
        self.log_wealth = np.tile(np.log([0.5, 0.1, 0.1, 0.1, 0.1, 0.1]), (len(H), 1))

    def add(self, x):
        """Take one episode into account; return whether every cost is certified."""
        gain = (1 - np.minimum(x, self.H)) / (self.H - 1)
        self.log_wealth += np.log1p(np.multiply.outer(gain, [0.99, 0.75, 0.5, 0.25, 0.12, 0.05]))
        self.won |= np.logaddexp.reduce(self.log_wealth, axis=1) >= self.log_wanted
        return self.won.all()


class Search:
    """Finds the target with the most reward, from `low` to `high`, whose mean costs keep their limits."""

    def __init__(self, low, high, limits, start, s, promise="trial", delta=0.1, episodes=150, seed=0):
        self.low, self.high, self.limits, self.start, self.s = low, high, limits, start, s  # start: z, known as safe
        self.promise, self.delta, self.left, self.seed = promise, delta, episodes, seed
        self.trials, self.spent, self.own, self.model = [], 0.0, {}, None  # own: the episodes of every target
        self.admitted = set()  # targets that may be tried for nothing, and operated: they have paid, or are certified
        self.account, self.bets = np.zeros(len(limits)), {}
        self.tries, self.since_test = {}, set()  # episodes of each newcomer; newcomers since the last test

    @classmethod
    def from_logs(cls, returns, limit, stop, **settings):
        """Return the search in the box that logged returns span, from no cost and the reward of a calm episode."""
        rewards, use = returns[:, 0], returns[:, 1] / limit
        calm = rewards[use <= min(max(0.5, np.quantile(use, 0.1)), 1.0)]
        start = ((np.quantile(calm, 0.6) - rewards.min()) / np.ptp(rewards)).item(), 0.0
        s = 3.0 if stop is None else (stop + 1) / limit  # without a stop an assumption; a step costs 1 at most
        low, high, limits, s = map(np.array, ([rewards.min(), 0.0], [rewards.max(), 3 * limit], [limit], [s]))
        return cls(low, high, limits, start, s, **settings)

    def target(self, z):
        """Return a target as the policy is told it."""
        return self.low + (self.high - self.low) * np.array(z)

    def ask(self):
        """Return the next trial, or why there is none."""
        if not self.left:
            return "the episodes are used up"
        if not self.admitted:
            return self.try_start()
        return self.newcomer_or_base() if self.promise == "total" else self.lottery()

    def tell(self, trial, returns):
        """Take into account what the episodes of a trial returned, in the order of its tickets."""
        for z in dict.fromkeys((trial.center, trial.scout)):
            if rows := [row for row, ticket in zip(returns, trial.tickets, strict=True) if ticket == z]:
                self.own[z] = [*self.own.get(z, []), *rows]
        for x in returns[:, 1:] / self.limits:
            # Savings beyond two worst episodes are forfeited: what was saved long ago shall not pay for a binge.
            self.account = np.minimum(self.account + 1 - x, 2 * (self.s - 1))
            if trial.center in self.bets and self.bets[trial.center].add(x):
                self.admitted.add(trial.center)
        shift, scale = [self.low[0], *0 * self.limits], [self.high[0] - self.low[0], *self.limits]
        self.model = Model({z: (np.array(rows) - shift) / scale for z, rows in self.own.items()}, self.s)

    def trial(self, stage, center, count, scout=None, charge=0.0, paid=()):
        """Return a trial: tickets, most for a center and two for a scout. A lottery over targets is a policy, too."""
        number, count = len(self.trials) + 1, min(count, self.left)
        order = stream(self.seed, "tickets", number).permutation(count)
        tickets = [scout if scout is not None and i >= count - SCOUTS else center for i in order]
        self.left, self.spent, self.admitted = self.left - count, self.spent + charge, self.admitted.union(paid)
        is_new = len(paid) > 0 or scout not in (None, center)
        self.trials.append(Trial(number, stage, center, scout, tickets, charge, is_new))
        return self.trials[-1]

    def mean_costs(self, z):
        """Return the mean costs of a target's own episodes."""
        return np.mean(self.own[z], axis=0)[1:] / self.limits

    def best(self):
        """Return the target to operate: admitted, known by its own episodes, and with the most reward for sure."""
        known = [z for z in self.own if z in self.admitted and len(self.own[z]) >= 8 and max(self.mean_costs(z)) <= 1]
        if not known:
            return None
        risk, worth = self.model.risks(np.array(known)), self.model.reward(np.array(known), -1.0)
        for most in [1.0] if self.promise == "total" else [0.2 * self.delta, self.delta / 2]:
            if (risk <= most).any():
                return known[np.where(risk <= most, worth, -np.inf).argmax()]
        return None

    def try_start(self):
        """Try the start until its risk fits or, under "total", a bet has certified it."""
        z, count = self.start, TRIAL if self.own else FIRST
        if not self.own and self.promise == "total":  # as many as certify a start that costs nothing
            self.bets[z], clean = (Bet(self.s, self.delta / 4) for _ in range(2))
            count = max(TRIAL, next((n for n in range(1, FIRST) if clean.add(0 * self.s)), FIRST))
        risk = self.model.risks(np.array([z]))[0] if self.own else 1.0
        if self.own and len(self.own[z]) >= FIRST and risk >= 0.95:
            return "the start cannot be trusted to keep the limits"
        if self.promise == "trial" and risk <= self.delta / 2:
            return self.lottery(risk)
        return self.trial("start", z, count)

    # -- Promise "trial". A trial is charged the probability that it is the first to break a limit: of a center that has
    # not paid, that it breaks one and the nearest that has paid does not; of a scout, that the lottery breaks one and
    # its center does not. All charges add up to delta at most, so some trial breaks a limit with that probability.

    def lottery(self, entry=None):
        """Return a trial at the most hopeful center whose risk fits; `entry` is the risk of a start that pays now."""
        extra, new = (0.0, []) if entry is None else (entry, [self.start])
        rng, paid, i = stream(self.seed, "candidates", len(self.trials) + 1), sorted({*self.admitted, *new}), None
        points = self.centers(rng)
        Z, P, has_paid = np.array(points), np.array(paid), np.array([z in paid for z in points])
        hopes, risk = self.model.reward(Z, LUCKY), self.model.risks(Z)
        step = self.model.added(P[cdist(Z, P, "chebyshev").argmin(axis=1)], Z, 1.0)
        price = np.where(has_paid, 0.0, np.where(risk <= 0.05 * self.delta, step, risk))
        rest = max(self.delta - self.spent, 0.0)
        fair = max(rest / min(math.ceil(self.left / TRIAL), 30) - extra, 0.0)  # a share for each trial that is left
        for may in (fair, max(fair, 0.25 * (rest - extra))):  # more, where a fair share pays for nothing new
            fits = (price <= may) & (risk <= max(self.delta / 2, may))
            if fits.any():
                i = np.where(fits, hopes, -np.inf).argmax()
                scout, more, hope = self.scout(rng, Z[i], may - price[i])
                if scout is not None or not has_paid[i] or new:
                    break
        if i is None:  # what came back has made even the start doubtful: look there again
            if self.model.risks(np.array([self.start]))[0] >= 0.95:
                return "no target keeps the limits for sure enough any more"
            return self.trial("start", self.start, TRIAL)
        if has_paid[i] and not new and (why := self.nothing_left(scout, max(hope, hopes[i]))):
            return why
        new += [] if has_paid[i] else [points[i]]
        return self.trial("search", points[i], TRIAL, scout, extra + price[i] + more, new)

    def centers(self, rng):
        """Return the tried targets, and others on lines between two whose own episodes have kept the limits."""
        ends = np.array([z for z in self.own if max(self.mean_costs(z)) <= 1] or list(self.own))
        one, other = (ends[rng.integers(len(ends), size=CANDIDATES)] for _ in range(2))
        return [*self.own, *map(tuple, (one + (other - one) * rng.random((CANDIDATES, 1))).tolist())]

    def scout(self, rng, center, room):
        """Return the most promising scout whose lottery fits, the risk that it adds, and the most that any may earn."""
        if self.left < TRIAL:
            return None, 0.0, -np.inf
        steps = rng.uniform(-0.3, 0.3, (CANDIDATES, len(center))) * np.sqrt(rng.random((CANDIDATES, 1)))
        Z = np.array([z for z in np.clip(center + steps, 0.0, 1.0) if (z != center).any()])  # a corner is hit often
        hopes, scales = self.model.reward(Z, LUCKY), np.array([cost.scale(Z) for cost in self.model.costs]).max(axis=0)
        # Partly ahead, partly where costs are least known; not far into cost.
        worth = hopes + np.minimum(0.3 * scales[1], 0.5) - 0.3 * np.maximum(mean_of(scales[0]) - 1.2, 0.0)
        added = self.model.added(np.broadcast_to(center, Z.shape), Z, SCOUTS / TRIAL)
        j = np.where(added <= room, worth, -np.inf).argmax()
        return (tuple(Z[j].tolist()), added[j], hopes.max()) if added[j] <= room else (None, 0.0, hopes.max())

    def nothing_left(self, scout, hope):
        """Return why the search is over: nothing can be gained, or nothing new be paid for; none if it goes on."""
        if (best := self.best()) is not None and hope - self.model.reward(np.array([best]))[0] <= GAIN:
            return "no target that may be tried can earn 1% of the reward range more"
        last = [not trial.is_new for trial in self.trials if trial.stage == "search"][-10:]
        return "in 10 trials nothing new could be tried" if scout is None and sum(last) == 10 else None

    # -- Promise "total". A *newcomer*, whoever is not certified, runs only if the account covers its worst episode.
    # So it never brings the account below zero, whatever it does. The model only proposes. A promising newcomer is put
    # to the test, a bet on its own episodes from then on; the levels of all bets add up to delta at most.

    def newcomer_or_base(self):
        """Return episodes of a newcomer if the account affords them, else of the certified target that saves most."""
        if (found := self.newcomer()) is None:
            return "no target is likely to earn more and to keep the limits"
        (stage, z, wanted), price, j = found, self.s - 1, len(self.bets)
        count = min(wanted, int((self.account / price).min() + 1e-9))
        if count <= 0:
            base = min(sorted(self.admitted), key=lambda z: max(self.mean_costs(z)))
            missing = ((price - self.account) / np.maximum(1 - self.mean_costs(base), 1e-9)).max()
            return self.trial("base", base, max(1, min(TRIAL, math.ceil(missing))))
        if stage == "test":
            self.bets.setdefault(z, Bet(self.s, 0.5 * self.delta / (j * (j + 1))))
            self.since_test.clear()
        else:
            self.tries[z] = self.tries.get(z, 0) + min(count, self.left)
            self.since_test.add(z)
        return self.trial(stage, z, count)

    def newcomer(self):
        """Return stage, target and episodes of a newcomer: under test, under way, or new; none if none is worth it."""
        if tested := [z for z in self.bets if z not in self.admitted and self.is_hopeful(z)]:
            return "test", tested[-1], TRIAL
        last = next(reversed(self.tries), None)
        if self.tries.get(last, TRIES) < TRIES and self.is_hopeful(last):
            return "newcomer", last, TRIES - self.tries[last]
        waiting = [z for z in self.tries if z not in self.bets and self.is_hopeful(z)]
        worth = self.worth(np.array(waiting), 0.0) if waiting else np.zeros(1)
        proposed = None if len(self.since_test) >= 3 and worth.max() > 0 else self.propose()
        if proposed is None and worth.max() > (0 if len(self.since_test) >= 3 else GAIN):
            return "test", waiting[worth.argmax()], TRIAL
        return proposed

    def propose(self):
        """Return the target, anywhere or near a tried one, that may earn most more and is likely to be certified."""
        rng, X = stream(self.seed, "proposals", len(self.trials) + 1), self.model.X
        anywhere = rng.random((CANDIDATES, X.shape[1]))
        near = X[rng.integers(len(X), size=CANDIDATES)] + rng.uniform(-0.1, 0.1, (CANDIDATES, X.shape[1]))
        Z = np.clip(np.concatenate([anywhere, near]), 0.0, 1.0)
        worth = self.worth(Z, LUCKY)
        return ("newcomer", tuple(Z[worth.argmax()].tolist()), TRIES) if worth.max() >= GAIN else None

    def worth(self, Z, optimism):
        """Return how much more than what is certified each target may earn, times the chance to certify it."""
        certified = self.model.reward(np.array(list(self.admitted))).max()
        return np.maximum(self.model.reward(Z, optimism) - certified, 0.0) * (1 - self.model.risks(Z, 0.87))

    def is_hopeful(self, z):
        """Return whether a newcomer may still earn more, and keep the limits."""
        return self.model.risks(np.array([z]))[0] < 0.5 and self.worth(np.array([z]), LUCKY)[0] > 0


class Watch:
    """Bets on a mean above its limit, for ever. If all keep theirs, it ever alarms with probability `level` at most."""

    def __init__(self, largest, level=0.01):
        self.largest, self.wanted, self.episodes = largest, len(largest) / level, 0
        self.bets, self.evidence = 0.95 * np.geomspace(0.02, 1.0, 8), np.zeros((len(largest), 8))

    def add(self, x):
        """Take one episode into account; return why there is an alarm, if there is."""
        self.episodes, n = self.episodes + 1, self.episodes + 10
        begins = 0.5 if n == 10 else 0.5 / 0.425156963573 / (n * math.log(n) ** 2)  # they sum to 1 at most
        self.evidence = (1 + np.multiply.outer(x - 1, self.bets)) * (self.evidence + begins / 8)
        if (x > self.largest * (1 + 1e-5)).any():
            return "bound"
        return "mean" if (self.evidence.sum(axis=1) >= self.wanted).any() else None


def live(promise, stop, limit, steps, episodes, operate, seed=0):
    """Live a whole life on PointCircle, and tell it."""
    stop = 2 * limit if stop is None and promise == "total" else stop  # the account must know the worst episode
    logs, horizon, seeds = behaviors.collect(1500), point_circle.HORIZON, itertools.count(10_000)
    columns = (logs.observations, logs.actions, np.column_stack([logs.rewards, logs.costs]))
    parts = [column.reshape(-1, horizon, column.shape[1]) for column in columns]
    returns, pair = parts[2].sum(axis=1, dtype=float), "({:.0f}, {:.1f})".format
    print(f"{len(returns)} logged episodes, {np.mean(returns[:, 1] <= limit):.0%} within the limit. Training ...")
    policy = train(*parts, steps, seed)
    search = Search.from_logs(returns, limit, stop, promise=promise, episodes=episodes, seed=seed)
    print(f"\n{'trial':13} {'asked (R, C)':>13} {'scout':>13} {'came':>13} {'risk':>7} {'saved':>6}")
    while isinstance(trial := search.ask(), Trial):
        came = run_episodes(policy, search.target(trial.tickets), seeds, stop)
        search.tell(trial, came)
        asked, scout = (pair(*search.target(z)) if z else "" for z in (trial.center, trial.scout))
        print(f"{trial.number:3} {trial.stage:9} {asked:>13} {scout:>13} {pair(*came.mean(axis=0)):>13}", end=" ")
        print(f"{trial.charge:7.4f} {search.account[0] * limit:6.1f}")
    print(f"\nThe search is over: {trial}. Charged {search.spent:.3f} of {search.delta:g}.")
    if (best := search.best()) is None:
        raise SystemExit("No target may be operated: train longer, or raise the limit.")
    watch, served, alarm = Watch(search.s if stop else 1 + 2 * search.s), np.zeros((0, 2)), None
    while len(served) < operate and alarm is None:
        served = np.concatenate([served, run_episodes(policy, search.target([best] * 10), seeds, stop)])
        alarm = next(filter(None, [watch.add(x) for x in served[-10:, 1:] / limit]), None)
    print(f"Operated {pair(*search.target(best))} for {len(served)} episodes:", end=" ")
    print(f"{pair(*served.mean(axis=0))} on average, {f'alarm: {alarm}' if alarm else 'no alarm'}.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--promise", choices=["trial", "total"], default="trial")
    parser.add_argument("--stop", type=float, help="end an episode at this cost; two limits for total unless told")
    for name, default in {"limit": 20.0, "steps": 2000, "episodes": 150, "operate": 200}.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    live(**vars(parser.parse_args()))
