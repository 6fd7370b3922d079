"""COCO as the paper uses it: classes as shares of an image's objects, gender by its captions.

Reads the official annotation files, ``instances_SPLIT.json`` and ``captions_SPLIT.json``. No image
is read here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from experiments.experiment import Array, Codes, Floats
from r2b.errors import FileFormatError, ParameterError

GENDERS: Final = ("man", "woman")
"""The paper's groups: images with one of the two words in their captions, and not the other."""

_WORD: Final = re.compile(r"[a-z]+")


@dataclass(frozen=True, eq=False)
class CocoImages:
    """Images and their objects, in the order of image numbers.

    Attributes
    ----------
    image_id : ndarray of shape (n,)
    file_name : ndarray of shape (n,)
        Empty text where it is not known.
    counts : ndarray of shape (n, n_classes)
        Objects of each class, crowds as one.
    classes : tuple of str
    gender : ndarray of shape (n,)
        "man", "woman", "both" or "none".
    """

    image_id: Codes
    file_name: Array
    counts: Codes
    classes: tuple[str, ...]
    gender: Array

    def of_the_paper(self) -> CocoImages:
        """Keep the images with an object whose captions say man or woman and not both."""
        kept = np.isin(self.gender, GENDERS) & (self.counts.sum(axis=1) > 0)
        arrays = {name: getattr(self, name)[kept] for name in ("image_id", "file_name", "gender")}
        return replace(self, counts=self.counts[kept], **arrays)


def shares_of(counts: ArrayLike) -> Floats:
    """Turn counts of objects into the paper's soft labels.

    Raises
    ------
    ParameterError
        A row has no object.

    Examples
    --------
    >>> shares_of([[1, 3], [2, 0]])
    array([[0.25, 0.75],
           [1.  , 0.  ]])
    """
    numbers = np.asarray(counts, dtype=np.float64)
    totals = numbers.sum(axis=1, keepdims=True)
    if not (totals > 0).all():
        row = int(np.argmin(totals[:, 0] > 0))
        raise ParameterError(
            f"Row {row} has no object.",
            remedy="Leave such images out: CocoImages.of_the_paper() does.",
            row=row,
        )
    shares: Floats = numbers / totals
    return shares


def gender_of(captions: Iterable[str]) -> str:
    """Name the gender by the paper's rule: the whole word "man" or "woman" in any caption.

    Returns
    -------
    {"man", "woman", "both", "none"}

    Examples
    --------
    >>> captions = ["A man rides a horse.", "Someone here"], ["A Woman and a man"], ["Two women"]
    >>> tuple(gender_of(each) for each in captions)
    ('man', 'both', 'none')
    """
    words = {word for caption in captions for word in _WORD.findall(caption.lower())}
    found = [name for name in GENDERS if name in words]
    return "both" if len(found) == 2 else (found[0] if found else "none")


def read_coco(instances: str | Path, captions: str | Path) -> CocoImages:
    """Read one split of the official annotations.

    Parameters
    ----------
    instances, captions : path
        ``instances_SPLIT.json`` and ``captions_SPLIT.json``.

    Returns
    -------
    CocoImages
        Every image of the instances file, also those without objects or captions.

    Raises
    ------
    FileFormatError
        A file is not of that layout, or an annotation names an image or a category that is not
        listed.
    """
    objects = _layout(Path(instances), ("images", "annotations", "categories"))
    texts = _layout(Path(captions), ("annotations",))
    images = {int(image["id"]): str(image.get("file_name", "")) for image in objects["images"]}
    categories = sorted(objects["categories"], key=lambda category: int(category["id"]))
    column = {int(category["id"]): k for k, category in enumerate(categories)}
    row = {image: i for i, image in enumerate(sorted(images))}
    counts = np.zeros((len(row), len(column)), dtype=np.int64)
    said: list[list[str]] = [[] for _ in row]
    with _places_of(Path(instances)):
        for found in objects["annotations"]:
            counts[row[found["image_id"]], column[found["category_id"]]] += 1
    with _places_of(Path(captions)):
        for found in texts["annotations"]:
            said[row[found["image_id"]]].append(str(found["caption"]))
    return CocoImages(
        image_id=np.array(list(row), dtype=np.int64),
        file_name=np.array([images[image] for image in row], dtype=np.str_),
        counts=counts,
        classes=tuple(str(category["name"]) for category in categories),
        gender=np.array([gender_of(each) for each in said], dtype=np.str_),
    )


def _layout(path: Path, keys: tuple[str, ...]) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        missing = [key for key in keys if not isinstance(found.get(key), list)]
    except (ValueError, AttributeError) as error:
        raise FileFormatError(
            f"{path.name} is not a JSON object: {error}.",
            remedy="Pass an annotation file of COCO.",
            file=path.name,
        ) from error
    if missing:
        problem = f"{path.name} has no list {', '.join(map(repr, missing))}."
        raise FileFormatError(
            problem, remedy="Pass an annotation file of COCO.", file=path.name, missing=missing
        )
    return found


@contextmanager
def _places_of(path: Path) -> Iterator[None]:
    """Refuse an annotation of an image or a category that is not listed."""
    try:
        yield
    except KeyError as error:
        raise FileFormatError(
            f"In {path.name}, an annotation has {error.args[0]!r}, which is not listed.",
            remedy="Take both files from the same split of COCO.",
            file=path.name,
            value=error.args[0],
        ) from error
