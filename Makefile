# Two commands do everything on a fresh machine: `make run` and `make test`.
# Each step leaves a stamp, so that nothing is done twice.

.DEFAULT_GOAL := help
unexport PYTHONDONTWRITEBYTECODE
PYTHON ?= python3
BIN := .venv/bin
UV := $(BIN)/uv pip
PAGE := src/adkwire/static/index.html
PAGE_SRC := $(shell find web -type f -not -path '*/node_modules/*' -not -path '*/dist/*' -not -path 'web/client/test/*')
PIN := $(UV) compile --quiet --upgrade --no-annotate --no-header --universal --python-version 3.11
TESTS ?= tests
# One more than there are cores: some tests wait.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
ifeq ($(TESTS),tests)
BESIDE := lint client wire
SPREAD := -n $(WORKERS) --ignore=tests/wire
else
# All tests build the documentation, too.
BESIDE := lint client docs
endif

.PHONY: help run test suite wire client lint docs build bench latest soak mutants starters page browser pins clean
help: ## what can be made
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

run: .venv/.stamp $(PAGE) ## set up, build the page if needed, start the demo on port 8000
	$(BIN)/adkwire serve

test: ## set up all it needs, then check everything
	+@$(MAKE) --no-print-directory -j4 --output-sync=target $(BESIDE) suite 9>&1

# The output of the other targets is shown when they are done, the progress of this one at once.
suite: .venv/.stamp node_modules/.stamp $(PAGE) browser
	@(true >&9) 2>/dev/null || exec 9>&1; $(BIN)/pytest $(SPREAD) $(TESTS) >&9 2>&9

# Coverage makes tests twice as slow, so it is taken where it is asked for: wire/, by its own tests.
wire: .venv/.stamp
	$(BIN)/pytest --cov --cov-report=term:skip-covered tests/wire

client: .venv/.stamp node_modules/.stamp
	npm test

lint: .venv/.stamp node_modules/.stamp ## style, types, floors
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/pyright
	npm run -s typecheck

docs: .venv/.stamp ## build the documentation into site/, every link checked
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

build: .venv/.stamp $(PAGE) ## the wheel, the source archive and the npm package into dist/
	rm -rf dist
	$(BIN)/uv build --quiet --no-build-isolation --python $(BIN)/python --out-dir dist
	npm pack --silent -w adkwire --pack-destination dist
	@rm -f dist/.gitignore; ls dist

page: $(PAGE) ## build the page

bench: .venv-bench/.stamp $(PAGE) ## measure against peers, side by side
	.venv-bench/bin/python -m bench

latest: .venv/.stamp node_modules/.stamp $(PAGE) ## the conformance suite with the newest ai 6 and ai 7
	node tests/conformance/latest.mjs

soak: .venv/.stamp node_modules/.stamp ## 1,000 kills and 10,000 cuts under real clients, 100,000 wrong frames; KILLS, CUTS, FRAMES and SEED for a part of it
	$(BIN)/python -m tests.faults.soak

mutants: .venv/.stamp ## does a test notice when a rule is broken?
	$(BIN)/python -m tests.mutants

starters: .venv/.stamp node_modules/.stamp examples/next/node_modules/.stamp tests/e2e/frameworks/node_modules/.stamp $(PAGE) browser ## the front-end starters in Chromium, with those that are large to install
	$(BIN)/pytest tests/e2e/test_starters.py tests/e2e/other_starters.py

pins: .venv/.stamp ## choose new versions of all Python packages
	$(PIN) --extra dev pyproject.toml -o requirements-dev.txt
	$(PIN) bench/requirements.in -o bench/requirements.txt

clean: ## remove all that was made
	rm -rf .venv .venv-bench node_modules web/*/node_modules examples/*/node_modules tests/e2e/frameworks/node_modules src/adkwire/static dist web/*/dist examples/*/dist examples/next/.next site .pytest_cache .ruff_cache .hypothesis .coverage

.venv/bin/python:
	@echo "Setting up Python in .venv (once)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "adkwire needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -m venv .venv || { rm -rf .venv; echo "Python's venv module is missing. On Debian: apt-get install python3-venv"; exit 1; }

.venv/.stamp: requirements-dev.txt pyproject.toml | .venv/bin/python
	@echo "Installing Python packages"
	@test -x $(BIN)/uv || $(BIN)/pip install --quiet --disable-pip-version-check "$$(grep '^uv==' requirements-dev.txt)"
	@$(UV) sync --quiet --compile-bytecode --python $(BIN)/python requirements-dev.txt
	@$(UV) install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

.venv-bench/.stamp: bench/requirements.txt pyproject.toml .venv/.stamp
	@echo "Installing the peers to measure against into .venv-bench"
	@test -x .venv-bench/bin/python || $(PYTHON) -m venv .venv-bench
	@$(UV) sync --quiet --compile-bytecode --python .venv-bench/bin/python bench/requirements.txt
	@$(UV) install --quiet --python .venv-bench/bin/python --no-deps --no-build-isolation -e .
	@touch $@

node_modules/.stamp: package-lock.json package.json
	@command -v npm >/dev/null || { echo "npm is missing: install Node.js 20 or newer (Debian: apt-get install nodejs npm)"; exit 1; }
	@echo "Installing npm packages"
	@npm ci --loglevel=error
	@touch $@

examples/next/node_modules/.stamp tests/e2e/frameworks/node_modules/.stamp: %/node_modules/.stamp: %/package-lock.json %/package.json
	@echo "Installing npm packages in $*"
	@cd $* && npm ci --loglevel=error
	@touch $@

$(PAGE): node_modules/.stamp $(PAGE_SRC)
	@echo "Building the page"
	@npm run -s build
	@touch $@

browser: ## a Chromium for the tests
	@./tests/e2e/install-browser
