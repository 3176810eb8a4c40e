"""Object stores of others as child processes; `tools/object_stores.py` builds them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

from support.ports import free_port

BUCKET: Final = "tables"
KEY, SECRET = "slipstreamtests", "slipstreamsecret"
S3_NAMES: Final = ("minio", "versitygw", "rclone")
NAMES: Final = (*S3_NAMES, "azurite", "fake-gcs-server")
_ACCOUNT: Final = "slipstreamtests"
_ACCOUNT_KEY: Final = base64.b64encode(SECRET.encode() * 2).decode()


def program(name: str) -> Path | None:
    """Where a server is; None if nobody has built it."""
    found = Path(os.environ.get("SLIPSTREAM_OBJECT_STORES", "/nowhere"), name)
    return found if found.exists() else None


class RealStore:
    """One of them, with a bucket in a directory."""

    def __init__(self, name: str, directory: Path) -> None:
        path = program(name)
        assert path is not None
        self.name = name
        self.port = free_port()
        self._directory = directory
        self._login: dict[str, str] = {}
        self._command = [str(path), *self._arguments(f"127.0.0.1:{self.port}")]
        self.start()
        if name == "azurite":
            self._make_container()

    def _arguments(self, address: str) -> list[str]:
        directory = self._directory
        if self.name == "azurite":
            self._login = {"AZURITE_ACCOUNTS": f"{_ACCOUNT}:{_ACCOUNT_KEY}"}
            host, _, port = address.partition(":")
            where = ["--blobHost", host, "--blobPort", port, "--location", str(directory)]
            return [*where, "--silent", "--skipApiVersionCheck", "--disableTelemetry"]
        (directory / BUCKET).mkdir()
        if self.name == "minio":
            self._login = {"MINIO_ROOT_USER": KEY, "MINIO_ROOT_PASSWORD": SECRET, "MINIO_BROWSER": "off"}
            return ["server", str(directory), "--address", address, "--quiet"]
        if self.name == "versitygw":
            # Tags and the like are kept beside the files where the file system has no attributes for them.
            (directory.parent / "about").mkdir()
            self._login = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
            return ["--port", address, "posix", "--sidecar", str(directory.parent / "about"), str(directory)]
        if self.name == "rclone":
            return ["serve", "s3", str(directory), "--addr", address, "--auth-key", f"{KEY},{SECRET}"]
        host, _, port = address.partition(":")
        about = ["-scheme", "http", "-host", host, "-port", port, "-public-host", host, "-log-level", "error"]
        return [*about, "-backend", "filesystem", "-filesystem-root", str(directory)]

    def environment(self, port: int = 0) -> dict[str, str]:
        """Variables by which everybody finds it, straight or through a proxy at a port."""
        url = f"http://127.0.0.1:{port or self.port}"
        if self.name == "azurite":
            return {
                "AZURE_STORAGE_ACCOUNT_NAME": _ACCOUNT,
                "AZURE_STORAGE_ACCOUNT_KEY": _ACCOUNT_KEY,
                "AZURE_STORAGE_USE_EMULATOR": "true",
                "AZURITE_BLOB_STORAGE_URL": url,
                "AZURE_ALLOW_HTTP": "true",
                "PYICEBERG_CATALOG__SLIPSTREAM__ADLS__ACCOUNT_KEY": _ACCOUNT_KEY,
            }
        if self.name == "fake-gcs-server":
            about = {"gcs_base_url": url, "disable_oauth": True}
            nobody = {"client_email": "", "private_key": "", "private_key_id": ""}
            return {
                "GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps({**about, **nobody}),
                "GOOGLE_ALLOW_HTTP": "true",
                "PYICEBERG_CATALOG__SLIPSTREAM__GCS__OAUTH2__TOKEN": SECRET,
                "PYICEBERG_CATALOG__SLIPSTREAM__GCS__OAUTH2__TOKEN_EXPIRES_AT": "4102444800000",
            }
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_EC2_METADATA_DISABLED": "true",
            # Simple servers do not know uploads whose length comes with the pieces, as checksums at the end need them.
            "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
            "AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required",
        }

    @property
    def secrets(self) -> tuple[str, ...]:
        """What nobody may see."""
        return (SECRET, _ACCOUNT_KEY)

    def place(self, path: str) -> str:
        """A prefix of the bucket."""
        scheme = {"azurite": "az", "fake-gcs-server": "gs"}.get(self.name, "s3")
        return f"{scheme}://{BUCKET}/{path}"

    def iceberg_place(self, path: str) -> str:
        """The same for pyiceberg, which knows Azure by its long names alone."""
        if self.name == "azurite":
            return f"abfss://{BUCKET}@{_ACCOUNT}.dfs.core.windows.net/{path}"
        return self.place(path)

    def catalogue(self, port: int = 0) -> dict[str, str]:
        """Properties of pyiceberg that are no secrets."""
        address = f"127.0.0.1:{port or self.port}"
        if self.name == "azurite":
            return {
                "adls.account-name": _ACCOUNT,
                "adls.blob-storage-authority": address,
                "adls.blob-storage-scheme": "http",
                "adls.dfs-storage-authority": address,
                "adls.dfs-storage-scheme": "http",
            }
        if self.name == "fake-gcs-server":
            return {"gcs.service.host": f"http://{address}"}
        return {"s3.endpoint": f"http://{address}", "s3.region": "us-east-1"}

    def contents(self) -> Iterator[bytes]:
        """All that is in the bucket, in whatever form the store keeps it."""
        if self.name == "azurite":
            import obstore
            from obstore.store import from_url

            # What it keeps of removed objects beside the bucket, and for how long, is its own affair.
            store = from_url(f"az://{BUCKET}")
            for page in obstore.list(store):
                for one in page:
                    if not one["size"]:
                        continue  # what Arrow marks a directory with
                    yield bytes(obstore.get(store, one["path"]).bytes())
            return
        for path in (self._directory / BUCKET).rglob("*"):
            if path.is_file():
                yield path.read_bytes()

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
                build_opener(ProxyHandler({})).open(f"http://127.0.0.1:{self.port}", timeout=5).close()
                return
            except HTTPError:
                return  # it answers
            except (URLError, OSError):
                threading.Event().wait(0.1)
        raise AssertionError(f"{self.name} has ended with {self._process.returncode}")

    def kill(self) -> None:
        """Without a word; the one that writes down every few seconds what it was told gets the time for that."""
        with self._process:
            if self.name == "azurite":
                self._process.terminate()
            else:
                self._process.kill()

    def _make_container(self) -> None:
        """What a library of Azure's own would do; the rest is done by those that are tested."""
        date = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
        version = "2021-12-02"
        signed = f"x-ms-date:{date}\nx-ms-version:{version}\n/{_ACCOUNT}/{_ACCOUNT}/{BUCKET}\nrestype:container"
        text = "PUT" + "\n" * 12 + signed
        mark = hmac.digest(base64.b64decode(_ACCOUNT_KEY), text.encode(), hashlib.sha256)
        request = Request(
            f"http://127.0.0.1:{self.port}/{_ACCOUNT}/{BUCKET}?restype=container",
            method="PUT",
            headers={
                "x-ms-date": date,
                "x-ms-version": version,
                "Authorization": f"SharedKey {_ACCOUNT}:{base64.b64encode(mark).decode()}",
                "Content-Length": "0",
            },
        )
        build_opener(ProxyHandler({})).open(request, timeout=30).close()
