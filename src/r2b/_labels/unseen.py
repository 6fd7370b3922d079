"""Classes and groups that turn up after the prices were found: refused, or given the distribution that fair labels have overall.

Every group has that distribution to within epsilon, so that a new group which is given it is in
parity with all others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from r2b._constraints.families.fitted import Crossings
from r2b._constraints.families.request import one_of
from r2b._data import Cells, Schema, Vocabulary
from r2b._data.arrays import Array, Floats, as_objects, cross
from r2b._data.attributes import CATEGORICAL, fitted_attributes
from r2b._data.cells import Layout
from r2b._data.columns import Column, column_of
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
        The distribution that a cell's rows get whatever their label; NaN for cells that have
        prices.
    new_shifts : ndarray of shape (n_new_cells, n_classes)
        What the prices of its groups add up to, for new cells that have some.
    """

    base: Rule
    answers: Floats
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
        """Give the map from old to new labels in the cells of the schema."""
        if self.table is not None:
            return Response(np.zeros(self.table.shape[:2]), 1.0, table=self.table)
        known = self.base.response(self.base.schema)
        splits = known.splits and known.splits._replace(
            prices=np.concatenate([known.splits.prices, self.new_shifts])
        )
        return replace(
            known,
            shifts=np.concatenate([known.shifts, self.new_shifts]),
            splits=splits,
            answers=self.answers,
        )


def read_known_or_new(
    fair: Solution,
    fitted: LabelRows | None,
    unseen: Unseen,
    y: Any,
    sensitive: Any,
    control: Any,
    weight: Any,
    normalize: bool,
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


def widened(
    fair: Solution, y: Any, sensitive_features: Any, control_features: Any = None
) -> WidenedRule:
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
        raise ParameterError(
            problem,
            remedy="Correct or drop the rows that are new, or debias again.",
            unseen="overall",
        )
    attributes = fitted_attributes(
        sensitive_features,
        control_features,
        schema.columns[: schema.n_sensitive],
        schema.columns[schema.n_sensitive :],
    )
    columns = [(attribute.arrived, attribute.called) for attribute in attributes]
    vocabularies = [
        _longer(known, column, called)
        for known, (column, called) in zip(schema.vocabularies, columns, strict=True)
    ]
    codes = [
        vocabulary.encode(column, what=called)
        for vocabulary, (column, called) in zip(vocabularies, columns, strict=True)
    ]
    _, crossings = cross(codes, [vocabulary.n_codes for vocabulary in vocabularies])
    # A code for missing values comes last, and moves where values are added.
    fitted = np.array(schema.table, np.int64)
    for place, (old, new) in enumerate(zip(schema.vocabularies, vocabularies, strict=True)):
        if old.has_missing:
            fitted[fitted[:, place] == old.missing_code, place] = len(new)
    there = {tuple(cell) for cell in fitted.tolist()}
    added = np.array(
        [cell for cell in crossings.tolist() if tuple(cell) not in there], np.int64
    ).reshape(-1, len(vocabularies))
    classes = schema.classes if y is None else _longer(schema.classes, column_of(y, what="y"), "y")
    table = np.concatenate([fitted, added])
    wide = Schema(
        schema.columns,
        tuple(vocabularies),
        table,
        schema.n_control,
        schema.kinds,
        schema.settings,
        classes=classes,
        is_soft=schema.is_soft,
    )
    codes_before = _fitted_codes(schema, wide)
    shifts, answers = _new_cells(fair, codes_before)
    made = WidenedRule(
        wide,
        rule.families,
        rule.prices,
        rule.lam,
        costs=rule.costs,
        base=rule,
        answers=answers,
        new_shifts=shifts,
    )
    return (
        made
        if y is None
        else replace(made, table=_channel(fair, codes_before, len(classes), shifts, answers))
    )


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
        np.append(known.values, np.array(new, known.values.dtype.kind)) if new else known.values,
        has_missing=known.has_missing,
    )


def _fitted_codes(schema: Schema, wide: Schema) -> Array:
    """Give the cells of the wider schema in the codes of the fitted one; -1 for values that are new."""
    codes = np.array(wide.table, np.int64)
    for place, (old, new) in enumerate(zip(schema.vocabularies, wide.vocabularies, strict=True)):
        mine, last = wide.table[:, place], new.n_codes - 1
        codes[mine >= len(old.values), place] = -1
        if old.missing_code is not None:
            codes[mine == last, place] = old.missing_code
    return codes


def _new_cells(fair: Solution, codes: Array) -> tuple[Floats, Floats]:
    """Give the shifts of new cells, and what the rows of all cells get whatever their label."""
    schema, n_classes = fair.schema, len(fair.schema.classes)
    n_fitted = len(schema.table)
    shifts, answers = (
        np.zeros((len(codes) - n_fitted, n_classes)),
        np.full((len(codes), n_classes), np.nan),
    )
    for place, cell in enumerate(codes[n_fitted:]):
        priced = None if (cell < 0).any() or fair.table is not None else _shift(fair, cell)
        if priced is None:
            answers[n_fitted + place] = overall(fair, cell)
        else:
            shifts[place] = priced
    return shifts, answers


def _shift(fair: Solution, cell: Array) -> Floats | None:
    """Give what a new crossing of known values costs: families of single attributes know it, others do not."""
    layout = replace(Layout(*fair.schema.parts), table=cell[None, :].copy())
    try:
        return np.asarray(
            fair.families.shifts(Cells(*layout.parts, codes=np.zeros(1, np.uint8)), fair.prices)[0]
        )
    except UnseenError:
        return None


def overall(fair: Solution, cell: Array) -> Floats:
    """Give the mean of fair labels over all groups, of the stratum of a cell where its control features were seen.

    Parameters
    ----------
    fair : Solution
    cell : ndarray of shape (n_attributes,)
        Codes of the values of the attributes; -1 for one that is new.
    """
    families = [
        (member, how)
        for member, how in zip(fair.families.members, fair.families.counting, strict=True)
        if isinstance(how, Crossings)
    ]
    same = [
        (member, how)
        for member, how in families
        if how.stratum.columns
        and all(
            cell[column] == code
            for column, code in zip(how.stratum.columns, how.stratum.codes, strict=True)
        )
    ]
    chosen = [member.groups for member, _ in same or families]
    share = np.concatenate([fair.families.share[groups] for groups in chosen])
    means = np.concatenate([fair.certificate.means[groups] for groups in chosen])
    mean = np.maximum(share @ means, 0.0)
    return np.asarray(mean / mean.sum())


def _channel(fair: Solution, codes: Array, n_wide: int, shifts: Floats, answers: Floats) -> Floats:
    """Give P(new class | old class, cell) for all cells and classes; no row leaves with a class that is new."""
    n_fitted, n_classes = len(fair.schema.table), len(fair.schema.classes)
    known = fair.rule.response(fair.schema)
    channel = np.zeros((len(codes), n_wide, n_wide))
    channel[:n_fitted, :n_classes, :n_classes] = known.channel()
    if len(shifts) and known.table is None:
        channel[n_fitted:, :n_classes, :n_classes] = replace(known, shifts=shifts).channel()
    for cell, given in enumerate(answers):
        if np.isfinite(given).all():
            channel[cell, :, :n_classes] = given
        else:
            channel[cell, n_classes:, :n_classes] = overall(fair, codes[cell])
    return channel
