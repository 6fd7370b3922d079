"""Where the COCO experiment finds its data, and its splits.

A folder that holds ``annotations/instances_*.json`` has the official layout: all of its splits are
read, with 2,048 features per image from a file or from the images. Otherwise the table of
photographs is read: tags, gender and features of 7,199 images.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from experiments.coco_features import features_of
from experiments.experiment import Array, Codes, Floats
from experiments.learners import Sample
from experiments.read_coco import read_coco, shares_of
from r2b.errors import FileFormatError, ParameterError, require

PLACE: Final = "R2B_DATA"
TEST_SHARE: Final = 0.25
PHOTOGRAPHS: Final = "coco18_gender_efficientnet_lite0_pca256.parquet"


@dataclass(frozen=True, eq=False)
class Images:
    """Images of the paper's two groups.

    Attributes
    ----------
    source : str
        What was read.
    shares : ndarray of shape (n, n_classes)
    groups : ndarray of shape (n,)
        0 for men, 1 for women: the order in which injecting bias gives the paper's 52.9 %, since
        men's images hold more persons.
    features : ndarray of shape (n, d)
    """

    source: str
    shares: Floats
    groups: Codes
    features: Floats


def folder_of(data: Path | None, name: str) -> Path:
    """Return the folder of one data set.

    It is ``data``, or the folder that R2B_DATA names, or the subfolder ``name`` of either.

    Raises
    ------
    ParameterError
        Neither is given, or the folder is not there.
    """
    root = data or Path(os.environ.get(PLACE, ""))
    if root == Path() or not root.is_dir():
        problem = (
            f"There is no folder {str(root)!r}, and the data of {name} is not part of the package."
        )
        remedy = f"Pass data=, or set {PLACE} to the folder that holds {name}."
        raise ParameterError(problem, remedy=remedy, name=name, folder=str(root))
    return root / name if (root / name).is_dir() else root


def table_of(path: Path) -> dict[str, Array]:
    """Read the columns of a Parquet or CSV file (compressed or not) with pyarrow.

    Raises
    ------
    ParameterError
        There is no such file.
    MissingExtraError
        pyarrow is not installed.
    """
    if not path.is_file():
        problem = f"There is no file {path.name!r} in the folder {str(path.parent)!r}."
        raise ParameterError(
            problem, remedy="Pass data= with the folder that holds it.", file=path.name
        )
    needed = "Reading a table needs pyarrow"
    if path.suffix == ".parquet":
        table = require("pyarrow.parquet", needed, extra="frames").read_table(path)
    else:
        table = require("pyarrow.csv", needed, extra="frames").read_csv(path)
    return {name: np.asarray(table[name].to_numpy()) for name in table.column_names}


def images_of(data: Path | None) -> Images:
    """Read the images of the paper's two groups, with features."""
    official = folder_of(data, "coco")
    if any((official / "annotations").glob("instances_*.json")):
        return _official(official.resolve())
    return _photographs(folder_of(data, "coco_images").resolve())


@lru_cache(maxsize=1)
def _official(folder: Path) -> Images:
    parts = {}
    for instances in sorted((folder / "annotations").glob("instances_*.json")):
        split = instances.stem.removeprefix("instances_")
        captions = instances.with_name(f"captions_{split}.json")
        if not captions.is_file():
            problem = f"There is no {captions.name} beside {instances.name}."
            raise FileFormatError(problem, remedy="Add the captions.", file=captions.name)
        parts[split] = read_coco(instances, captions).of_the_paper()
    return Images(
        f"official {' + '.join(parts)}",
        np.concatenate([shares_of(images.counts) for images in parts.values()]),
        np.concatenate([_coded(images.gender) for images in parts.values()]),
        np.concatenate(
            [
                features_of(folder, split, images.image_id, images.file_name)
                for split, images in parts.items()
            ]
        ),
    )


@lru_cache(maxsize=1)
def _photographs(folder: Path) -> Images:
    """Read the photographs that have a tag other than person."""
    table = table_of(folder / PHOTOGRAPHS)
    tags = [name for name in table if name.startswith("tag ") and name != "tag person"]
    counts = np.stack([table[name] for name in tags], axis=1).astype(np.float64)
    kept = counts.sum(axis=1) > 0
    features = [table[name] for name in table if name.startswith("pc")]
    return Images(
        "photographs, 17 tags",
        shares_of(counts[kept]),
        _coded(table["gender"])[kept],
        np.stack(features, axis=1).astype(np.float64)[kept],
    )


def _coded(gender: Array) -> Codes:
    codes: Codes = (gender.astype(str) == "woman").astype(np.int64)
    return codes


def split_of(images: Images, p: float, seed: int) -> Sample:
    """Split into 75 and 25 %, and inject bias.

    With chance p a row becomes the class whose number is its group's. Features are scaled by the
    training rows alone: unit variance gives rows the length that features of a network have, which
    the paper's learning rate is made for.
    """
    order = np.random.default_rng([seed, 11]).permutation(len(images.shares))
    cut = round(len(order) * (1 - TEST_SHARE))
    train, test = np.sort(order[:cut]), np.sort(order[cut:])
    labels, groups = injected(images.shares, images.groups, p, seed), images.groups
    X = scaled(images.features, train)
    return Sample(X[train], labels[train], groups[train], X[test], labels[test], groups[test])


def injected(shares: Floats, groups: Codes, p: float, seed: int) -> Floats:
    """Replace rows, each with chance p, by the class whose number is the row's group."""
    chosen = np.random.default_rng([seed, 12]).random(len(shares)) < p
    labels = shares.copy()
    labels[chosen] = np.eye(shares.shape[1])[groups[chosen]]
    return labels


def scaled(features: Floats, train: Any) -> Floats:
    """Centre and scale features by the training rows."""
    middle, spread = features[train].mean(axis=0), features[train].std(axis=0)
    return np.asarray((features - middle) / np.where(spread > 0, spread, 1.0))
