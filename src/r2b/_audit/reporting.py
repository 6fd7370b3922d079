"""The report of an audit, which a later package writes."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from r2b.report import Report


class Reporting:
    """An audit that reports on itself."""

    def report(
        self,
        path: str | PathLike[str] | None = None,
        *,
        label_name: str | None = None,
        date: Any = None,
        suppress_below: int = 0,
        verify: str | None = None,
    ) -> Report:
        """Write a report for people who did not run the code: what was found, how sure it is, what was read and how to check it.

        Parameters
        ----------
        path : path-like, optional
            Where it goes: a page (``.html``), Markdown (``.md``) or all facts (``.json``). A file
            that is there is replaced. Without a path nothing is written, and a notebook shows what
            is returned.
        label_name : str, optional
            What the label is called.
        date : datetime, str or False, optional
            As for :meth:`r2b.FairLabels.report`.
        suppress_below : int
            Figures of cells of fewer rows are left out, with as many others as it takes that they
            do not follow; 0 leaves out none.
        verify : str, optional
            Shown as the way to check the report, instead of the Python lines.

        Returns
        -------
        r2b.report.Report

        Examples
        --------
        >>> import r2b
        >>> found = r2b.audit(["a", "b", "b", "b", "a", "a"], sensitive_features={"sex": ["f", "f", "f", "m", "m", "m"]}, n_boot=0)
        >>> found.report(label_name="job")
        <Report: job by sex, 6 rows; audited, nothing changed>
        """
        from r2b.report.results import report_of_audit

        report = report_of_audit(self, label_name, date, suppress_below, verify)
        if path is not None:
            report.save(path)
        return report
