"""The rules of the code, kept by machines: who imports whom, what no
file may contain.

Each rule is a function from source text to a list of complaints, so that it can be shown a planted
offence as well as the package.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import r2b

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "r2b"

# A package imports only from packages before it. A new package takes its place here.
ORDER = [
    "errors",
    "_data",
    "_plot",
    "_constraints",
    "_solve",
    "_labels",
    "_weights",
    "metrics",
    "datasets",
    "methods",
    "compat",
    "_audit",
    "_files",
    "engines",
]
ORDER += ["_verify", "sklearn", "models", "report", "app", "cli", "__main__"]
# Packages that may know even less than their place allows: everything they may import.
ONLY = {
    "metrics": {"errors", "_data", "_plot"},
    "datasets": {"errors", "_data"},
    "_files": {"errors", "_data"},
}
# What a notebook shows is rendered by a later package, imported when a notebook asks; labels on a
# GPU are debiased by the engine there.
EXCEPTIONS = {
    ("_labels", "report"),
    ("_weights", "report"),
    ("_audit", "report"),
    ("_labels", "engines"),
    ("sklearn", "report"),
}
EXCEPTIONS |= {("_labels", "_weights"), ("_weights", "engines")}  # r2b.load, and SQL
OPTIONAL = {
    "pandas",
    "polars",
    "pyarrow",
    "numba",
    "sklearn",
    "matplotlib",
    "dask",
    "distributed",
    "duckdb",
    "pyspark",
    "torch",
}
OPTIONAL |= {"sqlglot", "deltalake", "pyiceberg", "openpyxl"}
OPTIONAL |= {"lightgbm", "xgboost", "imblearn", "fairlearn", "starlette", "uvicorn"}
# Modules that are imported only where their library is used, so they may import it at once.
BRINGS = {
    "r2b.sklearn": {"sklearn"},
    "r2b.app": {"starlette", "uvicorn"},
    "r2b.engines.torch": {"torch"},
}
BRINGS |= {
    "r2b.engines.polars": {"polars"},
    "r2b.engines.dask": {"dask", "pandas"},
    "r2b.engines.spark_ml": {"pyspark"},
}

Rule = Callable[[str, ast.Module], list[str]]


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_of(module: str) -> str:
    """Name the package of a module below ``r2b``; ``r2b`` itself counts as ``engines``, where its
    latest name lives.
    """
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "engines"


def imported_modules(module: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and absolute name of everything imported anywhere in a module, lazily or not."""
    package = (
        module
        if (PACKAGE.parent / Path(*module.split(".")) / "__init__.py").exists()
        else module.rpartition(".")[0]
    )
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, base]).rstrip(".")
            # ``from r2b import metrics`` names a package, ``from r2b import debias`` what r2b
            # offers.
            named = (
                [alias.name for alias in node.names if alias.name in ORDER] if base == "r2b" else []
            )
            yield from ((node.lineno, f"r2b.{name}") for name in named)
            if len(named) < len(node.names):
                yield node.lineno, base


def imports_flow_one_way(module: str, tree: ast.Module) -> list[str]:
    if module == "r2b":
        return []
    package = package_of(module)
    if package not in ORDER:
        return [f"{module}: {package!r} has no place in ORDER"]
    complaints = []
    for line, name in imported_modules(module, tree):
        other = package_of(name)
        if name.split(".")[0] != "r2b" or other == package or (package, other) in EXCEPTIONS:
            continue
        if other not in ORDER or ORDER.index(other) > ORDER.index(package):
            complaints.append(f"{module}:{line} imports {name}, a later package")
        elif other not in ONLY.get(package, {other}):
            complaints.append(f"{module}:{line} imports {name}, which {package} must not know")
    return complaints


def optional_libraries_wait(module: str, tree: ast.Module) -> list[str]:
    """Look at what runs on import: everything outside functions, less what only a type checker
    reads.
    """
    complaints = []
    brought = [libraries for start, libraries in BRINGS.items() if module.startswith(start)]
    waiting = OPTIONAL.difference(*brought)
    pending: list[ast.AST] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            complaints += [
                f"{module}:{node.lineno} imports {alias.name}"
                for alias in node.names
                if alias.name.split(".")[0] in waiting
            ]
        elif (
            isinstance(node, ast.ImportFrom)
            and not node.level
            and str(node.module).split(".")[0] in waiting
        ):
            complaints.append(f"{module}:{node.lineno} imports from {node.module}")
        pending.extend(ast.iter_child_nodes(node))
    return complaints


def nothing_takes_argmax_on_the_way_out(module: str, tree: ast.Module) -> list[str]:
    if not re.match(r"r2b\.(_labels|engines)", module):
        return []
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = [(call.lineno, ast.unparse(call.func).rpartition(".")[2]) for call in calls]
    return [
        f"{module}:{line} takes an argmax"
        for line, name in names
        if name in {"argmax", "nanargmax"}
    ]


PLANTED: list[tuple[Rule, str, str]] = [
    (imports_flow_one_way, "r2b._constraints.parity", "from r2b._solve.solvers import newton"),
    (
        imports_flow_one_way,
        "r2b._solve.certificate",
        "def late():\n    from .._labels.rounding import f",
    ),
    (imports_flow_one_way, "r2b._data.dataset", "from .._solve.problem import Problem"),
    (imports_flow_one_way, "r2b._data.dataset", "from r2b import metrics"),
    (imports_flow_one_way, "r2b._solve.solvers.newton", "from r2b import debias"),
    (imports_flow_one_way, "r2b._audit.measure", "import r2b.engines.tables"),
    (imports_flow_one_way, "r2b.metrics.means", "from r2b._constraints.parity import Parity"),
    (imports_flow_one_way, "r2b.utils", "import numpy"),
    (
        optional_libraries_wait,
        "r2b._data.columns",
        "try:\n    import pandas as pd\nexcept ImportError:\n    pd = None",
    ),
    (
        optional_libraries_wait,
        "r2b._solve.oracle.compiled",
        "class Kernel:\n    from numba import njit",
    ),
    (optional_libraries_wait, "r2b.sklearn.transformer", "import pandas"),
    (
        nothing_takes_argmax_on_the_way_out,
        "r2b._labels.rounding",
        "labels = x.argmax(axis=1)",
    ),
    (nothing_takes_argmax_on_the_way_out, "r2b.engines.source", "labels = np.argmax(x, axis=1)"),
]
ALLOWED: list[tuple[Rule, str, str]] = [
    (
        imports_flow_one_way,
        "r2b._solve.solvers.newton",
        "from r2b._solve.oracle import Oracle\nfrom . import blocks\nimport numpy",
    ),
    (imports_flow_one_way, "r2b.cli.root", "import r2b\nfrom r2b import debias"),
    (imports_flow_one_way, "r2b", "from r2b.cli.root import anything"),
    (optional_libraries_wait, "r2b.sklearn.transformer", "from sklearn.base import BaseEstimator"),
    (
        optional_libraries_wait,
        "r2b._data.columns",
        "if TYPE_CHECKING:\n    import pandas\ndef f():\n    import numba",
    ),
    (nothing_takes_argmax_on_the_way_out, "r2b.metrics.performance", "x.argmax(axis=1)"),
]
RULES = sorted({rule for rule, _, _ in PLANTED}, key=lambda rule: rule.__name__)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule_holds(rule: Rule) -> None:
    found = [
        complaint
        for path in sources()
        for complaint in rule(module_name(path), ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("rule", "module", "source"), PLANTED)
def test_rule_sees_a_planted_offence(rule: Rule, module: str, source: str) -> None:
    assert rule(module, ast.parse(source))


@pytest.mark.parametrize(("rule", "module", "source"), ALLOWED)
def test_rule_lets_honest_code_pass(rule: Rule, module: str, source: str) -> None:
    assert rule(module, ast.parse(source)) == []


def test_import_is_quiet_and_light() -> None:
    program = (
        "import sys; before = set(sys.modules); import r2b; print(*sorted({m.split('.')[0] for m in"
        " set(sys.modules) - before}))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert done.stderr == ""
    [line] = done.stdout.splitlines()
    assert "r2b" in line.split()
    assert not OPTIONAL & set(line.split())


# What no file may hold, in pieces so that this one may be tracked as well.
FORBIDDEN = [
    re.compile("/(" + "|".join(["wor" + "k", "roo" + "t", "far" + "m"]) + r")/[a-z.]"),
    re.compile("/op" + r"t/(pypi|wheels)"),
    re.compile("/(home|Users)" + r"/\w+/"),
    re.compile("file:" + "///"),
    re.compile("(pyp" + "i\\.org|python" + "hosted|npm" + "js\\.)"),
    re.compile("--(extra-)?index" + "-url "),
]


def tracked_files() -> list[Path]:
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: no way to tell the project's files from leftovers")
    command = [git, "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    return [path for path in (ROOT / name for name in names if name) if path.is_file()]


def addresses_in(text: str) -> list[str]:
    return [match.group() for pattern in FORBIDDEN for match in pattern.finditer(text)]


def test_files_name_no_machine_and_no_registry() -> None:
    found = {
        str(path.relative_to(ROOT)): addresses_in(
            path.read_bytes().decode("utf-8", errors="replace")
        )
        for path in tracked_files()
    }
    assert "pyproject.toml" in found
    assert not {name: addresses for name, addresses in found.items() if addresses}


@pytest.mark.parametrize(
    "planted",
    [
        "cd /wor" + "k/main",
        "/roo" + "t/.cache",
        "https://pyp" + "i.org/simple",
        "r2b @ file:" + "///tmp/x",
    ],
)
def test_addresses_are_seen(planted: str) -> None:
    assert addresses_in(planted)


def test_the_changelog_describes_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {r2b.__version__} " in text


@pytest.mark.parametrize(
    "command", ["ruff check --no-cache .", "ruff format --no-cache --check .", "mypy --strict"]
)
def test_linters_agree(command: str) -> None:
    tool, *arguments = command.split()
    if importlib.util.find_spec(tool) is None:
        pytest.skip(f"{tool} is not installed")
    done = subprocess.run(
        [sys.executable, "-m", tool, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
