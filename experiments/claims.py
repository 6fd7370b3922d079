"""Every claim sentence of sections 4 and 5 and of the appendix, with a verdict that is computed from the results files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from experiments.experiment import Row
from experiments.tables import markdown

Results = Mapping[str, Sequence[Row]]
"""The rows of every experiment that was run, by its name."""

HOLDS, PARTLY, FAILS, UNTESTED = "holds", "holds in part", "does not", "not testable here"
NOT_RUN: Final = "not run"


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
    where : str
        Section, table or figure.
    sentence : str
        In the paper's words, shortened where marked.
    judge : callable
        From the rows of ``sources`` to a finding.
    sources : tuple of str
        The experiments that it is judged by; none for what no experiment here can tell.
    """

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


def counted(found: int, total: int, words: str) -> Finding:
    """Judge by a count: all, some or none.

    Examples
    --------
    >>> counted(3, 4, "of the settings").verdict, counted(0, 4, "").verdict
    ('holds in part', 'does not')
    """
    verdict = HOLDS if found == total else PARTLY if found else FAILS
    return Finding(verdict, f"{found} of {total} {words}")


def judged(holds: bool, words: str, *, partly: bool = False) -> Finding:
    """Judge by a condition, with a weaker one for a claim that holds in part."""
    return Finding(HOLDS if holds else PARTLY if partly else FAILS, words)


def untested(words: str) -> Callable[[Results], Finding]:
    """Give the judge of a claim that no experiment here can tell."""
    return lambda results: Finding(UNTESTED, words)


def all_claims() -> tuple[Claim, ...]:
    """List the claims in the order of the paper."""
    from experiments.claims_appendix import CLAIMS as APPENDIX
    from experiments.claims_real import CLAIMS as REAL
    from experiments.claims_synthetic import CLAIMS as SYNTHETIC

    return (*SYNTHETIC, *REAL, *APPENDIX)


_WORDS: Final = """\
Sections 4 and 5 and the appendix of the paper, sentence by sentence (definitions, citations and descriptions of a set-up left out). The
verdicts are computed from the results files by `experiments/claims_*.py`: *holds* where the rows say so in every case that the sentence
speaks of, *holds in part* where they do in some, *does not* where they do in none, *not testable here* where the data or the machine could
not be had or the sentence is about a definition. R2B is the paper's: 100 rounds, tau 0.5, the mean free; where the published form, mean
pinned, differs, it is said."""


def section(results: Results) -> str:
    """Write the table of claims."""
    body, verdicts = [], []
    for claim in all_claims():
        found = claim.finding(results)
        verdicts.append(found.verdict)
        files = ", ".join(f"`{name}`" for name in claim.sources)
        # A bar would end the cell.
        body.append(
            [
                text.replace("|", "\\|")
                for text in (
                    claim.where,
                    claim.sentence,
                    f"**{found.verdict}**",
                    found.evidence,
                    files,
                )
            ]
        )
    kinds = [
        f"{verdicts.count(kind)} {kind}"
        for kind in (HOLDS, PARTLY, FAILS, UNTESTED, NOT_RUN)
        if kind in verdicts
    ]
    head = ["where", "the paper says", "verdict", "what the rows say", "results"]
    return f"## The paper's claims, one by one\n\n{_WORDS}\n\nOf {len(verdicts)} claims: {', '.join(kinds)}.\n\n{markdown(head, body)}"
