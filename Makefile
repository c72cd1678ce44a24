# make demo     trains a small network on real digits and draws what it learnt
# make test     runs the quick tests
# make lint     formatting, style and types;  make format mends what can be mended
# make docs     the pages, in out/docs
# make bench    speed beside the peers that are installed
# make dev      builds the extension into python/megengine of this checkout, for PYTHONPATH=python
#
# All but dev do their own set-up in .venv: a machine needs Python 3.11 or later, a C++ compiler
# (g++ >= 12 or clang >= 15) and make. PYTHON=... picks the interpreter.
SHELL := bash
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
            $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
NATIVE := CMakeLists.txt $(shell find core bindings cmake tests/cpp -type f 2>/dev/null)
CXX_FILES = $$(git ls-files '*.cpp' '*.h')

.PHONY: demo test lint format docs bench dev clean

demo: $(VENV)/.installed
	$(BIN)/python examples/digits.py

test: $(VENV)/.installed
	$(BIN)/ctest --test-dir "$$(cat $(VENV)/.build-dir)" --output-on-failure --no-tests=error
	$(BIN)/python -m pytest

lint: $(VENV)/.linters
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(CXX_FILES)
	$(BIN)/mypy

format: $(VENV)/.linters
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CXX_FILES)

docs: $(VENV)/.documenters
	$(BIN)/sphinx-build -q -W -b html docs out/docs

bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks

dev:
	tools/dev.sh dev

clean:
	rm -rf build $(VENV) out

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later was not found: make PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# What the build needs is installed beside the package and kept, so that a second build compiles
# only what changed.
$(VENV)/.tools: pyproject.toml | $(BIN)/python
	$(BIN)/python tools/requirements.py build > $(VENV)/build.txt
	$(PIP) install -r $(VENV)/build.txt
	touch $@

# Editable: what changes in Python files counts at once. The tests of the core without Python are
# built with it, from the same objects.
$(VENV)/.installed: $(VENV)/.tools $(NATIVE)
	$(BIN)/python -c 'import sys; print(f"build/venv-cp{sys.version_info[0]}{sys.version_info[1]}")' > $(VENV)/.build-dir
	PATH="$(abspath $(BIN)):$$PATH" $(PIP) install --no-build-isolation --editable '.[test]' \
	  -C build-dir="$$(cat $(VENV)/.build-dir)" -C cmake.define.MGE_BUILD_TESTS=ON
	touch $@

$(VENV)/.linters: $(VENV)/.installed
	$(BIN)/python tools/requirements.py lint > $(VENV)/lint.txt
	$(PIP) install -r $(VENV)/lint.txt
	touch $@

$(VENV)/.documenters: $(VENV)/.installed
	$(BIN)/python tools/requirements.py docs > $(VENV)/docs.txt
	$(PIP) install -r $(VENV)/docs.txt
	touch $@
