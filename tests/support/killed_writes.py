"""Folder writes killed at random moments, and what a reader with a pattern sees after each.

python tests/support/killed_writes.py 200
python tests/support/killed_writes.py pairs 200
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

FORMATS = ("csv", "csv.gz", "tsv", "jsonl", "parquet", "arrow")
N_FILES, N_ROWS = 12, 900

# A process that forks others without importing anything anew; the reader's threads are not in it.
FORKS = """
import os, signal, sys, time, warnings
warnings.simplefilter("ignore")
import r2b
source, target = sys.argv[1:]
fair = r2b.scan(source, threads=1).debias("job", sensitive_features="sex", epsilon=0.01)
print("ready", flush=True)
for line in sys.stdin:
    form, after = line.split()
    child = os.fork()
    if child == 0:
        fair.write(target, form, force=True)
        os._exit(0)
    if after != "None":
        time.sleep(float(after))
        os.kill(child, signal.SIGKILL)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def make(folder: Path, kind: str) -> None:
    """Write the files of a table."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    for number in range(N_FILES):
        sex, job = rng.integers(0, 2, N_ROWS), rng.integers(0, 3, N_ROWS)
        table = pa.table(
            {
                "sex": [f"s{each}" for each in sex],
                "job": [f"j{max(each, s)}" for each, s in zip(job, sex, strict=True)],
            }
        )
        place = str(folder / f"part-{number:02d}.{kind}")
        if kind == "parquet":
            pa.parquet.write_table(table, place)
        elif kind == "arrow":
            with pa.ipc.new_file(place, table.schema) as writer:
                writer.write_table(table)
        elif kind == "jsonl":
            rows = (
                f'{{"sex": "{row["sex"]}", "job": "{row["job"]}"}}\n' for row in table.to_pylist()
            )
            Path(place).write_text("".join(rows))
        else:
            options = pa.csv.WriteOptions(delimiter="\t" if kind == "tsv" else ",")
            with pa.output_stream(place, compression="detect") as stream:
                pa.csv.write_csv(table, stream, options)


def count(folder: Path, kind: str) -> int:
    """Count what DuckDB, or Polars for Arrow, reads of all files below a folder, hidden folders
    too; 0 where there are none.
    """
    import duckdb
    import polars

    pattern = f"{folder}/**/*.{kind}"
    try:
        if kind == "arrow":
            return int(polars.scan_ipc(pattern).select(polars.len()).collect().item())
        function = {"parquet": "read_parquet", "jsonl": "read_json"}.get(kind, "read_csv")
        return int(duckdb.sql(f"SELECT count(*) FROM {function}('{pattern}')").fetchall()[0][0])
    except (duckdb.IOException, FileNotFoundError, polars.exceptions.ComputeError) as error:
        if "No files found" in str(error) or "expanded paths were empty" in str(error):
            return 0
        raise


def content(folder: Path) -> dict[str, bytes]:
    """Return the bytes of all files below a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def killed(kind: str, times: int, seed: int = 0) -> tuple[int, int]:
    """Kill so many writes; return how many were hit, and after how many the folder was in place.

    Raises
    ------
    AssertionError
        A reader saw another count than none or all rows, the next write gave other bytes, or
        something was left behind.
    """
    base = Path(tempfile.mkdtemp())
    make(base / "people", kind)
    out = base / "out"
    out.mkdir()
    total, draw, hit, there = N_FILES * N_ROWS, random.Random(seed), 0, 0
    words = [sys.executable, "-c", FORKS, str(base / "people"), str(out / "fair")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as forks:
        assert forks.stdin is not None
        assert forks.stdout is not None
        answer = forks.stdout
        assert answer.readline() == "ready\n"

        def write(form: str, after: float | None) -> int:
            assert forks.stdin is not None
            print(form, after, file=forks.stdin, flush=True)
            return int(answer.readline())

        begun, wanted = time.monotonic(), {}
        for form in ("round", "soft"):
            assert write(form, None) == 0
            wanted[form] = content(out / "fair")
        length = (time.monotonic() - begun) / 2
        assert count(out, kind) == total
        for number in range(times):
            if number % 2:
                shutil.rmtree(out / "fair")
            expected = (0, total) if number % 2 else (total,)
            form = "soft" if number % 3 else "round"
            hit += write(form, draw.uniform(0, 1.4) * length) == -signal.SIGKILL
            seen = count(out, kind)
            assert seen in expected, (kind, number, seen, sorted(out.rglob("*")))
            there += seen == total
            assert write(form, None) == 0
            assert content(out / "fair") == wanted[form], (kind, number)
        assert write("sample", None) == 0
        assert write("soft", None) == 0
        forks.stdin.close()
    assert content(out / "fair") == wanted["soft"]
    left = sorted(path.name for folder in (base, out) for path in folder.iterdir())
    assert left == ["fair", "out", "people"], left
    assert count(out, kind) == total
    shutil.rmtree(base)
    return hit, there


# Runs a command again and again, and ends it at the n-th call that changes a folder.
STEPS = """
import os, signal, sys
from r2b.cli import main
words = ["debias", "people.csv", "--label", "job", "--sensitive", "sex", "--form", "sample",
         "--threads", "1", "-o", "fair.csv", "--html", "fair.html", "--force", "-q"]
print("ready", flush=True)
for line in sys.stdin:
    at, seed, after = (float(each) for each in line.split())
    child = os.fork()
    if child == 0:
        left = [at]
        def counted(call):
            def step(*given, **more):
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*given, **more)
            return step
        for name in ("rename", "replace", "link", "unlink", "chmod", "fsync", "mkdir", "rmdir"):
            setattr(os, name, counted(getattr(os, name)))
        os._exit(main([*words, "--random-state", str(int(seed))]))
    if after:
        import time
        time.sleep(after)
        try:
            os.kill(child, signal.SIGKILL)
        except ProcessLookupError:
            pass
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def killed_pairs(folder: Path, random_kills: int = 0, seed: int = 0) -> dict[str, int]:
    """Kill a command that replaces labels and their certificate, at every step and at any time.

    Returns
    -------
    dict
        How often the old pair, the new pair, or labels without a certificate were there.

    Raises
    ------
    AssertionError
        A certificate stood beside labels that it is not about, or something was left behind.
    """
    rng = np.random.default_rng(0)
    sex, job = rng.integers(0, 2, 2000), rng.integers(0, 3, 2000)
    rows = "".join(f"s{s},j{max(j, s)}\n" for s, j in zip(sex, job, strict=True))
    (folder / "people.csv").write_text(f"sex,job\n{rows}")
    words, draw = [sys.executable, "-c", STEPS], random.Random(seed)
    seen = {"old": 0, "new": 0, "alone": 0}
    names = ("fair.csv", "fair.csv.r2b.json", "fair.html")
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder
    ) as forks:
        assert forks.stdin is not None
        assert forks.stdout is not None
        answer = forks.stdout
        assert answer.readline() == "ready\n"

        def run(at: int, form: int, after: float = 0.0) -> int:
            assert forks.stdin is not None
            print(at, form, after, file=forks.stdin, flush=True)
            return int(answer.readline())

        def contents() -> list[bytes | None]:
            places = [folder / name for name in names]
            return [each.read_bytes() if each.exists() else None for each in places]

        begun = time.monotonic()
        assert run(0, 1) == 0
        length, number, step = time.monotonic() - begun, 0, 0
        whole = False
        while not whole or number < random_kills:
            old, form = contents(), 2 + (number + step) % 7
            if not whole:
                step += 1
                whole = run(step, form) == 0
            else:
                number += 1
                run(0, form, draw.uniform(0.3, 1.1) * length)
            labels, proof, report = contents()
            assert labels is not None
            if proof is None:
                assert report is None or report == old[2] or labels != old[0]
                seen["alone"] += 1
            elif proof == old[1]:
                assert labels == old[0]
                seen["old"] += 1
            else:
                assert labels != old[0]
                seen["new"] += 1
            # what is there is either about the labels or not there
            if proof is not None:
                import r2b

                assert r2b.verify(folder / "fair.csv").ok
            assert run(0, 1) == 0
        forks.stdin.close()
    left = sorted(path.name for path in folder.iterdir())
    assert left == sorted([*names, "people.csv"]), left
    return seen


if __name__ == "__main__" and sys.argv[1:2] == ["pairs"]:
    print(killed_pairs(Path(tempfile.mkdtemp()), int(sys.argv[2])))
elif __name__ == "__main__":
    for kind in FORMATS:
        hit, there = killed(kind, int(sys.argv[1]), seed=len(kind))
        print(f"{kind}: {hit} of {sys.argv[1]} writes were killed; {there} folders whole after it")
