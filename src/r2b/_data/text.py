"""Fixed-width text of NumPy to codes, without making a Python string of every row.

Where a block has few distinct strings, each gets a bucket of its own by a hash of its bytes, and every row is compared with what its
bucket holds. Where two share one, the way that always works is taken: a string is a row of characters, characters are integers, and its
code is the crossing of theirs. Either is done block by block in the cache, and each block's few distinct strings are looked up in a
dictionary that grows.
"""

from __future__ import annotations

import numpy as np

from r2b._data.integers import BLOCK_ROWS, Array, compact_integers, cross, smallest_unsigned

WIDEST_TEXT = 64  # characters; beyond it a dictionary of Python strings is as fast
_FEW_STRINGS = 300  # in 65,536 buckets; of more, two are likely to share one
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def encode_text(array: Array) -> tuple[Array, Array]:
    """Give codes and sorted distinct values of an array of dtype ``U`` or ``S`` that is at most ``WIDEST_TEXT`` wide.

    Parameters
    ----------
    array : ndarray of shape (N,)
        Any byte order, any stride.

    Returns
    -------
    codes : ndarray of shape (N,)
    values : ndarray of shape (n,), of the same dtype

    Examples
    --------
    >>> encode_text(np.array(["pear", "fig", "pear"]))
    (array([1, 0, 1], dtype=uint8), array(['fig', 'pear'], dtype='<U4'))
    """
    seen: dict[str | bytes, int] = {}
    codes = np.empty(len(array), dtype=np.uint32)
    for start in range(0, len(array), BLOCK_ROWS):
        block = np.ascontiguousarray(array[start : start + BLOCK_ROWS])
        here, first = _hashed(block) or _crossed(block)
        places = [seen.setdefault(value, len(seen)) for value in block[first].tolist()]
        codes[start : start + len(block)] = np.array(places, dtype=np.uint32)[here]
    ordered = sorted(seen)
    rank = np.empty(len(seen), dtype=smallest_unsigned(len(seen)))
    rank[[seen[value] for value in ordered]] = np.arange(len(seen), dtype=rank.dtype)
    return rank[codes], np.array(ordered, dtype=array.dtype)


def _hashed(block: Array) -> tuple[Array, Array] | None:
    """Give the code of every row of a block and one row of each code, or None where strings share a bucket or are too many for that."""
    width = next(size for size in (8, 4, 2, 1) if block.dtype.itemsize % size == 0)
    words = block.view(f"u{width}").reshape(len(block), -1)
    mixed = words[:, 0] * _GOLDEN
    for j in range(1, words.shape[1]):
        mixed += words[:, j]
        mixed *= _GOLDEN
    buckets = (mixed >> np.uint64(48)).astype(np.uint16)  # the highest bits depend on all of a word
    example = np.full(1 << 16, -1, dtype=np.int32)
    example[buckets] = np.arange(len(block), dtype=np.int32)
    taken = np.flatnonzero(example >= 0)
    if len(taken) > _FEW_STRINGS:
        return None
    place = np.empty(1 << 16, dtype=smallest_unsigned(len(taken)))
    place[taken] = np.arange(len(taken))
    codes, first = place[buckets], example[taken]
    return (codes, first) if np.array_equal(words[first][codes], words) else None


def _crossed(block: Array) -> tuple[Array, Array]:
    """Give the code of every row of a block and one row of each code."""
    # The byte order may be foreign: equal characters stay equal, and the order of the codes is put right by the caller.
    characters = block.view(np.uint32 if block.dtype.kind == "U" else np.uint8).reshape(len(block), -1)
    compacted = [compact_integers(characters[:, j]) for j in range(characters.shape[1])]
    codes, table = cross([code for code, _ in compacted], [len(present) for _, present in compacted])
    example = np.empty(len(table), dtype=np.intp)
    example[codes] = np.arange(len(codes))
    return codes, example
