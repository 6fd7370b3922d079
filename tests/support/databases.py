"""Databases for the tests: a server of PostgreSQL, and DuckDB and SQLite in this process."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from pwd import getpwnam
from typing import Any

import pytest

TYPES = {
    "text": "TEXT",
    "whole": "BIGINT",
    "small": "INTEGER",
    "truth": "BOOLEAN",
    "real": "DOUBLE PRECISION",
}


class Database:
    """A connection: runs statements and gives rows."""

    def __init__(self, dialect: str, connection: Any) -> None:
        self.dialect, self.connection = dialect, connection

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        found = self.connection.execute(statement)
        if self.dialect == "postgres" and found.description is None:
            return []
        return [tuple(row) for row in found.fetchall()]

    def columns(self, statement: str) -> dict[str, list[Any]]:
        """Return a result as columns by name."""
        found = self.connection.execute(statement)
        names = [each[0] for each in found.description]
        rows = found.fetchall()
        return {name: [row[place] for row in rows] for place, name in enumerate(names)}

    def fill(self, table: str, columns: dict[str, tuple[str, list[Any]]]) -> None:
        """Make a table of columns: their types, and their values."""
        asked = ", ".join(f"{quoted(name)} {TYPES[kind]}" for name, (kind, _) in columns.items())
        self.run(f"DROP TABLE IF EXISTS {quoted(table)}")
        self.connection.execute(f"CREATE TABLE {quoted(table)} ({asked})")
        if self.dialect == "duckdb":  # row by row it takes a second for a thousand
            import pyarrow

            filling = pyarrow.table({name: values for name, (_, values) in columns.items()})
            self.connection.register("filling", filling)
            self.connection.execute(f"INSERT INTO {quoted(table)} SELECT * FROM filling")
            return
        mark = "%s" if self.dialect == "postgres" else "?"
        statement = f"INSERT INTO {quoted(table)} VALUES ({', '.join([mark] * len(columns))})"
        rows = list(zip(*(values for _, values in columns.values()), strict=True))
        (self.connection.cursor() if self.dialect == "postgres" else self.connection).executemany(
            statement, rows
        )


def quoted(name: str) -> str:
    """Write a name; not by the code that is tested."""
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def open_database(dialect: str) -> Iterator[Database]:
    """Open a database without tables; PostgreSQL skips where it is not installed."""
    if dialect == "postgres":
        with _postgres() as connection:
            yield Database(dialect, connection)
    elif dialect == "duckdb":
        duckdb = pytest.importorskip("duckdb")
        with duckdb.connect() as connection:
            yield Database(dialect, connection)
    else:
        import sqlite3

        connection = sqlite3.connect(":memory:", isolation_level=None)
        yield Database(dialect, connection)
        connection.close()


@contextmanager
def _postgres() -> Iterator[Any]:
    psycopg = pytest.importorskip("psycopg")
    programs = [shutil.which("postgres") or "", *sorted(glob("/usr/lib/postgresql/*/bin/postgres"))]
    postgres = next((Path(program).resolve() for program in programs if program), None)
    if postgres is None:
        pytest.skip("PostgreSQL is not installed (on Debian: apt-get install postgresql)")
    user: dict[str, Any] = {}
    if os.getuid() == 0:  # the server refuses to run as root
        try:
            account = getpwnam("postgres")
        except KeyError:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
        user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    # not that of pytest: a socket has a short name, and the server's user must reach it
    folder = tempfile.mkdtemp(prefix="r2b-pg-")
    server = None
    try:
        if user:
            os.chown(folder, user["user"], user["group"])
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder, **user}
        made = [
            "-D",
            f"{folder}/data",
            "-U",
            "r2b",
            "-A",
            "trust",
            "--no-sync",
            "--no-locale",
            "-E",
            "UTF8",
        ]
        subprocess.run([str(postgres.with_name("initdb")), *made], check=True, **quiet)
        settings = ["-c", "listen_addresses=", "-c", "fsync=off", "-k", folder]
        server = subprocess.Popen([str(postgres), "-D", f"{folder}/data", *settings], **quiet)
        with _connected(psycopg, folder, server) as connection:
            yield connection
    finally:
        if server is not None:
            server.terminate()
            server.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def _connected(psycopg: Any, folder: str, server: subprocess.Popen[bytes]) -> Any:
    for _ in range(300):
        try:
            return psycopg.connect(
                host=folder, user="r2b", dbname="postgres", autocommit=True, prepare_threshold=None
            )
        except psycopg.OperationalError:
            assert server.poll() is None, "PostgreSQL did not start"
            time.sleep(0.1)
    raise AssertionError("PostgreSQL did not answer within 30 seconds")
