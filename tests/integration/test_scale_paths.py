"""Where files are read from and written to: paths as users write them, and what must never be
written over.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from file_tables import people, scores

import r2b
from r2b.errors import ParameterError

pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ASK: dict[str, Any] = {"sensitive_features": "sex", "epsilon": 0.05}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    place = tmp_path / "my people.parquet"
    pq.write_table(people(200), place)
    return place


def test_a_path_may_begin_with_the_users_folder(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(file.parent))
    monkeypatch.setenv("USERPROFILE", str(file.parent))
    fair = r2b.scan("~/my people.parquet").debias("job", **ASK)
    fair.write("~/fair.parquet", "round")
    assert pq.read_table(file.parent / "fair.parquet").num_rows == 200
    assert r2b.scan("~/my*.parquet").names == fair.rows.source.names  # type: ignore[union-attr]


def test_an_address_of_a_file_on_this_machine_is_its_path(file: Path) -> None:
    fair = r2b.scan(file.as_uri()).debias("job", **ASK)
    fair.write((file.parent / "of uri.parquet").as_uri())
    assert (file.parent / "of uri.parquet").is_file()


@pytest.mark.parametrize(
    "address",
    [
        "s3://bucket/people/*.parquet",
        "https://host/people.parquet",
        "gs://a/b.csv",
        "hdfs://n:8020/x",
    ],
)
def test_an_address_of_another_machine_is_refused_with_a_way_to_read_it(
    address: str, file: Path
) -> None:
    with pytest.raises(ParameterError, match=r"is an address.*LazyFrame"):
        r2b.scan(address)
    with pytest.raises(ParameterError, match="is an address"):
        r2b.scan(file).debias("job", **ASK).write(address)


def test_a_folder_in_a_list_is_called_one(file: Path) -> None:
    with pytest.raises(
        ParameterError, match=r"is a folder. A list names files; pass a folder alone"
    ):
        r2b.scan([file, file.parent])
    with pytest.raises(ParameterError, match=r"is not there. Check the path"):
        r2b.scan([file, file.parent / "none.parquet"])


def test_nothing_is_written_where_a_pattern_of_all_folders_would_find_it_again(
    tmp_path: Path,
) -> None:
    (tmp_path / "in" / "one").mkdir(parents=True)
    pq.write_table(people(100), tmp_path / "in" / "one" / "p.parquet")
    fair = r2b.scan(str(tmp_path / "in" / "**" / "*.parquet")).debias("job", **ASK)
    with pytest.raises(ParameterError, match=r"lies in|holds"):
        fair.write(tmp_path / "in" / "fair")
    fair.write(tmp_path / "fair")
    assert (tmp_path / "fair" / "one" / "p.parquet").is_file()
    # A pattern of fixed depth does not find what lies a folder deeper.
    pattern = str(tmp_path / "in" / "*" / "*.parquet")
    r2b.scan(pattern).debias("job", **ASK).write(tmp_path / "in" / "fair")
    assert r2b.scan(pattern).source.n_rows == 100  # type: ignore[attr-defined]


def test_a_file_counts_once_however_many_ways_a_pattern_has_to_it(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    pq.write_table(people(100), tmp_path / "a" / "b" / "p.parquet")
    assert r2b.scan(str(tmp_path / "**" / "**" / "*.parquet")).source.n_rows == 100  # type: ignore[attr-defined]
    (tmp_path / "a" / "again.parquet").symlink_to(tmp_path / "a" / "b" / "p.parquet")
    with pytest.raises(
        ParameterError,
        match=r"again\.parquet' and .*p\.parquet' are one file, by a link. Remove the link",
    ):
        r2b.scan(tmp_path)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"threads": 0}, "threads is 0. Pass a whole number of at least 1"),
        ({"threads": "two"}, "threads is 'two'"),
        ({"chunks": 3}, "'chunks' is no way to read files. Choose among format, delimiter, na"),
    ],
)
def test_ways_to_read_files_are_checked(file: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        r2b.scan(file, **options)


def test_scratch_space_that_is_not_there_is_refused_by_its_name(tmp_path: Path) -> None:
    _, table = scores(50)
    pq.write_table(table, tmp_path / "t.parquet")
    label = [name for name in table.column_names if name.startswith("p") and name[1:].isdigit()]
    group = next(
        name for name in table.column_names if str(table.schema.field(name).type) == "string"
    )
    with pytest.raises(
        ParameterError, match=r"cannot be kept in .*nowhere: No such file.*`scratch`"
    ):
        r2b.scan(tmp_path / "t.parquet", scratch=str(tmp_path / "nowhere")).debias(
            label, sensitive_features=group
        )
    for sample_entries in (-1, "x", 1.5):
        with pytest.raises(ParameterError, match="sample_entries is"):
            r2b.scan(tmp_path / "t.parquet").debias(
                label, sensitive_features=group, sample_entries=sample_entries
            )  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "log", "data"),
    [
        ("Delta Lake", "_delta_log/00000000000000000000.json", "."),
        ("Hudi", ".hoodie/hoodie.properties", "day=1"),
        ("Iceberg", "metadata/v1.metadata.json", "data/day=1"),
    ],
)
def test_a_table_whose_log_says_which_files_count_is_refused(
    tmp_path: Path, kind: str, log: str, data: str
) -> None:
    root = tmp_path / "lake" / "people"
    (root / log).parent.mkdir(parents=True)
    (root / log).write_text("{}")
    (root / data).mkdir(parents=True, exist_ok=True)
    files = [root / data / f"part-{number}.parquet" for number in range(2)]
    for file in files:
        pq.write_table(people(50), file)
    for given in (root, root / data, files[0], files, root / "**" / "*.parquet", tmp_path / "lake"):
        with pytest.raises(
            ParameterError,
            match=(
                f"table of {kind} in .*people, whose log says which files count.*Read it by its log"
            ),
        ) as refused:
            r2b.scan(given)
        assert refused.value.facts["root"] == str(root)
    # A folder that is only called so, beside plain files, is none of these.
    (tmp_path / "plain" / "metadata").mkdir(parents=True)
    pq.write_table(people(50), tmp_path / "plain" / "a.parquet")
    assert r2b.scan(tmp_path / "plain" / "*.parquet").names
