"""Memory is known before it is taken: what does not fit is refused with the bytes and a remedy, and
structure spares what it can.
"""

from __future__ import annotations

import numpy as np
import pytest

import r2b
from r2b._data import compute as memory
from r2b.cli.output import Exit, code_of
from r2b.errors import MemoryLimitError


@pytest.fixture
def little(monkeypatch):
    """A machine with 100 MB left."""
    monkeypatch.setattr(memory, "available", lambda: 100_000_000)


def many_classes():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 500, 40_000)
    return r2b.debias(y, sensitive_features=rng.integers(0, 2, 40_000), epsilon=0.05)


def test_a_matrix_that_does_not_fit_is_refused_and_its_blocks_are_not(little):
    fair = many_classes()
    with pytest.raises(MemoryLimitError, match=r"160\.0 MB") as caught:
        fair.soft_labels  # noqa: B018
    assert caught.value.facts == {"needed": 160_000_000, "available": 100_000_000}
    assert "iter_soft" in caught.value.remedy and code_of(caught.value) == Exit.WRONG_USE
    assert fair.soft("float32").nbytes == 80_000_000
    assert sum(len(block) for block in fair.iter_soft()) == 40_000
    assert len(fair.round()) == len(fair.sample()) == 40_000


def test_a_system_of_prices_that_does_not_fit_is_refused_before_it_is_made(little):
    rng = np.random.default_rng(0)
    y, people = (
        rng.integers(0, 40, 3000),
        {"country": rng.integers(0, 30, 3000), "gender": rng.integers(0, 2, 3000)},
    )
    tighter = [r2b.Family(["country", "gender"], epsilon=0.1), r2b.Family("country", epsilon=0.01)]
    with pytest.raises(MemoryLimitError, match="90 groups") as caught:
        r2b.debias(y, sensitive_features=people, families=tighter)
    assert "crossed" in caught.value.remedy and isinstance(caught.value, MemoryError)
    # Margins that the crossings imply need no such system.
    assert r2b.debias(y, sensitive_features=people, families="both", epsilon=0.05).status.ok


def test_weights_for_many_classes_are_refused_before_they_are_solved(little):
    rng = np.random.default_rng(0)
    y, groups = rng.integers(0, 300, 10_000), rng.integers(0, 2, 10_000)
    with pytest.raises(MemoryLimitError, match="Row weights for 300 classes in 2 groups") as caught:
        r2b.reweigh(y, sensitive_features=groups, epsilon=0.01)
    assert "rare classes" in caught.value.remedy
    assert r2b.reweigh(y % 30, sensitive_features=groups, epsilon=0.01).status.ok


def test_a_table_of_answers_that_does_not_fit_is_refused(monkeypatch):
    fair = many_classes()
    monkeypatch.setattr(memory, "available", lambda: 1_000_000)
    monkeypatch.setattr(memory, "_WORTH_ASKING", 0)
    with pytest.raises(MemoryLimitError, match="500 x 500 classes"):
        fair.channel  # noqa: B018


def test_what_this_machine_has_left_is_a_number_and_a_container_that_allows_less_counts(
    tmp_path, monkeypatch
):
    whole = memory.available()
    assert whole is None or whole > 1_000_000
    (tmp_path / "max").write_text("5000000\n")
    (tmp_path / "used").write_text("4000000\n")
    monkeypatch.setattr(memory, "_CGROUPS", ((str(tmp_path / "max"), str(tmp_path / "used")),))
    assert memory.available() == 1_000_000
    (tmp_path / "max").write_text("max\n")
    assert memory.available() is None or memory.available() > 1_000_000


def test_groups_that_their_bound_joins_are_refused_with_a_bound_that_does_not(little):
    rng = np.random.default_rng(0)
    y, groups = rng.integers(0, 13, 40_000), rng.integers(0, 400, 40_000)
    with pytest.raises(MemoryLimitError, match="400 groups") as caught:
        r2b.debias(y, sensitive_features=groups, bound="to_overall", epsilon=0.02)
    assert "bound='range'" in caught.value.remedy
    assert r2b.debias(y, sensitive_features=groups, epsilon=0.2).status.ok


def test_rounding_of_thousands_of_classes_is_refused_before_it_is_solved(
    tmp_path, monkeypatch, capsys
):
    from r2b.cli import main

    monkeypatch.chdir(tmp_path)
    rows = [f"c{number % 9_975},{'fm'[number % 3 == 0]}" for number in range(90_000)]
    (tmp_path / "many.csv").write_text("\n".join(["job,sex", *rows]) + "\n")
    words = ["debias", "many.csv", "--label", "job", "--sensitive", "sex", "--max-iter", "1", "-q"]
    assert main([*words, "--form", "round", "-o", "fair.csv"]) == Exit.WRONG_USE
    error = capsys.readouterr().err
    assert "9,975 classes in 2 groups" in error and "8.0 GB" in error and "'sample'" in error
