"""Every claim of sections 4, 5 and the appendix, with a verdict that follows from results files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from experiments.experiment import Row
from experiments.paper_numbers import METHODS as PAPER_METHODS
from experiments.synthetic import grid_of
from experiments.tables import MARGIN, Cell, chosen, markdown, paired

Results = Mapping[str, Sequence[Row]]
"""The rows of every experiment that was run, by its name."""

HOLDS, PARTLY, FAILS = "holds", "holds in part", "does not hold"
STAND_IN, UNTESTED, NOT_RUN = "stand-in data", "not tested", "not run"
VERDICTS: Final = {
    HOLDS: "hold",
    PARTLY: "hold in part",
    FAILS: "do not hold",
    STAND_IN: "have stand-in data only",
    UNTESTED: "are not tested",
    NOT_RUN: "were not run",
}
"""Verdicts, and what is said of the claims that have them."""

SECTIONS: Final = {
    "synthetic": "Section 4.1, synthetic data and rounds",
    "real": "Section 4.2, real data",
    "conclusions": "Conclusions of sections 4.2 and 5",
    "appendix": "Propositions and appendix",
}


@dataclass(frozen=True)
class Finding:
    """What rows say of a claim.

    Attributes
    ----------
    verdict : str
    evidence : str
        The numbers, in words.
    """

    verdict: str
    evidence: str


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper.

    Attributes
    ----------
    part : str
        A key of ``SECTIONS``.
    where : str
        Section, table or figure.
    sentence : str
        In the paper's words, shortened where marked.
    judge : callable
        From the rows of ``sources`` to a finding.
    sources : tuple of str
        The experiments that it is judged by; none for what no experiment here can tell.
    """

    part: str
    where: str
    sentence: str
    judge: Callable[[Results], Finding]
    sources: tuple[str, ...] = ()

    def finding(self, results: Results) -> Finding:
        """Judge it, or say that its rows are not there."""
        missing = [name for name in self.sources if not results.get(name)]
        return (
            Finding(NOT_RUN, f"there is no `{missing[0]}.parquet`")
            if missing
            else self.judge(results)
        )


@dataclass(frozen=True)
class Setting:
    """One data set, learner and bias, in which all methods share their splits.

    Attributes
    ----------
    data : str
    name : str
    stand_in : bool
        Whether the data are not the paper's.
    accuracy : str
        The measure of accuracy.
    rows : mapping
        By method.
    """

    data: str
    name: str
    stand_in: bool
    accuracy: str
    rows: Mapping[str, Sequence[Row]]

    def difference(self, one: str, other: str, measure: str = "parity") -> Cell:
        """Return the paired difference of two methods in percentage points, one minus other."""
        return paired(self.rows[one], self.rows[other], measure)


def on_adult(
    results: Results, missing: str | None = None, learners: Sequence[str] = ("rf", "knn")
) -> Iterator[Setting]:
    """Yield the settings of Adult."""
    rows = chosen(results["adult"], missing=missing, features="mixed", repair="columns")
    for p in (0.0, 0.5):
        for learner in learners:
            name = f"{'kNN' if learner == 'knn' else 'forest'}, p = {p:g}"
            yield Setting(
                "Adult", name, False, "top_1", by_method(chosen(rows, p=p, learner=learner))
            )


def on_synthetic(results: Results) -> Iterator[Setting]:
    """Yield the 36 synthetic settings, in which learners do not see the attribute."""
    for key, rows in grid_of(chosen(results["synthetic"], attribute="hidden")).items():
        name = f"{'kNN' if key[0] == 'knn' else 'forest'}, d = {key[1]}, L = {key[2]}"
        yield Setting("synthetic", f"{name}, n = {key[3]:,}", False, "top_1", rows)


def on_stand_ins(results: Results) -> Iterator[Setting]:
    """Yield the settings whose data are not the paper's: photographs and two skin tables."""
    for p in (0.0, 0.5):
        rows = by_method(chosen(results["coco"], p=p))
        yield Setting("COCO", f"COCO, p = {p:g}", True, "tv_accuracy", rows)
    for table, name in (("ham10000", "HAM10000"), ("scin", "SCIN")):
        rows = by_method(chosen(results["dermatology"], table=table, use="scores"))
        yield Setting("dermatology", name, True, "top_1", rows)


def by_method(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Group rows by method."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["method"], []).append(row)
    return found


OTHERS: Final = tuple(method for method in PAPER_METHODS if method != "R2B")


def counted(found: int, total: int, words: str) -> Finding:
    """Judge by a count: all, some or none.

    Examples
    --------
    >>> counted(3, 4, "of the settings").verdict, counted(0, 4, "").verdict
    ('holds in part', 'does not hold')
    """
    verdict = HOLDS if found == total else PARTLY if found else FAILS
    return Finding(verdict, f"{found} of {total} {words}")


def judged(holds: bool, words: str, *, partly: bool = False) -> Finding:
    """Judge by a condition, with a weaker one for a claim that holds in part."""
    return Finding(HOLDS if holds else PARTLY if partly else FAILS, words)


def untested(words: str) -> Callable[[Results], Finding]:
    """Return the judge of a claim that no experiment here can tell."""
    return lambda results: Finding(UNTESTED, words)


def all_claims() -> tuple[Claim, ...]:
    """List the claims in the order of the paper."""
    from experiments.claims_appendix import CLAIMS as APPENDIX
    from experiments.claims_real import CLAIMS as REAL
    from experiments.claims_synthetic import CLAIMS as SYNTHETIC

    return (*SYNTHETIC, *REAL, *APPENDIX)


_WORDS: Final = f"""\
The verdicts follow from the results files. Methods share their splits, so two methods are compared
by their difference within each split: its mean over splits with a 99 % interval by Student's t, in
percentage points. One method is *lower* than another if that interval lies below 0. It is *level*
with another if the interval lies below a margin of {MARGIN:g} point. No correction is made for the
number of comparisons. *Stand-in data* means that the paper's data were not available: the page
reports what other data show, and does not count it. *Disparity* is the paper's DP, of predicted
probabilities on test rows where nothing else is said. R2B has 100 rounds, tau 0.5 and a free
mean."""


def section(results: Results) -> str:
    """Write the tables of claims."""
    findings = [(claim, claim.finding(results)) for claim in all_claims()]
    parts = [f"## The paper's claims\n\n{_WORDS}"]
    for part, title in SECTIONS.items():
        body = []
        for claim, found in findings:
            if claim.part == part:
                texts = (
                    f"{claim.sentence} ({claim.where})",
                    f"**{found.verdict}**",
                    found.evidence,
                )
                # A bar would end the cell.
                body.append([text.replace("|", "\\|") for text in texts])
        parts.append(f"### {title}\n\n{markdown(['the paper', 'verdict', 'the rows'], body)}")
    return "\n\n".join(parts)


def verdict_counts(results: Results) -> str:
    """Say how many claims have each verdict."""
    verdicts = [claim.finding(results).verdict for claim in all_claims()]
    kinds = [
        f"{verdicts.count(kind)} {said}" for kind, said in VERDICTS.items() if kind in verdicts
    ]
    return f"Of {len(verdicts)} claims: {', '.join(kinds)}."
