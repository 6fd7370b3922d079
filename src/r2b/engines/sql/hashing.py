"""The draw of a row from its key, in SQL: the bits of :func:`r2b._labels.draws.draws_of`, by arithmetic that every database has.

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
    """Give queries, to stand after WITH, of which each reads the one before; the last, ``r2b_drawn``, has some columns and a ``draw``.

    The draw is null where a key is no whole number.

    Parameters
    ----------
    dialect : Dialect
    table : str
        In SQL.
    carried : dict of str to str
        Columns that are passed on: what they are called here, and what they are in the table, in
        SQL.
    keys : sequence of str
        Columns of the table, in SQL.
    random_state : int
    """
    kept, words = [*carried], [f'"w{place}"' for place in range(len(keys))]
    chosen = [f"{value} AS {name}" for name, value in carried.items()]
    chosen += [
        f"{dialect.whole_number(f'old.{key}')} AS {word}"
        for key, word in zip(keys, words, strict=True)
    ]
    queries = [f"SELECT {', '.join(chosen)} FROM {table} AS old"]
    if len(keys) == 1:
        steps = [_halves(words[0])]
    else:  # the order of the columns counts
        steps = [("0", "0")]
        for word in words:
            steps += [_plus(*_halves(word)), *_mixed(dialect)]
    seed = int(seed_word(random_state)[0])
    steps += [
        *_mixed(dialect),
        (dialect.xor(HIGH, str(seed >> 32)), dialect.xor(LOW, str(seed & _HALF))),
        *_mixed(dialect),
    ]
    for place, (high, low) in enumerate(steps):
        passed = (
            [*kept, *words]
            if any(word in "".join([*step]) for step in steps[place + 1 :] for word in words)
            else kept
        )
        queries.append(
            f"SELECT {', '.join(passed)}, {high} AS {HIGH}, {low} AS {LOW} FROM r2b_{place}"
        )
    shift = 64 - BITS
    queries.append(
        f'SELECT {", ".join(kept)}, {HIGH} * {1 << (32 - shift)} + ({LOW} >> {shift}) AS "draw" FROM r2b_{len(steps)}'
    )
    names = [*(f"r2b_{place}" for place in range(len(steps) + 1)), "r2b_drawn"]
    return [
        f"{name} AS ({query}{dialect.fence})" for name, query in zip(names, queries, strict=True)
    ]


def _halves(word: str) -> Halves:
    return f"({word} >> 32) & {_HALF}", f"{word} & {_HALF}"


def _mixed(dialect: Dialect) -> list[Halves]:
    """Give the steps of the finaliser of splitmix64."""
    golden, first, second = (int(each) for each in (GOLDEN, FIRST, SECOND))
    return [
        _plus(str(golden >> 32), str(golden & _HALF)),
        _shifted(30, dialect),
        _times(first),
        _shifted(27, dialect),
        _times(second),
        _shifted(31, dialect),
    ]


def _plus(high: str, low: str) -> Halves:
    return (
        f"({HIGH} + ({high}) + (({LOW} + ({low})) >> 32)) & {_HALF}",
        f"({LOW} + ({low})) & {_HALF}",
    )


def _shifted(bits: int, dialect: Dialect) -> Halves:
    """Give a word mixed with itself, shifted by fewer than 32 bits."""
    low = f"((({HIGH} << {32 - bits}) & {_HALF}) + ({LOW} >> {bits}))"
    return dialect.xor(HIGH, f"({HIGH} >> {bits})"), dialect.xor(LOW, low)


def _times(factor: int) -> Halves:
    """Give the lower 64 bits of the product with a constant, of which 16 bits are taken at a time."""
    parts = [(factor >> (16 * place)) & 0xFFFF for place in range(4)]
    low = f"({LOW} * {parts[0]} + ((({LOW} * {parts[1]}) & 65535) << 16))"
    carried = f"({low} >> 32) + (({LOW} * {parts[1]}) >> 16)"
    crossed = f"{LOW} * {parts[2]} + ((({LOW} * {parts[3]}) & 65535) << 16)"
    upper = f"{HIGH} * {parts[0]} + ((({HIGH} * {parts[1]}) & 65535) << 16)"
    return f"({carried} + {crossed} + {upper}) & {_HALF}", f"{low} & {_HALF}"
