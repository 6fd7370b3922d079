"""Scorers for searches and cross-validation: fairness, and accuracy where it suffices."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any, Literal

from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score
from sklearn.utils import _safe_indexing
from sklearn.utils.metadata_routing import UNUSED, get_routing_for_object

from r2b._data import Membership
from r2b._data.values import one_of
from r2b.errors import LengthError, ParameterError
from r2b.metrics.criteria import (
    Absent,
    CriterionName,
    criterion_of,
    disparity,
    disparity_by_chance,
)
from r2b.metrics.groups import Families
from r2b.metrics.means import Method
from r2b.sklearn.labels import require_sensitive
from r2b.sklearn.prices import Kind


class ParityScorer(BaseEstimator):  # type: ignore[misc]
    """The scorer of :func:`parity_scorer`, with its parameters as attributes."""

    # Without its groups it can say nothing, so it asks for them wherever metadata are routed;
    # weights are for the user to ask for.
    __metadata_request__score = {  # noqa: RUF012
        "estimator": UNUSED,
        "sensitive_features": True,
        "control_features": True,
    }

    def __init__(
        self,
        kind: Kind = "decisions",
        *,
        criterion: CriterionName = "demographic_parity",
        positive: Any = None,
        families: Families = "crossed",
        method: Method = "between_groups",
        absent: Absent = "report",
        columns: Any = None,
    ) -> None:
        self.kind, self.criterion, self.families = kind, criterion, families
        self.method, self.absent, self.columns = method, absent, columns
        self.positive = positive

    def __call__(self, estimator: Any, X: Any, y: Any, **metadata: Any) -> float:
        """Score a model as :meth:`score` does: searches call their scorers."""
        return self.score(estimator, X, y, **metadata)

    def score(
        self,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        control_features: Any = None,
        sample_weight: Any = None,
    ) -> float:
        """Return what a search maximises on these rows."""
        if sensitive_features is None and self.columns is not None:
            try:
                sensitive_features = _safe_indexing(X, self.columns, axis=1)
            except (ValueError, IndexError, KeyError, TypeError) as error:
                problem = f"X has no columns {self.columns!r} to take the groups from: {error}"
                remedy = "Name columns of X, by number where it is an array."
                raise ParameterError(problem, remedy=remedy, columns=self.columns) from error
        require_sensitive(sensitive_features, type(self).__name__, "score")
        rows = {
            "sensitive_features": sensitive_features,
            "control_features": control_features,
            "sample_weight": sample_weight,
        }
        predicted, classes = self._predictions(estimator, X, rows)
        return self._score(estimator, X, y, predicted, classes, rows)

    def _score(
        self, estimator: Any, X: Any, y: Any, predicted: Any, classes: Any, rows: dict[str, Any]
    ) -> float:
        """Return minus the disparity."""
        return 0.0 - self._unfairness(y, predicted, classes, rows)

    def _accept_sample_weight(self) -> bool:
        """Tell scikit-learn that weights may be passed on where metadata are not routed."""
        return True

    def _predictions(self, estimator: Any, X: Any, rows: dict[str, Any]) -> tuple[Any, Any]:
        """Return the predictions that are measured, and the classes of their columns."""
        if self.kind == "decisions":
            return estimator.predict(X, **asked_by(estimator, "predict", rows)), None
        if not hasattr(estimator, "predict_proba"):
            problem = f"{type(estimator).__name__} has no predict_proba."
            raise ParameterError(
                problem, remedy='Score its decisions: `kind="decisions"`.', kind=self.kind
            )
        chances = estimator.predict_proba(X, **asked_by(estimator, "predict_proba", rows))
        return chances, getattr(estimator, "classes_", None)

    def _unfairness(self, y: Any, predicted: Any, classes: Any, rows: dict[str, Any]) -> float:
        options: dict[str, Any] = {
            "families": self.families,
            "method": self.method,
            "absent": self.absent,
            "positive": self.positive,
        }
        try:
            return disparity(self.criterion, y, predicted, classes=classes, **options, **rows)
        except LengthError as error:
            if not any(isinstance(each, (Mapping, Membership)) for each in rows.values()):
                raise
            remedy = "Pass attributes as a frame or an array, which scikit-learn cuts into folds."
            raise LengthError(error.problem, remedy=remedy, **error.facts) from None


class AccuracyUnder(ParityScorer):
    """The scorer of :func:`accuracy_under`, with its parameters as attributes."""

    def __init__(
        self,
        epsilon: float,
        *,
        kind: Kind = "decisions",
        criterion: CriterionName = "demographic_parity",
        positive: Any = None,
        families: Families = "crossed",
        slack: float | Literal["chance"] = "chance",
        absent: Absent = "report",
        columns: Any = None,
    ) -> None:
        groups: dict[str, Any] = {"families": families, "absent": absent, "columns": columns}
        super().__init__(kind, criterion=criterion, positive=positive, **groups)
        self.epsilon, self.slack = epsilon, slack

    def _score(
        self, estimator: Any, X: Any, y: Any, predicted: Any, classes: Any, rows: dict[str, Any]
    ) -> float:
        """Return the accuracy where the criterion is met, else minus the disparity."""
        parity, slack = self._unfairness(y, predicted, classes, rows), self.slack
        if slack == "chance":
            asked = {"classes": classes, "families": self.families, "positive": self.positive}
            slack = disparity_by_chance(self.criterion, y, predicted, **asked, **rows)
        if parity > self.epsilon + slack:
            return -parity
        if self.kind == "probabilities":
            predicted = estimator.predict(X, **asked_by(estimator, "predict", rows))
        return float(accuracy_score(y, predicted, sample_weight=rows["sample_weight"]))


def asked_by(estimator: Any, method: str, rows: Mapping[str, Any]) -> dict[str, Any]:
    """Return the groups of the rows where a model asks for them at prediction.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> asked_by(DummyClassifier(), "predict", {"sensitive_features": ["f", "m"]})
    {}
    """
    known = {
        name: rows[name]
        for name in ("sensitive_features", "control_features")
        if rows.get(name) is not None
    }
    wanted = get_routing_for_object(estimator).consumes(method, known)
    return {name: value for name, value in known.items() if name in wanted}


def parity_scorer(
    kind: Kind = "decisions",
    *,
    criterion: CriterionName = "demographic_parity",
    positive: Any = None,
    families: Families = "crossed",
    method: Method = "between_groups",
    absent: Absent = "report",
    columns: Any = None,
) -> ParityScorer:
    """Return a scorer of fairness, ``scorer(estimator, X, y, sensitive_features=...)``.

    Scores are negative disparities, so that larger is fairer.

    With metadata routing enabled, ``GridSearchCV``, ``cross_validate`` and the like pass it
    ``sensitive_features`` and ``control_features``, which it requests by itself; ``sample_weight``
    after ``set_score_request(sample_weight=True)``. Several attributes go in as a frame or an
    array, which scikit-learn cuts into folds; a dictionary of columns it does not.

    Parameters
    ----------
    kind : {"decisions", "probabilities"}
        What is measured: ``predict`` or ``predict_proba`` of any classifier.
    criterion : str
        The measure is ``<criterion>_difference`` in ``r2b.metrics``.
    positive, families, method, absent
        As for :func:`r2b.metrics.equal_opportunity_difference`. With ``absent="error"`` a fold in
        which a group lacks a true class is refused.
    columns : str, int or list, optional
        Columns of X to take the groups from where no ``sensitive_features`` are passed: then no
        routing is needed.

    Returns
    -------
    ParityScorer

    Raises
    ------
    ParameterError
        A choice that is not one of these.

    See Also
    --------
    r2b.sklearn.accuracy_under : A scorer for searches: accuracy among fair models.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.dummy import DummyClassifier
    >>> X, y, sex = np.array([[0], [1], [0], [1]]), ["no", "yes", "yes", "no"], ["f", "f", "m", "m"]
    >>> parity_scorer()(DummyClassifier().fit(X, y), X, y, sensitive_features=sex)
    0.0
    """
    _refuse_others(kind, criterion)
    return ParityScorer(**locals())


def accuracy_under(
    epsilon: float,
    *,
    kind: Kind = "decisions",
    criterion: CriterionName = "demographic_parity",
    positive: Any = None,
    families: Families = "crossed",
    slack: float | Literal["chance"] = "chance",
    absent: Absent = "report",
    columns: Any = None,
) -> AccuracyUnder:
    """Return a scorer by which a search picks the most accurate model that is fair enough.

    Where the measure of the criterion is at most epsilon and the slack, the score is the accuracy
    of ``predict``, between 0 and 1. Where it is larger, the score is minus the measure: below every
    model that is fair enough, and of two unfair models the fairer one is better.

    Parameters
    ----------
    epsilon : float
        Between 0 and 1.
    kind, criterion, positive, families, absent, columns
        As for :func:`parity_scorer`.
    slack : "chance" or float
        What the measure may be above epsilon on the rows of a fold. "chance": as much as 19 of 20
        models that treat groups alike show on so many rows, all differences taken together. It is
        large where groups are small, and then says little of a model.

    Returns
    -------
    AccuracyUnder

    Raises
    ------
    ParameterError
        Epsilon or the slack is out of range, or a choice is not one of these.

    See Also
    --------
    r2b.sklearn.parity_scorer : A scorer for searches: the disparity.

    Notes
    -----
    A search averages the scores of its folds, so that a model that misses epsilon in some of them
    keeps part of its accuracy. Few large folds tell fair from unfair models better than many small
    ones.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> sex = np.repeat(["f", "m"], 200)
    >>> X, y = (sex == "m").reshape(-1, 1) * 1.0, np.where(sex == "m", "yes", "no")
    >>> model = DecisionTreeClassifier().fit(X, y)
    >>> [accuracy_under(epsilon)(model, X, y, sensitive_features=sex) for epsilon in (0.05, 1.0)]
    [-1.0, 1.0]
    """
    _refuse_others(kind, criterion)
    asked = locals()
    for name, value in (("epsilon", epsilon), ("slack", 0.0 if slack == "chance" else slack)):
        if not isinstance(value, Real) or isinstance(value, bool) or not 0 <= value <= 1:
            remedy = "Pass a number between 0 and 1" + (
                ', or "chance".' if name == "slack" else ", such as 0.05."
            )
            raise ParameterError(
                f"{name} is {value!r}.", remedy=remedy, parameter=name, value=value
            )
    return AccuracyUnder(**asked)


def _refuse_others(kind: str, criterion: str) -> None:
    one_of("kind", kind, Kind)
    criterion_of(criterion)
