# Everything a newcomer needs, from Python 3.11+ and make alone. `make` or `make help` lists the targets.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
ARGS   ?=

.DEFAULT_GOAL := help
.PHONY: help demo test check fix schema bench clean

help: ## List the targets
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Holdfast needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group dev
	@touch $@

demo: $(VENV)/.installed ## Start a private PostgreSQL, run jobs through it, show what happened
	$(BIN)/holdfast demo $(ARGS)

test: check ## Check and test everything (ARGS='-k claim' goes to pytest)
	$(BIN)/python -m pytest $(ARGS)

check: $(VENV)/.installed ## Lint, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

fix: $(VENV)/.installed ## Format the code and mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

schema: $(VENV)/.installed ## Describe the installation anew after a change of its SQL
	HOLDFAST_WRITE_SCHEMA=1 $(BIN)/python -m pytest --quiet tests/engine/test_schema.py
	$(BIN)/python -m holdfast.engine.reference > docs/reference/sql.md

bench: $(VENV)/.installed ## Measure the engine (ARGS='--json' for one line)
	$(BIN)/holdfast bench claim $(ARGS)

clean: ## Remove everything the other targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
