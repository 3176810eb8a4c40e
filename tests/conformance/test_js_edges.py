"""The edges of the JetStream API: unknown subjects, domains, the system account, queue limits, reloads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from support.jetstream_oracle import Oracle, normalised
from support.server_process import ServerProcess
from support.servers import ServerPool

CONFIG = """
jetstream {{ store_dir: "{directory}", domain: hub, {jetstream} }}
accounts {{
  A {{ jetstream: {account}, users: [{{ user: a, password: a }}] }}
  N {{ users: [{{ user: n, password: n }}] }}
  $SYS {{ users: [{{ user: s, password: s }}] }}
}}
"""
SILENT = "silent"


class User(Oracle):
    """A client that has logged in, and knows when there is no answer."""

    def __init__(self, port: int, user: str) -> None:
        super().__init__(port, f'"user":"{user}","pass":"{user}"')

    def ask(self, subject: str, body: bytes = b"{}") -> Any:
        """The answer; `SILENT` if there is none even after two calls that were made behind it are answered."""
        self._socket.sendall(b"PUB %b _INBOX.asked %d\r\n%b\r\n" % (subject.encode(), len(body), body))
        found: Any = SILENT
        for _ in range(2):
            self._socket.sendall(b"PUB $JS.API.INFO _INBOX.end 0\r\n\r\n")
            while True:
                arrived, answer = self._next_message()
                if arrived == b"_INBOX.end":
                    break
                found = _shown(answer)
        return found


def _shown(answer: tuple[bytes | None, bytes]) -> Any:
    text, body = normalised(answer)
    if isinstance(body, dict):
        with suppress(KeyError):
            body["api"]["level"] = "LEVEL"
    return text, body


class Pair:
    """Both servers with one configuration."""

    def __init__(self, pool: ServerPool, factory: pytest.TempPathFactory, **settings: str) -> None:
        self.settings = settings
        self.directories = [str(factory.mktemp(kind)) for kind in ("real", "ours")]
        self.servers: list[ServerProcess] = [
            pool.prepared(kind, self.config(at), ()).start() for at, kind in enumerate(("real", "ours"))
        ]
        self.clients: dict[str, list[User]] = {}

    def config(self, at: int, **settings: str) -> str:
        chosen = {"jetstream": "", "account": "enabled", **self.settings, **settings}
        return CONFIG.format(directory=self.directories[at], **chosen)

    def agree(self, user: str, subject: str, body: bytes = b"{}") -> Any:
        if user not in self.clients:
            self.clients[user] = [User(server.port, user) for server in self.servers]
        real, ours = (client.ask(subject, body) for client in self.clients[user])
        assert ours == real, f"{user}: {subject} {body[:200]!r}"
        return real

    def answer(self, user: str, subject: str, body: bytes = b"{}") -> Any:
        """The common answer to a call that has one, however long it takes."""
        if user not in self.clients:
            self.clients[user] = [User(server.port, user) for server in self.servers]
        real, ours = (_shown(client.request(subject, body, None, 1)[0]) for client in self.clients[user])
        assert ours == real, f"{user}: {subject} {body[:200]!r}"
        return real

    def reload(self, **settings: str) -> list[str]:
        """Both read their file again; what the first line about it says after the time."""
        lines = []
        for at, server in enumerate(self.servers):
            position = len(server.log_lines)
            server.reload(self.config(at, **settings))
            line = server.wait_for_log("Reloaded server configuration|Failed to reload", after=position)
            lines.append(re.sub(r"^.*\[[A-Z]{3}\] |: old=.*| \(sha256.*", "", line))
        assert lines[0] == lines[1]
        return lines

    def close(self) -> None:
        for clients in self.clients.values():
            for client in clients:
                client.close()
        for server in self.servers:
            server.end()


@pytest.fixture(scope="module")
def pair(server_pool: ServerPool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    both = Pair(server_pool, tmp_path_factory)
    yield both
    both.close()


SUBJECTS = [
    "a.b",
    "a.b.c",
    "x",
    "INFO",
    "INFO.x",
    "STREAM",
    "STREAM.FOO",
    "STREAM.INFO",
    "STREAM.INFO.a.b",
    "STREAM.NAMES",
    "STREAM.NAMES.x",
    "STREAM.CREATE",
    "STREAM.CREATE.X",
    "STREAM.MSG.GET",
    "STREAM.MSG.FOO.x",
    "CONSUMER",
    "CONSUMER.X",
    "CONSUMER.X.y",
    "CONSUMER.INFO",
    "CONSUMER.INFO.x",
    "CONSUMER.MSG.NEXT",
    "CONSUMER.MSG.NEXT.S",
    "CONSUMER.MSG.NEXT.S.C",
    "CONSUMER.MSG.NEXT.S.C.D",
    "CONSUMER.MSG.FOO",
    "CONSUMER.NAMES",
    "CONSUMER.NAMES.X",
    "CONSUMER.MSG.NEXTX.S.C",
    "DIRECT",
    "DIRECT.GET",
    "DIRECT.GET.S",
    "DIRECT.GET.S.x",
    "DIRECT.FOO",
    "META",
    "META.x",
    "META.LEADER.STEPDOWN",
    "SERVER.REMOVE",
    "ACCOUNT.PURGE",
    "ACCOUNT.PURGE.NONE",
    "ACCOUNT.x",
    "TEMPLATE.x",
    "STREAM.TEMPLATE.NAMES",
    "$KV.x",
]


@pytest.mark.parametrize("prefix", ["$JS.API.", "$JS.hub.API.", "$JS.other.API."])
@pytest.mark.parametrize("user", ["a", "n", "s"])
def test_every_kind_of_subject(pair: Pair, user: str, prefix: str) -> None:
    for subject in SUBJECTS:
        pair.agree(user, prefix + subject)


def test_streams_by_domain(pair: Pair) -> None:
    pair.answer("a", "$JS.hub.API.STREAM.CREATE.D", b'{"name":"D","subjects":["d"],"allow_direct":true}')
    pair.answer("a", "d", b"stored")
    pair.answer("a", "$JS.hub.API.DIRECT.GET.D", b'{"seq":1}')
    pair.answer("a", "$JS.hub.API.DIRECT.GET.D.d", b"")
    pair.answer("a", "$JS.hub.API.STREAM.INFO.D", b"")
    pair.answer("a", "$JS.hub.API.STREAM.DELETE.D", b"")


def test_the_system_account_clears_an_account(pair: Pair) -> None:
    for name in ("P1", "P2"):
        pair.answer("a", f"$JS.API.STREAM.CREATE.{name}", json.dumps({"name": name}).encode())
    pair.answer("s", "$JS.API.ACCOUNT.PURGE.A")
    pair.answer("a", "$JS.API.STREAM.NAMES")
    pair.answer("a", "$JS.API.STREAM.CREATE.P1", b'{"name":"P1"}')
    pair.answer("a", "P1", b"goes on")
    pair.answer("a", "$JS.API.STREAM.DELETE.P1", b"")


def test_reloads(server_pool: ServerPool, tmp_path_factory: pytest.TempPathFactory) -> None:
    both = Pair(server_pool, tmp_path_factory, jetstream="max_mem: 1GB, max_file: 2GB")
    try:
        both.answer("a", "$JS.API.STREAM.CREATE.A", b'{"name":"A"}')
        both.answer("a", "A", b"one")
        # Limits of the account.
        both.reload(account="{ max_streams: 1, max_file: 1000 }")
        both.answer("a", "$JS.API.INFO", b"")
        both.answer("a", "$JS.API.STREAM.CREATE.B", b'{"name":"B"}')
        both.answer("a", "A", b"x" * 2000)
        both.reload()
        both.answer("a", "A", b"x" * 2000)
        # Limits of the server may grow.
        settings = [
            "max_mem: 2GB, max_file: 3GB",
            "max_mem: 1GB, max_file: 3GB",
            "max_file: 3GB",
            "max_mem: 2GB, max_file: 3GB, sync_interval: 10s",
            "max_mem: 2GB, max_file: 3GB, request_queue_limit: 5",
            "max_mem: 2GB, max_file: 3GB, strict: false",
        ]
        for setting in settings:
            both.reload(jetstream=setting)
        both.answer("a", "$JS.API.STREAM.CREATE.M", b'{"name":"M","storage":"memory","max_bytes":1800000000}')
        # An account may lose JetStream and get it back; its streams wait on disk.
        both.settings["jetstream"] = settings[0]
        both.reload(account="disabled")
        both.answer("a", "$JS.API.INFO", b"")
        both.answer("a", "A", b"nobody")
        both.reload()
        both.answer("a", "$JS.API.STREAM.INFO.A", b'{"deleted_details":true}')
        both.answer("a", "A", b"three")
    finally:
        both.close()


def test_jetstream_is_switched_off_and_on(server_pool: ServerPool, tmp_path_factory: pytest.TempPathFactory) -> None:
    """API calls meanwhile are not compared: here nobody responds, and with nats-server nobody says so."""
    seen = []
    for kind in ("real", "ours"):
        on = f'jetstream {{ store_dir: "{tmp_path_factory.mktemp(kind)}", max_mem: 1GB, max_file: 1GB }}\n'
        with server_pool.prepared(kind, on, ()) as server:
            client = Oracle(server.port)
            answers = []
            for config, calls in (
                (on, ["$JS.API.STREAM.CREATE.S", "S"]),
                ("max_payload: 1MB\n", ["S"]),
                (on, ["$JS.API.STREAM.INFO.S", "S", "$JS.API.STREAM.NAMES"]),
            ):
                if config != on or answers:
                    server.reload(config)
                for call in calls:
                    body = b'{"name":"S"}' if "CREATE" in call else b""
                    answers.append((call, _shown(client.request(call, body, None, 1)[0])))
            seen.append(answers)
            client.close()
    assert seen[0] == seen[1]


LAX = [
    ("STREAM.CREATE.S", b'{"name":"S","unknown":1}'),
    ("STREAM.CREATE.T", b'{"name":"T"} x'),
    ("STREAM.CREATE.T", b'{"name":"T",}'),
    ("STREAM.CREATE.T", b'{"name":"T"'),
    ("STREAM.CREATE.U", b'{"name":"U"}{"name":"U","subjects":["u.*"]}'),
    ("STREAM.CREATE.V", b'{"name":"V","max_msgs":"x"}'),
    ("STREAM.CREATE.W", b'{"name":"W","consumer_limits":{"z":1},"subject_transform":{"src":"W","dest":"w","z":1}}'),
    ("STREAM.UPDATE.S", b'{"name":"S","zz":{"a":[1]}}'),
    ("STREAM.INFO.S", b'{"zz":1}'),
    ("STREAM.NAMES", b'{"zz":1}'),
    ("STREAM.LIST", b'{"zz":1} {'),
    ("STREAM.PURGE.S", b'{"zz":1}'),
    ("STREAM.MSG.GET.S", b'{"seq":1,"zz":1}'),
    ("STREAM.MSG.DELETE.S", b'{"seq":1,"zz":1}'),
    ("STREAM.DELETE.S", b'{"zz":1}'),
]


def test_unknown_names_are_passed_over_when_strict_is_off(
    server_pool: ServerPool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    both = Pair(server_pool, tmp_path_factory, jetstream="strict: false")
    try:
        for subject, body in LAX:
            both.answer("a", f"$JS.API.{subject}", body)
        both.answer("a", "$JS.API.STREAM.NAMES", b"")
        # An answer may be here before the line in the log: the last one is waited for.
        both.answer("a", "$JS.API.STREAM.INFO.LAST", b'{"zz":1}')
        for server in both.servers:
            server.wait_for_log(r"Invalid JetStream request .*STREAM\.INFO\.LAST")
        complaints = [
            [line.split("Invalid JetStream request ")[1] for line in server.log_lines if "Invalid JetStream" in line]
            for server in both.servers
        ]
        assert complaints[0] == complaints[1] != []
    finally:
        both.close()


LIMITED = [
    "{ max_mem: 1000, max_file: 2000 }",
    "{ max_streams: 2, max_consumers: 1, max_ack_pending: 5 }",
    "{ max_bytes_required: true, mem_max_stream_bytes: 500, disk_max_stream_bytes: 800 }",
    "{ max_mem: 0, max_file: 0 }",
    "{ max_mem: -1, max_file: 3000, max_bytes_required: true }",
]


@pytest.mark.parametrize("limits", LIMITED)
def test_limits_of_accounts(server_pool: ServerPool, tmp_path_factory: pytest.TempPathFactory, limits: str) -> None:
    both = Pair(server_pool, tmp_path_factory, account=limits, jetstream="max_mem: 1MB, max_file: 1MB")
    try:
        for storage in ("memory", "file"):
            for number, max_bytes in enumerate((-1, 0, 300, 600, 900, 1500, 2_000_000)):
                name = f"{storage}{number}"
                config = {"name": name, "storage": storage, "max_bytes": max_bytes, "max_consumers": number - 1}
                both.answer("a", f"$JS.API.STREAM.CREATE.{name}", json.dumps(config).encode())
            both.answer("a", "$JS.API.INFO", b"")
        names = both.answer("a", "$JS.API.STREAM.NAMES", b"")[1]["streams"] or []
        for name in names:
            for _ in range(4):
                both.answer("a", name, b"x" * 250)
            for count, pending in enumerate((0, 3, 9)):
                consumer = {"durable_name": f"C{count}", "ack_policy": "explicit", "max_ack_pending": pending}
                body = json.dumps({"stream_name": name, "config": consumer}).encode()
                both.answer("a", f"$JS.API.CONSUMER.DURABLE.CREATE.{name}.C{count}", body)
            for max_bytes in (100, 700, 1_800):
                storage = name[:-1]
                config = {"name": name, "storage": storage, "max_bytes": max_bytes}
                both.answer("a", f"$JS.API.STREAM.UPDATE.{name}", json.dumps(config).encode())
        both.answer("a", "$JS.API.INFO", b"")
    finally:
        both.close()
