"""Tables with classes and groups, splits of their rows, and learners for ``models.py``."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone

import r2b
from experiments.adult import NUMBERS, TEXTS

Array = np.ndarray[Any, np.dtype[Any]]

TEST_SHARE = 1 / 3
COMPONENTS = 24  # of the picture features, in order of their variance
AGES = ((0, 45, "under 45"), (45, 65, "45 to 64"), (65, 200, "65 and over"))
FEWEST = 150  # rows of a race, below which it is too small to be compared


@dataclass(frozen=True, eq=False)
class Table:
    """Features without the attribute, classes as 0, 1, ..., groups, and clusters of rows."""

    name: str
    title: str
    X: Array
    y: Array
    groups: Array
    clusters: Array | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """What the page says of it."""
        names, counts = np.unique(self.groups, return_counts=True)
        sizes = {
            "rows": len(self.y),
            "features": self.X.shape[1],
            "classes": len(np.unique(self.y)),
            "groups": len(names),
        }
        return {
            "name": self.name,
            "title": self.title,
            **sizes,
            "smallest": str(names[counts.argmin()]),
            "smallest_rows": int(counts.min()),
        }


@dataclass(frozen=True, eq=False)
class Split:
    """Rows to train on and rows to measure on."""

    X: Array
    y: Array
    groups: Array
    clusters: Array | None
    X_test: Array
    y_test: Array
    groups_test: Array
    clusters_test: Array | None = None

    @property
    def classes(self) -> Array:
        """The classes of the training rows, sorted."""
        return np.unique(self.y)


class Unavailable(Exception):
    """A table that is not on this machine; the message says why."""


@cache
def _adult() -> r2b.datasets.AdultTable:
    return r2b.datasets.load_adult().complete()


def _codes(names: Array) -> Array:
    return np.unique(names.astype(str), return_inverse=True)[1].astype(np.int64)


def _adult_features(left_out: tuple[str, ...]) -> Array:
    """Return numbers, and categories as columns of 0 and 1; no sex, no race, no label."""
    table = _adult()
    columns = [table[name].astype(float) for name in NUMBERS]
    for name in TEXTS:
        if name in left_out:
            continue
        values, counts = np.unique(table[name], return_counts=True)
        columns += [(table[name] == value).astype(float) for value in values[counts >= FEWEST]]
    return np.column_stack(columns)


def education(attribute: str) -> Table:
    """Adult: 16 classes of education, by sex or by race."""
    table = _adult()
    title = f"Adult, education by {attribute}"
    return Table(
        f"education-{attribute}",
        title,
        _adult_features(("race",)),
        _codes(table["education"]),
        table[attribute].astype(str),
    )


def income(attribute: str) -> Table:
    """Adult: income above 50,000 or not, with education among the features."""
    table = _adult()
    place = {name: k for k, name in enumerate(table.education_order)}
    years = np.array([place[name] for name in table["education"].tolist()], float)
    X = np.column_stack([_adult_features(("race", "income")), years])
    return Table(
        f"income-{attribute}",
        f"Adult, income by {attribute}",
        X,
        _codes(table["income"]),
        table[attribute].astype(str),
    )


@cache
def _dermatology() -> tuple[Array, Any]:
    root = os.environ.get("R2B_DATA")
    if not root:
        raise Unavailable(
            "HAM10000 is not part of the package: set R2B_DATA to the folder that holds ham10000"
        )
    folder = Path(root) / "ham10000"
    files = (
        folder / "HAM10000_metadata.csv.gz",
        folder / "ham10000_efficientnet_lite0_pca256.parquet",
    )
    if missing := [path.name for path in files if not path.exists()]:
        raise Unavailable(f"the folder of R2B_DATA has no ham10000/{missing[0]}")
    import pandas as pd

    features = pd.read_parquet(files[1]).set_index("image_id")
    metadata = pd.read_csv(files[0])
    chosen = features.loc[metadata["image_id"], features.columns[:COMPONENTS]]
    return chosen.to_numpy(np.float64), metadata


def diagnosis(attribute: str) -> Table:
    """HAM10000: seven diagnoses from picture features, by sex or by three groups of age."""
    X, metadata = _dermatology()
    if attribute == "sex":
        groups = metadata["sex"].to_numpy(str)
        keep = np.isin(groups, ("female", "male"))
    else:
        age = metadata["age"].to_numpy(float)
        groups = np.select(
            [(age >= low) & (age < high) for low, high, _ in AGES],
            [name for *_, name in AGES],
            "unknown",
        )
        keep = groups != "unknown"
    y, lesions = _codes(metadata["dx"].to_numpy(str)), metadata["lesion_id"].to_numpy(str)
    return Table(
        f"diagnosis-{attribute}",
        f"HAM10000, diagnosis by {attribute}",
        X[keep],
        y[keep],
        groups[keep],
        lesions[keep],
    )


def several_groups(name: str, title: str) -> Table:
    """Return a table of ``small_groups.py``, its attributes crossed, without its tiny groups."""
    from benchmarks.small_groups import CHOSEN_ON

    try:
        X, y, who = CHOSEN_ON[name]()
    except (KeyError, FileNotFoundError) as error:
        raise Unavailable(f"the folder of R2B_DATA does not hold it ({error})") from error
    groups = who.astype(str).agg(" ".join, axis=1).to_numpy(str)
    names, counts = np.unique(groups, return_counts=True)
    kept = np.isin(groups, names[counts >= FEWEST])
    return Table(name.replace(" ", "-"), title, X[kept], _codes(y)[kept], groups[kept])


TABLES: dict[str, Callable[[], Table]] = {
    "education-sex": lambda: education("sex"),
    "income-sex": lambda: income("sex"),
    "education-race": lambda: education("race"),
    "income-race": lambda: income("race"),
    "compas": lambda: several_groups("compas", "COMPAS, risk by race"),
    "students": lambda: several_groups("students", "Students, result by gender, disability, age"),
    "dutch": lambda: several_groups("dutch", "Dutch census, occupation by sex and birth"),
    "synthetic-0": lambda: several_groups("synthetic 0", "Synthetic, four classes by group"),
    "diagnosis-sex": lambda: diagnosis("sex"),
    "diagnosis-age": lambda: diagnosis("age"),
}


def split_of(table: Table, n_rows: int, seed: int) -> Split:
    """Draw rows of a table, a third of them to measure on, and scale by the training rows.

    Rows of one cluster stay on one side.
    """
    rng = np.random.default_rng(seed)
    units = (
        np.arange(len(table.y))
        if table.clusters is None
        else np.unique(table.clusters, return_inverse=True)[1]
    )
    place = rng.permutation(units.max() + 1)[units]  # of a row's cluster in a random order
    order = np.argsort(place, kind="stable")[:n_rows]
    n_test = int(TEST_SHARE * len(order))
    while place[order[n_test]] == place[order[n_test - 1]]:
        n_test += 1
    test, train = order[:n_test], order[n_test:]
    X = (table.X - table.X[train].mean(axis=0)) / np.maximum(table.X[train].std(axis=0), 1e-9)
    together = [None if table.clusters is None else table.clusters[rows] for rows in (train, test)]
    return Split(
        X[train],
        table.y[train],
        table.groups[train],
        together[0],
        X[test],
        table.y[test],
        table.groups[test],
        together[1],
    )


class Remembered(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A learner that is trained once on the same rows: methods that train alike share the model.

    Each of them is charged the processor time of that one fit, through ``charged``, so that nobody
    gains by coming later.
    """

    known: dict[bytes, tuple[Any, float]] = {}  # noqa: RUF012 - one memory for all clones
    charged = 0.0

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Remembered:
        words = hashlib.sha256(repr(self.estimator).encode())
        for given in (X, y, sample_weight):
            array = np.ascontiguousarray(given)
            words.update(
                repr((array.dtype.str, array.shape)).encode()
                + (b"none" if given is None else array.tobytes())
            )
        key = words.digest()
        if key not in Remembered.known:
            begun = time.process_time()
            further = {} if sample_weight is None else {"sample_weight": sample_weight}
            model = clone(self.estimator).fit(X, y, **further)
            Remembered.known[key] = model, time.process_time() - begun
        else:
            Remembered.charged += Remembered.known[key][1]
        self.model_ = Remembered.known[key][0]
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X: Any) -> Array:
        return np.asarray(self.model_.predict(X))

    def predict_proba(self, X: Any) -> Array:
        return np.asarray(self.model_.predict_proba(X))


def learners() -> dict[str, Callable[[], Any]]:
    """Return the learners: small, on one thread, and with a fixed seed."""
    from lightgbm import LGBMClassifier
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    boosting = {
        "n_estimators": 30,
        "num_leaves": 15,
        "learning_rate": 0.15,
        "n_jobs": 1,
        "verbosity": -1,
        "random_state": 0,
    }
    forest = {
        "n_estimators": 20,
        "max_depth": 8,
        "max_samples": 0.3,
        "min_samples_leaf": 5,
        "n_jobs": 1,
        "random_state": 0,
    }
    return {
        "logistic regression": lambda: Remembered(LogisticRegression(tol=1e-3, max_iter=300)),
        "LightGBM": lambda: Remembered(LGBMClassifier(**boosting)),
        "random forest": lambda: Remembered(RandomForestClassifier(**forest)),
    }
