"""Files are read as they are and keep every byte that was not asked to change."""

from __future__ import annotations

import csv
import datetime
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from given_columns import column, encoded, of
from hypothesis import given, settings
from hypothesis import strategies as st

from r2b._files.formats import Format, format_of
from r2b._files.text import compress, decompress
from r2b.engines.files import FileSource
from r2b.engines.files.lines import TextStored
from r2b.errors import InputError, MixedTypeError, ParameterError, R2BError

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "=cmd|'/c calc'!A1",
    'say "hi"',
    "two\nlines",
    "a,b",
    " blanks ",
    "naïve ☃ 漢字",
    "x",
    "'",
]
ENCODINGS = [
    "utf-8",
    "utf-8-sig",
    "latin-1",
    "utf-16",
    "utf-16-le",
    "utf-16-be",
    "utf-32",
    "shift_jis",
    "gb18030",
    "cp037",
]


@pytest.fixture(params=[1 << 22, 7], ids=["whole", "parts"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Read text whole, and a few bytes at a time."""
    monkeypatch.setattr(TextStored, "size", request.param)
    return int(request.param)


def written(rows: list[list[str]], **dialect: Any) -> str:
    out = io.StringIO(newline="")
    csv.writer(out, **dialect).writerows(rows)
    return out.getvalue()


@pytest.mark.usefixtures("size")
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('a,b\n1,"x, y"\n2,"line\nline"\n', 'a,b,n\n1,"x, y",0\n2,"line\nline",1\n'),
        ("a,b\r\n1,2\r\n", "a,b,n\r\n1,2,0\r\n"),
        ("a,b\n1,2", "a,b,n\n1,2,0"),
        ('\ufeffa,b\n"1",2\n', '\ufeffa,b,n\n"1",2,0\n'),
        ('"a","b"\n"1","2"\n', '"a","b","n"\n"1","2","0"\n'),
        ('"a",b\n1,2\n', '"a",b,n\n1,2,0\n'),
        ("a;b\n1;2,5\n", "a;b;n\n1;2,5;0\n"),
        ("a\tb\n1\t2\n", "a\tb\tn\n1\t2\t0\n"),
        ('a,b\n"","=1+1"\n\n\n', 'a,b,n\n"","=1+1",0\n\n\n'),
        ("a,b\n1,\u2028\x0b\n", "a,b,n\n1,\u2028\x0b,0\n"),
        ('a,b\n"he said ""no""", x\n', 'a,b,n\n"he said ""no""", x,0\n'),
        ("a,b\r1,2\r3,4\r", "a,b,n\r1,2,0\r3,4,1\r"),
        ('a,b\r1,"x\ry"\r3,4', 'a,b,n\r1,"x\ry",0\r3,4,1'),
        ("a,b\n1,2\r3,4\r\n5,6\n", "a,b,n\n1,2,0\r3,4,1\r\n5,6,2\n"),
        ('a,b\n1,5" pipe\r\n2,x\n', 'a,b,n\n1,5" pipe,0\r\n2,x,1\n'),
        (
            'name,"why"\r\n "x",1\r\n"two\nlines",  2\r\n',
            'name,"why",n\r\n "x",1,0\r\n"two\nlines",  2,1\r\n',
        ),
    ],
)
def test_new_fields_follow_the_text_of_each_record_and_nothing_else_changes(
    text: str, wanted: str
) -> None:
    source = of(text)
    n_rows = len(column(source, source.names[0]))
    assert encoded(source, {"n": [str(row) for row in range(n_rows)]}).decode() == wanted


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_table_of_text_survives_with_new_columns_beside_it(data: st.DataObject) -> None:
    text = st.text(st.characters(codec="utf-8"), max_size=8)
    width = data.draw(st.integers(2, 4))
    rows = data.draw(
        st.lists(st.lists(text, min_size=width, max_size=width), min_size=1, max_size=6)
    )
    new = data.draw(st.lists(text, min_size=len(rows), max_size=len(rows)))
    names = [f"n{k}" for k in range(width)]
    quoting = data.draw(st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]))
    source = of(written([names, *rows], quoting=quoting))
    again = of(encoded(source, {"new": new}), na=[])
    found = again.columns(again.names)
    assert [
        list(row) for row in zip(*(found[name].to_pylist() for name in names), strict=True)
    ] == rows
    assert found["new"].to_pylist() == new


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet", "arrow"])
@pytest.mark.parametrize("compression", ["", "gz", "bz2", "xz", "zst"])
def test_every_format_comes_back_with_hostile_names_and_values_and_turns_into_every_other(
    kind: str, compression: str
) -> None:
    columns = {name: [*HOSTILE[k:], *HOSTILE[:k]] for k, name in enumerate(HOSTILE)}
    start = of(written([list(columns), *map(list, zip(*columns.values(), strict=True))]))
    shape = Format(kind, compression)
    source = of(encoded(start, {"first": HOSTILE}, shape), f"people.{shape}")
    assert source.names == (*columns, "first")
    for other in ("csv", "tsv", "jsonl", "parquet", "arrow"):
        target = Format(other, compression)
        again = of(encoded(source, {"new <col>": HOSTILE}, target), f"people.{target}")
        found = {name: values.to_pylist() for name, values in again.columns(again.names).items()}
        assert found == {**columns, "first": HOSTILE, "new <col>": HOSTILE}


@pytest.mark.usefixtures("size")
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_json_lines_keep_their_text_and_values_their_types(end: str) -> None:
    lines = [
        '{"a": 1.10, "b": null, "n": 1 }',
        '{"b":12345678901234567890, "a" : "\\u00e9"}',
        "{}",
        '  {"n": 2.5, "deep": {"x": [1]}}',
    ]
    source = of(end.join(lines) + end, "t.jsonl")
    assert source.names == ("a", "b", "n", "deep") and source.n_rows == 4
    assert column(source, "n") == [1.0, None, None, 2.5]
    with pytest.raises(MixedTypeError, match=r"'a' of t\.jsonl holds values of several types"):
        source.columns(["a"])
    wanted = [
        '{"a": 1.10, "b": null, "n": 1, "new": "p"}',
        '{"b":12345678901234567890, "a" : "\\u00e9", "new": null}',
        '{"new": "q"}',
        '{"n": 2.5, "deep": {"x": [1]}, "new": "r"}',
    ]
    assert encoded(source, {"new": ["p", None, "q", "r"]}).decode() == end.join(wanted) + end


def test_the_types_of_json_lines_are_those_of_all_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TextStored, "size", 20)
    rows = [
        {"t": "x", "i": 1, "f": 1, "l": [1]},
        {"t": None, "i": 2, "f": 0.5, "l": [0.5, 1]},
        {"t": "y", "i": 3, "o": None},
    ] * 5
    source = of("".join(json.dumps(row) + "\n" for row in rows), "t.jsonl")
    assert [str(source.files[0].schema.field(name).type) for name in ("i", "t", "f", "o")] == [
        "int64",
        "string",
        "double",
        "string",
    ]
    assert column(source, "l") == [row.get("l") for row in rows]
    again = of(encoded(source, {"new": ["z"] * 15}, Format("parquet")), "t.parquet")
    assert column(again, "f") == [row.get("f") for row in rows]


@pytest.mark.usefixtures("size")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("a,b\n", "a header and no rows"),
        ("a,b\n1,2\n3\n", "Line 3 .* 1 field, but the header has 2"),
        ('a,b\n"x\ny",2\n1,2,3\n', "Line 4 .* 3 fields"),
        ('a,b\n1,"x\ny",3\n', "record on lines 2 to 3 .* 3 fields"),
        ("a,b\n1,2\n\n3,4\n", "Line 3 .* is blank"),
        ("a,b\r1,2\r\r3,4\r", "Line 3 .* is blank"),
        ("a\n1\n\n", "Line 3 .* is blank"),
        ('a,b\n1,"open\n', "from line 2 on"),
        ('a,b\n1,"x"y\n', "from line 2 on"),
    ],
)
def test_a_delimited_file_that_is_not_whole_is_refused_with_the_line(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        of(text).columns(["a"])


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_column_that_is_there_twice_is_refused_only_where_it_is_asked_for(kind: str) -> None:
    source = of("a,b,a\n1,2,3\n")
    source.check([("--label", ["b"])])
    assert column(source, "b") == ["2"]
    assert encoded(source, {"c": ["4"]}) == b"a,b,a,c\n1,2,3,4\n"
    for asked in (lambda: source.check([("--label", ["a"])]), lambda: source.columns(["a"])):
        with pytest.raises(InputError, match=r"2 columns called 'a' \(columns 1, 3\)"):
            asked()
    with pytest.raises(InputError, match="2 columns called 'a'"):
        encoded(source, {"c": ["4"]}, Format("jsonl"))
    table = pa.Table.from_arrays(
        [pa.array(["1"]), pa.array(["2"]), pa.array([3])], names=["a", "b", "a"]
    )
    sink = io.BytesIO()
    if kind == "parquet":
        pq.write_table(table, sink)
    else:
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    typed = of(sink.getvalue(), f"t.{kind}")
    assert column(typed, "b") == ["2"]
    for target in ("parquet", "arrow"):
        again = of(encoded(typed, {"c": ["4"]}, Format(target)), f"t.{target}")
        assert again.names == ("a", "b", "a", "c") and column(again, "c") == ["4"]
        assert [batch.record.columns[2].to_pylist() for batch in again.batches(None)] == [[3]]


@pytest.mark.usefixtures("size")
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("kind", ["csv", "jsonl", "tsv.gz"])
def test_text_in_any_encoding_leaves_in_it(encoding: str, kind: str) -> None:
    word = {"shift_jis": "漢字", "gb18030": "漢字", "latin-1": "né", "cp037": "né"}.get(
        encoding, "né ☃ 漢字 𝄞"
    )
    shape = Format(*kind.split("."))
    mark = {"csv": ",", "tsv": "\t"}.get(shape.kind)
    rows = [("a", "b"), *((f"{number}", f"{word} {number}") for number in range(20))]
    lines = (
        [mark.join(row) for row in rows]
        if mark
        else [json.dumps({"a": a, "b": b}, ensure_ascii=False) for a, b in rows[1:]]
    )
    text = "".join(f"{line}\r\n" for line in lines)
    source = of(compress(text.encode(encoding), shape.compression), f"t.{kind}", encoding=encoding)
    assert column(source, "b") == [b for _, b in rows[1:]]
    new = [f"{word}!"] * 20
    wanted = (
        [f"{line}{mark}{word}!" for line in lines]
        if mark
        else [f'{line[:-1]}, "c": "{word}!"}}' for line in lines]
    )
    if mark:
        wanted[0] = f"{lines[0]}{mark}c"
    wanted_bytes = "".join(f"{line}\r\n" for line in wanted).encode(encoding)
    assert decompress(encoded(source, {"c": new}), shape.compression, "t") == wanted_bytes


@pytest.mark.usefixtures("size")
def test_text_in_another_encoding_is_refused_with_byte_and_line_and_read_when_named() -> None:
    content = "a,b\nx,y\né,z\n".encode("latin-1")
    with pytest.raises(InputError, match=r"byte 8 \(0xe9, on line 3\)") as caught:
        of(content).columns(["a"])
    assert caught.value.facts["byte"] == 8
    source = of(content, encoding="latin-1")
    assert column(source, "a") == ["x", "é"]
    assert encoded(source, {"c": ["ü", "ß"]}) == "a,b,c\nx,y,ü\né,z,ß\n".encode("latin-1")
    with pytest.raises(InputError, match="'漢' cannot be written in the encoding"):
        encoded(source, {"c": ["漢", "x"]})
    for unknown in ("utf-9", "base64", "undefined"):
        with pytest.raises(ParameterError, match=f"no encoding '{unknown}'"):
            of(content, encoding=unknown)
    with pytest.raises(InputError, match=r"t\.csv is not utf-16-le: byte \d+ \(.*on line \d\)"):
        of(
            "a,b\n1,2\n3,4\n".encode("utf-16-le") + b"\x00\xd8\x00\x00", encoding="utf-16-le"
        ).columns(["a"])


def test_formats_are_told_from_names_and_streams_from_their_bytes() -> None:
    assert format_of("x/a.b.CSV") == Format("csv")
    assert format_of("a.feather.zst") == Format("arrow", "zst")
    for name in ("people", "people.dat"):
        with pytest.raises(ParameterError, match="does not tell a format"):
            of("a\n1\n", name)
    table = of("a,b\n1,2\n")
    streams = {b"a\tb\n1\t2\n": "csv", b'{"a": 1}\n': "jsonl"}
    streams |= {
        encoded(table, {"c": ["3"]}, Format(*shape.split("."))): shape
        for shape in ("csv.gz", "parquet", "arrow.xz", "jsonl.zst")
    }
    for content, wanted in streams.items():
        source = of(content, "-")
        assert str(source.listing.format) == wanted
        assert source.name == "standard input"
        assert len(column(source, "a")) == 1
    for said in ("excel", "csv.rar", "a.csv.gz"):
        with pytest.raises(ParameterError, match="There is no format"):
            of("a\n1\n", "-", format=said)


def test_other_formats_take_text_as_text_and_types_as_types() -> None:
    source = of("n,x\n01,a\n2,b\n")
    lines = encoded(source, {"p": ["q", "r"]}, Format("jsonl")).decode().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"n": "01", "x": "a", "p": "q"},
        {"n": "2", "x": "b", "p": "r"},
    ]
    sink = io.BytesIO()
    pq.write_table(
        pa.table(
            {
                "x": ["a", "b"],
                "p": [0.1, 1 / 3],
                "ok": [True, None],
                "day": [datetime.date(2020, 1, 2), None],
            }
        ),
        sink,
    )
    text = encoded(of(sink.getvalue(), "t.parquet"), {"n": ["1", "2"]}, Format("csv")).decode()
    assert text == f"x,p,ok,day,n\na,0.1,true,2020-01-02,1\nb,{1 / 3!r},,,2\n"
    nested = of('{"a": [1], "b": "x"}\n', "t.jsonl")
    with pytest.raises(InputError, match="'a', row 0 holds list"):
        encoded(nested, {"c": ["y"]}, Format("csv"))
    mixed = of('{"b": "x", "a": 1}\n{"b": "y", "a": "x"}\n', "t.jsonl")
    with pytest.raises(InputError, match="several types"):
        encoded(mixed, {"c": ["y", "z"]}, Format("parquet"))
    assert encoded(mixed, {"c": ["y", "z"]}, Format("csv")) == b"b,a,c\nx,1,y\ny,x,z\n"


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(
        ["csv", "tsv", "jsonl", "parquet", "arrow", "csv.gz", "jsonl.zst", "parquet.gz", "-"]
    ),
    st.binary(max_size=80),
)
def test_any_bytes_are_a_table_or_a_refusal(kind: str, content: bytes) -> None:
    try:
        source = of(content, kind if kind == "-" else f"t.{kind}")
        once = [name for name in source.names if source.names.count(name) == 1]
        n_rows = len(source.columns(once)[once[0]]) if once else 0
        assert sum(len(batch) for batch in source.batches([])) == n_rows or not once
    except R2BError:
        return
    if once and str(source.listing.format) in ("csv", "tsv"):
        new = encoded(source, {"n": ["0"] * n_rows}).decode()
        mark = source.files[0].dialect.delimiter  # type: ignore[attr-defined]
        assert new.count(f"{mark}0") + new.count(f'{mark}"0"') >= n_rows


def test_a_row_is_told_by_its_line_and_its_file(tmp_path: Path) -> None:
    assert of('a,b\n"x\n\n",1\ny,2\n').place(1) == "row 1 (line 5)"
    assert of('{"a": 1}\n{"a": 2}\n', "t.jsonl").place(1) == "row 1 (line 2)"
    for name in ("one", "two"):
        (tmp_path / f"{name}.csv").write_text("a,b\n1,2\n3,4\n")
        pq.write_table(pa.table({"a": [1, 2]}), tmp_path / f"{name}.parquet")
    assert FileSource.open(str(tmp_path / "*.csv")).place(3) == "two.csv, row 1 (line 3)"
    assert FileSource.open(str(tmp_path / "*.parquet")).place(2) == "two.parquet, row 0"
    assert FileSource.open(tmp_path / "one.parquet").place(1) == "row 1"
