"""Two pandas arguments of one call have the same index in the same order, or the call is refused:
wherever rows meet.
"""

import numpy as np
import pandas as pd
import pytest

import r2b
from r2b.errors import RowLabelError
from r2b.metrics import (
    demographic_parity_difference,
    disparity_interval,
    error_parity,
    group_means,
    top_k_accuracy,
    tv_accuracy,
)
from r2b.metrics.chance import sampling_level
from r2b.metrics.explained import explained_variation
from r2b.metrics.theory import generalization_bound
from r2b.sklearn import LabelDebiaser

N = 60
RNG = np.random.default_rng(3)
Y = pd.Series(RNG.choice(["no", "yes"], N), name="y")
SEX = pd.Series(np.where(RNG.random(N) < 0.5, "f", "m"), name="sex")
RACE = pd.Series(np.where(RNG.random(N) < 0.5, "a", "b"), name="race")
AGE = pd.Series(RNG.integers(18, 80, N).astype(float), name="age")
WEIGHT = pd.Series(RNG.random(N) + 0.5, name="weight")
X = pd.DataFrame({"x": RNG.random(N), "z": RNG.random(N)})
P = RNG.dirichlet([1, 1], N)
SCORES = pd.DataFrame({"no": P[:, 0], "yes": P[:, 1]})


def shifted(given):
    """The same values under labels that overlap with 0 to N-1 in part: where going by position
    goes unnoticed.
    """
    return given.set_axis(np.arange(1, N + 1))


def reordered(given):
    return given.iloc[::-1]


def renamed(given):
    return given.set_axis([f"r{i}" for i in range(N)])


OTHERS = [shifted, reordered, renamed]


def _fair(y=None):
    return r2b.debias(Y if y is None else y, sensitive_features=SEX, epsilon=0.01)


def _classifier(method):
    from sklearn.naive_bayes import GaussianNB

    from r2b.sklearn import ParityClassifier

    model = ParityClassifier(GaussianNB(), epsilon=0.01, groups="given", decisions="likeliest")
    if method == "fit":
        return lambda other: model.fit(other(X), Y.to_numpy(), sensitive_features=SEX)
    if method == "partial_fit":
        return lambda other: model.partial_fit(X, Y.to_numpy(), sensitive_features=other(SEX))
    fitted = model.fit(X.to_numpy(), Y, sensitive_features=SEX)
    return lambda other: fitted.parity_report(X.to_numpy(), sensitive_features=SEX, y=other(Y))


def _imblearn(other):
    pytest.importorskip("imblearn")
    from r2b.models.imblearn import FairRelabeler

    return FairRelabeler().fit_resample(other(X), Y.to_numpy(), sensitive_features=SEX)


def _torch(other):
    pytest.importorskip("torch")
    from r2b.models.torch import SoftLabelDataset

    return SoftLabelDataset(other(X), _fair(Y.to_numpy()))


def _lightgbm(other):
    pytest.importorskip("lightgbm")
    from r2b.models.boosting import train_lightgbm

    return train_lightgbm(_fair(), other(X), num_boost_round=1)


def _device(other):
    pytest.importorskip("torch")
    from r2b.engines.torch import debias

    return debias(P, sensitive_features=SEX, sample_weight=other(WEIGHT))


CALLS = {
    "debias, attribute": lambda other: r2b.debias(Y, sensitive_features=other(SEX)),
    "debias, second attribute": lambda other: r2b.debias(
        Y.to_numpy(), sensitive_features={"a": SEX.tolist(), "b": SEX, "c": other(RACE)}
    ),
    "debias, control": lambda other: r2b.debias(
        Y.to_numpy(), sensitive_features=SEX, control_features=other(RACE)
    ),
    "debias, weight": lambda other: r2b.debias(
        Y.to_numpy(), sensitive_features=SEX, sample_weight=other(WEIGHT)
    ),
    "debias, continuous": lambda other: r2b.debias(
        Y, sensitive_features={"age": r2b.Continuous(other(AGE))}
    ),
    "debias, membership": lambda other: r2b.debias(
        Y, sensitive_features={"sex": r2b.Membership(other(SCORES))}
    ),
    "debias, columns of y": lambda other: r2b.debias(
        {"no": SCORES["no"], "yes": other(SCORES["yes"])}, sensitive_features=SEX.to_numpy()
    ),
    "debias, y as columns": lambda other: r2b.debias(dict(SCORES), sensitive_features=other(SEX)),
    "transform": lambda other: _fair().transform(Y, sensitive_features=other(SEX)),
    "transform, weight": lambda other: _fair().transform(
        Y.to_numpy(), sensitive_features=SEX, sample_weight=other(WEIGHT), form="expand"
    ),
    "expand": lambda other: _fair().expand(other(X)),
    "expand, y without an index": lambda other: _fair(Y.to_numpy()).expand(other(X)),
    "sample by key": lambda other: _fair().sample(key=other(pd.Series(range(N)))),
    "demographic_parity": lambda other: demographic_parity_difference(
        Y, sensitive_features=other(SEX)
    ),
    "group_means": lambda other: group_means(
        SCORES, sensitive_features=SEX.to_numpy(), sample_weight=other(WEIGHT)
    ),
    "sampling_level": lambda other: sampling_level(Y, sensitive_features=other(SEX)),
    "disparity_interval": lambda other: disparity_interval(Y, sensitive_features=other(SEX)),
    "audit": lambda other: r2b.audit(Y, sensitive_features=other(SEX), n_permutations=0, n_boot=0),
    "frontier": lambda other: r2b.frontier(Y, sensitive_features=other(SEX)),
    "smallest_epsilon": lambda other: r2b.smallest_epsilon(
        Y, sensitive_features=other(SEX), changes=0.1
    ),
    "compare": lambda other: r2b.compare(
        Y, sensitive_features=SEX, choices={"a": {"control_features": other(RACE)}}
    ),
    "explained_variation": lambda other: explained_variation(
        Y.to_numpy(), AGE, sample_weight=other(WEIGHT)
    ),
    "top_k_accuracy": lambda other: top_k_accuracy(Y, other(SCORES)),
    "tv_accuracy, weight": lambda other: tv_accuracy(
        Y.to_numpy(), SCORES, sample_weight=other(WEIGHT)
    ),
    "error_parity of a score": lambda other: error_parity(
        tv_accuracy(Y, SCORES), sensitive_features=other(SEX)
    ),
    "error_parity, weight": lambda other: error_parity(
        P[:, 0], sensitive_features=SEX, sample_weight=other(WEIGHT)
    ),
    "generalization_bound": lambda other: generalization_bound(
        Y, other(SCORES), sensitive_features=SEX.to_numpy(), complexity=0.0
    ),
    "methods": lambda other: r2b.methods.OST().fit(Y, sensitive_features=other(SEX)),
    "reweighing": lambda other: r2b.methods.Reweighing().fit(Y, sensitive_features=other(SEX)),
    "remover": lambda other: r2b.methods.DPRemover().fit(
        X.to_numpy(), sensitive_features=SEX, sample_weight=other(WEIGHT)
    ),
    "RTO": lambda other: r2b.methods.RTO().fit(SCORES["yes"], sensitive_features=other(SEX)),
    "R2B": lambda other: LabelDebiaser().fit(Y, sensitive_features=other(SEX)),
    "classifier": lambda other: _classifier("fit")(other),
    "classifier, batch": lambda other: _classifier("partial_fit")(other),
    "parity_report": lambda other: _classifier("report")(other),
    "imbalanced-learn": _imblearn,
    "torch": _torch,
    "lightgbm": _lightgbm,
    "device": _device,
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("call", CALLS)
def test_another_index_is_refused(call, other):
    with pytest.raises(RowLabelError, match=r"row label.*to_numpy\(\)"):
        CALLS[call](other)


@pytest.mark.parametrize("call", [call for call in CALLS if call not in ("lightgbm", "torch")])
def test_one_index_is_accepted_whatever_it_is(call):
    assert CALLS[call](lambda given: given) is not None


def test_the_remedy_fits_what_was_found():
    with pytest.raises(
        RowLabelError,
        match=r"different order; at row 0 they are 0 and 59.*sensitive_features\.loc\[y\.index\]",
    ) as caught:
        r2b.debias(Y, sensitive_features=reordered(SEX))
    assert caught.value.facts["row_labels"] == (0, 59)
    assert caught.value.facts["arguments"] == (
        "y",
        "sensitive_features",
    )
    fair = r2b.debias(Y, sensitive_features=reordered(SEX).loc[Y.index])
    np.testing.assert_array_equal(fair.soft_labels, _fair_at_zero().soft_labels)
    with pytest.raises(
        RowLabelError, match=r"no row label in common.*sensitive_features\.index = y\.index"
    ):
        r2b.debias(Y, sensitive_features=renamed(SEX))
    twice = [0] * N
    with pytest.raises(RowLabelError, match="occur twice"):
        r2b.debias(Y, sensitive_features=SEX.set_axis(twice))


def _fair_at_zero():
    return r2b.debias(Y, sensitive_features=SEX)


def test_expand_keeps_features_and_labels_together():
    fair = _fair()
    features, labels, _ = fair.expand(X)
    assert features.index.equals(labels.index)
    with pytest.raises(RowLabelError, match=r"y. and .X. .*X = X\.loc\[y\.index\]"):
        fair.expand(reordered(X))
    again, _, _ = fair.expand(reordered(X).loc[Y.index])
    pd.testing.assert_frame_equal(again, features)


@pytest.mark.parametrize(
    "bare",
    [SEX.to_numpy(), SEX.tolist(), SEX.array, pd.Index(SEX), pd.Categorical(SEX)],
    ids=["numpy", "list", "array", "index", "categorical"],
)
def test_what_has_no_index_goes_by_position(bare):
    fair = r2b.debias(renamed(Y), sensitive_features=bare, sample_weight=renamed(WEIGHT))
    assert fair.round().index.equals(renamed(Y).index)
