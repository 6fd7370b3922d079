"""Tables that are not in memory are scanned: files, lazy frames, Spark and Dask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from inspect import signature
from os import PathLike
from typing import Any, Unpack

from numpy.typing import ArrayLike

from r2b._audit.measure import Draws, audit_dataset, audit_request, cluster_codes
from r2b._audit.results import Audit
from r2b._audit.tradeoff import Frontier, path_of, solved_along
from r2b._constraints.families import Family, FamilyChoice
from r2b._constraints.families.doubts import warn_of_doubts
from r2b._constraints.families.request import AbsentGroups, MissingValues, SmallGroups, one_of
from r2b._data import Continuous, Dataset, Membership, Schema
from r2b._data.dataset import read, read_labels
from r2b._data.numbers import refuse_weightless_table
from r2b._data.outcomes import OutcomeChoice
from r2b._data.vocabulary import Vocabulary
from r2b._labels import FairLabels
from r2b._labels.debiasing import Options, request_and_settings, takes_options
from r2b._labels.rule import Rule, Unseen, widened
from r2b._labels.task import Task
from r2b._weights import RowWeights
from r2b._weights.reweighing import WITHOUT, Representation
from r2b.engines.batch import Fold, add
from r2b.engines.engine import SAMPLE_ENTRIES, open_remote
from r2b.engines.gathering import gathered
from r2b.engines.lakes import DatasetSource, iceberg_source, stream_source
from r2b.engines.roles import (
    ColumnRoles,
    Decode,
    names_of,
    refuse_lists_as_text,
    with_attributes,
)
from r2b.engines.source import Source
from r2b.engines.table_rows import TableRows, classes_of, recounted, refuse_gaps, refuse_other_kind
from r2b.engines.tally import cells_of
from r2b.errors import ParameterError, UnseenError

Attributes = (
    str
    | Continuous
    | Membership
    | Sequence[str | Continuous | Membership]
    | Mapping[str, str | Continuous | Membership]
)
"""Columns by name, also in attributes: ``["sex", r2b.Continuous("age")]``."""

_SOURCES = {
    "pyarrow Table": ("lazy", "HeldSource"),
    "deltalake DeltaTable": ("lakes", "delta_source"),
    "polars LazyFrame": ("polars", "PolarsSource"),
    "duckdb DuckDBPyRelation": ("duckdb", "DuckDBSource"),
    "_duckdb DuckDBPyRelation": ("duckdb", "DuckDBSource"),
    "dask DataFrame": ("dask", "DaskSource"),
    "pyspark DataFrame": ("spark", "SparkSource"),
}
"""What opens a table of this type: a module and a name in it."""


@dataclass(frozen=True, eq=False, repr=False)
class Scan:
    """A table to be audited or debiased where it lives; made by :func:`r2b.scan`.

    Attributes
    ----------
    source : Source
    """

    source: Source

    def __repr__(self) -> str:
        n_columns = len(self.names)
        return f"<Scan of {self.source.name}: {n_columns} column{'' if n_columns == 1 else 's'}>"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self.source.names

    @takes_options()
    def debias(
        self,
        label: str | Sequence[str],
        *,
        sensitive_features: Attributes,
        control_features: str | Sequence[str] | None = None,
        sample_weight: str | None = None,
        sample_entries: int = SAMPLE_ENTRIES,
        **options: Unpack[Options],
    ) -> FairLabels:
        """Find the closest labels in parity, as :func:`r2b.debias` does, for columns of the table.

        Parameters
        ----------
        label : str or list of str
            One column of classes or of lists of probabilities, or one column of probabilities per
            class.
        sensitive_features, control_features, sample_weight
            Names of columns.
        sample_entries : int
            For probabilities: how many numbers of the table are read into memory as a sample, on
            which prices are first found. All rows where there are no more. It changes the number of
            passes, never the answer.
        **options : Options
            As for :func:`r2b.debias`.

        Returns
        -------
        FairLabels
            Prices, status and certificate as always; its labels are returned by ``frame`` and
            ``write``.

        Notes
        -----
        Class labels take one pass that counts. Probabilities take one that counts cells, one that
        decodes, and a few over decoded blocks. Labels beside uncertain or continuous attributes are
        read into memory.
        """
        roles = roles_of(self.source, label, sensitive_features, control_features, sample_weight)
        with self._opened(roles, options, sample_entries) as (task, rows):
            return replace(task.solve(), rows=rows)

    @takes_options(without=WITHOUT)
    def reweigh(
        self,
        label: str | Sequence[str],
        *,
        sensitive_features: Attributes,
        control_features: str | Sequence[str] | None = None,
        sample_weight: str | None = None,
        max_weight: float | None = None,
        representation: Representation | None = None,
        **options: Unpack[Options],
    ) -> RowWeights:
        """Find the weights closest to 1 under which groups are in parity, as :func:`r2b.reweigh`.

        Parameters
        ----------
        label, sensitive_features, control_features, sample_weight
            Names of columns, as for :meth:`debias`.
        max_weight, representation
            As for :func:`r2b.reweigh`.
        **options : Options
            As for :func:`r2b.debias`.

        Returns
        -------
        RowWeights
            Weights are returned by its ``frame``, ``write`` and ``sql``.

        Notes
        -----
        Class labels take one pass that counts. Probabilities, and labels beside uncertain groups,
        are read into memory.
        """
        from r2b.engines.reweighing import reweigh_table

        roles = roles_of(self.source, label, sensitive_features, control_features, sample_weight)
        return reweigh_table(self.source, roles, max_weight, representation, options)

    @takes_options()
    def frontier(
        self,
        label: str | Sequence[str],
        *,
        sensitive_features: Attributes,
        control_features: str | Sequence[str] | None = None,
        sample_weight: str | None = None,
        epsilons: int | ArrayLike = 50,
        sample_entries: int = SAMPLE_ENTRIES,
        **options: Unpack[Options],
    ) -> Frontier:
        """Solve along a path of epsilons, as :func:`r2b.frontier` does, for columns of the table.

        Parameters
        ----------
        label, sensitive_features, control_features, sample_weight
            Names of columns, as for :meth:`debias`.
        epsilons : int or array-like
            The epsilons, or how many, as for :func:`r2b.frontier`.
        sample_entries : int
            As for :meth:`debias`.
        **options : Options
            As for :func:`r2b.debias`.

        Returns
        -------
        Frontier
            Each of its ``labels`` is a :class:`FairLabels`, whose labels are returned by ``frame``
            and ``write``.

        Notes
        -----
        The table is counted or decoded once. Class labels take no further pass; probabilities take
        a few for every epsilon.

        Examples
        --------
        >>> import pyarrow, r2b
        >>> people = pyarrow.table({"sex": ["f", "f", "m", "m"], "job": ["a", "b", "b", "b"]})
        >>> scan = r2b.scan(people)
        >>> scan.frontier("job", sensitive_features="sex", epsilons=[0.0, 0.5]).distance.round(4)
        array([0.1667, 0.    ])
        """
        roles = roles_of(self.source, label, sensitive_features, control_features, sample_weight)
        with self._opened(roles, options, sample_entries) as (task, rows):
            path = path_of(task, epsilons)
            found = [replace(each, rows=rows) for each in solved_along(task, path)]
        return Frontier(tuple(found), path)

    def transform(
        self,
        fair: FairLabels,
        label: str | Sequence[str],
        *,
        sensitive_features: Attributes,
        control_features: str | Sequence[str] | None = None,
        sample_weight: str | None = None,
        normalize: bool = False,
        unseen: Unseen = "error",
    ) -> FairLabels:
        """Apply prices that were found before, such as last month's, to this table.

        Parameters
        ----------
        fair : FairLabels
            From any :func:`r2b.debias`, or loaded with :func:`r2b.load`.
        label, sensitive_features, control_features, sample_weight, normalize
            Columns of this table, as for :meth:`debias`; classes, and crossings of attributes, must
            be among those fitted.
        unseen : {"error", "overall"}
            Rows of a class, or of a crossing of attributes, that was not fitted: refused, or given
            the distribution that fair labels have overall, which keeps a new group in parity with
            all others. Where there are such rows the table is counted once more.

        Returns
        -------
        FairLabels
            Status and certificate are those of the fitted rows; parity of these rows holds as far
            as they are distributed like those.

        Raises
        ------
        UnseenError
            A class, or a crossing of attributes, is new.
        ParameterError
            Labels of another kind were fitted, or a continuous or uncertain attribute is named as a
            category.

        Examples
        --------
        >>> import pyarrow, r2b
        >>> sex = ["f", "f", "m", "m"]
        >>> fair = r2b.debias(["a", "b", "b", "b"], sensitive_features={"sex": sex})
        >>> later = r2b.scan(pyarrow.table({"sex": ["m", "f"], "job": ["b", "a"]}))
        >>> fair = later.transform(fair, "job", sensitive_features="sex")
        >>> fair.frame("soft")["job_fair_a"].to_numpy().round(4)
        array([0.3333, 0.6667])
        """
        roles = roles_of(self.source, label, sensitive_features, control_features, sample_weight)
        refuse_other_kind(fair, roles, self.source.name)
        one_of("unseen", unseen, Unseen)
        counted = total = None
        if roles.soft and unseen == "overall":
            fair = replace(fair, rule=self._widened(fair, roles))
        elif not roles.categorical:
            decode = Decode(roles, fair.schema, normalize, fair.rule.known_crossings)
            # A row that cannot be read is refused before anything is written.
            source = self.source.with_numbers(roles.numbers)
            total = source.reduce(roles.described, Fold(decode.n_rows, add)) or 0
        elif not roles.soft:
            try:
                counted = recounted(self.source, fair.schema, roles)
            except UnseenError:
                if unseen == "error":
                    raise
                fair = replace(fair, rule=self._widened(fair, roles))
                counted = recounted(self.source, fair.schema, roles)
        rows = TableRows(self.source, roles, fair.schema, counted, normalize, n_rows=total)
        return replace(fair, rows=rows)

    def _widened(self, fair: FairLabels, roles: ColumnRoles) -> Rule:
        """Return the rule with labels for what the fitted table had not."""
        label = () if roles.soft else roles.label
        tally = self.source.tally([*label, *roles.attributes])
        if not tally.n_rows:
            return fair.rule
        y = None if roles.soft else tally.columns[roles.label[0]]
        return widened(fair, y, **roles.features(tally.columns))

    def audit(
        self,
        label: str | Sequence[str],
        *,
        sensitive_features: Attributes,
        control_features: str | Sequence[str] | None = None,
        families: FamilyChoice | Sequence[str | Sequence[str] | Family] = "both",
        missing: MissingValues = "error",
        sample_weight: str | None = None,
        clusters: str | None = None,
        normalize: bool = False,
        min_group_size: int = 0,
        small_groups: SmallGroups = "error",
        absent: AbsentGroups = "report",
        outcomes: OutcomeChoice | None = None,
        n_permutations: int = 200,
        n_boot: int = 500,
        level: float = 0.95,
        random_state: int = 0,
        n_largest: int = 10,
    ) -> Audit:
        """Measure how far labels are from parity, as :func:`r2b.audit` does.

        Parameters
        ----------
        label, sensitive_features, control_features, sample_weight
            Names of columns, as for :meth:`debias`.
        families, missing, min_group_size, small_groups, absent, outcomes
            As for :func:`r2b.audit`.
        n_permutations, n_boot, level, random_state, n_largest
            As for :func:`r2b.audit`.
        clusters : str, optional
            Column that says which rows go together, such as the patient; the rows are then read
            into memory.
        normalize : bool
            Divide rows of probabilities by their sums.

        Notes
        -----
        Class labels are counted in one pass, also with weights as long as few of them differ. Other
        rows are read into memory, and refused if they are too many for it; those without an order
        are put into one that follows from what they hold.
        """
        draws = Draws(n_permutations, n_boot, level, random_state, n_largest)
        request = audit_request(
            families,
            missing=missing,
            min_group_size=min_group_size,
            small_groups=small_groups,
            absent=absent,
            outcomes=outcomes,
        )
        roles = roles_of(self.source, label, sensitive_features, control_features, sample_weight)
        data = rows_for_audit(
            self.source, roles, request.missing, normalize=normalize, clustered=clusters is not None
        )
        codes = None
        if clusters is not None:
            self.source.check([("clusters", [clusters])])
            codes = cluster_codes(self.source.columns([clusters])[clusters], data)
        return replace(audit_dataset(data, request, draws, codes), library=self.source.library)

    @contextmanager
    def _opened(
        self, roles: ColumnRoles, options: Options, sample_entries: int
    ) -> Iterator[tuple[Task, TableRows]]:
        """Count, decode or read the table, to be solved as often as asked."""
        request, settings = request_and_settings(options)
        costs, normalize = options.get("costs"), options.get("normalize", False)
        source, missing, held = self.source, request.missing, None
        in_memory = costs is not None or settings.objective == "agreement"
        with ExitStack() as stack:
            if roles.soft and roles.categorical and not in_memory:
                tally = source.tally(roles.attributes, roles.weight)
                refuse_gaps(source, tally, roles, missing)
                cells, mass = cells_of(tally, roles, missing=missing)
                schema = Schema(*cells.parts, classes=classes_of(source, roles), is_soft=True)
                blocks = stack.enter_context(source.blocks(Decode(roles, schema, normalize)))
                size = tally.n_rows
                task = open_remote(
                    blocks, schema, cells, mass, size, request, settings, sample_entries
                )
            else:
                any_order = not roles.categorical
                data = counted_or_gathered(source, roles, missing, normalize, any_order)
                held = data if source.ordered and not roles.counted else None
                size, task = data.size, Task.of(data, request, settings, costs)
            warn_of_doubts(task)
            counts = None if roles.soft else task.dataset
            yield task, TableRows(source, roles, task.schema, counts, normalize, held, size)


def roles_of(
    source: Source,
    label: Any,
    sensitive_features: Any,
    control_features: Any = None,
    sample_weight: str | None = None,
) -> ColumnRoles:
    """Check which columns are what; arguments as for :meth:`Scan.debias`."""
    labels, controls = names_of(label, "label"), names_of(control_features, "control_features")
    roles = ColumnRoles(labels, False, (), controls, sample_weight)
    roles = with_attributes(roles, sensitive_features)
    chosen = [
        ("label", labels),
        ("sensitive_features", (*roles.sensitive, *roles.measured)),
        ("control_features", controls),
        ("sample_weight", names_of(sample_weight, "sample_weight")),
    ]
    for argument, names in chosen[:2]:
        if not names:
            raise ParameterError(
                f"{argument} names no column.", remedy="Name at least one.", argument=argument
            )
    source.check(chosen)
    return replace(roles, soft=len(labels) > 1 or source.list_length(labels[0]) is not None)


def counted_rows(
    source: Source, roles: ColumnRoles, missing: str, *, apart: bool = False
) -> Dataset:
    """Count class labels, and read the counts as a table.

    An audit resamples rows, so that it asks for rows of different weights ``apart``.
    """
    keys, weight = [roles.label[0], *roles.attributes], roles.weight
    if apart and weight is not None:
        keys.append(weight)
    tally = source.tally(keys, weight)
    refuse_gaps(source, tally, roles, missing)
    refuse_lists_as_text(tally.columns[roles.label[0]], roles.label[0])
    # A draw for all rows of a combination is faster than one for each from a few on.
    if apart and weight is not None and tally.n_rows <= 4 * len(tally.count):
        tally = tally.spread(weight)
    if tally.weight is not None:
        refuse_weightless_table(tally.weight, tally.n_rows)
    data = read(
        tally.columns[roles.label[0]],
        **roles.features(tally.columns),
        sample_weight=tally.weight,
        fewest_classes=1 if apart else 2,
        missing=missing,
    )
    repeats = None if (tally.count == 1).all() else tally.count
    return replace(data, cells=replace(data.cells, repeats=repeats))


def counted_or_gathered(
    source: Source, roles: ColumnRoles, missing: str, normalize: bool, any_order: bool
) -> Dataset:
    """Return class labels counted, other rows as they are; arguments as for :func:`gathered`."""
    if roles.counted:
        return counted_rows(source, roles, missing)
    return gathered(source, roles, missing, normalize=normalize, any_order=any_order)


def read_classes(source: Source, roles: ColumnRoles, missing: str = "error") -> Vocabulary:
    """Return the classes; class labels are counted for it."""
    if roles.soft:
        return classes_of(source, roles)
    if roles.categorical:
        return counted_rows(source, roles, missing).labels.vocabulary
    tally = source.tally(roles.label)
    refuse_gaps(source, tally, roles, missing)
    column = tally.columns[roles.label[0]]
    return read_labels(column, normalize=False, fewest_classes=1).vocabulary


def rows_for_audit(
    source: Source,
    roles: ColumnRoles,
    missing: str,
    *,
    normalize: bool = False,
    clustered: bool = False,
) -> Dataset:
    """Return what an audit resamples: counted combinations of class labels, else the rows."""
    if roles.counted and not clustered:
        return counted_rows(source, roles, missing, apart=True)
    return gathered(
        source,
        roles,
        missing,
        normalize=normalize,
        fewest_classes=2 if roles.soft else 1,
        any_order=not clustered,
    )


def scan(data: Any, **options: Any) -> Scan:
    """Open a table where it lives: files, lazy frames, Spark and Dask.

    Nothing is read but names and types. :meth:`Scan.debias` and :meth:`Scan.audit` then take
    columns by name.

    Parameters
    ----------
    data : path, pattern, list of paths, or frame
        A Parquet, Arrow, CSV, TSV, JSON Lines or Excel file, a folder or a pattern
        (``people/*.parquet``) of such; a Polars LazyFrame, a DuckDB relation, a Spark or Dask
        DataFrame; a pyarrow Table or Dataset; a ``deltalake.DeltaTable``, a table of ``pyiceberg``;
        a RecordBatchReader or another Arrow stream, which is copied to a scratch file, since it can
        be read but once.
    **options
        For files, how they are read: ``format``, ``delimiter``, ``na``, ``encoding``, ``decimal``,
        ``sheet``, ``threads``, ``scratch`` (``r2b.engines.files.FileSource.open`` says what each
        takes).

    Returns
    -------
    Scan

    Raises
    ------
    ParameterError
        It is none of these, or the files are not there.

    See Also
    --------
    r2b.debias : The closest labels in parity.
    r2b.count_query : The SQL that counts a table.

    Examples
    --------
    >>> import pyarrow
    >>> people = pyarrow.table({"sex": ["f", "f", "m", "m"], "job": ["a", "b", "b", "b"]})
    >>> fair = scan(people).debias("job", sensitive_features="sex", epsilon=0.1)
    >>> proof = fair.certificate
    >>> fair.status.value, round(proof.disparity_before, 2), round(proof.disparity, 2)
    ('solved', 0.5, 0.1)
    """
    return Scan(_open_source(data, options))


def _open_source(data: Any, options: dict[str, Any]) -> Source:
    """Open a table by the name of its type, so that no library is imported to ask."""
    library, kind = type(data).__module__.partition(".")[0], type(data).__name__
    called = kind if library == "builtins" else f"{library} {kind}"
    several = data if isinstance(data, (list, tuple)) else [data]
    if all(isinstance(each, (str, PathLike)) for each in several):
        from r2b.engines.files import FileSource

        known = [name for name in signature(FileSource.open).parameters if name != "path"]
        for name in options:
            if name not in known:
                raise ParameterError(
                    f"{name!r} is no way to read files.",
                    remedy=f"Choose among {', '.join(known)}.",
                    option=name,
                )
        return FileSource.open(data, **options)
    if options:
        raise ParameterError(
            f"{', '.join(map(repr, options))} says how files are read, and this is a {called}.",
            remedy="Leave it out.",
            **options,
        )
    if isinstance(data, Source):
        return data
    if called in _SOURCES:
        module, name = _SOURCES[called]
        source: Source = getattr(import_module(f"r2b.engines.{module}"), name)(data)
        return source
    if library == "pyarrow" and kind.endswith("Dataset"):
        return DatasetSource(data)
    if library == "pyiceberg":
        return iceberg_source(data)
    if hasattr(data, "__arrow_c_stream__") and library not in ("pandas", "polars"):
        return stream_source(data)
    tables = ", ".join(dict.fromkeys(f"a {each.lstrip('_')}" for each in _SOURCES))
    raise ParameterError(
        f"A {called} is not a table that can be scanned.",
        remedy=f"Pass files, {tables}, an Iceberg table, or a dataset or stream of Arrow; for "
        "arrays and frames in memory use r2b.debias(y, sensitive_features=...).",
        kind=called,
    )
