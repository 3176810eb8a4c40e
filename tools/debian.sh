# Words that the scripts of set-up share: `fail TEXT`, `have PROGRAM`, `debian PACKAGES` (installs them).
fail() { echo "setup: $*" >&2; exit 1; }

have() { command -v "$1" >/dev/null 2>&1; }

debian() { # install Debian packages, as root or through sudo
    have apt-get || fail "please install: $* (no apt-get here)"
    as_root=""
    if [ "$(id -u)" != 0 ]; then
        have sudo || fail "please install as root: apt-get install $*"
        as_root=sudo
    fi
    echo "setup: installing $*"
    $as_root apt-get update -qq || fail "apt-get update failed"
    DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq "$@" >/dev/null || fail "apt-get install $* failed"
}
