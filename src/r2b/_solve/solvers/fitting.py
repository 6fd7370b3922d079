"""What fits: which methods the size of a problem admits, and which is the fastest of them."""

from __future__ import annotations

import numpy as np

from r2b._data.compute import refuse_beyond_memory
from r2b._data.merge import Extent, Rows
from r2b._solve.certificate import Problem
from r2b._solve.oracle.reference import AnyOracle, GroupOracle
from r2b._solve.solvers.gradients import worthwhile
from r2b._solve.solvers.newton import Newton
from r2b._solve.solvers.systems import layout_of

_INTERIOR_ENTRIES = 20_000_000  # the interior point keeps some ten arrays of this many entries
# prices of groups that share cells: the most that it solves for; those soon solved for
_INTERIOR_UNKNOWNS, FEW_UNKNOWNS = 5_000, 1_000
# of the matrix of all prices of groups that share cells: as folded, scaled, cut to the face,
# factorised
_SYSTEM_COPIES = 5
# beyond this many a pass of the interior point costs more than the steps it saves
_FIRST_ENTRIES = 2_000_000
# below which rows in groups of their own leave the dual so many corners that Newton goes astray
_ROWS_PER_PRICE = 0.3
# Prices whose table takes less than a step of the interior point, and rows for each from which on
# Newton takes fewer steps.
_SOON_MULTIPLIED, _SMOOTH = 600, 10
# rows times pairs of prices, and bands, from which on a few hundred turns are well spent
_SIDED_WORK, _NARROWEST_SIDED = 3e7, 3e-5
# from here on all merged rows go to the interior point first, whose steps hardly grow with the
# classes
_MANY_CLASSES = 50
# entries of rows, and rows times groups, up to which one call for all cells is faster
_SMALL, _SMALL_MEANS = 1 << 14, 1 << 17


def is_small(problem: Problem) -> bool:
    """Whether the rows are few, under the paper's constraint, and its bounds all open or all closed."""
    entries = problem.rows.entries
    if (
        not problem.parity.simple
        or entries > _SMALL
        or problem.n_groups * entries > _SMALL_MEANS * problem.n_classes
    ):
        return False
    epsilon = problem.parity.bound.epsilon
    return bool((epsilon > 0).all() or (epsilon == 0).all())


def matrices_fit(problem: Problem) -> bool:
    """Whether a matrix of the classes for each group does: every method makes them but that on thresholds."""
    return problem.n_groups * problem.n_classes**2 <= _INTERIOR_ENTRIES


def steps_fit(newton: Newton, n_prices: int) -> bool:
    """Whether a step of Newton's costs no more than some of the interior point's: where all prices are joined it makes their table."""
    return newton.parity.by_levels or n_prices <= _INTERIOR_UNKNOWNS


def sides_pay(problem: Problem) -> bool:
    """Whether groups share cells, and a step of theirs costs more than finding out which sides of bands means will lean on.

    In bands that are narrower than that finds out within its turns nearly every mean leans on some
    side.
    """
    parity = problem.parity
    if parity.by_levels or problem.n_prices > FEW_UNKNOWNS or not parity.banded.any():
        return False
    narrowest = min(
        float(member.bound.epsilon[member.bound.epsilon > 0].min(initial=np.inf))
        for member in parity.members
    )
    return (
        narrowest >= _NARROWEST_SIDED
        and problem.rows.entries // problem.n_classes * problem.n_prices**2 >= _SIDED_WORK
    )


def interior_fits(problem: Problem) -> bool:
    """Whether the copies of rows that the interior point keeps, and its systems, are of a size to have."""
    if isinstance(problem.rows, Extent):
        return False  # it keeps copies of the rows, which live elsewhere
    if problem.rows.entries > _INTERIOR_ENTRIES or problem.parity.simple:
        return problem.rows.entries <= _INTERIOR_ENTRIES
    dense = [
        len(component.groups)
        for component in layout_of(problem.parity).components
        if not component.disjoint
    ]
    return max(dense, default=0) * problem.n_classes <= _INTERIOR_UNKNOWNS


def apart_but_many(problem: Problem) -> bool:
    """Whether groups share no cells, and their level or mean joins so many prices that only the interior point can do without a table."""
    parity = problem.parity
    if (
        parity.by_levels
        or parity.design is not None
        or problem.n_prices <= _INTERIOR_UNKNOWNS
        or not interior_fits(problem)
    ):
        return False
    # Of many rows of their own a few steps with the table cost less.
    return problem.rows_in_memory.merged or problem.rows.entries <= _FIRST_ENTRIES


def refuse_large_systems(problem: Problem) -> None:
    """Refuse families that share cells, or a level or mean, where the system of their prices does not fit.

    Raises
    ------
    MemoryLimitError
    """
    if problem.parity.by_levels or problem.n_prices <= FEW_UNKNOWNS or apart_but_many(problem):
        return
    groups, apart = (
        max(len(component) for component in problem.parity.components),
        problem.parity.design is None,
    )
    unknowns = groups * problem.n_classes
    remedy = (
        "Bound the differences between groups (bound='range'), whose system is solved group by group; "
        if apart
        else "Bound crossings no less closely than margins, which they then imply, or ask for families='crossed' alone; "
    )
    joined = "joined by their bound" if apart else "that share rows"
    refuse_beyond_memory(
        _SYSTEM_COPIES * 8 * unknowns**2,
        f"The system for the prices of {groups:,} groups {joined}, in {problem.n_classes:,} classes,",
        remedy=f"{remedy}put small groups together (min_group_size, small_groups='merge'), or rare classes.",
    )


def interior_first(problem: Problem, oracle: AnyOracle) -> bool:
    """Whether the interior point is faster than Newton.

    It is where rows sit in corners of the simplex: there the dual has no curvature, and Newton's
    steps grow with classes and groups, and with the path in lam where that is below 1. With two
    groups, few classes and lam above 1 Newton is done in half the time all the same, and on tables
    that are not small with lam 1 too. Where families share cells the face of the answer is harder
    to find than any system is to solve, and the interior point needs a dozen steps where Newton may
    need hundreds. Rows that all count in parts of their own change sides one after the other: where
    they are more than the prices, the dual is all but smooth, and Newton at home; rows of little
    weight do not smooth it. So it is, below lam 1, of rows that are all different in groups of
    their own, where next to none of them count. Newton's steps take tables of all pairs of prices,
    which the interior point can do without.
    """
    if isinstance(oracle, GroupOracle):
        rows, n_prices = problem.rows_in_memory, problem.n_prices
        if problem.rows.entries > _FIRST_ENTRIES or (
            n_prices <= _SOON_MULTIPLIED and _counting(rows) >= _SMOOTH * n_prices
        ):
            return False
        return _counting(rows) < n_prices or worthwhile(len(rows.cells), n_prices)
    if not problem.parity.simple:
        return problem.rows.entries <= _FIRST_ENTRIES
    rows = problem.rows_in_memory
    if not rows.merged:
        return problem.lam < 1 and few_rows_count(problem)
    if problem.n_classes >= _MANY_CLASSES:
        return True
    return rows.one_hot and (
        problem.n_groups > 2 or problem.lam < 1 or (problem.lam == 1 and is_small(problem))
    )


def few_rows_count(problem: Problem) -> bool:
    """Whether rows of their own are so few beside the prices, or have so little weight, that Newton is there at once or goes astray."""
    if (
        isinstance(problem.rows, Extent)
        or not problem.parity.simple
        or problem.rows.entries > _FIRST_ENTRIES
    ):
        return False
    rows = problem.rows_in_memory
    return not rows.merged and _counting(rows) < _ROWS_PER_PRICE * problem.n_prices


def _counting(rows: Rows) -> float:
    """As many rows as would count alike: fewer than there are where some have most of the weight."""
    return (
        float(len(rows.cells))
        if rows.weight is None
        else float(rows.weight.sum()) ** 2 / float((rows.weight**2).sum())
    )
