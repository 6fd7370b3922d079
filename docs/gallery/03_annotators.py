"""
Several annotators
==================

Comments are marked *fine*, *rude* or *hostile* by five people each, and they disagree. Comments in
dialect are called rude more often. Votes are kept as probabilities instead of being thrown away by
a majority, and the audit is told who voted: what one strict annotator does is no difference between
groups.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import r2b
from r2b.metrics import demographic_parity_difference

rng = np.random.default_rng(7)
n, people, votes = 3_000, 40, 5
marks = np.array(["fine", "rude", "hostile"])
dialect = np.where(rng.random(n) < 0.3, "dialect", "standard")
heat = rng.gamma(1.5, 0.5, n)
strictness = rng.normal(0, 0.35, people)

# Five annotators see each comment. To all of them dialect sounds a little harsher.
who = np.argsort(rng.random((n, people)), axis=1)[:, :votes]
heard = (
    heat[:, None]
    + strictness[who]
    + 0.3 * (dialect == "dialect")[:, None]
    + rng.normal(0, 0.3, (n, votes))
)
given = np.digitize(heard, [1.0, 1.9])

# %%
# One row per vote
# ----------------
#
# Votes of one annotator belong together. ``clusters`` names them, so that they count as one
# observation and not as hundreds.

each = pd.DataFrame(
    {
        "mark": marks[given].ravel(),
        "dialect": np.repeat(dialect, votes),
        "annotator": who.ravel(),
    }
)
found = r2b.audit(
    each["mark"], sensitive_features=each["dialect"], clusters=each["annotator"]
)
worst = found.worst
print(
    f"{worst.class_name}: {worst.value:.3f} apart; chance explains up to {worst.level:.3f}"
)

# %%
# One row per comment
# -------------------
#
# The share of votes for each mark is the label of a comment. With five votes there are 21 different
# labels, whatever the number of comments, so that this is solved as fast for millions.

shares = pd.DataFrame({mark: (given == k).mean(axis=1) for k, mark in enumerate(marks)})
fair = r2b.debias(shares, sensitive_features=dialect, epsilon=0.01)
print(fair)
fair.plot()
plt.show()

# %%
# Against the majority
# --------------------
#
# A majority vote throws the doubt away and leaves the difference nearly as it was. Fair votes keep
# the doubt. Where one mark per comment is needed, it comes last, by ``round``.

majority = marks[shares.to_numpy().argmax(axis=1)]
rounded = fair.round(random_state=0)
for name, labels in {
    "votes": shares,
    "majority": majority,
    "fair votes": fair.soft_labels,
    "fair marks": rounded,
}.items():
    print(
        f"{name:<11} parity {demographic_parity_difference(labels, sensitive_features=dialect):.3f}"
    )
