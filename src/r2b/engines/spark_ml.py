"""Fair labels as stages of Spark ML: an estimator finds prices, its model applies them.

Import it where Spark is: ``from r2b.engines.spark_ml import LabelDebiaser``.
"""

from __future__ import annotations

import json
from typing import Any, Self, cast

from pyspark.ml import Estimator, Model
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasLabelCol, HasSeed, HasWeightCol
from pyspark.ml.util import DefaultParamsReadable, DefaultParamsWritable

from r2b._files.text import did_you_mean
from r2b._labels import FairLabels
from r2b._labels.debiasing import refuse_unknown
from r2b._labels.storage import solution_of
from r2b.engines.tables import scan
from r2b.errors import ParameterError

_WITHOUT = ("epsilon",)


_DEFAULTS: dict[str, Any] = {"labelCol": "label", "controlCols": [], "keyCols": [], "weightCol": ""}
_DEFAULTS |= {"form": "soft", "seed": 0, "unseen": "error"}


def _param(name: str, meaning: str, *kind: Any) -> Any:
    return Param(Params._dummy(), name, meaning, *kind)


_LIST, _TEXT = TypeConverters.toListString, TypeConverters.toString


class _Columns(HasLabelCol, HasWeightCol, HasSeed):
    """The parameters that the estimator and its model share."""

    sensitiveCols = _param("sensitiveCols", "columns of sensitive attributes", _LIST)
    controlCols = _param("controlCols", "columns within whose values parity is asked for", _LIST)
    keyCols = _param("keyCols", "columns that identify rows, for round and sample", _LIST)
    form = _param("form", "the form of the labels: soft, round, sample or expand", _TEXT)
    outputCol = _param("outputCol", "the new column, or what new names begin with", _TEXT)
    unseen = _param("unseen", "for classes and groups not fitted: error, or overall", _TEXT)

    def _asked(self, name: str) -> Any:
        param = self.getParam(name)
        return (self.getOrDefault(param) or None) if self.isDefined(param) else None

    def _roles(self) -> dict[str, Any]:
        columns = {
            "sensitive_features": "sensitiveCols",
            "control_features": "controlCols",
            "sample_weight": "weightCol",
        }
        return {argument: self._asked(name) for argument, name in columns.items()}


def _set(stage: Any, given: dict[str, Any]) -> Any:
    """Set parameters of a stage; one that it does not have is refused."""
    known = [param.name for param in stage.params]
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None:
        raise ParameterError(
            f"{type(stage).__name__} has no parameter {unknown!r}.",
            remedy=did_you_mean(unknown, known) or f"Choose among {', '.join(known)}.",
            parameter=unknown,
        )
    return stage._set(**given)


class LabelDebiaser(
    Estimator["LabelDebiaserModel"],
    _Columns,
    DefaultParamsReadable["LabelDebiaser"],
    DefaultParamsWritable,
):
    """Find the closest labels in parity, as an estimator of Spark ML.

    Parameters
    ----------
    labelCol : str
        Classes, or lists of probabilities.
    sensitiveCols, controlCols : list of str
        Names of the columns.
    weightCol : str, optional
        Name of the column of weights.
    epsilon : float, list or dict
        As for :func:`r2b.debias`.
    form : {"soft", "round", "sample", "expand"}
        The form in which the model returns labels, as for :meth:`r2b.FairLabels.frame`.
    keyCols : list of str, optional
        Columns that identify rows, for "round" and "sample".
    outputCol : str, optional
        Name of the new column, or what new names begin with; "<label>_fair" by default.
    seed : int
        For "round" and "sample".
    unseen : {"error", "overall"}
        What the model does with classes and groups that were not fitted, as for
        :meth:`r2b.Scan.transform`.
    options : dict, optional
        Further options of :func:`r2b.debias`, such as ``{"families": "marginal"}``, as JSON can
        hold them.
    """

    epsilon = _param("epsilon", "how far from equal is accepted")
    options = _param("options", "further options of r2b.debias")

    def __init__(self, **given: Any) -> None:
        super().__init__()
        self._setDefault(**_DEFAULTS, epsilon=0.0, options={})
        self.setParams(**given)

    def setParams(self, **given: Any) -> Self:
        """Set parameters by name."""
        refuse_unknown(given.get("options") or {}, _WITHOUT)
        return cast(Self, _set(self, given))

    def _fit(self, dataset: Any) -> LabelDebiaserModel:
        label, roles = self.getOrDefault("labelCol"), self._roles()
        fair = scan(dataset).debias(
            label, **roles, epsilon=self.getOrDefault("epsilon"), **self.getOrDefault("options")
        )
        return self._copyValues(LabelDebiaserModel(fair))


class LabelDebiaserModel(
    Model, _Columns, DefaultParamsReadable["LabelDebiaserModel"], DefaultParamsWritable
):
    """Prices, to be applied to the rows of a frame: the model of :class:`LabelDebiaser`.

    Parameters
    ----------
    fair : FairLabels
        From any engine: prices that were found elsewhere make a stage of a pipeline too.
    """

    prices = _param("prices", "prices and evidence, as FairLabels.save writes them", _TEXT)

    def __init__(self, fair: FairLabels | None = None) -> None:
        super().__init__()
        self._setDefault(**_DEFAULTS)
        if fair is not None:
            self._set(prices=json.dumps(fair.to_json(), allow_nan=False))

    def setParams(self, **given: Any) -> Self:
        """Set parameters by name: columns, form, key, seed."""
        return cast(Self, _set(self, given))

    @property
    def fair(self) -> FairLabels:
        """Prices, status and certificate of the rows that were fitted."""
        return solution_of(json.loads(self.getOrDefault("prices")), "the model")

    def _transform(self, dataset: Any) -> Any:
        """Return the frame with fair labels; unchanged where it has no label, for prediction."""
        label = self.getOrDefault("labelCol")
        if label not in dataset.columns:
            return dataset
        found = scan(dataset).transform(
            self.fair, label, **self._roles(), unseen=self.getOrDefault("unseen")
        )
        asked = {
            "random_state": self.getOrDefault("seed"),
            "key": self._asked("keyCols"),
            "new_column": self._asked("outputCol"),
        }
        return found.frame(self.getOrDefault("form"), **asked)
