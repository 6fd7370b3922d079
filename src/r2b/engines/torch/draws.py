"""The random numbers of rows, made where the rows are: the same as :func:`r2b._labels.forms.keyed.draws_of` gives for their numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from r2b._labels.forms.keyed import BITS, FIRST, GOLDEN, SECOND, seed_word

_TOP = 1 << 63


def uniforms(first: int, n_rows: int, seed: int, device: torch.device) -> Tensor:
    """Give a number in [0, 1) for each of some rows, by their numbers.

    Examples
    --------
    >>> from r2b._labels.forms.keyed import draws_of, row_numbers, uniforms_of
    >>> uniforms(3, 2, 7, torch.device("cpu")).tolist() == uniforms_of(draws_of(row_numbers(3, 2), 7)).tolist()
    True
    """
    words = torch.arange(first, first + n_rows, dtype=torch.int64, device=device)
    spread = _mixed(_mixed(words) ^ _signed(int(seed_word(seed)[0])))
    return _shifted(spread, 64 - BITS).to(torch.float64) * 2.0**-BITS


def _mixed(words: Tensor) -> Tensor:
    # As r2b._labels.forms.keyed mixes them; whole numbers of 64 bits with a sign wrap around like those without.
    words = words + _signed(int(GOLDEN))
    words = (words ^ _shifted(words, 30)) * _signed(int(FIRST))
    words = (words ^ _shifted(words, 27)) * _signed(int(SECOND))
    return words ^ _shifted(words, 31)


def _shifted(words: Tensor, bits: int) -> Tensor:
    """Shift to the right without bringing the sign along."""
    return (words >> bits) & ((1 << (64 - bits)) - 1)


def _signed(word: int) -> int:
    return word - 2 * _TOP if word >= _TOP else word
