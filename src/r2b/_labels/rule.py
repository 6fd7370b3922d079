"""The rule that turns old labels into new ones: prices, and the classes and groups they belong to.

New rows may have classes and groups that the prices were not found for. They are refused, or get
the distribution that fair labels have overall. Every group has that distribution to within epsilon,
so a new group that gets it is in parity with all others.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from r2b._constraints.families import Families
from r2b._constraints.families.fitted import Crossings
from r2b._data import Cells, Dataset, Schema, Vocabulary
from r2b._data.arrays import Array, Floats, as_objects, cross
from r2b._data.attributes import CATEGORICAL, fitted_attributes
from r2b._data.cells import Layout
from r2b._data.columns import Column, column_of
from r2b._data.values import type_word
from r2b._data.vocabulary import read_vocabulary
from r2b._labels.forms import FairRows, Response
from r2b.errors import ParameterError, UnseenError

if TYPE_CHECKING:
    from r2b._labels.labels import FairLabels

Unseen = Literal["error", "overall"]


@dataclass(frozen=True, eq=False)
class Rule:
    """Prices, and the classes and groups for which they were found.

    Attributes
    ----------
    schema : Schema
    families : Families
    prices : ndarray of shape (n_groups, n_classes)
    lam : float
        0 for agreement of class labels.
    unchanged : bool
        The labels are returned as they came in, bit for bit.
    costs : ndarray of shape (n_classes, n_classes) or None
    table : ndarray of shape (n_cells, n_classes, n_classes) or None
        The channel, where prices do not determine it: for agreement with class labels.
    """

    schema: Schema
    families: Families
    prices: Floats
    lam: float
    unchanged: bool = False
    costs: Floats | None = field(default=None, repr=False)
    table: Floats | None = field(default=None, repr=False)

    @property
    def fitted(self) -> Rule:
        """The rule as it was found."""
        return self

    @property
    def classes(self) -> Array:
        """The fitted classes, which are those of the new labels."""
        return self.fitted.schema.classes.values

    @property
    def known_crossings(self) -> bool:
        """Whether new rows must be of fitted crossings: where a table, not prices, has answers."""
        return self.table is not None

    def response(self, cells: Layout) -> Response:
        """Return the map from old to new labels in these cells."""
        shifts = self.families.shifts(cells, self.prices)
        return Response(shifts, self.lam, self.unchanged, self.costs, self.table)


def applied(rule: Rule, data: Dataset) -> FairRows:
    """Return the rows of a table with their new labels."""
    return FairRows(data, rule.response(data.cells))


@dataclass(frozen=True, eq=False, kw_only=True)
class WidenedRule(Rule):
    """A rule that also answers for values it was not found for.

    Attributes
    ----------
    base : Rule
        Its cells and classes come first.
    overall : ndarray of shape (n_cells, n_classes)
        What new classes, and cells without prices, get.
    priced : ndarray of shape (n_cells,)
        Which cells have prices.
    new_shifts : ndarray of shape (n_new_cells, n_classes)
        The sum of the prices of their groups, for new cells that have prices.
    """

    base: Rule
    overall: Floats
    priced: Array
    new_shifts: Floats

    @property
    def fitted(self) -> Rule:
        """The rule as it was found."""
        return self.base

    @property
    def known_crossings(self) -> bool:
        """Whether cells are those of the schema, and no others."""
        return True

    def response(self, cells: Layout) -> Response:
        """Return the map from old to new labels in the cells of the schema."""
        known = self.base.response(self.base.schema)
        return replace(
            known,
            shifts=np.concatenate([known.shifts, self.new_shifts]),
            overall=self.overall,
            priced=self.priced,
        )


def widened(
    fair: FairLabels, y: Any, sensitive_features: Any, control_features: Any = None
) -> WidenedRule:
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
        An attribute is continuous or uncertain.

    Examples
    --------
    >>> import r2b
    >>> fair = r2b.debias(["a", "b", "b", "b"], sensitive_features=["f", "f", "m", "m"])
    >>> fair.transform(["a", "c"], sensitive_features=["x", "f"], unseen="overall")
    array([[0.33333333, 0.66666667],
           [0.33333333, 0.66666667]])
    """
    schema, rule = fair.schema, fair.rule
    if set(schema.kinds) != {CATEGORICAL}:
        raise ParameterError(
            "The prices were found with a continuous or uncertain attribute, whose groups have no "
            "distribution overall.",
            remedy="Correct or drop the rows that are new, or debias again.",
            unseen="overall",
        )
    n_sensitive = schema.n_sensitive
    attributes = fitted_attributes(
        sensitive_features,
        control_features,
        schema.columns[:n_sensitive],
        schema.columns[n_sensitive:],
    )
    vocabularies = [
        _extended(known, each.arrived, each.called)
        for known, each in zip(schema.vocabularies, attributes, strict=True)
    ]
    codes = [
        vocabulary.encode(each.arrived, what=each.called)
        for vocabulary, each in zip(vocabularies, attributes, strict=True)
    ]
    crossings = cross(codes, [vocabulary.n_codes for vocabulary in vocabularies])[1]
    # A code for missing values comes last, and moves where values are added.
    moved = [
        np.append(np.arange(old.n_codes - old.has_missing), [new.n_codes - 1] * old.has_missing)
        for old, new in zip(schema.vocabularies, vocabularies, strict=True)
    ]
    fitted = np.column_stack([new[old] for new, old in zip(moved, schema.table.T, strict=True)])
    there = {tuple(cell) for cell in fitted.tolist()}
    added = [cell for cell in crossings.tolist() if tuple(cell) not in there]
    new_cells = np.array(added, np.int64).reshape(-1, len(vocabularies))
    # The codes of the fitted schema; -1 for values that are new.
    known = np.full(new_cells.shape, -1)
    for column, back in enumerate(moved):
        row, code = np.nonzero(new_cells[:, column, None] == back)
        known[row, column] = code
    prices = [None if (cell < 0).any() else _shift(fair, cell) for cell in known]
    priced = np.array([True] * len(fitted) + [each is not None for each in prices])
    every = np.concatenate([schema.table, known])
    classes = schema.classes
    if y is not None:
        classes = _extended(classes, column_of(y, what="y"), "y")
    wide = Schema(
        schema.columns,
        tuple(vocabularies),
        np.concatenate([fitted, new_cells]),
        schema.n_control,
        schema.kinds,
        schema.settings,
        classes=classes,
        is_soft=schema.is_soft,
    )
    zero = np.zeros(len(schema.classes))
    return WidenedRule(
        wide,
        rule.families,
        rule.prices,
        rule.lam,
        costs=rule.costs,
        base=rule,
        overall=np.array([_overall(fair, cell) for cell in every]),
        priced=priced,
        new_shifts=np.array([zero if each is None else each for each in prices]).reshape(
            -1, len(zero)
        ),
    )


def _extended(known: Any, column: Any, called: str) -> Vocabulary:
    """Append the new values of a column to a vocabulary; refuse values of another type."""
    assert isinstance(known, Vocabulary) and isinstance(column, Column)
    values = read_vocabulary(column, what=called, keep_missing=True)[1].values.tolist()
    own = known.values.tolist()
    types, new = {type_word(value) for value in own}, [each for each in values if each not in own]
    if any(type_word(value) not in types for value in new):
        known.encode(column, what=called)  # raises UnseenError
    kind = known.values.dtype.kind
    both = as_objects(own + new) if kind == "O" else known.values
    if kind != "O" and new:
        both = np.append(known.values, np.array(new, kind))
    return Vocabulary(both, has_missing=known.has_missing)


def _shift(fair: FairLabels, cell: Array) -> Floats | None:
    """Return the shift of a new crossing of known values, or None where its groups are new too."""
    if fair.table is not None:
        return None
    layout = replace(Layout(*fair.schema.parts), table=cell[None, :].copy())
    groups = Cells(*layout.parts, codes=np.zeros(1, np.uint8))
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
