#!/bin/sh
# Makes the virtual environment with the package (kernels compiled in place) and everything the tests need.
# Says clearly what is missing when it cannot.
set -eu
PYTHON=${PYTHON:-python3}
VENV=${VENV:-.venv}

. "$(dirname "$0")/debian.sh"

have "$PYTHON" || debian python3
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "$PYTHON is older than 3.11"

missing=""
have cc || missing="$missing build-essential"
"$PYTHON" -c 'import ensurepip' 2>/dev/null || missing="$missing python3-venv"
printf '#include <Python.h>\n' | cc -E $("$PYTHON" -c 'import sysconfig; print("-I" + sysconfig.get_path("include"))') - >/dev/null 2>&1 \
    || { "$PYTHON" -c 'import sys; sys.exit(sys.base_prefix != "/usr")' && missing="$missing python3-dev"; } || true
have node || missing="$missing nodejs"
have npm || missing="$missing npm"
have java || [ -n "${JAVA_HOME:-}" ] || missing="$missing openjdk-17-jre-headless"
# shellcheck disable=SC2086
[ -z "$missing" ] || debian $missing
# The dashboard is tried in a real browser; where there is none, those tests are skipped.
have chromium || (debian chromium) || echo "setup: no chromium: the dashboard's tests will be skipped" >&2

[ -x "$VENV/bin/python" ] || "$PYTHON" -m venv "$VENV" || fail "could not create $VENV"
"$VENV/bin/python" -m pip install --quiet --upgrade pip "setuptools>=80" "cython>=3.3,<4" || fail "pip could not install the build tools"
# An environment from before the package had its present name knows it twice.
"$VENV/bin/python" -m pip uninstall --quiet --yes slipstream 2>/dev/null || true
# Kernels are translated and compiled on all processors, and without what only a debugger reads.
jobs=$("$VENV/bin/python" -c 'import os; print(os.cpu_count() or 1)')
"$VENV/bin/cythonize" --quiet -j "$jobs" src/slipstream/kernels/*/*.pyx src/slipstream/kernels/subjects/subject.py || fail "Cython refuses a kernel"
printf '[build_ext]\nparallel = %s\n' "$jobs" >"$VENV/build.cfg"
DIST_EXTRA_CONFIG="$VENV/build.cfg" CFLAGS="${CFLAGS:-} -g0" \
    "$VENV/bin/python" -m pip install --quiet --no-build-isolation --editable ".[dev]" || fail "pip could not install the package"
# A start must not compile: where PYTHONDONTWRITEBYTECODE is set, as in many containers, it would each time.
"$VENV/bin/python" -m compileall -q src/slipstream >/dev/null || true
