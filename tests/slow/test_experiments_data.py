"""COCO and dermatology: the layouts that are read, their splits and learner, and whole runs on data
drawn here.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reruns import skip_without_data

from experiments import reproduce, rerun
from experiments.coco import run as coco_run
from experiments.coco import section
from experiments.coco_data import PHOTOGRAPHS, folder_of, images_of, split_of
from experiments.coco_features import extracted, features_of
from experiments.coco_softmax import linear_softmax
from experiments.dermatology import debias_scores
from experiments.dermatology_data import split_rows
from experiments.labelling import FAIR_MODEL, VISIBLE
from experiments.read_coco import gender_of, read_coco, shares_of
from experiments.read_dermatology import Cases, age_buckets, crossed, ham10000_cases, scin_cases
from r2b.errors import (
    FileFormatError,
    InputError,
    LengthError,
    ParameterError,
)
from r2b.metrics import demographic_parity_difference

NAMES = ("person", "bicycle", "car", "kite")


def draw_coco(folder: Path, n: int = 200, split: str = "toy2014") -> dict[str, Any]:
    """Write a split in the official layout: images in no order, kites with men, gender in one of
    the captions; and features.
    """
    rng = np.random.default_rng(0)
    ids = rng.permutation(np.arange(1000, 1000 + n))
    gender = rng.choice(["man", "woman", "both", "none"], size=n, p=[0.45, 0.4, 0.05, 0.1])
    counts = rng.poisson([1.0, 0.6, 0.6, 0.2], size=(n, 4))
    counts[gender == "man", 3] += rng.integers(0, 3, size=int((gender == "man").sum()))
    words = {
        "man": ["A Man with a kite."],
        "woman": ["some woman, outside"],
        "both": ["a man", "a woman"],
        "none": ["two women and a manor"],
    }
    annotations = [
        {"image_id": int(image), "category_id": 10 * (k + 1)}
        for image, row in zip(ids, counts, strict=True)
        for k in range(4)
        for _ in range(row[k])
    ]
    captions = [
        {"image_id": int(ids[i]), "caption": text}
        for i in range(n)
        for text in ["people", *words[gender[i]]]
    ]
    categories = [{"id": 10 * (k + 1), "name": name} for k, name in enumerate(NAMES)][::-1]
    images = [{"id": int(image), "file_name": f"{image:012d}.ppm"} for image in ids]
    place = folder / "annotations"
    place.mkdir(parents=True, exist_ok=True)
    objects = {"images": images, "annotations": annotations, "categories": categories}
    (place / f"instances_{split}.json").write_text(json.dumps(objects))
    texts = {"images": images, "annotations": captions}
    (place / f"captions_{split}.json").write_text(json.dumps(texts))
    # Features know the objects, and the gender too: training on biased labels can use it.
    features = np.column_stack([counts, 3.0 * (gender == "man"), rng.standard_normal((n, 3))])
    np.savez(folder / f"features_{split}.npz", image_id=ids, x=features)
    return {"ids": ids, "gender": gender, "counts": counts, "features": features}


def test_the_official_layout_is_read_as_the_paper_reads_it(tmp_path: Path) -> None:
    drawn = draw_coco(tmp_path)
    place = tmp_path / "annotations"
    found = read_coco(place / "instances_toy2014.json", place / "captions_toy2014.json")
    order = np.argsort(drawn["ids"])
    assert found.image_id.tolist() == drawn["ids"][order].tolist()
    assert found.classes == NAMES and found.file_name[0] == "000000001000.ppm"
    assert (found.counts == drawn["counts"][order]).all()
    assert found.gender.tolist() == drawn["gender"][order].tolist()
    images = images_of(tmp_path)
    gender, counts = drawn["gender"][order], drawn["counts"][order]
    keep = np.isin(gender, ["man", "woman"]) & (counts.sum(axis=1) > 0)
    assert images.source == "official toy2014"
    assert images.groups.tolist() == (gender[keep] == "woman").astype(int).tolist()
    expected = [[count / sum(row) for count in row] for row in counts[keep].tolist()]
    np.testing.assert_allclose(images.shares, expected)
    np.testing.assert_allclose(images.features, drawn["features"][order][keep])


def write_photographs(folder: Path, n: int = 240) -> dict[str, Any]:
    """Write a table like that of the photographs: person is everywhere, and horses go with
    women.
    """
    import pyarrow
    import pyarrow.parquet

    rng = np.random.default_rng(0)
    gender = rng.choice(["man", "woman"], size=n, p=[0.6, 0.4])
    tags = (rng.random((n, 3)) < np.where(gender == "woman", 0.5, 0.3)[:, None]).astype(np.uint8)
    features = np.column_stack([tags, gender == "man", rng.standard_normal((n, 2))])
    columns = {"image": [f"{i}.jpg" for i in range(n)], "gender": gender.tolist()}
    columns |= {"tag person": np.ones(n, np.uint8)}
    columns |= {f"tag {name}": tags[:, k] for k, name in enumerate(("bicycle", "car", "horse"))}
    columns |= {f"pc{j}": features[:, j].astype(np.float16) for j in range(6)}
    folder.mkdir(parents=True)
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / PHOTOGRAPHS)
    return {"gender": gender, "tags": tags}


@pytest.mark.filterwarnings("ignore::r2b.errors.NotFairWarning")  # 133 rows
def test_photographs_are_read_without_person_and_our_models_train_on_them(tmp_path: Path) -> None:
    drawn = write_photographs(tmp_path / "coco_images")
    images = images_of(tmp_path)
    kept = drawn["tags"].sum(axis=1) > 0
    assert images.source == "photographs, 17 tags" and images.features.shape == (kept.sum(), 6)
    assert images.groups.tolist() == (drawn["gender"][kept] == "woman").astype(int).tolist()
    expected = drawn["tags"][kept] / drawn["tags"][kept].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(images.shares, expected)
    found = {
        method: coco_run({"p": 0.5, "method": method, "epochs": 40}, 0, tmp_path)
        for method in ("BL", VISIBLE, FAIR_MODEL)
    }
    assert found[FAIR_MODEL]["label_parity"] is None
    for row in found.values():
        assert 0 <= row["top_1"] <= row["top_2"] <= row["top_3"] == pytest.approx(1)
    assert found[FAIR_MODEL]["parity"] < found["BL"]["parity"]


@pytest.mark.parametrize(
    ("captions", "gender"),
    [
        (["a woman."], "woman"),
        (["WOMAN"], "woman"),
        (["human mankind"], "none"),
        (["a man-made hill"], "man"),
        (["man", "woman"], "both"),
    ],
)
def test_gender_goes_by_whole_words_of_any_caption(captions: list[str], gender: str) -> None:
    assert gender_of(captions) == gender


def test_files_that_are_not_of_the_layout_are_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_coco(tmp_path, n=20)
    place = tmp_path / "annotations"
    instances, captions = place / "instances_toy2014.json", place / "captions_toy2014.json"
    content = json.loads(captions.read_text())
    content["annotations"][3]["image_id"] = 7
    captions.write_text(json.dumps(content))
    with pytest.raises(FileFormatError, match=r"captions_toy2014.json, an annotation has 7"):
        read_coco(instances, captions)
    for wrong, said in (('{"images": []}', "no list 'annotations'"), ("{", "not a JSON object")):
        instances.write_text(wrong)
        with pytest.raises(FileFormatError, match=said):
            read_coco(instances, captions)
    captions.unlink()
    with pytest.raises(FileFormatError, match=r"no captions_toy2014.json"):
        images_of(tmp_path)
    with pytest.raises(ParameterError, match="Row 1 has no object"):
        shares_of([[1, 0], [0, 0]])
    wanted = np.array([9])
    with pytest.raises(FileFormatError, match="1 images, the first of them 9"):
        features_of(tmp_path, "toy2014", wanted, wanted)
    with pytest.raises(ParameterError, match=r"no images in nowhere/"):
        features_of(tmp_path, "nowhere", wanted, wanted)
    monkeypatch.delenv("R2B_DATA", raising=False)
    for folder in (None, tmp_path / "nowhere"):
        with pytest.raises(ParameterError, match="R2B_DATA"):
            folder_of(folder, "coco")
    monkeypatch.setenv("R2B_DATA", str(tmp_path))
    (tmp_path / "coco").mkdir()
    assert folder_of(None, "coco") == tmp_path / "coco"
    with pytest.raises(ParameterError, match=r"no file 'coco18_gender"):
        images_of(None)


def test_images_go_through_a_network_in_batches_as_they_would_alone(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pixels = torch.rand((5, 3, 20, 30), generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    layers = torch.nn.Conv2d(3, 4, 7, stride=8), torch.nn.BatchNorm2d(4)
    network = torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1)).train()
    paths = [Path(str(number)) for number in range(5)]

    def prepare(path: Path) -> Any:
        return pixels[int(path.name)]

    together = extracted(paths, network, prepare, batch=2)
    assert together.shape == (5, 4)
    alone = np.concatenate([extracted([path], network, prepare) for path in paths])
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_the_learner_does_what_torchs_sgd_with_momentum_does() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    X, X_test = rng.standard_normal((50, 6)), rng.standard_normal((9, 6))
    Y = rng.dirichlet(np.ones(4), 50) * rng.uniform(0.5, 2.0, (50, 1))
    settings: Any = {"schedule": ((0.05, 4),), "batch": 16}
    ours = linear_softmax(X, Y, X_test, rng=np.random.default_rng(5), **settings)
    model = torch.nn.Linear(6, 4).double()
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    order = np.random.default_rng(5)
    for _ in range(4):
        rows = order.permutation(50)
        for start in range(0, 50, 16):
            part = rows[start : start + 16]
            optimiser.zero_grad()
            chances = torch.log_softmax(model(torch.tensor(X[part])), dim=1)
            (-(torch.tensor(Y[part]) * chances).sum(dim=1).mean()).backward()
            optimiser.step()
    theirs = torch.softmax(model(torch.tensor(X_test)), dim=1).detach().numpy()
    np.testing.assert_allclose(ours, theirs, atol=2e-5)


def test_a_whole_run_on_a_drawn_set_lowers_parity_and_says_that_it_is_official(
    tmp_path: Path,
) -> None:
    draw_coco(tmp_path / "coco", n=400)
    split = split_of(images_of(tmp_path), 0.0, seed=0)
    # Scales come from the training rows alone.
    np.testing.assert_allclose(split.X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(split.X.std(axis=0), 1, atol=1e-12)
    assert np.abs(split.X_test.mean(axis=0)).max() > 1e-3
    assert len(split.X_test) == pytest.approx(0.25 * (len(split.X) + len(split.X_test)), abs=1)
    rows = reproduce("coco", quick=True, data=tmp_path, output=tmp_path / "out", jobs=1)
    found = {(row["p"], row["method"]): row for row in rows}
    assert len(rows) == 20 == len(found)
    for p in (0.0, 0.5):
        plain, exact = found[p, "BL"], found[p, "Exact"]
        assert exact["label_parity"] < 1e-9 < 0.1 < plain["label_parity"] == plain["data_parity"]
        assert found[p, "R2B"]["label_parity"] < 0.01
        assert exact["parity"] < plain["parity"]
        assert 0 < plain["tv_accuracy"] < 1
    page = section(rows)
    assert "official toy2014" in page and "stand in" not in page
    again = rerun(found[0.5, "OST"], tmp_path)
    assert again | {"seconds": 0} == found[0.5, "OST"] | {"seconds": 0}


# Dermatology.


def drawn_cases(n: int = 1200) -> Cases:
    """Draw cases whose condition goes with age, two rows per lesion."""
    rng = np.random.default_rng(0)
    age = rng.uniform(18, 90, n // 2).repeat(2)
    sex = rng.choice(["female", "male"], n // 2).repeat(2)
    condition = np.clip((age / 90 * 4 + rng.normal(0, 1.0, n)).astype(int), 0, 3)
    labels = np.eye(4)[condition]
    features = np.column_stack([labels + 0.7 * rng.standard_normal((n, 4)), age, sex == "male"])
    units = np.array([f"lesion {i // 2}" for i in range(n)])
    return Cases(features, labels, crossed(age, sex), units, tuple("abcd"))


def test_ages_fall_into_the_papers_buckets_and_others_are_refused() -> None:
    ages = [0, 17.99, 18, 29.99, 30, 44, 45, 64.5, 65, 89.9, 90, np.nan]
    assert age_buckets(ages).tolist() == [-1, -1, 0, 0, 1, 1, 2, 2, 3, 3, -1, -1]
    with pytest.raises(InputError, match=r"Row 1 has the age 95, and 2 rows in all"):
        crossed([20, 95, 10], ["f", "m", "f"])
    with pytest.raises(LengthError, match="2 ages and 1 sexes"):
        crossed([20, 30], ["f"])


def test_no_lesion_is_in_two_splits_and_every_group_is_in_all() -> None:
    cases, shares = drawn_cases(), (0.76, 0.12, 0.12)
    rows = split_rows(cases, shares, seed=4)
    places = [rows.train, rows.tune, rows.test]
    parts = [set(cases.units[part]) for part in places]
    assert not parts[0] & parts[1] and not parts[0] & parts[2] and not parts[1] & parts[2]
    assert sorted(np.concatenate(places).tolist()) == list(range(len(cases)))
    assert all(len(set(cases.groups[part])) == 8 for part in places)
    assert len(rows.tune) == pytest.approx(0.12 * len(cases), rel=0.1)
    assert (split_rows(cases, shares, seed=4).test == rows.test).all()
    assert set(split_rows(cases, shares, seed=5).test) != set(rows.test)
    alone = np.flatnonzero(cases.groups == "65-89 male")
    kept = np.sort(np.concatenate([np.flatnonzero(cases.groups != "65-89 male"), alone[:2]]))
    few = {name: getattr(cases, name)[kept] for name in ("features", "labels", "groups", "units")}
    with pytest.raises(ParameterError, match="'65-89 male' has 1 units"):
        split_rows(replace(cases, **few), (0.5, 0.25, 0.25), seed=0)


def test_ham10000_joins_by_image_and_leaves_out_what_has_no_group() -> None:
    metadata = {
        "image_id": np.array(["i1", "i2", "i3", "i4", "i5"]),
        "lesion_id": np.array(["l1", "l1", "l2", "l3", "l4"]),
        "dx": np.array(["nv", "nv", "mel", "bkl", "nv"]),
        "age": np.array([20.0, 20.0, 70.0, np.nan, 50.0]),
        "sex": np.array(["female", "female", "male", "male", "unknown"]),
    }
    images = np.array(["i3", "i2", "i1", "i4", "i5"])
    found = ham10000_cases(metadata, {"image_id": images, "pc0": np.array([3.0, 2, 1, 4, 5])})
    assert found.features.tolist() == [[1, 20, 0], [2, 20, 0], [3, 70, 1]]
    assert found.classes == ("bkl", "mel", "nv")
    assert found.labels.tolist() == [[0, 0, 1], [0, 0, 1], [0, 1, 0]]
    assert found.groups.tolist() == ["18-29 female", "18-29 female", "65-89 male"]
    assert found.left_out == 2
    with pytest.raises(FileFormatError, match="'i1'"):
        ham10000_cases(metadata, {"image_id": np.array(["i3"]), "pc0": np.array([3.0])})


def test_scin_keeps_frequent_conditions_and_puts_the_rest_into_other() -> None:
    cases = {
        "case_id": np.array([7, 8, 9, 10]),
        "age_group": np.array(["AGE_18_TO_29", "AGE_40_TO_49", "AGE_UNKNOWN", "AGE_60_TO_69"]),
        "sex_at_birth": np.array(["FEMALE", "MALE", "MALE", "FEMALE"]),
        "textures_flat": np.array(["YES", None, None, None], dtype=object),
        "condition_duration": np.array(["ONE_DAY", "UNKNOWN", "ONE_DAY", "ONE_DAY"]),
        "related_category": np.array(["RASH", "RASH", "RASH", "ACNE"]),
        "fitzpatrick_skin_type": np.array(["FST1", "FST2", "FST1", "FST1"]),
    }
    said = ["{'A': 0.5, 'B': 0.5}", "{'A': 0.66, 'C': 0.33}", "{}", "{'A': 1.0}"]
    labels = {"case_id": np.array([8, 7, 10, 9])}
    labels["weighted_skin_condition_label"] = np.array(said, dtype=object)
    found = scin_cases(cases, labels, n_conditions=2)
    assert found.classes == ("A", "B", "other")
    np.testing.assert_allclose(found.labels, [[0.5, 0.5, 0], [2 / 3, 0, 1 / 3]])
    assert found.groups.tolist() == ["45-64 male", "18-29 female"]
    assert found.left_out == 2
    assert found.features[:, 0].tolist() == [0, 1]
    labels["weighted_skin_condition_label"][0] = "nonsense("
    with pytest.raises(FileFormatError, match="In row 0"):
        scin_cases(cases, labels)


def test_scores_are_debiased_by_the_tuning_split_with_the_attribute() -> None:
    cases = drawn_cases(4000)
    powers = np.exp(cases.features[:, :4])
    scores = powers / powers.sum(axis=1, keepdims=True)
    tune, test = np.arange(0, 4000, 2), np.arange(1, 4000, 2)
    known = {"sensitive_features": cases.groups[test]}
    given = scores[tune], cases.groups[tune], scores[test], cases.groups[test]
    before = demographic_parity_difference(scores[test], **known)
    fair = debias_scores("Exact", *given)
    assert demographic_parity_difference(fair, **known) < before / 2
    own = debias_scores("Exact", scores, cases.groups, scores, cases.groups)
    assert demographic_parity_difference(own, sensitive_features=cases.groups) < 1e-9
    for method in ("DPR", "OST", "HTO", "R2B0", "R2B"):
        found = debias_scores(method, *given)
        np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-9)
        assert (found >= 0).all()
    assert debias_scores("BL", *given) is given[2]
    with pytest.raises(ParameterError, match="'RW' does not change scores"):
        debias_scores("RW", *given)


def test_both_public_tables_run_in_the_small_setting(tmp_path: Path) -> None:
    skip_without_data("ham10000", "scin")
    rows = reproduce("dermatology", quick=True, output=tmp_path, jobs=1)
    found = {(row["table"], row["use"], row["method"]): row for row in rows}
    assert len(rows) == 38 == len(found)
    assert found["ham10000", "training", "BL"]["n_left_out"] == 308
    assert found["scin", "training", "BL"]["n_classes"] == 27
    for table in ("ham10000", "scin"):
        trained, scored = (found[table, use, "BL"]["top_1"] for use in ("training", "scores"))
        assert trained == scored, "the same model"
        assert found[table, "scores", "Exact"]["fitted_parity"] < 1e-9
