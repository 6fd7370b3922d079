"""A table with uncertain or continuous attributes, settled and solved where its rows are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from r2b._constraints.families import Families, Request, resolve
from r2b._constraints.families.fitted import Moments, Stratum
from r2b._data import Cells, Dataset, Schema, Vocabulary
from r2b._data.arrays import Flags, Floats, Places
from r2b._data.attributes import CONTINUOUS, ContinuousSettings
from r2b._data.basis import Basis, refuse_batchwise
from r2b._data.dataset import Labels
from r2b._data.merge import Extent, Rows
from r2b._labels import FairLabels
from r2b._labels.debiasing import Settings
from r2b._labels.task import MemoryTask, Task
from r2b._solve.certificate import Problem
from r2b._solve.oracle import Block, Blocks, DesignOracle
from r2b._solve.oracle.blocks import reduced
from r2b._solve.oracle.thinning import calibrated
from r2b._solve.solvers import Limits, Outcome, solve
from r2b.engines.engine import refuse_changed
from r2b.engines.parts.design import RowDesign
from r2b.engines.parts.fitting import fitted_bases
from r2b.engines.parts.looking import Seen, Side, balanced, look
from r2b.engines.parts.oracle import GroupSums, LeastPaid, PartsOracle, RowParity, rows_of
from r2b.engines.parts.reading import DecodeParts, PartColumns
from r2b.engines.source import Source
from r2b.errors import InputError

_NEAR = 1e-6  # residual on a sample: well below its distance from all rows
_PATIENCE = 30.0  # seconds for prices that only give a better start


class SampledGroups(Cells):
    """Groups of the rows of a sample, which know how many rows of the table each stands for."""

    standing: Floats

    @cached_property
    def counts(self) -> Floats:
        """Rows of the table in each cell; not whole where they count in parts."""
        return np.bincount(self.codes, self.standing, minlength=self.n_cells).astype(np.float64)


@dataclass(frozen=True, eq=False)
class _LabelMeans(Rows):
    """Means of the labels of all rows, for a table of which a sample is here."""

    seen: Seen | None = None
    first: Places | None = None

    def mean(self, part: Floats) -> Floats:
        """Give the mean label where so much of each cell counts; rows of the same categories count alike."""
        assert self.seen is not None and self.first is not None
        counted = part[self.first]
        return np.asarray(counted @ self.seen.labels / (counted @ self.seen.mass))


@dataclass(frozen=True, eq=False, kw_only=True)
class RowTask(Task):
    """Rows elsewhere that count in parts."""

    oracle: PartsOracle

    def _found(self, problem: Problem, limits: Limits, start: Floats | None) -> Outcome:
        """Solve for the sample first, which only gives a better start."""
        near = self.oracle.near
        if near is not None:
            extent = (
                replace(self.rows, n_rows=len(near.rows.cells))
                if isinstance(self.rows, Extent)
                else self.rows
            )
            small = Problem(extent, problem.parity, problem.lam, problem.costliest)
            few = Limits(self.settings.max_iter, _PATIENCE)
            start = solve(
                small, near, samples=near.samples(), tol=_NEAR, limits=few, start=start
            ).prices
        return super()._found(problem, limits, start)


@dataclass(frozen=True, eq=False, kw_only=True)
class WholeTask(MemoryTask):
    """All rows are here, equal ones once; what is kept of the table is what is kept of one that is elsewhere."""

    kept: Schema

    def solve(self, *args: object, **options: object) -> FairLabels:
        """Solve as in memory."""
        found = super().solve(*args, **options)  # type: ignore[arg-type]
        return replace(found, rule=replace(found.rule, schema=self.kept), rows=None)


@contextmanager
def opened_parts(
    source: Source,
    columns: PartColumns,
    classes: Vocabulary,
    cell_weight: Floats | None,
    request: Request,
    settings: Settings,
    normalize: bool,
    sample_entries: int,
) -> Iterator[tuple[Task, Schema, int]]:
    """Decode the table once, and settle what is asked of it: the task, what is kept of the table, and its rows.

    Parameters
    ----------
    source : Source
    columns : PartColumns
    classes : Vocabulary
    cell_weight : ndarray of shape (n_cells,) or None
        Weight of each cell when the categories were counted; None where there are none.
    request : Request
    settings : Settings
    normalize : bool
    sample_entries : int
    """
    n_cells, roles = len(columns.categories.table), columns.roles
    members = tuple(
        slice(columns.first[name], columns.first[name] + len(names))
        for name, names in roles.membership
    )
    side = Side(n_cells, len(classes), roles.soft, members)
    empty = columns.schema(classes, np.zeros(columns.width), np.zeros(columns.width, bool))
    request = replace(request, names=classes.values.tolist())
    with source.blocks(
        DecodeParts(roles, empty, normalize, columns=columns, missing=request.missing)
    ) as blocks:
        seen = look(blocks, side, sample_entries // (len(classes) + columns.width))
        if cell_weight is not None:
            refuse_changed(seen.mass, cell_weight)
        schema = columns.schema(classes, seen.typical, seen.gaps)
        if seen.whole:
            yield _whole(seen, columns, schema, request, settings), schema, seen.n_rows
        else:
            yield (
                _Settling(blocks, columns, side, seen, schema, request, settings).task(),
                schema,
                seen.n_rows,
            )


def _whole(
    seen: Seen, columns: PartColumns, schema: Schema, request: Request, settings: Settings
) -> Task:
    """All rows came home, equal ones once: they are solved as in memory."""
    sample = seen.sample
    assert sample.parts is not None
    groups = replace(
        columns.groups(sample.cells, sample.parts), repeats=np.rint(seen.counts).astype(np.int64)
    )
    soft = schema.is_soft
    labels = Labels(
        schema.classes, None if soft else sample.labels, sample.labels if soft else None
    )
    found = MemoryTask.of(Dataset(labels, groups, sample.weight), request, settings)
    return WholeTask(
        **{name: getattr(found, name) for name in found.__dataclass_fields__}, kept=schema
    )


@dataclass(frozen=True, eq=False)
class _Settling:
    """What is known while families are settled on rows of which a sample is here."""

    blocks: Blocks
    columns: PartColumns
    side: Side
    seen: Seen
    schema: Schema
    request: Request
    settings: Settings

    @property
    def sample(self) -> Block:
        """The rows that are here."""
        return self.seen.sample

    def task(self) -> Task:
        """Settle the families, add up what they count, and give the task."""
        families, design, weight = self._settled()
        n_classes, kernel = self.side.n_classes, self.settings.kernel
        mass, drift, labels, pairs, meeting, left_out, most = reduced(
            self.blocks, GroupSums(design, n_classes, kernel)
        )
        total = float(self.seen.mass.sum())
        families, design = self._centred(families, design, drift / np.where(mass > 0, mass, 1.0))
        share = mass / total
        self._refuse_unseen_groups(families, share)
        families = replace(families, share=share, left_out=float(left_out[0]) / total)
        assert self.sample.parts is not None
        here = design.of(self.sample.cells, self.sample.parts)

        def paid(prices: Floats, places: Places) -> tuple[float, float, int]:
            (found,) = reduced(
                self.blocks, LeastPaid(design.among(places), n_classes, kernel, prices)
            )
            return float(found[0]) / total, float(found[1]) / total, self.seen.n_rows

        facts = (
            pairs / total,
            meeting > 0,
            float(most[0]),
            design.whole,
            paid,
            np.arange(len(share)),
        )
        parity = RowParity(
            families.members, families.names, share, weight / weight.sum(), here, *facts
        )
        near = self._near(here, weight, drift / total, share)
        before = labels / (share * total)[:, None]
        oracle = PartsOracle(self.blocks, design, share, total, before, near, kernel)
        dtype = self.sample.labels.dtype if self.schema.is_soft else np.dtype(np.float64)
        made = RowTask(
            schema=self.schema,
            groups=self._groups,
            rows=Extent(self.seen.n_rows, n_classes, dtype, self.seen.mass),
            oracle=oracle,
            before=before,
            families=families,
            parity=parity,
            settings=self.settings,
        )
        made._refuse_left_out(self.request)
        return made

    @cached_property
    def _groups(self) -> SampledGroups:
        assert self.sample.parts is not None
        groups = self.columns.groups(self.sample.cells, self.sample.parts)
        made = SampledGroups(*groups.parts, codes=groups.codes)
        object.__setattr__(made, "standing", balanced(self.seen, self.side, by_weight=False))
        return made

    def _settled(self) -> tuple[Families, RowDesign, Floats]:
        groups, weight = self._groups, balanced(self.seen, self.side, by_weight=True)
        first = np.zeros(self.side.n_cells, np.intp)
        # any row of a cell of categories tells how it counts
        first[self.sample.cells] = groups.codes
        means = _LabelMeans(
            None,
            groups.codes,
            weight,
            groups.n_cells,
            None,
            None,
            None,
            self.side.n_classes,
            self.seen,
            first,
        )
        bases = self._bases()
        group_weight = np.bincount(groups.codes, weight, minlength=groups.n_cells).astype(
            np.float64
        )
        families, _ = resolve(
            self.request,
            groups,
            group_weight,
            means,
            lambda column, stratum: bases.get((column, stratum.codes)),
        )
        return families, RowDesign.from_families(families, self.schema, self.columns.first), weight

    def _bases(self) -> dict[object, Basis]:
        """Fit the basis of every continuous attribute, in every stratum, to all rows."""
        schema, sample = self.schema, self.sample
        control = tuple(range(len(schema.columns) - schema.n_control, len(schema.columns)))
        codes = {tuple(row) for row in schema.table[:, list(control)].tolist()}
        strata = [Stratum(control, each) for each in sorted(codes)] if control else [Stratum()]
        wanted: dict[tuple[int, Stratum], tuple[int, Flags, str, ContinuousSettings]] = {}
        assert sample.parts is not None
        for place, (name, kind, how) in enumerate(
            zip(schema.columns, schema.kinds, schema.settings, strict=True)
        ):
            if kind != CONTINUOUS or how is None:
                continue
            at = self.columns.first[name]
            wanted |= {(place, stratum): (at, stratum.of(schema), name, how) for stratum in strata}
        found = fitted_bases(self.blocks, wanted)
        for (place, _), basis in found.items():  # type: ignore[misc] # keys are pairs
            if basis.kind == "functions":
                values = np.unique(sample.parts[:, self.columns.first[schema.columns[place]]])
                values = values[np.isfinite(values)]
                refuse_batchwise(basis.functions, basis.names, values, basis.raw(values))
        return found

    def _centred(
        self, families: Families, design: RowDesign, drift: Floats
    ) -> tuple[Families, RowDesign]:
        """Take what the means of the functions are off by, to the last digit: moments of exactly 0 need means of 0."""
        counting = [
            replace(how, basis=replace(how.basis, centre=how.basis.centre + drift[member.groups]))
            if isinstance(how, Moments)
            else how
            for member, how in zip(families.members, families.counting, strict=True)
        ]
        families = replace(families, counting=tuple(counting))
        return families, RowDesign.from_families(families, self.schema, self.columns.first)

    def _refuse_unseen_groups(self, families: Families, share: Floats) -> None:
        without = np.flatnonzero(share <= 0)
        if len(without):
            name = str(families.names[int(without[0])])
            raise InputError(
                f"No row counts in group {name!r} with any weight.",
                remedy="Leave its column out, or give its rows weight.",
                group=name,
            )

    def _near(
        self, here: Floats, weight: Floats, wanted: Floats, share: Floats
    ) -> DesignOracle | None:
        """Give an oracle of the sample whose groups have the shares of all rows; None where no weights do that."""
        lifted = calibrated(here, weight, wanted)
        if lifted is None:
            return None
        rows = rows_of(self.sample.labels, self.sample.cells, lifted, self.side.n_classes)
        return DesignOracle(rows, here, share, self.settings.kernel, self.settings.threads)
