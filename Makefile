# Two commands on a fresh machine: `make compile` and `make test`. `make` alone prints what else there is.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

BIN := .venv/bin
READY := .venv/ready
COUNT ?=
SEED ?= 0
MINUTES ?=
AS_ROOT ?=
BASE ?=
UPGRADE ?=
IMAGE_REGISTRY ?= cr.openfuyao.cn/openfuyao

.PHONY: help
help: ## Print this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r target meaning; do \
		printf '  make %-14s %s\n' "$$target" "$$meaning"; done

# The first Python of at least 3.11 that runs: a version manager may offer a name that it cannot run.
# It is built aside and moved in only by the last step, the stamp; an interrupted set-up begins again.
$(READY): requirements.lock pyproject.toml
	@python=$$(for name in python3.13 python3.12 python3.11 python3; do \
		"$$name" -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
			&& echo "$$name" && break; done); \
	if [ -z "$$python" ]; then echo 'Python 3.11 or newer, with its venv module, is needed.' >&2; exit 1; fi; \
	echo "Setting up .venv with $$python"; \
	"$$python" -m venv --clear .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# A call compiles the templates itself where this is older than they are, which takes it twice its time.
CODE := compiler/_templates.py
$(CODE): $(READY) ci/wheel.py $(wildcard compiler/rendering/template_*.py templates/* templates/*/*.yaml)
	@$(BIN)/python ci/wheel.py
	@touch $@

.PHONY: compile
compile: $(CODE) ## Compile policies/ and inventory/ to output/
	@# Where the shell forbids Python to keep what it compiled, each call would compile the modules again.
	@$(BIN)/python -m compileall -q compiler runtime
	$(BIN)/kae compile

# What the tests start again and again is compiled once, whatever the shell says of others' programs.
.PHONY: test test-long
test test-long quick mutants: export PYTHONDONTWRITEBYTECODE =
test: $(CODE) ## Run the tests that every change must pass; they need neither root nor a cluster
	$(BIN)/python -m pytest -n auto --dist worksteal -m 'not long'
	@echo 'What takes longer: make test-long. What needs root, a cluster and a kernel: make cluster-tools test-cluster test-vm'

test-long: $(CODE) ## Run the campaigns and the slowest tests, and the random ones with more examples
	KAE_LONG=1 $(BIN)/python -m pytest -n auto --dist worksteal -m 'long or hypothesis or seeded'

.PHONY: quick
quick: $(CODE) ## Check style, types and the tests of what changed since BASE=, at most a minute
	@$(BIN)/python -m tests.quick $(BASE)

.PHONY: hooks
hooks: ## Have git run `make quick` before each push
	@bash ci/hooks.sh

.PHONY: mutants
mutants: $(CODE) ## Make small faults in the programs, and print those that no test notices (COUNT=64 SEED=0 MINUTES=60)
	$(BIN)/python -m tests.mutants --count $(or $(COUNT),64) --seed $(SEED) --minutes $(or $(MINUTES),60) $(if $(AS_ROOT),--as-root)

# MkDocs is no part of what the tests of each change need, and has an environment of its own.
SITE_READY := .venv/site/ready
$(SITE_READY): $(READY) docs/requirements.lock
	@$(BIN)/python -m venv --clear .venv/site
	@.venv/site/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: \
		-r docs/requirements.lock
	@touch $@

.PHONY: test-browser
test-browser: $(CODE) $(SITE_READY) ## Run the tests of the report's page and of the site in chromium (apt-get install chromium)
	$(BIN)/python -m pytest -rs tests/browser

.PHONY: cluster-tools
cluster-tools: $(CODE) ## Build the Go programs of test-cluster (once, about twenty-five minutes cold)
	$(BIN)/python -m tests.cluster.tools

GITOPS := $(addprefix tests/cluster/test_gitops,.py _additions.py _cleanup.py _foreign.py)
LOOP := tests/cluster/test_loop.py
ENGINES ?= argocd flux
ALONE := $(addprefix tests/cluster/test_,live.py node_labels.py watcher.py watcher_rights.py)
RELEASE := tests/images/test_release.py
ABREAST := -n 2 --dist loadgroup

.PHONY: test-cluster
test-cluster: $(CODE) ## Run the tests that need root: real kubelet, API server, images, rpm and dnf
	@# These want a cluster without any node but their own. Tests wait most of the time: two workers have a cluster each.
	$(BIN)/python -m pytest $(ABREAST) $(ALONE)
	$(BIN)/python -m pytest $(ABREAST) tests/cluster tests/host tests/images \
		$(addprefix --ignore ,$(GITOPS) $(ALONE) $(LOOP) $(RELEASE))
	KAE_CLUSTER_RUNTIME=containerd-2 $(BIN)/python -m pytest tests/cluster/test_device_plugin_containers.py \
		tests/cluster/test_dra.py tests/cluster/test_dra_handover.py

.PHONY: test-release
test-release: $(CODE) ## Make a release twice in two clones, and do the main job from its wheel and image (root, ten minutes, after cluster-tools)
	$(BIN)/python -m pytest $(RELEASE)

.PHONY: test-gitops
test-gitops: $(CODE) ## Have Argo CD and Flux apply the example clusters, undo additions, and remove a driver (eight minutes, after cluster-tools)
	$(BIN)/python -m pytest $(GITOPS)

.PHONY: test-loop
test-loop: $(CODE) ## Bring a driver to a real node by a commit, change it by another, revert it (ENGINES="argocd flux"; five minutes, after cluster-tools)
	@set -e; for engine in $(ENGINES); do \
		echo "KAE_LOOP_ENGINE=$$engine $(BIN)/python -m pytest -s $(LOOP)"; \
		KAE_LOOP_ENGINE=$$engine $(BIN)/python -m pytest -s $(LOOP); done

.PHONY: calibrate
calibrate: $(CODE) ## Run the loop of test-loop COUNT=10 times, and compare its times with those of kae simulate
	$(BIN)/python -m tests.cluster.loop.calibrate --count $(or $(COUNT),10)

.PHONY: demo
demo: $(CODE) ## Play with a fleet on this machine, from git to a device, until Ctrl-C (root, after cluster-tools)
	@$(BIN)/python -m tests.cluster.loop

.PHONY: test-vm test-vm-short
test-vm: $(CODE) ## Run the installer and the device plugin on a real kernel, in QEMU; needs root
	$(BIN)/python -m pytest -rsR tests/vm

test-vm-short: $(CODE) ## Run the tests of test-vm that every change must pass (five minutes without KVM)
	$(BIN)/python -m pytest -rsR -m short tests/vm

.PHONY: faults
faults: $(CODE) ## Inflict seeded faults on the device plugin, by each interface (COUNT=1000 SEED=0)
	$(BIN)/python -m tests.device_plugin.faults --count $(or $(COUNT),1000) --seed $(SEED)
	GRPC_VERBOSITY=NONE $(BIN)/python -m tests.device_plugin.dra_faults --count $(or $(COUNT),1000) --seed $(SEED)
	GRPC_VERBOSITY=NONE $(BIN)/python -m tests.device_plugin.dra_kills --count 40 --seed $(SEED)

.PHONY: watcher-faults
watcher-faults: $(CODE) ## Inflict seeded faults on the watcher (COUNT=500 SEED=0)
	$(BIN)/python -m tests.watcher.faults --count $(or $(COUNT),500) --seed $(SEED)

.PHONY: fleets
fleets: $(CODE) ## Compare the plans of random fleets with slow judges (COUNT=2000 SEED=0)
	$(BIN)/python -m tests.property.fleets --count $(or $(COUNT),2000) --seed $(SEED)
	$(BIN)/python -m tests.property.fleets --recipes --count $(or $(COUNT),2000) --seed $(SEED)

.PHONY: hostile
hostile: $(CODE) ## Compile hostile projects, and look for what is read or written outside of them (COUNT=1000 SEED=0)
	$(BIN)/python -m tests.property.hostile --count $(or $(COUNT),1000) --seed $(SEED)

.PHONY: determinism
determinism: $(CODE) ## Compile the example fleet under many conditions, by each Python that is there, and compare the bytes
	$(BIN)/python -m tests.determinism

.PHONY: walk
walk: $(CODE) ## Edit the example fleet at random, and judge what each compile takes away (COUNT=500 SEED=0)
	$(BIN)/python -m tests.property.walk --count $(or $(COUNT),500) --seed $(SEED)
	$(BIN)/python -m tests.property.walk --recipes --count $(or $(COUNT),500) --seed $(SEED)

.PHONY: merges
merges: $(CODE) ## Join pairs of changes of a fleet by git, and compile what conflicts (COUNT=50 SEED=0)
	$(BIN)/python -m tests.property.merges --count $(or $(COUNT),50) --seed $(SEED)

.PHONY: pairs
pairs: $(CODE) ## Compare what kae diff claims of random pairs of commits with outputs and hosts (COUNT=300 SEED=0)
	$(BIN)/python -m tests.property.revision_pairs --count $(or $(COUNT),300) --seed $(SEED)
	$(BIN)/python -m tests.property.node_pairs --count $(or $(COUNT),300) --seed $(SEED)

.PHONY: policy-edits
policy-edits: $(CODE) ## Edit policies of random fleets by the commands for it, and read the files a second time (COUNT=300 SEED=0)
	$(BIN)/python -m tests.property.policy_edits --count $(or $(COUNT),300) --seed $(SEED)

.PHONY: rehearsals
rehearsals: $(CODE) ## Rehearse random pairs of commits on a real control plane, and compare with kae diff (COUNT=60 SEED=0)
	$(BIN)/python -m tests.cluster.rehearsals --count $(or $(COUNT),60) --seed $(SEED)

.PHONY: places
places: $(CODE) ## Break places of a fake host (links, pipes, full, read-only and dead mounts) under the driver installer; root (COUNT=2000 SEED=0)
	$(BIN)/python -m tests.property.places --count $(or $(COUNT),2000) --seed $(SEED)

.PHONY: supply
supply: $(CODE) ## Edit where what runs on random fleets comes from, and judge the risks of kae diff (COUNT=300 SEED=0)
	$(BIN)/python -m tests.property.supply --count $(or $(COUNT),300) --seed $(SEED)

.PHONY: programs
programs: $(CODE) ## Compile random recipes with programs, and read their texts and rights a second time (COUNT=2000 SEED=0)
	$(BIN)/python -m tests.property.programs --count $(or $(COUNT),2000) --seed $(SEED)

.PHONY: added-edits
added-edits: $(CODE) ## Add an edit to random changes, and look for risks that kae diff then tells no more (COUNT=300 SEED=0)
	$(BIN)/python -m tests.property.added_edits --count $(or $(COUNT),300) --seed $(SEED)

.PHONY: compare
compare: $(CODE) ## Compare what another checkout makes of random fleets (BEFORE=CHECKOUT ALLOW=SORT COUNT=500 SEED=0)
	$(BIN)/python -m tests.property.compare $(BEFORE) . --count $(or $(COUNT),500) --seed $(SEED) $(if $(ALLOW),--allow '$(ALLOW)')

.PHONY: divided
divided: $(CODE) ## Compile random fleets by one process, by several and by shards, and compare (COUNT=50 SEED=0)
	$(BIN)/python -m tests.property.divided --count $(or $(COUNT),50) --seed $(SEED)

.PHONY: kills
kills: $(CODE) ## Kill and interrupt compiles by several processes, and look at what the next one ends with (COUNT=30)
	KAE_MOMENTS=$(or $(COUNT),30) $(BIN)/python -m pytest tests/kill/test_several_processes.py

.PHONY: crashes
crashes: $(CODE) ## Kill the driver installer after every step, and look at what the host ends with
	$(BIN)/python -m tests.installer.crashes

.PHONY: power-cuts
power-cuts: $(CODE) ## Cut the power of a machine in the steps of a driver's change, as test-vm (COUNT=40 SEED=0)
	$(BIN)/python -m tests.vm.power_cuts --count $(or $(COUNT),40) --seed $(SEED)

.PHONY: lint
lint: $(CODE) ## Check style and formatting
	$(BIN)/ruff check
	$(BIN)/ruff format --check

ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
MADE := .venv/init
WORKFLOWS := .github/workflows/*.yml $(MADE)/*/.github/workflows/*.yaml

.PHONY: workflows
workflows: $(CODE) ## Check workflows and scripts (zizmor; actionlint where Go is installed, and shellcheck where it is)
	$(BIN)/zizmor --offline --no-progress --quiet .
	@rm -rf $(MADE) && mkdir $(MADE)
	@$(BIN)/kae init $(MADE)/alone >$(MADE)/log && $(BIN)/kae init $(MADE)/shards --shards 4 >$(MADE)/log
	@if command -v go >/dev/null; then echo 'go run $(ACTIONLINT)' && go run $(ACTIONLINT) $(WORKFLOWS); \
	else echo 'actionlint did not run: it needs Go.'; fi
	@# actionlint gives the scripts in workflows to shellcheck, too.
	@if command -v shellcheck >/dev/null; then (git ls-files '*.sh' .ci/run .ci/nightly; ls $(MADE)/*/ci/*.sh) | xargs shellcheck -x; \
	else echo 'shellcheck did not run: apt-get install shellcheck'; fi

.PHONY: format
format: $(CODE) ## Format the code, and mend what can be mended by itself
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

.PHONY: types
types: $(CODE) ## Check the types
	$(BIN)/mypy

.PHONY: imports
imports: $(CODE) ## Check which module may import which
	$(BIN)/lint-imports

# Write every schema to a folder; `kae schema --write` writes those for editors only.
schemas = @for name in $$($(BIN)/kae schema); do $(BIN)/kae schema $$name > $(1)/$$name.json || exit 1; done

.PHONY: codes
codes: $(CODE) ## Write compiler/codes.py anew from the rules that the checks have as docstrings
	@$(BIN)/python -m docs.codes

.PHONY: schemas
schemas: codes ## Write schemas/ anew from the models
	$(call schemas,schemas)

.PHONY: docs
docs: codes ## Write the generated parts of docs/ anew
	$(BIN)/python -m docs

.PHONY: check
check: $(CODE) ## Check that output/, schemas/, compiler/codes.py and the generated docs are what the code produces
	$(BIN)/python -m docs.codes --check
	@rm -rf .venv/schemas && mkdir .venv/schemas
	$(call schemas,.venv/schemas)
	diff -r schemas .venv/schemas
	$(BIN)/python -m docs --check
	$(BIN)/kae compile --check

.PHONY: site
site: $(SITE_READY) ## Build the site of docs/ into dist/site; a broken link or anchor fails (SITE= its address, REPOSITORY= that of the sources)
	NO_MKDOCS_2_WARNING=1 .venv/site/bin/mkdocs build --quiet --strict

.PHONY: wheel
wheel: $(CODE) ## Build the wheel into dist/, where it is the only one
	@rm -f dist/kae_compiler-*.whl
	env -u SOURCE_DATE_EPOCH $(BIN)/python -m build --wheel --no-isolation

.PHONY: images compiler-image driver-image
images compiler-image driver-image: export IMAGE_REGISTRY := $(IMAGE_REGISTRY)
images: ## Build the images of the programs (TAG= BASE_IMAGE= PLATFORM= IMAGE_REGISTRY= IMAGE_FLAGS=: ci/images.sh)
	@bash ci/images.sh kae-device-plugin kae-driver-installer kae-watcher

compiler-image: ## Build the image of kae for jobs (WHEEL=, and the same variables)
	@bash ci/images.sh kae-compiler

driver-image: ## Build an image with a driver (KAE=FOLDER DRIVER_VERSION= INSTALLER_IMAGE= KERNELS= LIBRARIES= PACKAGES=FOLDER BUILD_IMAGE=)
	@bash ci/images.sh driver

.PHONY: release
release: $(CODE) ## Rehearse a release twice: build, sign, verify, and try wheel and images (VERSION=; root, after cluster-tools)
	$(BIN)/python -m tests.images.rehearsal $(if $(VERSION),--version $(VERSION))

.PHONY: bench
bench: $(CODE) ## Measure the compiler and git on large fleets (BEFORE=CHECKOUT), the device plugin, the watcher, and many watchers
	$(BIN)/python -m benchmarks $(if $(BEFORE),--before $(BEFORE))
	$(BIN)/python -m benchmarks.git_time
	$(BIN)/python -m benchmarks.pools
	$(BIN)/python -m benchmarks.plugin
	$(BIN)/python -m benchmarks.watcher
	$(BIN)/python -m benchmarks.watchers
	$(BIN)/python -m benchmarks.delivery

.PHONY: fuzz
fuzz: $(CODE) ## Compile mutated documents (COUNT=100000 SEED=0): no crash, no half-written output
	$(BIN)/python -m tests.fuzz --count $(or $(COUNT),100000) --seed $(SEED)

PIN := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock'

# The images take the versions that the tests have run with.
.PHONY: lock
lock: $(CODE) ## Pin the dependencies anew (UPGRADE=--upgrade takes the newest)
	$(PIN) pyproject.toml --group dev --output-file requirements.lock $(UPGRADE)
	$(PIN) --group device-plugin --constraint requirements.lock --output-file device_plugin/requirements.lock
	$(PIN) --group driver-installer --constraint requirements.lock --output-file installer/requirements.lock
	$(PIN) --group watcher --constraint requirements.lock --output-file watcher/requirements.lock
	$(PIN) --group site --constraint requirements.lock --output-file docs/requirements.lock $(UPGRADE)
	$(PIN) --group wheel --constraint requirements.lock --output-file ci/requirements.lock
	$(PIN) pyproject.toml --no-header --constraint requirements.lock --output-file templates/init/ci/requirements.txt
	$(PIN) --group rehearsal --no-header --constraint requirements.lock --output-file templates/init/ci/requirements-live.txt

.PHONY: clean
clean: ## Remove everything that git does not keep and these commands made
	rm -rf .venv dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find benchmarks compiler device_plugin docs installer runtime tests watcher -name __pycache__ -type d -prune -exec rm -rf {} +
