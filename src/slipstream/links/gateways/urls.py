"""Where the servers of this cluster are reached by other clusters."""

from __future__ import annotations

__all__ = ["ClusterUrls"]


class ClusterUrls:
    """URLs, each with the ids of the servers that have it: two may be behind one address."""

    def __init__(self) -> None:
        self._owners: dict[str, set[str]] = {}

    def all(self) -> list[str]:
        """All of them."""
        return list(self._owners)

    def add(self, url: str, server_id: str) -> bool:
        """A server has a URL; whether it is a new one."""
        is_new = url not in self._owners
        self._owners.setdefault(url, set()).add(server_id)
        return is_new

    def drop(self, server_id: str) -> bool:
        """A server is gone; whether a URL is gone with it."""
        for url, owners in self._owners.items():
            if server_id in owners:
                owners.discard(server_id)
                if owners:
                    return False
                del self._owners[url]
                return True
        return False
