"""A system with musl for its only C library: musl and busybox of Debian, and a CPython built from Debian's sources.

    zlib, libffi, OpenSSL ──► static libraries ──► CPython as it was released, without Debian's changes

It is for trying wheels and for nothing else: optimised little, OpenSSL without what a client of an index does not need.
Threads get the 1 MiB of stack that the CPython of Alpine Linux gives them; musl's own 128 KiB are too few for it.
"""

from __future__ import annotations

import os
import platform
import tarfile
from pathlib import Path

from foreign_systems import VERSION, archive, do, finish

APPLETS = ("dirname", "env", "ls", "realpath", "sh", "true")
HEADERS_OF_THE_KERNEL = ("linux", "asm-generic", "asm", "mtd")
COMPILER = """#!/bin/sh
# musl-gcc that knows the kernel's headers, and says which C library it is for.
case "$*" in *-print-multiarch) echo {multiarch}; exit;; esac
exec musl-gcc -idirafter {headers} "$@"
"""
WITHOUT = (
    *(
        "shared",
        "tests",
        "engine",
        "asm",
        "legacy",
        "module",
        "ssl3",
        "srp",
        "sm2",
        "sm3",
        "sm4",
        "idea",
        "rc4",
        "cast",
    ),
    *("camellia", "seed", "aria", "cms", "ct", "dtls"),
)


def musl(place: Path) -> Path:
    """A root directory with musl for its only C library, and CPython in `/usr/local`."""
    root = place / "root"
    if not (place / "made").exists():
        root.mkdir(parents=True, exist_ok=True)
        for package in ("musl", "busybox-static"):
            do(["apt-get", "download", "--quiet", package], place)
            for file in place.glob(f"{package}_*.deb"):
                do(["dpkg-deb", "-x", str(file), str(root)])
        (root / "usr" / "bin").mkdir(parents=True, exist_ok=True)
        busybox = root / "bin" / "busybox"
        for applet in APPLETS:
            link = root / "usr" / "bin" / applet
            if not link.is_symlink():
                link.symlink_to(f"/{busybox.relative_to(root)}")
        build_python(place, root, archive())
        finish(place, root)
    return root


def build_python(place: Path, root: Path, sources: tuple[str, str]) -> None:
    """Build under `place` and install in `/usr/local` of `root`. What is there already is not built once more."""
    multiarch = f"{platform.machine()}-linux-musl"
    compiler = compiler_for(place, multiarch)
    libraries = place / "libraries"
    environment = {**os.environ, "CC": str(compiler), "CFLAGS": "-O1 -g0 -w -fPIC", "PKG_CONFIG": "false"}
    for library, steps in _libraries(libraries, multiarch).items():
        if not (done := place / f"{library}.made").exists():
            source = unpacked(place, library, sources)
            for step in steps:
                do(step, source, environment)
            done.touch()
    source = unpacked(place, f"python{VERSION}", sources)
    environment |= {
        "CFLAGS": "-O1 -g0 -w -DTHREAD_STACK_SIZE=0x100000",
        "CPPFLAGS": f"-I{libraries}/include",
        "LDFLAGS": f"-L{libraries}/lib",
    }
    switches = ["--disable-test-modules", "--without-static-libpython", "--with-ensurepip=no"]
    if not (source / "Makefile").exists():
        build = [f"--build={multiarch}", "--prefix=/usr/local", f"--with-openssl={libraries}"]
        do(["./configure", "--quiet", *build, *switches], source, environment)
    do(["make", "-s", f"-j{os.cpu_count()}"], source, environment)
    do(["make", "-s", "install", f"DESTDIR={root}"], source, environment)


def _libraries(prefix: Path, multiarch: str) -> dict[str, list[list[str]]]:
    jobs = f"-j{os.cpu_count()}"
    openssl = [
        "./Configure",
        f"linux-{platform.machine()}",
        f"--prefix={prefix}",
        "--openssldir=/etc/ssl",
        "--libdir=lib",
    ]
    return {
        "zlib": [
            ["./configure", "--static", f"--prefix={prefix}"],
            ["make", "-s", jobs, "libz.a"],
            ["make", "-s", "install"],
        ],
        "libffi": [
            [
                "./configure",
                "--quiet",
                f"--prefix={prefix}",
                f"--host={multiarch}",
                "--disable-shared",
                "--disable-docs",
            ],
            ["make", "-s", jobs],
            ["make", "-s", "install"],
        ],
        "openssl": [
            [*openssl, *(f"no-{name}" for name in WITHOUT)],
            ["make", "-s", jobs, "build_libs"],
            ["make", "-s", "install_dev"],
        ],
    }


def compiler_for(place: Path, multiarch: str) -> Path:
    """A compiler for musl; the one of Debian lacks the headers of the kernel."""
    headers = place / "headers"
    headers.mkdir(parents=True, exist_ok=True)
    for name in HEADERS_OF_THE_KERNEL:
        link = headers / name
        ours = (Path("/usr/include") / name, Path("/usr/include") / multiarch.replace("musl", "gnu") / name)
        if not link.is_symlink():
            link.symlink_to(next(path for path in ours if path.exists()))
    compiler = place / "cc"
    compiler.write_text(COMPILER.format(multiarch=multiarch, headers=headers))
    compiler.chmod(0o755)
    return compiler


def unpacked(place: Path, package: str, sources: tuple[str, str]) -> Path:
    """The source of a Debian package as its authors released it."""
    if found := sorted(path for path in place.glob(f"sources/{package}/*") if path.is_dir()):
        return found[0]
    directory = place / "sources" / package
    lists = place / "lists"
    for needed in (directory, lists / "partial"):
        needed.mkdir(parents=True, exist_ok=True)
    listed = place / "sources.list"
    listed.write_text(f"deb-src {sources[0]} {sources[1]} main\n")
    apt = ["apt-get", "-qq", "-o", f"Dir::Etc::sourcelist={listed}", "-o", "Dir::Etc::sourceparts=-"]
    apt += ["-o", f"Dir::State::lists={lists}", "-o", "APT::Sandbox::User=root"]
    do([*apt, "update"])
    do([*apt, "source", "--download-only", "--only-source", package], directory)
    (original,) = directory.glob("*.orig.tar.*[!c]")
    with tarfile.open(original) as file:
        file.extractall(directory, filter="data")
    (source,) = (path for path in directory.iterdir() if path.is_dir())
    return source
