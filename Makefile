# `make demo` and `make test` both work as the first command after cloning. They install what is
# missing: Debian packages (with sudo if you are not root), a virtual environment, and the embedded
# kernel, which is built once per user. The next time they start at once.
#
#   make demo PYTHON=python3.12       chooses the Python of the virtual environment
#   make demo TORCH_INDEX=URL         takes torch from this index, such as PyTorch's own one of builds
#                                     for CPUs; the default build on Linux is gigabytes in size
#   make demo KERNEL_WHEEL=FILE       installs the embedded kernel of `make wheels` instead of building it
#   make demo PIP_FLAGS="..."         adds flags to `pip install`

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || echo python3)
PIP_FLAGS ?=
EXTRAS ?= dev cluster
TORCH_INDEX ?=
TORCH ?=
KERNEL_WHEEL ?=
INSTALL = --torch-index='$(TORCH_INDEX)' --pip-flags='$(PIP_FLAGS)'
# With an installed kernel, the packages of the first paragraph are not needed.
HAS_KERNEL = $(or $(KERNEL_WHEEL),$(wildcard .venv/lib/python3*/site-packages/trunkline_kernel/linux))
PACKAGES = $(shell sed $(if $(HAS_KERNEL),'/^. The embedded kernel/$(COMMA)/^$$/d; s/\#.*//','s/\#.*//') debian-packages.txt)
# What runs need, and with it what tests, checks of style, and `--on-cluster` need.
INSTALLED := .venv/.installed
DEVELOPMENT := .venv/.development
REFERENCE := keys:docs/reference/scenario.md commands:docs/reference/commands.md tables:docs/tables.md events:docs/reference/events.md
COMMA := ,

.PHONY: help
help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand --tabs=16

.PHONY: demo
demo: system kernel ## nine sites train a model over an emulated WAN
	.venv/bin/trunkline doctor --brief
	.venv/bin/trunkline run scenarios/quickstart.yaml
	@printf '%s\n' '' 'What next:' \
	    '  runs/quickstart/latest/report.html  open this page of the run in a browser' \
	    '  . .venv/bin/activate                then `trunkline` is a command' \
	    '  trunkline shell quickstart          the same sites at a prompt: cut a link, kill a site' \
	    '  docs/tutorial.md                    a network and a plan of your own, and an outage'

.PHONY: test
# Hundreds of processes import the same modules: without bytecode, each would compile them again.
test: export PYTHONDONTWRITEBYTECODE =
test: system kernel $(DEVELOPMENT) ## run the tests
	.venv/bin/python -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal

.PHONY: machines
machines: export PYTHONDONTWRITEBYTECODE =
machines: system kernel $(DEVELOPMENT) ## boot the guest on emulated processors, and compare the logs, or ONLY=Nehalem
	.venv/bin/python -m pytest -m machines $(if $(ONLY),-k $(ONLY))

.PHONY: crosscheck
crosscheck: system kernel $(DEVELOPMENT) ## compare task times with ns-3 and Debian's own kernel, and write docs/crosscheck.md; an hour or more, or MINUTES=60
	@distribution/system.sh g++ libns3-dev qemu-system-x86 busybox-static cpio kmod
	.venv/bin/python benchmarks/crosscheck/crosscheck.py $(if $(MINUTES),--minutes $(MINUTES))
	.venv/bin/python docs/figures.py docs/crosscheck.md

.PHONY: mutants
mutants: $(DEVELOPMENT) ## plant bugs in the protocol, and count those that the tests notice
	.venv/bin/python tests/plant_bugs.py --jobs 2

.PHONY: lint
lint: $(DEVELOPMENT) ## check style, types and the direction of imports
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/lint-imports --no-cache --no-logo

.PHONY: docs
docs: .venv/.docs ## build the documentation; warnings are errors
	@for page in $(REFERENCE); do \
	    .venv/bin/trunkline schema "--$${page%%:*}" | diff -u "$${page#*:}" - || { \
	        echo "$${page#*:} is out of date: run make reference, and commit it" >&2; \
	        exit 1; \
	    }; \
	done
	.venv/bin/sphinx-build --quiet --fresh-env --nitpicky --fail-on-warning docs docs/_build
	.venv/bin/python docs/figures.py --check
	@echo "docs/_build/index.html"

.PHONY: figures
figures: $(INSTALLED) ## make the tables of a page by their commands: PAGE=docs/x.md, or one of them: TABLE=name
	.venv/bin/python docs/figures.py $(PAGE) $(if $(TABLE),--table $(TABLE))

.PHONY: reference-logs
reference-logs: $(INSTALLED) ## make the hashes of six short runs again, after a change that moves events
	.venv/bin/python -m trunkline.harness.runs.reference_logs

.PHONY: pictures
pictures: $(INSTALLED) ## make the pictures of the README by their commands, or PICTURE=scale.png
	.venv/bin/python docs/pictures.py $(PICTURE)

.PHONY: reference
reference: $(INSTALLED) ## write the generated pages of the documentation
	@for page in $(REFERENCE); do \
	    .venv/bin/trunkline schema "--$${page%%:*}" > "$${page#*:}"; \
	done

.PHONY: system
system: ## install missing Debian packages
	@distribution/system.sh $(PACKAGES)

.PHONY: venv
venv: $(INSTALLED) ## create the virtual environment for runs, in the versions of locks/

$(INSTALLED): pyproject.toml $(wildcard locks/*.txt)
	$(PYTHON) -m venv .venv
	.venv/bin/python distribution/install.py $(INSTALL)
	.venv/bin/python -m pip install --disable-pip-version-check -qq --no-deps \
	    --no-build-isolation --editable .
	@touch $@

.PHONY: development
development: $(DEVELOPMENT) ## add what developing needs: tests, checks of style, clusters

$(DEVELOPMENT): $(INSTALLED)
	.venv/bin/python distribution/install.py $(EXTRAS) $(INSTALL)
	@touch $@

.venv/.docs: $(INSTALLED)
	.venv/bin/python distribution/install.py docs $(INSTALL)
	@touch $@

.PHONY: lock
lock: $(INSTALLED) ## write locks/ again, with the newest versions but of torch, or TORCH=VERSION
	.venv/bin/python -m pip install --disable-pip-version-check --quiet $(PIP_FLAGS) uv
	.venv/bin/python distribution/lock.py --upgrade $(if $(TORCH),--torch=$(TORCH)) \
	    $(if $(TORCH_INDEX),--torch-index='$(TORCH_INDEX)')

.PHONY: kernel
kernel: system ## build the embedded kernel, once per user, or install KERNEL_WHEEL
	@$(MAKE) --no-print-directory --jobs=2 venv $(if $(HAS_KERNEL),,compile)
ifneq ($(KERNEL_WHEEL),)
	.venv/bin/python -m pip install --disable-pip-version-check --quiet --no-deps --no-index \
	    --force-reinstall '$(KERNEL_WHEEL)'
endif
	@.venv/bin/trunkline kernel build

.PHONY: compile
compile: # the kernel, while pip installs
	@PYTHONPATH=src $(PYTHON) distribution/build_kernel.py

.PHONY: wheels
wheels: system $(INSTALLED) ## make the wheels trunkline and trunkline-kernel in dist/
	.venv/bin/python distribution/make_wheels.py

.PHONY: reproducible
reproducible: system $(INSTALLED) ## build the kernel and both wheels twice, and compare the bytes
	.venv/bin/python distribution/make_wheels.py --twice

.PHONY: clean
clean: ## remove everything that make created here; keeps runs/ and the kernel
	rm -rf .venv build dist docs/_build *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
