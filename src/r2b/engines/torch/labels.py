"""What ``debias`` returns for labels on a device: the same object, whose labels leave as arrays of the device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from numbers import Integral
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from r2b._data import Dataset, Groups
from r2b._data.arrival import refuse_lengths, refuse_other_index, row_labels
from r2b._data.compute import seed_of
from r2b._data.groups import read_known_cells
from r2b._data.labels import Labels
from r2b._labels import FairLabels
from r2b._labels.labels import Form
from r2b._labels.rows import FairRows
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
class Held:
    """The rows that the labels are of.

    Attributes
    ----------
    y : tensor of shape (N, n_classes) or (N,)
        Probabilities, or codes of classes. On the host where they are taken to the device in batches.
    rows : DeviceRows
    groups : Groups
        The cells, each once.
    giver : Giver
    kernel : {"auto", "triton", "torch"}
    reads : int
        How often the solve and its proof walked all labels.
    """

    y: Tensor
    rows: DeviceRows
    groups: Groups
    giver: Giver
    kernel: KernelChoice = "auto"
    reads: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class DeviceLabels(FairLabels):
    """Fair labels on a device, what they cost, and the proof.

    Prices, status and certificate are as in :class:`r2b.FairLabels`. ``soft``, ``sample`` and ``expand`` give arrays of the library and
    the device that the labels came from. ``round``, ``sampling_deviation`` and ``largest_changes`` go row by row in a fixed order and are
    computed on the host.

    Attributes
    ----------
    held : Held
        The rows.

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

    held: Held | None = field(default=None, repr=False)

    @classmethod
    def of(cls, fair: FairLabels, held: Held) -> DeviceLabels:
        """Put fair labels and their rows together."""
        known = {each.name: getattr(fair, each.name) for each in fields(FairLabels)}
        return cls(**{**known, "dataset": None}, held=held)

    def cpu(self) -> FairLabels:
        """Give the same labels with their rows on the host; the labels that came in are copied there."""
        held = self._held()
        groups = replace(held.groups, codes=held.rows.cells.cpu().numpy().astype(np.int64), repeats=None)
        array = held.y.cpu().numpy()
        soft = self.schema.is_soft
        labels = Labels(self.schema.classes, None if soft else array.astype(np.int64), array if soft else None)
        weight = None if held.rows.weight is None else held.rows.weight.cpu().numpy()
        known = {each.name: getattr(self, each.name) for each in fields(FairLabels)}
        return FairLabels(**{**known, "dataset": Dataset(labels, groups, weight, groups.index)})

    @cached_property
    def _host(self) -> FairLabels:
        return self.cpu()

    def _held(self) -> Held:
        assert self.held is not None
        return self.held

    def _rows(self) -> FairRows:
        return self._host._rows()

    @property
    def weighted(self) -> bool:
        """Whether the rows have weights."""
        return self._held().rows.weight is not None

    def soft(self, dtype: Any = None) -> Any:
        """Build the matrix of fair labels on the device.

        Parameters
        ----------
        dtype : torch.dtype or floating-point data type of NumPy, optional
            float64 by default, which is what the certificate speaks of.

        Returns
        -------
        array of shape (N, n_classes)
            On the host where the labels are there and went through the device in batches.
        """
        held, wanted = self._held(), _floating(dtype)
        if self.unchanged and self.schema.is_soft and (dtype is None or held.y.dtype == wanted):
            return held.giver.give(held.y)
        if held.y.device == held.rows.device:
            return held.giver.give(self._answers(held, slice(0, len(held.rows)), wanted))
        blocks = [block.cpu() for block in self._blocks(_BLOCK_ENTRIES // len(self.classes), wanted)]
        return held.giver.give(torch.cat(blocks))

    def iter_soft(self, block_rows: int = 65_536, dtype: Any = None) -> Iterator[Any]:
        """Give the matrix of fair labels a block of rows at a time, on the device."""
        held, size = self._held(), _at_least_one(block_rows)
        return (held.giver.give(block) for block in self._blocks(size, _floating(dtype)))

    def _blocks(self, block_rows: int, dtype: torch.dtype) -> Iterator[Tensor]:
        held = self._held()
        for start in range(0, len(held.rows), max(1, block_rows)):
            yield self._answers(held, slice(start, min(start + max(1, block_rows), len(held.rows))), dtype)

    def _answers(self, held: Held, part: slice, dtype: torch.dtype) -> Tensor:
        y, device = held.y[part].to(held.rows.device), held.rows.device
        cells = held.rows.cells[part]
        if not self.schema.is_soft:
            return self._answers_to_classes[cells.long(), y.long()].to(dtype)
        if self.unchanged:
            return y.to(dtype)
        out = torch.empty(y.shape, dtype=dtype, device=device)
        rows = held.rows if part == slice(0, len(held.rows)) else held.rows.part(part)
        shifts = self.families.shifts(held.groups, self.prices)
        choose_kernel(held.kernel, y).answer(y, rows, line_of(shifts, self.lam, device), out)
        return out

    @cached_property
    def _answers_to_classes(self) -> Tensor:
        """P(new class | old class, cell) for the cells of the rows that are held, on the device."""
        held = self._held()
        return torch.tensor(self._response(held.groups).channel()).to(held.rows.device)

    def sample(self, random_state: Any = 0, *, key: Any = None) -> Any:
        """Draw one class per row from its distribution, on the device; parity holds in expectation.

        Parameters
        ----------
        random_state : int, Generator or None
            The same number gives the same draw, on the host as well; None a new one each time.
        key : array-like of shape (N,), or list of such, optional
            As for :meth:`r2b.FairLabels.sample`; such draws are made on the host, and are the same as there.
        """
        if key is not None:
            return self._brought(self._host.sample(random_state, key=_host_keys(key)))
        seed, first = seed_of(random_state), 0
        codes = []
        for block in self._blocks(_BLOCK_ENTRIES // len(self.classes), torch.float64):
            edges = torch.cumsum(block, dim=1)
            draw = uniforms(first, len(block), seed, block.device)[:, None]
            # A class is drawn where its share of the line lies: rows that sum to a little less than 1 lose nothing at the end.
            codes.append((edges <= draw * edges[:, -1:]).sum(dim=1))
            first += len(block)
        return self._named(torch.cat(codes))

    def round(self, random_state: Any = 0, *, key: Any = None) -> Any:
        """Pick one class per row so that parity survives, as :meth:`r2b.FairLabels.round`; computed on the host, given on the device."""
        return self._brought(self._host.round(random_state, key=_host_keys(key)))

    def _brought(self, labels: Any) -> Any:
        held = self._held()
        return held.giver.give(torch.tensor(np.asarray(labels)).to(held.rows.device))

    def expand(self, X: Any = None) -> tuple[Any, Any, Any]:
        """Repeat each row for its classes of positive probability, with weights, on the device: exact parity.

        Parameters
        ----------
        X : array with N rows on the device, optional
            Features. Without them the first item returned is the row number of each repetition.
        """
        held = self._held()
        features = None if X is None else tensor_of(X, what="X", device=held.rows.device)
        if features is not None and len(features) != len(held.rows):
            raise LengthError(
                f"X has {len(features)} rows, but the labels have {len(held.rows)}.",
                remedy="Pass the features of the same rows, in the same order.",
                lengths={"X": len(features), "y": len(held.rows)},
            )
        refuse_other_index(("sensitive_features", held.groups.index), ("X", row_labels(X)))
        numbers, codes, weights = [], [], []
        first = 0
        for block in self._blocks(_BLOCK_ENTRIES // len(self.classes), torch.float64):
            row, column = torch.nonzero(block > 0, as_tuple=True)
            numbers.append(row + first)
            codes.append(column)
            weights.append(block[row, column])
            first += len(block)
        index, weight = torch.cat(numbers), torch.cat(weights)
        weight = weight if held.rows.weight is None else weight * held.rows.weight[index]
        taken = index if features is None else features[index]
        return held.giver.give(taken), self._named(torch.cat(codes)), held.giver.give(weight)

    def transform(
        self,
        y: Any,
        *,
        sensitive_features: Any,
        control_features: Any = None,
        sample_weight: Any = None,
        normalize: bool = False,
        form: Form = "soft",
        random_state: Any = 0,
    ) -> Any:
        """Apply the prices to new rows: on the device for arrays of a device, else as :meth:`r2b.FairLabels.transform`."""
        if not is_device_array(y):
            return super().transform(
                y, sensitive_features=sensitive_features, control_features=control_features, sample_weight=sample_weight,
                normalize=normalize, form=form, random_state=random_state,
            )  # fmt: skip
        if form not in get_args(Form):
            raise ParameterError(f"form is {form!r}.", remedy=f"Pass one of {', '.join(map(repr, get_args(Form)))}.", form=form)
        new = replace(self, held=self._read(y, sensitive_features, control_features, sample_weight, normalize))
        if form in ("soft", "expand"):
            return new.soft() if form == "soft" else new.expand()
        return new.sample(random_state) if form == "sample" else new.round(random_state)

    def _read(self, y: Any, sensitive: Any, control: Any, weight: Any, normalize: bool) -> Held:
        labels = tensor_of(y, what="y")
        refuse_dimensions(labels)
        if (labels.ndim == 2) is not self.schema.is_soft:
            forms, soft = ("class labels", "probabilities"), self.schema.is_soft
            raise ShapeError(
                f"The argument y holds {forms[not soft]}, but {forms[soft]} were fitted.",
                remedy=f"Pass {forms[soft]}, or fit again on {forms[not soft]}.",
                argument="y",
            )
        groups = read_known_cells(
            host_attributes(sensitive), host_attributes(control), fitted=self.schema.layout, known_crossings=self.table is not None
        )
        refuse_lengths("y", len(labels), "sensitive_features", groups.n_rows)
        refuse_other_index(("sensitive_features", groups.index), ("sample_weight", row_labels(weight)))
        cells = torch.from_numpy(groups.codes.astype(np.int64)).to(labels.device)
        own = None if weight is None else read_weight(weight, len(labels), labels.device)
        rows = DeviceRows(cells, groups.n_groups, np.bincount(groups.codes, minlength=groups.n_groups), own)
        if labels.ndim == 2:
            refuse_labels(labels)
            labels = side_by_side(normalized(labels) if normalize else labels)
            _, worst = choose_kernel(self._held().kernel, labels).label_sums(labels, rows)
            refuse_rows(labels, *worst.tolist())
        else:
            labels = self._known_codes(labels)
        return Held(labels, rows, replace(groups, codes=np.arange(groups.n_groups)), Giver.of(y), self._held().kernel)

    def _known_codes(self, labels: Tensor) -> Tensor:
        values = torch.from_numpy(np.array(self.classes, dtype=np.int64)).to(labels.device)
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
        values = torch.from_numpy(np.array(self.classes)).to(codes.device)
        return self._held().giver.give(values[codes])


def _at_least_one(block_rows: Any) -> int:
    """Read how many rows a block has."""
    if not isinstance(block_rows, Integral) or isinstance(block_rows, bool) or int(block_rows) < 1:
        raise ParameterError(
            f"block_rows is {block_rows!r}.",
            remedy="Pass how many rows a block has, a whole number of at least 1.",
            block_rows=block_rows,
        )
    return int(block_rows)


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
