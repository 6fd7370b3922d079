"""Where the COCO experiments find their data, and its splits.

Of a folder that holds ``annotations/instances_*.json`` (the official layout), all splits are read,
with 2,048 features per image from a file or from the images. Otherwise the small tables are read
that stand in for it: objects and gender of val2014, and objects and captions of val2017, whose
words serve as features.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from experiments.coco_features import features_of
from experiments.read_coco import CocoImages, bag_of_words, read_coco, shares_of, vocabulary_of
from r2b.errors import FileFormatError, MissingExtraError, ParameterError

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

PLACE: Final = "R2B_DATA"
TEST_SHARE: Final = 0.25
WORDS: Final = 512
VAL2014: Final = "coco_val2014_objects_gender.parquet"
VAL2017: Final = "coco_val2017_object_counts_gender.parquet"
CAPTIONS: Final = "coco_captions_val2017.csv.gz"


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
    features : ndarray of shape (n, d) or None
        None where ``captions`` are the features.
    captions : tuple of str or None
    """

    source: str
    shares: Floats
    groups: Codes
    features: Floats | None = None
    captions: tuple[str, ...] | None = None


@dataclass(frozen=True, eq=False)
class Split:
    """Features, labels and groups of training and test rows."""

    source: str
    X: Floats
    Y: Floats
    groups: Codes
    X_test: Floats
    Y_test: Floats
    groups_test: Codes


def folder_of(data: Path | None, name: str) -> Path:
    """Give the folder of one data set: ``data`` or the one that R2B_DATA names, or its subfolder of that name.

    Raises
    ------
    ParameterError
        Neither is given, or the folder is not there.
    """
    root = (
        data if data is not None else (Path(os.environ[PLACE]) if os.environ.get(PLACE) else None)
    )
    if root is None:
        remedy = f"Pass data=, or set {PLACE} to the folder that holds {name}."
        raise ParameterError(
            f"The data of {name} is not part of the package, and no folder is named.",
            remedy=remedy,
            name=name,
        )
    if not root.is_dir():
        raise ParameterError(
            f"There is no folder {str(root)!r}.",
            remedy="Pass data= with the folder of the data.",
            folder=str(root),
        )
    return root / name if (root / name).is_dir() else root


def table_of(path: Path) -> dict[str, NDArray[Any]]:
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
    try:
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError as error:
        remedy = "Install it with: pip install 'r2b[frames]'."
        raise MissingExtraError(
            "pyarrow is not installed.", remedy=remedy, library="pyarrow"
        ) from error
    table = (
        pyarrow.parquet.read_table(path)
        if path.suffix == ".parquet"
        else pyarrow.csv.read_csv(path)
    )
    return {name: np.asarray(table[name].to_numpy()) for name in table.column_names}


def is_official(folder: Path) -> bool:
    """Say whether a folder has the official layout."""
    return any((folder / "annotations").glob("instances_*.json"))


def images_of(data: Path | None, *, trained: bool, person: bool) -> Images:
    """Read the images of the paper's two groups, with features where something is trained.

    Parameters
    ----------
    data : Path or None
    trained : bool
        With features or captions; without, any labels will do.
    person : bool
        Whether the class person counts.
    """
    return _images(folder_of(data, "coco").resolve(), trained, person)


@lru_cache(maxsize=1)
def _images(folder: Path, trained: bool, person: bool) -> Images:
    if is_official(folder):
        return _official(folder, trained=trained, person=person)
    return _val2017(folder, person=person) if trained else _val2014(folder)


def _official(folder: Path, *, trained: bool, person: bool) -> Images:
    parts, features = [], []
    for instances in sorted((folder / "annotations").glob("instances_*.json")):
        split = instances.stem.removeprefix("instances_")
        captions = instances.with_name(f"captions_{split}.json")
        if not captions.is_file():
            raise FileFormatError(
                f"There is no {captions.name} beside {instances.name}.",
                remedy="Add the captions.",
                file=captions.name,
            )
        found = read_coco(instances, captions)
        chosen = (found if person else found.without("person")).of_the_paper()
        parts.append((split, chosen))
        if trained:
            features.append(features_of(folder, split, chosen.image_id, chosen.file_name))
    source = "official " + " + ".join(split for split, _ in parts)
    shares = np.concatenate([chosen.soft_labels for _, chosen in parts])
    groups = np.concatenate([_coded(chosen.gender) for _, chosen in parts])
    return Images(source, shares, groups, np.concatenate(features) if features else None)


def _val2014(folder: Path) -> Images:
    table = table_of(folder / VAL2014)
    names = sorted(
        name for name in table if name not in ("image_id", "file_name", "uva_split", "gender")
    )
    shares = shares_of(np.stack([table[name] for name in names], axis=1))
    return Images("val2014", shares, _coded(table["gender"]))


def _val2017(folder: Path, *, person: bool) -> Images:
    table, texts = table_of(folder / VAL2017), table_of(folder / CAPTIONS)
    said: dict[int, list[str]] = {}
    for image, caption in zip(texts["image_id"].tolist(), texts["caption"].tolist(), strict=True):
        said.setdefault(image, []).append(str(caption))
    names = tuple(name for name in table if name not in ("image_id", "gender"))
    ids = table["image_id"].astype(np.int64)
    found = CocoImages(
        image_id=ids,
        file_name=np.full(len(ids), ""),
        counts=np.stack([table[name] for name in names], axis=1).astype(np.int64),
        classes=names,
        gender=table["gender"].astype(str),
        captions=tuple(" \n ".join(said.get(image, [])) for image in ids.tolist()),
    )
    chosen = (found if person else found.without("person")).of_the_paper()
    return Images(
        "val2017 captions", chosen.soft_labels, _coded(chosen.gender), captions=chosen.captions
    )


def _coded(gender: NDArray[Any]) -> Codes:
    codes: Codes = (gender.astype(str) == "woman").astype(np.int64)
    return codes


def split_of(images: Images, p: float, seed: int) -> Split:
    """Split into 75 and 25 %, and inject bias: with chance p a row becomes the class whose number is its group's.

    Words are chosen from, and features scaled by, the training rows alone. Unit variance gives rows
    the length that features of a network have, which is what the paper's learning rate is made for.
    """
    rng = np.random.default_rng([seed, 11])
    order = rng.permutation(len(images.shares))
    cut = round(len(order) * (1 - TEST_SHARE))
    train, test = np.sort(order[:cut]), np.sort(order[cut:])
    labels = injected(images.shares, images.groups, p, seed)
    X = features_for(images, train)
    middle, spread = X[train].mean(axis=0), X[train].std(axis=0)
    X = (X - middle) / np.where(spread > 0, spread, 1.0)
    return Split(
        images.source,
        X[train],
        labels[train],
        images.groups[train],
        X[test],
        labels[test],
        images.groups[test],
    )


def features_for(images: Images, train: Codes) -> Floats:
    """Give the features of all rows: those of a network, or the words that training captions have most."""
    if images.features is not None:
        return images.features
    if images.captions is None:
        raise ParameterError(
            f"{images.source} has neither features nor captions.",
            remedy="Read it with trained=True.",
            source=images.source,
        )
    vocabulary = vocabulary_of((images.captions[i] for i in train.tolist()), WORDS)
    return bag_of_words(images.captions, vocabulary)


def injected(shares: Floats, groups: Codes, p: float, seed: int) -> Floats:
    """Replace rows, each with chance p, by the class whose number is the row's group."""
    chosen = np.random.default_rng([seed, 12]).random(len(shares)) < p
    labels = shares.copy()
    labels[chosen] = np.eye(shares.shape[1])[groups[chosen]]
    return labels


def repaired(split: Split, seed: int) -> Split:
    """Move every feature onto the distribution that both groups share."""
    from r2b.methods import DPRemover

    # A Generator, so that ranks inside ties are drawn anew for the test rows.
    remover = DPRemover(random_state=np.random.default_rng([seed, 13])).fit(
        split.X, sensitive_features=split.groups
    )
    X = remover.transform(split.X, sensitive_features=split.groups)
    return replace(
        split, X=X, X_test=remover.transform(split.X_test, sensitive_features=split.groups_test)
    )


def repaired_with_ties_as_one(split: Split) -> Split:
    """Repair features as :func:`repaired` does, but give equal values one rank: the share of the group up to them.

    The same value then goes to different numbers in different groups, and the features that should
    hide the group name it. This is what equal-mass bins do if nothing is done about ties; it is
    here to show it.
    """
    groups = (0, 1)
    sorted_by_group = [np.sort(split.X[split.groups == group], axis=0) for group in groups]

    def moved(X: Floats, codes: Codes) -> Floats:
        out = np.empty_like(X)
        for j in range(X.shape[1]):
            for group in groups:
                own = sorted_by_group[group][:, j]
                ranks = np.searchsorted(own, X[codes == group, j], side="right") / len(own)
                out[codes == group, j] = np.mean(
                    [np.quantile(each[:, j], ranks) for each in sorted_by_group], axis=0
                )
        return out

    return replace(
        split, X=moved(split.X, split.groups), X_test=moved(split.X_test, split.groups_test)
    )
