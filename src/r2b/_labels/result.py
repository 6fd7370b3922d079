"""What every result has: a rule of prices, a status and a proof, with frames and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np

from r2b._constraints.families import Families
from r2b._data import Schema
from r2b._data.arrays import Array, Floats, as_objects
from r2b._data.values import json_value, one_of
from r2b._plot import group_means, percent, shorten
from r2b._solve.certificate import FamilyProof, Proof
from r2b._solve.solvers import Progress, Status

VERSION = 1  # of the files


@dataclass(frozen=True, eq=False)
class PriceRule:
    """Prices, and the classes and groups for which they were found.

    Attributes
    ----------
    schema : Schema
    families : Families
    prices : ndarray
        A row for each group.
    """

    schema: Schema
    families: Families
    prices: Floats

    STORED: ClassVar[tuple[str, ...]]
    """The parts that a file holds beside schema and families."""

    @property
    def fitted(self) -> Self:
        """The rule as it was found."""
        return self

    @property
    def classes(self) -> Array:
        """The fitted classes."""
        return self.fitted.schema.classes.values


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """A rule, what happened, and what it proves.

    Attributes
    ----------
    rule : PriceRule
    status : Status
    certificate : Proof
    residual : float
        How far the prices are from optimal, in units of group means.
    history : sequence of Progress
        The steps of the solver.
    """

    rule: PriceRule
    status: Status
    certificate: Proof
    residual: float
    history: Sequence[Progress] = ()

    FORMAT: ClassVar[str]
    """What its files are called."""

    @property
    def schema(self) -> Schema:
        """Classes and groups, as they came in."""
        return self.rule.schema

    @property
    def families(self) -> Families:
        """Which groups agree with each other, and how closely."""
        return self.rule.families

    @property
    def prices(self) -> Floats:
        """The prices of each group, a row each."""
        return self.rule.prices

    @property
    def classes(self) -> Array:
        """Names of the classes, with the dtype they came in."""
        return self.rule.classes

    @property
    def outcomes(self) -> Array:
        """Names of what is compared: the classes, if no other outcomes were asked for."""
        asked = self.families.outcomes
        return self.classes if asked is None else np.array(asked.names)

    @property
    def groups(self) -> Array:
        """Names of the groups, family after family."""
        return self.families.names

    @property
    def disparity(self) -> float:
        """The largest difference between two group means of a family in any class, certified."""
        return self.certificate.disparity

    @property
    def _compared(self) -> str:
        """What a column of classes or other outcomes is called."""
        return "class" if self.families.outcomes is None else "outcome"

    def _columns(self, part: str) -> dict[str, Any]:
        """Return the means, the families or the certificate as columns."""
        proof, outcomes = self.certificate, self.outcomes
        if part == "certificate":
            return proof.columns()
        if part == "means":
            members = self.families.members
            times = [member.n_groups * len(outcomes) for member in members]
            return {
                "family": np.repeat(as_objects([member.name for member in members]), times),
                "group": np.repeat(self.groups, len(outcomes)),
                self._compared: np.tile(outcomes, len(self.groups)),
                "before": proof.means_before.ravel(),
                "after": proof.means.ravel(),
            }
        found = proof.families

        def column(name: str) -> Array:
            return np.concatenate([np.zeros(0), *(getattr(each, name) for each in found)])

        return {
            "family": [family.name for family in found for _ in outcomes],
            "bound": [family.bound for family in found for _ in outcomes],
            self._compared: np.tile(outcomes, len(found)),
            "epsilon": column("epsilon"),
            "before": column("measure_before"),
            "after": column("measure"),
        }

    def _drawn_means(self, ax: Any, family: str | None, called: str, note: str) -> Any:
        """Draw the groups of one family, by default the one farthest from parity."""
        proof, found = self.certificate, self.certificate.families

        def apart(means: Floats, one: FamilyProof) -> Floats:
            own = means[one.groups]
            return np.asarray(
                np.abs(own).max(axis=0) if one.bound == "moments" else np.ptp(own, axis=0)
            )

        def size(one: FamilyProof) -> float:
            # Moments are no disparities: they are drawn if nothing else is there, or by name.
            largest = round(float(apart(proof.means_before, one).max()), 12)
            return largest - (one.bound == "moments")

        if family is not None:
            one_of("family", family, [each.name for each in found])
            found = tuple(each for each in found if each.name == family)
        chosen = max(found, key=size)
        before, moments = apart(proof.means_before, chosen), chosen.bound == "moments"
        numbers = [
            f"{each.max():.4f}" if moments else percent(float(each.max()))
            for each in (before, apart(proof.means, chosen))
        ]
        name = f" by {shorten(chosen.name)}" if chosen.name not in ("", "groups") else ""
        lines = [
            f"{'Moments' if moments else called}{name}, before and after",
            f"{'largest moment' if moments else 'disparity'} {numbers[0]} before, {numbers[1]} "
            f"after; {note}",
        ]
        tables = {"before": proof.means_before[chosen.groups], "after": proof.means[chosen.groups]}
        groups, kind = self.groups[chosen.groups].tolist(), type(self).__name__
        return group_means(ax, kind, lines, self.outcomes, groups, tables, before, moments=moments)

    def to_json(self) -> dict[str, Any]:
        """Return everything but the rows as plain values, as the file holds them."""
        rule = self.rule.fitted
        content: dict[str, Any] = json_value(
            {
                "format": self.FORMAT,
                "version": VERSION,
                "schema": rule.schema.to_json(),
                "families": rule.families.to_json(),
                **{name: getattr(rule, name) for name in rule.STORED},
                "status": self.status.value,
                "residual": self.residual,
                "certificate": self.certificate.to_json(),
                "history": [
                    [step.iteration, step.stage, step.residual, step.seconds]
                    for step in self.history
                ],
            }
        )
        return content

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything but the rows to a JSON file that :func:`r2b.load` reads.

        Its layout is documented in docs/file-format.md.

        Parameters
        ----------
        path : path-like
            The file; one that exists is replaced.
        """
        from r2b._labels.storage import write_json

        write_json(self.to_json(), path)
