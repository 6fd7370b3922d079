"""The Python code that does the same: it runs as it is, beside the file."""

from __future__ import annotations

from r2b._files import Table
from r2b.app.choice import PageChoice, is_text

_LAST = {
    "soft": "labels = fair.soft_labels  # one column of probabilities per class, in the order of fair.classes",
    "round": "labels = fair.round(random_state=0)  # one class per row",
    "sample": "labels = fair.sample(random_state=0)  # one class per row; parity holds on average",
    "expand": "rows, labels, weight = fair.expand()  # rows repeated with weights",
}


def code_of(table: Table, choice: PageChoice, form: str, source: str = "file") -> str:
    r"""Write a program that reads the same table and makes the same labels.

    Examples
    --------
    >>> from r2b.app.uploads import read_upload
    >>> table = read_upload("people.csv", b"sex,job\nf,a\nm,b\n", 100)
    >>> print(code_of(table, PageChoice("job", ("sex",), epsilon=0.1), "round"))
    import r2b
    from r2b._files import read_table
    <BLANKLINE>
    table = read_table('people.csv')
    columns = table.columns(['job', 'sex'])
    fair = r2b.debias(
        columns['job'],
        sensitive_features={'sex': columns['sex']},
        epsilon=0.1,
    )
    print(fair)
    labels = fair.round(random_state=0)  # one class per row
    <BLANKLINE>
    """
    lines = _read(table, choice, source)
    lines += ["fair = r2b.debias(", f"    columns[{choice.label!r}],", f"    sensitive_features={_dictionary(choice.sensitive)},"]
    if choice.control:
        lines.append(f"    control_features={_dictionary(choice.control)},")
    if choice.weight is not None:
        weight = f"columns[{choice.weight!r}]"
        lines.append(f"    sample_weight={weight if source == 'adult' else f'as_numbers({weight}, table, {choice.weight!r})'},")
    lines += [f"    {name}={value!r}," for name, value in choice.options().items()]
    lines += [")", "print(fair)", _LAST.get(form, _LAST["soft"])]
    return "\n".join(lines) + "\n"


def _read(table: Table, choice: PageChoice, source: str) -> list[str]:
    if source == "adult":
        return ["import r2b", "from r2b.datasets import load_adult", "", "columns = load_adult().columns"]
    lines = ["import r2b", "from r2b._files import read_table"]
    if choice.weight is not None:
        lines.append("from r2b._files.plain import as_numbers")
    lines += ["", f"table = read_table({table.name!r})", f"columns = table.columns({choice.used!r})"]
    if is_text(table) and any("" in values for values in table.columns(choice.used).values()):
        lines.append("columns = {name: [value or None for value in values] for name, values in columns.items()}  # empty is missing")
    return lines


def _dictionary(names: tuple[str, ...]) -> str:
    return "{" + ", ".join(f"{name!r}: columns[{name!r}]" for name in names) + "}"
