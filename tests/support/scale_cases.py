"""Tables, and what must be the same about them wherever they live: prices, proof, labels row by
row, audit.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest

import r2b

pa = pytest.importorskip("pyarrow")

SEED = 3
CLOSE = 1e-9
FORMS = ("soft", "sample", "round", "expand")


@dataclass(frozen=True, eq=False)
class Case:
    """A table with a key "id", and what is asked of its columns.

    Attributes
    ----------
    label : str or list of str
    asked : dict
        Names of columns.
    settings : dict
        The other arguments of debias.
    """

    name: str
    table: pa.Table
    label: Any
    asked: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def soft(self) -> bool:
        return self.name.startswith("probabilities")

    @property
    def whole(self) -> bool:
        """Whether rounding does not depend on how rows are cut: class labels without weights."""
        return not self.soft and "sample_weight" not in self.asked

    def columns(self, names: Any) -> dict[str, Any]:
        return {name: self.table[name] for name in ([names] if isinstance(names, str) else names)}

    def in_memory(self) -> dict[str, Any]:
        """The attributes and weights, as r2b.debias takes them."""
        given = {
            argument: self.columns(names)
            for argument, names in self.asked.items()
            if argument != "sample_weight"
        }
        if "sample_weight" in self.asked:
            given["sample_weight"] = self.table[self.asked["sample_weight"]]
        return given

    def y(self) -> Any:
        if not self.soft:
            return self.table[self.label]
        if isinstance(self.label, list):
            return np.column_stack([self.table[name].to_numpy() for name in self.label])
        return np.array(
            self.table[self.label].to_pylist(),
            dtype=_numbers(self.table.schema.field(self.label).type),
        )


def _numbers(kind: Any) -> Any:
    return np.float32 if kind.value_type == pa.float32() else np.float64


def _people(n: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, n)
    # Sorted by region, so that the first partitions lack the last regions.
    region = np.sort(rng.integers(0, 3, n))
    level = np.minimum(rng.poisson(1.2 + 0.5 * sex + 0.3 * region), 4)
    return {
        "id": rng.permutation(n) * 7 + 1,
        "sex": sex,
        "region": region,
        "level": level,
        "weight": rng.gamma(2.0, 1.0, n),
    }


def _classes(name: str, values: Any, n: int = 600, seed: int = 1, **more: Any) -> Case:
    people = _people(n, seed)
    table = pa.table(
        {
            "id": people["id"],
            "level": pa.array([values[code] for code in people["level"]]),
            "sex": pa.array(["f" if code else "m" for code in people["sex"]]),
            "region": pa.array([["north", "east", "south"][code] for code in people["region"]]),
            "weight": people["weight"],
        }
    )
    settings = more.pop("settings", {"epsilon": 0.02})
    return Case(name, table, "level", more or {"sensitive_features": "sex"}, settings)


def _gaps(case: Case, column: str) -> Case:
    values = case.table[column].to_pylist()
    values[::11] = [None] * len(values[::11])
    place = case.table.schema.get_field_index(column)
    return Case(
        case.name,
        case.table.set_column(place, column, pa.array(values)),
        case.label,
        case.asked,
        case.settings,
    )


def _probabilities(name: str, dtype: Any, *, listed: bool, n: int = 500, **asked: Any) -> Case:
    people = _people(n, 5)
    rng = np.random.default_rng(6)
    labels = rng.dirichlet(np.full(4, 0.7), n)
    labels[:, 0] *= 1.0 + 2.0 * people["sex"]
    labels[:, 3] *= 1.0 + people["region"]
    labels = (labels / labels.sum(axis=1, keepdims=True)).astype(dtype)
    columns: dict[str, Any] = {"id": people["id"]}
    if listed:
        columns["p"] = pa.array(list(labels), type=pa.list_(pa.from_numpy_dtype(dtype)))
    else:
        columns |= {f"p{k}": labels[:, k] for k in range(4)}
    columns["sex"] = pa.array(["f" if code else "m" for code in people["sex"]])
    columns["region"] = people["region"].astype(np.int32)
    columns["weight"] = people["weight"]
    # Tighter than by default: two answers at the edge of the tolerance may differ by more than what
    # is asked of backends.
    return Case(
        name,
        pa.table(columns),
        "p" if listed else [f"p{k}" for k in range(4)],
        asked,
        {"epsilon": 0.03, "tol": 1e-11},
    )


@cache
def cases() -> dict[str, Case]:
    """Return all tables by name."""
    days = [datetime.date(2024, 1, day + 1) for day in range(5)]
    text = ["none", "low", "middle", "high", "Größe"]
    both = {"sensitive_features": ["sex", "region"]}
    found = [
        _classes("text", text),
        _classes("integers", [10, 20, -3, 0, 5], sensitive_features="region"),
        _classes(
            "booleans",
            [False, True, True, True, True],
            **both,
            settings={"epsilon": 0.05, "families": "marginal"},
        ),
        _classes("dates", days, **both),
        _gaps(
            _classes("gaps", text, **both, settings={"epsilon": 0.02, "missing": "group"}), "region"
        ),
        _gaps(
            _classes(
                "left out",
                text,
                **both,
                settings={"epsilon": 0.02, "missing": "exclude", "families": "marginal"},
            ),
            "sex",
        ),
        _classes("weights", text, **both, sample_weight="weight"),
        _classes("controls", text, sensitive_features="sex", control_features="region"),
        _classes("both", text, **both, settings={"epsilon": 0.02, "families": "both"}),
        _classes("four fifths", text, **both, settings={"epsilon": 0.2, "bound": "ratio"}),
        _classes("tiny", text, n=7, sensitive_features="sex"),
        _probabilities("probabilities in lists", np.float64, listed=True, **both),
        _probabilities(
            "probabilities in lists, single", np.float32, listed=True, sensitive_features="sex"
        ),
        _probabilities(
            "probabilities in columns", np.float64, listed=False, **both, sample_weight="weight"
        ),
        _probabilities(
            "probabilities in columns, single",
            np.float32,
            listed=False,
            sensitive_features="region",
        ),
    ]
    return {case.name: case for case in found}


@dataclass(frozen=True, eq=False)
class Expected:
    """What r2b.debias says of a table in memory."""

    fair: r2b.FairLabels
    columns: dict[str, pa.Table]


@cache
def expected(name: str) -> Expected:
    """Solve a case in memory with the kernel of NumPy, and put the labels in all forms beside the
    keys.
    """
    case = cases()[name]
    fair = r2b.debias(case.y(), **case.in_memory(), **case.settings)
    key = case.table["id"]
    columns = {
        "soft": pa.table(
            {"id": key, **{f"new {k}": column for k, column in enumerate(fair.soft_labels.T)}}
        ),
        "sample": pa.table({"id": key, "new 0": _column(fair.sample(SEED, key=key), case)}),
    }
    columns["round"] = pa.table({"id": key, "new 0": _column(fair.round(SEED, key=key), case)})
    rows, labels, weight = fair.expand()
    columns["expand"] = pa.table(
        {"id": key.take(pa.array(rows)), "new 0": _column(labels, case), "new 1": weight}
    )
    return Expected(fair, {form: in_order(table) for form, table in columns.items()})


def _column(values: Any, case: Case) -> Any:
    if isinstance(case.label, list):
        return pa.array([case.label[code] for code in values])
    return values if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values)


def in_order(table: pa.Table) -> pa.Table:
    """Sort rows by their key; repetitions of a row by their new label."""
    order = [("id", "ascending")]
    if table.num_columns == 3 and "new 1" in table.column_names:
        order.append(("new 0", "ascending"))
    return table.sort_by(order)


def new_columns(table: pa.Table, case: Case) -> pa.Table:
    """Return the key and the new columns of a table that has come back, in the order of the
    keys.
    """
    old = case.table.column_names
    assert table.column_names[: len(old)] == old
    new = [name for name in table.column_names[len(old) :] if not name.endswith("_row")]
    made = {"id": table["id"], **{f"new {place}": table[name] for place, name in enumerate(new)}}
    return in_order(pa.table(made))


def check_solved(fair: r2b.FairLabels, name: str) -> None:
    """Prices and certificate are those in memory."""
    known = expected(name).fair
    assert fair.status is known.status and fair.status.ok
    assert fair.groups.tolist() == known.groups.tolist()
    # A constant over the classes of a group changes no response.
    off = fair.prices - known.prices
    assert np.abs(off - off.mean(axis=1, keepdims=True)).max() < CLOSE
    for fact in (
        "disparity",
        "disparity_before",
        "excess",
        "objective",
        "lower_bound",
        "relative_gap",
        "distance",
    ):
        assert abs(getattr(fair.certificate, fact) - getattr(known.certificate, fact)) < CLOSE, fact
    assert np.abs(fair.certificate.means - known.certificate.means).max() < CLOSE


def check_columns(table: pa.Table, name: str, form: str) -> None:
    """New columns are those in memory, row by row; the old ones have not changed."""
    case = cases()[name]
    found, known = new_columns(table, case), expected(name).columns[form]
    assert found.num_rows == known.num_rows and found.column_names == known.column_names
    assert found["id"].to_pylist() == known["id"].to_pylist()
    for column in known.column_names[1:]:
        if pa.types.is_floating(known[column].type):
            assert np.abs(found[column].to_numpy() - known[column].to_numpy()).max() < CLOSE
        else:
            assert found[column].to_pylist() == known[column].to_pylist()
    check_old_columns(table, case, once=form != "expand")


@cache
def _rows(name: str) -> dict[Any, dict[str, Any]]:
    """Return the rows of a case by their key."""
    table = cases()[name].table
    return dict(zip(table["id"].to_pylist(), table.to_pylist(), strict=True))


def check_old_columns(table: pa.Table, case: Case, *, once: bool) -> None:
    """Every row is there with its old values: once, or as often as it is repeated."""
    known = _rows(case.name)
    found = table.select(case.table.column_names).to_pylist()
    assert {row["id"] for row in found} == set(known)
    assert not once or len(found) == len(known)
    for row in found:
        for column, value in known[row["id"]].items():
            assert _same(row[column], value), (column, row[column], value)


def _same(found: Any, value: Any) -> bool:
    if isinstance(value, list):
        return bool(np.array_equal(np.asarray(found), np.asarray(value)))
    if isinstance(found, datetime.datetime):
        found = found.date()
    return (found is None or found != found) if value is None else bool(found == value)


@cache
def expected_audit(name: str) -> r2b.Audit:
    """Audit a case in memory."""
    case = cases()[name]
    settings = {key: value for key, value in case.settings.items() if key == "missing"}
    return r2b.audit(case.y(), **case.in_memory(), **settings, n_permutations=20, n_boot=20)


def check_audit(scanned: Any, name: str) -> None:
    """An audit finds the same where rows live elsewhere."""
    case, known = cases()[name], expected_audit(name)
    settings = {key: value for key, value in case.settings.items() if key == "missing"}
    found = scanned.audit(case.label, **case.asked, **settings, n_permutations=20, n_boot=20)
    assert found.n_rows == known.n_rows and found.left_out == known.left_out
    for one, other in zip(found.families, known.families, strict=True):
        assert (one.name, one.groups, one.rows.tolist()) == (
            other.name,
            other.groups,
            other.rows.tolist(),
        )
        assert np.abs(one.means - other.means).max() < CLOSE
        assert abs(one.disparity - other.disparity) < CLOSE
        # the same counts give the same draws; fewer rows are drawn one by one in memory
        if case.whole and found.n_rows > 100:
            assert one.chance == other.chance and one.interval == other.interval


def as_table(made: Any) -> pa.Table:
    """Bring any frame back as an Arrow table."""
    if hasattr(made, "toArrow"):  # Spark
        return made.toArrow()
    if hasattr(made, "compute"):  # Dask
        return pa.Table.from_pandas(made.compute(), preserve_index=False)
    if hasattr(made, "collect"):  # Polars
        return made.collect().to_arrow()
    if hasattr(made, "to_arrow_table"):  # DuckDB
        return made.to_arrow_table()
    if isinstance(made, pa.RecordBatchReader):
        return made.read_all()
    return made if isinstance(made, pa.Table) else pa.Table.from_batches(made)


def check_everything(
    open_table: Callable[[pa.Table], Any],
    home: Callable[[Any], pa.Table],
    name: str,
    *,
    sample_entries: int | None,
) -> None:
    """Run a case on a backend: solve, audit, and labels in every form.

    Parameters
    ----------
    open_table : callable
        Gives what r2b.scan takes.
    home : callable
        Brings a frame back as an Arrow table.
    sample_entries : int or None
        Numbers that may be brought home; few, so that passes go over the blocks.
    """
    case = cases()[name]
    scanned = r2b.scan(open_table(case.table))
    fair = scanned.debias(
        case.label,
        **case.asked,
        **case.settings,
        **({} if sample_entries is None else {"sample_entries": sample_entries}),
    )
    check_solved(fair, name)
    for form in FORMS:
        key = {"key": "id", "random_state": SEED} if form in ("sample", "round") else {}
        check_columns(home(fair.frame(form, **key)), name, form)
    check_audit(scanned, name)
