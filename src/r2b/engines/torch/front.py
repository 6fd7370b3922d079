"""The front door for labels on a device: the arguments of :func:`r2b.debias`, and labels that stay where they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Unpack

import numpy as np
import torch

from r2b._constraints.families import Request
from r2b._constraints.families.doubts import warn_of_doubts
from r2b._constraints.families.request import one_of
from r2b._data import Dataset
from r2b._data.columns import refuse_lengths, refuse_other_index, row_labels
from r2b._data.dataset import Labels, refuse_lone_probabilities
from r2b._data.merge import Extent
from r2b._data.vocabulary import Vocabulary
from r2b._labels import FairLabels
from r2b._labels.options import Options, Settings, request_and_settings, takes_options
from r2b._labels.task import MemoryTask
from r2b.engines.torch.arrays import TO_HOST, Giver, device_of, room_on, tensor_of
from r2b.engines.torch.labels import TensorRows
from r2b.engines.torch.newton import DeviceTask
from r2b.engines.torch.oracle import DeviceOracle, KernelChoice, LabelBatches, batch_rows_for
from r2b.engines.torch.reading import (
    Cells,
    compact,
    dtype_of,
    normalized,
    read_cells,
    read_weight,
    refuse_dimensions,
    refuse_labels,
    refuse_rows,
    rows_of,
    schema_of,
    side_by_side,
)
from r2b.engines.torch.rows import add_by_cell
from r2b.errors import EmptyError, ParameterError

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
    costs = options.get("costs")
    one_of("kernel", kernel, ("auto", "triton", "torch"))
    labels, giver = tensor_of(y, what="y"), Giver.of(y)
    refuse_dimensions(labels)
    place = device_of(labels.device if device is None else device)
    if labels.device.type != "cpu" and labels.device != place:
        raise ParameterError(f"The labels are on {labels.device}, but device is {place}.", remedy="Leave device out.", device=str(place))
    with room_on(place):
        cells = read_cells(sensitive_features, control_features, place, request.missing)
        refuse_lengths("y", int(labels.shape[0]), "sensitive_features", int(cells.codes.shape[0]))
        refuse_other_index(("y", row_labels(y)), ("sensitive_features", cells.groups.index), ("sample_weight", row_labels(sample_weight)))
        weight = None if sample_weight is None else read_weight(sample_weight, int(labels.shape[0]), place)
        if labels.ndim == 1:
            return _of_classes(labels.to(place), cells, weight, giver, request, settings, costs)
        if costs is not None:
            raise ParameterError("costs are given, but the labels are probabilities on a device.", remedy=TO_HOST)
        refuse_labels(labels)
        labels = normalized(labels) if options.get("normalize") else labels
        labels = side_by_side(labels)
        return _of_probabilities(labels, cells, weight, giver, request, settings, kernel, batch_rows)


def _of_probabilities(
    y: Tensor,
    cells: Cells,
    weight: Tensor | None,
    giver: Giver,
    request: Request,
    settings: Settings,
    kernel: KernelChoice,
    batch_rows: int | None,
) -> FairLabels:
    rows = rows_of(cells, weight)
    whole = batch_rows is None and y.device == rows.device
    source = LabelBatches(y, rows, None if whole else _batch_rows(batch_rows, y, rows.device))
    oracle = DeviceOracle(source, rows.mass, kernel)
    _, least, off = oracle.label_sums
    refuse_rows(y, least, off)
    schema = schema_of(cells.groups, Vocabulary(np.arange(y.shape[1], dtype=np.int64)), soft=True)
    extent = Extent(len(rows), int(y.shape[1]), dtype_of(y), rows.mass)
    job = DeviceTask.elsewhere(schema, cells.groups, extent, oracle, request, settings)
    warn_of_doubts(job)
    fair = job.solve(stacklevel=4)
    return replace(fair, rows=TensorRows(y, rows, cells.groups, giver, fair.schema, kernel, oracle.reads))


def _batch_rows(batch_rows: int | None, y: Tensor, device: torch.device) -> int:
    if batch_rows is None:
        return batch_rows_for(y, device)
    if not isinstance(batch_rows, (int, np.integer)) or isinstance(batch_rows, bool) or batch_rows < 1:
        raise ParameterError(f"batch_rows is {batch_rows!r}.", remedy="Pass a whole number of 1 or more.", batch_rows=batch_rows)
    return int(batch_rows)


def _of_classes(
    y: Tensor, cells: Cells, weight: Tensor | None, giver: Giver, request: Request, settings: Settings, costs: Any
) -> FairLabels:
    """Count on the device, solve the table of counts on the host, look labels up on the device."""
    if y.shape[0] == 0:
        raise EmptyError("The argument y has no rows.", remedy="Pass one class per row.", argument="y")
    codes, values, _ = compact(y)
    if len(values) < 2:
        raise EmptyError(
            f"All labels are of the one class {values[0]!r}; parity needs at least two classes.",
            remedy="Check that the right column was passed.",
            argument="y",
            n_classes=len(values),
        )
    joint, pairs, counts = compact(cells.codes.long() * len(values) + codes)
    groups = replace(cells.groups, codes=pairs // len(values), repeats=counts)
    total = None if weight is None else add_by_cell(weight[:, None], joint, len(pairs))[:, 0].cpu().numpy()
    classes = Vocabulary(values)
    refuse_lone_probabilities(classes)
    table = Dataset(Labels(classes, codes=pairs % len(values)), groups, total)
    job = MemoryTask.of(table, request, settings, costs)
    warn_of_doubts(job)
    fair = job.solve(stacklevel=4)
    return replace(fair, rows=TensorRows(codes, rows_of(cells, weight), cells.groups, giver, fair.schema))
