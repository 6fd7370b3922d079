"""The options of a debiasing are defined once, and every function and class that takes them shows
them with the same defaults.
"""

from __future__ import annotations

import inspect
from functools import reduce

import numpy as np
import pytest

pytest.importorskip("imblearn")
import r2b
from r2b._labels.debiasing import DEFAULTS
from r2b.engines import Block, debias_blocks
from r2b.engines.tables import Scan
from r2b.errors import ParameterError
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
