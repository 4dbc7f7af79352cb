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

demo: demo/runs/burgers-hard-quick-0/evaluation.json demo/runs/burgers-soft-quick-0/evaluation.json
demo:           ## train a basis through the layer and with a soft penalty, solve unseen φ, write a report
	$(BIN)/pdecl evaluate burgers --cache demo/data
	$(BIN)/pdecl report demo/runs --out demo/report --no-studies

demo/runs/burgers-%-quick-0/evaluation.json: | $(READY)
	$(BIN)/pdecl train burgers --method $* --out $(@D) --cache demo/data

lint: $(READY)
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)

types: $(READY)
	$(BIN)/mypy

test: $(READY) lint types  ## lint, types and tests
	$(BIN)/python -m pytest -n 2 --dist loadfile

bench: $(READY) ## time the layer beside the alternatives, write benchmarks/results
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	$(BIN)/python benchmarks/layer.py

clean:          ## remove what make made
	rm -rf $(VENV) demo
