# Everything a fresh Debian or Ubuntu machine with Python 3.11 needs is installed by `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
KERNELS := $(wildcard $(addprefix src/slipstream/kernels/,*.pxd *.c *.h */*.pyx */*.pxd subjects/subject.py))
RAFT := $(wildcard $(addprefix raft/,Cargo.toml Cargo.lock pyproject.toml src/*.rs python/slipstream_raft/*.py*))

# What depends on the event loop: sockets, timers, threads, and clients of all kinds.
CORE_TESTS := tests/unit/server tests/unit/routing $(addprefix tests/conformance/test_,$(addsuffix .py,\
	nats_py_core nats_py_life tls_clients websocket_clients websocket_wire js_flows))

.PHONY: campaigns demo demo-cluster pictures test tests-read test-asyncio check format bench sanitize sanitize-short soak suites wheel wheels-try wheels-foreign clean install install-raft

install: $(STAMP)

# The Raft core needs Rust: only who works on clusters, and CI, builds it. Tests of it are skipped without.
install-raft: $(STAMP) $(VENV)/.raft

$(VENV)/.raft: $(RAFT) tools/setup_raft.sh
	@VENV=$(VENV) sh tools/setup_raft.sh
	@touch $(VENV)/.raft

$(STAMP): pyproject.toml $(KERNELS) tools/setup.sh
	@PYTHON=$(PYTHON) VENV=$(VENV) sh tools/setup.sh
	@touch $(STAMP)

demo: $(STAMP)  ## the product, told step by step: server, streams, kill -9, Spark
	@$(BIN)/python examples/demo.py

demo-cluster: install-raft  ## three servers, kill -9 of the one that leads, nothing lost, and a Spark query across it
	@$(BIN)/python examples/demo_cluster.py

test: $(STAMP)  ## every test that fits into a commit; what failed is run once more, alone, and named
	@$(BIN)/python tools/run_tests.py

tests-read: $(STAMP)  ## reads all tests once, so that the four processes of `make test` need not compile them side by side
	@$(BIN)/python tools/run_tests.py --collect-only -qq >/dev/null

test-asyncio: $(STAMP)  ## the core of them on asyncio's own event loop instead of uvloop
	@SLIPSTREAM_LOOP=asyncio $(BIN)/python tools/run_tests.py $(CORE_TESTS)

check: $(STAMP)  ## format, lint, types, layers
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/cython-lint --max-line-length 130 src/slipstream/kernels/*/*.pyx
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(STAMP)
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(STAMP)  ## side by side with nats-server; writes benchmarks/RESULTS.md
	@$(BIN)/python -m benchmarks.compare

bench-%: $(STAMP)  ## one family, minutes: core jetstream consumers growth cluster replicated; writes its RESULTS file
	@$(BIN)/python -m benchmarks.compare --family $* --repeat 3

campaigns: $(STAMP)  ## the long proofs, hours, and days of fuzzing; rewrites docs/proofs.md
	@$(BIN)/python tools/prove.py

campaign-%: $(STAMP)  ## one of them: raft replicated clusters partitions edge kill power crash-states at-rest disk-errors model (each also as NAME-encrypted) tampers trees oracle hostile fuzz injection
	@$(BIN)/python tools/prove.py $*

sanitize: $(STAMP)  ## tests of the kernels, built with AddressSanitizer and UndefinedBehaviorSanitizer
	@$(BIN)/python tools/sanitize.py

sanitize-short: $(STAMP)  ## what reads bytes of others, in two minutes; part of CI
	@$(BIN)/python tools/sanitize.py --short

soak: $(STAMP)  ## half an hour of mixed load, watching memory and losses
	@$(BIN)/python -m benchmarks.soak --minutes 30

suites: $(STAMP)  ## test-suites of FastStream, taskiq-nats, orbit.py, watermill-nats and kine, an etcd load on kine, exporter and surveyor, with nats-server and with ours
	@$(BIN)/python tools/run_client_suites.py
	@$(BIN)/python tools/compare_etcd.py
	@$(BIN)/python tools/compare_exporters.py

pictures: $(STAMP)  ## those of the dashboard in docs/images, by a browser before a server at work
	@SLIPSTREAM_PICTURES=1 $(BIN)/python -m pytest -m long tests/ui/test_pictures.py

wheel: $(STAMP)  ## a wheel of this machine's kind, tried in a new environment without a compiler
	@$(BIN)/python tools/try_wheel.py

wheels-try: $(STAMP)  ## the same for every Python from 3.11 on that is here, with the demo and the core of the unit tests
	@$(BIN)/python tools/try_wheel.py --all --tests

wheels-foreign: $(STAMP)  ## wheels for aarch64 and for musl: cross-compiled, tried in systems of their own; needs Debian
	@$(BIN)/python tools/try_foreign_wheel.py --machine aarch64
	@$(BIN)/python tools/try_foreign_wheel.py --libc musl

clean:
	rm -rf $(VENV) build src/slipstream/kernels/*.so src/slipstream/kernels/*/*.so src/*.egg-info
