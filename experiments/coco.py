"""COCO: predict the shares of objects in an image, fair to the gender that its captions name.

On the official layout this is the paper's experiment. On the table of photographs, tags take the
place of objects, and features of a smaller network that of ResNet-50's; ``source`` says which.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from experiments.coco_data import images_of, split_of
from experiments.coco_softmax import (
    PAPER_SCHEDULE,
    Schedule,
    SoftmaxClassifier,
    by_epochs,
    linear_softmax,
)
from experiments.experiment import Codes, Configuration, Floats, Row, crossed
from experiments.figures import Axis, Picture, paired_picture, spoken
from experiments.labelling import (
    FAIR_MODEL,
    LABEL_METHODS,
    METHODS,
    VISIBLE,
    repaired,
    visible_labels,
)
from experiments.learners import Sample, measures_of
from experiments.paper_numbers import Value, read_numbers
from experiments.tables import Cell, cell, chosen, grouped, markdown, paired, signed
from r2b.methods import Reweighing, Unchanged
from r2b.metrics.performance import error_parity, tv_accuracy

TITLE: Final = "COCO"
NEEDS_DATA: Final = True

SCHEDULES: Final = by_epochs(PAPER_SCHEDULE, ((1e-3, 20), (1e-4, 10), (1e-5, 10)))
"""The paper's, and that of the small setting."""
SHOWN: Final = (*METHODS, VISIBLE, FAIR_MODEL)
GROUP_PENALTY: Final = 0.01
"""C of the logistic regression that predicts gender: 256 features, 1,650 rows."""


def targets_of(method: str, labels: Floats, groups: Codes) -> Floats:
    """Return the targets of training.

    They are fair labels, or the weights that reweighing gives every (row, class) pair.
    """
    if method == "RW":
        return Reweighing().fit_transform(labels, sensitive_features=groups)
    return LABEL_METHODS.get(method, Unchanged)().fit_transform(labels, sensitive_features=groups)


def target_parity(targets: Floats, groups: Codes) -> float:
    """Return the disparity of targets.

    A group's mean is its share of the weight, which for distributions is the plain mean.

    Examples
    --------
    >>> target_parity(np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([0, 1]))
    0.5
    """
    sums = np.stack([targets[groups == group].sum(axis=0) for group in np.unique(groups)])
    return float(np.ptp(sums / sums.sum(axis=1, keepdims=True), axis=0).max())


def run(configuration: Configuration, seed: int, data: Path | None) -> Row:
    """Train on what one method makes of the training rows, and measure on the test rows."""
    source, split = _split(data, configuration["p"], seed)
    X, X_test, groups, groups_test = split.X, split.X_test, split.groups, split.groups_test
    method, schedule = configuration["method"], SCHEDULES[configuration["epochs"]]
    label_parity: float | None = None
    if method == FAIR_MODEL:
        scores = _fair_model(split, schedule, seed)
    else:
        if method == VISIBLE:
            targets = visible_labels(X, split.y, groups, _gender(), seed)
        else:
            targets = targets_of(method, split.y, groups)
        if method == "DPR":
            X, X_test = repaired(X, groups, X_test, groups_test, np.random.default_rng([seed, 13]))
        label_parity = target_parity(targets, groups)
        rng = np.random.default_rng([seed, 14])
        scores = linear_softmax(X, targets, X_test, rng=rng, schedule=schedule)
    accuracy = tv_accuracy(split.y_test, scores)
    return {
        "source": source,
        "n_train": len(split.y),
        "n_test": len(split.y_test),
        "n_features": split.X.shape[1],
        "n_classes": split.y.shape[1],
        "data_parity": target_parity(split.y, groups),
        "label_parity": label_parity,
        **measures_of(scores, split.y_test, groups_test),
        "tv_accuracy": accuracy.value,
        "error_parity": error_parity(accuracy, sensitive_features=groups_test).value,
    }


def _gender() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=GROUP_PENALTY, max_iter=1_000)


def _fair_model(split: Sample, schedule: Schedule, seed: int) -> Floats:
    """Return the fair probabilities of a ParityClassifier around the same learner."""
    from r2b.sklearn import ParityClassifier

    learner = SoftmaxClassifier(schedule, seed)
    options: dict[str, Any] = {"form": "soft", "cv": 5, "frontier": 0, "random_state": seed}
    model = ParityClassifier(learner, group_estimator=_gender(), **options)
    model.fit(split.X, split.y, sensitive_features=split.groups)
    return np.asarray(model.predict_proba(split.X_test))


@lru_cache(maxsize=1)
def _split(data: Path | None, p: float, seed: int) -> tuple[str, Sample]:
    images = images_of(data)
    return images.source, split_of(images, p, seed)


def configurations(quick: bool) -> list[Configuration]:
    """List all methods with and without injected bias.

    The small setting takes a tenth of the epochs, and leaves our own models out.
    """
    methods = METHODS if quick else SHOWN
    return crossed(p=(0.0, 0.5), method=methods, epochs=[list(SCHEDULES)[quick]])


TITLES: Final = {
    "parity": "disparity",
    "tv_accuracy": "accuracy",
    "top_1": "top-1",
    "top_2": "top-2",
    "top_3": "top-3",
    "error_parity": "error parity",
}
DATA_PARITY: Final = {0.0: Value(6.2), 0.5: Value(52.9)}

PAPER: Final = read_numbers("""
parity       0.0 2.6 .4  6.4 1.8  2.2 .3  3.8 .7  2.2 .4  2.4 .4
parity       0.5 4.0 .6  52.3 3.4 0.7 .2  1.3 .2  1.0 .4  1.1 .4
tv_accuracy  0.0 40.4 .2 28.0 2.0 39.8 .2 32.8 .1 40.6 .2 41.3 .2
tv_accuracy  0.5 43.8 .3 50.1 2.7 42.5 .2 39.6 .2 43.8 .2 48.1 .4
error_parity 0.0 4.4 .5  5.7 1.0  4.0 .5  5.1 .6  4.2 .5  5.1 .5
error_parity 0.5 23.1 .7 25.4 3.0 21.9 .4 17.1 .4 22.7 .5 38.7 .8
""")
"""By measure, p and method."""

_CHOICES: Final = """\
Choices, where the paper leaves them open: rows of 32 images per step of SGD; features centred and
scaled to unit variance by the training rows; men 0 and women 1, so that injected bias turns a man's
image into class 0 and a woman's into class 1. Accuracy is in total variation; top-k is the expected
accuracy for a label drawn from the soft label. Reweighing weighs every (image, class) pair.
`visible groups` are the fair labels of `r2b.sklearn.fair_labels`, and `ParityClassifier` is that
class around the same learner with its fair probabilities; both predict gender by a logistic
regression (C = 0.01) inside of the training rows."""

_STAND_IN: Final = """\
**The data stand in for the paper's.** Its 22,616 images with 80 classes and ResNet-50 features were
not available. These are {n} photographs of COCO with one of {classes} tags besides person, whose
caption says man or woman and not both, and {features} principal components of a smaller network
(EfficientNet-Lite0). `experiments` runs the paper's own setting from a folder with the official
`annotations/` and features or images."""


def section(rows: Sequence[Row]) -> str:
    """Write the section from result rows."""
    first = rows[0]
    parts = [_CHOICES]
    if not str(first["source"]).startswith("official"):
        n = first["n_train"] + first["n_test"]
        parts.insert(
            0,
            _STAND_IN.format(n=f"{n:,}", classes=first["n_classes"], features=first["n_features"]),
        )
    parts.append(
        f"Read: {first['source']}; {first['n_train']:,} images to train, {first['n_test']:,} to"
        " test."
    )
    parts += [f"### p = {p:g}\n\n{words(rows, p)}\n\n{table(rows, p)}" for p in (0.0, 0.5)]
    return "\n\n".join(parts)


def words(rows: Sequence[Row], p: float) -> str:
    """Say how much disparity the labels have, and how much chance alone gives predictions."""
    ours, left = _cell(rows, "data_parity", p, "BL"), _cell(rows, "label_parity", p, "R2B")
    chance = _cell(rows, "chance", p, "R2B")
    return (
        f"Disparity of the training labels: {ours.text()} % (paper {DATA_PARITY[p].mean:g}), after"
        f" R2B {left.mean:.2g} %. With gender assigned at random, the same predictions have a"
        f" disparity of {chance.mean:.1f} %, which so few test images show by chance."
    )


def table(rows: Sequence[Row], p: float, measures: Sequence[str] = tuple(TITLES)) -> str:
    """Write one table: methods by measures, in percent, with the paper's numbers in brackets."""
    body = []
    base = chosen(rows, p=p, method="R2B")
    for method in _methods(rows):
        found, line = chosen(rows, p=p, method=method), [spoken(method)]
        for measure in measures:
            paper = PAPER.get((measure, p, method))
            theirs = "" if paper is None else f" ({paper.mean:g})"
            line.append(f"{cell(found, measure).text()}{theirs}")
        gap = paired(found, base, "parity")
        body.append([*line, "" if method == "R2B" else signed(gap)])
    head = ["method", *(TITLES[measure] for measure in measures), "disparity minus R2B's"]
    return markdown(head, body)


def _methods(rows: Sequence[Row]) -> list[str]:
    """List the methods that were run: the small setting leaves our models out."""
    there = {row["method"] for row in rows}
    return [method for method in SHOWN if method in there]


def _cell(rows: Sequence[Row], measure: str, p: float, method: str) -> Cell:
    return cell(chosen(rows, p=p, method=method), measure)


def figures(rows: Sequence[Row]) -> dict[str, Picture]:
    """Draw disparity, accuracy and error parity by method."""
    axes = {
        "parity": Axis("disparity (%)", zero=True),
        "tv_accuracy": Axis("accuracy in total variation (%)"),
        "error_parity": Axis("error parity (%)", zero=True),
    }
    panels = {
        f"p = {p:g}": (found, _methods(found), cell(found, "chance").mean)
        for (p,), found in grouped(rows, "p").items()
    }
    title = "COCO: disparity, accuracy and error parity by method"
    return {"methods": paired_picture(title, axes, panels)}
