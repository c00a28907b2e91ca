# Two commands are enough: `make up` runs the product, `make test` tests it. Both make what they need in .venv first.

PYTHON ?= python3
BIN := .venv/bin
MANAGE := $(BIN)/python manage.py
# Each process has servers of its own; a file's tests stay together, as they share what is costly to start.
PARALLEL := -n 2 --dist loadfile

.DEFAULT_GOAL := help
.PHONY: help up demo test quick check bench lock

help:
	@echo "make up      run Rerail: servers, web, reaper and workers (Ctrl-C stops everything)"
	@echo "make demo    train a real model on the running stack, or on one of its own, and show its timeline"
	@echo "make test    run all tests; PYTEST_ARGS=… goes to pytest"
	@echo "make quick   run the tests that need no stack, no browser and little time"
	@echo "make check   lint, types, imports, migrations"
	@echo "make bench   measure"
	@echo "make lock    resolve the dependencies anew"

up: .venv/run-ready
	@exec $(BIN)/python -m stack

demo: .venv/run-ready
	@exec $(MANAGE) demo

test: .venv/dev-ready
	@command -v chromium >/dev/null || tools/install-chromium
	$(BIN)/python -m pytest $(PARALLEL) $(PYTEST_ARGS)

quick: .venv/dev-ready
	$(BIN)/python -m pytest $(PARALLEL) -m "not acceptance and not browser and not slow" $(PYTEST_ARGS)

bench: .venv/dev-ready
	$(BIN)/python -m tests.benchmarks $(BENCH_ARGS)

check: .venv/dev-ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -W ignore manage.py makemigrations --check --dry-run
	$(MANAGE) check

COMPILE = $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--custom-compile-command "make lock" pyproject.toml

lock: .venv/dev-ready
	$(COMPILE) --output-file requirements.lock
	$(COMPILE) --group dev --constraint requirements.lock --output-file requirements-dev.lock

# The interpreter counts too: when the system renews it, what was installed for the one before may be out of its sight.
INTERPRETER := $(wildcard $(BIN)/python)

.venv/run-ready: requirements.lock $(INTERPRETER)
	@PYTHON="$(PYTHON)" tools/make-venv requirements.lock
	@touch $@

.venv/dev-ready: requirements-dev.lock $(INTERPRETER)
	@PYTHON="$(PYTHON)" tools/make-venv requirements-dev.lock
	@touch .venv/run-ready $@
