"""
Images with soft scores
=======================

Pictures of skin are sorted into *benign*, *unclear* and *malignant*. Nobody has certain labels for
them: a model gave each a probability for every class. On dark skin the same spot stands out less,
and the model calls it malignant less often. We make the scores fair before another model is trained
on them.

The pictures are drawn here, sixteen by sixteen pixels each.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

import r2b

rng = np.random.default_rng(0)
n, side = 2_000, 16
classes = ["benign", "unclear", "malignant"]
truth = rng.choice(3, n, p=[0.6, 0.25, 0.15])
dark = rng.random(n) < 0.4
tone = np.where(dark, "dark", "light")

# A spot on skin: the worse the finding, the wider the spot.
# On dark skin it differs less from what is around it.
y, x = np.mgrid[:side, :side]
centre = rng.uniform(6, 10, (n, 2, 1, 1))
radius = rng.normal(2.0 + 1.2 * truth, 0.6)[:, None, None]
spot = np.exp(-((x - centre[:, 0]) ** 2 + (y - centre[:, 1]) ** 2) / radius**2)
skin = np.where(dark, 0.45, 0.85)[:, None, None]
contrast = np.where(dark, 0.25, 0.6)[:, None, None]
pictures = np.clip(skin - contrast * spot + rng.normal(0, 0.03, (n, side, side)), 0, 1)

figure, axes = plt.subplots(2, 6, figsize=(9, 3.4))
for row, name in zip(axes, ["light", "dark"], strict=True):
    for ax, i in zip(row, np.flatnonzero(tone == name)[:6], strict=True):
        ax.imshow(pictures[i], cmap="copper", vmin=0, vmax=1)
        ax.set_title(classes[truth[i]], fontsize=9)
        ax.axis("off")
figure.suptitle("The same findings on light and on dark skin")
plt.show()

# %%
# Scores
# ------
#
# The first model was trained on pictures of light skin alone, as many were. It looks at how much
# darker than the skin a picture is, at five quantiles of its pixels.

depth = pictures.max(axis=(1, 2), keepdims=True) - pictures
features = np.column_stack(
    [np.quantile(depth.reshape(n, -1), q, axis=1) for q in (0.5, 0.7, 0.8, 0.9, 0.97)]
)
model = LogisticRegression(C=100, max_iter=500).fit(
    features[:600][~dark[:600]], truth[:600][~dark[:600]]
)
scores = pd.DataFrame(model.predict_proba(features), columns=classes)
print(scores.groupby(tone).mean().round(3))

# %%
# Fair scores
# -----------
#
# A table with one column per class goes in as it is. Each row gets the closest distribution; a row
# moves in small steps, not from one class to another.

fair = r2b.debias(scores, sensitive_features=tone, epsilon=0.02)
print(fair)
fair.plot()
plt.show()

# %%
# What happens to one picture
# ---------------------------
#
# All rows of a group pay the same prices. The points show how far each picture moves.

soft = fair.soft(as_frame=True)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
for ax, name in zip(axes, ["light", "dark"], strict=True):
    here = tone == name
    ax.scatter(scores.loc[here, "malignant"], soft.loc[here, "malignant"], s=6, alpha=0.4)
    ax.plot([0, 1], [0, 1], color="grey", linewidth=0.8)
    ax.set(title=f"{name} skin", xlabel="malignant, as scored")
axes[0].set_ylabel("malignant, fair")
plt.show()
