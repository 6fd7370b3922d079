"""Row weights wherever rows live: the same as in memory."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import r2b
from r2b.errors import FileFormatError, ParameterError, RowsUnavailableError
from tests.support.cli_calls import Shell

duckdb = pytest.importorskip("duckdb")
polars = pytest.importorskip("polars")


def people(n=3000):
    rng = np.random.default_rng(0)
    sex, race = rng.choice(["f", "m"], n), rng.choice(["a", "b", "c"], n)
    job = np.where(rng.random(n) < 0.2 + 0.3 * (sex == "f"), "x", rng.choice(["y", "z"], n))
    return pa.table({"id": np.arange(n), "sex": sex, "race": race, "job": job})


TABLE = people()
ASKED = {"epsilon": 0.02, "max_weight": 2.0, "families": "both"}
GROUPS = ["sex", "race"]


@pytest.fixture(scope="module")
def memory():
    groups = {name: TABLE[name].to_pylist() for name in GROUPS}
    return r2b.reweigh(TABLE["job"].to_pylist(), sensitive_features=groups, **ASKED)


@pytest.fixture(scope="module")
def parquet(tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "people.parquet"
    pq.write_table(TABLE, path, row_group_size=700)
    return path


@pytest.mark.parametrize("kind", ["arrow", "parquet", "polars", "duckdb"])
def test_weights_are_those_of_memory(kind, memory, parquet):
    table = {
        "arrow": lambda: TABLE,
        "parquet": lambda: parquet,
        "polars": lambda: polars.from_arrow(TABLE).lazy(),
        "duckdb": lambda: duckdb.connect().from_arrow(TABLE),
    }[kind]()
    found = r2b.scan(table).reweigh("job", sensitive_features=GROUPS, **ASKED)
    assert found.status.ok
    assert found.effective_sample_size == pytest.approx(memory.effective_sample_size, rel=1e-9)
    assert found.table == pytest.approx(memory.table, abs=1e-9)
    frame = found.frame()
    if kind == "polars":
        frame = frame.collect()
    if kind == "parquet":
        frame = pa.Table.from_batches(frame)
    frame = frame.order("id").to_arrow_table() if kind == "duckdb" else frame
    assert np.asarray(frame["weight"]) == pytest.approx(memory.weights, abs=1e-9)


def test_files_are_written_with_a_column_of_weights(memory, parquet, tmp_path):
    found = r2b.scan(parquet).reweigh("job", sensitive_features=GROUPS, **ASKED)
    found.write(tmp_path / "out.parquet", new_column="w")
    written = pq.read_table(tmp_path / "out.parquet")
    assert written.column_names == [*TABLE.column_names, "w"]
    assert written["w"].to_numpy() == pytest.approx(memory.weights, abs=1e-9)
    assert found.weights == pytest.approx(memory.weights, abs=1e-9)
    with pytest.raises(ParameterError, match="'sex'"):
        found.write(tmp_path / "again.parquet", new_column="sex")


def test_a_count_and_a_join_in_a_database(memory):
    base = duckdb.connect()
    base.register("people", TABLE)
    query = r2b.count_query("duckdb", "people", "job", sensitive_features=GROUPS)
    counted = base.sql(query).to_arrow_table()
    found = r2b.reweigh_counts(counted, "job", sensitive_features=GROUPS, **ASKED)
    select = found.sql("duckdb", table="people").select
    joined = base.sql(f"SELECT * FROM ({select}) ORDER BY id").to_arrow_table()
    assert joined["weight"].to_numpy() == pytest.approx(memory.weights, abs=1e-9)
    assert found.effective_sample_size == pytest.approx(memory.effective_sample_size, rel=1e-9)
    # the counted combinations with their weights are what can be joined by hand
    assert found.frame().column_names == [*counted.column_names, "weight"]


def test_rows_in_memory_have_no_table(memory):
    with pytest.raises(RowsUnavailableError, match="scanned"):
        memory.frame()


def test_a_file_holds_everything_but_the_rows(memory, tmp_path):
    memory.save(tmp_path / "w.json")
    again = r2b.load(tmp_path / "w.json")
    groups = {name: TABLE[name].to_pylist() for name in GROUPS}
    found = again.transform(TABLE["job"].to_pylist(), sensitive_features=groups)
    assert (found == memory.weights).all()
    assert again.certificate.holds and again.disparity == memory.disparity
    with pytest.raises(RowsUnavailableError, match="loaded from a file"):
        _ = again.weights
    (tmp_path / "w.json").write_text('{"format": "r2b-weights", "version": 1}')
    with pytest.raises(FileFormatError, match="damaged"):
        r2b.load(tmp_path / "w.json")


def test_the_command_writes_a_column_and_a_rule(memory, parquet, tmp_path, capsys):
    shell, out, rule = Shell(capsys, tmp_path), tmp_path / "out.csv", tmp_path / "rule.json"
    words = f"reweigh {parquet} --label job --sensitive sex,race --families both --epsilon 0.02"
    done = shell(f"{words} --max-weight 2 -o {out} --save {rule}")
    assert done.code == 0 and "largest weight" in done.out
    written = polars.read_csv(out)
    assert written["weight"].to_numpy() == pytest.approx(memory.weights, abs=1e-9)
    assert r2b.load(rule).disparity == pytest.approx(memory.disparity, abs=1e-9)


def test_the_command_says_what_to_multiply_weights_with(tmp_path, capsys):
    shell, table, out = Shell(capsys, tmp_path), tmp_path / "people.csv", tmp_path / "out.csv"
    table.write_text("sex,race,job,w\n" + "f,a,x,1\nf,b,y,2\nm,a,y,3\nm,b,x,1\n" * 9)
    words = f"reweigh {table} --label job --epsilon 0 --force -o {out}"
    done = shell(f"{words} --sensitive sex --weight w")
    assert done.code == 0 and done.out.startswith("Row weights: solved")
    assert "  new column        weight; multiply with w" in done.out
    done = shell(f"verify {out}")
    assert done.code == 2 and "multiply them with those that rows had" in done.err
    done = shell(f"{words} --sensitive sex,race --representation f=0.5 --representation m=0.5")
    assert done.code == 2 and "Pass --representation equal" in done.err
    assert "--families crossed" in done.err and "{" not in done.err


def test_the_command_says_what_would_work(parquet, tmp_path, capsys):
    shell, out = Shell(capsys, tmp_path), tmp_path / "out.csv"
    words = f"reweigh {parquet} --label job --sensitive sex -o {out}"
    done = shell(f"{words} --max-weight 1.05")
    assert done.code == 2 and "--max-weight" in done.err and "--epsilon" in done.err
    assert not out.exists()
    done = shell(f"{words} --representation f=x")
    assert done.code == 2 and "group=share" in done.err
