"""Classes that come as column names keep their type, and errors tell '0' from 0."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

import r2b
from r2b.errors import MissingValueError, MixedTypeError, ParameterError, UnseenError

N = 40
RNG = np.random.default_rng(1)
P = RNG.dirichlet([1, 1, 1], N)
SEX = np.where(np.arange(N) < N // 2, "f", "m")
DAYS = [pd.Timestamp(2024, 1, day) for day in (1, 2, 3)]


@pytest.mark.parametrize(
    ("names", "kind", "given_back"),
    [
        ([1.0, 2.0, 3.0], "f", float),
        ([1, 2, 3], "i", int),
        (DAYS, "M", pd.Timestamp),
        ([day.tz_localize("Europe/Berlin") for day in DAYS], "M", pd.Timestamp),
        ([datetime.date(2024, 1, day) for day in (1, 2, 3)], "O", datetime.date),
        ([pd.Timedelta(days=day) for day in (1, 2, 3)], "m", pd.Timedelta),
        (["a", "b", "c"], "U", str),
    ],
)
def test_column_names_of_a_frame_are_classes_of_their_type(names, kind, given_back):
    frame = pd.DataFrame(P, columns=names)
    fair = r2b.debias(frame, sensitive_features=SEX, epsilon=0.01)
    assert fair.classes.dtype.kind == kind
    labels = fair.round()
    assert labels.map(lambda value: isinstance(value, given_back)).all()
    assert set(fair.transform(frame, sensitive_features=SEX, form="sample")) <= set(
        np.asarray(fair.schema.classes.decode([0, 1, 2])).tolist()
    ) | set(names)
    np.testing.assert_allclose(
        fair.transform(frame[names[::-1]], sensitive_features=SEX), fair.soft_labels, atol=1e-12
    )


def test_columns_that_can_only_be_text_match_as_they_are_written():
    fair = r2b.debias(
        pd.DataFrame(P, columns=[1.0, 2.0, 3.0]), sensitive_features=SEX, epsilon=0.01
    )
    backwards = pl.DataFrame(
        {name: P[:, k] for k, name in reversed(list(enumerate(["1.0", "2.0", "3.0"])))}
    )
    np.testing.assert_allclose(
        fair.transform(backwards, sensitive_features=SEX), fair.soft_labels, atol=1e-12
    )
    with pytest.raises(
        UnseenError, match=r"columns .*4\.0.*, but the classes 1\.0, 2\.0, 3\.0 were fitted"
    ):
        fair.transform(pd.DataFrame(P, columns=[1.0, 2.0, 4.0]), sensitive_features=SEX)
    with pytest.raises(UnseenError, match=r"columns 1, '1\.0', 3, but"):
        fair.transform({1: P[:, 0], "1.0": P[:, 1], 3: P[:, 2]}, sensitive_features=SEX)


def test_names_without_one_type_are_refused():
    with pytest.raises(MixedTypeError, match=r"column names of y.*0 \(int\).*'other' \(str\)"):
        r2b.debias({0: P[:, 0], "other": 1 - P[:, 0]}, sensitive_features=SEX)
    with pytest.raises(MissingValueError, match=r"column names of y.* row 1"):
        r2b.debias(
            pd.DataFrame(P[:, :2] / P[:, :2].sum(axis=1, keepdims=True), columns=["a", None]),
            sensitive_features=SEX,
        )


@pytest.mark.parametrize(
    ("fitted", "new", "types"),
    [
        ([0, 1], "0", ("text", "number")),
        (["0", "1"], 0, ("number", "text")),
        ([False, True], 0, ("number", "true/false")),
    ],
)
def test_unseen_values_name_types_and_not_the_same_spelling(fitted, new, types):
    fair = r2b.debias(np.array(fitted)[np.arange(N) % 2], sensitive_features=SEX)
    with pytest.raises(UnseenError) as caught:
        fair.transform([new] * 2, sensitive_features=["f", "m"])
    message = str(caught.value)
    assert f"holds {new!r} ({types[0]})" in message
    assert f"({types[1]})" in message
    assert f"to {types[1]}" in message
    assert "Did you mean" not in message
    assert (caught.value.facts["type"], caught.value.facts["known_type"]) == types


@pytest.mark.parametrize(("kind", "new"), [(np.int32, 2**40), (np.float32, 0.1), (str, "longer")])
def test_unseen_classes_and_groups_keep_their_values(kind, new):
    y, groups = np.array([1, 2])[np.arange(N) % 2].astype(kind), (np.arange(N) // 20).astype(kind)
    fair = r2b.debias(y, sensitive_features=groups)
    rows = fair.transform([y[0], new], sensitive_features=[new, groups[0]], unseen="overall")
    assert rows.shape == (2, 2) and np.allclose(rows.sum(axis=1), 1)


def test_epsilon_by_name_names_types():
    with pytest.raises(
        ParameterError,
        match=(
            r"names '0' \(text\), but the classes are of another type\. Name classes among these:"
            r" 0, 1 \(number\)"
        ),
    ):
        r2b.debias(np.arange(N) % 2, sensitive_features=SEX, epsilon={"0": 0.1, "1": 0.1})
