# `make demo` and `make test` set up everything they need in .venv; a second call is fast.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
CODE := src tests benchmarks examples

.PHONY: help demo test lint types bench clean

help:           ## show what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "pdecl needs Python 3.11 or newer; set PYTHON=")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: $(READY)  ## train a basis through the layer, solve unseen parameters, write demo/heat.png
	$(BIN)/python examples/heat.py

lint: $(READY)
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)

types: $(READY)
	$(BIN)/mypy

test: $(READY) lint types  ## lint, types and tests
	$(BIN)/python -m pytest -n 2

bench: $(READY) ## time the layer beside the alternatives, write benchmarks/results
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	$(BIN)/python benchmarks/layer.py

clean:          ## remove what make made
	rm -rf $(VENV) demo
