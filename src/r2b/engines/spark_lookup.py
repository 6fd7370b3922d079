"""New columns of class labels by a join: rows with the same values get the same answer, so that no row leaves Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Any

import numpy as np

from r2b._files.arrow import pyarrow
from r2b.engines.batch import Batch
from r2b.engines.source import Relabel
from r2b.engines.spark_session import by_byte


def looked_up(frame: Any, names: Sequence[str], values: Mapping[str, Any], relabel: Relabel) -> Any:
    """Join the answers to the rows.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        Columns are called c0, c1, ...
    names : sequence of str
        What they are called outside.
    values : mapping of str to pyarrow.Array
        Label and attributes of every combination that occurs.
    relabel : Relabel
        Soft labels or repeated rows.

    Returns
    -------
    pyspark.sql.DataFrame
    """
    from pyspark.sql import functions

    places = [names.index(name) for name in values]
    answers = _answers(frame, places, values, relabel)
    # Null-safe: a missing value is a value here, and a plain join would match it with nothing.
    same = [by_byte(frame, f"c{place}").eqNullSafe(by_byte(answers, f"k{place}")) for place in places]
    joined = frame.join(functions.broadcast(answers), reduce(and_, same), "left")
    new = [_checked(functions, f"n{number}", places, names) for number in range(len(relabel.names))]
    weight = relabel.decode.roles.weight
    if relabel.form == "expand" and weight is not None:
        new[1] = new[1] * functions.col(f"c{names.index(weight)}").cast("double")
    return joined.select(*frame.columns, *new).toDF(*names, *relabel.names)


def _answers(frame: Any, places: Sequence[int], values: Mapping[str, Any], relabel: Relabel) -> Any:
    """Make the table that is joined: values, and the new columns for them."""
    from pyspark.sql import types

    arrow = pyarrow()
    columns = dict(values)
    choice = relabel.decode.roles
    if choice.weight is not None:
        # Rows have weights of their own, which come in after the join.
        columns[choice.weight] = arrow.array(np.ones(len(columns[choice.label[0]])))
    batch = Batch(arrow.RecordBatch.from_arrays(list(columns.values()), names=list(columns)))
    new = relabel(batch)
    rows = arrow.array(np.arange(len(batch)) if new.rows is None else new.rows)
    made = [*(columns[name].take(rows) for name in values), *new.columns.values()]
    fields = frame.schema.fields
    kinds = [(f"k{place}", fields[place].dataType) for place in places]
    kinds += [(f"n{number}", types.DoubleType()) for number in range(len(new.columns))]
    if relabel.form == "expand":
        kinds[len(places)] = ("n0", fields[places[0]].dataType)
    schema = types.StructType([types.StructField(name, kind, True) for name, kind in kinds])
    return frame.sparkSession.createDataFrame(arrow.Table.from_arrays(made, names=[name for name, _ in kinds]), schema)


def _checked(functions: Any, column: str, places: Sequence[int], names: Sequence[str]) -> Any:
    """Give a new column, or fail at a row whose values were not there when they were counted."""
    called = ", ".join(repr(names[place]) for place in places)
    shown = [functions.coalesce(functions.col(f"c{place}").cast("string"), functions.lit("null")) for place in places]
    problem = functions.concat(
        functions.lit(f"A row has values of {called} that were not there when rows were counted: "),
        functions.concat_ws(", ", *shown),
        functions.lit(". Fix the rows first: write the frame or persist it, and debias that."),
    )
    return functions.when(functions.col("n0").isNull(), functions.raise_error(problem)).otherwise(functions.col(column)).alias(column)
