"""Prices that were found before, applied to a table that lives elsewhere: what must fit, and its rows counted in the old codes."""

from __future__ import annotations

from dataclasses import replace

from r2b._data import Dataset, Schema
from r2b._data.attributes import CATEGORICAL
from r2b._labels import FairLabels
from r2b.engines.roles import ColumnRoles
from r2b.engines.source import NO_LABEL, Source
from r2b.engines.tally import gaps_of
from r2b.errors import ParameterError, UnseenError


def refuse_other_kind(fair: FairLabels, choice: ColumnRoles, table: str) -> None:
    """Refuse prices of probabilities for classes, and the other way round, and those of attributes that are no groups.

    Raises
    ------
    ParameterError
    """
    kinds = {False: "classes", True: "probabilities"}
    if fair.schema.is_soft != choice.soft:
        raise ParameterError(
            f"The prices were found for {kinds[fair.schema.is_soft]}, and {choice.called} of {table} holds {kinds[choice.soft]}.",
            remedy=f"Name labels that are {kinds[fair.schema.is_soft]}, or debias this table.",
        )
    odd = next((name for name, kind in zip(fair.schema.columns, fair.schema.kinds, strict=True) if kind != CATEGORICAL), None)
    if odd is not None:
        raise ParameterError(
            f"The prices were found with the continuous or uncertain attribute {odd!r}, which is read in memory only.",
            remedy="Read the rows in parts and use fair.transform(y, sensitive_features=...).",
            column=odd,
        )


def recounted(source: Source, schema: Schema, choice: ColumnRoles) -> Dataset:
    """Count class labels, and read the counts with the classes and groups of other rows.

    Raises
    ------
    UnseenError
        Names the values that are new together, and in how many rows they are.
    """
    keys = [choice.label[0], *choice.attributes]
    tally = source.tally(keys)
    # By place where columns have other names than those fitted, and by name where they come in another order.
    known = dict(zip(choice.attributes, schema.vocabularies, strict=False)) | dict(zip(schema.columns, schema.vocabularies, strict=True))
    for name in gaps_of(tally, source.subject):
        if name == choice.label[0]:
            source.refuse_missing(name, NO_LABEL)
        elif name in known and not getattr(known[name], "has_missing", False):
            source.refuse_missing(name, "Fill or drop such rows: no row lacked this value when the prices were found.")
    try:
        data = schema.read(tally.columns[keys[0]], **choice.features(tally.columns))
    except UnseenError as error:
        # Rows of a tally are combinations of values: their numbers say nothing of the table.
        facts = {name: value for name, value in error.facts.items() if name != "row"}
        row = error.facts.get("row")
        if not isinstance(row, int):
            raise
        count, values = int(tally.count[row]), ", ".join(f"{name!r} {tally.columns[name][row].as_py()!r}" for name in keys)
        raise UnseenError(
            f"{source.subject} has {count:,} row{'s' if count > 1 else ''} with {values}, for which the prices were not found.",
            remedy="Correct or drop such rows, or debias this table.",
            **facts,
        ) from error
    return replace(data, groups=replace(data.groups, repeats=tally.count))
