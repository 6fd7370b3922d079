"""What holds for the labels that leave, in the very groups that an audit measured before: from sums over cells, whatever their form."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from r2b._audit import Audit
from r2b._audit.results import FamilyAudit
from r2b._constraints.bounds import MomentBound
from r2b._data.arrays import Floats
from r2b._data.merge import class_weights
from r2b._labels import FairLabels, means_by_cell
from r2b._labels.realised import Realised
from r2b.errors import ParameterError
from r2b.metrics.means import means_of
from r2b.report.flows import MOST_NUMBERS, channel_of

_ROUNDING = 1e-7
_MEASURES = ("disparity", "disparity_by_class", "ratio", "ratio_by_class", "means", "overall")


def families_after(
    found: Audit, fair: FairLabels, leaving: Realised | None = None
) -> list[dict[str, Any]] | None:
    """Measure the families of an audit on the labels that leave.

    Parameters
    ----------
    found : Audit
        Of the labels that came in.
    fair : FairLabels
        With its rows in memory, or counted.
    leaving : Realised, optional
        Of labels with one class per row; without it the labels are distributions.

    Returns
    -------
    list of dict or None
        In the order of ``found.families``; None where the audit is of other cells than the labels.

    Raises
    ------
    ParameterError
        The certificate is of other rows than these.
    """
    data, audited, fitted = fair.dataset, found.data, found.fitted
    if (
        data is None
        or audited is None
        or fitted is None
        or not np.array_equal(data.cells.table, audited.cells.table)
    ):
        return None
    _, weight = means_of(data)
    sums = _sums(fair, weight) if leaving is None or leaving.sums is None else leaving.sums
    if leaving is None:
        _refuse_other_rows(fair, sums, weight)
    means = fitted.means(
        audited.cells, sums, np.where(weight > 0, weight, 1.0) if fitted.by_cell else weight
    )
    places = [
        member.groups for member in fitted.members if not isinstance(member.bound, MomentBound)
    ]
    if len(places) != len(found.families) or not np.isfinite(means).all():
        return None
    after = [
        _measured(family, means[place])
        for family, place in zip(found.families, places, strict=True)
    ]
    return [
        {"name": each.name, **{name: getattr(each, name) for name in _MEASURES}} for each in after
    ]


def _measured(family: FamilyAudit, means: Floats) -> FamilyAudit:
    return replace(
        family, means=means, overall=family.share @ means, chance=None, interval=None, levels=None
    )


def _sums(fair: FairLabels, weight: Floats) -> Floats:
    """Add up fair distributions in every cell."""
    data = fair.dataset
    assert data is not None
    if data.labels.is_soft or data.n_cells * data.n_classes**2 > MOST_NUMBERS:
        return np.asarray(means_by_cell(data, fair) * weight[:, None])
    return np.asarray(np.einsum("ck,ckl->cl", class_weights(data), channel_of(fair)))


def _refuse_other_rows(fair: FairLabels, sums: Floats, weight: Floats) -> None:
    """Refuse a certificate of other rows: prices that were applied to a new table prove nothing about its parity."""
    data = fair.dataset
    assert data is not None
    means = fair.families.means(data.cells, sums, weight)
    if np.abs(means - fair.certificate.means).max() > _ROUNDING:
        problem = "The certificate of these labels is of other rows than those they are of now."
        raise ParameterError(
            problem,
            remedy="Audit the labels that left with r2b.audit(...), and take its report(...).",
        )
