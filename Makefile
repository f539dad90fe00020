# The commands of the house.  Everything happens in a virtual environment of its own, VENV.
PYTHON ?= python3.11
VENV ?= .venv
RUN := $(VENV)/bin/python

# processes that run tests at a time; a file's tests stay together
TEST_JOBS ?= auto
TESTS := -n $(TEST_JOBS) --dist loadfile

# in a checkout only this machine's kernel variant is built; a wheel holds all of them
export FACULA_BUILD_ISA ?= native

.PHONY: help venv demo gpt test test-all test-pythons test-slow cross mutation replay sweep soak failures sanitize valgrind lint house types layers \
	docs site bench wheel check-wheel clean

help:  ## what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /	/' | expand -t 13

$(RUN):
	$(PYTHON) -m venv $(VENV)

# the checkout, editable, with all tools; again when what it needs changes
$(VENV)/installed: pyproject.toml | $(RUN)
	$(VENV)/bin/pip install -q -e ".[dev,demo]"
	touch $@

venv: $(VENV)/installed  ## install the checkout (editable) with all tools

demo: $(RUN)  ## install the checkout, then train a ResNet-18 on handwritten digits
	$(VENV)/bin/pip install -q -e ".[demo]"
	$(RUN) examples/train_digits.py

gpt: $(RUN)  ## train a small language model on Python's own sources
	$(VENV)/bin/pip install -q -e ".[demo]"
	$(RUN) examples/train_gpt.py

test: $(VENV)/installed  ## all tests but the slow ones
	$(RUN) -m pytest $(TESTS) -m "not slow"

test-all: $(VENV)/installed  ## all tests
	$(RUN) -m pytest $(TESTS)

# every version that is supported, each in an environment of its own
PYTHONS ?= python3.11 python3.12 python3.13
test-pythons:  ## install and test with each supported version of Python (PYTHONS="python3.12 ...")
	for python in $(PYTHONS); do \
	    $(MAKE) test PYTHON=$$python VENV=build/venv-$$(basename $$python) || exit 1; done

test-slow: $(VENV)/installed  ## a fifth of the slow tests, another one every day
	$(RUN) -m pytest $(TESTS) -m slow --sample 0.2 --seed "$$(date +%F)"

cross: $(VENV)/installed  ## packages and the mobile runtime for aarch64, under qemu (Debian: CROSS_PACKAGES)
	$(RUN) -m pytest tests/deploy/cross_aarch64.py

mutation: $(VENV)/installed  ## change 200 random places, one at a time, and see whether the tests notice (hours)
	$(RUN) tools/mutate.py draw --count 200
	$(RUN) tools/mutate.py map
	$(RUN) tools/mutate.py run --least 95

replay: $(VENV)/installed  ## what the compiler writes, compared with the last commit (AGAINST=another)
	$(RUN) tools/replay.py against $${AGAINST:-HEAD} $${REPLAY:-}

# both variants that any processor of today runs, and its own
sweep: $(VENV)/installed  ## every operator, dtype, layout and form in guarded memory: no fault
	FACULA_BUILD_ISA=v2,native $(RUN) setup.py -q build_ext --inplace
	$(RUN) tools/sweep.py --guard 1 begin

soak: $(VENV)/installed  ## an hour of everything at once: no fault, memory level
	$(RUN) tools/soak.py --minutes $${MINUTES:-60}

failures: $(VENV)/installed  ## ranks that die, stop, are cut off, slow or elsewhere, TIMES each (hours), and garbage to every port
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(RUN) tools/fail_ranks.py --engines gloo,messages,mpi,mpi-messages \
		--times $${TIMES:-200} --seed $${SEED:-0}
	$(RUN) tools/fuzz_ports.py --messages $${MESSAGES:-100000}
	$(RUN) tools/several_hosts.py

sanitize: $(VENV)/installed  ## core and kernels under the address and undefined-behaviour sanitizers
	$(RUN) tools/sanitize.py

valgrind: $(VENV)/installed  ## a small suite under valgrind's memcheck
	$(RUN) tools/memcheck.py

lint: $(VENV)/installed  ## format, lint, file sizes
	$(RUN) -m ruff format --check .
	$(RUN) -m ruff check .
	$(RUN) tools/size.py --check

house: $(VENV)/installed  ## the yardsticks of the source: sizes, circles, types, docstrings
	$(RUN) tools/yardsticks.py

types: $(VENV)/installed  ## static types, against freshly written stubs
	$(RUN) tools/gen_api.py stubs
	$(RUN) -m mypy

layers: $(VENV)/installed  ## no package imports one above it
	$(VENV)/bin/lint-imports

docs: $(VENV)/installed  ## a page for every family of operators, in docs/operators/
	$(RUN) tools/gen_api.py docs

site: $(VENV)/installed  ## the manual, in build/site/html: pages, tutorials (which are run), reference, search
	$(RUN) tools/build_site.py

bench: $(VENV)/installed  ## the figures of README.md
	$(RUN) tools/bench.py

wheel: $(RUN)  ## a wheel with every kernel variant, in dist/
	rm -rf dist
	FACULA_BUILD_ISA=all $(VENV)/bin/pip wheel -q --no-deps --wheel-dir dist .

check-wheel: wheel  ## the wheel's size, and every variant without a compiler
	$(RUN) tools/check_wheel.py dist/facula-*.whl

clean:  ## forget everything that was built
	rm -rf build dist $(VENV) src/facula/_kernels src/*.egg-info
	find src -name '*.so' -delete
