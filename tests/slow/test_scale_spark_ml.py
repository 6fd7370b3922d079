"""Fair labels as stages of Spark ML, and what the executors need for them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from spark_sessions import skip_without_spark
from test_streams import PEOPLE, in_order

import r2b
from r2b.errors import ParameterError, UnseenError

skip_without_spark()

from pyspark.ml import Pipeline, PipelineModel  # noqa: E402
from pyspark.ml.feature import SQLTransformer  # noqa: E402

from r2b.engines.spark_ml import LabelDebiaser, LabelDebiaserModel  # noqa: E402

SETTINGS = {
    "labelCol": "level",
    "sensitiveCols": ["sex", "region"],
    "epsilon": 0.01,
    "options": {"families": "marginal"},
}


@pytest.fixture(scope="module")
def frame(spark: Any) -> Any:
    return spark.createDataFrame(PEOPLE.slice(0, 300)).coalesce(1).persist()


def known(form: str) -> Any:
    table = PEOPLE.slice(0, 300)
    fair = r2b.scan(table).debias(
        "level", sensitive_features=["sex", "region"], families="marginal", epsilon=0.01
    )
    return in_order(
        fair.frame(form, key="id" if form in ("round", "sample") else None, random_state=4)
    )


def test_a_pipeline_is_fitted_saved_and_loaded_and_lets_rows_without_labels_pass(
    spark: Any, frame: Any, tmp_path: Path
) -> None:
    debiaser = LabelDebiaser(**SETTINGS, form="expand")
    fitted = Pipeline(
        stages=[debiaser, SQLTransformer(statement="SELECT *, 1 AS one FROM __THIS__")]
    ).fit(frame)
    assert fitted.stages[0].fair.status.ok
    fitted.write().save(str(tmp_path / "model"))
    again = PipelineModel.load(str(tmp_path / "model"))
    assert isinstance(again.stages[0], LabelDebiaserModel)
    assert np.array_equal(again.stages[0].fair.prices, fitted.stages[0].fair.prices)
    found = again.transform(frame).toArrow()
    assert in_order(found) == known("expand") and found.column_names[-1] == "one"
    assert again.transform(frame.select("id", "sex")).columns == ["id", "sex", "one"]


def test_the_model_gives_the_labels_of_memory_before_and_after_it_is_saved(
    frame: Any, tmp_path: Path
) -> None:
    estimator = LabelDebiaser(
        **SETTINGS, form="sample", keyCols=["id"], seed=4, outputCol="level_fair"
    )
    estimator.write().overwrite().save(str(tmp_path / "estimator"))
    again = LabelDebiaser.load(str(tmp_path / "estimator"))
    assert (
        again.extractParamMap().keys() == estimator.extractParamMap().keys()
        and again.getOrDefault("options") == SETTINGS["options"]
    )
    model = again.fit(frame)
    model.save(str(tmp_path / "model"))
    loaded = LabelDebiaserModel.load(str(tmp_path / "model"))
    assert (
        in_order(loaded.transform(frame).toArrow())
        == in_order(model.transform(frame).toArrow())
        == known("sample")
    )
    assert loaded.fair.certificate.disparity == model.fair.certificate.disparity
    assert in_order(loaded.copy({loaded.form: "soft"}).transform(frame).toArrow()) == known("soft")


def test_what_is_new_is_refused_or_labelled_as_the_model_was_told(spark: Any, frame: Any) -> None:
    model = LabelDebiaser(**SETTINGS).fit(frame)
    new = spark.createDataFrame(
        [(1, "low", "x", "n")], "id long, level string, sex string, region string"
    )
    with pytest.raises(UnseenError, match="'sex' 'x'"):
        model.transform(new)
    [row] = model.setParams(unseen="overall").transform(new).collect()
    fair = model.fair
    places = [place for place, name in enumerate(fair.groups) if str(name).startswith("sex")] or [
        0,
        1,
    ]
    overall = fair.families.share[places] @ fair.certificate.means[places]
    assert (
        np.abs(
            np.array([row["level_fair_high"], row["level_fair_low"], row["level_fair_middle"]])
            - overall
        ).max()
        < 1e-9
    )


def test_prices_of_another_engine_are_a_stage_too(frame: Any) -> None:
    table = PEOPLE.slice(0, 300)
    fair = r2b.debias(table["level"], sensitive_features={"sex": table["sex"]}, epsilon=0.01)
    model = LabelDebiaserModel(fair).setParams(labelCol="level", sensitiveCols=["sex"])
    found = model.transform(frame).toArrow().sort_by("id")
    order = np.argsort(np.asarray(table["id"]))
    assert np.abs(found["level_fair_low"].to_numpy() - fair.soft_labels[order, 1]).max() < 1e-12


def test_options_that_do_not_exist_are_refused_at_once() -> None:
    with pytest.raises(ParameterError, match="'familys' is not an option"):
        LabelDebiaser(labelCol="level", sensitiveCols=["sex"], options={"familys": "marginal"})
    with pytest.raises(ParameterError, match="Did you mean 'sensitiveCols'"):
        LabelDebiaser(sensitiveCol=["sex"])


SETTING = "spark.sql.execution.pyspark.python"


def test_executors_need_no_python_for_counts_soft_and_expanded_classes(
    spark: Any, frame: Any, tmp_path: Path
) -> None:
    spark.conf.set(SETTING, str(tmp_path / "no python here"))
    try:
        fair = r2b.scan(frame).debias(
            "level", sensitive_features=["sex", "region"], families="marginal", epsilon=0.01
        )
        for form in ("soft", "expand"):
            assert in_order(fair.frame(form).toArrow()) == known(form)
        with pytest.raises(Exception, match="no python here"):
            fair.frame("sample", key="id").collect()
    finally:
        spark.conf.unset(SETTING)


def test_executors_need_three_wheels_and_the_package_as_a_zip_for_the_rest(
    spark: Any, frame: Any, tmp_path: Path
) -> None:
    # What --py-files sends, and NumPy, pyarrow and narwhals in a folder; nothing else of this
    # environment.
    shutil.make_archive(str(tmp_path / "r2b"), "zip", Path(r2b.__file__).parents[2], "r2b")
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for library in ("numpy", "pyarrow", "narwhals"):
        spec = find_spec(library)
        assert spec is not None and spec.origin is not None
        site = Path(spec.origin).parents[2]
        for part in (*site.glob(library), *site.glob(f"{library}.libs")):
            (wheels / part.name).symlink_to(part)
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="{tmp_path}/r2b.zip:{wheels}:$PYTHONPATH" exec "{sys.executable}" -S -s "$@"\n',
        encoding="utf-8",
    )
    python.chmod(0o755)
    lacking = subprocess.run(
        [str(python), "-c", "import pandas"], capture_output=True, text=True, check=False
    )
    assert "No module named 'pandas'" in lacking.stderr
    fair = r2b.scan(frame).debias(
        "level", sensitive_features=["sex", "region"], families="marginal", epsilon=0.01
    )
    spark.conf.set(SETTING, str(python))
    try:
        assert in_order(fair.frame("sample", key="id", random_state=4).toArrow()) == known("sample")
        assert in_order(fair.frame("round", key="id", random_state=4).toArrow()) == known("round")
        scored = frame.selectExpr(
            "sex", "if(sex = 'f', array(0.7D, 0.3D), array(0.4D, 0.6D)) AS p"
        ).limit(40)
        assert (
            round(
                r2b.scan(scored)
                .debias("p", sensitive_features="sex", epsilon=0.1)
                .certificate.disparity,
                9,
            )
            == 0.1
        )
    finally:
        spark.conf.unset(SETTING)
