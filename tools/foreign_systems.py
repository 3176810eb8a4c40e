"""Systems that are not this one, in a directory each; one in which all is linked with musl is made by `musl_python`.

    debian(place)    Debian's Python for arm64 and what it needs, unpacked and never configured, by mmdebstrap
    enter(...)       a command in a system, in namespaces of its own; qemu runs foreign programs there, nowhere else

What the machine has to have is in `NEEDED`, by the names of Debian's packages. Nothing outside the directories changes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
QEMU = "/usr/bin/qemu-aarch64-static"
NEEDED = {
    "aarch64": ("mmdebstrap", "gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "qemu-user-static"),
    "musl": ("musl-tools", "linux-libc-dev", "gcc", "make", "dpkg-dev"),
}
PROGRAMS = {
    "aarch64": ("mmdebstrap", "aarch64-linux-gnu-gcc", QEMU, "unshare"),
    "musl": ("musl-gcc", "make", "dpkg-source", "apt-get", "unshare"),
}
# Nothing that compiles. The headers of Python are for the compiler outside.
DEBIAN_PACKAGES = (
    f"libpython{VERSION}-dev",
    f"python{VERSION}-venv",
    "ca-certificates",
    "coreutils",
    "dash",
    "libc-bin",
)
# What this machine knows of names and certificates.
OF_THE_MACHINE = ("/etc/hosts", "/etc/resolv.conf", "/etc/passwd", "/etc/ssl/certs/ca-certificates.crt")

# In a user namespace of its own `binfmt_misc` is one of its own, too: who else is on the machine notices nothing. The
# mask lets through programs (2) and shared ones (3) of ELF for this processor (183).
ENTER = r"""
root=$1; shift
if [ -n "$QEMU" ]; then
    mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc &&
    printf %s ':foreign:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'\
':\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'":$QEMU:FP" \
        > /proc/sys/fs/binfmt_misc/register || { echo 'no qemu without Linux 6.7 or later' >&2; exit 1; }
fi
mount --rbind /dev "$root/dev" && mount -t proc proc "$root/proc" && mount -t tmpfs tmpfs "$root/tmp" &&
exec chroot "$root" "$@"
"""


def missing(kind: str) -> str:
    """What to install before a system of this kind can be made; empty if all is here."""
    lacking = [name for name in PROGRAMS[kind] if shutil.which(name) is None]
    return f"{', '.join(lacking)}: apt-get install {' '.join(NEEDED[kind])}" if lacking else ""


def enter(root: Path, command: Sequence[str], environment: Mapping[str, str], *, foreign: bool) -> int:
    """Run a command in a system; its exit code."""
    words = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "sh", "-c", ENTER, "sh", str(root)]
    kept = ("PIP_", "UV_", "SSL_", "REQUESTS_", "HTTP", "http", "LANG")
    inside = {name: value for name, value in os.environ.items() if name.startswith(kept) and name != "PIP_FIND_LINKS"}
    inside |= {"HOME": "/root", "PATH": "/usr/local/bin:/usr/bin:/bin", **environment}
    outside = {"PATH": os.environ["PATH"], "QEMU": QEMU if foreign else ""}
    variables = [f"{name}={value}" for name, value in inside.items()]
    return subprocess.run([*words, "/usr/bin/env", "-i", *variables, *command], env=outside, check=False).returncode


def debian(place: Path) -> Path:
    """A root directory of Debian for arm64, of the release of this machine."""
    root = place / "root"
    if not (place / "made").exists():
        shutil.rmtree(place, ignore_errors=True)
        root.mkdir(parents=True)
        mirror, release = archive()
        words = ["mmdebstrap", "--quiet", "--variant=extract", "--architectures=arm64", release]
        made = [f"--include={','.join(DEBIAN_PACKAGES)}", str(place / "root.tar"), mirror]
        do([*words[:-1], made[0], release, *made[1:]])
        do(["tar", "-C", str(root), "--no-same-owner", "-xf", str(place / "root.tar")])
        finish(place, root)
    return root


def finish(place: Path, root: Path) -> None:
    """What every system gets: places to mount things at, names, certificates; then it counts as made."""
    for name in ("dev", "proc", "root", "tmp"):
        (root / name).mkdir(exist_ok=True)
    for path in map(Path, OF_THE_MACHINE):
        copy = root / path.relative_to("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            shutil.copyfile(path, copy)
    if not (root / "bin" / "sh").exists():
        (root / "bin" / "sh").symlink_to("/usr/bin/sh" if (root / "usr/bin/sh").is_symlink() else "dash")
    (place / "made").touch()


def archive() -> tuple[str, str]:
    """Where this machine has Debian from, and which release."""
    format_ = ["--format", "$(REPO_URI) $(CODENAME) $(COMPONENT)"]
    words = ["apt-get", "indextargets", *format_, "Created-By: Packages", "Origin: Debian", "Component: main"]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    for line in told.splitlines():
        mirror, release, _ = line.split()
        if "-" not in release:
            return mirror, release
    raise SystemExit("apt knows no archive of Debian; run `apt-get update`")


def do(command: Sequence[str], place: Path | None = None, environment: Mapping[str, str] | None = None) -> None:
    """Run a command; its failure is ours."""
    if subprocess.run(command, cwd=place, env=environment, check=False).returncode:
        raise SystemExit(f"failed: {' '.join(command[:8])} ...")
