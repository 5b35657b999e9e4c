"""The fold of facts: what was asked, told, taken back and served, and what cannot have happened."""

import msgspec
import numpy as np
import pytest

from lifesafe.errors import JournalError
from lifesafe.journal import History, Record
from lifesafe.journal import events as e
from lifesafe.journal.events import Event

CENTER, SCOUT = (200.0, 2.0), (300.0, 9.0)
OPENED = e.Opened(problem={"limits": [20.0], "stop_at": [60.0]}, version="1.0")
FORECAST = e.Forecast(reward=(0.0, 1.0), costs=((0.0, 1.0),), risk=0.5)
HALTED = e.Halted(why="no target is left", advice="look at the system")


def asked(trial: int = 1, stage: str = "search") -> e.Asked:
    return e.Asked(
        trial=trial, stage=stage, targets=(CENTER, SCOUT), tickets=(0, 1, 0), charge=0.01, paid=(CENTER,),
        allowance=0.02, forecasts=(FORECAST, FORECAST),
    )  # fmt: skip


def told(trial: int = 1, *costs: float) -> e.Told:
    return e.Told(trial=trial, episodes=tuple((100.0 + i, cost) for i, cost in enumerate(costs or (1.0, 30.0, 5.0))))


def serving(target: tuple[float, ...] = CENTER) -> e.Serving:
    return e.Serving(target=target, why="the best", limits=(20.0,), level=0.01, largest=(61.0,), rung=0)


def served(*costs: float) -> e.Served:
    return e.Served(episodes=tuple((100.0, cost) for cost in costs))


def alarm() -> e.Alarm:
    return e.Alarm(target=CENTER, rule="mean", cost=0, episode=2, mean=60.0, limit=20.0)


def after(*events: Event) -> History:
    history = History()
    for number, event in enumerate((OPENED, *events), start=1):
        history.apply(Record(number, event, f"time {number}", ""))
    return history


def test_a_trial_is_open_until_it_is_told() -> None:
    history = after(asked())
    assert history.open is history.trials[1]
    assert history.told == []
    history = after(asked(), told())
    assert history.open is None
    (tried,) = history.told
    assert (tried.number, tried.center, tried.points) == (1, CENTER, (CENTER, SCOUT, CENTER))
    assert (tried.asked_number, tried.asked_at, tried.told_number, tried.told_at) == (2, "time 2", 3, "time 3")


def test_episodes_count_for_the_target_that_each_was_asked_for() -> None:
    (tried,) = after(asked(), told(1, 1.0, 30.0, 5.0)).told
    (center, n, sums, squares), (scout, m, scout_sums, _) = tried.by_target
    assert (center, n, scout, m) == (CENTER, 2, SCOUT, 1)
    np.testing.assert_array_equal(sums, [202.0, 6.0])
    np.testing.assert_array_equal(squares, [100.0**2 + 102.0**2, 26.0])
    np.testing.assert_array_equal(scout_sums, [101.0, 30.0])
    np.testing.assert_array_equal(tried.largest, [30.0])


def test_a_trial_that_ended_early_has_the_episodes_that_were_run() -> None:
    (tried,) = after(asked(), told(1, 7.0)).told
    assert [(point, n) for point, n, *_ in tried.by_target] == [(CENTER, 1)]
    assert (tried.was_told, len(tried.episodes)) == (1, 1)


def test_a_retracted_trial_counts_for_nothing_and_its_episodes_were_still_run() -> None:
    history = after(asked(), told(), e.Retracted(trial=1, reason="a typo"))
    (tried,) = history.told
    assert (tried.told, tried.by_target, len(tried.episodes)) == (None, [], 0)
    np.testing.assert_array_equal(tried.largest, [0.0])
    assert (tried.first_told, tried.was_told, history.searched) == (told().episodes, 3, 3)
    assert (tried.told_number, tried.counted_number) == (3, 4)


def test_a_corrected_trial_counts_as_it_was_corrected() -> None:
    right = ((100.0, 2.0), (100.0, 3.0))
    (tried,) = after(asked(), told(), e.Retracted(trial=1, reason="a typo", episodes=right)).told
    assert (tried.told, tried.first_told) == (right, told().episodes)
    np.testing.assert_array_equal(tried.episodes[:, 1], [2.0, 3.0])


def test_a_trial_keeps_the_limits_it_was_asked_under() -> None:
    history = after(asked(), told(), e.Limited(limits=(30.0,), starts=()), asked(2))
    assert [tried.limits for tried in history.trials.values()] == [(20.0,), (30.0,)]
    assert history.limits == (30.0,)


def test_served_episodes_add_up_however_they_are_split() -> None:
    costs = (0.1, 25.0, 60.0, 0.2, 0.3)
    whole = after(serving(), served(*costs))
    split = after(serving(), served(*costs[:2]), served(*costs[2:]))
    assert whole.services[0].totals == split.services[0].totals
    assert whole.services[0].totals == e.Totals(
        episodes=5, sums=(500.0, sum(costs)), squares=(50000.0, sum(cost**2 for cost in costs)), largest=(60.0,),
        above=2, ended=1,
    )  # fmt: skip
    assert (whole.served, whole.recent) == (5, split.recent)
    assert split.services[0].means.tolist() == [100.0, pytest.approx(sum(costs) / 5)]


def test_without_a_stop_no_episode_was_ended() -> None:
    history = History()
    history.apply(Record(1, e.Opened(problem={"limits": [20.0], "stop_at": None}, version="1"), "", ""))
    history.apply(Record(2, serving(), "", ""))
    history.apply(Record(3, served(1e6), "", ""))
    assert (history.services[0].above, history.services[0].ended) == (1, 0)


def test_a_snapshot_stands_for_the_episodes_before_it() -> None:
    whole = after(serving(), served(3.0, 4.0), serving(SCOUT), served(50.0))
    snapshot = e.Snapshot(services=tuple(each.totals for each in whole.services), watch={"M": 1.0}, account=())
    cut = after(serving(), serving(SCOUT), snapshot, served(1.0))  # the episodes before it were not read
    assert [each.totals for each in cut.services[:1]] == [whole.services[0].totals]
    assert (cut.services[1].episodes, cut.services[1].sums.tolist()) == (2, [200.0, 51.0])
    assert (cut.snapshot, cut.recent, cut.served) == (snapshot, [(100.0, 1.0)], 4)


def test_a_snapshot_of_another_service_does_not_hold_for_the_next() -> None:
    snapshot = e.Snapshot(services=(after(serving()).services[0].totals,), watch={}, account=())
    history = after(serving(), snapshot, alarm(), serving(SCOUT))
    assert (history.snapshot, history.recent) == (None, [])


def test_an_alarm_ends_a_service_and_a_halt_ends_all() -> None:
    assert after(serving()).serving is not None
    assert after(serving(), alarm()).serving is None
    assert after(serving(), alarm(), serving(SCOUT)).serving is not None
    assert after(serving(), HALTED).serving is None
    assert after(serving(), HALTED).halted == HALTED


def test_what_was_told_since_lifts_a_halt_and_what_was_only_asked_does_not() -> None:
    assert after(serving(), HALTED, asked()).halted == HALTED
    assert after(serving(), HALTED, asked(), told()).halted is None
    assert after(serving(), HALTED, serving(SCOUT)).halted is None


def test_what_can_change_beliefs_is_told_from_what_is_served() -> None:
    assert after(asked(), told()).judged_at == 3
    assert after(asked(), told(), e.Retracted(trial=1, reason="a typo")).judged_at == 4
    assert after(asked(), told(), e.Limited(limits=(9.0,), starts=())).judged_at == 4
    assert after(asked(), told(), serving(), served(1.0), alarm()).judged_at == 3


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([told()], "Trial 1 was told and never asked for"),
        ([asked(), told(), told()], "Trial 1 was told twice"),
        ([asked(), e.Retracted(trial=1, reason="a typo")], "Trial 1 was retracted twice, or never told"),
        ([asked(), told(), *[e.Retracted(trial=1, reason="a typo")] * 2], "Trial 1 was retracted twice"),
        ([e.Retracted(trial=3, reason="a typo")], "Trial 3 was told and never asked for"),
        ([served(1.0)], "Episodes were served before any target was"),
        ([alarm()], "Episodes were served before any target was"),
        ([serving(), e.Snapshot(services=(), watch={}, account=())], "sums up 0 services, and there were 1"),
        ([asked(), asked(2)], "Trial 2 was asked for twice, or while another was open"),
        ([asked(), told(), asked()], "Trial 1 was asked for twice"),
        ([asked(), told(1, 1.0, 2.0, 3.0, 4.0)], "Trial 1 was told 4 episodes and asked for 3"),
        ([OPENED], "opened twice"),
        ([msgspec.structs.replace(asked(), tickets=(0, 2))], "Trial 1 asks for targets that it does not name"),
        ([msgspec.structs.replace(asked(), targets=(), tickets=())], "Trial 1 asks for targets that it does not name"),
    ],
)
def test_what_cannot_have_happened_is_refused(events: list[Event], message: str) -> None:
    with pytest.raises(JournalError, match=message):
        after(*events)


def test_a_history_that_does_not_begin_has_no_problem() -> None:
    with pytest.raises(JournalError, match="does not begin with an opened run"):
        _ = History().problem
