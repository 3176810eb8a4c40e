"""Where the command line connects and as whom: flags before environment before context before defaults.

Pure: the flags, the environment and the context come in as mappings. Fields are those of the contexts of `nats`.
Secrets are not in `repr`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from slipstream.cli.human import parse_duration
from slipstream.units import SECOND_NS

__all__ = ["CONTEXT_NAMES", "ENVIRONMENT", "Settings", "resolve"]

DEFAULT_URL: Final = "nats://127.0.0.1:4222"
_TIMEOUT_NS: Final = 5 * SECOND_NS

# Field to environment variable.
ENVIRONMENT: Final = {
    "server": "NATS_URL",
    "user": "NATS_USER",
    "password": "NATS_PASSWORD",
    "token": "NATS_TOKEN",
    "creds": "NATS_CREDS",
    "nkey": "NATS_NKEY",
    "jwt": "NATS_JWT",
    "seed": "NATS_SEED",
    "tlscert": "NATS_CERT",
    "tlskey": "NATS_KEY",
    "tlsca": "NATS_CA",
    "timeout": "NATS_TIMEOUT",
    "colors": "NATS_COLOR",
    "context": "NATS_CONTEXT",
}

# Field to its name in a context file, where that differs.
CONTEXT_NAMES: Final = {
    "server": "url",
    "jwt": "user_jwt",
    "seed": "user_seed",
    "tlscert": "cert",
    "tlskey": "key",
    "tlsca": "ca",
    "tlsfirst": "tls_first",
    "js_domain": "jetstream_domain",
    "js_api_prefix": "jetstream_api_prefix",
    "js_event_prefix": "jetstream_event_prefix",
    "colors": "color_scheme",
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A connection as it was asked for."""

    server: str = DEFAULT_URL  # URLs, separated by commas
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    creds: str = ""  # file names from here on, or what a context allows instead of one
    nkey: str = ""
    jwt: str = ""
    seed: str = ""
    tlscert: str = ""
    tlskey: str = ""
    tlsca: str = ""
    tlsfirst: bool = False
    timeout_ns: int = _TIMEOUT_NS
    js_domain: str = ""
    js_api_prefix: str = ""
    js_event_prefix: str = ""
    inbox_prefix: str = ""
    connection_name: str = ""
    colors: str = ""
    trace: bool = False
    context: str = ""  # name of the context that was used

    @property
    def urls(self) -> list[str]:
        """The servers, in the order they are tried."""
        return [url.strip() for url in self.server.split(",") if url.strip()]

    @property
    def api_prefix(self) -> str:
        """What subjects of the JetStream API begin with."""
        if self.js_api_prefix:
            return self.js_api_prefix.rstrip(".")
        return f"$JS.{self.js_domain}.API" if self.js_domain else "$JS.API"

    @property
    def event_prefix(self) -> str:
        """What subjects of JetStream's advisories begin with."""
        return self.js_event_prefix.rstrip(".") or "$JS.EVENT"


def resolve(
    flags: Mapping[str, Any], environment: Mapping[str, str], context: Mapping[str, Any], context_name: str
) -> Settings:
    """Combine what was said.

    Raises:
        ValueError: a timeout in the environment is not a duration.
    """
    chosen: dict[str, Any] = {}
    for name in Settings.__dataclass_fields__:
        source = name.removesuffix("_ns")
        value = flags.get(source)
        if value is None:
            value = environment.get(ENVIRONMENT.get(source, ""), "")
        if not value and value is not False:
            value = context.get(CONTEXT_NAMES.get(source, source))
        if value not in (None, ""):
            chosen[name] = value
    timeout = chosen.get("timeout_ns")
    if isinstance(timeout, str):
        chosen["timeout_ns"] = parse_duration(timeout)
    chosen["context"] = context_name
    return Settings(**chosen)
