"""A server that this one connects to as a leaf node: its URLs, those it told of, and when it is tried again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from slipstream.config.keys.remote import is_websocket, remote_name

if TYPE_CHECKING:
    from slipstream.config.listener_options import LeafRemoteOptions
    from slipstream.ids import RandomSource

__all__ = ["LeafAddress", "LeafRemote"]

LEAF_PORT = 7422  # where a URL names none
_PORTS = {"ws": 80, "wss": 443}
_WEBSOCKET_PATH = "/leafnode"


class LeafAddress(NamedTuple):
    """One URL, taken apart. A user without a password is a token."""

    host: str
    port: int
    user: str = ""
    password: str | None = None
    path: str = ""  # of a WebSocket

    @property
    def shown(self) -> str:
        """`host:port`, as logs have it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class LeafRemote:
    """One entry of `leafnodes.remotes` at work."""

    def __init__(self, options: LeafRemoteOptions, rng: RandomSource) -> None:
        self.options = options
        self._configured = [_address(urlsplit(url)) for url in options.urls]
        if not options.no_randomize:
            rng.shuffle(self._configured)
        self._addresses = list(self._configured)
        self._next = 0
        self.current = self._addresses[0]
        self.delay_ns = 0  # before the next attempt, when the last one ended in a way that time may heal
        self.is_websocket = is_websocket(options.urls[0])
        # One of a WebSocket comes before anything else, so INFO cannot ask for it, and a `tls` block alone does.
        self.wants_tls = options.tls is not None or any(url.startswith(("tls://", "wss://")) for url in options.urls)
        self.removed = False  # by a reload

    @property
    def name(self) -> tuple[object, ...]:
        """What makes it this remote and no other, whatever else a reload changes."""
        return remote_name(self.options)

    def follow(self, options: LeafRemoteOptions) -> None:
        """The configuration says something else that the link that is there need not follow."""
        self.options = options

    @property
    def account(self) -> str:
        """The account of this server that is connected."""
        return self.options.account or "$G"

    @property
    def wanted(self) -> bool:
        """Whether it is still to be dialled."""
        return not (self.removed or self.options.disabled)

    def pick(self) -> LeafAddress:
        """The next address to try, in turn."""
        self.current = self._addresses[self._next % len(self._addresses)]
        self._next += 1
        return self.current

    def login(self) -> tuple[str, str | None]:
        """User and password of the address in use, or of the first that has some."""
        for address in (self.current, *self._configured):
            if address.user:
                return address.user, address.password
        return "", None

    def tls_name(self) -> str:
        """The name that a certificate has to show: that of the address in use, or of the first that is no number."""
        names = (self.current, *self._configured)
        return next((address.host for address in names if not _is_ip(address.host)), self.current.host)

    def learn(self, urls: list[str], websocket_urls: list[str]) -> None:
        """The remote told where its cluster listens: these are tried, too, before those that are configured."""
        if self.options.ignore_discovered_servers:
            return
        scheme = "nats-leaf"
        if self.is_websocket:
            urls, scheme = websocket_urls, "wss" if self.wants_tls else "ws"
        known = {(address.host, address.port) for address in self._configured}
        found: list[LeafAddress] = []
        for url in urls:
            try:
                address = _address(urlsplit(f"{scheme}://{url}"))
            except ValueError:
                continue
            if address.host and (address.host, address.port) not in known:
                found.append(address)
        self._addresses = found + self._configured
        self._next = 0


def _address(parts: SplitResult) -> LeafAddress:
    user = unquote(parts.username) if parts.username else ""
    password = None if parts.password is None else unquote(parts.password)
    path = f"{parts.path.rstrip('/')}{_WEBSOCKET_PATH}" if is_websocket(f"{parts.scheme}://") else ""
    return LeafAddress(parts.hostname or "", parts.port or _PORTS.get(parts.scheme, LEAF_PORT), user, password, path)


def _is_ip(host: str) -> bool:
    return ":" in host or host.replace(".", "").isdigit()
