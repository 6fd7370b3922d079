"""Ordered classes: a change costs as many places as it goes, so that labels go to the class beside
theirs.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("polars")
import pandas as pd
import polars as pl
import pyarrow as pa

import r2b
from r2b.errors import ParameterError

MARKS = ["Fail", "Pass", "Merit", "Distinction"]
SEX = np.repeat(["f", "m"], 500)
RNG = np.random.default_rng(0)
Y = np.concatenate(
    [
        RNG.choice(MARKS, 500, p=[0.35, 0.35, 0.2, 0.1]),
        RNG.choice(MARKS, 500, p=[0.1, 0.25, 0.35, 0.3]),
    ]
)
PLACES = np.arange(4.0)


def fit(y, **options):
    return r2b.debias(y, sensitive_features=SEX, epsilon=0.02, **options)


def test_nobody_goes_from_fail_to_distinction() -> None:
    plain, ordered = fit(Y), fit(Y, costs={"ordinal": MARKS})
    far = [(flow.old, flow.new) for flow in plain.largest_changes(100)]
    assert ("Fail", "Distinction") in far
    moved = ordered.to_frame("changes", backend="pandas")
    steps = moved["new"].map(MARKS.index) - moved["old"].map(MARKS.index)
    assert ordered.status.ok and ordered.disparity <= 0.02 + 1e-9
    assert steps.abs().max() < 3
    assert moved["weight"][steps.abs() == 1].sum() > 0.95 * moved["weight"].sum()


def test_the_order_is_that_of_an_ordered_column() -> None:
    arrow = pa.DictionaryArray.from_arrays(
        pa.array([MARKS.index(each) for each in Y], pa.int8()), pa.array(MARKS), ordered=True
    )
    columns = [
        pd.Series(pd.Categorical(Y, MARKS, ordered=True)),
        pl.Series(Y, dtype=pl.Enum(MARKS)),
        arrow,
        pa.chunked_array([arrow]),
    ]
    given = fit(Y, costs={"ordinal": np.array(MARKS)})
    # classes are by alphabet
    assert (
        given.costs.tolist()
        == np.abs(np.subtract.outer([3, 0, 2, 1], [3.0, 0.0, 2.0, 1.0])).tolist()
    )
    for column in columns:
        fair = fit(column, costs="ordinal")
        assert fair.classes.tolist() == MARKS
        assert fair.costs.tolist() == np.abs(np.subtract.outer(PLACES, PLACES)).tolist()
        assert fair.certificate.objective == pytest.approx(given.certificate.objective, abs=1e-12)


@pytest.mark.parametrize(
    ("y", "costs", "told"),
    [
        (
            Y,
            "ordinal",
            r"order of the classes 'Distinction', .* is not known.*State it, .costs=\{'ordinal'",
        ),
        # alphabetical, not an order
        (
            pd.Series(Y, dtype="category"),
            "ordinal",
            "is not known",
        ),
        (np.where(Y == "Fail", 0, 1), "ordinal", "order of the classes 0, 1 is not known"),
        (Y, {"ordinal": MARKS[:3]}, "is without the class 'Distinction'. Name every class"),
        (Y, {"ordinal": [*MARKS, "Fail"]}, "names a class twice"),
        (Y, {"ordinal": "Fail"}, "Pass 'ordinal'"),
        (Y, "ordnal", "costs is 'ordnal'. Pass 'ordinal'"),
    ],
)
def test_an_order_that_is_not_known_is_refused(y, costs, told) -> None:
    with pytest.raises(ParameterError, match=told):
        fit(y, costs=costs)
