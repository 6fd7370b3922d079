"""The page about Spark runs. Its blocks are fenced as ``py``, so that the page's session is the one of these tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from spark_sessions import spark_session
from test_docs import ROOT, SHOWN, blocks_of, run

PAGE = ROOT / "docs" / "spark.md"


def test_the_page_about_spark_runs_and_shows_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark_session()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYSPARK_PYTHON", "set by the page")
    # Java keeps the folder that it was started in: a name alone would leave the model in the
    # checkout.
    page = PAGE.read_text(encoding="utf-8").replace('"model"', repr(str(tmp_path / "model")))
    blocks = blocks_of(page.replace("```py\n", "```python\n"))
    assert (
        sum(len(SHOWN.findall(block.source)) + block.source.count("# ->") for block in blocks) > 8
    )
    names: dict[str, Any] = {}
    for block in blocks:
        run(block, names, PAGE.name)
