# Everything a fresh Debian with Go and gcc needs is fetched by these targets.
GO ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# go-nostr's C signatures: four times as fast as the Go ones. make TAGS= builds without.
TAGS ?= libsecp256k1
BUILD := $(GO) build -trimpath -tags "$(TAGS)" -ldflags "-X main.version=$(VERSION)"
TEST := $(GO) test -tags "$(TAGS)"

GOFUMPT := mvdan.cc/gofumpt@v0.12.0
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
DEADCODE := golang.org/x/tools/cmd/deadcode@v0.40.0
FUZZTIME ?= 10s
BENCHCOUNT ?= 5

# At its end it prints which tests did not run, or not whole, and what lets them run.
REPORT := $(GO) run ./internal/testclass/cmd/report
SELF = $(MAKE) --no-print-directory

.PHONY: help build page demo demo-lnd test test-packages test-lnd test-lnd-packages test-cashu long long-tests crash-matrix crash-loop test-cgroup2 race soak-agents year migrations fuzz bench check house unreached vectors requirements clean
help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

build: ## both programs, into bin/
	$(BUILD) -o bin/ ./cmd/lightwork ./cmd/lightwork-verify

# Of the second verifier. The one target that needs Node (20 or later) and npm.
page: ## the page that verifies receipts in a browser (Node 20, npm)
	cd sdk/verify-js && npm ci --ignore-scripts --no-audit --no-fund && npm run build
	mkdir -p bin/verify-page && cp sdk/verify-js/dist/site/index.html sdk/verify-js/dist/site/verify.js bin/verify-page/

# JOB names what is ordered; text_generation needs ENDPOINT and MODEL too.
DEMO = bin/lightwork demo $(if $(JOB),--job $(JOB)) $(if $(ENDPOINT),--endpoint $(ENDPOINT)) $(if $(MODEL),--model $(MODEL))

demo: build ## a whole paid job on this machine, with play money
	$(DEMO)

demo-lnd: build ## the same on real lnd nodes on a private simnet
	$(GO) run ./internal/devnet/cmd/devnet $(DEMO)

test: ## all tests that need no Lightning daemon, and a table of what did not run
	@$(REPORT) $(SELF) test-packages

# The provider's tests wait more than they work: they begin first, beside two other packages.
test-packages:
	$(TEST) -p 3 -timeout 40m ./provider ./...
	cd interop/khatru && $(TEST) -timeout 30m ./...
	cd bench/peers && $(TEST) -timeout 30m ./relay

# Long tests: every other run plays a slice, which LIGHTWORK_SEED chooses. On two cores the whole takes most of a day.
long: ## the long tests, whole: race detector, kills, migrations, crash matrix, crash loop, fuzzers
	@$(REPORT) $(SELF) long-tests

long-tests: race soak-agents migrations crash-matrix crash-loop
	$(SELF) fuzz FUZZTIME=2m

# PACKAGES=6 plays as many packages and ten tests of the provider, all chosen by LIGHTWORK_SEED. A slice leaves out what takes
# most of an hour under the detector: the provider as a whole, and the command.
PACKAGES ?= all
race: ## the tests of this module under the race detector
ifeq ($(PACKAGES),all)
	$(TEST) -race -timeout 60m ./...
else
	$(TEST) -race -timeout 30m $$($(GO) list ./... | grep -vE '/(provider|internal/cli)$$' | $(REPORT) --pick $(PACKAGES))
	$(TEST) -race -timeout 30m -run "^($$(sed -n 's/^func \(Test[A-Z][A-Za-z0-9_]*\)(.*/\1/p' provider/*_test.go | sort | grep -vx TestMain | $(REPORT) --pick 10 | paste -sd'|'))\$$" ./provider
endif

# lnd and btcd are built from the module proxy, once, into the user's cache.
test-lnd: ## the payment tests on real btcd and lnd, which it builds
	@$(REPORT) $(SELF) test-lnd-packages

test-lnd-packages:
	$(TEST) -tags "$(TAGS) lnd" -count=1 -p 1 -timeout 30m ./internal/devnet ./payments/lnd ./payments/onchain
	$(TEST) -tags "$(TAGS) lnd" -count=1 -timeout 30m -run "^($$(grep -l '^//go:build lnd' internal/cli/*_test.go | xargs sed -n 's/^func \(Test[A-Z][A-Za-z0-9_]*\)(.*/\1/p' | paste -sd'|'))\$$" ./internal/cli
	$(TEST) -tags "$(TAGS) lnd" -count=1 -timeout 30m ./internal/crashmatrix

# A real Cashu mint, built from the module proxy once.
test-cashu: ## the wallet of notes against a real Cashu mint, which it builds
	$(TEST) -tags "$(TAGS) lnd" -count=1 -timeout 30m -run RealMint ./payments/cashu

# The demo, and the tests of what confines, for those who have less than root: an ordinary user, and root and
# a user in a container that makes no namespaces and no cgroups. It needs root.
test-levels: build ## the demo and the sandbox for an ordinary user and in a container
	GO="$(GO)" TAGS="$(TAGS)" internal/barecontainer/run.sh

# Every crash point of a payment on every rail, as one table: about 25 minutes on two cores. test-lnd plays a fifth of the cells. POINTS="P5 B1-lnd cashu" plays
# a point on all rails, one cell, one rail. The first run builds lnd, which go test counts. It fails if a cell is not green; without root there is no small disk for P17.
POINTS ?= all
crash-matrix: ## every crash point of a payment on every rail, as one table (POINTS="P5 B1-lnd" plays some)
	LIGHTWORK_CRASH_MATRIX="$(POINTS)" $(TEST) -tags "$(TAGS) lnd" -count=1 -v -timeout 2h -run 'TestMatrix$$' ./internal/crashmatrix

# N jobs on real lnd; in each, provider, buyer or one of the lnds is killed at a random moment.
N ?= 300
crash-loop: ## N jobs on real lnd, each with a kill at a random moment
	LIGHTWORK_CRASH_LOOP=$(N) $(TEST) -tags "$(TAGS) lnd" -count=1 -v -timeout 5h -run TestLoop ./internal/crashmatrix

# The limits of agents and sandboxes on a kernel with cgroups of version 2, in an emulator (Debian on amd64, as root), and
# the scope that an ordinary user is given by systemd there;
# CGROUP2_TESTS=. runs all tests of those packages, for an hour,
# and CGROUP2_TESTS=TestEscapes the escape corpus, for half of one.
CGROUP2_TESTS ?= ^Test(Sweep|SettingsAreInForceInside|KillReachesEverything|QuotaIsInForce|RefusedForksAreCounted|MemoryIsBounded|MemoryIsBoundedInSum|DiskIsBounded|Check|TimeoutKillsEverything|CommandIdentity|MemoryOfAnAgent|ProcessesOfAnAgent)$$
test-cgroup2: ## limits of agents and sandboxes under cgroups of version 2, in QEMU
	GO="$(GO)" TAGS="$(TAGS)" internal/cgroup2vm/run.sh "$${XDG_CACHE_HOME:-$$HOME/.cache}/lightwork/cgroup2vm" '$(CGROUP2_TESTS)'

# DAILY=1000 needs 40 GB of disk, and most of a day.
DAYS ?= 365
DAILY ?= 30
BYTES ?= 2000000
year: ## a provider's year of sales and prunings, on a store and a blob server
	LIGHTWORK_YEAR_DAYS=$(DAYS) LIGHTWORK_YEAR_DAILY=$(DAILY) LIGHTWORK_YEAR_BYTES=$(BYTES) \
		$(TEST) -count=1 -v -timeout 0 -run AYearOnASmallDisk ./internal/node/retention

soak-agents: ## a thousand kills of a node that supervises agents
	LIGHTWORK_LONG=1 $(TEST) -count=1 -v -timeout 30m -run RandomKills ./agentruntime/supervisor

migrations: ## what a migration may do, over a million rows
	LIGHTWORK_LONG=1 $(TEST) -count=1 -v -timeout 30m -run MigrationsOfManyRows ./internal/sqlite

check: ## formatters, linters, go.mod, vectors
	@out=$$($(GO) run $(GOFUMPT) -l .); test -z "$$out" || { echo "gofumpt would change:"; echo "$$out"; exit 1; }
	$(GO) vet -tags "$(TAGS)" ./...
	$(GO) vet -tags "$(TAGS) lnd" ./payments/lnd ./payments/cashu ./payments/onchain ./internal/devnet ./internal/cli/... ./internal/crashmatrix
	$(GO) run $(STATICCHECK) ./...
	$(SELF) unreached
	$(GO) mod tidy -diff
	cd internal/devnet/binaries && $(GO) mod tidy -diff
	cd internal/devnet/mint && $(GO) mod tidy -diff
	cd interop/khatru && $(GO) mod tidy -diff && $(GO) vet ./...
	cd bench/peers && $(GO) mod tidy -diff && $(GO) vet -tags "$(TAGS)" ./...
	$(TEST) -count=1 -run VectorsAreCurrent ./receipts

house: ## the measures of the house, each package with its numbers
	$(GO) test -count=1 -v -run TestMeasures ./internal/house

UNREACHED := internal/house/unreached.txt
unreached: ## functions that no program or example reaches, against the list of those that stay
	@found=$$($(GO) run $(DEADCODE) -tags "$(TAGS)" -f '{{$$p := .Path}}{{range .Funcs}}{{println (printf "%s.%s" $$p .Name)}}{{end}}' ./cmd/... ./examples/... ./sdk/...) && \
	found=$$(echo "$$found" | sed -n 's|^github.com/lightwork-market/lightwork/||p' | LC_ALL=C sort) && \
	listed=$$(sed -n 's/^\([^#\t][^\t]*\)\t.*/\1/p' $(UNREACHED) | LC_ALL=C sort) && \
	if [ "$$found" != "$$listed" ]; then \
		echo "no program reaches these (remove them, or say in $(UNREACHED) why they stay), or the list is out of date (<: unreached, >: listed):"; \
		t=$$(mktemp); echo "$$listed" >$$t; echo "$$found" | diff - $$t; rm -f $$t; exit 1; \
	fi

# Which lines of docs/develop/requirements.md a passing test covers, and what failing tests said; LIST=1 names the lines.
requirements: ## which lines of docs/develop/requirements.md tests cover (LIST=1 names them)
	$(GO) run ./internal/requirements/cmd/matrix $(if $(LIST),--list) -- -tags "$(TAGS)" ./...

vectors: ## write the receipt test vectors anew
	$(TEST) -count=1 ./receipts -run Vectors -update

# docs/develop/benchmarks.md says what these measure. BENCHCOUNT runs each, for a median.
bench: ## the benchmarks of this module, BENCHCOUNT times each
	$(TEST) -run '^$$' -bench . -benchmem -count $(BENCHCOUNT) ./hashing ./schemas ./receipts ./relay/nip01 \
		./agentruntime/frame ./agentruntime/pipeline ./agentruntime/supervisor ./internal/sqlite ./agentruntime/sandbox ./agentruntime/agents/wasmhost ./internal/store/... ./internal/sigbatch ./relay/server ./bench

# An input that finds something new is made smaller for a moment only: without the
# bound a slow fuzzer does nothing else. Go 1.26 may end one with "context deadline
# exceeded" when its time is over (go.dev/issue/75804), which is no failure: one names its input.
# FUZZERS=8 plays as many, which LIGHTWORK_SEED chooses.
FUZZERS ?= all
fuzz: ## every fuzzer for FUZZTIME, one after the other
	@set -e; list=$$(grep -ro --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed 's|/[^/]*:func | |' | sort$(if $(filter-out all,$(FUZZERS)), | $(REPORT) --pick $(FUZZERS))); \
	test -n "$$list"; out=$$(mktemp); echo "$$list" | while read -r folder name; do \
		echo "== $$name in $$folder"; \
		if ! $(TEST) -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$folder >$$out 2>&1 && \
			{ grep -q 'Failing input' $$out || ! grep -q 'context deadline exceeded' $$out; }; then cat $$out; exit 1; fi; \
		tail -1 $$out; \
	done; rm -f $$out

clean: ## remove what was built
	rm -rf bin
