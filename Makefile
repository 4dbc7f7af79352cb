# `make demo` and `make test` set up everything they need in .venv; a second call is fast.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
CODE := src tests benchmarks examples docs/pages.py
PROBLEMS := burgers convection darcy
# Large pages of memory, where Linux has them: a solve on a CPU is spared most of the faults of small ones.
export GLIBC_TUNABLES ?= glibc.malloc.hugetlb=1

.PHONY: help demo quick paper test lint types docs gallery bench stress mutate clean

help:           ## show what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "pdecl needs Python 3.11 or newer; set PYTHON=")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: $(PROBLEMS:%=demo/runs/%/evaluation.json) demo/runs/my_heat/evaluation.json ## solve unseen φ of the paper's problems and of one from a file, write a page: 1 min 45 s on two cores, after set-up
	@$(BIN)/pdecl report demo/runs --kept results --no-studies --out demo/report
	@echo "Open demo/report/index.html in a browser: errors beside the paper's, pictures, and what is known without a reference."
	@echo "Your own PDE: copy examples/my_heat.py, change its equation, then $(BIN)/pdecl train FILE.py and pdecl solve."
	@echo "To read on: make docs, then open site/index.html; python examples/gallery.py --help runs its examples."

# Of the 50 test φ as many as fit into the time (most of it is compilation): Darcy's have 421 × 421 nodes and take seconds each, and
# convection's functions see φ, so that the network runs for each.
demo/runs/darcy/evaluation.json: COUNT := --count 2
demo/runs/convection/evaluation.json: COUNT := --count 4
demo/runs/burgers/evaluation.json: COUNT := --count 20
demo/runs/my_heat/evaluation.json: examples/my_heat.py | $(READY)
	rm -rf $(@D)
	$(BIN)/pdecl train $< --bound --count 20 --out $(@D) --cache demo/data
demo/runs/%/evaluation.json: | $(READY)
	$(BIN)/pdecl evaluate $* $(COUNT) --bound --out $(@D) --cache demo/data

quick: $(READY) ## train through the layer and with a soft penalty on all three problems, write a report
	for problem in $(PROBLEMS); do for method in hard soft; do \
	  $(BIN)/pdecl train $$problem --method $$method --out quick/$$problem-$$method --cache quick/data || exit 1; \
	done; done
	$(BIN)/pdecl report quick --out quick/report

paper: $(READY) ## the paper's six errors, three seeds each, with tables and pictures: minutes on a GPU, days on two cores
	for seed in 0 1 2; do for problem in $(PROBLEMS); do for method in hard soft; do \
	  run=paper/runs/$$problem-$$method-$$seed; test -f $$run/evaluation.json || \
	  $(BIN)/pdecl train $$problem --method $$method --preset paper --seed $$seed --out $$run --cache paper/data || exit 1; \
	done; done; done
	$(BIN)/pdecl results paper/runs --kept paper/results --out paper/RESULTS.md
	$(BIN)/pdecl report paper/runs --out paper/report

lint: $(READY)
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)

types: $(READY)
	$(BIN)/mypy

test: $(READY) lint types  ## lint, types and tests
	$(BIN)/python -m pytest -n 2 --dist loadfile

docs: $(READY) ## build the documentation into site/, to be opened as files: site/index.html
	$(BIN)/python docs/pages.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

gallery: $(READY) ## run all examples at full size, and keep their pictures and errors for the documentation
	$(BIN)/python examples/gallery.py

bench: $(READY) ## time the layer beside the alternatives, write benchmarks/results
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	$(BIN)/python benchmarks/layer.py

stress: $(READY) ## run every command and verb a thousand times beside a load: does any stand still?
	$(BIN)/python benchmarks/stress.py

mutate: $(READY) ## test the tests: 100 mistakes in the solver, derivative, loss and bound code, one at a time
	$(BIN)/python benchmarks/mutation.py --sample 100

clean:          ## remove what make made
	rm -rf $(VENV) demo quick paper stress site build
