"""Write docs/reference.md: every public name with its signature and the first sentence of its docstring.

``python scripts/make_reference_page.py`` writes the page; ``--check`` only says whether it is what would be written. The sources are read,
not imported, so that no optional library is needed and the page is the same everywhere.
"""

from __future__ import annotations

import argparse
import ast
import copy
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
PAGE = ROOT / "docs" / "reference.md"
WIDTH = 140
CELL = 90

# Where users import from, in the order of the page. Where a module has no __all__, its public definitions are listed.
MODULES = (
    "r2b",
    "r2b.metrics",
    "r2b.sklearn",
    "r2b.models.boosting",
    "r2b.models.torch",
    "r2b.models.imblearn",
    "r2b.engines",
    "r2b.engines.torch",
    "r2b.methods",
    "r2b.datasets",
    "r2b.report",
    "r2b.errors",
)
# Classes of internal modules, which nobody imports: functions and attributes return them.
RETURNED = (
    "Change",
    "ConstraintCost",
    "Rule",
    "Evidence",
    "Realised",
    "FamilyProof",
    "Chance",
    "ContinuousAudit",
    "Difference",
    "FamilyAudit",
    "FrontierPoint",
    "RankedGroup",
    "Check",
)
OPENING = """\
# Reference

Every public name with the first sentence of its docstring. Parameters, errors and an example are in the docstring itself:
`help(r2b.debias)`. The page is made from the sources by `make reference`.
"""

Definition = ast.FunctionDef | ast.ClassDef


def file_of(module: str) -> Path | None:
    """Find the file of a module of the package."""
    stem = SOURCE.joinpath(*module.split("."))
    return next((path for path in (stem / "__init__.py", stem.with_suffix(".py")) if path.exists()), None)


@cache
def tree_of(module: str) -> ast.Module:
    path = file_of(module)
    if path is None:
        raise LookupError(f"{module} is no module of the package")
    return ast.parse(path.read_text(encoding="utf-8"))


def statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield what stands at the top of a module, also where a type checker or a missing library makes it wait."""
    pending: list[ast.stmt] = list(tree.body)
    while pending:
        node = pending.pop(0)
        yield node
        if isinstance(node, ast.If | ast.Try):
            pending = [*node.body, *node.orelse, *pending]


def exported(module: str) -> list[str]:
    """List what a module offers: its __all__, else its public definitions."""
    body = list(statements(tree_of(module)))
    for node in body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return [node.name for node in body if isinstance(node, Definition) and not node.name.startswith("_")]


def resolve(module: str, name: str) -> tuple[str, Definition] | None:
    """Follow imports to where a name is defined; None where that is not in the package, or is no function and no class."""
    found: tuple[str, Definition] | None = None
    for node in statements(tree_of(module)):
        # Of several overloads the last one has the docstring.
        if isinstance(node, Definition) and node.name == name:
            found = module, node
        # A package that imports from itself names modules of its own.
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("r2b") and node.module != module:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    found = resolve(str(node.module), alias.name)
    return found


@cache
def internal(name: str) -> tuple[str, ast.ClassDef]:
    """Find a class by its name, in whichever module it is."""
    pattern = re.compile(rf"^class {name}\b", flags=re.MULTILINE)
    paths = [path for path in sorted((SOURCE / "r2b").rglob("*.py")) if pattern.search(path.read_text(encoding="utf-8"))]
    if len(paths) != 1:
        raise LookupError(f"{name} is defined in {len(paths)} modules")
    module = ".".join(paths[0].relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    return module, next(node for node in tree_of(module).body if isinstance(node, ast.ClassDef) and node.name == name)


def plain(text: str) -> str:
    """Put a paragraph on one line, without the markup of docstrings."""
    return re.sub(r":\w+:`~?([^`]+)`", r"`\1`", " ".join(text.split())).replace("``", "`")


def first_sentence(text: str) -> str:
    """Take the first sentence of a docstring or of a description in it."""
    paragraph = plain(text.strip().split("\n\n")[0])
    sentence = re.match(r".+?[.!?](?=\s+[A-Z`]|$)", paragraph)
    return sentence.group() if sentence else paragraph


def has_section(doc: str, title: str) -> bool:
    """Tell whether a docstring has a section of that title."""
    return f"{title}\n{'-' * len(title)}" in doc


def described(doc: str, title: str) -> Iterator[tuple[str, str]]:
    """Yield the names and descriptions under a title, such as *Attributes*."""
    if not has_section(doc, title):
        return
    section = re.split(r"\n\n\w[\w ]*\n-{3,}\n", doc.split(f"{title}\n{'-' * len(title)}\n", 1)[1])[0]
    for entry in re.split(r"\n(?=\S)", section):
        names, _, description = entry.partition("\n")
        for name in names.partition(" : ")[0].split(", "):
            yield name.strip(), first_sentence(textwrap.dedent(description)) or f"{plain(names.partition(' : ')[2])}."


def ancestors(home: str, node: ast.ClassDef) -> Iterator[tuple[str, ast.ClassDef]]:
    """Yield the classes of the package that a class is made from, nearest first."""
    for base in node.bases:
        found = resolve(home, ast.unparse(base))
        if found is not None and isinstance(found[1], ast.ClassDef):
            yield found[0], found[1]
            yield from ancestors(found[0], found[1])


@cache
def defaults() -> dict[str, str]:
    """Read the defaults of the options."""
    kinds = [internal(name)[1] for name in ("Request", "Settings")]
    return {
        ast.unparse(each.target): ast.unparse(each.value)
        for kind in kinds
        for each in kind.body
        if isinstance(each, ast.AnnAssign) and each.value
    }


def parameters(home: str, node: Definition) -> str:
    """Write the parameters with their defaults and without their types."""
    if isinstance(node, ast.FunctionDef):
        bare = copy.deepcopy(node.args)
        for each in ast.walk(bare):
            if isinstance(each, ast.arg):
                each.annotation = None
        shown = re.sub(r"DEFAULTS\['(\w+)'\]", lambda found: defaults()[found.group(1)], ast.unparse(bare))
        return re.sub(r"^(self|cls)(, )?", "", shown)
    for place, kind in [(home, node), *ancestors(home, node)]:
        for each in kind.body:
            if isinstance(each, ast.FunctionDef) and each.name == "__init__":
                return parameters(place, each)
    fields = [each for each in node.body if isinstance(each, ast.AnnAssign) and not ast.unparse(each.target).startswith("_")]
    return ", ".join(ast.unparse(each.target) + (f"={ast.unparse(each.value)}" if each.value else "") for each in fields)


def shortened(call: str) -> str:
    """Leave out the parameters with defaults where a call would not fit a table."""
    return call if len(call) <= CELL else re.sub(r"\w+=.*", "...)", call)


def members(home: str, node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """Yield attributes, properties and methods of a class, each with a sentence; those of internal ancestors last."""
    listed = dict(described(ast.get_docstring(node) or "", "Attributes"))
    yield from listed.items()
    for each in node.body:
        if not isinstance(each, ast.FunctionDef) or each.name.startswith("_") or each.name in listed:
            continue
        decorators = {ast.unparse(one).rpartition(".")[2] for one in each.decorator_list}
        is_value = decorators & {"property", "cached_property"}
        if not decorators & {"setter", "overload"}:
            yield (
                each.name if is_value else shortened(f"{each.name}({parameters(home, each)})"),
                first_sentence(ast.get_docstring(each) or ""),
            )
    own = {*listed, *(each.name for each in node.body if isinstance(each, ast.FunctionDef))}
    for place, kind in ancestors(home, node):
        if kind.name not in on_the_page():
            yield from (member for member in members(place, kind) if re.split(r"\W", member[0])[0] not in own)


def entry(heading: str, name: str, home: str, node: Definition) -> str:
    """Write one name: its signature where it is called, its sentence, and the members of a class."""
    doc = ast.get_docstring(node) or ""
    lines = [f"### {heading}", ""]
    if isinstance(node, ast.FunctionDef) or has_section(doc, "Parameters"):
        call = textwrap.wrap(f"{name}({parameters(home, node)})", WIDTH - 8, subsequent_indent="    ", break_on_hyphens=False)
        lines += [*(f"    {line}" for line in call), ""]
    lines += textwrap.wrap(first_sentence(doc), WIDTH)
    if isinstance(node, ast.ClassDef):
        kin = [each.name for _, each in ancestors(home, node) if each.name in on_the_page()][:1]
        lines += [f"It has all that `{each}` has." for each in kin]
        lines += table("member", members(home, node))
    return "\n".join(lines) + "\n"


@cache
def on_the_page() -> frozenset[str]:
    """Name everything that has an entry."""
    return frozenset(name for names in (*map(exported, MODULES), RETURNED) for name in names)


def table(title: str, pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Write names with their sentences."""
    rows = ["| `{}` | {} |".format(*(text.replace("|", "\\|") for text in pair)) for pair in pairs]
    return ["", f"| {title} | |", "| --- | --- |", *rows] if rows else []


def options() -> str:
    """Write the options that several functions and classes take."""
    opening = "What `**options` stands for where labels are debiased. Types, defaults and choices are in `help(r2b.debias)`."
    rows = table("option", described(ast.get_docstring(internal("Options")[1]) or "", "Parameters"))
    return "\n".join(["## Options", "", *textwrap.wrap(opening, WIDTH), *rows]) + "\n"


def entries(module: str, seen: set[tuple[str, str]]) -> list[str]:
    """Write the names of a module that are not on the page yet. Functions come first, since classes are what they return."""
    written = []
    for name in exported(module):
        found = resolve(module, name)
        if found is None and file_of(f"{module}.{name}") is None:
            raise LookupError(f"{module} offers {name!r}, which is defined nowhere")
        if found is not None and (found[0], name) not in seen:
            seen.add((found[0], name))
            written.append(entry(f"{module}.{name}", name, *found))
    return sorted(written, key=lambda text: text.split("\n", 1)[0].rpartition(".")[2][0].isupper())


def page() -> str:
    """Write the whole page."""
    seen: set[tuple[str, str]] = set()
    parts = [OPENING]
    for module in MODULES:
        opening = textwrap.wrap(first_sentence(ast.get_docstring(tree_of(module)) or ""), WIDTH)
        parts += ["\n".join([f"## {module}", "", *opening, ""]), *entries(module, seen)]
        if module == "r2b":
            parts.append(options())
    parts.append("## What functions return\n\nClasses that are never called by name: functions and attributes return them.\n")
    return "\n".join([*parts, *(entry(name, name, *internal(name)) for name in RETURNED)])


def main(arguments: list[str] | None = None) -> int:
    """Write or check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is not what would be written")
    check = parser.parse_args(arguments).check
    made = page()
    stale = not PAGE.exists() or PAGE.read_text(encoding="utf-8") != made
    if stale and check:
        print(f"{PAGE.relative_to(ROOT)} is not what the sources give: run python scripts/make_reference_page.py", file=sys.stderr)
    elif stale:
        PAGE.write_text(made, encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
