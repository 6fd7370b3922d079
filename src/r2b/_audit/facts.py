"""What an audit found: plain facts, frozen; every rendering is made from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import Any, Literal

import numpy as np

from r2b._audit.findings import RARE, SAME, Chance, Difference, RankedGroup
from r2b._audit.reporting import Reporting
from r2b._constraints.epsilon import refuse_percentages
from r2b._constraints.families import Absent, Families
from r2b._constraints.families.doubts import FEWEST
from r2b._constraints.families.request import is_a
from r2b._data import Dataset
from r2b._data.arrays import Array, Floats, plain_value
from r2b._data.frames import Backend, frame_of
from r2b._data.values import json_value
from r2b._plot import Measure, group_means, measures, one_of, percent, shortened
from r2b.errors import ParameterError
from r2b.metrics.intervals import Interval


@dataclass(frozen=True, eq=False)
class FamilyAudit:
    """Parity of one family of groups.

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
        Of the parity; None without permutations.
    interval : Interval or None
        Of the parity of the population that the rows were drawn from, right for small groups too;
        None without resamples, and where groups (or different rows of memberships) x classes are
        more than 65,536.
    left_out : int
        Rows of the table, or of the stratum, whose group is not known and which the family does not
        count.
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
    def disparity(self) -> float:
        """The largest difference between the means of two groups over all classes: eq. (2) of the paper."""
        return float(self.disparity_by_class.max())

    @cached_property
    def disparity_by_class(self) -> Floats:
        """For each class the largest difference between the means of two groups, of shape (n_classes,)."""
        return np.asarray(self.means.max(axis=0) - self.means.min(axis=0))

    @cached_property
    def to_overall_by_class(self) -> Floats:
        """For each class the largest distance of a group's mean from that of all rows, of shape (n_classes,)."""
        return np.asarray(np.abs(self.means - self.overall).max(axis=0))

    @property
    def deviations(self) -> Floats:
        """For each group the largest distance of its mean from that of all rows, over the classes; of shape (n_groups,)."""
        return np.asarray(np.abs(self.means - self.overall).max(axis=1))

    @cached_property
    def ratio_by_class(self) -> Floats:
        """For each class the smallest mean over the largest; NaN where no row has the class. The four-fifths rule asks for 0.8."""
        top = self.means.max(axis=0)
        return np.asarray(
            np.divide(self.means.min(axis=0), top, out=np.full(len(top), np.nan), where=top > 0)
        )

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

        Returns
        -------
        matplotlib Axes
        """
        chance = (
            "" if self.chance is None else f"; chance shows up to {percent(self.chance.quantile)}"
        )
        lines = [
            f"Group means{f' by {shortened(self.name)}' if self.name else ''}",
            f"parity {percent(self.disparity)}{chance}",
        ]
        return group_means(
            ax,
            "FamilyAudit",
            lines,
            self.classes,
            self.groups,
            {"": self.means},
            self.disparity_by_class,
        )

    def difference(self, place: int) -> Difference:
        """Name the groups that differ most in a class, given by its place."""
        column = self.means[:, place]
        return self._between(int(column.argmax()), int(column.argmin()), place)

    def _between(self, high: int, low: int, place: int) -> Difference:
        names, means = (
            (self.groups[high], self.groups[low]),
            (float(self.means[high, place]), float(self.means[low, place])),
        )
        rows = float(self.rows[high]), float(self.rows[low])
        level = (
            None
            if self.levels is None
            else float(self.levels[high] + self.levels[low])
            if high != low
            else 0.0
        )
        return Difference(
            self.name,
            plain_value(self.classes[place]),
            names,
            means,
            means[0] - means[1],
            rows,
            level,
        )

    @property
    def largest(self) -> Difference:
        """The class and the two groups that make the parity."""
        return self.difference(int(self.disparity_by_class.argmax()))

    @cached_property
    def worst(self) -> Difference | None:
        """The difference that is farthest beyond what chance explains of it, or None; without permutations the largest.

        Two groups differ beyond chance where their means, each give or take what chance explains of
        it, do not meet. Groups of fewer than 10 rows that are within chance by themselves are not
        considered.
        """
        if self.levels is None:
            return self.largest
        within = self.deviations <= self.levels + SAME
        considered = np.flatnonzero(~(within & (self.rows < FEWEST)))
        if not len(considered):
            return None
        lower, upper = (
            self.means[considered] + sign * self.levels[considered, None] for sign in (-1.0, 1.0)
        )
        place = int((lower.max(axis=0) - upper.min(axis=0)).argmax())
        high, low = considered[lower[:, place].argmax()], considered[upper[:, place].argmin()]
        found = self._between(int(high), int(low), place)
        return found if found.beyond_chance else None

    @property
    def verdicts_differ(self) -> bool:
        """Whether the p-value of the largest difference and the verdict on the worst one point to different sides of chance.

        The p-value is of the largest difference, whichever two groups show it; by chance it is
        small groups that do. The verdict is on two groups of their sizes. Where groups are small
        the largest difference may be no more than chance, and others beyond it.
        """
        return (
            self.chance is not None
            and self.levels is not None
            and (self.chance.p_value <= RARE) != (self.worst is not None)
        )


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
        Of the largest share. None without permutations or resamples; no interval where values x
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

    @property
    def explained(self) -> float:
        """The largest share over the classes."""
        return float(self.explained_by_class.max())

    @property
    def class_name(self) -> Any:
        """The class that the attribute explains most of."""
        return plain_value(self.classes[int(self.explained_by_class.argmax())])


_MEASURES = (
    *("disparity", "to_overall", "ratio", "largest", "worst"),
    *("disparity_by_class", "to_overall_by_class", "ratio_by_class"),
)


@dataclass(frozen=True, eq=False)
class Audit(Reporting):
    """What :func:`r2b.audit` found. ``print`` gives a readable account, :meth:`to_json` all facts.

    Attributes
    ----------
    n_rows : int
        Of the table.
    classes : ndarray of shape (n_classes,)
        Names of the classes, with the dtype they came in.
    overall : ndarray of shape (n_classes,)
        Mean label of the table.
    families, continuous : tuple of FamilyAudit, tuple of ContinuousAudit
    ranked : tuple of RankedGroup
        Groups of all families: first those beyond what chance explains for their size, then the
        others, each by falling deviation. Small groups deviate by chance alone and do not come
        first for that.
    absent : tuple of Absent
        Groups that a stratum of the control features does not have.
    left_out : float
        Share of the weight that no family counts.
    level : float
        Of the intervals.
    n_permutations, n_boot, random_state : int
        How often labels were handed about by chance, how often rows were resampled, and where the
        draws began.
    clusters : int or None
        How many clusters of rows there are; None where every row was taken as independent of all
        others.
    library : str
        That the data came in, and frames are of; "" for none.
    data, fitted : Dataset, Families
        The rows that were measured and the families they are in, for :meth:`report`.

    Examples
    --------
    >>> from r2b._audit import audit
    >>> found = audit(["a", "b", "b", "b", "a", "a"], sensitive_features={"sex": ["f", "f", "f", "m", "m", "m"]}, n_boot=0)
    >>> round(found.largest.value, 3), found.largest.groups, [each.family for each in found.exceeds(0.1)]
    (0.333, ('m', 'f'), ['sex', 'sex'])
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
    library: str = field(default="", repr=False)
    data: Dataset | None = field(default=None, repr=False)
    fitted: Families | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        worst = "" if self.largest is None else f", parity {self.largest.value:.4f}"
        n_families = len(self.families) + len(self.continuous)
        return f"<Audit: {self.n_rows:,} rows, {n_families} {'family' if n_families == 1 else 'families'}{worst}>"

    def _repr_html_(self) -> str:
        from r2b.report.notebook import audit_html

        return audit_html(self)

    def __str__(self) -> str:
        from r2b._audit.text import format_audit

        return format_audit(self)

    def plot(self, ax: Any = None, *, family: str | None = None) -> Any:
        """Draw one family as the means of its groups, or several as their parities beside what chance shows.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        family : str, optional
            The family to draw; by default the only one, or an overview where there are several.

        Returns
        -------
        matplotlib Axes

        Examples
        --------
        >>> from r2b._audit import audit
        >>> y, sex = ["a", "b", "b", "b", "a", "a"], ["f", "f", "f", "m", "m", "m"]
        >>> print(audit(y, sensitive_features={"sex": sex}, n_boot=0, n_permutations=0).plot().get_title("left"))
        Group means by sex
        parity 33.33 %
        """
        if family is not None or (len(self.families) == 1 and not self.continuous):
            place = 0 if family is None else one_of([each.name for each in self.families], family)
            return self.families[place].plot(ax)
        both: list[tuple[str, float, FamilyAudit | ContinuousAudit]] = [
            (each.name, each.disparity, each) for each in self.families
        ]
        both += [
            (f"{each.name}, variance explained", each.explained, each) for each in self.continuous
        ]
        found = [
            Measure(
                name or "one attribute",
                value,
                None if each.interval is None else (each.interval.low, each.interval.high),
                None if each.chance is None else each.chance.quantile,
            )
            for name, value, each in both
        ]
        axis = "parity" if not self.continuous else "parity, or largest share of variance explained"
        return measures(
            ax,
            "Audit",
            [f"Parity by family, {self.n_rows:,} rows, {len(self.classes)} classes"],
            axis,
            found,
            self.level,
        )

    def to_frame(
        self, part: Literal["groups", "families"] = "groups", *, backend: Backend | None = None
    ) -> Any:
        """Give what was found as a frame.

        Parameters
        ----------
        part : {"groups", "families"}
            One row per group and class: its mean, that of the family, and what chance explains of
            the group's distance from it. Or one row per family and continuous attribute: its parity
            (of an attribute the largest share of variance explained), what chance shows, the
            p-value and the interval. What is not known is NaN.
        backend : {"pandas", "polars", "pyarrow"}, optional
            By default the library that the data came in; of data that came in none, pandas or,
            where it is not installed, Polars.

        Examples
        --------
        >>> from r2b._audit import audit
        >>> y, sex = ["a", "b", "b", "b", "a", "a"], ["f", "f", "f", "m", "m", "m"]
        >>> found = audit(y, sensitive_features={"sex": sex}, n_boot=0, n_permutations=0)
        >>> found.to_frame(backend="pyarrow").select(["group", "class", "rows"]).to_pylist()[0]
        {'group': 'f', 'class': 'a', 'rows': 3.0}
        """
        from r2b._audit.frames import audit_columns

        return frame_of(audit_columns(self, part), backend, self.library)

    @property
    def largest(self) -> Difference | None:
        """The largest difference between two groups of a family in any class, whatever explains it; None where no attribute has groups."""
        return max(
            (family.largest for family in self.families), key=lambda each: each.value, default=None
        )

    @property
    def worst(self) -> Difference | None:
        """The difference between two groups that is farthest beyond what chance explains of it; None where none is.

        Without permutations, or with fewer than 19, nothing is known of chance, and it is the
        largest difference.
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
        """List every family and class whose parity is larger than epsilon, a number of at least 0, the largest first."""
        if not is_a(Real, epsilon) or not float(epsilon) >= 0:
            raise ParameterError(
                f"epsilon is {epsilon!r}.",
                remedy="Pass a number of 0 or more, such as 0.05.",
                epsilon=epsilon,
            )
        refuse_percentages("epsilon", epsilon, 1.0)
        each = (family.difference(k) for family in self.families for k in range(len(self.classes)))
        return tuple(
            sorted(
                (one for one in each if one.value > float(epsilon) + SAME),
                key=lambda one: -one.value,
            )
        )

    def to_json(self) -> dict[str, Any]:
        """Give all facts as plain values that strict JSON can hold; a ratio that does not exist is None."""
        # How the data came, and the rows themselves, are no finding.
        found = {
            name: getattr(self, name)
            for name in self.__dataclass_fields__
            if name not in ("library", "data", "fitted")
        }
        stored: dict[str, Any] = json_value(found)
        for family, facts in zip(self.families, stored["families"], strict=True):
            for name in _MEASURES:
                facts[name] = json_value(getattr(family, name))
            facts["verdicts_differ"] = family.verdicts_differ
            facts["ratio_by_class"] = [
                None if value == "nan" else value for value in facts["ratio_by_class"]
            ]
        for attribute, facts in zip(self.continuous, stored["continuous"], strict=True):
            facts["explained"], facts["class_name"] = (
                attribute.explained,
                json_value(attribute.class_name),
            )
        for group, facts in zip(self.ranked, stored["ranked"], strict=True):
            facts["beyond_chance"], facts["small"] = group.beyond_chance, group.small
        stored |= {name: json_value(getattr(self, name)) for name in ("worst", "largest", "small")}
        stored["p_value_floor"] = 1 / (1 + self.n_permutations) if self.n_permutations else None
        return stored
