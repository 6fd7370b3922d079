"""Files are read as they are and keep every byte that was not asked to change."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from r2b._files import Format, Table, encode_table, format_of, read_table, table_of
from r2b._files.plain import as_numbers
from r2b.errors import EmptyError, InputError, ParameterError, R2BError

HOSTILE = ["<img src=x onerror=alert(1)>", "=cmd|'/c calc'!A1", 'say "hi"', "two\nlines", "a,b", " blanks ", "naïve ☃ 漢字", "", "'"]


def of(content: bytes | str, name: str = "t.csv", **options: Any) -> Table:
    return read_table(name, stream=io.BytesIO(content.encode() if isinstance(content, str) else content), **options)


def written(rows: list[list[str]], **dialect: Any) -> str:
    out = io.StringIO(newline="")
    csv.writer(out, **dialect).writerows(rows)
    return out.getvalue()


@pytest.mark.parametrize(
    "text",
    [
        'a,b\n1,"x, y"\n2,"line\nline"\n',
        "a,b\r\n1,2\r\n",
        "a,b\n1,2",
        '\ufeffa,b\n"1",2\n',
        '"a","b"\n"1","2"\n',
        "a;b\n1;2,5\n",
        "a\tb\n1\t2\n",
        'a,b\n"","=1+1"\n\n\n',
        "a,b\n1,\u2028\x0b\n",
        'a,b\n"he said ""no""", x\n',
    ],
)
def test_a_delimited_file_without_new_columns_is_written_as_it_was(text: str) -> None:
    assert of(text).encoded({}) == text.encode()


def test_new_fields_follow_the_text_of_each_record_and_nothing_else_changes() -> None:
    text = 'name,"why"\r\n "x",1\r\n"two\nlines",  2\r\n'
    assert of(text).encoded({"new, name": ["p", 'q"']}).decode() == 'name,"why","new, name"\r\n "x",1,p\r\n"two\nlines",  2,"q"""\r\n'


def test_new_fields_are_quoted_where_the_whole_header_is() -> None:
    assert of('"a","b"\n"1","2"\n').encoded({"c": ["3"]}) == b'"a","b","c"\n"1","2","3"\n'
    assert of('"a",b\n1,2\n').encoded({"c": ["3"]}) == b'"a",b,c\n1,2,3\n'


@settings(max_examples=60)
@given(st.data())
def test_any_table_of_text_survives_with_new_columns_beside_it(data: st.DataObject) -> None:
    text = st.text(st.characters(codec="utf-8"), max_size=8)
    width = data.draw(st.integers(2, 4))
    rows = data.draw(st.lists(st.lists(text, min_size=width, max_size=width), min_size=1, max_size=6))
    new = data.draw(st.lists(text, min_size=len(rows), max_size=len(rows)))
    names = [f"n{k}" for k in range(width)]
    quoting = data.draw(st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]))
    table = of(written([names, *rows], quoting=quoting))
    again = of(table.encoded({"new": new}))
    columns = again.columns(again.names)
    assert [list(row) for row in zip(*(columns[name] for name in names), strict=True)] == rows
    assert columns["new"] == new


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet", "arrow"])
@pytest.mark.parametrize("compression", ["", "gz", "bz2", "xz", "zst"])
def test_every_format_comes_back_with_hostile_names_and_values(kind: str, compression: str) -> None:
    if kind in ("parquet", "arrow") or compression == "zst":
        pytest.importorskip("pyarrow")
    columns = {name or "empty": [*HOSTILE[k:], *HOSTILE[:k]] for k, name in enumerate(HOSTILE)}
    shape = Format(kind, compression)
    from r2b._files.compression import compress

    content = compress(table_of(columns, shape), compression)
    table = of(content, f"people.{shape}")
    assert table.names == tuple(columns)
    again = of(encode_table(table, {"new <col>": HOSTILE}, shape), f"people.{shape}")
    found = again.columns(again.names)
    assert {name: list(map(str, found[name])) if isinstance(found[name], list) else found[name].to_pylist() for name in again.names} == {
        **columns,
        "new <col>": HOSTILE,
    }


def test_what_python_compresses_itself_is_read_by_its_own_libraries() -> None:
    table = of("a,b\n1,2\n")
    expected = b"a,b,c\n1,2,3\n"
    for name, library in (("gz", gzip), ("bz2", bz2), ("xz", lzma)):
        squeezed = encode_table(table, {"c": ["3"]}, Format("csv", name))
        assert library.decompress(squeezed) == expected  # type: ignore[attr-defined]
        assert squeezed == encode_table(table, {"c": ["3"]}, Format("csv", name))


def test_json_lines_keep_their_text_and_values_their_types() -> None:
    text = '{"a": 1.10, "b": null }\n{"b":12345678901234567890, "a" : "\\u00e9"}\n{}\n'
    table = of(text, "t.jsonl")
    assert table.columns(["a", "b"]) == {"a": [1.1, "é", None], "b": [None, 12345678901234567890, None]}
    lines = table.encoded({"new": [0.1, None, True]}).decode().splitlines()
    assert lines == ['{"a": 1.10, "b": null, "new": 0.1}', '{"b":12345678901234567890, "a" : "\\u00e9", "new": null}', '{"new": true}']


def test_parquet_keeps_types_and_metadata_of_other_columns() -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    import datetime

    schema = arrow.schema(
        [
            ("day", arrow.date32()),
            ("kind", arrow.dictionary(arrow.int8(), arrow.string())),
            ("parts", arrow.list_(arrow.int16())),
            ("n", arrow.uint8()),
        ],
        metadata={"who": "me"},
    )
    rows = [{"day": datetime.date(2020, 1, 2), "kind": "x", "parts": [1, 2], "n": 7}, {"day": None, "kind": "y", "parts": None, "n": 8}]
    sink = io.BytesIO()
    parquet.write_table(arrow.Table.from_pylist(rows, schema=schema), sink)
    content = of(sink.getvalue(), "t.parquet").encoded({"new": [0.5, 0.25]}, [1, 0, 1, 0][:2])
    again = parquet.read_table(io.BytesIO(content))
    assert again.schema.field("kind").type == schema.field("kind").type
    assert again.schema.metadata[b"who"] == b"me"
    assert again.to_pylist() == [{**rows[1], "new": 0.5}, {**rows[0], "new": 0.25}]


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
        ("a\n1\n\n", "Line 3 .* is blank"),
        ('a,b\n1,"open\n', "from line 2 on"),
        ('a,b\n1,"x"y\n', "from line 2 on"),
    ],
)
def test_a_delimited_file_that_is_not_whole_is_refused_with_the_line(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        of(text).columns([])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no rows"),
        ('{"a": 1}\n[1]\n', "Line 2 .* not an object"),
        ('{"a": 1}\n{"a": }\n', "Line 2 .* not JSON"),
        ('{"a": 1}\n\n{"a": 2}\n', "Line 2 .* blank"),
        ('{"a": 1, "a": 2}\n', "key 'a' twice"),
    ],
)
def test_json_lines_that_are_not_whole_are_refused_with_the_line(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        of(text, "t.jsonl")


def test_a_column_that_is_there_twice_is_refused_only_where_it_is_asked_for() -> None:
    table = of("a,b,a\n1,2,3\n")
    table.check(["b"], "--label")
    assert table.encoded({"c": ["4"]}) == b"a,b,a,c\n1,2,3,4\n"
    with pytest.raises(InputError, match=r"2 columns called 'a' \(columns 1, 3\)"):
        table.check(["a"], "--label")
    with pytest.raises(InputError, match="2 columns called 'a'"):
        encode_table(table, {}, Format("jsonl"))


def test_text_in_another_encoding_is_refused_with_byte_and_line_and_read_when_named() -> None:
    content = "a,b\nx,y\né,z\n".encode("latin-1")
    with pytest.raises(InputError, match=r"byte 8 \(0xe9, on line 3\)") as caught:
        of(content)
    assert caught.value.facts["byte"] == 8
    table = of(content, encoding="latin-1")
    assert table.columns(["a"]) == {"a": ["x", "é"]}
    assert table.encoded({"c": ["ü", "ß"]}) == "a,b,c\nx,y,ü\né,z,ß\n".encode("latin-1")
    with pytest.raises(InputError, match="cannot be written in the encoding"):
        encode_table(table, {"c": ["漢", ""]}, Format("csv"))
    with pytest.raises(ParameterError, match="no encoding 'utf-9'"):
        of(content, encoding="utf-9")
    wide = "a,b\n1,é\n".encode("utf-16")
    assert of(wide, encoding="utf-16").encoded({}).decode("utf-16") == "a,b\n1,é\n"


def test_a_huge_field_is_read_whole() -> None:
    long = "x" * 3_000_000
    assert of(f'a,b\n"{long}",2\n').columns(["a"]) == {"a": [long]}


@pytest.mark.parametrize("name", ["t.csv.gz", "t.csv.bz2", "t.csv.xz", "t.csv.zst", "t.parquet", "t.arrow"])
def test_a_file_that_is_not_what_its_name_says_is_refused(name: str) -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises(InputError, match="cannot be"):
        of("a,b\n1,2\n", name)


def test_a_file_cut_short_is_refused() -> None:
    content = gzip.compress(b"a,b\n" + b"1,2\n" * 5000)
    with pytest.raises(InputError, match="cannot be decompressed"):
        of(content[:-20], "t.csv.gz")


def test_formats_are_told_from_names_and_streams_from_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert format_of("x/a.b.CSV") == Format("csv")
    assert format_of("a.feather.zst") == Format("arrow", "zst")
    for name in ("people", "people.dat"):
        with pytest.raises(ParameterError, match="does not tell a format"):
            of("a\n1\n", name)
    streams = {b"a\tb\n1\t2\n": "csv", b'{"a": 1}\n': "jsonl", gzip.compress(b"a,b\n1,2\n"): "csv.gz"}
    for content, wanted in streams.items():
        assert str(of(content, "-").format) == wanted
    for said in ("excel", "csv.rar", "a.csv.gz"):
        with pytest.raises(ParameterError, match="There is no format"):
            of("a\n1\n", "-", format=said)


def test_other_formats_take_text_as_text_and_types_as_types() -> None:
    pytest.importorskip("pyarrow")
    table = of("n,x\n01,a\n2,b\n")
    lines = encode_table(table, {"p": [0.5, 0.25]}, Format("jsonl")).decode().splitlines()
    assert [json.loads(line) for line in lines] == [{"n": "01", "x": "a", "p": 0.5}, {"n": "2", "x": "b", "p": 0.25}]
    back = of(encode_table(table, {"p": [0.1, 1 / 3]}, Format("parquet")), "t.parquet")
    text = encode_table(back, {}, Format("csv")).decode()
    assert text == f"n,x,p\n01,a,0.1\n2,b,{1 / 3!r}\n"
    nested = of('{"a": [1]}\n', "t.jsonl")
    with pytest.raises(InputError, match="'a', row 0 holds list"):
        encode_table(nested, {}, Format("csv"))
    mixed = of('{"a": 1}\n{"a": "x"}\n', "t.jsonl")
    with pytest.raises(InputError, match="several types"):
        encode_table(mixed, {}, Format("parquet"))


def test_rows_leave_repeated_and_in_the_order_asked_for() -> None:
    table = of("a,b\n1,x\n2,y")
    assert table.encoded({"c": ["p", "q", "r"]}, [1, 1, 0]) == b"a,b,c\n2,y,p\n2,y,q\n1,x,r"
    assert of('{"a": 1}\n{"a": 2}\n', "t.jsonl").encoded({"c": [7]}, [1]) == b'{"a": 2, "c": 7}\n'


@settings(max_examples=150)
@given(st.sampled_from(["csv", "tsv", "jsonl", "parquet", "arrow", "csv.gz", "jsonl.zst", "-"]), st.binary(max_size=80))
def test_any_bytes_are_a_table_or_a_refusal(kind: str, content: bytes) -> None:
    if kind in ("parquet", "arrow", "-") or kind.endswith("zst"):
        pytest.importorskip("pyarrow")
    try:
        table = of(content, kind if kind == "-" else f"t.{kind}")
        table.columns(list(dict.fromkeys(table.names)))
    except R2BError:
        return
    if table.format.kind in ("csv", "tsv"):
        assert table.encoded({}) == content or table.format.compression


def test_numbers_are_read_as_every_reader_would() -> None:
    table = of("x\n 1.5 \n1_000\n")
    with pytest.raises(InputError, match=r"row 1 \(line 3\) holds '1_000', which is not a number"):
        as_numbers(table.columns(["x"])["x"], table, "x")


def test_a_path_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(ParameterError, match="cannot be read"):
            read_table(path)


def test_an_empty_parquet_table_is_refused() -> None:
    arrow = pytest.importorskip("pyarrow")
    with pytest.raises(EmptyError):
        of(table_of({"a": arrow.array([], arrow.string())}, Format("parquet")), "t.parquet")
