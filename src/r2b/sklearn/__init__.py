"""Fair labels for scikit-learn: a transformer of labels, and a classifier that needs no sensitive attribute to predict.

Examples
--------
>>> import numpy as np
>>> from sklearn.linear_model import LogisticRegression
>>> from r2b.sklearn import ParityClassifier
>>> X, y, sex = np.array([[0.0], [1.0], [2.0], [3.0]]), ["no", "yes", "no", "yes"], ["f", "f", "m", "m"]
>>> ParityClassifier(LogisticRegression()).fit(X, y, sensitive_features=sex).form_
'expand'
"""

# ruff: noqa: E402 - whether scikit-learn is there is asked first
from r2b.errors import require

require("sklearn", "r2b.sklearn needs scikit-learn", extra="sklearn")

from r2b.sklearn.classifier import ParityClassifier
from r2b.sklearn.prediction_parity import PredictionParity
from r2b.sklearn.scorers import accuracy_under, parity_scorer
from r2b.sklearn.transformer import LabelDebiaser

__all__ = ["LabelDebiaser", "ParityClassifier", "PredictionParity", "accuracy_under", "parity_scorer"]
