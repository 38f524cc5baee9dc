# Every target sets up what it needs in .venv at the root, from the hashed locks in requirements/.
# Needs Python 3.11 or later with pip, git and make.

# With another Python, in a separate environment: make test PYTHON=python3.13 VENV=.cache/venv-3.13
PYTHON ?= python3
VENV ?= .venv
export PYTHON VENV

# Tests wait for child processes as much as they compute, so more workers than cores pay off, but
# each has to collect all tests; with 0 everything runs in pytest itself.
WORKERS ?= 4
# Additional arguments for the program behind a target: make test ARGS="tests/unit -k routing"
ARGS ?=

BIN := $(VENV)/bin
# Snapshots are only compared here; to write new ones run
# .venv/bin/pytest --inline-snapshot=create,fix
PYTEST := $(BIN)/pytest --inline-snapshot=disable
STORES := $(foreach store,dispatch older owners postgres sqlite storage,$(wildcard tests/contract/test_$(store)*.py))
# These tests alone must take nine in ten branches of src/coterie/agents.
CONTRACTS := $(filter-out $(STORES),$(wildcard tests/contract/test_*.py))
# The slowest first, handed out file by file in this order, so that none of them is left over at the
# end and a file's shared setup runs once; tests/shape is a check.
OTHERS := tests/web/browser tests/live tests/flow tests/cli tests/hostile $(STORES) tests/docs $(wildcard tests/web/test_*.py) tests/unit
SAY := @printf 'coterie: %s\n'

# pyright must look neither for a newer pyright nor for another node.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
export PYRIGHT_PYTHON_GLOBAL_NODE := 0

.PHONY: help demo page test pythons check bench chaos lock picture schemas types format coverage clean
.DEFAULT_GOAL := help

help: ## list these targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 12

# ------------------------------------------------------------------------------------- set-up

RUNTIME := $(VENV)/.runtime
DEV := $(VENV)/.dev

$(RUNTIME): pyproject.toml requirements/build.txt requirements/runtime.txt scripts/setup
	@scripts/setup runtime
	@touch $@

$(DEV): $(RUNTIME) requirements/dev.txt
	@scripts/setup dev
	@touch $@

$(VENV)/.test: $(RUNTIME) requirements/test.txt
	@scripts/setup test
	@touch $@

# Children of tests and benchmarks start from bytecode, even with PYTHONDONTWRITEBYTECODE set.
.PHONY: compiled
compiled: $(RUNTIME)
	@$(BIN)/python -m compileall -q src

# ---------------------------------------------------------------------------------------- run

demo: compiled ## a team at work, with no login and no tokens
	@$(BIN)/coterie demo $(ARGS)

test: $(DEV) compiled page ## every test
	@scripts/system-packages
	@scripts/real-clis >/dev/null
	$(SAY) "testing"
ifeq ($(strip $(ARGS)),)
	@$(PYTEST) -n $(WORKERS) --dist worksteal $(CONTRACTS) --cov=coterie.agents \
	    --cov-config=tests/contract/coverage.ini --cov-report=term --cov-fail-under=90
	@$(PYTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(OTHERS)
else
	@$(PYTEST) -n $(WORKERS) --dist worksteal $(ARGS)
endif

# For scripts that run a program of the environment: the environment, and nothing else.
.PHONY: environment test-environment
environment: $(DEV) compiled
test-environment: $(VENV)/.test compiled

# Every pytest worker collects every test, and the first to do so compiles them and what pytest
# rewrites of its plugins: better done once than by all of them.
.PHONY: collected
collected: $(DEV) compiled
	@env -u PYTHONDONTWRITEBYTECODE $(PYTEST) -q --collect-only -p no:cacheprovider $(CONTRACTS) $(OTHERS) >/dev/null

pythons: ## unit and contract tests on every other Python of this machine
	@scripts/other-pythons $(ARGS)

bench: $(DEV) compiled page ## what a turn costs, compared with a bare loop
	$(SAY) "measuring"
	@$(BIN)/python -m bench $(ARGS)

chaos: $(DEV) compiled page ## kill -9 at random instants, on SQLite and PostgreSQL; commands in hostile folders (see bench/chaos)
	$(SAY) "killing 1410 times (ARGS='--only tickets --store postgres' for those alone)"
	@$(BIN)/python -m bench.chaos $(ARGS)

coverage: $(DEV) compiled ## lines no test reaches
	@$(BIN)/coverage erase
	@$(BIN)/coverage run -m pytest $(ARGS)
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report

# -------------------------------------------------------------------------------------- check

CHECKS := check-format check-lint check-types check-surface check-layers check-shape check-schemas check-page
.PHONY: $(CHECKS)

check: $(CHECKS) ## format, lint, types, layers, shape, schemas, page (make -k check: report everything)

check-format: $(DEV)
	$(SAY) "checking format"
	@$(BIN)/ruff format --check --quiet . || { echo "coterie: run: make format" >&2; exit 1; }

check-lint: $(DEV)
	$(SAY) "checking lint"
	@$(BIN)/ruff check --quiet .

check-types: $(DEV)
	$(SAY) "checking types"
	@$(BIN)/pyright

check-surface: $(DEV)
	$(SAY) "checking that the public surface is typed to 100 %"
	@PYTHONPATH=src $(BIN)/pyright --pythonpath $(BIN)/python --verifytypes coterie --ignoreexternal > $(VENV)/.surface \
		|| { cat $(VENV)/.surface; exit 1; }
	@grep completeness $(VENV)/.surface

check-layers: $(DEV)
	$(SAY) "checking layers"
	@$(BIN)/lint-imports --no-logo

check-shape: $(DEV)
	$(SAY) "checking shape"
	@$(PYTEST) -q tests/shape

check-schemas: $(DEV)
	$(SAY) "checking that the shipped schemas match the models"
	@$(BIN)/python -m coterie.app.schemas --check

check-page: $(DEV)
	$(SAY) "checking the page's types"
	@scripts/page check

# --------------------------------------------------------------------------------------- make

PAGE := src/coterie/web/page
PAGE_SOURCES := $(shell find page -path page/node_modules -prune -o -type f -print)

page: $(PAGE)/index.html ## the page that `coterie serve` shows, into the package

$(PAGE)/index.html: $(DEV) $(PAGE_SOURCES) scripts/page
	$(SAY) "building the page"
	@scripts/page build

types: $(DEV) ## write page/src/lib/api.d.ts from the API's own description
	@scripts/page types

format: $(DEV) ## format, and fix what lint can fix
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

picture: $(DEV) $(PAGE)/index.html ## the pictures in the README, from real runs
	@scripts/system-packages
	@$(BIN)/python scripts/picture $(ARGS)

schemas: $(RUNTIME) ## write src/coterie/config/schemas/*.json from the models
	@$(BIN)/python -m coterie.app.schemas

# Does not depend on .venv/.runtime: a lock that cannot be installed must still be replaceable.
lock: ## write requirements/*.txt from pyproject.toml (ARGS=--upgrade for newer versions)
	@scripts/setup uv
	@scripts/lock $(ARGS)

clean: ## remove what the other targets made
	@rm -rf page/node_modules $(PAGE)
	@rm -rf .venv .hypothesis .pytest_cache .ruff_cache .import_linter_cache .coverage .coverage.* build dist
	@find src tests bench examples scripts -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
