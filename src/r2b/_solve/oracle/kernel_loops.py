"""The loops of the compiled kernels, written out: Newton steps on thresholds, sums of what lies above them, evidence about answers.

The threshold of a row is the root of ``t -> sum_k max(v_k - t, 0) - lam`` with ``v = y - nu``.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from r2b._solve.oracle.kernel_vectors import LABELS, LEVELS, PRICES, WIDTH, Writer


def vector_loops() -> tuple[Any, ...]:
    """Make the loops, as functions that compiled code can call: climb, climb_eight, add_above, write_above, mark, weigh.

    ``rows`` is the tuple that :class:`r2b._solve.oracle.kernel_vectors.Writer` describes.

    Raises
    ------
    ImportError
        numba is not installed.
    """
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator, unused-ignore]
    def climb(typing: Any, rows: Any, row: Any, level: Any, lam: Any) -> Any:
        """Take a Newton step from ``level``: where it leads, how many entries were above, and 1.0 if the step was exact."""
        return gives(3, rows, row, level, lam), _climb

    def climb_eight_of(single: bool) -> Any:
        @intrinsic  # type: ignore[untyped-decorator, unused-ignore]
        def climb_eight(typing: Any, rows: Any, first: Any, lam: Any) -> Any:
            """Take the Newton steps of eight rows from their levels and write where they lead; 1.0 if all were exact."""
            return gives(1, rows, first, lam), partial(_climb_eight, single)

        return climb_eight

    def add_above_of(single: bool) -> Any:
        @intrinsic  # type: ignore[untyped-decorator, unused-ignore]
        def add_above(
            typing: Any, rows: Any, first: Any, last: Any, weight: Any, each: Any, sums: Any
        ) -> Any:
            """Add ``w * each`` of what lies above the levels to the sums of the groups.

            Gives the sum of ``w * each`` of its squared lengths, and that of ``w`` times the
            levels.
            """
            return gives(2, rows, first, last, weight, each, sums), partial(_add_above, single)

        return add_above

    @intrinsic  # type: ignore[untyped-decorator, unused-ignore]
    def write_above(typing: Any, rows: Any, first: Any, last: Any, each: Any, out: Any) -> Any:
        """Write ``each`` of what lies above the levels, row after row from the start of ``out``.

        The end of a row may spill into the next, which comes after it.
        """
        return gives(1, rows, first, last, each, out), _write_above

    @intrinsic  # type: ignore[untyped-decorator, unused-ignore]
    def mark(
        typing: Any, rows: Any, row: Any, own: Any, counts: Any, scale: Any, marks: Any, place: Any
    ) -> Any:
        """Write ``scale`` where the row is above its level and 0 elsewhere, and add ``own`` to its group's counts there."""
        return gives(1, rows, row, own, counts, scale, marks, place), _mark

    @intrinsic  # type: ignore[untyped-decorator, unused-ignore]
    def weigh(
        typing: Any, rows: Any, row: Any, lam: Any, own: Any, sums: Any, answers: Any, place: Any
    ) -> Any:
        """Compare a row with its answer, that of number ``place``; add ``own x`` to the sums.

        Gives <x, g>, |x|^2, <x, y>, |x - y|^2, |x - y|_1, the sum of x, the least g and the least
        x, with ``g = lam x - y + nu``.
        """
        return gives(8, rows, row, lam, own, sums, answers, place), _weigh

    eights, above = (
        (climb_eight_of(False), climb_eight_of(True)),
        (add_above_of(False), add_above_of(True)),
    )
    return climb, *eights, *above, write_above, mark, weigh


def gives(count: int, *arguments: Any) -> Any:
    """Give the signature of a loop: so many numbers of these arguments."""
    from numba import types

    kinds: Any = types
    return (kinds.UniTuple(kinds.float64, count) if count > 1 else kinds.float64)(*arguments)


class _Steps:
    """What a Newton step adds up over the entries of its rows."""

    def __init__(self, writer: Writer, level: Any) -> None:
        self.writer, self.level = writer, level
        self.count, self.total = writer.keep(0.0), writer.keep(0.0)
        self.lowest, self.highest = writer.keep(math.inf), writer.keep(-math.inf)

    def look(self, v: Any, whole: bool = True) -> None:
        """Take in entries, one for each lane of the level; where not ``whole``, only for where the step leads."""
        writer = self.writer
        above = writer.builder.fcmp_ordered(">", v, self.level)
        writer.grow(self.count, writer.where(above, writer.constant(1.0), writer.nothing))
        writer.grow(self.total, writer.where(above, v, writer.nothing))
        if not whole:
            return
        writer.extend(self.lowest, writer.where(above, v, writer.top), "<")
        writer.extend(self.highest, writer.where(above, writer.constant(-math.inf), v), ">")

    def exact(self, reached: Any) -> Any:
        """Say whether no entry lies between the old level and the new: supports are nested, so they are then the same."""
        builder = self.writer.builder
        lost = builder.fcmp_ordered("<=", builder.load(self.lowest), reached)
        won = builder.fcmp_ordered(">", builder.load(self.highest), reached)
        return self.writer.in_no_lane(builder.or_(lost, won))

    def as_many(self, entries: list[Any], reached: Any) -> Any:
        """Say the same of entries that are all at hand: there are as many above the new level as above the old."""
        writer, count = self.writer, self.writer.nothing
        for v in entries:
            above = writer.builder.fcmp_ordered(">", v, reached)
            count = writer.add(count, writer.where(above, writer.constant(1.0), writer.nothing))
        return writer.in_no_lane(
            writer.builder.fcmp_unordered("!=", count, writer.builder.load(self.count))
        )


def _climb(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    writer = Writer(context, builder, signature, values)
    row, level, lam = writer.values[-3:]
    steps = _Steps(writer, writer.spread(level))
    start, group = writer.row_start(row), writer.group_start(row)
    with writer.chunks() as chunk:
        steps.look(writer.shifted(start, group, chunk))
    count = writer.total(steps.count)
    reached = builder.fdiv(builder.fsub(writer.total(steps.total), lam), count)
    return context.make_tuple(
        builder, signature.return_type, [reached, count, steps.exact(writer.spread(reached))]
    )


def _climb_eight(single: bool, context: Any, builder: Any, signature: Any, values: Any) -> Any:
    writer = Writer(context, builder, signature, values)
    first, lam = writer.values[-2:]
    rows = [builder.add(first, writer.whole(place)) for place in range(WIDTH)]
    starts = [(writer.row_start(row), writer.group_start(row)) for row in rows]
    steps = _Steps(writer, writer.load(LEVELS, first))
    with writer.chunks(single) as chunk:
        turned = _turned(writer, [writer.shifted(start, group, chunk) for start, group in starts])
        for v in turned:
            steps.look(v, whole=not single)
    reached = builder.fdiv(
        builder.fsub(builder.load(steps.total), writer.spread(lam)), builder.load(steps.count)
    )
    writer.store(reached, LEVELS, first)
    return steps.as_many(turned, reached) if single else steps.exact(reached)


def _turned(writer: Writer, rows: list[Any]) -> list[Any]:
    """Turn eight chunks so that a lane holds a row: then nothing is added across lanes, which is what costs in rows of few classes."""
    lanes = range(WIDTH)
    for distance in (1, 2, 4):
        low = [k if not k & distance else (k ^ distance) + WIDTH for k in lanes]
        high = [k | distance if not k & distance else k + WIDTH for k in lanes]
        pairs = {one: (rows[one], rows[one | distance]) for one in lanes if not one & distance}
        rows = [writer.mixed(*pairs[k & ~distance], high if k & distance else low) for k in lanes]
    return rows


def own_weight(writer: Writer, weight: int, row: Any) -> Any:
    """Give the weight of a row: 1 where there are no weights."""
    builder = writer.builder
    made = writer.context.make_array(writer.types[weight])(
        writer.context, builder, writer.values[weight]
    )
    weighted = builder.icmp_signed("!=", builder.extract_value(made.shape, 0), writer.whole(0))
    with builder.if_else(weighted) as (then, otherwise):
        with then:
            read, came = writer.number(weight, row), builder.block
        with otherwise:
            passed = builder.block
    own = builder.phi(writer.double)
    own.add_incoming(read, came)
    own.add_incoming(writer.double(1.0), passed)
    return own


def _add_above(single: bool, context: Any, builder: Any, signature: Any, values: Any) -> Any:
    writer = Writer(context, builder, signature, values)
    first, last, _, each, _ = writer.values[-5:]
    weight, sums = len(writer.values) - 3, len(writer.values) - 1
    squares, lifted = writer.keep(0.0), writer.keep(0.0, lanes=1)
    with writer.rows(first, last) as row:
        own, height = own_weight(writer, weight, row), writer.number(LEVELS, row)
        level, scale = writer.spread(height), writer.spread(builder.fmul(own, each))
        writer.grow(lifted, builder.fmul(own, height))
        start, group = writer.row_start(row), writer.group_start(row)
        with writer.chunks(single) as chunk:
            above = writer.positive(builder.fsub(writer.shifted(start, group, chunk), level))
            scaled = writer.mul(scale, above)
            writer.grow(squares, writer.mul(scaled, above))
            writer.add_to(scaled, sums, group, chunk)
    return context.make_tuple(
        builder, signature.return_type, [writer.total(squares), builder.load(lifted)]
    )


def _write_above(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    writer = Writer(context, builder, signature, values)
    first, last, each, _ = writer.values[-4:]
    scale, out = writer.spread(each), len(writer.values) - 1
    with writer.rows(first, last) as row:
        level = writer.spread(writer.number(LEVELS, row))
        start, group = writer.row_start(row), writer.group_start(row)
        place = writer.row_start(builder.sub(row, first))
        with writer.chunks() as chunk:
            above = writer.positive(builder.fsub(writer.shifted(start, group, chunk), level))
            writer.store(writer.mul(scale, above), out, place, chunk)
    return writer.double(0.0)


def _mark(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    writer = Writer(context, builder, signature, values)
    row, own, _, scale, _, place = writer.values[-6:]
    counts, marks = len(writer.values) - 4, len(writer.values) - 2
    level, own, scale = (
        writer.spread(writer.number(LEVELS, row)),
        writer.spread(own),
        writer.spread(scale),
    )
    start, group = writer.row_start(row), writer.group_start(row)
    with writer.chunks() as chunk:
        above = builder.fcmp_ordered(">", writer.shifted(start, group, chunk), level)
        writer.store(writer.where(above, scale, writer.nothing), marks, place, chunk)
        writer.add_to(writer.where(above, own, writer.nothing), counts, group, chunk)
    return writer.double(0.0)


def _weigh(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    writer = Writer(context, builder, signature, values)
    row, lam, own, _, _, place = writer.values[-6:]
    sums, answers, place = len(writer.values) - 3, len(writer.values) - 2, writer.row_start(place)
    lam, own = writer.spread(lam), writer.spread(own)
    added = [writer.keep(0.0) for _ in range(6)]
    flattest, least = writer.keep(math.inf), writer.keep(math.inf)
    start, group = writer.row_start(row), writer.group_start(row)
    with writer.chunks() as chunk:
        price = writer.load(PRICES, group, chunk)
        inside = builder.fcmp_ordered("<", price, writer.top)
        y = writer.where(inside, writer.load(LABELS, start, chunk), writer.nothing)
        x = writer.where(inside, writer.load(answers, place, chunk), writer.nothing)
        gradient = builder.fadd(builder.fsub(writer.mul(lam, x), y), price)
        apart = builder.fsub(x, y)
        distance = writer.where(
            builder.fcmp_ordered("<", apart, writer.nothing), builder.fsub(y, x), apart
        )
        paid = writer.mul(x, writer.where(inside, gradient, writer.nothing))
        amounts = (paid, writer.mul(x, x), writer.mul(x, y), writer.mul(apart, apart), distance, x)
        for kept, amount in zip(added, amounts, strict=True):
            writer.grow(kept, amount)
        writer.extend(flattest, gradient, "<")
        writer.extend(least, x, "<")
        writer.add_to(writer.mul(own, x), sums, group, chunk)
    results = [*(writer.total(kept) for kept in added), writer.least(flattest), writer.least(least)]
    return context.make_tuple(builder, signature.return_type, results)
