# gigae: `make eval` and `make bench` measure, `make test` tests. All install what is missing and build.

PLAN ?= quick
OUT ?= results
ARGS ?=
RUNS ?= 3
# 1: bench and mpi fail when a target of docs/targets.toml is missed in every run, and bench when a cut takes too long.
GATE ?=
SEEDS ?= 10000
HOURS ?= 6
FROM ?= 0
CHAOS_SEEDS ?= 100
MODEL ?=
# Of the NIC lab: cards (all that QEMU has), and suites of Debian whose kernels to boot.
MODELS ?= all
KERNEL ?= bookworm
# Of chaos, 30 if empty; of each fuzz target, 5 if empty.
MINUTES ?=
# Of the search without instrumentation, over all targets.
SECONDS ?= 90
TARGETS ?=
PREFIX ?= /usr/local
DESTDIR ?=
PROFILE ?= release
# What `make install` builds first; nothing if empty.
BUILD ?= -p gigae-cli -p gigae-capi -p gigae-ofi

# Of the package: xz, or none for speed; where to, the target directory if empty.
DEB_COMPRESSION ?= xz
DEB_OUT ?=

.PHONY: eval services bench mpi niclab niclab-ci test torture simulate model chaos fuzz search miri loom check docs build install uninstall static deb reproducible bpf fmt clean help

help:
	@echo "make eval    set up a virtual Gigabit Ethernet, measure on it, write $(OUT)/report.html"
	@echo "             (PLAN=$(PLAN) OUT=$(OUT) ARGS='...'; root adds AF_XDP and links with loss)"
	@echo "make services  install the file servers and clients that file plans and 'gigae soak --services' use"
	@echo "make bench   measure the library's targets $(RUNS) times, and say which it reached"
	@echo "             (about 8 minutes each; RUNS=$(RUNS) OUT=$(OUT); root adds AF_XDP and links with loss)"
	@echo "make mpi     measure Open MPI over TCP and over gigae, RUNS=$(RUNS) times, side by side, answers checked"
	@echo "             (gigae over what the provider chooses: AF_PACKET on virtual links);"
	@echo "             with GATE=1, bench and mpi fail when a target of docs/targets.toml is missed in every run"
	@echo "make niclab  library and evaluator on the drivers of QEMU's network cards, in software emulation"
	@echo "             (MODELS=$(MODELS) KERNEL=$(KERNEL) OUT=$(OUT) ARGS='...'; needs root only to install QEMU)"
	@echo "make test    build and run all tests; without root, those that need more than a user namespace are skipped by name"
	@echo "make torture model, simulate, chaos (if root) and fuzz, one after the other: hours"
	@echo "make simulate  SEEDS=$(SEEDS) runs of whole endpoints on a simulated network with faults, or HOURS=$(HOURS)"
	@echo "             of them (FROM=$(FROM) is the first seed; needs no privileges)"
	@echo "make model   every state of the protocol between nodes with tiny windows, for many sizes and faults"
	@echo "make chaos   faults of every kind on real links, CHAOS_SEEDS=$(CHAOS_SEEDS) times or for MINUTES=$(or $(MINUTES),30);"
	@echo "             accounts for every message (needs root)"
	@echo "make fuzz    search for hostile inputs, MINUTES=$(or $(MINUTES),5) for each target (TARGETS='wire calls ...', all if empty)"
	@echo "make search  the same for SECONDS=$(SECONDS) in all, with random inputs and any compiler, as CI does"
	@echo "make miri    unsafe code that needs no kernel, under Miri; make loom: code that threads share, in every order"
	@echo "make check   formatting, lints, documentation, layers, licences, BPF objects: what CI checks besides the tests"
	@echo "             (ADVISORY_DB=<clone of github.com/rustsec/advisory-db>: advisories, too)"
	@echo "make docs    build the documents as a site (target/docs/book); make check tests their links and commands"
	@echo "make install put the C library, its header, libfabric's provider, the command, its manual pages, completions and units into PREFIX=$(PREFIX)"
	@echo "             (DESTDIR=$(DESTDIR)); make uninstall removes them"
	@echo "make deb     the same as a Debian package; make static the command alone, for any Linux of this architecture;"
	@echo "             beside both a bill of materials; the same sources make the same bytes"
	@echo "make reproducible  builds both twice, in different directories, and compares them (two release builds)"
	@echo "make bpf     compile the BPF objects again (needs clang)"

# Servers and clients of the plans that measure file services. A plan in a file names what is missing.
SERVICES_ftp = vsftpd=vsftpd curl=curl
SERVICES_memory = $(SERVICES_ftp)
SERVICES_smb = smbd=samba pdbedit=samba smbclient=smbclient $(SERVICES_ftp)
NFS_CP = ganesha.nfsd=nfs-ganesha ganesha/libfsalvfs.so=nfs-ganesha-vfs rpcbind=rpcbind \
         nfs-cp=libnfs-utils unshare=util-linux mount=mount
SERVICES_nfs = $(NFS_CP) fio=fio qemu-nbd=qemu-utils qemu/block-nfs.so=qemu-block-extra
SERVICES_nfs-full = $(SERVICES_nfs)
SERVICES_files = $(SERVICES_smb) $(NFS_CP) lftp=lftp rsync=rsync \
                 sshd=openssh-server ssh=openssh-client ssh-keygen=openssh-client scp=openssh-client
SERVICES_files-full = $(SERVICES_files)
SERVICES_nfs-mount = linux.uml=user-mode-linux unshare=util-linux setpriv=util-linux losetup=mount mount=mount modprobe=kmod \
	mkfs.ext4=e2fsprogs rpc.nfsd=nfs-kernel-server mount.nfs=nfs-common rpcbind=rpcbind fio=fio bonnie++=bonnie++ \
	sockperf=sockperf iperf3=iperf3 smbd=samba pdbedit=samba
SERVICES_nfs-mount-full = $(SERVICES_nfs-mount) mdadm=mdadm

services:
	@tools/need $(SERVICES_files) $(SERVICES_nfs)

eval: build
	@[ -z "$(SERVICES_$(PLAN))" ] || tools/need $(SERVICES_$(PLAN))
	$(or $(CARGO_TARGET_DIR),target)/release/gigae eval --plan $(PLAN) --out $(OUT) $(ARGS)

# A figure that is missed is a result and not an error, but for GATE=1.
bench: build
	@[ "$(GATE)" != 1 ] || tools/need python3=python3
	$(or $(CARGO_TARGET_DIR),target)/release/gigae eval --plan bench --runs $(RUNS) --out $(OUT) $(ARGS)
	@[ "$(GATE)" != 1 ] || tools/gate bench $(OUT)/results.json
	GATE=$(GATE) cargo run --release --locked -q -p gigae --example cut
	cargo run --release --locked -q -p gigae --example peers
	cargo run --release --locked -q -p gigae --example crowd

# mpicc comes without them.
MPI_HEADERS = echo '\#include <mpi.h>' | mpicc -x c -E - >/dev/null 2>&1 || tools/need mpi.h=libopenmpi-dev

# As with bench, a figure that is missed is a result and not an error, but for GATE=1.
mpi:
	@tools/need cc=gcc ip=iproute2 tc=iproute2 nsenter=util-linux hostname=hostname
	@tools/need mpirun=openmpi-bin hpcc=hpcc fi_info=libfabric-bin
	@[ "$(GATE)" != 1 ] || tools/need python3=python3
	@$(MPI_HEADERS)
	@tools/need-rust
	cargo build --release --locked -p gigae-mpi
	@mkdir -p $(OUT)
	$(or $(CARGO_TARGET_DIR),target)/release/gigae-mpi --runs $(RUNS) --json $(OUT)/mpi.json
	@[ "$(GATE)" != 1 ] || tools/gate mpi $(OUT)/mpi.json

NICLAB = $(or $(CARGO_TARGET_DIR),target)/$(shell uname -m)-unknown-linux-musl/static/gigae-niclab

# Whether ARGS has the step: --steps files, also with = or among others.
NICLAB_FILES = $(shell printf '%s' '$(ARGS)' | grep -oE -- '--steps[ =][a-z,]*' | tr ',= ' '\n' | grep -x files)

# Docs: docs/how-to/nic-lab.md. A card that fails is an error.
niclab:
	@tools/need cc=gcc python3=python3 readelf=binutils qemu-system-x86_64=qemu-system-x86 dpkg-deb=dpkg setpriv=util-linux xz=xz-utils zstd=zstd
	@$(if $(NICLAB_FILES),tools/need ip=iproute2 $(SERVICES_files))
	@tools/need-rust
	@tools/static gigae-niclab
	$(NICLAB) run --models $(MODELS) --kernels $(KERNEL) --out $(OUT)/niclab --cache $(or $(CARGO_TARGET_DIR),target)/niclab $(ARGS)

# A short form, which says only whether all is right: a card in generic mode, one in native mode, and virtio. Nothing is
# measured, so it is not optimised across crates, which takes most of the building.
niclab-ci: MODELS = e1000,igb,virtio-net-pci
niclab-ci: ARGS = --steps modes,conformance,messages,events --messages 1000 --at-once 3
niclab-ci: export CARGO_PROFILE_STATIC_LTO = off
niclab-ci: export CARGO_PROFILE_STATIC_CODEGEN_UNITS = 16
niclab-ci: niclab

build:
	@tools/need cc=gcc ip=iproute2 tc=iproute2
	@tools/need-rust
	cargo build --release --locked -p gigae-cli

# Under sudo there mostly is no cargo: then what was built before is installed.
install:
	@if [ -n "$(BUILD)" ] && command -v cargo >/dev/null 2>&1; then tools/need-rust && \
		cargo build --locked --profile $(PROFILE:debug=dev) $(BUILD); fi
	@crates/edge/capi/install $(or $(CARGO_TARGET_DIR),target)/$(PROFILE) $(PREFIX) $(DESTDIR)

deb:
	@tools/need dpkg-deb=dpkg strip=binutils python3=python3
	@if [ -n "$(BUILD)" ]; then tools/need-rust && RUSTFLAGS="$$RUSTFLAGS $$(tools/remap)" cargo build --locked --profile $(PROFILE:debug=dev) $(BUILD); fi
	@tools/deb $(or $(CARGO_TARGET_DIR),target)/$(PROFILE) $(or $(DEB_OUT),$(CARGO_TARGET_DIR),target) $(DEB_COMPRESSION)

static:
	@tools/need cc=gcc readelf=binutils python3=python3
	@tools/need-rust
	@tools/static

# Not part of CI: it takes two release builds and two static ones.
reproducible:
	@tools/need git=git tar=tar cmp=diffutils cc=gcc readelf=binutils strip=binutils dpkg-deb=dpkg python3=python3
	@tools/need-rust
	@tools/reproducible

uninstall:
	@crates/edge/capi/install --remove $(PREFIX) $(DESTDIR)

test:
	@tools/need cc=gcc ip=iproute2 tc=iproute2 chromium=chromium
	@tools/need gcc=gcc g++=g++ nm=binutils pkg-config=pkg-config valgrind=valgrind strace=strace tshark=tshark
	@tools/need dpkg-deb=dpkg setpriv=util-linux script=bsdutils bash=bash
	@tools/need iperf3=iperf3 sockperf=sockperf NPtcp=netpipe-tcp qperf=qperf prometheus=prometheus
	@tools/need $(SERVICES_files) $(SERVICES_nfs) $(SERVICES_nfs-mount)
	@tools/need fi_pingpong=libfabric-bin mpirun=openmpi-bin python3=python3
	@tools/need slurmctld=slurmctld slurmd=slurmd munged=munge srun=slurm-client pgrep=procps
	@$(MPI_HEADERS)
	@python3 -c 'import venv, ensurepip' 2>/dev/null || tools/need ensurepip=python3-venv
	@tools/need-rust
	cargo build --workspace --all-targets --locked
	cargo build --release --locked -p gigae-proto --example instructions
	cargo build --release --locked -p gigae --example paths
	cargo test --release --locked --no-run -p gigae-ofi --lib
	BUILD= tools/test

# The long forms; bounded ones are among the tests. Each stops at the first thing that is wrong and says how to repeat it.
torture: model simulate
	@if [ "$$(id -u)" = 0 ]; then $(MAKE) chaos; else echo "left out: make chaos, which needs root"; fi
	$(MAKE) fuzz

simulate:
	@tools/need-rust
	cargo build --release --locked -p gigae-torture
	$(or $(CARGO_TARGET_DIR),target)/release/gigae-torture --seeds $(SEEDS) --from $(FROM) --hours $(HOURS) $(ARGS)

# MODEL='--only restart' takes the sizes whose names say so.
model:
	@tools/need-rust
	cargo build --release --locked -p gigae-model
	$(or $(CARGO_TARGET_DIR),target)/release/gigae-model $(MODEL)

chaos:
	@tools/need cc=gcc ip=iproute2 tc=iproute2
	@tools/need-rust
	cargo build --release --locked -p gigae-chaos
	$(or $(CARGO_TARGET_DIR),target)/release/gigae-chaos --seeds $(CHAOS_SEEDS) --from $(FROM) --minutes $(or $(MINUTES),30)

fuzz:
	@tools/need-rust
	tools/fuzz $(or $(MINUTES),5) $(TARGETS)

# What CI can do of it: other inputs each time, any compiler, no instrumentation. The seed is printed.
search:
	@tools/need-rust
	cargo run --locked -p gigae-hostile --example search -- $(SECONDS) $(TARGETS)

miri:
	@tools/need-rust
	tools/miri

# The files that these words are in, with nothing else around them. Orders with up to two switches of threads where
# none is needed; without that bound the ring's test did not end in minutes.
loom: export LOOM_MAX_PREEMPTIONS = 2
loom: export RUSTFLAGS = --cfg loom
loom: export CARGO_TARGET_DIR := $(abspath $(or $(CARGO_TARGET_DIR),target))/loom
loom:
	@tools/need-rust
	cd tools/loom && cargo test --release --locked
	cargo test --release --locked -p gigae-observe --lib loom_tests
	cargo test --release --locked -p gigae-shm --lib loom_tests
	cargo test --release --locked -p gigae-progress --lib loom_tests

check:
	@tools/need cc=gcc clang=clang llvm-strip=llvm python3=python3
	@tools/need-rust
	cargo fmt --all --check
	cargo fmt --check --manifest-path fuzz/Cargo.toml
	cargo fmt --check --manifest-path tools/loom/Cargo.toml
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
	tools/selftest
	tools/layers
	tools/security
	tools/docs
	tools/supply check $(ADVISORY_DB)
	tools/examples
	tools/bpf check

# mdbook takes some four minutes of a processor to build, once.
docs: export PATH := $(abspath $(or $(CARGO_TARGET_DIR),target))/mdbook/bin:$(PATH)
docs:
	@tools/need python3=python3 git=git
	@command -v mdbook >/dev/null 2>&1 || { tools/need-rust && \
		cargo install mdbook --version 0.5.4 --locked --root $(or $(CARGO_TARGET_DIR),target)/mdbook; }
	tools/docs site $(or $(CARGO_TARGET_DIR),target)/docs

bpf:
	@tools/need clang=clang llvm-strip=llvm
	tools/bpf build

fmt:
	cargo fmt --all
	cargo fmt --manifest-path fuzz/Cargo.toml
	cargo fmt --manifest-path tools/loom/Cargo.toml

clean:
	cargo clean
	rm -rf $(OUT)
