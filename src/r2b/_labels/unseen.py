"""Classes and groups that turn up after the prices were found: refused, or given the distribution that fair labels have overall.

Every group has that distribution to within epsilon, so that a new group which is given it is in parity with all others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from r2b._constraints.families.fitted import Crossings
from r2b._constraints.families.request import one_of
from r2b._data import Groups, Schema, Vocabulary
from r2b._data.arrays import Array, Floats, as_objects, cross
from r2b._data.attributes import CATEGORICAL, fitted_attributes
from r2b._data.columns import Column, column_of
from r2b._data.groups import Layout
from r2b._data.values import type_word
from r2b._data.vocabulary import read_vocabulary
from r2b._labels.rows import Response
from r2b._labels.rule import LabelRows, Rule, Solution, read_new
from r2b.errors import ParameterError, UnseenError

Unseen = Literal["error", "overall"]


@dataclass(frozen=True, eq=False, kw_only=True)
class WidenedRule(Rule):
    """A rule that has an answer for values that it was not found for.

    Attributes
    ----------
    base : Rule
        Whose cells and classes come first, and have its answers.
    answers : ndarray of shape (n_cells, n_classes)
        The distribution that a cell's rows get whatever their label; NaN for cells that have prices.
    new_shifts : ndarray of shape (n_new_cells, n_classes)
        What the prices of its groups add up to, for new cells that have some.
    """

    base: Rule
    answers: Floats
    new_shifts: Floats

    @property
    def class_names(self) -> list[Any]:
        """The classes that rows leave with: those of the base."""
        return self.base.class_names

    @property
    def known_crossings(self) -> bool:
        """Whether cells are those of the schema, and no others."""
        return True

    def response(self, cells: Layout) -> Response:
        """Give the map from old to new labels in the cells of the schema."""
        if self.table is not None:
            return Response(np.zeros(self.table.shape[:2]), 1.0, table=self.table)
        known = self.base.response(self.base.schema)
        splits = known.splits and known.splits._replace(prices=np.concatenate([known.splits.prices, self.new_shifts]))
        return replace(known, shifts=np.concatenate([known.shifts, self.new_shifts]), splits=splits, answers=self.answers)


def read_known_or_new(
    fair: Solution, fitted: LabelRows | None, unseen: Unseen, y: Any, sensitive: Any, control: Any, weight: Any, normalize: bool
) -> tuple[Rule, LabelRows]:
    """Read new rows where the fitted ones are, and give the rule for them: that of the result, or where something is new a wider one."""
    one_of("unseen", unseen, get_args(Unseen))
    data = (y, sensitive, control, weight, normalize)
    try:
        return fair.rule, (read_new if fitted is None else fitted.read)(fair.rule, *data)
    except UnseenError:
        if unseen == "error":
            raise
        rule = widened(fair, None if fair.schema.is_soft else y, sensitive, control)
        return rule, read_new(rule, *data)


def widened(fair: Solution, y: Any, sensitive_features: Any, control_features: Any = None) -> WidenedRule:
    """Give the rule of a result with answers for the classes and groups of new rows.

    Parameters
    ----------
    fair : Solution
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
        problem = "The prices were found with a continuous or uncertain attribute, whose groups have no distribution overall."
        raise ParameterError(problem, remedy="Correct or drop the rows that are new, or debias again.", unseen="overall")
    attributes = fitted_attributes(
        sensitive_features, control_features, schema.columns[: schema.n_sensitive], schema.columns[schema.n_sensitive :]
    )
    columns = [(attribute.arrived, attribute.called) for attribute in attributes]
    vocabularies = [_longer(known, column, called) for known, (column, called) in zip(schema.vocabularies, columns, strict=True)]
    codes = [vocabulary.encode(column, what=called) for vocabulary, (column, called) in zip(vocabularies, columns, strict=True)]
    _, crossings = cross(codes, [vocabulary.n_codes for vocabulary in vocabularies])
    # A code for missing values comes last, and moves where values are added.
    fitted = np.array(schema.table, np.int64)
    for place, (old, new) in enumerate(zip(schema.vocabularies, vocabularies, strict=True)):
        if old.has_missing:
            fitted[fitted[:, place] == old.missing_code, place] = len(new)
    there = {tuple(cell) for cell in fitted.tolist()}
    added = np.array([cell for cell in crossings.tolist() if tuple(cell) not in there], np.int64).reshape(-1, len(vocabularies))
    classes = schema.classes if y is None else _longer(schema.classes, column_of(y, what="y"), "y")
    table = np.concatenate([fitted, added])
    wide = Schema(
        schema.columns, tuple(vocabularies), table, schema.n_control, schema.kinds, schema.settings, classes=classes, is_soft=schema.is_soft
    )
    shifts, answers = _new_cells(fair, added)
    made = WidenedRule(wide, rule.families, rule.prices, rule.lam, costs=rule.costs, base=rule, answers=answers, new_shifts=shifts)
    return made if y is None else replace(made, table=_channel(fair, wide, shifts, answers))


def _longer(known: Any, column: Any, called: str) -> Vocabulary:
    """Add the values of a column that a vocabulary does not have, after its own; of another type they are refused."""
    assert isinstance(known, Vocabulary) and isinstance(column, Column)
    values = read_vocabulary(column, what=called, keep_missing=True)[1].values.tolist()
    own, words = set(known.values.tolist()), {type_word(value) for value in known.values}
    new = [value for value in values if value not in own]
    if any(type_word(value) not in words for value in new):
        known.encode(column, what=called)  # says so
    if known.values.dtype.kind == "O":
        return Vocabulary(as_objects([*known.values.tolist(), *new]), has_missing=known.has_missing)
    return Vocabulary(
        np.append(known.values, np.array(new, known.values.dtype.kind)) if new else known.values, has_missing=known.has_missing
    )


def _new_cells(fair: Solution, added: Array) -> tuple[Floats, Floats]:
    """Give the shifts of new cells, and what the rows of all cells get whatever their label."""
    schema, n_classes = fair.schema, len(fair.schema.classes)
    shifts = np.zeros((len(added), n_classes))
    answers = np.full((len(schema.table) + len(added), n_classes), np.nan)
    sizes = [vocabulary.n_codes for vocabulary in schema.vocabularies]
    for place, cell in enumerate(added):
        try:
            if (cell >= sizes).any() or fair.table is not None:
                raise UnseenError("A value is new.", remedy="")
            # Each of its values has a price: families of single attributes know what the crossing costs.
            one = Groups(*replace(Layout(*schema.parts), table=cell[None, :].copy()).parts, codes=np.zeros(1, np.uint8))
            shifts[place] = fair.families.shifts(one, fair.prices)[0]
        except UnseenError:
            answers[len(schema.table) + place] = overall(fair, cell)
    return shifts, answers


def overall(fair: Solution, cell: Array) -> Floats:
    """Give the mean of fair labels over all groups, of the stratum of a cell where its control features were seen.

    Parameters
    ----------
    fair : Solution
    cell : ndarray of shape (n_attributes,)
        Codes of the values of the attributes.
    """
    families = [
        (member, how) for member, how in zip(fair.families.members, fair.families.counting, strict=True) if isinstance(how, Crossings)
    ]
    same = [
        (member, how)
        for member, how in families
        if how.stratum.columns and all(cell[column] == code for column, code in zip(how.stratum.columns, how.stratum.codes, strict=True))
    ]
    chosen = [member.groups for member, _ in same or families]
    share = np.concatenate([fair.families.share[groups] for groups in chosen])
    means = np.concatenate([fair.certificate.means[groups] for groups in chosen])
    mean = np.maximum(share @ means, 0.0)
    return np.asarray(mean / mean.sum())


def _channel(fair: Solution, wide: Schema, shifts: Floats, answers: Floats) -> Floats:
    """Give P(new class | old class, cell) for all cells and classes; no row leaves with a class that is new."""
    n_fitted, n_classes, n_wide = len(fair.schema.table), len(fair.schema.classes), len(wide.classes)
    known = fair.rule.response(fair.schema)
    channel = np.zeros((len(wide.table), n_wide, n_wide))
    channel[:n_fitted, :n_classes, :n_classes] = known.channel()
    if len(shifts):
        priced = replace(known, shifts=shifts, table=None, splits=None)
        channel[n_fitted:, :n_classes, :n_classes] = priced.channel() if known.table is None else 0.0
    for cell, codes in enumerate(wide.table):
        if np.isfinite(answers[cell]).all():
            channel[cell, :, :n_classes] = answers[cell]
        else:
            channel[cell, n_classes:, :n_classes] = overall(fair, codes)
    return channel
