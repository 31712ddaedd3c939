PYTHON ?= python3
BIN := .venv/bin
MODEL ?= weights/demo

.PHONY: help setup serve test lint format check-real bench clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

setup: .venv/setup  ## make .venv and install the node with pinned versions

.venv/setup: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed; name one: make PYTHON=python3.12 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -c constraints.txt -e .
	@touch $@

.venv/test: .venv/setup
	$(BIN)/pip install --quiet -c constraints.txt -e '.[test]'
	@touch $@

serve: .venv/setup  ## start the node on the demo model at http://127.0.0.1:8080
	@test -s .b3os-key || (umask 077 && $(BIN)/python -c 'import secrets; print("b3os_" + secrets.token_urlsafe(24))' > .b3os-key)
	@echo "export B3OS_API_KEY=$${B3OS_NODE_API_KEY:-$$(cat .b3os-key)}"
	@B3OS_NODE_API_KEY="$${B3OS_NODE_API_KEY:-$$(cat .b3os-key)}" $(BIN)/b3os-node serve --model $(MODEL)

test: .venv/test lint  ## install the test extra, lint, type-check and run the suite
	$(BIN)/python -m pytest

lint: .venv/test  ## ruff, mypy and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/test  ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

check-real: .venv/test  ## heavier checks; B3OS_REAL_MODEL=FOLDER and B3OS_CLAUDE=EXECUTABLE name what some of them need
	$(BIN)/python -m pytest -m real -rs tests

bench: .venv/test  ## run the bench registry (B3OS_REAL_MODEL=FOLDER for the rows that need weights)
	$(BIN)/python -m bench.run

clean:  ## remove .venv and caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
