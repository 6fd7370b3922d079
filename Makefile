# Every target makes its own environment once and reuses it: `make VENV=elsewhere test` puts it elsewhere, PYTHON=... picks the interpreter.
# Paths are relative, so that `make -C` and a checkout under a name with blanks both work.

VENV ?= .venv
PYTHON ?=
PYTEST_ARGS ?=
TORCH ?= 2.13.0+cpu
SCALE ?=
BENCH ?=
PEERS ?=
MODELS ?=
PROCESSORS ?=

STAMP := $(VENV)/.r2b-installed
RUN := "$(VENV)/bin/python"

.DEFAULT_GOAL := help
# The tests start hundreds of Python processes: without bytecode beside the sources each of them would compile the package anew.
export PYTHONDONTWRITEBYTECODE :=
SPREAD := -n 2

.PHONY: help demo test check test-processors bench bench-scale bench-peers bench-models learners reproduce reproduce-quick docs dist lint lock clean

help:  ## say what each command does
	@grep -hE '^[a-z-]+: .*## ' Makefile | sed -E 's/^([a-z-]+):.*## /  make \1|/' | awk -F'|' '{ printf "%-22s %s\n", $$1, $$2 }'

demo: $(STAMP)  ## debias a real data set and show the certificate
	@$(RUN) scripts/demo.py

test: $(STAMP)  ## run every test and every example in the documentation of the code
	@$(RUN) -m pytest $(SPREAD) $(PYTEST_ARGS)

check: $(STAMP)  ## run the unit tests, style and types included, in about a minute
	@$(RUN) -m pytest $(SPREAD) -m "not integration and not slow" $(PYTEST_ARGS)

test-processors: $(STAMP)  ## run every test as on an old, a usual and a new processor (three times as long as make test)
	@$(RUN) scripts/test_processors.py $(PROCESSORS) -- $(SPREAD) $(PYTEST_ARGS)

bench: $(STAMP)  ## time common cases beside a yardstick (BENCH='--only Adult')
	@$(RUN) benchmarks/run.py $(BENCH)

bench-scale: $(STAMP)  ## time files larger than memory against DuckDB and a plain copy (200 million rows, 10 GB of disk)
	@$(RUN) benchmarks/scale.py $(SCALE)
	@$(RUN) scripts/make_scale_page.py

bench-peers: $(STAMP)  ## compare with every other method, and write the page
	@$(RUN) benchmarks/peers.py $(PEERS)
	@$(RUN) scripts/make_benchmark_page.py

bench-models: $(STAMP)  ## accuracy against parity of fair models, beside other methods, and write the page (MODELS='--splits 3')
	@$(RUN) -m benchmarks.models $(MODELS)
	@$(RUN) -m benchmarks.geg
	@$(RUN) scripts/make_models_page.py

learners: $(STAMP)  ## train six learners on fair labels over ten splits, and draw what came out
	@$(RUN) -m benchmarks.learners
	@$(RUN) scripts/make_learners_figure.py

reproduce: $(STAMP)  ## repeat the experiments of the paper at its own settings (hours)
	@$(RUN) -m experiments all
	@$(RUN) -m experiments page

reproduce-quick: $(STAMP)  ## run them at small settings, to see that they work (two minutes)
	@$(RUN) -m experiments all --quick

docs: $(STAMP)  ## build the site in site/: pages, reference from docstrings, a gallery that runs (a minute or two; no network)
	@$(RUN) -m sphinx --quiet --fail-on-warning --keep-going -b html docs site -d site/.doctrees
	@echo "The site is site/index.html"

dist: $(STAMP)  ## build wheel and source distribution in dist/, and check them as PyPI does
	@rm -rf dist
	@$(RUN) -m hatchling build -t wheel -t sdist
	@$(RUN) -m twine check --strict dist/*

lint: $(STAMP)  ## check style, format and types
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy --strict

lock: $(STAMP)  ## pin the development environment anew, with hashes
	@$(RUN) -m pip install --quiet pip-tools
	@CUSTOM_COMPILE_COMMAND="make lock" $(RUN) -m piptools compile --quiet --extra dev --generate-hashes --strip-extras --no-emit-index-url \
		--no-emit-trusted-host --no-emit-find-links --unsafe-package r2b --output-file requirements-dev.txt pyproject.toml
	@# The package itself is installed from the checkout, never from a pin; the notice that it has none is noise.
	@sed -i.old '/^# WARNING: The following packages were not pinned/,$$d' requirements-dev.txt && rm -f requirements-dev.txt.old

clean:  ## remove the environment, caches and build leftovers
	@rm -rf "$(VENV)" .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist site docs/examples docs/reference/generated results/quick
	@find src tests scripts benchmarks -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# The stamp is written last, so that an interrupted install is done again.
$(STAMP): requirements-dev.txt pyproject.toml
	@python=""; \
	for candidate in $(PYTHON) python3.11 python3; do \
		if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then python="$$candidate"; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
		echo "r2b needs Python 3.11 or newer, and neither python3.11 nor python3 is one. Install it, or name it: make PYTHON=/path/to/python" >&2; \
		exit 1; \
	fi; \
	echo "Preparing $(VENV) with $$("$$python" --version) (once; a few minutes)"; \
	"$$python" -m venv "$(VENV)"
	@$(RUN) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt
	@$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@# PyTorch without gigabytes for a GPU is not on every registry: where it cannot be had, its tests skip and say so.
	@$(RUN) -m pip install --quiet --disable-pip-version-check "torch==$(TORCH)" >/dev/null 2>&1 \
		|| echo "torch $(TORCH) is not available here: the tests that need it will be skipped"
	@touch "$(STAMP)"
