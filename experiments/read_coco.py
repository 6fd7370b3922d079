"""COCO as the paper uses it: the share of each class among an image's objects, and gender by the words of its captions.

Reads the official annotation files, ``instances_SPLIT.json`` and ``captions_SPLIT.json``. No image
is read here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

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

    image_id: npt.NDArray[np.int64]
    file_name: npt.NDArray[Any]
    counts: npt.NDArray[np.int64]
    classes: tuple[str, ...]
    gender: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.image_id)

    def part(self, keep: npt.NDArray[Any]) -> CocoImages:
        """Return some of the images, by a mask or by positions."""
        places = np.arange(len(self))[keep]
        return CocoImages(
            self.image_id[places],
            self.file_name[places],
            self.counts[places],
            self.classes,
            self.gender[places],
        )

    def of_the_paper(self) -> CocoImages:
        """Keep the images with an object whose captions say man or woman and not both."""
        return self.part(np.isin(self.gender, GENDERS) & (self.counts.sum(axis=1) > 0))

    @property
    def soft_labels(self) -> npt.NDArray[np.float64]:
        """Share of each class among the objects of an image."""
        return shares_of(self.counts)


def shares_of(counts: npt.ArrayLike) -> npt.NDArray[np.float64]:
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
    shares: npt.NDArray[np.float64] = numbers / totals
    return shares


def gender_of(captions: Iterable[str]) -> str:
    """Name the gender by the paper's rule: the whole word "man" or "woman" in any caption of the image.

    Returns
    -------
    {"man", "woman", "both", "none"}

    Examples
    --------
    >>> gender_of(["A man rides a horse.", "Someone on a horse"]), gender_of(["A Woman and a man"]), gender_of(["Two women"])
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
    objects, texts = (
        _layout(Path(instances), ("images", "annotations", "categories")),
        _layout(Path(captions), ("annotations",)),
    )
    images = {int(image["id"]): str(image.get("file_name", "")) for image in objects["images"]}
    categories = sorted(objects["categories"], key=lambda category: int(category["id"]))
    column = {int(category["id"]): k for k, category in enumerate(categories)}
    order = sorted(images)
    row = {image: i for i, image in enumerate(order)}
    counts = np.zeros((len(order), len(column)), dtype=np.int64)
    for number, found in enumerate(objects["annotations"]):
        counts[
            _known(row, found, "image_id", number, instances),
            _known(column, found, "category_id", number, instances),
        ] += 1
    said: list[list[str]] = [[] for _ in order]
    for number, found in enumerate(texts["annotations"]):
        said[_known(row, found, "image_id", number, captions)].append(str(found["caption"]))
    return CocoImages(
        image_id=np.array(order, dtype=np.int64),
        file_name=np.array([images[image] for image in order], dtype=np.str_),
        counts=counts,
        classes=tuple(str(category["name"]) for category in categories),
        gender=np.array([gender_of(each) for each in said], dtype=np.str_),
    )


def _layout(path: Path, keys: tuple[str, ...]) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise FileFormatError(
            f"{path.name} is not JSON: {error}.",
            remedy="Pass an annotation file of COCO.",
            file=path.name,
        ) from error
    missing = [
        key for key in keys if not isinstance(found, dict) or not isinstance(found.get(key), list)
    ]
    if missing:
        problem = f"{path.name} has no list {', '.join(map(repr, missing))}."
        raise FileFormatError(
            problem, remedy="Pass an annotation file of COCO.", file=path.name, missing=missing
        )
    layout: dict[str, Any] = found
    return layout


def _known(
    places: Mapping[int, int],
    annotation: Mapping[str, Any],
    key: str,
    number: int,
    path: str | Path,
) -> int:
    try:
        return places[int(annotation[key])]
    except (KeyError, TypeError, ValueError):
        value = annotation.get(key)
        raise FileFormatError(
            f"In {Path(path).name}, annotation {number} has {key} {value!r}, which is not listed.",
            remedy="Take both files from the same split of COCO.",
            file=Path(path).name,
            annotation=number,
            value=value,
        ) from None
