"""Rows on a device and their labels, which leave as arrays of the device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from r2b._data import Dataset, Groups, Schema
from r2b._data.columns import refuse_lengths, refuse_other_index, row_labels
from r2b._data.dataset import Labels
from r2b._data.groups import read_known_groups
from r2b._labels.label_rows import LabelRows, MemoryRows
from r2b._labels.rule import Rule
from r2b.engines.torch.arrays import Giver, is_device_array, tensor_of
from r2b.engines.torch.draws import uniforms
from r2b.engines.torch.oracle import KernelChoice, choose_kernel, line_of
from r2b.engines.torch.reading import host_attributes, normalized, read_weight, refuse_dimensions, refuse_labels, refuse_rows, side_by_side
from r2b.engines.torch.rows import DeviceRows
from r2b.errors import LengthError, ParameterError, ShapeError, UnseenError

Floats = NDArray[np.float64]
Tensor = torch.Tensor

_BLOCK_ENTRIES = 1 << 26  # of labels that are made at once where not all are wanted together


@dataclass(frozen=True, eq=False)
class TensorRows(LabelRows):
    """Rows on a device, whose labels leave as arrays of the library and the device that they came from.

    ``soft``, ``sample`` and ``expand`` are made there. What goes row by row in a fixed order (``round``, deviations, flows) is computed
    in memory.

    Attributes
    ----------
    y : tensor of shape (N, n_classes) or (N,)
        Probabilities, or codes of classes. On the host where they are taken to the device in batches.
    rows : DeviceRows
    groups : Groups
        The cells, each once.
    giver : Giver
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
    groups: Groups
    giver: Giver
    schema: Schema
    kernel: KernelChoice = "auto"
    reads: int = 0

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
        groups = replace(self.groups, codes=self.rows.cells.cpu().numpy().astype(np.int64), repeats=None)
        array, soft = self.y.cpu().numpy(), self.schema.is_soft
        labels = Labels(self.schema.classes, None if soft else array.astype(np.int64), array if soft else None)
        weight = None if self.rows.weight is None else self.rows.weight.cpu().numpy()
        return MemoryRows(Dataset(labels, groups, weight, groups.index))

    def in_memory(self) -> MemoryRows:
        """Copy the rows to the host."""
        return self._host

    def soft(self, rule: Rule, dtype: Any) -> Any:
        """Build the matrix on the device; on the host where the labels are there and went through the device in batches."""
        wanted = _floating(dtype)
        if rule.unchanged and rule.schema.is_soft and (dtype is None or self.y.dtype == wanted):
            return self.giver.give(self.y)
        if self.y.device == self.rows.device:
            return self.giver.give(self._answers(rule, slice(0, len(self.rows)), wanted))
        return self.giver.give(torch.cat([block.cpu() for block in self._blocks(rule, _BLOCK_ENTRIES // len(rule.schema.classes), wanted)]))

    def iter_soft(self, rule: Rule, block_rows: int, dtype: Any) -> Iterator[Any]:
        """Give the matrix a block of rows at a time, on the device."""
        return map(self.giver.give, self._blocks(rule, block_rows, _floating(dtype)))

    def _blocks(self, rule: Rule, block_rows: int, dtype: torch.dtype) -> Iterator[Tensor]:
        for start in range(0, len(self.rows), max(1, block_rows)):
            yield self._answers(rule, slice(start, min(start + max(1, block_rows), len(self.rows))), dtype)

    def _answers(self, rule: Rule, part: slice, dtype: torch.dtype) -> Tensor:
        y, device = self.y[part].to(self.rows.device), self.rows.device
        if not rule.schema.is_soft:
            channel = torch.tensor(rule.response(self.groups).channel()).to(device)
            return channel[self.rows.cells[part].long(), y.long()].to(dtype)
        if rule.unchanged:
            return y.to(dtype)
        out = torch.empty(y.shape, dtype=dtype, device=device)
        rows = self.rows if part == slice(0, len(self.rows)) else self.rows.part(part)
        shifts = rule.families.shifts(self.groups, rule.prices)
        choose_kernel(self.kernel, device, y.shape[1]).answer(y, rows, line_of(shifts, rule.lam, device), out)
        return out

    def sample(self, rule: Rule, seed: int, key: Any) -> Any:
        """Draw one class per row on the device; by keys on the host. The draws are the same."""
        if key is not None:
            return self._brought(self._host.sample(rule, seed, _host_keys(key)))
        codes, first = [], 0
        for block in self._blocks(rule, _BLOCK_ENTRIES // len(rule.schema.classes), torch.float64):
            edges = torch.cumsum(block, dim=1)
            draw = uniforms(first, len(block), seed, block.device)[:, None]
            # A class is drawn where its share of the line lies: rows that sum to a little less than 1 lose nothing at the end.
            codes.append((edges <= draw * edges[:, -1:]).sum(dim=1))
            first += len(block)
        return self._named(torch.cat(codes))

    def round(self, rule: Rule, seed: int, key: Any) -> Any:
        """Pick one class per row: computed on the host, given on the device."""
        return self._brought(self._host.round(rule, seed, _host_keys(key)))

    def _brought(self, labels: Any) -> Any:
        return self.giver.give(torch.tensor(np.asarray(labels)).to(self.rows.device))

    def expand(self, rule: Rule, X: Any) -> tuple[Any, Any, Any]:
        """Repeat each row for its classes on the device, with weights."""
        features = None if X is None else tensor_of(X, what="X", device=self.rows.device)
        if features is not None and len(features) != len(self.rows):
            raise LengthError(
                f"X has {len(features)} rows, but the labels have {len(self.rows)}.",
                remedy="Pass the features of the same rows, in the same order.",
                lengths={"X": len(features), "y": len(self.rows)},
            )
        refuse_other_index(("sensitive_features", self.groups.index), ("X", row_labels(X)))
        numbers, codes, weights = [], [], []
        first = 0
        for block in self._blocks(rule, _BLOCK_ENTRIES // len(rule.schema.classes), torch.float64):
            row, column = torch.nonzero(block > 0, as_tuple=True)
            numbers.append(row + first)
            codes.append(column)
            weights.append(block[row, column])
            first += len(block)
        index, weight = torch.cat(numbers), torch.cat(weights)
        weight = weight if self.rows.weight is None else weight * self.rows.weight[index]
        taken = index if features is None else features[index]
        return self.giver.give(taken), self._named(torch.cat(codes)), self.giver.give(weight)

    def read(self, rule: Rule, y: Any, sensitive: Any, control: Any, weight: Any, normalize: bool) -> LabelRows:
        """Read new rows: on the device for arrays of a device."""
        if not is_device_array(y):
            return super().read(rule, y, sensitive, control, weight, normalize)
        labels, schema = tensor_of(y, what="y"), rule.schema
        refuse_dimensions(labels)
        if (labels.ndim == 2) is not schema.is_soft:
            forms, soft = ("class labels", "probabilities"), schema.is_soft
            raise ShapeError(
                f"The argument y holds {forms[not soft]}, but {forms[soft]} were fitted.",
                remedy=f"Pass {forms[soft]}, or fit again on {forms[not soft]}.",
                argument="y",
            )
        groups = read_known_groups(
            host_attributes(sensitive), host_attributes(control), fitted=schema, known_crossings=rule.table is not None
        )
        refuse_lengths("y", len(labels), "sensitive_features", groups.n_rows)
        refuse_other_index(("sensitive_features", groups.index), ("sample_weight", row_labels(weight)))
        cells = torch.from_numpy(groups.codes.astype(np.int64)).to(labels.device)
        own = None if weight is None else read_weight(weight, len(labels), labels.device)
        rows = DeviceRows(cells, groups.n_groups, np.bincount(groups.codes, minlength=groups.n_groups), own)
        if labels.ndim == 2:
            refuse_labels(labels)
            labels = side_by_side(normalized(labels) if normalize else labels)
            _, worst = choose_kernel(self.kernel, labels.device, labels.shape[1]).label_sums(labels, rows)
            refuse_rows(labels, *worst.tolist())
        else:
            labels = self._known_codes(labels)
        return TensorRows(labels, rows, replace(groups, codes=np.arange(groups.n_groups)), Giver.of(y), schema, self.kernel)

    def _known_codes(self, labels: Tensor) -> Tensor:
        values = torch.from_numpy(np.array(self.schema.classes.values, dtype=np.int64)).to(labels.device)
        wide = labels.to(torch.int64)
        codes = torch.searchsorted(values, wide).clamp_(max=len(values) - 1)
        unseen = torch.nonzero(values[codes] != wide)
        if len(unseen):
            row = int(unseen[0, 0])
            raise UnseenError(
                f"Row {row} of y holds {int(wide[row])}, which is not among the known values.",
                remedy=f"Correct or drop such rows ({len(unseen)} in all), or fit again on data that has them.",
                row=row,
                value=int(wide[row]),
                count=len(unseen),
            )
        return codes

    def _named(self, codes: Tensor) -> Any:
        values = torch.from_numpy(np.array(self.schema.classes.values)).to(codes.device)
        return self.giver.give(values[codes])


def _host_keys(key: Any) -> Any:
    if isinstance(key, (list, tuple)):
        return [_host_keys(each) for each in key]
    return tensor_of(key, what="key").cpu().numpy() if is_device_array(key) else key


def _floating(dtype: Any) -> torch.dtype:
    if dtype is None:
        return torch.float64
    wanted = dtype if isinstance(dtype, torch.dtype) else _from_numpy(dtype)
    if wanted is None or not wanted.is_floating_point:
        raise ParameterError(
            f"Probabilities as {dtype} would be cut to whole numbers.",
            remedy="Ask for a floating-point dtype; for one class per row use round() or sample().",
            dtype=dtype,
        )
    return wanted


def _from_numpy(dtype: Any) -> torch.dtype | None:
    try:
        return torch.from_numpy(np.empty(0, dtype=dtype)).dtype
    except TypeError:
        return None
