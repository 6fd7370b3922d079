"""
Census: what people do for a living
===================================

A website suggests occupations and learns from census data. Among the people in it, one woman in
four is a clerk, and one man in seventeen. We look at the difference, choose how much of it may
stay, make the labels fair and check them.
"""

import matplotlib.pyplot as plt

import r2b
from r2b.metrics import demographic_parity_difference

people = r2b.datasets.load_adult(as_frame="pandas")
people = people[people["occupation"] != "?"]
job, sex = people["occupation"], people["sex"]

# %%
# Look first
# ----------
#
# An audit measures and changes nothing. It says how far the groups are apart, and how much of that
# chance alone would show.

found = r2b.audit(job, sensitive_features=sex)
worst = found.worst
print(
    f"{worst.class_name}: {worst.value:.3f} apart; chance explains up to {worst.level:.3f}"
)
found.plot()
plt.show()

# %%
# Choose epsilon
# --------------
#
# Epsilon is the largest difference that may stay, in every class. The frontier shows what each
# value costs. Going below what chance shows gains nothing that would hold in another sample.

cost = r2b.frontier(
    job, sensitive_features=sex, epsilons=[0.0, 0.01, 0.02, 0.05, 0.1, 0.15]
)
print(cost)
cost.plot()
plt.show()

# %%
# Make the labels fair
# --------------------
#
# We take 0.05. The account says what was done, and the certificate proves that no labels with this
# parity are closer to the old ones.

fair = r2b.debias(job, sensitive_features=sex, epsilon=0.05)
print(fair)
fair.plot()
plt.show()

# %%
# Take them along
# ---------------
#
# The answer is a distribution per row. ``round`` gives one occupation to each person and keeps the
# counts; learners that take weights or probabilities get them by ``expand`` and ``soft_labels``.
# Do not take the most probable class: it is nearly always the old label.

new = fair.round(random_state=0)
print(
    f"parity of the rounded labels: {demographic_parity_difference(new, sensitive_features=sex):.4f}"
)
print(f"labels changed: {(new != job).mean():.1%}")
