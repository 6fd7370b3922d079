"""Claims of sections 4 and 4.1: synthetic data, rounds, normalising."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.claims import (
    OTHERS,
    Claim,
    Finding,
    Results,
    counted,
    judged,
    on_synthetic,
    untested,
)
from experiments.convergence import cases
from experiments.experiment import Row
from experiments.figures import spoken
from experiments.normalising import PAPER_AFTER, PAPER_BEFORE, largest
from experiments.rounds import CLOSE, off_by
from experiments.synthetic import LEARNERS, MULTI_LABEL, Grid, grid_of, left_by_remover
from experiments.tables import cell, chosen, higher, lower


def hidden(results: Results) -> Grid:
    """Return the settings in which learners do not see the attribute, as on Adult."""
    return grid_of(chosen(results["synthetic"], attribute="hidden"))


def _stronger(results: Results) -> Finding:
    settings = list(on_synthetic(results))
    won = {
        other: sum(lower(each.difference("R2B", other)) for each in settings) for other in OTHERS
    }
    lost = sum(higher(each.difference("R2B", "DPR")) for each in settings)
    counts = ", ".join(f"than {spoken(other)} in {n}" for other, n in won.items())
    words = (
        f"of {len(settings)} settings, R2B is lower {counts}; DPR, which needs the attribute at"
        f" prediction, is lower than R2B in {lost}"
    )
    labels = min(n for other, n in won.items() if other != "DPR")
    return judged(min(won.values()) == len(settings), words, partly=labels > len(settings) / 2)


def _features(results: Results) -> Finding:
    grid = hidden(results)
    shares = {
        (learner, d): left_by_remover(grid, learner, d) for learner in LEARNERS for d in (10, 100)
    }
    words = "; ".join(
        f"{LEARNERS[learner]}: DPR leaves {100 * shares[learner, 10]:.0f} % of the baseline's"
        f" disparity with 10 features, {100 * shares[learner, 100]:.0f} % with 100"
        for learner in LEARNERS
    )
    poorly = [shares[learner, 100] > 0.9 for learner in LEARNERS]
    return judged(all(poorly), words, partly=any(poorly))


def _can_fail(results: Results) -> Finding:
    settings = list(on_synthetic(results))
    failed = sum(
        any(higher(each.difference(other, "R2B")) for other in MULTI_LABEL) for each in settings
    )
    left, own = (
        max(row["label_parity"] for row in results["synthetic"] if row["method"] in names)
        for names in (MULTI_LABEL, ("R2B",))
    )
    words = (
        f"at least one of them has more disparity than R2B in {failed} of {len(settings)} settings;"
        " their training labels keep up to "
    )
    return judged(
        failed > 2, f"{words}{100 * left:.1f} %, R2B's {100 * own:.2f} %", partly=failed > 0
    )


def _ost(results: Results) -> Finding:
    rows = chosen(results["normalising"], method="OST")
    synthetic, drawn = (
        largest(rows, "divided", kind="labels"),
        largest(rows, "divided", kind="drawn"),
    )
    before = max(row["before"] for row in rows)
    tried = max(row["divided"] for row in rows if row["kind"] != "drawn")
    words = (
        f"before normalising {before:.0e} at most; after it {synthetic:.3f} at most on the paper's"
        f" data, {tried:.3f} on scores, stronger "
    )
    words += (
        f"bias and Adult, {drawn:.3f} on tables drawn at random: bias comes back, but never"
        f" {PAPER_AFTER}"
    )
    return judged(
        synthetic > PAPER_AFTER and before < PAPER_BEFORE,
        words,
        partly=synthetic > PAPER_BEFORE > before,
    )


def _runs(results: Results) -> list[Row]:
    return [row for row in results["rounds"] if row.get("target") is None]


def _fifty(results: Results) -> Finding:
    rows = _runs(results)
    near = sum(off_by(row, 50) <= CLOSE for row in rows)
    worst = max(off_by(row, 50) for row in rows)
    words = (
        f"after 50 rounds {near} of {len(rows)} runs are within {100 * CLOSE:g} points of where"
        " they converge to, the worst "
    )
    return judged(near == len(rows), f"{words}{100 * worst:.1f} points away", partly=near > 0)


def _hundred(results: Results) -> Finding:
    rows, held = _runs(results), chosen(cases(results["convergence"]), tau=0.5)
    near = sum(off_by(row, 100) <= CLOSE for row in rows)
    far = [
        sum(row["short_100"] > 1e-3 for row in chosen(held, target=target))
        for target in ("free", "population")
    ]
    sizes = [len(chosen(held, target=target)) for target in ("free", "population")]
    worst = max(row["short_100"] for row in held)
    words = (
        f"disparity: {near} of {len(rows)} runs within {100 * CLOSE:g} points after 100. Squared"
        " distance: further than 0.1 % from the "
    )
    words += (
        f"optimum in {far[0]} of {sizes[0]} cases with the mean free, {far[1]} of {sizes[1]}"
        f" pinned, {100 * worst:.1f} % at most"
    )
    return judged(near == len(rows) and not sum(far), words, partly=near > 0.9 * len(rows))


def _nothing_added(results: Results) -> Finding:
    fair = [row for row in results["rounds"] if row["round_0"] <= row["epsilon"]]
    free = [row for row in fair if row.get("target") is None]
    pinned = [row for row in fair if row.get("target") is not None]

    def added(rows: Sequence[Row]) -> float:
        return max(
            (row[f"round_{t}"] - row["round_0"] for row in rows for t in (1, 10, 20, 50, 100)),
            default=0.0,
        )

    runs = [f"{sum(added([row]) > 1e-9 for row in rows)} of {len(rows)}" for rows in (free, pinned)]
    words = (
        f"disparity rises above the data's in {runs[0]} runs that begin below epsilon, and in"
        f" {runs[1]} with the mean pinned"
    )
    return judged(bool(free) and added(free) <= 1e-9, words)


def _converges(results: Results) -> Finding:
    rows = _runs(results)
    return counted(
        sum(off_by(row, 100) <= CLOSE for row in rows),
        len(rows),
        f"runs are within {100 * CLOSE:g} points after 100 rounds",
    )


def _overlap(results: Results) -> Finding:
    rows = chosen(results["synthetic"], attribute="hidden")

    def mean(learner: str, method: str, d: int, classes: int) -> float:
        wanted = {"learner": learner, "method": method, "features": d, "classes": classes}
        return cell(chosen(rows, **wanted), "top_1").mean

    cases = [(learner, method) for learner in LEARNERS for method in ("BL", "R2B")]
    dropped = sum(
        mean(*case, 10, 64) < min(mean(*case, 10, 16), mean(*case, 100, 64)) for case in cases
    )
    words = (
        "cases (learner; BL or R2B) in which 64 classes with 10 features are the least accurate;"
        " kNN "
    )
    few, far = mean("knn", "BL", 10, 64), mean("knn", "BL", 100, 64)
    return counted(dropped, len(cases), f"{words}{few:.0f} against {far:.0f} % with 100 features")


_S = ("synthetic",)
CLAIMS: Final = tuple(
    Claim("synthetic", *each)
    for each in (
        (
            "4",
            "A small gamma in RTO corresponds approximately to a hard-thresholding rule",
            untested("a definition: gamma is the width of the band of scores between 0 and 1"),
        ),
        (
            "4",
            "Existing multiclass approaches cannot be applied for pre-processing",
            untested("about other methods"),
        ),
        (
            "4.1, Figure 2, F",
            "R2B provides a stronger fairness guarantee than the competing methods",
            _stronger,
            _S,
        ),
        (
            "4.1, F",
            "Debiasing the features performs poorly when the number of features is large",
            _features,
            _S,
        ),
        (
            "4.1",
            (
                "One possible explanation: the multivariate distribution function converges more"
                " slowly"
            ),
            untested("an explanation; DPR estimates one feature at a time"),
        ),
        (
            "4.1",
            (
                "The multi-label approach can also fail in several cases, because normalization"
                " impacts bias"
            ),
            _can_fail,
            _S,
        ),
        (
            "4.1",
            (
                "OST reduces DP in the training labels below 0.01, but bias increases to over 0.22"
                " following normalization"
            ),
            _ost,
            ("normalising",),
        ),
        ("4.1, Figure 3", "R2B converges in about 50 ADMM iterations", _fifty, ("rounds",)),
        (
            "3.3, Figure 3",
            "50-100 rounds of ADMM are sufficient to reach convergence",
            _hundred,
            ("rounds", "convergence"),
        ),
        (
            "4.1",
            (
                "When the bias of the data is smaller than ε, the algorithm does not introduce"
                " additional bias"
            ),
            _nothing_added,
            ("rounds",),
        ),
        (
            "F",
            "The bias of the training data converges to the minimum of the original level and ε",
            _converges,
            ("rounds",),
        ),
        (
            "F",
            (
                "The drop in accuracy with 64 classes and 10 features is expected because the"
                " classes overlap"
            ),
            _overlap,
            _S,
        ),
    )
)
