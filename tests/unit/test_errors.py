"""Errors carry a code, facts and a remedy; every raise site names its options between backticks."""

from __future__ import annotations

import ast
import inspect
import pickle
import re
from pathlib import Path

import pytest

from r2b import errors
from r2b.cli.options import _OPTIONS
from r2b.cli.output import _ALIASES
from r2b.errors import InputError, MessageWithRemedy, ParameterError, options_in

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "messages.md").read_text(encoding="utf-8")
# A value or `...` after the name of one of our options, outside backticks and calls.
OPTION = re.compile(r"(?<![\w.(`])([a-z]+(?:_[a-z]+)*)=(?:['\"\d\[]|True|False|None|\.\.\.|\x00)")


def classes() -> list[type[MessageWithRemedy]]:
    found = [each for each in vars(errors).values() if inspect.isclass(each)]
    return [
        each
        for each in found
        if issubclass(each, MessageWithRemedy) and each is not MessageWithRemedy
    ]


def text_of(node: ast.expr) -> str:
    """Return a text in the source, with a NUL for every value that is formatted into it."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(each) for each in node.values)
    return "\0" if isinstance(node, ast.FormattedValue) else ""


def remedies() -> list[tuple[str, str]]:
    """Return every text in the source that is passed as a remedy or assigned to one."""
    found = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            values: list[ast.expr] = []
            if isinstance(node, ast.Call):
                values = [each.value for each in node.keywords if each.arg == "remedy"]
            elif isinstance(node, ast.Assign):
                names = [each.id for each in node.targets if isinstance(each, ast.Name)]
                values = [node.value] if "remedy" in names else []
            found += [
                (f"{path.name}:{node.lineno}", text) for value in values for text in texts(value)
            ]
    return found


def texts(node: ast.AST) -> list[str]:
    """Return the whole texts in an expression, not the parts that they are formatted from."""
    if isinstance(node, (ast.JoinedStr, ast.Constant)):
        return [text_of(node)] if text_of(node) else []
    return [text for each in ast.iter_child_nodes(node) for text in texts(each)]


def our_names() -> set[str]:
    """Return the names of all parameters, fields and options."""
    known = {*_ALIASES, *_OPTIONS}
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                known |= {each.arg for each in [*node.args.args, *node.args.kwonlyargs]}
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                known.add(node.target.id)
    return known


def test_options_in_remedies_stand_between_backticks_and_are_ours() -> None:
    assert len(remedies()) > 300
    known, outside, strange = our_names(), [], []
    for place, text in remedies():
        prose = "".join(part for each, part in enumerate(text.split("`")) if each % 2 == 0)
        # calls are code of the user, and not options of ours
        prose = re.sub(r"\([^()]*\)", "", prose)
        outside += [(place, name) for name in OPTION.findall(prose) if name in known]
        options = (name for name, _ in options_in(text))
        strange += [
            (place, name) for name in options if re.fullmatch("[a-z_]+", name) and name not in known
        ]
    assert (outside, strange) == ([], [])


@pytest.mark.parametrize("kind", classes(), ids=lambda kind: kind.__name__)
def test_every_class_and_its_code_are_on_the_page(kind: type[MessageWithRemedy]) -> None:
    assert f"`{kind.__name__}` | `{kind.default_code}` |" in PAGE


def test_every_code_of_a_raise_site_is_on_the_page() -> None:
    codes = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                given = {each.arg: each.value for each in node.keywords}
                code = given.get("code")
                if "remedy" in given and isinstance(code, ast.Constant):
                    codes.add(str(code.value))
    assert codes and not [code for code in codes if f"`{code}`" not in PAGE]


def test_an_error_keeps_code_and_facts_when_it_is_changed_or_sent_to_another_process() -> None:
    error = ParameterError("Odd.", remedy="Pass `k=1`.", code="odd", k=3)
    for again in (pickle.loads(pickle.dumps(error)), error.changed(problem="Odd indeed.")):
        assert type(again) is ParameterError
        assert (again.code, again.facts, again.remedy) == ("odd", {"k": 3}, "Pass `k=1`.")
    assert InputError("Odd.", remedy="").code == "input"
    assert str(error) == "Odd. Pass `k=1`."


def test_an_edge_leaves_out_what_it_has_no_option_for() -> None:
    def words(name: str, value: object) -> str | None:
        return {"y": "the label", "missing": f"--missing {value}"}.get(name)

    error = InputError(
        "In `y`, row 3 is odd. `y` is short.",
        remedy="Pass `missing='group'`. Or call `transform=...`.",
    )
    problem, remedy = error.render(words, "See help.")
    assert problem == "In the label, row 3 is odd. The label is short."
    assert remedy == "Pass --missing group."
    only = InputError("Odd.", remedy="Call `transform=...`, or `missing='group'`.")
    assert only.render(words, "See help.") == ("Odd.", "See help.")
    ticked = InputError("The column 'a`b' is odd.", remedy="Rename it.")
    assert ticked.render(words, "")[0] == "The column 'a`b' is odd."
