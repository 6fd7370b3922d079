"""What a result says of itself in numbers and in frames."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from r2b._data import Dataset
from r2b._data.arrays import Floats
from r2b._data.frames import Backend, frame_of, records
from r2b._labels.account import Change, ConstraintCost, costliest_constraints, has_flows, no_rows
from r2b._labels.rule import LabelRows, MemoryRows, Solution
from r2b.errors import ParameterError, RowsUnavailableError

if TYPE_CHECKING:
    from r2b.report import Report

Form = Literal["soft", "round", "sample", "expand"]
Part = Literal["means", "families", "changes", "constraints", "certificate"]


@dataclass(frozen=True, eq=False, repr=False)
class Summary(Solution):
    """A result with its rows, and what it says of itself.

    Attributes
    ----------
    rows : LabelRows or None
        The rows, wherever they live; None for an object loaded from a file.
    """

    rows: LabelRows | None = field(default=None, repr=False)

    @property
    def dataset(self) -> Dataset | None:
        """The rows where they are in memory."""
        return self.rows.dataset if isinstance(self.rows, MemoryRows) else None

    def __len__(self) -> int:
        """Give the number of rows."""
        if self.rows is None:
            raise no_rows()
        if self.rows.n_rows is None:
            remedy = "Count them where they live; len() makes no pass over them."
            raise RowsUnavailableError(
                "These labels are of a table whose rows were not counted.", remedy=remedy
            )
        return self.rows.n_rows

    def __bool__(self) -> bool:
        return True  # an object without rows has no length, and is there all the same

    @property
    def disparity(self) -> float:
        """The largest difference between the means of two groups of a family in any class, as certified."""
        return self.certificate.disparity

    @property
    def epsilon(self) -> float:
        """The epsilon that was asked for or, from ``smallest_epsilon``, found; ``certificate.epsilon`` has it by class.

        Where it differs by class or family it is the largest: nothing that is bounded exceeds it.
        Infinite where no class is bounded.
        """
        every = [family.epsilon for family in self.certificate.families] or [
            self.certificate.epsilon
        ]
        bounded = [float(each) for each in np.concatenate(every) if np.isfinite(each)]
        return max(bounded, default=np.inf)

    def largest_changes(self, n: int = 10) -> list[Change]:
        """List the heaviest flows from an old to a new label; for class labels only."""
        if self.rows is None:
            raise no_rows()
        return self.rows.largest_changes(self.rule, n)

    def costliest_constraints(self, n: int = 10) -> list[ConstraintCost]:
        """List the groups and classes whose means cost most to hold."""
        return costliest_constraints(self, n)

    def to_frame(self, part: Part = "means", *, backend: Backend | None = None) -> Any:
        """Give one part of what is known as a frame, one fact per row.

        Parameters
        ----------
        part : {"means", "families", "changes", "constraints", "certificate"}
            Means of every class in every group, before and after (of continuous attributes the
            moments); what the bound of every family limits; flows from old to new labels, the
            heaviest first, for class labels; what it costs to hold each mean, the costliest first;
            the numbers of the certificate.
        backend : {"pandas", "polars", "pyarrow"}, optional
            By default the library that the data came in; of data that came in none, pandas or,
            where it is not installed, Polars.

        Returns
        -------
        frame

        Raises
        ------
        ParameterError
            There is no such part, or no flows: probabilities, and rows that are in several groups,
            have means alone.
        RowsUnavailableError
            The flows of an object that was loaded from a file.
        MissingExtraError
            Neither pandas nor Polars is installed, or not the backend.

        Examples
        --------
        >>> import r2b
        >>> fair = r2b.debias(["a", "b", "b", "a", "a", "a"], sensitive_features=["f", "f", "f", "m", "m", "m"], epsilon=0)
        >>> fair.to_frame("changes", backend="pyarrow").select(["group", "old", "new"]).to_pylist()
        [{'group': 'm', 'old': 'a', 'new': 'b'}, {'group': 'f', 'old': 'b', 'new': 'a'}]
        """
        if part not in get_args(Part):
            raise ParameterError(
                f"part is {part!r}.",
                remedy=f"Choose among {', '.join(map(repr, get_args(Part)))}.",
                part=part,
            )
        came_as = "" if self.rows is None else self.rows.came_as
        if part == "certificate":
            return frame_of(self.certificate.columns(), backend, came_as)
        if part == "changes":
            return frame_of(records(Change, self._flows()), backend, came_as)
        if part == "constraints":
            columns = records(ConstraintCost, self.costliest_constraints(self.prices.size))
        else:
            columns = self._means() if part == "means" else self._families()
        return frame_of(
            {"class" if name == "label" else name: values for name, values in columns.items()},
            backend,
            came_as,
        )

    def report(
        self,
        path: str | PathLike[str] | None = None,
        *,
        form: Form = "soft",
        random_state: int | None = 0,
        key: Any = None,
        labels: Any = None,
        output: str | PathLike[str] | None = None,
        audit: Any = None,
        frontier: Any = None,
        **options: Any,
    ) -> Report:
        """Write a report for people who did not run the code: before and after, what it cost, the proof, and how to check it.

        Everything said of the labels that left is measured on those labels.

        Parameters
        ----------
        path : path-like, optional
            Where it goes: a page (``.html``), Markdown (``.md``) or all facts (``.json``). A file
            that is there is replaced. Without a path nothing is written, and a notebook shows what
            is returned.
        form, random_state, key
            How the labels left, as for :meth:`r2b.FairLabels.round`.
        labels : array-like, optional
            The labels that left, where they are not what ``form`` and ``random_state`` give again.
        output : path-like, optional
            The file, or folder, that they left in; its checksums are stated.
        audit : Audit, optional
            Of the old labels; by default the families that are bounded are audited.
        frontier : Frontier, optional
            What other bounds would have cost, from :func:`r2b.frontier`.
        **options
            ``label_name``: what the label is called. ``date``: a datetime or a text to be stated,
            or False for none; by default now, or what SOURCE_DATE_EPOCH says. The same input and
            date give the same bytes. ``suppress_below``: figures of cells of fewer rows are left
            out, with as many others as it takes that they do not follow; 0 for none. ``verify``:
            shown as the way to check the report, instead of the Python lines. ``n_permutations``,
            ``n_boot``, ``level``: as for :func:`r2b.audit`.

        Returns
        -------
        r2b.report.Report

        Raises
        ------
        RowsUnavailableError
            The labels were loaded from a file.
        ParameterError
            A path that ends in something else, or an option that does not exist.

        Examples
        --------
        >>> import r2b
        >>> fair = r2b.debias(["a", "b", "b", "a", "a", "a"], sensitive_features={"sex": ["f", "f", "f", "m", "m", "m"]}, epsilon=0.1)
        >>> fair.report(form="round", label_name="job")
        <Report: job by sex, 6 rows; round, parity 0.6667 -> 0.0000>
        """
        from r2b.report.results import report_of_labels

        report = report_of_labels(
            self, (form, random_state, key), labels, output, audit, frontier, **options
        )
        if path is not None:
            report.save(path)
        return report

    def _means(self) -> dict[str, Any]:
        n_classes, proof = len(self.classes), self.certificate
        sizes = [
            (member.name, member.groups.stop - member.groups.start)
            for member in self.families.members
        ]
        return {
            "family": [name for name, n_groups in sizes for _ in range(n_groups * n_classes)],
            "group": np.repeat(self.groups, n_classes),
            "label": np.tile(self.classes, len(self.groups)),
            "before": proof.means_before.ravel(),
            "after": proof.means.ravel(),
        }

    def _families(self) -> dict[str, Any]:
        found, n_classes = self.certificate.families, len(self.classes)

        def stacked(name: str) -> Floats:
            return np.concatenate([np.zeros(0), *(getattr(family, name) for family in found)])

        return {
            "family": [family.name for family in found for _ in range(n_classes)],
            "bound": [family.bound for family in found for _ in range(n_classes)],
            "label": np.tile(self.classes, len(found)),
            "epsilon": stacked("epsilon"),
            "before": stacked("measure_before"),
            "after": stacked("measure"),
        }

    def _flows(self) -> list[Change]:
        if not has_flows(self):
            problem = (
                "These labels have no flows: they are probabilities, or rows are in several groups."
            )
            raise ParameterError(
                problem,
                remedy="Take to_frame('means'), which has every group before and after.",
                part="changes",
            )
        return self.largest_changes(len(self.cells) * len(self.classes) ** 2)
