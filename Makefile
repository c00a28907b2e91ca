# Two commands are enough: `make up` runs the product, `make test` tests it. Both make what they need in .venv first.

PYTHON ?= python3
BIN := .venv/bin
MANAGE := $(BIN)/python manage.py
# Complete locks with hashes: pip has nothing to decide, and its own configuration says where packages come from.
INSTALL := $(BIN)/python -m pip install -qq --no-input --disable-pip-version-check --no-deps --require-hashes

.DEFAULT_GOAL := help
.PHONY: help up demo test check bench lock chromium

help:
	@echo "make up      run Rerail: servers, web, reaper and workers (Ctrl-C stops everything)"
	@echo "make demo    train a model, kill its worker on the way, and see the job resumed"
	@echo "make test    run all tests"
	@echo "make check   lint, types, imports, migrations"
	@echo "make bench   measure"
	@echo "make lock    resolve the dependencies anew"

up: .venv/run-ready
	@exec $(BIN)/python -m stack

demo: .venv/run-ready
	@exec $(MANAGE) demo

test: .venv/dev-ready chromium
	$(BIN)/python -m pytest $(PYTEST_ARGS)

bench: .venv/dev-ready
	$(BIN)/python -m pytest -m benchmark -s $(PYTEST_ARGS)

check: .venv/dev-ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MANAGE) makemigrations --check --dry-run
	$(MANAGE) check

lock: .venv/dev-ready
	$(BIN)/uv pip compile --quiet --upgrade $(LOCK_OPTIONS) pyproject.toml --output-file requirements.lock
	$(BIN)/uv pip compile --quiet --upgrade $(LOCK_OPTIONS) --group dev --constraint requirements.lock pyproject.toml --output-file requirements-dev.lock

LOCK_OPTIONS := --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --custom-compile-command "make lock"

.venv/run-ready: requirements.lock .venv/bin/python
	@echo "Installing what Rerail needs into .venv; this takes half a minute, once."
	@$(INSTALL) -r requirements.lock
	@touch $@

.venv/dev-ready: requirements-dev.lock .venv/bin/python
	@echo "Installing what the tests and checks need into .venv; this takes a minute, once."
	@$(INSTALL) -r requirements-dev.lock
	@touch $@ .venv/run-ready

# Looked for, but not compared by age: it is a link to an interpreter that the system may renew.
.venv/bin/python: | python
	@$(PYTHON) -m venv .venv

.PHONY: python
python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "rerail: $(PYTHON) is not Python 3.11 or newer; say PYTHON=… after make to name one that is." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "rerail: $(PYTHON) lacks the modules venv and ensurepip (Debian: apt-get install python3-venv)." >&2; exit 1; }

# The browser tests drive the system's Chromium.
chromium:
	@command -v chromium >/dev/null || tools/install-chromium
