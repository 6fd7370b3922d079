"""Uncertain and continuous attributes on a device: the answers of rows in memory, for classes and probabilities, in every form.

Everything runs on the host's tensors; with a CUDA device it runs there as well.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import r2b  # noqa: E402
import r2b.engines.torch  # noqa: E402
from r2b._data.merge import Rows  # noqa: E402
from r2b._solve.oracle import DesignOracle  # noqa: E402
from r2b.engines.torch.parts import DevicePartsOracle  # noqa: E402
from r2b.errors import ParameterError, ProbabilityError  # noqa: E402

CUDA = torch.cuda.is_available()
on_cuda = pytest.mark.skipif(not CUDA, reason="no CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=on_cuda)]
N, L = 900, 4


@cache
def people(n: int = N, n_classes: int = L, seed: int = 3) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 3))

    def softmax(scores: np.ndarray) -> np.ndarray:
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return scores / scores.sum(axis=1, keepdims=True)

    labels, member = (
        softmax(z @ rng.normal(size=(3, n_classes))),
        softmax(z @ rng.normal(size=(3, 2))),
    )
    classes = (labels.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=n_classes - 1)
    own = {"float64": labels, "float32": labels.astype(np.float32), "classes": classes}
    return own | {
        "member": member,
        "age": 40 + 9 * z[:, 0] + rng.normal(size=n),
        "weight": rng.uniform(0.2, 3, n),
        "sex": rng.integers(0, 2, n),
    }


def attributes(name: str, known: dict[str, np.ndarray], there: Any = lambda array: array) -> Any:
    member, age = (
        r2b.Membership(there(known["member"]), groups=["f", "m"]),
        r2b.Continuous(there(known["age"]), knots=4),
    )
    return {
        "membership": {"g": member},
        "age": {"age": age},
        "all": {"sex": there(known["sex"]), "age": age, "g": member},
    }[name]


def both(
    name: str, kind: str, device: str, weighted: bool = True, **options: Any
) -> tuple[Any, Any]:
    """Solve the same table in memory and on a device."""
    known = people()
    asked = {"epsilon": 0.02, "families": "marginal"} | options

    def there(array: np.ndarray) -> Any:
        return torch.from_numpy(array).to(device)

    host = r2b.debias(
        known[kind],
        sensitive_features=attributes(name, known),
        sample_weight=known["weight"] if weighted else None,
        **asked,
    )
    weight = there(known["weight"]) if weighted else None
    fair = r2b.engines.torch.debias(
        there(known[kind]),
        sensitive_features=attributes(name, known, there),
        sample_weight=weight,
        **asked,
    )
    return host, fair


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["classes", "soft"])
@pytest.mark.parametrize("lam", [1.0, 0.3])
def test_the_oracle_answers_as_that_of_rows_in_memory(kind: str, lam: float, device: str) -> None:
    known, rng = people(), np.random.default_rng(0)
    soft = kind == "soft"
    design = np.column_stack([known["member"], rng.normal(size=(N, 2)), np.eye(2)[known["sex"]]])
    share, prices = rng.uniform(0.2, 1, 6), 0.2 * rng.normal(size=(6, L))
    labels = known["float64"] if soft else None
    rows = Rows(
        labels, np.arange(N), known["weight"], N, None, None, None if soft else known["classes"], L
    )
    host = DesignOracle(rows, design, share, "numpy", 1)
    y = torch.from_numpy(known["float64" if soft else "classes"]).to(device)
    there = DevicePartsOracle(
        y,
        torch.from_numpy(design).to(device),
        share,
        L,
        torch.from_numpy(known["weight"]).to(device),
    )
    np.testing.assert_allclose(there.label_means(), host.label_means(), atol=1e-12)
    one, other = host.evaluate(prices, lam), there.evaluate(prices, lam)
    np.testing.assert_allclose(other.means, one.means, atol=1e-12)
    assert other.value == pytest.approx(one.value, abs=1e-12)
    for unchanged in (False, True):
        mine, theirs = (
            vars(oracle.inspect(prices, lam, unchanged=unchanged)) for oracle in (host, there)
        )
        for name, value in mine.items():
            np.testing.assert_allclose(theirs[name], value, atol=1e-12, err_msg=name)
    components = [np.array([0, 1, 4]), np.array([2, 3, 5])]
    for block, wanted in zip(
        there.curvature(prices, lam, components),
        host.curvature(prices, lam, components),
        strict=True,
    ):
        np.testing.assert_allclose(block, wanted, atol=1e-11)
    some = np.array([3, 0])
    np.testing.assert_allclose(
        there.among(some).evaluate(prices[:2], lam).means,
        host.among(some).evaluate(prices[:2], lam).means,
        atol=1e-12,
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("name", "kind", "weighted"),
    [
        ("membership", "classes", True),
        ("age", "float64", False),
        ("all", "classes", False),
        ("all", "float64", True),
    ],
)
def test_labels_are_those_of_memory_in_every_form(
    name: str, kind: str, weighted: bool, device: str
) -> None:
    host, fair = both(name, kind, device, weighted)
    assert fair.status is r2b.Status.SOLVED and fair.certificate.holds
    np.testing.assert_allclose(fair.certificate.means, host.certificate.means, atol=1e-9)
    assert fair.soft_labels.device.type == device
    np.testing.assert_allclose(fair.soft_labels.cpu().numpy(), host.soft_labels, atol=1e-8)
    for form in ("sample", "round"):
        assert getattr(fair, form)(5).cpu().tolist() == getattr(host, form)(5).tolist()
    for mine, theirs in zip(fair.expand(), host.expand(), strict=True):
        np.testing.assert_allclose(mine.cpu().numpy(), theirs, atol=1e-8)
    assert fair.in_memory().round(5).tolist() == host.round(5).tolist()


@pytest.mark.parametrize("device", DEVICES)
def test_prices_apply_to_new_rows_there(device: str) -> None:
    host, fair = both("all", "float64", device)
    other = people(300, seed=9)

    def there(array: np.ndarray) -> Any:
        return torch.from_numpy(array).to(device)

    made = fair.transform(
        there(other["float64"]), sensitive_features=attributes("all", other, there)
    )
    np.testing.assert_allclose(
        made.cpu().numpy(),
        host.transform(other["float64"], sensitive_features=attributes("all", other)),
        atol=1e-8,
    )


def test_single_precision_is_certified_and_few_cells_are_counted() -> None:
    _, fair = both("membership", "float32", "cpu")
    assert fair.certificate.holds
    known = people()
    bands = np.round(known["age"], -1)
    for kind in ("classes", "float64"):
        asked = {
            "sensitive_features": {"age": r2b.Continuous(bands, basis="linear")},
            "epsilon": 0.01,
        }
        host, there = (
            r2b.debias(known[kind], **asked),
            r2b.engines.torch.debias(torch.from_numpy(known[kind]), **asked),
        )
        np.testing.assert_allclose(there.soft_labels.numpy(), host.soft_labels, atol=1e-9)


def test_samples_shorten_the_way_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    _, whole = both("membership", "float64", "cpu")
    monkeypatch.setattr("r2b.engines.torch.parts.THIN_FROM", 1)
    monkeypatch.setattr("r2b.engines.torch.parts._FEWEST", 20)
    _, fair = both("membership", "float64", "cpu")
    assert any("sampled" in step.stage for step in fair.history)
    np.testing.assert_allclose(fair.certificate.means, whole.certificate.means, atol=1e-9)


def test_targets_are_the_mean_of_all_labels() -> None:
    families = [r2b.Family("g", bound="target", target="population")]
    host, fair = both("membership", "classes", "cpu", families=families)
    np.testing.assert_allclose(fair.certificate.means, host.certificate.means, atol=1e-9)


def test_what_is_not_there_is_refused() -> None:
    known = people()
    asked = {"sensitive_features": attributes("membership", known)}
    with pytest.raises(ParameterError, match="agreement") as refused:
        r2b.engines.torch.debias(torch.from_numpy(known["float64"]), objective="agreement", **asked)
    assert "r2b.debias" in refused.value.remedy
    wrong = known["float64"].copy()
    wrong[17, 0] += 0.5
    with pytest.raises(ProbabilityError, match="row 17"):
        r2b.engines.torch.debias(torch.from_numpy(wrong), **asked)
    with pytest.raises(ProbabilityError, match="row 3"):
        r2b.engines.torch.debias(
            torch.from_numpy(known["classes"]),
            sensitive_features=r2b.Membership(
                torch.from_numpy(known["member"] * (1 + (np.arange(N) == 3))[:, None])
            ),
        )


@on_cuda
def test_labels_of_the_host_go_through_the_card_in_batches() -> None:
    known = people(60_000, 16)
    there = {"g": r2b.Membership(torch.from_numpy(known["member"]).cuda(), groups=["f", "m"])}
    y = torch.from_numpy(known["float32"])
    whole = r2b.engines.torch.debias(y.cuda(), sensitive_features=there, epsilon=0.01)
    batched = r2b.engines.torch.debias(
        y, sensitive_features=there, epsilon=0.01, device="cuda", batch_rows=7_000
    )
    assert whole.status.ok and batched.status.ok
    np.testing.assert_allclose(batched.certificate.means, whole.certificate.means, atol=1e-9)
    again = r2b.engines.torch.debias(y.cuda(), sensitive_features=there, epsilon=0.01)
    assert (again.prices == whole.prices).all()


@on_cuda
def test_a_million_rows_are_solved_on_the_card() -> None:
    known = people(1_000_000, 16)
    there = {"g": r2b.Membership(torch.from_numpy(known["member"]).cuda(), groups=["f", "m"])}
    for kind in ("classes", "float32"):
        fair = r2b.debias(
            torch.from_numpy(known[kind]).cuda(), sensitive_features=there, epsilon=0.01
        )
        assert fair.status is r2b.Status.SOLVED and fair.sample(0).is_cuda
