"""The chart of NATS for Kubernetes with this image: what it renders is what this server understands.

Each set of values is rendered by `helm` with nothing but the image changed. The configuration is given to this server
and to nats-server; then the server is run as the pod would run it: arguments, environment, probes, the reloader's
signal, and the command before the stop.

The chart comes from its repository, or from the directory that `SLIPSTREAM_CHART` names.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.ports import free_port
from support.servers import server_binary
from tlsfiles import Authority

pytestmark = [pytest.mark.long, pytest.mark.timeout(120)]

REPOSITORY = "https://nats-io.github.io/k8s/helm/charts/"
IMAGE = "registry.example/slipstream:latest"
# Where the chart mounts things.
MOUNTS = ("/etc/nats-config", "/etc/nats-certs", "/etc/nats-ca-cert", "/var/run/nats", "/data", "/mnt")
WAIT_S = 60.0


def _tls(*names: str) -> dict[str, Any]:
    return {name: {"enabled": True, "tls": {"enabled": True, "secretName": "certs"}} for name in names}


VALUES: dict[str, dict[str, Any]] = {
    "plain": {},
    "jetstream": {"jetstream": {"enabled": True}},
    "stores": {
        "jetstream": {
            "enabled": True,
            "fileStore": {"dir": "/mnt", "maxSize": "1Gi"},
            "memoryStore": {"enabled": True, "maxSize": "2Gi"},
        },
        "serverNamePrefix": "eu-",
    },
    "cluster": {
        "cluster": {
            "enabled": True,
            "noAdvertise": False,
            "routeURLs": {"user": "route", "password": "a/b", "useFQDN": True},
        },
        "jetstream": {"enabled": True},
    },
    "edges": {"leafnodes": {"enabled": True}, "websocket": {"enabled": True}},
    "gateway": {
        "gateway": {"enabled": True, "merge": {"gateways": [{"name": "west", "url": "nats://west.example:7222"}]}}
    },
    "tls": _tls("nats", "cluster", "leafnodes", "websocket", "gateway") | {"monitor": {"tls": {"enabled": True}}},
    "quiet": {"monitor": {"enabled": False}},
}


def _rendered(values: dict[str, Any], directory: Path, **more: Any) -> tuple[dict[str, Any], str]:
    """The pod's specification and the configuration file, or a skip where there is no helm or no chart."""
    if shutil.which("helm") is None:
        pytest.skip("helm is not installed")
    chart = os.environ.get("SLIPSTREAM_CHART", "")
    file = directory / "values.yaml"
    file.write_text(
        yaml.safe_dump(
            {"config": values, "container": {"image": {"fullImageName": IMAGE}}, "natsBox": {"enabled": False}, **more}
        )
    )
    source = [chart] if chart else ["nats", "--repo", REPOSITORY]
    command = ["helm", "template", "test", *source, "--values", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode and "looks like" in done.stderr:
        pytest.skip(f"the chart cannot be had: {done.stderr.strip()[-200:]}")
    assert done.returncode == 0, done.stderr
    documents = [each for each in yaml.safe_load_all(done.stdout) if each]
    (pod,) = (each["spec"]["template"]["spec"] for each in documents if each["kind"] == "StatefulSet")
    (config,) = (each["data"]["nats.conf"] for each in documents if "nats.conf" in (each.get("data") or {}))
    return pod, config


def _container(pod: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = (each for each in pod["containers"] if each["name"] == name)
    return dict(found)


def _mounted(text: str, directory: Path) -> str:
    """The text with the chart's directories moved below one of ours."""
    for mount in MOUNTS:
        (directory / mount.strip("/")).mkdir(parents=True, exist_ok=True)
        text = text.replace(mount, f"{directory}{mount}")
    return text


def _environment(container: dict[str, Any], programs: Path) -> dict[str, str]:
    """What Kubernetes would set: names in parentheses are those above."""
    known = {"PATH": str(programs), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    for each in container["env"]:
        value = str(each.get("value", "test-nats-0"))  # without one it is the pod's name
        for name, before in known.items():
            value = value.replace(f"$({name})", before)
        known[each["name"]] = value
    return known


def _programs(directory: Path, kind: str) -> Path:
    """A PATH with a server of that kind under the name that the chart calls."""
    place = directory / f"bin-{kind}"
    place.mkdir()
    (place / "nats-server").symlink_to(server_binary(kind))
    return place


@pytest.mark.parametrize("name", VALUES)
def test_what_the_chart_renders_is_understood(name: str, tmp_path: Path) -> None:
    pod, config = _rendered(VALUES[name], tmp_path)
    container = _container(pod, "nats")
    assert container["image"] == IMAGE
    file = Path(_mounted(container["args"][1], tmp_path))
    file.write_text(_mounted(config, tmp_path))
    pair = Authority(tmp_path).issue("localhost")
    for listener in ("nats", "cluster", "leafnodes", "websocket", "gateway"):
        certs = tmp_path / "etc" / "nats-certs" / listener
        certs.mkdir()
        shutil.copy(pair.cert_file, certs / "tls.crt")
        shutil.copy(pair.key_file, certs / "tls.key")
    for kind in ("real", "ours"):
        programs = _programs(tmp_path, kind)
        command = [str(programs / "nats-server"), container["args"][0], str(file), "-t"]
        environment = _environment(container, programs)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=30)
        assert done.returncode == 0, (kind, done.stderr)


def _until(what: str, happened: Any) -> None:
    end = time.monotonic() + WAIT_S
    while not happened():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def _answers(port: int, path: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_a_pod_lives_as_the_chart_wants(tmp_path: Path) -> None:
    client_port, monitor_port = free_port(), free_port()
    values = {
        "jetstream": {"enabled": True},
        "nats": {"port": client_port},
        "monitor": {"port": monitor_port},
        "merge": {"max_payload": 500_000},
    }
    # The image has a user of its own, to whom the volume has to belong: docs/operations.md.
    group = {"merge": {"spec": {"securityContext": {"fsGroup": 10001}}}}
    pod, config = _rendered(values, tmp_path, podTemplate=group)
    assert pod["securityContext"] == {"fsGroup": 10001}
    container = _container(pod, "nats")
    file = Path(_mounted(container["args"][1], tmp_path))
    file.write_text(_mounted(config, tmp_path))
    programs = _programs(tmp_path, "ours")
    environment = _environment(container, programs)
    log = tmp_path / "log"
    with log.open("wb") as written:
        server = subprocess.Popen(
            [str(programs / "nats-server"), container["args"][0], str(file)], env=environment, stderr=written
        )
    try:
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            path = container[probe]["httpGet"]["path"]
            _until(f"{probe}: {path}", lambda path=path: _answers(monitor_port, path))
        with urllib.request.urlopen(f"http://127.0.0.1:{monitor_port}/varz", timeout=5) as answer:
            shown = json.load(answer)
        assert (shown["server_name"], shown["max_payload"]) == ("test-nats-0", 500_000)
        assert shown["jetstream"]["config"]["max_storage"] == 10 << 30

        # The reloader watches the file and signals the process that the PID file names.
        reloader = _container(pod, "reloader")["args"]
        pid_file = Path(_mounted(reloader[reloader.index("-pid") + 1], tmp_path))
        assert int(pid_file.read_text()) == server.pid
        file.write_text(file.read_text().replace("500000", "600000"))
        os.kill(int(pid_file.read_text()), signal.SIGHUP)
        _until("a reload", lambda: b"Reloaded server configuration" in log.read_bytes())

        stop = [_mounted(word, tmp_path) for word in container["lifecycle"]["preStop"]["exec"]["command"]]
        ended = subprocess.run(stop, env=environment, capture_output=True, text=True, check=False, timeout=30)
        assert ended.returncode == 0, ended.stderr
        assert server.wait(pod["terminationGracePeriodSeconds"]) == 0
        assert b"Entering lame duck mode" in log.read_bytes()
    finally:
        server.kill()
        server.wait()
