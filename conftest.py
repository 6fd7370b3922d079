"""What pytest collects, and how the suite is cut into parts."""

import gc
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent

# Where an optional library is missing, the examples that need it are not collected.
NEEDS = {
    "src/r2b/_solve/oracle/compiled.py": ["numba"],
    "src/r2b/_solve/oracle/classes_compiled.py": ["numba"],
    "src/r2b/_solve/oracle/vectors.py": ["numba"],
    "src/r2b/datasets/adult.py": ["pandas"],
    "src/r2b/sklearn": ["sklearn"],
    "src/r2b/report/model.py": ["sklearn"],
    "src/r2b/app": ["starlette", "uvicorn"],
    "experiments": ["sklearn", "pyarrow", "matplotlib"],
    "src/r2b/models/boosting.py": ["sklearn", "lightgbm", "xgboost"],
    "src/r2b/models/imblearn.py": ["imblearn"],
    "src/r2b/models/torch.py": ["torch", "sklearn"],
    "src/r2b/engines/torch": ["torch"],
    "src/r2b/engines": ["pyarrow"],
    "src/r2b/engines/dask.py": ["dask", "distributed", "pandas"],
    "src/r2b/engines/duckdb.py": ["duckdb"],
    "src/r2b/engines/polars.py": ["polars"],
    "src/r2b/engines/spark.py": ["pyspark"],
    "src/r2b/engines/spark_ml.py": ["pyspark"],
    "src/r2b/engines/sql": ["sqlglot"],
    "src/r2b/_labels/labels.py": ["sqlglot"],
}
collect_ignore = [
    path
    for path, libraries in NEEDS.items()
    if any(find_spec(library) is None for library in libraries)
]

# The tier of a test is the folder that its file is in; examples in docstrings are unit tests unless
# they start Spark, Dask, PyTorch or a server. `make check` runs the unit tier alone.
TIERS = ("slow", "integration")
SLOW_EXAMPLES = (
    "experiments",
    "src/r2b/app",
    "src/r2b/engines/dask",
    "src/r2b/engines/spark",
    "src/r2b/engines/torch",
    "src/r2b/models",
)
SLOW_FIXTURES = {"spark", "chromium"}


def tier_of(item: pytest.Item) -> str | None:
    """Return the tier of a test, None for the unit tier."""
    path = item.path.relative_to(ROOT).as_posix() if item.path.is_relative_to(ROOT) else ""
    if item.get_closest_marker("slow") or SLOW_FIXTURES & set(getattr(item, "fixturenames", ())):
        return "slow"
    if path.startswith(SLOW_EXAMPLES):
        return "slow"
    return next((tier for tier in TIERS if path.startswith(f"tests/{tier}/")), None)


def pytest_configure(config: pytest.Config) -> None:
    """Filter our own warnings: in pyproject.toml this would import NumPy before threads are set."""
    # Tables of tests are small: what is doubtful about them is looked at where it is tested, with
    # pytest.warns.
    config.addinivalue_line("filterwarnings", "ignore::r2b.errors.DataWarning")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without looking for garbage: modules and tests stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()  # nor is it looked for among them later


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Mark every test with its tier, and run the slow ones first, so that short ones fill up."""
    if find_spec("matplotlib") is None:  # examples that draw stand beside others that need nothing
        items[:] = [
            item
            for item in items
            if not (isinstance(item, pytest.DoctestItem) and item.name.endswith(".plot"))
        ]
    tiers = {id(item): tier_of(item) for item in items}
    for item in items:
        if (tier := tiers[id(item)]) is not None:
            item.add_marker(tier)
    places = {tier: place for place, tier in enumerate(TIERS)}
    items.sort(key=lambda item: places.get(tiers[id(item)] or "", len(places)))
