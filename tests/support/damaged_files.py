"""Files damaged in every way that a seed picks, and the processes that read them; run as a
program it is a campaign of any length.

python tests/damaged_files.py 1000        # that many of each kind, each in a process of its own
"""

from __future__ import annotations

import io
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

KINDS = ("feather", "feather.lz4", "feather.zst", "stream", "parquet", "csv", "csv.zst")
_NUMBERS = (b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\0\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\x10")


def name_of(kind: str) -> str:
    """Return a file name that tells the format."""
    return f"people.{kind}" if kind in ("parquet", "csv", "csv.zst") else "people.arrow"


def whole(kind: str, n_rows: int = 120) -> bytes:
    """Return a table as a file of some kind: text, codes with missing values, lists and numbers."""
    import pyarrow as pa
    from pyarrow import feather, parquet

    draw = random.Random(7)
    job = [draw.choice(["clerk", "nurse", "cook"]) for _ in range(n_rows)]
    sex = [draw.choice("fm") for _ in range(n_rows)]
    if kind.startswith("csv"):
        text = "".join(
            ["sex,job\n", *(f"{one},{two}\n" for one, two in zip(sex, job, strict=True))]
        ).encode()
        return bytes(pa.compress(text, "zstd", asbytes=True)) if kind.endswith("zst") else text
    note = pa.array([draw.choice(["alpha", "beta", None]) for _ in range(n_rows)])
    columns = {
        "sex": pa.array(sex).dictionary_encode(),
        "job": pa.array(job),
        "note": note,
        "coded": note.dictionary_encode(),
    }
    table = pa.table(
        {
            **columns,
            "p": pa.array([[0.5, 0.5]] * n_rows),
            "w": pa.array([float(row % 5) for row in range(n_rows)]),
        }
    )
    sink = io.BytesIO()
    if kind == "parquet":
        parquet.write_table(table, sink)
    elif kind == "stream":
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=50)
    else:
        feather.write_feather(
            table,
            sink,
            compression={"feather.lz4": "lz4", "feather.zst": "zstd"}.get(kind, "uncompressed"),
        )
    return sink.getvalue()


def damaged(content: bytes, seed: int) -> bytes:
    """Damage some bytes: a bit, a byte, a number, a stretch, a stretch from elsewhere, or the
    end.
    """
    draw, made = random.Random(seed), bytearray(content)
    way = draw.randrange(7)
    for _ in range(draw.choice([1, 1, 2, 4, 16])):
        place = draw.randrange(len(made))
        if way == 0:
            made[place] ^= 1 << draw.randrange(8)
        elif way == 1:
            made[place] = draw.randrange(256)
        elif way in (2, 3):
            place = place & ~3 if way == 2 else place
            made[place : place + 4] = draw.choice(_NUMBERS)
        elif way == 4:
            made[place : place + 8] = draw.randbytes(8)
        elif way == 5:
            other, size = draw.randrange(len(made)), draw.randrange(1, 64)
            made[place : place + size] = made[other : other + size]
        else:
            return bytes(made[: max(place, 1)])
    return bytes(made)


def use(kind: str, content: bytes, folder: str) -> None:
    """Do with a file what commands and the app do: read it, list it, write it, solve it; whole
    columns, and part by part.
    """
    import r2b
    from r2b.app.tables import _columns
    from r2b.engines.files import FileSource
    from r2b.errors import R2BError

    try:
        table = FileSource.open(name_of(kind), stream=io.BytesIO(content))
        _columns(table)
        if {"job", "sex"} <= set(table.names):
            found: Any = table.columns(["job", "sex"])
            r2b.debias(found["job"], sensitive_features=found["sex"], epsilon=0.01)
    except R2BError:
        pass
    place = Path(folder) / name_of(kind)
    place.write_bytes(content)
    r2b.scan(place).debias("job", sensitive_features="sex", epsilon=0.01).write(
        place.with_name(f"new-{place.name}"), "round", force=True
    )


def outcomes(kind: str, seeds: range) -> Counter[str]:
    """Use one damaged file after the other in this process, and count how it went."""
    import warnings

    from r2b.errors import R2BError

    warnings.simplefilter("ignore")
    content, counted = whole(kind), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            try:
                use(kind, damaged(content, seed), folder)
                counted["used"] += 1
            except R2BError:
                counted["refused"] += 1
            except Exception as error:
                counted[f"{type(error).__name__} for seed {seed}: {str(error)[:200]}"] += 1
    return counted


def campaign(kind: str, first: int, count: int) -> tuple[int, str]:
    """Run a stretch of seeds in a process of its own; give how it ended and what it counted."""
    code = (
        f"import damaged_files as d; print(dict(d.outcomes({kind!r}, range({first},"
        f" {first + count}))))"
    )
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=50 + 2 * count,
    )
    return done.returncode, done.stdout.strip() or done.stderr[-400:]


if __name__ == "__main__":
    for each in KINDS:
        for start in range(0, int(sys.argv[1]), 50):
            print(each, start, *campaign(each, start, 50), flush=True)
