"""The blocks `ocsp` and `ocsp_cache`: read and checked as nats-server does, whatever the server makes of them."""

from __future__ import annotations

from typing import Final

from slipstream.config.checker import Checker, Key, KeyTable, go_type, read_map, refusal
from slipstream.config.listener_options import OCSPCacheOptions, OCSPOptions
from slipstream.config.parser import Value
from slipstream.config.readers import BOOLEAN, STRING, duration, strict_text_list, text

__all__ = ["OCSP", "OCSP_CACHE", "ocsp", "ocsp_cache"]


def _ocsp_mode(checker: Checker, value: Value, key: str) -> str:
    mode = text(checker, value, key).lower()
    if mode not in ("always", "must", "never", "auto"):
        raise refusal(value, "error parsing ocsp config: unsupported ocsp mode string")
    return mode


def _ocsp_url(checker: Checker, value: Value, key: str) -> tuple[str, ...]:
    return (text(checker, value, key),)


OCSP: Final = KeyTable(
    Key("mode", ("`auto`, `always`, `must` or `never`", _ocsp_mode), "When to staple."),
    Key("url", ("URL", _ocsp_url), "Responder to ask.", field="urls"),
    Key("urls", ("list of URLs", strict_text_list("ocsp config")), "Responders to ask."),
    unknown="error parsing ocsp config: unsupported field string",
)


def ocsp(checker: Checker, value: Value, _key: str) -> OCSPOptions:
    """Whether to staple, or how."""
    if isinstance(value.data, bool):
        return OCSPOptions("auto" if value.data else "never")
    if not isinstance(value.data, dict):
        raise refusal(value, f"error parsing ocsp config: unsupported type {go_type(value)}")
    return OCSPOptions(**read_map(checker, value, OCSP))  # type: ignore[arg-type]  # the table names its fields


def _cache_type(checker: Checker, value: Value, key: str) -> str:
    kind = text(checker, value, key).lower()
    if kind not in ("local", "none"):
        raise refusal(value, f"error parsing ocsp cache config, unknown cache type [{kind}]")
    return kind


OCSP_CACHE: Final = KeyTable(
    Key("type", ("`local` or `none`", _cache_type), "Where answers are kept."),
    Key("local_store", STRING, "Directory of a local cache."),
    Key("preserve_revoked", BOOLEAN, "Keep answers that revoke a certificate."),
    Key("save_interval", ("duration", duration(seconds_warn=False)), "Time between saves.", field="save_interval_ns"),
    unknown="error parsing ocsp cache config, unknown field [{}]",
)


def ocsp_cache(checker: Checker, value: Value, _key: str) -> OCSPCacheOptions:
    """Whether answers are kept, or how."""
    if isinstance(value.data, bool):
        return OCSPCacheOptions("local" if value.data else "none")
    if not isinstance(value.data, dict):
        raise refusal(value, f"error parsing tags: unsupported type {go_type(value)}")
    return OCSPCacheOptions(**read_map(checker, value, OCSP_CACHE))  # type: ignore[arg-type]
