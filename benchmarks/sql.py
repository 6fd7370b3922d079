"""Measure the statements of :meth:`r2b.FairLabels.sql` in databases, in CPU seconds.

PostgreSQL is used where it is installed; its server is that of the tests.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

import r2b

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
from databases import Database, open_database

NUMBERS = {
    "postgres": "generate_series(0, {last}) AS numbers(i)",
    "duckdb": "range({last} + 1) AS numbers(i)",
    "sqlite": "(WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {last}) "
    "SELECT i FROM n)",
}


def cpu_seconds(database: Database) -> float:
    """Return the CPU time of this process, or of the server that works for it."""
    if database.dialect != "postgres":
        return time.process_time()
    ((process,),) = database.run("SELECT pg_backend_pid()")
    user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def measure(database: Database, rows: int, groups: int, classes: int, *, indexed: bool) -> Any:
    """Yield what was done to a table of people and how long it took."""
    last = rows - 1
    numbers = NUMBERS[database.dialect].format(last=last)
    if database.dialect == "duckdb":
        database.run("SET threads = 1")
    if database.dialect == "postgres":
        database.run("SET max_parallel_workers_per_gather = 0")

    def timed(statement: str) -> float:
        begun = cpu_seconds(database)
        database.run(statement)
        return cpu_seconds(database) - begun

    database.run(
        f"CREATE TABLE people AS SELECT i AS id, 'g' || (i % {groups}) AS place, "
        f"'c' || (((i * 37) % 97 + (i % 2) * ((i * 11) % 3)) % {classes}) AS job FROM {numbers}"
    )
    yield "copy", timed("CREATE TABLE copy AS SELECT * FROM people")
    asked = {"sensitive_features": "place"}
    query = r2b.count_query(database.dialect, "people", "job", **asked)
    yield "count", timed(query)
    fair = r2b.debias_counts(pa.table(database.columns(query)), "job", **asked, epsilon=0.01)
    for form in ("soft", "sample", "round"):
        key = {} if form == "soft" else {"key": "id"}
        answers = f"answers_{form}" if indexed else None
        made = fair.sql(
            database.dialect, table="people", form=form, into=f"fair_{form}", answers=answers, **key
        )
        if answers is not None:
            kinds = {"string": "text", "int64": "whole", "double": "real"}
            columns = {
                field.name: (kinds[str(field.type)], made.answers[field.name].to_pylist())
                for field in made.answers.schema
            }
            database.fill(answers, columns)
            database.run(f"CREATE INDEX index_{form} ON {answers} (k0, k1)")
        yield form, timed(str(made))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--groups", type=int, default=10)
    parser.add_argument("--classes", type=int, default=3)
    parser.add_argument("--indexed", action="store_true", help="keep answers in an indexed table")
    parser.add_argument("--dialects", nargs="+", default=list(NUMBERS), choices=NUMBERS)
    given = parser.parse_args()
    for dialect in given.dialects:
        with open_database(dialect) as database:
            sizes = given.rows, given.groups, given.classes
            for step, seconds in measure(database, *sizes, indexed=given.indexed):
                print(f"{dialect:10s} {step:8s} {seconds:8.1f} s", flush=True)


if __name__ == "__main__":
    main()
