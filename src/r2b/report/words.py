"""Numbers and sentences, the same in every rendering; made from the facts alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial, wraps
from math import inf
from typing import Any

from r2b._constraints.bounds import BOUNDS as ALL_BOUNDS
from r2b._constraints.families.doubts import FEWEST
from r2b._data.arrays import SAME
from r2b._data.values import directions_kept, directions_shown
from r2b._labels.summary import SHOWN_FAMILIES, format_epsilon
from r2b._labels.summary import counted as plural
from r2b._solve.certificate import PROVEN
from r2b.metrics.chance import format_p_value

MINUS = "\N{MINUS SIGN}"
SPACE = "\N{NO-BREAK SPACE}"
BOUNDS = {name: bound.description for name, bound in ALL_BOUNDS.items()}
WITH_OFFSETS = ", by means with their offsets,"

_RIGHT_TO_LEFT = re.compile(
    "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff"
    "\u200f\u061c]"
)
_JOINER = "\N{ZERO WIDTH JOINER}"
# marks and joiners that belong to the character before
_PART = re.compile("^[\u0300-\u036f\u200d\ufe00-\ufe0f\U0001f3fb-\U0001f3ff]+")
_SMALL_GROUPS = (
    "The means of such a group move far by chance alone. Groups below a smallest size can be "
    "refused, merged or left out."
)
_FORMS = {
    "soft": "as probabilities",
    "expand": "as weighted rows",
    "round": "one class per row, rounded",
    "sample": "one class per row, drawn",
}
_USE = {
    "soft": "Train on the probabilities as they are, or on weighted rows; the most likely class "
    "of each row would undo the work.",
    "expand": "Train on the repeated rows with their weights.",
    "round": "Train on these labels: one class per row, every class count right to within a row.",
    "sample": "Train on these labels. They are drawn, and in parity on average; rounded ones are "
    "closer to it.",
}
_SUPPRESSED = (
    "Of {of:,} cells, {cells:,} are shown as <{below}: those of fewer than {below} rows and, where "
    "a single one of a group or a class would follow from the others, the next smallest too. "
    "A class with such cells shows no difference and no ratio, nor a group how far it is from all. "
    "The largest difference of a family and the shares of all rows count every cell, and beside "
    "the shares that are shown may tell those that are not. So may tables of several families, or "
    "several reports of the same rows, together: look before publishing."
)
_GENERAL = {
    "A difference is not its cause": "Parity compares how often each {noun} is given. It does not "
    "say why groups differ, nor whether a single {noun} is right.",
    "Equal shares may not be what is fair": "If a difference has a reason that should count, "
    "compare within its values (control features) instead of over all rows.",
    "Only what was given was measured": "Other attributes, and finer groups than those listed, "
    "may differ more.",
    "A largest difference is never zero": "It is the largest over all classes and pairs of groups, "
    "so even fair {noun}s show some. That is why chance is shown beside it.",
    "Intervals suppose a sample": "They describe the population from which these rows, or "
    "clusters, were drawn independently, not errors in {noun}s or groups.",
}
_OF_MODEL = {
    "Held-out rows stand for new ones": "If people or their circumstances change, measure again. "
    "Rows that were used to train or to choose the model say nothing here.",
    "Parity is not accuracy": "Equal shares can be reached by decisions that are wrong. Read the "
    "accuracy of every group beside them.",
}
_OF_CHANGE = {
    "Labels are not predictions": "A model trained on fair labels is usually much fairer, but its "
    "predictions must be audited too.",
    "Fair labels are probabilities": "Taking the most likely class of each row would undo the "
    "work. Use soft labels, weighted rows, samples or rounded labels instead.",
}
epsilon = format_epsilon


class Facts(dict[str, Any]):
    """What a report says, as plain values whose parts are read as attributes.

    Examples
    --------
    >>> Facts(change=None, data=Facts(rows=6)).data.rows
    6
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def as_facts(value: Any) -> Any:
    """Return plain values with every dictionary among them as facts."""
    if isinstance(value, dict):
        return Facts({name: as_facts(each) for name, each in value.items()})
    return [*map(as_facts, value)] if isinstance(value, list) else value


def _hidden_kept(write: Callable[..., str]) -> Callable[..., str]:
    """Let a figure that is hidden, because its cell has few rows, stay the text that it is."""

    @wraps(write)
    def written(value: Any, *more: Any) -> str:
        return value if isinstance(value, str) else write(value, *more)

    return written


@_hidden_kept
def number(value: float, digits: int = 1) -> str:
    """Write a number with at least two figures that say something, and a true minus sign.

    Examples
    --------
    >>> number(20.689), number(0.0123), number(0.0), number(1e-9)
    ('20.7', '0.012', '0', '0')
    """
    if abs(value) < 1e-6:
        return "0"
    while digits < 4 and round(abs(value), digits) < 10 ** (1 - digits):
        digits += 1
    written = f"{value:,.{digits}f}".replace("-", MINUS)
    return written if written.strip(f"0.{MINUS}") else "0"


@_hidden_kept
def percent(share: float) -> str:
    """Write a share in percent."""
    return f"{number(100 * share)}{SPACE}%"


@_hidden_kept
def points(difference: float) -> str:
    """Write a difference of shares in percentage points."""
    return f"{number(100 * difference)}{SPACE}points"


@_hidden_kept
def signed(difference: float) -> str:
    """Write a deviation in points with its sign, without the unit.

    Examples
    --------
    >>> signed(0.031), signed(-0.0004), signed(0.0)
    ('+3.1', '0', '0')
    """
    return "0" if abs(difference) < 0.0005 else f"{100 * difference:+.1f}".replace("-", MINUS)


@_hidden_kept
def count(value: float) -> str:
    """Write a number of rows, or a weight; small ones with a decimal."""
    rounded = round(value)
    return f"{rounded:,}" if abs(value - rounded) < 1e-6 or abs(value) >= 100 else number(value)


@_hidden_kept
def moved(weight: float) -> str:
    """Write how much is expected to move: whole numbers where they are large enough.

    Examples
    --------
    >>> moved(1234.5), moved(12.3), moved(1.26), moved(0.02)
    ('1,234', '12', '1.3', '<0.1')
    """
    return f"{weight:,.0f}" if weight >= 9.95 else f"{weight:.1f}" if weight >= 0.05 else "<0.1"


def tiny(value: float) -> str:
    """Write a number that should be nearly nothing."""
    return "0" if value == 0 else f"{abs(value):.0e}"


@_hidden_kept
def ratio(value: float | None) -> str:
    """Write a ratio of shares; a class that no group has, has none."""
    return "none" if value is None else f"{value:.2f}"


def is_short(ratio: float | str | None) -> bool:
    """Tell whether a ratio is below four fifths; labels with this bound may end at it."""
    return isinstance(ratio, float) and ratio < 0.8 - SAME


def p_value(chance: Facts) -> str:
    """Write a p-value with two figures; the least of so many permutations is an upper limit.

    Examples
    --------
    >>> p_value(Facts(p_value=1 / 201, n_permutations=200))
    'at most 0.005'
    """
    return format_p_value(chance.p_value, chance.n_permutations).removeprefix("= ")


def rows_of(n: float | str) -> str:
    """Write a number of rows.

    Examples
    --------
    >>> rows_of(1.0), rows_of(2400)
    ('1 row', '2,400 rows')
    """
    return f"{count(n)} {'row' if n == 1 else 'rows'}"


def shown(value: Any) -> Any:
    """Show characters in a text that turn its direction, instead of obeying them."""
    return directions_kept(value) if type(value) is str else value


def shortened(name: Any, most: int = 60) -> str:
    """Leave out the middle of a long name; the end is kept, since names often differ only there.

    Examples
    --------
    >>> shortened("kept"), shortened("a" * 50 + "z" * 50, 20), shortened(" ")
    ('kept', 'aaaaaaaaaaaa…zzzzzzz', '(blank)')
    """
    text = str(name)
    if not text.strip():
        return "(blank)" if text else "(empty)"
    if len(text) <= most:
        return text
    end = (most - 1) * 2 // 5
    head, tail = text[: most - 1 - end], text[-end:] if end else ""
    return f"{head.rstrip(_JOINER)}\N{HORIZONTAL ELLIPSIS}{_PART.sub('', tail)}"


def isolated(name: Any) -> str:
    """Isolate a name that is written from right to left from what is beside it."""
    text = directions_shown(str(name))
    if not _RIGHT_TO_LEFT.search(text):
        return text
    return f"\N{FIRST STRONG ISOLATE}{text}\N{POP DIRECTIONAL ISOLATE}"


def quoted(name: Any) -> str:
    """Put a class or group in quotation marks."""
    return f"“{isolated(shortened(name))}”"


def family_name(name: str) -> str:
    """Name a family; a column that came without a name has none."""
    return isolated(shortened(name)) if name else "the sensitive attribute"


def member(family: str, group: Any) -> str:
    """Name a group below the name of its family, which need not be said again.

    Examples
    --------
    >>> member("sex", "sex=Male"), member("sex x race", "sex=Male, race=Black")
    ('Male', 'sex=Male, race=Black')
    """
    return str(group).removeprefix(f"{family}=")


def label_of(facts: Facts) -> str:
    """Name the label."""
    return isolated(shortened(facts.label, 40))


def attributes(facts: Facts) -> str:
    """List the sensitive attributes, and within what they are compared."""
    named: dict[str, list[str]] = {"sensitive": [], "control": []}
    for each in facts.data.attributes:
        named[each.role].append(isolated(shortened(each.name or "one attribute", 40)))
    within = f" within {_and(named['control'])}" if named["control"] else ""
    return _and(named["sensitive"]) + within


def _and(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


def unit(facts: Facts) -> str:
    """Return what is counted: rows, or their weight."""
    return "rows" if facts.data.weights is None else "weight"


def kind(facts: Facts) -> str:
    """Name the report."""
    return "Parity report" if facts.model is None else "Model report"


def noun(facts: Facts) -> str:
    """Return what is counted in shares: labels, or the decisions of a model."""
    return "label" if facts.model is None else "decision"


def when(facts: Facts) -> tuple[str, str]:
    """Name the two tables that are compared."""
    if facts.model is not None:
        return "this model", facts.model.plain.name if facts.model.plain else ""
    return "before", made(facts, "after, if made", "after")


def made(facts: Facts, before: str, after: str) -> str:
    """Choose between the words for labels that could be made and for those that were."""
    return before if facts.made is None else after


def is_changed(facts: Facts) -> bool:
    """Tell whether the report is about labels that change."""
    return facts.change is not None and not facts.change.unchanged


def verdict(beyond: bool | None) -> str:
    """Write what chance says of a group."""
    return "not tested" if beyond is None else "beyond chance" if beyond else "within chance"


def title(facts: Facts) -> str:
    """Return what was found in one line."""
    found = facts.headline
    if found is None:
        most = max(facts.audit.continuous, key=lambda each: float(each.explained))
        share, label = percent(most.explained), quoted(most.class_name)
        return f"{_attribute(most)} explains {share} of who is labelled {label}"
    what = noun(facts).capitalize()
    if found.difference < SAME:
        return f"{what}s do not differ between groups"
    if facts.made is not None and is_changed(facts):
        before = number(100 * facts.certificate.disparity_before)
        after = number(100 * facts.made.disparity)
        return (
            f"Labels differed between groups by up to {before} percentage points; "
            f"the fair ones differ by {after}"
        )
    largest = facts.audit.largest
    # small groups may be farther apart
    most = "up to " if largest is None or found.difference >= largest.value - SAME else ""
    far = number(100 * found.difference)
    start = f"{what}s differ between groups by {most}{far} percentage points"
    if facts.model is not None and facts.model.asked:
        return f"{start}; {_asked(facts.model)}"
    if found.verdict == "not tested":
        return start
    if found.verdict == "within chance":
        return f"{start}, no more than chance would show"
    much = "far more" if found.difference >= 2 * found.chance.quantile else "more"
    return f"{start}, {much} than chance explains"


def _asked(model: Facts) -> str:
    """Say for how many groups held-out rows show what a model was asked for."""
    verdicts = [each.verdict for each in model.asked]
    bound = "the bound it was asked for"
    epsilons = {each.epsilon for each in model.asked}
    if len(epsilons) == 1:
        bound = f"the bound of {points(epsilons.pop())}"
    named = list(dict.fromkeys(each.criterion for each in model.asked))
    if named != ["demographic_parity"]:
        bound += f" on {_and([each.replace('_', ' ') for each in named])}"
    # a group is judged several times where rows of every true class are compared
    once = len({each.group for each in model.asked}) == len(verdicts)
    one, several = ("group", "groups") if once else ("comparison", "comparisons")
    if any(each.other for each in model.asked):  # the two groups that differ most
        one, several = "family", "families"
    n = len(verdicts)
    every = plural(n, one, several)
    failed, unclear = (verdicts.count(each) for each in ("not met", "not shown"))
    if failed:
        return f"{bound} is not met for {failed} of {every}"
    if unclear == n:
        return f"there are too few rows to show whether {bound} is met"
    few = f" and not shown for {unclear}" if unclear else ""
    return f"{bound} is met for {n - unclear} of {every}{few}"


def criterion(verdict: Facts) -> str:
    """Name the criterion of a verdict, and the true classes or strata whose rows it compares.

    Examples
    --------
    >>> criterion(Facts(criterion="equalized_odds", family="sex | >50K"))
    'equalized odds | >50K'
    """
    of = verdict.family.partition(" | ")[2]
    name: str = verdict.criterion.replace("_", " ")
    return name if of in ("", "right predictions") else f"{name} | {shortened(of, 40)}"


def promise(found: Facts) -> str:
    """Say what holds for new rows."""
    if found.bound is None:
        return found.said or "No promise can be made from these rows."
    return (
        f"With confidence {100 * found.confidence:g}{SPACE}%, groups of new rows from the same "
        f"population differ by no more than {points(found.bound)} ({found.criterion})."
    )


def bounded_families(asked: Iterable[Facts]) -> set[str]:
    """Return the families that a bound was asked for, of which a criterion names parts.

    Examples
    --------
    >>> sorted(bounded_families([Facts(family="sex"), Facts(family="race | >50K")]))
    ['race', 'race | >50K', 'sex']
    """
    names = {each.family for each in asked}
    return names | {name.partition(" | ")[0] for name in names}


def of_model(facts: Facts) -> str:
    """Say what is known of a model: its promise, accuracy, and what it changes."""
    model, said = facts.model, promise(facts.model.promise)
    bounded = bounded_families(model.asked or ())
    found = [each for each in facts.audit.families if bounded and each.name not in bounded]
    if found:
        most = max(found, key=lambda each: float(each.disparity))
        said += f" Of {family_name(most.name)} no bound was asked; there groups differ by up to "
        said += points(most.disparity) + ("." if most.worst is None else ", some beyond chance.")
    if model.plain is not None:
        changed = percent(model.plain.changed)
        said += f" {changed} of the decisions differ from those of {model.plain.name}."
    return said


def _attribute(each: Facts) -> str:
    return quoted(each.name) if each.name else "The attribute"


def answer(facts: Facts) -> list[dict[str, str]]:
    """Return the figures that a reader looks for first, each with its unit and a note."""
    if facts.made is not None:
        return _answer_of_change(facts)
    more = _answer_if_made(facts) if facts.model is None else _answer_of_model(facts.model)
    return [*_answer_of_audit(facts), *more]


def of_a_pair(facts: Facts) -> bool:
    """Whether the headline is about two groups that are not the farthest apart."""
    chance = facts.headline.chance
    return chance is not None and chance.of == "pair"


def _figure(name: str, figure: str, unit: str, note: str) -> dict[str, str]:
    return {"name": name, "figure": figure, "unit": unit, "note": note}


def _answer_of_change(facts: Facts) -> list[dict[str, str]]:
    proof, change, done, found = facts.certificate, facts.change, facts.made, facts.headline
    kept = "within the bound" if done.excess <= 1e-9 else f"{points(done.excess)} above the bound"
    what = "probabilities" if facts.leaving else "labels"
    closer = f"no {what} within the bound are closer" if change.proven else change.status
    largest = "largest difference"
    if found is not None and of_a_pair(facts):
        largest += ", which chance explains for groups so small,"
    elif found is not None and found.family:
        largest += f" in {family_name(found.family)},"
    before = _disparity(facts, proof.disparity_before)
    after = _disparity(facts, done.disparity)
    note = f"{closer}; relative gap {tiny(proof.relative_gap)}"
    return [
        _figure("Before", *before, f"{largest} in the old labels"),
        _figure("After", *after, f"in the labels returned, {_FORMS[done.form]}; {kept}"),
        _bound(proof),
        _figure("Proof", "holds" if proof.holds else "open", "", note),
    ]


def _disparity(facts: Facts, value: float) -> tuple[str, str]:
    """Write a disparity of shares or, where there are none, a moment; return it and its unit."""
    if facts.headline is None and not facts.audit.families:
        return number(value, 3), "moment"
    return number(100 * value), "points"


def _limited(bound: str, value: float) -> tuple[str, str]:
    """Write what a bound limits, and its unit; a ratio and a moment have none."""
    if bound in ("ratio", "moments"):
        return number(value, 3), ""
    return number(100 * value), "points"


def _bound(proof: Facts) -> dict[str, str]:
    """Say what was asked for: with its unit if it is one number for one kind of bound."""
    families, what = proof.families, "on several bounds"
    bounds = {family.bound for family in families}
    asked = {float(value) for family in families for value in family.epsilon}
    every = families[0].epsilon if len(families) == 1 else proof.epsilon
    figure = epsilon(every), ""
    if len(bounds) == 1:
        bound = bounds.pop()
        what = f"on the {BOUNDS[bound]}"
        if len(asked) == 1 and inf not in asked:
            figure = _limited(bound, asked.pop())
    return _figure("Bound", *figure, what)


def _answer_of_audit(facts: Facts) -> Iterator[dict[str, str]]:
    found, families = facts.headline, facts.audit.families
    if found is None:
        return
    where = f" of {family_name(found.family)}" if found.family else ""
    note = f"largest difference between two groups{where}"
    if of_a_pair(facts):
        note = f"between two groups{where}, the difference farthest beyond chance"
    yield _figure("Found", number(100 * found.difference), "points", note)
    if found.chance is not None:
        note = "at most, in 19 of 20 tables without any difference"
        yield _figure("Chance", number(100 * found.chance.quantile), "points", note)
    if found.interval is not None and facts.model is None:
        low, high = (number(100 * end) for end in found.interval)
        note = f"{number(100 * found.level, 0)} % interval of the difference"
        yield _figure("Interval", f"{low} to {high}", "points", note)
    ratios = [family.ratio for family in families if family.ratio is not None]
    # below a ratio that is hidden there may be none, or any
    hidden = any(isinstance(each, str) for each in ratios)
    if ratios and not hidden and facts.change is None:
        note = "lowest share of a group over the highest; four fifths is 0.8"
        yield _figure("Ratio", ratio(min(ratios)), "", note)


def _answer_if_made(facts: Facts) -> Iterator[dict[str, str]]:
    """Say what labels would have that could be made."""
    if is_changed(facts):
        share = percent(facts.change.expected_changes)
        note = f"if {share} of the labels were changed; none were"
        yield _figure("Possible", *_disparity(facts, facts.certificate.disparity), note)


def _answer_of_model(model: Facts) -> Iterator[dict[str, str]]:
    if isinstance(model.epsilon, (int, float)) and not model.asked:  # else the title says it
        note = "at most, of the model; whether it is met was not tested"
        figure = number(100 * model.epsilon), "points", note
        yield _figure("Asked", *figure)
    if model.promise.bound is not None:
        note = f"at most, for new rows, in {model.promise.criterion}"
        yield _figure("Promise", number(100 * model.promise.bound), "points", note)
    if model.accuracy is not None:
        note = "of the decisions are right"
        if "plain" in model.accuracy:
            note += f"; {model.plain.name}: {percent(model.accuracy.plain)}"
        yield _figure("Accuracy", number(100 * model.accuracy.all), "%", note)


def left_out(facts: Facts) -> list[str]:
    """Say which rows are not counted, and why."""
    return list(_left_out(facts)) or ["None: every row is counted in every family."]


def _left_out(facts: Facts) -> Iterator[str]:
    audit = facts.audit
    for family in audit.families:
        if family.left_out:
            have = "has" if family.left_out == 1 else "have"
            yield f"{rows_of(family.left_out)} {have} no known group of {family_name(family.name)}."
    if audit.left_out > 0:
        kept = made(facts, " and would keep their labels", " and kept their labels")
        share, kept = percent(audit.left_out), kept if facts.change else ""
        yield f"Rows of {share} of the weight are in no group at all{kept}."
    if facts.excluded:
        names, more = ", ".join(map(quoted, facts.excluded[:5])), len(facts.excluded) - 5
        rest = f" and {more:,} more" if more > 0 else ""
        yield f"Groups left out for having too few rows: {names}{rest}."
    if audit.absent:
        many = plural(len(audit.absent), "group does", "groups do")
        yield f"{many} not occur in some value of the control features."


def supposed(audit: Facts) -> str:
    """Say what chance and intervals suppose about the rows."""
    if audit.clusters is not None:
        n = f"{audit.clusters:,}"
        return f"Rows of one cluster count together: {n} clusters are taken as independent."
    return (
        "Every row is taken as independent of all others. If people or annotators have several "
        "rows, chance explains more."
    )


def two_tests(audit: Facts) -> str:
    """Explain the p-value of a family and the verdict on its groups, if they disagree."""
    differ = [family_name(each.name) for each in audit.families if each.verdicts_differ]
    if not differ:
        return ""
    return (
        f"The p-value of {_and(differ)} is of the largest difference between any two groups, and "
        "by chance small groups show a large one. The verdict on a group, and on two, is for "
        "groups of their sizes: it may be another."
    )


def small_groups(audit: Facts) -> str:
    """Say how small the smallest group is, and what can be done; nothing if it has 100 rows."""
    sizes = [
        (rows, group, each.name)
        for each in audit.families
        for rows, group in zip(each.rows, each.groups, strict=True)
    ]
    hidden = [rows for rows, _, _ in sizes if isinstance(rows, str)]
    if hidden:
        said = f"Some groups have fewer than {hidden[0].removeprefix('<')} rows."
    elif not sizes or min(sizes)[0] >= 100:
        return ""
    else:
        rows, group, family = min(sizes)
        smallest = quoted(group) + (f" of {isolated(family)}" if family else "")
        said = f"The smallest, {smallest}, has {rows_of(round(rows))}."
        if audit.small:
            many = plural(len(audit.small), "group has", "groups have")
            said = f"{many} fewer than {FEWEST} rows. {said}"
    return f"{said} {_SMALL_GROUPS}"


def summary(facts: Facts) -> list[str]:
    """Say in a few sentences what differs, by how much, what chance shows, and what can be done."""
    return [*_found(facts), _after(facts)]


def _found(facts: Facts) -> list[str]:
    found = facts.headline
    if found is None:
        return [_of_continuous(each) for each in facts.audit.continuous]
    family = family_name(found.family)
    if found.difference < SAME:
        return [f"Every group of {family} has the same share of each class of {label_of(facts)}."]
    if found.groups is None:
        return [
            "Between which groups, and in which class, is not shown: these cells have too few rows."
        ]
    (high, low), (more, less), (many, few) = found.groups, found.means, found.rows
    have = made(facts, "have", "had") if facts.model is None else "get"
    shares = (
        f"Of {quoted(high)} ({rows_of(many)}), {percent(more)} {have} the {noun(facts)} "
        f"{quoted(found['class'])}; of {quoted(low)} ({rows_of(few)}), {percent(less)}."
    )
    sentences = [f"{shares} {_against_others(facts)}".rstrip()]
    if found.chance is not None:
        start = f"If the {noun(facts)} had nothing to do with the group,"
        often = f"{points(found.chance.quantile)} in 19 of 20 tables"
        sentences.append(
            f"{start} two groups of these sizes would differ by chance, by no more than {often}, "
            "with all groups looked at."
            if of_a_pair(facts)
            else f"{start} no two groups of {family} would differ by chance by more than {often}."
        )
    return sentences


def _against_others(facts: Facts) -> str:
    """Say that nothing differs more, or what does and is no more than chance."""
    found, label = facts.headline, label_of(facts)
    family = next(each for each in facts.audit.families if each.name == found.family)
    n_classes = len(family.classes)
    one, several = ("outcome", "outcomes") if _merged(facts) else ("class", "classes")
    if family.largest and family.disparity > found.difference + SAME:
        (high, low), (more, less) = family.largest.groups, family.largest.rows
        return (
            f"{quoted(high)} ({rows_of(more)}) and {quoted(low)} ({rows_of(less)}) are "
            f"{points(family.disparity)} apart, but chance explains more of it for groups of "
            "these sizes."
        )
    if len(family.groups) > 2:
        where = f"in any of the {n_classes:,} {several} of {label}"
        return f"No two groups of {family_name(found.family)} differ more, {where}."
    return f"In no other {one} of {label} do they differ more." if n_classes > 2 else ""


def _merged(facts: Facts) -> list[Any]:
    """Return the outcomes that are compared; none where they are the classes."""
    families = [*facts.audit.families, *facts.audit.continuous]
    compared = families[0].classes if families else []
    return [] if compared == facts.data.classes else compared


def _of_continuous(each: Facts) -> str:
    explained = f"{percent(each.explained)} of the variance of {quoted(each.class_name)}"
    text = f"{_attribute(each)} explains {explained}, the most of any class."
    if each.chance is None:
        return text
    usual, most = percent(each.chance.mean), percent(each.chance.quantile)
    return f"{text} By chance it would explain {usual}, and less than {most} in 19 of 20 cases."


def _after(facts: Facts) -> str:
    change, found = facts.change, facts.headline
    if facts.model is not None:
        return of_model(facts)
    if change is None:
        return (
            "Nothing was changed. r2b.debias would make the closest labels in parity, and prove "
            "that none are closer."
        )
    if change.unchanged:
        advice = change.advice[0].lower() + change.advice[1:]
        return f"Nothing {made(facts, 'has', 'had')} to change: {advice}"
    own = [
        max(each.measure)
        for each in facts.certificate.families
        if found and each.name == found.family and each.bound == "range"
    ]
    if found is None:
        to = f"a {BOUNDS['moments']} of {number(change.disparity, 3)}"
    elif found.difference < facts.certificate.disparity_before - SAME or not own:
        to = f"a largest difference of {points(change.disparity)}"
    else:
        to = points(own[0])
    proof = "No labels that do so are closer to these, and that is proven."
    proof = proof if change.proven else "That no labels are closer is not proven."
    # The optimum is that of all bounds together: labels that meet one of them may be closer.
    several = len(facts.certificate.families) > 1
    others = " and keeps every other bound that was asked for" if several else ""
    # Labels with one class per row differ from their probabilities, which this sentence is about.
    left = leaving(facts)
    soft, end = ("", "") if left is None else (" as probabilities", f" {left}")
    return (
        f"Changing an expected {percent(change.expected_changes)} of the labels "
        f"{made(facts, 'would bring', 'brought')} this down to {to}{soft}{others}. {proof}{end}"
    )


def leaving(facts: Facts) -> str | None:
    """Say what disparity labels with one class per row have; None for distributions."""
    found = facts.leaving
    if found is None:
        return None
    text = (
        f"The labels returned have one class per row ({found.form}) and a disparity of "
        f"{found.disparity:.4f}; as probabilities it is "
        f"{facts.certificate.disparity:.4f}."
    )
    if found.excess <= PROVEN:
        return text
    why = "whole rows cannot match probabilities exactly"
    if found.form == "sample":
        why = "drawn labels are in parity on average"
    return f"{text} This is {points(found.excess)} above the bound: {why}."


def what_next(facts: Facts) -> str:
    """Say what somebody who reads the report can do now."""
    found = facts.headline
    if found is not None and found.difference < SAME:
        return "Nothing has to be done for these groups. Others, or finer ones, may still differ."
    if facts.model is not None:
        return _next_of_model(facts.model, found)
    if facts.made is not None and is_changed(facts):
        use = _USE[facts.made.form]
        return f"{use} Audit what a model trained on them predicts: labels are not predictions."
    if found is not None and found.verdict == "within chance":
        return (
            "These labels alone give no reason to change them. Look again when there are more rows."
        )
    if facts.change is not None and facts.change.unchanged:
        return "The labels are within what was accepted. To accept less, ask for a smaller epsilon."
    makes = "gives the labels described here"
    makes = makes if facts.change else "makes the closest labels in parity"
    return (
        "First ask whether the difference has a reason that should count. If it has, compare "
        f"within it (control features). If not, r2b debias {makes}; a larger epsilon changes fewer "
        "of them."
    )


def _next_of_model(model: Facts, found: Facts | None) -> str:
    asked = model.asked or []
    if any(each.verdict == "not met" for each in asked):
        return (
            "Do not rely on the bound: train on more rows, merge small groups, or accept a larger "
            "epsilon, and report again."
        )
    if asked and all(each.verdict == "not shown" for each in asked):
        return "Report on more rows: these are too few to show whether the bound is met."
    if not asked and found is not None and found.verdict == "beyond chance":
        return (
            "First ask whether the difference has a reason that should count. If not, the "
            "decisions of a finished classifier can be corrected: in Python, by "
            "ParityPostprocessor."
        )
    return "Measure again when the model, the people it decides about, or the law changes."


def certificate(facts: Facts) -> list[str]:
    """Say what the certificate proves."""
    return [] if facts.certificate is None else list(_proof(facts))


def _proof(facts: Facts) -> Iterator[str]:
    proof, change, left = facts.certificate, facts.change, leaving(facts)
    families, gap = proof.families, tiny(proof.relative_gap)
    if left is not None:
        yield left
    for family in families[:SHOWN_FAMILIES]:
        yield _kept(facts, family)
    if len(families) > SHOWN_FAMILIES:
        within = ", all within their bound" if proof.excess <= 1e-9 else ""
        yield f"And {len(families) - SHOWN_FAMILIES:,} more families{within}."
    if change.proven:
        leaves = f"a relative gap of {gap}, which is rounding" if proof.relative_gap else "no gap"
        yield f"No labels within the bounds are closer: the proof leaves {leaves}."
    else:
        yield f"The optimum is not proven: a relative gap of {gap} is left. {change.advice}"


def _kept(facts: Facts, family: Facts) -> str:
    write = partial(_limited, family.bound)
    (before, _), (after, unit) = write(max(family.measure_before)), write(max(family.measure))
    what = BOUNDS[family.bound] + (WITH_OFFSETS if "offsets" in family else "")
    went = f"{made(facts, 'would go', 'went')} from {before} to {after}{unit and f' {unit}'}"
    change = f"In {family_name(family.name)}, the {what} {went}"
    finite = sorted({float(value) for value in family.epsilon if value != "inf"})
    if not finite:
        return f"{change}; nothing is asked of it."
    asked = " to ".join(dict.fromkeys(write(each)[0] for each in (finite[0], finite[-1])))
    free = ", and some classes are free" if "inf" in family.epsilon else ""
    return f"{change}; epsilon asks for at most {asked}{free}."


def limits_of(facts: Facts) -> list[dict[str, str]]:
    """Say what the report does not: first what is particular to its data, then what is general."""
    more = _OF_CHANGE if is_changed(facts) else _OF_MODEL if facts.model else {}
    limits = {**_particular(facts), **_GENERAL, **more}
    return [
        {"title": title, "text": text.replace("{noun}", noun(facts))}
        for title, text in limits.items()
    ]


def _particular(facts: Facts) -> dict[str, str]:
    found, change, limits = facts.audit, facts.change, {}
    if change is not None and not change.proven:
        limits["The optimum was not reached"] = f"Status: {change.status}. {change.advice}"
    merged, small = _merged(facts), small_groups(facts.audit)
    if merged:
        names = ", ".join(map(quoted, merged[:10])) + (" and more" if len(merged) > 10 else "")
        limits["Outcomes are compared, not classes"] = (
            f"Every share is that of an outcome: {names}. Shares of single classes may differ more."
        )
    if small:
        limits["Some groups are small"] = small
    if facts.doubts:
        doubts = " ".join(doubt.problem for doubt in facts.doubts)
        limits["The data may not be what was meant"] = doubts
    if found.n_permutations or found.n_boot:
        limits["Rows are taken as independent"] = supposed(found)
    if found.left_out > 0 or found.absent:
        limits["Some rows are not compared"] = " ".join(left_out(facts))
    if facts.suppressed is not None:
        limits["Small cells are not shown"] = _SUPPRESSED.format(**facts.suppressed)
    if facts.data.weights is not None:
        limits["Rows are weighted"] = (
            "Shares are shares of weight, not of rows; a row of weight 2 still counts as one "
            "observation when chance is judged."
        )
    return limits
