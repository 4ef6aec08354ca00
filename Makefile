# make up     four GPU nodes on this machine: packages, Python environment, LXD, networks, image, nodes, Slurm, verify
# make test   every check and every test but the long ones, the real engines included; make test-long: the long ones too
# make reliability   the tests that docs/reliability.md is about, and its tables from what they counted
# make gpu-proof OUT=proof   on a machine with a GPU: everything that only a GPU can show, as JSON and Markdown
# make lint   the checks alone        make unit   the quick tests, which need neither root nor an engine
# make locks  renew the versions and hashes of Python packages that a release is made with
# make clean  remove what make made in this folder; clusters stay (gpuprov cluster down)

.DELETE_ON_ERROR:
.PHONY: up who-may-run test test-long every-unit contract images engines reliability gpu-proof
.PHONY: locks lint lint-python lint-rest unit qemu wireguard redis podman compose tcc clean
.DEFAULT_GOAL := up

VENV := .venv
BIN := $(VENV)/bin
LINK := /usr/local/bin/gpuprov
HERE := $(CURDIR)
REAL := import os, sys; print(os.path.realpath(sys.executable))
unexport PYTHONDONTWRITEBYTECODE  # compiling every test again takes longer than to run most of them

NEED_ROOT := test "$$(id -u)" = 0 || { echo "error: this needs root: sudo make $@" >&2; exit 3; }
APT := apt-get --quiet=2 --option Dpkg::Use-Pty=0
INSTALL := export DEBIAN_FRONTEND=noninteractive; $(APT) update && $(APT) install --yes --no-install-recommends

# Said before anything is installed: other users cannot run what is in a folder of root's.
who-may-run:
	@python=$$({ $(BIN)/python -c "$(REAL)" || python3 -c "$(REAL)"; } 2>/dev/null); \
	for place in "$(HERE)" $$python; do \
		folder=$$place; closed=; \
		while [ "$$folder" != / ]; do \
			[ -z "$$(find "$$folder" -maxdepth 0 ! -perm -o=x)" ] || closed=$$folder; \
			folder=$$(dirname "$$folder"); \
		done; \
		[ -z "$$closed" ] || echo "warning: only root will be able to run gpuprov: it needs $$place, and other users" \
			"may not enter $$closed; for them, clone into a folder such as /opt/gpuprov, with Debian's python3" >&2; \
	done

up: who-may-run $(BIN)/gpuprov
	@$(NEED_ROOT)
	@if [ -L $(LINK) ] && [ ! -e $(LINK) ]; then rm $(LINK); fi
	@[ -e $(LINK) ] || { mkdir -p $(dir $(LINK)) && ln -s $(HERE)/$(BIN)/gpuprov $(LINK); }
	@[ "$$(readlink $(LINK))" = "$(HERE)/$(BIN)/gpuprov" ] || \
		echo "warning: $(LINK) already exists and is not changed; use $(HERE)/$(BIN)/gpuprov instead of gpuprov" >&2
	$(BIN)/gpuprov host prepare
	$(BIN)/gpuprov cluster up  # four nodes; a cluster that is there keeps its number

LEDGER := build/reliability.jsonl
IN_PARALLEL := --numprocesses $$(nproc) --maxprocesses 16 --dist loadfile
# An engine each in tests/contract, a group each in tests/e2e (tests/e2e/groups.py): one computes while another waits.
SIDE_BY_SIDE := --numprocesses 3 --dist loadscope
# Engines have races of their own under load (docs/decisions.md): what failed beside others is said, and runs once more.
BESIDE := -m 'not alone' --durations 20 --durations-min 5 tests/e2e
ONCE_MORE = { echo "THESE FAILED BESIDE OTHERS, and run once more by themselves:" >&2; \
	$(BIN)/python -m pytest $(TESTS) --verbose --last-failed --last-failed-no-failures none -x $(BESIDE); }
test-long: TESTS := --long --ledger $(LEDGER)
test-long: | qemu
test test-long: | wireguard redis podman compose tcc
	@mkdir -p $(dir $(LEDGER)) && rm -f $(LEDGER)
	@$(MAKE) --no-print-directory --jobs 4 --output-sync contract every-unit TESTS='$(TESTS)'
	$(BIN)/python -m pytest $(TESTS) $(SIDE_BY_SIDE) $(BESIDE) || $(ONCE_MORE)
	$(BIN)/python -m pytest $(TESTS) -m 'alone or gpu' --durations 20 --durations-min 5 tests/e2e tests/gpu

every-unit: lint $(VENV)/cu12/.test
	$(BIN)/python -m pytest $(TESTS) $(IN_PARALLEL) tests/unit

# Beside what is checked, and the unit tests: most of both is waiting, for packages and for engines.
contract: images
	$(BIN)/python -m pytest $(TESTS) $(SIDE_BY_SIDE) --durations 5 tests/contract

images: engines
	@[ "$$(id -u)" != 0 ] || $(BIN)/python -m tests.ready_images

engines: $(VENV)/.test
	@if [ "$$(id -u)" = 0 ]; then for engine in lxd incus docker; do \
			echo $(BIN)/gpuprov host prepare --engine $$engine; $(BIN)/gpuprov host prepare --engine $$engine || \
			{ [ $$engine = incus ] && [ -z "$(CI)" ] && echo "warning: tests of Incus are skipped" >&2; } || exit; done; \
		elif [ -n "$(CI)" ]; then $(NEED_ROOT); \
		else echo "warning: not root: tests that need a real engine are skipped" >&2; fi

reliability: $(VENV)/.test
	@$(NEED_ROOT)
	for engine in lxd incus docker; do $(BIN)/gpuprov host prepare --engine $$engine || exit; done
	@mkdir -p $(dir $(LEDGER)) && rm -f $(LEDGER)
	@failed=; run() { echo "$$@"; "$$@" || failed=yes; }; \
		run $(BIN)/python -m pytest --long --ledger $(LEDGER) --counted $(IN_PARALLEL) tests/unit; \
		run $(BIN)/python -m pytest --long --ledger $(LEDGER) --counted --ignore tests/unit --durations 20 tests; \
		run $(BIN)/python -m benchmarks.reliability $(LEDGER) --into docs/reliability.md; \
		[ -z "$$failed" ] || { echo "error: a test failed: see above" >&2; exit 1; }

# No dependency: it must run without a network, by any Python that has the kernels' packages (docs/gpu-proof.md).
PYTHON = $(firstword $(wildcard $(BIN)/python) python3)
gpu-proof:
	@test -n "$(OUT)" || { echo "error: no folder for the proof: make gpu-proof OUT=proof" >&2; exit 2; }
	$(PYTHON) -m benchmarks.gpu_proof "$(OUT)"

unit: $(VENV)/.test
	$(BIN)/python -m pytest $(IN_PARALLEL) -m 'not slow' tests/unit

# Two halves of about the same length, which `make test` has run side by side, and beside what is downloaded.
lint: lint-python lint-rest

lint-python: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

lint-rest: $(VENV)/.test
	$(BIN)/yamllint --strict .
	shellcheck .ci/run $$(find . -name '*.sh' -not -path './$(VENV)/*') \
		roles/base/files/nvidia-smi roles/slurm/files/node/usr/local/bin/sacct \
		$$(find roles/*/files/runit -type f -not -name '*.conf')
	PATH=$(HERE)/$(BIN):$$PATH $(BIN)/ansible-lint --offline --profile production \
		ansible_collections inventories lab.yml roles site.yml tasks

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	@if [ "$$(readlink $(LINK))" = "$(HERE)/$(BIN)/gpuprov" ]; then echo rm $(LINK); rm $(LINK); fi

# Any Python from 3.10 will do, the system's or another; Debian's lacks ensurepip until python3-venv is there.
$(BIN)/python:
	@python3 -c 'import ensurepip, venv' 2>/dev/null || { $(NEED_ROOT); $(INSTALL) python3 python3-venv; }
	@python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "error: gpuprov needs Python 3.10 or newer; python3 is $$(python3 --version)" >&2; exit 3; }
	python3 -m venv $(VENV)

# Only files with the hashes of the release, pip and setuptools among them; a Python newer than the locks has none.
LOCKS := gpuprov/provision/wheel_locks
PIP := $(BIN)/python -m pip install --quiet
IS_LOCKED := $(BIN)/python -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 15))'
EDITABLE := PYTHONWARNINGS=ignore $(PIP) --no-deps --no-build-isolation --editable .
UNLOCKED := echo "warning: no lock has hashes for this Python; the newest packages are installed" >&2; $(PIP) --editable

$(BIN)/gpuprov: setup.cfg pyproject.toml $(LOCKS)/gpuprov.txt | $(BIN)/python
	@$(IS_LOCKED) || { $(UNLOCKED) .; exit; }; \
		$(PIP) --require-hashes --requirement $(LOCKS)/gpuprov.txt && $(EDITABLE)
	@touch $@

# The newest versions of all packages, with their hashes; then look at the difference, and test.
locks: $(VENV)/.test
	$(BIN)/python -m venv $(VENV)/uv
	$(VENV)/uv/bin/python -m pip install --quiet uv
	$(BIN)/python -m benchmarks.renew_locks $(VENV)/uv/bin/uv

$(VENV)/.test: setup.cfg $(LOCKS)/tests.txt $(BIN)/gpuprov
	@missing=; command -v gcc >/dev/null || missing="gcc libc6-dev"; \
		command -v shellcheck >/dev/null || missing="$$missing shellcheck"; \
		[ -z "$$missing" ] || { $(NEED_ROOT); $(INSTALL) $$missing; }
	@$(IS_LOCKED) || { $(UNLOCKED) '.[test]'; exit; }; \
		$(PIP) --no-build-isolation --require-hashes --requirement $(LOCKS)/tests.txt && $(EDITABLE)
	@touch $@

# For the virtual machine of the long tests.
qemu:
	@[ "$$(id -u)" != 0 ] || command -v qemu-system-x86_64 >/dev/null || { $(INSTALL) qemu-system-x86; }

# For encrypted overlays, also where the kernel has no WireGuard.
wireguard:
	@[ "$$(id -u)" != 0 ] || { command -v wg && command -v wireguard-go; } >/dev/null || \
		{ $(INSTALL) wireguard-tools wireguard-go; }

# A broker of the user's, and that of a master of the predecessor. This package starts no service (tests/fakes).
redis:
	@[ "$$(id -u)" != 0 ] || command -v redis-check-rdb >/dev/null || { $(INSTALL) redis-tools; }

# Drives the example stack.
compose:
	@[ "$$(id -u)" != 0 ] || command -v docker-compose >/dev/null || { $(INSTALL) docker-compose; }

# Reads CDI's files, which Docker of Debian 12 does not.
podman:
	@[ "$$(id -u)" != 0 ] || command -v podman >/dev/null || { $(INSTALL) podman; }

# Compiles the simulated NVML of containers where there is no other compiler.
tcc:
	@[ "$$(id -u)" != 0 ] || command -v cc >/dev/null || command -v tcc >/dev/null || { $(INSTALL) tcc; }

CU12 := from gpuprov.provision.recipe import REQUIREMENTS; from gpuprov.provision.wheel_lock import load_lock; \
	print(*(one.dump() for one in load_lock('nodes-cu12').closure(REQUIREMENTS['cu12'])), sep='')
# CUDA 12's packages, as nodes get them, beside CUDA 13's in $(VENV): the compile gate needs the compilers of both.
$(VENV)/cu12/.test: gpuprov/provision/recipe.py | $(VENV)/.test
	$(BIN)/python -m venv $(VENV)/cu12
	$(BIN)/python -c "$(CU12)" > $@
	$(VENV)/cu12/bin/python -m pip install --quiet --no-compile --require-hashes --requirement $@
	@touch $@
