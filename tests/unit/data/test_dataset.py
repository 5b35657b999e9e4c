"""A dataset is flat columns and the places where episodes begin."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifesafe.data import Dataset, Episode
from lifesafe.errors import DatasetError
from logs import dataset, datasets

COLUMNS = ("observations", "actions", "rewards", "costs", "next_observations")


def arrays(made: Dataset) -> dict[str, Any]:
    """Return the flat arrays of a dataset, as DSRL keeps them."""
    last = made.offsets[1:] - 1
    terminals, timeouts = np.zeros((2, made.transitions), dtype=bool)
    terminals[last], timeouts[last] = made.terminated, ~made.terminated
    return {name: getattr(made, name) for name in COLUMNS} | {"terminals": terminals, "timeouts": timeouts}


@given(datasets())
def test_arrays_and_episodes_give_the_same_dataset(made: Dataset) -> None:
    assert Dataset.from_arrays(**arrays(made)).fingerprint == made.fingerprint
    assert Dataset.from_episodes(made).fingerprint == made.fingerprint


@given(datasets(), st.data())
def test_selecting_gives_the_named_episodes_in_that_order(made: Dataset, data: st.DataObject) -> None:
    wanted = data.draw(st.lists(st.integers(-len(made), len(made) - 1), min_size=1))
    chosen = made.select(wanted)
    assert chosen.fingerprint == Dataset.from_episodes(made[index] for index in wanted).fingerprint


@given(datasets())
def test_episodes_add_up_to_the_columns(made: Dataset) -> None:
    assert sum(made.lengths) == made.transitions == sum(len(episode) for episode in made)
    for row, episode in zip(made.returns, made, strict=True):
        np.testing.assert_allclose(row, tuple(episode.returns))
    for name in COLUMNS:
        np.testing.assert_array_equal(np.concatenate([getattr(e, name) for e in made]), getattr(made, name))


def test_columns_may_be_narrow_or_flat_and_of_any_number_type() -> None:
    made = dataset(6)
    given = arrays(made)
    flat = given | {
        "observations": made.observations[:, 0].astype(np.float64),
        "next_observations": made.next_observations[:, :1],
        "actions": made.actions[:, 0].tolist(),
        "rewards": made.rewards[:, None],
        "costs": made.costs[:, 0].astype(int),
        "terminals": given["terminals"][:, None].astype(np.float32),
        "timeouts": given["timeouts"].astype(np.int8),
    }
    read = Dataset.from_arrays(**flat)
    assert read.observations.dtype == np.float32
    np.testing.assert_array_equal(read.observations, made.observations[:, :1])
    np.testing.assert_array_equal(read.actions, made.actions[:, :1])
    np.testing.assert_array_equal(read.returns, made.returns)
    np.testing.assert_array_equal(read.terminated, made.terminated)


def test_without_next_observations_they_are_the_following_ones() -> None:
    made = dataset(6)
    read = Dataset.from_arrays(**(arrays(made) | {"next_observations": None}))
    last = made.offsets[1:] - 1
    inner = np.setdiff1d(np.arange(made.transitions), last)
    np.testing.assert_array_equal(read.next_observations[inner], made.next_observations[inner])
    np.testing.assert_array_equal(read.next_observations[last], made.observations[last])


def test_steps_after_the_last_end_are_left_out() -> None:
    made = dataset(4, longest=6, seed=3)
    cut = arrays(made)
    cut["terminals"], cut["timeouts"] = (ends & (np.arange(made.transitions) < made.offsets[3]) for ends in
                                         (cut["terminals"], cut["timeouts"]))  # fmt: skip
    assert Dataset.from_arrays(**cut).fingerprint == made.select([0, 1, 2]).fingerprint


def test_the_fingerprint_changes_with_any_value() -> None:
    made = dataset(4)
    prints = {made.fingerprint, replace(made, terminated=~made.terminated).fingerprint}
    for name in COLUMNS:
        column = getattr(made, name).copy()
        column.flat[-1] += 1
        prints.add(replace(made, **{name: column}).fingerprint)
    assert len(prints) == 7


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_a_value_that_is_not_finite_is_named(name: str, value: float) -> None:
    given = arrays(dataset(3, longest=9))
    column = given[name].astype(np.float64)
    column.reshape(len(column), -1)[2, -1] = value
    with pytest.raises(DatasetError, match=f"{name} of transition 2.*data check"):
        Dataset.from_arrays(**(given | {name: column}))


def test_a_cost_below_zero_is_refused_before_anybody_learns_from_it() -> None:
    made = dataset(3, costs=2)
    costs = made.costs.copy()
    costs[1, 1] = -0.5
    with pytest.raises(DatasetError, match=r"costs -0\.5 \(cost 2, transition 1\); costs are never .* Shift them"):
        Dataset.from_arrays(**(arrays(made) | {"costs": costs}))


@pytest.mark.wrong_shapes
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rewards": np.zeros(3)}, "3 rewards"),
        ({"rewards": np.zeros((20, 2))}, "rewards must have 1 dimension"),
        ({"observations": np.zeros((3, 2))}, "same number of rows"),
        ({"observations": np.zeros((20, 2, 2))}, r"observations must have 2 dimension.*\(20, 2, 2\)"),
        ({"observations": np.zeros((20, 4))}, "they must agree"),
        ({"observations": np.zeros((20, 2, 2)), "next_observations": None}, "2 dimension"),
        ({"observations": np.zeros((20, 0)), "next_observations": np.zeros((20, 0))}, "at least one number"),
        ({"costs": np.zeros((20, 0))}, "costs must have at least one"),
        ({"costs": 0.0}, "costs must have 2"),
        ({"actions": [["left"]] * 20}, "numbers only"),
        ({"actions": [[0.0], [0.0, 1.0]] * 10}, "numbers only"),
        ({"terminals": np.zeros((20, 2))}, "one flag per transition"),
        ({"terminals": ["no"] * 20}, "one flag per transition"),
        ({"timeouts": np.zeros(19)}, "19 timeouts"),
        ({"terminals": np.zeros(20), "timeouts": np.zeros(20)}, "None of the 20 transitions ends an episode"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    columns = {name: np.zeros((20, 2), dtype=np.float32) for name in COLUMNS}
    ends = np.arange(20) % 5 == 4
    given = columns | {"rewards": np.zeros(20), "costs": np.zeros(20), "terminals": np.zeros(20), "timeouts": ends}
    Dataset.from_arrays(**given)
    with pytest.raises(DatasetError, match=message):
        Dataset.from_arrays(**(given | change))


def test_episodes_of_different_shapes_are_refused() -> None:
    with pytest.raises(DatasetError, match="costs of the episodes have rows of shapes"):
        Dataset.from_episodes([*dataset(2), *dataset(2, costs=2)])
    with pytest.raises(DatasetError, match="Got no episodes"):
        Dataset.from_episodes([])


def test_returns_are_summed_in_double_precision() -> None:
    ones = np.ones((2**24 + 10, 1), dtype=np.float32)  # a float32 cannot count that far
    assert Episode(ones, ones, ones[:, 0], ones, ones, False).returns.reward == 2**24 + 10


@pytest.mark.wrong_shapes
def test_an_episode_has_steps_and_arrays_of_one_length() -> None:
    rows, none = np.zeros((3, 1), dtype=np.float32), np.zeros((0, 1), dtype=np.float32)
    with pytest.raises(DatasetError, match="'actions': 2"):
        Episode(rows, rows[:2], rows[:, 0], rows, rows, False)
    with pytest.raises(DatasetError, match="at least one"):
        Episode(none, none, none[:, 0], none, none, False)


@pytest.mark.parametrize("wanted", [[], np.zeros(5, dtype=bool)])
def test_a_selection_has_at_least_one_episode(wanted: Any) -> None:
    with pytest.raises(DatasetError, match="none was selected"):
        dataset(5).select(wanted)


@pytest.mark.wrong_shapes
@pytest.mark.parametrize("wanted", [[5], [-6], np.ones(4, dtype=bool), [0.5]])
def test_a_selection_names_episodes_that_exist(wanted: Any) -> None:
    with pytest.raises(DatasetError, match="Cannot select from 5 episodes"):
        dataset(5).select(wanted)


@pytest.mark.wrong_shapes
@pytest.mark.parametrize("offsets", [[0, 2, 1, 4], [1, 2, 3, 4], [0, 2, 2, 4], [0, 1, 2, 3], [0, 4], []])
def test_offsets_rise_from_nothing_to_everything(offsets: list[int]) -> None:
    rows = np.zeros((4, 1), dtype=np.float32)
    with pytest.raises(DatasetError, match="ffsets"):
        Dataset(rows, rows, rows[:, 0], rows, rows, np.zeros(3, dtype=bool), np.array(offsets, dtype=np.int64))
