"""Where an optional library is missing, the examples that need it are not collected."""

from importlib.util import find_spec

NEEDS = {
    "src/r2b/oracle/compiled.py": ["numba"],
    "src/r2b/oracle/classes_compiled.py": ["numba"],
    "src/r2b/solvers/balance_compiled.py": ["numba"],
    "src/r2b/datasets/adult.py": ["pandas"],
    "src/r2b/solvers/agreement.py": ["scipy"],
    "src/r2b/sklearn": ["sklearn"],
    "src/r2b/app": ["starlette", "uvicorn"],
    "src/r2b/experiments": ["sklearn", "pyarrow"],
    "src/r2b/learners/boosting.py": ["lightgbm", "xgboost"],
    "src/r2b/learners/imblearn.py": ["imblearn"],
    "src/r2b/learners/torch.py": ["torch"],
    "src/r2b/device": ["torch"],
    "src/r2b/device/kernels.py": ["torch", "triton"],
    "src/r2b/scale": ["pyarrow"],
    "src/r2b/scale/dask.py": ["dask", "distributed"],
    "src/r2b/scale/dask_parts.py": ["pandas", "pyarrow"],
    "src/r2b/scale/lazy_duckdb.py": ["duckdb"],
    "src/r2b/scale/lazy_polars.py": ["polars"],
    "src/r2b/scale/spark.py": ["pyspark"],
}
collect_ignore = [path for path, libraries in NEEDS.items() if any(find_spec(library) is None for library in libraries)]
