"""Loops over rows, eight classes at a time: what the compiled kernels are made of.

They are written as vector instructions because the compiler does not find them: for rows of a few
classes its own loops spend more time on deciding whether they may use vectors than on the rows. A
row is read in whole chunks, past its end where the classes do not fill the last one. There the
prices are infinite, so that whatever was read is below any level; sums and answers have room for
what is written there. Numbers are kept and added up in double precision, whatever they are stored
in.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

WIDTH = 8

_REORDER = ("reassoc", "contract", "nsz")
LABELS, N_CLASSES, GROUPS, PRICES, ROOM, LEVELS = range(6)  # what the rows are given as: one tuple


class Writer:
    """Writes instructions on vectors of ``WIDTH`` doubles.

    The first argument of every loop is a tuple: labels (flat), number of classes, group of each
    row, prices (flat, whole chunks for each group), room that a group takes up there, level of each
    row.
    """

    def __init__(self, context: Any, builder: Any, signature: Any, values: Any) -> None:
        from llvmlite import ir  # type: ignore[import-not-found, import-untyped, unused-ignore]
        from numba.core import cgutils

        self.codegen: Any = cgutils
        self.ir, self.builder, self.context = ir, builder, context
        self.double, self.whole = ir.DoubleType(), ir.IntType(64)
        self.vector = ir.VectorType(self.double, WIDTH)
        n_given = len(signature.args[0])
        self.types = [*signature.args[0], *signature.args[1:]]
        self.values = [
            *(builder.extract_value(values[0], place) for place in range(n_given)),
            *values[1:],
        ]
        self.nothing, self.top = self.constant(0.0), self.constant(math.inf)

    def constant(self, value: float) -> Any:
        """Give a vector of a number known now."""
        return self.ir.Constant(self.vector, [self.ir.Constant(self.double, value)] * WIDTH)

    def spread(self, value: Any) -> Any:
        """Give a vector with the same number in every lane."""
        empty = self.ir.Constant(self.vector, self.ir.Undefined)
        return self.mixed(
            self.builder.insert_element(empty, value, self.ir.IntType(32)(0)), empty, [0] * WIDTH
        )

    def one_hot(self, lane: Any) -> Any:
        """Give a vector that is 1 in a lane, and 0 in the others; all 0 where there is no such lane."""
        kind = self.ir.VectorType(self.whole, WIDTH)
        empty = self.ir.Constant(kind, self.ir.Undefined)
        first = self.builder.insert_element(empty, lane, self.ir.IntType(32)(0))
        lanes = self.ir.Constant(self.ir.VectorType(self.ir.IntType(32), WIDTH), [0] * WIDTH)
        same = self.builder.icmp_signed(
            "==",
            self.builder.shuffle_vector(first, empty, lanes),
            self.ir.Constant(kind, list(range(WIDTH))),
        )
        return self.where(same, self.constant(1.0), self.nothing)

    def mixed(self, one: Any, other: Any, lanes: list[int]) -> Any:
        """Pick lanes of two vectors."""
        kind = self.ir.VectorType(self.ir.IntType(32), WIDTH)
        return self.builder.shuffle_vector(one, other, self.ir.Constant(kind, lanes))

    @contextmanager
    def rows(self, first: Any, last: Any) -> Iterator[Any]:
        """Repeat what is written inside for each row."""
        with self.codegen.for_range_slice(self.builder, first, last, self.whole(1)) as (row, _):
            yield row

    @contextmanager
    def chunks(self, single: bool = False) -> Iterator[Any]:
        """Repeat what is written inside for each chunk of a row, or once where it has a single one; gives the place of its first class."""
        if single:
            yield self.whole(0)
            return
        with self.codegen.for_range(
            self.builder, self.builder.udiv(self.values[ROOM], self.whole(WIDTH))
        ) as loop:
            yield self.builder.mul(loop.index, self.whole(WIDTH))

    def pointer(self, array: int, *offsets: Any) -> Any:
        """Point at an entry of an argument that is an array."""
        data = self.context.make_array(self.types[array])(
            self.context, self.builder, self.values[array]
        ).data
        for offset in offsets:
            data = self.builder.gep(data, [offset])
        return data

    def number(self, array: int, place: Any) -> Any:
        """Read one entry of an array."""
        return self.builder.load(self.pointer(array, place))

    def row_start(self, row: Any) -> Any:
        """Give the place of a row's labels."""
        return self.builder.mul(row, self.values[N_CLASSES])

    def group_start(self, row: Any) -> Any:
        """Give the place of the prices of a row's group."""
        code = self.number(GROUPS, row)
        return self.builder.mul(
            code if code.type == self.whole else self.builder.zext(code, self.whole),
            self.values[ROOM],
        )

    def chunk_at(self, array: int, *offsets: Any) -> Any:
        """Point at a chunk of an array."""
        held = self.context.get_value_type(self.types[array].dtype)
        return self.builder.bitcast(
            self.pointer(array, *offsets), self.ir.VectorType(held, WIDTH).as_pointer()
        )

    def load(self, array: int, *offsets: Any) -> Any:
        """Read a chunk as doubles."""
        single = self.context.get_value_type(self.types[array].dtype) == self.ir.FloatType()
        read = self.builder.load(self.chunk_at(array, *offsets), align=4 if single else 8)
        return self.builder.fpext(read, self.vector) if single else read

    def store(self, value: Any, array: int, *offsets: Any) -> None:
        """Write a chunk of doubles."""
        self.builder.store(value, self.chunk_at(array, *offsets), align=8)

    def shifted(self, start: Any, group: Any, chunk: Any) -> Any:
        """Give a chunk of ``y - nu``."""
        return self.builder.fsub(self.load(LABELS, start, chunk), self.load(PRICES, group, chunk))

    def keep(self, value: float, lanes: int = WIDTH) -> Any:
        """Make a vector, or with one lane a number, that lasts from chunk to chunk; the compiler keeps it in a register."""
        return self.codegen.alloca_once_value(
            self.builder, self.constant(value) if lanes > 1 else self.double(value)
        )

    def add(self, one: Any, other: Any) -> Any:
        """Add two vectors."""
        return self.builder.fadd(one, other, flags=_REORDER)

    def mul(self, one: Any, other: Any) -> Any:
        """Multiply two vectors."""
        return self.builder.fmul(one, other, flags=_REORDER)

    def where(self, condition: Any, one: Any, other: Any) -> Any:
        """Choose lane by lane."""
        return self.builder.select(condition, one, other)

    def positive(self, value: Any) -> Any:
        """Replace what is below 0 by 0."""
        return self.where(self.builder.fcmp_ordered(">", value, self.nothing), value, self.nothing)

    def grow(self, kept: Any, value: Any) -> None:
        """Add to a vector that lasts."""
        self.builder.store(self.add(self.builder.load(kept), value), kept)

    def extend(self, kept: Any, value: Any, order: str) -> None:
        """Take a vector's lanes, or a number, into one that lasts, where they are lower (``<``) or higher (``>``)."""
        old = self.builder.load(kept)
        self.builder.store(
            self.where(self.builder.fcmp_ordered(order, value, old), value, old), kept
        )

    def add_to(self, value: Any, array: int, *offsets: Any) -> None:
        """Add a chunk of doubles to an array."""
        self.store(self.add(self.load(array, *offsets), value), array, *offsets)

    def total(self, kept: Any) -> Any:
        """Add up the lanes of a vector that lasts."""
        return self._across(
            "fadd", self.double, [self.double(0.0), self.builder.load(kept)], _REORDER
        )

    def least(self, kept: Any) -> Any:
        """Give the least lane of a vector that lasts."""
        return self._across("fmin", self.double, [self.builder.load(kept)], ("nnan",))

    def in_no_lane(self, condition: Any) -> Any:
        """Give 1.0 if a condition holds in no lane, else 0.0."""
        anywhere = self._across("or", self.ir.IntType(1), [condition], ())
        return self.builder.uitofp(self.builder.not_(anywhere), self.double)

    def _across(self, what: str, result: Any, values: list[Any], flags: tuple[str, ...]) -> Any:
        name = f"llvm.vector.reduce.{what}.v{WIDTH}{'i1' if what == 'or' else 'f64'}"
        function = self.ir.FunctionType(result, [value.type for value in values])
        return self.builder.call(
            self.codegen.get_or_insert_function(self.builder.module, function, name),
            values,
            fastmath=flags,
        )
