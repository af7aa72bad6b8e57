# `make demo` and `make check` set everything up by themselves; a fresh clone needs Python 3.11+, make and nothing else.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo check lint types architecture architecture-picture test slow browser screenshots fuzz torture lock verify licences sbom audit clean

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: .venv/ready            ## sort the embedded digits and show the scores
	$(BIN)/selfsort fit digits --out runs/demo --overwrite

check: browser lint types architecture test  ## everything that must pass before a commit

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/ready
	$(BIN)/mypy

architecture: .venv/ready
	$(BIN)/lint-imports

architecture-picture: .venv/ready  ## docs/architecture.svg, from the imports as they are
	$(BIN)/python tools/architecture.py

# One test process per core with one thread each: threads of several torch processes would wait for each other.
test: .venv/ready            ## the fast suite, about four minutes on two cores
	OMP_NUM_THREADS=1 $(BIN)/pytest -m 'not slow and not torture' -n auto --dist worksteal

slow: .venv/ready            ## the tests that take minutes
	$(BIN)/pytest -m slow

# Without it the tests of the pages are skipped.
browser: .venv/ready         ## a Chromium for the tests of the pages, unless there is one
	@$(BIN)/python tests/find_browser.py > /dev/null \
	  || { test "$$(id -u)" = 0 && command -v apt-get > /dev/null \
	       && apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qqy --no-install-recommends install chromium; } \
	  || $(BIN)/playwright install chromium \
	  || echo "no Chromium could be installed; the tests of the pages will be skipped"

RUN ?= runs/demo
screenshots: browser         ## docs/report.png, from the report of RUN
	SELFSORT_REPORT_OF=$(RUN) $(BIN)/pytest tests/report/test_browser_report.py -k screenshot

fuzz: .venv/ready            ## over 100 000 damaged inputs for every reader; writes benchmarks/fuzz.json
	OMP_NUM_THREADS=1 $(BIN)/python tests/fuzzing.py --out benchmarks/fuzz.json

torture: .venv/ready         ## kills, full disks, 100 000 files, damaged inputs; under 20 minutes; figures in benchmarks/
	OMP_NUM_THREADS=1 SELFSORT_FIGURES=benchmarks/torture.json $(BIN)/pytest -m torture
	$(MAKE) fuzz

lock: .venv/ready            ## requirements.lock: the hashes of every version in constraints.txt but torch
	$(BIN)/python tools/lock.py

verify: .venv/ready          ## fetch every locked file and check its hash
	$(BIN)/pip download --quiet --no-deps --require-hashes --requirement requirements.lock --dest .venv/locked

licences: .venv/ready        ## docs/licences.md
	$(BIN)/python tools/licences.py

.venv/supply: .venv/ready
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[supply]'
	touch $@

sbom: .venv/supply           ## the bill of materials of the installed environment, CycloneDX
	mkdir -p dist
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --of JSON -o dist/sbom.cdx.json $(BIN)/python

audit: .venv/supply          ## known vulnerabilities of the pinned versions; needs the network
	$(BIN)/pip-audit --strict --disable-pip --require-hashes --requirement requirements.lock
	grep '^torch==' constraints.txt | $(BIN)/pip-audit --strict --disable-pip --no-deps --requirement /dev/stdin

clean:
	rm -rf .venv runs .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
