"""Run the tests with the instructions of other processors.

``python scripts/test_processors.py [CORE ...] [-- ARGUMENT ...]`` runs pytest once per core type of
OpenBLAS, with the arguments after ``--``. All tests are run: nearly all solve a problem, and a
solve depends on the processor in its last bits. A core type that does not take effect here, or
whose instructions this processor lacks, is an error and not a run that shows nothing.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# By machine: what each core type is called when it has taken effect, and what else a processor of
# its time lacks. OpenBLAS calls the kernels of Prescott by another name. "X86_V3" is AVX2 with FMA
# and "X86_V4" AVX-512 to NumPy.
OLD = {
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
    "NUMBA_CPU_NAME": "generic",
    "NUMBA_CPU_FEATURES": "",
}
USUAL = {
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": "",
}
CORES: dict[str, dict[str, tuple[tuple[str, ...], dict[str, str]]]] = {
    "x86_64": {
        "Prescott": (("Prescott", "Katmai"), OLD),
        "Nehalem": (("Nehalem",), OLD),
        "Sandybridge": (("Sandybridge",), OLD),
        "Haswell": (("Haswell",), USUAL),
        "Zen": (("Zen", "Haswell"), USUAL),
        "SkylakeX": (("SkylakeX",), {}),
    },
    "aarch64": {
        "ARMV8": (("armv8",), {}),
        "CORTEXA57": (("cortexa57",), {}),
        "NEOVERSEN1": (("neoversen1",), {}),
    },
}
DEFAULT = {
    "x86_64": ("Prescott", "Haswell", "SkylakeX"),
    "aarch64": ("ARMV8", "CORTEXA57", "NEOVERSEN1"),
}

PROBE = """
import json, os
wanted = os.environ.get("NPY_DISABLE_CPU_FEATURES", "").split()
import numpy as np
import scipy.linalg
from numpy._core._multiarray_umath import __cpu_features__ as found
from threadpoolctl import threadpool_info

square = np.random.default_rng(0).random((64, 64))
np.linalg.inv(square) @ square, scipy.linalg.inv(square)
blas = [each["architecture"] for each in threadpool_info() if each["internal_api"] == "openblas"]
print(json.dumps({"blas": blas, "left": [name for name in wanted if found.get(name)]}))
"""


class NotHereError(Exception):
    """The core type cannot be tried on this machine."""


def environment(core: str, machine: str) -> dict[str, str]:
    """Return what makes libraries take the instructions of a core type.

    Raises
    ------
    NotHereError
        The core type is not known for this machine.
    """
    known = CORES.get(machine, {})
    if core not in known:
        choices = ", ".join(known) or "none"
        raise NotHereError(
            f"{core!r} is not a core type that this script knows for {machine}. Name some of:"
            f" {choices}."
        )
    return {"OPENBLAS_CORETYPE": core, **known[core][1]}


def probe(core: str, machine: str) -> str:
    """Say what linear algebra runs on under a core type.

    Raises
    ------
    NotHereError
        It does not take effect, or its instructions are not there.
    """
    changed = os.environ | environment(core, machine)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROBE],
        capture_output=True,
        text=True,
        check=False,
        env=changed,
    )
    if done.returncode != 0:
        remedy = "Leave it out: this processor may lack its instructions."
        raise NotHereError(
            f"Under {core} a product of matrices ends with {done.returncode}."
            f" {remedy}\n{done.stderr}".rstrip()
        )
    seen = json.loads(done.stdout)
    names = {name.lower() for name in CORES[machine][core][0]}
    if not seen["blas"] or not {each.lower() for each in seen["blas"]} <= names:
        remedy = "This needs wheels of NumPy and SciPy with OpenBLAS of many processors."
        raise NotHereError(
            f"{core} has no effect: linear algebra runs on"
            f" {', '.join(seen['blas']) or 'no OpenBLAS'}. {remedy}"
        )
    if seen["left"]:
        raise NotHereError(
            f"NumPy still uses {', '.join(seen['left'])} under {core}. Update"
            " NPY_DISABLE_CPU_FEATURES in this script."
        )
    return ", ".join(sorted(set(seen["blas"])))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests under each core type; give how many runs failed."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    cut = words.index("--") if "--" in words else len(words)
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(
        platform.machine().lower(), platform.machine().lower()
    )
    try:
        cores = words[:cut] or DEFAULT.get(machine, ())
        if not cores:
            raise NotHereError(f"No core types are known for {machine}.")
        shown = {core: probe(core, machine) for core in cores}
    except NotHereError as error:
        print(error, file=sys.stderr)
        return 2
    codes = {}
    for core in cores:
        print(f"\n{core}: linear algebra on {shown[core]}", flush=True)
        with tempfile.TemporaryDirectory() as compiled:
            # Loops compiled for another processor are not to be found by later runs.
            changed = os.environ | environment(core, machine) | {"NUMBA_CACHE_DIR": compiled}
            command = [sys.executable, "-m", "pytest", *words[cut + 1 :]]
            codes[core] = subprocess.run(command, check=False, cwd=ROOT, env=changed).returncode
    for core, code in codes.items():
        print(f"{core}: {'passed' if code == 0 else f'failed ({code})'}")
    return sum(code != 0 for code in codes.values())


if __name__ == "__main__":
    sys.exit(main())
