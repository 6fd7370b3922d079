"""Audit and debias real labels, and print what was done and what holds."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import r2b
import r2b.cli
from r2b.datasets import AdultTable
from r2b.metrics import (
    demographic_parity_difference,
    demographic_parity_difference_by_class,
    group_means,
)

WIDTH = 100
REPORT = "adult-report.html"
_SHOWN_CLASSES = 6
_SHOWN_CHANGES = 5

Column = NDArray[np.str_]


@dataclass(frozen=True)
class Question:
    """One audit: its attributes, its epsilon, and the code that asks for it."""

    title: str
    attributes: tuple[str, ...]
    epsilon: float
    typed: str


LEVELS = """level = dict(zip(adult["education"], adult["education-num"]))
rank = {"ordinal": sorted(level, key=level.get)}  # from Preschool to Doctorate
"""
DEBIAS = 'fair = r2b.debias(adult["education"], sensitive_features={}, epsilon=0.01, costs=rank)'
QUESTIONS = (
    Question(
        "Does education differ between women and men?",
        ("sex",),
        0.01,
        LEVELS + DEBIAS.format('adult["sex"]'),
    ),
    Question(
        "And between women and men of each race?",
        ("sex", "race"),
        0.01,
        f'{LEVELS}both = {{"sex": adult["sex"], "race": adult["race"]}}\n{DEBIAS.format("both")}',
    ),
)


def main() -> int:
    """Print the account and write a report; a closed pipe (``head``) is no error."""
    try:
        for line in account():
            print(line)
        path = write_report(Path("r2b-demo"))
        print(f"\nTo check the labels: r2b verify {path.with_name('fair.csv')}")
        print(f"The report, to open in a browser: {path}")
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more on exit; give that flush somewhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def write_report(folder: Path) -> Path:
    """Run the commands that answer the second question, and keep the files that they write.

    Only files of an earlier demo are replaced; a folder with others gets a number.
    """
    adult, question = r2b.datasets.load_adult(), QUESTIONS[-1]
    command = ["debias", "adult.csv", "--label", "education", "--form", "round"]
    command += ["--sensitive", ",".join(question.attributes), "--epsilon", str(question.epsilon)]
    command += ["--costs", f"ordinal={','.join(order_of(adult)['ordinal'])}"]
    command += ["--output", "fair.csv", "--html", REPORT]
    with tempfile.TemporaryDirectory() as scratch:
        with contextlib.chdir(scratch):
            for words in (["datasets", "export", "adult", "adult.csv"], command):
                if r2b.cli.main([*words, "--quiet"]) != 0:
                    raise RuntimeError(f"r2b {' '.join(words)}")
        for number in count(1):
            target = folder.with_name(f"{folder.name}{'' if number == 1 else f'-{number}'}")
            found = list(Path(scratch).iterdir())
            if _is_ours(target, [path.name for path in found]):
                target.mkdir(exist_ok=True)
                for path in found:
                    shutil.copy(path, target)
                return target / REPORT
    raise AssertionError("numbers do not run out")


def _is_ours(folder: Path, names: list[str]) -> bool:
    """Whether a folder holds an earlier demo, or none of these files."""
    if (folder / REPORT).exists():
        return b"Made by r2b" in (folder / REPORT).read_bytes()
    return not any((folder / name).exists() for name in names)


def order_of(adult: AdultTable) -> dict[str, list[str]]:
    """Return the levels of education in their order, as costs of changes."""
    level = dict(zip(adult["education"].tolist(), adult["education-num"].tolist(), strict=True))
    return {"ordinal": sorted(level, key=lambda name: level[name])}


def account() -> Iterator[str]:
    """Yield the whole account, line by line."""
    begun = time.perf_counter()
    adult = r2b.datasets.load_adult()
    y = adult["education"]
    yield (
        f"r2b {r2b.__version__}: the closest labels in demographic parity, with a proof on"
        " every run"
    )
    yield ""
    yield (
        f"Data: Adult, {len(y):,} people of the 1994 census of the United States (UCI, CC BY 4.0)."
    )
    yield (
        f"Label: education, {len(np.unique(y))} classes. Nothing is downloaded; the rows come with"
        " the package."
    )
    yield (
        "Disparity: the largest difference between two groups in the share of a class. 0 is parity."
    )
    yield "Education is ordered: moving a label by one level costs least."
    for number, question in enumerate(QUESTIONS, start=1):
        attributes = {name: adult[name] for name in question.attributes}
        yield from _answer(number, question, adult, attributes)
    yield ""
    yield (
        "Everything above, from reading the file to the last line:"
        f" {time.perf_counter() - begun:.2f} s."
    )


def _answer(
    number: int, question: Question, adult: AdultTable, attributes: dict[str, Column]
) -> Iterator[str]:
    y, order, begun = adult["education"], order_of(adult), time.perf_counter()
    fair = r2b.debias(y, sensitive_features=attributes, epsilon=question.epsilon, costs=order)
    seconds = time.perf_counter() - begun
    yield from ("", f"{number}. {question.title}", "=" * WIDTH)
    yield from _audit(y, attributes, fair)
    yield from ("", "In Python", "    import r2b", "    adult = r2b.datasets.load_adult()")
    yield from (f"    {line}" for line in question.typed.split("\n"))
    yield from ("", f"Result, after {1000 * seconds:.0f} ms (reading, solving and proving)")
    yield from _result(fair)
    yield from (
        "",
        "Certificate, recomputed from the data and the labels; nothing is taken from the solver",
    )
    yield from _certificate(fair)
    yield from ("", "The same labels in four forms, each measured again by r2b.metrics")
    yield from _outputs(y, attributes, fair)


def _audit(y: Column, attributes: dict[str, Column], fair: r2b.FairLabels) -> Iterator[str]:
    found = group_means(y, sensitive_features=attributes)
    gaps = demographic_parity_difference_by_class(y, sensitive_features=attributes).values
    names = [str(name).replace("sex=", "").replace("race=", "") for name in found.groups]
    worst = np.argsort(-gaps, kind="stable")[:_SHOWN_CLASSES]
    small = int(np.argmin(found.weights))
    yield (
        f"{len(found.classes)} classes, {len(names)} groups; the smallest group is {names[small]},"
        f" {found.weights[small]:,.0f} people."
    )
    yield (
        f"Disparity is {_percent(gaps.max())}, at {found.classes[worst[0]]}. The {len(worst)}"
        " classes with the largest gaps:"
    )
    yield ""
    yield (
        f"  {'class':<13} {'lowest group mean':<33} {'highest group mean':<33} {'gap':>7}"
        f" {'after':>7}"
    )
    for k in worst:
        low, high = int(np.argmin(found.means[:, k])), int(np.argmax(found.means[:, k]))
        ends = (f"{100 * found.means[s, k]:4.1f} % {names[s]}" for s in (low, high))
        after = fair.certificate.disparity_by_class[k]
        yield (
            f"  {found.classes[k]:<13} {next(ends):<33} {next(ends):<33} {_percent(gaps[k]):>7}"
            f" {_percent(after):>7}"
        )


def _result(fair: r2b.FairLabels) -> Iterator[str]:
    proof = fair.certificate
    yield f"    status            {fair.status.value}. {fair.status.advice}"
    asked = _percent(proof.epsilon.max())
    yield (
        f"    disparity         {_percent(proof.disparity_before)} before,"
        f" {_percent(proof.disparity)} after (at most {asked} was asked for)"
    )
    yield f"    squared distance  {proof.distance:.6f} per row"
    yield f"    expected changes  {_percent(proof.expected_changes)} of the labels"
    yield (
        "    largest changes   people expected to move, and their share of the group with the old"
        " label"
    )
    for change in fair.largest_changes(_SHOWN_CHANGES):
        yield (
            f"        {change.weight:6.1f}  {100 * change.share:4.1f} %  {change.group}:"
            f" {change.old} -> {change.new}"
        )


def _certificate(fair: r2b.FairLabels) -> Iterator[str]:
    proof = fair.certificate
    yield f"    {'ok' if proof.holds else 'NOT PROVEN':<18}all three numbers below are within 1e-9"
    yield (
        f"    duality gap       {proof.relative_gap:8.1e}  no labels that meet epsilon are better"
        " by more than this share"
    )
    yield f"    above epsilon     {proof.excess:8.1e}  by how much the worst class misses its bound"
    yield (
        f"    probabilities     {proof.simplex_violation:8.1e}  by how much a row is negative or"
        " misses a sum of 1"
    )


def _outputs(y: Column, attributes: dict[str, Column], fair: r2b.FairLabels) -> Iterator[str]:
    soft = fair.soft_labels
    rows, expanded, weight = fair.expand()
    rounded, sampled = fair.round(random_state=0), fair.sample(random_state=0)
    likeliest = fair.classes[soft.argmax(axis=1)]
    sizes = np.sort(group_means(y, sensitive_features=attributes).weights)
    slack = float(1 / sizes[0] + 1 / sizes[1])
    repeated = {name: column[rows] for name, column in attributes.items()}

    def line(form: str, what: str, disparity: float, note: str) -> str:
        return f"    {form:<7} {what:<36} {100 * disparity:7.4f} %  {note}"

    yield f"    {'form':<7} {'what it is':<36} {'disparity':>9}  promised"
    yield line(
        "soft",
        f"{len(soft):,} x {soft.shape[1]} probabilities",
        demographic_parity_difference(soft, sensitive_features=attributes),
        "exact",
    )
    disparity = demographic_parity_difference(
        expanded, sensitive_features=repeated, sample_weight=weight
    )
    yield line("expand", f"{len(rows):,} weighted rows", disparity, "exact")
    disparity = demographic_parity_difference(rounded, sensitive_features=attributes)
    yield line(
        "round", "one class per row, counts kept", disparity, f"within {100 * slack:.4f} % of soft"
    )
    disparity = demographic_parity_difference(sampled, sensitive_features=attributes)
    deviation = float(fair.sampling_deviation.max())
    yield line(
        "sample",
        "one class per row, drawn",
        disparity,
        f"on average; sd of a mean up to {100 * deviation:.2f} %",
    )
    disparity = demographic_parity_difference(likeliest, sensitive_features=attributes)
    changed = int((likeliest != y).sum())
    yield line(
        "argmax", f"the trap: {changed:,} labels changed", disparity, "nothing; r2b never does this"
    )
    yield ""
    yield (
        f"    Argmax gives back {len(y) - changed:,} of {len(y):,} old labels: few rows change"
        " their most probable class."
    )
    yield (
        f"    Whole rows are coarse: in a group of {sizes[0]:,.0f} people one person is"
        f" {_percent(1 / sizes[0])}."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


if __name__ == "__main__":
    sys.exit(main())
