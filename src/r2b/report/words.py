"""Numbers and sentences, the same in every rendering; made from the facts alone."""

from __future__ import annotations

import re
from typing import Any

from r2b._constraints.bounds import BOUNDS as ALL_BOUNDS
from r2b._constraints.families.doubts import FEWEST
from r2b._data.values import directions_kept, directions_shown
from r2b._labels.summary import counted as plural
from r2b._labels.summary import format_epsilon
from r2b._solve.certificate import PROVEN
from r2b.metrics.chance import format_p_value

MINUS = "\N{MINUS SIGN}"
SPACE = "\N{NO-BREAK SPACE}"

_RIGHT_TO_LEFT = re.compile(
    "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff\u200f\u061c]"
)
_JOINER = "\N{ZERO WIDTH JOINER}"
# marks and joiners that belong to the character before
_PART = re.compile("^[\u0300-\u036f\u200d\ufe00-\ufe0f\U0001f3fb-\U0001f3ff]+")
SHOWN_FAMILIES = 12
_NOT_PROVEN = "That no labels are closer is not proven."
_NONE = 1e-12  # a difference this small is a sum of rounding errors

MIN_GROUP_SIZE = "min_group_size refuses, merges or leaves out small groups."
BOUNDS = {name: bound.description for name, bound in ALL_BOUNDS.items()}
_USE = {
    "soft": "Train on the probabilities as they are, or on weighted rows; the most likely class of each row would undo the work.",
    "expand": "Train on the repeated rows with their weights.",
    "round": "Train on the labels that left: one class per row, every class count right to within a row.",
    "sample": "Train on the labels that left. They are drawn, and in parity on average; rounded ones are closer to it.",
}
WITH_OFFSETS = ", by means with their offsets,"
epsilon = format_epsilon


def number(value: float | str, digits: int = 1) -> str:
    """Write a number with at least two figures that say something, and a true minus sign.

    Examples
    --------
    >>> number(20.689), number(0.0123), number(0.0), number(1e-9)
    ('20.7', '0.012', '0', '0')
    """
    if isinstance(value, str):  # left out, because its cell has few rows
        return value
    if abs(value) < 1e-6:
        return "0"
    while digits < 4 and round(abs(value), digits) < 10 ** (1 - digits):
        digits += 1
    written = f"{value:,.{digits}f}".replace("-", MINUS)
    return written if written.strip(f"0.{MINUS}") else "0"


def percent(share: float | str) -> str:
    """Write a share in percent."""
    if isinstance(share, str):  # left out, because its cell has few rows
        return share
    return f"{number(100 * share)}{SPACE}%"


def points(difference: float | str) -> str:
    """Write a difference of shares in percentage points."""
    if isinstance(difference, str):  # left out, because its cell has few rows
        return difference
    return f"{number(100 * difference)}{SPACE}points"


def signed(difference: float | str) -> str:
    """Write a deviation in points with its sign, without the unit.

    Examples
    --------
    >>> signed(0.031), signed(-0.0004), signed(0.0)
    ('+3.1', '0', '0')
    """
    if isinstance(difference, str):  # left out, because its cell has few rows
        return difference
    return "0" if abs(difference) < 0.0005 else f"{100 * difference:+.1f}".replace("-", MINUS)


def count(value: float | str) -> str:
    """Write a number of rows, or a weight; small ones with a decimal."""
    if isinstance(value, str):  # left out, because its cell has few rows
        return value
    rounded = round(value)
    return f"{rounded:,}" if abs(value - rounded) < 1e-6 or abs(value) >= 100 else number(value)


def moved(weight: float | str) -> str:
    """Write how much is expected to move: whole numbers where they are large enough.

    Examples
    --------
    >>> moved(1234.5), moved(12.3), moved(1.26), moved(0.02)
    ('1,234', '12', '1.3', '<0.1')
    """
    if isinstance(weight, str):  # left out, because its cell has few rows
        return weight
    return f"{weight:,.0f}" if weight >= 9.95 else f"{weight:.1f}" if weight >= 0.05 else "<0.1"


def tiny(value: float) -> str:
    """Write a number that should be nearly nothing."""
    return "0" if value == 0 else f"{abs(value):.0e}"


def p_value(chance: dict[str, Any]) -> str:
    """Write a p-value with two figures; the least that so many permutations can give is an upper limit.

    Examples
    --------
    >>> p_value({"p_value": 1 / 201, "n_permutations": 200}), p_value({"p_value": 0.0347, "n_permutations": 200})
    ('at most 0.005', '0.035')
    """
    return format_p_value(chance["p_value"], chance["n_permutations"]).removeprefix("= ")


def rows_of(n: float | str) -> str:
    """Write a number of rows.

    Examples
    --------
    >>> rows_of(1.0), rows_of(2400)
    ('1 row', '2,400 rows')
    """
    return f"{count(n)} {'row' if n == 1 else 'rows'}"


def shown(value: Any) -> Any:
    """Show characters in a text that turn its direction; what is markup has been through this, or is meant for a script or a form."""
    return directions_kept(value) if type(value) is str else value


def shortened(name: Any, most: int = 60) -> str:
    """Leave out the middle of a long name; its end is kept, since names often differ only there. No character is cut in two.

    Examples
    --------
    >>> shortened("kept"), shortened("a" * 50 + "z" * 50, 20)
    ('kept', 'aaaaaaaaaaaa…zzzzzzz')
    """
    text = str(name)
    if len(text) <= most:
        return text
    end = (most - 1) * 2 // 5
    head, tail = text[: most - 1 - end], text[-end:] if end else ""
    return f"{head.rstrip(_JOINER)}\N{HORIZONTAL ELLIPSIS}{_PART.sub('', tail)}"


def isolated(name: Any) -> str:
    """Keep a name that is written from right to left to itself: numbers and signs beside it would change places with it.

    Characters in it that turn the direction of text are shown, not obeyed.
    """
    text = directions_shown(str(name))
    return (
        f"\N{FIRST STRONG ISOLATE}{text}\N{POP DIRECTIONAL ISOLATE}"
        if _RIGHT_TO_LEFT.search(text)
        else text
    )


def family_name(name: str) -> str:
    """Name a family; a column that came without a name has none."""
    return isolated(shortened(name)) if name else "the sensitive attribute"


def label_of(facts: dict[str, Any]) -> str:
    """Name the label."""
    return isolated(shortened(facts["label"], 40))


def attributes(facts: dict[str, Any]) -> str:
    """List the sensitive attributes, and within what they are compared."""
    named: dict[str, list[str]] = {"sensitive": [], "control": []}
    for each in facts["data"]["attributes"]:
        named[each["role"]].append(isolated(shortened(each["name"] or "one attribute", 40)))
    return _and(named["sensitive"]) + (
        f" within {_and(named['control'])}" if named["control"] else ""
    )


def _and(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


def unit(facts: dict[str, Any]) -> str:
    """Say what is counted: rows, or their weight."""
    return "rows" if facts["data"]["weights"] is None else "weight"


def title(facts: dict[str, Any]) -> str:
    """Say in one line what was found."""
    found = facts["headline"]
    if found is None:
        most = max(facts["audit"]["continuous"], key=lambda each: float(each["explained"]))
        return f"{_attribute(most)} explains {percent(most['explained'])} of who is labelled {quoted(most['class_name'])}"
    if found["difference"] < _NONE:
        return "Labels do not differ between groups"
    if facts["made"] is not None and not facts["change"]["unchanged"]:
        return _title_after(facts)
    largest = facts["audit"]["largest"]
    # small groups may be farther apart
    most = "up to " if largest is None or found["difference"] >= largest["value"] - _NONE else ""
    start = f"Labels differ between groups by {most}{number(100 * found['difference'])} percentage points"
    if found["verdict"] == "not tested":
        return start
    if found["verdict"] == "within chance":
        return f"{start}, no more than chance would show"
    far = "far more" if found["difference"] >= 2 * found["chance"]["quantile"] else "more"
    return f"{start}, {far} than chance explains"


def _title_after(facts: dict[str, Any]) -> str:
    before, after = (
        number(100 * facts[part][name])
        for part, name in (("certificate", "disparity_before"), ("made", "disparity"))
    )
    return f"Labels differed between groups by up to {before} percentage points; the fair ones differ by {after}"


def made(facts: dict[str, Any], before: str, after: str) -> str:
    """Choose between what is said of labels that could be made, and of those that were."""
    return before if facts["made"] is None else after


def _attribute(each: dict[str, Any]) -> str:
    return quoted(each["name"]) if each["name"] else "The attribute"


def supposed(facts: dict[str, Any]) -> str:
    """Say what chance and intervals suppose about the rows."""
    n = facts["audit"]["clusters"]
    if n is None:
        return "Every row is taken as independent of all others. Where people or annotators have several rows, chance explains more."
    return f"Rows of one cluster count together: {n:,} clusters are taken as independent of each other."


def two_tests(facts: dict[str, Any]) -> str:
    """Say what the p-value of a family and the verdict on its groups are about, where they point to different sides of chance."""
    differ = [
        family_name(family["name"])
        for family in facts["audit"]["families"]
        if family["verdicts_differ"]
    ]
    if not differ:
        return ""
    return (
        f"The p-value of {_and(differ)} is of the largest difference between any two groups, and by chance small groups show a large one. "
        "The verdict on a group, and on two, is for groups of their sizes: it may be another."
    )


def small_groups(facts: dict[str, Any]) -> str:
    """Say which groups have few rows, and what can be done; nothing where none has."""
    small = facts["audit"]["small"]
    if not small:
        return ""
    family, group, rows = small[0]
    where = f" of {isolated(family)}" if family else ""
    many = plural(len(small), "group has", "groups have")
    return f"{many} fewer than {FEWEST} rows, the smallest, {quoted(group)}{where}, {rows_of(rows)}. {MIN_GROUP_SIZE}"


def quoted(name: Any) -> str:
    """Put a class or group in quotation marks; names may be numbers, empty or whole sentences."""
    return (
        f"\N{LEFT DOUBLE QUOTATION MARK}{isolated(shortened(name))}\N{RIGHT DOUBLE QUOTATION MARK}"
    )


def summary(facts: dict[str, Any]) -> list[str]:
    """Say in a few sentences what is biased, by how much, against what chance would show, and what can be done."""
    return [*_found(facts), *_after(facts)]


def _found(facts: dict[str, Any]) -> list[str]:
    found = facts["headline"]
    if found is None:
        return [_of_continuous(each) for each in facts["audit"]["continuous"]]
    if found["difference"] < _NONE:
        return [
            f"Every group of {family_name(found['family'])} has the same share of each class of {label_of(facts)}."
        ]
    if found["groups"] is None:
        return [
            "Between which groups, and in which class, is not shown: too few rows are in these cells."
        ]
    (high, low), (more, less), (many, few) = found["groups"], found["means"], found["rows"]
    shares = (
        f"Of {quoted(high)} ({rows_of(many)}), {percent(more)} {made(facts, 'have', 'had')} the label {quoted(found['class'])}; "
        f"of {quoted(low)} "
        f"({rows_of(few)}), {percent(less)}."
    )
    sentences = [f"{shares} {_against_others(facts)}".rstrip()]
    if found["chance"] is not None:
        chance = "If the label had nothing to do with the group, two groups of these sizes would differ by chance, by no more than"
        sentences.append(
            f"{chance} {points(found['chance']['quantile'])} in 19 of 20 tables, with all groups looked at."
        )
    return sentences


def _against_others(facts: dict[str, Any]) -> str:
    """Say that nothing differs more, where there is anything else that could; or what does, and is no more than chance."""
    found, n_classes, label = facts["headline"], len(facts["data"]["classes"]), label_of(facts)
    family = next(
        family for family in facts["audit"]["families"] if family["name"] == found["family"]
    )
    n_groups = len(family["groups"])
    if family["disparity"] > found["difference"] + _NONE:
        (high, low), (more, less) = family["largest"]["groups"], family["largest"]["rows"]
        larger = f"{quoted(high)} ({rows_of(more)}) and {quoted(low)} ({rows_of(less)})"
        return f"{larger} are {points(family['disparity'])} apart, but groups of these sizes owe more of it to chance."
    if n_groups > 2:
        return f"No two groups of {family_name(found['family'])} differ more, in any of the {n_classes:,} classes of {label}."
    return f"In no other class of {label} do they differ more." if n_classes > 2 else ""


def _of_continuous(each: dict[str, Any]) -> str:
    explained = f"{percent(each['explained'])} of the variance of {quoted(each['class_name'])}"
    text = f"{_attribute(each)} explains {explained}, the most of any class."
    if each["chance"] is None:
        return text
    usual, most = percent(each["chance"]["mean"]), percent(each["chance"]["quantile"])
    return f"{text} By chance it would explain {usual}, and less than {most} in 19 of 20 cases."


def _after(facts: dict[str, Any]) -> list[str]:
    change = facts["change"]
    if change is None:
        return [
            "Nothing was changed. r2b.debias would make the closest labels in parity, and prove that none are closer."
        ]
    if change["unchanged"]:
        return [
            f"Nothing {made(facts, 'has', 'had')} to change: {change['advice'][0].lower()}{change['advice'][1:]}"
        ]
    found = facts["headline"]
    if found is None:
        to = f"a {BOUNDS['moments']} of {number(change['disparity'], 3)}"
    else:
        to = (
            f"a largest difference of {points(change['disparity'])}"
            if found["after"] is None
            else points(found["after"])
        )
    proof = (
        "No labels that do so are closer to these, and that is proven."
        if change["proven"]
        else _NOT_PROVEN
    )
    # The optimum is that of all bounds together: labels that meet one of them alone may be closer.
    others = (
        " and keeps every other bound that was asked for"
        if len(facts["certificate"]["families"]) > 1
        else ""
    )
    # Whole labels are not where their probabilities are: who reads the first lines alone must know.
    left = leaving(facts)
    soft, end = ("", "") if left is None else (" as probabilities", f" {left}")
    return [
        f"Changing an expected {percent(change['expected_changes'])} of the labels {made(facts, 'would bring', 'brought')} this down to "
        f"{to}{soft}{others}. {proof}{end}"
    ]


def leaving(facts: dict[str, Any]) -> str | None:
    """Say what parity the labels have in the form in which they left; None for distributions, of which the certificate speaks."""
    found = facts["leaving"]
    if found is None:
        return None
    why = (
        "drawn labels are in parity on average"
        if found["form"] == "sample"
        else "whole rows cannot match probabilities exactly"
    )
    beyond = (
        f" This is {points(found['excess'])} above the bound: {why}."
        if found["excess"] > PROVEN
        else ""
    )
    return (
        f"The labels that left have one class per row ({found['form']}) and a parity of {found['disparity']:.4f}; "
        f"as probabilities it is {facts['certificate']['disparity']:.4f}.{beyond}"
    )


def what_next(facts: dict[str, Any]) -> str:
    """Say what somebody who reads the report can do now."""
    found, unchanged = (
        facts["headline"],
        facts["change"] is not None and facts["change"]["unchanged"],
    )
    if found is not None and found["difference"] < _NONE:
        return "Nothing has to be done for these groups. Others, or finer ones, may still differ."
    if facts["made"] is not None and not unchanged:
        return (
            _USE[facts["made"]["form"]]
            + " Audit what a model trained on them predicts: labels are not predictions."
        )
    if found is not None and found["verdict"] == "within chance":
        return (
            "These labels alone give no reason to change them. Look again when there are more rows."
        )
    if unchanged:
        return "The labels are within what was accepted. Where less should be, ask for a smaller epsilon."
    makes = (
        "makes the closest labels in parity"
        if facts["change"] is None
        else "gives the labels described here"
    )
    return (
        "First ask whether the difference has a reason that should count. If it has, compare within it (control features). If not, "
        f"r2b debias {makes}; a larger epsilon changes fewer of them."
    )


def certificate(facts: dict[str, Any]) -> list[str]:
    """Say what the certificate proves, in words."""
    proof, change, left = facts["certificate"], facts["change"], leaving(facts)
    size, more = abs(proof["relative_gap"]), len(proof["families"]) - SHOWN_FAMILIES
    sentences = [
        *([] if left is None else [left]),
        *(_kept(facts, family) for family in proof["families"][:SHOWN_FAMILIES]),
    ]
    if more > 0:
        sentences.append(
            f"And {more:,} more families{', all within their bound' if proof['excess'] <= 1e-9 else ''}."
        )
    if not change["proven"]:
        return [
            *sentences,
            f"The optimum is not proven: a relative gap of {tiny(size)} is left. {change['advice']}",
        ]
    gap = f"a relative gap of {tiny(size)}, which is rounding" if size else "no gap"
    return [*sentences, f"No labels within the bounds are closer: the proof leaves {gap}."]


def _kept(facts: dict[str, Any], family: dict[str, Any]) -> str:
    # A ratio and a moment are not differences of shares, so they are not in points.
    plain = family["bound"] in ("ratio", "moments")

    def in_its_unit(value: float) -> str:
        return number(value, 3) if plain else number(100 * value)

    before, after = (in_its_unit(max(family[name])) for name in ("measure_before", "measure"))
    what = BOUNDS[family["bound"]] + (WITH_OFFSETS if "offsets" in family else "")
    went, unit = made(facts, "would go", "went"), "" if plain else " points"
    change = f"In {family_name(family['name'])}, the {what} {went} from {before} to {after}{unit}"
    finite = sorted({float(value) for value in family["epsilon"] if value != "inf"})
    if not finite:
        return f"{change}; nothing is asked of it."
    asked = " to ".join(dict.fromkeys(map(in_its_unit, (finite[0], finite[-1]))))
    return f"{change}; epsilon asks for at most {asked}{', and some classes are free' if 'inf' in family['epsilon'] else ''}."
