"""PyTorch on fair labels: a dataset that makes soft rows batch by batch, and a cross-entropy with row weights."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np

from r2b.errors import InputError, ShapeError, require
from r2b.models.targets import SoftTargets, refuse_other_rows

torch = require("torch", "r2b.models.torch needs torch", extra="torch")
_Dataset: Any = torch.utils.data.Dataset


class SoftLabelDataset(_Dataset):  # type: ignore[misc]
    """Features, soft label and weight of each row, for a ``DataLoader``.

    Where the labels are classes, what is kept is the table of distinct rows and one code per row; the N x L matrix is never built.

    Parameters
    ----------
    X : Tensor, array or frame of numbers, with N rows
        A tensor is kept as it is; arrays share their memory where they can. float64 becomes float32, which is what layers are made of.
    labels : FairLabels, or array-like of shape (N, L) or (N,)
        What ``debias`` returns; or probabilities, or classes.
    sample_weight : array-like of shape (N,), optional
        Beside probabilities or classes. Fair labels bring the weights they were made with.

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
    An index may be one number, a slice, or a list or tensor of numbers. The latter make a whole batch at once, which is faster than
    collating rows: ``DataLoader(dataset, sampler=BatchSampler(RandomSampler(dataset), 256, False), batch_size=None)``.

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

    def __init__(self, X: Any, labels: Any, *, sample_weight: Any = None) -> None:
        targets = SoftTargets.of(labels, sample_weight)
        refuse_other_rows(X, targets)
        self.classes = targets.classes
        self._features = _tensor_of(X)
        self._table = _shared(targets.table.astype(np.float32, copy=False))
        # torch reads a tensor of uint8 as a mask, so that codes are kept as signed numbers.
        self._codes = None if targets.codes is None else torch.from_numpy(targets.codes.astype(np.int32))
        self._weight = None if targets.weight is None else torch.from_numpy(targets.weight.astype(np.float32))

    def __len__(self) -> int:
        return len(self._features)

    def __getitem__(self, index: Any) -> tuple[Any, Any, Any]:
        which = _places(index) if isinstance(index, (list, tuple, range, np.ndarray)) else index
        soft = self._table[which] if self._codes is None else self._table[self._codes[which].long()]
        weight = soft.new_ones(soft.shape[:-1]) if self._weight is None else self._weight[which]
        return self._features[which], soft, weight


def soft_cross_entropy(logits: Any, targets: Any, weight: Any = None) -> Any:
    """Give the weighted mean over rows of ``-sum_k y_k log softmax(logits)_k``.

    ``torch.nn.CrossEntropyLoss`` takes soft rows as well; its ``weight`` is one number per class, not per row.

    Parameters
    ----------
    logits : Tensor of shape (n, L)
    targets : Tensor of shape (n, L)
        Distributions over the classes.
    weight : Tensor of shape (n,), optional

    Returns
    -------
    Tensor
        A single number: the losses times the weights, over the sum of the weights. 0 for a batch whose rows all weigh nothing, so that
        it moves nothing.

    Raises
    ------
    ShapeError
        There is not one weight per row.

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
        raise ShapeError(problem, remedy="Pass one weight per row, in one dimension.", shape=tuple(weight.shape))
    total = weight.sum()
    return (loss * weight).sum() / torch.where(total > 0, total, torch.ones_like(total))


def _tensor_of(X: Any) -> Any:
    if isinstance(X, torch.Tensor):
        return X
    if hasattr(X, "toarray"):
        raise InputError("X is a sparse matrix.", remedy="Pass a dense one, for example with .toarray(), or batches of it.", argument="X")
    frame = nw.from_native(X, eager_only=True, pass_through=True, allow_series=True)
    if isinstance(frame, nw.DataFrame) and any(kind == nw.Boolean for kind in frame.schema.values()):
        # Dummies beside numbers, as get_dummies makes them, would come out of a frame as objects.
        frame = frame.with_columns(nw.selectors.boolean().cast(nw.Float32))
    array = frame.to_numpy() if isinstance(frame, (nw.DataFrame, nw.Series)) else np.asarray(X)
    if array.dtype.kind not in "fiub":
        remedy = "Encode its columns as numbers first."
        raise InputError(f"X has the dtype {array.dtype}, which no tensor can hold.", remedy=remedy, dtype=array.dtype)
    wide = array.dtype.kind == "f" and array.dtype.itemsize >= 8
    return _shared(array.astype(np.float32 if wide else array.dtype.newbyteorder("="), copy=False))


def _shared(array: Any) -> Any:
    # A tensor could write to the memory of an array that is not to be written to; torch warns, and we copy. Nor can it walk backwards.
    return torch.from_numpy(array if array.flags.writeable and min(array.strides, default=0) >= 0 else array.copy())


def _places(index: Any) -> Any:
    # An empty list has no whole numbers to tell its type by, and torch takes small unsigned ones for a mask.
    which = np.asarray(index)
    return torch.as_tensor(which if which.dtype == np.bool_ else which.astype(np.int64))
