"""
A network in PyTorch
====================

A network that is trained on labels in parity need not be in parity: it sees features, not groups,
and features give part of the groups away. ``fair_labels`` makes the labels fair by what the
features show. The training loop stays yours.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

import r2b
from r2b.metrics import demographic_parity_difference, sampling_level
from r2b.models.torch import SoftLabelDataset, soft_cross_entropy
from r2b.sklearn import fair_labels

torch.set_num_threads(1)
rng = np.random.default_rng(5)
n, levels = 6_000, np.array(["low", "middle", "high"])
group = np.where(rng.random(n) < 0.4, "a", "b")
X = rng.normal(0, 1, (n, 6)) + np.outer(group == "a", [1.0, 0.5, 0, 0, 0, 0])
score = X[:, 2] + 0.6 * X[:, 3] - 0.7 * X[:, 0] + rng.normal(0, 0.5, n)
y = levels[np.digitize(score, np.quantile(score, [0.4, 0.75]))]
train, test = slice(0, 4_000), slice(4_000, None)

# %%
# One training, three kinds of labels
# -----------------------------------
#
# A data set gives features, a distribution over the classes and a weight per row; the loss is the
# cross-entropy with distributions.


def train_on(labels, epochs=4):
    """Train a small network and give its probabilities on new rows."""
    torch.manual_seed(0)
    data = SoftLabelDataset(X[train], labels)
    batches = DataLoader(
        data,
        sampler=BatchSampler(RandomSampler(data), 128, drop_last=False),
        batch_size=None,
    )
    network = torch.nn.Sequential(
        torch.nn.Linear(6, 24), torch.nn.ReLU(), torch.nn.Linear(24, len(data.classes))
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(epochs):
        for features, target, weight in batches:
            optimizer.zero_grad()
            soft_cross_entropy(network(features), target, weight).backward()
            optimizer.step()
    new = torch.tensor(X[test], dtype=torch.float32)
    with torch.no_grad():
        return network(new).softmax(dim=1).double().numpy()


labels = {
    "as they came": y[train],
    "fair by true group": r2b.debias(y[train], sensitive_features=group[train]),
    "fair by visible group": fair_labels(
        X[train], y[train], sensitive_features=group[train], cv=3
    ),
}
chances = {name: train_on(each) for name, each in labels.items()}
new_rows = {"sensitive_features": group[test]}
parity = {
    name: demographic_parity_difference(each, **new_rows) for name, each in chances.items()
}
chance = sampling_level(
    chances["as they came"], n_permutations=100, random_state=0, **new_rows
).mean
for name, value in parity.items():
    print(f"{name:<22} parity on new rows {value:.3f}")
print(f"chance alone shows {chance:.3f}")

# %% The second line is the surprise: labels in exact parity, and a network that is not. `The page
# on fair models <../learners.html>`__ says why. For fair decisions, not only probabilities, hand
# the trained network to ``ParityPostprocessor``.

figure, ax = plt.subplots(figsize=(7, 2.6), layout="constrained")
ax.barh(list(parity), list(parity.values()), color=["#8a94a3", "#e08a2c", "#1d5fa8"])
ax.axvline(chance, color="black", linestyle=":", label="by chance")
ax.invert_yaxis()
ax.set(
    xlabel="parity of predicted probabilities, new rows",
    title="What the labels of a network do to its predictions",
)
ax.legend()
plt.show()
