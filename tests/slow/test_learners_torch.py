"""A small network on fair labels: soft rows batch by batch, row weights in the loss, parity on
held-out rows.
"""

from __future__ import annotations

import numpy as np
import pytest
from learner_tables import fair_adult, injected_adult, small

from r2b.errors import LengthError, ShapeError
from r2b.metrics import demographic_parity_difference

torch = pytest.importorskip("torch")
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler  # noqa: E402

from r2b.models.torch import SoftLabelDataset, soft_cross_entropy  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def features(X):
    """One-hot codes and standardised numbers, by rules that need no data."""
    numbers = X[:, :4] / [40.0, 40.0, 10_000.0, 1_000.0]
    return np.hstack(
        [numbers, *[np.eye(16)[X[:, k].astype(int)] for k in range(4, X.shape[1])]]
    ).astype(np.float32)


def mlp(labels, X, X_new, epochs=8, seed=0):
    """Probabilities of a network with one hidden layer."""
    torch.manual_seed(seed)
    dataset = SoftLabelDataset(X, labels)
    model = torch.nn.Sequential(
        torch.nn.Linear(X.shape[1], 32), torch.nn.ReLU(), torch.nn.Linear(32, len(dataset.classes))
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    batches = DataLoader(
        dataset, sampler=BatchSampler(RandomSampler(dataset), 128, drop_last=False), batch_size=None
    )
    # With steps of one size the last batch alone moves parity by a tenth, up or down; they shrink
    # to nothing instead.
    decay = torch.optim.lr_scheduler.LinearLR(
        optimiser, 1.0, 0.01, total_iters=epochs * len(batches)
    )
    for _ in range(epochs):
        for x, soft, weight in batches:
            optimiser.zero_grad()
            soft_cross_entropy(model(x), soft, weight).backward()
            optimiser.step()
            decay.step()
    with torch.no_grad():
        return torch.softmax(model(torch.from_numpy(X_new)).double(), dim=1).numpy()


def test_parity_of_a_network_on_held_out_rows_falls_to_a_tenth():
    seen, held_out = injected_adult()
    X, X_new = features(seen.X), features(held_out.X)
    before = demographic_parity_difference(mlp(seen.y, X, X_new), sensitive_features=held_out.sex)
    after = demographic_parity_difference(
        mlp(fair_adult(), X, X_new), sensitive_features=held_out.sex
    )
    # A network that has settled shows the parity of the labels it learnt from; more would flatter
    # the comparison.
    assert before == pytest.approx(
        demographic_parity_difference(seen.y, sensitive_features=seen.sex), abs=0.05
    )
    assert after < before / 10


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_are_those_of_the_fair_labels(soft, weighted):
    fair = small(soft, weighted)
    X = np.arange(180.0).reshape(60, 3)
    dataset = SoftLabelDataset(X, fair)
    weight = np.ones(60) if fair.dataset.weight is None else fair.dataset.weight
    assert isinstance(dataset, Dataset)
    assert len(dataset) == 60
    for index in (5, -1, slice(10, 20), [3, 1, 1], np.array([0, 59]), torch.tensor([7, 8])):
        x, row, w = dataset[index]
        plain = index.tolist() if isinstance(index, torch.Tensor) else index
        np.testing.assert_allclose(x.numpy(), X[plain])
        np.testing.assert_allclose(row.numpy(), fair.soft_labels[plain], atol=1e-7)
        np.testing.assert_allclose(w.numpy(), weight[plain], rtol=1e-6)
    assert {x.dtype, row.dtype, w.dtype} == {torch.float32}


def test_the_matrix_of_class_labels_is_not_built():
    dataset = SoftLabelDataset(np.zeros((4_000, 1), np.float32), fair_adult())
    held = [value for value in vars(dataset).values() if isinstance(value, torch.Tensor)]
    assert max(tensor.numel() for tensor in held) == 4_000


def test_the_loss_is_the_weighted_mean_of_cross_entropies():
    rng = np.random.default_rng(0)
    logits, y, weight = rng.normal(size=(9, 5)), rng.dirichlet(np.ones(5), 9), rng.random(9)
    losses = -(y * (logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))).sum(axis=1)
    tensors = [torch.from_numpy(array) for array in (logits, y, weight)]
    assert soft_cross_entropy(*tensors).item() == pytest.approx(np.average(losses, weights=weight))
    assert soft_cross_entropy(*tensors[:2]).item() == pytest.approx(losses.mean())
    own = torch.nn.CrossEntropyLoss()(*tensors[:2])
    assert soft_cross_entropy(*tensors[:2]).item() == pytest.approx(own.item())


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_frames_of_numbers_become_tensors(kind):
    pytest.importorskip(kind)
    import narwhals as nw

    frame = nw.from_dict({"a": [1, 2, 3], "b": [0.5, 1.5, 2.5]}, backend=kind).to_native()
    x, _, _ = SoftLabelDataset(frame, ["u", "v", "u"])[:]
    assert x.tolist() == [[1, 0.5], [2, 1.5], [3, 2.5]]


def test_features_of_another_length_are_refused():
    with pytest.raises(LengthError, match="`X` has 4 rows, but `y` has 60"):
        SoftLabelDataset(torch.zeros(4, 1), small(False, False))


@pytest.mark.parametrize(
    "index",
    [np.array([0, 2], np.uint8), range(0, 3, 2), (0, 2), np.array([True, False, True])],
    ids=str,
)
def test_rows_are_taken_by_numbers_of_any_kind_or_by_a_mask(index):
    dataset = SoftLabelDataset(
        np.arange(3.0)[:, None], ["a", "b", "a"], sample_weight=[1.0, 2.0, 3.0]
    )
    x, soft, weight = dataset[index]
    assert x[:, 0].tolist() == [0.0, 2.0]
    assert soft.tolist() == [[1.0, 0.0], [1.0, 0.0]]
    assert weight.tolist() == [1.0, 3.0]
    assert [len(part) for part in dataset[[]]] == [0, 0, 0]


def test_a_column_of_weights_is_refused():
    with pytest.raises(ShapeError, match="one weight per row"):
        soft_cross_entropy(torch.zeros(2, 2), torch.full((2, 2), 0.5), torch.ones(2, 1))
