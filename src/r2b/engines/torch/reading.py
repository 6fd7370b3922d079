"""Labels, groups and weights as tensors: checked on the device, with the words that the host's readers use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from r2b._data import Groups, Schema
from r2b._data.columns import refuse_lengths
from r2b._data.groups import read_groups
from r2b._data.probabilities import TOLERANCE
from r2b._data.vocabulary import Vocabulary
from r2b.engines.torch.arrays import TO_HOST, WHOLE, is_device_array, tensor_of
from r2b.engines.torch.rows import DeviceRows
from r2b.errors import EmptyError, InputError, ProbabilityError, ShapeError, WeightError

Tensor = torch.Tensor
Ints = NDArray[np.int64]

_SPAN = 1 << 20  # codes that are counted in a table; wider ones are sorted
_FLOATS: dict[torch.dtype, np.dtype[Any]] = {torch.float32: np.dtype(np.float32), torch.float64: np.dtype(np.float64)}
_PART = 1 << 24  # entries looked at while a bad row is searched


@dataclass(frozen=True, eq=False)
class Cells:
    """The cell of each row, on the device, and what the cells are.

    Attributes
    ----------
    codes : tensor of shape (N,)
    groups : Groups
        Each cell once, with its number of rows.
    """

    codes: Tensor
    groups: Groups

    @property
    def counts(self) -> Ints:
        """Rows of each cell."""
        return np.asarray(self.groups.counts, dtype=np.int64)


def read_cells(sensitive: Any, control: Any, device: torch.device, missing: str) -> Cells:
    """Read attributes: on the device where all are arrays of whole numbers there, else on the host, any form that it reads."""
    if _on_device(sensitive) and (control is None or _on_device(control)):
        return _cells_on_device(sensitive, control, device)
    groups = read_groups(host_attributes(sensitive), control_features=host_attributes(control), missing=missing)
    codes = torch.from_numpy(groups.codes.astype(np.int64)).to(device)
    return Cells(_small(codes, groups.n_groups), _each_once(groups, groups.counts))


def _on_device(value: Any) -> bool:
    return all(map(is_device_array, value.values())) if isinstance(value, Mapping) else is_device_array(value)


def host_attributes(value: Any) -> Any:
    """Bring attributes to the host, in the form they came in."""
    if isinstance(value, Mapping):
        return {name: host_attributes(column) for name, column in value.items()}
    return tensor_of(value, what="sensitive_features").cpu().numpy() if is_device_array(value) else value


def _each_once(groups: Groups, counts: Any) -> Groups:
    codes = np.arange(groups.n_groups)
    return replace(groups, codes=codes, repeats=np.asarray(counts, dtype=np.int64))


def _small(codes: Tensor, n_codes: int) -> Tensor:
    return codes.to(torch.uint8 if n_codes <= 256 else torch.int32)


def _cells_on_device(sensitive: Any, control: Any, device: torch.device) -> Cells:
    parts = [(part, column) for part, given in enumerate((sensitive, control)) for column in _columns(given, device)]
    refuse_many = [column.shape[0] for _, column in parts]
    for n_rows in refuse_many[1:]:
        refuse_lengths("sensitive_features", refuse_many[0], "another attribute", n_rows)
    if not refuse_many or refuse_many[0] == 0:
        raise EmptyError("The argument sensitive_features has no rows.", remedy="Pass one value per row.", argument="sensitive_features")
    read = [compact(column) for _, column in parts]
    codes, values, counts = read[0]
    table = np.arange(len(values))[:, None]
    for mine, theirs, _ in read[1:]:
        joint, kept, counts = compact(codes.long() * len(theirs) + mine.long())
        table = np.column_stack([table[kept // len(theirs)], kept % len(theirs)])
        codes = joint
    columns = [values[table[:, j]] for j, (_, values, _) in enumerate(read)]
    n_sensitive = sum(part == 0 for part, _ in parts)
    groups = read_groups(
        _like(sensitive, columns[:n_sensitive]), control_features=None if control is None else _like(control, columns[n_sensitive:])
    )
    # The crossings come in lexicographic order here as there, so the codes agree.
    assert np.array_equal(groups.codes, np.arange(len(table)))
    return Cells(_small(codes, len(table)), _each_once(groups, counts))


def _columns(given: Any, device: torch.device) -> list[Tensor]:
    if given is None:
        return []
    named = given.items() if isinstance(given, Mapping) else [("", given)]
    columns: list[Tensor] = []
    for name, value in named:
        column = tensor_of(value, what=f"sensitive_features[{name!r}]" if name else "sensitive_features", device=device)
        if column.dtype not in WHOLE:
            raise InputError(
                f"An attribute is a tensor of {column.dtype}; groups on a device are whole numbers or booleans.",
                remedy="Pass codes of the groups, or the attribute as an array of the host.",
                column=name,
                dtype=str(column.dtype),
            )
        if column.ndim not in ((1,) if isinstance(given, Mapping) else (1, 2)):
            raise ShapeError(
                f"An attribute has {column.ndim} dimensions.", remedy="Pass one value per row, or several attributes by name.", column=name
            )
        columns += [column] if column.ndim == 1 else list(column.unbind(dim=1))
    return columns


def _like(given: Any, columns: list[Any]) -> Any:
    """Put the values of each cell in the form that the attributes came in, so that they get the names they would on the host."""
    if isinstance(given, Mapping):
        return dict(zip(given, columns, strict=True))
    return np.column_stack(columns) if given.ndim == 2 else columns[0]


def compact(column: Tensor) -> tuple[Tensor, NDArray[Any], Ints]:
    """Replace whole numbers by their rank among those that occur.

    Returns
    -------
    codes : tensor of int64
    values, counts : ndarray
        What occurs, ascending, and how often.

    Examples
    --------
    >>> codes, values, counts = compact(torch.tensor([7, -2, 7]))
    >>> codes.tolist(), values, counts
    ([1, 0, 1], array([-2,  7]), array([1, 2]))
    """
    wide = column.to(torch.int64)
    low, high = (int(end) for end in torch.aminmax(wide))
    if high - low >= _SPAN:
        values, codes, counts = torch.unique(wide, return_inverse=True, return_counts=True)
    else:
        shifted = wide - low
        occurring = torch.bincount(shifted, minlength=high - low + 1)
        places = torch.nonzero(occurring)[:, 0]
        values, counts = places + low, occurring[places]
        codes = shifted
        if len(places) < len(occurring):
            rank = torch.cumsum(occurring > 0, 0) - 1
            codes = rank[shifted]
    return codes, values.cpu().numpy().astype(_numpy_dtype(column)), counts.cpu().numpy()


def _numpy_dtype(column: Tensor) -> np.dtype[Any]:
    return torch.empty(0, dtype=column.dtype).numpy().dtype


def read_weight(weight: Any, n_rows: int, device: torch.device) -> Tensor:
    """Read one finite, non-negative number per row, as float64.

    Raises
    ------
    WeightError
    """
    found = tensor_of(weight, what="sample_weight", device=device)
    if found.ndim != 1:
        raise ShapeError(
            f"The argument sample_weight has {found.ndim} dimensions.", remedy="Pass one weight per row.", argument="sample_weight"
        )
    refuse_lengths("y", n_rows, "sample_weight", int(found.shape[0]))
    own = found.double().contiguous()
    bad = ~((own >= 0) & (own < torch.inf))
    if bool(bad.any()):
        row = int(torch.nonzero(bad)[0, 0])
        raise WeightError(
            f"The weight of row {row} is {float(own[row])!r}; {int(bad.sum())} of {n_rows} weights are negative, missing or infinite.",
            remedy="Pass finite weights of zero or more.",
            row=row,
            value=float(own[row]),
            count=int(bad.sum()),
        )
    total = float(own.sum())
    if total == 0 or not np.isfinite(total):
        remedy = "Give at least one row a positive weight." if total == 0 else "Divide them by their largest value."
        raise WeightError(f"The weights of all {n_rows} rows add up to {total}.", remedy=remedy, total=total)
    return own


def refuse_labels(y: Tensor) -> None:
    """Refuse a matrix that cannot be one of probabilities, by its shape and type."""
    n_rows, n_classes = y.shape
    if n_rows == 0 or n_classes < 2:
        raise EmptyError(
            f"The argument y has {n_rows} rows and {n_classes} columns.",
            remedy="Pass at least one row, and one column of probabilities for each of two classes or more.",
            argument="y",
            n_classes=n_classes,
        )
    if y.dtype not in _FLOATS:
        raise InputError(
            f"The argument y is a matrix of {y.dtype}; probabilities on a device are float32 or float64.",
            remedy="Pass y.float().",
            argument="y",
            dtype=str(y.dtype),
        )


def normalized(y: Tensor) -> Tensor:
    """Divide every row by its sum, on a copy.

    Raises
    ------
    ProbabilityError
        A row sums to 0, or has an entry that no division makes a probability.
    """
    made = torch.empty_like(y, memory_format=torch.contiguous_format)
    size = max(1, _PART // y.shape[1])
    for start in range(0, y.shape[0], size):
        part = y[start : start + size].double()
        _refuse_entries(part, start)  # before they are divided: two signs that are wrong together would come out right
        sums = part.sum(dim=1, keepdim=True)
        empty = torch.nonzero(sums[:, 0] == 0)
        if len(empty):
            row = start + int(empty[0, 0])
            raise ProbabilityError(
                f"In y, row {row} has the probability 0 for every class, so that it cannot be normalised.",
                remedy="Drop this row, or give it a distribution.",
                row=row,
                total=0.0,
            )
        made[start : start + size] = part / sums
    return made


def _refuse_entries(part: Tensor, first_row: int) -> None:
    """Refuse entries that are negative or no finite numbers."""
    wrong = ~torch.isfinite(part) | (part < 0)
    if bool(wrong.any()):
        row, column = (int(place) for place in torch.nonzero(wrong)[0])
        value = float(part[row, column])
        found = "is negative" if value < 0 else "is not a finite number"
        raise ProbabilityError(
            f"In y, row {first_row + row} has the probability {value!r} for class {column}, which {found}.",
            remedy="Correct or drop this row; probabilities lie between 0 and 1.",
            row=first_row + row,
            value=value,
            class_name=column,
        )


def side_by_side(y: Tensor) -> Tensor:
    """Give labels whose entries of a row lie side by side, as the kernels read them; a copy only where they do not."""
    return y if y.stride(1) == 1 else y.contiguous()


def dtype_of(y: Tensor) -> np.dtype[Any]:
    """Give the dtype of NumPy that stands for that of the labels."""
    return _FLOATS[y.dtype]


def refuse_rows(y: Tensor, least: float, off: float) -> None:
    """Refuse labels of which some row is no distribution; ``least`` and ``off`` were seen on the way, so that good labels cost nothing.

    Raises
    ------
    ProbabilityError
    """
    tolerance = TOLERANCE[dtype_of(y)]
    if least >= 0 and off <= tolerance:
        return
    size = max(1, _PART // y.shape[1])
    for start in range(0, y.shape[0], size):
        part = y[start : start + size].double()
        _refuse_entries(part, start)
        sums = part.sum(dim=1)
        bad = torch.nonzero((sums - 1.0).abs() > tolerance)
        if len(bad):
            row = int(bad[0, 0])
            raise ProbabilityError(
                f"In y, row {start + row} sums to {float(sums[row]):.9g}, not to 1 (tolerance {tolerance:g}).",
                remedy="Divide each row by its sum, which normalize=True does.",
                row=start + row,
                total=float(sums[row]),
            )


def schema_of(groups: Groups, classes: Vocabulary, *, soft: bool) -> Schema:
    """Give what is needed to read new rows the same way."""
    return Schema(*groups.parts, classes=classes, is_soft=soft)


def rows_of(cells: Cells, weight: Tensor | None) -> DeviceRows:
    """Give the rows to walk."""
    return DeviceRows(cells.codes, cells.groups.n_groups, cells.counts, weight)


def refuse_dimensions(y: Tensor) -> None:
    """Refuse labels of another form than one class per row or one probability per class."""
    if y.ndim not in (1, 2) or (y.ndim == 1 and y.dtype not in WHOLE):
        raise ShapeError(
            f"The argument y is a tensor of {y.dtype} with {y.ndim} dimensions.",
            remedy=f"Pass classes as whole numbers, one per row, or a matrix of probabilities. {TO_HOST}",
            argument="y",
            n_dimensions=y.ndim,
        )
