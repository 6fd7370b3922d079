"""A promise about new rows: an upper confidence bound on the disparity of predictions.

It comes from rows that were not used for fitting. The disparity is the largest of many differences
between two groups, one for each class. In the population one of them is the largest, and a bound
fails only where the bound of that one difference fails. So each difference gets its own upper bound
at the whole confidence, and the largest of these is a bound on all of them at once, however many
they are: nothing is divided among them. Each bound is one of :mod:`r2b.metrics.betting`, which
holds for groups of any size and for classes as for probabilities.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import ceil, floor, inf, isinf, log, log10
from statistics import NormalDist
from typing import Any

import numpy as np

from r2b._data import Dataset
from r2b._data.arrays import Array, Floats, plain_value
from r2b._data.attributes import CATEGORICAL
from r2b._data.compute import generator
from r2b._data.numbers import refuse_no_probability, refuse_other_number
from r2b._data.values import written
from r2b.errors import InputError, ParameterError, WeightError
from r2b.metrics.betting import block_means, n_pairs, narrowed, ruled_out
from r2b.metrics.criteria import CRITERIA, CriterionName, PredictionTable, read_predictions
from r2b.metrics.groups import AbsentGroup, Families, families_of
from r2b.metrics.means import sums_of

METHOD = "betting on paired rows"
_SPENT = (
    # of the chance to fail: bounds are so sharp that, with all of it, half of all simulations would
    # show a little less confidence
    0.75
)
_UNSEEN = -1  # a class that no row held back was predicted to be of, and that new rows may be


@dataclass(frozen=True)
class PromiseLimit:
    """The difference between two groups that a promise comes from.

    Attributes
    ----------
    group, other : str, number or other value
        The first one may be ahead by ``bound``.
    rows : tuple of int
        How many rows each of them has.
    class_name : str, number or other value
        The predicted class; None for any that no row was predicted to be of.
    where : str
        The stratum of the control features, and the true class; empty without them.
    measured, bound : float
    """

    group: Any
    other: Any
    rows: tuple[int, int]
    class_name: Any
    where: str
    measured: float
    bound: float

    def __str__(self) -> str:
        one, two = (
            f"{_shown(name)} ({n:,} rows)"
            for name, n in zip((self.group, self.other), self.rows, strict=True)
        )
        of = (
            "a class that none of them was predicted"
            if self.class_name is None
            else f"class {_shown(self.class_name)}"
        )
        return f"{one} against {two} in {of}" + f", {self.where}" * bool(self.where)


@dataclass(frozen=True, eq=False)
class Promise:
    """An upper bound on the disparity of predictions for new rows of the same population.

    Attributes
    ----------
    bound : float
        With the given confidence the disparity of the population is at most this.
    measured : float
        The disparity of the rows held back.
    confidence : float
    epsilon : float or None
        What was asked for.
    rows_needed : float or None
        About how many rows held back would support epsilon, the shares of the groups as they are;
        infinity where the measured disparity is not below it, or nothing is known of a group. None
        without epsilon.
    criterion, method : str
    n_rows : int
    group_sizes : dict
        Family to group to rows.
    classes : list
        The predicted classes.
    n_differences : int
        How many differences between two groups were bounded.
    limit : PromiseLimit or None
        The difference that the bound comes from; None where a group is absent.
    absent : tuple of AbsentGroup
        Groups without rows in a stratum or of a true class. Nothing is known of them, and the bound
        is 1.
    """

    bound: float
    measured: float
    confidence: float
    epsilon: float | None
    rows_needed: float | None
    criterion: str
    n_rows: int
    group_sizes: dict[str, dict[Any, int]]
    classes: list[Any]
    n_differences: int
    limit: PromiseLimit | None
    absent: tuple[AbsentGroup, ...] = ()
    method: str = field(default=METHOD)

    @property
    def holds(self) -> bool | None:
        """Whether the bound is at most epsilon; None without epsilon."""
        return None if self.epsilon is None else self.bound <= self.epsilon

    def __str__(self) -> str:
        basis = f"measured {_figures(self.measured, round)} on {self.n_rows:,} rows held back"
        title = CRITERIA[self.criterion].title.lower()
        limit = f"at most {_figures(self.bound, ceil)} with confidence {100 * self.confidence:g} %"
        said = f"The disparity of new rows ({title}) is {limit}"
        text = f"{said} ({basis}; {self.method}, {self.n_differences:,} differences)."
        text += (
            f" It comes from {self.limit}."
            if self.limit
            else f" Nothing is known where {self.absent[0]}."
        )
        if self.epsilon is None or self.rows_needed is None:
            return text
        if self.holds:
            return f"{text} Epsilon {self.epsilon:g} is supported."
        text += f" These rows cannot support epsilon {self.epsilon:g}"
        if not isinf(self.rows_needed):
            return f"{text}; about {int(self.rows_needed):,} would."
        if self.absent or self.epsilon == 0:
            return f"{text}, and no number of rows can." if self.epsilon == 0 else f"{text}."
        chance = _about(self.n_rows * (self.bound / self.epsilon) ** 2)
        text += ": the disparity measured on them is not below it."
        return f"{text} Were all of it chance, about {int(chance):,} would."


def parity_promise(
    y_pred: Any,
    *,
    sensitive_features: Any,
    confidence: float = 0.95,
    epsilon: float | None = None,
    y_true: Any = None,
    criterion: CriterionName = "demographic_parity",
    positive: Any = None,
    families: Families = "crossed",
    control_features: Any = None,
    sample_weight: Any = None,
    classes: Any = None,
    multilabel: bool = False,
) -> Promise:
    """Bound the disparity of predictions for new rows, from rows not used for fitting.

    The bound holds with at least the given confidence for any number of rows and any probabilities,
    where the rows held back are drawn from the population one by one, or group by group. It is
    about the groups, strata and true classes that these rows have, and about all classes, predicted
    so far or not. Rows that belong together, such as several of one person, are fewer than they
    seem. Rows are shuffled in one fixed way, so that sorted ones do no harm; another order moves
    the bound a little.

    Parameters
    ----------
    y_pred : array-like of shape (N,) or (N, L)
        Predicted classes, or probabilities over L classes.
    sensitive_features : array-like of shape (N,) or (N, n_attributes)
        True groups. A group of few rows makes the bound large, and is named.
    confidence : float
        How often such a bound holds, over tables drawn from the population.
    epsilon : float, optional
        The disparity wanted; the promise then says whether these rows support it, and about how
        many would.
    y_true : array-like of shape (N,), optional
        True classes, for all other criteria than demographic parity.
    criterion : str
        What is bounded: ``<criterion>_difference`` in ``r2b.metrics``.
    positive : class, optional
        The one class that counts, as for :func:`r2b.metrics.equal_opportunity_difference`.
    families, control_features, classes
        As for :func:`r2b.metrics.equalized_odds_difference`.
    sample_weight : array-like of shape (N,), optional
        Accepted where all are equal.
    multilabel : bool
        Whether ``y_pred`` has a column of 0 and 1, or of probabilities, for each of several tags:
        the bound then holds for all tags at once.

    Returns
    -------
    Promise

    Raises
    ------
    WeightError
        Rows have different weights.
    ParameterError
        A number out of its range, a true class that is not given, or groups that are uncertain or
        continuous.
    InputError
        There is one group only, or the data cannot be used as they are.

    See Also
    --------
    r2b.model_report : A report on what a model decides.
    r2b.metrics.generalization_bound : The bound of the paper's Proposition 2.

    Examples
    --------
    >>> predicted, sex = ["no", "yes", "no", "no"] * 500, ["f"] * 1_000 + ["m"] * 1_000
    >>> promise = parity_promise(predicted, sensitive_features=sex, epsilon=0.05)
    >>> promise.measured, round(promise.bound, 2), promise.holds
    (0.0, 0.04, True)
    >>> print(parity_promise(predicted, sensitive_features=sex, epsilon=0.01))
    The disparity of new rows (demographic parity) is at most 0.0... with confidence 95 % (measured
    0 on 2,000 rows held back; betting on paired rows, 4 differences). It comes from ... These rows
    cannot support epsilon 0.01; about ... would.
    """
    refuse_no_probability("confidence", confidence, 0.95)
    if epsilon is not None:
        remedy = "Pass one number from 0 to 1, or leave it out."
        refuse_other_number("epsilon", epsilon, remedy, lambda value: 0 <= value <= 1)
    table = _read(
        criterion,
        y_true,
        y_pred,
        sensitive_features=sensitive_features,
        control_features=control_features,
        sample_weight=sample_weight,
        classes=classes,
        positive=positive,
        multilabel=multilabel,
    )
    data = table.data
    pairs, sizes, absent = _compared(table, families)
    if not pairs:
        listed = "; ".join(
            f"{family}: {', '.join(f'{name!r} ({n:,} rows)' for name, n in groups.items())}"
            for family, groups in sizes.items()
        )
        raise InputError(
            f"No two groups have rows that can be compared ({listed}).",
            remedy="Check that the right column was passed, or hold back rows of all groups.",
            group_sizes=sizes,
        )
    largest, limit = 0.0, pairs[0]
    # the likely largest first: then most of the others need no search
    for pair in sorted(
        pairs, key=lambda each: -each.measured.max() - sum(1 / len(x) for x in each.rows) ** 0.5
    ):
        bound = pair.bound(_SPENT * (1 - confidence), largest)
        if bound > largest:
            largest, limit = bound, pair
    measured = max(0.0, *(float(pair.measured.max()) for pair in pairs))
    needed = None
    if epsilon is not None and (absent or measured >= epsilon):
        needed = inf
    elif epsilon is not None:  # errors fall as 1 / sqrt(rows)
        times = max(float((pair.reach / (epsilon - pair.measured)).max()) for pair in pairs)
        needed = _about(data.n_rows * times**2)
    return Promise(
        bound=1.0 if absent else max(largest, measured),
        measured=measured,
        confidence=confidence,
        epsilon=epsilon,
        rows_needed=needed,
        criterion=table.criterion.name,
        n_rows=data.n_rows,
        group_sizes=sizes,
        classes=[plain_value(name) for name in data.labels.vocabulary.values],
        n_differences=sum(len(pair.measured) for pair in pairs),
        limit=None if absent else limit.limit(),
        absent=absent,
    )


@dataclass(eq=False)
class _Pair:
    """Two groups, and the range of the bound of each difference: one ahead, then the other."""

    data: Dataset
    names: tuple[Any, ...]
    rows: tuple[Array, Array]
    where: str
    columns: list[int]
    measured: Floats
    high: Floats = field(default_factory=lambda: np.ones(0))
    reach: Floats = field(default_factory=lambda: np.ones(0))

    def differences(self) -> Floats:
        """Pair rows of the two groups and give their differences, of shape (n, 2 J)."""
        n, labels = n_pairs(*map(len, self.rows)), self.data.labels
        each = np.empty((n, len(self.columns)))
        for place, k in enumerate(self.columns):
            one, two = (
                labels.array[rows] == k
                if labels.matrix is None
                else np.clip(labels.matrix[rows, k], 0, 1)
                for rows in self.rows
            )
            each[:, place] = block_means(one, n) - block_means(two, n)
        return np.hstack([each, -each])

    def bound(self, alpha: float, least: float) -> float:
        """Bound the differences that may exceed the largest bound so far; return the new one."""
        differences = self.differences()
        self.high = np.full(len(self.measured), least)
        some = np.flatnonzero(~ruled_out(differences, self.high[:, None], alpha)[:, 0])
        low, high = np.maximum(self.measured[some], least), np.ones(len(some))
        for power in (3, 1, 1):
            low, high = narrowed(differences[:, some], low, high, alpha, power=power)
        self.high[some] = high
        # About what a bound adds: the normal quantile, and the share of the population that so many
        # rows may all have missed.
        error = differences.std(axis=0) / len(differences) ** 0.5
        self.reach = np.minimum(
            NormalDist().inv_cdf(1 - alpha) * error - log(alpha) / len(differences),
            self.high - self.measured,
        )
        self.reach[some] = (self.high - self.measured)[some]
        return float(self.high.max())

    def limit(self) -> PromiseLimit:
        """Return the difference with the largest bound."""
        place = int(self.high.argmax())
        turned, k = divmod(place, len(self.columns))
        classes, turn = self.data.labels.vocabulary.values, -1 if turned else 1
        name = None if self.columns[k] == _UNSEEN else plain_value(classes[self.columns[k]])
        one, two = self.names[::turn]
        n_one, n_two = [len(rows) for rows in self.rows][::turn]
        return PromiseLimit(
            one,
            two,
            (n_one, n_two),
            name,
            self.where,
            float(self.measured[place]),
            float(self.high[place]),
        )


def _read(criterion: str, y_true: Any, y_pred: Any, **rows: Any) -> PredictionTable:
    """Read predictions, refusing groups and weights for which no bound is proven."""
    table = read_predictions(criterion, y_true, y_pred, **rows)
    data = table.data
    for name, kind in zip(data.cells.columns, data.cells.kinds, strict=True):
        if kind != CATEGORICAL:
            fault = f"is of the kind {kind!r}, and a promise is about true groups"
            raise ParameterError(
                f"The attribute {name!r} {fault}.",
                remedy="Pass the true group of each row held back, in a plain column.",
                column=name,
                kind=kind,
            )
    if data.weight is not None and data.weight.min() < data.weight.max():
        low, high = float(data.weight.min()), float(data.weight.max())
        problem = (
            f"The rows have weights from {low:g} to {high:g}, and a bound is proven for rows that "
            "are a plain sample of the population."
        )
        remedy = (
            "Keep each row with probability weight / largest possible weight, and pass what is "
            "kept without weights."
        )
        raise WeightError(problem, remedy=remedy, smallest=low, largest=high)
    return replace(table, data=replace(data, weight=None))


def _compared(
    table: PredictionTable, families: Families
) -> tuple[list[_Pair], dict[str, dict[Any, int]], tuple[AbsentGroup, ...]]:
    """List the pairs of groups compared, the rows of every group, and absent groups."""
    data, cells = table.data, table.data.cells
    # rows may come sorted; pairs must not know their values
    shuffled = generator(0).permutation(data.n_rows)
    codes = cells.codes[shuffled]
    pairs: list[_Pair] = []
    sizes: dict[str, dict[Any, int]] = {}
    absent: list[AbsentGroup] = []
    for family in families_of(cells, families):
        counts = np.bincount(family.parts, cells.counts).astype(int).tolist()
        sizes[family.name] = dict(zip(map(plain_value, family.groups), counts, strict=True))
        for found in family.compared(table.strata(), *sums_of(data)):
            absent += found.absent
            stratum = found.stratum
            is_apart = stratum.true_code is not None
            true = f"true class {_shown(stratum.true_class)}" if is_apart else ""
            where = ", ".join(filter(None, (true, stratum.where)))
            columns = table.columns(stratum)
            if table.criterion.outcome == "every class":
                columns.append(_UNSEEN)
            if data.labels.is_soft:
                columns = [k for k in columns if k != _UNSEEN]
            # a class without a column has the rate 0 in every group
            present = found.present if columns else found.present[:0]
            mine = [found.cells[family.parts[found.cells] == group] for group in present]
            rows = [shuffled[np.isin(codes, each)] for each in mine]
            # the column of place -1
            with_unseen = np.column_stack([found.means, np.zeros(len(found.means))])
            for one, two in combinations(range(len(rows)), 2):
                ahead = (with_unseen[one] - with_unseen[two])[columns]
                names = tuple(plain_value(family.groups[found.present[n]]) for n in (one, two))
                measured = np.concatenate([ahead, -ahead])
                pairs.append(_Pair(data, names, (rows[one], rows[two]), where, columns, measured))
    return pairs, sizes, tuple(absent)


def _about(rows: float) -> float:
    """Round a number of rows up to two figures: more would say more than is known."""
    unit = 10.0 ** (floor(log10(rows)) - 1)
    return max(1.0, ceil(round(rows / unit, 6)) * unit)


def _shown(name: Any) -> str:
    return repr(written(name) if isinstance(name, str) else name)


def _figures(value: float, rounded: Callable[[float], int]) -> str:
    """Write a parity with three decimals, or two figures where it is small."""
    places = 3 if value >= 0.01 or value <= 0 else 1 - floor(log10(value))
    return f"{rounded(round(value * 10**places, 6)) / 10**places:g}"
