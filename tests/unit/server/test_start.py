"""What a start loads. Not how long it takes: machines are busy; what is not imported costs nothing on any of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

# Runs the program in this process, tells what is loaded when it says that it is ready, and ends.
PROBE = """
import json, os, sys
from slipstream.server.process.logs import FileLog
from slipstream.server.process.stand_ins import StandIn

def tell(self, level, text):
    if text == "Server is ready":
        loaded = [name for name, module in sys.modules.items() if not isinstance(module, StandIn)]
        os.write(1, json.dumps(loaded).encode())
        os._exit(0)

FileLog.__call__ = tell
from slipstream.server.main import main
main(sys.argv[1:])
"""
# Of the command line, of programs beside the server, and of features that this start does not use.
NEVER = (
    *("click", "rich", "nats", "pyarrow", "pyspark", "deltalake", "h11", "bcrypt", "nacl", "cffi"),
    *(
        "slipstream.cli",
        "slipstream.client",
        "slipstream.bulk",
        "slipstream.spark",
        "slipstream.testing",
        "slipstream.migrate",
    ),
    # What reads JSON and compares passwords comes with the first client, what reads certificates with TLS.
    *("msgspec", "typing_extensions", "uuid", "decimal", "hmac", "secrets", "hashlib"),
    *(
        "slipstream.protocol.info",
        "slipstream.auth.tls_map",
        "slipstream.subjects.transform",
        "slipstream.config.reload",
        "slipstream.links.presence",
        "slipstream.protocol.connection",
        "slipstream.routing.greetings",
        "slipstream.routing.trace",
        "slipstream.server.clients.listener",
        "slipstream.monitoring.endpoints.dashboard",
    ),
    *(
        "tempfile",
        "shutil",
        "zoneinfo",
        "ctypes",
        "argparse",
        "dataclasses",
        "logging.handlers",
        "importlib.util",
        "email",
        "http",
        "urllib",
        "random",
    ),
    # What asyncio and uvloop import and do not use.
    *("inspect", "ast", "dis", "locale", "textwrap", "tokenize"),
)


# What JetStream loads when something needs it: schedules, backups, checkpoints, large writes, directories of streams.
NEVER_WITH_JETSTREAM = (
    *("zoneinfo", "tarfile", "shutil", "tempfile", "lzma", "bz2", "urllib", "secrets", "hmac", "ctypes", "nacl"),
    *("slipstream.jetstream.backup", "slipstream.jetstream.api.restoring", "slipstream.replication"),
)


def _loaded(*arguments: str) -> set[str]:
    command = [sys.executable, "-c", PROBE, "-a", "127.0.0.1", "-p", "-1", *arguments]
    done = subprocess.run(command, capture_output=True, timeout=30, check=True)
    found = json.loads(done.stdout)
    assert isinstance(found, list)
    return set(found)


def _under(name: str, modules: set[str]) -> list[str]:
    return sorted(module for module in modules if module == name or module.startswith(f"{name}."))


@pytest.mark.parametrize("flags", [(), ("-js",)], ids=["plain", "jetstream"])
def test_nothing_heavy_is_loaded_before_the_server_is_ready(tmp_path: Path, flags: tuple[str, ...]) -> None:
    modules = _loaded(*flags, *(("-sd", str(tmp_path)) if flags else ()))
    assert "slipstream.server.server" in modules
    assert [name for name in NEVER if _under(name, modules)] == []
    assert _under("slipstream.jetstream", modules) == []


def test_streams_that_are_there_are_recovered_first(tmp_path: Path) -> None:
    (tmp_path / "jetstream" / "$G" / "streams" / ("0" * 32)).mkdir(parents=True)
    assert "slipstream.jetstream.account" in _loaded("-js", "-sd", str(tmp_path))


def test_jetstream_itself_loads_nothing_that_few_servers_need() -> None:
    loaded = "slipstream.server.server, slipstream.server.jetstream.jetstream"
    code = f"import sys, json, {loaded}; print(json.dumps([*sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True)
    modules = set(json.loads(done.stdout))
    assert "slipstream.jetstream.api.api" in modules
    assert [name for name in NEVER_WITH_JETSTREAM if _under(name, modules)] == []
