"""S3 servers of others as child processes; `tools/s3_servers.py` builds them."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, build_opener

from support.ports import free_port

BUCKET = "tables"
KEY, SECRET = "slipstreamtests", "slipstreamsecret"
NAMES = ("minio", "versitygw", "rclone")


def program(name: str) -> Path | None:
    """Where a server is; None if nobody has built it."""
    found = Path(os.environ.get("SLIPSTREAM_S3_SERVERS", "/nowhere"), name)
    return found if found.exists() else None


class RealS3:
    """One of them, with a bucket in a directory."""

    def __init__(self, name: str, directory: Path) -> None:
        path = program(name)
        assert path is not None
        self.name = name
        (directory / BUCKET).mkdir()
        port = free_port()
        address = f"127.0.0.1:{port}"
        self.url = f"http://{address}"
        login: dict[str, str] = {}
        if name == "minio":
            command = ["server", str(directory), "--address", address, "--quiet"]
            login = {"MINIO_ROOT_USER": KEY, "MINIO_ROOT_PASSWORD": SECRET, "MINIO_BROWSER": "off"}
        elif name == "versitygw":
            # Tags and the like are kept beside the files where the file system has no attributes for them.
            (directory.parent / "about").mkdir()
            command = ["--port", address, "posix", "--sidecar", str(directory.parent / "about"), str(directory)]
            login = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
        else:
            command = ["serve", "s3", str(directory), "--addr", address, "--auth-key", f"{KEY},{SECRET}"]
        self._command, self._login = [str(path), *command], login
        self.environment = {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_EC2_METADATA_DISABLED": "true",
            # Simple servers do not know uploads whose length comes with the pieces, as checksums at the end need them.
            "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
            "AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required",
        }
        self.start()

    def start(self) -> None:
        """Begin, or begin again, and wait until it answers."""
        self._process = subprocess.Popen(
            self._command,
            env={**os.environ, **self._login},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while self._process.poll() is None:
            try:
                build_opener(ProxyHandler({})).open(self.url, timeout=5).close()
                return
            except HTTPError:
                return  # it answers
            except (URLError, OSError):
                threading.Event().wait(0.1)
        raise AssertionError(f"{self.name} has ended with {self._process.returncode}")

    def kill(self) -> None:
        """Without a word."""
        with self._process:
            self._process.kill()
