"""What a user may not receive does not come from another server either: over a route, from a leaf, from a hub."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.ports import free_port
from support.raw_client import RawClient
from support.server_process import ServerProcess
from support.servers import server_binary

USERS = """
authorization { users: [
  { user: p, password: p }
  { user: l, password: l, permissions: { publish: "none", subscribe: { allow: ">", deny: ["s.* q", "t.>"] } } }
] }
"""


class Client(RawClient):
    """Somebody at one of the servers."""

    def __init__(self, server: ServerProcess, user: str) -> None:
        super().__init__(server.port)
        self.send(b'CONNECT {"verbose":false,"user":"%b","pass":"%b"}\r\n' % (user.encode(), user.encode()))
        self.sync()

    def sync(self) -> bytes:
        """What came until the server has seen everything."""
        self.send(b"PING\r\n")
        return self.read_until(rb"PONG\r\n")

    def publish(self, *subjects: str) -> None:
        for subject in subjects:
            self.send(b"PUB %b 0\r\n\r\n" % subject.encode())
        self.sync()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ServerProcess]]:
    """Two servers of a cluster, and a leaf of the first."""
    route, leaf = free_port(), free_port()
    configs = {
        "first": f"cluster {{ name: C, listen: 127.0.0.1:{route} }}\nleafnodes {{ listen: 127.0.0.1:{leaf} }}\n",
        "second": f'cluster {{ name: C, listen: 127.0.0.1:{free_port()}, routes: ["nats://127.0.0.1:{route}"] }}\n',
        "leaf": f'leafnodes {{ remotes: [{{ url: "nats://p:p@127.0.0.1:{leaf}" }}] }}\n',
    }
    with ExitStack() as stack:
        started = {}
        for name, config in configs.items():
            directory: Path = tmp_path_factory.mktemp(name)
            server = ServerProcess(server_binary("ours"), directory, config=f"server_name: {name}\n{USERS}{config}")
            started[name] = stack.enter_context(server)
        yield started


@pytest.mark.parametrize("where", ["first", "second", "leaf"])
@pytest.mark.parametrize("whence", ["first", "second", "leaf"])
def test_denied_subjects_do_not_come_over_links(servers: dict[str, ServerProcess], where: str, whence: str) -> None:
    """S5: also a deny for a queue group alone, which a wildcard of a member covers."""
    with Client(servers[where], "l") as limited, Client(servers[whence], "p") as publisher:
        refused = []
        for line in (b"SUB > q 1", b"SUB > 2", b"SUB s.* q 3", b"SUB s.* r 4", b"SUB t.a 5", b"SUB t.* q 6"):
            limited.send(line + b"\r\n")
            if b"-ERR 'Permissions Violation" in limited.sync():
                refused.append(line)
        assert refused == [b"SUB s.* q 3", b"SUB t.a 5", b"SUB t.* q 6"]
        came = b""
        while b"MSG ready" not in came:  # interest has to reach the other server first
            publisher.publish("ready")
            came += limited.sync()
        publisher.publish("s.a", "t.a", "u.a", "end")
        heard = limited.read_until(rb"MSG end 2 [^\n]*\n") + limited.sync()
        lines = sorted(line for line in heard.split(b"\r\n") if line.startswith((b"MSG s", b"MSG t", b"MSG u")))
        assert lines == [b"MSG s.a 2 0", b"MSG s.a 4 0", b"MSG u.a 1 0", b"MSG u.a 2 0"]
