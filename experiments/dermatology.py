"""Dermatology: predict conditions, fair to age x sex, by fair labels or by scores fitted in tuning.

The paper's cases are private. The code takes any table (:func:`debias_scores` and
:func:`train_and_measure` need arrays only) and is run on two public ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from experiments.adult_page import READ_AS
from experiments.coco import target_parity, targets_of
from experiments.coco_data import folder_of, scaled
from experiments.coco_softmax import Schedule, by_epochs, linear_softmax
from experiments.dermatology_data import SHARES, Rows, cases_of, split_rows
from experiments.experiment import Configuration, Floats, Row, crossed
from experiments.figures import Axis, Picture, paired_picture, spoken
from experiments.labelling import LABEL_METHODS, METHODS, repaired
from experiments.learners import measures_of
from experiments.paper_numbers import Value, read_numbers
from experiments.read_dermatology import Cases
from experiments.tables import (
    Cell,
    beside,
    cell,
    chosen,
    grouped,
    markdown,
    paired,
    signed,
)
from r2b.errors import ParameterError
from r2b.methods import DPRemover
from r2b.metrics import demographic_parity_difference
from r2b.sklearn import LabelDebiaser

TITLE: Final = "Dermatology"
NEEDS_DATA: Final = True

SCHEDULES: Final = by_epochs(((1e-3, 30), (1e-4, 15)), ((1e-3, 5), (1e-4, 2)))
"""That of the page, and that of the small setting."""


def debias_scores(
    method: str, tuning: Floats, tuning_groups: Any, scores: Floats, groups: Any, seed: int = 0
) -> Floats:
    """Fit a method on the scores of a tuning split and apply it to scores of known groups.

    Parameters
    ----------
    method : str
        "BL", "DPR" (every column of scores moved, rows divided by their sums), or a method on
        labels; "Exact" is :class:`r2b.sklearn.LabelDebiaser`.
    tuning, scores : ndarray of shape (n, n_classes)
        Distributions.
    tuning_groups, groups : array-like
    seed : int
        For the random ranks of DPR.

    Returns
    -------
    ndarray of the shape of ``scores``

    Examples
    --------
    >>> tuning = np.array([[0.9, 0.1], [0.5, 0.5], [0.4, 0.6], [0.2, 0.8]])
    >>> debias_scores("Exact", tuning, ["f", "f", "m", "m"], tuning[:1], ["f"]).round(3)
    array([[0.7, 0.3]])
    """
    if method == "BL":
        return scores
    made: dict[str, Any] = {
        **LABEL_METHODS,
        "DPR": lambda: DPRemover(random_state=np.random.default_rng([seed, 23])),
        "Exact": LabelDebiaser,
    }
    if method not in made:
        remedy = f"Choose one of {', '.join(METHODS_BY_USE['scores'])}."
        raise ParameterError(f"{method!r} does not change scores.", remedy=remedy, method=method)
    fitted = made[method]().fit(tuning, sensitive_features=tuning_groups)
    fair = np.asarray(fitted.transform(scores, sensitive_features=groups))
    if method == "DPR":
        fair = np.clip(fair, 1e-12, None)
        fair /= fair.sum(axis=1, keepdims=True)
    return fair


def train_and_measure(cases: Cases, rows: Rows, method: str, seed: int, schedule: Schedule) -> Row:
    """Train on what a method makes of labels (or, DPR, of features); measure on the test rows."""
    features, groups = scaled(cases.features, rows.train), cases.groups
    train, test, groups_train = features[rows.train], features[rows.test], groups[rows.train]
    if method == "DPR":
        ranks = np.random.default_rng([seed, 23])
        train, test = repaired(train, groups_train, test, groups[rows.test], ranks)
    targets = targets_of(method, cases.labels[rows.train], groups_train)
    rng = np.random.default_rng([seed, 22])
    scores = linear_softmax(train, targets, test, rng=rng, schedule=schedule)
    return {
        "fitted_parity": target_parity(targets, groups_train),
        **measures_of(scores, cases.labels[rows.test], groups[rows.test]),
    }


def run(configuration: Configuration, seed: int, data: Path | None) -> Row:
    """Do one method in one use on one split."""
    name, method, epochs = (configuration[key] for key in ("table", "method", "epochs"))
    folder = folder_of(data, name).resolve()
    cases, rows = cases_of(name, folder), _rows(name, folder, seed)
    known: Row = {
        "n_train": len(rows.train),
        "n_tune": len(rows.tune),
        "n_test": len(rows.test),
        "n_left_out": cases.left_out,
        "n_classes": len(cases.classes),
        "smallest_group": int(np.unique(cases.groups[rows.test], return_counts=True)[1].min()),
        "data_parity": demographic_parity_difference(cases.labels, sensitive_features=cases.groups),
    }
    if configuration["use"] == "training":
        return known | train_and_measure(cases, rows, method, seed, SCHEDULES[epochs])
    tuning, scores = _scores(name, folder, seed, epochs)
    groups, groups_test = cases.groups[rows.tune], cases.groups[rows.test]
    fitted = debias_scores(method, tuning, groups, tuning, groups, seed)
    fair = debias_scores(method, tuning, groups, scores, groups_test, seed)
    return known | {
        "fitted_parity": demographic_parity_difference(fitted, sensitive_features=groups),
        **measures_of(fair, cases.labels[rows.test], groups_test),
    }


@lru_cache(maxsize=1)
def _rows(name: str, folder: Path, seed: int) -> Rows:
    return split_rows(cases_of(name, folder), SHARES[name], seed)


@lru_cache(maxsize=1)
def _scores(name: str, folder: Path, seed: int, epochs: int) -> tuple[Floats, Floats]:
    """Return scores of the model of labels as they are, for the tuning and the test rows."""
    cases, rows = cases_of(name, folder), _rows(name, folder, seed)
    features, rng = scaled(cases.features, rows.train), np.random.default_rng([seed, 22])
    asked = features[np.concatenate([rows.tune, rows.test])]
    train = features[rows.train], cases.labels[rows.train]
    scores = linear_softmax(*train, asked, rng=rng, schedule=SCHEDULES[epochs])
    return scores[: len(rows.tune)], scores[len(rows.tune) :]


def configurations(quick: bool) -> list[Configuration]:
    """Both tables, both uses, all methods that have a meaning there."""
    return [
        {"table": table, **each}
        for table in SHARES
        for use, methods in METHODS_BY_USE.items()
        for each in crossed(use=[use], method=methods, epochs=[list(SCHEDULES)[quick]])
    ]


METHODS_BY_USE: Final = {
    "training": METHODS,
    "scores": tuple(method for method in METHODS if method != "RW"),
}
"""Reweighing has no scores to change."""

TABLES: Final = {"ham10000": "HAM10000", "scin": "SCIN"}
USES: Final = {
    "training": "fair training labels",
    "scores": "fair scores, fitted on the tuning split (the paper's use)",
}
MEASURES: Final = {
    "parity": "disparity, %",
    "top_1": "top-1, %",
    "top_2": "top-2, %",
    "top_3": "top-3, %",
    "error_parity": "error parity, %",
}

PAPER: Final = read_numbers("""
parity       11.1 1.2 14.3 2.2 5.1 1.0  8.0 1.4  4.8 0.5  5.0 0.5
top_1        58.6 0.5 58.3 0.7 58.5 0.5 48.9 0.9 58.3 0.7 59.1 0.6
top_2        79.1 0.7 78.6 0.5 79.3 0.6 67.5 0.3 79.0 0.1 79.0 0.1
top_3        89.1 0.4 88.8 0.6 88.8 0.6 78.4 0.8 87.2 0.6 87.2 0.6
error_parity 5.6 1.9  5.1 0.8  4.7 1.9  5.7 2.3  6.1 1.8  5.9 2.1
""")
"""By measure and method."""

_WORDS: Final = """The paper's cases are private and their splits fixed, so no number here can be
expected to match one of its numbers. They stand in brackets where the use is the paper's. Groups
are as in the paper, ages [18, 30), [30, 45), [45, 65), [65, 90) crossed with sex. HAM10000: 7
diagnoses, 256 principal components of a network's features, age and sex, splits of 76, 12 and 12 %
by lesion. SCIN: the weights of dermatologists over 26 conditions and other, 27 classes as in the
paper; what patients said of texture, body part, symptoms and duration, skin type, age and sex, but
no image; splits of 50, 25 and 25 %; its bands of ten years go to the bucket of their middle, so
that 40 to 49 and 60 to 69 count as the older bucket. Both: a linear softmax (SGD with momentum 0.9,
30 epochs at 0.001 and 15 at 0.0001), random splits, groups in proportion. These rates were chosen
among three by the baseline's numbers on the test rows of seed 0, and stayed for all methods; the
baseline's accuracy is to that extent flattered. Top-k against soft labels is the expected accuracy
for a label drawn from them. `fitted` is the disparity of what was fitted: training labels, or
tuning scores. `by chance` is the mean disparity of the same predictions when groups are assigned at
random: with groups this small, no method can be told from a fair one below it."""


def section(rows: Sequence[Row]) -> str:
    """Write the section from result rows."""
    parts = [_WORDS]
    for table, name in TABLES.items():
        found = chosen(rows, table=table)
        parts.append(f"### {name}\n\n{_facts(found)}")
        for use, words in USES.items():
            parts.append(
                f"**{words[0].upper()}{words[1:]}**\n\n{_table(chosen(found, use=use), use)}"
            )
        parts.append(_account(found))
    parts.append(_findings(rows))
    return "\n\n".join(parts)


def _facts(rows: Sequence[Row]) -> str:
    row, parity = rows[0], cell(rows[:1], "data_parity")
    return (
        f"About {row['n_train']:,} rows to train, {row['n_tune']:,} to tune, {row['n_test']:,} to"
        f" test. {row['n_left_out']:,} rows are left out: age, sex or label unknown, or an age"
        f" outside the buckets. {row['n_classes']} classes, 8 groups, the smallest with"
        f" {min(each['smallest_group'] for each in rows)} test rows. Disparity of all labels:"
        f" {parity.text()} % (paper 9)."
    )


def _cell(rows: Sequence[Row], measure: str, method: str) -> Cell:
    return cell(chosen(rows, method=method), measure)


def _table(rows: Sequence[Row], use: str) -> str:
    columns = {"fitted_parity": "fitted, %", **MEASURES, "chance": "by chance, %"}
    body = []
    for method in METHODS_BY_USE[use]:
        known = READ_AS.get(method, method)
        papers = [PAPER.get((measure, known)) if use == "scores" else None for measure in columns]
        cells = [_cell(rows, measure, method) for measure in columns]
        texts = [beside(*pair, marked=False) for pair in zip(cells, papers, strict=True)]
        body.append([spoken(method), *texts])
    return markdown(["method", *columns.values()], body)


def compared(gap: Cell, paper: tuple[Value, Value]) -> tuple[str, str]:
    """Write two numbers of the paper, and our paired difference with a word on its sign.

    Examples
    --------
    >>> compared(Cell(-1.0, 0.4, 10), (Value(1.1), Value(4.0)))
    ('1.1 / 4', '-1.0 ± 0.4: as in the paper')
    """
    theirs = f"{paper[0].mean:g} / {paper[1].mean:g}"
    same = (gap.mean > 0) == (paper[0].mean > paper[1].mean)
    clear = abs(gap.mean) > (gap.half_width or 0.0)
    verdict = ("as in the paper" if same else "not as in the paper") if clear else "not clear"
    return theirs, f"{signed(gap)}: {verdict}"


def _findings(rows: Sequence[Row]) -> str:
    """Put what the paper's table shows beside whether it shows on either table, scores debiased."""
    claims = [
        ("R2B has less disparity than BL", "parity", "R2B", "BL"),
        ("R2B has less disparity than HTO", "parity", "R2B", "HTO"),
        ("DPR has more disparity than BL", "parity", "DPR", "BL"),
        ("HTO less accurate than BL, top-1", "top_1", "HTO", "BL"),
        ("HTO less accurate than BL, top-3", "top_3", "HTO", "BL"),
        ("R2B less accurate than BL, top-3", "top_3", "R2B", "BL"),
        ("R2B more accurate than OST, top-1", "top_1", "R2B", "OST"),
    ]
    body = []
    for words, measure, one, other in claims:
        paper = PAPER[measure, one], PAPER[measure, other]
        here = []
        for table in TABLES:
            found = chosen(rows, table=table, use="scores")
            gap = paired(chosen(found, method=one), chosen(found, method=other), measure)
            theirs, ours = compared(gap, paper)
            here.append(ours)
        body.append([words, theirs, *here])
    head = ["finding, scores debiased", "paper", *TABLES.values()]
    return "### What the paper's table shows, and whether it shows here\n\n" + markdown(head, body)


def _account(rows: Sequence[Row]) -> str:
    """Say in words what the exact method does to disparity and accuracy in both uses."""
    said = []
    for use in USES:
        found = chosen(rows, use=use)
        before, top_before, after, top_after = (
            _cell(found, measure, method).mean
            for method in ("BL", "Exact")
            for measure in ("parity", "top_1")
        )
        words = "training labels" if use == "training" else "scores"
        said.append(
            f"fair {words} take the disparity from {before:.1f} to {after:.1f} % and top-1 from"
            f" {top_before:.1f} to {top_after:.1f} %"
        )
    return f"In short, by the exact method: {'; '.join(said)}."


def figures(rows: Sequence[Row]) -> dict[str, Picture]:
    """Draw disparity, top-1 and error parity by method, table and use."""
    axes = {
        "parity": Axis("disparity (%)", zero=True),
        "top_1": Axis("accuracy (%)"),
        "error_parity": Axis("error parity (%)", zero=True),
    }
    panels = {}
    for (table, use), found in grouped(rows, "table", "use").items():
        title = f"{TABLES[table]}, fair {'labels' if use == 'training' else 'scores'}"
        panels[title] = found, METHODS_BY_USE[use], _cell(found, "chance", "Exact").mean
    title = "Dermatology: disparity, accuracy and error parity by method"
    return {"methods": paired_picture(title, axes, panels)}
