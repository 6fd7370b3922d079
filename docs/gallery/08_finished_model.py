"""
A finished model, made fair
===========================

A model is trained, tested and signed off, and nobody wants to train it again. Its decisions differ
between women and men. ``ParityPostprocessor`` finds prices on its scores, from rows that it was not
trained on. After that nobody is asked for the attribute.
"""

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import r2b
from r2b.metrics import demographic_parity_difference
from r2b.sklearn import ParityPostprocessor

people = (
    r2b.datasets.load_adult(as_frame="pandas")
    .sample(frac=0.5, random_state=0)
    .reset_index(drop=True)
)
sex = people["sex"]
levels = ["school", "HS-grad", "college", "Bachelors", "advanced"]
y = pd.cut(people["education-num"], [0, 8, 9, 12, 13, 16], labels=levels).astype(str)
X = pd.get_dummies(
    people[["age", "hours-per-week", "relationship", "occupation", "income"]], dtype=float
)
part = people.index % 3

finished = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-3)).fit(
    X[part == 0], y[part == 0]
)
# What the features show of the groups is learned on its own.
groups = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-3))

# %%
# Prices from other rows
# ----------------------
#
# ``prefit=True`` leaves the model as it is. With ``frontier`` the price of every epsilon is found
# on the way.

fair = ParityPostprocessor(finished, prefit=True, group_estimator=groups, frontier=5)
fair.fit(X[part == 1], y[part == 1], sensitive_features=sex[part == 1])
for name, model in {"finished": finished, "made fair": fair}.items():
    decided = model.predict(X[part == 2])
    parity = demographic_parity_difference(decided, sensitive_features=sex[part == 2])
    print(
        f"{name:<10} disparity {parity:.3f}, accuracy {(decided == y[part == 2]).mean():.3f}"
    )

# %%
# What it costs
# -------------
#
# Accuracy against parity, out of fold: as the model is, and if the attribute were known at
# prediction. Below what chance shows there is nothing to gain.

print(fair.frontier_)
fair.frontier_.plot()
plt.show()

# %%
# On new rows
# -----------
#
# A report on rows that neither the model nor the prices have seen.

print(fair.parity_report(X[part == 2], y=y[part == 2], sensitive_features=sex[part == 2]))
