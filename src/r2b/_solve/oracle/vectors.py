"""Newton's method for the thresholds of rows, eight numbers at a time, for compiled code to call.

The threshold t of a row v solves ``sum_k max(v_k - t, 0) = lam``. From any start the first step
lands at or below it, and the others climb to it. These loops are written as vector instructions,
because the compiler does not find them: on rows of a few classes its own loops spend more time on
deciding whether vectors may be used than on the rows. Rows lie in a tile of whole vectors, with
minus infinity where there is no class.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

WIDTH = 8

_REORDER = ("reassoc", "contract", "nsz")


def newton_steps() -> tuple[Any, Any]:
    """Make the steps, as functions that compiled code can call: of one row, and of eight rows.

    Raises
    ------
    ImportError
        numba is not installed.
    """
    from numba import types
    from numba.extending import intrinsic

    numbers: Any = types

    @intrinsic  # type: ignore[untyped-decorator, unused-ignore]
    def step(typing: Any, tile: Any, room: Any, row: Any, level: Any, lam: Any) -> Any:
        """Return where a step leads, how many entries were above, and 1.0 if exact."""
        kind = numbers.UniTuple(numbers.float64, 3)
        return kind(tile, room, row, level, lam), _step

    @intrinsic  # type: ignore[untyped-decorator, unused-ignore]
    def step_eight(typing: Any, tile: Any, room: Any, row: Any, levels: Any, lam: Any) -> Any:
        """Take the steps of eight rows from their levels, and return 1.0 if all were exact."""
        return numbers.float64(tile, room, row, levels, lam), _step_eight

    return step, step_eight


class _Writer:
    """Writes instructions on vectors of doubles."""

    def __init__(self, context: Any, builder: Any, signature: Any, values: Any) -> None:
        from llvmlite import ir  # type: ignore[import-not-found, import-untyped, unused-ignore]
        from numba.core import cgutils

        self.codegen: Any = cgutils
        self.ir, self.builder, self.context = ir, builder, context
        self.double, self.whole = ir.DoubleType(), ir.IntType(64)
        self.vector = ir.VectorType(self.double, WIDTH)
        self.types, self.values = signature.args, values
        self.nothing, self.one = self.constant(0.0), self.constant(1.0)

    def constant(self, value: float) -> Any:
        """Return a vector of a number that is known now."""
        return self.ir.Constant(self.vector, [self.ir.Constant(self.double, value)] * WIDTH)

    def spread(self, value: Any) -> Any:
        """Return a vector with the same number in every lane."""
        empty = self.ir.Constant(self.vector, self.ir.Undefined)
        first = self.builder.insert_element(empty, value, self.ir.IntType(32)(0))
        return self.mixed(first, empty, [0] * WIDTH)

    def mixed(self, one: Any, other: Any, lanes: list[int]) -> Any:
        """Pick lanes of two vectors."""
        kind = self.ir.VectorType(self.ir.IntType(32), WIDTH)
        return self.builder.shuffle_vector(one, other, self.ir.Constant(kind, lanes))

    @contextmanager
    def chunks(self) -> Iterator[Any]:
        """Repeat what is written inside for each vector of a row; yields the place of its start."""
        count = self.builder.udiv(self.values[1], self.whole(WIDTH))
        with self.codegen.for_range(self.builder, count) as loop:
            yield self.builder.mul(loop.index, self.whole(WIDTH))

    def pointer(self, array: int, offset: Any) -> Any:
        """Return a pointer to a vector in an argument that is an array."""
        made = self.context.make_array(self.types[array])
        data = made(self.context, self.builder, self.values[array]).data
        place = self.builder.gep(data, [offset])
        return self.builder.bitcast(place, self.vector.as_pointer())

    def chunk(self, row: Any, chunk: Any) -> Any:
        """Read a vector of a row of the tile."""
        start = self.builder.mul(row, self.values[1])
        return self.builder.load(self.pointer(0, self.builder.add(start, chunk)), align=8)

    def keep(self, value: float) -> Any:
        """Make a vector that lasts from chunk to chunk."""
        return self.codegen.alloca_once_value(self.builder, self.constant(value))

    def grow(self, kept: Any, value: Any) -> None:
        """Add to a vector that lasts."""
        old = self.builder.load(kept)
        self.builder.store(self.builder.fadd(old, value, flags=_REORDER), kept)

    def extend(self, kept: Any, value: Any, order: str) -> None:
        """Take lanes into a vector that lasts where they are lower (``<``) or higher (``>``)."""
        old = self.builder.load(kept)
        further = self.builder.fcmp_ordered(order, value, old)
        self.builder.store(self.builder.select(further, value, old), kept)

    def total(self, kept: Any) -> Any:
        """Add up the lanes of a vector that lasts."""
        return self._across("fadd", self.double, [self.double(0.0), self.builder.load(kept)])

    def in_no_lane(self, condition: Any) -> Any:
        """Return 1.0 if a condition holds in no lane, else 0.0."""
        anywhere = self._across("or", self.ir.IntType(1), [condition])
        return self.builder.uitofp(self.builder.not_(anywhere), self.double)

    def _across(self, what: str, result: Any, values: list[Any]) -> Any:
        name = f"llvm.vector.reduce.{what}.v{WIDTH}{'i1' if what == 'or' else 'f64'}"
        kind = self.ir.FunctionType(result, [value.type for value in values])
        function = self.codegen.get_or_insert_function(self.builder.module, kind, name)
        flags = () if what == "or" else _REORDER
        return self.builder.call(function, values, fastmath=flags)


class _Sums:
    """What a step adds up over the entries of its rows."""

    def __init__(self, writer: _Writer, level: Any) -> None:
        self.writer, self.level = writer, level
        self.count, self.total = writer.keep(0.0), writer.keep(0.0)
        self.lowest, self.highest = writer.keep(math.inf), writer.keep(-math.inf)

    def add(self, v: Any) -> None:
        """Take in entries, one for each lane of the level."""
        writer, select = self.writer, self.writer.builder.select
        above = writer.builder.fcmp_ordered(">", v, self.level)
        writer.grow(self.count, select(above, writer.one, writer.nothing))
        writer.grow(self.total, select(above, v, writer.nothing))
        writer.extend(self.lowest, select(above, v, writer.constant(math.inf)), "<")
        writer.extend(self.highest, select(above, writer.constant(-math.inf), v), ">")

    def exact(self, reached: Any) -> Any:
        """Return 1.0 if no entry lies between the old level and the new: supports are the same."""
        builder = self.writer.builder
        lost = builder.fcmp_ordered("<=", builder.load(self.lowest), reached)
        won = builder.fcmp_ordered(">", builder.load(self.highest), reached)
        return self.writer.in_no_lane(builder.or_(lost, won))


def _step(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    writer = _Writer(context, builder, signature, values)
    _, _, row, level, lam = values
    sums = _Sums(writer, writer.spread(level))
    with writer.chunks() as chunk:
        sums.add(writer.chunk(row, chunk))
    count = writer.total(sums.count)
    reached = builder.fdiv(builder.fsub(writer.total(sums.total), lam), count)
    found = [reached, count, sums.exact(writer.spread(reached))]
    return context.make_tuple(builder, signature.return_type, found)


def _step_eight(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    writer = _Writer(context, builder, signature, values)
    _, _, first, _, lam = values
    rows = [builder.add(first, writer.whole(place)) for place in range(WIDTH)]
    place = writer.pointer(3, first)
    sums = _Sums(writer, builder.load(place, align=8))
    with writer.chunks() as chunk:
        for v in _transposed(writer, [writer.chunk(row, chunk) for row in rows]):
            sums.add(v)
    rest = builder.fsub(builder.load(sums.total), writer.spread(lam))
    reached = builder.fdiv(rest, builder.load(sums.count))
    builder.store(reached, place, align=8)
    return sums.exact(reached)


def _transposed(writer: _Writer, rows: list[Any]) -> list[Any]:
    """Transpose eight vectors, so that a lane holds a row and nothing is added across lanes."""
    lanes = range(WIDTH)
    for distance in (1, 2, 4):
        low = [k if not k & distance else (k ^ distance) + WIDTH for k in lanes]
        high = [k | distance if not k & distance else k + WIDTH for k in lanes]
        pairs = {one: (rows[one], rows[one | distance]) for one in lanes if not one & distance}
        rows = [writer.mixed(*pairs[k & ~distance], high if k & distance else low) for k in lanes]
    return rows
