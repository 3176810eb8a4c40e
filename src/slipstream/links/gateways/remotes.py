"""Another cluster as this server knows it: its name, and where its servers listen for gateways."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from slipstream.links.gateways.addresses import short_hash

if TYPE_CHECKING:
    from slipstream.config.listener_options import RemoteGatewayOptions
    from slipstream.ids import RandomSource

__all__ = ["GatewayAddress", "RemoteCluster"]

_URLS_MAX: Final = 1_024  # that a peer may tell of for one cluster


class GatewayAddress(NamedTuple):
    """Where one server of another cluster listens, and the credentials that a URL had."""

    host: str
    port: int
    user: str = ""
    password: str = ""

    @property
    def shown(self) -> str:
        """`host:port`."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class RemoteCluster:
    """One other cluster, configured or heard of.

    Args:
        name: of the cluster.
        options: its entry in the configuration; None: somebody told of it (implicit).
    """

    def __init__(self, name: str, options: RemoteGatewayOptions | None = None) -> None:
        self.name = name
        self.hash = short_hash(name)
        self.is_configured = options is not None
        self.has_streams = True  # its servers take part in JetStream, as far as is known
        urls = () if options is None else options.urls
        self.configured = [address for address in map(_read, urls) if address is not None]
        self._addresses = {address.shown: address for address in self.configured}
        self._tls_name = ""  # that certificates have to show where an address is a number
        self._find_tls_name()

    def urls(self) -> list[str]:
        """`host:port` of all its servers that are known."""
        return list(self._addresses)

    def addresses(self) -> list[GatewayAddress]:
        """The same, as they are dialled."""
        return list(self._addresses.values())

    def shuffled(self, rng: RandomSource) -> list[GatewayAddress]:
        """All addresses, in the order in which they are tried this time."""
        found = list(self._addresses.values())
        rng.shuffle(found)
        return found

    def add(self, urls: list[str] | None) -> None:
        """Somebody told of servers of the cluster."""
        for url in (urls or [])[:_URLS_MAX]:
            address = _read(url)
            if address is not None and len(self._addresses) < _URLS_MAX:
                self._addresses.setdefault(address.shown, address)
        self._find_tls_name()

    def update(self, urls: list[str]) -> None:
        """The cluster itself told of its servers: what it told before holds no longer."""
        self._addresses = {address.shown: address for address in self.configured}
        self.add(urls)

    def tls_name(self, address: GatewayAddress) -> str:
        """The name that the certificate of a server has to show: its own, or where it has none that of another."""
        return (_is_number(address.host) and self._tls_name) or address.host

    def tls_failed(self, address: GatewayAddress) -> None:
        """A handshake failed: perhaps certificates have addresses and no names."""
        if _is_number(address.host):
            self._tls_name = ""

    def _find_tls_name(self) -> None:
        if not self._tls_name:
            names = (address.host for address in self._addresses.values() if not _is_number(address.host))
            self._tls_name = next(names, "")


def _read(url: str) -> GatewayAddress | None:
    try:
        parts = urlsplit(url if "://" in url else f"nats://{url}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if not host or not port:
        return None
    return GatewayAddress(host, port, unquote(parts.username or ""), unquote(parts.password or ""))


def _is_number(host: str) -> bool:
    return ":" in host or host.replace(".", "").isdigit()
