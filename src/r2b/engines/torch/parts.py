# mypy: disable-error-code="no-untyped-call"
"""Answers for rows on a device that count in parts: uncertain groups and continuous attributes, labels as classes or probabilities.

A row has its own line of the design, which stays on the device beside the labels. Shifts, responses
and sums are products of matrices in float64, some rows at a time; only tables of the size of the
prices leave the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from r2b._constraints.families import Request, resolve
from r2b._data import Cells, Schema
from r2b._data.arrays import Flags, Floats, Places
from r2b._data.compute import parts_of
from r2b._data.merge import Extent, Rows
from r2b._labels.debiasing import Settings
from r2b._labels.task import Task
from r2b._solve.oracle.reference import (
    Answers,
    Evaluation,
    GroupOracle,
    Inspection,
    Responses,
    Samples,
)
from r2b._solve.oracle.thinning import (
    ROWS_PER_PRICE,
    THIN_FROM,
    calibrated,
    sample_sizes,
    stretches,
)
from r2b.engines.torch.oracle import LabelBatches
from r2b.engines.torch.plain import project
from r2b.engines.torch.reading import TO_HOST
from r2b.engines.torch.rows import DeviceRows
from r2b.errors import ParameterError

Tensor = torch.Tensor
Walk = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, ...]]

_HOST_ENTRIES = 1 << 16  # of a part: it stays in cache
_DEVICE_ENTRIES = 1 << 25  # of a part: it fills a GPU, and its temporaries take some 2 GB
_FEWEST = 200  # rows that must count in a group for a sample to tell anything of it


def distributions(y: Tensor, n_classes: int) -> Tensor:
    """Give labels as rows of probabilities, in float64; a class is certain.

    Examples
    --------
    >>> distributions(torch.tensor([1, 0]), 2)
    tensor([[0., 1.],
            [1., 0.]], dtype=torch.float64)
    """
    return y.double() if y.ndim == 2 else torch.nn.functional.one_hot(y.long(), n_classes).double()


class DevicePartsOracle(GroupOracle):
    """Answers for rows on a device that know how they count in groups.

    Parameters
    ----------
    y : tensor of shape (n, n_classes) or (n,)
        Probabilities, on the device or on the host and brought there in batches; or codes of
        classes, on the device.
    design : tensor of shape (n, n_groups), float64
    share : ndarray of shape (n_groups,)
    n_classes : int
    weight : tensor of shape (n,), float64, or None where each row weighs 1
    batch_rows : int, optional
        Of a batch, where probabilities are on the host.

    Examples
    --------
    >>> y, design = torch.tensor([[0.7, 0.3], [0.2, 0.8]]).double(), torch.tensor([[0.5, 0.5], [0.0, 1.0]]).double()
    >>> DevicePartsOracle(y, design, np.array([0.25, 0.75]), 2).label_means().round(6)
    array([[0.7     , 0.3     ],
           [0.366667, 0.633333]])
    """

    def __init__(
        self,
        y: Tensor,
        design: Tensor,
        share: Floats,
        n_classes: int,
        weight: Tensor | None = None,
        batch_rows: int | None = None,
    ) -> None:
        self.y, self.design, self.share, self.n_classes = y, design, share, n_classes
        self.weight, self.batch_rows = weight, batch_rows
        self.reads = 0
        self._elsewhere = None
        if y.device != design.device:
            cells = torch.zeros(len(y), dtype=torch.uint8, device=design.device)
            self._elsewhere = LabelBatches(y, DeviceRows(cells, 1, np.array([len(y)])), batch_rows)
        self.total_weight = float(len(y)) if weight is None else float(weight.sum())
        self._divisor = (share * self.total_weight)[:, None]
        self._means: Floats | None = None

    def _parts(self, width: int) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
        """Give labels, the lines of the design and the weights of some rows at a time: fewer where so many numbers are made of each."""
        self.reads += 1
        held = self._elsewhere
        several = (
            [(self.y, slice(0, len(self.y)))]
            if held is None
            else zip((y for y, _ in held.parts()), held.slices, strict=True)
        )
        size = max(1, (_DEVICE_ENTRIES if self.design.is_cuda else _HOST_ENTRIES) // width)
        for labels, rows in several:
            for part in parts_of(len(labels), size):
                here = slice(rows.start + part.start, rows.start + part.stop)
                yield (
                    labels[part],
                    self.design[here],
                    None if self.weight is None else self.weight[here],
                )

    def _added(self, walk: Walk, width: int = 1) -> list[Floats]:
        """Add up what a walk finds; of its last the largest."""
        total: list[Tensor] = []
        for y, design, weight in self._parts(self.n_classes * width):
            truth = distributions(y, self.n_classes)
            own = (
                torch.ones(len(truth), dtype=torch.float64, device=truth.device)
                if weight is None
                else weight
            )
            found = walk(truth, design, own)
            if total:
                found = (
                    *(a + b for a, b in zip(total[:-1], found[:-1], strict=True)),
                    torch.maximum(total[-1], found[-1]),
                )
            total = list(found)
        return [each.cpu().numpy() for each in total]

    def _there(self, array: Floats) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float64)).to(
            self.design.device
        )

    def evaluate(self, prices: Floats, lam: float) -> Evaluation:
        """Evaluate all rows at these prices of groups."""
        nu, size = (
            self._there(prices),
            torch.tensor(lam, dtype=torch.float64, device=self.design.device),
        )

        def walk(truth: Tensor, design: Tensor, own: Tensor) -> tuple[Tensor, ...]:
            above, level = project(truth - design @ nu, size)
            # lam/2 |x|^2 - <x, v> with x = above / lam, hence <x, v> = |above|^2 / lam + level.
            value = -(0.5 * (above * above).sum(dim=1) / lam + level)
            return design.T @ (above * (own / lam)[:, None]), own @ value, torch.zeros_like(size)

        sums, value, _ = self._added(walk)
        return Evaluation(sums / self._divisor, float(value) / self.total_weight, None)

    def inspect(
        self, prices: Floats, lam: float, *, unchanged: bool = False, answers: Answers | None = None
    ) -> Inspection:
        """Recompute the evidence from the rows and the labels that go out at these prices of groups."""
        assert answers is None or isinstance(answers, Responses), (
            "answers row by row belong to rows in memory"
        )
        nu = self._there(prices)
        theirs, scale = (nu, lam) if answers is None else (self._there(answers.prices), answers.lam)
        size = torch.tensor(scale, dtype=torch.float64, device=nu.device)

        def walk(truth: Tensor, design: Tensor, own: Tensor) -> tuple[Tensor, ...]:
            x = truth if unchanged else project(truth - design @ theirs, size)[0] / size
            gradient, apart = lam * x - truth + design @ nu, x - truth
            each = [
                (x * gradient).sum(dim=1) - gradient.amin(dim=1),
                (x * x).sum(dim=1),
                (x * truth).sum(dim=1),
            ]
            each += [(apart * apart).sum(dim=1), 0.5 * apart.abs().sum(dim=1)]
            worst = torch.maximum((x.sum(dim=1) - 1.0).abs().max(), -x.min())
            return design.T @ (x * own[:, None]), torch.stack(each) @ own, worst

        sums, totals, worst = self._added(walk)
        return Inspection(
            sums / self._divisor, *[*(totals / self.total_weight).tolist(), float(worst)]
        )

    def curvature(
        self, prices: Floats, lam: float, components: list[Places], entries: Flags | None = None
    ) -> list[Floats]:
        """Add up the curvature for the groups of each component, in one pass."""
        nu, size = (
            self._there(prices),
            torch.tensor(lam, dtype=torch.float64, device=self.design.device),
        )
        places = [
            torch.from_numpy(np.asarray(groups, np.int64)).to(self.design.device)
            for groups in components
        ]

        def walk(truth: Tensor, design: Tensor, own: Tensor) -> tuple[Tensor, ...]:
            kept = (project(truth - design @ nu, size)[0] > 0).double()
            scaled = kept * torch.sqrt(own / kept.sum(dim=1))[:, None]
            found = []
            for place in places:
                mine = design[:, place]
                found += [_products(mine, scaled), _products_of_pairs(mine, own, kept)]
            return (*found, torch.zeros_like(size))

        *sums, _ = self._added(walk, width=max(map(len, components)))
        folded = []
        for place, groups in enumerate(components):
            n, shape = len(groups), (len(groups), self.n_classes, len(groups), self.n_classes)
            table = -sums[2 * place].reshape(shape)
            np.einsum("gkhk->ghk", table)[:] += sums[2 * place + 1].reshape(n, n, self.n_classes)
            folded.append(table / (lam * self.total_weight))
        return folded

    def among(self, groups: Places) -> DevicePartsOracle:
        """Give the oracle of some of the groups alone, in this order."""
        if np.array_equal(groups, np.arange(len(self.share))):
            return self
        design = self.design[
            :, torch.from_numpy(np.asarray(groups, np.int64)).to(self.design.device)
        ].contiguous()
        return DevicePartsOracle(
            self.y, design, self.share[groups], self.n_classes, self.weight, self.batch_rows
        )

    def label_means(self) -> Floats:
        """Group means of the labels as they came in."""
        return self.label_sums[0]

    @property
    def label_sums(self) -> tuple[Floats, float, float]:
        """Group means of the labels, the least entry, and how far the worst row sum is from 1: seen once, in one walk."""
        if self._means is None:

            def walk(truth: Tensor, design: Tensor, own: Tensor) -> tuple[Tensor, ...]:
                off = (truth.sum(dim=1) - 1.0).abs()
                # NaN passes no comparison, so it is asked for what is right and infinity stands for
                # the rest.
                worst = torch.stack([-truth.min(), torch.where(off < 1e300, off, torch.inf).max()])
                return design.T @ (truth * own[:, None]), worst

            sums, self._worst = self._added(walk)
            self._means = sums / self._divisor
        return self._means, -float(self._worst[0]), float(self._worst[1])

    def samples(self) -> Samples | None:
        """Give a small and a larger sample of the rows, on the device; None where all rows are cheap, or no sample stands for them."""
        n_rows, n_groups = len(self.y), len(self.share)
        if n_rows * self.n_classes < THIN_FROM:
            return None
        sizes = sample_sizes(n_rows, min(ROWS_PER_PRICE * n_groups * self.n_classes, n_rows // 4))
        small, large = (self._sample(size) for size in sizes)
        return None if small is None or large is None else Samples(small, large)

    def _sample(self, size: int) -> DevicePartsOracle | None:
        chosen = torch.from_numpy(stretches(len(self.y), size))
        design, there = self.design[chosen.to(self.design.device)], chosen.to(self.design.device)
        own = (
            torch.ones(len(chosen), dtype=torch.float64)
            if self.weight is None
            else self.weight[there]
        )
        weighed = self.design if self.weight is None else self.design * self.weight[:, None]
        host, wanted = design.cpu().numpy(), (weighed.sum(dim=0) / self.total_weight).cpu().numpy()
        if ((host != 0).sum(axis=0) < min(_FEWEST, size // 2)).any():
            return None
        weight = calibrated(host, own.cpu().numpy(), wanted)
        if weight is None:
            return None
        y = self.y[chosen.to(self.y.device)].to(self.design.device)
        return DevicePartsOracle(
            y, design, self.share, self.n_classes, torch.from_numpy(weight).to(self.design.device)
        )


def _products(design: Tensor, scaled: Tensor) -> Tensor:
    """Give the products of ``b_g d_k`` of two prices, added up over rows."""
    factors = (design[:, :, None] * scaled[:, None, :]).reshape(len(design), -1)
    return factors.T @ factors


def _products_of_pairs(design: Tensor, own: Tensor, kept: Tensor) -> Tensor:
    """Give ``w b_g b_h`` of the rows that keep a class, by pairs of groups and class."""
    pairs = (design[:, :, None] * (own[:, None] * design)[:, None, :]).reshape(len(design), -1)
    return pairs.T @ kept


@dataclass(frozen=True, eq=False)
class _DeviceMeans(Rows):
    """Labels on a device, of which means are asked while families are settled."""

    y: Any = None
    place: Any = None
    own: Any = None
    batch_rows: int | None = None

    def mean(self, part: Floats) -> Floats:
        """Give the mean label where so much of each cell counts."""
        counted = torch.from_numpy(np.asarray(part, np.float64)).to(self.place.device)[
            self.place.long()
        ]
        counted = counted if self.own is None else counted * self.own
        oracle = DevicePartsOracle(
            self.y, counted[:, None], np.ones(1), self.width, batch_rows=self.batch_rows
        )
        return np.asarray(oracle.label_means()[0] * len(self.y) / float(counted.sum()))


@dataclass(frozen=True, eq=False, kw_only=True)
class DevicePartsTask(Task):
    """Rows on a device that count in parts, what is asked of their groups, and the means to solve it."""

    oracle: DevicePartsOracle


def parts_task(
    y: Tensor,
    rows: DeviceRows,
    groups: Cells,
    schema: Schema,
    request: Request,
    settings: Settings,
    batch_rows: int | None,
) -> DevicePartsTask:
    """Settle what is asked of rows of which nearly every one is a cell of its own.

    Raises
    ------
    ParameterError
        For agreement, which takes rows in memory.
    """
    if settings.objective == "agreement":
        problem = "The objective agreement with continuous or uncertain attributes is for rows in memory, and these are on a device."
        raise ParameterError(problem, remedy=TO_HOST, objective="agreement")
    n_classes, dtype = (
        len(schema.classes),
        np.dtype(np.float32 if y.dtype == torch.float32 else np.float64),
    )
    request = replace(request, names=schema.classes.values.tolist())
    means = _DeviceMeans(
        None,
        groups.codes,
        None,
        groups.n_cells,
        None,
        None,
        None,
        n_classes,
        y,
        rows.cells,
        rows.weight,
        batch_rows,
    )
    families, parity = resolve(request, groups, rows.mass, means)
    design = torch.tensor(parity.matrix, device=rows.device)[rows.cells.long()]
    oracle = DevicePartsOracle(y, design, parity.share, n_classes, rows.weight, batch_rows)
    made = DevicePartsTask(
        schema=schema,
        groups=groups,
        rows=Extent(len(rows), n_classes, dtype, rows.mass),
        oracle=oracle,
        before=oracle.label_means(),
        families=families,
        parity=parity,
        settings=settings,
    )
    made._refuse_left_out(request)
    return made
