"""What every backend stands on.

Exact counts and sums, draws that follow from keys, whole counts found from draws, and what is
refused.
"""

from __future__ import annotations

import datetime
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scale_cases import cases

import r2b
from r2b._data.arrays import as_float, exact_sums
from r2b._labels.draws import draws_of, key_words, row_numbers, uniforms_of
from r2b._solve.oracle import merged as folded
from r2b.engines import tally as tallying
from r2b.engines.batch import Batch
from r2b.engines.lazy import HeldSource
from r2b.engines.tally import Count
from r2b.errors import (
    InputError,
    MixedTypeError,
    ParameterError,
    WeightError,
)

pa = pytest.importorskip("pyarrow")


def test_a_part_without_values_does_not_know_the_type_and_another_type_is_refused() -> None:
    empty, text, number = (
        pa.record_batch({"a": values})
        for values in (pa.array([None, None]), pa.array(["x"]), pa.array([1]))
    )
    count = Count(("a",))
    counted = folded(count, (count.make(Batch(record)) for record in (empty, text, empty)))
    tally = count.tally(counted)
    assert dict(zip(tally.columns["a"].to_pylist(), tally.count.tolist(), strict=True)) == {
        None: 4,
        "x": 1,
    }
    with pytest.raises(
        MixedTypeError, match="'a' holds string in one part of the table and int64 in another"
    ):
        count.tally(count.merge(counted, count.make(Batch(number))))


def test_too_many_combinations_are_refused_naming_the_column(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tallying, "MOST_COMBINATIONS", 50)
    table = pa.table({"score": np.arange(200) / 200.0, "sex": ["f", "m"] * 100})
    with pytest.raises(
        InputError, match="more than 50 combinations of 'score', 'sex'; 'score' alone has"
    ):
        r2b.scan(HeldSource(table, 30)).debias("score", sensitive_features="sex")


NUMBERS = st.floats(0, 1e300, allow_nan=False, allow_infinity=False, allow_subnormal=True)


@given(
    st.lists(st.tuples(st.integers(0, 3), NUMBERS), max_size=40), st.randoms(use_true_random=False)
)
def test_sums_are_exact_and_rounded_once(rows: list[tuple[int, float]], random: Any) -> None:
    exact = {
        code: sum((Fraction(weight) for mine, weight in rows if mine == code), Fraction(0))
        for code in range(4)
    }
    for _ in range(2):
        codes, weights = (
            np.array([code for code, _ in rows], np.int64),
            np.array([weight for _, weight in rows], np.float64),
        )
        found = exact_sums(codes, weights, 4) if rows else {}
        for code in range(4):
            assert Fraction(found.get(code, 0), 2**1074) == exact[code]
            assert as_float(found.get(code, 0)) == float(exact[code])
        random.shuffle(rows)


def test_draws_follow_from_the_key_alone_and_look_uniform() -> None:
    keys = np.arange(100_000)
    draws = draws_of(key_words([keys], ["id"]), 7)
    order = np.random.default_rng(0).permutation(len(keys))
    assert np.array_equal(
        draws_of(key_words([keys[order].astype(np.int32)], ["id"]), 7), draws[order]
    )
    assert np.array_equal(draws, draws_of(row_numbers(0, 100_000), 7))
    uniforms = uniforms_of(draws)
    assert uniforms.min() >= 0 and uniforms.max() < 1
    for other in (draws_of(row_numbers(0, 100_000), 8), draws_of(row_numbers(1, 100_000), 7)):
        assert abs(np.corrcoef(uniforms, uniforms_of(other))[0, 1]) < 0.02
    chi = (
        (np.bincount((uniforms * 256).astype(int), minlength=256) - 390.625) ** 2 / 390.625
    ).sum()
    assert chi < 360  # 255 degrees of freedom: beyond it once in 50,000
    low_bits = np.bincount(draws & 255, minlength=256)
    assert ((low_bits - 390.625) ** 2 / 390.625).sum() < 360


def test_keys_that_rows_share_cannot_keep_counts_and_are_refused() -> None:
    case = cases()["text"]
    fair = r2b.scan(HeldSource(case.table, 100)).debias(case.label, **case.asked, **case.settings)
    with pytest.raises(
        InputError, match="have a key that another row of their group and class has too"
    ):
        fair.frame("round", key="region")
    with pytest.raises(InputError, match="tell every row apart"):
        r2b.debias(case.y(), **case.in_memory(), **case.settings).round(0, key=case.table["region"])


@pytest.mark.parametrize("name", ["text", "weights", "probabilities in columns"])
@pytest.mark.parametrize("size", [1, 13])
def test_batches_do_not_show(name: str, size: int) -> None:
    case = cases()[name]
    # a hundred batches are enough
    table = case.table.take(pa.array(range(0, case.table.num_rows, 6))) if size == 1 else case.table
    few, once = (
        r2b.scan(HeldSource(table, rows)).debias(
            case.label, **case.asked, **case.settings, sample_entries=1 << 20
        )
        for rows in (size, 600)
    )
    assert (
        np.abs(few.prices - once.prices).max() < 1e-9
        if case.soft
        else np.array_equal(few.prices, once.prices)
    )
    for form in ("sample", "expand", "round"):
        one, other = few.frame(form), once.frame(form)
        assert one.column("id").equals(other.column("id"))
        assert case.soft or one.equals(other)


def test_the_labels_of_rows_elsewhere_leave_with_the_table_alone(tmp_path: Any) -> None:
    case = cases()["text"]
    fair = r2b.scan(case.table).debias(case.label, **case.asked, **case.settings)
    assert fair.sample(0).to_pylist() == fair.frame("sample").column("level_fair").to_pylist()
    with pytest.raises(InputError, match="not a file"):
        fair.write(tmp_path / "out.parquet")
    fair.save(tmp_path / "fair.r2b")
    loaded = r2b.load(tmp_path / "fair.r2b")
    again = loaded.transform(case.y(), **case.in_memory())
    soft = fair.frame("soft")
    assert (
        np.abs(
            again - np.column_stack([soft[name].to_numpy() for name in soft.column_names[-5:]])
        ).max()
        == 0
    )
    assert "solved" in str(fair) and fair.largest_changes(3)


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"label": "levle"}, ParameterError, "no column 'levle'.*'level'"),
    ({"sensitive_features": ["sex", "age"]}, ParameterError, "'age', which sensitive_features nam"),
    ({"sensitive_features": []}, ParameterError, "sensitive_features names no column"),
    ({"control_features": "sex"}, ParameterError, "'sex' is named by sensitive_features and by c"),
    ({"sensitive_features": "level"}, ParameterError, "named by label and by sensitive_features"),
    ({"sensitive_features": np.zeros(3)}, ParameterError, "go by their names"),
    ({"sample_weight": "region"}, WeightError, "In the column 'region', row 0 holds 'north'"),
    ({"tol": 0}, ParameterError, "tol is 0"),
]


@pytest.mark.parametrize(("changed", "kind", "message"), REFUSED)
def test_what_cannot_be_asked_is_refused(
    changed: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        r2b.scan(cases()["text"].table).debias(
            **({"label": "level", "sensitive_features": "sex"} | changed)
        )


def test_forms_and_names_that_cannot_be_are_refused() -> None:
    table = cases()["text"].table
    fair = r2b.scan(table).debias("level", sensitive_features="sex")
    with pytest.raises(ParameterError, match="form is 'hard'"):
        fair.frame("hard")
    with pytest.raises(ParameterError, match="'sex' would have the name of a column"):
        fair.frame("round", new_column="sex")
    with pytest.raises(ParameterError, match="no column 'key', which key names"):
        fair.frame("round", key="key")
    twice = table.append_column("sex", table["sex"])
    with pytest.raises(InputError, match="has 2 columns called 'sex'"):
        r2b.scan(twice).debias("level", sensitive_features="sex")
    assert r2b.scan(
        table.append_column("junk", table["id"]).append_column("junk", table["id"])
    ).debias("level", sensitive_features="sex")


@pytest.mark.parametrize("data", [[1, 2], {"a": [1]}, np.zeros((2, 2)), 7])
def test_what_is_no_table_is_refused(data: Any) -> None:
    with pytest.raises(ParameterError, match="not a table that can be scanned"):
        r2b.scan(data)
    with pytest.raises(ParameterError, match="'format' says how files are read"):
        r2b.scan(cases()["text"].table, format="csv")


KEYS: dict[str, list[Any]] = {
    "whole numbers": [3, -1, 500],
    "text": ["a", "ä", ""],
    "truth": [True, False, True],
    "days": [datetime.date(2024, 1, 1), datetime.date(1950, 1, 1), datetime.date(2024, 1, 2)],
    "moments": [
        datetime.datetime(2024, 1, 1, 5),
        datetime.datetime(1950, 1, 1),
        datetime.datetime(2024, 1, 1, 6),
    ],
    "moments of a zone": [
        datetime.datetime(2024, 1, 1, hour, tzinfo=datetime.UTC) for hour in (1, 2, 3)
    ],
}


@pytest.mark.parametrize("values", KEYS.values(), ids=KEYS)
def test_equal_keys_give_equal_words_in_every_library(values: list[Any]) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    arrow = pa.array(values)
    kinds = [
        values,
        arrow,
        pa.chunked_array([arrow]),
        arrow.dictionary_encode(),
        polars.Series(values),
    ]
    kinds += [
        pandas.Series(values),
        pandas.Series(values, dtype=object),
        pandas.Series(pandas.array(arrow, dtype=pandas.ArrowDtype(arrow.type))),
    ]
    words = [key_words([kind], ["key"]).tolist() for kind in kinds]
    assert all(found == words[0] for found in words)
    assert len(set(words[0])) == len(set(values))
