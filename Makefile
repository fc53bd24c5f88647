# What a developer types; `make help` lists it. Needs one of PYTHONS in pijit/_version.py with its headers, make and a C++
# compiler; the rest, cmake and ninja included, is installed into .venv, or .venv-python3.12 and the like for another PYTHON.

PYTHON ?= python3.11
OF_PYTHON := $(if $(filter python3.11,$(PYTHON)),,-$(notdir $(PYTHON)))
VENV ?= .venv$(OF_PYTHON)
JOBS ?= $(shell nproc)
PYTEST_ARGS ?=

# pyenv shows no Python that is not chosen: the latest of a minor release is, where one is named.
interpreter = $(if $(filter python3.%,$(1)),PYENV_VERSION="$$(pyenv latest $(1:python%=%) 2> /dev/null)" )$(1)

ROOT := $(CURDIR)
export PATH := $(abspath $(VENV))/bin:$(PATH)
export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
export PYTHONDONTWRITEBYTECODE := 1

# tests/cpython and tests/mindspore have targets of their own.
TESTS := $(ROOT)/tests --ignore=$(ROOT)/tests/cpython --ignore=$(ROOT)/tests/mindspore

SOURCES := CMakeLists.txt $(shell find csrc -type f 2>/dev/null)
PYTHON_SOURCES := pyproject.toml $(shell find pijit -type f -name '*.py*' -not -name '*.pyc' 2>/dev/null)
PYTHON_DIRS := $(wildcard pijit tests bench examples requirements)
CXX_FILES := $(shell find csrc bench -name '*.h' -o -name '*.cpp' 2>/dev/null)

DEPS := $(VENV)/.deps
BACKENDS := .venv-backends
PROGRAMS := .venv-programs
INSTALLED := $(VENV)/.installed
CONFIGURE := cmake -S . -G Ninja -DPIJIT_WERROR=ON -DPython_EXECUTABLE=$(abspath $(VENV))/bin/python
WHEEL := build/wheel$(OF_PYTHON)
CHECKED := build/checked$(OF_PYTHON)
MINDSPORE_VENV := .venv-mindspore
TORCHES ?= .venv-torches
SANITIZED := build/sanitized$(OF_PYTHON)
PYTHON_VENVS ?= .venv-pythons

# Tests run away from the source tree, so that what they import is what was built for them.
PYTEST = python -m pytest -c $(ROOT)/pyproject.toml --rootdir $(ROOT) $(PYTEST_ARGS)
# As many tests at once as there are processors, each on one thread; benchmarks run alone.
PYTEST_ALL = OMP_NUM_THREADS=1 $(PYTEST) -n $(JOBS) --dist worksteal

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup dev run test test-release test-checked test-long test-backends test-cpython test-sweep test-sanitize test-mindspore test-torch test-all-torches test-python test-core test-python-core test-chroot test-all-versions test-cuda wheels bench bench-compare bench-programs docs lint format clean distclean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z-]+):.*## /\1|/' | \
	  while IFS='|' read -r name text; do printf '  make %-14s %s\n' "$$name" "$$text"; done

# --- build ------------------------------------------------------------------------------------

setup: $(INSTALLED) ## create .venv, install what is pinned, build and install pijit

$(DEPS): requirements/dev.txt requirements/core.txt
	test -x $(VENV)/bin/python || $(call interpreter,$(PYTHON)) -m venv $(VENV)
	@echo "installing torch and what requirements/dev.txt names into $(VENV): minutes; 2 GB (3 GB more with CUDA)"
	python -m pip install --quiet torch==2.13.0 -r requirements/dev.txt
	touch $@

# From a wheel, which is kept: the same sources are compiled once for all clones and environments.
$(INSTALLED): $(DEPS) $(SOURCES) $(PYTHON_SOURCES) README.md LICENSE requirements/wheel.py
	wheel=$$(python requirements/wheel.py $(WHEEL) PIJIT_WERROR=ON) && \
	  python -m pip install --quiet --no-deps --force-reinstall "$$wheel"
	touch $@

# As pip does: a process that a test starts would else compile what it imports of pijit, for a third of a second and more.
byte_compiled = python -m compileall -q -j $(JOBS) $(1)

# The objects of the installed build linked once more, and an importable copy. There are none where the wheel was kept.
$(CHECKED)/.built: $(INSTALLED)
	test -f $(WHEEL)/build.ninja || $(CONFIGURE) -B $(WHEEL)
	cmake --build $(WHEEL) --target checked
	rm -rf $(CHECKED)
	cmake --install $(WHEEL) --component checked --prefix $(CHECKED)/stage > /dev/null
	$(call byte_compiled,$(CHECKED)/stage)
	touch $@

$(SANITIZED)/.built: $(DEPS) $(SOURCES) $(PYTHON_SOURCES)
	$(CONFIGURE) -B $(SANITIZED) -DPIJIT_CHECKED=ON -DPIJIT_TORCH=OFF -DPIJIT_SANITIZE=address,undefined
	cmake --build $(SANITIZED)
	rm -rf $(SANITIZED)/stage
	cmake --install $(SANITIZED) --prefix $(SANITIZED)/stage > /dev/null
	touch $@

dev: $(DEPS) ## build into pijit/, fast to repeat: the source tree can then be imported
	$(CONFIGURE) -B build/dev$(OF_PYTHON) -DCMAKE_BUILD_TYPE=RelWithDebInfo -DPIJIT_INPLACE=ON
	cmake --build build/dev$(OF_PYTHON)

# --- use --------------------------------------------------------------------------------------

run: setup ## compare eager, pijit and torch.compile on real models: prints a table
	python examples/compare.py

# --- test -------------------------------------------------------------------------------------

test: test-checked test-release ## all tests but the slow ones on the checked build; real models on the installed one

test-checked: $(CHECKED)/.built
	cd $(CHECKED)/stage && PYTHONPATH=$(ROOT)/$(CHECKED)/stage $(PYTEST_ALL) --durations 40 -m "not slow" $(TESTS)

# Models are slow, but nothing else says whether what users get does what users do; and the hook, whose other tests, those
# of budgets and of time, are on the checked build alone, and here in `make test-long`.
RELEASED := models $(addprefix hook/,test_automatic.py test_entrances.py test_entries.py test_entries_generators.py \
  test_entries_within.py test_hook.py test_hook_threads.py test_in_loop.py test_loops_at_once.py test_open_rows.py)
test-release: setup
	mkdir -p build/cwd
	cd build/cwd && $(PYTEST_ALL) $(addprefix $(ROOT)/tests/,$(RELEASED))

# Before a release, with test-cpython and test-sweep.
# Models apart: after the tests of torch in one process, what is recorded of Llama has opaque calls.
test-long: $(CHECKED)/.built test-sanitize test-release ## the slow tests on the checked build, all on the installed one, those of the core sanitized (long)
	cd $(CHECKED)/stage && PYTHONPATH=$(ROOT)/$(CHECKED)/stage $(PYTEST_ALL) -m slow $(TESTS) --ignore=$(ROOT)/tests/models
	cd $(CHECKED)/stage && PYTHONPATH=$(ROOT)/$(CHECKED)/stage $(PYTEST_ALL) $(ROOT)/tests/models
	cd build/cwd && $(PYTEST_ALL) $(TESTS) --ignore=$(ROOT)/tests/models

# The compilers are large, and none is needed for anything else: what is in .venv is seen from an environment beside it.
$(BACKENDS)/.deps: requirements/backends.txt $(DEPS)
	test -x $(BACKENDS)/bin/python || $(call interpreter,$(PYTHON)) -m venv $(BACKENDS)
	python -c "import sysconfig; print('import site; site.addsitedir(%r)' % sysconfig.get_path('purelib'))" > \
	  "$$($(BACKENDS)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/beside.pth"
	$(BACKENDS)/bin/python -m pip install --quiet --no-deps torch==2.13.0 -r requirements/backends.txt
	touch $@

# Slow ones, too: they are those of the compilers that take long.
test-backends: setup $(BACKENDS)/.deps ## all compilers against eager, in an environment of their own (long; downloads 250 MB)
	mkdir -p build/cwd
	cd build/cwd && $(ROOT)/$(BACKENDS)/bin/python -c "import pijit; print(pijit.backends())" && \
	  OMP_NUM_THREADS=1 $(ROOT)/$(BACKENDS)/bin/$(PYTEST) -n $(JOBS) --dist worksteal -p no:cacheprovider $(ROOT)/tests/compilers

# Twenty of CPython's own test modules, each under the hook, observed, and recorded and replayed. On another Python it is
# the core alone that is built.
CORE := $(PYTHON_VENVS)/$(PYTHON)-core
test-cpython: $(if $(OF_PYTHON),$(CORE)/.built,$(CHECKED)/.built) ## CPython's own tests while everything is recorded (long); of PYTHON=python3.12, too
	cd $(if $(OF_PYTHON),build/$(PYTHON)-core,$(CHECKED))/stage && PYTHONPATH=$$PWD \
	  $(if $(OF_PYTHON),$(abspath $(CORE))/bin/)$(PYTEST) -s -p no:cacheprovider $(ROOT)/tests/cpython

# Ten minutes; a part of it belongs to the tests. Writes docs/torch.md.
test-sweep: setup ## every callable of torch: replay compared with eager over sizes, layouts, dtypes and aliasing (long)
	mkdir -p build/cwd
	cd build/cwd && python $(ROOT)/tests/torch/sweep/report.py --write

# The interpreter is not instrumented, hence the preloads; CPython does not free all it has at exit, hence no leak check.
test-sanitize: $(SANITIZED)/.built ## tests of the core (no torch) under the address and undefined-behaviour sanitizers; PIJIT_FUZZ=N has N damaged texts of each trace read
	cd $(SANITIZED)/stage && PYTHONPATH=$(ROOT)/$(SANITIZED)/stage PYTHONMALLOC=malloc \
	  LD_PRELOAD="$$($${CXX:-c++} -print-file-name=libasan.so) $$($${CXX:-c++} -print-file-name=libstdc++.so.6)" \
	  ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
	  $(PYTEST_ALL) -m "not torch and not slow" $(addprefix $(ROOT)/tests/,exec cache pijit kept/test_fuzz.py record/test_programs.py record/test_exits.py)

# MindSpore needs a NumPy that torch and JAX of today do not take: an environment of its own, of 3 GB. What torch gives
# is written first.
$(MINDSPORE_VENV)/.deps: requirements/mindspore.txt
	test -x $(MINDSPORE_VENV)/bin/python || $(call interpreter,$(PYTHON)) -m venv $(MINDSPORE_VENV)
	$(MINDSPORE_VENV)/bin/python -m pip install --quiet -r requirements/mindspore.txt
	touch $@

test-mindspore: $(CHECKED)/.built $(MINDSPORE_VENV)/.deps ## set up MindSpore and run the vocabulary, models and exports in it
	PYTHONPATH=$(ROOT)/$(CHECKED)/stage python tests/mindspore/expected.py build/mindspore
	cd $(CHECKED)/stage && PYTHONPATH=$(ROOT)/$(CHECKED)/stage OMP_NUM_THREADS=1 GLOG_v=3 \
	  TORCH_PACKAGES="$$(python -c 'import torch, pathlib; print(pathlib.Path(torch.__file__).parents[1])')" \
	  $(ROOT)/$(MINDSPORE_VENV)/bin/$(PYTEST) -p no:cacheprovider $(ROOT)/tests/mindspore

# --- several torches --------------------------------------------------------------------------

# The minor releases that adapters are for, and the release of each that is tested: rows of pijit/_torches.py.
MINORS := $(shell sed -n 's/^    Row."\([0-9.]*\)", .*/\1/p' pijit/_torches.py)
release = $(shell sed -n 's/^    Row."$(1)", "\([0-9.]*\)".*/\1/p' pijit/_torches.py)
torch_of = $(shell echo $(abspath $(TORCHES))/$(1)/lib/python3*/site-packages/torch)
TORCH ?= $(lastword $(MINORS))
# A machine's own limit on the version of torch would be in the way here.
TORCHES_PIP ?= PIP_CONFIG_FILE=/dev/null

# An environment for one torch: the CUDA wheel without the libraries of NVIDIA, for which stubs stand in. 1.5 GB each.
.PRECIOUS: $(TORCHES)/%/.deps $(TORCHES)/%/.built
$(TORCHES)/%/.deps: requirements/torches.txt tests/torch/versions/stub_libraries.py $(DEPS)
	$(if $(call release,$*),,$(error torch $* is none of $(MINORS)))
	test -x $(TORCHES)/$*/bin/python || $(call interpreter,$(PYTHON)) -m venv $(TORCHES)/$*
	$(TORCHES_PIP) $(TORCHES)/$*/bin/python -m pip install --quiet --no-deps torch==$(call release,$*) -r requirements/torches.txt
	rm -rf $(TORCHES)/$*/stubs
	python tests/torch/versions/stub_libraries.py $(TORCHES)/$*/lib/python3*/site-packages/torch/lib $(TORCHES)/$*/stubs
	touch $@

# The checked build's Python and core, with the adapter for this torch.
$(TORCHES)/%/.built: $(TORCHES)/%/.deps $(CHECKED)/.built
	$(CONFIGURE) -B build/torch-$* -DPIJIT_TORCH=ON -DPIJIT_TORCH_DIRS=$(call torch_of,$*)
	cmake --build build/torch-$* --target adapters
	rm -rf build/torch-$*/stage
	cp -r $(CHECKED)/stage build/torch-$*/stage
	rm -f build/torch-$*/stage/pijit/_torch_*.so
	cmake --install build/torch-$* --component adapters --prefix build/torch-$*/stage > /dev/null
	touch $@

test-torch: $(TORCHES)/$(TORCH)/.built ## tests/torch beside another release: TORCH=2.11, 2.12, ... (downloads 550 MB once)
	cd build/torch-$(TORCH)/stage && PYTHONPATH=$(ROOT)/build/torch-$(TORCH)/stage OMP_NUM_THREADS=1 \
	  LD_LIBRARY_PATH=$(abspath $(TORCHES))/$(TORCH)/stubs $(abspath $(TORCHES))/$(TORCH)/bin/$(PYTEST) \
	  -p no:cacheprovider -n $(JOBS) --dist worksteal -m "not slow" $(ROOT)/tests/torch

test-all-torches: ## the same beside each release that adapters are for (long)
	for minor in $(MINORS); do $(MAKE) test-torch TORCH=$$minor || exit 1; done

# --- several Pythons --------------------------------------------------------------------------

KNOWN := $(addprefix python,$(shell sed -n '/^PYTHONS = /s/[^0-9. ]//gp' pijit/_version.py))
# Those beside the one that the tests mostly run on.
OTHERS := $(filter-out python3.11,$(KNOWN))
# A build for a newer one, for work on it, needs an option.
newer = $(if $(filter-out $(KNOWN),$(1)),-DPIJIT_UNFINISHED_PYTHON=ON)
# A developer need not have all Pythons: one that is missing is named, and passes.
on_others = $(foreach python,$(OTHERS),if $(call interpreter,$(python)) -c "" 2> /dev/null; \
  then $(MAKE) $(1) PYTHON=$(python) || exit 1; \
  else echo "$@: there is no $(python) here, so nothing is tested on it"; fi;)
venv_of = $(abspath $(PYTHON_VENVS))/$(1)

# An environment for one Python: what .venv has, but the CUDA wheel of torch, for whose libraries stubs stand in. 3 GB.
# Without triton that torch warns at its first compilation, in programs that have to print nothing.
TRITON := triton==3.7.1
.PRECIOUS: $(PYTHON_VENVS)/%/.deps $(PYTHON_VENVS)/%/.built
$(PYTHON_VENVS)/%/.deps: requirements/dev.txt requirements/core.txt tests/torch/versions/stub_libraries.py
	test -x $(PYTHON_VENVS)/$*/bin/python || $(call interpreter,$*) -m venv $(PYTHON_VENVS)/$*
	$(TORCHES_PIP) $(PYTHON_VENVS)/$*/bin/python -m pip install --quiet --no-deps torch==2.13.0 $(TRITON) -r requirements/dev.txt
	rm -rf $(PYTHON_VENVS)/$*/stubs
	$(PYTHON_VENVS)/$*/bin/python tests/torch/versions/stub_libraries.py \
	  $(PYTHON_VENVS)/$*/lib/python3*/site-packages/torch/lib $(PYTHON_VENVS)/$*/stubs
	touch $@

$(PYTHON_VENVS)/%/.built: $(PYTHON_VENVS)/%/.deps $(SOURCES) $(PYTHON_SOURCES)
	PATH=$(call venv_of,$*)/bin:$$PATH cmake -S . -B build/$* -G Ninja -DPIJIT_WERROR=ON -DPIJIT_TORCH=ON \
	  $(call newer,$*) -DPython_EXECUTABLE=$(call venv_of,$*)/bin/python
	PATH=$(call venv_of,$*)/bin:$$PATH cmake --build build/$* --target checked
	rm -rf build/$*/stage
	PATH=$(call venv_of,$*)/bin:$$PATH cmake --install build/$* --component checked --prefix build/$*/stage > /dev/null
	PATH=$(call venv_of,$*)/bin:$$PATH $(call byte_compiled,build/$*/stage)
	touch $@

test-python: $(PYTHON_VENVS)/$(PYTHON)/.built ## all tests but the slow ones on another Python: PYTHON=python3.12 (downloads 1 GB once)
	cd build/$(PYTHON)/stage && PYTHONPATH=$(ROOT)/build/$(PYTHON)/stage OMP_NUM_THREADS=1 \
	  LD_LIBRARY_PATH=$(call venv_of,$(PYTHON))/stubs $(call venv_of,$(PYTHON))/bin/$(PYTEST) \
	  -p no:cacheprovider -n $(JOBS) --dist worksteal -m "not slow" $(TESTS)

# An environment and a build of the core alone: nothing of the size of torch is downloaded.
CORE_TESTS := exec cache ir hook record pijit lint/test_opcode_tables.py
.PRECIOUS: $(PYTHON_VENVS)/%-core/.deps $(PYTHON_VENVS)/%-core/.built
$(PYTHON_VENVS)/%-core/.deps: requirements/core.txt
	test -x $(PYTHON_VENVS)/$*-core/bin/python || $(call interpreter,$*) -m venv $(PYTHON_VENVS)/$*-core
	$(PYTHON_VENVS)/$*-core/bin/python -m pip install --quiet --no-deps -r requirements/core.txt
	touch $@

$(PYTHON_VENVS)/%-core/.built: $(PYTHON_VENVS)/%-core/.deps $(SOURCES) $(PYTHON_SOURCES)
	PATH=$(call venv_of,$*-core)/bin:$$PATH cmake -S . -B build/$*-core -G Ninja -DPIJIT_WERROR=ON -DPIJIT_TORCH=OFF \
	  $(call newer,$*) -DCMAKE_CXX_SCAN_FOR_MODULES=OFF \
	  -DCMAKE_BUILD_TYPE=RelWithDebInfo -DPython_EXECUTABLE=$(call venv_of,$*-core)/bin/python
	PATH=$(call venv_of,$*-core)/bin:$$PATH cmake --build build/$*-core --target checked
	rm -rf build/$*-core/stage
	PATH=$(call venv_of,$*-core)/bin:$$PATH cmake --install build/$*-core --component checked \
	  --prefix build/$*-core/stage > /dev/null
	PATH=$(call venv_of,$*-core)/bin:$$PATH $(call byte_compiled,build/$*-core/stage)
	touch $@

test-core: $(PYTHON_VENVS)/$(PYTHON)-core/.built ## tests of the core, without torch, on another Python: PYTHON=python3.12
	cd build/$(PYTHON)-core/stage && PYTHONPATH=$(ROOT)/build/$(PYTHON)-core/stage OMP_NUM_THREADS=1 \
	  $(call venv_of,$(PYTHON)-core)/bin/$(PYTEST) -p no:cacheprovider -n $(JOBS) --dist worksteal \
	  -m "not torch and not slow" $(addprefix $(ROOT)/tests/,$(CORE_TESTS))

test-python-core: ## the same on each Python that is there
	+@$(call on_others,test-core)

# Debian sid has the newest Pythons. What its compiler makes runs only there, so it builds and tests a copy of this tree.
CHROOT ?= build/chroot
CHROOT_PYTHON ?= python3.14
CHROOT_TARGET ?= test-core

test-chroot: ## test-core, or CHROOT_TARGET=test-python, on a Python of Debian sid: CHROOT_PYTHON=python3.14 (root and debootstrap; downloads 250 MB once)
	tests/chroot.sh $(CHROOT) $(CHROOT_PYTHON) "$(MAKE) $(CHROOT_TARGET) PYTHON=$(CHROOT_PYTHON) PYTEST_ARGS='$(PYTEST_ARGS)'"

test-all-versions: test-checked ## all tests but the slow ones on each Python that is there (long)
	+@$(call on_others,test-python)

# --- a GPU ------------------------------------------------------------------------------------

# Nothing is installed: a machine with a GPU has its own Python and torch, and mostly no registry.
test-cuda: ## tests that need a GPU, with what PYTHON=... has: torch, cmake, ninja, pybind11, pytest
	cmake -S . -B build/cuda -G Ninja -DPIJIT_TORCH=ON -DPython_EXECUTABLE="$$(command -v $(PYTHON))"
	cmake --build build/cuda --target checked
	rm -rf build/cuda/stage
	cmake --install build/cuda --component checked --prefix build/cuda/stage > /dev/null
	cd build/cuda/stage && PYTHONPATH=$(ROOT)/build/cuda/stage $(PYTHON) -m pytest -c $(ROOT)/pyproject.toml \
	  --rootdir $(ROOT) $(PYTEST_ARGS) -p no:cacheprovider -m cuda $(ROOT)/tests/torch

# --- wheels -----------------------------------------------------------------------------------

PYTHONS ?= $(PYTHON)
empty :=
space := $(empty) $(empty)
TORCH_DIRS = $(subst $(space),;,$(foreach minor,$(MINORS),$(call torch_of,$(minor))))

# Torch's own libraries are in the process before an adapter is: they stay out of the wheel.
$(TORCHES)/wheels-%/.deps: requirements/wheels.txt
	test -x $(TORCHES)/wheels-$*/bin/python || $(call interpreter,$*) -m venv $(TORCHES)/wheels-$*
	$(TORCHES)/wheels-$*/bin/python -m pip install --quiet --no-deps -r requirements/wheels.txt
	touch $@

wheels: $(MINORS:%=$(TORCHES)/%/.deps) $(PYTHONS:%=$(TORCHES)/wheels-%/.deps) ## dist/: a wheel for each of PYTHONS, with an adapter for every torch
	rm -rf build/wheels
	set -e; for python in $(PYTHONS); do PATH=$(abspath $(TORCHES))/wheels-$$python/bin:$$PATH; export PATH; \
	  python -m pip wheel --quiet --no-build-isolation --no-deps -w build/wheels/$$python \
	    -C build-dir=build/wheel-of-$$python -C cmake.define.PIJIT_TORCH=ON -C "cmake.define.PIJIT_TORCH_DIRS=$(TORCH_DIRS)" .; \
	  auditwheel repair --exclude 'libtorch*.so' --exclude 'libc10*.so' -w dist build/wheels/$$python/*.whl; done
	python tests/torch/versions/check_wheel.py $(MINORS) dist/*.whl

bench: setup ## run bench/ with pytest-benchmark; prints what guards cost; .benchmarks/ keeps results and a picture of the ratios
	mkdir -p build/cwd .benchmarks
	cd build/cwd && $(PYTEST) --benchmark-autosave --benchmark-storage=file://$(ROOT)/.benchmarks \
	  --benchmark-json=$(ROOT)/.benchmarks/last.json $(ROOT)/bench
	python bench/report.py .benchmarks/last.json .benchmarks/ratios.svg

BASE ?= 0001
bench-compare: setup ## compare two kept results of `make bench`: BASE=0001 with the last
	pytest-benchmark --storage=file://$(ROOT)/.benchmarks compare $(BASE) $(ROOT)/.benchmarks/last.json --group-by=fullname --columns=median,iqr,rounds

# Packages that users' programs take. What is in .venv is seen from there, pijit included, as from .venv-backends.
$(PROGRAMS)/.deps: requirements/programs.txt $(DEPS)
	test -x $(PROGRAMS)/bin/python || $(call interpreter,$(PYTHON)) -m venv $(PROGRAMS)
	python -c "import sysconfig; print('import site; site.addsitedir(%r)' % sysconfig.get_path('purelib'))" > \
	  "$$($(PROGRAMS)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/beside.pth"
	$(PROGRAMS)/bin/python -m pip install --quiet --no-deps -r requirements/programs.txt
	touch $@

PROGRAMS_ARGS ?= --write
bench-programs: setup $(PROGRAMS)/.deps ## programs of users, plain and under pijit, in an environment of their own: writes docs/programs.md (long; downloads 150 MB)
	mkdir -p build/cwd
	cd build/cwd && $(ROOT)/$(PROGRAMS)/bin/python $(ROOT)/bench/programs/run.py $(PROGRAMS_ARGS)

docs: ## write docs/coverage.md, docs/graph.md, docs/graph.svg and the README's table of compilers from the tables and the tests
	python tests/record/coverage_table.py
	python tests/graph/graph_page.py
	python tests/compilers/backends_table.py
	python tests/torch/versions/versions_table.py

lint: $(DEPS) ## ruff, mypy, clang-format, the layers of csrc/ and pijit/, and the sizes of test files
	ruff check $(PYTHON_DIRS)
	ruff format --check $(PYTHON_DIRS)
	mypy
	$(if $(CXX_FILES),clang-format --dry-run -Werror $(CXX_FILES))
	python tests/lint/check_layering.py csrc
	python tests/lint/check_owners.py csrc/record
	python tests/lint/check_unity.py csrc
	python tests/lint/check_test_sizes.py tests
	python tests/lint/check_python_layers.py pijit

format: $(DEPS) ## apply ruff's and clang-format's layout
	ruff check --fix-only --quiet $(PYTHON_DIRS)
	ruff format $(PYTHON_DIRS)
	$(if $(CXX_FILES),clang-format -i $(CXX_FILES))

clean: ## remove what was built
	rm -rf build .ruff_cache .mypy_cache .pytest_cache pijit/*.so $(INSTALLED)

distclean: clean ## remove .venv and those of test-mindspore, test-backends, bench-programs, test-torch and test-python too
	rm -rf .venv .venv-python3* $(VENV) $(MINDSPORE_VENV) $(BACKENDS) $(PROGRAMS) $(TORCHES) $(PYTHON_VENVS)
