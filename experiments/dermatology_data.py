"""The dermatology tables from a folder, split in training, tuning and test; no lesion in two."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np

from experiments.coco_data import folder_of, table_of
from experiments.experiment import Codes
from experiments.read_dermatology import Cases, ham10000_cases, scin_cases
from r2b.errors import ParameterError

SHARES: Final = {"ham10000": (0.76, 0.12, 0.12), "scin": (0.5, 0.25, 0.25)}
"""Training, tuning and test: the paper's shares, and larger tuning and test splits for the small
table."""


@dataclass(frozen=True)
class Rows:
    """Positions of the rows of each split."""

    train: Codes
    tune: Codes
    test: Codes


def cases_of(name: str, data: Path | None) -> Cases:
    """Read one of the public tables."""
    return _cases(name, folder_of(data, name).resolve())


@lru_cache(maxsize=2)
def _cases(name: str, folder: Path) -> Cases:
    if name == "ham10000":
        features = folder / "ham10000_efficientnet_lite0_pca256.parquet"
        return ham10000_cases(table_of(folder / "HAM10000_metadata.csv.gz"), table_of(features))
    return scin_cases(
        table_of(folder / "scin_cases.csv.gz"), table_of(folder / "scin_labels.csv.gz")
    )


def split_rows(cases: Cases, shares: tuple[float, float, float], seed: int) -> Rows:
    """Divide rows at random, every unit whole, every group in proportion.

    Raises
    ------
    ParameterError
        A group has fewer than three units, and cannot be in all three splits.
    """
    names, first, unit = np.unique(cases.units, return_index=True, return_inverse=True)
    group_of_unit = cases.groups[first]
    rng = np.random.default_rng([seed, 21])
    part = np.empty(len(names), dtype=np.int64)
    for group in np.unique(cases.groups):
        members = rng.permutation(np.flatnonzero(group_of_unit == group))
        if len(members) < 3:
            problem = f"The group {str(group)!r} has {len(members)} units."
            raise ParameterError(
                problem,
                remedy="Merge groups, or leave this one out.",
                group=str(group),
                n_units=len(members),
            )
        tune = max(1, round(shares[1] * len(members)))
        test = max(1, round(shares[2] * len(members)))
        part[members] = 0
        part[members[:tune]] = 1
        part[members[tune : tune + test]] = 2
    by_row = part[unit.ravel()]
    return Rows(*(np.flatnonzero(by_row == k) for k in range(3)))
