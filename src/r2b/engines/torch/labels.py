"""Rows on a device and their labels, which leave as arrays of the device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from r2b._data import Dataset, Groups, Schema
from r2b._data.columns import refuse_lengths, refuse_other_index, row_labels
from r2b._data.compute import parts_of
from r2b._data.dataset import Labels, read_known_labels
from r2b._data.groups import read_known_groups
from r2b._labels.forms.keyed import BITS, FIRST, GOLDEN, SECOND, seed_word
from r2b._labels.rule import LabelRows, MemoryRows, Rule, floating
from r2b.engines.torch.oracle import KernelChoice, choose_kernel, line_of
from r2b.engines.torch.reading import array_of, host_array, library_of, prepared, read_weight, refuse_form, refuse_rows, tensor_of
from r2b.engines.torch.rows import DeviceRows

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
    groups: Groups
    library: str
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
            return self._given(self.y)
        if self.y.device == self.rows.device:
            return self._given(self._answers(rule, slice(0, len(self.rows)), wanted))
        return self._given(torch.cat([block.cpu() for _, block in self._blocks(rule, wanted)]))

    def iter_soft(self, rule: Rule, block_rows: int, dtype: Any) -> Iterator[Any]:
        """Give the matrix a block of rows at a time, on the device."""
        return (self._given(block) for _, block in self._blocks(rule, _floating(dtype), block_rows))

    def _given(self, tensor: Tensor) -> Any:
        return array_of(tensor, self.library)

    def _blocks(self, rule: Rule, dtype: torch.dtype = torch.float64, block_rows: int | None = None) -> Iterator[tuple[int, Tensor]]:
        """Give the number of the first row of a block, and its labels."""
        for part in parts_of(len(self.rows), block_rows or max(1, _BLOCK_ENTRIES // len(rule.schema.classes))):
            yield part.start, self._answers(rule, part, dtype)

    def _answers(self, rule: Rule, part: slice, dtype: torch.dtype) -> Tensor:
        y, device = self.y[part].to(self.rows.device), self.rows.device
        if not rule.schema.is_soft:
            channel = torch.tensor(rule.response(self.groups).channel()).to(device)
            return channel[self.rows.cells[part].long(), y.long()].to(dtype)
        if rule.unchanged:
            return y.to(dtype)
        out = torch.empty(y.shape, dtype=dtype, device=device)
        rows = self.rows if len(y) == len(self.rows) else self.rows.part(part)
        shifts = rule.families.shifts(self.groups, rule.prices)
        choose_kernel(self.kernel, device, y.shape[1]).answer(y, rows, line_of(shifts, rule.lam, device), out)
        return out

    def sample(self, rule: Rule, seed: int, key: Any) -> Any:
        """Draw one class per row on the device; by keys on the host. The draws are the same."""
        if key is not None:
            return self._brought(self._host.sample(rule, seed, host_array(key)))
        codes = []
        for first, block in self._blocks(rule):
            edges = torch.cumsum(block, dim=1)
            draw = uniforms(first, len(block), seed, block.device)[:, None]
            # A class is drawn where its share of the line lies: rows that sum to a little less than 1 lose nothing at the end.
            codes.append((edges <= draw * edges[:, -1:]).sum(dim=1))
        return self._named(torch.cat(codes))

    def round(self, rule: Rule, seed: int, key: Any) -> Any:
        """Pick one class per row: computed on the host, given on the device."""
        return self._brought(self._host.round(rule, seed, host_array(key)))

    def _brought(self, labels: Any) -> Any:
        return self._given(torch.tensor(np.asarray(labels)).to(self.rows.device))

    def _named(self, codes: Tensor) -> Any:
        return self._given(torch.tensor(self.schema.classes.values).to(codes.device)[codes])

    def expand(self, rule: Rule, X: Any) -> tuple[Any, Any, Any]:
        """Repeat each row for its classes on the device, with weights."""
        features = None if X is None else tensor_of(X, what="X", device=self.rows.device)
        if features is not None:
            refuse_lengths("X", len(features), "y", len(self.rows))
        refuse_other_index(("sensitive_features", self.groups.index), ("X", row_labels(X)))
        parts = []
        for first, block in self._blocks(rule):
            row, column = torch.nonzero(block > 0, as_tuple=True)
            parts.append((row + first, column, block[row, column]))
        index, codes, weight = map(torch.cat, zip(*parts, strict=True))
        weight = weight if self.rows.weight is None else weight * self.rows.weight[index]
        return self._given(index if features is None else features[index]), self._named(codes), self._given(weight)

    def read(self, rule: Rule, y: Any, sensitive: Any, control: Any, weight: Any, normalize: bool) -> LabelRows:
        """Read new rows: probabilities on the device for arrays of a device, cells and classes on the host."""
        if not library_of(y):
            return super().read(rule, y, sensitive, control, weight, normalize)
        labels, schema = tensor_of(y, what="y"), rule.schema
        refuse_form(labels)
        # A row of the same form answers for a matrix, whose rows are read on the device.
        seen = read_known_labels(
            np.eye(1, labels.shape[1]) if labels.ndim == 2 else labels.cpu().numpy(),
            vocabulary=schema.classes,
            soft=schema.is_soft,
            normalize=False,
        )
        groups = read_known_groups(host_array(sensitive), host_array(control), fitted=schema, known_crossings=rule.table is not None)
        refuse_lengths("y", len(labels), "sensitive_features", groups.n_rows)
        refuse_other_index(("sensitive_features", groups.index), ("sample_weight", row_labels(weight)))
        cells = torch.from_numpy(groups.codes.astype(np.int64)).to(labels.device)
        own = None if weight is None else read_weight(weight, len(labels), labels.device)
        rows = DeviceRows(cells, groups.n_groups, np.bincount(groups.codes, minlength=groups.n_groups), own)
        if labels.ndim == 2:
            labels = prepared(labels, normalize=normalize)
            _, worst = choose_kernel(self.kernel, labels.device, labels.shape[1]).label_sums(labels, rows)
            refuse_rows(labels, *worst.tolist())
        else:
            labels = torch.from_numpy(seen.array.astype(np.int64)).to(labels.device)
        return TensorRows(labels, rows, replace(groups, codes=np.arange(groups.n_groups)), library_of(y), schema, self.kernel)


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
    # As r2b._labels.forms.keyed mixes them; whole numbers of 64 bits with a sign wrap around like those without.
    words = words + _signed(GOLDEN)
    words = (words ^ _shifted(words, 30)) * _signed(FIRST)
    words = (words ^ _shifted(words, 27)) * _signed(SECOND)
    return words ^ _shifted(words, 31)


def _shifted(words: Tensor, bits: int) -> Tensor:
    """Shift to the right without bringing the sign along."""
    return (words >> bits) & ((1 << (64 - bits)) - 1)


def _signed(word: np.uint64) -> int:
    return int(word.astype(np.int64))
