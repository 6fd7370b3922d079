"""Commands do what they say, end with the code they promise, and say what is wrong in one
paragraph.
"""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from cli_calls import Shell, people
from click.testing import CliRunner

import r2b
from r2b._files.arrow import pyarrow
from r2b.cli.commands import group as command

ASK = ("--label", "job", "--sensitive", "sex")
JOB_BY_SEX = " ".join(ASK)


def test_help_lists_the_commands_and_the_version_is_the_packages() -> None:
    runner = CliRunner()
    listed = runner.invoke(command, ["--help"]).output
    assert all(
        name in listed
        for name in ("audit", "debias", "frontier", "verify", "datasets", "serve", "Exit codes")
    )
    assert runner.invoke(command, ["--version"]).output == f"r2b {r2b.__version__}\n"


def test_an_audit_says_what_the_function_says(shell: Shell) -> None:
    from r2b._audit import audit

    columns = people()
    found = audit(
        columns["job"], sensitive_features={name: columns[name] for name in ("sex", "race")}
    )
    done = shell("audit people.csv --label job --sensitive sex,race")
    assert (done.code, done.out, done.err) == (0, f"{found}\n", "")
    facts = shell("audit people.csv --label job --sensitive sex --sensitive race --json").facts
    named = {"format": "r2b-audit", "version": 1, "data": "people.csv"}
    assert facts == found.to_json() | named


def test_an_audit_takes_families_control_weights_and_continuous_columns(shell: Shell) -> None:
    from r2b._audit import audit

    columns = people()
    words = "audit people.csv --continuous age --control race --weight w --families marginal"
    words += " --permutations 20 --bootstrap 10 --random-state 3 --json"
    facts = shell(words, *ASK).facts
    found = audit(
        columns["job"],
        sensitive_features={
            "sex": columns["sex"],
            "age": r2b.Continuous([float(age) for age in columns["age"]]),
        },
        control_features={"race": columns["race"]},
        sample_weight=[float(w) for w in columns["w"]],
        families="marginal",
        n_permutations=20,
        n_boot=10,
        random_state=3,
    )
    del facts["data"]
    assert facts == found.to_json() | {"format": "r2b-audit", "version": 1}


def test_parity_above_the_accepted_one_ends_with_code_1(shell: Shell) -> None:
    parity = max(
        family["disparity"] for family in shell("audit people.csv --json", *ASK).facts["families"]
    )
    assert shell("audit", "people.csv", *ASK, "--max-disparity", parity + 1e-9).code == 0
    assert shell("audit", "people.csv", *ASK, "--max-disparity", parity - 1e-9).code == 1


def test_a_frontier_is_that_of_the_function_and_can_be_written(shell: Shell) -> None:
    columns = people()
    wanted = r2b.frontier(
        columns["job"], sensitive_features={"sex": columns["sex"]}, epsilons=[0.0, 0.1]
    )
    done = shell("frontier people.csv --epsilons 0,0.1 --output cost.csv", *ASK)
    assert (done.code, done.out) == (0, f"{wanted}\n")
    lines = Path("cost.csv").read_text().splitlines()
    assert lines[0] == "epsilon,disparity,distance,expected_changes,relative_gap,solved"
    assert lines[1].startswith(f"0.0,{wanted[0].disparity!r},{wanted[0].distance!r},")
    points = shell("frontier people.csv --points 3 --json", *ASK).facts["points"]
    assert [point["solved"] for point in points] == [True] * 3


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (
            "audit people.csv --label jbo --sensitive sex",
            2,
            "no column 'jbo', which --label names. Did you mean 'job'?",
        ),
        (
            "audit people.csv --label qqqqq --sensitive sex",
            2,
            "Its columns are 'sex', 'race', 'job'",
        ),
        (
            "audit people.csv --label job --sensitive sex,raze",
            2,
            "no column 'raze', which --sensitive names. Did you mean 'race'?",
        ),
        ("audit people.csv --label job --sensitve sex", 2, "'--sensitive'"),
        ("adit people.csv", 2, "Did you mean 'audit'?"),
        ("datasets exprot adult", 2, "Did you mean 'export'?"),
        ("audit people.csv --label job", 2, "No sensitive column is named"),
        ("audit people.csv --sensitive sex", 2, "--label-columns"),
        ("audit people.csv --label job,race --sensitive sex", 2, "pass --label-columns job,race"),
        (
            "audit people.csv --label job --sensitive job",
            2,
            "is named by --label and by --sensitive",
        ),
        (
            "audit people.csv --label job --sensitive sex,sex --control sex",
            2,
            "is named by --sensitive and by --control",
        ),
        (f"audit none.csv {JOB_BY_SEX}", 2, "There is no file 'none.csv'"),
        (f"audit people.csv {JOB_BY_SEX} --format xls", 2, "There is no format 'xls'"),
        ("audit people.csv --label job --continuous race", 3, "row 0 (line 2) holds"),
        (f"audit people.csv {JOB_BY_SEX} --weight race", 3, "which is not a number"),
        (f"audit people.csv {JOB_BY_SEX} --min-group-size 1000", 3, "--small-groups merge"),
        (f"frontier people.csv {JOB_BY_SEX} --epsilons 0,x", 2, "--epsilons is '0,x'"),
        (f"frontier people.csv {JOB_BY_SEX} --epsilons 0 --points 3", 2, "Pass one of them"),
        (f"debias people.csv {JOB_BY_SEX} -o x.csv --epsilon -1", 2, "epsilon is -1.0"),
        (f"debias people.csv {JOB_BY_SEX} -o x.csv --epsilon bos=0.1", 2, "Did you mean 'boss'?"),
        (f"debias people.csv {JOB_BY_SEX} -o x.csv --epsilon much", 2, "--epsilon is 'much'"),
        (f"debias people.csv {JOB_BY_SEX} -o x.csv --bound target", 2, "no target is given"),
        (f"debias people.csv {JOB_BY_SEX} -o x.csv --family race", 2, "names the column 'race'"),
        (f"debias people.csv {JOB_BY_SEX} -o x.dat", 2, "does not tell a format"),
        (f"debias people.csv {JOB_BY_SEX}", 2, "'--output'"),
        (f"debias people.csv {JOB_BY_SEX} -o x.csv --html x.csv", 2, "Two files would be written"),
        (f"debias people.csv {JOB_BY_SEX} -o people.csv --force", 2, "is the file that is read"),
        ("verify people.csv", 2, "There is no certificate"),
        ("datasets export adlt a.csv", 2, "'adlt' is not 'adult'"),
    ],
)
def test_a_mistake_is_one_paragraph_with_its_remedy_and_the_right_code(
    shell: Shell, words: str, code: int, said: str
) -> None:
    before = sorted(path.name for path in shell.folder.iterdir())
    done = shell(words)
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert done.err.startswith("Error: ")
    assert done.err.count("\n") == 1
    assert sorted(path.name for path in shell.folder.iterdir()) == before


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"),
        ("sex,job\n", "no rows"),
        ("sex,job\nf,x\nm\n", "Line 3"),
        ("sex,job,sex\nf,x,m\n", "2 columns called 'sex'"),
        ("sex,job\nf,x\nm,x\n", "one class 'x'"),
        (
            "sex,job\nf,x\n,y\n",
            "row 1 has no value in 'sex'. Row 1 is on line 3. 1 of 2 rows has none.",
        ),
        ('sex,job\n"f\n\n",z\nf,\nm,y\n', "Row 1 is on line 5."),
        (b"sex,job\nf,\xff\n", "byte 10"),
    ],
)
def test_bad_data_end_with_code_3_and_name_the_place(
    shell: Shell, content: str | bytes, said: str
) -> None:
    shell.write("bad.csv", content)
    done = shell("debias bad.csv --output out.csv", *ASK)
    assert (done.code, done.out) == (3, "")
    assert said in done.err
    assert not Path("out.csv").exists()


def test_an_error_is_json_as_well_where_json_is_asked_for(shell: Shell) -> None:
    done = shell("audit people.csv --label jbo --sensitive sex --json")
    assert done.code == 2
    assert done.facts["error"]["type"] == "ParameterError"
    assert done.facts["error"]["remedy"] == "Did you mean 'job'?"
    assert set(done.facts) == {"format", "version", "error"}


def test_every_field_of_json_is_documented_and_every_documented_one_is_there(shell: Shell) -> None:
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(r2b-[a-z-]+)` \| (.*) \|$", page, re.MULTILINE)
    documented = {name: set(re.findall("`([a-z_]+)`", words)) for name, words in rows}
    seen: dict[str, set[str]] = {name: set() for name in documented}
    shell.write("tags.csv", "a,b,sex\n1,1,f\n0,1,f\n0,0,m\n1,0,m\n1,1,m\n")
    for words in (
        f"audit people.csv {JOB_BY_SEX}",
        f"debias people.csv {JOB_BY_SEX} -o fair.csv",
        f"debias people.csv {JOB_BY_SEX} -o round.csv --form round",
        f"frontier people.csv {JOB_BY_SEX} --points 2",
        f"reweigh people.csv {JOB_BY_SEX} -o weighted.csv",
        "verify fair.csv",
        "report people.csv --prediction job --sensitive sex --permutations 0 -o m.html",
        "audit tags.csv --labels a,b --multilabel --sensitive sex",
        "debias tags.csv --labels a,b --multilabel --sensitive sex -o fair-tags.csv",
        "verify fair-tags.csv",
        "datasets list",
        "datasets export adult adult.csv",
    ):
        facts = shell(f"{words} --json").facts
        name, version, fields = facts["format"], facts["version"], set(facts)
        assert version == 1
        assert fields - {"format", "version"} <= documented[name], words
        inner = [*facts.values(), *(each[0] for each in facts.values() if is_list(each))]
        seen[name] = fields.union(seen[name], *(each for each in inner if isinstance(each, dict)))
    for name, fields in seen.items():
        assert name == "r2b-serve" or documented[name] <= fields, name


def is_list(value: object) -> bool:
    return isinstance(value, list) and bool(value)


def test_options_that_would_do_nothing_are_refused(shell: Shell) -> None:
    ask = f"people.csv {JOB_BY_SEX}"
    shell(f"debias {ask} -o fair.parquet")
    for words, said in (
        (f"audit {ask} --epsilon 0.02", "--epsilon has no effect: neither --html nor"),
        (f"audit {ask} --epsilon 3 --html a.html", "a share and no percentage"),
        (f"audit {ask} --suppress-below 5", "--suppress-below has no effect"),
        (f"debias {ask} -o f.csv --suppress-below 5", "--suppress-below has no effect"),
        (f"debias {ask} -o f.csv --key age", "labels of the form 'soft' are not drawn"),
        (f"debias {ask} -o f.csv --random-state 0", "labels of the form 'soft' are not drawn"),
        (f"debias {ask} -o f.csv --form expand --key age", "the form 'expand' are not drawn"),
        (f"debias {ask} -o f.csv --normalize", "the labels are classes, not probabilities"),
        (f"debias {ask} -o f.csv --small-groups merge", "--min-group-size is not set"),
        (f"reweigh {ask} -o f.csv --absent error", "no control column is named"),
        (f"audit {ask} --bootstrap 0 --level 0.9", "there are no intervals"),
        (f"audit {ask} --bootstrap 0 --permutations 0 --random-state 1", "nothing is drawn"),
        (f"frontier {ask} --output-format csv", "no table is written"),
        (f"debias {ask} -o f.csv --certificate -", "--certificate names no file"),
        (f"reweigh {ask} -o -", "--output names no file"),
        (f"audit {ask} --html a --markdown a", "Two files would be written"),
        (f"audit {ask} --max-disparity nan", "nan is no number"),
        (f"frontier {ask} --epsilons=-1", "--epsilons is '-1'"),
        (f"audit {ask} --level nan", "--level is nan"),
        (f"debias {ask} -o f.csv --form round --random-state -1", "for '--random-state': -1"),
        ("report people.csv --prediction job --sensitive sex -o f.html --epsilon 3", "0<=x<=1"),
        (f"debias {ask} -o f.csv --new-column ''", "name of the new column is empty"),
        (f"debias {ask} -o f.csv --form round --new-column ''", "new column is empty"),
        (f"reweigh {ask} -o f.csv --new-column ''", "name of the new column is empty"),
        (f"audit fair.parquet {JOB_BY_SEX} --delimiter ';'", "no delimiter"),
        (f"audit fair.parquet {JOB_BY_SEX} --encoding latin-1", "not text in an encoding"),
        (f"audit {ask} --sheet one", "has no sheets"),
        ("verify fair.parquet --na none", "--na is for CSV and TSV"),
    ):
        done = shell(words)
        assert (done.code, done.out) == (2, "") and said in done.err, (words, done.err)
    assert not Path("f.csv").exists()


def test_every_command_compares_the_same_families_by_default(shell: Shell) -> None:
    ask = "people.csv --label job --sensitive sex,race --json"
    audited = [family["name"] for family in shell(f"audit {ask}").facts["families"]]
    proof = shell(f"debias {ask} --epsilon 0.01 -o fair.csv").facts["certificate"]
    assert audited == ["sex", "race", "sex x race"]
    assert [family["name"] for family in proof["families"]] == audited
    assert shell(f"frontier {ask} --points 2").facts["points"][-1]["epsilon"] == pytest.approx(
        max(family["disparity"] for family in shell(f"audit {ask}").facts["families"])
    )


def test_help_shows_the_default_of_every_option_that_has_one() -> None:
    for name in ("audit", "debias", "frontier", "reweigh", "verify", "serve"):
        context = click.Context(command.commands[name], info_name=name)
        for option in command.commands[name].params:
            has_default = isinstance(option.get_default(context), str | int | float)
            if name != "verify" and isinstance(option, click.Option) and not option.is_flag:
                assert option.show_default or not has_default, (name, option.name)
        text = " ".join(command.commands[name].get_help(context).split())
        if name in ("audit", "debias", "frontier", "reweigh"):
            assert "'both' by default" in text and "An empty field by default" in text


def test_decimal_commas_are_read_where_they_are_announced(shell: Shell) -> None:
    columns = people()
    columns["w"] = [f"{weight},50" for weight in columns["w"]]
    lines = zip(*columns.values(), strict=True)
    text = "\n".join([";".join(columns), *map(";".join, lines)]).replace("none, yet", "none")
    shell.write("komma.csv", text + "\n")
    shell.write("point.csv", text.replace(",", ".") + "\n")
    weighted = (*ASK, "--weight", "w", "--json")
    refused = shell("audit komma.csv", *weighted)
    assert refused.code == 3 and "--decimal ," in refused.err
    found = shell("audit komma.csv --decimal ,", *weighted).facts
    assert found | {"data": "point.csv"} == shell("audit point.csv", *weighted).facts
    shell("debias komma.csv --decimal , -o fair.csv", *weighted)
    assert shell("verify fair.csv").code == 0


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", "job,sex\nx,f\ny,m\n".encode("utf-16-le"), "UTF-16. Pass --encoding utf-16-le"),
        ("a.csv", "job,sex\nx,f\ny,m\n".encode("utf-16-be"), "UTF-16. Pass --encoding utf-16-be"),
        ("a.csv", b'{"job": "x", "sex": "f"}\n', "JSON Lines. Pass --format jsonl"),
        ("a.parquet", b"job,sex\nx,f\n", "text. Pass --format csv"),
        ("a.arrow", b"job,sex\nx,f\n", "text. Pass --format csv"),
        ("a.xlsx", b"job,sex\nx,f\n", "text. Pass --format csv"),
        ("a.csv.gz", b"job,sex\nx,f\n", "text. Pass --format csv"),
        ("a.parquet.gz", b"job,sex\nx,f\n", "text. Pass --format csv"),
    ],
)
def test_a_file_with_a_wrong_suffix_or_encoding_is_told_what_it_looks_like(
    shell: Shell, name: str, content: bytes, said: str
) -> None:
    shell.write(name, content)
    done = shell("audit", name, *ASK)
    assert done.code == 3 and f"cannot be read as {name[2:]}. It looks like {said}" in done.err
    way = done.err.partition("Pass ")[2].strip().rstrip(".").split()
    again = shell("audit", name, *ASK, *way, "--permutations", 0, "--bootstrap", 0)
    assert again.code == 0 or "two classes" in again.err


def test_a_traceback_is_only_for_debug(shell: Shell) -> None:
    words = ("audit", "people.csv", "--label", "jbo", "--sensitive", "sex")
    assert "Traceback" not in shell(*words).err
    assert "Traceback" in shell(*words, "--debug").err


def test_a_fault_of_ours_is_told_from_a_mistake_of_theirs(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("r2b.cli.commands.open_table", broken)
    done = shell("audit people.csv", *ASK)
    assert done.code == 70
    assert "ZeroDivisionError: by zero" in done.err
    assert "Traceback" not in done.err


def test_text_that_means_missing_is_said_and_treated_as_asked(shell: Shell) -> None:
    shell.write("gaps.csv", "sex,job\n" + "f,x\nm,y\n?,x\n,y\n" * 10)
    refused = shell("audit gaps.csv", *ASK)
    assert refused.code == 3
    assert "10 of 40 rows" in refused.err
    only = shell("audit gaps.csv --na '?' --missing exclude --json", *ASK).facts
    assert only["families"][0]["groups"] == ["sex=", "sex=f", "sex=m"]
    both = shell("audit gaps.csv --na '?' --na '' --missing exclude --json", *ASK).facts
    assert both["families"][0]["groups"] == ["sex=f", "sex=m"]
    assert both["left_out"] == 0.5


def test_control_characters_in_the_data_are_shown_and_not_obeyed(shell: Shell) -> None:
    shell.write("evil.csv", "sex,job\n" + "\x1b[31mf,x\nm,y\nm,x\n" * 5)
    done = shell("audit evil.csv", *ASK)
    assert done.code == 0
    assert "\x1b" not in done.out
    assert "\\x1b[31mf" in done.out
    assert (
        "\x1b"
        not in shell("audit", "evil.csv", "--label", "job", "--sensitive", "\x1b]0;x\x07").err
    )


def test_a_library_that_is_not_installed_is_named_with_what_to_install(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    pyarrow.cache_clear()
    for output in ("fair.parquet", "fair.arrow", "fair.csv.zst"):
        done = shell("debias", "people.csv", *ASK, "--output", output)
        if output.endswith("zst") and sys.version_info >= (3, 14):
            continue
        assert done.code == 2
        assert "pip install 'pandas>=" in done.err
        assert not Path(output).exists()


def test_errors_have_no_words_of_python(shell: Shell) -> None:
    shell.write("gaps.csv", "sex,job\nf,a\n,b\nm,\n")
    shell.write(
        "numbers.csv", "sex,job\n" + "".join(f"{'fm'[i % 2]},{i / 7}\n" for i in range(300))
    )
    shell.write("a.csv.r2b.json", '{"format": "r2b-solution", "version": null}')
    shell.write("a.csv", "sex,job\nf,a\n")
    for words, said in (
        ("report gaps.csv --prediction job --sensitive sex -o f.md", "In the predictions, 1 row"),
        ("report gaps.csv --prediction sex --sensitive job -o f.md", "In the predictions, 1 row"),
        (f"audit numbers.csv {JOB_BY_SEX}", "of the number. If classes are called so"),
        ("verify a.csv", "has version null of the format"),
    ):
        done = shell(words)
        assert done.code == 3 and said in done.err, done.err
        for word in ("y_pred", "sensitive_features", "column_stack", "None", "Error ("):
            assert word not in done.err


def test_an_app_whose_library_is_not_there_names_it(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "starlette", None)
    done = shell("serve")
    assert done.code == 2
    assert "The app needs starlette, which is not installed" in done.err
    assert "pip install 'starlette>=" in done.err and "'uvicorn>=" in done.err
