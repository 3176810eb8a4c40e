"""Operator mode beside nats-server: logins with a signed token a second, and a start with many accounts in a directory.

    python -m benchmarks.tokens                       both, three rounds, 100,000 accounts
    python -m benchmarks.tokens --accounts 10000 --logins 2000 --rounds 1

A login is a connection, an answer to the nonce, CONNECT and PING up to the PONG; sixteen are under way at a time, from
four processes, so that no interpreter's lock is what is measured. The clients take as long as a server does, so the
processor time of the server for each login is printed beside the rate. A start is the time from exec to `Server is
ready`, and that of the first login after it. The medians are printed.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import statistics
import tempfile
from base64 import urlsafe_b64encode
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

import click

from benchmarks.compare import PROGRAMS
from benchmarks.servers import Server
from slipstream.auth.jwt.making import make_token
from slipstream.auth.nkeys import KeyKind
from slipstream.cli.auth.keyring import KeyPair

__all__ = ["main"]

_PROCESSES = 4
_AT_ONCE = 4  # of each
_ISSUED_AT = 1_700_000_000
_UNLIMITED = {
    "limits": {"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": True, "conn": -1}
}


class Tree:
    """An operator with a system account, and accounts of which the first has a user."""

    def __init__(self, accounts: int, directory: Path) -> None:
        """Make it, and the directory of a resolver with a token of each account."""
        self._operator = KeyPair.new(KeyKind.OPERATOR)
        system = KeyPair.new(KeyKind.ACCOUNT)
        claims = {"system_account": system.public, "type": "operator", "version": 2}
        self.operator = self._token(self._operator, self._operator, claims)
        self.system = (system.public, self._account(system))
        first = KeyPair.new(KeyKind.ACCOUNT)
        self._user = KeyPair.new(KeyKind.USER)
        limits = {"subs": -1, "data": -1, "payload": -1, "type": "user", "version": 2}
        self._user_token = self._token(first, self._user, limits)
        directory.mkdir()
        for number in range(accounts):
            account = KeyPair.new(KeyKind.ACCOUNT) if number else first
            (directory / f"{account.public}.jwt").write_text(self._account(account))

    def _account(self, key: KeyPair) -> str:
        return self._token(self._operator, key, {**_UNLIMITED, "type": "account", "version": 2})

    @staticmethod
    def _token(issuer: KeyPair, subject: KeyPair, nats: Mapping[str, Any]) -> str:
        claims = {"iat": _ISSUED_AT, "iss": issuer.public, "name": subject.public, "sub": subject.public, "nats": nats}
        return make_token(claims, issuer.sign)

    def log_in_often(self, address: tuple[str, int], logins: int) -> None:
        """So many times, several at once."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(self.log_in, [address] * logins))

    def log_in(self, address: tuple[str, int]) -> None:
        """Connect as the user, and leave."""
        with socket.create_connection(address) as link, link.makefile("rwb") as wire:
            nonce = json.loads(wire.readline()[5:])["nonce"]
            signature = urlsafe_b64encode(self._user.sign(nonce.encode())).rstrip(b"=").decode()
            options = {"jwt": self._user_token, "sig": signature, "verbose": False, "pedantic": False}
            wire.write(b"CONNECT %b\r\nPING\r\n" % json.dumps(options).encode())
            wire.flush()
            answer = wire.readline()
            assert answer == b"PONG\r\n", answer


@click.command()
@click.option("--rounds", default=3)
@click.option("--accounts", default=100_000)
@click.option("--logins", default=5_000)
def main(rounds: int, accounts: int, logins: int) -> None:
    """Print a table."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with tempfile.TemporaryDirectory() as text:
        directory = Path(text)
        tree = Tree(accounts, directory / "tokens")
        for _ in range(rounds):
            for name, binary in (("ours", PROGRAMS / "slipstream-server"), ("nats-server", PROGRAMS / "nats-server")):
                for measure, value in _measured(tree, binary, directory, logins).items():
                    found[measure][name].append(value)
    print("| | ours | nats-server | ours / nats-server |\n|---|---:|---:|---:|")
    for measure, values in found.items():
        ours, theirs = (statistics.median(values[name]) for name in ("ours", "nats-server"))
        print(f"| {measure} | {ours:,.2f} | {theirs:,.2f} | {ours / theirs:.2f} |")


def _measured(tree: Tree, binary: Path, directory: Path, logins: int) -> dict[str, float]:
    """One server, which gets the tokens as they were at first."""
    used = directory / "used"
    shutil.copytree(directory / "tokens", used, copy_function=os.link)  # nobody pushes a token: none is written
    config = directory / "server.conf"
    config.write_text(
        f"operator: {tree.operator}\n"
        f'resolver {{ type: full, dir: "{used}" }}\n'
        f"resolver_preload {{ {tree.system[0]}: {tree.system[1]} }}\n"
    )
    try:
        with Server(binary, directory, ("-c", str(config))) as server:
            parts = urlsplit(server.url)
            address = (parts.hostname or "", parts.port or 0)
            began = perf_counter()
            tree.log_in(address)
            first_s = perf_counter() - began
            before_ns, began = server.cpu_ns(), perf_counter()
            with ProcessPoolExecutor(_PROCESSES) as pool:
                list(pool.map(tree.log_in_often, [address] * _PROCESSES, [logins // _PROCESSES] * _PROCESSES))
            took_s, cpu_ns = perf_counter() - began, server.cpu_ns() - before_ns
            return {
                "start, s": server.start_ns / 1e9,
                "first login, ms": first_s * 1e3,
                "memory, MiB": server.resident_bytes() / 2**20,
                "logins a second": logins / took_s,
                "processor time of a login, µs": cpu_ns / logins / 1e3,
            }
    finally:
        shutil.rmtree(used)


if __name__ == "__main__":
    main()
