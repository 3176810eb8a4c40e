#!/bin/sh
# Builds the Raft core (`raft/`) into the virtual environment: what servers of a cluster need beside the package. Installs
# cargo and protoc where they are missing. A build that is there already takes a second; cargo keeps what it compiled.
set -eu
VENV=${VENV:-.venv}
TARGET=${CARGO_TARGET_DIR:-build/raft}
RUST_MIN=75 # 1.75: what `raft/Cargo.toml` says

. "$(dirname "$0")/debian.sh"

new_enough() { # whether a version such as "1.85.0" is
    minor=$(printf '%s' "$1" | sed -n 's/^[^0-9]*1\.\([0-9]*\).*/\1/p')
    [ -n "$minor" ] && [ "$minor" -ge "$RUST_MIN" ]
}

missing=""
if ! have cargo || ! have rustc || ! new_enough "$(rustc --version 2>/dev/null | cut -d' ' -f2)"; then
    # Debian 12 has the Rust that Firefox needs beside its own, which is too old.
    if new_enough "$(apt-cache policy rustc 2>/dev/null | sed -n 's/ *Candidate: //p')"; then
        missing="cargo rustc"
    else
        missing="cargo-web rustc-web"
    fi
fi
have protoc || missing="$missing protobuf-compiler"
# shellcheck disable=SC2086
[ -z "$missing" ] || debian $missing

"$VENV/bin/python" -m pip install --quiet "setuptools>=80" "setuptools-rust>=1.10" || fail "pip could not install setuptools-rust"
mkdir -p "$TARGET"
CARGO_TARGET_DIR=$(cd "$TARGET" && pwd) \
    "$VENV/bin/python" -m pip install --quiet --no-build-isolation --no-deps --force-reinstall ./raft \
    || fail "the Raft core could not be built"
"$VENV/bin/python" -c 'import slipstream_raft' || fail "the Raft core was built and cannot be loaded"
