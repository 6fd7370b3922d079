"""Fair labels and classifiers for scikit-learn; to predict, the attribute is not needed.

Examples
--------
>>> import numpy as np
>>> from sklearn.linear_model import LogisticRegression
>>> from r2b.sklearn import ParityClassifier
>>> rng = np.random.default_rng(0)
>>> sex = rng.choice(["f", "m"], 2000)
>>> X = rng.normal(size=(2000, 3)) + (sex == "m")[:, None]
>>> y = np.where(X[:, 0] + X[:, 1] > 1, "yes", "no")
>>> ParityClassifier(LogisticRegression()).fit(X, y, sensitive_features=sex).predict(X[:2]).tolist()
['no', 'yes']
"""

# ruff: noqa: E402 - whether scikit-learn is there is asked first
from r2b.errors import require

require("sklearn", "r2b.sklearn needs scikit-learn", extra="sklearn")

from r2b.sklearn.classifier import ParityClassifier
from r2b.sklearn.evidence import GroupParity, ModelFrontier, ParityReport
from r2b.sklearn.fair_labels import fair_labels, visible_groups
from r2b.sklearn.postprocessor import ParityPostprocessor
from r2b.sklearn.rule import FairScores
from r2b.sklearn.scorers import accuracy_under, parity_scorer
from r2b.sklearn.transformer import LabelDebiaser
from r2b.sklearn.weighted import WeightedClassifier

__all__ = [
    "FairScores",
    "GroupParity",
    "LabelDebiaser",
    "ModelFrontier",
    "ParityClassifier",
    "ParityPostprocessor",
    "ParityReport",
    "WeightedClassifier",
    "accuracy_under",
    "fair_labels",
    "parity_scorer",
    "visible_groups",
]
