"""The Python code that does the same: it runs as it is, beside the file."""

from __future__ import annotations

from r2b.app.choice import PageChoice
from r2b.engines.files import FileSource


def code_of(table: FileSource, choice: PageChoice, form: str, source: str = "file") -> str:
    r"""Write a program that reads the same table and makes the same labels.

    Examples
    --------
    >>> from r2b.app.uploads import read_upload
    >>> table = read_upload("people.csv", b"sex,job\nf,a\nm,b\n", 100)
    >>> print(code_of(table, PageChoice("job", ("sex",), epsilon=0.1), "round"))
    import r2b
    <BLANKLINE>
    fair = r2b.scan('people.csv').debias(
        'job',
        sensitive_features=['sex'],
        epsilon=0.1,
    )
    print(fair)
    labels = fair.round(random_state=0)  # one class per row
    <BLANKLINE>
    """
    opened = f"r2b.scan({table.name!r})"
    lines = ["import r2b", ""]
    if source == "adult":
        lines, opened = ["import r2b", "from r2b.datasets import load_adult", ""], 'r2b.scan(load_adult(as_frame="pyarrow"))'
    lines += [f"fair = {opened}.debias(", f"    {choice.label!r},", f"    sensitive_features={list(choice.sensitive)!r},"]
    if choice.control:
        lines.append(f"    control_features={list(choice.control)!r},")
    if choice.weight is not None:
        lines.append(f"    sample_weight={choice.weight!r},")
    lines += [f"    {name}={value!r}," for name, value in choice.options().items()]
    lines += [")", "print(fair)", _LAST.get(form, _LAST["soft"])]
    return "\n".join(lines) + "\n"


_LAST = {
    "soft": "labels = fair.soft_labels  # one column of probabilities per class, in the order of fair.classes",
    "round": "labels = fair.round(random_state=0)  # one class per row",
    "sample": "labels = fair.sample(random_state=0)  # one class per row; parity holds on average",
    "expand": "rows, labels, weight = fair.expand()  # rows repeated with weights",
}
