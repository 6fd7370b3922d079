"""The report on a model: its decisions on held-out rows, and what it promised of them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from numbers import Real
from os import PathLike
from typing import Any, TypedDict, Unpack

import numpy as np

from r2b._audit import Audit
from r2b._audit.measure import Draws, audit_dataset, audit_request
from r2b._constraints.families.request import is_a
from r2b._data import Dataset, Vocabulary
from r2b._data.arrays import SAME, Floats
from r2b._data.cells import read_cells
from r2b._data.columns import column_of, refuse_lengths
from r2b._data.dataset import combine, read_known_labels
from r2b._data.outcomes import Outcomes, read_outcomes
from r2b._data.values import json_value
from r2b._data.vocabulary import read_vocabulary
from r2b.errors import R2BError
from r2b.metrics.chance import verdict_of
from r2b.metrics.criteria import CRITERIA, disparity, disparity_by_chance, read_predictions
from r2b.metrics.promise import parity_promise
from r2b.report.facts import AFTERWARDS, facts_of_audit, flows_between
from r2b.report.results import OPTIONS, Report, options_of
from r2b.report.suppress import suppressed
from r2b.report.trace import check_lines, files_of, fingerprint, stamp, versions
from r2b.report.words import Facts, as_facts, bounded_families, limits_of


class ModelReportOptions(TypedDict, total=False):
    """Options of every report on a model; :func:`r2b.model_report` describes them."""

    plain: Any
    epsilon: Any
    purpose: str | None
    owner: str | None
    label_name: str | None
    date: Any
    suppress_below: int
    outcomes: Any
    verify: str | None
    confidence: float
    n_permutations: int
    n_boot: int
    level: float
    random_state: int


def model_report(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    sensitive_features: Any,
    control_features: Any = None,
    sample_weight: Any = None,
    path: str | PathLike[str] | None = None,
    **options: Unpack[ModelReportOptions],
) -> Report:
    """Report what a fitted classifier decides about rows that it was not trained on.

    The report has the decisions by group, the disparity of every criterion with what chance
    explains, a promise about new rows, accuracy by group, adverse-impact ratios, and what changed
    against a plain model. Fair models add what they were asked for and what it costs.

    Parameters
    ----------
    model : classifier
        Anything fitted that has ``predict``.
    X : array, sparse matrix or frame of shape (N, n_features)
        Held-out rows.
    y : array-like of shape (N,), optional
        Their true classes. Without them accuracy and criteria of error rates are left out.
    sensitive_features : array-like of shape (N,) or (N, n_attributes)
        True groups of the rows.
    control_features : array-like of shape (N,) or (N, n_features), optional
        Groups are compared within each of their values.
    sample_weight : array-like of shape (N,), optional
        Weights of the rows.
    path : path-like, optional
        A page (``.html``), Markdown (``.md``) or all facts (``.json``) to write.
    **options
        ``plain``: a classifier to compare with, or its decisions; a model of r2b is compared with
        its own scores without prices. ``epsilon``: what was asked of the model. ``purpose`` and
        ``owner``: texts to be stated. ``label_name``: what is decided. ``date``,
        ``suppress_below``, ``verify``, ``n_permutations``, ``n_boot``, ``level``: as for
        :meth:`r2b.FairLabels.report`. ``outcomes``: compare these instead of every class, as for
        :func:`r2b.audit`; those of a model of r2b by default. ``confidence``: of the promise.
        ``random_state``: the same number gives the same figures.

    Returns
    -------
    r2b.report.Report
        With ``to_html``, ``to_markdown``, ``to_json`` and ``save``.

    Raises
    ------
    InputError
        The rows cannot be used as they are.
    ParameterError
        A path that ends in something else.

    See Also
    --------
    r2b.metrics.parity_promise : The promise alone.
    r2b.audit : Decisions, or labels, measured by demographic parity alone.

    Examples
    --------
    >>> import numpy as np
    >>> import r2b
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> sex = rng.choice(["women", "men"], 4000)
    >>> X = rng.normal(size=(4000, 2)) + np.outer(sex == "men", [1, 0])
    >>> job = np.where(X[:, 0] + rng.normal(size=4000) > 0.5, "engineer", "clerk")
    >>> old, new = slice(2000), slice(2000, None)
    >>> model = LogisticRegression().fit(X[old], job[old])
    >>> groups = {"sex": sex[new]}
    >>> r2b.model_report(model, X[new], job[new], sensitive_features=groups, label_name="job")
    <Report: job by sex, 2,000 rows; decisions of LogisticRegression, disparity 0.4...>
    """
    groups = {"sensitive_features": sensitive_features}
    if control_features is not None:
        groups["control_features"] = control_features
    asked: dict[str, Any] = {"name": _name(model), "versions": _versions(model)}
    if hasattr(model, "parity_report"):
        if y is not None or not any(CRITERIA[each].needs_truth for each in model._criteria):
            held_out = model.parity_report(X, **groups, y=y, sample_weight=sample_weight)
            asked["asked"] = [asdict(each) for each in held_out.groups]
        asked["criteria"], asked["positive"] = model._criteria, model.positive
        options.setdefault("epsilon", model.epsilon)
        options.setdefault("plain", model.predict_plain(X))
        options.setdefault("outcomes", _outcomes(model))
    frontier = getattr(model, "frontier_", None)
    if frontier is not None:
        columns = frontier._columns()
        names = ("plain_accuracy", "plain_disparity", "chance")
        asked["cost"] = {
            "points": [
                {
                    name: None if np.isnan(row[k]) else float(row[k])
                    for k, name in enumerate(columns)
                }
                for row in zip(*columns.values(), strict=True)
            ],
            **{name: getattr(frontier, name) for name in names},
            "rows": frontier.n_rows,
            "said": frontier.cost,
        }
    plain = options.get("plain")
    asked["plain_name"] = "the plain model"
    if plain is not None and hasattr(plain, "predict"):
        asked["plain_name"], options["plain"] = _name(plain), plain.predict(X)
    report = predictions_report(
        model.predict(X, **(groups if getattr(model, "attribute", None) == "given" else {})),
        y,
        **groups,
        sample_weight=sample_weight,
        of_model=asked,
        **options,
    )
    if path is not None:
        report.save(path)
    return report


def predictions_report(
    y_pred: Any,
    y: Any = None,
    *,
    sensitive_features: Any,
    control_features: Any = None,
    sample_weight: Any = None,
    of_model: Mapping[str, Any] | None = None,
    files: Sequence[str] = (),
    command: str | None = None,
    **options: Unpack[ModelReportOptions],
) -> Report:
    """Report on decisions that are in a table, without the model that made them.

    Parameters
    ----------
    y_pred : array-like of shape (N,)
        Decisions.
    y, sensitive_features, control_features, sample_weight, **options
        As for :func:`r2b.model_report`; ``plain`` holds decisions.
    of_model : mapping, optional
        What is known of the model.
    files : sequence of str
        The files that hold the rows; their checksums are stated.
    command : str, optional
        The command that made the report.

    See Also
    --------
    r2b.model_report : A report on what a model decides.

    Examples
    --------
    >>> decided, sex = ["hire", "no", "no", "no"] * 50, ["f", "f", "m", "m"] * 50
    >>> predictions_report(decided, sensitive_features={"sex": sex})
    <Report: label by sex, 200 rows; decisions, disparity 0.5000>
    """
    rows = {
        "sensitive_features": sensitive_features,
        "control_features": control_features,
        "sample_weight": sample_weight,
    }
    more = {**dict.fromkeys(ModelReportOptions.__annotations__), **OPTIONS}
    chosen = options_of(options, {**more, "confidence": 0.95, "random_state": 0})
    asked = dict(of_model or {})
    verdicts = as_facts(asked.get("asked", []))
    below, plain, epsilon = (chosen[name] for name in ("suppress_below", "plain", "epsilon"))
    draws = Draws(*(chosen[n] for n in ("n_permutations", "n_boot", "level", "random_state")))
    given = {"y": y, "y_pred": y_pred, "plain": plain}
    given = {name: each for name, each in given.items() if each is not None}
    data = _tables(given, rows)
    decided, old = data["y_pred"], data.get("plain")
    classes = decided.labels.vocabulary
    outcomes = read_outcomes(chosen["outcomes"], classes.values.tolist(), classes)
    request = audit_request("both", outcomes=outcomes)
    undrawn = replace(draws, n_permutations=0, n_boot=0)
    found = audit_dataset(decided, request, draws)
    before = None if old is None else audit_dataset(old, request, undrawn)
    if not verdicts and "criteria" not in asked and is_a(Real, epsilon):
        verdicts = as_facts(_verdicts(found, epsilon))
    name = chosen["label_name"] or getattr(y if y is not None else y_pred, "name", None)
    facts = facts_of_audit(
        found,
        label_name=name if isinstance(name, str) else None,
        trace=_trace(y_pred, y, rows, asked, chosen, files),
        bounded=bounded_families(verdicts),
    )
    model: dict[str, Any] = {
        "name": asked.get("name"),
        "purpose": chosen["purpose"],
        "owner": chosen["owner"],
        "epsilon": epsilon,
        "asked": _asked(verdicts, below) or None,
        "cost": asked.get("cost"),
        "promise": _promise(
            y_pred if outcomes is None else _shares(decided, outcomes),
            y,
            rows,
            asked,
            epsilon=epsilon if is_a(Real, epsilon) else None,
            confidence=chosen["confidence"],
            multilabel=outcomes is not None,
        ),
        "accuracy": None,
        "plain": None,
        "increased": None,
        "criteria": list(_criteria(found, before, given, rows)),
    }
    if below:  # the text names groups with their rows
        model["promise"]["said"] = ""
    if y is not None:
        right = _right(y, y_pred, rows, draws)
        shown = suppressed(facts_of_audit(right), below, right).audit
        model["accuracy"] = {"all": right.overall[0], "families": shown.families}
        if old is not None:
            was = _right(y, plain, rows, undrawn)
            model["accuracy"]["plain"] = was.overall[0]
            if not below:
                model["accuracy"]["before"] = [each.means[:, 0] for each in was.families]
    if old is not None and before is not None:
        flows: dict[str, Any] = {"flows": [], "flows_note": "Small cells are hidden."}
        if not below:
            flows = flows_between(found, old, decided)
            facts["after"] = [
                {name: family[name] for name in AFTERWARDS}
                for family in before.to_json()["families"]
            ]
            model["increased"] = _increased(found, before)
        changed = old.labels.array != decided.labels.array
        model["plain"] = {
            "name": asked.get("plain_name", "the plain model"),
            "changed": np.average(changed, weights=decided.weight),
            **flows,
        }
    facts = as_facts({**facts, "command": command, "model": json_value(model)})
    facts["limits"] = limits_of(facts)
    return Report(suppressed(facts, below, found))


def _name(model: Any) -> str:
    inner = getattr(model, "estimator", None)
    return f"{type(model).__name__}{'' if inner is None else f' of {type(inner).__name__}'}"


def _versions(model: Any) -> dict[str, str]:
    """Return the versions of the libraries that the model comes from."""
    each = (model, getattr(model, "estimator", None))
    names = sorted({type(one).__module__.split(".")[0] for one in each})
    found = {name: getattr(sys.modules.get(name), "__version__", None) for name in names}
    return {name: text for name, text in found.items() if isinstance(text, str) and name != "r2b"}


def _verdicts(found: Audit, epsilon: float) -> list[dict[str, Any]]:
    """Judge the largest difference of each family."""
    verdicts = []
    for each in found.families:
        if each.chance is None:
            continue
        chance = each.chance.quantile
        verdicts.append(
            {
                "family": each.name,
                "criterion": "demographic_parity",
                "group": each.name,
                "other": "each other",
                "class_name": each.largest.class_name,
                "n_rows": float(sum(each.rows)),
                "disparity": each.disparity,
                "epsilon": float(epsilon),
                "chance": chance,
                "verdict": verdict_of(each.disparity, epsilon, chance),
            }
        )
    return verdicts


def _asked(verdicts: list[Facts], below: int) -> list[Any]:
    """Return the verdicts; where small cells are hidden, without what follows from a cell."""
    if not below:
        return verdicts
    few, less = f"<{below}", {"class_name": "", "disparity": ""}
    return [
        {**each, **less, "n_rows": each.n_rows if each.n_rows >= below else few}
        for each in verdicts
    ]


def _tables(given: Mapping[str, Any], rows: Mapping[str, Any]) -> dict[str, Dataset]:
    """Read decisions as labels of the same groups and classes, which the true ones are among."""
    columns = {name: column_of(each, what=name) for name, each in given.items()}
    for name, column in columns.items():
        refuse_lengths("y_pred", len(columns["y_pred"]), name, len(column))
    each = [read_vocabulary(column, what=name)[1].values for name, column in columns.items()]
    values = list(dict.fromkeys(value for one in each for value in one.tolist()))
    plain = len({one.dtype.kind for one in each}) == 1
    classes = Vocabulary(np.array(values, None if plain else object))
    cells = read_cells(
        rows["sensitive_features"],
        control_features=rows["control_features"],
        categorical_only=False,
    )
    return {
        name: combine(
            read_known_labels(given[name], vocabulary=classes, soft=False, normalize=False),
            cells,
            rows["sample_weight"],
        )
        for name in columns
        if name != "y"
    }


def _right(y: Any, y_pred: Any, rows: Mapping[str, Any], draws: Draws) -> Audit:
    """Audit how often decisions are right; the first class stands for those that are."""
    table = read_predictions("equal_accuracy", y, y_pred, **rows)
    return audit_dataset(table.data, audit_request("both"), draws)


def _outcomes(model: Any) -> Outcomes | dict[str, list[Any]] | None:
    """Return the outcomes of a fair model by the names of its classes; None without any."""
    settled = getattr(model, "comparisons_", None)
    if settled is None or settled.outcomes is None:
        return None
    classes, matrix = settled.schema.classes.values.tolist(), settled.outcomes.matrix
    if np.isin(matrix, (0.0, 1.0)).all():
        pairs = zip(settled.outcomes.names, matrix, strict=True)
        return {name: [classes[k] for k in np.flatnonzero(row)] for name, row in pairs}
    found: Outcomes = settled.outcomes
    return found


def _shares(data: Dataset, outcomes: Outcomes) -> dict[str, Floats]:
    """Return what every decision counts in every outcome; like tags, they need not add up to 1."""
    return dict(zip(outcomes.names, outcomes.matrix[:, data.labels.array], strict=True))


def _trace(
    y_pred: Any,
    y: Any,
    rows: Mapping[str, Any],
    asked: Mapping[str, Any],
    chosen: Mapping[str, Any],
    files: Sequence[str],
) -> dict[str, Any]:
    true = "y" if y is not None else "decisions"
    decisions, again = "decisions", "r2b.audit(decisions, sensitive_features=...)"
    if "name" in asked:
        decisions = "model.predict(X)"
        again = f"r2b.model_report(model, X, {true}, sensitive_features=...)"
    calls = {
        f"fingerprint({true}, sensitive_features=...)": "the checksum of the held-out rows",
        f"fingerprint({decisions})": "the checksum of the decisions",
        again: "the same figures",
    }
    held = "the columns of the held-out rows as they were read, in their order"
    mark = fingerprint(y_pred if y is None else y, **rows)
    return {
        "date": stamp(chosen["date"]),
        "input": {"sha256": mark, "of": held, "files": files_of(files)},
        "output": {"sha256": fingerprint(y_pred), "of": "the decisions"},
        "verify": chosen["verify"] or check_lines(calls),
        "versions": versions() | asked.get("versions", {}),
    }


def _promise(
    y_pred: Any,
    y: Any,
    rows: Mapping[str, Any],
    asked: Mapping[str, Any],
    **options: Any,
) -> dict[str, Any]:
    """Bound the disparity of new rows, or say why these rows allow no bound."""
    first = asked.get("criteria", ("",))[0]
    criterion = CRITERIA.get(first, CRITERIA["demographic_parity"])
    try:
        found = parity_promise(
            y_pred,
            y_true=y if criterion.needs_truth else None,
            criterion=criterion.name,
            positive=asked.get("positive") if criterion.of_class else None,
            families="both",
            **rows,
            **options,
        )
    except R2BError as error:
        if "confidence" in error.facts:
            raise
        return {"bound": None, "said": f"No promise can be made: {error.problem}"}
    return {
        "criterion": criterion.title.lower(),
        "bound": found.bound,
        "measured": found.measured,
        "confidence": found.confidence,
        "holds": found.holds,
        "said": str(found),
    }


def _criteria(
    found: Audit,
    before: Audit | None,
    given: Mapping[str, Any],
    rows: Mapping[str, Any],
) -> Any:
    """Measure every criterion for every family, with what chance explains."""
    was = dict.fromkeys([each.name for each in found.families])
    if before is not None:
        was |= {each.name: each.disparity for each in before.families}
    assert found.data is not None and found.fitted is not None
    parity = CRITERIA["demographic_parity"].title
    parity += "" if found.fitted.outcomes is None else " of outcomes"
    for each in found.families:
        chance = None if each.chance is None else each.chance.quantile
        yield _measured(parity, each.name, each.disparity, chance, was[each.name])
    if "y" not in given:
        return
    cells = found.data.cells
    names = cells.columns[: cells.n_sensitive]
    families: list[Any] = [[[name]] for name in names] + [[list(names)]]
    for criterion in (each for each in CRITERIA.values() if each.needs_truth):
        for family in families if len(names) > 1 else ["crossed"]:
            asked = {"families": family, **rows}
            here = [
                disparity(criterion.name, given["y"], given[name], **asked)
                for name in ("y_pred", "plain")
                if name in given
            ]
            chance = disparity_by_chance(criterion.name, given["y"], given["y_pred"], **asked)
            name = names[0] if family == "crossed" else " x ".join(family[0])
            yield _measured(criterion.title, name, here[0], chance, *here[1:])


def _measured(
    criterion: str, family: str, found: float, chance: float | None, plain: float | None = None
) -> dict[str, Any]:
    verdict = None if chance is None else found > chance
    return {
        "criterion": criterion,
        "family": family,
        "found": found,
        "chance": chance,
        "beyond": verdict,
        "plain": plain,
    }


def _increased(found: Audit, before: Audit, most: int = 15) -> dict[str, Any]:
    """List the differences between two groups that are larger than those of the plain model."""
    gaps: list[dict[str, Any]] = []
    n_gaps = n_increased = 0
    for now, was in zip(found.families, before.families, strict=True):
        pairs = np.stack(np.triu_indices(len(now.groups), 1), axis=1)
        gap, old = (np.abs(np.diff(each.means[pairs], axis=1)[:, 0]) for each in (now, was))
        more = gap - old
        grew = int((more > SAME).sum())
        n_gaps, n_increased = n_gaps + more.size, n_increased + grew
        for place in np.argsort(-more, axis=None, kind="stable")[: min(most, grew)]:
            pair, k = divmod(int(place), len(now.classes))
            ends, levels = pairs[pair], now.levels
            gaps.append(
                {
                    "family": now.name,
                    "class": now.classes[k],
                    "groups": [now.groups[end] for end in ends],
                    "rows": [now.rows[end] for end in ends],
                    "plain": old[pair, k],
                    "now": gap[pair, k],
                    # more than chance explains for groups of these sizes
                    "beyond": None if levels is None else bool(gap[pair, k] > levels[ends].sum()),
                }
            )
    gaps.sort(key=lambda each: each["plain"] - each["now"])
    return {"of": n_gaps, "count": n_increased, "listed": gaps[:most]}
