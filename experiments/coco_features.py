"""The 2,048 features of an image in the paper: what a ResNet-50 has before its last layer.

They are read from ``features_SPLIT.npz`` beside the annotations, or extracted from the images with
torchvision and left there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

from experiments.experiment import Array, Floats
from r2b.errors import FileFormatError, MissingExtraError, ParameterError, require

BATCH: Final = 64


def features_of(folder: Path, split: str, image_id: Array, file_name: Array) -> Floats:
    """Return the features of some images: from the file if there is one, or else from the images.

    Parameters
    ----------
    folder : Path
        Holds ``features_SPLIT.npz`` (arrays ``image_id`` and ``x``), or the images in ``SPLIT/``;
        their features are then written to that file.
    split : str
    image_id, file_name : ndarray of shape (n,)

    Raises
    ------
    ParameterError
        There is neither a file nor a folder of images.
    FileFormatError
        The file has no features of some image.
    MissingExtraError
        torch or torchvision is not installed.
    """
    path = folder / f"features_{split}.npz"
    if not path.is_file():
        if not (folder / split).is_dir():
            problem = f"The folder {str(folder)!r} has no {path.name} and no images in {split}/."
            raise ParameterError(
                problem, remedy="Add one of them.", folder=str(folder), split=split
            )
        found = extracted([folder / split / str(name) for name in file_name], *_resnet50())
        np.savez_compressed(path, image_id=image_id, x=found.astype(np.float32))
    with np.load(path, allow_pickle=False) as file:
        if not {"image_id", "x"} <= set(file):
            remedy = "Save it with np.savez(file, image_id=..., x=...)."
            raise FileFormatError(f"{path.name} lacks an array.", remedy=remedy, file=path.name)
        known, features = file["image_id"].tolist(), file["x"].astype(np.float64)
    place = {image: i for i, image in enumerate(known)}
    missing = [image for image in image_id.tolist() if image not in place]
    if missing:
        problem = (
            f"{path.name} has no features of {len(missing)} images, the first of them {missing[0]}."
        )
        facts = {"file": path.name, "n_missing": len(missing), "image_id": missing[0]}
        raise FileFormatError(problem, remedy="Add their rows.", **facts)
    return np.asarray(features[[place[image] for image in image_id.tolist()]])


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
    model.eval()
    found = []
    with torch.inference_mode():
        for start in range(0, len(paths), batch):
            part = torch.stack([prepare(path) for path in paths[start : start + batch]])
            found.append(model(part).flatten(1).cpu().numpy())
    return np.concatenate(found).astype(np.float64)


def _resnet50() -> tuple[Any, Callable[[Path], Any]]:
    """Return ResNet-50 without its last layer, and how it expects an image."""
    torch = require("torch", "A network needs torch", extra="torch")
    try:
        pillow, models = import_module("PIL.Image"), import_module("torchvision.models")
    except ImportError as error:
        raise MissingExtraError(
            "torchvision is not installed, and ResNet-50 comes with it.",
            remedy=(
                "Install it with: pip install torchvision; or put a file of features beside the"
                " annotations."
            ),
            library="torchvision",
        ) from error
    weights = models.ResNet50_Weights.IMAGENET1K_V1
    model, prepared = models.resnet50(weights=weights), weights.transforms()
    model.fc = torch.nn.Identity()

    def prepare(path: Path) -> Any:
        with pillow.open(path) as image:
            return prepared(image.convert("RGB"))

    return model, prepare
