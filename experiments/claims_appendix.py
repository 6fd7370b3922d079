"""Claims of the appendix: the cartoon, normalising, bins, class numbers, propositions, time."""

from __future__ import annotations

from typing import Final

from experiments.appendix_balance import CLASSES as BALANCED
from experiments.appendix_balance import SIZES as BALANCED_SIZES
from experiments.appendix_balance import constant
from experiments.appendix_classes import order
from experiments.appendix_time import PAPER_SECONDS, STEPS, exponent, median_time
from experiments.claims import (
    UNTESTED,
    Claim,
    Finding,
    Results,
    counted,
    judged,
    untested,
)
from experiments.claims_real import competitive
from experiments.claims_synthetic import hidden
from experiments.convergence import cases
from experiments.guarantee import COUNTEREXAMPLE
from experiments.normalising import largest
from experiments.rounds import CLOSE, off_by
from experiments.synthetic import LEARNERS
from experiments.tables import cell, chosen


def _figure(results: Results) -> Finding:
    found = {row["case"]: row for row in results["appendix_cartoon"]}
    data, before, after = (
        found["data"]["parity"],
        found["figure"]["parity_before_normalising"],
        found["figure"]["parity"],
    )
    holds = (round(data, 9), round(before, 9), round(after, 9)) == (0.75, 0.0, 0.1)
    return judged(
        holds,
        f"{data:g} in the labels, {before:g} in the middle matrix, {after:.3g} after normalising",
    )


def _sub_optimal(results: Results) -> Finding:
    rows = [
        row
        for row in results["normalising"]
        if row["kind"] in ("Adult", "Adult, injected", "labels")
    ]
    brought = sum(row["divided"] > 1e-3 for row in rows)
    most = max(row["divided"] for row in rows)
    return counted(
        brought,
        len(rows),
        "runs on Adult and the synthetic labels have disparity back after dividing, up to"
        f" {100 * most:.1f} %",
    )


def _inequality(results: Results) -> Finding:
    rows = results["normalising"]
    within, printed = (
        sum(row[measure] <= 1e-9 for row in rows)
        for measure in ("change_over_excess", "printed_change_over_excess")
    )
    words = (
        f"after the additive step, {within} of {len(rows)} runs keep to it with 1/n on the left,"
        " which makes the left side the change of a mean. As printed, without 1/n,"
        f" {len(rows) - printed} exceed it: those whose row sums fall short of 1"
    )
    return judged(printed == len(rows), words, partly=within == len(rows))


def _hoeffding(results: Results) -> Finding:
    rows = results["normalising"]
    ratio = sorted(
        row["hoeffding"] / row["sampled_excess"] for row in rows if row["sampled_excess"] > 0
    )
    words = (
        "runs keep to the bound when every entry of H is drawn by itself; it is"
        f" {ratio[len(ratio) // 2]:.0f} times what is seen"
    )
    return counted(sum(row["sampled_excess"] <= row["hoeffding"] for row in rows), len(rows), words)


def _likely(results: Results) -> Finding:
    rows = results["normalising"]
    falls, said = [], []
    for classes in (4, 16, 64):
        found = [
            cell(chosen(rows, kind="labels", method="OST", classes=classes, per_class=n), "divided")
            for n in (1_000, 4_000)
        ]
        falls.append(found[1].mean < found[0].mean - (found[0].half_width or 0.0))
        said.append(f"L = {classes}: {found[0].mean:.1f} to {found[1].mean:.1f} %")
    drawn = largest(rows, "excess", method="OST", kind="Adult, injected")
    words = (
        f"the premise fails: OST's row sums are off by {100 * drawn:.0f} % on Adult at p = 0.5;"
        " disparity after dividing does not fall with "
    )
    return judged(all(falls), f"{words}four times the rows ({'; '.join(said)})", partly=any(falls))


def _equal_mass(results: Results) -> Finding:
    rows = results["appendix_bins"]
    shapes = {(row["size"], row["spread"]) for row in rows}
    better = 0
    for size, spread in shapes:
        mass, width = (
            cell(chosen(rows, size=size, spread=spread, bins=bins), "distance_new_rows")
            for bins in ("equal_mass", "equal_width")
        )
        better += mass.mean < width.mean
    return counted(
        better, len(shapes), "samples have the groups nearer after equal-mass bins, on new rows"
    )


def _three_values(results: Results) -> Finding:
    rows = chosen(results["appendix_bins"], bins="equal_width", spread=0.001)
    values, distance = max(row["values_two_modes"] for row in rows), cell(rows, "distance_new_rows")
    words = (
        f"spread 0.001: the group of two modes keeps {values} values at most; the groups stay"
        f" {distance.text()} % apart"
    )
    return judged(values <= 3 and distance.mean > 40, words)


def _extremes(results: Results) -> Finding:
    ratios = {kind: order(results["appendix_classes"], kind) for kind in ("even", "skewed")}
    grows = [many > 0.9 * few for few, many in ratios.values()]
    words = "; ".join(
        f"{kind} classes {few:.2f} to {many:.2f}" for kind, (few, many) in ratios.items()
    )
    return judged(
        all(grows),
        f"standardised disparity over sqrt(2 log 2L), 4 to 256 classes: {words}",
        partly=any(grows),
    )


def _sparser(results: Results) -> Finding:
    grid = hidden(results)
    falls = []
    for learner in LEARNERS:
        for d in (10, 100):
            for n in (1_000, 2_000, 4_000):
                means = [
                    cell(grid[learner, d, classes, n]["BL"], "parity").mean
                    for classes in (4, 16, 64)
                ]
                falls.append(means[0] > means[1] > means[2])
    return counted(
        sum(falls),
        len(falls),
        "settings have the baseline's disparity fall from 4 to 16 to 64 classes",
    )


def _balance(results: Results) -> Finding:
    found = [
        constant(results["appendix_balance"], classes, size)
        for classes in BALANCED
        for size in BALANCED_SIZES
    ]
    words = (
        f"the mean difference over sqrt(n / L) is {min(found):.2f} to {max(found):.2f} for 4 to 256"
        " classes and 1,000 to 64,000 rows"
    )
    return judged(max(found) < 1.5 * min(found), words)


def _unreliable(results: Results) -> Finding:
    rows = results["appendix_balance"]
    known = [
        cell(chosen(rows, classes=classes, size=4_000), "relative_error").mean
        for classes in BALANCED
    ]
    words = (
        f"4,000 rows: a known difference of one class is measured off by {known[0]:.0f} % of it"
        f" with 4 classes, {known[-1]:.0f} % with 256"
    )
    return judged(known == sorted(known) and known[-1] > 2 * known[0], words)


def _optimal(results: Results) -> Finding:
    rows = [row for row in cases(results["convergence"]) if row["tau"] == 6.0]
    worst = max(row["short_100"] for row in rows)
    words = (
        f"after 100 rounds with tau 6 the squared distance is within {100 * worst:.1g} % of the"
        f" certified optimum in all {len(rows)} cases"
    )
    return judged(worst < 1e-3, f"{words}; tests follow it to 1e-11 over 1,000 rounds with tau 0.5")


def _bound(results: Results) -> Finding:
    rows = results["guarantee"]
    seen = sum(row["parity"] <= row["printed"] for row in rows)
    case = COUNTEREXAMPLE
    words = (
        f"L = R = 2, one fixed f, n_0 = {case.n:,}, disparity {case.disparity:g}, ε = 0, δ ="
        f" {case.delta:g}: the printed bound fails with "
    )
    words += (
        f"probability {case.failure('printed'):.2e} (exact sum), the bound of the proof, with twice"
        " d and twice the root, with "
    )
    words += (
        f"{case.failure('proven'):.0e}. In {seen} of {len(rows)} runs here the printed bound is"
        " above what is seen"
    )
    return judged(case.failure("printed") <= case.delta, words)


def _light(results: Results) -> Finding:
    rows = results["appendix_time"]
    few, many = (
        median_time(rows, labels=labels, size=10_000, solver="rounds")
        for labels in ("class", "soft")
    )
    descent = median_time(rows, labels="soft", size=10_000, solver="sgd")
    words = (
        f"100 rounds on 10,000 rows of 16 classes: {few:.2g} s for class labels, {many:.2g} s for"
        " distributions; by the paper's descent "
    )
    return judged(
        max(few, many) < 1, f"{words}{100 * descent / 60:.0f} minutes on one core", partly=few < 1
    )


def _per_group(results: Results) -> Finding:
    power = exponent(results["appendix_time"], "groups", "rounds")
    return judged(
        power <= 1.1,
        f"time of 100 rounds grows with the power {power:.1f} of the number of groups, 2 to 32",
    )


def _few_rounds(results: Results) -> Finding:
    rows = [row for row in results["rounds"] if row.get("target") is None]
    near = {t: sum(off_by(row, t) <= CLOSE for row in rows) for t in (10, 20, 50, 100)}
    words = ", ".join(f"{found} after {t}" for t, found in near.items())
    return judged(
        near[20] == len(rows),
        f"of {len(rows)} runs within {100 * CLOSE:g} points: {words} rounds",
        partly=near[100] > 0,
    )


def _large_samples(results: Results) -> Finding:
    known = [
        cell(chosen(results["appendix_balance"], classes=64, size=size), "relative_gap").mean
        for size in BALANCED_SIZES
    ]
    words = ", ".join(
        f"{value:.0f} % with {size:,} rows"
        for value, size in zip(known, BALANCED_SIZES, strict=False)
    )
    return judged(
        known == sorted(known, reverse=True) and known[-1] < 10 < known[0],
        f"64 classes: two of them differ by {words}",
    )


def _seconds(results: Results) -> Finding:
    taken = median_time(results["appendix_time"], labels="soft", size=10_000, solver="sgd")
    words = f"{taken / 16:.2g} s per label and round on one CPU core"
    return Finding(
        UNTESTED,
        f"no V100 was at hand; the same {STEPS:,} steps take {words}, the paper's"
        f" {PAPER_SECONDS:g} s",
    )


_N: Final = ("normalising",)
CLAIMS: Final = tuple(
    Claim("appendix", *each)
    for each in (
        (
            "A.1, Figure 1",
            "The bias is 3/4 in Y, none in Ŷ, and 0.1 after normalization",
            _figure,
            ("appendix_cartoon",),
        ),
        ("A.1", "The multi-label approach can be sub-optimal in practice", _sub_optimal, _N),
        (
            "A.2",
            "It seems to perform well in most of the experiments",
            competitive,
            ("adult", "synthetic", "coco", "dermatology"),
        ),
        (
            "A.2",
            (
                "The change in the average predictions before and after normalization [is at most"
                " |1ᵀH1 - n| / n]"
            ),
            _inequality,
            _N,
        ),
        (
            "A.2",
            "p{|1ᵀE1| / n ≥ ε} ≤ 2 exp(-ε²n / 2L²) for a random perturbation E with mean zero",
            _hoeffding,
            _N,
        ),
        (
            "A.2",
            (
                "The multi-label approach is likely to work well when all of the groups have a"
                " large number of training examples … and if debiasing … behaves indeed like a"
                " random perturbation"
            ),
            _likely,
            _N,
        ),
        (
            "B",
            "Equal-mass binning seems to be a better estimator than equal-width binning",
            _equal_mass,
            ("appendix_bins",),
        ),
        (
            "B",
            (
                "the feature value will be mapped to one of three values only … the two"
                " distributions will be different, and the features are no longer unbiased"
            ),
            _three_values,
            ("appendix_bins",),
        ),
        (
            "C, first effect",
            "ε̂ = Θ(sqrt(log L)), which increases (albeit slowly) as the number of classes L grows",
            _extremes,
            ("appendix_classes",),
        ),
        (
            "C, second effect",
            "The level of demographic parity usually decreases as the number of classes increases",
            _sparser,
            ("synthetic",),
        ),
        ("C, third effect", "E|n_k - n_j| = Θ(sqrt(n / L))", _balance, ("appendix_balance",)),
        (
            "C, third effect",
            "The number of examples n should satisfy n ≫ L for classes to be balanced",
            _large_samples,
            ("appendix_balance",),
        ),
        (
            "C, third effect",
            "The estimate of ε might be less reliable if n_k is small",
            _unreliable,
            ("appendix_balance",),
        ),
        (
            "D, Proposition 1",
            "Algorithm 1 terminates with an optimal solution",
            _optimal,
            ("convergence",),
        ),
        (
            "Proposition 2",
            "With a probability of at least 1 - δ: DP(f) ≤ ε + 2τ + 2d + sqrt(log(2LR/δ) / 2n_0)",
            _bound,
            ("guarantee",),
        ),
        (
            "G",
            "R2B is a lightweight preprocessing method because it operates on the labels only",
            _light,
            ("appendix_time",),
        ),
        ("G", "ADMM converges quickly in a few rounds", _few_rounds, ("rounds",)),
        (
            "G",
            "The time complexity for each single label is O(|S|) in each round",
            _per_group,
            ("appendix_time",),
        ),
        (
            "G",
            (
                "Training on a single NVIDIA V100 Tensor Core GPU takes approximately 5s per label"
                " in each round"
            ),
            _seconds,
            ("appendix_time",),
        ),
        (
            "G",
            "Labels can be debiased in parallel in each round",
            untested(
                "by construction: the classes of a round do not know of each other; here they are"
                " solved at once"
            ),
        ),
    )
)
