from dataclasses import replace

import numpy as np
import pytest

from lifesafe.errors import ConfigError
from lifesafe.lab.coverage.deployment import (
    TRIAL,
    CoverageRow,
    Judge,
    JudgedTrial,
    deploy,
    deploy_rival,
    draw_world,
    drawn_episodes,
    problem_for,
    search,
)
from lifesafe.lab.coverage.laws import poisson
from lifesafe.lab.coverage.worlds import World
from lifesafe.safety.search import SafeOptimizer

CHEAP, BUSY, DEAR = (50.0, 0.0), (300.0, 0.0), (450.0, 0.0)
ROW = CoverageRow(family="overshoot", episodes=40)
TOTAL = replace(ROW, promise="total", stop=3.0)


def sloping() -> World:
    """Return a world whose cost grows from 0 to 2 limits along the first axis, as does its reward."""
    return World(
        family="sloping", axes={"reward": (0.0, 500.0), "cost": (0.0, 60.0)}, start=CHEAP, limits=(20.0,),
        rewards=(0.0, 600.0), reward_sd=10.0, law=poisson(),
        truth=lambda x: np.column_stack([500 * x[:, 0], 40 * x[:, 0]]),
    )  # fmt: skip


def trial(*points, stage="search", costs=None, is_newcomer=False):
    told = np.zeros((len(points), 1)) if costs is None else np.array(costs, dtype=float)[:, None]
    return JudgedTrial(stage, points, told, is_newcomer)


def outcome(trials, *, row=ROW, certified=(), best=(CHEAP,)):
    rest = {"episodes": 40, "held": False, "ended": "", "spent": 0.0}
    return Judge(row, sloping()).outcome(0, trials, certified, best, **rest)


def test_a_lottery_counts_by_the_mean_of_its_tickets():
    assert not outcome([trial(*[BUSY] * 2, *[CHEAP] * 2)]).violated  # 1.2 and 0.2 limits
    found = outcome([trial(*[CHEAP] * 4), trial(*[DEAR] * 3, CHEAP), trial(*[BUSY] * 3, CHEAP)])
    assert (found.violated, found.share) == (True, pytest.approx(1 / 3))
    assert found.worst == pytest.approx(1.4)


def test_trials_of_the_start_do_not_count():
    found = outcome([trial(*[DEAR] * 4, stage="start"), trial(*[CHEAP] * 4)])
    assert (found.violated, found.share, found.worst) == (False, 0.0, pytest.approx(0.2))


def test_what_is_operated_is_judged_by_the_truth():
    unsafe = outcome([], best=(DEAR,))
    assert (unsafe.operates_unsafe, unsafe.use, unsafe.recommended) == (True, pytest.approx(1.8), True)
    assert unsafe.regrets[0] < 0
    nothing = outcome([], best=(None,))
    assert (nothing.operates_unsafe, nothing.use, nothing.recommended) == (False, pytest.approx(0.2), False)
    best = Judge(ROW, sloping()).reference
    assert nothing.regrets == (pytest.approx((best.best - 50) / (best.best - best.lowest)),)


def test_a_certificate_is_wrong_if_the_mean_is_above_the_limit():
    right = outcome([], row=TOTAL, certified=(CHEAP,))
    wrong = outcome([], row=TOTAL, certified=(CHEAP, DEAR))
    assert (right.violated, wrong.violated) == (False, True)
    assert wrong.worst == pytest.approx(Judge(TOTAL, sloping()).means(DEAR)[1] / 20)


def test_newcomers_and_nobody_else_break_what_is_sure():
    begin = trial(*[CHEAP] * 4, stage="start", costs=[0, 0, 0, 0])  # the account then holds 80
    paid = trial(DEAR, stage="newcomer", costs=[61], is_newcomer=True)
    overdrawn = trial(DEAR, DEAR, DEAR, stage="newcomer", costs=[61, 61, 61], is_newcomer=True)
    assert not outcome([begin, paid], row=TOTAL).broken_sure
    found = outcome([begin, overdrawn], row=TOTAL)
    assert (found.broken_sure, found.lowest) == (True, pytest.approx(4 - 3 * 2.05))
    by_base = trial(CHEAP, CHEAP, CHEAP, stage="base", costs=[61, 61, 61])
    found = outcome([begin, by_base], row=TOTAL)
    assert (found.broken_sure, found.lowest, found.window) == (False, pytest.approx(4 - 3 * 2.05), 0.0)


def test_the_worst_window_begins_anywhere_and_ends_with_a_newcomer():
    trials = [
        trial(CHEAP, CHEAP, stage="start", costs=[0, 60]),  # -1, then +2
        trial(DEAR, DEAR, stage="newcomer", costs=[30, 0], is_newcomer=True),  # +0.5, then -1
        trial(CHEAP, stage="base", costs=[61]),
    ]
    assert outcome(trials, row=TOTAL).window == pytest.approx(2.5)


def test_episodes_above_the_limit_are_counted_one_by_one():
    trials = [trial(*[CHEAP] * 3, stage="start"), trial(DEAR, is_newcomer=True, stage="newcomer", costs=[0])]
    assert outcome(trials, row=TOTAL).share == pytest.approx(1 / 4)


@pytest.mark.parametrize(
    "row",
    [
        CoverageRow(family="overshoot", episodes=60),
        CoverageRow(family="lumps_50", stop=3.0, episodes=60),
        CoverageRow(family="lumps_50", incident="horizon"),
        CoverageRow(family="smooth", incident=5.0, delta=0.05, episodes=80),
        CoverageRow(family="overshoot", promise="total", stop=3.0, episodes=60),
        CoverageRow(family="costs_2", episodes=60),
        CoverageRow(family="knobs_6", stop=2.0, episodes=60),
        CoverageRow(family="cliff", search="printed", episodes=60),
        CoverageRow(family="cliff", search="consistent", lengthscale=0.3, episodes=60),
    ],
    ids=lambda row: row.name,
)
def test_every_kind_of_row_can_be_deployed_and_repeated(row):
    found = deploy(row, 3)
    assert deploy(row, 3) == found
    assert 0 < found.episodes <= row.episodes
    assert found.ended
    assert len(found.regrets) == len(row.checkpoints)
    assert not found.broken_sure


def test_a_search_that_sees_its_assumption_refuted_ends_held():
    found = [deploy(CoverageRow(family="falls_50"), number) for number in range(3)]
    assert any(each.held and each.episodes < 150 for each in found)


def test_only_a_search_that_does_not_pace_itself_is_judged_on_the_way():
    assert CoverageRow(family="cliff", episodes=300).checkpoints == (300,)
    row = CoverageRow(family="smooth", promise="total", stop=3.0, episodes=110)
    assert row.checkpoints == (100, 110)
    shorter = replace(row, episodes=100)
    assert deploy(row, 0).regrets[0] == deploy(shorter, 0).regrets[0]


def test_a_resumed_search_comes_to_what_it_would_have_come_to(tmp_path):
    row = CoverageRow(family="smooth", promise="total", stop=3.0, episodes=80)
    world = draw_world(row, 2)
    problem = problem_for(row, world, 2)

    def stop_after_three(asked, _):
        if asked.number == 3:
            raise KeyboardInterrupt

    with SafeOptimizer.open(tmp_path, problem) as optimizer, pytest.raises(KeyboardInterrupt):
        search(optimizer, Judge(row, world), 2, stop_after_three)
    with SafeOptimizer.open(tmp_path, problem) as optimizer:
        assert search(optimizer, Judge(row, world), 2) == deploy(row, 2)


def test_episodes_depend_on_the_trial_and_keep_the_stop():
    row = CoverageRow(family="lumps_15", stop=3.0)
    world = draw_world(row, 0)
    points = [world.start] * 500
    first = drawn_episodes(row, world, 0, 1, points)
    np.testing.assert_array_equal(first, drawn_episodes(row, world, 0, 1, points))
    assert not np.array_equal(first, drawn_episodes(row, world, 0, 2, points))
    assert first[:, 1].max() <= 60 + world.largest_step


def test_a_rival_chooses_rows_and_is_told_what_they_returned():
    class Careless:
        asked: list[int]

        def __init__(self, targets, start):
            self.targets, self.start, self.told = targets, start, []

        def ask(self):
            return self.start if not self.told else int(self.targets[:-1].sum(axis=1).argmax())

        def tell(self, index, episodes):
            self.told.append((index, episodes.shape))

        @property
        def best(self):
            return self.start

    begun = []
    found = deploy_rival(
        CoverageRow(family="overshoot", search="safeopt", episodes=30), 0,
        lambda row, targets, start, world: begun.append(Careless(targets, start)) or begun[0],
    )  # fmt: skip
    rival = begun[0]
    assert [shape for _, shape in rival.told] == [(TRIAL, 2)] * 3
    assert tuple(rival.targets[rival.start]) == draw_world(CoverageRow(family="overshoot"), 0).start
    assert (found.violated, found.share, found.episodes) == (True, 1.0, 30)  # the start's trial does not count
    assert not found.operates_unsafe


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: CoverageRow(family="overshot"), "Unknown family 'overshot'. Did you mean 'overshoot'"),
        (lambda: CoverageRow(family="cliff", search="printed", promise="total"), "'printed' makes no promise 'total'"),
        (lambda: deploy(CoverageRow(family="cliff", search="safeopt"), 0), "coverage_rivals.py"),
        (lambda: deploy(CoverageRow(family="costs_2", search="printed"), 0), "costs_2 has 3"),
    ],
)
def test_impossible_rows_are_refused(call, message):
    with pytest.raises(ConfigError, match=message):
        call()
