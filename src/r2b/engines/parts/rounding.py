"""Whole labels in the order of an attribute, for tables that are larger than memory: rows are sorted by way of scratch files.

Rows with a continuous or uncertain attribute are rounded in its order
(:meth:`r2b.FairLabels.round`). One pass finds where to cut that order into parts that fit, one puts
the answers of every row into its part; then part after part is sorted and rounded.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import IO

import numpy as np

from r2b._data import Cells, Mixtures
from r2b._data.arrays import Array, Floats, Whole
from r2b._data.attributes import CATEGORICAL
from r2b._labels.rounding import RowRounding
from r2b.engines.batch import Batch
from r2b.engines.roles import Decode
from r2b.engines.source import Relabel, Source
from r2b.engines.spool import keeping

_SORTED = 1 << 22  # numbers of a part: 32 MB, and a few copies of them
_MOST = 256  # parts, each a file that is open
_LOOKED_AT = 512  # rows of a batch that tell where to cut
_MOST_LOOKS = 1 << 18  # beyond which every second is kept
_NUMBERS = 3  # of a row beside its keys and answers: number, draw and weight


@dataclass(frozen=True, eq=False)
class Strands:
    """Which categories occur, with the weight of their heaviest row, and where rows lie in the order: a few of each batch."""

    decode: Decode

    def make(self, batch: Batch) -> tuple[dict[int, float], Floats]:
        """Look at the rows of a batch."""
        data, weight = self.decode.read(batch), self.decode.weight(batch)
        keys = order_keys(data.cells)
        heaviest: dict[int, float] = {}
        for strand in np.unique(keys[:, 0]):
            mine = keys[:, 0] == strand
            heaviest[int(strand)] = 1.0 if weight is None else float(weight[mine].max())
        some = np.linspace(0, len(keys) - 1, min(_LOOKED_AT, len(keys))).astype(np.intp)
        return heaviest, keys[some][:, :2]

    def merge(
        self, one: tuple[dict[int, float], Floats], other: tuple[dict[int, float], Floats]
    ) -> tuple[dict[int, float], Floats]:
        """Keep the heaviest, and the looks of both."""
        both = {
            strand: max(one[0].get(strand, 0.0), other[0].get(strand, 0.0))
            for strand in one[0] | other[0]
        }
        looks = np.concatenate([one[1], other[1]])
        return both, looks[:: 1 + (len(looks) > _MOST_LOOKS)]


def order_keys(groups: Cells) -> Floats:
    """Give what rows are sorted by, first things first: their categories as a number, then what else they have.

    The order is that in which rows in memory are rounded.
    """
    keys, strand = [], np.zeros(groups.n_cells, np.int64)
    for column, (vocabulary, kind) in enumerate(
        zip(groups.vocabularies, groups.kinds, strict=True)
    ):
        codes = groups.table[:, column]
        if kind == CATEGORICAL:
            strand = strand * vocabulary.n_codes + codes
        elif isinstance(vocabulary, Mixtures):
            keys += list(vocabulary.matrix[codes].T[::-1])
        else:
            # rows without a value come last
            keys.append(np.append(np.asarray(vocabulary.values, np.float64), np.inf)[codes])
    return np.column_stack([strand.astype(np.float64), *keys[::-1]])[groups.codes]


def decided_in_order(source: Source, relabel: Relabel, n_rows: int) -> Array:
    """Decide the classes of all rows, in the order of the rows; memory holds one part of the sorted rows, and a code for each row."""
    decode, n_classes = relabel.decode, len(relabel.rule.schema.classes)
    found = source.reduce(relabel.needed, Strands(decode))
    if found is None:
        return np.empty(0, np.uint8)
    heaviest, looks = found
    strands, width = sorted(heaviest), 1 + len(decode.roles.measured) + _NUMBERS + n_classes
    cuts = _cuts(looks, min(_MOST, -(-n_rows * width // _SORTED)))
    weights = (
        None if decode.roles.weight is None else np.array([heaviest[strand] for strand in strands])
    )
    turns = RowRounding(n_classes, relabel.random_state, weights, compiled=True)
    folder = getattr(source, "scratch", None) or tempfile.gettempdir()
    with ExitStack() as stack, keeping(folder, "Rows on their way to whole labels"):
        files = [
            stack.enter_context(tempfile.TemporaryFile(dir=folder, prefix=".r2b-"))
            for _ in range(len(cuts) + 1)
        ]
        for rows, places in source.run(relabel.needed, partial(_placed, relabel, cuts)):
            for place in np.unique(places):
                files[place].write(np.ascontiguousarray(rows[places == place]).data)
        done = 0
        for file in files:
            rows = _read(file, width)
            keys, rest = rows[:, : -_NUMBERS - n_classes], rows[:, -_NUMBERS - n_classes :]
            order = np.lexsort(keys.T[::-1])
            own = rest[order]
            groups, answers = np.searchsorted(strands, keys[order, 0]), own[:, _NUMBERS:]
            draws, weight = (
                np.ascontiguousarray(own[:, 1]).view(np.int64),
                None if weights is None else own[:, 2],
            )
            turns.add(groups, draws, weight, done, answers.__getitem__)
            file.seek(0)
            file.truncate()
            # all that is still needed of the rows: their numbers
            file.write(np.ascontiguousarray(own[:, 0]).data)
            done += len(own)
        return _back(turns.finish(), files)


def _cuts(looks: Floats, n_parts: int) -> Floats:
    """Give the places in the order at which parts begin, so that the rows that were looked at lie evenly between them."""
    rising = looks[np.lexsort((looks[:, 1], looks[:, 0]))]
    return np.unique(rising[np.arange(1, n_parts) * len(rising) // n_parts], axis=0)


def _placed(relabel: Relabel, cuts: Floats, batch: Batch) -> tuple[Floats, Whole]:
    """Give what is needed of the rows of a batch in one line each, and which part each belongs to."""
    first, data, draws, weight = relabel.decode.drawn(relabel.random_state, batch)
    keys, numbers = order_keys(data.cells), np.arange(first, first + len(batch))
    own = np.ones(len(batch)) if weight is None else np.asarray(weight, np.float64)
    answers = np.asarray(relabel.rows(data).matrix(np.float64))
    rows = np.column_stack([keys, numbers.view(np.float64), draws.view(np.float64), own, answers])
    places = np.zeros(len(rows), np.intp)
    for strand, value in cuts:
        places += (keys[:, 0] > strand) | ((keys[:, 0] == strand) & (keys[:, 1] >= value))
    return rows, places


def _read(file: IO[bytes], width: int) -> Floats:
    file.seek(0)
    return np.frombuffer(file.read(), np.float64).reshape(-1, width)


def _back(codes: Array, files: Sequence[IO[bytes]]) -> Array:
    """Put classes into the order of the rows, by the numbers of rows that files hold."""
    decided, done = np.empty_like(codes), 0
    for file in files:
        mine = _read(file, 1)[:, 0].view(np.int64)
        decided[mine] = codes[done : done + len(mine)]
        done += len(mine)
    return decided
