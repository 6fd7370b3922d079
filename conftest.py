"""Where an optional library is missing, the examples that need it are not collected."""

from importlib.util import find_spec

NEEDS = {"src/r2b/oracle/compiled.py": "numba", "src/r2b/datasets/adult.py": "pandas"}
collect_ignore = [path for path, library in NEEDS.items() if find_spec(library) is None]
