"""Debias labels on a device, and return labels as arrays of that device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Unpack

import numpy as np
import torch

from r2b._constraints.families.doubts import warn_of_doubts
from r2b._data import Dataset, read
from r2b._data.arrays import smallest_unsigned
from r2b._data.cells import read_cells, read_known_cells
from r2b._data.columns import refuse_lengths, refuse_other_index, row_labels
from r2b._data.compute import parts_of
from r2b._data.dataset import Labels, combine, read_known_labels
from r2b._data.merge import Extent
from r2b._labels import FairLabels
from r2b._labels.debiasing import Options, request_and_settings, takes_options
from r2b._labels.rows import LabelRows, MemoryRows, floating
from r2b._labels.rule import Rule
from r2b._labels.task import Task, by_row
from r2b.engines.torch import reading
from r2b.engines.torch.oracle import DeviceBlocks
from r2b.errors import ParameterError

Tensor = torch.Tensor


@dataclass(frozen=True, eq=False)
class TensorRows(LabelRows):
    """Rows on a device, whose labels are arrays of the library and device that they came from.

    Probabilities are computed on the device. Whole labels and expanded rows are made in memory, so
    that they are the same bits on every path, and copied back.

    Attributes
    ----------
    y : tensor of shape (N, n_classes) or (N,)
        Probabilities, or classes.
    known : Dataset
        Groups and weights, on the host; for classes the labels as well.
    library : {"torch", "cupy", "jax.numpy"}
        The library of arrays that leave.
    device : torch.device
        The device that computes.

    Examples
    --------
    >>> import r2b.engines.torch
    >>> y = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.5, 0.5], [0.2, 0.8]])
    >>> groups = torch.tensor([0, 0, 1, 1])
    >>> fair = r2b.engines.torch.debias(y, sensitive_features=groups, epsilon=0.0)
    >>> fair.soft(torch.float32)
    tensor([[0.7000, 0.3000],
            [0.4000, 0.6000],
            [0.7000, 0.3000],
            [0.4000, 0.6000]])
    """

    y: Tensor
    known: Dataset
    library: str
    device: torch.device

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        """The number of rows."""
        return len(self.y)

    @property
    def weighted(self) -> bool:  # type: ignore[override]
        """Whether rows have weights."""
        return self.known.weight is not None

    @property
    def counts(self) -> Dataset:  # type: ignore[override]
        """The rows, on the host."""
        return self._host.dataset

    @cached_property
    def _host(self) -> MemoryRows:
        if self.y.ndim == 1:
            return MemoryRows(self.known)
        labels = Labels(self.known.labels.vocabulary, matrix=self.y.cpu().numpy())
        return MemoryRows(replace(self.known, labels=labels))

    def in_memory(self) -> MemoryRows:
        """Copy the rows to the host."""
        return self._host

    @property
    def labelled(self) -> Any:
        """These rows: their labels are made on the device."""
        return self

    @cached_property
    def blocks(self) -> DeviceBlocks:
        """The kernel over these rows, for probabilities."""
        cells, weight = self.known.cells, self.known.weight
        return DeviceBlocks(self.y, cells.codes, weight, cells.n_cells, self.device)

    def soft(self, rule: Rule, dtype: Any) -> Any:
        """Compute the matrix of fair labels."""
        if self.y.ndim == 2 and rule.unchanged and dtype is None:
            return self._given(self.y)
        (whole,) = self.iter_soft(rule, self.n_rows, dtype)
        return whole

    def iter_soft(self, rule: Rule, block_rows: int, dtype: Any) -> Iterator[Any]:
        """Compute the matrix a block of rows at a time."""
        wanted = _floating(dtype)
        if self.y.ndim == 1:
            blocks = self._host.iter_soft(rule, block_rows, np.float64)
            return (self._given(block, wanted) for block in blocks)
        parts = parts_of(self.n_rows, block_rows)
        return (self._given(self._block(rule, part, wanted)) for part in parts)

    def _block(self, rule: Rule, rows: slice, dtype: torch.dtype) -> Tensor:
        y = self.y[rows]
        if rule.unchanged:
            return y.to(dtype)
        out = torch.empty(y.shape, dtype=dtype, device=y.device)
        response = rule.response(self.known.cells)
        self.blocks.answer(response.shifts, response.lam, rows, out)
        return out

    def sample(self, rule: Rule, seed: int, key: Any) -> Any:
        """Draw one class per row."""
        return self._given(self._host.sample(rule, seed, reading.host_array(key)))

    def round(self, rule: Rule, seed: int, key: Any) -> Any:
        """Pick one class per row so that group means stay where they are."""
        return self._given(self._host.round(rule, seed, reading.host_array(key)))

    def expand(self, rule: Rule, X: Any) -> tuple[Any, Any, Any]:
        """Repeat each row for its classes, with weights."""
        found = [self._given(each) for each in self._host.expand(rule, None)]
        if X is not None:
            features = reading.tensor_of(X, what="X")
            refuse_lengths("X", len(features), "y", self.n_rows)
            index = (("sensitive_features", self.known.cells.index), ("X", row_labels(X)))
            refuse_other_index(*index)
            found[0] = self._given(features[reading.tensor_of(found[0], what="X")])
        return found[0], found[1], found[2]

    def _given(self, labels: Any, dtype: torch.dtype | None = None) -> Any:
        tensor = torch.as_tensor(labels, dtype=dtype, device=self.y.device)
        return reading.array_of(tensor, self.library)

    def read(self, rule: Rule, y: Any, data: dict[str, Any]) -> LabelRows:
        """Read new rows; arrays of a device stay there."""
        given = {name: reading.host_array(each) for name, each in data.items()}
        if not reading.library_of(y):
            return super().read(rule, y, given)
        labels = reading.tensor_of(y, what="y")
        reading.refuse_form(labels)
        schema, normalize, known_only = rule.schema, given.pop("normalize"), rule.known_crossings
        if labels.ndim == 1:
            known = schema.read(labels.cpu().numpy(), **given, known_crossings=known_only)
        else:
            # One row of the same width is checked in place of the matrix, which is on the device.
            row, classes = np.eye(1, labels.shape[1]), schema.classes
            read_known_labels(row, vocabulary=classes, soft=schema.is_soft, normalize=False)
            weight = given.pop("sample_weight")
            cells = read_known_cells(**given, fitted=schema, known_crossings=known_only)
            known = _beside(labels, classes, cells, weight)
            labels = reading.checked(labels, normalize=normalize)
        return TensorRows(labels, known, reading.library_of(y), labels.device)


def _floating(dtype: Any) -> torch.dtype:
    if not isinstance(dtype, torch.dtype):
        found: torch.dtype = getattr(torch, floating(dtype).name, torch.float64)
        return found
    if not dtype.is_floating_point:
        floating(torch.empty(0, dtype=dtype).numpy().dtype)  # refuses it
    return dtype


def _beside(y: Tensor, classes: Any, cells: Any, weight: Any) -> Dataset:
    """Check cells and weights against the rows of y, for which codes without meaning stand in."""
    codes = np.zeros(len(y), smallest_unsigned(len(classes)))
    return combine(Labels(classes, codes=codes), cells, weight)


_WITHOUT = ("threads",)


@takes_options(without=_WITHOUT)
def debias(
    y: Any,
    *,
    sensitive_features: Any,
    control_features: Any = None,
    sample_weight: Any = None,
    device: Any = None,
    **options: Unpack[Options],
) -> FairLabels:
    """Find the closest labels in parity, for labels on a device.

    Parameters
    ----------
    y : array of shape (N, L) or (N,)
        Probabilities in float32 or float64, or classes as whole numbers: a tensor of PyTorch, or an
        array of CuPy or JAX.
    sensitive_features : array of shape (N,) or (N, n_attributes), or mapping
        Arrays of a device, or anything else that :func:`r2b.debias` reads.
    control_features : array or mapping, optional
        Likewise.
    sample_weight : array of shape (N,), optional
        Weights of the rows; without them all count the same.
    device : torch.device or str, optional
        For probabilities on the host: the device that computes. Labels are brought to it a part at
        a time, on every pass, so that they may be larger than its memory.
    **options : Options
        As for :func:`r2b.debias`.

    Returns
    -------
    FairLabels
        As from :func:`r2b.debias`, with labels as arrays of the library and device that they came
        from.

    Raises
    ------
    InputError
        The data cannot be used as they are: the message names column, row and value.
    ParameterError
        An argument lies outside its range, or is not available on a device.

    See Also
    --------
    r2b.debias : The closest labels in parity.

    Examples
    --------
    >>> y = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.5, 0.5], [0.2, 0.8]])
    >>> fair = debias(y, sensitive_features=torch.tensor([0, 0, 1, 1]), epsilon=0.1)
    >>> fair.status.value, round(fair.certificate.disparity, 6)
    ('solved', 0.1)
    """
    request, settings = request_and_settings(options, without=_WITHOUT)
    costs, normalize = options.get("costs"), options.get("normalize", False)
    labels = reading.tensor_of(y, what="y")
    reading.refuse_form(labels)
    place = reading.device_of(labels.device if device is None else device)
    if labels.is_cuda and labels.device != place:
        raise ParameterError(
            f"The labels are on {labels.device}, but device is {place}.",
            remedy="Leave device out.",
            device=str(place),
        )
    given = {
        "sensitive_features": reading.host_array(sensitive_features),
        "control_features": reading.host_array(control_features),
    }
    weight, library = reading.host_array(sample_weight), reading.library_of(y) or "torch"
    if labels.ndim == 1:
        # Classes are counted: the table of counts is all that is solved, and is small.
        host = labels.cpu().numpy()
        known = read(host, **given, sample_weight=weight, missing=request.missing)
        job = Task.of(known, request, settings, costs)
        rows = TensorRows(labels, known, library, place)
    else:
        if costs is not None:
            raise ParameterError(
                "costs are given, but the labels are probabilities on a device.",
                remedy=reading.TO_HOST,
            )
        classes = reading.numbered_classes(int(labels.shape[1]))
        cells = read_cells(**given, missing=request.missing, categorical_only=False)
        known = _beside(labels, classes, cells, weight)
        labels = reading.checked(labels, normalize=normalize)
        if by_row(cells, len(labels)):
            raise ParameterError(
                "Continuous or uncertain attributes are not available for probabilities on a "
                "device.",
                remedy=reading.TO_HOST,
            )
        rows = TensorRows(labels, known, library, place)
        counts = np.asarray(cells.counts, dtype=np.int64)
        each_once = replace(cells, codes=np.arange(cells.n_cells), repeats=counts)
        schema, oracle = replace(known.schema, is_soft=True), rows.blocks.oracle()
        mass = rows.blocks.rows.cell_weight
        extent = Extent(len(labels), len(classes), reading.dtype_of(labels), mass)
        job = Task.elsewhere(schema, each_once, extent, mass, oracle, request, settings)
    warn_of_doubts(job)
    return replace(job.solve(), rows=rows)
