# Needs Python >= 3.11 and make, nothing else: each target makes the environment it runs in.

PYTHON ?= python3
VENV := .venv
BENCH_VENV := benchmarks/.venv
BIN := $(VENV)/bin
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

# The shared data sets, when they lie beside the checkout and the user named no other place.
ifeq ($(origin REGFACTOR_DATA),undefined)
ifneq ($(wildcard ../shared/data/.),)
export REGFACTOR_DATA := $(abspath ../shared/data)
endif
endif

.PHONY: demo test test-all lint docs dist quality clean
.DELETE_ON_ERROR:

demo: $(VENV)/cli.stamp
	$(BIN)/python examples/demo.py --out demo-output

# the second run is that of a package without compiled kernels
WITHOUT_KERNELS := REGFACTOR_KERNELS=0 $(BIN)/pytest -q tests/test_compiled_kernels.py tests/test_sparse.py

test: lint
	$(ONE_THREAD) $(WITHOUT_KERNELS)
	$(ONE_THREAD) $(BIN)/pytest -n 2 -m "not slow"

test-all: lint docs
	$(ONE_THREAD) $(WITHOUT_KERNELS)
	$(ONE_THREAD) $(BIN)/pytest -n 2

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/docs.stamp
	$(BIN)/sphinx-build -E -W --keep-going -b html docs docs/_build/html

dist: $(VENV)/dist.stamp
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl

# Default settings against other packages, by a suite that is not part of this repository.
# Its options: make quality ARGS="--quick --task labels"
QUALITY := ../shared/quality/quality.py
ifneq ($(wildcard $(QUALITY)),)
quality: $(VENV)/test.stamp
	$(ONE_THREAD) $(BIN)/python $(QUALITY) $(ARGS)
else
quality:
	@echo "make quality runs $(QUALITY), which is not here. The benchmarks of this repository run by make bench-NAME."
endif

# python -m benchmarks NAME, with pinned peers in an environment of its own, on one thread.
bench-%: $(BENCH_VENV)/bench.stamp
	$(ONE_THREAD) $(BENCH_VENV)/bin/python -m benchmarks $*

clean:
	rm -rf $(VENV) $(BENCH_VENV) build dist docs/_build docs/_generated demo-output .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp per extra, so that `make demo` installs no test tools.
$(VENV)/%.stamp: pyproject.toml | $(VENV)/made.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	touch $@

$(BENCH_VENV)/bench.stamp: pyproject.toml $(wildcard benchmarks/requirements*.txt) | $(BENCH_VENV)/made.stamp
	$(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/requirements.txt --editable '.[bench]'
	$(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r benchmarks/requirements-nodeps.txt
	-$(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c benchmarks/requirements.txt -r benchmarks/requirements-compiled.txt
	touch $@

$(VENV)/made.stamp $(BENCH_VENV)/made.stamp:
	@command -v $(PYTHON) > /dev/null || { echo "regfactor needs Python >= 3.11, and '$(PYTHON)' is not here; name another: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("regfactor needs Python >= 3.11, and $(PYTHON) is %d.%d; name another: make PYTHON=python3.12" % sys.version_info[:2])'
	$(PYTHON) -m venv $(@D)
	touch $@
