"""Count what one call passes through: modules, functions, classes and depth, from the call to the labels.

    python scripts/trace_modules.py            a line per call, and whether each is within its limit
    python scripts/trace_modules.py --list     the modules as well

Calls are made once before they are traced, so that what is imported or compiled the first time does not count.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

# Four of each are the interior point, which small tables go to first.
LIMITS = {"debias": 35, "scan": 47, "command line": 52}


@dataclass
class Trace:
    """What was passed through.

    Attributes
    ----------
    modules, functions, classes : set of str
    depth : int
        The deepest stack of functions of the package.
    """

    modules: set[str] = field(default_factory=set)
    functions: set[str] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)
    depth: int = 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Take note of a call of a function of the package."""
        module = frame.f_globals.get("__name__", "")
        if event != "call" or module.split(".")[0] != "r2b" or frame.f_code.co_name == "<module>" or frame.f_code.co_filename[0] == "<":
            return  # code that nobody wrote, such as the constructor of a dataclass, is not read either
        self.modules.add(module)
        name = frame.f_code.co_qualname
        self.functions.add(f"{module}.{name}")
        if "." in name and "<locals>" not in name:
            self.classes.add(f"{module}.{name.rpartition('.')[0]}")
        depth, each = 0, frame
        while each is not None:
            depth += each.f_globals.get("__name__", "").split(".")[0] == "r2b"
            each = each.f_back  # type: ignore[assignment]
        self.depth = max(self.depth, depth)


def traced(call: Callable[[], object]) -> Trace:
    """Make a call twice, and trace the second time."""
    call()
    trace = Trace()
    sys.setprofile(trace)
    try:
        call()
    finally:
        sys.setprofile(None)
    return trace


def calls(folder: Path) -> dict[str, Callable[[], object]]:
    """Give the calls that have a limit."""
    import r2b
    from r2b.cli import main
    from r2b.datasets import load_adult

    adult = load_adult()
    education, sexes = adult["education"], adult["sex"]
    source = folder / "adult.csv"
    lines = [f"{label},{sex}\n" for label, sex in zip(education, sexes, strict=True)]
    source.write_text("education,sex\n" + "".join(lines), encoding="utf-8")

    def debias() -> object:
        fair = r2b.debias(education, sensitive_features=sexes, epsilon=0.01)
        return fair.soft_labels, fair.round(random_state=0)

    def scan() -> object:
        fair = r2b.scan(source).debias("education", sensitive_features="sex", epsilon=0.01)
        return fair.write(folder / "scanned.csv", force=True)

    def command() -> object:
        options = ["--label", "education", "--sensitive", "sex", "--epsilon", "0.01", "--force"]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            return main(["debias", str(source), *options, "--output", str(folder / "fair.csv")])

    return {"debias": debias, "scan": scan, "command line": command}


def main() -> int:
    """Print a table; 1 where a call passes through more modules than it may."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--list", action="store_true", help="name the modules")
    asked = parser.parse_args()
    worst = 0
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'call':14}{'modules':>10}{'limit':>8}{'functions':>11}{'classes':>9}{'depth':>7}")
        for name, call in calls(Path(folder)).items():
            found = traced(call)
            print(f"{name:14}{len(found.modules):10}{LIMITS[name]:8}{len(found.functions):11}{len(found.classes):9}{found.depth:7}")
            worst = max(worst, len(found.modules) - LIMITS[name])
            if asked.list:
                print(*(f"    {module}" for module in sorted(found.modules)), sep="\n")
    return int(worst > 0)


if __name__ == "__main__":
    raise SystemExit(main())
