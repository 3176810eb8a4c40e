"""What a read or a write is about, and how to get there: streams, buckets or an object store; servers and credentials.

Nothing here holds a secret: credentials are names of files and of environment variables, read where they are used.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from slipstream.bulk.options import ConnectOptions
from slipstream.spark.runtime.errors import OptionError
from slipstream.spark.runtime.values import Values

__all__ = ["CONNECT_OPTIONS", "TARGET_OPTIONS", "Kind", "Reach", "Target", "read_reach", "read_target"]

Kind = Literal["stream", "bucket", "object"]
Reach = ConnectOptions  # of a source, a sink or a job: how to reach its server
CONNECT_OPTIONS = [
    "servers",
    "credsFile",
    "nkeyFile",
    "user",
    "passwordEnv",
    "tokenEnv",
    "tlsCa",
    "tlsCert",
    "tlsKey",
    "domain",
    "apiPrefix",
    "connectTimeout",
]
TARGET_OPTIONS = ["stream", "streams", "bucket", "objectStore"]
_NAME = re.compile(r"[^\s.*>/\\]+")
_PATTERN = re.compile(r"[^\s.>/\\]+")
_BUCKET = re.compile(r"[-_A-Za-z0-9]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Target:
    """Streams by the names users know; `*` in a name is a pattern."""

    kind: Kind
    names: tuple[str, ...]

    @property
    def has_patterns(self) -> bool:
        """Whether the streams have to be looked up."""
        return any("*" in name for name in self.names)

    @property
    def stream_names(self) -> tuple[str, ...]:
        """Names, or patterns, of the streams behind."""
        prefix = {"stream": "", "bucket": "KV_", "object": "OBJ_"}[self.kind]
        return tuple(prefix + name for name in self.names)

    @property
    def one(self) -> str:
        """The stream, where there is exactly one."""
        assert len(self.names) == 1
        return self.stream_names[0]


def read_reach(values: Values) -> Reach:
    """How to reach the server.

    Raises:
        OptionError: credentials in clear, a variable that is not set, options that exclude each other.
    """
    servers = values.text("servers", ConnectOptions.servers)
    for url in servers.split(","):
        if urlsplit(url.strip() if "://" in url else f"nats://{url.strip()}").username is not None:
            raise OptionError("servers", "credentials in a URL show in query plans; use 'user' and 'passwordEnv'")
    ways = [name for name in ("credsFile", "nkeyFile", "tokenEnv", "user") if values.has(name)]
    if len(ways) > 1:
        raise OptionError(ways[1], f"cannot be combined with {ways[0]!r}")
    if values.has("user") != values.has("passwordEnv"):
        raise OptionError("user", "goes together with 'passwordEnv', the name of a variable that holds the password")
    if values.has("tlsCert") != values.has("tlsKey"):
        raise OptionError("tlsCert", "goes together with 'tlsKey'")
    if values.has("domain") and values.has("apiPrefix"):
        raise OptionError("domain", "cannot be combined with 'apiPrefix'")
    for name in ("passwordEnv", "tokenEnv"):
        _check_variable(values, name)
    timeout_ns = values.duration_ns("connectTimeout", ConnectOptions().timeout_ns)
    assert timeout_ns is not None
    return Reach(
        servers=servers,
        creds_file=values.text("credsFile") or None,
        nkey_file=values.text("nkeyFile") or None,
        user=values.text("user") or None,
        password_env=values.text("passwordEnv") or None,
        token_env=values.text("tokenEnv") or None,
        tls_ca=values.text("tlsCa") or None,
        tls_cert=values.text("tlsCert") or None,
        tls_key=values.text("tlsKey") or None,
        domain=values.text("domain") or None,
        api_prefix=values.text("apiPrefix") or None,
        timeout=timeout_ns / 1e9,
    )


def read_target(values: Values, *, several: bool) -> Target:
    """What is read or written.

    Args:
        values: the options.
        several: whether more than one stream, or a pattern, makes sense.

    Raises:
        OptionError: none or more than one of the options, or not a name.
    """
    given = [name for name in TARGET_OPTIONS if values.has(name)]
    if len(given) != 1:
        if given:
            raise OptionError(given[1], f"cannot be combined with {given[0]!r}")
        hint = (
            "; Spark does not hand on the options of catalogue tables, use CREATE TEMPORARY VIEW … USING slipstream "
            "OPTIONS (…)"
        )
        text = "one of 'stream', 'streams', 'bucket', 'objectStore' is needed"
        raise OptionError("stream", text + ("" if values.any else hint))
    option = given[0]
    names = values.words(option)
    kind: Kind = "bucket" if option == "bucket" else "object" if option == "objectStore" else "stream"
    rule = _BUCKET if kind != "stream" else _PATTERN if several else _NAME
    for name in names:
        if not rule.fullmatch(name):
            raise OptionError(option, f"{name!r} is not a name" + (" or a pattern with *" if rule is _PATTERN else ""))
    if len(names) > 1 and (not several or kind == "object" or option == "stream"):
        raise OptionError(option, "takes one name" + ("; use 'streams' for several" if option == "stream" else ""))
    return Target(kind, names)


def _check_variable(values: Values, option: str) -> None:
    name = values.text(option)
    if not name:
        return
    if not _VARIABLE.fullmatch(name):
        raise OptionError(option, "takes the name of an environment variable, not the secret itself")
    if name not in os.environ:
        raise OptionError(
            option,
            f"the environment variable {name} is not set where Spark runs: set it before Spark starts (what a program "
            "puts into os.environ later does not get there), and on a cluster also for its executors",
        )
