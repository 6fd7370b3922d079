"""Solutions on disk: the same after as before, whole or not at all, refused when damaged, and
never a pickle.
"""

from __future__ import annotations

import copy
import datetime
import json
import os
import pickle

import numpy as np
import pytest
from problems import NAMES, drawn

import r2b
from r2b import errors
from r2b._labels import storage

CLASS = drawn(
    "class", classes=5, groups=3, rows=200, kind="class", epsilon=0.01, decades=2.0, seed=70
)
CASES = [
    CLASS,
    drawn("soft", classes=5, groups=3, rows=100, epsilon=0.01, seed=71),
    drawn("float32", classes=4, groups=3, rows=100, dtype=np.float32, lam=0.3, seed=72),
    NAMES["soft, bounds by class"],
    NAMES["soft, a class without a bound"],
    NAMES["one group"],
    NAMES["soft, epsilon 1"],
]


def stored(tmp_path, fair):
    path = tmp_path / "fair.json"
    fair.save(path)
    return r2b.load(path)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_loaded_solution_is_the_saved_one(case, tmp_path):
    fair = r2b.debias(case.y, **case.arguments)
    again = stored(tmp_path, fair)
    # to the last bit
    assert np.array_equal(again.prices, fair.prices) and again.prices.dtype == np.float64
    assert again.lam == fair.lam
    assert again.status is fair.status
    assert again.unchanged == fair.unchanged
    assert again.residual == fair.residual
    assert again.history == fair.history
    assert again.certificate.to_json() == fair.certificate.to_json()
    assert again.certificate.holds == fair.certificate.holds
    assert np.array_equal(again.channel, fair.channel)
    before = fair.transform(case.y, sensitive_features=case.groups)
    after = again.transform(case.y, sensitive_features=case.groups)
    assert after.dtype == before.dtype
    assert np.array_equal(after, before)
    assert np.array_equal(after, fair.soft_labels)
    assert str(again).splitlines()[1] == str(fair).splitlines()[1]


@pytest.mark.parametrize(
    "names",
    [
        ["no", "yes", "Grüße 日本", 'a"b\\c\n'],
        np.array([1, -5, 2**62, 0]),
        np.array([1, 2, 3, 250], np.uint8),
        np.array([0.0, -2.0, 1e300, 7.0]),
        np.array([1.0, 2.0, 3.0, 16777216.0], np.float32),
        [False, True],
        np.array([b"x", b"y\xff", b"z", b""]),
        np.array(["2020-01-01", "2021-06-30", "1970-01-01", "2262-01-01"], "M8[D]"),
        np.array([1, 2, 3, 4], "m8[s]"),
        [
            datetime.date(2020, 1, 1),
            datetime.date(2021, 1, 1),
            datetime.date(2022, 1, 1),
            datetime.date(2023, 1, 1),
        ],
    ],
    ids=lambda names: str(np.asarray(names).dtype),
)
def test_names_of_every_type_survive(names, tmp_path):
    names = np.asarray(names)
    rng = np.random.default_rng(0)
    codes, groups = rng.integers(0, len(names), 60), rng.integers(0, len(names), 60)
    codes[: len(names)] = groups[: len(names)] = np.arange(len(names))
    fair = r2b.debias(names[codes], sensitive_features=names[groups])
    again = stored(tmp_path, fair)
    assert again.classes.dtype == fair.classes.dtype
    assert again.classes.tolist() == fair.classes.tolist()
    assert again.groups.dtype == fair.groups.dtype and again.groups.tolist() == fair.groups.tolist()
    assert np.array_equal(
        again.transform(names[codes], sensitive_features=names[groups]), fair.soft_labels
    )


def test_what_needs_rows_says_so(tmp_path):
    again = stored(tmp_path, r2b.debias(CLASS.y, **CLASS.arguments))
    uses = [
        again.sample,
        again.round,
        again.expand,
        again.largest_changes,
        again.soft,
        lambda: list(again.iter_soft()),
    ]
    for use in [*uses, lambda: again.soft_labels, lambda: again.sampling_deviation]:
        with pytest.raises(errors.RowsUnavailableError, match="transform"):
            use()
    assert "5 classes, 3 groups" in str(again)


def test_the_file_is_json_of_plain_values(tmp_path):
    """Other languages must be able to read it: no NaN or Infinity, which JSON does not have."""
    words = []
    for name, case in {
        "solved": CLASS,
        "unbounded": NAMES["soft, a class without a bound"],
    }.items():
        r2b.debias(case.y, **case.arguments).save(tmp_path / name)
        content = json.loads(
            (tmp_path / name).read_text(encoding="utf-8"),
            parse_constant=lambda word, name=name: words.append((name, word)),
        )
        assert content["format"] == "r2b-solution" and content["version"] == 1
        assert list(content)[:2] == ["format", "version"]
    assert words == []


# --- whole or not at all ---


@pytest.mark.parametrize("where", ["writing", "moving"])
def test_a_failure_leaves_the_old_file_and_nothing_else(where, tmp_path, monkeypatch):
    path = tmp_path / "fair.json"
    first, second = (
        r2b.debias(CLASS.y, **CLASS.arguments),
        r2b.debias(CASES[1].y, **CASES[1].arguments),
    )
    first.save(path)
    whole = path.read_bytes()

    def fail(*arguments, **keywords):
        if where == "writing":
            arguments[1].write('{"format": "r2b-sol')
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(
        *((storage.json, "dump", fail) if where == "writing" else (storage.os, "replace", fail))
    )
    for target in (path, tmp_path / "new.json"):
        with pytest.raises(OSError, match="No space"):
            second.save(target)
    monkeypatch.undo()
    assert path.read_bytes() == whole and os.listdir(tmp_path) == ["fair.json"]
    second.save(path)
    assert np.array_equal(r2b.load(path).prices, second.prices)


# --- refused ---


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not json",
        b'{"format": "r2b-solution", "version": 1',
        b"\xff\xfe\x00",
        b"[]",
        b"3",
        b"null",
        b"{}",
        b'{"format": "other"}',
        b"[" * 100_000,
        pickle.dumps({"format": "r2b-solution"}),
    ],
    ids=[
        "empty",
        "text",
        "cut off",
        "binary",
        "list",
        "number",
        "null",
        "no format",
        "other format",
        "deep",
        "pickle",
    ],
)
def test_other_files_are_refused(content, tmp_path):
    path = tmp_path / "other.json"
    path.write_bytes(content)
    with pytest.raises(errors.FileFormatError) as raised:
        r2b.load(path)
    assert str(path) in str(raised.value) and raised.value.remedy.endswith(".")


@pytest.mark.parametrize("version", [2, "1", True])
def test_another_version_is_named(version, tmp_path):
    path = tmp_path / "fair.json"
    r2b.debias(CLASS.y, **CLASS.arguments).save(path)
    content = json.loads(path.read_text()) | {"version": version}
    path.write_text(json.dumps(content))
    with pytest.raises(errors.FileFormatError, match=r"version .* reads version 1") as raised:
        r2b.load(path)
    assert raised.value.facts["version"] == version


def places(content, path=()):
    """Every place in a nested structure, two levels deep below the first."""
    for key in content if isinstance(content, dict) else range(min(len(content), 2)):
        yield (*path, key)
        if isinstance(content[key], dict | list) and len(path) < 3:
            yield from places(content[key], (*path, key))


def replaced(content, path, value):
    changed = copy.deepcopy(content)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return changed


def test_damage_of_any_kind_is_refused_or_harmless(tmp_path):
    """Each value of the file is removed or replaced in turn: the result is a FileFormatError or an
    object, never another exception.
    """
    path = tmp_path / "fair.json"
    r2b.debias(CLASS.y, **CLASS.arguments).save(path)
    content = json.loads(path.read_text())
    escaped, refused = [], 0
    for place in places(content):
        for value in (..., None, "x", [], {}, -1, 10**400):
            path.write_text(json.dumps(replaced(content, place, value)))
            try:
                r2b.load(path)
            except errors.FileFormatError:
                refused += 1
            except Exception as error:
                escaped.append(
                    (place, value if value != 10**400 else "10**400", type(error).__name__)
                )
    assert escaped == []
    assert refused > 100


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("prices", 0, 0), None),
        (("prices", 0), [0.0]),
        (("lam",), 0),
        (("lam",), -1.0),
        (("status",), "wonderful"),
        (("certificate", "means"), [[1.0]]),
        (("certificate", "epsilon"), [0.1]),
        (("certificate", "disparity"), "nan"),
        (("certificate", "disparity_by_class"), 0.5),
        (("unchanged",), "false"),
        (("schema", "is_soft"), "no"),
        (("schema", "table"), [[0], [7], [1]]),
    ],
    ids=str,
)
def test_values_that_do_not_fit_are_refused(place, value, tmp_path):
    """A wrong number in a proof is worse than no proof: what cannot be right is not loaded."""
    path = tmp_path / "fair.json"
    r2b.debias(CLASS.y, **CLASS.arguments).save(path)
    path.write_text(json.dumps(replaced(json.loads(path.read_text()), place, value)))
    with pytest.raises(errors.FileFormatError):
        r2b.load(path)
