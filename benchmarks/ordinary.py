"""Solve ordinary problems, all of which must be solved.

    python benchmarks/ordinary.py --count 500

A problem follows from its number: 2 to 25 classes, 2 to 12 groups, 200 to 20,000 rows, epsilon 0 to
.1, lam .3, 1 or 3, class labels or probabilities, groups of one column, of two, or memberships in
probability, and every bound. The exit status is 1 where one is not solved.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np

import r2b

BOUNDS = ("range", "range", "to_overall", "ratio", "target", "to_reference")


def drawn(number: int) -> dict[str, Any]:
    """Return the arguments of ``debias`` for the problem of this number."""
    rng = np.random.default_rng([number, 11])
    n_classes, n_groups = int(rng.integers(2, 26)), int(rng.integers(2, 13))
    n_rows = int(np.exp(rng.uniform(np.log(200), np.log(20_000))))
    groups = np.append(np.arange(n_groups), rng.integers(0, n_groups, n_rows - n_groups))
    taste = rng.dirichlet(np.full(n_classes, 3.0), n_groups)
    if rng.random() < 0.5:
        y: Any = (taste[groups].cumsum(axis=1) < rng.random((n_rows, 1))).sum(axis=1)
        y = np.minimum(y, n_classes - 1)
        y[:n_classes] = np.arange(n_classes)
    else:
        y = rng.dirichlet(np.full(n_classes, 0.5), n_rows) + taste[groups]
        y = y / y.sum(axis=1, keepdims=True)
    bound, kind = str(rng.choice(BOUNDS)), str(rng.choice(["one", "two", "membership"]))
    asked: dict[str, Any] = {
        "y": y,
        "sensitive_features": groups,
        "bound": bound,
        "epsilon": float(rng.choice([0.0, 0.001, 0.01, 0.05, 0.1])),
        "lam": float(rng.choice([0.3, 1.0, 1.0, 3.0])),
    }
    if kind == "two":
        asked["sensitive_features"] = {"a": groups % 4, "b": groups // 4}
        asked["families"] = str(rng.choice(["crossed", "marginal", "both"]))
    if kind == "membership":
        part = 0.7 * np.eye(n_groups)[groups] + 0.3 * rng.dirichlet(np.ones(n_groups), n_rows)
        asked["sensitive_features"] = r2b.Membership(part)
    if bound == "target":
        asked["target"] = "population"
    if bound == "to_reference":
        asked["reference"] = "highest"
    if rng.random() < 0.3:
        asked["sample_weight"] = rng.uniform(0.2, 5.0, n_rows)
    return asked


def main() -> int:
    """Solve them, and print those that are not solved."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    seconds, missed = [], 0
    for number in range(options.first, options.first + options.count):
        asked = drawn(number)
        begun = time.process_time()
        fair = r2b.debias(**asked)
        seconds.append(time.process_time() - begun)
        if not fair.status.ok:
            missed += 1
            print(f"{number}: {fair.status.value}, gap {fair.certificate.relative_gap:.1e}")
    print(
        f"{options.count - missed} of {options.count} solved; CPU seconds: median "
        f"{np.median(seconds):.3f}, longest {max(seconds):.2f}, all {sum(seconds):.0f}"
    )
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
