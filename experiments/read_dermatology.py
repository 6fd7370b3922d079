"""Dermatology tables as the paper groups them: four ages by sex; two public tables read so.

The paper's own cases are private. HAM10000 has one diagnosis per lesion, SCIN has the weighted
opinions of dermatologists.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from experiments.experiment import Array, Codes, Floats
from r2b.errors import FileFormatError, InputError, LengthError

BUCKETS: Final = ((18, 30), (30, 45), (45, 65), (65, 90))
"""The paper's ages, from (included) and to (excluded)."""

OTHER: Final = "other"
"""The class of all conditions that are not among the most frequent."""

_SCIN_FEATURES: Final = ("textures_", "body_parts_", "condition_symptoms_", "other_symptoms_")
_SCIN_CHOICES: Final = ("condition_duration", "related_category", "fitzpatrick_skin_type")

Columns = Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class Cases:
    """Cases with labels, groups, and features or scores.

    Attributes
    ----------
    features : ndarray of shape (n, d)
        Or the scores of a finished model, (n, n_classes).
    labels : ndarray of shape (n, n_classes)
        Distributions over the classes.
    groups : ndarray of shape (n,)
        Age bucket and sex, such as "30-44 female".
    units : ndarray of shape (n,)
        What must not be divided between splits: lesions, or patients.
    classes : tuple of str
    left_out : int
        Rows of the table that are not among these: age or sex unknown, an age outside the buckets,
        or no label.
    """

    features: Floats
    labels: Floats
    groups: Array
    units: Array
    classes: tuple[str, ...]
    left_out: int = 0

    def __len__(self) -> int:
        return len(self.labels)


def age_buckets(ages: ArrayLike) -> Codes:
    """Return the bucket of each age, 0 to 3, and -1 for ages outside all of them or unknown (NaN).

    Examples
    --------
    >>> age_buckets([17, 18, 29.9, 30, 64, 65, 90, float("nan")])
    array([-1,  0,  0,  1,  2,  3, -1, -1])
    """
    numbers = np.asarray(ages, dtype=np.float64)
    edges = np.array([low for low, _ in BUCKETS] + [BUCKETS[-1][1]], dtype=np.float64)
    places = np.searchsorted(edges, numbers, side="right") - 1
    return np.where(
        np.isfinite(numbers) & (numbers >= edges[0]) & (numbers < edges[-1]), places, -1
    ).astype(np.int64)


def crossed(ages: ArrayLike, sexes: Iterable[Any]) -> Array:
    """Name the group of each row by age bucket and sex, as the paper crosses them.

    Raises
    ------
    LengthError
        There are not as many ages as sexes.
    InputError
        An age lies outside the buckets.

    Examples
    --------
    >>> crossed([20, 70], ["female", "male"]).tolist()
    ['18-29 female', '65-89 male']
    """
    listed, places = [str(sex) for sex in sexes], age_buckets(ages)
    if len(listed) != len(places):
        problem = f"There are {len(places)} ages and {len(listed)} sexes."
        raise LengthError(
            problem, remedy="Pass both for every row.", n_ages=len(places), n_sexes=len(listed)
        )
    outside = np.flatnonzero(places < 0)
    if len(outside):
        row = int(outside[0])
        age = float(np.asarray(ages, dtype=np.float64)[row])
        raise InputError(
            f"Row {row} has the age {age:g}, and {len(outside)} rows in all lie outside"
            f" {BUCKETS[0][0]} to {BUCKETS[-1][1] - 1}.",
            remedy="Leave such rows out, or debias them as a group of their own.",
            row=row,
            value=age,
            n_outside=len(outside),
        )
    names = [f"{low}-{high - 1}" for low, high in BUCKETS]
    return np.array(
        [f"{names[place]} {sex}" for place, sex in zip(places.tolist(), listed, strict=True)]
    )


def ham10000_cases(metadata: Columns, features: Columns) -> Cases:
    """Read HAM10000: seven diagnoses, features of a network, age and sex; lesions as units.

    Parameters
    ----------
    metadata : columns ``image_id``, ``lesion_id``, ``dx``, ``age``, ``sex``
    features : columns ``image_id`` and numbers
        In any order of images.

    Raises
    ------
    FileFormatError
        An image of the metadata has no features.
    """
    age, sex = metadata["age"].astype(np.float64), metadata["sex"].astype(str)
    keep = (age_buckets(age) >= 0) & np.isin(sex, ("female", "male"))
    place = {image: i for i, image in enumerate(features["image_id"].tolist())}
    wanted = metadata["image_id"][keep].tolist()
    missing = [image for image in wanted if image not in place]
    if missing:
        problem = (
            f"There are no features of {len(missing)} images, the first of them {missing[0]!r}."
        )
        raise FileFormatError(
            problem, remedy="Take both files from the same source.", image_id=missing[0]
        )
    numbers = np.stack([features[name] for name in features if name != "image_id"], axis=1).astype(
        np.float64
    )
    diagnoses = metadata["dx"].astype(str)
    classes = tuple(sorted(set(diagnoses.tolist())))
    return Cases(
        features=np.column_stack(
            [numbers[[place[image] for image in wanted]], age[keep], sex[keep] == "male"]
        ),
        labels=(diagnoses[keep, None] == np.array(classes)).astype(np.float64),
        groups=crossed(age[keep], sex[keep]),
        units=metadata["lesion_id"][keep],
        classes=classes,
        left_out=int((~keep).sum()),
    )


def scin_cases(cases: Columns, labels: Columns, n_conditions: int = 26) -> Cases:
    """Read SCIN: dermatologists' weights of frequent conditions and "other", no images.

    Ages are bands of ten years there; the middle of a band decides on the bucket.

    Parameters
    ----------
    cases, labels : the columns of the two published tables
    n_conditions : int
        How many conditions are classes of their own: those with the largest total weight over all
        labelled cases, ties by name.
    """
    order = {case: i for i, case in enumerate(cases["case_id"].tolist())}
    rows = np.array([order[case] for case in labels["case_id"].tolist()])
    weights = [
        _weights(text, i) for i, text in enumerate(labels["weighted_skin_condition_label"].tolist())
    ]
    total: dict[str, float] = {}
    for row in weights:
        for name, weight in row.items():
            total[name] = total.get(name, 0.0) + weight
    classes = (*sorted(total, key=lambda name: (-total[name], name))[:n_conditions], OTHER)
    column = {name: k for k, name in enumerate(classes)}
    table = np.zeros((len(weights), len(classes)))
    for i, row in enumerate(weights):
        for name, weight in row.items():
            table[i, column.get(name, len(classes) - 1)] += weight
    ages, sexes = _band_middles(cases["age_group"][rows]), cases["sex_at_birth"][rows].astype(str)
    keep = (table.sum(axis=1) > 0) & (age_buckets(ages) >= 0) & np.isin(sexes, ("FEMALE", "MALE"))
    chosen = rows[keep]
    features = _scin_features(cases, chosen)
    return Cases(
        features=np.column_stack([*features, ages[keep], sexes[keep] == "MALE"]),
        labels=table[keep] / table[keep].sum(axis=1, keepdims=True),
        groups=crossed(ages[keep], np.char.lower(sexes[keep])),
        units=cases["case_id"][chosen],
        classes=classes,
        left_out=int((~keep).sum()),
    )


def _weights(text: Any, row: int) -> dict[str, float]:
    if text is None or not str(text).strip() or str(text) == "nan":
        return {}
    try:
        found = ast.literal_eval(str(text))
        return {str(name): float(weight) for name, weight in found.items()}
    except (ValueError, SyntaxError, AttributeError, TypeError) as error:
        raise FileFormatError(
            f"In row {row}, the labels are {str(text)[:80]!r}.",
            remedy="Pass the published table.",
            row=row,
        ) from error


def _band_middles(bands: Array) -> Floats:
    """Turn ``AGE_30_TO_39`` into 35, unknown into NaN."""
    middles = []
    for band in bands.tolist():
        parts = str(band).split("_")
        known = len(parts) == 4 and parts[1].isdigit() and parts[3].isdigit()
        middles.append((int(parts[1]) + int(parts[3]) + 1) / 2 if known else np.nan)
    return np.array(middles)


def _scin_features(cases: Columns, rows: Array) -> list[Floats]:
    ticked = [name for name in cases if name.startswith(_SCIN_FEATURES)]
    found = [(cases[name][rows].astype(str) == "YES").astype(np.float64) for name in ticked]
    for name in _SCIN_CHOICES:
        said = cases[name].astype(str)
        found += [(said[rows] == value).astype(np.float64) for value in sorted(set(said.tolist()))]
    return found
