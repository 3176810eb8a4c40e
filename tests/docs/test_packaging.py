"""What is shipped beside the package: the systemd unit, the container image, and what the chart of NATS asks of it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from support.servers import server_binary

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "packaging" / "slipstream.service"
CONTAINERFILE = ROOT / "packaging" / "Containerfile"
INSTALLED = "/opt/slipstream/bin/slipstream-server"
EXPOSURE_MAX = 2.0  # of ten; systemd calls up to 2 safe
CHART = ("nats", "https://nats-io.github.io/k8s/helm/charts/")

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


def _run(*words: str, timeout_s: float = 50, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=timeout_s, **more)  # type: ignore[call-overload, no-any-return]


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


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_image_runs() -> None:
    engine = _engine()
    built = _run(engine, "build", "-q", "-f", str(CONTAINERFILE), "-t", "slipstream-test", str(ROOT), timeout_s=3500)
    if built.returncode and ("registry" in built.stderr or "lookup" in built.stderr):
        pytest.skip(f"the base image cannot be had: {built.stderr.strip()[-200:]}")
    assert built.returncode == 0, built.stderr
    started = _run(engine, "run", "-d", "--rm", "-p", "127.0.0.1::8222", "slipstream-test")
    assert started.returncode == 0, started.stderr
    container = started.stdout.strip()
    try:
        address = _run(engine, "port", container, "8222").stdout.split()[-1]
        end = time.monotonic() + 60
        while True:
            try:
                with urllib.request.urlopen(f"http://{address}/healthz", timeout=2) as answer:
                    assert json.load(answer) == {"status": "ok"}
                break
            except OSError:
                assert time.monotonic() < end, _run(engine, "logs", container).stdout
        assert _run(engine, "exec", container, "id", "-u").stdout.strip() != "0"
        assert "nats-server: v" in _run(engine, "exec", container, "nats-server", "--version").stdout
    finally:
        _run(engine, "kill", container)


@pytest.mark.long
def test_the_chart_of_nats_renders_with_this_image(tmp_path: Path) -> None:
    if shutil.which("helm") is None:
        pytest.skip("helm is not installed")
    name, repository = CHART
    settings = ("config.jetstream.enabled=true", "container.image.repository=slipstream", "container.image.tag=latest")
    words = [word for setting in settings for word in ("--set", setting)]
    done = _run("helm", "template", "test", name, "--repo", repository, *words)
    if done.returncode and "looks like" in done.stderr:
        pytest.skip(f"the chart cannot be had: {done.stderr.strip()[-200:]}")
    assert done.returncode == 0, done.stderr
    assert "image: slipstream:latest" in done.stdout
    import yaml

    documents = [each for each in yaml.safe_load_all(done.stdout) if each]
    (config,) = (each["data"]["nats.conf"] for each in documents if "nats.conf" in (each.get("data") or {}))
    path = tmp_path / "nats.conf"
    path.write_text(config.replace("/etc/nats-config", str(tmp_path)).replace("/data", str(tmp_path)))
    checked = _run(
        sys.executable, "-m", "slipstream.server", "-t", "-c", str(path), env={"SERVER_NAME": "test-0", "PATH": ""}
    )
    assert checked.returncode == 0, checked.stderr
