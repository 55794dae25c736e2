SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup build generate fmt lint drift short bench-once check test stress bench

# Tools are pinned apart from the product, in tools/go.mod.
tool := go tool -modfile=tools/go.mod

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what the tests need besides Go (a C compiler for -race, Chromium for the report)
	@tools/setup.sh

build: ## bin/wirelab, static
	CGO_ENABLED=0 go build -trimpath -o bin/wirelab ./cmd/wirelab

generate: ## write the code that comes from .proto files, and the report page (this one needs npm)
	go -C tools run ./protogen
	go -C tools run ./webbuild

fmt: ## format all Go files
	$(tool) gofumpt -w .

lint: ## formatting, vet, the linters of .golangci.yml
	@unformatted=$$($(tool) gofumpt -l .); \
	if [ -n "$$unformatted" ]; then printf 'not formatted; run make fmt:\n%s\n' "$$unformatted"; exit 1; fi
	go vet ./...
	go -C tools vet ./...
	$(tool) golangci-lint run ./...
	cd tools && go tool golangci-lint run --config=../.golangci.yml ./...

drift: ## committed generated code is what generate would write
	go -C tools run ./protogen -check
	go -C tools run ./webbuild -check

# One package after another: the workers that some start have priority over all
# else, and would starve the tests beside them.
short: # the fast tests, watched for races
	go test -race -short -p=1 ./...
	go -C tools test -race ./...

bench-once: # every benchmark a single time, so that none can rot
	go test -short -run='^$$' -bench=. -benchtime=1x ./...

check: lint drift short bench-once ## what to run before a commit

# The full tests run without the race detector and one package after another:
# they measure, and must not measure the detector or each other.
test: setup check ## everything
	go test -p=1 -timeout=20m ./...

# What fails here and not in `make test` fails there too one day.
stress: ## find tests that fail sometimes; RUNS=20 PKG=./folder/... RUN=regexp SHORT=off ONLY='race GOMAXPROCS=1' choose
	@mkdir -p bin
	@go -C tools build -o ../bin/stress-tests ./stress
	@bin/stress-tests -runs='$(or $(RUNS),20)' -pkg='$(or $(PKG),./...)' -run='$(RUN)' -short='$(or $(SHORT),on)' -only='$(ONLY)'

bench: ## benchmarks, six times, summed up by benchstat; BENCH=regexp PKG=./folder/... choose
	@mkdir -p bin
	go test -p=1 -run='^$$' -bench='$(or $(BENCH),.)' -benchmem -count=6 $(or $(PKG),./...) | tee bin/bench.txt
	$(tool) benchstat bin/bench.txt
