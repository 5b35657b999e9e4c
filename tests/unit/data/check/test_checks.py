"""Whatever data hold, check finds it and does not raise."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lifesafe.data.check import Finding, check
from lifesafe.systems import Task
from logged import circling, hdf5

Columns = dict[str, np.ndarray]
TASK = Task(name="Circling", make="x:y", observations=4, actions=2, horizon=50, limits=(8.0,))
GOOD = circling()


def good() -> Columns:
    return {name: column.copy() for name, column in GOOD.items()}


def found(columns: Any, **options: Any) -> dict[str, Finding]:
    findings = check(columns, **options)
    assert [f.severity for f in findings] == sorted(
        (f.severity for f in findings), key=["error", "warning", "note"].index
    )
    return {finding.code: finding for finding in findings}


def test_good_data_have_notes_only() -> None:
    findings = check(good(), task=TASK)
    assert {finding.severity for finding in findings} == {"note"}
    assert [finding.code for finding in findings] == ["coverage"]


def test_a_file_and_its_columns_give_the_same_findings(tmp_path: Path) -> None:
    columns = good()
    columns["costs"][3] = -1
    path = tmp_path / "logs.hdf5"
    path.write_bytes(hdf5(columns, compression="gzip"))
    assert check(path, limits=8.0) == check(path, limits=np.array([8.0])) == check(path, limits=np.float32(8.0))
    assert check(path, limits=8.0) == check(str(path), limits=(8.0,)) == check(columns, limits=[8.0])


@pytest.mark.parametrize("name", ["observations", "actions", "rewards", "costs"])
def test_a_missing_column_is_an_error(name: str) -> None:
    columns = good()
    del columns[name]
    finding = found(columns)["missing"]
    assert finding.severity == "error"
    assert finding.message == f"There is no column {name}."


def test_without_any_ends_nothing_can_be_done() -> None:
    columns = good()
    del columns["terminals"], columns["timeouts"]
    assert found(columns)["missing"].severity == "error"


@pytest.mark.parametrize("name", ["terminals", "next_observations"])
def test_a_column_that_can_be_done_without_is_a_note(name: str) -> None:
    columns = good()
    del columns[name]
    findings = found(columns, limits=8.0)
    assert findings["missing"].severity == "note"
    assert "coverage" in findings


def change(name: str, value: Callable[[np.ndarray], Any]) -> Callable[[Columns], None]:
    def apply(columns: Columns) -> None:
        columns[name] = value(columns[name])

    return apply


def put(name: str, rows: Any, value: Any) -> Callable[[Columns], None]:
    def apply(columns: Columns) -> None:
        columns[name][rows] = value

    return apply


@pytest.mark.parametrize(
    ("spoil", "code", "severity", "message"),
    [
        (change("rewards", lambda c: c[:-1]), "shape", "error", "different numbers of rows"),
        (change("observations", lambda c: c[:, :, None]), "shape", "error", "observations has shape (5000, 4, 1)"),
        (change("observations", lambda c: c[:, :0]), "shape", "error", "observations has shape (5000, 0)"),
        (change("next_observations", lambda c: c[:, :3]), "shape", "error", "(5000, 4), next_observations (5000, 3)"),
        (change("rewards", lambda c: c[:, None].repeat(2, 1)), "shape", "error", "rewards has shape (5000, 2)"),
        (change("costs", lambda c: c.astype(str)), "dtype", "error", "costs has type <U32"),
        (change("costs", lambda c: c.astype(object)), "dtype", "error", "costs has type object"),
        (change("actions", lambda c: c + 1j), "dtype", "error", "complex"),
        (change("observations", lambda c: c.astype(np.float16)), "dtype", "note", "half precision"),
        (put("observations", [5, 9], np.nan), "nonfinite", "error", "in 2 of 5000 rows (8 NaN)"),
        (put("rewards", 17, np.inf), "nonfinite", "error", "rewards holds NaN or infinities in 1 of 5000"),
        (change("costs", lambda c: c.astype(float) * 1e39), "nonfinite", "error", "costs holds"),
        (put("timeouts", slice(None), 0), "no-end", "error", "None of the 5000 rows ends an episode."),
        (put("timeouts", slice(4990, None), 0), "trailing", "warning", "The last 50 rows"),
        (put("terminals", 49, 1), "both-ends", "warning", "1 rows end an episode by itself and by its time limit"),
        (put("terminals", 0, 1), "single-step", "warning", "1 of 101 episodes have one step only."),
        (put("timeouts", 99, 0), "horizon", "error", "1 of 99 episodes exceed the horizon of 50 steps"),
        (put("timeouts", 49, 0.5), "flags", "warning", "timeouts is neither 0 nor 1 in 1 rows"),
        (put("costs", 30, -0.5), "negative-cost", "error", "1 rows are negative, down to -0.5"),
        (put("costs", 30, 1.5), "large-cost", "error", "1 rows exceed 1, the largest cost of one step"),
        (put("costs", slice(None), 0), "no-cost", "warning", "nothing ever cost anything"),
        (put("rewards", slice(None), 3), "constant-reward", "warning", "All rewards are 3."),
        (
            put("observations", (slice(None), 2), 7),
            "constant-observation",
            "note",
            "1 of 4 observations never change: 2",
        ),
        (put("actions", (slice(None), 1), 0.5), "constant-action", "warning", "1 of 2 actions never change: 1."),
        (put("observations", (slice(None, None, 2), 0), 1e9), "huge", "warning", "Observations reach 1e+09"),
        (change("observations", lambda c: c * [1, 1, 1, 1e-6]), "scales", "note", "deviations of the observations"),
        (put("actions", 3, 1.5), "action-range", "warning", "in 1 rows (0.0%); they range from -1 to 1.5"),
        (change("actions", lambda c: 2 * c), "action-range", "error", "they range from -2 to 2"),
        (change("actions", np.sign), "saturated", "note", "100% of the actions lie at -1 or 1"),
    ],
)
def test_trouble_is_found(spoil: Callable[[Columns], None], code: str, severity: str, message: str) -> None:
    columns = good()
    spoil(columns)
    finding = found(columns, task=TASK)[code]
    assert finding.severity == severity
    assert message in finding.message


def test_rows_that_are_named_are_the_first_that_are_wrong() -> None:
    columns = good()
    columns["costs"][[4000, 11, 70, 12, 13, 14, 15]] = -1
    finding = found(columns)["negative-cost"]
    assert (finding.count, finding.rows) == (7, (11, 12, 13, 14, 15))


def test_data_of_another_task_are_told() -> None:
    other = dataclasses.replace(TASK, observations=5, actions=1, limits=(1.0, 2.0), largest_costs=(1.0, 1.0))
    messages = [finding.message for finding in check(good(), task=other) if finding.code == "other-task"]
    assert messages == [
        "A row has 4 observations, those of Circling have 5.",
        "A row has 2 actions, those of Circling have 1.",
        "A row has 1 costs, those of Circling have 2.",
    ]


def test_time_limits_stored_as_terminals_are_noticed() -> None:
    columns = good()
    columns["terminals"], columns["timeouts"] = columns["timeouts"], columns["terminals"]
    assert "100% end by themselves after exactly 50 steps" in found(columns)["time-limit"].message


def test_an_end_that_nobody_flagged_is_noticed_where_observations_jump() -> None:
    columns = good()
    columns["timeouts"][[99, 499]] = 0
    finding = found(columns)["next-observations"]
    assert (finding.severity, finding.rows) == ("warning", (99, 499))
    assert "end there without a flag" in finding.advice


def test_rows_out_of_order_are_an_error() -> None:
    columns = good()
    order = np.random.default_rng(0).permutation(5000)
    for name in ("observations", "next_observations", "actions"):
        columns[name] = columns[name][order]
    finding = found(columns)["next-observations"]
    assert finding.severity == "error"
    assert "order of time" in finding.advice


def test_noise_on_next_observations_is_a_warning() -> None:
    columns = good()
    columns["next_observations"] += np.float32(0.05) * np.random.default_rng(0).normal(size=(5000, 4))
    assert "Was noise added" in found(columns)["next-observations"].advice


def test_next_observations_that_repeat_are_an_error() -> None:
    columns = good() | {"next_observations": good()["observations"]}
    finding = found(columns)["next-observations"]
    assert finding.severity == "error"
    assert "repeat observations" in finding.advice


def test_copies_of_episodes_are_counted() -> None:
    columns = good()
    for name in columns:
        columns[name][200:250] = columns[name][3000:3050]
        columns[name][4950:] = columns[name][3000:3050]
    finding = found(columns)["duplicates"]
    assert (finding.count, finding.rows) == (2, (60, 99))


def test_episodes_with_the_same_steps_in_another_order_are_not_copies() -> None:
    columns = good()
    for name in ("observations", "actions"):
        columns[name][50:100] = columns[name][:50][::-1]
    assert "duplicates" not in found(columns)


def test_several_costs_are_checked_one_by_one() -> None:
    columns = good()
    columns["costs"] = np.stack([columns["costs"], -columns["costs"]], axis=1)
    findings = check(columns, limits=(8.0, 3.0))
    assert "cost 2: " in next(f.message for f in findings if f.code == "negative-cost")
    assert [f.message[:7] for f in findings if f.code == "coverage"] == ["Cost 1:", "Cost 2:"]


def test_limits_for_another_number_of_costs_are_told() -> None:
    finding = found(good(), limits=(1.0, 2.0))["cost-count"]
    assert (finding.severity, finding.message) == ("error", "There are 1 costs a row and 2 limits.")


@pytest.mark.parametrize("columns", [{}, {"observations": [[1, 2], [3]]}, {"rewards": None}, {"a": 3}])
def test_columns_that_are_none_are_an_error(columns: dict[str, Any]) -> None:
    assert check(columns)[0].severity == "error"


def arrays(shapes: Any) -> st.SearchStrategy[np.ndarray]:
    kinds = st.one_of(
        hnp.floating_dtypes(), hnp.integer_dtypes(), hnp.boolean_dtypes(), hnp.unicode_string_dtypes(max_len=3)
    )
    return kinds.flatmap(lambda kind: hnp.arrays(kind, shapes))


@given(
    st.dictionaries(
        st.sampled_from([*GOOD, "other"]), arrays(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    ),
    st.sampled_from([None, 0.0, 1.0, (1.0, 2.0)]),
)
@pytest.mark.filterwarnings("error")
def test_nothing_raises_on_any_columns(columns: Columns, limits: Any) -> None:
    check(columns, limits=limits, task=TASK)


@given(st.integers(1, 12).flatmap(lambda n: st.fixed_dictionaries({
    "observations": hnp.arrays(np.float64, (n, 2)), "next_observations": hnp.arrays(np.float32, (n, 2)),
    "actions": hnp.arrays(np.float16, (n, 1)), "rewards": hnp.arrays(np.float64, n),
    "costs": hnp.arrays(np.int64, (n, 1)), "terminals": hnp.arrays(np.float32, n), "timeouts": hnp.arrays(bool, n),
})))  # fmt: skip
@pytest.mark.filterwarnings("error")
def test_nothing_raises_on_any_values(columns: Columns) -> None:
    check(columns, limits=1.0)
