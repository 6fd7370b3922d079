"""Fair labels in the hands of other libraries: LightGBM, XGBoost, PyTorch, imbalanced-learn.

Each module is imported by name and needs its library: ``r2b.learners.boosting``, ``r2b.learners.torch``, ``r2b.learners.imblearn``. None of
them hands a learner the likeliest class of a fair row.
"""
