"""Fair labels of a table that lives elsewhere: the prices and their proof are here, the labels leave with the table."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from r2b._data import Dataset
from r2b._data.compute import seed_of
from r2b._data.merge import class_weights
from r2b._labels import FairLabels
from r2b._labels.changes import Change, heaviest_flows
from r2b._labels.forms.rounding import Search, whole_counts
from r2b._labels.forms.turns import Turns
from r2b._labels.realised import Realised, realised
from r2b._labels.rows import FairRows
from r2b.engines.decode import Decode
from r2b.engines.relabel import Coded, Form, Heaviest, Leaving, Look, Relabel, new_names
from r2b.engines.roles import ColumnRoles, names_of, refuse_columns
from r2b.engines.source import Source
from r2b.errors import ParameterError, RowsUnavailableError

Integers = NDArray[np.int64]
Array = np.ndarray[Any, np.dtype[Any]]

_LARGEST_CHANNEL = 1 << 31  # numbers: 16 GiB


@dataclass(frozen=True, eq=False, repr=False)
class FairTable(FairLabels):
    """Fair labels of a scanned table.

    All that :class:`r2b.FairLabels` says of prices and proof holds here; labels leave through :meth:`frame` and :meth:`write`.

    Attributes
    ----------
    source : Source
    choice : ColumnRoles
    counted : Dataset or None
        Class labels, counted: one row per combination of values.
    normalize : bool
    """

    source: Source | None = field(default=None, repr=False)
    choice: ColumnRoles | None = field(default=None, repr=False)
    counted: Dataset | None = field(default=None, repr=False)
    normalize: bool = False

    def frame(self, form: Form = "soft", *, random_state: int = 0, key: Any = None, new_column: str | None = None) -> Any:
        """Give the table with its fair labels in new columns, of the kind that came in.

        Parameters
        ----------
        form : {"soft", "round", "sample", "expand"}
            As the methods of these names of :class:`r2b.FairLabels`.
        random_state : int
            For "round" and "sample". The draw of a row follows from this number and the row's key; not from partitions or threads.
        key : str or list of str, optional
            Columns that tell rows apart, for "round" and "sample". A table whose rows have an order needs none: their place is their key.
        new_column : str, optional
            Name of the new column, or what new names begin with; "<label>_fair" by default.

        Returns
        -------
        frame
            For files, an iterator of Arrow batches.

        Notes
        -----
        "round" gives every class of every cell its fair number of rows, rounded up or down (of weighted rows, to within L - 1 of the
        heaviest): over the whole table, and the same rows get the same labels as in memory. The one exception are probabilities and
        weighted rows of a table without an order (Dask, Spark, DuckDB): they are rounded batch by batch, and each batch keeps this.
        """
        relabel = self.relabel(form, random_state=random_state, key=key, new_column=new_column)
        return self._source.frame(relabel)

    def write(
        self,
        path: str | PathLike[str],
        form: Form = "soft",
        *,
        random_state: int = 0,
        key: Any = None,
        new_column: str | None = None,
        force: bool = False,
    ) -> None:
        """Write the table with its fair labels, in the format it came in; a folder as a folder.

        Parameters
        ----------
        path : path-like
            Must not be there, unless ``force``. It appears whole or not at all.
        form, random_state, key, new_column
            As for :meth:`frame`.
        force : bool
            Replace what is there.
        """
        relabel = self.relabel(form, random_state=random_state, key=key, new_column=new_column)
        self._source.write(relabel, fspath(path), force=force)

    @property
    def weighted(self) -> bool:
        """Whether the rows have weights."""
        return self._choice.weight is not None

    def realised_as(self, form: Form, *, random_state: int = 0, key: Any = None) -> Realised:
        """Measure the parity that labels of one class per row have as they leave: a pass over the rows.

        Parameters
        ----------
        form : {"round", "sample"}
            The other forms have the parity of the certificate.
        random_state, key
            As for :meth:`frame`.
        """
        if form not in ("round", "sample"):
            raise ParameterError(
                f"form is {form!r}.", remedy="Pass 'round' or 'sample'; the certificate speaks of 'soft' and 'expand'.", form=form
            )
        return self.measured(self.relabel(form, random_state=random_state, key=key))

    def measured(self, relabel: Relabel) -> Realised:
        """Measure the labels that leave, one class per row."""
        leaving, source = Leaving(relabel), self._source.reading_numbers(relabel.decode.choice)
        shape = (len(self.schema.table), len(self.classes))
        weight, sums = np.zeros(shape[0]), np.zeros(shape)
        for mine, classes in source.run(leaving.needed, leaving):
            weight, sums = weight + mine, sums + classes
        return realised(self.families, self.certificate, self.schema.layout, sums, weight)

    def relabel(self, form: Form, *, random_state: int = 0, key: Any = None, new_column: str | None = None) -> Relabel:
        """Give what makes the new columns of a batch; for "round" this takes a pass over the rows."""
        source, choice = self._source, self._choice
        if form not in get_args(Form):
            raise ParameterError(f"form is {form!r}.", remedy=f"Pass one of {', '.join(map(repr, get_args(Form)))}.", form=form)
        keys, random_state = names_of(key, "key"), seed_of(random_state)
        drawn = form in ("round", "sample")
        if drawn and not keys and not source.ordered:
            raise ParameterError(
                f"The rows of {source.name} have no order, so that nothing tells them apart for {form!r}.",
                remedy="Name columns that do, such as key='id'; the same keys then always get the same labels.",
                form=form,
            )
        refuse_columns(source.names, [("key", keys)], source.subject)
        names = new_names(form, new_column, choice, self.classes.tolist(), ordered=source.ordered)
        _refuse_taken(names, source)
        return self.relabelled(form, names, random_state, keys if drawn else ())

    def relabelled(self, form: Form, names: tuple[str, ...], random_state: int, keys: tuple[str, ...]) -> Relabel:
        """Give what makes new columns of these names; arguments as for :meth:`relabel`, checked."""
        source, choice = self._source, replace(self._choice, key=keys)
        decode = Decode(choice, self.schema, self.normalize)
        made = Relabel(decode, self._response(self.schema.layout), form, names, random_state)
        if form != "round" or (self.unchanged and not choice.soft):
            return made
        if self.counted is not None and choice.weight is None:
            return replace(made, borders=self.borders(decode, random_state))
        return replace(made, decided=self.decided(made)) if source.ordered else made

    def decided(self, relabel: Relabel) -> Array:
        """Round rows one after the other, for "round" of probabilities and weighted rows that have an order: a pass over the rows."""
        decode, source, heaviest = relabel.decode, self._source.reading_numbers(relabel.decode.choice), None
        if decode.choice.weight is not None:
            heaviest = np.max([*source.run(decode.choice.used, Heaviest(decode))], axis=0)
        turns = Turns(len(self.classes), relabel.random_state, heaviest, compiled=True)
        for first, data, draws, weight in source.run(relabel.needed, Coded(decode, relabel.random_state)):
            turns.take(data.groups.codes, draws, weight, first, FairRows(data, relabel.response).of_rows)
        return turns.finish()

    def borders(self, decode: Decode, random_state: int) -> Integers:
        """Find the draws at which new classes end, for "round" of class labels: one pass over the rows."""
        assert self.counted is not None
        n_cells, n_classes = len(self.schema.table), len(self.classes)
        if n_cells * n_classes**2 > _LARGEST_CHANNEL:
            raise ParameterError(
                f"There are {n_classes:,} classes in {n_cells:,} groups, and 'round' counts how many rows of each class become each other, "
                f"in every group: a table of {8 * n_cells * n_classes**2 / 1e9:,.0f} GB.",
                remedy="Take 'sample' or 'expand', which need no such table, or put rare classes together first.",
                n_classes=n_classes,
                n_cells=n_cells,
            )
        counts = class_weights(self.counted, ignore_weight=True)
        whole = whole_counts(counts, self.channel, random_state)
        found: Integers | Search = Search.of(whole.reshape(-1, whole.shape[-1]))
        while isinstance(found, Search):
            look = Look(decode, found, random_state)
            found = found.borders(self._source.run(look.needed, look))
        return found

    def largest_changes(self, n: int = 10) -> list[Change]:
        """List the heaviest flows from an old to a new label; for class labels only."""
        if self.counted is None or self.unchanged:
            return []
        rows = FairRows(self.counted, self._response(self.schema.layout))
        return heaviest_flows(rows.answers, class_weights(self.counted), self.cells, self.classes, n)

    @property
    def _source(self) -> Source:
        assert self.source is not None
        return self.source

    @property
    def _choice(self) -> ColumnRoles:
        assert self.choice is not None
        return self.choice

    def _rows(self) -> FairRows:
        raise RowsUnavailableError(
            f"The rows of {self._source.name} are not in memory.",
            remedy="Take frame(form=...) or write(path, form=...); transform(y, ...) gives the labels of rows that are.",
        )


def _refuse_taken(names: tuple[str, ...], source: Source) -> None:
    taken = next((name for name in names if name in source.names or names.count(name) > 1), None)
    if taken is not None:
        raise ParameterError(
            f"The new column {taken!r} would have the name of a column of {source.name}.",
            remedy="Choose another name with new_column=...",
            column=taken,
        )
