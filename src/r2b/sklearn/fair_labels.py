"""Labels and memberships by predicted groups, for models that are trained by other means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Unpack

import numpy as np

from r2b._constraints.families.request import one_of
from r2b._data.arrays import Floats
from r2b._data.attributes import Membership
from r2b._data.cells import read_cells
from r2b._data.compute import seed_of
from r2b._labels import FairLabels
from r2b._labels.debiasing import (
    DEFAULTS,
    Options,
    debias,
    refuse_unknown,
    request_and_settings,
    takes_options,
)
from r2b.sklearn.folds import make_folds
from r2b.sklearn.groups import (
    Comparison,
    FitRows,
    TrueGroups,
    choose_group_learner,
    predict_codes,
    true_groups,
)
from r2b.sklearn.labels import WITHOUT, check_same_rows, require_sensitive, weight_column
from r2b.sklearn.learners import require_probabilities

GroupUse = Literal["visible", "given", "both"]
_GIVEN = "{} (given)"  # families of true groups beside those of predicted ones


def debias_rows(
    groups: GroupUse, rows: FitRows, codes: Floats | None, options: Mapping[str, Any]
) -> FairLabels:
    """Debias labels by the groups that are asked for.

    Parameters
    ----------
    groups : {"visible", "given", "both"}
    rows : FitRows
    codes : ndarray of shape (n, n_codes), or None
        Predictions of the groups; None where the attribute is given at prediction.
    options : mapping
        As for ``debias``.
    """
    compared = rows.groups.of_labels()
    if not compared.comparisons:  # nothing is asked of labels
        kept = {name: options[name] for name in ("missing", "normalize")}
        return debias(rows.y, multilabel=False, epsilon=1.0, **rows.data, **kept)
    if groups == "given":
        return debias(rows.y, multilabel=False, **rows.data, **options)
    assert rows.labels is not None
    known = compared.given(rows.labels)
    families, features = compared.families, compared.memberships(known if codes is None else codes)
    if groups == "both":
        true = compared.renamed(_GIVEN)
        families, features = families + true.families, features | true.memberships(known)
    # families were settled on the true groups
    settled = {"missing": "error", "min_group_size": 0, "small_groups": "error"}
    asked: dict[str, Any] = {**options, "families": families, **settled}
    weight = rows.data["sample_weight"]
    return debias(
        rows.y, multilabel=False, sensitive_features=features, sample_weight=weight, **asked
    )


@takes_options(without=WITHOUT)
def fair_labels(
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    control_features: Any = None,
    sample_weight: Any = None,
    groups: GroupUse = "visible",
    group_estimator: Any = None,
    cv: int = 5,
    clusters: Any = None,
    n_jobs: int | None = None,
    random_state: Any = 0,
    **options: Unpack[Options],
) -> FairLabels:
    """Debias labels by the groups that the features predict.

    Train any model on them that sees these features. It is what :class:`ParityClassifier` does
    with labels, for models that are trained by other means.

    Parameters
    ----------
    X : array, sparse matrix or frame with N rows
        The features, without the attribute: what the model will see.
    y : array-like of shape (N,) or (N, L)
        Classes, or probabilities over L classes.
    sensitive_features : array-like of shape (N,) or (N, n_attributes), or Membership
        The true groups. A membership, such as :func:`visible_groups` gives, is taken as it is, and
        nothing is predicted.
    control_features : array-like of shape (N,) or (N, n_features), optional
        Groups are compared within each of their values.
    sample_weight : array-like of shape (N,), optional
        Weights of the rows; without them all count the same.
    groups : {"visible", "given", "both"}
        As for :class:`ParityClassifier`.
    group_estimator : classifier, optional
        Predicts the groups; logistic regression on scaled features by default.
    cv : int
        Folds; they are shuffled.
    clusters : array-like of shape (N,), optional
        Rows that belong together and stay in one fold.
    n_jobs : int, optional
        Folds trained at a time.
    random_state : int, Generator, RandomState or None
        For the folds.
    **options : Options
        As for :func:`r2b.debias`.

    Returns
    -------
    FairLabels

    Raises
    ------
    InputError, ParameterError

    See Also
    --------
    r2b.sklearn.visible_groups : The groups as features show them.
    r2b.sklearn.ParityClassifier : A model whose decisions meet the bound.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> sex = rng.choice(["f", "m"], 400)
    >>> X = rng.normal(size=(400, 2)) + np.outer(sex == "m", [2, 0])
    >>> y = np.where(X[:, 0] > 1, "yes", "no")
    >>> fair = fair_labels(X, y, sensitive_features=sex)
    >>> fair.status.value, fair.soft_labels.shape
    ('solved', (400, 2))
    """
    one_of("groups", groups, GroupUse)
    require_sensitive(sensitive_features, "fair_labels")
    refuse_unknown(options, WITHOUT)
    data = {
        "sensitive_features": sensitive_features,
        "control_features": control_features,
        "sample_weight": sample_weight,
    }
    asked: dict[str, Any] = {**DEFAULTS, **options}
    if groups == "given" or isinstance(sensitive_features, Membership):
        fair = debias(y, multilabel=False, **data, **asked)
        assert fair.dataset is not None
        check_same_rows(X, fair.dataset.n_rows, fair.dataset.index)
        return fair
    request = request_and_settings(asked)[0]
    read = true_groups(y, {**data, "normalize": asked["normalize"]}, request)
    rows = FitRows.of(X, y, data, read, cv=cv, clusters=clusters, random_state=random_state)
    learner, _ = choose_group_learner(group_estimator, None)
    codes, _ = predict_codes(learner, X, rows.groups, rows.folds, n_jobs)
    return debias_rows(groups, rows, codes, asked)


def visible_groups(
    estimator: Any,
    X: Any,
    *,
    sensitive_features: Any,
    cv: int = 5,
    sample_weight: Any = None,
    clusters: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> Membership:
    """Predict the groups of rows from their features, out of fold.

    A model of these features is as fair as its labels are with respect to these predicted groups,
    and not to the true ones: labels that are debiased by them make fair models. Several attributes
    are crossed.

    Parameters
    ----------
    estimator : classifier
        With ``predict_proba``. It is cloned, not changed.
    X : array, sparse matrix or frame with N rows
        The features, without the attribute.
    sensitive_features : array-like of shape (N,) or (N, n_attributes)
        The true groups.
    cv : int
        Folds; they are shuffled.
    sample_weight : array-like of shape (N,), optional
        Weights of the rows; without them all count the same.
    clusters : array-like of shape (N,), optional
        Rows that belong together and stay in one fold.
    random_state : int, Generator, RandomState or None
        The same number gives the same draws.
    n_jobs : int, optional
        Folds trained at a time.

    Returns
    -------
    Membership
        To pass as ``sensitive_features``.

    Raises
    ------
    InputError, ParameterError

    See Also
    --------
    r2b.sklearn.fair_labels : Labels that are fair by what features show of the groups.
    r2b.reweigh : Row weights instead of new labels.

    Examples
    --------
    >>> import r2b
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> sex = rng.choice(["f", "m"], 400)
    >>> X = rng.normal(size=(400, 2)) + np.outer(sex == "m", [2, 0])
    >>> visible = visible_groups(LogisticRegression(), X, sensitive_features=sex, random_state=0)
    >>> visible.groups, visible.probabilities.shape
    (('f', 'm'), (400, 2))
    >>> y = np.where(X[:, 0] > 1, "yes", "no")
    >>> r2b.debias(y, sensitive_features=visible).status.value
    'solved'
    """
    require_probabilities(estimator, "estimator", "or pass another classifier")
    found = read_cells(sensitive_features)
    weight = weight_column(sample_weight)
    codes, names = found.codes.astype(np.int64), tuple(map(str, found.names.tolist()))
    check_same_rows(X, len(codes), found.index)
    bound: Any = None  # nothing is compared
    place = Comparison("groups", names, np.arange(len(names)), bound)
    schema: Any = None  # no new rows are read
    share = np.full(len(names), 1.0 / len(names))  # no group of any row is unknown
    groups = TrueGroups(schema, codes, len(names), 0, False, (place,), weight, share)
    folds = make_folds(codes, cv, seed_of(random_state), clusters)
    return Membership(predict_codes(estimator, X, groups, folds, n_jobs)[0], groups=names)
