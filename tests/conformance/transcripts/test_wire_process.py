"""The server as a process: log lines, signals, lame duck, reload, files it writes, starts that fail."""

from __future__ import annotations

import json
import re
import signal

from support.normalise import shape
from support.raw_client import RawClient
from support.server_process import ServerProcess
from support.servers import Both
from support.transcript import Script, Talk, each, pub

LAME_DUCK = 'lame_duck_duration: "30s"\nlame_duck_grace_period: "100ms"\n'


def log_of(server: ServerProcess) -> list[str]:
    """Log lines without process id, time, version and ids; the parts that name one implementation are left out."""
    lines = [re.sub(r"^\[\d+\] \d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6} ", "", line) for line in server.log_lines]
    kept = [line for line in lines if not re.match(r"\[INF\] (  (Version|Git|Name|ID|Node):|Starting )", line)]
    kept = [re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:<port>", line) for line in kept]
    return [re.sub(r"/\S*/server\.conf", "<dir>/server.conf", line) for line in kept]


def lame_duck(talk: Talk) -> None:
    told = [talk.connect(name) for name in ("a", "b")]
    old = talk.connect("old", protocol=0)
    talk.server.lame_duck()
    told[0].until(rb'INFO [^\n]*"ldm":true[^\n]*\r\n')
    try:
        RawClient(talk.server.port).close()
        talk.note("accepted a connection")
    except ConnectionRefusedError:
        talk.note("refused a connection")
    told[0].send(b"SUB foo 1\r\n" + pub("foo", b"still here")).sync()
    for peer in (*told, old):
        peer.until_closed()
    talk.note(talk.server.wait_for_exit())
    talk.note("\n".join(log_of(talk.server)))


def stopped_by(number: signal.Signals) -> Script:
    """A script that ends the server by a signal."""

    def run(talk: Talk) -> None:
        peer = talk.connect()
        talk.server.send_signal(number)
        peer.until_closed()
        talk.note(talk.server.wait_for_exit())
        talk.note("\n".join(log_of(talk.server)))

    run.__name__ = f"stopped by {number.name}"
    return run


def test_lame_duck(both: Both) -> None:
    both.fresh(LAME_DUCK).agree(lame_duck)


@each([stopped_by(signal.SIGTERM), stopped_by(signal.SIGINT)])
def test_stop(both: Both, script: Script) -> None:
    both.fresh("server_name: one").agree(script)


def users(**permissions: str) -> str:
    """A configuration with these users; each value is the inside of a user record."""
    records = "".join(f"    {{ user: {name}, {inside} }}\n" for name, inside in permissions.items())
    return f"authorization {{\n  users: [\n{records}  ]\n}}\n"


BEFORE = users(
    stays='password: p, permissions: { subscribe: ["a.>", "b"], publish: ">" }',
    leaves="password: p",
    changes="password: p",
)
AFTER = users(
    stays='password: p, permissions: { subscribe: ["a.>"], publish: { deny: "c" } }',
    changes="password: q",
    comes="password: p",
)


def reload_of_users(talk: Talk) -> None:
    stays = talk.connect("stays", user="stays", **{"pass": "p"})
    stays.send(b"SUB a.x 1\r\nSUB b 2\r\nSUB b q 3\r\n" + pub("c")).sync()
    leaves = talk.connect("leaves", user="leaves", **{"pass": "p"})
    changes = talk.connect("changes", user="changes", **{"pass": "p"})
    talk.server.reload(AFTER)
    leaves.until_closed()
    changes.until_closed()
    stays.send(pub("a.x", b"1") + pub("b", b"2") + pub("c", b"3")).sync()
    talk.connect("comes", user="comes", **{"pass": "p"})
    talk.connect("changed", user="changes", **{"pass": "q"})
    talk.connect("gone", user="leaves", **{"pass": "p"})
    talk.any_order = True
    stays.received[:] = b"\r\n".join(sorted(bytes(stays.received).split(b"\r\n")))


def reload_of_limits(talk: Talk) -> None:
    peer = talk.connect()
    talk.server.reload("max_payload: 10\n")
    peer.sync()
    talk.connect("late").send(pub("a", b"x" * 11)).until_closed()
    peer.send(pub("a", b"x" * 11)).sync()


def reload_of_what_needs_a_restart(talk: Talk) -> None:
    peer = talk.connect()
    position = len(talk.server.log_lines)
    talk.server.reload("max_payload: 100\nserver_name: other\n")
    talk.note(talk.server.wait_for_log("reload", after=position).partition("]")[2].partition("] ")[2])
    peer.sync()


def reload_that_fails(talk: Talk) -> None:
    peer = talk.connect()
    position = len(talk.server.log_lines)
    talk.server.reload("max_payload: nonsense\n")
    talk.note(any("[ERR]" in line and "Failed to reload" in line for line in talk.server.log_lines[position:]))
    peer.sync()


def test_reload_of_users(both: Both) -> None:
    both.fresh(BEFORE).agree(reload_of_users)


def test_reload_of_limits(both: Both) -> None:
    both.fresh("max_payload: 100").agree(reload_of_limits)


def test_reload_of_what_needs_a_restart(both: Both) -> None:
    both.fresh("max_payload: 100").agree(reload_of_what_needs_a_restart)


def test_reload_that_fails(both: Both) -> None:
    both.fresh("max_payload: 100").agree(reload_that_fails)


def files(talk: Talk) -> None:
    directory = talk.server.directory
    talk.note((directory / "pid").read_text().strip() == str(talk.server.pid))
    ports = list(directory.glob("*.ports"))
    talk.note([path.name == f"{talk.server.binary.name}_{talk.server.pid}.ports" for path in ports])
    talk.note(json.dumps(shape(json.loads(ports[0].read_text())), sort_keys=True))
    talk.server.stop()
    talk.note((directory / "pid").exists())
    talk.note(list(directory.glob("*.ports")))


def test_pid_and_ports_file(both: Both) -> None:
    cluster = 'cluster { name: c, listen: "127.0.0.1:-1" }'
    both.fresh(f'ports_file_dir: "."\npid_file: "./pid"\n{cluster}\n', "-m", "-1").agree(files)
