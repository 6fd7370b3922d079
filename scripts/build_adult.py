"""Build ``src/r2b/datasets/adult.npz`` from Adult in the sdist of transparentai 0.2.2.

    python scripts/build_adult.py [path/to/transparentai-0.2.2.tar.gz] [--check]

Without a path, pip fetches the sdist. It is only read as an archive, never installed. With
``--check`` nothing is written: the columns are compared with those of the file in the package.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from r2b.datasets import adult

PACKAGE = "transparentai==0.2.2"
SDIST = "transparentai-0.2.2.tar.gz"
SDIST_SHA256 = "92a5f3317abbf42cf0141139155712267c97846d172b7b3ea1957222a92824c0"
MEMBER = "transparentai-0.2.2/transparentai/datasets/data/adult.csv"
MEMBER_SHA256 = "0e67f142b55d0092870777e7cb1df01e3430e3359e49b4bdf56e099e86bb1fe1"
TEST_ROWS = 16_281  # the copy has UCI's test file first

NAMES = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
]
NAMES += ["capital-gain", "capital-loss", "hours-per-week", "native-country", "income"]
NUMBERS = {"age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"}


def fetch_sdist(folder: Path) -> Path:
    # pip runs an sdist's setup.py for its metadata even when it only downloads; told the hash, it
    # refuses any other file before that.
    pin = folder / "pin.txt"
    pin.write_text(f"{PACKAGE} --hash=sha256:{SDIST_SHA256}\n", encoding="ascii")
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--no-binary",
        PACKAGE.split("==")[0],
    ]
    if (
        subprocess.run(
            [*command, "--require-hashes", "--requirement", str(pin), "--dest", str(folder)],
            check=False,
        ).returncode
        != 0
    ):
        sys.exit(
            f"pip could not fetch {PACKAGE}. Download {SDIST} by other means and pass its path."
        )
    return folder / SDIST


def verified(content: bytes, expected: str, what: str) -> bytes:
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        sys.exit(
            f"{what} has sha256 {found}, expected {expected}. "
            "This is not the file the package was built from."
        )
    return content


def read_rows(sdist: Path) -> list[list[str]]:
    archive = verified(sdist.read_bytes(), SDIST_SHA256, sdist.name)
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        member = tar.extractfile(MEMBER)
        if member is None:
            sys.exit(f"{MEMBER} is not a file in {sdist.name}.")
        text = verified(member.read(), MEMBER_SHA256, MEMBER).decode("ascii")
    rows = list(csv.reader(text.splitlines()))
    return rows[TEST_ROWS:] + rows[:TEST_ROWS]


def encode(rows: list[list[str]]) -> dict[str, Any]:
    """Code each column as small integers; categories are sorted, education by its years."""
    columns = dict(
        zip(NAMES, (np.array(column) for column in zip(*rows, strict=True)), strict=True)
    )
    years = dict(
        zip(
            columns["education"].tolist(),
            columns["education-num"].astype(int).tolist(),
            strict=True,
        )
    )
    stored: dict[str, Any] = {"columns": np.array(NAMES)}
    for name, values in columns.items():
        if name in NUMBERS:
            numbers = values.astype(np.int64)
            stored[name] = numbers.astype(np.min_scalar_type(numbers.max()))
            continue
        categories = sorted(
            set(values.tolist()),
            key=lambda value: (years[value] if name == "education" else 0, value),
        )
        place = {category: code for code, category in enumerate(categories)}
        stored[name] = np.array([place[value] for value in values.tolist()], dtype=np.uint8)
        stored[f"{name}.categories"] = np.array(categories)
    return stored


def same(ours: dict[str, Any], path: Path) -> bool:
    with np.load(path, allow_pickle=False) as theirs:
        return set(ours) == set(theirs) and all(
            np.array_equal(ours[name], theirs[name]) for name in ours
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the Adult data file of r2b.")
    parser.add_argument(
        "sdist", nargs="?", type=Path, help=f"path of {SDIST}; fetched with pip when left out"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="compare with the file in the package instead of writing it",
    )
    arguments = parser.parse_args()
    target = Path(adult.__file__).with_name(adult.FILE)
    with tempfile.TemporaryDirectory() as folder:
        stored = encode(read_rows(arguments.sdist or fetch_sdist(Path(folder))))
    if arguments.check:
        if not same(stored, target):
            sys.exit(f"{target.name} differs from what {SDIST} gives.")
        print(f"{target.name} holds exactly what {SDIST} gives.")
        return
    # zip with fixed dates: the same bytes wherever zlib is the same
    np.savez_compressed(target, **stored)
    print(
        f"{target.name}: {target.stat().st_size:,} bytes, "
        f"sha256 {hashlib.sha256(target.read_bytes()).hexdigest()}"
    )


if __name__ == "__main__":
    main()
