"""The section on Algorithm 1 and the optimum: how near the rounds come, by tau, and what the last step does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.experiment import Row
from experiments.tables import chosen, markdown

ROUNDS: Final = (1, 10, 20, 50, 100)
_FAR: Final = 1e-3

_WORDS: Final = """\
Five tables of labels, five tolerances, the common mean free (as Algorithm 1 is printed) or pinned to the population's (as it was
published). The optimum is that of the same problem, by `r2b.debias`. A case is a table, a tolerance and a target where labels have to
change. `short` is how far the squared distance is from the optimum's, as a share of it: labels that are too near have not paid for parity
yet."""

_PRINTED: Final = """\
### Z as printed

The algorithm returns Z, whose rows add up to 1 but may have entries below 0; the published code sets those to 0 and divides rows by their
sums, and so does `R2B`. With epsilon 0 the two differ in kind: every H has equal group means, step 2(b) takes the same number from all
classes of a row, so Z has equal group means after every round. All disparity that is left at epsilon 0 comes from the last clip and division.
`R2B(output="z")` gives Z itself."""


def section(rows: Sequence[Row]) -> str:
    """Write the section from result rows."""
    return "\n\n".join([_WORDS, _taus(rows), _rounds(rows), _PRINTED, _raw(rows)])


def cases(rows: Sequence[Row], **wanted: object) -> list[Row]:
    """Pick the cases in which labels have to change."""
    return [row for row in chosen(rows, **wanted) if row["short_100"] is not None]


def _taus(rows: Sequence[Row]) -> str:
    taus = sorted({row["tau"] for row in rows})
    lines = [[f"cases further than 0.1 % from the optimum after {t} rounds"] for t in (50, 100)] + [
        ["furthest after 100 rounds, %"]
    ]
    lines += [[f"furthest after 100 rounds, mean {spoken}, %"] for spoken in ("free", "pinned")]
    for tau in taus:
        found = cases(rows, tau=tau)
        for line, t in zip(lines, (50, 100), strict=False):
            line.append(str(sum(row[f"short_{t}"] > _FAR for row in found)))
        parts = [found, *(chosen(found, target=target) for target in ("free", "population"))]
        for line, part in zip(lines[2:], parts, strict=True):
            line.append(f"{100 * max((row['short_100'] for row in part), default=0.0):.2g}")
    n_cases = len(cases(rows, tau=taus[0]))
    head = ["tau", *(f"{tau:g}" for tau in taus)]
    return f"### Which tau\n\nOf {n_cases} cases at each tau:\n\n{markdown(head, lines)}"


def _rounds(rows: Sequence[Row]) -> str:
    body = []
    for table in dict.fromkeys(row["table"] for row in rows):
        for target in ("free", "population"):
            for tau in (0.5, 4.0):
                for row in chosen(rows, table=table, target=target, tau=tau, epsilon=0.0):
                    short = [f"{100 * row[f'short_{t}']:.2g}" for t in ROUNDS]
                    needed = row["rounds_to_a_thousandth"]
                    mean = "free" if target == "free" else "pinned"
                    body.append(
                        [
                            table,
                            mean,
                            f"{tau:g}",
                            *short,
                            f"{100 * row['parity_100']:.2g}",
                            str(needed or "more than 100"),
                        ]
                    )
    head = [
        "table",
        "mean",
        "tau",
        *(f"{t} round{'s' if t > 1 else ''}" for t in ROUNDS),
        "disparity after 100, %",
        "rounds to 0.1 %",
    ]
    return f"### By round, epsilon 0\n\nHow far the squared distance is from the optimum's, in % of it:\n\n{markdown(head, body)}"


def _raw(rows: Sequence[Row]) -> str:
    exact = chosen(rows, epsilon=0.0)
    loose = [row for row in rows if row["epsilon"] > 0]
    over = max(
        (row["raw_parity"] - max(row["epsilon"], row["data_parity"]) for row in loose),
        default=0.0,
    )
    beyond = max((row["raw_parity"] - row["epsilon"] for row in loose), default=0.0)
    return (
        f"Over all {len(exact)} runs with epsilon 0, Z has a disparity of at most {max(row['raw_parity'] for row in exact):.0e} in each of "
        f"the 100 rounds, while the labels that are returned have up to {100 * max(row['parity_100'] for row in exact):.2g} % after the "
        f"last. The lowest entry of a Z after 100 rounds is {min(row['lowest_entry'] for row in rows):.3f}. With epsilon above 0, Z may "
        f"have more disparity than epsilon on the way, by up to {100 * max(0.0, beyond):.1f} points"
        f"{' but never more than the data' if over <= 1e-12 else ''}: step 2(b) mixes classes whose means differ by epsilon."
    )
