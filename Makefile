# Every target sets up what it needs in .venv, once; it needs only Python >= 3.11 and make.
#   make demo          train, compare, save, on real data        make demo PEERS=1  with the libraries to compare with
#   make test          format, lint, types, tests                make test TESTS="tests/unit -k cuts"  some of the tests
#   make soak          random combinations of parameters and data, checked   make soak SECONDS=1200 SEED=7
#                      BOUNDS=1: with kernels that check every index, and so find what reads or writes beyond an array
#   make bench         every benchmark, then the README's table  make bench QUICK=1  small sizes, to see that they run
#   make test-gpu      same bytes on a CUDA device? A table, feature by feature: make test-gpu PYTHON=python3
#   make gpu-packages  what that needs, packed for a machine without a network: make gpu-packages FOR=3.12
#   make test-gpu-code   what a device runs, compiled by NVIDIA's compilers without one (half a GB): nothing is fused
#   make test-neighbours   tools that look for XGBoost, in .venv-neighbours; TORCH=1: those that need torch
#   make docs          docs/parameters.md from the parameter table
#   make site          the documentation site, into build/site
#   make release       wheel and sdist, built, checked and tried; stops before the upload
#   make format        rewrite the code in the house's format     make clean  remove what was made here

ifeq ($(OS),Windows_NT)
  BIN := .venv/Scripts
else
  BIN := .venv/bin
endif
RUN := $(BIN)/python
TESTS ?=
EXTRA := $(if $(PEERS),peers,base)

# The first interpreter that is new enough; PYTHON=... chooses another.
FIND_PYTHON = for name in "$(PYTHON)" python3 python python3.13 python3.12 python3.11; do \
    test -n "$$name" || continue; \
    "$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$name" && exit; \
  done; echo "no Python >= 3.11 found; name one: make PYTHON=/path/to/python3" >&2; exit 1

.PHONY: demo test test-gpu gpu-packages test-gpu-code test-neighbours soak lint format bench docs site release clean
.DELETE_ON_ERROR:

demo: .venv/ready-$(EXTRA)
	@$(RUN) -m arboost demo

test: lint
	$(RUN) -m pytest $(TESTS)

# Not in .venv: a machine with a device has its own Python with what belongs to the device. Fails where there is no device.
# With TESTS pytest runs some of tests/device, and no table is made.
test-gpu:
ifdef TESTS
	@PYTHONPATH=src ARBOOST_TEST_DEVICE=cuda $(or $(PYTHON),python3) -m pytest $(TESTS)
else
	@$(or $(PYTHON),python3) tools/test_gpu.py $(if $(ONLY),--only "$(ONLY)") $(if $(LOGS),--logs "$(LOGS)") $(if $(COLD),--cold)
endif

gpu-packages:
	@python="$$($(FIND_PYTHON))" && "$$python" tools/gpu_packages.py $(if $(FOR),--python $(FOR))

test-gpu-code: .venv-gpu-code/ready
	@NUMBA_ENABLE_CUDASIM=1 ARBOOST_TEST_DEVICE=simulator .venv-gpu-code/$(notdir $(BIN))/python -m pytest $(addprefix tests/device/test_,compiles.py keeping.py launches.py)

soak: .venv/ready-dev
	@$(if $(BOUNDS),NUMBA_BOUNDSCHECK=1) $(RUN) tests/soak.py --seconds $(or $(SECONDS),120) $(if $(SEED),--seed $(SEED)) $(if $(DRAW),--draw $(DRAW))

lint: .venv/ready-dev
	$(RUN) -m ruff format --check .
	$(RUN) -m ruff check .
	$(RUN) -m mypy

format: .venv/ready-dev
	$(RUN) -m ruff format .
	$(RUN) -m ruff check --fix .

bench: .venv/ready-dev
	$(RUN) benchmarks/run_all.py $(if $(QUICK),--quick)

docs: .venv/ready-dev
	$(RUN) -m arboost parameters > docs/parameters.new && mv docs/parameters.new docs/parameters.md

site: .venv/ready-dev
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict

release: .venv/ready-dev
	$(RUN) tools/release.py

# One file says that the environment exists, one per set of extras that it is filled; both follow pyproject.toml.
.venv/made:
	@$(RUN) -c "import pip" 2>/dev/null || { python="$$($(FIND_PYTHON))" && echo "making .venv with $$("$$python" --version)" && \
	  { "$$python" -m venv .venv || "$$python" -m virtualenv -q .venv || \
	    { echo "cannot make a virtual environment: install Python's venv module (Debian, Ubuntu: python3-venv)" >&2; exit 1; }; }; }
	@touch $@

.venv/ready-%: pyproject.toml .venv/made
	@echo "installing arboost$(if $(filter-out base,$*),[$*]) into .venv, once ..."
	@$(RUN) -m pip install --quiet --disable-pip-version-check -e ".$(if $(filter-out base,$*),[$*])"
	@touch $@

# Tools that look for XGBoost, in environments of their own without it: the extra is named like the environment.
NEIGHBOURS := neighbours$(if $(TORCH),-torch)
test-neighbours: .venv-$(NEIGHBOURS)/ready
	.venv-$(NEIGHBOURS)/$(notdir $(BIN))/python -m pytest $(or $(TESTS),tests/neighbours)

.venv-%/ready: pyproject.toml
	@python="$$($(FIND_PYTHON))" && "$$python" -m venv .venv-$*
	@echo "installing arboost[$*] into .venv-$*, once ..."
	@.venv-$*/$(notdir $(BIN))/python -m pip install --quiet --disable-pip-version-check -e ".[$*]"
	@touch $@

clean:
	rm -rf .venv .venv-* .demo .pytest_cache .mypy_cache .ruff_cache .hypothesis dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
