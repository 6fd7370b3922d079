"""Fair decisions on several tags per row: objects in photographs of COCO, by gender.

``R2B_DATA=... python -m benchmarks.tags`` prints the table of docs/tags.md. Three folds take turns:
every image is decided by a model that was not trained on it, and all images are measured together;
ten times with other folds. Thresholds per group know the gender of new images: those of a tag give
both genders the share that the plain decisions have over all.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, f1_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier

from experiments.tables import markdown
from r2b.sklearn import ParityPostprocessor


def images() -> tuple[Any, Any, Any]:
    """Return features, tags and gender."""
    place = Path(os.environ["R2B_DATA"]) / "coco_images"
    table = pd.read_parquet(next(place.glob("*.parquet")))
    tags = table[[name for name in table if name.startswith("tag ")]]
    features = table[[name for name in table if name.startswith("pc")]].astype(np.float64)
    return features, tags.rename(columns=lambda name: name[4:]), table["gender"]


def learner() -> Any:
    """Return a plain model of all tags."""
    return OneVsRestClassifier(LogisticRegression(C=0.01))


def apart(decided: Any, is_woman: Any) -> Any:
    """Return the difference between the shares of both genders with each tag."""
    return np.abs(decided[is_woman].mean(axis=0) - decided[~is_woman].mean(axis=0))


def above_chance(decided: Any, is_woman: Any, seed: int) -> tuple[float, float, float]:
    """Return the largest difference, what chance shows in 19 of 20 draws, and its p-value."""
    rng = np.random.default_rng(seed)
    drawn = [float(apart(decided, rng.permutation(is_woman)).max()) for _ in range(1_000)]
    largest = float(apart(decided, is_woman).max())
    return largest, float(np.quantile(drawn, 0.95)), float(np.mean(np.array(drawn) >= largest))


def thresholds(scores: Any, is_woman: Any, share: Any) -> dict[bool, Any]:
    """Return for each gender the thresholds at which its share with each tag is this."""
    return {
        who: np.array(
            [np.quantile(scores[is_woman == who, k], 1 - share[k]) for k in range(len(share))]
        )
        for who in (True, False)
    }


def decide(X: Any, Y: Any, gender: Any, old: Any, new: Any, seed: int) -> dict[str, Any]:
    """Return decisions and probabilities of all methods for new images."""
    features, tags, groups = X.iloc[old], Y.iloc[old], gender.iloc[old]
    plain = learner().fit(features, tags)
    scores = plain.predict_proba(X.iloc[new])
    unseen = cross_val_predict(learner(), features, tags, cv=5, method="predict_proba")
    share = (unseen > 0.5).mean(axis=0)
    cut = thresholds(unseen, (groups == "woman").to_numpy(), share)
    is_woman = (gender.iloc[new] == "woman").to_numpy()
    known = np.where(is_woman[:, None], scores > cut[True], scores > cut[False])
    found = {"plain": (scores > 0.5, scores), "thresholds per gender, given": (known, scores)}
    for use in ("predicted", "given"):
        model = ParityPostprocessor(
            learner(), multilabel=True, attribute=use, frontier=0, random_state=seed
        ).fit(features, tags, sensitive_features=groups)
        given = {"sensitive_features": gender.iloc[new]} if use == "given" else {}
        decided = model.predict(X.iloc[new], **given)
        found[f"r2b, {use}"] = (decided, model.predict_proba(X.iloc[new], **given))
    return found


def turn(seed: int) -> dict[str, tuple[Any, Any]]:
    """Return parity and quality of all methods on all images, each new to its model."""
    X, Y, gender = images()
    truth, is_woman = Y.to_numpy(), (gender == "woman").to_numpy()
    whole: dict[str, tuple[Any, Any]] = {}
    for old, new in StratifiedKFold(3, shuffle=True, random_state=seed).split(X, gender):
        for name, (decided, chances) in decide(X, Y, gender, old, new, seed).items():
            every = whole.setdefault(name, (np.zeros(truth.shape), np.zeros(truth.shape)))
            every[0][new], every[1][new] = decided, chances
    return {
        name: (
            above_chance(decided, is_woman, seed),
            (
                average_precision_score(truth, chances, average="macro"),
                (decided == truth).mean(),
                f1_score(truth, decided, average="micro", zero_division=0),
            ),
        )
        for name, (decided, chances) in whole.items()
    }


def main(turns: int) -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    found = [turn(seed) for seed in range(turns)]
    body = []
    for name in found[0]:
        parity = np.array([each[name][0] for each in found])
        quality = 100 * np.mean([each[name][1] for each in found], axis=0)
        largest, chance = 100 * parity[:, :2].mean(axis=0)
        often = int((parity[:, 2] < 0.05).sum())
        shares = [f"{largest:.2f}", f"{chance:.2f}", f"{often} of {turns}"]
        numbers = [f"{quality[0]:.1f}", f"{quality[1]:.2f}", f"{quality[2]:.1f}"]
        body.append([name, *shares, *numbers])
    head = ["decisions", "largest disparity", "chance", "above chance", "mean average precision"]
    print(markdown([*head, "accuracy", "F1"], body))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=10, help="how often folds are dealt")
    main(parser.parse_args().turns)
