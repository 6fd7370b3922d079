"""Loops of the compiled kernels for rows that count in several groups: tiles of ``v = y - b nu``, and what is added up from them.

A tile is given as the rows of :class:`r2b._solve.oracle.kernel_vectors.Writer` are: its labels are
v, its prices 0 where there is a class.
"""

from __future__ import annotations

import math
from typing import Any

from r2b._solve.oracle.kernel_loops import gives, own_weight
from r2b._solve.oracle.kernel_vectors import GROUPS, LABELS, LEVELS, PRICES, ROOM, WIDTH, Writer

DESIGN = GROUPS  # its place in the tuple


def design_loops() -> tuple[Any, ...]:
    """Make the loops, as functions that compiled code can call: spread, gather, prove, mark, multiply.

    Raises
    ------
    ImportError
        numba is not installed.
    """
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator, unused-ignore]
    def spread(typing: Any, rows: Any, first: Any, last: Any, n_groups: Any, out: Any) -> Any:
        """Write ``y - b nu`` of some rows from the start of ``out``, whole chunks for each; labels may be codes of classes."""
        return gives(1, rows, first, last, n_groups, out), _spread

    @intrinsic  # type: ignore[untyped-decorator, unused-ignore]
    def gather(
        typing: Any,
        tile: Any,
        n_rows: Any,
        first: Any,
        n_groups: Any,
        design: Any,
        weight: Any,
        each: Any,
        sums: Any,
    ) -> Any:
        """Add ``w * each`` of what lies above the levels of a tile to the sums of every group, by the design of rows from ``first`` on.

        Gives the sum of ``w * each`` of its squared lengths, and that of ``w`` times the levels.
        """
        return gives(2, tile, n_rows, first, n_groups, design, weight, each, sums), _gather

    @intrinsic  # type: ignore[untyped-decorator, unused-ignore]
    def prove(
        typing: Any,
        tile: Any,
        labels: Any,
        n_classes: Any,
        n_rows: Any,
        first: Any,
        n_groups: Any,
        design: Any,
        weight: Any,
        lam: Any,
        sums: Any,
    ) -> Any:
        """Make the answers x of a tile and inspect them; add ``w x`` to the sums of every group.

        Gives, times w and added up: ``<x, g>`` less the least of g with ``g = lam x - v``,
        ``|x|^2``, ``<x, y>``, ``|x - y|^2``, ``|x - y|_1``; and the worst by which an answer is no
        distribution.
        """
        return gives(
            6, tile, labels, n_classes, n_rows, first, n_groups, design, weight, lam, sums
        ), _prove

    @intrinsic  # type: ignore[untyped-decorator, unused-ignore]
    def mark(typing: Any, tile: Any, n_rows: Any, sizes: Any) -> Any:
        """Write 1 into the tile where its rows are above their levels and 0 elsewhere; give how many are, by row."""
        return gives(1, tile, n_rows, sizes), _mark

    @intrinsic  # type: ignore[untyped-decorator, unused-ignore]
    def multiply(
        typing: Any,
        tile: Any,
        n_rows: Any,
        amounts: Any,
        one: Any,
        other: Any,
        table: Any,
        place: Any,
    ) -> Any:
        """Add the products of eight columns of the tile from ``one`` on with eight from ``other`` on, each row times its amount.

        They go into the lines of the table that begin at ``place``, one for each column of the
        first eight.
        """
        return gives(1, tile, n_rows, amounts, one, other, table, place), _multiply

    return spread, gather, prove, mark, multiply


def _coded(writer: Writer, array: int) -> bool:
    return isinstance(writer.context.get_value_type(writer.types[array].dtype), writer.ir.IntType)


def _code(writer: Writer, array: int, row: Any) -> Any:
    code = writer.number(array, row)
    return code if code.type == writer.whole else writer.builder.zext(code, writer.whole)


def _spread(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    writer = Writer(context, builder, signature, values)
    first, last, n_groups, _ = writer.values[-4:]
    out, room = len(writer.values) - 1, writer.values[ROOM]
    coded = _coded(writer, LABELS)
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
            entry = writer.pointer(out, place, _code(writer, LABELS, row))
            builder.store(builder.fadd(builder.load(entry), writer.double(1.0)), entry)
    return writer.double(0.0)


def _add_by_design(
    writer: Writer, amount: Any, design: int, sums: int, mine: Any, n_groups: Any, chunk: Any
) -> None:
    """Add a chunk to the sums of every group, times what the row counts there."""
    builder, room = writer.builder, writer.values[ROOM]
    with writer.codegen.for_range(builder, n_groups) as loop:
        part = writer.spread(writer.number(design, builder.add(mine, loop.index)))
        writer.add_to(writer.mul(part, amount), sums, builder.mul(loop.index, room), chunk)


def _gather(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    writer = Writer(context, builder, signature, values)
    n_rows, first, n_groups, _, _, each, _ = writer.values[-7:]
    design, weight, sums = (len(writer.values) - back for back in (4, 3, 1))
    squares, lifted = writer.keep(0.0), writer.keep(0.0, lanes=1)
    with writer.rows(writer.whole(0), n_rows) as row:
        here = builder.add(first, row)
        own, height = own_weight(writer, weight, here), writer.number(LEVELS, row)
        level, scale = writer.spread(height), writer.spread(builder.fmul(own, each))
        writer.grow(lifted, builder.fmul(own, height))
        start, mine = writer.row_start(row), builder.mul(here, n_groups)
        with writer.chunks() as chunk:
            above = writer.positive(
                builder.fsub(writer.shifted(start, writer.whole(0), chunk), level)
            )
            scaled = writer.mul(scale, above)
            writer.grow(squares, writer.mul(scaled, above))
            _add_by_design(writer, scaled, design, sums, mine, n_groups, chunk)
    return context.make_tuple(
        builder, signature.return_type, [writer.total(squares), builder.load(lifted)]
    )


class _Evidence:
    """What is added up about answers: vectors over all rows, and three numbers of each row."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.amounts = [writer.keep(0.0) for _ in range(4)]
        self.least = writer.keep(math.inf)
        self.slack, self.worst = writer.keep(0.0, lanes=1), writer.keep(0.0, lanes=1)

    def begin(self) -> None:
        """Begin a row."""
        writer = self.writer
        self.paid, self.whole, self.flattest = (
            writer.keep(0.0),
            writer.keep(0.0),
            writer.keep(math.inf),
        )

    def look(self, x: Any, y: Any, gradient: Any, own: Any, inside: Any) -> None:
        """Take in a chunk of a row: answers, labels and the gradient, which is infinite where there is no class."""
        writer, builder = self.writer, self.writer.builder
        apart = builder.fsub(x, y)
        distance = writer.where(
            builder.fcmp_ordered("<", apart, writer.nothing), builder.fsub(y, x), apart
        )
        amounts = (writer.mul(x, x), writer.mul(x, y), writer.mul(apart, apart), distance)
        for kept, amount in zip(self.amounts, amounts, strict=True):
            writer.grow(kept, writer.mul(own, amount))
        writer.grow(self.paid, writer.mul(x, writer.where(inside, gradient, writer.nothing)))
        writer.grow(self.whole, x)
        writer.extend(self.flattest, gradient, "<")
        writer.extend(self.least, x, "<")

    def end(self, own: Any) -> None:
        """Take in what only the whole row tells. Its slack is a difference of its own: of sums of all rows it would be rounding."""
        writer, builder = self.writer, self.writer.builder
        left = builder.fsub(writer.total(self.paid), writer.least(self.flattest))
        writer.grow(self.slack, builder.fmul(own, left))
        off = builder.fsub(writer.total(self.whole), writer.double(1.0))
        off = writer.where(
            builder.fcmp_ordered("<", off, writer.double(0.0)), builder.fneg(off), off
        )
        writer.extend(self.worst, off, ">")

    def results(self) -> list[Any]:
        """Give the six numbers."""
        writer, builder = self.writer, self.writer.builder
        writer.extend(self.worst, builder.fneg(writer.least(self.least)), ">")
        return [
            builder.load(self.slack),
            *(writer.total(kept) for kept in self.amounts),
            builder.load(self.worst),
        ]


def _prove(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    writer = Writer(context, builder, signature, values)
    n_classes, n_rows, first, n_groups, _, _, lam, _ = writer.values[-8:]
    labels, design, weight, sums = (len(writer.values) - back for back in (9, 4, 3, 1))
    coded, each = _coded(writer, labels), writer.spread(builder.fdiv(writer.double(1.0), lam))
    lam, evidence = writer.spread(lam), _Evidence(writer)
    with writer.rows(writer.whole(0), n_rows) as row:
        here = builder.add(first, row)
        own, level = own_weight(writer, weight, here), writer.spread(writer.number(LEVELS, row))
        weighed, evidence_of = writer.spread(own), builder.mul(here, n_classes)
        start, mine = writer.row_start(row), builder.mul(here, n_groups)
        code = _code(writer, labels, here) if coded else None
        evidence.begin()
        with writer.chunks() as chunk:
            v = writer.shifted(start, writer.whole(0), chunk)
            inside = builder.fcmp_ordered(">", v, writer.constant(-math.inf))
            x = writer.mul(each, writer.positive(builder.fsub(v, level)))
            y = (
                writer.one_hot(builder.sub(code, chunk))
                if coded
                else writer.load(labels, evidence_of, chunk)
            )
            y = writer.where(inside, y, writer.nothing)
            evidence.look(x, y, builder.fsub(writer.mul(lam, x), v), weighed, inside)
            _add_by_design(writer, writer.mul(weighed, x), design, sums, mine, n_groups, chunk)
        evidence.end(own)
    return context.make_tuple(builder, signature.return_type, evidence.results())


def _mark(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    writer = Writer(context, builder, signature, values)
    sizes = len(writer.values) - 1
    with writer.rows(writer.whole(0), writer.values[-2]) as row:
        level, start, size = (
            writer.spread(writer.number(LEVELS, row)),
            writer.row_start(row),
            writer.keep(0.0),
        )
        with writer.chunks() as chunk:
            above = builder.fcmp_ordered(">", writer.shifted(start, writer.whole(0), chunk), level)
            marks = writer.where(above, writer.constant(1.0), writer.nothing)
            writer.grow(size, marks)
            writer.store(marks, LABELS, start, chunk)
        builder.store(writer.total(size), writer.pointer(sizes, row))
    return writer.double(0.0)


def _multiply(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    writer = Writer(context, builder, signature, values)
    n_rows, _, one, other, _, place = writer.values[-6:]
    amounts, table = len(writer.values) - 5, len(writer.values) - 2
    lanes = [writer.whole(lane) for lane in range(WIDTH)]
    products = [writer.keep(0.0) for _ in lanes]
    with writer.rows(writer.whole(0), n_rows) as row:
        start = writer.row_start(row)
        scaled = writer.mul(
            writer.spread(writer.number(amounts, row)), writer.load(LABELS, start, other)
        )
        for lane, product in zip(lanes, products, strict=True):
            writer.grow(
                product,
                writer.mul(
                    writer.spread(builder.load(writer.pointer(LABELS, start, one, lane))), scaled
                ),
            )
    for lane, product in zip(lanes, products, strict=True):
        writer.add_to(
            builder.load(product), table, place, builder.mul(lane, writer.values[ROOM]), other
        )
    return writer.double(0.0)
