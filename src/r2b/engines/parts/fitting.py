"""The basis of a continuous attribute, fitted to rows that live elsewhere: exact quantiles, then sums and triangles that are merged.

Knots are quantiles of the weighted values. Numbers in their order are whole numbers in theirs, so
that a quantile is found by its digits, 16 bits in each pass. The functions are made orthonormal
from the triangle of a QR of each block, which are put together by another QR.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from r2b._constraints.families.fitted import Stratum
from r2b._data.arrays import Array, Flags, Floats
from r2b._data.attributes import ContinuousSettings
from r2b._data.basis import (
    Basis,
    functions_of,
    knot_shares,
    knots_of,
    named,
    names_of,
    orthonormal,
    spline_names,
    times,
)
from r2b._solve.oracle import Block, Blocks
from r2b._solve.oracle.blocks import Summed, Sums, reduced

_BITS = 16
_NOISE = 64 * float(np.finfo(np.float64).eps)
_TOP = np.uint64(1 << 63)


@dataclass(frozen=True, eq=False)
class Fitting:
    """One attribute in one stratum, on the way to its basis.

    Attributes
    ----------
    column : int
        Of the parts.
    cells : ndarray of bool, shape (n_cells,)
        The stratum.
    basis : Basis
        With knots, origin and scale as far as they are known.
    """

    column: int
    cells: Flags
    basis: Basis

    def rows(self, block: Block) -> tuple[Floats, Floats]:
        """Give the values and weights of rows that count."""
        assert block.parts is not None
        values = block.parts[:, self.column]
        weight = np.ones(len(block)) if not len(block.weight) else block.weight
        there = self.cells[block.cells] & np.isfinite(values) & (weight > 0)
        return values[there], weight[there]


def sortable(values: Floats) -> Array:
    """Give whole numbers that are in the order of the numbers, all of them finite.

    Examples
    --------
    >>> values = np.array([-2.5, -0.0, 0.0, 1e-300, 7.0])
    >>> bool((np.diff(sortable(values).astype(object)) >= 0).all()), np.array_equal(unsorted(sortable(values)), values)
    (True, True)
    """
    bits = np.ascontiguousarray(values + 0.0).view(np.uint64)
    return np.asarray(np.where(bits & _TOP, ~bits, bits | _TOP))


def unsorted(whole: Array) -> Floats:
    """Give the numbers back."""
    return np.asarray(np.where(whole & _TOP, whole ^ _TOP, ~whole)).view(np.float64)


@dataclass(frozen=True, eq=False)
class Digits(Summed):
    """Weight by the next digit of the values that begin with given digits.

    Attributes
    ----------
    fittings : tuple of Fitting
    begun : tuple of ndarray of uint64
        For each the digits that are known, several of them.
    shift : int
        Bits below the next digit.
    """

    fittings: tuple[Fitting, ...]
    begun: tuple[Array, ...]
    shift: int

    def __call__(self, block: Block) -> Sums:
        """Look at all rows."""
        found: Sums = []
        for fitting, begun in zip(self.fittings, self.begun, strict=True):
            values, weight = fitting.rows(block)
            whole = sortable(values) >> np.uint64(self.shift)
            before, digit = (
                whole >> np.uint64(_BITS),
                (whole & np.uint64((1 << _BITS) - 1)).astype(np.int64),
            )
            table = np.zeros((len(begun), 1 << _BITS))
            for place, known in enumerate(begun):
                mine = before == known
                table[place] = np.bincount(digit[mine], weight[mine], minlength=1 << _BITS)
            found.append(table)
        return found


def quantiles(
    blocks: Blocks, fittings: Sequence[Fitting], shares: Sequence[Floats]
) -> list[Floats]:
    """Give the least values up to which so much of the weight lies, exactly: one pass for every 16 bits; none where there is no weight."""
    begun = [np.zeros(len(each), np.uint64) for each in shares]
    left = [each.copy() for each in shares]
    for shift in range(64 - _BITS, -1, -_BITS):
        several = [np.unique(each, return_inverse=True) for each in begun]
        tables = reduced(
            blocks, Digits(tuple(fittings), tuple(known for known, _ in several), shift)
        )
        for place, (table, (_, which)) in enumerate(zip(tables, several, strict=True)):
            up_to = np.cumsum(table, axis=1)
            if shift == 64 - _BITS:
                left[place] = left[place] * up_to[0, -1]
            for level, row in enumerate(which):
                digit = int(
                    min(
                        np.searchsorted(up_to[row], left[place][level]),
                        np.flatnonzero(table[row]).max(initial=0),
                    )
                )
                left[place][level] -= up_to[row, digit - 1] if digit else 0.0
                begun[place][level] = (begun[place][level] << np.uint64(_BITS)) | np.uint64(digit)
    return [unsorted(each) for each in begun]


@dataclass(frozen=True, eq=False)
class RawSums:
    """Weight, sums of the raw functions, and their least and largest values; of the values themselves too."""

    fittings: tuple[Fitting, ...]

    def __call__(self, block: Block) -> Sums:
        """Look at all rows."""
        found: Sums = []
        for fitting in self.fittings:
            values, weight = fitting.rows(block)
            raw = np.column_stack([fitting.basis.raw(values), values])
            none = np.full(raw.shape[1], np.inf)
            least, most = (raw.min(axis=0), raw.max(axis=0)) if len(raw) else (none, -none)
            found += [np.append(weight @ raw, weight.sum()), least, most]
        return found

    def merge(self, one: Sums, other: Sums) -> Sums:
        """Add sums, and keep the least and the largest."""
        put = (np.add, np.minimum, np.maximum)
        return [
            put[place % 3](mine, others)
            for place, (mine, others) in enumerate(zip(one, other, strict=True))
        ]


@dataclass(frozen=True, eq=False)
class Triangles:
    """The triangle of a QR of a constant and the functions, each row times the root of its weight."""

    fittings: tuple[Fitting, ...]

    def __call__(self, block: Block) -> Sums:
        """Look at all rows."""
        found: Sums = []
        for fitting in self.fittings:
            values, weight = fitting.rows(block)
            ready = (fitting.basis.raw(values) - fitting.basis.origin) / fitting.basis.scale
            found.append(
                self._triangle(
                    np.sqrt(weight)[:, None] * np.column_stack([np.ones(len(values)), ready])
                )
            )
        return found

    def merge(self, one: Sums, other: Sums) -> Sums:
        """Put two triangles together."""
        return [
            self._triangle(np.concatenate([mine, others]))
            for mine, others in zip(one, other, strict=True)
        ]

    def _triangle(self, rows: Floats) -> Floats:
        return np.asarray(
            np.linalg.qr(np.pad(rows, ((0, max(rows.shape[1] - len(rows), 0)), (0, 0))), mode="r")
        )


def _begin(settings: ContinuousSettings, name: str) -> Basis:
    """Give a basis of which nothing is known but its functions; of a spline with given knots also those."""
    basis, none = settings.basis, np.empty(0)
    if callable(basis) or not isinstance(basis, str):
        functions = functions_of(basis)
        return Basis(
            "functions",
            names_of(functions, name),
            none,
            0,
            (0.0, 0.0),
            none,
            none,
            none,
            none,
            functions,
        )
    if basis == "spline" and np.ndim(settings.knots):
        ends = np.array([0.0, 1.0])
        knots, asked = knots_of(settings.knots, ends, ends, name)
        return Basis(
            "spline",
            spline_names(name, len(knots)),
            knots,
            asked,
            (0.0, 0.0),
            none,
            none,
            none,
            none,
        )
    kind, names = ("spline", ()) if basis == "spline" else ("linear", (named(name, "linear"),))
    return Basis(kind, names, none, 0, (0.0, 0.0), none, none, none, none)  # type: ignore[arg-type]


def fitted_bases(
    blocks: Blocks, wanted: dict[tuple[int, Stratum], tuple[int, Flags, str, ContinuousSettings]]
) -> dict[object, Basis]:
    """Fit bases to all rows.

    Parameters
    ----------
    blocks : Blocks
    wanted : dict
        By attribute and stratum: column of the parts, cells of the stratum, name and settings.

    Returns
    -------
    dict
        By attribute and codes of the stratum; without those whose values are all the same, or that
        have too few for their knots.
    """
    keys = [(attribute, stratum.codes) for attribute, stratum in wanted]
    fittings = [
        Fitting(at, cells, _begin(settings, name)) for at, cells, name, settings in wanted.values()
    ]
    counted = [
        place
        for place, (_, _, _, how) in enumerate(wanted.values())
        if how.basis == "spline"
        and np.ndim(how.knots) == 0
        and isinstance(how.knots, (int, np.integer))
        and int(how.knots) > 1
    ]
    settings = list(wanted.values())
    if counted:
        shares = [knot_shares(int(settings[place][3].knots)) for place in counted]
        for place, found in zip(
            counted, quantiles(blocks, [fittings[each] for each in counted], shares), strict=True
        ):
            knots, name = np.unique(found), settings[place][2]
            if len(knots) > 1 and np.isfinite(knots).all():
                used, asked = (
                    knots_of(knots, knots, np.ones(len(knots)), name),
                    int(settings[place][3].knots),
                )
                basis = replace(
                    fittings[place].basis,
                    knots=used[0],
                    knots_asked=asked,
                    names=spline_names(name, len(used[0])),
                )
                fittings[place] = replace(fittings[place], basis=basis)
    ready = [(key, each) for key, each in zip(keys, fittings, strict=True) if each.basis.names]
    ready = _placed(blocks, ready)
    return _orthonormal(blocks, ready)


def _placed(
    blocks: Blocks, ready: list[tuple[tuple[int, tuple[int, ...]], Fitting]]
) -> list[tuple[tuple[int, tuple[int, ...]], Fitting]]:
    """Find origin and scale of the functions; those that are constant are left out."""
    if not ready:
        return ready
    seen, placed = reduced(blocks, RawSums(tuple(each for _, each in ready))), []
    for place, (key, fitting) in enumerate(ready):
        sums, least, most = seen[3 * place : 3 * place + 3]
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            origin = sums[:-2] / sums[-1]
            scale = np.maximum(most[:-1] - origin, origin - least[:-1])
        # A function of the user's that is constant but for rounding is constant.
        size = (
            np.maximum(np.abs(least[:-1]), np.abs(most[:-1]))
            if fitting.basis.kind == "functions"
            else 0.0
        )
        if (scale > _NOISE * size).all() and np.isfinite(scale).all():
            span = (float(least[-1]), float(most[-1]))
            placed.append(
                (
                    key,
                    replace(
                        fitting,
                        basis=replace(fitting.basis, origin=origin, scale=scale, fitted_range=span),
                    ),
                )
            )
    return placed


def _orthonormal(
    blocks: Blocks, ready: list[tuple[tuple[int, tuple[int, ...]], Fitting]]
) -> dict[object, Basis]:
    if not ready:
        return {}
    found: dict[object, Basis] = {}
    for triangle, (key, fitting) in zip(
        reduced(blocks, Triangles(tuple(each for _, each in ready))), ready, strict=True
    ):
        basis, root = fitting.basis, triangle[0, 0]
        transform = orthonormal(triangle[1:, 1:] / abs(root), basis.names, basis.kind)
        found[key] = replace(
            basis, transform=transform, centre=times(triangle[None, 0, 1:] / root, transform)[0]
        )
    return found
