# Everything a newcomer needs, from Python 3.11+ and make alone. `make` or `make help` lists the targets.
# What has --json is run with @, so that stdout has the JSON and nothing else.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
ARGS   ?=
SCENARIO ?= all

.DEFAULT_GOAL := help
.PHONY: help demo ui test stress pgbouncer chromium check fix fuzz pace schema bench peers gauntlet lock audit clean

help: ## List the targets
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Holdfast needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..."; exit 1; }
	@echo "Installing Holdfast and what it is developed with into $(VENV)" >&2
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group dev
	@touch $@

demo: $(VENV)/.installed ui ## Start a private PostgreSQL, run jobs through it, show what happened
	$(BIN)/holdfast demo $(ARGS)

# Done in a moment where the sources have not changed.
ui: $(VENV)/.installed ## Build the dashboard, with Node from the PATH or from PyPI
	@$(BIN)/python src/holdfast/web/ui/build.py

test: check ui pgbouncer chromium ## Check and test everything (ARGS='-k claim' goes to pytest)
	$(BIN)/python -m pytest -n 2 --dist loadfile $(ARGS)

stress: $(VENV)/.installed pgbouncer ## Take minutes to break the queue, and say what was seen (ARGS='-k memory' for a part)
	$(BIN)/python -m pytest -m stress -s tests/queue tests/web/streams tests/worker $(ARGS)

# No file of ours to depend on: the script is done in a moment where there is nothing to do.
pgbouncer:
	@sh tests/install_pgbouncer.sh >&2

chromium:
	@sh tests/install_chromium.sh >&2

check: $(VENV)/.installed ## Lint, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

fix: $(VENV)/.installed ## Format the code and mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

fuzz: $(VENV)/.installed ## Take five minutes to find a request that the HTTP API cannot answer as its document says
	HOLDFAST_FUZZ_S=300 $(BIN)/python -m pytest -s -o faulthandler_timeout=0 tests/web/test_fuzz.py $(ARGS)

pace: $(VENV)/.installed ## Measure every list of the HTTP API among 1,210,000 jobs
	$(BIN)/python -m tests.web.pace

schema: $(VENV)/.installed ## Draw the reference pages anew after a change of SQL or of docstrings
	HOLDFAST_WRITE_SCHEMA=1 $(BIN)/python -m pytest --quiet tests/engine/test_schema.py
	$(BIN)/python -m holdfast.engine.reference > docs/reference/sql.md
	$(BIN)/python -m holdfast.queue.reference > docs/reference/queue.md
	$(BIN)/python -m holdfast.cli.reference > docs/reference/cli.md
	$(BIN)/python -m holdfast.web.document > docs/reference/openapi.json

bench: $(VENV)/.installed ## Measure everything, or SCENARIO=drain (ARGS='--json' for lines of JSON)
	@$(BIN)/holdfast bench $(SCENARIO) $(ARGS)

peers: $(VENV)/.installed ## Measure beside other job queues (ARGS='--only pgqueuer,holdfast --jobs 20000')
	$(BIN)/python -m bench.peers $(ARGS)

gauntlet: $(VENV)/.installed pgbouncer ## Prove that nothing is lost: load, faults, a checker (ARGS='--minutes 3 --json')
	@sh gauntlet/install_tools.sh >&2
	@$(BIN)/python -m gauntlet $(ARGS)

lock: ## Write requirements.lock anew: every dependency, with hashes, for every platform
	$(PYTHON) tools/dependencies.py lock

audit: ## Ask what is known against the versions of the lock; not being answered is not a pass
	$(PYTHON) tools/dependencies.py audit

clean: ## Remove everything the other targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist bench/peers/.cache src/holdfast/web/dist src/holdfast/web/ui/node_modules
