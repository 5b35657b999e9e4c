# `make help` lists the commands. Each installs what it needs into .venv, from the versions in constraints.txt.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# One BLAS thread per process: the tests run in parallel already, and the arrays are small.
export OMP_NUM_THREADS      ?= 1
export OPENBLAS_NUM_THREADS ?= 1
export MKL_NUM_THREADS      ?= 1

.DEFAULT_GOAL := help
.PHONY: help demo test check slow dist install bench coverage planes mutation theorem1 soak bench-cdt bench-rollout bench-baselines bench-smoke tutorials docs clean

help:  ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | while IFS="$$(printf '\t')" read -r name text; do \
		printf '  make %-15s  %s\n' "$$name" "$$text"; done

demo: $(VENV)/.train  ## live a whole life on the embedded task and write its report
	$(BIN)/lifesafe demo

test: $(VENV)/.dev  ## run the tests (the slow ones excepted)
	$(BIN)/python -m pytest -n auto

check: $(VENV)/.dev  ## lint, formatting, types, layers, examples in the docs
	$(BIN)/ruff check .
	$(BIN)/ruff check --isolated --select F821 benchmarks examples research tests  # shapes in src look like undefined names
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/test_docs.py

slow: $(VENV)/.dev  ## run the statistical and exhaustive tests
	$(BIN)/python -m pytest -n auto -m slow

dist: $(VENV)/.build  ## build the wheel and the source distribution into dist/
	$(BIN)/hatchling build

install: $(VENV)/.dev  ## install both into empty environments, with and without extras, and use them
	$(BIN)/python -m pytest -q -s -m slow tests/end_to_end/test_install.py

bench: $(VENV)/.dev .venv-rivals/.installed  ## time the search beside SafeOpt's, and count what runs in it
	$(BIN)/python benchmarks/search.py

coverage: $(VENV)/.dev .venv-rivals/.installed  ## count broken promises of ours, the paper's search and SafeOpt; hours
	$(BIN)/lifesafe theory coverage headline
	$(BIN)/python benchmarks/coverage_rivals.py

planes: $(VENV)/.dev  ## search on measured planes of real policies; hours
	$(BIN)/python benchmarks/planes.py

mutation: $(VENV)/.dev  ## change 200 random lines of the heart, and see whether a test notices; hours
	$(BIN)/python benchmarks/mutation.py

theorem1: $(VENV)/.dev  ## check Theorem 1 on problems so small that all it speaks of is exact
	PYTHONPATH=research $(BIN)/python -m theorem1

soak: $(VENV)/.dev  ## operate a million episodes while the run is killed a thousand times
	$(BIN)/python benchmarks/soak.py

bench-cdt: $(VENV)/.dev .venv-osrl/.installed  ## time the transformer beside OSRL's
	$(BIN)/python benchmarks/cdt.py

bench-rollout: $(VENV)/.dev .venv-osrl/.installed  ## time evaluation beside OSRL's; HOPPER=FILE names data that are here
	$(BIN)/python benchmarks/rollout.py $(if $(HOPPER),--data $(HOPPER))

bench-baselines: $(VENV)/.dev .venv-osrl/.installed  ## time the baselines beside OSRL's
	$(BIN)/python benchmarks/baselines.py

bench-smoke: $(VENV)/.train  ## run every method of the comparison for a moment, and print the table
	$(BIN)/lifesafe bench run smoke
	$(BIN)/lifesafe bench table runs/bench-smoke

# SafeOpt needs numpy < 2, so the rivals have an environment of their own.
.venv-rivals/.installed: benchmarks/rivals.txt
	$(PYTHON) -m venv .venv-rivals
	.venv-rivals/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

.venv-osrl/.installed: benchmarks/osrl.txt
	$(PYTHON) -m venv .venv-osrl
	.venv-osrl/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --requirement $<
	@touch $@

tutorials: $(VENV)/.dev  ## execute the tutorials, and keep what they print; two minutes
	$(BIN)/python tests/tutorials.py

docs: $(VENV)/.docs  ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:  ## remove what the commands made, .venv included
	rm -rf $(VENV) site dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An install is repeated only when the versions asked for have changed.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# The build tool is pinned like the rest, so the package is built with it rather than with the newest.
$(VENV)/.build: constraints.txt | $(BIN)/python
	$(PIP) hatchling editables
	@touch $@

$(VENV)/.train: pyproject.toml constraints.txt $(VENV)/.build
	$(PIP) --no-build-isolation --editable '.[train]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt $(VENV)/.build
	$(PIP) --no-build-isolation --editable '.[dev]'
	$(PIP) --no-deps bullet-safety-gym  # it pins an old gymnasium and runs on the new one
	@touch $@ $(VENV)/.train

$(VENV)/.docs: pyproject.toml constraints.txt $(VENV)/.build
	$(PIP) --no-build-isolation --editable '.[docs]'
	@touch $@
