# Corniche: `make testnet` and `make test` are all a newcomer needs; `make` alone lists the rest.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.DELETE_ON_ERROR:
.NOTPARALLEL:

CARGO ?= cargo
WASM_TARGET := wasm32-unknown-unknown

# Everything that is built lies here; the environment may move it out of the checkout.
TARGET_DIR := $(if $(CARGO_TARGET_DIR),$(abspath $(CARGO_TARGET_DIR)),$(CURDIR)/target)
# Contracts are a workspace of their own, with their own versions of shared dependencies.
CONTRACTS_TARGET_DIR := $(TARGET_DIR)/contracts
CONTRACTS_WASM_DIR := $(CONTRACTS_TARGET_DIR)/$(WASM_TARGET)/release
CORNICHE_BIN := $(TARGET_DIR)/debug/corniche
TESTNET_DIR ?= .testnet

export CORNICHE_BIN CONTRACTS_WASM_DIR

.PHONY: help
help: ## This list
	@echo "usage: make <target>"
	@echo
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "needed: Rust by rustup, a C compiler, git; for 'make test' also clang with llvm, Node.js 20 or newer with npm, Chromium, and PostgreSQL"

##### a network on this machine

.PHONY: testnet testnet-down
testnet: build ## Build, then start four validators on this machine; ARGS="--engine autobahn"
	$(CORNICHE_BIN) testnet up --dir $(TESTNET_DIR) $(ARGS)

testnet-down: build ## Stop them
	$(CORNICHE_BIN) testnet down --dir $(TESTNET_DIR)

.PHONY: build
build: tools ## Build the node: one binary, `corniche`
	$(CARGO) build --locked -p corniche
	@echo "built $(CORNICHE_BIN)" >&2

.PHONY: contracts generations
contracts: tools ## Build the contracts to WebAssembly
	$(CARGO) build --locked --release --target $(WASM_TARGET) --manifest-path contracts/Cargo.toml --target-dir $(CONTRACTS_TARGET_DIR)

generations: tools ## Those of older SDKs, contracts/generations, which only the tests deploy
	for generation in contracts/generations/*/Cargo.toml; do \
		$(CARGO) build --locked --release --target $(WASM_TARGET) --manifest-path $$generation --target-dir $(CONTRACTS_TARGET_DIR) || exit 1; \
	done

##### everything that must pass

.PHONY: test
test: tools node-tools postgres fmt-check contracts lint check-deps test-rust test-contracts engines-wasm e2e hostile-smoke clients explorer ## Run everything that must pass
	@echo "all passed" >&2

.PHONY: fmt fmt-check
fmt: ## Format the code
	$(CARGO) fmt --all
	$(CARGO) fmt --all --manifest-path contracts/Cargo.toml
	for generation in contracts/generations/*/Cargo.toml; do $(CARGO) fmt --all --manifest-path $$generation || exit 1; done

fmt-check: tools ## Is the code formatted?
	$(CARGO) fmt --all --check
	$(CARGO) fmt --all --manifest-path contracts/Cargo.toml --check
	for generation in contracts/generations/*/Cargo.toml; do $(CARGO) fmt --all --manifest-path $$generation --check || exit 1; done

.PHONY: lint
lint: tools ## Clippy with the lint table, warnings are errors
	$(CARGO) clippy --locked --workspace -- -D warnings
	# Tests may unwrap, and so may their helpers, which clippy's own exception does not reach.
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings -A clippy::unwrap_used
	$(CARGO) clippy --locked --workspace --all-targets --manifest-path contracts/Cargo.toml --target-dir $(CONTRACTS_TARGET_DIR) -- -D warnings

.PHONY: check-deps
check-deps: tools ## Who may import whom: manifests against the table of layers
	# Of the whole workspace, as everything else: one package alone has other features, and all would be compiled for them once more.
	$(CARGO) test --locked --workspace --test dependency_rules
	# A workspace of its own names our crates too, and nothing else here builds it: its lock file would go stale unseen.
	$(CARGO) update --quiet --workspace --locked --manifest-path node/cli/compare/Cargo.toml

.PHONY: test-rust
test-rust: tools postgres contracts generations ## Unit, scenario and property tests
	$(CARGO) test --locked --workspace

.PHONY: test-contracts
test-contracts: tools ## The contracts' own tests: natively, and their WebAssembly in the node's virtual machine
	# By the environment, as tests build modules on their own.
	CARGO_TARGET_DIR=$(CONTRACTS_TARGET_DIR) $(CARGO) test --locked --workspace --manifest-path contracts/Cargo.toml

# The engines decide without touching the world, so they also build where there is none. The cfg says so to the one crate
# that would otherwise look for an operating system's randomness.
.PHONY: engines-wasm
engines-wasm: export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS = --cfg getrandom_backend="unsupported"
engines-wasm: tools ## The ordering engines build for wasm32
	$(CARGO) build --locked --target $(WASM_TARGET) -p corniche-engine -p corniche-mahi-mahi -p corniche-autobahn --no-default-features

.PHONY: e2e
e2e: build contracts node-tools postgres ## Real processes, driven with a wallet library and with the Rust client's examples
	# As the tests of the whole workspace build them, so that they are there already.
	$(CARGO) build --locked --workspace --example transfer --example deploy --example verify
	cd testnet/e2e && npm ci --no-audit --no-fund && npm test

# What the package for browsers checks with: one module without imports, whose bytes do not depend on where it is built.
.PHONY: verifier
verifier: export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS = --cfg getrandom_backend="unsupported" \
	--remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)=/cargo --remap-path-prefix=$(CURDIR)=/corniche
verifier: tools wasm-c ## Build what checks finality in browsers: sdk/js/viem/verifier.wasm
	$(CARGO) rustc --locked -p corniche-verifier --lib --crate-type cdylib --target $(WASM_TARGET) --profile verifier
	cp $(TARGET_DIR)/$(WASM_TARGET)/verifier/corniche_verifier.wasm sdk/js/viem/verifier.wasm
	@echo "sdk/js/viem/verifier.wasm: $$(wc -c < sdk/js/viem/verifier.wasm) bytes, $$(gzip -9c sdk/js/viem/verifier.wasm | wc -c) with gzip" >&2

.PHONY: clients
clients: build contracts node-tools verifier ## Whether the clients people use work with a node: viem, ethers, hardhat, cast, a page in Chromium
	cd testnet/e2e && npm ci --no-audit --no-fund
	cd sdk/js && npm ci --no-audit --no-fund && npm test

.PHONY: explorer
explorer: build contracts node-tools ## The explorer in Chromium, over a live network
	cd testnet/e2e && npm ci --no-audit --no-fund
	cd web/browser && npm ci --no-audit --no-fund && npm test

##### beyond `make test`

.PHONY: bench bench-core hostile hostile-smoke fuzz soak thesis compare licences
bench: build contracts ## Execution of blocks; then transfers per second and latency on one and on four validators
	$(CORNICHE_BIN) bench exec $(ARGS)
	testnet/bench.sh

bench-core: tools ## What ordering itself costs, every engine in one table; ARGS="steady autobahn 10"
	$(CARGO) bench --locked -p corniche-core-bench -- $(ARGS)

hostile: build ## Attack four real processes under load and judge p99, memory, recovery; ARGS="--validators 7", ARGS="--list"
	$(CARGO) run --locked -p corniche-hostile -- $(ARGS)

# Built with the whole workspace, as the tests are, so that it is there already.
hostile-smoke: build ## A few messages of each attack, then a transfer; nothing is timed
	$(CARGO) build --locked --workspace --bin corniche-hostile
	$(TARGET_DIR)/debug/corniche-hostile --smoke $(ARGS)

# A directory of its own: libFuzzer's instrumentation is in every crate.
FUZZ_DIR := testnet/fuzz/libfuzzer
FUZZ_TARGETS ?= $(patsubst %.rs,%,$(notdir $(wildcard $(FUZZ_DIR)/fuzz_targets/*.rs)))
fuzz: tools ## Each fuzz target for SECONDS (60) under libFuzzer; FUZZ_TARGETS="module genesis" (needs a nightly compiler and cargo-fuzz)
	$(CARGO) run --locked -p corniche-fuzz --example seeds -- $(TARGET_DIR)/fuzz/corpus
	cd $(FUZZ_DIR) && for target in $(FUZZ_TARGETS); do \
		CARGO_TARGET_DIR=$(TARGET_DIR)/fuzz $(CARGO) +nightly fuzz run --fuzz-dir . --dev --sanitizer none $$target $(TARGET_DIR)/fuzz/corpus/$$target -- \
			-max_total_time=$(or $(SECONDS),60) -max_len=65536 -timeout=20 -rss_limit_mb=4096 || exit 1; \
	done

soak: build contracts generations node-tools postgres ## The long runs: property cases, schedules, crashes and half an hour under load
	PROPTEST_CASES=$${PROPTEST_CASES:-20000} $(CARGO) test --locked --workspace
	CORNICHE_SEED=$${CORNICHE_SEED:-$$(date +%s)} CORNICHE_MODULES=$${CORNICHE_MODULES:-3000} \
		$(CARGO) test --locked -p corniche-vm --test backends nowhere -- --nocapture
	CORNICHE_SEED=$${CORNICHE_SEED:-$$(date +%s)} CORNICHE_SCHEDULES=$${CORNICHE_SCHEDULES:-10000} \
		$(CARGO) test --locked -p corniche-mahi-mahi --test suite schedules -- --nocapture
	CORNICHE_SEED=$${CORNICHE_SEED:-$$(date +%s)} CORNICHE_SCHEDULES=$${CORNICHE_SCHEDULES:-10000} \
		$(CARGO) test --locked -p corniche-autobahn --test suite schedules -- --nocapture
	CORNICHE_SCHEDULES=$${CORNICHE_SCHEDULES:-10000} $(CARGO) test --locked -p corniche-autobahn --test slots schedules -- --nocapture
	$(CARGO) test --locked -p corniche-autobahn --test selection -- --ignored --nocapture
	CORNICHE_BLOCKS=$${CORNICHE_BLOCKS:-10000} $(CARGO) test --locked -p corniche-executor --test parallel
	CORNICHE_SEED=$${CORNICHE_SEED:-$$(date +%s)} CORNICHE_MODULES=$${CORNICHE_MODULES:-3000} \
		$(CARGO) test --locked -p corniche-executor --test generated -- --nocapture
	$(CARGO) test --locked -p corniche-executor --lib -- --ignored
	CORNICHE_SEED=$${CORNICHE_SEED:-$$(date +%s)} CORNICHE_STEPS=$${CORNICHE_STEPS:-4000} \
		$(CARGO) bench --locked --profile dev --workspace --bench worst_block
	$(CARGO) bench --locked --profile dev --workspace --bench host_calls
	$(CARGO) test --locked -p corniche-simulator --lib -- --ignored --nocapture
	CORNICHE_SEED=$${CORNICHE_SEED:-$$(date +%s)} CORNICHE_CASES=$${CORNICHE_CASES:-100000} \
		$(CARGO) test --locked -p corniche-rpc --test fuzz -- --nocapture
	CORNICHE_SEED=$${CORNICHE_SEED:-$$(date +%s)} CORNICHE_CASES=$${CORNICHE_CASES:-100000} \
		$(CARGO) test --locked -p corniche-fuzz --test seeded -- --nocapture
	cd testnet/e2e && npm ci --no-audit --no-fund && ROUNDS=$${ROUNDS:-300} npm run soak
	cd sdk/js && npm ci --no-audit --no-fund && ENGINE=mahi-mahi SEED=$${SEED:-$$(date +%s)} RUN_SECONDS=$${RUN_SECONDS:-600} \
		node --test tests/random-calls.test.js
	testnet/bench.sh steady
	missed=; for database in sqlite postgres; do \
		nice $(CARGO) run --locked --release -p corniche-web --example transfers -- $$database $${CORNICHE_TRANSFERS:-10000000} || missed="$$missed $$database"; \
	done; test -z "$$missed" || { echo "missed the bar:$$missed" >&2; exit 1; }

thesis: tools ## The tables of docs/performance.md beside the thesis' figures; ARGS="quick", ARGS="defaults"
	$(CARGO) run --locked -p corniche-simulator --example thesis -- $(ARGS)

compare: tools ## The engines beside each other and beside Autobahn's paper, for docs/performance.md; ARGS="quick", ARGS="engines"
	$(CARGO) run --locked -p corniche-simulator --example compare -- $(ARGS)

licences: tools ## Licences and sources of dependencies (needs cargo-deny)
	$(CARGO) deny --log-level error check licenses bans sources
	$(CARGO) deny --log-level error --manifest-path contracts/Cargo.toml --config $(CURDIR)/deny.toml check licenses bans sources

##### what has to be on the machine

.PHONY: tools
tools:
	@missing=""; \
	command -v rustup >/dev/null || missing="$$missing\n  rustup  Rust's installer; it brings cargo and the compiler named in rust-toolchain.toml"; \
	command -v $(CARGO) >/dev/null || missing="$$missing\n  cargo   comes with rustup"; \
	command -v cc >/dev/null || missing="$$missing\n  cc      a C compiler, for instance the package gcc or build-essential"; \
	command -v git >/dev/null || missing="$$missing\n  git     the version control system"; \
	if [ -n "$$missing" ]; then printf "missing on this machine:$$missing\n" >&2; exit 1; fi
	@rustc --print target-libdir --target $(WASM_TARGET) 2>/dev/null | xargs -r test -d || \
	  { echo "adding the target $(WASM_TARGET)" >&2; rustup target add $(WASM_TARGET); }

.PHONY: wasm-c
wasm-c:
	@command -v $${CC_wasm32_unknown_unknown:-clang} >/dev/null && command -v $${AR_wasm32_unknown_unknown:-llvm-ar} >/dev/null || \
	  { echo "missing on this machine: clang and llvm-ar, for instance the packages clang and llvm (the C code of BLS signatures is compiled to WebAssembly)" >&2; exit 1; }

.PHONY: postgres
postgres:
	@command -v postgres >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || \
	  { echo "missing on this machine: PostgreSQL, for instance the package postgresql (tests of the explorer start a server of their own)" >&2; exit 1; }

.PHONY: node-tools
node-tools:
	@command -v node >/dev/null && command -v npm >/dev/null || \
	  { echo "missing on this machine: Node.js 20 or newer with npm (the end-to-end test drives the network with a wallet library)" >&2; exit 1; }
	@node -e 'process.exit(Number(process.versions.node.split(".")[0]) >= 20 ? 0 : 1)' || \
	  { echo "Node.js is $$(node --version); 20 or newer is needed" >&2; exit 1; }
