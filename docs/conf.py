"""The site: `make docs` builds it from these pages, the docstrings of the package and the examples in gallery/."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import r2b

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

# Workers of Spark must run the Python of the driver, and small matrices need no threads.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("OMP_NUM_THREADS", "1")

project = "r2b"
author = "r2b contributors"
copyright = author
version = release = r2b.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = [
    "_templates",
    "gallery",
    "examples/*.ipynb",
    "examples/*.py",
    "examples/sg_execution_times.rst",
]
# Every reference has to lead somewhere; with -W, which `make docs` passes, one that does not ends
# the build.
nitpicky = True
suppress_warnings = ["config.cache"]

myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 4

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "groupwise"
# Where PyTorch cannot be had, docstrings of the modules that need it are read all the same.
autodoc_mock_imports = [name for name in ("torch",) if find_spec(name) is None]
# What scikit-learn, Spark and Python give to every class of theirs is documented there.
_FOREIGN = "BaseEstimator ClassifierMixin TransformerMixin MetaEstimatorMixin SamplerMixin BaseSampler Dataset Params Identifiable"
_FOREIGN += " HasLabelCol HasWeightCol HasSeed DefaultParamsReadable DefaultParamsWritable Estimator Transformer"
_FOREIGN += " Sequence Exception Warning Enum str dict tuple object"
autodoc_default_options = {"members": True, "inherited-members": ",".join(_FOREIGN.split())}
numpydoc_show_class_members = False
numpydoc_attributes_as_param_list = True
default_role = "code"
add_module_names = False
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = f"r2b {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/mark.svg"
html_logo = "_static/mark.svg"
html_copy_source = False
html_show_sphinx = False
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#1d5fa8",
        "color-brand-content": "#1d5fa8",
        "color-brand-visited": "#6b4ba1",
        "color-code-background": "#f3f5f8",
    },
    "dark_css_variables": {
        "color-brand-primary": "#7db7f0",
        "color-brand-content": "#7db7f0",
        "color-brand-visited": "#c3a6f0",
        "color-code-background": "#22262b",
    },
}
copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True


def lacking() -> list[str]:
    """Name the examples that cannot run here: their pages then show the code, and the build says why."""
    needs = {
        "network": find_spec("torch") is not None,
        "spark": shutil.which("java") is not None and find_spec("pyspark") is not None,
    }
    return [name for name, there in needs.items() if not there]


def take_pictures() -> None:
    """Take the screenshots again where the package has changed, with a browser at hand."""
    stamp = HERE / "images" / ".package"
    sources = sorted((ROOT / "src" / "r2b").rglob("*.*"))
    now = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    if stamp.exists() and stamp.read_text(encoding="utf-8") == now:
        return
    script = [sys.executable, str(ROOT / "scripts" / "make_screenshots.py")]
    done = subprocess.run(script, check=False, capture_output=True, text=True)
    print(f"screenshots: {(done.stdout or done.stderr).strip()[-300:]}", file=sys.stderr)
    if done.returncode == 0:
        stamp.write_text(now, encoding="utf-8")


def forget_stale_examples() -> None:
    """Run the examples again where the package has changed. Sphinx-Gallery itself looks at the text of an example alone."""
    made, stamp = HERE / "examples", HERE / "examples" / ".package"
    sources = sorted((ROOT / "src" / "r2b").rglob("*.py"))
    now = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    if made.exists() and (not stamp.exists() or stamp.read_text(encoding="utf-8") != now):
        shutil.rmtree(made)
    made.mkdir(exist_ok=True)
    stamp.write_text(now, encoding="utf-8")


def leave_out(app: Any, kind: str, name: str, what: Any, skip: bool, options: Any) -> bool | None:
    """Leave out the routing of scikit-learn, which it writes into every class."""
    return True if re.fullmatch(r"set_\w+_request|get_metadata_routing|set_output", name) else None


def to_own_place(link: re.Match[str]) -> str:
    """Return a link from the source of an object to its page, which knows the full name of the object.

    Sphinx names all objects of a source by the module that the first of them is documented in.
    """
    page, fragment = link.groups()
    _, _, member = f"{fragment}.".partition(f".{page.rpartition('.')[2]}.")
    return f"generated/{page}.html#{f'{page}.{member}'.rstrip('.')}"


def make_accessible(app: Any, error: Exception | None) -> None:
    """Add what the theme leaves out: levels of headings, keyboard access to what scrolls, exact links."""
    for path in () if error else Path(app.outdir).rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        better = text
        if "_modules" in path.parts:
            better = re.sub(r"generated/([\w.]+)\.html#([\w.]+)", to_own_place, better)
        better = better.replace('role="heading">', 'role="heading" aria-level="2">')
        better = better.replace("<pre>", '<pre tabindex="0">')
        better = re.sub(
            r'<div class="(table-wrapper[^"]*)">', r'<div class="\1" tabindex="0">', better
        )
        if better != text:
            path.write_text(better, encoding="utf-8")


def setup(app: Any) -> None:
    """Say what Sphinx has to ask."""
    app.connect("autodoc-skip-member", leave_out)
    app.connect("build-finished", make_accessible)


take_pictures()
forget_stale_examples()
_left_out = lacking()
for _name in _left_out:
    print(f"the example {_name} is shown, not run: what it needs is not installed", file=sys.stderr)

sphinx_gallery_conf = {
    "examples_dirs": ["gallery"],
    "gallery_dirs": ["examples"],
    "filename_pattern": rf"^((?!{'|'.join(_left_out)}).)*$" if _left_out else r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "min_reported_time": 10_000,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "download_all_examples": False,
    "remove_config_comments": True,
    "capture_repr": (),
    "matplotlib_animations": False,
    "image_srcset": ["2x"],
    "plot_gallery": "True",
}
