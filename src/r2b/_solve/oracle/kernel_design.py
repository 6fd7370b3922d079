"""The loops of the compiled kernel for rows that count in several groups: shifts by the design, and sums by it.

As in ``kernel_loops``, written as vector instructions. The tuple of rows has the design (flat) where others have the groups,
and prices without infinities: parts of 0 times infinity would be no number.
"""

from __future__ import annotations

from typing import Any

from r2b._solve.oracle.kernel_loops import own_weight
from r2b._solve.oracle.kernel_vectors import GROUPS, LABELS, LEVELS, PRICES, ROOM, Writer

DESIGN = GROUPS  # its place in the tuple


def design_loops() -> tuple[Any, Any]:
    """Make the loops, as functions that compiled code can call: spread, gather.

    Raises
    ------
    ImportError
        numba is not installed.
    """
    from numba import types
    from numba.extending import intrinsic

    kinds: Any = types

    @intrinsic  # type: ignore[untyped-decorator, unused-ignore]
    def spread(typing: Any, rows: Any, first: Any, last: Any, n_groups: Any, out: Any) -> Any:
        """Write ``y - b nu`` of some rows from the start of ``out``, whole chunks for each; labels may be codes of classes."""
        return kinds.float64(rows, first, last, n_groups, out), _spread

    @intrinsic  # type: ignore[untyped-decorator, unused-ignore]
    def gather(typing: Any, tile: Any, n_rows: Any, first: Any, n_groups: Any, design: Any, weight: Any, each: Any, sums: Any) -> Any:
        """Add ``w * each`` of what lies above the levels of a tile to the sums of every group, by the design of rows from ``first`` on.

        Gives the sum of ``w * each`` of its squared lengths, and that of ``w`` times the levels.
        """
        given = kinds.UniTuple(kinds.float64, 2)
        return given(tile, n_rows, first, n_groups, design, weight, each, sums), _gather

    return spread, gather


def _spread(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    writer = Writer(context, builder, signature, values)
    first, last, n_groups, _ = writer.values[-4:]
    out, room = len(writer.values) - 1, writer.values[ROOM]
    coded = isinstance(context.get_value_type(writer.types[LABELS].dtype), writer.ir.IntType)
    with writer.rows(first, last) as row:
        start, mine = writer.row_start(row), builder.mul(row, n_groups)
        place = builder.mul(builder.sub(row, first), room)
        with writer.chunks() as chunk:
            kept = writer.keep(0.0)
            builder.store(writer.nothing if coded else writer.load(LABELS, start, chunk), kept)
            with writer.codegen.for_range(builder, n_groups) as loop:
                part = writer.spread(writer.number(DESIGN, builder.add(mine, loop.index)))
                price = writer.load(PRICES, builder.mul(loop.index, room), chunk)
                builder.store(builder.fsub(builder.load(kept), writer.mul(part, price)), kept)
            writer.store(builder.load(kept), out, place, chunk)
        if coded:
            code = writer.number(LABELS, row)
            code = code if code.type == writer.whole else builder.zext(code, writer.whole)
            entry = writer.pointer(out, place, code)
            builder.store(builder.fadd(builder.load(entry), writer.double(1.0)), entry)
    return writer.double(0.0)


def _gather(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    writer = Writer(context, builder, signature, values)
    n_rows, first, n_groups, _, _, each, _ = writer.values[-7:]
    design, weight, sums = (len(writer.values) - back for back in (4, 3, 1))
    room = writer.values[ROOM]
    squares, lifted = writer.keep(0.0), writer.keep(0.0, lanes=1)
    with writer.rows(writer.whole(0), n_rows) as row:
        here = builder.add(first, row)
        own, height = own_weight(writer, weight, here), writer.number(LEVELS, row)
        level, scale = writer.spread(height), writer.spread(builder.fmul(own, each))
        writer.grow(lifted, builder.fmul(own, height))
        start, mine = writer.row_start(row), builder.mul(here, n_groups)
        with writer.chunks() as chunk:
            above = writer.positive(builder.fsub(writer.shifted(start, writer.whole(0), chunk), level))
            scaled = writer.mul(scale, above)
            writer.grow(squares, writer.mul(scaled, above))
            with writer.codegen.for_range(builder, n_groups) as loop:
                part = writer.spread(writer.number(design, builder.add(mine, loop.index)))
                writer.add_to(writer.mul(part, scaled), sums, builder.mul(loop.index, room), chunk)
    return context.make_tuple(builder, signature.return_type, [writer.total(squares), builder.load(lifted)])
