"""Debiasing of labels on a device: the arguments of :func:`r2b.debias`, and labels that stay where they are."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any, Unpack

import numpy as np
import torch

from r2b._constraints.families import Request
from r2b._constraints.families.doubts import warn_of_doubts
from r2b._constraints.families.request import is_a, one_of
from r2b._data import Dataset, Groups, Schema
from r2b._data.columns import refuse_lengths, refuse_other_index, row_labels
from r2b._data.dataset import Labels, read_labels
from r2b._data.merge import Extent
from r2b._labels import FairLabels
from r2b._labels.debiasing import Options, Settings, request_and_settings, takes_options
from r2b._labels.task import MemoryTask, Task
from r2b.engines.torch import reading
from r2b.engines.torch.labels import TensorRows
from r2b.engines.torch.newton import DeviceTask
from r2b.engines.torch.oracle import DeviceOracle, KernelChoice, LabelBatches, batch_rows_for
from r2b.engines.torch.rows import DeviceRows, add_by_cell
from r2b.errors import ParameterError

Tensor = torch.Tensor

_WITHOUT = ("merge_rows", "threads")  # the device walks rows in its own way


@takes_options(without=_WITHOUT)
def debias(  # type: ignore[misc] # another choice of kernels
    y: Any,
    *,
    sensitive_features: Any,
    control_features: Any = None,
    sample_weight: Any = None,
    kernel: KernelChoice = "auto",
    device: Any = None,
    batch_rows: int | None = None,
    **options: Unpack[Options],
) -> FairLabels:
    """Find the closest labels in parity, for labels on a device.

    Parameters
    ----------
    y : array of shape (N, L) or (N,)
        Probabilities in float32 or float64, or classes as whole numbers: a tensor of torch, or an array of CuPy or JAX.
    sensitive_features : array of shape (N,) or (N, n_attributes), or mapping
        Whole numbers or booleans on the same device, several attributes by name; or anything of the host that :func:`r2b.debias` reads.
    control_features : array or mapping, optional
        Likewise.
    sample_weight : array of shape (N,), optional
    kernel : {"auto", "triton", "torch"}
        Who walks the rows. The answer is the same.
    device : torch.device or str, optional
        For probabilities on the host: the device that computes. Labels are brought to it in batches, on every walk over them, so that they
        may be larger than its memory.
    batch_rows : int, optional
        Rows of a batch; by default two batches take half of the memory that is free.
    **options : Options
        As for :func:`r2b.debias`.

    Returns
    -------
    FairLabels
        As :func:`r2b.debias` gives, with labels as arrays of the library and device that they came from.

    Raises
    ------
    InputError
        The data cannot be used as they are: the message names column, row and value.
    ParameterError
        An argument lies outside its range, or is not to be had on a device.

    Examples
    --------
    >>> y = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.5, 0.5], [0.2, 0.8]])
    >>> fair = debias(y, sensitive_features=torch.tensor([0, 0, 1, 1]), epsilon=0.1)
    >>> fair.status.value, round(fair.certificate.parity, 6)
    ('solved', 0.1)
    """
    request, settings = request_and_settings(options, without=_WITHOUT)
    costs, normalize = options.get("costs"), options.get("normalize", False)
    one_of("kernel", kernel, ("auto", "triton", "torch"))
    if batch_rows is not None and not (is_a(Integral, batch_rows) and batch_rows >= 1):
        raise ParameterError(f"batch_rows is {batch_rows!r}.", remedy="Pass a whole number of 1 or more.", batch_rows=batch_rows)
    labels = reading.tensor_of(y, what="y")
    reading.refuse_form(labels)
    place = reading.device_of(labels.device if device is None else device)
    if labels.device.type != "cpu" and labels.device != place:
        raise ParameterError(f"The labels are on {labels.device}, but device is {place}.", remedy="Leave device out.", device=str(place))
    if labels.ndim == 2 and costs is not None:
        raise ParameterError("costs are given, but the labels are probabilities on a device.", remedy=reading.TO_HOST)
    with reading.memory_explained(place):
        cells, groups = reading.read_cells(sensitive_features, control_features, place, request.missing)
        refuse_lengths("y", len(labels), "sensitive_features", len(cells))
        refuse_other_index(("y", row_labels(y)), ("sensitive_features", groups.index), ("sample_weight", row_labels(sample_weight)))
        weight = None if sample_weight is None else reading.read_weight(sample_weight, len(labels), place)
        rows = DeviceRows(cells, groups.n_groups, groups.counts, weight)
        task: Task
        if labels.ndim == 2:
            labels = reading.prepared(labels, normalize=normalize)
            task = _soft_task(labels, rows, groups, request, settings, kernel, batch_rows)
        else:
            labels, table = _counted(labels.to(place), rows, groups)
            task = MemoryTask.of(table, request, settings, costs)
        warn_of_doubts(task)
        fair = task.solve()
        reads = task.oracle.reads if isinstance(task.oracle, DeviceOracle) else 0
        return replace(fair, rows=TensorRows(labels, rows, groups, reading.library_of(y) or "torch", fair.schema, kernel, reads))


def _soft_task(
    y: Tensor, rows: DeviceRows, groups: Groups, request: Request, settings: Settings, kernel: KernelChoice, batch_rows: int | None
) -> Task:
    if batch_rows is None and y.device != rows.device:
        batch_rows = batch_rows_for(y, rows.device)
    classes = read_labels(np.eye(1, y.shape[1]), normalize=False, fewest_classes=2).vocabulary
    oracle = DeviceOracle(LabelBatches(y, rows, batch_rows), rows.mass, kernel)
    _, least, off = oracle.label_sums
    reading.refuse_rows(y, least, off)
    schema = Schema(*groups.parts, classes=classes, is_soft=True)
    extent = Extent(len(rows), int(y.shape[1]), reading.dtype_of(y), rows.mass)
    return DeviceTask.elsewhere(schema, groups, extent, oracle, request, settings)


def _counted(y: Tensor, rows: DeviceRows, groups: Groups) -> tuple[Tensor, Dataset]:
    """Give the codes of classes, and the table of counts, which is solved on the host; labels are looked up on the device."""
    codes, values, _ = reading.compact(y)
    classes = read_labels(values, normalize=False, fewest_classes=2).vocabulary
    joint, pairs, counts = reading.compact(rows.cells.long() * len(values) + codes)
    total = None if rows.weight is None else add_by_cell(rows.weight[:, None], joint, len(pairs))[:, 0].cpu().numpy()
    counted = replace(groups, codes=pairs // len(values), repeats=counts)
    return codes, Dataset(Labels(classes, codes=pairs % len(values)), counted, total)
