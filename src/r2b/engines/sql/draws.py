"""The draw of a row from its key, in SQL: the bits of :func:`r2b._labels.draws.draws_of`.

A word of 64 bits is kept as two halves of 32. No product is longer than 48 bits and no sum longer
than 50, so that nothing overflows where whole numbers have a sign. Each step is a query of its own
over the one before, with a fence where an optimiser would write the steps into each other and
compute each of them many times.
"""

from __future__ import annotations

from collections.abc import Sequence

from r2b._labels.draws import BITS, FIRST, GOLDEN, SECOND, seed_word
from r2b.engines.sql.dialects import Dialect

_HALF = (1 << 32) - 1
Halves = tuple[str, str]
HIGH, LOW = '"h"', '"l"'


def drawn(
    dialect: Dialect, table: str, carried: dict[str, str], keys: Sequence[str], random_state: int
) -> list[str]:
    """Write queries, to stand after WITH, of which each reads the one before.

    The last, ``r2b_drawn``, has some columns and a ``draw``, which is null where a key is no whole
    number.

    Parameters
    ----------
    dialect : Dialect
    table : str
        In SQL.
    carried : dict of str to str
        Columns that are passed on: what they are called, and what they are in the table, in SQL.
    keys : sequence of str
        Columns of the table, in SQL.
    random_state : int
    """
    words = {f'"w{place}"': dialect.whole_number(f"old.{key}") for place, key in enumerate(keys)}
    chosen = ", ".join(f"{value} AS {name}" for name, value in (carried | words).items())
    queries = [f"SELECT {chosen} FROM {table} AS old"]
    steps = [("0", "0")]
    for word in words:  # the order of the columns counts
        halves = f"({word} >> 32) & {_HALF}", f"{word} & {_HALF}"
        steps += [halves] if len(words) == 1 else [_plus(*halves), *_mixed(dialect)]
    seed = int(seed_word(random_state)[0])
    scattered = dialect.xor(HIGH, str(seed >> 32)), dialect.xor(LOW, str(seed & _HALF))
    steps += [*_mixed(dialect), scattered, *_mixed(dialect)]
    passed = ", ".join([*carried, *words])
    queries += [
        f"SELECT {passed}, {high} AS {HIGH}, {low} AS {LOW} FROM r2b_{place}"
        for place, (high, low) in enumerate(steps)
    ]
    shift = 64 - BITS
    draw = f'{HIGH} * {1 << (32 - shift)} + ({LOW} >> {shift}) AS "draw"'
    queries.append(f"SELECT {', '.join(carried)}, {draw} FROM r2b_{len(steps)}")
    names = [*(f"r2b_{place}" for place in range(len(steps) + 1)), "r2b_drawn"]
    return [f"{name} AS ({each}{dialect.fence})" for name, each in zip(names, queries, strict=True)]


def _mixed(dialect: Dialect) -> list[Halves]:
    """Write the steps of the finaliser of splitmix64."""
    golden, first, second = (int(each) for each in (GOLDEN, FIRST, SECOND))
    start = _plus(str(golden >> 32), str(golden & _HALF))
    steps = [start, _shifted(30, dialect), _times(first), _shifted(27, dialect), _times(second)]
    return [*steps, _shifted(31, dialect)]


def _plus(high: str, low: str) -> Halves:
    carry = f"(({LOW} + ({low})) >> 32)"
    return f"({HIGH} + ({high}) + {carry}) & {_HALF}", f"({LOW} + ({low})) & {_HALF}"


def _shifted(bits: int, dialect: Dialect) -> Halves:
    """Write a word mixed with itself, shifted by fewer than 32 bits."""
    low = f"((({HIGH} << {32 - bits}) & {_HALF}) + ({LOW} >> {bits}))"
    return dialect.xor(HIGH, f"({HIGH} >> {bits})"), dialect.xor(LOW, low)


def _times(factor: int) -> Halves:
    """Write the lower 64 bits of the product with a constant, of which 16 are taken at a time."""
    parts = [(factor >> (16 * place)) & 0xFFFF for place in range(4)]
    low = f"({LOW} * {parts[0]} + ((({LOW} * {parts[1]}) & 65535) << 16))"
    carried = f"({low} >> 32) + (({LOW} * {parts[1]}) >> 16)"
    crossed = f"{LOW} * {parts[2]} + ((({LOW} * {parts[3]}) & 65535) << 16)"
    upper = f"{HIGH} * {parts[0]} + ((({HIGH} * {parts[1]}) & 65535) << 16)"
    return f"({carried} + {crossed} + {upper}) & {_HALF}", f"{low} & {_HALF}"
