# What more GPUs buy, and where the time goes. `make help` lists what there is.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# The default study where CUDA GPUs are visible, the laptop's where none is. Or: make report CONFIG=config/mine.yaml
CONFIG ?=

# Another build of torch than the pinned one, as words for pip, or `none`; remembered until make clean.
# Older GPUs and drivers need it: docs/cluster.md. For example
#   make env TORCH="torch==2.8.0 torchvision==0.23.0"
CHOSEN := $(VENV)/.torch
TORCH ?= $(shell cat $(CHOSEN) 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help env report assignment unlock example check test test-times test-slurm lint format bench clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

$(CHOSEN): FORCE
	@mkdir -p $(VENV)
	@echo "$(TORCH)" | cmp -s - $@ || echo "$(TORCH)" > $@

FORCE:

$(READY): requirements.txt pyproject.toml $(CHOSEN)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
ifeq ($(strip $(TORCH)),)
	$(BIN)/python -m pip install --quiet --requirement requirements.txt
else
	$(if $(filter-out none,$(TORCH)),$(BIN)/python -m pip install --quiet $(TORCH))
	grep -vE '^torch(vision)?==' requirements.txt > $(VENV)/without-torch.txt
	$(BIN)/python -m pip install --quiet --requirement $(VENV)/without-torch.txt
endif
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

env: $(READY)  ## Set up .venv and no more; TORCH="..." chooses another build of torch, TORCH=none leaves it out

report: STUDY := config/config.yaml
report: SHOW = summary --study $$config
report: $(READY)  ## Measure the study that fits this machine, and render its page (laptop: 5 min)

assignment: STUDY := config/assignment.yaml
assignment: SHOW = handin --study $$config --out handin
assignment: $(READY)  ## The same for the assignment's grid, and write handin/report.tex and report.md to hand in

report assignment:
	@gpus=$$($(BIN)/python -m dpscale.measure.watch.hardware) && \
	config="$(CONFIG)" && \
	if [ -z "$$config" ]; then \
	  if [ "$$gpus" -gt 0 ]; then config=$(STUDY); else config=config/laptop.yaml; fi; \
	fi && \
	echo "$$gpus CUDA GPUs here; the study is $$config" && \
	$(BIN)/snakemake --cores all --keep-going --rerun-incomplete --logger dpscale \
	  --configfile $$config --config gpus_available=$$gpus && \
	$(BIN)/dpscale $(SHOW)

unlock: $(READY)  ## Free the folder after a run was killed (no other run may be going on here)
	$(BIN)/snakemake --unlock --cores 1 --configfile $(or $(CONFIG),config/laptop.yaml)

example: $(READY)  ## Tables and page of the recorded study, without a GPU (20 s)
	@$(BIN)/dpscale audit config/published/*.yaml --out results/recorded/audit
	@$(BIN)/dpscale tables --study config/recorded.yaml --results results/recorded --out results/recorded/tables
	@$(BIN)/dpscale report --study config/recorded.yaml --tables results/recorded/tables --out report/recorded.html \
		--charts results/recorded/charts
	@$(BIN)/dpscale summary --study config/recorded.yaml

# What the page is opened in, what its validator runs on, and what sets its tables. Where they cannot be installed,
# tests say what is missing.
.PHONY: tools
tools:
	@if command -v chromium-headless-shell > /dev/null && command -v java > /dev/null && command -v pdflatex > /dev/null; then exit; fi; \
	if [ $$(id -u) = 0 ] && command -v apt-get > /dev/null && apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
			chromium-headless-shell fonts-dejavu default-jre-headless texlive-latex-base > /dev/null; \
	then echo "Installed Chromium, Java and LaTeX for the tests of the page"; \
	else echo "Chromium, Java or LaTeX is missing, and only root can install them: tests of the page are skipped"; fi

# Tests run in two processes, where a file of tests is never split: what is expensive is made once. Those that take
# longest come first (tests/conftest.py).
PYTEST := $(BIN)/python -m pytest
IN_TWO := --numprocesses 2 --dist loadfile --no-loadscope-reorder

check: $(READY)  ## Run the tests that start no process, no browser and no Snakemake (1 min)
	$(PYTEST) $(IN_TWO) --hypothesis-profile quick -m "not (processes or snakemake or browser or slurm or gpu or slow)" \
		--ignore tests/browser --ignore tests/slurm --ignore tests/gpu

# Nothing may run beside tests of what a clock says; where there are GPUs, those are many.
test: $(READY) tools  ## Run every test that this machine can run, but for Slurm's and those of times (7 min)
	@gpus=$$($(BIN)/python -m dpscale.measure.watch.hardware) && \
	if [ "$$gpus" -gt 0 ]; then $(PYTEST) -m "not slurm"; \
	else $(PYTEST) $(IN_TWO) -m "not (slurm or alone)"; fi

test-times: $(READY)  ## Run the tests that judge times: ladders and diagnoses of injected causes, links of known rates, one by one (5 min)
	$(PYTEST) tests/measure -m alone

test-slurm: $(READY)  ## Run the tests on a throwaway Slurm, as root; installs Debian's packages (9 min)
	@if [ $$(id -u) != 0 ]; then echo "A throwaway Slurm is started by root alone: nothing was tested"; exit; fi; \
	if ! command -v slurmctld > /dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
			slurmctld slurmd slurm-client slurmdbd munge mariadb-server > /dev/null && \
		echo "Installed Debian's Slurm, munge and MariaDB for the tests on a Slurm" || exit; \
	fi; \
	$(PYTEST) $(IN_TWO) -m slurm

lint: $(READY)  ## Check the code: ruff, mypy, snakefmt, snakemake --lint (1 min)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow/rules
	$(BIN)/python workflow/lint.py config/config.yaml config/laptop.yaml

format: $(READY)  ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt Snakefile workflow/rules

bench: $(READY)  ## Fixed cost of a cell, ten thousand cells, and Slurm (as root), each against a baseline (10 min)
	$(BIN)/python bench/cell_overhead.py
	$(BIN)/python bench/many_cells.py
	@if [ $$(id -u) = 0 ] && command -v slurmctld > /dev/null; then $(BIN)/python bench/slurm_overhead.py; \
	else echo "slurm_overhead: not run, it needs root and Debian's Slurm"; fi

clean:  ## Remove the environment; results and pages stay
	rm -rf $(VENV)
