"""The documentation tells the truth: every Python block runs, shows what it says it shows,
and every link leads somewhere.

In a block, ``expression  # -> value`` must have that repr (or print that line). A ``text`` block
straight after a Python block is what that block prints. Numbers of 1e-9 and below are rounding, and
only have to be as small.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import importlib.util
import inspect
import io
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cli_calls import ONE_BY_ONE

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "ARCHITECTURE", "CONTRIBUTING", "RELEASING")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "reference").glob("*.md")),
]

FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"#\s*->\s*(.+)$")
ROUNDING = re.compile(r"-?\d(?:\.\d+)?e-(\d+)")


@dataclass(frozen=True)
class Block:
    source: str
    line: int
    printed: str | None


def blocks_of(text: str) -> list[Block]:
    found = list(FENCE.finditer(text))
    blocks = []
    for here, following in zip(found, [*found, None][1:], strict=True):
        if here.group(1) != "python":
            continue
        is_output = (
            following is not None
            and following.group(1) == "text"
            and not text[here.end() : following.start()].strip()
        )
        printed = following.group(2) if is_output and following is not None else None
        blocks.append(Block(here.group(2), text.count("\n", 0, here.start()) + 2, printed))
    return blocks


def plain(text: str) -> str:
    """Make tiny numbers alike: what is left of a rounding error depends on the machine."""
    tidied = ROUNDING.sub(lambda match: "tiny" if int(match.group(1)) >= 9 else match.group(), text)
    return "\n".join(line.rstrip() for line in tidied.strip().splitlines())


def run(block: Block, names: dict[str, Any], page: str) -> None:
    lines = block.source.splitlines()
    printed = io.StringIO()
    for node in ast.parse(block.source).body:
        where = f"{page}:{block.line + node.lineno - 1}"
        shown = SHOWN.search(lines[(node.end_lineno or node.lineno) - 1])
        here = io.StringIO()
        value: Any = None
        # Padded with empty lines, so that a traceback points at the page.
        padding = "\n" * (block.line + node.lineno - 2)
        source = padding + "\n".join(lines[node.lineno - 1 : node.end_lineno])
        with contextlib.redirect_stdout(here):
            if isinstance(node, ast.Expr):
                value = eval(compile(source.rstrip(), page, "eval"), names)
            else:
                exec(compile(source, page, "exec"), names)
        if shown is None:
            printed.write(here.getvalue())
            continue
        actual = here.getvalue() or repr(value)
        assert plain(actual) == plain(shown.group(1)), where
    if block.printed is not None:
        assert plain(printed.getvalue()) == plain(block.printed), f"{page}:{block.line}"
    else:
        assert not printed.getvalue(), f"{page}:{block.line} prints what the page does not show"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_run_and_show_what_they_say(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = blocks_of(page.read_text(encoding="utf-8"))
    for library in (
        "pandas",
        "polars",
        "pyarrow",
        "scipy",
        "sklearn",
        "lightgbm",
        "xgboost",
        "torch",
        "imblearn",
        "fairlearn",
        "duckdb",
        "dask",
    ):
        if any(
            re.search(
                rf"(import|from) {library}|as_frame=\"{library}\"|(models|engines)\.{library}",
                block.source,
            )
            for block in blocks
        ):
            pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks:
        run(block, names, page.name)


@pytest.mark.parametrize(
    "wrong",
    [
        "```python\n1 + 1  # -> 3\n```\n",
        "```python\nprint('a')\n```\n\n```text\nb\n```\n",
        "```python\nprint('a')\n```\n",
        "```python\n1e-3  # -> 1e-12\n```\n",
    ],
)
def test_a_wrong_page_is_seen(wrong: str) -> None:
    (block,) = blocks_of(wrong)
    with pytest.raises(AssertionError):
        run(block, {}, "page.md")


def test_a_right_page_passes() -> None:
    (block,) = blocks_of(
        "```python\nx = 2\nx + 1  # -> 3\nprint(x, 3.1e-17)\n```\n\n```text\n2 9.9e-12\n```\n"
    )
    run(block, {}, "page.md")


@pytest.mark.parametrize("name", ["README.md", "docs/guide.md"])
def test_commands_run(name: str, tmp_path: Path) -> None:
    text = FENCE.sub("", (ROOT / name).read_text(encoding="utf-8"))
    commands = [
        shlex.split(line, comments=True)[1:]
        for line in re.findall(r"^    (r2b .+)$", text, flags=re.MULTILINE)
    ]
    assert len(commands) >= 3
    if importlib.util.find_spec("r2b") is None:
        pytest.skip("commands run in a process of their own and need the package installed")
    commands = [
        ["datasets", "export", "adult", "people.csv"],
        *(each for each in commands if each != ["serve"]),
    ]
    done = subprocess.run(
        [sys.executable, "-c", ONE_BY_ONE, repr(commands)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr


def anchors_of(page: Path) -> set[str]:
    headings = re.findall(
        r"^#+ (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), flags=re.MULTILINE
    )
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    links = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r"(?:src|href)=\"([^\"]+)\"", text)
    broken = []
    for link in links:
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            broken.append(link)
    assert not broken


def test_every_package_is_explained() -> None:
    places = [
        path
        for path in (ROOT / "src" / "r2b").iterdir()
        if path.is_dir() and path.name != "__pycache__"
    ]
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert not [
        path.name for path in places if f"`{path.name}`" not in text.partition("| package |")[2]
    ]


def test_the_order_of_the_packages_is_the_one_that_is_kept() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rules = ast.parse(
        (ROOT / "tests" / "unit" / "test_architecture.py").read_text(encoding="utf-8")
    )
    kept = [
        node
        for node in rules.body
        if isinstance(node, ast.Assign | ast.AugAssign) and ast.unparse(node).startswith("ORDER ")
    ]
    order = [
        package
        for node in kept
        for package in ast.literal_eval(node.value)
        if not package.startswith("__")
    ]
    assert text.partition("in this order:")[2].partition("`tests")[0].split() == order


def test_every_field_of_a_saved_file_is_documented(tmp_path: Path) -> None:
    import json

    import r2b

    r2b.debias(["a", "b", "a", "a"], sensitive_features=["f", "f", "m", "m"]).save(
        tmp_path / "fair.json"
    )
    stored = json.loads((tmp_path / "fair.json").read_text(encoding="utf-8"))
    text = (ROOT / "docs" / "file-format.md").read_text(encoding="utf-8")
    fields = [*stored, *stored["schema"], *stored["schema"]["classes"], *stored["certificate"]]
    assert not [field for field in fields if f"`{field}`" not in text]


def test_every_field_of_a_certificate_file_is_documented() -> None:
    from r2b._verify.record import Record
    from r2b.engines.roles import ColumnRoles

    text = (
        (ROOT / "docs" / "file-format.md")
        .read_text(encoding="utf-8")
        .partition("## The certificate file\n")[2]
        .partition("\n## ")[0]
    )
    assert not [
        field
        for kind in (Record, ColumnRoles)
        for field in (*kind.__dataclass_fields__, "r2b")
        if f"`{field}`" not in text
    ]


def test_every_name_that_a_page_gives_to_the_package_exists() -> None:
    import r2b
    from r2b.report.model import ModelReportOptions
    from r2b.report.results import OPTIONS

    pytest.importorskip("sklearn")
    from r2b.sklearn import ParityClassifier

    parameters = {
        *inspect.signature(ParityClassifier).parameters,
        *ModelReportOptions.__annotations__,
        *inspect.signature(r2b.debias).parameters,
        *inspect.signature(r2b.FairLabels.report).parameters,
        *OPTIONS,
    }
    text = "".join(
        (ROOT / "docs" / name).read_text(encoding="utf-8")
        for name in ("guide.md", "constraints.md", "how-it-works.md")
    )
    asked = set(re.findall(r"`(\w+)=", FENCE.sub("", text)))
    assert {"families", "objective", "missing"} <= asked
    assert not asked - parameters - {"basis", "changes"}


def test_every_status_and_error_is_explained() -> None:
    import r2b

    text = (ROOT / "docs" / "messages.md").read_text(encoding="utf-8")
    errors = [
        name
        for name, kind in vars(r2b.errors).items()
        if isinstance(kind, type) and issubclass(kind, r2b.errors.R2BError)
    ]
    assert not [status.value for status in r2b.Status if f"`{status.value}`" not in text]
    assert not [name for name in errors if f"`{name}`" not in text]
    assert not [
        field.name for field in dataclasses.fields(r2b.Certificate) if f"`{field.name}`" not in text
    ]


@pytest.mark.parametrize("name", ["make_figures.py", "make_scale_page.py"])
def test_pictures_and_tables_are_those_of_the_script(name: str) -> None:
    script = ROOT / "scripts" / name
    if importlib.util.find_spec("r2b") is None:
        pytest.skip("the script runs in a process of its own and needs the package installed")
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
