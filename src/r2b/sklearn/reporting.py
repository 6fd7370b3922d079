"""The report that a fitted classifier writes of itself."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack

from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin

if TYPE_CHECKING:
    from r2b.report import Report
    from r2b.report.model import ModelReportOptions
    from r2b.report.tables import TableReport


class ReportsItself(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
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
    ) -> Report | TableReport:
        """Write a report on the decisions about rows that the model was not trained on.

        Parameters
        ----------
        path : path-like or None
            A page (``.html``), Markdown (``.md``) or all facts (``.json``); None writes nothing.
        X : array, sparse matrix or frame
            Held-out rows.
        y : array-like of shape (N,), optional
            Their true classes; of a model of tags a column of 0 and 1 for each.
        sensitive_features, control_features, sample_weight, **options
            As for :func:`r2b.model_report`.

        Returns
        -------
        r2b.report.Report
            Of a model of tags a table of all, with the report of each.
        """
        groups = {"sensitive_features": sensitive_features, "control_features": control_features}
        rows: Any = {"sample_weight": sample_weight, **groups, **options}
        if not hasattr(self, "tags_"):
            from r2b.report import model_report

            return model_report(self, X, y, path=path, **rows)
        from r2b.report.tables import report_of_tag_models

        found = report_of_tag_models(self.tags_, X, y, **rows)
        if path is not None:
            found.save(path)
        return found
