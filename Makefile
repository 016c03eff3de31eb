# Corniche. Start with `make testnet` and `make test`; `make` lists all targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.DELETE_ON_ERROR:
.NOTPARALLEL:

CARGO ?= cargo
WASM_TARGET := wasm32-unknown-unknown

# All build output goes here. The environment can move it out of the checkout.
TARGET_DIR := $(if $(CARGO_TARGET_DIR),$(abspath $(CARGO_TARGET_DIR)),$(CURDIR)/target)
# Contracts are a separate workspace with other versions of shared dependencies.
CONTRACTS_TARGET_DIR := $(TARGET_DIR)/contracts
CONTRACTS_WASM_DIR := $(CONTRACTS_TARGET_DIR)/$(WASM_TARGET)/release
CORNICHE_BIN := $(TARGET_DIR)/debug/corniche
TESTNET_DIR ?= .testnet
# Selects the features that libraries have in tests, so that no other command compiles them a second time: those of the whole
# workspace and, because of the example, of development dependencies.
TEST_FEATURES := --workspace --example transfer

export CORNICHE_BIN CONTRACTS_WASM_DIR

.PHONY: help
help: ## List the targets
	@echo "usage: make <target>"
	@echo
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "needed: Rust by rustup, a C compiler, git; for 'make test' also clang with llvm, Node.js 20 or newer with npm, Chromium, PostgreSQL and promtool, which it installs as root"

##### a network on this machine

.PHONY: testnet testnet-down
testnet: build ## Build, then start four validators on this machine; ARGS="--engine autobahn"
	$(CORNICHE_BIN) testnet up --dir $(TESTNET_DIR) $(ARGS)

testnet-down: build ## Stop the validators
	$(CORNICHE_BIN) testnet down --dir $(TESTNET_DIR)

.PHONY: build
build: tools ## Build the node: one binary, `corniche`
	$(CARGO) build --locked $(TEST_FEATURES) --bin corniche
	@echo "built $(CORNICHE_BIN)" >&2

.PHONY: contracts generations
contracts: tools ## Build the contracts to WebAssembly
	$(CARGO) build --locked --release --target $(WASM_TARGET) --manifest-path contracts/Cargo.toml --target-dir $(CONTRACTS_TARGET_DIR)

generations: tools ## Build contracts of older SDKs (contracts/generations), for tests
	for generation in contracts/generations/*/Cargo.toml; do \
		$(CARGO) build --locked --release --target $(WASM_TARGET) --manifest-path $$generation --target-dir $(CONTRACTS_TARGET_DIR) || exit 1; \
	done

##### checks and tests

.PHONY: test
test: ## Install missing tools where possible, then run all checks and tests
	@source .ci/tools && $(MAKE) --no-print-directory test-all

.PHONY: test-all
test-all: tools node-tools postgres promtool fmt-check contracts lint check-deps test-rust test-contracts engines-wasm hardware e2e hostile-smoke clients explorer
	@echo "all passed" >&2

.PHONY: fmt fmt-check
fmt: ## Format the code
	$(CARGO) fmt --all
	$(CARGO) fmt --all --manifest-path contracts/Cargo.toml
	for generation in contracts/generations/*/Cargo.toml; do $(CARGO) fmt --all --manifest-path $$generation || exit 1; done

fmt-check: tools ## Check the formatting
	$(CARGO) fmt --all --check
	$(CARGO) fmt --all --manifest-path contracts/Cargo.toml --check
	for generation in contracts/generations/*/Cargo.toml; do $(CARGO) fmt --all --manifest-path $$generation --check || exit 1; done

.PHONY: lint
lint: tools ## Run clippy with the lint table; warnings are errors
	$(CARGO) clippy --locked $(TEST_FEATURES) --lib --bins -- -D warnings
	# Tests may unwrap, and so may their helpers, which clippy's own exception does not cover.
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings -A clippy::unwrap_used
	$(CARGO) clippy --locked --workspace --all-targets --manifest-path contracts/Cargo.toml --target-dir $(CONTRACTS_TARGET_DIR) -- -D warnings

.PHONY: check-deps
check-deps: tools ## Check dependencies between crates against the table of layers
	# Tests the whole workspace, because a single package has other features, and all crates would be compiled again for them.
	$(CARGO) test --locked --workspace --test dependency_rules
	# This separate workspace depends on our crates, and no other target builds it. Otherwise its lock file would become outdated.
	$(CARGO) update --quiet --workspace --locked --manifest-path runtime/bench/compare/Cargo.toml

.PHONY: test-rust
test-rust: tools postgres contracts generations ## Run unit, scenario and property tests
	$(CARGO) test --locked --workspace

.PHONY: test-contracts
test-contracts: tools ## Test the contracts: natively, and their WebAssembly in the node's virtual machine
	# Set in the environment, because tests build modules themselves.
	CARGO_TARGET_DIR=$(CONTRACTS_TARGET_DIR) $(CARGO) test --locked --workspace --manifest-path contracts/Cargo.toml

# The engines need no operating system, so they also build without one. The cfg tells this to the one crate
# that would otherwise use an operating system's randomness.
.PHONY: engines-wasm
engines-wasm: export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS = --cfg getrandom_backend="unsupported"
engines-wasm: tools ## Build the ordering engines, and Basil, for wasm32
	$(CARGO) build --locked --target $(WASM_TARGET) -p corniche-engine -p corniche-mahi-mahi -p corniche-autobahn -p corniche-neobft -p corniche-mir -p corniche-quepaxa -p corniche-racs -p corniche-baxos -p corniche-basil --no-default-features

# `test-rust` tests the sequencers in hardware except these. Many kernels refuse BPF, even to root, and few machines have a
# compiler of P4. Then these tests report that they were skipped. With the workspace's features, so that builds are reused.
.PHONY: hardware
hardware: tools node-tools ## Test the sequencer's XDP program in this kernel and in a network, as root, and its P4 program
	CORNICHE_FORBID_SKIPS=0 $(CARGO) test --locked --workspace --features corniche/xdp --test kernel
	node/aom/p4/run.py
	$(CARGO) build --locked $(TEST_FEATURES) --bin corniche --features corniche/xdp
	cd testnet/js && npm ci --no-audit --no-fund
	cd testnet/e2e && npm ci --no-audit --no-fund && ENGINE=neobft SEQUENCER=xdp node --test tests/sequencer.test.js

.PHONY: e2e
e2e: build contracts node-tools postgres promtool ## Test real processes with a wallet library and the Rust client's examples
	$(CARGO) build --locked $(TEST_FEATURES) --bin corniche-equivocate --example deploy --example verify
	cd testnet/js && npm ci --no-audit --no-fund
	cd testnet/e2e && npm ci --no-audit --no-fund && npm test

# The verifier in the package for browsers: one module without imports, with reproducible bytes.
.PHONY: verifier
verifier: export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS = --cfg getrandom_backend="unsupported" \
	--remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)=/cargo --remap-path-prefix=$(CURDIR)=/corniche
verifier: tools wasm-c ## Build the verifier for browsers: sdk/js/viem/verifier.wasm
	$(CARGO) rustc --locked -p corniche-verifier --lib --crate-type cdylib --target $(WASM_TARGET) --profile verifier
	cp $(TARGET_DIR)/$(WASM_TARGET)/verifier/corniche_verifier.wasm sdk/js/viem/verifier.wasm
	@echo "sdk/js/viem/verifier.wasm: $$(wc -c < sdk/js/viem/verifier.wasm) bytes, $$(gzip -9c sdk/js/viem/verifier.wasm | wc -c) with gzip" >&2

.PHONY: clients
clients: build contracts node-tools verifier ## Test compatibility with viem, ethers, hardhat, cast and a page in Chromium
	cd testnet/js && npm ci --no-audit --no-fund
	cd sdk/js && npm ci --no-audit --no-fund && npm test

.PHONY: explorer
explorer: build contracts node-tools ## Test the explorer in Chromium, on a live network
	cd testnet/js && npm ci --no-audit --no-fund
	cd web/browser && npm ci --no-audit --no-fund && npm test

##### documentation

# Pages are copied, because mdbook builds only what lies below the folder of SUMMARY.md, and READMEs of crates are pages too.
BOOK_DIR := $(TARGET_DIR)/book
.PHONY: docs
docs: mdbook ## Build the documentation as a book in target/book/html
	rm -rf $(BOOK_DIR)
	mkdir -p $(BOOK_DIR)/src
	pages=$$(sed -n 's|.*](\([^)]*\)).*|docs/\1|p' docs/SUMMARY.md | sed 's|^docs/\.\./||' | grep -v '^docs/') && \
		tar -cf - docs LICENSE-APACHE LICENSE-MIT $$pages | tar -xf - -C $(BOOK_DIR)/src
	sed -e 's|](|](docs/|' -e 's|](docs/\.\./|](|' docs/SUMMARY.md > $(BOOK_DIR)/src/SUMMARY.md
	mv $(BOOK_DIR)/src/docs/book.toml $(BOOK_DIR)/src/docs/book.css $(BOOK_DIR)
	rm $(BOOK_DIR)/src/docs/SUMMARY.md
	mdbook build $(BOOK_DIR)
	@echo "open $(BOOK_DIR)/html/index.html" >&2

##### benchmarks, attacks, long tests

.PHONY: bench bench-core hostile hostile-smoke fuzz soak thesis compare licences
bench: build contracts ## Measure block execution, then four validators under load, then starts and idle validators
	$(CORNICHE_BIN) bench exec $(ARGS)
	$(CORNICHE_BIN) bench network
	testnet/bench.sh

bench-core: tools ## Measure the cost of ordering, all engines in one table; ARGS="steady autobahn 10"
	$(CARGO) bench --locked -p corniche-core-bench -- $(ARGS)

hostile: build ## Attack four real processes under load and check p99, memory, recovery; ARGS="--validators 7", ARGS="--list"
	$(CARGO) run --locked -p corniche-hostile -- $(ARGS)

hostile-smoke: build ## Send a few messages of each attack, then a transfer; without time limits
	$(CARGO) build --locked $(TEST_FEATURES) --bin corniche-hostile
	$(TARGET_DIR)/debug/corniche-hostile --smoke $(ARGS)

# A separate target directory, because libFuzzer's instrumentation is in every crate.
FUZZ_DIR := testnet/fuzz/libfuzzer
FUZZ_TARGETS ?= $(patsubst %.rs,%,$(notdir $(wildcard $(FUZZ_DIR)/fuzz_targets/*.rs)))
fuzz: tools ## Run each fuzz target for SECONDS (60) under libFuzzer; FUZZ_TARGETS="module genesis" (needs a nightly compiler and cargo-fuzz)
	$(CARGO) build --locked --workspace --example seeds
	$(TARGET_DIR)/debug/examples/seeds $(TARGET_DIR)/fuzz/corpus
	cd $(FUZZ_DIR) && for target in $(FUZZ_TARGETS); do \
		CARGO_TARGET_DIR=$(TARGET_DIR)/fuzz $(CARGO) +nightly fuzz run --fuzz-dir . --dev --sanitizer none $$target $(TARGET_DIR)/fuzz/corpus/$$target -- \
			-max_total_time=$(or $(SECONDS),60) -max_len=65536 -timeout=20 -rss_limit_mb=4096 || exit 1; \
	done

soak: build contracts generations node-tools postgres ## Run the long tests: property cases, schedules, crashes and half an hour under load
	CORNICHE_COINS=$${CORNICHE_COINS:-8} PROPTEST_CASES=$${PROPTEST_CASES:-20000} $(CARGO) test --locked --workspace
	CORNICHE_SEED=$${CORNICHE_SEED:-$$(date +%s)} CORNICHE_MODULES=$${CORNICHE_MODULES:-3000} \
		$(CARGO) test --locked -p corniche-vm --test backends nowhere -- --nocapture
	for engine in mahi-mahi autobahn neobft mir quepaxa racs baxos; do \
		CORNICHE_SEED=$${CORNICHE_SEED:-$$(date +%s)} CORNICHE_SCHEDULES=$${CORNICHE_SCHEDULES:-10000} \
			$(CARGO) test --locked -p corniche-$$engine --test suite schedules -- --nocapture || exit 1; \
	done
	CORNICHE_SCHEDULES=$${CORNICHE_SCHEDULES:-10000} $(CARGO) test --locked -p corniche-autobahn --test slots schedules -- --nocapture
	$(CARGO) test --locked -p corniche-autobahn --test selection -- --ignored --nocapture
	$(CARGO) test --locked -p corniche-mir --test model -- --ignored
	$(CARGO) test --locked -p corniche-quepaxa --test model -- --ignored
	$(CARGO) test --locked -p corniche-racs --test model -- --ignored
	CORNICHE_SEED=$${CORNICHE_SEED:-$$(date +%s)} CORNICHE_SCHEDULES=$${CORNICHE_SCHEDULES:-10000} \
		$(CARGO) test --locked -p corniche-basil --test schedules -- --nocapture
	CORNICHE_BLOCKS=$${CORNICHE_BLOCKS:-10000} $(CARGO) test --locked -p corniche-executor --test parallel
	CORNICHE_SEED=$${CORNICHE_SEED:-$$(date +%s)} CORNICHE_MODULES=$${CORNICHE_MODULES:-3000} \
		$(CARGO) test --locked -p corniche-executor --test generated -- --nocapture
	$(CARGO) test --locked -p corniche-executor --lib -- --ignored
	CORNICHE_SEED=$${CORNICHE_SEED:-$$(date +%s)} CORNICHE_STEPS=$${CORNICHE_STEPS:-4000} \
		$(CARGO) bench --locked --profile dev --workspace --bench worst_block
	$(CARGO) bench --locked --profile dev --workspace --bench host_calls
	$(CARGO) test --locked -p corniche-simulator --lib -- --ignored --nocapture
	CORNICHE_SEED=$${CORNICHE_SEED:-$$(date +%s)} CORNICHE_SCHEDULES=$${CORNICHE_SCHEDULES:-10000} \
		$(CARGO) test --locked -p corniche-simulator --lib schedules::schedules -- --nocapture
	CORNICHE_SEED=$${CORNICHE_SEED:-$$(date +%s)} CORNICHE_CASES=$${CORNICHE_CASES:-100000} \
		$(CARGO) test --locked -p corniche-rpc --test fuzz -- --nocapture
	CORNICHE_SEED=$${CORNICHE_SEED:-$$(date +%s)} CORNICHE_CASES=$${CORNICHE_CASES:-100000} \
		$(CARGO) test --locked -p corniche-fuzz --test seeded -- --nocapture
	cd testnet/js && npm ci --no-audit --no-fund
	cd testnet/e2e && npm ci --no-audit --no-fund && ROUNDS=$${ROUNDS:-300} npm run soak
	cd sdk/js && npm ci --no-audit --no-fund && ENGINE=mahi-mahi SEED=$${SEED:-$$(date +%s)} RUN_SECONDS=$${RUN_SECONDS:-600} \
		node --test tests/random-calls.test.js
	testnet/bench.sh steady
	missed=; for database in sqlite postgres; do \
		nice $(CARGO) run --locked --release -p corniche-web --example transfers -- $$database $${CORNICHE_TRANSFERS:-10000000} || missed="$$missed $$database"; \
	done; test -z "$$missed" || { echo "missed the bar:$$missed" >&2; exit 1; }

thesis: tools ## Compare the tables of docs/performance.md with the thesis' figures; ARGS="quick", ARGS="defaults"
	$(CARGO) run --locked -p corniche-simulator --example thesis -- $(ARGS)

compare: tools ## Compare the engines with each other and with Autobahn's paper, for docs/performance.md; ARGS="quick", ARGS="engines"
	$(CARGO) run --locked -p corniche-simulator --example compare -- $(ARGS)

licences: tools ## Check licences and sources of dependencies (needs cargo-deny)
	$(CARGO) deny --log-level error check licenses bans sources
	$(CARGO) deny --log-level error --manifest-path contracts/Cargo.toml --config $(CURDIR)/deny.toml check licenses bans sources

##### required tools

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

.PHONY: mdbook
mdbook:
	@command -v mdbook >/dev/null || \
	  { echo "missing on this machine: mdbook; install it: cargo install --locked mdbook" >&2; exit 1; }

.PHONY: wasm-c
wasm-c:
	@command -v $${CC_wasm32_unknown_unknown:-clang} >/dev/null && command -v $${AR_wasm32_unknown_unknown:-llvm-ar} >/dev/null || \
	  { echo "missing on this machine: clang and llvm-ar, for instance the packages clang and llvm (the C code of BLS signatures is compiled to WebAssembly)" >&2; exit 1; }

.PHONY: postgres
postgres:
	@command -v postgres >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || \
	  { echo "missing on this machine: PostgreSQL, for instance the package postgresql (tests of the explorer start a server of their own)" >&2; exit 1; }

.PHONY: promtool
promtool:
	@command -v promtool >/dev/null || \
	  { echo "missing on this machine: promtool, for instance the package prometheus (tests check the alert rules and the dashboards)" >&2; exit 1; }

.PHONY: node-tools
node-tools:
	@command -v node >/dev/null && command -v npm >/dev/null || \
	  { echo "missing on this machine: Node.js 20 or newer with npm (the end-to-end test drives the network with a wallet library)" >&2; exit 1; }
	@node -e 'process.exit(Number(process.versions.node.split(".")[0]) >= 20 ? 0 : 1)' || \
	  { echo "Node.js is $$(node --version); 20 or newer is needed" >&2; exit 1; }
