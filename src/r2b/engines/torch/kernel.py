"""The row kernel in PyTorch: what :mod:`r2b._solve.oracle.reference` computes, on any device.

Arithmetic is in float64. Sums over rows are products of matrices, which give the same bits every
time; additions to an index do not on a GPU.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from r2b._data.arrays import Places
from r2b._data.compute import parts_of

Tensor = torch.Tensor

# Numbers of a part of the rows: 32 MB in float64, enough to keep a GPU busy, and temporaries of
# all steps together stay below half a gigabyte.
_PART_ENTRIES = 1 << 22


def parts_for(n_rows: int, width: int, first: int = 0) -> list[slice]:
    """Cut rows, from the first on, into parts for temporaries with this many numbers per row."""
    return parts_of(n_rows, max(1, _PART_ENTRIES // width), first)


class Part(NamedTuple):
    """Some rows on a device: a :class:`r2b.engines.Block` of tensors.

    Attributes
    ----------
    labels : tensor of shape (n, n_classes), float64
    design : tensor of shape (n,), int64
        The cell of each row.
    weight : tensor of shape (n,), float64
    answers : tensor of shape (n, n_classes), optional
        The labels that are returned, where they do not follow from prices.
    """

    labels: Tensor
    design: Tensor
    weight: Tensor
    answers: Tensor | None = None

    @property
    def unchanged(self) -> Part:
        """The same rows, whose old labels are returned."""
        return self._replace(answers=self.labels)

    def counts(self, members: Tensor, groups: Places) -> Tensor:
        """Return how much the cell of each row counts in some groups."""
        return members[:, groups][self.design]


def project(rows: Tensor) -> Tensor:
    """Return the closest point of the simplex to each row.

    Examples
    --------
    >>> project(torch.tensor([[0.5, 0.5, -1.0], [0.9, 0.6, 0.0]])).numpy().round(3)
    array([[0.5 , 0.5 , 0.  ],
           [0.65, 0.35, 0.  ]], dtype=float32)
    """
    # Measured from the largest entry, no digits are lost on rows far from the simplex.
    below = rows - rows.amax(dim=1, keepdim=True)
    falling = below.sort(dim=1, descending=True).values
    counts = torch.arange(1, rows.shape[1] + 1, dtype=rows.dtype, device=rows.device)
    levels = (falling.cumsum(dim=1) - 1.0) / counts
    support = (falling > levels).sum(dim=1, keepdim=True)
    return torch.clamp(below - levels.gather(1, support - 1), min=0.0)


def respond(part: Part, prices: Tensor, lam: float) -> Tensor:
    """Return the best response of each row to the prices of its cell."""
    return project((part.labels - prices[part.design]) / lam)


def cell_sums(part: Part, rows: Tensor, n_cells: int) -> Tensor:
    """Add up weighted rows by cell."""
    member = part.design[:, None] == torch.arange(n_cells, device=part.design.device)
    return member.double().T @ (rows * part.weight[:, None])


def label_sums(part: Part, shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Return the sums of the old labels, and the weights, by cell."""
    mass = cell_sums(part, torch.ones_like(part.labels[:, :1]), shape[0])
    return cell_sums(part, part.labels, shape[0]), mass[:, 0]


def evaluate(part: Part, prices: Tensor, lam: float) -> tuple[Tensor, Tensor]:
    """Return the sums of the responses by cell, and the sum of their values."""
    x = respond(part, prices, lam)
    shifted = part.labels - prices[part.design]
    value = part.weight @ (x * (0.5 * lam * x - shifted)).sum(dim=1)
    return cell_sums(part, x, len(prices)), value


def inspect(part: Part, prices: Tensor, lam: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the evidence about the returned labels x: sums by cell, totals, and the worst row.

    The totals are slack, |x|^2, <x, y>, |x - y|^2 and |x - y|_1 / 2.
    """
    x = respond(part, prices, lam) if part.answers is None else part.answers
    gradient = lam * x - part.labels + prices[part.design]
    difference = x - part.labels
    each = [
        (x * gradient).sum(dim=1) - gradient.amin(dim=1),
        (x * x).sum(dim=1),
        (x * part.labels).sum(dim=1),
        (difference * difference).sum(dim=1),
        0.5 * difference.abs().sum(dim=1),
    ]
    worst = torch.maximum((x.sum(dim=1) - 1.0).abs().max(), -x.min())
    return cell_sums(part, x, len(prices)), torch.stack(each) @ part.weight, worst


def cell_curvature(part: Part, prices: Tensor, lam: float) -> Tensor:
    """Return the curvature of the rows of each cell times lam, (n_cells, n_classes, n_classes)."""
    support = (respond(part, prices, lam) > 0).double()
    scaled = support * torch.sqrt(part.weight / support.sum(dim=1))[:, None]
    table = torch.diag_embed(cell_sums(part, support, len(prices)))
    for cell in torch.unique(part.design).tolist():
        mine = scaled[part.design == cell]
        table[cell] -= mine.T @ mine
    return table


def group_curvature(part: Part, prices: Tensor, lam: float, counted: Tensor) -> Tensor:
    """Return the curvature times lam by pairs of groups, in which rows count so much."""
    support = (respond(part, prices, lam) > 0).double()
    n_columns, n_classes = counted.shape[1], support.shape[1]
    scaled = support * torch.sqrt(part.weight / support.sum(dim=1))[:, None]
    factors = (counted[:, :, None] * scaled[:, None, :]).flatten(start_dim=1)
    pairs = counted[:, :, None] * (part.weight[:, None] * counted)[:, None, :]
    table = -(factors.T @ factors).reshape(n_columns, n_classes, n_columns, n_classes)
    own = (pairs.flatten(start_dim=1).T @ support).reshape(n_columns, n_columns, n_classes)
    table.diagonal(dim1=1, dim2=3).add_(own)
    return table
