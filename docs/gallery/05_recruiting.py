"""
Recruiting: the four-fifths rule
================================

In the United States a rule of thumb compares how often groups are selected: no group should have
less than four fifths of the rate of the group that has most. It is about ratios, so a bound on
differences is not what it asks for. Three outcomes are recorded here, and the rule is kept for
invitations and for offers.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import r2b

rng = np.random.default_rng(11)
n = 6_000
age = rng.choice(["under 40", "40 to 54", "55 and over"], n, p=[0.5, 0.35, 0.15])
merit = (
    rng.normal(0, 1, n)
    - pd.Series(age).map({"under 40": 0.0, "40 to 54": 0.2, "55 and over": 0.5}).to_numpy()
)
outcome = pd.Series(
    np.array(["rejected", "invited", "offer"])[np.digitize(merit, [0.7, 1.6])],
    name="outcome",
)

rates = pd.crosstab(pd.Series(age, name="age"), outcome, normalize="index")
print(rates.round(3))
print("lowest rate over highest:", (rates.min() / rates.max()).round(2).to_dict())

# %%
# Four fifths, exactly
# --------------------
#
# ``bound="ratio"`` limits 1 - lowest / highest, so that 0.2 is four fifths. It is asked of the
# favourable outcomes alone. ``"agreement"`` is for the fewest changes, since every changed outcome
# is one that did not happen.

asked = {"invited": 0.2, "offer": 0.2}
fair = r2b.debias(
    outcome, sensitive_features=age, bound="ratio", epsilon=asked, objective="agreement"
)
print(fair)

# %%
# The same as a picture
# ---------------------

means = fair.to_frame().pivot(index="class", columns="group")
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for ax, name in zip(axes, ["invited", "offer"], strict=True):
    table = means.loc[name].unstack(0)[["before", "after"]]
    table.plot.bar(ax=ax, rot=0, legend=name == "offer", xlabel="", title=name)
    for k, when in enumerate(table):
        level = 0.8 * table[when].max()
        ax.axhline(level, color=f"C{k}", linestyle=":", linewidth=1.5)
axes[0].set_ylabel("share of the group")
figure.suptitle("Dotted: four fifths of the highest rate, before and after")
plt.show()

# %%
# Is a ratio what you want?
# -------------------------
#
# A ratio is strict about rare outcomes and generous about frequent ones. ``compare`` puts choices
# side by side and says which of them the labels of another choice meet as well.

choices = {
    "four fifths": {"bound": "ratio", "epsilon": asked},
    "within 2 points": {"epsilon": 0.02},
    "within 5 points": {"epsilon": 0.05},
}
print(r2b.compare(outcome, sensitive_features=age, choices=choices))
