"""Several bounds on the same data: what each costs, and whether it also meets the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from r2b._audit.tradeoff import OUTCOME_HEAD, outcome_columns, outcome_line
from r2b._constraints.families.doubts import warn_of_doubts
from r2b._constraints.families.request import one_of
from r2b._data import Dataset
from r2b._data.arrays import Floats, frozen
from r2b._data.frames import Backend, frame_of
from r2b._data.values import written
from r2b._labels import FairLabels, means_by_cell
from r2b._labels.task import task_of
from r2b._plot import Measure, measures, percent, shorten
from r2b._solve.certificate import PROVEN
from r2b.errors import ParameterError


@dataclass(frozen=True, eq=False)
class Comparison:
    """Optima under several bounds.

    Attributes
    ----------
    labels : dict of str to FairLabels
        The optimum under each choice.
    violation : ndarray of shape (n, n)
        How far the optimum of one choice (row) is outside the bound of another (column), in units
        of means; 0 if it meets it.
    """

    labels: dict[str, FairLabels]
    violation: Floats

    @property
    def names(self) -> list[str]:
        """The choices, in the order given."""
        return list(self.labels)

    def meets(self, name: str, other: str) -> bool:
        """Return whether the optimum of one choice also meets the bound of another."""
        for each in (name, other):
            one_of("name", each, self.names)
        return bool(self.violation[self.names.index(name), self.names.index(other)] <= PROVEN)

    def _met_by(self, name: str) -> list[str]:
        """Return the other choices whose bounds the optimum of a choice meets."""
        return [other for other in self.names if other != name and self.meets(name, other)]

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(map(repr, self.names))}>"

    def _repr_html_(self) -> str:
        from r2b.report.render import comparison_html

        return comparison_html(self)

    def __str__(self) -> str:
        shown = {name: written(name) for name in self.names}
        width = max(map(len, shown.values()))
        lines = [f"{'':{width}}{OUTCOME_HEAD}  also meets"]
        for name, fair in self.labels.items():
            also = ", ".join(shown[other] for other in self._met_by(name)) or "none"
            lines.append(f"{shown[name]:{width}}{outcome_line(fair)}  {also}")
        return "\n".join(lines)

    def to_frame(self, *, backend: Backend | None = None) -> Any:
        """Return one row per choice as a frame.

        It says what the choice reaches and costs, whether it is proven, and whether it meets every
        other choice.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, optional
            By default the library that the data came in; of data that came in none, pandas or, if
            it is not installed, Polars.

        Examples
        --------
        >>> y, sex = ["a", "b", "b", "a", "a", "a"], ["f", "f", "f", "m", "m", "m"]
        >>> choices = {"strict": {"epsilon": 0}, "loose": {"epsilon": 0.3}}
        >>> both = compare(y, sensitive_features=sex, choices=choices)
        >>> both.to_frame(backend="pyarrow").select(["choice", "meets loose"]).to_pylist()
        [{'choice': 'strict', 'meets loose': True}, {'choice': 'loose', 'meets loose': True}]
        """
        columns: dict[str, Any] = {"choice": self.names, **outcome_columns(self.labels.values())}
        del columns["relative_gap"]
        columns |= {
            f"meets {other}": np.array([self.meets(name, other) for name in self.names])
            for other in self.names
        }
        rows = next(iter(self.labels.values())).rows
        return frame_of(columns, backend, "" if rows is None else rows.came_as)

    def plot(self, ax: Any = None) -> Any:
        r"""Draw what every choice costs, the parity it reaches and the other bounds it meets.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; on new Axes by default.

        Returns
        -------
        matplotlib Axes

        Examples
        --------
        >>> y, sex = ["a", "b", "b", "a", "a", "a"], ["f", "f", "f", "m", "m", "m"]
        >>> choices = {"strict": {"epsilon": 0}, "loose": {"epsilon": 0.3}}
        >>> both = compare(y, sensitive_features=sex, choices=choices)
        >>> [text.get_text() for text in both.plot().texts]
        ['disparity 0.00 %\nalso meets loose', 'disparity 30.00 %']
        """
        found = []
        for name, fair in self.labels.items():
            others, proof = [shorten(other, 20) for other in self._met_by(name)], fair.certificate
            more = f" and {len(others) - 2} more" if len(others) > 2 else ""
            text = f"disparity {percent(proof.disparity)}{'' if fair.status.ok else ', not proven'}"
            text += f"\nalso meets {', '.join(others[:2])}{more}" if others else ""
            found.append(Measure(name, proof.expected_changes, beside=text))
        title = ["What each choice costs"]
        return measures(ax, "Comparison", title, "labels expected to change", found)


def compare(
    y: Any, *, sensitive_features: Any, choices: Mapping[str, Mapping[str, Any]], **options: Any
) -> Comparison:
    """Solve for several bounds on the same data.

    Parameters
    ----------
    y, sensitive_features
        As for :func:`r2b.debias`.
    choices : mapping of str to mapping
        For each choice a name and its options of :func:`r2b.debias`, such as ``{"bound": "ratio",
        "epsilon": 0.2}``. They may have sensitive and control features of their own: parity by sex,
        say, and whether it also brings parity by race.
    **options
        Options of :func:`r2b.debias` that all choices share.

    Returns
    -------
    Comparison

    Raises
    ------
    ParameterError
        No choices, two of one name, or an option that does not exist.

    See Also
    --------
    r2b.frontier : What every epsilon costs.

    Examples
    --------
    >>> import r2b
    >>> y, sex = ["a", "b", "b", "a", "a", "a"], ["f", "f", "f", "m", "m", "m"]
    >>> choices = {"tenth": {"epsilon": 0.1}, "four fifths": {"bound": "ratio", "epsilon": 0.2}}
    >>> found = r2b.compare(y, sensitive_features=sex, choices=choices)
    >>> found.meets("four fifths", "tenth"), found.meets("tenth", "four fifths")
    (True, False)
    """
    sound = isinstance(choices, Mapping) and len(choices) > 0
    if not sound or not all(isinstance(each, Mapping) for each in choices.values()):
        raise ParameterError(
            f"choices is {choices!r}.",
            remedy="Name options by choice, such as {'strict': {'epsilon': 0.0}, 'four fifths': "
            "{'bound': 'ratio', 'epsilon': 0.2}}.",
            choices=choices,
        )
    if len({str(name) for name in choices}) < len(choices):  # 1 and "1" are two keys and one name
        problem = f"Two of the choices {', '.join(map(repr, choices))} have one name."
        raise ParameterError(
            problem, remedy="Give every choice a name of its own, as text.", choices=list(choices)
        )
    tasks = {
        str(name): task_of(y, {"sensitive_features": sensitive_features, **options, **choice})
        for name, choice in choices.items()
    }
    warn_of_doubts(*tasks.values())
    labels = {name: task.solve() for name, task in tasks.items()}
    violation = np.zeros((len(tasks), len(tasks)))
    for row, (name, task) in enumerate(tasks.items()):
        own = means_by_cell(task.table, labels[name])
        for column, other in enumerate(tasks.values()):
            same = _same_cells(task.table, other.table)
            cells = own if same else means_by_cell(other.table, labels[name])
            violation[row, column] = other.parity.violation(other.parity.means(cells))
    return Comparison(labels, frozen(violation))


def _same_cells(one: Dataset, other: Dataset) -> bool:
    """Return whether two readings of a table have the same cells and the same weights."""
    # None is equal to None.
    same_weight = np.array_equal(np.asarray(one.weight), np.asarray(other.weight))
    return same_weight and np.array_equal(one.cells.codes, other.cells.codes)
