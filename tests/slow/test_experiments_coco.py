"""COCO: the official layout read as the paper reads it, its learner, and a whole run on a small set that is drawn here."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reruns import skip_without_data

from experiments import reproduce, rerun
from experiments.coco import run as coco_run
from experiments.coco import section, target_parity, targets_of
from experiments.coco_data import (
    PHOTOGRAPHS,
    folder_of,
    images_of,
    injected,
    split_of,
)
from experiments.coco_features import extracted, features_of, write_features
from experiments.coco_softmax import linear_softmax
from experiments.labelling import FAIR_MODEL, VISIBLE
from experiments.read_coco import gender_of, read_coco, shares_of
from r2b.errors import FileFormatError, MissingExtraError, ParameterError

RESULTS = Path(__file__).resolve().parents[2] / "results"
NAMES = ("person", "bicycle", "car", "kite")


def draw_coco(folder: Path, n: int = 200, seed: int = 0, split: str = "toy2014") -> dict[str, Any]:
    """Write a split in the official layout: images in no order, kites with men, gender in one of the captions; and features."""
    rng = np.random.default_rng(seed)
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
        {"id": j, "image_id": int(image), "category_id": 10 * (k + 1), "iscrowd": 0}
        for j, (image, k) in enumerate(
            (image, k)
            for image, row in zip(ids, counts, strict=True)
            for k in range(4)
            for _ in range(row[k])
        )
    ]
    captions = [
        {"id": i, "image_id": int(ids[i]), "caption": text}
        for i in range(n)
        for text in ["people", *words[gender[i]]]
    ]
    categories = [
        {"id": 10 * (k + 1), "name": name} for k, name in reversed(list(enumerate(NAMES)))
    ]
    images = [{"id": int(image), "file_name": f"{image:012d}.ppm"} for image in ids]
    place = folder / "annotations"
    place.mkdir(parents=True, exist_ok=True)
    (place / f"instances_{split}.json").write_text(
        json.dumps({"images": images, "annotations": annotations, "categories": categories})
    )
    (place / f"captions_{split}.json").write_text(
        json.dumps({"images": images, "annotations": captions})
    )
    # Features know the objects, and the gender too: training on biased labels can use it.
    features = np.column_stack([counts, 3.0 * (gender == "man"), rng.standard_normal((n, 3))])
    np.savez(folder / f"features_{split}.npz", image_id=ids, x=features)
    return {"ids": ids, "gender": gender, "counts": counts, "features": features}


def test_the_official_layout_is_read_by_image_number_with_counts_and_gender(tmp_path: Path) -> None:
    drawn = draw_coco(tmp_path)
    found = read_coco(
        tmp_path / "annotations/instances_toy2014.json",
        tmp_path / "annotations/captions_toy2014.json",
    )
    order = np.argsort(drawn["ids"])
    assert found.image_id.tolist() == drawn["ids"][order].tolist()
    assert found.classes == NAMES
    assert (found.counts == drawn["counts"][order]).all()
    assert found.gender.tolist() == drawn["gender"][order].tolist()
    assert found.file_name[0] == "000000001000.ppm"


def test_the_papers_images_have_one_gender_and_an_object_and_their_shares_are_fractions(
    tmp_path: Path,
) -> None:
    drawn = draw_coco(tmp_path)
    images = images_of(tmp_path)
    order = np.argsort(drawn["ids"])
    keep = order[
        np.isin(drawn["gender"][order], ["man", "woman"]) & (drawn["counts"][order].sum(axis=1) > 0)
    ]
    assert images.source == "official toy2014"
    assert images.groups.tolist() == (drawn["gender"][keep] == "woman").astype(int).tolist()
    expected = [[count / sum(row) for count in row] for row in drawn["counts"][keep].tolist()]
    np.testing.assert_allclose(images.shares, expected)
    assert images.features is not None
    np.testing.assert_allclose(images.features, drawn["features"][keep])


def write_photographs(folder: Path, n: int = 240) -> dict[str, Any]:
    """Write a table like that of the photographs: person is everywhere, and horses go with women."""
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


def test_photographs_are_read_without_person_and_without_those_that_show_nothing_else(
    tmp_path: Path,
) -> None:
    drawn = write_photographs(tmp_path / "coco_images")
    images = images_of(tmp_path)
    kept = drawn["tags"].sum(axis=1) > 0
    assert images.source == "photographs, 17 tags" and images.features.shape == (kept.sum(), 6)
    assert images.groups.tolist() == (drawn["gender"][kept] == "woman").astype(int).tolist()
    expected = drawn["tags"][kept] / drawn["tags"][kept].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(images.shares, expected)


def test_the_photographs_that_are_here_are_those_of_the_page() -> None:
    skip_without_data("coco_images")
    images = images_of(Path(os.environ["R2B_DATA"]))
    assert images.shares.shape == (2_200, 17)
    assert target_parity(images.shares, images.groups) == pytest.approx(0.05, abs=5e-4)


@pytest.mark.filterwarnings("ignore::r2b.errors.NotFairWarning")  # 133 rows
def test_our_fair_models_train_on_soft_labels(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    write_photographs(tmp_path / "coco_images")
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


def spoil(folder: Path, file: str, change: Any) -> None:
    path = folder / "annotations" / file
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_files_that_are_not_of_the_layout_are_refused_by_name_and_place(tmp_path: Path) -> None:
    draw_coco(tmp_path, n=20)
    instances, captions = (
        tmp_path / "annotations" / f"{kind}_toy2014.json" for kind in ("instances", "captions")
    )
    spoil(tmp_path, captions.name, lambda content: content["annotations"][3].update(image_id=7))
    with pytest.raises(
        FileFormatError, match=r"captions_toy2014.json, annotation 3 has image_id 7"
    ):
        read_coco(instances, captions)
    spoil(tmp_path, instances.name, lambda content: content.pop("categories"))
    with pytest.raises(FileFormatError, match="no list 'categories'"):
        read_coco(instances, captions)
    instances.write_text("{")
    with pytest.raises(FileFormatError, match="is not JSON"):
        read_coco(instances, captions)
    captions.unlink()
    with pytest.raises(FileFormatError, match=r"no captions_toy2014.json"):
        images_of(tmp_path)
    with pytest.raises(ParameterError, match="Row 1 has no object"):
        shares_of([[1, 0], [0, 0]])


def test_features_come_from_npz_or_parquet_alike_and_a_missing_image_is_named(
    tmp_path: Path,
) -> None:
    import pyarrow
    import pyarrow.parquet

    drawn = draw_coco(tmp_path, n=30)
    wanted = np.sort(drawn["ids"])[5:9]
    one = features_of(tmp_path, "toy2014", wanted, wanted)
    columns = {f"f{j}": column for j, column in enumerate(drawn["features"].T)}
    pyarrow.parquet.write_table(
        pyarrow.table({"image_id": drawn["ids"], **columns}), tmp_path / "features_other.parquet"
    )
    np.testing.assert_array_equal(features_of(tmp_path, "other", wanted, wanted), one)
    with pytest.raises(FileFormatError, match="1 images, the first of them 9"):
        features_of(tmp_path, "toy2014", np.array([9]), np.array(["9"]))
    with pytest.raises(ParameterError, match=r"no images in nowhere/"):
        features_of(tmp_path, "nowhere", wanted, wanted)
    with pytest.raises(ParameterError, match="is there already"):
        write_features(tmp_path, "toy2014")


def test_images_go_through_resnet_50_or_are_refused_with_the_way_out_without_torchvision(
    tmp_path: Path, monkeypatch: Any
) -> None:
    drawn = draw_coco(tmp_path, n=20)
    (tmp_path / "toy2014").mkdir()
    (tmp_path / "features_toy2014.npz").unlink()
    if importlib.util.find_spec("torchvision") is None:
        with pytest.raises(MissingExtraError, match="pip install"):
            images_of(tmp_path)
        return
    # Weights cannot be fetched everywhere. A network as it is before training lies where
    # torchvision keeps what it has fetched.
    import torch
    from torchvision.models import ResNet50_Weights, resnet50

    torch.manual_seed(0)
    network = resnet50().eval()
    kept = tmp_path / "hub" / "checkpoints" / Path(ResNet50_Weights.IMAGENET1K_V1.url).name
    kept.parent.mkdir(parents=True)
    torch.save(network.state_dict(), kept)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    pixels = dict(
        zip(
            drawn["ids"].tolist(),
            np.random.default_rng(0).integers(0, 256, (20, 260, 300, 3)),
            strict=True,
        )
    )
    for image, drawing in pixels.items():
        write_ppm(tmp_path / "toy2014" / f"{image:012d}.ppm", drawing)
    written = write_features(tmp_path, "toy2014")
    with np.load(written) as file:
        known, features = file["image_id"], file["x"]
    assert features.shape == (len(known), 2_048)
    assert np.isfinite(features).all() and np.ptp(features, axis=0).max() > 0
    first = torch.as_tensor(pixels[int(known[0])]).permute(2, 0, 1).to(torch.uint8)
    expected = ResNet50_Weights.IMAGENET1K_V1.transforms(antialias=True)(first)
    network.fc = torch.nn.Identity()
    with torch.inference_mode():
        np.testing.assert_allclose(
            features[0], network(expected[None])[0].numpy(), rtol=0.02, atol=0.2
        )
    images = images_of(tmp_path)
    assert images.features is not None
    np.testing.assert_array_equal(images.features, features)


def write_ppm(path: Path, pixels: np.ndarray[Any, Any]) -> None:
    height, width, _ = pixels.shape
    path.write_bytes(b"P6 %d %d 255\n" % (width, height) + pixels.astype(np.uint8).tobytes())


def read_ppm(path: Path) -> np.ndarray[Any, Any]:
    head, body = path.read_bytes().split(b"\n", 1)
    width, height = (int(number) for number in head.split()[1:3])
    return np.frombuffer(body, np.uint8).reshape(height, width, 3)


def test_images_go_through_a_network_in_batches_as_they_would_alone(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    sizes = [(20, 30), (31, 17), (24, 24), (300, 280), (12, 50)]
    paths = []
    for i, size in enumerate(sizes):
        paths.append(tmp_path / f"{i}.ppm")
        write_ppm(paths[-1], rng.integers(0, 256, (*size, 3)))
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 7, stride=8), torch.nn.BatchNorm2d(4), torch.nn.AdaptiveAvgPool2d(1)
    )
    network.train()

    def prepare(path: Path) -> Any:
        pixels = torch.as_tensor(read_ppm(path).copy()).permute(2, 0, 1) / 255
        return torch.nn.functional.interpolate(pixels[None], size=(64, 64))[0]

    together = extracted(paths, network, prepare, batch=2)
    assert together.shape == (5, 4)
    assert network.training, "the network is given back as it came"
    alone = np.concatenate([extracted([path], network, prepare) for path in paths])
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_the_learner_does_what_torchs_sgd_with_momentum_does() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    X, X_test = rng.standard_normal((50, 6)), rng.standard_normal((9, 6))
    Y = rng.dirichlet(np.ones(4), 50) * rng.uniform(0.5, 2.0, (50, 1))
    ours = linear_softmax(
        X, Y, X_test, rng=np.random.default_rng(5), schedule=((0.05, 4),), batch=16
    )
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
            loss = (
                -(torch.tensor(Y[part]) * torch.log_softmax(model(torch.tensor(X[part])), dim=1))
                .sum(dim=1)
                .mean()
            )
            loss.backward()
            optimiser.step()
    theirs = torch.softmax(model(torch.tensor(X_test)), dim=1).detach().numpy()
    np.testing.assert_allclose(ours, theirs, atol=2e-5)


def test_injected_rows_are_the_class_of_their_group_and_the_others_stay() -> None:
    rng = np.random.default_rng(0)
    shares, groups = rng.dirichlet(np.ones(5), 4000), rng.integers(0, 2, 4000)
    found = injected(shares, groups, 0.5, seed=3)
    changed = (found != shares).any(axis=1)
    assert abs(changed.mean() - 0.5) < 0.03
    assert (found[changed] == np.eye(5)[groups[changed]]).all()
    assert (injected(shares, groups, 0.0, seed=3) == shares).all()


def test_reweighing_gives_weights_whose_groups_agree() -> None:
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 2, 300)
    labels = rng.dirichlet(np.ones(4), 300) * np.where(groups[:, None] == 1, [1, 2, 3, 4], 1.0)
    labels /= labels.sum(axis=1, keepdims=True)
    weights = targets_of("RW", labels, groups)
    assert target_parity(labels, groups) > 0.1
    assert target_parity(weights, groups) < 1e-12
    assert abs(weights.sum() - len(labels)) < 1e-9


def test_scales_come_from_training_rows_alone(tmp_path: Path) -> None:
    draw_coco(tmp_path)
    split = split_of(images_of(tmp_path), 0.0, seed=0)
    np.testing.assert_allclose(split.X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(split.X.std(axis=0), 1, atol=1e-12)
    assert np.abs(split.X_test.mean(axis=0)).max() > 1e-3
    assert len(split.X_test) == pytest.approx(0.25 * (len(split.X) + len(split.X_test)), abs=1)


def test_a_whole_run_on_a_drawn_set_lowers_parity_and_says_that_it_is_official(
    tmp_path: Path,
) -> None:
    draw_coco(tmp_path / "coco", n=400)
    rows = reproduce("coco", quick=True, data=tmp_path, output=tmp_path / "out", jobs=1)
    found = {(row["p"], row["method"]): row for row in rows}
    assert len(rows) == 20 == len(found)
    assert all(row["source"] == "official toy2014" for row in rows)
    for p in (0.0, 0.5):
        assert (
            found[p, "Exact"]["label_parity"]
            < 1e-9
            < 0.1
            < found[p, "BL"]["label_parity"]
            == found[p, "BL"]["data_parity"]
        )
        assert found[p, "R2B"]["label_parity"] < 0.01
        assert found[p, "Exact"]["parity"] < found[p, "BL"]["parity"]
        assert 0 < found[p, "BL"]["tv_accuracy"] < 1
    page = section(rows)
    assert "official toy2014" in page
    assert "stand in" not in page
    again = rerun(found[0.5, "OST"], tmp_path)
    assert {name: again[name] for name in again if name != "seconds"} == {
        name: found[0.5, "OST"][name] for name in again if name != "seconds"
    }


def test_without_a_folder_the_error_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("R2B_DATA", raising=False)
    with pytest.raises(ParameterError, match="R2B_DATA"):
        folder_of(None, "coco")
    with pytest.raises(ParameterError, match="There is no folder"):
        folder_of(tmp_path / "nowhere", "coco")
    monkeypatch.setenv("R2B_DATA", str(tmp_path))
    (tmp_path / "coco").mkdir()
    assert folder_of(None, "coco") == tmp_path / "coco"
    with pytest.raises(ParameterError, match=r"no file 'coco18_gender"):
        images_of(None)
