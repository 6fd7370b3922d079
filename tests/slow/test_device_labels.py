"""What leaves a device, and what is refused there."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from device_rows import KEYS, soft_rows, whole_labels_differ  # noqa: E402

import r2b  # noqa: E402
import r2b.engines.torch  # noqa: E402
from r2b.engines.torch import labels as labels_module  # noqa: E402
from r2b.engines.torch import rows as rows_module  # noqa: E402
from r2b.engines.torch.reading import compact, device_of, read_device_cells  # noqa: E402
from r2b.engines.torch.rows import add_by_cell  # noqa: E402
from r2b.errors import (  # noqa: E402
    EmptyError,
    InputError,
    LengthError,
    ParameterError,
    ProbabilityError,
    R2BError,
    ShapeError,
    UnseenError,
    WeightError,
)
from r2b.metrics import demographic_parity_difference  # noqa: E402


def solved(**asked: Any) -> tuple[Any, Any, Any]:
    y, groups = soft_rows(800, 5, 3)
    there = r2b.engines.torch.debias(
        torch.from_numpy(y), sensitive_features=torch.from_numpy(groups), epsilon=0.02, **asked
    )
    return there, y, groups


def test_classes_are_counted_there_and_solved_as_on_the_host() -> None:
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 3, 5000)
    y = (rng.random(5000) * (2 + groups)).astype(np.int64) * 10
    weight = rng.random(5000)
    host = r2b.debias(y, sensitive_features=groups, sample_weight=weight, epsilon=0.01)
    fair = r2b.engines.torch.debias(
        torch.from_numpy(y),
        sensitive_features=torch.from_numpy(groups),
        sample_weight=torch.from_numpy(weight),
        epsilon=0.01,
    )
    assert fair.classes.tolist() == host.classes.tolist()
    # Not the prices: where every class of a group is held, a constant may be added to all of them.
    assert np.abs(fair.soft_labels.numpy() - host.soft_labels).max() <= 1e-8
    assert fair.certificate.objective == pytest.approx(host.certificate.objective, abs=1e-10)
    assert set(fair.sample(0).tolist()) <= set(y.tolist())


def test_agreement_is_to_be_had_for_classes() -> None:
    pytest.importorskip("scipy")
    y, groups = np.array([0, 0, 0, 1, 1, 0, 1, 1]), np.repeat([0, 1], 4)
    asked: dict[str, Any] = {"epsilon": 0.0, "objective": "agreement"}
    host = r2b.debias(y, sensitive_features=groups, **asked)
    fair = r2b.engines.torch.debias(
        torch.from_numpy(y), sensitive_features=torch.from_numpy(groups), **asked
    )
    assert fair.certificate.expected_changes == pytest.approx(host.certificate.expected_changes)
    assert (
        demographic_parity_difference(fair.soft_labels.numpy(), sensitive_features=groups) <= 1e-9
    )


def test_expanded_rows_have_the_certified_parity() -> None:
    fair, y, groups = solved()
    index, labels, weight = fair.expand()
    parity = demographic_parity_difference(
        labels.numpy(), sensitive_features=groups[index.numpy()], sample_weight=weight.numpy()
    )
    assert parity == pytest.approx(fair.certificate.disparity, abs=1e-9)
    assert torch.bincount(index, weight, minlength=len(y)).numpy() == pytest.approx(1.0)
    taken, _, _ = fair.expand(torch.from_numpy(y))
    assert torch.equal(taken, torch.from_numpy(y)[index])


def test_samples_follow_the_fair_probabilities() -> None:
    fair, _, groups = solved()
    drawn = np.mean([np.eye(5)[fair.sample(seed).numpy()] for seed in range(200)], axis=0)
    means = np.array([drawn[groups == group].mean(axis=0) for group in range(3)])
    assert np.abs(
        means - fair.certificate.means
    ).max() <= 6 * fair.sampling_deviation.max() / np.sqrt(200)


def test_drawn_labels_are_measured_on_the_host() -> None:
    fair, _, groups = solved()
    drawn = fair.sample(7)
    assert fair.realised(drawn).disparity == pytest.approx(
        demographic_parity_difference(drawn.numpy(), sensitive_features=groups), abs=1e-12
    )


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("form", ["round", "sample"])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("kind", ["classes", "float64", "float32"])
def test_whole_labels_are_those_in_memory_bit_for_bit(
    kind: str, weighted: bool, form: str, key: str
) -> None:
    assert whole_labels_differ(kind, weighted, form, key, "cpu") == []


@pytest.mark.parametrize("form", ["round", "sample"])
def test_whole_labels_do_not_depend_on_batches_or_blocks(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labels_module, "_BLOCK_ENTRIES", 130)
    assert whole_labels_differ("float64", True, form, "none", "cpu", batch_rows=111) == []


@pytest.mark.parametrize("form", ["round", "sample"])
@pytest.mark.parametrize("soft", [False, True])
def test_new_rows_get_the_whole_labels_of_the_host(form: Any, soft: bool) -> None:
    y, groups = soft_rows(600, 4, 3)
    y = y if soft else y.argmax(axis=1)
    there, cells = torch.from_numpy(y), torch.from_numpy(groups)
    fair = r2b.engines.torch.debias(there, sensitive_features=cells, epsilon=0.02)
    expected = fair.in_memory().transform(
        y[:250], sensitive_features=groups[:250], form=form, random_state=5
    )
    given = fair.transform(there[:250], sensitive_features=cells[:250], form=form, random_state=5)
    assert np.array_equal(given.numpy(), expected)


def test_rounded_labels_keep_the_group_means() -> None:
    fair, _, groups = solved()
    rounded = fair.round(7)
    means = np.array(
        [
            np.bincount(rounded.numpy()[groups == group], minlength=5) / (groups == group).sum()
            for group in range(3)
        ]
    )
    sizes = np.bincount(groups)[:, None]
    assert (np.abs(means - fair.certificate.means) <= 1.0 / sizes + 1e-9).all()


def test_blocks_of_labels_are_the_labels() -> None:
    fair, _, _ = solved()
    assert torch.allclose(torch.cat(list(fair.iter_soft(130))), fair.soft_labels, atol=1e-15)
    assert fair.soft(torch.float32).dtype == torch.float32
    assert fair.soft(np.float32).dtype == torch.float32
    with pytest.raises(ParameterError, match="cut to whole numbers"):
        fair.soft(torch.int64)


def test_new_rows_get_the_labels_that_the_host_would_give() -> None:
    fair, y, groups = solved()
    host = fair.in_memory()
    new = fair.transform(torch.from_numpy(y[:50]), sensitive_features=torch.from_numpy(groups[:50]))
    assert (
        np.abs(new.numpy() - host.transform(y[:50], sensitive_features=groups[:50])).max() <= 1e-12
    )
    assert (
        np.abs(fair.transform(y[:50], sensitive_features=groups[:50]) - new.numpy()).max() <= 1e-12
    )
    index, _, weight = fair.transform(
        torch.from_numpy(y[:50]), sensitive_features=torch.from_numpy(groups[:50]), form="expand"
    )
    assert float(weight.sum()) == pytest.approx(50)
    assert int(index.max()) == 49
    with pytest.raises(UnseenError):
        fair.transform(torch.from_numpy(y[:2]), sensitive_features=torch.tensor([0, 9]))
    with pytest.raises(ShapeError, match="4 columns, but 5 classes"):
        fair.transform(torch.full((2, 4), 0.25), sensitive_features=torch.tensor([0, 1]))
    with pytest.raises(ShapeError, match="probabilities were fitted"):
        fair.transform(torch.tensor([0, 1]), sensitive_features=torch.tensor([0, 1]))


def test_new_classes_are_refused_by_row() -> None:
    y, groups = torch.tensor([0, 3, 3, 0, 0, 0]), torch.tensor([0, 0, 0, 1, 1, 1])
    fair = r2b.engines.torch.debias(y, sensitive_features=groups)
    assert fair.transform(torch.tensor([3]), sensitive_features=torch.tensor([1])).shape == (1, 2)
    with pytest.raises(UnseenError, match="Row 1 of y holds 2"):
        fair.transform(torch.tensor([3, 2]), sensitive_features=torch.tensor([1, 1]))


def test_it_is_saved_and_loaded_as_any_other(tmp_path: Any) -> None:
    fair, y, groups = solved()
    fair.save(tmp_path / "fair.json")
    loaded = r2b.load(tmp_path / "fair.json")
    assert (loaded.prices == fair.prices).all()
    assert (
        np.abs(loaded.transform(y, sensitive_features=groups) - fair.soft_labels.numpy()).max()
        <= 1e-12
    )


def test_groups_have_the_names_that_the_host_gives() -> None:
    y, sex = soft_rows(300, 3, 2)
    stratum = np.random.default_rng(0).integers(5, 8, 300)
    named = {"sensitive_features": {"sex": sex}, "control_features": {"stratum": stratum}}
    host = r2b.debias(y, **named, epsilon=0.01)
    there = {
        name: {column: torch.from_numpy(values) for column, values in given.items()}
        for name, given in named.items()
    }
    fair = r2b.engines.torch.debias(torch.from_numpy(y), **there, epsilon=0.01)
    assert fair.groups.tolist() == host.groups.tolist()
    assert fair.cells.tolist() == host.cells.tolist()
    assert np.abs(fair.prices - host.prices).max() <= 1e-8
    words = r2b.engines.torch.debias(
        torch.from_numpy(y), sensitive_features=np.where(sex == 0, "f", "m"), epsilon=0.01
    )
    assert words.groups.tolist() == ["f", "m"]


def test_small_groups_are_counted_by_their_rows() -> None:
    y, groups = soft_rows(300, 3, 2)
    groups[:5] = 2
    asked = {"sensitive_features": torch.from_numpy(groups), "min_group_size": 10}
    with pytest.raises(R2BError, match="5"):
        r2b.engines.torch.debias(torch.from_numpy(y), **asked)
    with pytest.raises(R2BError, match="5"):
        r2b.engines.torch.debias(torch.from_numpy(groups % 2), **asked)


def test_the_account_reads_like_that_of_the_host() -> None:
    fair, y, groups = solved()
    host = r2b.debias(y, sensitive_features=groups, epsilon=0.02)
    assert str(fair).splitlines()[1] == str(host).splitlines()[1]
    assert fair.costliest_constraints(3)[0].group == host.costliest_constraints(3)[0].group
    assert fair.largest_changes() == []


def test_a_matrix_of_attributes_is_crossed_as_on_the_host() -> None:
    y, sex = soft_rows(300, 3, 2)
    both = np.column_stack([sex, np.random.default_rng(0).integers(0, 2, 300)])
    fair = r2b.engines.torch.debias(
        torch.from_numpy(y), sensitive_features=torch.from_numpy(both), epsilon=0.1
    )
    assert (
        fair.groups.tolist() == r2b.debias(y, sensitive_features=both, epsilon=0.1).groups.tolist()
    )


@pytest.mark.parametrize("values", [[7, -2, 7], [0, 1 << 40, 5], [True, False, True], [3, 1, 3, 5]])
def test_codes_are_ranks_among_what_occurs(values: list[Any]) -> None:
    codes, present, counts = compact(torch.tensor(values))
    expected, inverse, numbers = np.unique(values, return_inverse=True, return_counts=True)
    assert present.tolist() == expected.tolist()
    assert codes.tolist() == inverse.tolist()
    assert counts.tolist() == numbers.tolist()


def test_normalising_divides_rows_by_their_sums() -> None:
    y, groups = soft_rows(100, 3, 2)
    there = torch.from_numpy(groups)
    scaled = r2b.engines.torch.debias(
        torch.from_numpy(3 * y), sensitive_features=there, normalize=True, epsilon=0.01
    )
    assert (
        np.abs(
            scaled.prices
            - r2b.engines.torch.debias(
                torch.from_numpy(y), sensitive_features=there, epsilon=0.01
            ).prices
        ).max()
        <= 1e-9
    )
    y[4] = 0
    with pytest.raises(ProbabilityError, match="row 4"):
        r2b.engines.torch.debias(torch.from_numpy(y), sensitive_features=there, normalize=True)


def test_normalising_does_not_make_a_negative_row_right() -> None:
    y, groups = soft_rows(100, 3, 2)
    y[5] = -y[5]
    with pytest.raises(ProbabilityError, match=r"row 5 has the probability -.* which is negative"):
        r2b.engines.torch.debias(
            torch.from_numpy(y), sensitive_features=torch.from_numpy(groups), normalize=True
        )
    fair = r2b.engines.torch.debias(
        torch.from_numpy(np.abs(y)), sensitive_features=torch.from_numpy(groups), epsilon=0.01
    )
    with pytest.raises(ProbabilityError, match="row 5 has the probability -"):
        fair.transform(
            torch.from_numpy(y), sensitive_features=torch.from_numpy(groups), normalize=True
        )


def test_blocks_and_seeds_are_checked_as_on_the_host() -> None:
    fair = r2b.engines.torch.debias(SOUND, sensitive_features=GROUPS, epsilon=0.01)
    for rows in (0, -3, "x", 1.5, True):
        with pytest.raises(ParameterError, match="block_rows is"):
            fair.iter_soft(rows)  # type: ignore[arg-type]
    for seed in ("x", -1):
        with pytest.raises(ParameterError, match="random_state is"):
            fair.sample(seed)


def test_sums_by_cell_do_not_depend_on_how_rows_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, cells = torch.arange(60, dtype=torch.float64).reshape(30, 2), torch.arange(30) % 4
    whole = add_by_cell(rows, cells, 4)
    expected = np.stack([rows.numpy()[cells.numpy() == cell].sum(axis=0) for cell in range(4)])
    monkeypatch.setattr(rows_module, "_MEMBERS", 28)
    assert np.array_equal(whole.numpy(), expected) and np.array_equal(
        add_by_cell(rows, cells, 4).numpy(), expected
    )


def spoilt(row: int, column: int, value: float) -> Any:
    y, _ = soft_rows(90, 3, 2)
    y[row, column] = value
    return torch.from_numpy(y)


GROUPS = torch.arange(90) % 2
SOUND = torch.from_numpy(soft_rows(90, 3, 2)[0])
REFUSALS: list[tuple[type[R2BError], str, Any, dict[str, Any]]] = [
    (ProbabilityError, "row 7 has the probability -0.5 for class 1", spoilt(7, 1, -0.5), {}),
    (ProbabilityError, "row 8 has the probability nan for class 0", spoilt(8, 0, float("nan")), {}),
    (ProbabilityError, "row 9 has the probability inf for class 2", spoilt(9, 2, float("inf")), {}),
    (ProbabilityError, "row 3 sums to", spoilt(3, 1, 0.99), {}),
    (InputError, "y.float()", SOUND.half(), {}),
    (InputError, "sparse", SOUND.to_sparse(), {}),
    (ShapeError, "3 dimensions", torch.zeros(2, 2, 2), {}),
    (ShapeError, "y.cpu", torch.zeros(90), {}),
    (EmptyError, "single column", torch.ones(90, 1), {}),
    (EmptyError, "one class", torch.zeros(90, dtype=torch.int64), {}),
    (
        LengthError,
        "y has 90 rows",
        SOUND,
        {"sensitive_features": torch.zeros(5, dtype=torch.int64)},
    ),
    (InputError, "whole numbers or booleans", SOUND, {"sensitive_features": torch.zeros(90)}),
    (LengthError, "sample_weight", SOUND, {"sample_weight": torch.ones(3)}),
    (WeightError, "row 2 is -1.0", SOUND, {"sample_weight": torch.tensor([1.0, 1.0, -1.0] * 30)}),
    (WeightError, "all 90 rows are zero", SOUND, {"sample_weight": torch.zeros(90)}),
    (ParameterError, "y.cpu", SOUND, {"costs": np.ones((3, 3))}),
    (ParameterError, "agreement", SOUND, {"objective": "agreement"}),
    (ParameterError, "kernel is 'fast'", SOUND, {"kernel": "fast"}),
    (ParameterError, "batch_rows is True", SOUND, {"device": "cpu", "batch_rows": True}),
    (ParameterError, "batch_rows is 0", SOUND, {"device": "cpu", "batch_rows": 0}),
    (ParameterError, "device is 'nowhere'", SOUND, {"device": "nowhere"}),
]


@pytest.mark.parametrize(
    ("error", "words", "y", "asked"), REFUSALS, ids=[words for _, words, _, _ in REFUSALS]
)
def test_what_cannot_be_used_is_refused_by_name(
    error: type[R2BError], words: str, y: Any, asked: dict[str, Any]
) -> None:
    with pytest.raises(error) as raised:
        r2b.engines.torch.debias(y, **{"sensitive_features": GROUPS, **asked})
    assert words in str(raised.value)


def test_a_device_without_double_precision_is_refused_with_the_way_out() -> None:
    with pytest.raises(ParameterError, match="Move the labels to the host"):
        device_of("mps")


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is there")
def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(ParameterError, match="finds no CUDA device"):
        device_of("cuda")


def test_attributes_of_the_host_are_read_on_the_host() -> None:
    codes, groups = read_device_cells(["f", "m", "f"], None, torch.device("cpu"), "error")
    assert codes.tolist() == [0, 1, 0]
    assert groups.counts.tolist() == [2, 1]


def test_without_torch_the_error_names_the_extra() -> None:
    program = "import sys; sys.modules['torch'] = None; import r2b.engines.torch"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "MissingExtraError: Labels on a device need PyTorch" in done.stderr
    assert "r2b[torch]" in done.stderr
