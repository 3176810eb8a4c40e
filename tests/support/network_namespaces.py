"""Servers in network namespaces of their own, so that what is between two of them can be cut, and nothing else is.

    namespace n0 ─┐
    namespace n1 ─┼─ bridge, with the clients
    namespace n2 ─┘

A cut is a route to nowhere on both sides: packets vanish, connections stay and hear nothing. It needs root and `ip`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from itertools import combinations, count

__all__ = ["NetworkNamespaces", "can_have_namespaces"]

_NUMBERS = count()


def can_have_namespaces() -> bool:
    """Whether this machine lets us make namespaces."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"try{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return made


class NetworkNamespaces:
    """So many namespaces on one bridge."""

    def __init__(self, count: int) -> None:
        # What is removed is gone a moment later: names and addresses are not used again.
        number = next(_NUMBERS)
        self._tag = f"s{os.getpid() % 100_000}x{number}"
        self._net = f"10.{77 + number % 100}.{os.getpid() % 250}"
        self.count = count
        self._cut: set[tuple[int, int]] = set()

    def __enter__(self) -> NetworkNamespaces:
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _make(self) -> None:
        self._ip("link", "add", f"{self._tag}b", "type", "bridge")
        self._ip("addr", "add", f"{self._net}.254/24", "dev", f"{self._tag}b")
        self._ip("link", "set", f"{self._tag}b", "up")
        for namespace in range(self.count):
            name, outside = self._name(namespace), f"{self._tag}v{namespace}"
            self._ip("netns", "add", name)
            self._ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", name)
            self._ip("link", "set", outside, "master", f"{self._tag}b", "up")
            self._inside(namespace, "addr", "add", f"{self.address(namespace)}/24", "dev", "eth0")
            self._inside(namespace, "link", "set", "eth0", "up")
            self._inside(namespace, "link", "set", "lo", "up")

    def __exit__(self, *_exc: object) -> None:
        for namespace in range(self.count):
            subprocess.run(["ip", "netns", "del", self._name(namespace)], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", f"{self._tag}b"], capture_output=True, check=False)

    def address(self, namespace: int) -> str:
        """Where the server of a namespace is found."""
        return f"{self._net}.{namespace + 1}"

    def command(self, namespace: int, *words: str) -> list[str]:
        """A command line that runs in a namespace."""
        return ["ip", "netns", "exec", self._name(namespace), *words]

    def cut(self, one: int, other: int) -> None:
        """Let nothing pass between two namespaces."""
        pair = (min(one, other), max(one, other))
        if pair not in self._cut:
            self._cut.add(pair)
            for here, there in (pair, pair[::-1]):
                self._inside(here, "route", "add", "blackhole", f"{self.address(there)}/32")

    def split(self, side: set[int]) -> None:
        """Cut these namespaces off from all others."""
        for one, other in combinations(range(self.count), 2):
            if (one in side) != (other in side):
                self.cut(one, other)

    def heal(self) -> None:
        """Let everything pass again."""
        for pair in self._cut:
            for here, there in (pair, pair[::-1]):
                self._inside(here, "route", "del", "blackhole", f"{self.address(there)}/32")
        self._cut.clear()

    def _name(self, namespace: int) -> str:
        return f"{self._tag}n{namespace}"

    def _inside(self, namespace: int, *words: str) -> None:
        self._ip("-n", self._name(namespace), *words)

    def _ip(self, *words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)
