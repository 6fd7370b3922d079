"""The weights closest to 1, row by row from the definition, by a solver that knows no prices."""

import clarabel
import numpy as np
from scipy import sparse


def least_change(y, weight, families, bound, epsilon, largest, shares=None):
    """Half the least mean squared distance from 1; None where no weights meet the bounds.

    ``families`` holds a matrix for each family: how much row i counts in group g. ``shares`` are
    those that the groups of a single family are to have.
    """
    n, n_classes = y.shape
    total = weight.sum()
    levels = len(families) * n_classes if bound in ("range", "ratio") else 0
    equal, equal_to, below, below_to = [], [], [], []
    population = weight @ y / total
    for place, counts in enumerate(families):
        sums = weight @ counts if shares is None else total * shares
        means = (counts * weight[:, None] / sums).T  # (n_groups, n)
        equal += list(means)
        equal_to += [1.0] * len(means)
        overall = (sums / sums.sum()) @ means
        for k in range(n_classes):
            for mean in means * y[:, k]:
                level = np.zeros(levels)
                if levels:
                    level[place * n_classes + k] = 1.0
                sides = {
                    "range": [(mean, -level, epsilon / 2), (-mean, level, epsilon / 2)],
                    "ratio": [(mean, -level, 0.0), (-mean, (1 - epsilon) * level, 0.0)],
                    "target": [
                        (mean, level, population[k] + epsilon / 2),
                        (-mean, level, epsilon / 2 - population[k]),
                    ],
                    "to_overall": [
                        (mean - overall * y[:, k], level, epsilon),
                        (overall * y[:, k] - mean, level, epsilon),
                    ],
                }[bound]
                below += [np.concatenate([row, own]) for row, own, _ in sides]
                below_to += [side for *_, side in sides]
    whole = np.hstack([np.eye(n), np.zeros((n, levels))])
    equal = [np.concatenate([row, np.zeros(levels)]) for row in equal]
    caps = [] if largest is None else [whole]
    left = np.vstack([*equal, *below, -whole, *caps])
    right = np.concatenate(
        [equal_to, below_to, np.zeros(n), *([] if largest is None else [np.full(n, largest)])]
    )
    square = np.concatenate([weight / total, np.zeros(levels)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    cones = [clarabel.ZeroConeT(len(equal)), clarabel.NonnegativeConeT(len(right) - len(equal))]
    found = clarabel.DefaultSolver(
        sparse.csc_matrix(np.diag(square)), -square, sparse.csc_matrix(left), right, cones, settings
    ).solve()
    if "Solved" not in str(found.status):
        assert "PrimalInfeasible" in str(found.status)
        return None
    u = np.array(found.x[:n])
    return float(weight @ (0.5 * (u - 1.0) ** 2) / total)
