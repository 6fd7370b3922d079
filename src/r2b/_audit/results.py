"""What an audit found: plain facts, and their text, frame, plot and report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from r2b._constraints.epsilon import refuse_percentages
from r2b._constraints.families import Absent, Families
from r2b._constraints.families.doubts import FEWEST
from r2b._constraints.families.request import one_of
from r2b._data import Dataset
from r2b._data.arrays import SAME, Array, Floats, divided, plain_value
from r2b._data.attributes import CATEGORICAL
from r2b._data.frames import Backend, frame_of
from r2b._data.numbers import refuse_other_number
from r2b._data.values import json_value, written
from r2b._labels.summary import counted
from r2b._plot import Measure, group_means, measures, percent, shorten
from r2b.metrics.chance import RARE, format_p_value
from r2b.metrics.intervals import Interval

if TYPE_CHECKING:
    from r2b.report import Report


Part = Literal["groups", "families"]
_WORDS = {"class": ("class", "classes"), "outcome": ("outcome", "outcomes")}


@dataclass(frozen=True)
class Chance:
    """What fair labels of this number would show, from labels assigned to rows at random.

    Attributes
    ----------
    mean : float
        Average of the measure.
    quantile : float
        19 of 20 fair samples do not exceed it. The p-value of a measure is 0.05 or less exactly if
        the measure does.
    p_value : float
        Share of (1 + permutations) that show at least as much as the data, the data among them:
        valid at every size.
    n_permutations : int
    at_floor : bool
        No permutation shows as much as the data: the p-value is the smallest that so many can give,
        and means "at most".
    """

    mean: float
    quantile: float
    p_value: float
    n_permutations: int
    at_floor: bool


@dataclass(frozen=True)
class Difference:
    """One class and the two groups of a family whose means of it differ most.

    Attributes
    ----------
    family : str
        To which both groups belong.
    class_name : object
        The class, as it came in.
    groups : tuple of two str
        The group with the higher mean, then the one with the lower.
    means, rows : tuple of two float
        Their means of the class, and how many rows they have.
    value : float
        The difference.
    level : float or None
        What chance explains of it, for groups of these sizes and with all groups of the audit
        looked at: the sum of their levels, at most 1. None with fewer than 19 permutations.
    """

    family: str
    class_name: Any
    groups: tuple[str, str]
    means: tuple[float, float]
    value: float
    rows: tuple[float, float]
    level: float | None

    @property
    def beyond_chance(self) -> bool | None:
        """Whether the difference is larger than ``level``; None if that is not known."""
        return None if self.level is None else self.excess > SAME

    @property
    def excess(self) -> float:
        """What chance does not explain of the difference; all of it if nothing is known."""
        return self.value - (self.level or 0.0)


@dataclass(frozen=True)
class RankedGroup:
    """How far the labels of a group are from those of its whole family.

    Attributes
    ----------
    family, group : str
    rows, share : float
        Number of rows, for memberships the expected one; and share of the weight of its family.
    class_name : object
        The class that deviates most.
    mean, overall : float
        Its means in the group and in the family.
    deviation : float
        Distance between the two.
    total_variation : float
        Half the sum of the deviations of all classes: the share of labels that would have to
        change.
    chance : Chance or None
        Of the deviation of a group of this size by itself, its labels drawn from the family at
        random; None without permutations.
    level : float or None
        What chance explains of the deviation when all groups of the audit are looked at: in 19 of
        20 fair tables no group exceeds its own (the maxT of Westfall and Young). Of many groups
        some deviate far by chance, above all small ones. None with fewer than 19 permutations.
    p_adjusted : float or None
        Share of (1 + permutations) in which any group of the audit deviates as much for its size.
        None without permutations.
    """

    family: str
    group: str
    rows: float
    share: float
    class_name: Any
    mean: float
    overall: float
    deviation: float
    total_variation: float
    chance: Chance | None
    level: float | None
    p_adjusted: float | None

    @property
    def beyond_chance(self) -> bool | None:
        """Whether the deviation is larger than ``level``; None if that is not known."""
        return None if self.level is None else self.deviation > self.level + SAME

    @property
    def small(self) -> bool:
        """Whether the group has fewer than 10 rows."""
        return self.rows < FEWEST


@dataclass(frozen=True, eq=False)
class FamilyAudit:
    """How far one family of groups is from parity.

    Attributes
    ----------
    name : str
        Such as ``"sex x race"``, with the stratum after a bar; ``""`` for one column without a
        name.
    kind : {"groups", "membership"}
        Whether rows belong to a group or to several in probability.
    classes : ndarray of shape (n_classes,)
        Names of the classes, with the dtype they came in.
    groups : tuple of str
        Names of the groups, in the order of ``means``.
    rows : ndarray of shape (n_groups,)
        Number of rows; for memberships the expected one.
    share : ndarray of shape (n_groups,)
        Weight of each group; adds up to 1.
    means : ndarray of shape (n_groups, n_classes)
    overall : ndarray of shape (n_classes,)
        Mean over all rows of the family.
    chance : Chance or None
        Of the disparity; None without permutations.
    interval : Interval or None
        Of the disparity of the population that the rows were drawn from, right for small groups
        too; None without resamples, and if groups (or different rows of memberships) x classes are
        more than 65,536.
    left_out : int
        Rows of the table, or of the stratum, that the family does not count because their group is
        not known.
    levels : ndarray of shape (n_groups,) or None
        What chance explains of each group's distance from the whole family, as
        ``RankedGroup.level``.
    """

    name: str
    kind: Literal["groups", "membership"]
    classes: Array
    groups: tuple[str, ...]
    rows: Floats
    share: Floats
    means: Floats
    overall: Floats
    chance: Chance | None
    interval: Interval | None
    left_out: int
    levels: Floats | None = None

    @property
    def title(self) -> str:
        """Its name in a picture."""
        return self.name or "one attribute"

    @property
    def value(self) -> float:
        """The largest difference between two group means over all classes: paper, eq. (2)."""
        return float(self.disparity_by_class.max())

    disparity = value

    @cached_property
    def disparity_by_class(self) -> Floats:
        """For each class the largest difference between the means of two groups."""
        return np.asarray(self.means.max(axis=0) - self.means.min(axis=0))

    @cached_property
    def to_overall_by_class(self) -> Floats:
        """For each class the largest distance of a group's mean from that of all rows."""
        return np.asarray(np.abs(self.means - self.overall).max(axis=0))

    @property
    def deviations(self) -> Floats:
        """For each group the largest distance of its mean from that of all rows."""
        return np.asarray(np.abs(self.means - self.overall).max(axis=1))

    @cached_property
    def ratio_by_class(self) -> Floats:
        """For each class the smallest mean over the largest; NaN if no row has the class.

        The four-fifths rule asks for 0.8.
        """
        return divided(self.means.min(axis=0), self.means.max(axis=0), np.nan)

    @property
    def to_overall(self) -> float:
        """The largest distance of a group's mean from that of all rows."""
        return float(self.to_overall_by_class.max())

    @property
    def ratio(self) -> float:
        """The smallest ratio over the classes."""
        return float(np.nanmin(self.ratio_by_class))

    def plot(self, ax: Any = None) -> Any:
        """Draw the mean of every class in every group; of many classes those that differ most.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; on new Axes by default.

        Returns
        -------
        matplotlib Axes
        """
        chance = ""
        if self.chance is not None:
            chance = f"; chance shows up to {percent(self.chance.quantile)}"
        lines = [
            f"Group means{f' by {shorten(self.name)}' if self.name else ''}",
            f"disparity {percent(self.disparity)}{chance}",
        ]
        means, gaps = {"": self.means}, self.disparity_by_class
        return group_means(ax, "FamilyAudit", lines, self.classes, self.groups, means, gaps)

    def difference(self, place: int) -> Difference:
        """Return the two groups that differ most in a class, named by its place."""
        column = self.means[:, place]
        return self._between(int(column.argmax()), int(column.argmin()), place)

    def _between(self, high: int, low: int, place: int) -> Difference:
        means = float(self.means[high, place]), float(self.means[low, place])
        level = None
        if self.levels is not None:
            level = min(float(self.levels[high] + self.levels[low]), 1.0) if high != low else 0.0
        return Difference(
            self.name,
            plain_value(self.classes[place]),
            (self.groups[high], self.groups[low]),
            means,
            means[0] - means[1],
            (float(self.rows[high]), float(self.rows[low])),
            level,
        )

    @property
    def largest(self) -> Difference:
        """The class and the two groups with the largest difference."""
        return self.difference(int(self.disparity_by_class.argmax()))

    @cached_property
    def worst(self) -> Difference | None:
        """The difference that is farthest beyond what chance explains of it, or None.

        Without permutations it is the largest. Two groups differ beyond chance if their means, each
        give or take what chance explains of it, do not meet. Groups of fewer than 10 rows that are
        within chance by themselves are not considered.
        """
        if self.levels is None:
            return self.largest
        within = self.deviations <= self.levels + SAME
        considered = np.flatnonzero(~(within & (self.rows < FEWEST)))
        if not len(considered):
            return None
        lower = self.means[considered] - self.levels[considered, None]
        upper = self.means[considered] + self.levels[considered, None]
        place = int((lower.max(axis=0) - upper.min(axis=0)).argmax())
        high, low = considered[lower[:, place].argmax()], considered[upper[:, place].argmin()]
        found = self._between(int(high), int(low), place)
        return found if found.beyond_chance else None

    @property
    def verdicts_differ(self) -> bool:
        """Whether the p-value and the verdict on the worst difference disagree.

        The p-value is of the largest difference, whichever two groups show it; by chance small
        groups do. The verdict is about two groups of their sizes. If groups are small the largest
        difference may be no more than chance, and others beyond it.
        """
        if self.chance is None or self.levels is None:
            return False
        return (self.chance.p_value <= RARE) != (self.worst is not None)


@dataclass(frozen=True, eq=False)
class ContinuousAudit:
    """How much of the labels a continuous attribute explains.

    Attributes
    ----------
    name : str
        Of the attribute, with the stratum after a bar.
    classes : ndarray of shape (n_classes,)
        Names of the classes, with the dtype they came in.
    explained_by_class : ndarray of shape (n_classes,)
        Share of the variance of each class that functions of the attribute explain, from 0 to 1.
    functions : tuple of str
        Those that were looked at.
    rows : int
        Number of rows that have a value.
    chance, interval : Chance or None, Interval or None
        Of the largest share. None without permutations or resamples; no interval if values x
        classes are more than 65,536.
    left_out : int
        Rows of the table, or of the stratum, without a value.
    """

    name: str
    classes: Array
    explained_by_class: Floats
    functions: tuple[str, ...]
    rows: int
    chance: Chance | None
    interval: Interval | None
    left_out: int
    kind: ClassVar[str] = "continuous"
    ratio: ClassVar[float] = np.nan

    @property
    def title(self) -> str:
        """Its name in a picture."""
        return f"{self.name}, variance explained"

    @property
    def value(self) -> float:
        """The largest share over the classes."""
        return float(self.explained_by_class.max())

    explained = value

    @property
    def class_name(self) -> Any:
        """The class that the attribute explains most of."""
        return plain_value(self.classes[int(self.explained_by_class.argmax())])


_BY_CLASS = ("disparity_by_class", "to_overall_by_class", "ratio_by_class")
_MEASURES = ("disparity", "to_overall", "ratio", "largest", "worst", *_BY_CLASS)
_NO_FINDING = ("library", "data", "fitted")  # how the data came, and the rows themselves


@dataclass(frozen=True, eq=False)
class Audit:
    """What :func:`r2b.audit` found. ``print`` shows a summary, :meth:`to_json` returns all facts.

    Attributes
    ----------
    n_rows : int
        Of the table.
    classes : ndarray of shape (n_classes,)
        Names of the classes, with the dtype they came in; of the outcomes where others are
        compared.
    overall : ndarray of shape (n_classes,)
        Mean label of the table.
    families, continuous : tuple of FamilyAudit, tuple of ContinuousAudit
    ranked : tuple of RankedGroup
        Groups of all families: first those beyond what chance explains for their size, then the
        others, each by falling deviation. Small groups, which deviate by chance alone, do not come
        first.
    absent : tuple of Absent
        Groups that a stratum of the control features does not have.
    left_out : float
        Share of the weight that no family counts.
    level : float
        Of the intervals.
    n_permutations, n_boot, random_state : int
        How often labels were assigned at random, how often rows were resampled, and the seed.
    clusters : int or None
        How many clusters of rows there are; None if every row was taken as independent.
    library : str
        Of the data, and of frames; "" for none.
    data, fitted : Dataset, Families
        The rows that were measured and their families, for :meth:`report`.

    Examples
    --------
    >>> from r2b._audit import audit
    >>> y, sex = ["a", "b", "b", "b", "a", "a"], {"sex": ["f", "f", "f", "m", "m", "m"]}
    >>> found = audit(y, sensitive_features=sex, n_boot=0)
    >>> round(found.largest.value, 3), found.largest.groups
    (0.333, ('m', 'f'))
    >>> [each.family for each in found.exceeds(0.1)]
    ['sex', 'sex']
    """

    n_rows: int
    classes: Array
    overall: Floats
    families: tuple[FamilyAudit, ...]
    continuous: tuple[ContinuousAudit, ...]
    ranked: tuple[RankedGroup, ...]
    absent: tuple[Absent, ...]
    left_out: float
    level: float
    n_permutations: int
    n_boot: int
    random_state: int
    clusters: int | None = None
    library: str = ""
    data: Dataset | None = None
    fitted: Families | None = None

    def __repr__(self) -> str:
        worst = "" if self.largest is None else f", disparity {self.largest.value:.4f}"
        n_families = counted(len(self.families) + len(self.continuous), "family", "families")
        return f"<Audit: {self.n_rows:,} rows, {n_families}{worst}>"

    def _repr_html_(self) -> str:
        from r2b.report.render import audit_html

        return audit_html(self)

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    @property
    def _every(self) -> tuple[FamilyAudit | ContinuousAudit, ...]:
        return (*self.families, *self.continuous)

    def plot(self, ax: Any = None, *, family: str | None = None) -> Any:
        """Draw one family as the means of its groups, or the disparities of several beside chance.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; on new Axes by default.
        family : str, optional
            The family to draw; by default the only one, or an overview if there are several.

        Returns
        -------
        matplotlib Axes

        Examples
        --------
        >>> from r2b._audit import audit
        >>> y, sex = ["a", "b", "b", "b", "a", "a"], {"sex": ["f", "f", "f", "m", "m", "m"]}
        >>> found = audit(y, sensitive_features=sex, n_boot=0, n_permutations=0)
        >>> print(found.plot().get_title("left"))
        Group means by sex
        disparity 33.33 %
        """
        if family is not None or (len(self.families) == 1 and not self.continuous):
            names = [each.name for each in self.families]
            if family is not None:
                one_of("family", family, names)
            return self.families[0 if family is None else names.index(family)].plot(ax)

        found = [
            Measure(
                each.title,
                each.value,
                None if each.interval is None else (each.interval.low, each.interval.high),
                None if each.chance is None else each.chance.quantile,
            )
            for each in self._every
        ]
        explained = ", or largest share of variance explained" if self.continuous else ""
        axis = f"disparity{explained}"
        title = [f"Disparity by family, {self.n_rows:,} rows, {len(self.classes)} classes"]
        return measures(ax, "Audit", title, axis, found, self.level)

    def to_frame(self, part: Part = "groups", *, backend: Backend | None = None) -> Any:
        """Return what was found as a frame.

        Parameters
        ----------
        part : {"groups", "families"}
            One row per group and class: its mean, that of the family, and what chance explains of
            the group's distance from it. Or one row per family and continuous attribute: its
            disparity (of an attribute the largest share of variance explained), what chance shows,
            the p-value and the interval. What is not known is NaN.
        backend : {"pandas", "polars", "pyarrow"}, optional
            By default the library that the data came in; of data that came in none, pandas or, if
            it is not installed, Polars.

        Examples
        --------
        >>> from r2b._audit import audit
        >>> y, sex = ["a", "b", "b", "b", "a", "a"], {"sex": ["f", "f", "f", "m", "m", "m"]}
        >>> found = audit(y, sensitive_features=sex, n_boot=0, n_permutations=0)
        >>> found.to_frame(backend="pyarrow").select(["group", "class", "rows"]).to_pylist()[0]
        {'group': 'f', 'class': 'a', 'rows': 3.0}
        """
        one_of("part", part, Part)
        columns = self._group_columns() if part == "groups" else self._family_columns()
        return frame_of(columns, backend, self.library)

    @property
    def compared(self) -> Literal["class", "outcome"]:
        """What shares are of."""
        merged = self.fitted is not None and self.fitted.outcomes is not None
        return "outcome" if merged else "class"

    def _group_columns(self) -> dict[str, Any]:
        def column(values: Callable[[FamilyAudit], Any]) -> Array:
            every = [np.broadcast_to(values(each), each.means.shape) for each in self.families]
            return np.concatenate([each.ravel() for each in every] or [np.zeros(0)])

        return {
            "family": column(lambda each: each.name),
            "group": column(lambda each: np.array(each.groups)[:, None]),
            self.compared: column(lambda each: each.classes),
            "rows": column(lambda each: each.rows[:, None]),
            "share": column(lambda each: each.share[:, None]),
            "mean": column(lambda each: each.means),
            "overall": column(lambda each: each.overall),
            "level": column(lambda each: np.nan if each.levels is None else each.levels[:, None]),
        }

    def _family_columns(self) -> dict[str, Any]:
        def column(name: str, part: str = "") -> Array:
            every = (getattr(each, part) if part else each for each in self._every)
            return np.array([np.nan if each is None else getattr(each, name) for each in every])

        return {
            "family": column("name"),
            "kind": column("kind"),
            "value": column("value"),
            "ratio": column("ratio"),
            "chance": column("quantile", "chance"),
            "p_value": column("p_value", "chance"),
            "low": column("low", "interval"),
            "high": column("high", "interval"),
            "left_out": column("left_out"),
        }

    def report(
        self,
        path: str | PathLike[str] | None = None,
        *,
        label_name: str | None = None,
        date: Any = None,
        suppress_below: int = 0,
        verify: str | None = None,
    ) -> Report:
        """Write a report for people who did not run the code.

        It says what was found, how sure it is, what was read and how to check it.

        Parameters
        ----------
        path : path-like, optional
            A page (``.html``), Markdown (``.md``) or all facts (``.json``). An existing file is
            replaced. Without a path nothing is written, and a notebook shows what is returned.
        label_name : str, optional
            What the label is called.
        date : datetime, str or False, optional
            As for :meth:`r2b.FairLabels.report`.
        suppress_below : int
            Figures of cells of fewer rows are left out, with as many others as it takes that no
            single one follows from the shares of its group or class; 0 leaves out none.
        verify : str, optional
            Shown as the way to check the report, instead of the Python lines.

        Returns
        -------
        r2b.report.Report

        Examples
        --------
        >>> import r2b
        >>> y, sex = ["a", "b", "b", "b", "a", "a"], {"sex": ["f", "f", "f", "m", "m", "m"]}
        >>> r2b.audit(y, sensitive_features=sex, n_boot=0).report(label_name="job")
        <Report: job by sex, 6 rows; audited, nothing changed>
        """
        from r2b.report.results import report_of_audit

        report = report_of_audit(self, label_name, date, suppress_below, verify)
        if path is not None:
            report.save(path)
        return report

    @property
    def largest(self) -> Difference | None:
        """The largest difference between two groups of a family in any class.

        None if no attribute has groups. Chance may explain it; see :attr:`worst`.
        """
        found = (family.largest for family in self.families)
        return max(found, key=lambda each: each.value, default=None)

    @property
    def worst(self) -> Difference | None:
        """The difference between two groups that is farthest beyond what chance explains of it.

        None if there is none. With fewer than 19 permutations nothing is known of chance, and it is
        the largest difference.
        """
        found = [each for family in self.families if (each := family.worst) is not None]
        return max(found, key=lambda each: each.excess, default=None)

    @property
    def small(self) -> tuple[tuple[str, str, float], ...]:
        """Family, name and rows of every group of fewer than 10 rows, the smallest first."""
        each = {
            (f.name, group, float(rows))
            for f in self.families
            for group, rows in zip(f.groups, f.rows, strict=True)
            if rows < FEWEST
        }
        return tuple(sorted(each, key=lambda one: (one[2], one[0], one[1])))

    def exceeds(self, epsilon: float) -> tuple[Difference, ...]:
        """List every family and class whose disparity is larger than epsilon, the largest first."""
        remedy = "Pass a number of 0 or more, such as 0.05."
        refuse_other_number("epsilon", epsilon, remedy, lambda value: value >= 0)
        refuse_percentages("epsilon", epsilon, 1.0)
        each = (family.difference(k) for family in self.families for k in range(len(self.classes)))
        larger = (one for one in each if one.value > float(epsilon) + SAME)
        return tuple(sorted(larger, key=lambda one: -one.value))

    def to_json(self) -> dict[str, Any]:
        """Return all facts as plain values of strict JSON; a ratio that does not exist is None."""

        def facts(found: Any, *more: str) -> dict[str, Any]:
            names = [each.name for each in fields(found) if each.name not in _NO_FINDING]
            return {name: json_value(getattr(found, name)) for name in (*names, *more)}

        stored = facts(self, "worst", "largest", "small")
        stored["families"] = [facts(each, *_MEASURES, "verdicts_differ") for each in self.families]
        for each in stored["families"]:
            ratios = each["ratio_by_class"]
            each["ratio_by_class"] = [None if value == "nan" else value for value in ratios]
        stored["continuous"] = [facts(each, "explained", "class_name") for each in self.continuous]
        stored["ranked"] = [facts(each, "beyond_chance", "small") for each in self.ranked]
        stored["p_value_floor"] = 1 / (1 + self.n_permutations) if self.n_permutations else None
        return stored


def _lines(found: Audit) -> Iterator[str]:
    """Describe in a few lines how far from parity the labels are, and how much of it is chance."""
    worst, what = found.worst or found.largest, found.compared
    # Names of groups of several columns include the columns.
    cells = None if found.data is None else found.data.cells
    alone = cells is not None and cells.kinds == (CATEGORICAL,) and cells.columns[0]
    start = f"{written(alone)}=" if alone else ""
    n_rows, n_classes = counted(found.n_rows, "row"), counted(len(found.classes), *_WORDS[what])
    yield f"Audit: {n_rows}, {n_classes}, {counted(len(found._every), 'family', 'families')}"
    if worst is not None:
        none = "" if found.worst else "none beyond chance; the largest is "
        text = f"{_format_difference(worst, what, start)}{_in(worst.family)}{_format_level(worst)}"
        yield f"  worst             {none}{text}"
    if found.clusters is not None:
        n_clusters = counted(found.clusters, "cluster")
        yield f"  assumed           {n_clusters} of rows, independent of each other"
    elif found.n_permutations or found.n_boot:
        several = "if people or annotators have several rows each, name them as clusters"
        yield f"  assumed           rows are independent; {several}"
    if found.small:
        where, group, rows = found.small[0]
        have = counted(len(found.small), "group has", "groups have")
        yield (
            f"  small             {have} fewer than {FEWEST} rows, the smallest {rows:.3g}: "
            f"{start}{written(group)}{_in(where)}; such groups can be merged or left out"
        )
    if found.left_out > 0:
        yield f"  left out          {100 * found.left_out:.2f} % of the weight is in no family"
    for family in found._every:
        yield from _family_lines(family, what, start)
    if found.ranked:
        first = "" if found.ranked[0].level is None else ", those beyond chance first"
        yield f"  groups farthest from their family{first}"
        yield from (_format_group(group, what, start) for group in found.ranked)
    if found.absent:
        n_absent = counted(len(found.absent), "group")
        yield f"  absent            {n_absent} without rows in some stratum"
        for each in found.absent[:5]:
            yield f"    {written(each.group)} in {written(each.stratum)}"
        if len(found.absent) > 5:
            yield f"    and {len(found.absent) - 5} more"


def _family_lines(found: FamilyAudit | ContinuousAudit, what: str, start: str) -> Iterator[str]:
    name = written(found.name) or "one attribute"
    left_out = f", {found.left_out:,} rows left out" if found.left_out else ""
    if isinstance(found, FamilyAudit):
        yield f"  {name} ({counted(len(found.groups), 'group')}{left_out})"
        largest = _format_difference(found.largest, what, start)
        yield f"    disparity       {found.disparity:.4f}  ({largest})"
        yield f"    to overall      {found.to_overall:.4f}; smallest ratio {found.ratio:.4f}"
    else:
        of_class = f"of the variance of {what} {written(found.class_name)}, the most of any {what}"
        yield f"  {name} (continuous{left_out})"
        yield f"    explains        {100 * found.explained:.2f} % {of_class}"
    interval, chance = found.interval, found.chance
    if interval is not None:
        how = f"({100 * interval.level:g} %, {interval.method})"
        yield f"    interval        {interval.low:.4f} to {interval.high:.4f}  {how}"
    if chance is not None:
        p = format_p_value(chance.p_value, chance.n_permutations)
        upto = f"up to {chance.quantile:.4f} in 19 of 20; p {p}"
        yield f"    by chance       {chance.mean:.4f} on average, {upto}"
    if not isinstance(found, FamilyAudit) or found.levels is None:
        return
    worst, text = found.worst, "no two groups"
    if worst != found.largest:
        if worst is not None:
            text = f"most in {_format_difference(worst, what, start)}{_format_level(worst)}"
        yield f"    beyond chance   {text}"
    if found.verdicts_differ:
        yield (
            "    p and verdict   p is of the largest difference between any two groups, and by "
            "chance small groups show a large one; what is called beyond chance is judged for the "
            "sizes of its own groups"
        )


def _format_group(each: RankedGroup, what: str, start: str) -> str:
    away = (
        f"{what} {written(each.class_name)} {each.mean:.4f} against {each.overall:.4f}, "
        f"deviation {each.deviation:.4f}"
    )
    if each.level is not None:
        beyond = "beyond" if each.beyond_chance else "within"
        away += f"; {beyond} chance, which explains {each.level:.4f}"
    small = ", small" if each.small else ""
    return f"    {start}{written(each.group)} ({counted(round(each.rows), 'row')}{small}): {away}"


def _format_difference(each: Difference, what: str, start: str) -> str:
    groups = [
        f"{start}{written(group)} {mean:.4f}"
        + (f" ({rows:.3g} {'row' if rows == 1 else 'rows'})" if rows < FEWEST else "")
        for group, mean, rows in zip(each.groups, each.means, each.rows, strict=True)
    ]
    return f"{what} {written(each.class_name)}: {', '.join(groups)}, difference {each.value:.4f}"


def _format_level(each: Difference) -> str:
    return "" if each.level is None else f"; chance explains {each.level:.4f}"


def _in(family: str) -> str:
    return f", in {written(family)}" if family else ""
