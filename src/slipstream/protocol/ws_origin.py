"""Which web pages may open a WebSocket: the `same_origin` and `allowed_origins` options.

A request without an Origin header does not come from a web page and is allowed, unless only pages are. An origin is
(scheme, host, port); a port that is not written is the one of the scheme.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from slipstream.errors import ConfigError, SlipstreamError

__all__ = ["OriginPolicy", "OriginRefused"]


class OriginRefused(SlipstreamError):
    """The page that asks is not allowed to; the text says why, for the log."""


@dataclass(frozen=True, slots=True)
class OriginPolicy:
    """What an Origin header has to be. The default allows everything."""

    same: bool = False
    allowed: frozenset[tuple[str, str, str]] = frozenset()  # scheme, host, port
    required: bool = False  # an Origin has to be there
    here: bool = False  # the page has to be at an address or `localhost`: any other name may be made to lead here

    @classmethod
    def from_options(cls, same_origin: bool, allowed_origins: Iterable[str]) -> OriginPolicy:
        """Read the options.

        Raises:
            ConfigError: an allowed origin is not an absolute http or https URL.
        """
        return cls(same_origin, frozenset(_allowed_origin(text) for text in allowed_origins))

    def check(self, origin: str, request_host: str, *, tls: bool) -> None:
        """Judge a request.

        Args:
            origin: the Origin header, empty when there was none.
            request_host: the Host header.
            tls: the request came over TLS.

        Raises:
            OriginRefused: it may not connect.
        """
        if not origin and self.required:
            raise OriginRefused("missing")
        if not origin or not (self.same or self.allowed):
            return
        try:
            page = _parse(origin)
            if self.same:
                scheme = "https" if tls else "http"
                if page != (scheme, *_host_and_port(scheme, request_host)):
                    raise OriginRefused("not same origin")
        except ValueError as error:
            raise OriginRefused(str(error)) from error
        if self.here and not _is_here(page[1]):
            raise OriginRefused("a name that is not of this machine")
        if self.allowed and page not in self.allowed:
            raise OriginRefused("not in the allowed list")


def _allowed_origin(text: str) -> tuple[str, str, str]:
    try:
        scheme, host, port = _parse(text)
    except ValueError as error:
        raise ConfigError(f"unable to parse allowed origin: {error}") from error
    if scheme not in ("http", "https"):
        raise ConfigError(
            f'unable to parse allowed origin "{text}": allowed origins must be absolute URLs with http or https scheme'
        )
    if not host:
        raise ConfigError(f'unable to parse allowed origin "{text}": host is required')
    return scheme, host, port


def _parse(origin: str) -> tuple[str, str, str]:
    """Scheme, host and port of a URL; scheme and host in lower case.

    Raises:
        ValueError: it is not an absolute URL.
    """
    parts = urlsplit(origin)
    if not parts.scheme and not origin.startswith("/"):
        raise ValueError(f'parse "{origin}": invalid URI for request')
    host, port = _host_and_port(parts.scheme, parts.netloc.rpartition("@")[2])
    return parts.scheme, host, port


def _is_here(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return True


def _host_and_port(scheme: str, netloc: str) -> tuple[str, str]:
    """Cut `host:port`, `host`, `[v6]:port` or `[v6]`.

    Raises:
        ValueError: there are too many colons, or brackets that do not match.
    """
    default = "443" if scheme == "https" else "80"
    if netloc.startswith("["):
        host, bracket, rest = netloc[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"address {netloc}: missing ']' in address")
        return host.lower(), rest[1:] if rest else default
    host, colon, port = netloc.partition(":")
    if ":" in port:
        raise ValueError(f"address {netloc}: too many colons in address")
    return host.lower(), port if colon else default
