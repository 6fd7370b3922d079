"""Methods that are installed elsewhere: the original implementation and HolisticAI's port of it.

``python benchmarks/peers_foreign.py REQUEST`` with a request as JSON prints JSON. Needs NumPy and
the method alone, whose public classes are called as their documentation says.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import time
import warnings
from typing import Any

from peers_score import Table, limit_memory, peak_of, scaled_seconds, scored

SGD_STEPS, EPOCHS, BATCH = 10_000, 1_000, 256  # the defaults of both
ORIGINAL_ROUNDS, HOLISTICAI_ROUNDS = 100, 5  # likewise
GAMMA, ETA = 1.0, 0.5
# up to which the rival's own loops over rows are walked once more for their memory
FEW_ENTRIES = 2_000_000


def original(table: Table, epsilon: float, patience: float, path: str) -> dict[str, Any]:
    """ml_debiaser: the whole run if ``patience`` allows it.

    Otherwise some binary solves are timed and scaled to 100 rounds.
    """
    sys.path.insert(0, path)
    from ml_debiaser.randomized_threshold import RandomizedThreshold  # type: ignore[import-not-found]
    from ml_debiaser.reduce_to_binary import Reduce2Binary  # type: ignore[import-not-found]

    matrix = table.matrix()

    def one_class(k: int) -> None:
        binary = RandomizedThreshold(gamma=GAMMA + ETA, eps=epsilon)
        binary.fit(
            matrix[:, k],
            table.groups,
            SGD_STEPS,
            EPOCHS,
            verbose=False,
            batch_size=BATCH,
            ignore_warnings=True,
        )
        binary.predict(matrix[:, k], table.groups, ignore_warnings=True)

    def run(rounds: int = ORIGINAL_ROUNDS, steps: int = SGD_STEPS, epochs: int = EPOCHS) -> Any:
        whole = Reduce2Binary(gamma=GAMMA, eps=epsilon, eta=ETA, num_classes=table.n_classes)
        settings = {
            "sgd_steps": steps,
            "full_gradient_epochs": epochs,
            "batch_size": BATCH,
            "max_admm_iter": rounds,
        }
        return whole.fit(matrix, table.groups, verbose=False, **settings)

    answer = _whole_or_scaled(table, epsilon, patience, one_class, run, ORIGINAL_ROUNDS)
    if "distance" not in answer and matrix.size <= FEW_ENTRIES:
        _, answer["peak_bytes"] = peak_of(lambda: run(rounds=1, steps=1, epochs=0))
    return answer


def holisticai(
    table: Table, epsilon: float, patience: float, path: str | None = None
) -> dict[str, Any]:
    """Run MLDebiaser for its default of five rounds; it knows two groups."""
    if table.n_groups != 2:
        return {"status": "two groups only"}
    from holisticai.bias.mitigation import MLDebiaser  # type: ignore[import-not-found]
    from holisticai.bias.mitigation.postprocessing.ml_debiaser.randomized_threshold import (  # type: ignore[import-not-found]
        algorithm,
    )

    matrix, first, second = table.matrix(), table.groups == 0, table.groups == 1

    def one_class(k: int) -> None:
        binary = algorithm.RandomizedThresholdAlgorithm(
            GAMMA + ETA, epsilon, None, SGD_STEPS, EPOCHS, BATCH
        )
        binary.fit(matrix[:, k], table.groups)
        binary.predict(matrix[:, k], table.groups)

    def run() -> Any:
        whole = MLDebiaser(eps=epsilon, verbose=False)
        return whole.fit(matrix, first, second).transform(matrix, first, second)["y_proba"]

    return _whole_or_scaled(table, epsilon, patience, one_class, run, HOLISTICAI_ROUNDS) | {
        "version": importlib.metadata.version("holisticai")
    }


def _whole_or_scaled(
    table: Table, epsilon: float, patience: float, one_class: Any, run: Any, rounds: int
) -> dict[str, Any]:
    expected, timed = scaled_seconds(one_class, table.n_classes, rounds, min(patience, 3.0))
    all_of_them = rounds * table.n_classes
    answer: dict[str, Any] = {
        "seconds": expected,
        "status": f"scaled from {timed:,} of {all_of_them:,} binary solves",
        "scaled": True,
    }
    print(json.dumps(answer), flush=True)  # so that it is known even if the whole run is stopped
    if expected > patience:
        return answer
    begun = time.perf_counter()
    x, peak = peak_of(run)
    answer = {
        "seconds": time.perf_counter() - begun,
        "status": f"{rounds} rounds",
        "scaled": False,
        "peak_bytes": peak,
    }
    return answer | scored(lambda part: x[part], table, epsilon)


if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    limit_memory(request["memory"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a rival warns of is no part of the account
        rival = {"original": original, "holisticai": holisticai}[request["task"]]
        print(json.dumps(rival(Table(request["folder"]), **request["arguments"])))
