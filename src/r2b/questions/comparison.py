"""How bounds compare on the same data: what each costs, and whether it also does what the others ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from r2b.certificate import PROVEN
from r2b.errors import ParameterError
from r2b.questions.opening import job_of
from r2b.solution import FairLabels

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Optima under several bounds.

    Attributes
    ----------
    labels : dict of str to FairLabels
        The optimum under each choice.
    violation : ndarray of shape (n, n)
        How far the optimum of one choice (row) lies outside what another asks (column), in units of means; 0 where it meets it.
    """

    labels: dict[str, FairLabels]
    violation: Floats

    @property
    def names(self) -> list[str]:
        """The choices, in the order given."""
        return list(self.labels)

    def meets(self, name: str, other: str) -> bool:
        """Tell whether the optimum of one choice also does what another asks."""
        return bool(self.violation[self.names.index(name), self.names.index(other)] <= PROVEN)

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(map(repr, self.names))}>"

    def _repr_html_(self) -> str:
        from importlib import import_module

        # By name: what a notebook shows is made by a later room, and only there.
        return str(import_module("r2b.report.notebook").comparison_html(self))

    def __str__(self) -> str:
        width = max(len(name) for name in self.names)
        lines = [f"{'':{width}}    parity  squared distance  expected changes  proven  also meets"]
        for name, fair in self.labels.items():
            proof, others = fair.certificate, [other for other in self.names if other != name and self.meets(name, other)]
            share, proven = f"{100 * proof.expected_changes:.2f} %", "yes" if fair.status.ok else "no"
            also = ", ".join(others) or "none"
            lines.append(f"{name:{width}}{proof.parity:10.5f}{proof.distance:18.6f}{share:>18}{proven:>8}  {also}")
        return "\n".join(lines)


def compare(y: Any, *, sensitive_features: Any, choices: Mapping[str, Mapping[str, Any]], **options: Any) -> Comparison:
    """Solve for several bounds on the same data.

    Parameters
    ----------
    y, sensitive_features
        As for :func:`r2b.debias`.
    choices : mapping of str to mapping
        For each choice a name and its options of :func:`r2b.debias`, such as ``{"bound": "ratio", "epsilon": 0.2}``.
    **options
        Options of :func:`r2b.debias` that all choices share.

    Returns
    -------
    Comparison

    Raises
    ------
    ParameterError
        No choices, or an option that does not exist.

    Examples
    --------
    >>> import r2b
    >>> y, sex = ["a", "b", "b", "a", "a", "a"], ["f", "f", "f", "m", "m", "m"]
    >>> choices = {"tenth": {"epsilon": 0.1}, "four fifths": {"bound": "ratio", "epsilon": 0.2}}
    >>> found = r2b.compare(y, sensitive_features=sex, choices=choices)
    >>> found.meets("four fifths", "tenth"), found.meets("tenth", "four fifths")
    (True, False)
    """
    if not isinstance(choices, Mapping) or not choices:
        raise ParameterError(
            f"choices is {choices!r}.",
            remedy="Name at least one, such as {'strict': {'epsilon': 0.0}, 'four fifths': {'bound': 'ratio', 'epsilon': 0.2}}.",
            choices=choices,
        )
    jobs = {str(name): job_of(y, {"sensitive_features": sensitive_features, **options, **choice}) for name, choice in choices.items()}
    labels = {name: job.solve(stacklevel=3) for name, job in jobs.items()}
    violation = np.zeros((len(jobs), len(jobs)))
    for row, (name, job) in enumerate(jobs.items()):
        cells = job.cell_means(labels[name])
        for column, other in enumerate(jobs.values()):
            violation[row, column] = other.parity.violation(other.parity.means(cells))
    violation.flags.writeable = False
    return Comparison(labels, violation)
