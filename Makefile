# covdp: every target works on a fresh clone; the environment in .venv is made once and reused.
VENV := .venv
ifeq ($(OS),Windows_NT)
PYTHON ?= py -3
BIN := $(VENV)/Scripts
else
PYTHON ?= python3
BIN := $(VENV)/bin
endif
# all that covdp imports is compiled once, here: where PYTHONDONTWRITEBYTECODE is set, each command
# would compile it again, for five seconds; --no-build-isolation, below, spares a second environment
# for the one package that builds this one
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# uv unpacks in seconds what takes pip half a minute, but does not know what pip was told: where that
# is an index, a proxy or none of either, and where uv fails, pip installs
TOLD := $(BIN)/python -m pip config list | grep -Eq '[.](index-url|no-index|proxy)='
UV := UV_HTTP_TIMEOUT=15 UV_HTTP_RETRIES=1 $(BIN)/uv pip install --quiet --system-certs \
  --compile-bytecode --python $(BIN)/python --constraint constraints.txt
OLDEST := .venv-oldest
# whoever reads on after `make run` misses no format and no command
EXTRAS := hospital,nights,papers,partners
# what numbers rest on, and what documents promise; no file needs a component beside .venv
QUICK := $(addprefix tests/,privacy geometry mechanisms mean descriptors results \
  cli/test_cli.py experiments/test_config.py test_docs.py test_structure.py)
# what the part for the oldest is run with; what needs another component is skipped there, under CI
# too: torchvision, a browser, a PostgreSQL server and an S3 server
TESTING := pytest pytest-timeout pytest-xdist hypothesis mpmath psutil pyriemann playwright \
  pyyaml altair
PORTABLE := $(foreach name,cli config jobs serve npz folder table dicom dicom_masks series \
  hostile_dicom volumes masks nifti fetch card descriptors store laws_manifold laws_mechanism \
  laws_privacy calibration private_mean persons inference regions stream terms methods results \
  figures report site history several several_pages publish ledger ledger_streams nights planning \
  printing mcmc linalg,$(wildcard tests/*/test_$(name).py tests/*/*/test_$(name).py tests/*/*/*/test_$(name).py))
export DO_NOT_TRACK := 1

.DEFAULT_GOAL := help
.PHONY: help run quick docs test lint types contracts check tests guides ground oldest bench mutants format constraints clean

help:  ## Show what there is to do
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 14

run: $(VENV)/.run  ## The main job on public images, a flow of Prefect: Parquet and report
	@$(BIN)/python -m flows

quick: export PYTHONDONTWRITEBYTECODE :=
quick: export OPENBLAS_NUM_THREADS := 1
quick: export NUMBA_NUM_THREADS := 1
quick: $(VENV)/.dev  ## A part of the suite, half a minute on two cores
	@$(BIN)/python -m pytest --quiet --numprocesses 2 --dist worksteal -m 'not slow' $(QUICK)

# what no longer changes is not kept: docstrings and help are read anew, notebooks run again
docs: export OPENBLAS_NUM_THREADS := 1
docs: export NUMBA_NUM_THREADS := 1
docs: $(VENV)/.docs  ## The guides as a site that needs no network: tutorials, how-to, reference, explanation
	@$(BIN)/python -m sphinx --quiet --fail-on-warning --fresh-env reports/site reports/output/site
	@echo "guides   file://$(CURDIR)/reports/output/site/index.html"

test: check tests  ## Lint, types, contracts and the whole test suite

check: lint types contracts

lint: $(VENV)/.dev  ## Style of code and docstrings
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/numpydoc lint $$(find pipeline flows -name '*.py')

# the link tells type checkers, which do not ask how `covdp` is installed, where it is
types: $(VENV)/.dev  ## Strict types of pipeline and flows
	@mkdir -p .types && ln -sfn ../pipeline .types/covdp
	@$(BIN)/mypy

contracts: $(VENV)/.dev  ## Who may import whom
	@$(BIN)/lint-imports --no-logo

# nothing was compiled when it was installed, and a hundred processes of the suite import it; two of
# them keep two cores busy, with one thread each: a third would import and collect all once more
tests: export PYTHONDONTWRITEBYTECODE :=
tests: export OPENBLAS_NUM_THREADS := 1
tests: export NUMBA_NUM_THREADS := 1
tests: $(VENV)/.dev  ## The test suite alone; gets a browser and a PostgreSQL first
	@$(BIN)/python -m tests.tools.components
	@$(BIN)/python -m tests.tools.once
	@$(BIN)/python -m pytest --numprocesses 2 --dist worksteal -m 'not guides'

# as a reader does: each command is a process of its own
guides: export OPENBLAS_NUM_THREADS := 1
guides: export NUMBA_NUM_THREADS := 1
guides: $(VENV)/.dev  ## The tests of the guides: tutorials and notebooks run, the site is whole; a minute
	@$(BIN)/python -m tests.tools.components
	@$(BIN)/python -m pytest --numprocesses 2 --dist worksteal -m guides tests/test_guides.py

ground: export OPENBLAS_NUM_THREADS := 1
ground: export NUMBA_NUM_THREADS := 1
ground: $(VENV)/.dev  ## The tests of the ground floor, in a copy of the tree without add-ons
	@$(BIN)/python -m tests.tools.ground

oldest:  ## A part of the suite with the oldest dependencies that are supported
	@test -e $(OLDEST)/.made || { $(PYTHON) -m venv $(OLDEST) && $(OLDEST)/bin/python -m pip install \
	  --quiet --disable-pip-version-check --constraint tests/oldest.txt setuptools $(TESTING) && \
	  $(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation \
	  --constraint tests/oldest.txt --editable '.[$(EXTRAS),dask,postgres]' && touch $(OLDEST)/.made; }
	@CI= $(OLDEST)/bin/python -m pytest --quiet $(PORTABLE)

bench: $(VENV)/.dev  ## Ours against peers, side by side in one run
	@$(BIN)/python -m tests.tools.benchmarks

mutants: $(VENV)/.dev  ## Break the release path line by line; every break must fail a test (ten minutes)
	@$(BIN)/python -m tests.tools.mutants

format: $(VENV)/.dev  ## Put code in order
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format .

constraints: $(VENV)/.dev  ## Write constraints.txt, and a lock with hashes, from the environment that passed the tests
	@$(BIN)/python -m pip freeze --exclude-editable | sed -E 's/\+cpu$$//' | grep -E '^[A-Za-z0-9_.-]+==' > constraints.txt
	@$(BIN)/uv pip compile --quiet pyproject.toml --constraint constraints.txt --universal --python-version 3.11 \
	  --extra hospital --extra join --extra nights --extra papers --extra partners --generate-hashes --no-emit-index-url --no-header --no-annotate --output-file .ci/lock.txt

clean:  ## Remove the environment and all outputs
	rm -rf $(VENV) $(OLDEST) reports/output covdp-output .types .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

$(VENV)/pyvenv.cfg:
	@echo "Making the environment in $(VENV) (once; a minute, for the tests some more)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "covdp needs Python 3.11 or newer; choose one with make PYTHON=python3.12" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 2; }

$(VENV)/.run: pyproject.toml constraints.txt | $(VENV)/pyvenv.cfg
	@$(PIP) 'setuptools>=77' uv
	@{ ! $(TOLD) && $(UV) --no-build-isolation --editable '.[$(EXTRAS)]'; } || \
	  $(PIP) --no-build-isolation --editable '.[$(EXTRAS)]'
	@find pipeline -name '*.nb[ic]' -delete  # code that an older version compiled
	@$(BIN)/python -m compileall -q pipeline flows
	@touch $@

$(VENV)/.docs: $(VENV)/.run
	@{ ! $(TOLD) && $(UV) --no-build-isolation --editable '.[$(EXTRAS),docs]'; } || \
	  $(PIP) --no-build-isolation --editable '.[$(EXTRAS),docs]'
	@touch $@

# by pip, which may have been told where a build of torch without CUDA is; the tests compile what
# they import, and most of torch they never do; a peer of the tests is built here as well
$(VENV)/.dev: $(VENV)/.run
	@$(PIP) --no-compile --no-build-isolation --editable '.[dev]'
	@touch $@
