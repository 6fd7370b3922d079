"""What is chosen on the page: which columns play which part, and what is asked of the groups."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any

from r2b._constraints.bounds import BOUNDS
from r2b._constraints.epsilon import refuse_percentages
from r2b._constraints.families.request import is_a
from r2b._labels.debiasing import CHOICES
from r2b.engines.files import FileSource
from r2b.errors import ParameterError


@dataclass(frozen=True)
class PageChoice:
    """Everything that a request says; the server keeps none of it.

    Attributes
    ----------
    label : str
    sensitive, control : tuple of str
    weight : str or None
    missing : {"error", "group", "exclude"}
    families : {"crossed", "marginal", "both"}
    bound : {"range", "to_overall", "ratio", "target"}
    epsilon : float
    """

    label: str
    sensitive: tuple[str, ...]
    control: tuple[str, ...] = ()
    weight: str | None = None
    missing: str = "error"
    families: str = "crossed"
    bound: str = "range"
    epsilon: float = 0.0

    @classmethod
    def of(cls, asked: dict[str, Any], table: FileSource) -> PageChoice:
        """Read what a request says.

        Raises
        ------
        ParameterError
            Names the control that has to be set, or is set to something that cannot be.
        """
        found = cls(
            label=_text(asked, "label") or "",
            sensitive=_texts(asked, "sensitive"),
            control=_texts(asked, "control"),
            weight=_text(asked, "weight") or None,
            **{
                name: _one_of(asked, name, CHOICES[name])
                for name in ("missing", "families", "bound")
            },
            epsilon=_epsilon(asked.get("epsilon", 0.0)),
        )
        found._check(table)
        return found

    def _check(self, table: FileSource) -> None:
        if not self.label:
            raise ParameterError(
                "No label is chosen.",
                remedy="Choose the column whose values should be fair.",
                control="label",
            )
        if not self.sensitive:
            raise ParameterError(
                "No sensitive column is chosen.", remedy="Choose at least one.", control="sensitive"
            )
        refuse_percentages("epsilon", self.epsilon, BOUNDS[self.bound].largest, control="epsilon")
        parts = {"label": (self.label,), "sensitive": self.sensitive, "control": self.control}
        _refuse_columns(table, {**parts, "weight": () if self.weight is None else (self.weight,)})

    @property
    def columns(self) -> tuple[Any, ...]:
        """What decides how the table is read: choices that agree here share their data."""
        return self.label, self.sensitive, self.control, self.weight, self.missing

    def arguments(self, table: FileSource) -> dict[str, Any]:
        """Return the columns as :func:`r2b.debias` takes them."""
        found = table.columns([self.label, *self.sensitive, *self.control])
        arguments: dict[str, Any] = {
            "y": found[self.label],
            "sensitive_features": {name: found[name] for name in self.sensitive},
        }
        if self.control:
            arguments["control_features"] = {name: found[name] for name in self.control}
        if self.weight is not None:
            arguments["sample_weight"] = table.with_numbers([self.weight]).columns([self.weight])[
                self.weight
            ]
        return arguments

    def options(self) -> dict[str, Any]:
        """Return the other options of :func:`r2b.debias`, those at their defaults left out."""
        default = {each.name: each.default for each in fields(PageChoice)}
        chosen = {name: getattr(self, name) for name in ("epsilon", "bound", "families", "missing")}
        options = {
            name: value
            for name, value in chosen.items()
            if name == "epsilon" or value != default[name]
        }
        return options | dict(BOUNDS[self.bound].defaults)


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


@dataclass(frozen=True)
class TaskChoice:
    """What is asked of a table beside fair labels.

    Attributes
    ----------
    task : {"decisions", "training", "predictions"}
    label, prediction : str
    scores, sensitive, features : tuple of str
    weight : str or None
    missing : {"error", "group", "exclude"}
    epsilon : float
    normalize : bool
        Divide rows of probabilities by their sums.
    """

    task: str
    label: str
    prediction: str
    scores: tuple[str, ...]
    sensitive: tuple[str, ...]
    features: tuple[str, ...]
    weight: str | None = None
    missing: str = "error"
    epsilon: float = 0.0
    normalize: bool = False

    @classmethod
    def of(cls, asked: dict[str, Any], table: FileSource) -> TaskChoice:
        """Read what a request says.

        Raises
        ------
        ParameterError
            Names the control that has to be set, or is set to something that cannot be.
        """
        found = cls(
            task=_one_of(asked, "task", tuple(TASKS)[1:]),
            label=_text(asked, "label") or "",
            prediction=_text(asked, "prediction") or "",
            scores=_texts(asked, "scores"),
            sensitive=_texts(asked, "sensitive"),
            features=_texts(asked, "features"),
            weight=_text(asked, "weight") or None,
            missing=_one_of(asked, "missing", CHOICES["missing"]),
            epsilon=_epsilon(asked.get("epsilon", 0.0)),
            normalize=asked.get("normalize") is True,
        )
        found._check(table)
        return found

    def _check(self, table: FileSource) -> None:
        refuse_percentages("epsilon", self.epsilon, BOUNDS["range"].largest, control="epsilon")
        parts = {
            "sensitive": self.sensitive,
            "weight": () if self.weight is None else (self.weight,),
        }
        for name in _NEEDED[self.task]:
            given = getattr(self, name)
            parts[name] = (given,) if isinstance(given, str) and given else tuple(given)
            if not parts[name]:
                raise ParameterError(_MISSED[name][0], remedy=_MISSED[name][1], control=name)
        if not self.sensitive:
            raise ParameterError(
                "No sensitive column is chosen.", remedy="Choose at least one.", control="sensitive"
            )
        if self.task == "decisions" and len(self.scores) < 2:
            raise ParameterError(
                "One column of probabilities is chosen.",
                remedy="Choose one for every class.",
                control="scores",
            )
        _refuse_columns(table, parts)


_NEEDED = {
    "decisions": ("scores",),
    "training": ("label", "features"),
    "predictions": ("label", "prediction"),
}
_MISSED = {
    "scores": ("No column of probabilities is chosen.", "Choose one for every class."),
    "label": ("No label is chosen.", "Choose the column that holds it."),
    "features": (
        "No column that the model sees is chosen.",
        "Choose those that it will be trained with.",
    ),
    "prediction": (
        "No prediction is chosen.",
        "Choose the column that holds what the model predicted.",
    ),
}


def _refuse_columns(table: FileSource, parts: dict[str, tuple[str, ...]]) -> None:
    """Refuse columns that are not there, or play two parts; a weight may play another."""
    for part, names in parts.items():
        try:
            table.check(names, part)
        except ParameterError as error:
            raise error.changed(control=part) from None
    chosen = [(name, part) for part, names in parts.items() if part != "weight" for name in names]
    for place, (name, part) in enumerate(chosen):
        if name in dict(chosen[:place]):
            remedy = "Give every column one part."
            raise ParameterError(
                f"The column {name!r} is chosen twice.", remedy=remedy, control=part, column=name
            )


def _text(asked: dict[str, Any], name: str) -> str | None:
    value = asked.get(name)
    if value is not None and not isinstance(value, str):
        raise ParameterError(f"{name} is not a name.", remedy="Choose a column.", control=name)
    return value


def _texts(asked: dict[str, Any], name: str) -> tuple[str, ...]:
    value = asked.get(name) or []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ParameterError(
            f"{name} is not a list of names.", remedy="Choose columns.", control=name
        )
    return tuple(value)


def _one_of(asked: dict[str, Any], name: str, options: tuple[str, ...]) -> str:
    value = asked.get(name, options[0])
    if value not in options:
        raise ParameterError(
            f"{name} is {value!r}.", remedy=f"Choose one of {', '.join(options)}.", control=name
        )
    return str(value)


def _epsilon(value: Any) -> float:
    if not is_a(Real, value) or not 0 <= value < math.inf:
        shown = "empty" if value is None else repr(value)
        raise ParameterError(
            f"Epsilon is {shown}.",
            remedy="It is a number from 0 (no difference at all) upwards.",
            control="epsilon",
        )
    return float(value)
