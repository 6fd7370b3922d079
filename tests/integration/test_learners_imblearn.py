"""Fair labels as a step of imbalanced-learn's pipeline, and predictions read by fairlearn's
MetricFrame.
"""

from __future__ import annotations

import numpy as np
import pytest
from learner_tables import injected_adult

from r2b.errors import InputError, ParameterError
from r2b.metrics import demographic_parity_difference

pytest.importorskip("imblearn")
import pytest
from imblearn.pipeline import make_pipeline
from imblearn.utils.estimator_checks import estimator_checks_generator
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import r2b
from r2b.models.imblearn import FairRelabeler


class Supplied(FairRelabeler):
    """The step with an attribute supplied, which has nothing to do with the classes: the checks
    call ``fit_resample(X, y)``.
    """

    def fit_resample(self, X, y, **_):
        rows = X.shape[0] if hasattr(X, "shape") else len(X)
        return super().fit_resample(X, y, sensitive_features=np.arange(rows) % 2)


NOT_MEANT = {
    "check_samplers_fit": (
        "no class is made larger or smaller, so that there is no sampling_strategy_"
    ),
    "check_samplers_multiclass_ova": (
        "a matrix is read as probabilities, and every row leaves with one class"
    ),
}


CHECKS = [check for _, check in estimator_checks_generator(Supplied())]


@pytest.mark.filterwarnings("ignore:A column-vector y")
@pytest.mark.parametrize("check", CHECKS, ids=[check.func.__name__ for check in CHECKS])
def test_the_step_passes_the_checks_of_imbalanced_learn(check, request):
    if check.func.__name__ in NOT_MEANT:
        request.applymarker(pytest.mark.xfail(reason=NOT_MEANT[check.func.__name__], strict=True))
    check(Supplied())


def forest():
    return RandomForestClassifier(30, min_samples_leaf=20, random_state=0)


def test_parity_on_held_out_rows_falls_to_a_tenth_in_a_pipeline(routing):
    seen, held_out = injected_adult()
    before = forest().fit(seen.X, seen.y).predict_proba(held_out.X)
    model = make_pipeline(StandardScaler(), FairRelabeler(groups="given"), forest()).fit(
        seen.X, seen.y, sensitive_features=seen.sex
    )
    after = model.predict_proba(held_out.X)
    baseline = demographic_parity_difference(before, sensitive_features=held_out.sex)
    assert baseline > 0.4
    assert demographic_parity_difference(after, sensitive_features=held_out.sex) < baseline / 10


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_a_frame_goes_through_as_the_object_it_is(kind):
    pytest.importorskip(kind)
    import narwhals as nw

    frame = nw.from_dict(
        {"x": [1, 2, 3, 4], "text": ["a", None, "c", "d"]}, backend=kind
    ).to_native()
    y = nw.from_dict({"y": ["a", "b", "b", "a"]}, backend=kind)["y"].to_native()
    X, new = FairRelabeler(groups="given").fit_resample(
        frame, y, sensitive_features=["f", "f", "m", "m"]
    )
    assert X is frame
    assert type(new) is type(y)


def test_the_label_column_keeps_its_row_labels():
    pd = pytest.importorskip("pandas")
    index = [7, 5, 3, 1]
    X, y = (
        pd.DataFrame({"x": range(4)}, index=index),
        pd.Series(["a", "a", "b", "b"], index=index, name="label"),
    )
    _, new = FairRelabeler(groups="given").fit_resample(
        X, y, sensitive_features=pd.Series(["f", "f", "m", "m"], index=index)
    )
    assert new.index.tolist() == index
    assert new.name == "label"
    assert y.tolist() == ["a", "a", "b", "b"]
    with pytest.raises(InputError, match=r"different order"):
        FairRelabeler().fit_resample(X.iloc[::-1], y, sensitive_features=["f", "f", "m", "m"])


def test_without_routing_the_error_says_how_to_turn_it_on():
    seen, _ = injected_adult()
    model = make_pipeline(FairRelabeler(), DecisionTreeClassifier(max_depth=2))
    with pytest.raises(ParameterError, match=r"enable_metadata_routing=True"):
        model.fit(seen.X, seen.y, fairrelabeler__sensitive_features=seen.sex)


pytest.importorskip("imblearn")


RNG = np.random.default_rng(4)
N_ROWS = 3000
SEX, AGE = RNG.choice(["f", "m"], N_ROWS), RNG.choice(["old", "young"], N_ROWS, p=[0.3, 0.7])
CHANCE = np.where(SEX == "m", 0.6, 0.3) + 0.2 * (AGE == "old")
LABELS = np.where(RNG.random(N_ROWS) < CHANCE, "a", RNG.choice(["b", "c"], N_ROWS))
X = RNG.normal(size=(N_ROWS, 2))


def gap(labels, groups, rows=slice(None)):
    return demographic_parity_difference(labels[rows], sensitive_features=groups[rows])


def test_parameters_reach_the_core():
    options = {
        "epsilon": 0.02,
        "bound": "to_overall",
        "families": "marginal",
        "objective": "agreement",
    }
    both = {"sex": SEX, "age": AGE}
    step = clone(FairRelabeler(groups="given", **options, random_state=2))
    _, labels = step.fit_resample(X, LABELS, sensitive_features=both)
    np.testing.assert_array_equal(
        labels, r2b.debias(LABELS, sensitive_features=both, **options).round(random_state=2)
    )
    assert gap(labels, SEX) < 0.05 < gap(LABELS, SEX)
    assert gap(labels, AGE) < 0.05 < gap(LABELS, AGE)


def test_a_random_state_of_scikit_learn_is_taken():
    one, two = (
        FairRelabeler(random_state=np.random.RandomState(3)).fit_resample(
            X, LABELS, sensitive_features=SEX
        )[1]
        for _ in range(2)
    )
    np.testing.assert_array_equal(one, two)
