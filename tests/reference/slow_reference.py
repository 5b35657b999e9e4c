"""The optimizer once more: slow, obvious, and sharing nothing with the package but its data classes and constants.

Every posterior is a fresh Cholesky factorization of all observations, every fantasy is an observation really added,
every set is a loop over the candidates. Where a comparison is closer than rounding, either answer is accepted:
`Reference.choices` returns all indices that may be asked.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import norm

from lifesafe.optimizer import certificates, noise, posterior, priors, recommendation, sets, state
from lifesafe.optimizer.problem import Problem
from lifesafe.optimizer.schedule import Schedule

CLOSE = 1e-9


def correlation(kernel: str, r: float) -> float:
    if kernel == "rbf":
        return math.exp(-r * r / 2)
    if kernel == "matern32":
        return (1 + math.sqrt(3) * r) * math.exp(-math.sqrt(3) * r)
    return (1 + math.sqrt(5) * r + 5 * r * r / 3) * math.exp(-math.sqrt(5) * r)


def to_scale(scale: str, cost: float, unit: float) -> float:
    if scale == "linear":
        return cost / unit
    knee = priors._KNEE * unit
    return math.log((max(cost, 0.0) + knee) / knee) / math.log((unit + knee) / knee)


def from_scale(scale: str, y: float, unit: float) -> float:
    if scale == "linear":
        return y * unit
    knee = priors._KNEE * unit
    exponent = y * math.log((unit + knee) / knee)
    return math.inf if exponent > 709 else knee * (math.exp(exponent) - 1)


def scale_slope(scale: str, cost: float, unit: float) -> float:
    if scale == "linear":
        return 1 / unit
    knee = priors._KNEE * unit
    return 1 / (max(cost, 0.0) + knee) / math.log((unit + knee) / knee)


class DirectGP:
    """Posterior on all candidates from all observations (index, value, noise variance) at once."""

    def __init__(self, points, kernel, lengthscales, sd, mean) -> None:
        self.prior_mean, self.sd = list(mean), sd
        n = len(points)
        self.K = np.empty((n, n))
        for i in range(n):
            for j in range(i, n):
                apart = [(a - b) / s for a, b, s in zip(points[i], points[j], lengthscales, strict=True)]
                self.K[i, j] = self.K[j, i] = sd * sd * correlation(kernel, math.hypot(*apart))

    def posterior(self, observations):
        """Return mean, variance and log marginal likelihood."""
        mean, var = np.array(self.prior_mean), np.diag(self.K).copy()
        if not observations:
            return mean, var, 0.0
        at = [index for index, _, _ in observations]
        residual = np.array([value - self.prior_mean[index] for index, value, _ in observations])
        noisy = self.K[np.ix_(at, at)] + np.diag([v for _, _, v in observations])
        L = np.linalg.cholesky(noisy)
        a = np.linalg.solve(L.T, np.linalg.solve(L, residual))
        V = np.linalg.solve(L, self.K[at])
        likelihood = -residual @ a / 2 - sum(math.log(v) for v in np.diag(L))
        return (
            mean + self.K[at].T @ a,
            np.maximum(var - (V * V).sum(axis=0), 1e-12 * self.sd**2),
            float(likelihood - len(at) / 2 * math.log(2 * math.pi)),
        )


class Cost:
    """Mixture of processes for one cost."""

    def __init__(self, problem: Problem, k: int, points) -> None:
        prior, self.unit = problem.priors.cost, problem.reference[k]
        self.scale, self.prior_phi, self.phi = prior.scale, problem.dispersions[k], problem.dispersions[k]
        targets = [to_scale(self.scale, z[1 + k], self.unit) for z in problem.candidates]
        mean = {"target": targets, "limit": [1.0] * len(targets), "larger": [max(t, 1.0) for t in targets]}
        lengths = prior.lengthscales * (len(points[0]) if len(prior.lengthscales) == 1 else 1)
        factors = {1: [1.0], 3: [0.5, 1.0, 2.0], 9: [0.5, 1.0, 2.0]}[prior.mixture]
        widths = [0.5, 1.0, 2.0] if prior.mixture == 9 else [1.0]
        rough, wide = {0.5: 0.5, 1.0: 0.35, 2.0: 0.15}, {0.5: 0.15, 1.0: 0.35, 2.0: 0.5}
        self.gps, self.prior_weights = [], []
        for f in factors:
            for g in widths:
                lengthscales = [f * length for length in lengths]
                self.gps.append(DirectGP(points, prior.kernel, lengthscales, g * prior.sd, mean[prior.mean]))
                weight = (rough[f] if len(factors) > 1 else 1.0) * (wide[g] if len(widths) > 1 else 1.0)
                self.prior_weights.append(weight)
        self.data: list[tuple[int, np.ndarray]] = []
        self.pretended: list[tuple[int, int]] = []

    def update_dispersion(self) -> None:
        squares, total = noise.WORTH * self.prior_phi * self.unit, noise.WORTH * self.unit
        for _, costs in self.data:
            m = sum(costs) / len(costs)
            counted = min(m, self.unit) / m if m > self.unit else 1.0
            squares += counted * sum((x - m) ** 2 for x in costs)
            total += counted * (len(costs) - 1) * max(m, 0.0)
        if abs(squares / total / self.phi - 1) > posterior._DRIFT:
            self.phi = squares / total

    def noise(self, mean: float, count: int) -> float:
        """Return the score form: the positive root of nu^2 - 2 h nu - phi mean / n, with h = c phi / (2 n)."""
        linear, constant = noise.SCORE * self.phi / count, self.phi * max(mean, 0.0) / count
        return (linear + math.sqrt(linear**2 + 4 * constant)) / 2

    def observations(self, data=None):
        rows = []
        for index, costs in self.data if data is None else data:
            m = sum(costs) / len(costs)
            sd = self.noise(m, len(costs)) * scale_slope(self.scale, m, self.unit)
            rows.append((index, to_scale(self.scale, m, self.unit), sd * sd))
        return rows

    def components(self, pretend=False):
        """Return weight, process, its observations, its mean and its variance, for every process of the mixture."""
        rows = self.observations()
        seen = []
        for gp in self.gps:
            own = list(rows)
            if pretend:
                for index, episodes in self.pretended:
                    sd = self.noise(self.unit / 2, episodes) * scale_slope(self.scale, self.unit / 2, self.unit)
                    own.append((index, float(gp.posterior(own)[0][index]), sd * sd))
            seen.append(own)
        beliefs = [gp.posterior(own) for gp, own in zip(self.gps, seen, strict=True)]
        top = max(likelihood for _, _, likelihood in beliefs)
        raw = [w * math.exp(v - top) for w, (_, _, v) in zip(self.prior_weights, beliefs, strict=True)]
        weights = [w / sum(raw) for w in raw]
        rows = zip(weights, self.gps, seen, beliefs, strict=True)
        return [(w, gp, own, mean, var) for w, gp, own, (mean, var, _) in rows]

    def innovation(self) -> float:
        """Return how far the last observation lay from what the ones before it predict, under today's noise."""
        last = self.data.pop()
        predicted = self.components()
        self.data.append(last)
        ((index, y, variance),) = self.observations([last])
        total = 0.0
        for weight, _, _, mean, var in predicted:
            total += weight * (y - mean[index]) / math.sqrt(var[index] + variance)
        return total

    def belief(self, limit: float, pretend=False):
        """Return mean, standard deviation and tail at every candidate."""
        mean = square = tail = 0.0
        for weight, _, _, m, v in self.components(pretend):
            mean, square = mean + weight * m, square + weight * (v + m * m)
            tail = tail + weight * norm.sf((limit - m) / np.sqrt(v))
        return mean, np.sqrt(np.maximum(square - mean**2, 0.0)), tail

    def tail_if_good(self, c: int, optimism: float, limit: float, components):
        """Return the tails if candidate c turned out so many deviations below its mean, by adding just that."""
        tail = 0.0
        for weight, gp, own, m, v in components:
            fantasy = (c, float(m[c] - optimism * math.sqrt(v[c])), 0.0)
            after, left, _ = gp.posterior([*own, fantasy])
            tail = tail + weight * norm.sf((limit - after) / np.sqrt(left))
        return tail


class Reference:
    """The whole run; told which of its acceptable choices was made."""

    def __init__(self, problem: Problem, schedule: Schedule) -> None:
        self.problem, self.schedule = problem, schedule
        Z = problem.candidates
        low, high = Z.min(axis=0), Z.max(axis=0)
        self.low, self.extent = low, high - low
        self.points = [tuple((z - low) / (high - low)) for z in Z]
        self.costs = [Cost(problem, k, self.points) for k in range(len(problem.limits))]
        prior = problem.priors.reward
        lengths = prior.lengthscales * (Z.shape[1] if len(prior.lengthscales) == 1 else 1)
        self.reward = DirectGP(self.points, prior.kernel, lengths, prior.sd, [p[0] for p in self.points])
        self.reward_rows: list[tuple[int, float, float]] = []
        self.told: list[tuple[int, str, np.ndarray]] = []
        self.open: dict[int, tuple[int, str]] = {}
        self.asked, self.spent = 0, 0.0
        self.charged: set[int] = set()
        self.stage, self.explored, self.surprises = "seed", 0, 0
        self.certified: set[int] = set()
        self.failed: set[int] = set()
        self.closed: set[int] = set()
        self.violated = self.refuted = False
        self.lipschitz_set = self.free()

    # What is known.

    @property
    def frozen(self) -> bool:
        return self.surprises >= self.schedule.surprises

    @property
    def holding(self) -> bool:
        return self.refuted and self.schedule.on_violation == "hold"

    def allowance(self) -> float:
        schedule, problem, trial = self.schedule, self.problem, self.asked + 1
        if schedule.risk == "fixed":
            return float(norm.sf(schedule.multiplier))
        if schedule.risk == "paper":
            delta = problem.delta / len(problem.limits)
            inside = len(problem.candidates) * trial**2 * math.pi**2 / (6 * delta)
            return float(norm.sf(math.sqrt(2 * math.log(inside))))
        left = problem.delta - self.spent
        if schedule.share is None:
            return left / max(schedule.trials - trial + 1, 1)
        return schedule.share * left

    def limits(self) -> list[float]:
        pairs = zip(self.problem.limits, self.problem.reference, strict=True)
        return [to_scale(self.problem.priors.cost.scale, b, unit) for b, unit in pairs]

    def known(self, pretend=False) -> dict:
        rows = list(self.reward_rows)
        if pretend:
            for index, _ in self.open.values():
                value = float(self.reward.posterior(rows)[0][index])
                rows.append((index, value, posterior._REWARD_NOISE**2 / self.schedule.episodes))
        reward, variance, _ = self.reward.posterior(rows)
        allowed = self.allowance()
        alpha = float(norm.isf(min(allowed, 0.5)))
        beliefs = [cost.belief(b, pretend) for cost, b in zip(self.costs, self.limits(), strict=True)]
        means, sds, tails = (np.array([belief[i] for belief in beliefs]) for i in range(3))
        risk = [self.combined(list(column)) for column in tails.T]
        return {
            "risk": np.array(risk), "allowance": allowed, "alpha": alpha,
            "reward_lower": reward - 2 * np.sqrt(variance), "reward_upper": reward + 2 * np.sqrt(variance),
            "means": means, "sds": sds, "lower": means - alpha * sds, "upper": means + alpha * sds,
        }  # fmt: skip

    def combined(self, tails: list[float]) -> float:
        if self.schedule.risk == "ledger":
            return min(sum(tails), 1.0) if len(tails) > 1 else tails[0]
        return max(tails)

    def bands(self) -> tuple[np.ndarray, np.ndarray]:
        known, scale = self.known(), self.problem.priors.cost.scale
        result = []
        for reward, costs in (("reward_lower", "lower"), ("reward_upper", "upper")):
            rows = [self.low[0] + self.extent[0] * known[reward]]
            for row, unit in zip(known[costs], self.problem.reference, strict=True):
                rows.append(np.array([from_scale(scale, float(y), unit) for y in row]))
            result.append(np.array(rows))
        return result[0], result[1]

    def apart(self, i: int, j: int) -> float:
        return max(abs(a - b) for a, b in zip(self.points[i], self.points[j], strict=True))

    def distance(self, i: int) -> float:
        return min((self.apart(i, j) for j, _, _ in self.told), default=math.inf)

    # What may be tried.

    def safe(self, slack: float = 0.0) -> set[int]:
        """Return the safe set with the risk allowed to be so much (relatively) above or below the allowance."""
        safe = self.free()
        if self.frozen or self.stage == "seed":
            return safe
        if self.problem.lipschitz:
            tried = {j for j, _, _ in self.told}
            return safe | {i for i in self.lipschitz_set - self.closed if i in tried or not self.holding}
        known = self.known()
        reach = 0.0 if self.holding else self.schedule.reach + sets.SLACK
        for i in range(len(self.points)):
            fits = known["risk"][i] <= known["allowance"] * (1 + slack)
            if fits and self.distance(i) <= reach and i not in self.closed:
                safe.add(i)
        return safe

    def seed(self) -> int | None:
        used: dict[int, float] = {}
        for i in self.problem.seeds:
            of_seed = [row for j, _, episodes in self.told if j == i for row in episodes]
            if of_seed:
                totals = [sum(row[1 + k] for row in of_seed) for k in range(len(self.problem.limits))]
                used[i] = max(t / len(of_seed) / b for t, b in zip(totals, self.problem.limits, strict=True))
        left = [i for i in self.problem.seeds if i not in self.failed]
        ranking = sorted(used, key=lambda i: used[i])
        if ranking and (ranking[0] in self.failed or used[ranking[0]] > 0.85):
            for i in left:
                distances = [self.apart(i, j) for j in ranking]
                if i not in used and distances[0] == min(distances):
                    return i
        return next((i for i in ranking or left if i in left), None)

    # What is tried next.

    def over(self) -> bool:
        stopped = self.schedule.on_violation == "stop" and self.violated
        return stopped or self.asked >= self.schedule.trials

    def choices(self) -> dict[str, set[int]] | None:
        """Return the acceptable indices by stage; none when the run is over. An empty dict: nothing is safe."""
        if self.over():
            return None
        if self.stage == "seed":
            seed = self.seed()
            return {} if seed is None else {"seed": {seed}}
        safe = self.safe()
        if not safe:
            seed = self.seed()
            return {} if seed is None else {"seed": {seed}}
        known = self.known(pretend=True)
        if self.frozen:
            return {self.stage: self.maximizers(known, safe)}
        if self.stage == "explore" and not self.holding and self.explored < self.schedule.exploration:
            chosen, maybe_none = self.expanders(known, safe)
            if chosen and not maybe_none:
                return {"explore": chosen}
            if chosen:
                return {"explore": chosen, "maximize": self.maximizers(known, safe)}
        return {"maximize": self.maximizers(known, safe)}

    def maximizers(self, known: dict, safe: set[int]) -> set[int]:
        most = max(known["reward_upper"][i] for i in safe)
        return {i for i in safe if known["reward_upper"][i] >= most - CLOSE}

    def value(self, known: dict, i: int) -> float:
        relative = max(m / b for m, b in zip(known["means"][:, i], self.limits(), strict=True))
        return known["reward_upper"][i] - sets._CHARGE * max(relative - 0.5, 0.0)

    def frontier(self, known: dict, safe: set[int]) -> list[int]:
        floor = max(known["reward_lower"][i] for i in safe)
        front = []
        for i in range(len(self.points)):
            if i in safe or i in self.closed or self.distance(i) > 2 * self.schedule.reach + sets.SLACK:
                continue
            hopeful = all(v <= b for v, b in zip(known["lower"][:, i], self.limits(), strict=True))
            if hopeful and known["reward_upper"][i] > floor:
                front.append(i)
        return front

    def best_of_cells(self, known: dict, indices: list[int]) -> dict[int, bool]:
        """Return the most valuable target of every cell, and whether it is so for certain."""
        side, cells = sets._CELL * self.schedule.reach, {}
        for i in indices:
            cells.setdefault(tuple(int(x / side) for x in self.points[i]), []).append(i)
        best = {}
        for members in cells.values():
            most = max(self.value(known, i) for i in members)
            close = [i for i in members if self.value(known, i) >= most - CLOSE]
            best.update(dict.fromkeys(close, len(close) == 1))
        return best

    def expanders(self, known: dict, safe: set[int]) -> tuple[set[int], bool]:
        """Return the acceptable expanders, and whether rounding alone may decide that there is none."""
        width = {i: max(s / b for s, b in zip(known["sds"][:, i], self.limits(), strict=True)) for i in safe}
        wide = [i for i in sorted(safe) if self.schedule.tolerance == 0
                or 2 * known["alpha"] * width[i] > self.schedule.tolerance]  # fmt: skip
        tried = self.best_of_cells(known, wide)
        front = self.best_of_cells(known, self.frontier(known, safe))
        certain: dict[int, set[int]] = {}  # frontier target -> those that certify it for certain
        possible: dict[int, set[int]] = {}
        near = {f: self.distance(f) for f in front}
        models = [cost.components(pretend=True) for cost in self.costs]
        for c in tried:
            within = [f for f in front if min(self.apart(c, f), near[f]) <= self.schedule.reach + sets.SLACK]
            if not within:
                continue
            for f, margin in zip(within, self.margins(known, models, c, within), strict=True):
                if margin <= CLOSE:
                    possible.setdefault(f, set()).add(c)
                if margin <= -CLOSE and tried[c] and front[f]:
                    certain.setdefault(f, set()).add(c)
        if not possible:
            return set(), True
        best = max((self.value(known, f) for f in certain), default=-math.inf)
        chosen = set()
        for f, sources in possible.items():
            if self.value(known, f) >= best - CLOSE:
                sure = certain.get(f, set())
                hope = max((self.value(known, c) for c in sure), default=-math.inf)
                chosen |= {c for c in sources if self.value(known, c) >= hope - CLOSE}
        return chosen, not certain

    def margins(self, known: dict, models: list, c: int, within: list[int]) -> list[float]:
        """Return how far, relatively, each target stays from being certified by a good trial at c."""
        if self.problem.lipschitz:
            return [self.slope_margin(known, "lower", c, f) for f in within]
        optimism = sets._OPTIMISM * known["alpha"]
        triples = zip(self.costs, self.limits(), models, strict=True)
        tails = [cost.tail_if_good(c, optimism, b, model) for cost, b, model in triples]
        risks = [self.combined([tail[f] for tail in tails]) for f in within]
        return [risk / known["allowance"] - 1 for risk in risks]

    def slope_margin(self, known: dict, bound: str, c: int, f: int) -> float:
        apart = math.dist(self.points[c], self.points[f])
        worst = -math.inf
        for k, b in enumerate(self.limits()):
            slope = self.problem.lipschitz[k] / self.problem.reference[k]
            worst = max(worst, apart - (b - known[bound][k, c]) / slope)
        return worst

    def free(self) -> set[int]:
        seeds = self.problem.seeds if self.schedule.certification == "asserted" else self.certified
        return {i for i in seeds if i not in self.failed}

    # What happens.

    def ask(self, number: int, index: int, stage: str, risk: float) -> None:
        self.asked, self.stage = number, stage
        self.open[number] = (index, stage)
        for cost in self.costs:
            cost.pretended = [(i, self.schedule.episodes) for i, _ in self.open.values()]
        self.explored += stage == "explore"
        if stage != "seed" and index not in self.charged and index not in self.free():
            self.charged.add(index)
            self.spent += risk

    def tell(self, number: int, episodes: np.ndarray) -> None:
        index, stage = self.open.pop(number)
        rewards = [(r - self.low[0]) / self.extent[0] for r in episodes[:, 0]]
        m, n = sum(rewards) / len(rewards), len(rewards)
        squares = sum((r - m) ** 2 for r in rewards) + 4 * posterior._REWARD_NOISE**2
        self.reward_rows.append((index, m, max(squares / (n + 3) / n, posterior._REWARD_FLOOR)))
        surprise = -math.inf
        for k, cost in enumerate(self.costs):
            cost.pretended = [(i, self.schedule.episodes) for i, _ in self.open.values()]
            cost.data.append((index, episodes[:, 1 + k]))
            cost.update_dispersion()
            surprise = max(surprise, cost.innovation())
        if self.told and surprise > state._SURPRISE:
            self.surprises += 1
        self.told.append((index, stage, episodes))
        bad = self.is_above(list(episodes))
        if bad:
            self.violated = True
            self.refuted |= stage != "seed"
            self.closed |= {
                i for i in range(len(self.points)) if self.apart(i, index) <= state._CLOSED * self.schedule.reach
            }
        if index in self.problem.seeds:
            self.judge_seed(index, stage, bad or self.is_above(self.own(index)))
        if self.problem.lipschitz:
            self.grow()

    def judge_seed(self, index: int, stage: str, bad: bool) -> None:
        if bad:
            self.failed.add(index)
            self.certified.discard(index)
        elif self.schedule.certification == "asserted" or self.is_certified(index):
            self.certified.add(index)
            if self.stage == "seed":
                self.stage = "explore"
        elif stage == "seed":
            tries = sum(i == index for i, _, _ in self.told)
            own = self.own(index)
            used_up = tries >= self.schedule.seed_trials and len(own) >= certificates.EPISODES
            if used_up or self.is_above(own, state._PROMISING):
                self.failed.add(index)

    def own(self, index: int) -> list[np.ndarray]:
        return [row for i, _, episodes in self.told if i == index for row in episodes]

    def is_above(self, rows: list[np.ndarray], share: float = 1.0) -> bool:
        means = [sum(row[1 + k] for row in rows) / len(rows) for k in range(len(self.costs))]
        deviations = [cost.noise(m, len(rows)) for cost, m in zip(self.costs, means, strict=True)]
        return any(m - 2 * sd > share * b for m, sd, b in zip(means, deviations, self.problem.limits, strict=True))

    def is_certified(self, index: int) -> bool:
        own = self.own(index)
        if len(own) < certificates.EPISODES:
            return False
        for k, b in enumerate(self.problem.limits):
            m = sum(row[1 + k] for row in own) / len(own)
            if m + certificates.QUANTILE * self.costs[k].noise(m, len(own)) > b:
                return False
        return True

    def grow(self) -> None:
        known, seeds = self.known(), self.free()
        every = range(len(self.points))
        self.lipschitz_set = seeds | {
            f for f in every if any(self.slope_margin(known, "upper", c, f) <= 0 for c in self.lipschitz_set)
        }

    def best(self) -> set[int]:
        """Return the targets that may be recommended."""
        known, fit = self.known(), {}
        for i in {index for index, _, _ in self.told}:
            small = known["risk"][i] <= recommendation._OPERATION * self.problem.delta
            if small and i not in self.closed and i not in self.failed and self.is_certified(i):
                fit[i] = known["reward_lower"][i]
        return {i for i, v in fit.items() if v >= max(fit.values()) - CLOSE}
