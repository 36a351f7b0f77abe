# gigae: `make eval` measures, `make test` tests. Both install what is missing and build.

PLAN ?= quick
OUT ?= results
ARGS ?=

.PHONY: eval test check build bpf fmt clean help

help:
	@echo "make eval    lay a virtual Gigabit Ethernet, measure on it, write $(OUT)/report.html"
	@echo "             (PLAN=$(PLAN) OUT=$(OUT) ARGS='...'; needs root)"
	@echo "make test    build and run all tests; those that need root are skipped without it"
	@echo "make check   formatting, lints, documentation, layers, BPF objects: what CI asks for besides"
	@echo "make bpf     compile the BPF objects anew (needs clang)"

eval: build
	target/release/gigae eval --plan $(PLAN) --out $(OUT) $(ARGS)

build:
	@tools/need cc=gcc ip=iproute2 tc=iproute2
	@tools/need-rust
	cargo build --release --locked -p gigae-cli

test:
	@tools/need cc=gcc ip=iproute2 tc=iproute2 chromium=chromium
	@tools/need-rust
	cargo test --workspace --locked

check:
	@tools/need cc=gcc clang=clang llvm-strip=llvm
	@tools/need-rust
	cargo fmt --all --check
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
