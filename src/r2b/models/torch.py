"""PyTorch on fair labels: a dataset of soft rows, and a cross-entropy with row weights.

A recipe for a network, from rows to fair decisions:

1. Predict the groups from what the network sees: from the features, or from its own embeddings of a
first training without parity. 2. Make the labels fair by these groups, and train on the soft
labels. 3. Give the network a thin wrapper with ``classes_`` and ``predict_proba``, and let
``ParityPostprocessor`` find prices on rows that it was
   not trained on. It predicts from X alone.

Examples
--------
>>> import numpy as np
>>> from torch.utils.data import BatchSampler, DataLoader, RandomSampler
>>> from r2b.metrics import demographic_parity_difference
>>> from r2b.sklearn import ParityPostprocessor, fair_labels
>>> rng, _ = np.random.default_rng(0), torch.manual_seed(0)
>>> sex = rng.choice(["f", "m"], 5000)
>>> X = (rng.normal(size=(5000, 4)) + np.outer(sex == "m", [1, 1, 0, 0])).astype(np.float32)
>>> y = np.where(X[:, 0] + rng.normal(size=5000) > 0.5, "yes", "no")
>>> train, later, new = np.split(np.arange(5000), [1500, 4000])

The network: a body, whose output are the embeddings, and a head.

>>> class Network:
...     def __init__(self):
...         self.body = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU())
...         self.head = torch.nn.Linear(16, 2)
...
...     def fit(self, X, labels, epochs=5):
...         dataset = SoftLabelDataset(X, labels)
...         self.classes_ = dataset.classes
...         batches = BatchSampler(RandomSampler(dataset), 64, False)
...         parameters = [*self.body.parameters(), *self.head.parameters()]
...         optimizer = torch.optim.Adam(parameters, lr=0.01)
...         for _ in range(epochs):
...             for x, soft, weight in DataLoader(dataset, sampler=batches, batch_size=None):
...                 optimizer.zero_grad()
...                 soft_cross_entropy(self.head(self.body(x)), soft, weight).backward()
...                 optimizer.step()
...         return self
...
...     @torch.no_grad()
...     def embed(self, X):
...         return self.body(torch.as_tensor(X)).numpy()
...
...     @torch.no_grad()
...     def predict_proba(self, X):
...         return self.head(self.body(torch.as_tensor(X))).softmax(dim=1).numpy()

A first training shows the network's own embeddings; the groups as they show them make the labels
fair for the second.

>>> plain = Network().fit(X[train], y[train])
>>> fair = fair_labels(plain.embed(X[train]), y[train], sensitive_features=sex[train])
>>> network = Network().fit(X[train], fair)
>>> before, after = (
...     demographic_parity_difference(model.predict_proba(X[new]), sensitive_features=sex[new])
...     for model in (plain, network)
... )
>>> before > 0.2, after < before / 3
(True, True)

Decisions in parity, for which the wrapper above is enough:

>>> model = ParityPostprocessor(plain, prefit=True, frontier=0)
>>> model = model.fit(X[later], y[later], sensitive_features=sex[later])
>>> demographic_parity_difference(model.predict(X[new]), sensitive_features=sex[new]) < 0.1
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from r2b.errors import InputError, ShapeError, require
from r2b.models.targets import SoftTargets, make_fair, refuse_other_rows

if TYPE_CHECKING:
    from r2b.sklearn.fair_labels import GroupUse

torch = require("torch", "r2b.models.torch needs torch", extra="torch")
_Dataset: Any = torch.utils.data.Dataset


class SoftLabelDataset(_Dataset):  # type: ignore[misc]
    """Features, soft label and weight of each row, for a ``DataLoader``.

    Where the labels are classes, what is kept is the table of distinct rows and one code per row;
    the N x L matrix is never built.

    Parameters
    ----------
    X : Tensor, array or frame of numbers, with N rows
        A tensor is kept as it is; arrays share their memory where they can. float64 becomes
        float32, which is what layers are made of.
    labels : FairLabels, or array-like of shape (N, L) or (N,)
        What ``debias`` returns; or probabilities, or classes.
    sample_weight : array-like of shape (N,), optional
        Beside probabilities or classes. Fair labels bring the weights they were made with.
    sensitive_features : array-like of shape (N,) or (N, n_attributes), or Membership, optional
        Makes classes or probabilities fair first, by these groups.
    groups : {"visible", "given", "both"}
        By which groups: as X shows them, which makes the network fair, or as they are, which makes
        the labels fair.
    group_estimator : classifier, optional
        Predicts the groups from X, as an array; logistic regression on scaled features by default.
        For pictures predict them from the network's embeddings instead, as in the recipe above.
    **options
        As for :func:`r2b.sklearn.fair_labels`, such as ``epsilon``.

    Attributes
    ----------
    classes : ndarray of shape (L,)
        The names of the columns of the soft rows.

    Raises
    ------
    InputError
        Labels, weights and X do not fit together, or X is not made of numbers.

    Notes
    -----
    An index may be one number, a slice, or a list or tensor of numbers. The latter make a whole
    batch at once, which is faster than collating rows: ``DataLoader(dataset,
    sampler=BatchSampler(RandomSampler(dataset), 256, False), batch_size=None)``.

    Examples
    --------
    >>> import numpy as np, r2b
    >>> fair = r2b.debias(["a", "b", "b", "a"], sensitive_features=["f", "f", "f", "m"])
    >>> dataset = SoftLabelDataset(np.arange(8.0).reshape(4, 2), fair)
    >>> dataset[1]
    (tensor([2., 3.]), tensor([0.1818, 0.8182]), tensor(1.))
    >>> x, soft, weight = dataset[[0, 3]]
    >>> x.shape, soft.shape, weight.shape
    (torch.Size([2, 2]), torch.Size([2, 2]), torch.Size([2]))
    """

    def __init__(
        self,
        X: Any,
        labels: Any,
        *,
        sample_weight: Any = None,
        sensitive_features: Any = None,
        groups: GroupUse = "visible",
        group_estimator: Any = None,
        **options: Any,
    ) -> None:
        asked = {
            "sensitive_features": sensitive_features,
            "groups": groups,
            "group_estimator": group_estimator,
            **options,
        }
        plain = (
            X.detach().cpu().numpy()
            if isinstance(X, torch.Tensor) and sensitive_features is not None
            else X
        )
        targets = SoftTargets.of(*make_fair(plain, labels, sample_weight, None, asked))
        refuse_other_rows(X, targets)
        self.classes = targets.classes
        self._features = _tensor_of(X)
        self._table = _shared(targets.table.astype(np.float32, copy=False))
        # torch reads a tensor of uint8 as a mask, so that codes are kept as signed numbers.
        self._codes = (
            None if targets.codes is None else torch.from_numpy(targets.codes.astype(np.int32))
        )
        self._weight = torch.from_numpy(targets.weight.astype(np.float32))

    def __len__(self) -> int:
        return len(self._features)

    def __getitem__(self, index: Any) -> tuple[Any, Any, Any]:
        which = _places(index) if isinstance(index, (list, tuple, range, np.ndarray)) else index
        soft = self._table[which] if self._codes is None else self._table[self._codes[which].long()]
        return self._features[which], soft, self._weight[which]


def soft_cross_entropy(logits: Any, targets: Any, weight: Any = None) -> Any:
    """Return the weighted mean over rows of ``-sum_k y_k log softmax(logits)_k``.

    ``torch.nn.CrossEntropyLoss`` takes soft rows as well; its ``weight`` is one number per class,
    not per row.

    Parameters
    ----------
    logits : Tensor of shape (n, L)
        Scores of every row before the softmax.
    targets : Tensor of shape (n, L)
        Distributions over the classes.
    weight : Tensor of shape (n,), optional
        Weights of the rows.

    Returns
    -------
    Tensor
        A single number: the losses times the weights, over the sum of the weights. 0 for a batch
        whose rows all weigh nothing, so that it moves nothing.

    Raises
    ------
    ShapeError
        There is not one weight per row.

    See Also
    --------
    r2b.models.torch.SoftLabelDataset : Rows with fair probabilities.

    Examples
    --------
    >>> soft_cross_entropy(torch.zeros(2, 4), torch.full((2, 4), 0.25), torch.tensor([1.0, 3.0]))
    tensor(1.3863)
    """
    loss = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    if weight is None:
        return loss.mean()
    if weight.shape != loss.shape:  # a column of weights would multiply every loss by every weight
        problem = f"The weights have shape {tuple(weight.shape)}, the losses {tuple(loss.shape)}."
        raise ShapeError(
            problem, remedy="Pass one weight per row, in one dimension.", shape=tuple(weight.shape)
        )
    total = weight.sum()
    return (loss * weight).sum() / torch.where(total > 0, total, torch.ones_like(total))


def _tensor_of(X: Any) -> Any:
    if isinstance(X, torch.Tensor):
        return X
    if hasattr(X, "toarray"):
        raise InputError(
            "X is a sparse matrix.",
            remedy="Pass a dense one, for example with .toarray(), or batches of it.",
            argument="X",
        )
    frame = nw.from_native(X, eager_only=True, pass_through=True, allow_series=True)
    if isinstance(frame, nw.DataFrame) and any(
        kind == nw.Boolean for kind in frame.schema.values()
    ):
        # Dummies beside numbers, as get_dummies makes them, would come out of a frame as objects.
        frame = frame.with_columns(nw.selectors.boolean().cast(nw.Float32))
    array = frame.to_numpy() if isinstance(frame, (nw.DataFrame, nw.Series)) else np.asarray(X)
    if array.dtype.kind not in "fiub":
        raise InputError(
            f"X has the dtype {array.dtype}, which no tensor can hold.",
            remedy="Encode its columns as numbers first.",
            dtype=array.dtype,
        )
    wide = array.dtype.kind == "f" and array.dtype.itemsize >= 8
    return _shared(array.astype(np.float32 if wide else array.dtype.newbyteorder("="), copy=False))


def _shared(array: Any) -> Any:
    # A tensor could write to the memory of an array that is not to be written to; torch warns, and
    # we copy. Nor can it walk backwards.
    return torch.from_numpy(
        array if array.flags.writeable and min(array.strides, default=0) >= 0 else array.copy()
    )


def _places(index: Any) -> Any:
    # An empty list has no whole numbers to tell its type by, and torch takes small unsigned ones
    # for a mask.
    which = np.asarray(index)
    return torch.as_tensor(which if which.dtype == np.bool_ else which.astype(np.int64))
