"""Where bulk clients connect and as whom, as a value that may travel: picklable, and without a secret in it.

Passwords and tokens are named by environment variables, keys and certificates by files; both are read where the
connection is made.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slipstream.bulk.errors import BulkError
from slipstream.client.credentials import read_credentials, read_seed
from slipstream.client.options import ClientError, WireOptions
from slipstream.client.wire import WireClient
from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    import ssl

__all__ = ["ConnectOptions", "open_wire"]


@dataclass(frozen=True)
class ConnectOptions:
    """How to reach a server. `servers` are URLs with commas between them, tried in order."""

    servers: str = "nats://127.0.0.1:4222"
    creds_file: str | None = None
    nkey_file: str | None = None
    user: str | None = None
    password_env: str | None = None
    token_env: str | None = None
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    domain: str | None = None
    api_prefix: str | None = None
    timeout: float = 10.0
    """Seconds: to connect, and for each answer."""

    @property
    def prefix(self) -> str:
        """What subjects of the JetStream API begin with, dot included."""
        if self.api_prefix:
            return self.api_prefix.rstrip(".") + "."
        return f"$JS.{self.domain}.API." if self.domain else "$JS.API."

    @property
    def timeout_ns(self) -> int:
        """The timeout in nanoseconds."""
        return int(self.timeout * SECOND_NS)


def open_wire(options: ConnectOptions) -> WireClient:
    """Connect to the first server that lets us in.

    Raises:
        BulkError: none does; what is wrong with the options themselves is not retryable.
    """
    wire_options = _wire_options(options)
    servers = [server.strip() for server in options.servers.split(",") if server.strip()]
    if not servers:
        raise BulkError("no server is named")
    failures: list[str] = []
    for server in servers:
        try:
            return WireClient(server, wire_options)
        except ClientError as error:
            failures.append(str(error))
    reasons = "; ".join(failures)
    raise BulkError(reasons if reasons.startswith("cannot connect") else f"cannot connect: {reasons}", retryable=True)


def _wire_options(options: ConnectOptions) -> WireOptions:
    if options.creds_file and options.nkey_file:
        raise BulkError("a credentials file and a seed file are both named; use one")
    try:
        key = None
        if options.creds_file:
            key = read_credentials(_text(options.creds_file))
        elif options.nkey_file:
            key = read_seed(_text(options.nkey_file))
    except ClientError as error:
        raise BulkError(str(error)) from error
    return WireOptions(
        user=options.user or "",
        password=_secret(options.password_env),
        token=_secret(options.token_env),
        nkey=key.public if key is not None else "",
        jwt=key.jwt if key is not None else "",
        sign=key.sign if key is not None else None,
        name="slipstream-bulk",
        tls=_tls(options),
        timeout_ns=options.timeout_ns,
    )


def _secret(variable: str | None) -> str:
    if not variable:
        return ""
    try:
        return os.environ[variable]
    except KeyError:
        raise BulkError(f"environment variable {variable} is not set") from None


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise BulkError(f"cannot read {path}: {error}") from error


def _tls(options: ConnectOptions) -> ssl.SSLContext | None:
    if not (options.tls_ca or options.tls_cert or options.tls_key):
        return None
    if options.tls_key and not options.tls_cert:
        raise BulkError("tls_key needs tls_cert")
    import ssl

    try:
        context = ssl.create_default_context(cafile=options.tls_ca)
        if options.tls_cert:
            context.load_cert_chain(options.tls_cert, options.tls_key)
    except OSError as error:  # ssl.SSLError is one
        raise BulkError(f"TLS files cannot be used: {error}") from error
    return context
