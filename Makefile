# What more GPUs buy, and where the time goes. `make help` lists what there is.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
FIRST_PAGE := report/recorded-two-gpus.html
RECORDED := $(FIRST_PAGE) report/recorded.html

# The default study where CUDA GPUs are visible, the laptop's where none is. Or: make report CONFIG=config/mine.yaml
CONFIG ?=
# How often the study is measured, in place of its own `runs`: make report RUNS=5. Only runs that are missing are measured.
RUNS ?=

# Some containers set it. Every process would then compile torch anew, which takes it longer than to load it.
unexport PYTHONDONTWRITEBYTECODE

# Another build of torch than the pinned one, as words for pip, or `none`; remembered until make clean.
# Older GPUs and drivers need it: docs/cluster.md. For example
#   make env TORCH="torch==2.8.0 torchvision==0.23.0"
CHOSEN := $(VENV)/.torch
TORCH ?= $(shell cat $(CHOSEN) 2>/dev/null)

comma := ,

.DEFAULT_GOAL := help
.PHONY: help env lock report assignment unlock example check test test-times test-slurm test-frameworks lint format site bench clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' Makefile

$(CHOSEN): FORCE
	@mkdir -p $(VENV)
	@echo "$(TORCH)" | cmp -s - $@ || echo "$(TORCH)" > $@

FORCE:

# uv installs in a third of pip's time: the one on PATH, or one that pip brings. Where uv cannot, pip does it.
UV = $(shell command -v uv || ls $(BIN)/uv 2> /dev/null)
PIP := $(BIN)/python -m pip install -qq
# Installs what the words $(1) name.
define install
	@$(if $(UV),$(UV) pip install --quiet --python $(BIN)/python $(1) || )$(PIP) $(1)
endef
# Installs the pins of a file, but for torch's where another build was chosen.
define install_pins
	@$(if $(strip $(TORCH)),grep -vE '^torch(vision)?==',cat) $(1) > $(VENV)/$(1)
	$(call install,--requirement $(VENV)/$(1))
endef

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version)'
	@echo "Installing $(if $(filter none,$(TORCH)),Snakemake and what else login nodes run into $(VENV): a minute,torch$(comma) Snakemake and what else a study runs into $(VENV): a minute$(comma) 6 GB with torch's CUDA)"
	@$(PYTHON) -m venv $(VENV)
	@command -v uv > /dev/null || $(PIP) $$(grep -o '^uv==[^ ]*' requirements-dev.txt) || true

# Python compiles a module when it is first loaded: the second core does so while the page of recorded GPUs is made.
$(READY): requirements.txt pyproject.toml $(CHOSEN) | $(BIN)/python
	$(if $(filter-out none,$(TORCH)),$(call install,$(TORCH)))
	$(call install_pins,requirements.txt)
	$(call install,--no-deps --editable .)
	@$(BIN)/python -c 'import snakemake.cli, torch._dynamo, torchvision' > /dev/null 2>&1 &
	@touch $@

$(READY)-dev: requirements-dev.txt $(READY)
	$(call install_pins,requirements-dev.txt)
	@touch $@

env: $(READY)  ## Set up .venv and no more; TORCH="..." chooses another build of torch, TORCH=none leaves it out

lock: $(READY)-dev  ## Pin requirements anew from pyproject.toml; UPGRADE="--upgrade-package NAME" raises one pin (10 s)
	$(UV) pip compile pyproject.toml --extra measure --extra workflow $(UPGRADE) --output-file requirements.txt
	$(UV) pip compile pyproject.toml --all-extras --constraint requirements.txt $(UPGRADE) --output-file requirements-dev.txt

report: STUDY := config/quick.yaml
report: WITHOUT_GPU := config/laptop.yaml
report: SHOW := summary
report: $(READY) $(FIRST_PAGE)  ## Measure the study that fits this machine, and render its page (laptop: 3 min); CONFIG= another study, RUNS=5 so many runs

assignment: STUDY := config/assignment.yaml
assignment: SHOW := handin --out handin
assignment: $(READY)  ## The same for the assignment's grid, and write handin/report.tex and report.md; RUNS= as for report

report assignment:
	@$(BIN)/python -m dpscale.run "$(CONFIG)" $(STUDY) "$(WITHOUT_GPU)" "$(RUNS)" $(SHOW)
	$(if $(filter report,$@),@echo "Recorded on GPUs: $(FIRST_PAGE)")

unlock: $(READY)  ## Free the folder after a run was killed (no other run may be going on here)
	$(BIN)/snakemake --unlock --cores 1 --configfile $(or $(CONFIG),config/laptop.yaml)

# Pages that are there at once: tables, charts and page of recorded GPUs, made again when their code changes.
$(RECORDED): report/%.html: $(READY) $(shell find workflow/dpscale config/published -type f -not -name '*.pyc') config/%.yaml
	$(if $(filter recorded,$*),@$(BIN)/dpscale audit config/published/*.yaml --out results/$*/audit > /dev/null)
	@$(BIN)/dpscale tables config/$*.yaml --results results/$* --out results/$*/tables > /dev/null
	@$(BIN)/dpscale report config/$*.yaml --tables results/$*/tables --out $@ --charts results/$*/charts > /dev/null

.PHONY: shown
shown:
	@echo "A recorded study of two GPUs, to open now: docs/example.html. Its tables and pages are made anew:"

example: shown $(RECORDED)  ## Show a recorded page at once; then tables and pages of two studies, without a GPU (20 s)
	@for study in $(RECORDED:report/%.html=%); do echo "$$study:"; $(BIN)/dpscale summary config/$$study.yaml; echo; done

# What the page is opened in, what its validator runs on, and what sets its tables. Where they cannot be installed,
# tests say what is missing.
.PHONY: tools slurm
tools:
	@if command -v chromium-headless-shell > /dev/null && command -v java > /dev/null && command -v pdflatex > /dev/null; then exit; fi; \
	if [ $$(id -u) = 0 ] && command -v apt-get > /dev/null && apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
			chromium-headless-shell fonts-dejavu default-jre-headless texlive-latex-base > /dev/null; \
	then echo "Installed Chromium, Java and LaTeX for the tests of the page"; \
	else echo "Chromium, Java or LaTeX is missing, and only root can install them: tests of the page are skipped"; fi

# A file of tests is never split between processes: what is expensive is made once. Those that take longest come first
# (tests/conftest.py). Where tests wait for processes of their own, further ones use the time.
PYTEST := $(BIN)/python -m pytest
IN := --dist loadfile --no-loadscope-reorder --numprocesses

check: $(READY)-dev  ## Run the tests that start no process, no browser and no Snakemake (1 min)
	$(PYTEST) $(IN) 2 -m "not (processes or snakemake or browser or slurm or gpu or slow or alone)" \
		--ignore tests/browser --ignore tests/slurm --ignore tests/gpu

# Nothing may run beside tests of what a clock says; where there are GPUs, those are many.
test: $(READY)-dev tools  ## Run every test that this machine can run, but for Slurm's and those of times (4 min)
	@gpus=$$($(BIN)/python -m dpscale.measure.watch.nvml) && \
	if [ "$$gpus" -gt 0 ]; then $(PYTEST) -m "not slurm"; \
	else $(PYTEST) $(IN) 3 -m "not (slurm or alone)"; fi

test-times: $(READY)-dev  ## Run the tests that judge times, one by one (2 min)
	$(PYTEST) tests/measure tests/diagnosis tests/audit -m alone

slurm:
	@if [ $$(id -u) != 0 ]; then echo "A throwaway Slurm is started by root alone: nothing was tested" >&2; exit 1; fi; \
	if ! command -v slurmctld > /dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
			slurmctld slurmd slurm-client slurmdbd munge mariadb-server > /dev/null && \
		echo "Installed Debian's Slurm, munge and MariaDB for the tests on a Slurm" || exit; \
	fi

test-slurm: $(READY)-dev slurm  ## Run the tests on a throwaway Slurm, as root; installs Debian's packages (3 min)
	$(PYTEST) $(IN) 6 -m slurm tests/slurm

# In an environment of their own: they bring a hundred packages, and a torch that they agree with.
FRAMEWORKS := $(VENV)-frameworks
$(FRAMEWORKS)/.ready: pyproject.toml
	$(PYTHON) -m venv $(FRAMEWORKS)
	$(FRAMEWORKS)/bin/python -m pip install --quiet torch \
		$$(sed -n '/^frameworks = \[/,/^\]/s/^ *"\(.*\)",/\1/p' pyproject.toml)
	@touch $@

test-frameworks: $(READY)-dev $(FRAMEWORKS)/.ready  ## Run the tests inside accelerate, Lightning and transformers, which it installs (5 min)
	FRAMEWORKS=$(abspath $(FRAMEWORKS))/bin/python $(PYTEST) tests/frameworks

lint: $(READY)-dev  ## Check the code: ruff, mypy, import-linter, snakefmt, snakemake --lint (1 min)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/snakefmt --check Snakefile workflow/rules
	$(BIN)/python workflow/lint.py config/config.yaml config/laptop.yaml

format: $(READY)-dev  ## Format the code, and make tables in documents anew
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt Snakefile workflow/rules
	$(BIN)/python docs/made.py

site: $(READY)-dev  ## Build the documentation site with the gallery of recorded studies: build/site/index.html (1 min)
	@$(BIN)/python -m sphinx -W --keep-going --quiet -c docs . build/site
	@echo "Documentation: build/site/index.html"

bench: $(READY)-dev  ## Fixed cost of a cell, ten thousand cells, and Slurm (as root), each against a baseline (10 min)
	$(BIN)/python bench/cell_overhead.py
	$(BIN)/python bench/many_cells.py
	@if [ $$(id -u) = 0 ] && command -v slurmctld > /dev/null; then $(BIN)/python bench/slurm_overhead.py; \
	else echo "slurm_overhead: not run, it needs root and Debian's Slurm"; fi

clean:  ## Remove the environment; results and pages stay
	rm -rf $(VENV)
