"""The options of a debiasing are defined once, and every function and class that takes them shows them with the same defaults."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, fields
from functools import reduce

import numpy as np
import pytest

pytest.importorskip("imblearn")
import r2b
from r2b._constraints.families import Request
from r2b._labels.debiasing import CHOICES, DEFAULTS, Options, Settings
from r2b.engines import Block, debias_blocks
from r2b.engines.tables import Scan
from r2b.errors import ParameterError
from r2b.methods import HTO, OST, R2B0, RTO, DPRemover, Exact
from r2b.methods import R2B as Rounds
from r2b.models.imblearn import FairRelabeler
from r2b.sklearn import LabelDebiaser, ParityClassifier

Y, GROUPS = ["a", "b", "b", "a", "a", "b"], ["f", "f", "m", "m", "f", "m"]


class TwoBlocks:
    blocks = (
        Block(np.array([[0.7, 0.3]]), np.array([0])),
        Block(np.array([[0.2, 0.8]]), np.array([1])),
    )

    def reduce(self, task):
        return reduce(task.merge, map(task.make, self.blocks))


def on_device(**options):
    torch = pytest.importorskip("torch")
    from r2b.engines.torch import debias

    return debias(
        torch.tensor([0, 1, 1, 0]), sensitive_features=torch.tensor([0, 0, 1, 1]), **options
    )


def signature_of(name):
    if name == "device":
        pytest.importorskip("torch")
        from r2b.engines.torch import debias

        return inspect.signature(debias)
    return inspect.signature(TAKERS[name][0])


def scanned(**options):
    pyarrow = pytest.importorskip("pyarrow")
    return r2b.scan(pyarrow.table({"y": Y, "s": GROUPS})).debias(
        "y", sensitive_features="s", **options
    )


# Who takes the options, how it is called with them, and which of them it does not take.
TAKERS = {
    "debias": (
        r2b.debias,
        lambda **options: r2b.debias(Y, sensitive_features=GROUPS, **options),
        (),
    ),
    "scan": (Scan.debias, scanned, ()),
    "device": (None, on_device, ("threads",)),
    "blocks": (
        debias_blocks,
        lambda **options: debias_blocks(
            TwoBlocks(), classes=2, sensitive_features=["f", "m"], **options
        ),
        ("objective", "costs", "normalize", "threads"),
    ),
    "LabelDebiaser": (LabelDebiaser, LabelDebiaser, ("progress",)),
    "ParityClassifier": (
        ParityClassifier,
        lambda **options: ParityClassifier(None, **options),
        ("progress",),
    ),
    "FairRelabeler": (FairRelabeler, FairRelabeler, ("progress",)),
}
FITS = [
    LabelDebiaser.fit,
    LabelDebiaser.fit_transform,
    LabelDebiaser.transform,
    ParityClassifier.fit,
    ParityClassifier.partial_fit,
    FairRelabeler.fit_resample,
]


def test_types_defaults_and_words_are_those_of_what_the_options_are_read_into():
    types = {each.name: each.type for kind in (Request, Settings) for each in fields(kind)}
    kept = {
        each.name: each.default
        for kind in (Request, Settings)
        for each in fields(kind)
        if each.default is not MISSING
    }
    assert (
        set(DEFAULTS) == set(Options.__annotations__) == {*types, "costs", "normalize"} - {"names"}
    )
    assert all(DEFAULTS[name] == kept[name] for name in DEFAULTS if name in kept)
    assert {
        name: note.__forward_arg__
        for name, note in Options.__annotations__.items()
        if name in types
    } == {name: note for name, note in types.items() if name != "names"}
    assert all(DEFAULTS[name] in words for name, words in CHOICES.items())


@pytest.mark.parametrize("name", TAKERS)
def test_every_option_is_in_the_signature_with_its_default(name):
    parameters, without = signature_of(name).parameters, TAKERS[name][2]
    assert {option for option in DEFAULTS if option in parameters} == set(DEFAULTS) - set(without)
    assert all(
        parameters[option].default == default
        for option, default in DEFAULTS.items()
        if option in parameters
    )
    assert "options" not in parameters


@pytest.mark.parametrize("name", TAKERS)
def test_every_option_is_documented_where_it_is_taken(name):
    taker = on_device if name == "device" else TAKERS[name][0]
    if name == "device":
        pytest.importorskip("torch")
        from r2b.engines.torch import debias as taker
    text = inspect.getdoc(taker)
    assert "**options" not in text
    assert all(f"\n{option} : " in text for option in DEFAULTS if option not in TAKERS[name][2])


@pytest.mark.parametrize("name", TAKERS)
def test_an_option_that_does_not_exist_is_refused_with_the_closest(name):
    with pytest.raises(
        ParameterError,
        match=r"'epsilom' is not an option of debias\. Did you mean 'epsilon'\? Choose among ",
    ):
        TAKERS[name][1](epsilom=0.1)


@pytest.mark.parametrize(
    ("name", "option"), [(name, option) for name in TAKERS for option in TAKERS[name][2]]
)
def test_an_option_that_is_not_taken_is_refused(name, option):
    with pytest.raises(ParameterError, match=f"'{option}' cannot be chosen here"):
        TAKERS[name][1](**{option: DEFAULTS[option]})


@pytest.mark.parametrize("estimator", [LabelDebiaser, FairRelabeler])
def test_epsilon_may_be_passed_without_its_name(estimator):
    assert estimator(0.25).epsilon == 0.25


@pytest.mark.parametrize("estimator", [LabelDebiaser(), ParityClassifier(None), FairRelabeler()])
def test_an_estimator_has_every_option_as_a_parameter(estimator):
    taken = estimator.get_params(deep=False)
    without = TAKERS[type(estimator).__name__][2]
    assert {name: taken[name] for name in DEFAULTS if name not in without} == {
        n: d for n, d in DEFAULTS.items() if n not in without
    }


@pytest.mark.parametrize("method", [Exact, Rounds, R2B0, HTO, OST, RTO])
def test_the_methods_take_epsilon_first_and_all_else_by_name(method):
    parameters = list(inspect.signature(method).parameters.values())
    assert parameters[0].name == "epsilon"
    assert parameters[0].default == DEFAULTS["epsilon"]
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in parameters[1:])


@pytest.mark.parametrize(
    "method", [Rounds, RTO, DPRemover, LabelDebiaser, ParityClassifier, FairRelabeler]
)
def test_every_random_state_starts_at_the_same_number(method):
    assert inspect.signature(method).parameters["random_state"].default == 0


@pytest.mark.parametrize("method", FITS)
def test_arguments_that_speak_of_rows_are_the_same_in_every_fit(method):
    here = inspect.signature(method).parameters
    # sensitive_features is not optional, but its absence is answered by an error that says how a
    # pipeline hands it on.
    assert all(
        here[name].default is None
        for name in ("sensitive_features", "control_features", "sample_weight")
    )
    assert "y" in here
