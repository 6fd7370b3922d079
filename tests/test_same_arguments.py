"""Arguments that are written out in several places: one name, one default, one order, or a reason why not."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, fields

import pytest

pytest.importorskip("imblearn")
import r2b
from r2b._constraints.families import Request
from r2b._labels.task import Settings
from r2b.engines import debias_blocks
from r2b.engines.tables import Scan
from r2b.methods import HTO, OST, R2B0, RTO, DPRemover, Exact
from r2b.methods import R2B as Rounds
from r2b.models.imblearn import FairRelabeler
from r2b.sklearn import LabelDebiaser, ParityClassifier
from r2b.sklearn.options import DATA, RUN_TIME

ROWS = dict.fromkeys(DATA, "speaks of rows, and is an argument of fit")
RUN = dict.fromkeys(RUN_TIME, "a callback neither clones nor pickles")
OWN_WAYS = "the device walks rows in its own way"
IN_BLOCKS = "rows are in blocks, which hold it"

# What each place lacks of the arguments of ``debias``, and what it has beside them; each with the reason.
PLACES = {
    "device": (
        {"merge_rows": OWN_WAYS, "threads": OWN_WAYS},
        {"device": "which one computes", "batch_rows": "labels on the host come in batches"},
    ),
    "scan": (
        {"y": "a table has columns: label names them", "merge_rows": "classes are counted, probabilities are not merged"},
        {"self": "", "label": "the column of y", "sample_entries": "how much of the table is brought home"},
    ),
    "blocks": (
        dict.fromkeys(["y", "sample_weight", "normalize", "merge_rows", "kernel", "threads"], IN_BLOCKS)
        | dict.fromkeys(["objective", "costs"], "for class labels, which are not in blocks"),
        {"blocks": "the rows", "classes": "their names", "sample_entries": "how much is brought home"},
    ),
    "R2B": (ROWS | RUN, {"output": "the form that labels leave in", "random_state": "draws them"}),
    "ParityClassifier": (
        ROWS | RUN,
        {"estimator": "the learner", "strategy": "how it sees fair labels", "random_state": "draws them"},
    ),
    "FairRelabeler": (ROWS | RUN, {"random_state": "draws labels"}),
}


def place(name):
    if name == "device":
        pytest.importorskip("torch")
        from r2b.engines.torch import debias

        return debias
    return {
        "scan": Scan.debias,
        "blocks": debias_blocks,
        "LabelDebiaser": LabelDebiaser,
        "ParityClassifier": ParityClassifier,
        "FairRelabeler": FairRelabeler,
    }[name]


FITS = [
    LabelDebiaser.fit,
    LabelDebiaser.fit_transform,
    LabelDebiaser.transform,
    ParityClassifier.fit,
    ParityClassifier.partial_fit,
    FairRelabeler.fit_resample,
]


def arguments(function):
    return {name: p.default for name, p in inspect.signature(function).parameters.items()}


@pytest.mark.parametrize("name", PLACES)
def test_an_argument_of_debias_has_the_same_default_everywhere(name):
    usual, here = arguments(r2b.debias), arguments(place(name))
    # An estimator needs a default for what it must be given, so that it can say how a pipeline hands it on.
    shared = [argument for argument in here if argument in usual and argument != "sensitive_features"]
    assert {argument: here[argument] for argument in shared} == {argument: usual[argument] for argument in shared}
    assert len(shared) > 10


@pytest.mark.parametrize("name", PLACES)
def test_arguments_come_in_the_order_of_debias(name):
    usual, here = arguments(r2b.debias), arguments(place(name))
    assert [argument for argument in here if argument in usual] == [argument for argument in usual if argument in here]


@pytest.mark.parametrize("name", PLACES)
def test_what_a_place_lacks_and_what_it_adds_is_listed_with_a_reason(name):
    usual, here = arguments(r2b.debias), arguments(place(name))
    lacks, adds = PLACES[name]
    assert set(usual) - set(here) == set(lacks)
    assert set(here) - set(usual) == set(adds)


@pytest.mark.parametrize("name", ["R2B", "FairRelabeler"])
def test_epsilon_may_be_passed_without_its_name(name):
    assert place(name)(0.25).epsilon == 0.25


@pytest.mark.parametrize("method", [Exact, Rounds, R2B0, HTO, OST, RTO])
def test_the_methods_take_epsilon_first_and_all_else_by_name(method):
    parameters = list(inspect.signature(method).parameters.values())
    assert parameters[0].name == "epsilon"
    assert parameters[0].default == arguments(r2b.debias)["epsilon"]
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in parameters[1:])


@pytest.mark.parametrize("method", [Rounds, RTO, DPRemover, LabelDebiaser, ParityClassifier, FairRelabeler])
def test_every_random_state_starts_at_the_same_number(method):
    assert arguments(method)["random_state"] == 0


@pytest.mark.parametrize("settings", [Request, Settings])
def test_what_is_handed_inwards_has_the_same_defaults(settings):
    usual = arguments(r2b.debias)
    given = {field.name: field.default for field in fields(settings) if field.default is not MISSING and field.name in usual}
    assert given == {name: usual[name] for name in given}
    assert given


@pytest.mark.parametrize("method", FITS)
def test_arguments_that_speak_of_rows_are_the_same_in_every_fit(method):
    usual, here = arguments(r2b.debias), arguments(method)
    assert set(DATA) <= set(here)
    assert all(here[name] == usual[name] for name in ("control_features", "sample_weight"))
    # Not optional, but its absence is answered by an error that says how a pipeline hands it on.
    assert here["sensitive_features"] is None
