"""Certificates for tests: an authority, servers, clients, written as PEM files. Made by trustme, never checked in."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import trustme


@dataclass(frozen=True)
class Pair:
    """A certificate with its key, in one file each."""

    cert_file: Path
    key_file: Path

    @property
    def block(self) -> str:
        """The two lines of a `tls` block."""
        return f'cert_file: "{self.cert_file}", key_file: "{self.key_file}"'


class Authority:
    """A certificate authority and the files of what it issued."""

    def __init__(self, directory: Path, name: str = "ca") -> None:
        self.directory = directory
        self.name = name
        self.ca = trustme.CA(organization_name=name)
        self.ca_file = directory / f"{name}.pem"
        self.ca.cert_pem.write_to_path(str(self.ca_file))

    def issue(self, *identities: str, name: str = "server", **options: str) -> Pair:
        """A certificate for host names, addresses or e-mails; options are those of trustme, `common_name` and so on."""
        issued = self.ca.issue_cert(*identities, **options)
        pair = Pair(self.directory / f"{self.name}-{name}.crt", self.directory / f"{self.name}-{name}.key")
        pair.cert_file.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(str(pair.key_file))
        return pair

    def client_context(self, pair: Pair | None = None) -> ssl.SSLContext:
        """What a client uses that trusts this authority, and shows a certificate if it has one."""
        context = ssl.create_default_context(cafile=str(self.ca_file))
        if pair is not None:
            context.load_cert_chain(pair.cert_file, pair.key_file)
        return context
