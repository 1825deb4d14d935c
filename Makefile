# The commands of the kit. `make` alone lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help reproduce check test test-apps smoke lint lab docs bench base-models

VENV := .venv
PY := $(VENV)/bin/python
CODA := $(PY) -m coda_study.cli.main
INSTALLED := $(VENV)/installed
TORCH := $(shell sed -n 's/.*"\(torch==[^"]*\)".*/\1/p' pyproject.toml)
GPU := $(wildcard /dev/nvidiactl /dev/dxg)
TORCH_INDEX ?=
SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))
PYTHON ?= $(firstword $(foreach name,python3 python3.13 python3.12 python3.11,\
	$(shell $(name) -c '$(SUPPORTED)' 2> /dev/null && echo $(name))))
PIP := $(PY) -m pip install -qq --disable-pip-version-check
QT_PACKAGES := libegl1 libgl1 libxkbcommon0 libfontconfig1 libdbus-1-3 libglib2.0-0

help:  ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 20

reproduce: $(INSTALLED)  ## run the study in the laptop profile: tables, figures and report in results/laptop
	@$(CODA) reproduce --profile laptop

check: $(INSTALLED)  ## a quick check: a tiny study and the committed tables against expected values, each line ok or off
	@$(CODA) check

test: lint  ## lint, unit tests, then every notebook in the smoke profile
	@echo "unit tests"
	@set -o pipefail; $(PY) -m pytest -q --numprocesses auto --maxprocesses 4 --dist loadfile | tee $(VENV)/pytest.log
	@echo "every notebook, smoke profile"
	@$(CODA) reproduce --profile smoke --until everything --fresh
	@echo "lint, unit tests and smoke run passed; unit tests: $$(tail -n 1 $(VENV)/pytest.log)"

test-apps: $(INSTALLED)  ## the tests of all real applications that are installed (coda apps install)
	@$(PY) -m pytest -q -m "apps or not apps" tests/sciencedesk/real

smoke: $(INSTALLED)  ## run every notebook in the smoke profile, keeping what is up to date
	@$(CODA) reproduce --profile smoke --until everything

lint: $(INSTALLED)  ## check the style, and which module imports which (.importlinter)
	@echo "lint"
	@$(PY) -m ruff check --quiet .
	@$(VENV)/bin/lint-imports --no-cache > $(VENV)/imports.log || { cat $(VENV)/imports.log; exit 1; }

lab: $(INSTALLED)  ## open the notebooks in JupyterLab
	@if [ "$$(id -u)" = 0 ] && [ -z "$(ARGS)" ]; then echo "JupyterLab runs no code as root, who may do anything: be" \
		"another user, or in a container of your own: make lab ARGS=--allow-root"; exit 1; fi
	@$(PY) -m jupyter lab notebooks $(ARGS)

docs: $(INSTALLED)  ## build docs/ and a run's notebooks, report and episodes (RUN=laptop; default: the newest finished) into build/book
	@RUN=$(RUN) NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet
	@echo "build/book/index.html"

bench: $(INSTALLED)  ## for maintainers: speed and memory here (ARGS=--apps, --fleet, or '--training --size 3b')
	@$(PY) -m tools.bench $(ARGS)

base-models: $(INSTALLED)  ## train the laptop's base models from scratch (half a day or more; replaces data/checkpoints)
	@$(CODA) reproduce --profile laptop --run base-models --until base_models

$(INSTALLED): pyproject.toml requirements.lock
	@test -n "$(PYTHON)" || { echo "Python 3.11, 3.12 or 3.13 is needed; name one with: make PYTHON=/path/to/python"; exit 1; }
	@$(PYTHON) -c '$(SUPPORTED)' || { echo "$(PYTHON) is not 3.11, 3.12 or 3.13: name another with make PYTHON="; exit 1; }
	@test -x $(PY) || { echo "creating $(VENV)"; $(PYTHON) -m venv $(VENV) || \
		{ rm -rf $(VENV); echo "$(PYTHON) cannot create one: on Debian or Ubuntu, apt-get install python3-venv"; exit 1; }; }
	@echo "installing the locked packages into $(VENV) (some minutes the first time)"
	@$(PIP) --no-deps --requirement requirements.lock
	@if [ -z "$(GPU)" ] && $(PIP) $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) "$(TORCH)+cpu" 2> /dev/null; then \
		echo "PyTorch: the build for CPUs, for no NVIDIA GPU is here"; \
	else \
		$(if $(GPU),,echo "pip finds no PyTorch for CPUs alone; with TORCH_INDEX=... (the address on PyTorch's page of installing) it would";) \
		echo "PyTorch: the default build of this platform; on Linux with CUDA, some 2.7 GB"; $(PIP) $(TORCH); \
	fi
	@$(PIP) --no-deps --no-build-isolation --editable .
	@$(PY) -m pip check > $(VENV)/check.log || { cat $(VENV)/check.log; exit 1; }
	@problem=$$($(PY) -c 'from PySide6 import QtGui, QtTest, QtWidgets' 2>&1) || { echo "$$problem" | tail -n 1; \
		echo "Qt lacks system libraries; on Debian or Ubuntu: apt-get install $(QT_PACKAGES)"; exit 1; }
	@echo "installed: $$(du -sh $(VENV) | cut -f1)"
	@touch $@
