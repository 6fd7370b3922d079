"""The 2,048 features of an image that the paper trains on: what a ResNet-50 has before its last layer.

They are read from ``features_SPLIT.npz`` or ``.parquet`` beside the annotations, or extracted from
the images with torchvision: ``write_features(folder, split)`` does it once and leaves the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from r2b.errors import FileFormatError, MissingExtraError, ParameterError, require

Floats = NDArray[np.float64]

BATCH: Final = 64


def features_of(
    folder: Path, split: str, image_id: NDArray[Any], file_name: NDArray[Any]
) -> Floats:
    """Return the features of some images: from the file if there is one, or else from the images.

    Parameters
    ----------
    folder : Path
        Holds ``features_SPLIT.npz`` (arrays ``image_id`` and ``x``), ``features_SPLIT.parquet`` (a
        column ``image_id``, all others are features), or the images in ``SPLIT/``.
    split : str
    image_id, file_name : ndarray of shape (n,)

    Raises
    ------
    ParameterError
        There is neither a file nor a folder of images.
    FileFormatError
        The file has no features of some image.
    """
    for name, read in (
        (f"features_{split}.npz", _from_npz),
        (f"features_{split}.parquet", _from_parquet),
    ):
        if (folder / name).is_file():
            known, features = read(folder / name)
            return _chosen(known, features, image_id, name)
    if (folder / split).is_dir():
        return extracted([folder / split / str(name) for name in file_name], *_resnet50())
    problem = f"The folder {str(folder)!r} has no features_{split}.npz, no features_{split}.parquet and no images in {split}/."
    raise ParameterError(
        problem,
        remedy="Add one of them; write_features makes the first from images.",
        folder=str(folder),
        split=split,
    )


def write_features(folder: Path, split: str) -> Path:
    """Extract the features of all images of a split and leave them as ``features_SPLIT.npz``.

    Raises
    ------
    MissingExtraError
        torch or torchvision is not installed.
    ParameterError
        The features are there already.
    """
    from experiments.read_coco import read_coco

    target = folder / f"features_{split}.npz"
    if target.exists():
        raise ParameterError(
            f"{target.name} is there already.",
            remedy="Remove it to extract once more.",
            file=target.name,
        )
    annotations = folder / "annotations"
    chosen = read_coco(
        annotations / f"instances_{split}.json", annotations / f"captions_{split}.json"
    ).of_the_paper()
    features = extracted([folder / split / str(name) for name in chosen.file_name], *_resnet50())
    np.savez_compressed(target, image_id=chosen.image_id, x=features.astype(np.float32))
    return target


def extracted(
    paths: Sequence[Path], model: Any, prepare: Callable[[Path], Any], batch: int = BATCH
) -> Floats:
    """Run images through a model, batch by batch, without gradients.

    Parameters
    ----------
    paths : sequence of Path
    model : torch.nn.Module
        From (b, 3, h, w) to (b, d) or (b, d, 1, 1).
    prepare : callable
        From the path of an image to a tensor (3, h, w).
    batch : int

    Returns
    -------
    ndarray of shape (n, d)
    """
    torch = require("torch", "A network needs torch", extra="torch")
    was_training = bool(model.training)
    model.eval()
    found = []
    with torch.inference_mode():
        for start in range(0, len(paths), batch):
            part = torch.stack([prepare(path) for path in paths[start : start + batch]])
            found.append(model(part).flatten(1).cpu().numpy())
    model.train(was_training)
    return np.concatenate(found).astype(np.float64)


def _resnet50() -> tuple[Any, Callable[[Path], Any]]:
    """Return ResNet-50 without its last layer, and how it expects an image."""
    torch = require("torch", "A network needs torch", extra="torch")
    try:
        pillow, models = import_module("PIL.Image"), import_module("torchvision.models")
    except ImportError as error:
        raise MissingExtraError(
            "torchvision is not installed, and ResNet-50 comes with it.",
            remedy="Install it with: pip install torchvision; or put a file of features beside the annotations.",
            library="torchvision",
        ) from error
    weights = models.ResNet50_Weights.IMAGENET1K_V1
    model, prepared = models.resnet50(weights=weights), weights.transforms()
    model.fc = torch.nn.Identity()

    def prepare(path: Path) -> Any:
        with pillow.open(path) as image:
            return prepared(image.convert("RGB"))

    return model, prepare


def _from_npz(path: Path) -> tuple[NDArray[Any], Floats]:
    with np.load(path, allow_pickle=False) as file:
        missing = [name for name in ("image_id", "x") if name not in file]
        if missing:
            problem = f"{path.name} has no array {', '.join(map(repr, missing))}."
            raise FileFormatError(
                problem, remedy="Save it with np.savez(file, image_id=..., x=...).", file=path.name
            )
        return file["image_id"], file["x"].astype(np.float64)


def _from_parquet(path: Path) -> tuple[NDArray[Any], Floats]:
    parquet = require("pyarrow.parquet", "Reading features needs pyarrow", extra="frames")
    table = parquet.read_table(path)
    if "image_id" not in table.column_names:
        raise FileFormatError(
            f"{path.name} has no column 'image_id'.",
            remedy="Add the number of each row's image.",
            file=path.name,
        )
    names = [name for name in table.column_names if name != "image_id"]
    return np.asarray(table["image_id"]), np.stack(
        [np.asarray(table[name], dtype=np.float64) for name in names], axis=1
    )


def _chosen(known: NDArray[Any], features: Floats, wanted: NDArray[Any], name: str) -> Floats:
    place = {int(image): i for i, image in enumerate(known.tolist())}
    missing = [int(image) for image in wanted.tolist() if image not in place]
    if missing:
        problem = (
            f"{name} has no features of {len(missing)} images, the first of them {missing[0]}."
        )
        raise FileFormatError(
            problem,
            remedy="Add their rows.",
            file=name,
            n_missing=len(missing),
            image_id=missing[0],
        )
    return features[[place[int(image)] for image in wanted.tolist()]]
