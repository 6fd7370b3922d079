"""Adult: predict education (16 classes), fair to sex, without (p = 0) and with injected bias (0.5).

The paper leaves much open. What is chosen here is what its numbers support: rows without a missing
value, classes in the order of ``education-num``, men as 1, 29 features without sex, parity of
predicted probabilities, one forest per class, drawn labels for kNN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from experiments.adult_page import figures as figures
from experiments.adult_page import section as section
from experiments.experiment import Array, Codes, Configuration, Floats, Row, crossed
from experiments.labelling import (
    METHODS,
    VISIBLE,
    drawn_classes,
    labels_of,
    repaired,
    visible_labels,
    weights_of,
)
from experiments.learners import (
    TREES,
    class_forest,
    measures_of,
    nearest,
    per_class_forest,
    vote,
)
from experiments.paper_numbers import METHODS as PAPER_METHODS
from r2b.datasets import load_adult
from r2b.metrics import demographic_parity_difference

TITLE: Final = "Adult"


N_CLASSES: Final = 16
TEST_SHARE: Final = 0.25
NUMBERS: Final = ("age", "fnlwgt", "capital-gain", "capital-loss", "hours-per-week")
TEXTS: Final = (
    "workclass",
    "marital-status",
    "relationship",
    "occupation",
    "race",
    "native-country",
    "income",
)
ONE_HOT: Final = {
    "mixed": ("workclass", "marital-status", "relationship"),
    "ordinal": (),
    "one-hot": TEXTS,
    "without income": ("workclass", "marital-status", "relationship"),
}
"""Ways to code the text columns: those in one-hot code; the others are numbered in the order of the
alphabet. "mixed" has 29 columns."""
CLASSIFIER: Final = "rf classifier"
"""scikit-learn's ``RandomForestClassifier(max_depth=5)`` as it comes, trained on drawn labels."""
KEPT_TREES: Final = 10
"""Trees per class on all rows, where 100 would take ten times as long."""
QUICK_ROWS: Final = 6_000
QUICK_TREES: Final = 10

Columns = dict[str, Array]


@dataclass(frozen=True, eq=False)
class Split:
    """Columns without sex, education as 0 to 15, and sex, of training and test rows."""

    columns: Columns
    y: Codes
    sex: Codes
    columns_test: Columns
    y_test: Codes
    sex_test: Codes


@lru_cache(maxsize=2)
def columns_of(missing: str | None = None) -> tuple[Columns, Codes, Codes]:
    """Return columns, education and sex; ``missing="kept"`` takes all 48,842 rows."""
    table = load_adult() if missing == "kept" else load_adult().complete()
    columns: Columns = {name: table[name].astype(float) for name in NUMBERS}
    columns |= {name: table[name] for name in TEXTS}
    place = {name: k for k, name in enumerate(table.education_order)}
    y = np.array([place[name] for name in table["education"].tolist()])
    return columns, y, (table["sex"] == "Male").astype(np.int64)


@lru_cache(maxsize=2)
def texts_of(missing: str | None = None) -> Columns:
    """Return the texts of each text column, in the order of the alphabet."""
    columns = columns_of(missing)[0]
    return {name: np.unique(columns[name]) for name in TEXTS}


def split_of(
    p: float,
    seed: int,
    *,
    rows: int | None = None,
    order: str | None = None,
    missing: str | None = None,
) -> Split:
    """Split into 75 and 25 %, and inject bias: with chance p a label becomes the sex, 0 or 1.

    The split depends on the seed alone, so that the neighbours of a row are the same with and
    without injected bias.
    """
    columns, y, sex = columns_of(missing)
    if order == "frequency":
        y = np.argsort(np.argsort(-np.bincount(y, minlength=N_CLASSES)))[y]
    drawn = np.random.default_rng(seed).permutation(len(y))[:rows]
    y = np.where(np.random.default_rng([seed, 1]).random(len(y)) < p, sex, y)
    n_test = int(TEST_SHARE * len(drawn))
    train, test = (
        ({name: column[part] for name, column in columns.items()}, y[part], sex[part])
        for part in (drawn[n_test:], drawn[:n_test])
    )
    return Split(*train, *test)


def repaired_columns(split: Split, seed: int, repair: str, missing: str | None) -> Split:
    """Move columns onto the distribution that men and women share.

    ``repair`` says which: "columns" are all of them, texts by their place in the alphabet, rounded
    to a text again; "numbers" and "texts" leave the others as they are; "shares" moves texts as
    categories, from those that are too common in a group to those that are too rare.
    """
    values = texts_of(missing)
    # A country with one person may be missing from the training rows, and a category that was not
    # fitted has no share.
    ranked = {"numbers": (), "shares": ("native-country",)}.get(repair, TEXTS)
    moved = {"numbers": NUMBERS, "texts": TEXTS}.get(repair, (*NUMBERS, *TEXTS))

    def numbers(columns: Columns) -> Columns:
        ranks = {
            name: np.searchsorted(values[name], columns[name]).astype(float) for name in ranked
        }
        return {name: ranks.get(name, columns[name]) for name in moved}

    def texts(after: Columns) -> Columns:
        return {name: values[name][np.rint(after[name]).astype(int)] for name in ranked}

    before = split.columns, split.columns_test
    parts = numbers(before[0]), split.sex, numbers(before[1]), split.sex_test
    after = repaired(*parts, np.random.default_rng([seed, 2]))
    train, test = (old | new | texts(new) for old, new in zip(before, after, strict=True))
    return replace(split, columns=train, columns_test=test)


def encoded(columns: Columns, features: str, missing: str | None = None) -> Floats:
    """Return the columns as numbers."""
    coded, numbered = [np.asarray(columns[name], dtype=float) for name in NUMBERS], []
    for name, values in texts_of(missing).items():
        if name in ONE_HOT[features]:
            coded += [(columns[name] == value).astype(float) for value in values]
        elif name != "income" or features != "without income":
            numbered.append(np.searchsorted(values, columns[name]).astype(float))
    return np.column_stack(coded + numbered)


def encoded_columns(features: str) -> int:
    """Return how many columns a way to code the features has.

    Examples
    --------
    >>> encoded_columns("mixed")
    29
    """
    columns = {name: values[:1] for name, values in columns_of()[0].items()}
    return int(encoded(columns, features).shape[1])


@lru_cache(maxsize=2)
def scaled_features(
    features: str,
    rows: int | None,
    seed: int,
    repair: str | None = None,
    missing: str | None = None,
) -> tuple[Floats, Floats]:
    """Return training and test features, scaled by the training rows to 0 and 1."""
    split = split_of(0.0, seed, rows=rows, missing=missing)
    if repair is not None and repair != "codes":
        split = repaired_columns(split, seed, repair, missing)
    X, X_test = (
        encoded(columns, features, missing) for columns in (split.columns, split.columns_test)
    )
    if repair == "codes":
        X, X_test = repaired(X, split.sex, X_test, split.sex_test, np.random.default_rng([seed, 2]))
    low, high = X.min(axis=0), X.max(axis=0)
    X, X_test = ((Z - low) / np.where(high > low, high - low, 1.0) for Z in (X, X_test))
    return X, X_test


@lru_cache(maxsize=2)
def _neighbours(*which: Any) -> Codes:
    return nearest(*scaled_features(*which))


def run(configuration: Configuration, seed: int, data: Path | None) -> Row:
    """Train a learner on what a method makes of the training rows; measure it on the test rows."""
    asked = {"missing": None, "labels": "drawn", "ties": "average", **configuration}
    p, rows, order, method = (asked[name] for name in ("p", "rows", "order", "method"))
    split = split_of(p, seed, rows=rows, order=order, missing=asked["missing"])
    repair = asked["repair"] if method == "DPR" else None
    which = asked["features"], rows, seed, repair, asked["missing"]
    if method == VISIBLE:
        soft = _visible(asked["features"], order, rows, p, seed)
    else:
        soft = labels_of(method, split.y, split.sex)
    weight, rng = weights_of(method, split.y, split.sex), np.random.default_rng([seed, 3])
    learner, trees = asked["learner"], asked["trees"]
    if learner == "rf":
        scores = per_class_forest(*scaled_features(*which), soft, weight, seed, trees)
    elif learner == CLASSIFIER:
        labels = drawn_classes(soft, rng)
        scores = class_forest(*scaled_features(*which), labels, N_CLASSES, weight, seed, trees)
    elif asked["labels"] == "soft":
        scores = soft[_neighbours(*which)].mean(axis=1)
    else:
        scores = vote(_neighbours(*which), drawn_classes(soft, rng), N_CLASSES, weight)
    return {
        "data_parity": demographic_parity_difference(split.y, sensitive_features=split.sex),
        "label_parity": demographic_parity_difference(soft, sensitive_features=split.sex),
        **measures_of(scores, split.y_test, split.sex_test, ties=asked["ties"]),
    }


@lru_cache(maxsize=2)
def _visible(features: str, order: str, rows: int | None, p: float, seed: int) -> Floats:
    """Return labels that are fair to sex as the features show it to boosted trees."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    split = split_of(p, seed, rows=rows, order=order)
    learner = HistGradientBoostingClassifier(random_state=0)
    X, _ = scaled_features(features, rows, seed)
    return visible_labels(X, split.y, split.sex, learner, seed)


def configurations(quick: bool) -> list[Configuration]:
    """List two learners, with and without injected bias, and all methods.

    The full setting adds scikit-learn's forest as it comes, and the paper's methods on all rows.
    """
    rows, trees = (QUICK_ROWS, QUICK_TREES) if quick else (None, TREES)
    listed = settings(("knn", None), ("rf", trees), methods=(*METHODS, VISIBLE), rows=rows)
    if not quick:
        every = (CLASSIFIER, trees), ("knn", None), ("rf", KEPT_TREES)
        listed += settings(every[0], methods=PAPER_METHODS)
        listed += settings(*every, methods=PAPER_METHODS, missing="kept")
    return listed


def settings(
    *learners: tuple[str, int | None], methods: Sequence[str], **more: Any
) -> list[Configuration]:
    """List methods for learners and their trees, with and without injected bias."""
    usual = {"features": "mixed", "order": "education-num", "repair": "columns", "rows": None}
    return [
        {**usual, "learner": learner, "trees": trees, **each, **more}
        for learner, trees in learners
        for each in crossed(p=(0.0, 0.5), method=methods)
    ]
