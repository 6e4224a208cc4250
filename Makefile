# make live    set up, serve the book, live, and measure its chapters on this machine meanwhile
# make book    set up, measure the chapters and build the book
# make instructors    the book once more, with agendas and the notes on the labs, right answers among them
# make test    set up and run the tests that an everyday change needs: test-computed on all CPUs, then test-measured
# make test-all   the same, and then test-together (guests, small books, the book in a browser, servers) and test-labs
# make test-thorough   what else `.ci/run` asks: twenty times as many cases, other answers to labs, other users, many machines, faults, five incidents, programs with known troubles
# make test-incidents   every variant of every incident, and each of its repairs (an hour and a half)
# make test-kernels   every kernel of the book, booted under QEMU (minutes)
# make vm-test   the reader's virtual machine, made and booted under QEMU (root; a quarter of an hour)
# make faults   five hundred runs in the middle of which something goes wrong (root; an hour)
# make check   linters, types, C warnings
# make bench   what measuring costs, against its peers
# make bench-trust   our wake-ups against cyclictest's, and how often a thing differs from itself (a quiet machine)
# make bench-peers   our ring and our probe against lat_ctx and schbench, where they are in PATH (a quiet machine)
# make bench-agreement   whether two runs of the first chapter agree within their intervals (a quiet machine)
# make bench-book   how long `make book` takes from a fresh clone (minutes)
# make clean   take away what was built (.venv and your own results stay)
#
# PROFILE=full   measure longer and finer (default: quick); PROFILE=recorded: only draw the runs that ship with the book
# FRESH=1        measure again even where nothing changed
# PYTHON=...     another Python than the first one found that is new enough
# PROVISION=no   leave the system's packages alone
# RELEASE=bookworm   Debian 12 for `make vm-test` (default: trixie, Debian 13)

PROFILE ?= quick
FRESH ?=
PYTHON ?=
PROVISION ?= yes
RELEASE ?= trixie

VENV := .venv
BOOK := $(VENV)/bin/python -m sched_labs.book
BOOK_OPTIONS := --profile $(PROFILE) $(if $(FRESH),--fresh)

.DEFAULT_GOAL := help
.PHONY: help live book instructors test test-computed test-measured test-all test-together test-labs test-thorough test-incidents test-kernels vm-test faults check bench bench-trust bench-peers bench-agreement bench-book clean system

help:
	@sed -n 's/^# \{0,1\}//p;/^$$/q' Makefile

live: $(VENV)/installed
	@$(BOOK) live $(BOOK_OPTIONS)

book: $(VENV)/installed
	@$(BOOK) build $(BOOK_OPTIONS)

instructors: $(VENV)/installed
	@$(BOOK) build --instructors $(BOOK_OPTIONS)

# What only the tests need is installed for these alone.
test-computed test-measured test-together test-labs test-thorough test-incidents test-kernels faults check bench bench-trust bench-peers bench-agreement bench-book: SYSTEM_OPTIONS := --tests

PYTEST := $(VENV)/bin/python -m pytest
# One more than there are CPUs, as there is always one that waits; each has the library and a browser in its memory.
SEVERAL := $(PYTEST) -n $(shell n=$$(nproc); echo $$((n < 3 ? n + 1 : 4)))
LONG := guests or pages or opened or labs
THOROUGH := system or troubles or answers
# TESTS="tests/test_lock.py ...": these only.  Status 5 says that none of them belongs to this part.
CHOSEN := $(if $(TESTS),$(TESTS) || { status=$$?; [ $$status -eq 5 ] || exit $$status; })

test: test-computed test-measured

test-computed: $(VENV)/installed-test
	$(SEVERAL) --dist worksteal -m "computes and not ($(LONG) or $(THOROUGH))" $(CHOSEN)

# One at a time: what runs beside a measurement is in its numbers.
test-measured: $(VENV)/installed-test
	$(PYTEST) -m "not (computes or $(LONG) or $(THOROUGH))" $(CHOSEN)

test-all: test test-together test-labs

# Whoever is done first takes what comes next; tests/conftest.py says what comes early, and what one process keeps.
TOGETHER := $(SEVERAL) --dist loadscope --no-loadscope-reorder

test-together: $(VENV)/installed-test
	$(TOGETHER) -m "computes and ($(LONG)) and not ($(THOROUGH))" $(CHOSEN)

test-labs: $(VENV)/installed-test
	$(PYTEST) -m "($(LONG)) and not (computes or $(THOROUGH))" $(CHOSEN)

# SCHED_LABS_CASES: how many cases the properties are tried on, 1,000 in `make test`.
test-thorough: $(VENV)/installed-test
	SCHED_LABS_CASES=20000 $(TOGETHER) -m "(cases or $(THOROUGH)) and computes and not variants" $(CHOSEN)
	$(PYTEST) -m "($(THOROUGH)) and not computes" $(CHOSEN)

test-incidents: $(VENV)/installed-test
	$(PYTEST) tests/test_incidents_live.py

test-kernels: $(VENV)/installed-test
	$(PYTEST) tests/kernels/gallery.py

CASES ?= 500
SEED ?= 1
faults: $(VENV)/installed-test
	$(VENV)/bin/python tests/faults/campaign.py --cases $(CASES) --seed $(SEED)

# Needs nothing of this folder but what is committed.
vm-test:
	@bash scripts/vm-test.sh $(RELEASE)

check: $(VENV)/installed-test
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	gcc -std=gnu11 -fsyntax-only -Wall -Wextra -Werror -Isrc/sched_labs/workloads/src \
		-Isrc/sched_labs/topics/switching_less/connections src/sched_labs/workloads/src/*.c \
		src/sched_labs/topics/*/*/*.c src/sched_labs/incidents/*.c benchmarks/peers/echo.c
	@if command -v shellcheck >/dev/null; then shellcheck scripts/*.sh .ci/run; \
	else echo "shellcheck is not installed: shell scripts are not checked"; fi

bench: $(VENV)/installed-test
	$(VENV)/bin/python benchmarks/run.py

bench-trust: $(VENV)/installed-test
	$(VENV)/bin/python benchmarks/trust.py

bench-peers: $(VENV)/installed-test
	$(VENV)/bin/python benchmarks/elsewhere.py

bench-agreement: $(VENV)/installed-test
	$(VENV)/bin/python benchmarks/agreement.py

bench-book: $(VENV)/installed-test
	$(VENV)/bin/python benchmarks/book.py

clean:
	@if [ -x $(VENV)/bin/sched-labs ]; then $(VENV)/bin/sched-labs clean; fi
	rm -rf _build .pytest_cache .mypy_cache .ruff_cache

# Status 3: something could not be installed. The script has said what that costs; the book is made with what is there.
system:
ifneq ($(PROVISION),no)
	@bash scripts/provision.sh $(SYSTEM_OPTIONS) || [ $$? -eq 3 ]
endif

$(VENV)/bin/python: | system
	@for candidate in $(or $(PYTHON),python3 python3.13 python3.12 python3.11); do \
	  if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$candidate; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "The book needs Python 3.11 or newer, and there is none here ($$(python3 --version 2>&1))." >&2; \
	  echo "Install one, or name it: make live PYTHON=/path/to/python3.12" >&2; exit 1; \
	fi; \
	if ! $$found -c 'import venv, ensurepip' 2>/dev/null; then \
	  echo "$$found comes without its venv module. On Debian and Ubuntu: sudo apt-get install python3-venv" >&2; exit 1; \
	fi; \
	echo "Python packages go to $(VENV), made with $$($$found --version)"; \
	rm -rf $(VENV) && $$found -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(VENV)/bin/python
	@echo "Installing Python packages (the first time this takes a minute or two, and 600 MB)"
	@$(VENV)/bin/python -m pip install --no-compile --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/installed-test: pyproject.toml | $(VENV)/bin/python
	@echo "Installing Python packages, the test suite's among them"
	@$(VENV)/bin/python -m pip install --no-compile --quiet --disable-pip-version-check -e '.[test]'
	@touch $@ $(VENV)/installed
