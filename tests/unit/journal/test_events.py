"""The codec between events and text: nothing is lost, nothing that is not an event gets in or out."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifesafe.errors import JournalError
from lifesafe.journal import events as e
from lifesafe.journal.events import EVENT_KINDS, Event, decode, encode, kind_of

numbers = st.floats(allow_nan=False, allow_infinity=False)
counts, words = st.integers(0, 2**40), st.text(max_size=20)
points = st.lists(numbers, max_size=3).map(tuple)
pairs = st.tuples(numbers, numbers)
episodes = st.lists(points, max_size=3).map(tuple)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | numbers | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
settings_of = st.dictionaries(words, plain, max_size=4)
forecasts = st.builds(e.Forecast, reward=pairs, costs=st.lists(pairs, max_size=2).map(tuple), risk=numbers)
totals = st.builds(
    e.Totals, episodes=counts, sums=points, squares=points, largest=points, above=counts, ended=counts
)  # fmt: skip
EVENTS = {
    "opened": st.builds(e.Opened, problem=settings_of, version=words),
    "asked": st.builds(
        e.Asked, trial=counts, stage=words, targets=episodes, tickets=st.lists(counts, max_size=4).map(tuple),
        charge=numbers, paid=episodes, allowance=numbers, forecasts=st.lists(forecasts, max_size=2).map(tuple),
    ),
    "told": st.builds(e.Told, trial=counts, episodes=episodes),
    "retracted": st.builds(e.Retracted, trial=counts, reason=words, episodes=st.none() | episodes),
    "confirmed": st.builds(e.Confirmed, reason=words),
    "limited": st.builds(e.Limited, limits=points, starts=episodes),
    "serving": st.builds(
        e.Serving, target=points, why=words, limits=points, level=numbers, largest=points, rung=counts
    ),
    "served": st.builds(e.Served, episodes=episodes),
    "alarm": st.builds(
        e.Alarm, target=points, rule=words, cost=counts, episode=counts, mean=numbers, limit=numbers
    ),
    "halted": st.builds(e.Halted, why=words, advice=words),
    "snapshot": st.builds(e.Snapshot, services=st.lists(totals, max_size=2).map(tuple), watch=settings_of,
                          account=points),
}  # fmt: skip
TOLD = '{"kind":"told","trial":1,"episodes":[[1.0,2.0]]}'


def test_every_class_of_event_has_a_kind_and_a_test() -> None:
    assert set(EVENT_KINDS) == set(EVENTS)
    assert set(EVENT_KINDS.values()) == set(Event.__subclasses__())
    assert all(cls.__struct_config__.frozen for cls in (*EVENT_KINDS.values(), e.Forecast, e.Totals))


@given(event=st.one_of(*EVENTS.values()))
def test_an_event_comes_back_from_its_text_bit_by_bit(event: Event) -> None:
    text = encode(event)
    again = decode(kind_of(event), text)
    assert again == event
    assert encode(again) == text  # tells -0.0 from 0.0


def test_the_text_does_not_depend_on_the_order_of_settings() -> None:
    one = e.Opened(problem={"limits": [20.0], "axes": []}, version="1")
    other = e.Opened(problem={"axes": [], "limits": [20.0]}, version="1")
    assert encode(one) == encode(other)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("make", "where"),
    [
        (lambda x: e.Told(trial=1, episodes=((0.0, 0.0), (0.0, x))), "told.episodes[1][1]"),
        (lambda x: e.Served(episodes=((x, 0.0),)), "served.episodes[0][0]"),
        (lambda x: e.Opened(problem={"limits": [1.0, {"b": x}]}, version="1"), "opened.problem.limits[1].b"),
        (lambda x: e.Limited(limits=(x,), starts=()), "limited.limits[0]"),
        (lambda x: e.Snapshot(services=(), watch={"values": [[x]]}, account=()), "snapshot.watch.values[0][0]"),
    ],
)
def test_a_number_that_is_not_finite_is_refused_and_its_place_is_named(make, where: str, number: float) -> None:
    with pytest.raises(JournalError, match=re.escape(f"{where} is {number}; a journal holds finite numbers only")):
        encode(make(number))


@pytest.mark.parametrize(
    "event",
    [
        e.Told(trial=1, episodes=((np.float64(1.0), 2.0),)),
        e.Told(trial=np.int64(1), episodes=()),
        e.Confirmed(reason="\ud800"),  # half of a character
        e.Opened(problem={"axes": object()}, version="1"),
    ],
    ids=["a float of NumPy", "an integer of NumPy", "half of a character", "an object"],
)
def test_what_text_cannot_hold_is_refused_and_the_kind_is_named(event: Event) -> None:
    with pytest.raises(JournalError, match=f"An event of kind '{kind_of(event)}' cannot be written"):
        encode(event)


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("sung", "{}", "Unknown kind of event 'sung'; this lifesafe knows opened, asked, .*Upgrade it"),
        ("asked", TOLD, "'asked' does not have the form of its kind"),
        ("told", "", "'told' does not have the form of its kind"),
        ("told", TOLD[:-1], "'told' does not have the form of its kind"),
        ("told", "[]", "'told' does not have the form of its kind"),
        ("told", TOLD.replace("2.0", "NaN"), "'told' does not have the form of its kind"),
        ("told", TOLD.replace("2.0", "1e999"), "'told' does not have the form of its kind"),
        ("told", TOLD.replace("2.0", '"2"'), "'told' does not have the form of its kind: Expected `float`"),
        ("told", TOLD.replace("1,", "1.5,"), "'told' does not have the form of its kind: Expected `int`"),
        ("told", '{"kind":"told","trial":1}', "missing required field `episodes`"),
        ("told", TOLD.replace("}", ',"days":3}'), "unknown field `days`"),
    ],
)
def test_text_that_is_no_event_of_its_kind_is_refused(kind: str, text: str, message: str) -> None:
    with pytest.raises(JournalError, match=message):
        decode(kind, text)
