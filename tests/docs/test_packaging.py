"""What is shipped beside the package: the systemd unit, the container image, and what the chart of NATS asks of it."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import time
import tomllib
import urllib.request
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

import pytest

from slipstream.sync import connect
from support.ports import free_port
from support.servers import server_binary

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "packaging" / "slipstream.service"
CONTAINERFILE = ROOT / "packaging" / "Containerfile"
TRY_WHEEL = ROOT / "tools" / "try_wheel.py"
INSTALLED = "/opt/slipstream/bin/slipstream-server"
STRINGS, ALLOCATED = 3, 2  # SHT_STRTAB, SHF_ALLOC
EXPOSURE_MAX = 2.0  # of ten; systemd calls up to 2 safe

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PYTHONS = ("3.11", "3.12", "3.13", "3.14")

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


def _run(*words: str, timeout_s: float = 50, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=timeout_s, **more)  # type: ignore[call-overload, no-any-return]


def test_wheels_are_for_everybody() -> None:
    wheels = PROJECT["tool"]["cibuildwheel"]
    assert wheels["build"] == [f"cp{version.replace('.', '')}-*" for version in PYTHONS]
    assert wheels["linux"]["archs"] == ["x86_64", "aarch64"] and wheels["macos"]["archs"] == ["x86_64", "arm64"]
    for kind in ("manylinux", "musllinux"):
        for arch in wheels["linux"]["archs"]:
            assert wheels["linux"][f"{kind}-{arch}-image"].startswith(kind)
            assert not any(pattern in f"cp312-{kind}_{arch}" for pattern in (one.strip("*") for one in wheels["skip"]))
    # Each wheel is used before it is kept, by a script that needs nothing but what it brings.
    script = wheels["test-command"].replace("{project}", str(ROOT)).split()[-1]
    assert _run(sys.executable, script).returncode == 0
    assert PROJECT["project"]["requires-python"] == f">={PYTHONS[0]}"
    assert f"VERSIONS = {json.dumps(PYTHONS).replace('[', '(').replace(']', ')')}" in TRY_WHEEL.read_text()


def test_every_kernel_is_in_the_wheel_and_needs_no_processor_of_its_own() -> None:
    built = PROJECT["tool"]["setuptools"]["ext-modules"]
    sources = {source for module in built for source in module["sources"]}
    there = {str(path.relative_to(ROOT)) for path in (ROOT / "src").rglob("*.pyx")}
    assert there and there <= sources
    flags = {flag for module in built for flag in module.get("extra-compile-args", ())}
    assert not [flag for flag in flags if flag.startswith(("-m", "-Werror"))]  # other processors, other compilers


@pytest.mark.skipif(sys.platform != "linux", reason="about the C libraries of Linux")
def test_kernels_ask_for_nothing_that_musl_got_after_1_2_0() -> None:
    # A wheel for musllinux_1_2 is for all of 1.2, whatever the image has that builds it; no tool looks after that.
    late = [b"_Fork", b"gettid", b"posix_getdents", b"preadv2", b"pwritev2", b"qsort_r", b"renameat2", b"statx"]
    late += [b"preadv64v2", b"pwritev64v2"]  # as glibc calls two of them
    built = [Path(str(found.origin)) for found in _kernels()]
    assert built
    assert not [(path.name, name) for path in built for name in late if name + b"\0" in _imported(path)]


def _kernels() -> list[ModuleSpec]:
    names = [Path(module["sources"][0]).with_suffix("") for module in PROJECT["tool"]["setuptools"]["ext-modules"]]
    found = [find_spec(".".join(name.parts[1:])) for name in names]
    return [one for one in found if one is not None and str(one.origin).endswith(".so")]


def _imported(path: Path) -> bytes:
    """The names by which a shared object of 64 bits is linked: the contents of its `.dynstr`."""
    data = path.read_bytes()
    table, size, count = (*struct.unpack_from("<Q", data, 40), *struct.unpack_from("<HH", data, 58))
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, table + k * size) for k in range(count)]
    ((start, length),) = [(one[4], one[5]) for one in headers if one[1] == STRINGS and one[2] & ALLOCATED]
    return data[start : start + length]


@needs_systemd
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace(INSTALLED, str(server_binary("ours"))))
    done = _run("systemd-analyze", "verify", "--man=no", str(unit))
    said = [line for line in (done.stdout + done.stderr).splitlines() if UNIT.name in line]
    assert said == []


@needs_systemd
def test_the_unit_gives_the_server_little() -> None:
    done = _run("systemd-analyze", "security", "--offline=true", "--no-pager", str(UNIT))
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd cannot judge a unit that is not installed")
    level = float(done.stdout.rsplit("Overall exposure level for", 1)[1].split(":")[1].split()[0])
    assert level <= EXPOSURE_MAX, done.stdout


def test_the_image_is_called_as_nats_server_is() -> None:
    text = CONTAINERFILE.read_text()
    assert "ln -s slipstream-server /opt/slipstream/bin/nats-server" in text
    last_user = [line.split()[1] for line in text.splitlines() if line.startswith("USER ")][-1]
    assert last_user not in ("root", "0")


def _engine() -> str:
    """A container engine that works here."""
    for name in ("podman", "docker"):
        if shutil.which(name) and _run(name, "info").returncode == 0:
            return name
    pytest.skip("neither podman nor docker works here")


def _built(engine: str) -> str:
    """The image.

    `SLIPSTREAM_IMAGE_BASE` names another base, for where registries cannot be reached; `SLIPSTREAM_WHEEL` a wheel,
    which saves compiling.
    """
    name = "localhost/slipstream-test"
    words = [engine, "build", "-q", "-f", str(CONTAINERFILE), "-t", name]
    if base := os.environ.get("SLIPSTREAM_IMAGE_BASE"):
        words += ["--build-arg", f"BASE={base}"]
    if wheel := os.environ.get("SLIPSTREAM_WHEEL"):
        path = Path(wheel).resolve()
        words += ["--build-arg", f"PACKAGE=/wheels/{path.name}", "--volume", f"{path.parent}:/wheels:ro"]
    built = _run(*words, str(ROOT), timeout_s=3500)
    if built.returncode and ("registry" in built.stderr or "lookup" in built.stderr):
        pytest.skip(f"the base image cannot be had: {built.stderr.strip()[-200:]}")
    assert built.returncode == 0, built.stderr
    return name


def _until_healthy(address: str, logs: Callable[[], str]) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(f"http://{address}/healthz", timeout=2) as answer:
                assert json.load(answer) == {"status": "ok"}
            return
        except OSError:
            assert time.monotonic() < end, logs()
            time.sleep(0.1)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_image_runs_as_a_pod_runs_it(tmp_path: Path) -> None:
    """Arguments, files and the last command are those of NATS' chart."""
    engine = _engine()
    image = _built(engine)
    ports = (free_port(), free_port())
    (tmp_path / "nats.conf").write_text(
        f"port: {ports[0]}\nhttp: 127.0.0.1:{ports[1]}\nserver_name: $SERVER_NAME\n"
        'pid_file: "/var/run/nats/nats.pid"\njetstream { store_dir: "/data" }\n'
    )
    tmp_path.chmod(0o755)
    words = ["-d", "--network", "host", "-e", "SERVER_NAME=pod-0", "-v", f"{tmp_path}:/etc/nats-config:ro"]
    started = _run(engine, "run", *words, image, "--config", "/etc/nats-config/nats.conf")
    assert started.returncode == 0, started.stderr
    container = started.stdout.strip()
    try:
        _until_healthy(f"127.0.0.1:{ports[1]}", lambda: _run(engine, "logs", container).stderr)
        assert _run(engine, "exec", container, "id", "-u").stdout.strip() == "10001"
        assert "nats-server: v" in _run(engine, "exec", container, "nats-server", "--version").stdout
        with connect(f"nats://127.0.0.1:{ports[0]}") as client:
            jetstream = client.jetstream()
            jetstream.create_stream("ORDERS", subjects=["orders.>"])
            assert jetstream.publish("orders.us", b"42 apples").seq == 1
        ended = _run(engine, "exec", container, "nats-server", "-sl=ldm=/var/run/nats/nats.pid")
        assert ended.returncode == 0, ended.stderr
        assert _run(engine, "wait", container).stdout.strip() == "0"
    finally:
        _run(engine, "rm", "-f", container)
