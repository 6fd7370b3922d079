"""The rule that turns old labels into new ones: prices, and the classes and groups they belong to.

New rows may have classes and groups that the prices were not found for. They are refused, or get
the distribution that fair labels have overall. Every group has that distribution to within epsilon,
so a new group that gets it is in parity with all others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from r2b._constraints.families.fitted import Crossings
from r2b._data import Cells, Dataset, Vocabulary
from r2b._data.arrays import Array, Floats, as_objects, cross
from r2b._data.attributes import fitted_attributes
from r2b._data.cells import Layout
from r2b._data.columns import Column, column_of
from r2b._data.values import type_word
from r2b._data.vocabulary import read_vocabulary
from r2b._labels.forms import FairRows, Response
from r2b._labels.result import PriceRule
from r2b.errors import ParameterError, UnseenError

if TYPE_CHECKING:
    from r2b._labels.labels import FairLabels

Unseen = Literal["error", "overall"]


@dataclass(frozen=True, eq=False, repr=False)
class Rule(PriceRule):
    """Prices, and the classes and groups for which they were found.

    Attributes
    ----------
    schema : Schema
    families : Families
    prices : ndarray of shape (n_groups, n_outcomes)
    lam : float
        0 for agreement of class labels.
    unchanged : bool
        The labels are returned as they came in, bit for bit.
    costs : ndarray of shape (n_classes, n_classes) or None
    table : ndarray of shape (n_cells, n_classes, n_classes) or None
        The channel, where prices do not determine it: for agreement with class labels.
    base : Rule or None
        For a rule that also answers for values it was not found for, the rule as it was found: the
        schema then has the cells of the new rows, and its classes first.
    widened : Response or None
        The answers of such a rule in these cells.
    """

    lam: float
    unchanged: bool = False
    costs: Floats | None = None
    table: Floats | None = None
    base: Rule | None = None
    widened: Response | None = None

    STORED = ("prices", "lam", "unchanged", "costs", "table")

    @property
    def fitted(self) -> Rule:
        """The rule as it was found."""
        return self.base or self

    @property
    def known_crossings(self) -> bool:
        """Whether new rows must be of the crossings of the schema: where not prices answer."""
        return self.table is not None or self.widened is not None

    def response(self, cells: Layout) -> Response:
        """Return the map from old to new labels in these cells."""
        if self.widened is not None:
            return self.widened
        shifts = self.families.shifts(cells, self.prices)
        return Response(shifts, self.lam, self.unchanged, self.costs, self.table)

    def answers(self, n_classes: int) -> Floats:
        """Return P(new class | old class, cell) of every cell of the schema."""
        return self.response(self.schema).channel(n_classes)


def applied(rule: Rule, data: Dataset) -> FairRows:
    """Return the rows of a table with their new labels."""
    return FairRows(data, rule.response(data.cells))


def widened(
    fair: FairLabels, y: Any, sensitive_features: Any, control_features: Any = None
) -> Rule:
    """Return the rule of a result with answers for the classes and groups of new rows.

    Parameters
    ----------
    fair : FairLabels
    y : array-like, or None
        Class labels; None for probabilities, whose classes are columns.
    sensitive_features, control_features
        As for :meth:`r2b.FairLabels.transform`.

    Raises
    ------
    UnseenError
        A value is of another type than those fitted.
    ParameterError
        An attribute is continuous or uncertain, or outcomes were compared instead of classes.

    Examples
    --------
    >>> import r2b
    >>> fair = r2b.debias(["a", "b", "b", "b"], sensitive_features=["f", "f", "m", "m"])
    >>> fair.transform(["a", "c"], sensitive_features=["x", "f"], unseen="overall")
    array([[0.33333333, 0.66666667],
           [0.33333333, 0.66666667]])
    """
    schema, rule = fair.schema, fair.rule
    if not schema.is_categorical:
        raise ParameterError(
            "The prices were found with a continuous or uncertain attribute, whose groups have no "
            "distribution overall.",
            remedy="Correct or drop the rows that are new, or debias again.",
            unseen="overall",
        )
    if rule.families.outcomes is not None:
        raise ParameterError(
            "The prices are of outcomes, and what shares single classes have overall is not kept.",
            remedy="Correct or drop the rows that are new, or debias again.",
            unseen="overall",
        )
    columns, n, known_values = schema.columns, schema.n_sensitive, schema.vocabularies
    attributes = fitted_attributes(sensitive_features, control_features, columns[:n], columns[n:])
    vocabularies = tuple(
        _extended(known, each.arrived, each.called)
        for known, each in zip(known_values, attributes, strict=True)
    )
    codes = [
        vocabulary.encode(each.arrived, what=each.called)
        for vocabulary, each in zip(vocabularies, attributes, strict=True)
    ]
    table = cross(codes, [vocabulary.n_codes for vocabulary in vocabularies])[1]
    # The codes of the fitted schema; -1 for values that are new. The code after all values is that
    # of rows without one.
    n_old, n_new = (np.array([len(each) for each in many]) for many in (known_values, vocabularies))
    known = np.where(table < n_old, table, np.where(table == n_new, n_old, -1))
    place = schema.places_of(known)
    shifts, priced = rule.response(schema).shifts[place], place >= 0
    if rule.table is None:
        for new in np.flatnonzero(~priced & (known >= 0).all(axis=1)):
            if (shift := _shift(fair, known[new])) is not None:
                shifts[new], priced[new] = shift, True
    classes = (
        schema.classes if y is None else _extended(schema.classes, column_of(y, what="y"), "y")
    )
    channels = None if rule.table is None else rule.table[place]
    overall = np.array([_overall(fair, cell) for cell in known])
    return replace(
        rule,
        schema=replace(schema, vocabularies=vocabularies, table=table, classes=classes),
        unchanged=False,
        table=channels,
        base=rule,
        widened=Response(shifts, rule.lam, rule.unchanged, rule.costs, channels, overall, priced),
    )


def _extended(known: Any, column: Any, called: str) -> Vocabulary:
    """Append the new values of a column to a vocabulary; refuse values of another type."""
    assert isinstance(known, Vocabulary) and isinstance(column, Column)
    arrived = read_vocabulary(column, what=called, keep_missing=True)[1].values
    own, values = known.values.tolist(), arrived.tolist()
    places = [place for place, value in enumerate(values) if value not in own]
    types = {type_word(value) for value in own}
    if any(type_word(values[place]) not in types for place in places):
        known.encode(column, what=called)  # raises UnseenError
    if "O" in (known.values.dtype.kind, arrived.dtype.kind):
        both = as_objects(own + [values[place] for place in places])
    else:
        both = np.append(known.values, arrived[places])
    return Vocabulary(both, has_missing=known.has_missing)


def _shift(fair: FairLabels, cell: Array) -> Floats | None:
    """Return the shift of a new crossing of known values, or None where its groups are new too."""
    parts = replace(fair.schema, table=cell[None, :].copy()).parts
    groups = Cells(*parts, codes=np.zeros(1, np.uint8))
    try:
        return np.asarray(fair.families.shifts(groups, fair.prices)[0])
    except UnseenError:
        return None


def _overall(fair: FairLabels, cell: Array) -> Floats:
    """Return the mean of fair labels over all groups; over those of the cell's stratum if known."""
    pairs = fair.families.pairs()
    families = [(member, how.stratum) for member, how in pairs if isinstance(how, Crossings)]
    same = [
        (member, stratum)
        for member, stratum in families
        if stratum.columns and (cell[list(stratum.columns)] == stratum.codes).all()
    ]
    chosen = [member.groups for member, _ in same or families]
    share = np.concatenate([fair.families.share[groups] for groups in chosen])
    means = np.concatenate([fair.certificate.means[groups] for groups in chosen])
    mean = np.maximum(share @ means, 0.0)
    return np.asarray(mean / mean.sum())
