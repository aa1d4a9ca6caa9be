# The two commands of a newcomer are `make demo` and `make test`; everything else serves development.
SHELL := /bin/bash
export PATH := $(HOME)/.cargo/bin:$(PATH)
CARGO ?= cargo

.PHONY: web test-web test-monitoring bench-dashboard test-cluster simulation demo beats keep-checkpoints test test-prepared test-services test-stores site wheel test-wheel dist test-dist bench-python test-kafka test-ray setup build release fmt lint unit loom miri shuffle chaos crash docs docs-check bench bench-runtime bench-adaptive bench-all bench-peers bench-flink bench-resources bench-state bench-kafka bench-nodes flink-diff flink-topics memory fuzz soak soak-serve deny clean test-postgres test-s3

# A live windowed query over generated auction events. What it builds reads and writes text; `make release` builds everything.
demo: setup
	eval "$$(scripts/build_info.sh)" && $(CARGO) build --profile demo --package millstream-cli --no-default-features --features dynamic-libraries
	./target/demo/millstream run examples/demo.sql --output live

# Named by a variable of its own beside another command: make takes lines with its own variable for its own, and runs them in a dry run, too.
BESIDE_MAKE := $(MAKE) --no-print-directory

# Everything that CI checks.
test: setup web
	$(CARGO) fmt --all --check
	scripts/setup.sh --python
	scripts/beside.sh prepared $(BESIDE_MAKE) test-prepared -- $(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	$(CARGO) test --workspace --no-run --quiet
	scripts/beside.sh services $(BESIDE_MAKE) test-services -- $(CARGO) test --workspace --quiet
	scripts/beside.sh loom $(BESIDE_MAKE) loom -- $(BESIDE_MAKE) test-stores

# What tests need that is fetched and installed, and the documentation site (part of `make test`).
test-prepared:
	scripts/setup.sh --kafka
	scripts/kafka.sh jars
	scripts/python.sh
	@scripts/postgres.sh
	@scripts/setup.sh --s3
	@scripts/s3.sh install
	scripts/site.sh
	scripts/licences.py target/THIRD-PARTY.txt --target "$$(rustc -vV | sed -n 's/^host: //p')"

# What waits for brokers and interpreters most of its time, so that it runs beside the rest; then the command as `make demo` builds it
# (part of `make test`).
test-services:
	MILLSTREAM_KAFKA=start $(CARGO) test --workspace --quiet --test kafka
	MILLSTREAM_PYTHON=$(CURDIR)/target/python/bin/python $(CARGO) test --workspace --quiet --test python
	scripts/ray.sh -k "not corpus"
	MILLSTREAM_BINARY=$(CURDIR)/target/debug/millstream scripts/web.sh test
	$(CARGO) clippy --package millstream-cli --no-default-features --features dynamic-libraries --quiet -- -D warnings

# What runs beside the longest test of `make loom`, which takes one core (part of `make test`).
test-stores:
	MILLSTREAM_KAFKA=start $(MAKE) test-postgres
	$(MAKE) test-s3
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet

# The documentation site of docs/, in target/site: 20 s, and 3 s again (part of `make test`).
site:
	scripts/site.sh

# The connector kafka against a broker that is started for it (Java 17 and Maven; 56 MB are fetched once); a minute once
# built (part of `make test`).
test-kafka: setup
	scripts/setup.sh --kafka
	scripts/kafka.sh jars
	MILLSTREAM_KAFKA=start $(CARGO) test --test kafka

# Runs on a Ray cluster of three raylets, in a network namespace of its own; five minutes once built, of which the corpus takes three.
test-ray: setup
	scripts/python.sh
	$(CARGO) build --workspace --quiet
	scripts/ray.sh

setup:
	@scripts/setup.sh

# The pages of the dashboard, in target/web, from where the program embeds them: three seconds with Node.js.
web:
	@scripts/web.sh

# What the dashboard costs a job, with nobody who looks and with a viewer; four minutes once built.
bench-dashboard: release
	scripts/bench_dashboard.py

# packaging/monitoring with a real Prometheus (Debian's); ten seconds once built.
test-monitoring: build
	scripts/monitoring.sh

# They in a browser (Debian's Chromium), against a mock and against the program (part of `make test`).
test-web: web
	$(CARGO) build --workspace --quiet
	MILLSTREAM_BINARY=$(CURDIR)/target/debug/millstream scripts/web.sh test

build: setup web
	$(CARGO) build --workspace

release: setup web
	eval "$$(scripts/build_info.sh)" && $(CARGO) build --release --bins

fmt:
	$(CARGO) fmt --all

lint:
	$(CARGO) clippy --workspace --all-targets -- -D warnings

unit:
	$(CARGO) test --workspace

# The wheel of the Python package, in target/wheel/dist: some twenty minutes and, once, a Debian 11 by debootstrap (root).
wheel:
	scripts/wheel.sh

# The wheel as its users have it: what it needs of a system, an older Debian without a compiler, and every Python that is here, with the
# tests in Python. Some twelve minutes once it has fetched what it needs.
test-wheel:
	scripts/test_wheel.sh

# What users download, in target/dist: archive, .deb, Containerfile, install script, checksums. It needs what `make wheel` needs, and
# shares its crates.
dist:
	scripts/dist.sh

# Installs and runs them in empty systems: Debian 12, and Debian 11 for its older C library (by debootstrap, once; root).
test-dist:
	scripts/test_dist.sh

# The wheel beside Polars and DuckDB, functions of Python, and memory; three minutes once there is a wheel (`make wheel`).
bench-python:
	scripts/bench_python.sh

# The PostgreSQL sink against a real server, which the tests start and stop themselves; half a minute once built.
test-postgres:
	@scripts/postgres.sh
	$(CARGO) clippy --workspace --test postgres --quiet -- -D warnings
	$(CARGO) test --workspace --test postgres --quiet

# State directories in an object store, against a local S3 server (140 MB from PyPI, once); a minute once built.
test-s3:
	@scripts/setup.sh --s3
	@scripts/s3.sh install
	$(CARGO) clippy --workspace --test s3 --quiet -- -D warnings
	$(CARGO) test --workspace --test s3 --quiet

# Every interleaving of the lock-free structures, for a few threads each; three minutes, most of them one test (part of `make test`).
loom:
	RUSTFLAGS="--cfg loom" $(CARGO) test -p millstream-sync --release --target-dir target/loom --quiet

# The memory of the lock-free structures under miri (needs a nightly toolchain with the component miri).
miri:
	$(CARGO) +nightly miri test -p millstream-sync --target-dir target/miri

# The SQL corpus under 20 random orders of tasks; half a minute once built.
shuffle:
	MILLSTREAM_SHUFFLE=20 $(CARGO) test --test suite corpus

# Results that change, after every beat: 2,000 random queries and changelogs against a model, and Nexmark's with beats of one row, too.
# A quarter of an hour once built.
beats:
	MILLSTREAM_ALL_BEATS=1 MILLSTREAM_CASES=2000 $(CARGO) test --test suite changes:: -- --nocapture

# The SQL corpus with variants of code switched at random, 20 seeds.
chaos:
	MILLSTREAM_CHAOS=20 $(CARGO) test --test suite corpus

# Jobs on several processes, of which any is killed, 200 times each with files, PostgreSQL and Kafka; and Nexmark on 2, 3 and 5 processes.
test-cluster: setup
	@scripts/postgres.sh
	scripts/setup.sh --kafka
	scripts/kafka.sh jars
	MILLSTREAM_NODE_KILLS=200 MILLSTREAM_NODE_COUNTS="2 3 5" $(CARGO) test --workspace --test crash -- --nocapture nodes::
	MILLSTREAM_NODE_KILLS=200 $(CARGO) test --workspace --test postgres -- several_processes
	MILLSTREAM_KAFKA=start MILLSTREAM_NODE_KILLS=200 $(CARGO) test --workspace --test kafka -- --nocapture killed_at_its_commits

# A thousand nodes without rows that die, stop and come back late, in virtual time, with other seeds than CI has and more lanes.
SIMULATION_SECONDS ?= 1200
SIMULATION_SEED ?= $(shell date +%s)
simulation:
	MILLSTREAM_SIMULATION_SECONDS=$(SIMULATION_SECONDS) MILLSTREAM_SEED=$(SIMULATION_SEED) $(CARGO) test --workspace --test simulation -- --nocapture

# Disturbs jobs with windows, joins, sessions, ranks and OVER at random moments. From files to files with 32 MiB of memory, by 500
# signals (TERM, KILL, and STOP before CONT or KILL) and by full disks, which take root or sudo without a password: with the state in a
# directory, and in a local S3 server. And by 200 times KILL each from files to PostgreSQL, and from Kafka to files, PostgreSQL and Kafka
# (rows, upserts, changes).
# Half an hour once built.
SIGNALS ?= 500
KILLS ?= 200
crash: setup
	scripts/setup.sh --kafka
	scripts/kafka.sh jars
	@scripts/postgres.sh
	@scripts/setup.sh --s3
	@scripts/s3.sh install
	MILLSTREAM_SIGNALS=$(SIGNALS) $(CARGO) test --workspace --test crash -- --nocapture
	MILLSTREAM_SIGNALS=$(SIGNALS) $(CARGO) test --workspace --test s3 disturbed -- --nocapture
	MILLSTREAM_KAFKA=start MILLSTREAM_KILLS=$(KILLS) $(CARGO) test --workspace --test postgres killed

# Keeps checkpoints of this build in tests/checkpoints, for later ones to resume: once for each number of the format. Half a minute.
keep-checkpoints: build
	scripts/keep_checkpoints.sh

# Regenerates the parts of docs/ that come from code.
docs:
	MILLSTREAM_UPDATE_DOCS=1 $(CARGO) test -p millstream-cli --test docs --quiet
	scripts/api_reference.py
	$(CARGO) doc --workspace --no-deps

# Millstream beside DuckDB and beside hand-written loops; some eight minutes once built. See docs/benchmarks.md.
bench: setup
	scripts/bench.sh

# By skew, number of keys and size of buffers (latency); some ten minutes.
bench-runtime: setup
	scripts/bench.sh skew keys latency

# Streams that change while a query runs: the adaptive plan beside fixed ones, with plots over time in
# target/bench/adaptive; some eight minutes.
bench-adaptive: setup
	scripts/bench.sh adaptive --repetitions 1 --report target/bench/adaptive

# Beside DuckDB and Polars over files and in memory; some three minutes once built.
bench-peers: setup
	scripts/bench.sh peers

# Beside Apache Flink (Java 17 and Maven; downloads 120 MB once); about a quarter of an hour once built.
bench-flink: setup
	scripts/flink.sh

# Every benchmark that ends by itself, and a report with plots in target/bench/report; some 25 minutes once built.
bench-all: setup
	scripts/bench.sh --all --report target/bench/report

# What checkpoints cost, state ten times the memory, RocksDB beside it, and recovery of 5 GB (16 GB of disk); builds RocksDB,
# which takes some ten minutes once, and runs for as long again. MILLSTREAM_BENCH_PARTS=checkpoints,recovery measures only these.
bench-state: setup
	scripts/setup.sh --rocksdb
	LIBCLANG_PATH=$${LIBCLANG_PATH:-/usr/lib/llvm-19/lib} MILLSTREAM_BENCH_FEATURES=millstream-bench/rocksdb scripts/bench.sh state --repetitions 3

# What nodes send each other, for 2 to 1,000 of them, how much faster four processes with 0.4 of a core each are than one, and over links that
# the exchange fills (root, control groups of version 1, iproute2, 10 GB of memory); some 25 minutes once built.
bench-nodes: setup
	scripts/bench.sh exchange scale-curve scale-sustainable --repetitions 3
	scripts/bench.sh scale-model scale-link --repetitions 15

# From Kafka to Kafka, exactly once, beside reading alone (Java 17 and Maven); some two minutes.
bench-kafka: setup
	scripts/setup.sh --kafka
	scripts/kafka.sh jars
	scripts/bench.sh kafka --repetitions 3

# The queries and expressions of tests/flink on Apache Flink 2.2, compared with Millstream's rows (Java 17 and Maven; downloads
# 120 MB once); a few minutes once built.
flink-diff: setup
	scripts/flink-diff.sh

# Millstream and Apache Flink 2.2 read each other's topics of results that change (Java 17 and Maven; downloads 190 MB once); two minutes
# once built.
flink-topics: release
	scripts/setup.sh --kafka
	scripts/flink-topics.sh

# Queries whose state is larger than the memory of their container, in control groups of 128 MiB to 1 GiB (root, cgroups); some ten
# minutes once built.
memory: release
	scripts/memory.py target/release/millstream

# Instructions, cache misses and mispredicted branches per row, by valgrind; some fifteen minutes.
bench-resources: setup
	scripts/bench.sh resources

# Hours of event time with thousands of windows open, in MINUTES minutes; fails when memory grows.
MINUTES ?= 10
soak: setup
	scripts/bench.sh soak --soak-minutes $(MINUTES)

# Twenty jobs under `millstream serve`, for SERVE_SECONDS: kills, edits and broken files; fails when a row is lost or repeated, or something is
# left behind.
SERVE_SECONDS ?= 3600
soak-serve:
	MILLSTREAM_SERVE_SECONDS=$(SERVE_SECONDS) $(CARGO) test --workspace --test crash -- --nocapture served::

# Licences, sources and duplicates by cargo-deny, if it is installed (`cargo install cargo-deny`). CI checks the same
# rules of deny.toml, and who may depend on whom, with `cargo metadata` (crates/engine/tests/suite/dependencies.rs).
deny:
	$(CARGO) deny check licenses bans sources

clean:
	$(CARGO) clean

# Statements by a grammar; damaged files, streams, messages and state of jobs: for an hour each; a new seed each time, which the output names.
FUZZ_SECONDS ?= 3600
FUZZ_SEED ?= $(shell date +%s)
fuzz:
	MILLSTREAM_FUZZ_SECONDS=$(FUZZ_SECONDS) MILLSTREAM_FUZZ_SEED=$(FUZZ_SEED) $(CARGO) test --workspace --test fuzz -- --nocapture
	MILLSTREAM_FUZZ_SECONDS=$(FUZZ_SECONDS) MILLSTREAM_FUZZ_SEED=$(FUZZ_SEED) $(CARGO) test --workspace --lib damaged_messages -- --nocapture
