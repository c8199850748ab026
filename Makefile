# What more GPUs buy, and what eats the rest. `make help` lists what there is.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# The default study where CUDA GPUs are visible, the laptop's where none is. Or: make report CONFIG=config/mine.yaml
CONFIG ?=

.DEFAULT_GOAL := help
.PHONY: help report unlock example test lint format bench clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' Makefile

$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --requirement requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

report: $(READY)  ## Measure the study that fits this machine, and render its page
	@gpus=$$($(BIN)/python -m dpscale.measure.hardware) && \
	config="$(CONFIG)" && \
	if [ -z "$$config" ]; then \
	  if [ "$$gpus" -gt 0 ]; then config=config/config.yaml; else config=config/laptop.yaml; fi; \
	fi && \
	echo "$$gpus CUDA GPUs here; the study is $$config" && \
	$(BIN)/snakemake --cores all --keep-going --rerun-incomplete --show-failed-logs --quiet host reason \
	  --configfile $$config --config gpus_available=$$gpus && \
	$(BIN)/dpscale summary --study $$config

unlock: $(READY)  ## Free the folder after a run was killed (no other run may be going on here)
	$(BIN)/snakemake --unlock --cores 1 --configfile $(or $(CONFIG),config/laptop.yaml)

example: $(READY)  ## Tables and page of the recorded study, without a GPU
	@$(BIN)/dpscale tables --study config/recorded.yaml --results results/recorded --out results/recorded/tables
	@$(BIN)/dpscale report --study config/recorded.yaml --tables results/recorded/tables --out report/recorded.html
	@$(BIN)/dpscale summary --study config/recorded.yaml

test: $(READY)  ## Run every test that this machine can run
	$(BIN)/python -m pytest

lint: $(READY)  ## Check the code: ruff, mypy, snakefmt, snakemake --lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow/rules
	$(BIN)/python workflow/lint.py config/config.yaml config/laptop.yaml

format: $(READY)  ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt Snakefile workflow/rules

bench: $(READY)  ## Fixed cost of a cell, and ten thousand cells, each against a baseline
	$(BIN)/python bench/cell_overhead.py
	$(BIN)/python bench/many_cells.py

clean:  ## Remove the environment; results and pages stay
	rm -rf $(VENV)
