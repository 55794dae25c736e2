SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup build release-dry image pictures gallery site generate fmt tidy lint drift short bench-once gin check test judges soak stress bench judge-curve ab-truth lever-truth load-truth why-truth fleet-bench fleet-turns FORCE size install-test

# What is compiled does not depend on the folder, so that another clone finds it
# in the build cache.
export GOFLAGS := -trimpath $(GOFLAGS)

# Two modules: the laboratory, and the RPC libraries, which others import without it.
both := ./... ./rpc/...
# Tools are pinned apart from the product, in tools/go.mod, and built into bin/tools.
tool := $(CURDIR)/bin/tools

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what the tests need besides Go (a C compiler for -race, Chromium for the report)
	@tools/setup.sh

# Gin is only in what is built with its tag: its dependencies take longer to
# compile than all of gRPC (decision 0024).
gin := -tags=gin,nomsgpack

OUT ?= bin/wirelab
build: ## bin/wirelab, static, with Gin, without symbols for a debugger
	CGO_ENABLED=0 go build -trimpath $(gin) -ldflags='-s -w' -o $(OUT) ./cmd/wirelab

size: build ## what each module adds to bin/wirelab
	CGO_ENABLED=0 go build -trimpath $(gin) -o bin/wirelab-symbols ./cmd/wirelab
	@go -C tools run ./size -of $(CURDIR)/$(OUT) -symbols $(CURDIR)/bin/wirelab-symbols

install-test: # go install of the last commit, from a module proxy of files, without a network
	WIRELAB_INSTALL=1 go -C tools test -count=1 -v -run='^TestGoInstall$$' ./release

release-dry: ## dist: all files of a release of the last commit, and nothing published: programs, packages, image, checksums, man pages (docs/install.md); ONLY=linux/amd64
	@rm -rf dist
	go -C tools run ./release -root $(CURDIR) -dist $(CURDIR)/dist -only '$(ONLY)'

image: ## make the container image, give it to docker or podman, and write its name into deploy; REGISTRY=registry.example.com/team names it; PUSH=1 pushes it instead, WRITE=0 leaves deploy as it is
	@go -C tools run ./image -root $(CURDIR) -registry '$(REGISTRY)' $(if $(filter 1,$(PUSH)),-push) $(if $(filter 0,$(WRITE)),-write=false)

pictures: build ## the README's pictures, from a real run of two minutes; needs script (util-linux) and Chromium
	@go -C tools run ./pictures -wirelab $(CURDIR)/bin/wirelab -docs $(CURDIR)/docs -- compare -c 1,50

gallery: build ## gallery: real runs for the site, one after the other, in half an hour; draws the charts of docs/guides, and writes docs/results (needs Chromium and a quiet machine); it continues where it stopped; ONLY=name makes one, BUDGET=1m tries it and leaves docs alone
	@go -C tools run ./gallery -wirelab $(CURDIR)/bin/wirelab -root $(CURDIR) -out $(CURDIR)/gallery -only '$(ONLY)' -budget '$(BUDGET)'

GALLERY ?= $(wildcard gallery)
site: ## site: the documents as a static site, with each link checked and thirty commands run; shows the runs of make gallery, or of GALLERY=folder
	@rm -rf bin/pages && mkdir -p bin/pages/commands
	go test -count=1 -run='^Test(ManPages|CommandLinesOfPagesAreUnderstood|CommandsOfPagesRun)$$' ./cmd/wirelab -markdown=$(CURDIR)/bin/pages/commands
	@go -C tools run ./site -root $(CURDIR) -out $(CURDIR)/site -commands $(CURDIR)/bin/pages -gallery '$(abspath $(GALLERY))' -version "$$(git describe --always --dirty)"

generate: ## write the code that comes from .proto files, and the report page (this one needs npm)
	go -C tools run ./generate

bin/tools: tools/go.mod
	@mkdir -p $@
	go -C tools build -o $(tool)/ tool
	@touch $@

fmt: bin/tools ## format all Go files
	$(tool)/gofumpt -w .

lint: bin/tools ## formatting, phrases that must be read twice, vet, the linters of .golangci.yml
	@unformatted=$$($(tool)/gofumpt -l .); \
	if [ -n "$$unformatted" ]; then printf 'not formatted; run make fmt:\n%s\n' "$$unformatted"; exit 1; fi
	go -C tools run ./words -root ..
	go vet $(both)
	go vet $(gin) ./internal/wire/stack/restjson
	go -C tools vet ./...
	go -C rpc/fastgrpc/interop vet ./...
	go -C peers/rivals vet ./...
	go -C deploy/check vet ./...
	go -C examples vet ./chanpool ./fastgrpc ./shop
	$(tool)/golangci-lint run $(both)
	cd tools && $(tool)/golangci-lint run --config=../.golangci.yml ./...
	cd rpc/fastgrpc/interop && $(tool)/golangci-lint run --config=../../../.golangci.yml ./...
	cd peers/rivals && $(tool)/golangci-lint run --config=../../.golangci.yml ./...
	cd deploy/check && $(tool)/golangci-lint run --config=../../.golangci.yml ./...

# go mod tidy knows no workspace, and would look for a release of wirelab.dev/rpc.
tidy: ## go mod tidy in all modules
	go mod edit -replace wirelab.dev/rpc=./rpc
	GOWORK=off go mod tidy; status=$$?; go mod edit -dropreplace wirelab.dev/rpc; exit $$status
	cd rpc && GOWORK=off go mod tidy
	cd rpc/fastgrpc/interop && go mod tidy
	cd peers/rivals && go mod tidy
	cd tools && go mod tidy
	cd deploy/check && go mod tidy
	for example in examples/*/; do (cd $$example && GOWORK=off go mod tidy) || exit 1; done

drift: ## committed generated code is what generate would write
	go -C tools run ./generate -check

# The packages that have benchmarks: to link the others' tests would take minutes.
bench-once: # every benchmark a single time, so that none can rot
	go test -short -run='^$$' -bench=. -benchtime=1x $$(go list -f '{{.Dir}}' $(both) | while read -r dir; do grep -qs '^func Benchmark' "$$dir"/*_test.go && echo "$$dir" || true; done)

gin: # rest-json on Gin
	go test -short -bench=. -benchtime=1x $(gin) ./internal/wire/stack/restjson

# bin/phases runs the named phases, shows how they go, and sums up.
bin/phases: FORCE
	@mkdir -p bin
	@go -C tools build -o ../bin/phases ./phases
FORCE:

short: bin/phases # the fast tests, watched for races
	@bin/phases short

check: bin/phases ## what to run before a commit: lint, drift, short, bench-once
	@bin/phases lint drift short bench-once gin

# The full tests run without the race detector: they measure, and must not measure
# the detector. They hold the benchmarks too.
test: export GOFLAGS += -count=1
test: bin/phases ## everything
	@bin/phases setup lint drift short gin full

# make test runs those that take seconds. These take two hours where the machine is busy.
judges: setup ## fastgrpc before all its foreign judges, in full, and wirelabtest before planted and equal stacks; UPDATE=1 writes the tables of examples and of bulk
	JUDGES=1 go -C rpc/fastgrpc/interop test -count=1 -timeout=2h -parallel=4 $$(go -C rpc/fastgrpc/interop list ./... | grep -v /bulk$$)
	JUDGES=1 go -C rpc/fastgrpc/interop test -count=1 -timeout=3h -v ./bulk
	JUDGES=1 go test -count=1 -timeout=30m -v -run='^Test(APlantedPause|EqualStacks)' ./wirelabtest

SOAK ?= 30m
soak: ## calls of all kinds and sizes over all libraries for 30 minutes, watched for races, while connections are cut and servers leave; SOAK=2m is shorter
	SOAK=$(SOAK) go -C rpc/fastgrpc/interop test -race -count=1 -timeout=0 -v -run='^TestSoak$$' ./load

# What fails here and not in `make test` fails there too one day.
stress: ## find tests that fail sometimes; RUNS=20 FOR=40m AT_ONCE=1 PKG=./folder/... RUN=regexp SHORT=off ONLY='race GOMAXPROCS=1' choose
	@mkdir -p bin
	@go -C tools build -o ../bin/stress-tests ./stress
	@bin/stress-tests -runs='$(or $(RUNS),20)' -for='$(or $(FOR),0)' -pkg='$(or $(PKG),$(both))' -run='$(RUN)' -short='$(or $(SHORT),on)' -only='$(ONLY)' $(if $(AT_ONCE),-at-once=$(AT_ONCE))

bench: bin/tools ## benchmarks, six times, summed up by benchstat; BENCH=regexp PKG=./folder/... choose
	@mkdir -p bin
	go test -p=1 -run='^$$' -bench='$(or $(BENCH),.)' -benchmem -count=6 $(or $(PKG),$(both)) | tee bin/bench.txt
	$(tool)/benchstat bin/bench.txt
	$(if $(BENCH)$(PKG),,$(MAKE) --no-print-directory fleet-bench)

judge-curve: build ## what the judge refuses against what is truly wrong: a table, in about ten minutes on a quiet machine
	@tools/judge-curve.sh bin/wirelab

RUNS ?= 10
PLANTED ?= 10 0
BURNERS ?= 1
ab-truth: build ## how often wirelab ab finds a planted difference, and one where there is none; RUNS=20 PLANTED='5 0' BURNERS=0
	@for planted in $(PLANTED); do \
		go -C tools run ./abtruth -wirelab $(CURDIR)/bin/wirelab -runs $(RUNS) -planted $$planted -burners $(BURNERS); \
	done

lever-truth: build ## planted causes, and how often wirelab explain --try names the right lever; LEVER_RUNS=3 BUDGET=2m OF=cpu ONLY=window
	@go -C tools run ./levertruth -wirelab $(CURDIR)/bin/wirelab -runs $(or $(LEVER_RUNS),1) -budget $(or $(BUDGET),2m) -of $(or $(OF),mean) -only '$(ONLY)'

load-truth: build ## known stalls, service times and lost messages beside what wirelab load prints; WINDOW=10s ONLY=stall
	@go -C tools run ./loadtruth -wirelab $(CURDIR)/bin/wirelab -window $(or $(WINDOW),5s) -only '$(ONLY)'

why-truth: build ## planted causes, and how often the first sentence of wirelab explain names them; as root; LIST=blind.yaml, blind2.yaml or blind3.yaml, DRAW=10 SEED=1 TIMES=3 ONLY=heap KEEP=folder
	@go -C tools run ./whytruth -wirelab $(CURDIR)/bin/wirelab -planted $(CURDIR)/tools/whytruth/$(or $(LIST),planted.yaml) -runs $(or $(TIMES),1) -only '$(ONLY)' -keep '$(KEEP)' \
		-draw $(or $(DRAW),0) -seed $(or $(SEED),1) $(if $(PROBES),-probes $(PROBES)) $(if $(EFFECTS),-effects)

# What a fleet's hub and controller take, and what is on the wire to it, by the number of agents.
AGENTS ?= 1 10 50 200 1000
fleet-bench: # docs/fleet.md has its figures; AGENTS='1000 2000' chooses
	@for agents in $(AGENTS); do \
		WIRELAB_AGENTS=$$agents go test -count=1 -v -run='^Test(ManyAgents|Traffic)$$' ./internal/run/fleet | grep -E '_test.go:|^(FAIL|ok)'; \
	done

fleet-turns: ## equal variants by turns, with four clients in namespaces of their own and with one, as root: the ratios and their intervals; RUNS=20
	@WIRELAB_PAIRS=$(RUNS) go test -count=1 -v -timeout 60m -run='^TestFourAgentsByTurns$$' ./internal/run/fleet | grep -E '_test.go:|^(FAIL|ok)'
