"""Functions are compiled where numba is, cached where it can be, and never on import."""

from __future__ import annotations

import numpy as np
import pytest

from r2b._data.compute import compiled, compiled_kernel


def added(values):
    total = 0.0
    for i in range(values.shape[0]):
        total += values[i]
    return total


@pytest.mark.parametrize("compiler", [compiled, compiled_kernel])
def test_a_compiled_function_gives_the_same(compiler):
    pytest.importorskip("numba")
    values = np.random.default_rng(0).random(1000)
    assert compiler(added)(values) == pytest.approx(added(values), rel=1e-14)


def test_a_function_that_cannot_be_cached_is_compiled_all_the_same():
    """numba refuses to cache where it finds no directory to write to; a function without a file is such a case on every machine."""
    pytest.importorskip("numba")
    room: dict[str, object] = {}
    exec("def twice(x):\n    return 2 * x", room)
    assert compiled(room["twice"])(21) == 42


def test_division_by_zero_gives_infinity_as_in_numpy():
    pytest.importorskip("numba")
    assert compiled(lambda x: 1.0 / x)(0.0) == np.inf
