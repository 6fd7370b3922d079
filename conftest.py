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
    "src/r2b/_solve/oracle/design_compiled.py": ["numba"],
    "src/r2b/_solve/oracle/classes_compiled.py": ["numba"],
    "src/r2b/_solve/oracle/soft_bands.py": ["numba"],
    "src/r2b/_solve/oracle/curvature_compiled.py": ["numba"],
    "src/r2b/_solve/oracle/descent.py": ["numba"],
    "src/r2b/_solve/solvers/soft.py": ["numba"],
    "src/r2b/datasets/adult.py": ["pandas"],
    "src/r2b/_solve/solvers/agreement.py": ["scipy"],
    "src/r2b/sklearn": ["sklearn"],
    "src/r2b/_labels/plots.py": ["matplotlib"],
    "src/r2b/app": ["starlette", "uvicorn"],
    "experiments": ["sklearn", "pyarrow", "matplotlib"],
    "src/r2b/models/booster.py": ["sklearn", "lightgbm"],
    "src/r2b/models/boosting.py": ["sklearn", "lightgbm", "xgboost"],
    "src/r2b/models/imblearn.py": ["imblearn"],
    "src/r2b/models/torch.py": ["torch", "sklearn"],
    "src/r2b/engines/torch": ["torch"],
    "src/r2b/engines/torch/kernels.py": ["torch", "triton"],
    "src/r2b/engines/torch/descent.py": ["torch", "triton"],
    "src/r2b/engines/torch/short.py": ["torch", "triton"],
    "src/r2b/engines/torch/starting.py": ["torch", "triton"],
    "src/r2b/engines": ["pyarrow"],
    "src/r2b/engines/dask.py": ["dask", "distributed", "pandas"],
    "src/r2b/engines/duckdb.py": ["duckdb"],
    "src/r2b/engines/polars.py": ["polars"],
    "src/r2b/engines/spark.py": ["pyspark"],
    "src/r2b/engines/spark_ml.py": ["pyspark"],
    "src/r2b/engines/sql": ["sqlglot"],
    "src/r2b/_labels/labels.py": ["sqlglot"],
}
collect_ignore = [path for path, libraries in NEEDS.items() if any(find_spec(library) is None for library in libraries)]

# The parts that `make check` leaves out, by how the path of a file, or the name of a test in it, begins. A test may also carry the mark
# itself. Parts come first, so that the short tests that are left even out the end of the run.
PARTS = {
    "tests/test_scale_spark": "spark",
    "src/r2b/engines/spark": "spark",
    "tests/test_scale_dask": "dask",
    "src/r2b/engines/dask": "dask",
    "tests/test_scale_": "scale",
    "tests/test_one_draw": "scale",
    "tests/test_sql": "scale",
    "tests/test_lakes": "scale",
    "tests/test_streams": "scale",
    "tests/test_app": "app",
    "src/r2b/app": "app",
    "tests/test_experiments": "experiments",
    "experiments": "experiments",
    "tests/test_benchmark_page": "experiments",
    "tests/test_learners_boosting": "boosters",
    "src/r2b/models/boost": "boosters",
    "tests/test_learners_torch": "torch",
    "src/r2b/models/torch": "torch",
    "tests/test_device": "torch",
    "src/r2b/engines/torch": "torch",
    # Processes of their own, packages built, every page run, thousands of problems or draws.
    "tests/test_audit_chance": "slow",
    "tests/test_audit_verdicts": "slow",
    "tests/test_campaign": "slow",
    "tests/test_certain_labels": "slow",
    "tests/test_cli_docs": "slow",
    "tests/test_cli_formats": "slow",
    "tests/test_cli_process": "slow",
    "tests/test_cli_terminal": "slow",
    "tests/test_cli_verify_attacks": "slow",
    "tests/test_damaged_files": "slow",
    "tests/test_demo": "slow",
    "tests/test_docs.py": "slow",
    "tests/test_drawn_benchmark": "slow",
    "tests/test_fuzz": "slow",
    "tests/test_learners_adult": "slow",
    "tests/test_methods_admm": "slow",
    "tests/test_packaging": "slow",
    "tests/test_scale_files_faults": "slow",
    "tests/test_site": "slow",
    "tests/test_sklearn_common": "slow",
    "tests/test_sklearn_interplay": "slow",
    "tests/test_sklearn_forms": "slow",
    "tests/test_sklearn_training": "slow",
    "tests/test_site.py::test_an_example_runs_prints_and_draws": "slow",
    "tests/test_solvers_families": "slow",
    # Tests that take seconds for one case more, in files of the core.
    "tests/test_doubts.py::test_the_device_warns_too": "torch",
    "tests/test_report_notebook.py::test_fragments_are_legible_in_light_and_dark_pages": "browser",
    "tests/test_text_direction.py::test_the_app_shows_them_and_still_finds_the_column": "browser",
    "tests/test_debias_corners.py::test_an_account_does_not_hold_the_answers_of_all_cells_and_classes": "slow",
    "tests/test_design_oracle.py::test_walked_by_themselves_rows_answer_as_their_cells_do": "slow",
    "tests/test_design_oracle.py::test_a_long_table_of_uncertain_groups_takes_few_passes_and_little_memory": "slow",
    "tests/test_file_tables_telling.py::test_labels_are_those_of_other_formats": "slow",
    "tests/test_kernel_vectors.py::test_a_bound_that_only_the_border_meets_is_met_though_samples_cannot": "slow",
    "tests/test_many_classes.py::test_a_frontier_of_many_classes_is_the_same_as_single_solves": "slow",
    "tests/test_many_classes.py::test_kernels_give_the_same_labels": "slow",
    "tests/test_many_classes.py::test_the_path_to_a_small_lam_ends_where_the_direct_way_does": "slow",
    "tests/test_many_classes.py::test_structure_and_the_general_methods_agree": "slow",
    "tests/test_methods_remover.py::test_adult_by_sex": "slow",
    "tests/test_outputs_rounding.py::test_rows_get_classes_with_their_probabilities": "slow",
    "tests/test_outputs_rounding.py::test_table_changes_nothing_on_average": "slow",
    "tests/test_published_defects.py::test_5_1_13_every_test_can_fail_and_the_data_they_use_are_biased": "slow",
    "tests/test_solution.py::test_the_chance_of_a_rounded_label_is_its_probability": "slow",
    "tests/test_solvers_corners.py::test_bounds_that_are_all_but_closed_are_solved_as_closed_ones": "slow",
    "tests/test_questions.py::test_fifty_points_on_adult_are_proven_in_few_steps": "slow",
    "tests/test_verify.py::test_what_was_written_is_verified_and_so_are_its_labels_beside_the_data": "slow",
    "tests/test_theory.py::test_p_values_are_uniform_under_chance": "slow",
}
FIXTURES = {"spark": "spark", "chromium": "browser"}


def part_of(item: pytest.Item) -> str | None:
    """Name the part of the suite that a test belongs to: by its mark, by what it uses, or by its file."""
    marked = next((name for name in dict.fromkeys([*PARTS.values(), *FIXTURES.values()]) if item.get_closest_marker(name)), None)
    used = next((name for fixture, name in FIXTURES.items() if fixture in getattr(item, "fixturenames", ())), None)
    path = item.path.relative_to(ROOT).as_posix() if item.path.is_relative_to(ROOT) else ""
    place = "::".join([path, *item.nodeid.split("::")[1:]])
    return marked or used or next((name for start, name in PARTS.items() if place.startswith(start)), None)


def pytest_configure(config: pytest.Config) -> None:
    """Add the filter of our own warnings here: in pyproject.toml it would import NumPy before tests/conftest.py has set threads."""
    # Tables of tests are small: what is doubtful about them is looked at where it is tested, with pytest.warns.
    config.addinivalue_line("filterwarnings", "ignore::r2b.errors.DataWarning")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without looking for garbage: modules and tests stay (measured: 19 s, of which 6 s went into looking)."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()  # nor is it looked for among them later


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Mark every test with its part, and begin with parts."""
    if find_spec("matplotlib") is None:  # examples that draw stand beside others that need nothing
        items[:] = [item for item in items if not (isinstance(item, pytest.DoctestItem) and item.name.endswith(".plot"))]
    places = {name: place for place, name in enumerate(dict.fromkeys(PARTS.values()))}
    order: dict[Any, int] = {}
    for item in items:
        name = part_of(item)
        order[item] = places.get(name, len(places))
        if name is not None:
            item.add_marker(name)
    items.sort(key=order.__getitem__)
