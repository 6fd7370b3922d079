"""The report that a fitted classifier writes of itself."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack

from r2b.errors import ParameterError

if TYPE_CHECKING:
    from r2b.report import Report
    from r2b.report.model import ModelReportOptions


class ReportsItself:
    """A classifier with a report on its decisions."""

    def report(
        self,
        path: str | PathLike[str] | None,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any,
        control_features: Any = None,
        sample_weight: Any = None,
        **options: Unpack[ModelReportOptions],
    ) -> Report:
        """Write a report on the decisions about rows that the model was not trained on.

        Parameters
        ----------
        path : path-like or None
            A page (``.html``), Markdown (``.md``) or all facts (``.json``); None writes nothing.
        X : array, sparse matrix or frame
            Held-out rows.
        y : array-like of shape (N,), optional
            Their true classes.
        sensitive_features, control_features, sample_weight, **options
            As for :func:`r2b.model_report`.

        Returns
        -------
        r2b.report.Report
        """
        from r2b.report import model_report

        if hasattr(self, "tags_"):
            first = self.tags_.names.tolist()[0]
            problem = "A report is on decisions about one label, and this model decides on tags."
            remedy = f"Write one for each tag: model.tags_[{first!r}].report(...)."
            raise ParameterError(problem, remedy=remedy, tag=first)
        groups = {"sensitive_features": sensitive_features, "control_features": control_features}
        return model_report(self, X, y, path=path, sample_weight=sample_weight, **groups, **options)
