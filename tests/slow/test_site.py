"""The site: every public name has its page with every parameter, every example runs, and what
`make docs` built works without a network.

Tests of the built pages skip where `make docs` has not been run since the pages changed. The build
itself fails on a broken link, a missing picture, an example that does not run or a reference that
leads nowhere.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import re
import runpy
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

import browser
import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS, SITE = ROOT / "docs", ROOT / "site"
EXAMPLES = sorted((DOCS / "gallery").glob("*.py"))

# Where users import from. Where a module has no __all__, its public definitions are meant.
MODULES = (
    "r2b",
    "r2b.metrics",
    "r2b.sklearn",
    "r2b.models.boosting",
    "r2b.models.torch",
    "r2b.models.imblearn",
    "r2b.engines",
)
MODULES += (
    "r2b.engines.torch",
    "r2b.engines.spark_ml",
    "r2b.methods",
    "r2b.datasets",
    "r2b.report",
    "r2b.errors",
)

LISTS = re.compile(r"currentmodule:: (\S+)\n\n\.\. autosummary::\n(?: {3}:.*\n)*\n((?: {3}.*\n)+)")


def listed() -> list[str]:
    """Return every name that has a page in the reference."""
    lists = [
        found
        for page in sorted((DOCS / "reference").glob("*.md"))
        for found in LISTS.findall(page.read_text(encoding="utf-8"))
    ]
    return [
        f"{module}.{name.strip().lstrip('~')}"
        for module, names in lists
        for name in names.splitlines()
    ]


def module_of(name: str) -> ModuleType | None:
    """Import a module; None where it needs a library that is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def referred() -> dict[str, Any]:
    """Return what has a page in the reference, by name, as far as it can be imported here."""
    parts = [name.rpartition(".") for name in listed()]
    return {
        f"{place}.{last}": getattr(module, last)
        for place, _, last in parts
        if (module := module_of(place)) is not None
    }


def offered(module: ModuleType) -> list[str]:
    own = [
        name
        for name, value in vars(module).items()
        if getattr(value, "__module__", None) == module.__name__ and callable(value)
    ]
    names = getattr(module, "__all__", [name for name in own if not name.startswith("_")])
    return [name for name in names if not inspect.ismodule(getattr(module, name))]


def documented(value: Any) -> set[str]:
    """Return the names that a docstring describes as parameters or attributes."""
    docscrape = pytest.importorskip("numpydoc.docscrape")
    found = docscrape.NumpyDocString(inspect.getdoc(value) or "")
    entries = [*found["Parameters"], *found["Other Parameters"], *found["Attributes"]]
    return {name.strip().lstrip("*") for entry in entries for name in entry.name.split(",")}


def taken(value: Any) -> set[str]:
    """Return what must be described: what a function, or a class that is called by name, takes."""
    if (inspect.isclass(value) and issubclass(value, enum.Enum | BaseException)) or getattr(
        value, "_is_protocol", False
    ):
        return set()
    loose = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return {
        name
        for name, each in inspect.signature(value).parameters.items()
        if each.kind not in loose and not name.startswith("_")
    }


def members(kind: type) -> Iterator[str]:
    """Yield the public methods and properties of a class, as far as the package defines them."""
    for name, value in inspect.getmembers_static(kind):
        inner = (
            getattr(value, "fget", None)
            or getattr(value, "func", None)
            or getattr(value, "__func__", value)
        )
        if (
            not name.startswith("_")
            and inspect.isfunction(inner)
            and str(inner.__module__).startswith("r2b")
        ):
            yield name


def described(kind: type, member: str) -> bool:
    return member in documented(kind) or bool(inspect.getdoc(inspect.getattr_static(kind, member)))


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_has_a_page_in_the_reference(name: str) -> None:
    module = module_of(name)
    if module is None:
        pytest.skip(f"{name} needs a library that is not installed")
    pages = {id(value) for value in referred().values()}
    assert not [each for each in offered(module) if id(getattr(module, each)) not in pages]


def test_every_parameter_and_every_member_is_described() -> None:
    pytest.importorskip("numpydoc")
    found = referred()
    assert len(found) > 90
    undescribed = {name: taken(value) - documented(value) for name, value in found.items()}
    assert not {name: left for name, left in undescribed.items() if left}
    silent = [
        f"{name}.{one}"
        for name, kind in found.items()
        if inspect.isclass(kind)
        for one in members(kind)
        if not described(kind, one)
    ]
    assert not [name for name, value in found.items() if not inspect.getdoc(value)] + silent


def lacking_in(value: Any) -> list[str]:
    """Name what the docstring of a public function lacks."""
    docscrape = pytest.importorskip("numpydoc.docscrape")
    found = docscrape.NumpyDocString(inspect.getdoc(value) or "")
    parameters = [*found["Parameters"], *found["Other Parameters"]]
    lacking = [each.name for each in parameters if not "".join(each.desc).strip()]
    return lacking + [part for part in ("Examples", "See Also") if not found[part]]


def test_every_function_has_an_example_described_parameters_and_says_what_is_related() -> None:
    functions = {name: each for name, each in referred().items() if inspect.isfunction(each)}
    assert len(functions) > 40
    found = {name: lacking_in(each) for name, each in functions.items()}
    assert not {name: left for name, left in found.items() if left}


def test_every_parameter_of_a_method_has_a_description() -> None:
    docscrape = pytest.importorskip("numpydoc.docscrape")
    empty = [
        f"{name}.{member}: {each.name}"
        for name, kind in referred().items()
        if inspect.isclass(kind)
        for member in [None, *members(kind)]
        for value in [kind if member is None else getattr(kind, member, None)]
        for each in docscrape.NumpyDocString(inspect.getdoc(value) or "")["Parameters"]
        if not "".join(each.desc).strip()
    ]
    assert not empty


def test_every_page_is_in_the_navigation() -> None:
    trees = re.findall(
        r"```{toctree}\n(.*?)```", (DOCS / "index.md").read_text(encoding="utf-8"), flags=re.DOTALL
    )
    entries = [
        re.sub(r".*<(.+)>", r"\1", line)
        for tree in trees
        for line in tree.splitlines()
        if line and not line.startswith(":")
    ]
    assert sorted(entries) == sorted(
        [*(path.stem for path in DOCS.glob("*.md") if path.stem != "index"), "examples/index"]
    )
    captions = [caption for tree in trees for caption in re.findall(r":caption: (.+)", tree)]
    assert captions == ["How-to", "Explanations", "Reference", "Gallery"]


NEEDS = {"network": (["torch"], "slow"), "spark": (["pyspark"], "slow")}


def examples() -> Iterator[Any]:
    for path in EXAMPLES:
        marks = [
            getattr(pytest.mark, mark) for name, (_, mark) in NEEDS.items() if name in path.stem
        ]
        yield pytest.param(path, marks=marks, id=path.stem)


@pytest.mark.slow
@pytest.mark.parametrize("path", list(examples()))
def test_an_example_runs_prints_and_draws(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for library in (
        "matplotlib",
        "pandas",
        "sklearn",
        "scipy",
        *next((needed for name, (needed, _) in NEEDS.items() if name in path.stem), []),
    ):
        pytest.importorskip(library)
    if "spark" in path.stem:
        from spark_sessions import spark_session

        spark_session()  # the example takes the one that is there
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    drawn: list[int] = []
    monkeypatch.setattr(plt, "show", lambda: drawn.extend(plt.get_fignums()) or plt.close("all"))
    try:
        runpy.run_path(str(path), run_name="__main__")
    finally:
        plt.close("all")
    assert drawn and capsys.readouterr().out


@pytest.fixture(scope="module")
def site() -> Path:
    sources = [
        *DOCS.glob("*.md"),
        *DOCS.glob("*.py"),
        *(DOCS / "reference").glob("*.md"),
        *EXAMPLES,
        *(DOCS / "_static").iterdir(),
    ]
    if not (SITE / "index.html").exists():
        pytest.skip("the site is not built: run make docs")
    if max(path.stat().st_mtime for path in sources) > (SITE / "searchindex.js").stat().st_mtime:
        pytest.skip("the site is older than its pages: run make docs")
    return SITE


def test_every_link_and_picture_of_the_site_leads_somewhere_in_it(site: Path) -> None:
    pages = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    anchors = {
        path: {unescape(each) for each in re.findall(r'\bid="([^"]+)"', text)}
        for path, text in pages.items()
    }
    broken = set()
    for path, text in pages.items():
        for link in map(unescape, re.findall(r'\b(?:href|src)="([^"]*)"', text)):
            parts = urlsplit(link)
            if parts.scheme or (
                link.startswith("#") and parts.fragment in ("", "top", *anchors[path])
            ):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists() or (
                parts.fragment
                and unquote(parts.fragment) not in anchors.get(target, {parts.fragment})
            ):
                broken.add((path.name, link))
    assert len(pages) > 150
    assert not broken


@pytest.mark.parametrize(
    ("name", "width", "dark"),
    [
        ("index.html", 1280, False),
        ("index.html", 390, True),
        ("which.html", 390, False),
        ("examples/05_recruiting.html", 1280, True),
        ("examples/index.html", 390, False),
        ("reference/generated/r2b.debias.html", 1280, False),
    ],
)
def test_pages_fit_their_window_and_axe_finds_nothing(
    site: Path, chromium: browser.Browser, name: str, width: int, dark: bool
) -> None:
    page = chromium.open((site / name).as_uri(), width=width, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert not page.console_errors and page.hosts == set()
    assert not page.axe()
    page.close()


def test_the_search_finds_a_function_without_a_server(
    site: Path, chromium: browser.Browser
) -> None:
    page = chromium.open((site / "search.html").as_uri() + "?q=smallest_epsilon")
    assert "smallest_epsilon" in page.wait(
        "document.querySelector('#search-results li a')?.getAttribute('href')"
    )
    page.close()
