"""Fair labels in the hands of other libraries: LightGBM, XGBoost, PyTorch, imbalanced-learn.

Each module is imported by name and needs its library: ``r2b.models.boosting``,
``r2b.models.torch``, ``r2b.models.imblearn``. None of them gives a learner the most
probable class of a fair row.
"""
