"""Where routes are dialled to: configured ones for ever, those of gossip for a while."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

__all__ = ["RouteTarget", "route_target"]


class RouteTarget:
    """One server to connect to, for the pool, for one account or for replicas."""

    __slots__ = ("account", "explicit", "gossip_mode", "host", "password", "port", "replicas_of", "url", "user")

    def __init__(
        self,
        url: str,
        *,
        explicit: bool,
        account: str = "",
        gossip_mode: int = 0,
        credentials: tuple[str, str] = ("", ""),
        replicas_of: str = "",
    ) -> None:
        parts = urlsplit(url if "://" in url else f"nats-route://{url}")
        self.url = url
        self.host = parts.hostname or ""
        self.port = parts.port or 0
        self.user = unquote(parts.username) if parts.username else credentials[0]
        self.password = unquote(parts.password) if parts.password else credentials[1]
        self.explicit = explicit
        self.account = account
        self.gossip_mode = gossip_mode
        self.replicas_of = replicas_of  # the server whose replicas it is for; empty: it carries messages

    @property
    def address(self) -> str:
        """`host:port` in lower case."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}".lower()

    def again(self, *, account: str | None = None) -> RouteTarget:
        """The same for one more connection."""
        return RouteTarget(
            self.url,
            explicit=self.explicit,
            account=self.account if account is None else account,
            gossip_mode=0,
            credentials=(self.user, self.password),
            replicas_of=self.replicas_of,
        )

    def for_replicas(self, name: str) -> RouteTarget:
        """The same server once more, for what replicas say."""
        credentials = self.user, self.password
        return RouteTarget(self.url, explicit=True, credentials=credentials, replicas_of=name)


def route_target(url: str, *, explicit: bool, **more: object) -> RouteTarget | None:
    """A target, or None for a URL that leads nowhere."""
    try:
        target = RouteTarget(url, explicit=explicit, **more)  # type: ignore[arg-type]
    except ValueError:
        return None
    return target if target.host and target.port else None
