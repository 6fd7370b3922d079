"""
Students: marks have an order
=============================

A model will predict marks, and its labels are those of two kinds of school that mark differently.
Marks are ordered: to move a student from *Fail* to *Pass* is one thing, from *Fail* to
*Distinction* another. Costs say so.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import r2b

rng = np.random.default_rng(3)
n = 4_000
order = ["Fail", "Pass", "Merit", "Distinction"]
school = np.where(rng.random(n) < 0.35, "evening", "day")
ability = rng.normal(0, 1, n)
mark = np.digitize(ability - 0.45 * (school == "evening"), [-1.1, 0.3, 1.2])
marks = pd.Series(pd.Categorical.from_codes(mark, order, ordered=True), name="mark")
print(pd.crosstab(pd.Series(school, name="school"), marks, normalize="index").round(3))

# %%
# Without and with an order
# -------------------------
#
# By default every change counts the same. With ``costs="ordinal"`` a change costs as many places as
# it goes. The order is that of the categories. More marks change then, and none goes far.

plain = r2b.debias(marks, sensitive_features=school, epsilon=0.02)
near = r2b.debias(marks, sensitive_features=school, epsilon=0.02, costs="ordinal")
for name, fair in {"any change alike": plain, "by places": near}.items():
    far = (fair.soft_labels * (near.costs[mark] > 1)).sum(axis=1).mean()
    changed = fair.certificate.expected_changes
    print(
        f"{name:<17} parity {fair.disparity:.3f}; {changed:.1%} change, {far:.1%} by more than one place"
    )

# %%
# Where labels go
# ---------------
#
# The channel is the chance that a student of a school with one mark gets another. With costs by
# places everything happens beside the diagonal.

figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for ax, (name, fair) in zip(
    axes, {"any change alike": plain, "by places": near}.items(), strict=True
):
    group = list(fair.groups).index("evening")
    table = np.asarray(fair.channel[group])
    image = ax.imshow(table, cmap="Blues", vmin=0, vmax=1)
    for (i, k), share in np.ndenumerate(table):
        if share > 0.0005:
            ax.text(
                k,
                i,
                f"{share:.2f}",
                ha="center",
                va="center",
                color="white" if share > 0.5 else "black",
            )
    ax.set_xticks(range(4), fair.classes, rotation=30)
    ax.set_yticks(range(4), fair.classes)
    ax.set(title=name, xlabel="new mark")
axes[0].set_ylabel("old mark, evening school")
plt.show()

# %%
# Who changes
# -----------
#
# The heaviest flows, as a frame of pandas because the marks came as one.

print(near.to_frame("changes").head(6).round(3).to_string(index=False))
