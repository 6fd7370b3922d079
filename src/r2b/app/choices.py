"""What is chosen on the page: which columns play which part, and what is asked of the groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, get_args

from r2b._constraints.bounds import BOUNDS, CHOICES
from r2b._constraints.epsilon import refuse_percentages
from r2b._constraints.families.request import is_a
from r2b._data.values import one_of
from r2b._labels.debiasing import CHOICES as WORDS
from r2b._labels.labels import Form
from r2b.engines.files import FileSource
from r2b.errors import ParameterError

TASKS = {
    "labels": (
        "Fair labels",
        "A column of labels: who gets which, and the closest labels in parity.",
    ),
    "decisions": (
        "Fair decisions from scores",
        "A column of probabilities for every class: one fair decision per row.",
    ),
    "training": (
        "Labels for a model",
        "Labels to train a model on, fair by what its columns show of the groups.",
    ),
    "predictions": (
        "What a model does",
        "Labels and predictions side by side: how far a model is from fair.",
    ),
}
KINDS = ("csv", "parquet", "xlsx")
NEEDED = {
    name: {each: parameter.help for each, parameter in BOUNDS[name].parameters.items()}
    for name in CHOICES
    if not BOUNDS[name].defaults
}
"""What the page asks for with a bound: its parameters without a default, and what to pass."""

_PARTS = {
    "labels": ("label", "sensitive", "control"),
    "decisions": ("scores", "sensitive"),
    "training": ("label", "sensitive", "features"),
    "predictions": ("label", "prediction", "sensitive"),
}
_SINGLE = ("label", "prediction", "weight")
_MISSED = {
    "label": ("No label is chosen.", "Choose the column that holds it."),
    "sensitive": ("No sensitive column is chosen.", "Choose at least one."),
    "scores": ("No column of probabilities is chosen.", "Choose one for every class."),
    "features": ("No column that the model sees is chosen.", "Choose those it will have."),
    "prediction": ("No prediction is chosen.", "Choose the column that holds what was predicted."),
}


@dataclass(frozen=True)
class Choice:
    """Everything that a request says; the server keeps none of it.

    Attributes
    ----------
    task : {"labels", "decisions", "training", "predictions"}
    label, prediction : str
    sensitive, control, scores, features : tuple of str
    weight : str or None
    missing, families, bound : str
        As for :func:`r2b.debias`.
    parameters : tuple of (str, object)
        Options of the bound.
    epsilon : float
    normalize : bool
        Divide rows of probabilities by their sums.
    form, kind : str
        Form of the labels, and kind of the file, of a download.
    """

    task: str
    label: str = ""
    sensitive: tuple[str, ...] = ()
    control: tuple[str, ...] = ()
    scores: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    prediction: str = ""
    weight: str | None = None
    missing: str = "error"
    families: str = "crossed"
    bound: str = "range"
    parameters: tuple[tuple[str, Any], ...] = ()
    epsilon: float = 0.0
    normalize: bool = False
    form: Form = field(default="soft", compare=False)
    kind: str = field(default="csv", compare=False)

    @classmethod
    def of(
        cls, asked: dict[str, Any], table: FileSource, tasks: Sequence[str] = ("labels",)
    ) -> Choice:
        """Read what a request for one of some tasks says.

        Raises
        ------
        ParameterError
            Names the control that has to be set, or is set to something that cannot be.
        """
        words: dict[str, Sequence[str]] = {"task": tasks, "form": get_args(Form), "kind": KINDS}
        words |= {name: WORDS[name] for name in ("missing", "families", "bound")}
        chosen: dict[str, Any] = {name: asked.get(name, words[name][0]) for name in words}
        for name, value in chosen.items():
            one_of(name, value, words[name])
        names = (*_PARTS[chosen["task"]], "weight")
        parts: dict[str, Any] = {name: _columns(asked, name) for name in names}
        for name in names:
            if not parts[name] and name in _MISSED:
                raise ParameterError(_MISSED[name][0], remedy=_MISSED[name][1], control=name)
        if len(parts.get("scores", "12")) == 1:
            problem = "One column of probabilities is chosen."
            raise ParameterError(problem, remedy="Choose one for every class.", control="scores")
        _refuse_columns(table, parts)
        bound, needed = BOUNDS[chosen["bound"]], NEEDED.get(chosen["bound"], {}).items()
        given = {name: _parameter(asked, name, help) for name, help in needed}
        parts |= {name: next(iter(parts[name]), None) for name in _SINGLE if name in parts}
        return cls(
            **chosen,
            **parts,
            parameters=(*bound.defaults.items(), *given.items()),
            epsilon=_epsilon(asked.get("epsilon", 0.0), bound.largest),
            normalize=asked.get("normalize") is True,
        )

    @property
    def data(self) -> tuple[Any, ...]:
        """What decides how the table is read: choices that agree here share their data."""
        return self.label, self.sensitive, self.control, self.weight, self.missing

    @property
    def asked(self) -> tuple[Any, ...]:
        """What is asked of the groups, apart from epsilon."""
        return *self.data, self.families, self.bound, self.parameters

    def columns(self) -> dict[str, Any]:
        """Return what the columns beside the label are, as :meth:`r2b.Scan.debias` takes them."""
        columns = {
            "sensitive_features": list(self.sensitive),
            "control_features": list(self.control),
            "sample_weight": self.weight,
        }
        return {name: value for name, value in columns.items() if value}

    def options(self) -> dict[str, Any]:
        """Return the options of :func:`r2b.debias`, those at their defaults left out."""
        names = ("bound", "families", "missing", "normalize")
        asked = [name for name in names if getattr(self, name) != getattr(Choice, name)]
        other = {name: getattr(self, name) for name in asked}
        if self.task == "decisions":
            other["objective"] = "agreement"
        return {"epsilon": self.epsilon, **other, **dict(self.parameters)}


def _parameter(asked: dict[str, Any], name: str, help: str) -> str:
    value = asked.get(name)
    if not isinstance(value, str) or not value:
        raise ParameterError(f"The {name} is missing.", remedy=f"Name {help}", control=name)
    return value


def _refuse_columns(table: FileSource, parts: dict[str, tuple[str, ...]]) -> None:
    """Refuse columns that are not there, or play two parts; a weight may play another."""
    seen: set[str] = set()
    for part, names in parts.items():
        try:
            table.check([(part, names)])
        except ParameterError as error:
            raise error.changed(control=part) from None
        for name in seen.intersection(names) if part != "weight" else ():
            problem, remedy = f"The column {name!r} is chosen twice.", "Give every column one part."
            raise ParameterError(problem, remedy=remedy, control=part, column=name)
        seen |= {*names}


def _columns(asked: dict[str, Any], name: str) -> tuple[str, ...]:
    value = asked.get(name) or []
    names = [value] if isinstance(value, str) else value
    texts = isinstance(names, list) and all(isinstance(each, str) for each in names)
    if not texts or (len(names) > 1 and name in _SINGLE):
        raise ParameterError(f"{name} names no columns.", remedy="Choose columns.", control=name)
    return tuple(names)


def _epsilon(value: Any, largest: float) -> float:
    if not is_a(Real, value) or not 0 <= value < math.inf:
        shown = "empty" if value is None else repr(value)
        raise ParameterError(
            f"Epsilon is {shown}.",
            remedy="It is a number from 0 (no difference at all) upwards.",
            control="epsilon",
        )
    refuse_percentages("epsilon", value, largest, control="epsilon")
    return float(value)
