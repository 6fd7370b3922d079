"""What is handed out: the wheel and the source distribution, what they ask for, and what is said of
them.
"""

from __future__ import annotations

import importlib.util
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import r2b

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
FOR_DEVELOPERS = {"bench", "dev", "docs"}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MEGABYTE = 2**20


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def floors() -> list[tuple[str, str, str]]:
    """List where a lower limit is, of which library, and which."""
    groups = {"the core": PROJECT["dependencies"], **EXTRAS}
    found = [
        (where, re.match(r"([\w-]+)(?:\[[\w,]+\])?(?:>=([\d.]+))?$", asked))
        for where, all_ in groups.items()
        for asked in all_
    ]
    return [
        (where, match.group(1).lower(), match.group(2))
        for where, match in found
        if match is not None and match.group(2)
    ]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed")
    out = tmp_path_factory.mktemp("dist")
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "wheel",
        "-t",
        "sdist",
        "-d",
        str(out),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def wheel(built: Path) -> set[str]:
    [path] = built.glob("*.whl")
    assert path.stat().st_size < 3 * MEGABYTE
    return set(zipfile.ZipFile(path).namelist())


@pytest.fixture(scope="module")
def source(built: Path) -> set[str]:
    [path] = built.glob("*.tar.gz")
    assert path.stat().st_size < 6 * MEGABYTE
    with tarfile.open(path) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def tracked(folder: str) -> set[str]:
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: no way to tell the project's files from leftovers")
    command = [
        git,
        "-C",
        str(ROOT),
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        folder,
    ]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    return {name for name in names if name and (ROOT / name).exists()}


def test_the_wheel_holds_the_package_whole_and_nothing_else(wheel: set[str]) -> None:
    package = {name.removeprefix("src/") for name in tracked("src/r2b")}
    assert {
        "r2b/py.typed",
        "r2b/datasets/adult.npz",
        "r2b/report/templates/report.html.j2",
        "r2b/app/templates/app.js",
    } <= package
    assert {
        name for name in wheel if not name.startswith(f"r2b-{r2b.__version__}.dist-info/")
    } == package


def test_the_wheel_holds_both_licences(built: Path, wheel: set[str]) -> None:
    info = f"r2b-{r2b.__version__}.dist-info"
    assert {f"{info}/licenses/LICENSE", f"{info}/licenses/src/r2b/datasets/ADULT.md"} <= wheel
    [path] = built.glob("*.whl")
    metadata = zipfile.ZipFile(path).read(f"{info}/METADATA").decode("utf-8")
    assert "License-Expression: MIT AND CC-BY-4.0\n" in metadata


@pytest.mark.parametrize("folder", ["src", "tests", "docs", "scripts", "benchmarks", "results"])
def test_the_source_distribution_holds_every_file_of_a_folder(
    folder: str, source: set[str]
) -> None:
    assert not tracked(folder) - source


def test_every_link_of_a_page_leads_somewhere_in_the_source_distribution(source: set[str]) -> None:
    folders = {str(parent) for name in source for parent in Path(name).parents}
    lost = []
    for page in PAGES:
        for link in re.findall(r"\]\(([^)\s#]+)", page.read_text(encoding="utf-8")):
            target = (page.parent / link).resolve()
            if (
                not re.match(r"[a-z]+:", link)
                and target.is_relative_to(ROOT)
                and str(target.relative_to(ROOT)) not in source | folders
            ):
                lost.append(f"{page.name}: {link}")
    assert not lost


def test_what_is_uploaded_passes_the_check_of_the_index(built: Path) -> None:
    pytest.importorskip("twine")
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, built.iterdir())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.count("PASSED") == 2, done.stdout + done.stderr


def test_the_extra_all_is_every_extra_of_users() -> None:
    [all_] = EXTRAS["all"]
    assert set(re.findall(r"[a-z]+", all_.partition("[")[2])) == set(EXTRAS) - FOR_DEVELOPERS - {
        "all"
    }


def test_the_recipe_asks_for_what_the_package_asks_for() -> None:
    yaml = pytest.importorskip("yaml")
    recipe = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8"))
    assert recipe["context"] == {
        "version": PROJECT["version"],
        "python_min": PROJECT["requires-python"].removeprefix(">="),
    }
    needs = recipe["requirements"]
    assert [each.replace(" ", "") for each in needs["run"][1:]] == PROJECT["dependencies"]
    # Some libraries have another name at conda-forge.
    others = {"pytorch": "torch", "python-duckdb": "duckdb", "matplotlib-base": "matplotlib"}
    limits = dict(each.split(" >=") for each in needs["run_constraints"])
    lowest = {
        name: limit
        for where, name, limit in reversed(floors())
        if where not in FOR_DEVELOPERS | {"the core"}
    }
    assert {others.get(name, name): limit for name, limit in limits.items()} == {
        name: limit for name, limit in lowest.items() if name not in ("pyarrow", "narwhals")
    }
    assert recipe["about"]["license"] == PROJECT["license"]
    assert recipe["about"]["license_file"] == PROJECT["license-files"]


def test_there_is_one_version() -> None:
    assert PROJECT["version"] == r2b.__version__
    assert f"version: {r2b.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_every_extra_that_is_spoken_of_exists() -> None:
    files = [*sorted((ROOT / "src").rglob("*.py")), *PAGES]
    said = {
        (path.name, name)
        for path in files
        for names in re.findall(r"(?:r2b|'\.)\[([a-z,]+)\]", path.read_text(encoding="utf-8"))
        for name in names.split(",")
    }
    assert ("README.md", "fast") in said
    assert not {(where, name) for where, name in said if name not in EXTRAS}


def test_the_pinned_environment_meets_every_lower_limit() -> None:
    pins = dict(
        re.findall(
            r"^([\w.-]+)==([\d.]+)",
            (ROOT / "requirements-dev.txt").read_text(encoding="utf-8"),
            flags=re.MULTILINE,
        )
    )
    pins = {name.lower(): pin for name, pin in pins.items()}
    limits = [(where, name, limit) for where, name, limit in floors() if name in pins]
    assert {name for _, name, _ in limits} >= {"numpy", "polars", "duckdb", "narwhals"}
    assert not [limit for limit in limits if version(pins[limit[1]]) < version(limit[2])]


WITHOUT = """
import importlib, pkgutil, sys

for library in sys.argv[1:]:
    sys.modules[library] = None  # as if it were not installed
import r2b

for found in pkgutil.walk_packages(r2b.__path__, "r2b.", onerror=lambda name: None):
    try:
        importlib.import_module(found.name)
    except ImportError as error:
        print(found.name, type(error).__name__)
"""


def test_without_optional_libraries_every_module_imports_or_is_known_to_need_one() -> None:
    known = runpy.run_path(str(ROOT / "conftest.py"))["NEEDS"]
    libraries = sorted({library for needed in known.values() for library in needed})
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *libraries],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    lacking = [line.split()[0] for line in done.stdout.splitlines()]
    assert "r2b._solve.oracle.compiled" in lacking
    assert "r2b._labels.debiasing" not in lacking
    paths = [f"src/{name.replace('.', '/')}" for name in lacking]
    assert not [
        path
        for path in paths
        if not any(f"{path}.py".startswith((place, f"{place}/")) for place in known)
    ]


LACKING = """
import sys

for library in sys.argv[2:]:
    sys.modules[library] = None  # as if it were not installed
import r2b

y, s = [[0.6, 0.4], [0.6, 0.4], [0.7, 0.3], [0.7, 0.3]], ["f", "f", "m", "m"]
open("people.parquet", "w").close()
try:
    exec(sys.argv[1])
except r2b.errors.MissingExtraError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("use", "extra"),
    [
        *(
            (f"r2b.datasets.load_adult(as_frame={library!r})", "frames")
            for library in ("pandas", "polars", "pyarrow")
        ),
        ("r2b.scan('people.parquet')", "frames"),
        ("r2b.count_query('sqlite', 'people', 'job', sensitive_features='sex')", "sql"),
        ("import r2b.sklearn", "sklearn"),
        ("import r2b.models.boosting", "sklearn"),
        ("import r2b.models.torch", "torch"),
        ("import r2b.engines.torch", "torch"),
        ("from r2b.app import serve; serve()", "app"),
    ],
)
def test_what_lacks_its_library_names_a_command_that_installs_it(
    use: str, extra: str, tmp_path: Path
) -> None:
    libraries = sorted(
        {
            library
            for needed in runpy.run_path(str(ROOT / "conftest.py"))["NEEDS"].values()
            for library in needed
        }
    )
    done = subprocess.run(
        [sys.executable, "-c", LACKING, use, *libraries],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    for requirement in PROJECT["optional-dependencies"][extra]:
        assert f"'{requirement}'" in done.stdout.partition("pip install")[2]
