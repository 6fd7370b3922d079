"""From the columns of a table to a task over its rows, where attributes are uncertain or continuous."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from r2b._constraints.families import Request
from r2b._data.dataset import read_labels
from r2b._labels.debiasing import Settings
from r2b._labels.task import MemoryTask, Task
from r2b.engines.engine import refuse_entries
from r2b.engines.gathering import RowCount, gathered
from r2b.engines.parts.opening import opened_parts
from r2b.engines.parts.reading import PartColumns
from r2b.engines.roles import ColumnRoles, refuse_lists_as_text
from r2b.engines.source import Source
from r2b.engines.table_rows import TableRows, classes_of, refuse_gaps
from r2b.errors import EmptyError


@contextmanager
def rows_in_parts(
    source: Source,
    roles: ColumnRoles,
    request: Request,
    settings: Settings,
    normalize: bool,
    sample_entries: int,
) -> Iterator[tuple[Task, TableRows]]:
    """Open a table: in memory where it is no larger than a sample and has an order, else in blocks where it is."""
    refuse_entries(sample_entries)
    keys = [*(() if roles.soft else roles.label), *roles.attributes]
    tally = source.tally(keys, roles.weight) if keys else None
    if tally is None:
        n_rows = source.reduce([roles.measured[0]], RowCount()) or 0
        if not n_rows:
            raise EmptyError(f"{source.subject} has no rows.", remedy="Pass at least one row.")
    else:
        refuse_gaps(source, tally, roles, request.missing)
        n_rows = tally.n_rows
    if not roles.soft:
        assert tally is not None
        refuse_lists_as_text(tally.columns[roles.label[0]], roles.label[0])
    classes = classes_of(source, roles) if roles.soft else None
    width = len(roles.measured) + (1 if classes is None else len(classes))
    if source.ordered and n_rows * width <= sample_entries:
        data = gathered(source, roles, request.missing, normalize=normalize)
        yield (
            MemoryTask.of(data, request, settings),
            TableRows(
                source, roles, data.schema, None if roles.soft else data, normalize, data, n_rows
            ),
        )
        return
    if classes is None:
        assert tally is not None
        classes = read_labels(
            tally.columns[roles.label[0]], normalize=False, fewest_classes=2
        ).vocabulary
    columns, mass = PartColumns.of(roles, tally, request.missing)
    with opened_parts(
        source, columns, classes, mass, request, settings, normalize, sample_entries
    ) as (task, schema, n_rows):
        yield task, TableRows(source, roles, schema, None, normalize, None, n_rows)
