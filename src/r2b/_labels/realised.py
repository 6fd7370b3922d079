"""What labels of one class per row achieve, measured on the labels themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from r2b._constraints.families import Families
from r2b._data import Dataset
from r2b._data.arrays import Floats, divided
from r2b._data.cells import Layout
from r2b._data.compute import parts_of
from r2b._solve.certificate import Certificate, FamilyProof, between_groups, measured

if TYPE_CHECKING:
    from r2b._labels.labels import FairLabels


@dataclass(frozen=True, eq=False)
class Realised:
    """What holds for labels as they stand.

    The certificate speaks of distributions. One class per row cannot match them exactly: whole rows
    move a group mean in steps of one over its rows, and drawn ones stray by chance.

    Attributes
    ----------
    disparity : float
        Largest difference between the means of two groups of a family in any class.
    disparity_by_class : ndarray of shape (n_outcomes,)
    excess : float
        Largest amount by which a mean lies outside the bound of a family; 0 where all are met.
    means : ndarray of shape (n_groups, n_outcomes)
    families : tuple of FamilyProof
        What the bound of each family limits, for these labels and for those that came in.
    sums : ndarray of shape (n_cells, n_classes) or None
        Weighted sums of these labels in every cell, from which the means of any other groups
        follow.

    Examples
    --------
    >>> import r2b
    >>> y, sex = ["a", "b", "b", "a", "a", "a", "b"], ["f", "f", "f", "m", "m", "m", "m"]
    >>> fair = r2b.debias(y, sensitive_features=sex, epsilon=0)
    >>> found = fair.realised(fair.round(random_state=0))
    >>> round(fair.certificate.disparity, 9), round(found.disparity, 4), round(found.excess, 4)
    (0.0, 0.1667, 0.1667)
    """

    disparity: float
    disparity_by_class: Floats
    excess: float
    means: Floats
    families: tuple[FamilyProof, ...]
    sums: Floats | None = field(default=None, repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values that strict JSON can hold."""
        return {
            "disparity": self.disparity,
            "disparity_by_class": self.disparity_by_class.tolist(),
            "excess": self.excess,
            "families": [family.to_json() for family in self.families],
        }


def realised(
    families: Families, proof: Certificate, cells: Layout, sums: Floats, weight: Floats
) -> Realised:
    """Measure labels of the fitted rows.

    Parameters
    ----------
    families : Families
    proof : Certificate
        For the group means of the old labels.
    cells : Layout
    sums : ndarray of shape (n_cells, n_classes)
        Weighted sums of the labels of each cell.
    weight : ndarray of shape (n_cells,)
    """
    means = families.means(cells, sums, weight)
    by_class = between_groups(families.members, means)
    found = measured(families.members, families.share, means, proof.means_before)
    return Realised(
        float(by_class.max()), by_class, max(family.excess for family in found), means, found, sums
    )


def rounding_bound(
    families: Families,
    cells: Layout,
    counts: Floats,
    weight: Floats,
    heaviest: float | None,
    n_classes: int,
) -> Floats:
    """Return how far group means of ``round`` may be from those of the distributions.

    Every class count of a cell is right to within one row; of weighted rows the weight of a class
    to within L - 1 of the heaviest. An outcome adds up the counts of several classes.

    Parameters
    ----------
    families : Families
    cells : Layout
    counts, weight : ndarray of shape (n_cells,)
        Rows of each cell, and their weight.
    heaviest : float or None
        Weight of the heaviest row; None where rows have no weights.
    n_classes : int

    Returns
    -------
    ndarray
        Infinite for groups that count rows in part: uncertain groups and moments.
    """
    of_group, total = families.cells_of_groups(cells, counts if heaviest is None else weight)
    steps = of_group if heaviest is None else of_group * (n_classes - 1) * heaviest
    if families.outcomes is not None:
        steps = steps * families.outcomes.steps
    bound = np.full(len(steps), np.inf)
    counted = np.isfinite(of_group) & (total > 0)
    bound[counted] = steps[counted] / total[counted]
    return bound


def promised_parity(families: Families, proof: Certificate, bound: Floats) -> float:
    """Return the largest disparity if group means are within a bound of the certified ones."""
    worst = proof.disparity
    for member in families.members:
        means, apart = proof.means[member.groups], bound[member.groups]
        if len(apart) > 1:
            high, low = means + apart[:, None], means - apart[:, None]
            # The two groups must differ: of one group the highest and the lowest mean never occur
            # together.
            for one in range(len(apart)):
                others = np.delete(low, one, axis=0)
                worst = max(worst, float((high[one] - others).max()))
    return worst


def means_by_cell(data: Dataset, fair: FairLabels) -> Floats:
    """Return the means of fair labels over the cells of a table, which may have other cells."""
    sums, codes = np.zeros((data.n_cells, data.n_classes)), data.cells.codes
    counted = data.repeats if data.weight is None else data.weight
    weight = np.ones(data.n_rows) if counted is None else counted
    step = max(1, (1 << 20) // data.n_classes)
    for rows, block in zip(parts_of(data.n_rows, step), fair.iter_soft(step), strict=True):
        np.add.at(sums, codes[rows], block * weight[rows, None])
    total = np.bincount(codes, weight, data.n_cells)
    return divided(sums, total[:, None])
