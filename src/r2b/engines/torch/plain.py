"""The row kernels in plain torch operations, for devices without Triton: the same functions as :mod:`r2b.engines.torch.kernels`.

Rows are taken in parts, in float64 throughout. Sums by cell are products of matrices, which come
out the same every time; additions to an index do not on a GPU.
"""

from __future__ import annotations

import numpy as np
import torch

from r2b._constraints.parity import RangeBound
from r2b._data.arrays import Floats
from r2b._data.compute import parts_of
from r2b.engines.torch.rows import DeviceRows, Lanes, add_by_cell

Tensor = torch.Tensor

_HOST_ENTRIES = 1 << 16  # of a part: it stays in cache
_DEVICE_ENTRIES = 1 << 25  # of a part: it fills a GPU, and its temporaries take some 2 GB
_LOOKS = 4  # steps on a model between two looks at what is left


def _parts(y: Tensor, n_rows: int) -> list[slice]:
    return parts_of(n_rows, max(1, (_DEVICE_ENTRIES if y.is_cuda else _HOST_ENTRIES) // y.shape[1]))


def project(v: Tensor, lam: Tensor) -> tuple[Tensor, Tensor]:
    """Give ``max(v - t, 0)``, whose rows sum to lam, and the thresholds t.

    Examples
    --------
    >>> one = torch.ones((), dtype=torch.float64)
    >>> project(torch.tensor([[0.9, 0.6, 0.0]], dtype=torch.float64), one)[0].numpy().round(3)
    array([[0.65, 0.35, 0.  ]])
    """
    # Measured from the largest entry, sums stay of the size of the answer and no digits are lost on
    # rows far from the simplex.
    top = v.amax(dim=1, keepdim=True)
    falling = torch.sort(v - top, dim=1, descending=True).values
    levels = (torch.cumsum(falling, dim=1) - lam) / torch.arange(
        1, v.shape[1] + 1, dtype=v.dtype, device=v.device
    )
    support = (falling > levels).sum(dim=1, keepdim=True).clamp_(min=1)
    level = top + torch.gather(levels, 1, support - 1)
    return torch.clamp(v - level, min=0.0), level[:, 0]


def _shifted(y: Tensor, rows: DeviceRows, prices: Tensor, part: slice) -> tuple[Tensor, Tensor]:
    truth = y[part].double()
    table = prices[1:].view(rows.n_cells, y.shape[1])
    return truth, table[rows.cells[part].long()]


def _by_cell(rows: DeviceRows, part: slice, each: Tensor) -> Tensor:
    weighed = each if rows.weight is None else each * rows.weight[part][:, None]
    return add_by_cell(weighed, rows.cells[part], rows.n_cells)


def walk(y: Tensor, rows: DeviceRows, prices: Tensor) -> Tensor:
    """Give sums of the responses by cell, and their values in the last column; ``prices`` is lam and the prices in one line."""
    lam, n_classes = prices[0], y.shape[1]
    sums = torch.zeros(rows.n_cells, n_classes + 1, dtype=torch.float64, device=y.device)
    for part in _parts(y, len(y)):
        truth, shift = _shifted(y, rows, prices, part)
        above, level = project(truth - shift, lam)
        # lam/2 |x|^2 - <x, v> with x = above / lam, hence <x, v> = |above|^2 / lam + level.
        value = -(0.5 * (above * above).sum(dim=1) / lam + level)
        sums += _by_cell(rows, part, torch.cat([above / lam, value[:, None]], dim=1))
    return sums


def inspect(
    y: Tensor, rows: DeviceRows, prices: Tensor, *, unchanged: bool
) -> tuple[Tensor, Tensor]:
    """Give sums of the labels that go out by cell, then slack, |x|^2, <x, y>, |x - y|^2 and |x - y|_1 / 2; and the worst row."""
    lam, n_classes = prices[0], y.shape[1]
    sums = torch.zeros(rows.n_cells, n_classes + 5, dtype=torch.float64, device=y.device)
    worst = torch.zeros((), dtype=torch.float64, device=y.device)
    for part in _parts(y, len(y)):
        truth, shift = _shifted(y, rows, prices, part)
        x = truth if unchanged else project(truth - shift, lam)[0] / lam
        gradient = lam * x - truth + shift
        apart = x - truth
        each = [
            (x * gradient).sum(dim=1) - gradient.amin(dim=1),
            (x * x).sum(dim=1),
            (x * truth).sum(dim=1),
            (apart * apart).sum(dim=1),
            0.5 * apart.abs().sum(dim=1),
        ]
        sums += _by_cell(rows, part, torch.cat([x, torch.stack(each, dim=1)], dim=1))
        worst = torch.maximum(worst, torch.maximum((x.sum(dim=1) - 1.0).abs().max(), -x.min()))
    return sums, worst


def label_sums(y: Tensor, rows: DeviceRows) -> tuple[Tensor, Tensor]:
    """Give sums of the labels that came in by cell; and minus the least entry, and how far the worst row sum is from 1."""
    sums = torch.zeros(rows.n_cells, y.shape[1], dtype=torch.float64, device=y.device)
    worst = torch.zeros(2, dtype=torch.float64, device=y.device)
    for part in _parts(y, len(y)):
        truth = y[part].double()
        sums += _by_cell(rows, part, truth)
        off = (truth.sum(dim=1) - 1.0).abs()
        # NaN passes no comparison, so it is asked for what is right and infinity stands for the
        # rest.
        off = torch.where(off < 1e300, off, torch.inf)
        worst = torch.maximum(worst, torch.stack([-truth.min(), off.max()]))
    return sums, worst


def answer(y: Tensor, rows: DeviceRows, prices: Tensor, out: Tensor) -> None:
    """Write the response of each row into ``out``."""
    for part in _parts(y, len(y)):
        truth, shift = _shifted(y, rows, prices, part)
        out[part] = (project(truth - shift, prices[0])[0] / prices[0]).to(out.dtype)


def supports(
    y: Tensor, rows: DeviceRows, prices: Tensor, lanes: Lanes, part: slice, out: Tensor
) -> None:
    """Write ``sqrt(w / |A|)`` on the support A of each row, w relative to its cell, for some lanes into their places of ``out``.

    A row with one class in its support has no curvature and leaves zeros, as does the place of a
    row that a lane lacks.
    """
    starts, stops = lanes.table[:2, part]
    places = starts[:, None] + torch.arange(lanes.height, device=y.device)
    there, numbers = (
        (places < stops[:, None]).ravel(),
        rows.row_numbers(places.clamp(max=len(rows) - 1).ravel()),
    )
    table, weight = prices[1:].view(rows.n_cells, y.shape[1]), rows.relative[0]
    for each in _parts(y, len(numbers)):
        some = numbers[each]
        kept = project(y[some].double() - table[rows.cells[some].long()], prices[0])[0] > 0
        own, count = (1.0 if weight is None else weight[some]), kept.sum(dim=1).double()
        root = torch.where(there[each] & (count > 1), torch.sqrt(own / count), 0.0)
        out[each, : y.shape[1]] = (kept * root[:, None]).to(out.dtype)


def descend(
    blocks: Tensor, metric: Tensor, start: Floats, sides: Floats, rounds: int
) -> tuple[Floats, float]:
    """Find prices that answer their means within a band, where means follow a curvature: accelerated steps from where they are.

    Here it is on the host: where rows are on a device that this module walks, no model is made of
    them.

    Parameters
    ----------
    blocks : tensor of shape (n_groups, n_classes, n_classes)
        The curvature.
    metric : tensor of shape (n_classes,), float64
        A diagonal above the blocks of all groups.
    start : ndarray of shape (2, n_groups, n_classes)
        Means and prices.
    sides : ndarray of shape (3 + n_groups + n_classes,)
        The residual at which to stop, one over the length of the step that it is measured by, how
        much of the metric is added to the blocks; the shares of the groups; and the bands.
    rounds : int
        Steps at most.

    Returns
    -------
    prices : ndarray of shape (n_groups, n_classes)
    left : float
        Their residual.

    Examples
    --------
    >>> blocks = 0.5 * torch.tensor([[[1.0, -1.0], [-1.0, 1.0]]] * 2, dtype=torch.float64)
    >>> start, sides = np.array([[[0.9, 0.1], [0.5, 0.5]], [[0.0, 0.0], [0.0, 0.0]]]), np.array([1e-12, 1.0, 0.0, 0.5, 0.5, 0.1, 0.1])
    >>> descend(blocks, torch.ones(2, dtype=torch.float64), start, sides, 100)[0].round(6)
    array([[ 0.15, -0.15],
           [-0.15,  0.15]])
    """
    (goal, safe, damping), (fixed, origin), share = (
        sides[:3].tolist(),
        start,
        sides[3 : 3 + start.shape[1]],
    )
    bound, curve, diagonal = RangeBound(sides[3 + len(share) :]), blocks.numpy(), metric.numpy()
    slope, last, ahead, pace, left = (1.0 + damping) * diagonal, origin, origin, 1.0, float("inf")
    for turn in range(rounds):
        way = ahead - origin
        means = (
            fixed
            - damping * diagonal * way
            - np.matmul(curve, way[:, :, None].astype(curve.dtype, copy=False))[:, :, 0]
        )
        if turn % _LOOKS == 0:
            left = float(np.abs(means - bound.project(means + safe * ahead, share).means).max())
        point = means + slope * ahead
        new = (point - bound.project(point, share).means) / slope
        move = new - last
        # Momentum that no longer points downhill is dropped.
        slower = 1.0 if float((share @ ((ahead - new) * slope * move)).sum()) > 0 else pace
        pace = 0.5 * (1.0 + (1.0 + 4.0 * slower * slower) ** 0.5)
        last, ahead = new, new + (slower - 1.0) / pace * move
        if left <= goal:
            break
    return last, left
