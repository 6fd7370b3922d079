"""Labels on a device: debiasing with the arguments of :func:`r2b.debias`, and rows whose labels leave as arrays of the device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral
from typing import Any, Unpack

import numpy as np
import torch

from r2b._constraints.families import Request
from r2b._constraints.families.doubts import warn_of_doubts
from r2b._constraints.families.request import is_a, one_of
from r2b._data import Cells, Dataset, Schema
from r2b._data.attributes import CATEGORICAL
from r2b._data.cells import read_known_cells
from r2b._data.columns import refuse_lengths, refuse_other_index, row_labels
from r2b._data.compute import parts_of
from r2b._data.dataset import Labels, read_known_labels, read_labels
from r2b._data.merge import Extent
from r2b._labels import FairLabels
from r2b._labels.debiasing import Options, Settings, request_and_settings, takes_options
from r2b._labels.forms.keyed import BITS, FIRST, GOLDEN, SECOND, seed_word
from r2b._labels.rule import LabelRows, MemoryRows, Rule, floating
from r2b._labels.task import MemoryTask, Task, by_row
from r2b.engines.torch import reading
from r2b.engines.torch.newton import DeviceTask
from r2b.engines.torch.oracle import (
    DeviceKernel,
    DeviceOracle,
    LabelBatches,
    batch_rows_for,
    choose_kernel,
    line_of,
)
from r2b.engines.torch.parts import DevicePartsOracle, distributions, parts_task
from r2b.engines.torch.plain import project
from r2b.engines.torch.rows import NARROW, DeviceRows, add_by_cell
from r2b.errors import ParameterError

Tensor = torch.Tensor

_BLOCK_ENTRIES = 1 << 26  # of labels that are made at once where not all are wanted together


@dataclass(frozen=True, eq=False)
class TensorRows(LabelRows):
    """Rows on a device, whose labels leave as arrays of the library and the device that they came from.

    ``soft``, ``sample`` and ``expand`` are made there. What goes row by row in a fixed order
    (``round``, deviations, flows) is computed in memory.

    Attributes
    ----------
    y : tensor of shape (N, n_classes) or (N,)
        Probabilities, or codes of classes. On the host where they are taken to the device in
        batches.
    rows : DeviceRows
    groups : Cells
        The cells, each once.
    library : {"torch", "cupy", "jax.numpy"}
        What arrays leave as.
    schema : Schema
    kernel : {"auto", "triton", "torch"}
    reads : int
        How often the solve and its proof walked all labels.

    Examples
    --------
    >>> import r2b.engines.torch
    >>> y = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.5, 0.5], [0.2, 0.8]])
    >>> fair = r2b.engines.torch.debias(y, sensitive_features=torch.tensor([0, 0, 1, 1]), epsilon=0.0)
    >>> fair.soft(torch.float32)
    tensor([[0.7000, 0.3000],
            [0.4000, 0.6000],
            [0.7000, 0.3000],
            [0.4000, 0.6000]])
    """

    y: Tensor
    rows: DeviceRows
    groups: Cells
    library: str
    schema: Schema
    kernel: DeviceKernel = "auto"
    reads: int = 0
    _designs: dict[int, Tensor] = field(default_factory=dict, repr=False)

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        """How many there are."""
        return len(self.rows)

    @property
    def weighted(self) -> bool:  # type: ignore[override]
        """Whether they have weights."""
        return self.rows.weight is not None

    @property
    def counts(self) -> Dataset:  # type: ignore[override]
        """The rows, on the host."""
        return self._host.dataset

    @cached_property
    def _host(self) -> MemoryRows:
        groups = replace(
            self.groups, codes=self.rows.cells.cpu().numpy().astype(np.int64), repeats=None
        )
        array, soft = self.y.cpu().numpy(), self.schema.is_soft
        labels = Labels(
            self.schema.classes, None if soft else array.astype(np.int64), array if soft else None
        )
        weight = None if self.rows.weight is None else self.rows.weight.cpu().numpy()
        return MemoryRows(Dataset(labels, groups, weight, groups.index))

    def in_memory(self) -> MemoryRows:
        """Copy the rows to the host."""
        return self._host

    def soft(self, rule: Rule, dtype: Any) -> Any:
        """Build the matrix on the device; on the host where the labels are there and went through the device in batches."""
        wanted = _floating(dtype)
        if rule.unchanged and rule.schema.is_soft and (dtype is None or self.y.dtype == wanted):
            return self._given(self.y)
        if self.y.device == self.rows.device:
            return self._given(self._answers(rule, slice(0, len(self.rows)), wanted))
        return self._given(torch.cat([block.cpu() for _, block in self._blocks(rule, wanted)]))

    def iter_soft(self, rule: Rule, block_rows: int, dtype: Any) -> Iterator[Any]:
        """Give the matrix a block of rows at a time, on the device."""
        return (self._given(block) for _, block in self._blocks(rule, _floating(dtype), block_rows))

    def _given(self, tensor: Tensor) -> Any:
        return reading.array_of(tensor, self.library)

    def _blocks(
        self, rule: Rule, dtype: torch.dtype = torch.float64, block_rows: int | None = None
    ) -> Iterator[tuple[int, Tensor]]:
        """Give the number of the first row of a block, and its labels."""
        for part in parts_of(
            len(self.rows), block_rows or max(1, _BLOCK_ENTRIES // len(rule.schema.classes))
        ):
            yield part.start, self._answers(rule, part, dtype)

    def _answers(self, rule: Rule, part: slice, dtype: torch.dtype) -> Tensor:
        y, device = self.y[part].to(self.rows.device), self.rows.device
        if set(self.groups.kinds) != {CATEGORICAL} and rule.table is None:
            truth = distributions(y, len(rule.schema.classes))
            if rule.unchanged:
                return truth.to(dtype)
            size = torch.tensor(rule.lam, dtype=torch.float64, device=device)
            return (project(truth - self._shifts(rule, part), size)[0] / size).to(dtype)
        if not rule.schema.is_soft:
            channel = torch.tensor(rule.response(self.groups).channel()).to(device)
            return channel[self.rows.cells[part].long(), y.long()].to(dtype)
        if rule.unchanged:
            return y.to(dtype)
        out = torch.empty(y.shape, dtype=dtype, device=device)
        rows = self.rows if len(y) == len(self.rows) else self.rows.part(part)
        shifts = rule.families.shifts(self.groups, rule.prices)
        choose_kernel(self.kernel, device, y.shape[1]).answer(
            y, rows, line_of(shifts, rule.lam, device), out
        )
        return out

    def _shifts(self, rule: Rule, part: slice) -> Tensor:
        """Give what the prices of its groups add up to for each row, where nearly every row may be a cell of its own."""
        families, device = rule.families, self.rows.device
        if id(families) not in self._designs:
            self._designs.clear()
            design = np.concatenate([how.design(self.groups) for how in families.counting], axis=1)
            self._designs[id(families)] = torch.from_numpy(design).to(device)
        return self._designs[id(families)][self.rows.cells[part].long()] @ torch.tensor(
            rule.prices, device=device
        )

    def sample(self, rule: Rule, seed: int, key: Any) -> Any:
        """Draw one class per row on the device; by keys on the host. The draws are the same."""
        if key is not None:
            return self._brought(self._host.sample(rule, seed, reading.host_array(key)))
        codes = []
        for first, block in self._blocks(rule):
            edges = torch.cumsum(block, dim=1)
            draw = uniforms(first, len(block), seed, block.device)[:, None]
            # A class is drawn where its share of the line lies: rows that sum to a little less than
            # 1 lose nothing at the end.
            codes.append((edges <= draw * edges[:, -1:]).sum(dim=1))
        return self._named(torch.cat(codes))

    def round(self, rule: Rule, seed: int, key: Any) -> Any:
        """Pick one class per row: computed on the host, given on the device."""
        return self._brought(self._host.round(rule, seed, reading.host_array(key)))

    def _brought(self, labels: Any) -> Any:
        return self._given(torch.tensor(np.asarray(labels)).to(self.rows.device))

    def _named(self, codes: Tensor) -> Any:
        return self._given(torch.tensor(self.schema.classes.values).to(codes.device)[codes])

    def expand(self, rule: Rule, X: Any) -> tuple[Any, Any, Any]:
        """Repeat each row for its classes on the device, with weights."""
        features = None if X is None else reading.tensor_of(X, what="X", device=self.rows.device)
        if features is not None:
            refuse_lengths("X", len(features), "y", len(self.rows))
        refuse_other_index(("sensitive_features", self.groups.index), ("X", row_labels(X)))
        parts = []
        for first, block in self._blocks(rule):
            row, column = torch.nonzero(block > 0, as_tuple=True)
            parts.append((row + first, column, block[row, column]))
        index, codes, weight = map(torch.cat, zip(*parts, strict=True))
        weight = weight if self.rows.weight is None else weight * self.rows.weight[index]
        return (
            self._given(index if features is None else features[index]),
            self._named(codes),
            self._given(weight),
        )

    def read(
        self, rule: Rule, y: Any, sensitive: Any, control: Any, weight: Any, normalize: bool
    ) -> LabelRows:
        """Read new rows: probabilities on the device for arrays of a device, cells and classes on the host."""
        if not reading.library_of(y):
            return super().read(rule, y, sensitive, control, weight, normalize)
        labels, schema = reading.tensor_of(y, what="y"), rule.schema
        reading.refuse_form(labels)
        # A row of the same form answers for a matrix, whose rows are read on the device.
        seen = read_known_labels(
            np.eye(1, labels.shape[1]) if labels.ndim == 2 else labels.cpu().numpy(),
            vocabulary=schema.classes,
            soft=schema.is_soft,
            normalize=False,
        )
        groups = read_known_cells(
            reading.host_array(sensitive),
            reading.host_array(control),
            fitted=schema,
            known_crossings=rule.table is not None,
        )
        refuse_lengths("y", len(labels), "sensitive_features", groups.n_rows)
        refuse_other_index(
            ("sensitive_features", groups.index), ("sample_weight", row_labels(weight))
        )
        cells = torch.from_numpy(groups.codes.astype(np.int64)).to(labels.device)
        own = None if weight is None else reading.read_weight(weight, len(labels), labels.device)
        rows = DeviceRows(
            cells, groups.n_cells, np.bincount(groups.codes, minlength=groups.n_cells), own
        )
        if labels.ndim == 2:
            labels = reading.prepared(labels, normalize=normalize)
            _, worst = choose_kernel(self.kernel, labels.device, labels.shape[1]).label_sums(
                labels, rows
            )
            reading.refuse_rows(labels, -float(worst[0]), float(worst[1]))
        else:
            labels = torch.from_numpy(seen.array.astype(np.int64)).to(labels.device)
        return TensorRows(
            labels,
            rows,
            replace(groups, codes=np.arange(groups.n_cells)),
            reading.library_of(y),
            schema,
            self.kernel,
        )


def _floating(dtype: Any) -> torch.dtype:
    if not isinstance(dtype, torch.dtype):
        found: torch.dtype = getattr(torch, floating(dtype).name, torch.float64)
        return found
    if not dtype.is_floating_point:
        floating(torch.empty(0, dtype=dtype).numpy().dtype)  # refuses it
    return dtype


def uniforms(first: int, n_rows: int, seed: int, device: torch.device) -> Tensor:
    """Give a number in [0, 1) for each of some rows, by their numbers: the draws of rows in memory, made where the rows are.

    Examples
    --------
    >>> from r2b._labels.forms.keyed import draws_of, row_numbers, uniforms_of
    >>> uniforms(3, 2, 7, torch.device("cpu")).tolist() == uniforms_of(draws_of(row_numbers(3, 2), 7)).tolist()
    True
    """
    words = torch.arange(first, first + n_rows, dtype=torch.int64, device=device)
    spread = _mixed(_mixed(words) ^ _signed(seed_word(seed)[0]))
    return _shifted(spread, 64 - BITS).to(torch.float64) * 2.0**-BITS


def _mixed(words: Tensor) -> Tensor:
    # As r2b._labels.forms.keyed mixes them; whole numbers of 64 bits with a sign wrap around like
    # those without.
    words = words + _signed(GOLDEN)
    words = (words ^ _shifted(words, 30)) * _signed(FIRST)
    words = (words ^ _shifted(words, 27)) * _signed(SECOND)
    return words ^ _shifted(words, 31)


def _shifted(words: Tensor, bits: int) -> Tensor:
    """Shift to the right without bringing the sign along."""
    return (words >> bits) & ((1 << (64 - bits)) - 1)


def _signed(word: np.uint64) -> int:
    return int(word.astype(np.int64))


_WITHOUT = ("merge_rows", "threads")  # the device walks rows in its own way


@takes_options(without=_WITHOUT)
def debias(  # type: ignore[misc] # another choice of kernels
    y: Any,
    *,
    sensitive_features: Any,
    control_features: Any = None,
    sample_weight: Any = None,
    kernel: DeviceKernel = "auto",
    device: Any = None,
    batch_rows: int | None = None,
    **options: Unpack[Options],
) -> FairLabels:
    """Find the closest labels in parity, for labels on a device.

    Parameters
    ----------
    y : array of shape (N, L) or (N,)
        Probabilities in float32 or float64, or classes as whole numbers: a tensor of torch, or an
        array of CuPy or JAX.
    sensitive_features : array of shape (N,) or (N, n_attributes), or mapping
        Whole numbers or booleans on the same device, several attributes by name; or anything of the
        host that :func:`r2b.debias` reads.
    control_features : array or mapping, optional
        Likewise.
    sample_weight : array of shape (N,), optional
    kernel : {"auto", "triton", "torch"}
        Who walks the rows. The answer is the same.
    device : torch.device or str, optional
        For probabilities on the host: the device that computes. Labels are brought to it in
        batches, on every walk over them, so that they may be larger than its memory.
    batch_rows : int, optional
        Rows of a batch; by default two batches take half of the memory that is free.
    **options : Options
        As for :func:`r2b.debias`.

    Returns
    -------
    FairLabels
        As :func:`r2b.debias` gives, with labels as arrays of the library and device that they came
        from.

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
    >>> fair.status.value, round(fair.certificate.disparity, 6)
    ('solved', 0.1)
    """
    request, settings = request_and_settings(options, without=_WITHOUT)
    costs, normalize = options.get("costs"), options.get("normalize", False)
    one_of("kernel", kernel, ("auto", "triton", "torch"))
    if batch_rows is not None and not (is_a(Integral, batch_rows) and batch_rows >= 1):
        raise ParameterError(
            f"batch_rows is {batch_rows!r}.",
            remedy="Pass a whole number of 1 or more.",
            batch_rows=batch_rows,
        )
    labels = reading.tensor_of(y, what="y")
    reading.refuse_form(labels)
    place = reading.device_of(labels.device if device is None else device)
    if labels.device.type != "cpu" and labels.device != place:
        raise ParameterError(
            f"The labels are on {labels.device}, but device is {place}.",
            remedy="Leave device out.",
            device=str(place),
        )
    if labels.ndim == 2 and costs is not None:
        raise ParameterError(
            "costs are given, but the labels are probabilities on a device.", remedy=reading.TO_HOST
        )
    with reading.memory_explained(place):
        cells, groups = reading.read_device_cells(
            sensitive_features, control_features, place, request.missing
        )
        refuse_lengths("y", len(labels), "sensitive_features", len(cells))
        refuse_other_index(
            ("y", row_labels(y)),
            ("sensitive_features", groups.index),
            ("sample_weight", row_labels(sample_weight)),
        )
        weight = (
            None
            if sample_weight is None
            else reading.read_weight(sample_weight, len(labels), place)
        )
        rows = DeviceRows(
            cells,
            groups.n_cells,
            groups.counts,
            weight,
            labels.ndim == 2 and labels.shape[1] <= NARROW,
        )
        task: Task
        if by_row(groups, len(labels)) and costs is None:
            labels, task = _parts_task(
                labels, rows, groups, request, settings, batch_rows, normalize=normalize
            )
        elif labels.ndim == 2:
            labels = reading.prepared(labels, normalize=normalize)
            task = _soft_task(labels, rows, groups, request, settings, kernel, batch_rows)
        else:
            labels, table = _counted(labels.to(place), rows, groups)
            task = MemoryTask.of(table, request, settings, costs)
        warn_of_doubts(task)
        fair = task.solve()
        reads = (
            task.oracle.reads if isinstance(task.oracle, (DeviceOracle, DevicePartsOracle)) else 0
        )
        return replace(
            fair,
            rows=TensorRows(
                labels, rows, groups, reading.library_of(y) or "torch", fair.schema, kernel, reads
            ),
        )


def _parts_task(
    y: Tensor,
    rows: DeviceRows,
    groups: Cells,
    request: Request,
    settings: Settings,
    batch_rows: int | None,
    *,
    normalize: bool,
) -> tuple[Tensor, Task]:
    """Give labels as they are kept, and the task of rows of which nearly every one is a cell of its own."""
    if y.ndim == 2:
        y = reading.prepared(y, normalize=normalize)
        classes = reading.numbered_classes(int(y.shape[1]))
        batch_rows = (
            batch_rows_for(y, rows.device)
            if batch_rows is None and y.device != rows.device
            else batch_rows
        )
    else:
        y, values, _ = reading.compact(y.to(rows.device))
        classes = read_labels(values, normalize=False, fewest_classes=2).vocabulary
    schema = Schema(*groups.parts, classes=classes, is_soft=y.ndim == 2)
    task = parts_task(y, rows, groups, schema, request, settings, batch_rows)
    if y.ndim == 2:
        _, least, off = task.oracle.label_sums
        reading.refuse_rows(y, least, off)
    return y, task


def _soft_task(
    y: Tensor,
    rows: DeviceRows,
    groups: Cells,
    request: Request,
    settings: Settings,
    kernel: DeviceKernel,
    batch_rows: int | None,
) -> Task:
    if batch_rows is None and y.device != rows.device:
        batch_rows = batch_rows_for(y, rows.device)
    classes = reading.numbered_classes(int(y.shape[1]))
    oracle = DeviceOracle(LabelBatches(y, rows, batch_rows), rows.mass, kernel)
    _, least, off = oracle.label_sums
    reading.refuse_rows(y, least, off)
    schema = Schema(*groups.parts, classes=classes, is_soft=True)
    extent = Extent(len(rows), int(y.shape[1]), reading.dtype_of(y), rows.mass)
    return DeviceTask.elsewhere(schema, groups, extent, oracle, request, settings)


def _counted(y: Tensor, rows: DeviceRows, groups: Cells) -> tuple[Tensor, Dataset]:
    """Give the codes of classes, and the table of counts, which is solved on the host; labels are looked up on the device."""
    codes, values, _ = reading.compact(y)
    classes = read_labels(values, normalize=False, fewest_classes=2).vocabulary
    joint, pairs, counts = reading.compact(rows.cells.long() * len(values) + codes)
    total = (
        None
        if rows.weight is None
        else add_by_cell(rows.weight[:, None], joint, len(pairs))[:, 0].cpu().numpy()
    )
    counted = replace(groups, codes=pairs // len(values), repeats=counts)
    return codes, Dataset(Labels(classes, codes=pairs % len(values)), counted, total)
