# gigae: `make eval` and `make bench` measure, `make test` tests. All install what is missing and build.

PLAN ?= quick
OUT ?= results
ARGS ?=
RUNS ?= 3
SEEDS ?= 10000
HOURS ?= 6
CHAOS_SEEDS ?= 100
MINUTES ?= 30
MINUTES ?= 5
TARGETS ?=
FROM ?= 0
MODEL ?=
PREFIX ?= /usr/local
DESTDIR ?=
PROFILE ?= release
# What `make install` builds first; nothing if empty.
BUILD ?= -p gigae-cli -p gigae-capi

.PHONY: eval bench test torture model check build install uninstall bpf fmt clean help
.PHONY: eval bench test torture chaos check build install uninstall bpf fmt clean help
.PHONY: eval bench test torture fuzz miri loom check build install uninstall bpf fmt clean help

help:
	@echo "make eval    lay a virtual Gigabit Ethernet, measure on it, write $(OUT)/report.html"
	@echo "             (PLAN=$(PLAN) OUT=$(OUT) ARGS='...'; needs root)"
	@echo "make bench   measure what is asked of the library, $(RUNS) times, and say what was reached"
	@echo "             (about 8 minutes each; RUNS=$(RUNS) OUT=$(OUT); needs root)"
	@echo "make test    build and run all tests; those that need root are skipped without it"
	@echo "make torture  simulate: SEEDS=$(SEEDS) runs of whole endpoints on a network that does its worst, or HOURS=$(HOURS)"
	@echo "             of them (FROM=$(FROM) is the first seed; needs nothing but time), after make model"
	@echo "make model   go through every state of the protocol between nodes with tiny windows, for many sizes and faults"
	@echo "             of them (FROM=$(FROM) is the first seed; needs nothing but time), and make chaos first if it is root"
	@echo "make chaos   break real links in every way, CHAOS_SEEDS=$(CHAOS_SEEDS) times or for MINUTES=$(MINUTES), with an"
	@echo "             account of every message (needs root)"
	@echo "             of them (FROM=$(FROM) is the first seed; needs nothing but time)"
	@echo "make fuzz    search for hostile inputs, MINUTES=$(MINUTES) for each target (TARGETS='wire calls ...', all if empty);"
	@echo "             make torture does that, too"
	@echo "make miri    what is unsafe and needs no kernel, under Miri; make loom: what threads share, in every order"
	@echo "make check   formatting, lints, documentation, layers, BPF objects: what CI asks for besides"
	@echo "make install put the C library, its header and the command into PREFIX=$(PREFIX) (DESTDIR=$(DESTDIR));"
	@echo "             make uninstall removes them"
	@echo "make bpf     compile the BPF objects anew (needs clang)"

eval: build
	target/release/gigae eval --plan $(PLAN) --out $(OUT) $(ARGS)

# A figure that is missed is a result and not an error: this fails only if it could not measure.
bench: build
	target/release/gigae eval --plan bench --runs $(RUNS) --out $(OUT) $(ARGS)
	cargo run --release --locked -q -p gigae --example cut
	cargo run --release --locked -q -p gigae --example peers

build:
	@tools/need cc=gcc ip=iproute2 tc=iproute2
	@tools/need-rust
	cargo build --release --locked -p gigae-cli

# Under sudo there mostly is no cargo: then what was built before is installed.
install:
	@if [ -n "$(BUILD)" ] && command -v cargo >/dev/null 2>&1; then tools/need-rust && \
		cargo build --locked --profile $(PROFILE:debug=dev) $(BUILD); fi
	@crates/capi/install $(or $(CARGO_TARGET_DIR),target)/$(PROFILE) $(PREFIX) $(DESTDIR)

uninstall:
	@crates/capi/install --remove $(PREFIX) $(DESTDIR)

test:
	@tools/need cc=gcc ip=iproute2 tc=iproute2 chromium=chromium
	@tools/need gcc=gcc g++=g++ nm=binutils pkg-config=pkg-config valgrind=valgrind tshark=tshark
	@tools/need-rust
	cargo build --workspace --all-targets --locked
	BUILD= cargo test --workspace --locked

# The long form; a bounded one is among the tests. It stops at the first seed that fails and says how to repeat it.
torture: model
	@tools/need-rust
	@if [ "$$(id -u)" = 0 ]; then $(MAKE) chaos ARGS=; else echo "left out: make chaos, which needs root"; fi
	cargo build --release --locked -p gigae-torture
	$(or $(CARGO_TARGET_DIR),target)/release/gigae-torture --seeds $(SEEDS) --from $(FROM) --hours $(HOURS) $(ARGS)
	tools/fuzz $(MINUTES) $(TARGETS)

fuzz:
	@tools/need-rust
	tools/fuzz $(MINUTES) $(TARGETS)

miri:
	@tools/need-rust
	tools/miri

# The files that these words are in, with nothing else around them. Orders with up to two switches of threads where
# none is needed; without that bound the ring's test did not end in minutes.
loom:
	@tools/need-rust
	cd tools/loom && LOOM_MAX_PREEMPTIONS=2 RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$(abspath $(or $(CARGO_TARGET_DIR),target))/loom \
		cargo test --release --locked

# The long form; a bounded one is among the tests. MODEL='--only restart' takes the sizes whose names say so.
model:
	@tools/need-rust
	cargo build --release --locked -p gigae-model
	$(or $(CARGO_TARGET_DIR),target)/release/gigae-model $(MODEL)
# Likewise, on real interfaces in network namespaces.
chaos:
	@tools/need cc=gcc ip=iproute2 tc=iproute2
	@tools/need-rust
	cargo build --release --locked -p gigae-chaos
	$(or $(CARGO_TARGET_DIR),target)/release/gigae-chaos --seeds $(CHAOS_SEEDS) --from $(FROM) --minutes $(MINUTES) $(ARGS)

check:
	@tools/need cc=gcc clang=clang llvm-strip=llvm
	@tools/need-rust
	cargo fmt --all --check
	cargo fmt --check --manifest-path fuzz/Cargo.toml
	cargo fmt --check --manifest-path tools/loom/Cargo.toml
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
	tools/layers
	tools/bpf check

bpf:
	@tools/need clang=clang llvm-strip=llvm
	tools/bpf build

fmt:
	cargo fmt --all

clean:
	cargo clean
	rm -rf $(OUT)
