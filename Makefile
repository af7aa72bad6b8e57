# `make demo` and `make check` set everything up by themselves; a fresh clone needs Python 3.11+, make and nothing else.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo check lint types architecture test slow clean

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: .venv/ready            ## sort the embedded digits and show the scores
	$(BIN)/selfsort fit digits --out runs/demo --overwrite

check: lint types architecture test  ## everything that must pass before a commit

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/ready
	$(BIN)/mypy

architecture: .venv/ready
	$(BIN)/lint-imports

# One test process per core with one thread each: threads of several torch processes would wait for each other.
test: .venv/ready            ## the fast suite, under 3 minutes
	OMP_NUM_THREADS=1 $(BIN)/pytest -m 'not slow' -n auto --dist worksteal

slow: .venv/ready            ## the tests that take minutes
	$(BIN)/pytest -m slow

clean:
	rm -rf .venv runs .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
