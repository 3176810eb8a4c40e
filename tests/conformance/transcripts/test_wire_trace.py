"""Message tracing by header: what a traced message causes, and what it does not."""

from __future__ import annotations

import json

from support.normalise import Json, hide
from support.requests import next_event, note_json
from support.servers import Both
from support.transcript import Peer, Script, Talk, each, hpub, pub

CONFIG = """
server_name: one
accounts {
  A {
    users: [ { user: a, password: p } ]
    mappings { "map.old": "map.new" }
    exports: [ { service: "svc", allow_trace: true }, { stream: "str.>" } ]
  }
  B {
    users: [
      { user: b, password: p }
      { user: tight, password: p, permissions: { publish: ["x"], subscribe: ">" } }
    ]
    imports: [
      { service: { account: A, subject: "svc" } }
      { stream: { account: A, subject: "str.>" }, allow_trace: true }
    ]
  }
}
"""
VOLATILE = ("server", "ts", "cid")


def join(talk: Talk, user: str, name: str = "", /, **options: Json) -> Peer:
    """A peer connected as a user of the configuration."""
    return talk.connect(name or user, user=user, **{"pass": "p"}, **options)


def traced(subject: str, only: bool = False, user: str = "a") -> Script:
    """A script that publishes a traced message to one subscriber and compares the trace event."""

    def run(talk: Talk) -> None:
        reader, writer = join(talk, user, "reader", name="reader"), join(talk, user, "writer", name="writer")
        reader.send(f"SUB {subject.replace('old', 'new')} 1\r\nSUB x.q q 2\r\n".encode()).sync()
        header = b"Nats-Trace-Dest: trace\r\n" + (b"Nats-Trace-Only: true\r\n" if only else b"")
        writer.send(b"SUB trace 9\r\n" + hpub(subject, header, b"hello"))
        note_trace(talk, next_event(writer)[1])
        reader.sync()

    run.__name__ = f"traced {subject}{' only' if only else ''}"
    return run


def note_trace(talk: Talk, event: Json) -> None:
    """Adds a trace event; the order of its egress entries is not defined."""
    form = hide(event, *VOLATILE)
    if isinstance(form, dict) and isinstance(form.get("events"), list):
        form["events"] = sorted(form["events"], key=lambda entry: json.dumps(entry, sort_keys=True))  # type: ignore[arg-type]
    note_json(talk, "trace", form)


def trace_without_interest(talk: Talk) -> None:
    writer = join(talk, "a", name="writer")
    writer.send(b"SUB trace 9\r\n" + hpub("nobody.home", b"Nats-Trace-Dest: trace\r\n", b"x"))
    note_trace(talk, next_event(writer)[1])


def trace_through_a_queue_group(talk: Talk) -> None:
    reader, writer = join(talk, "a", "reader", name="reader"), join(talk, "a", "writer", name="writer")
    reader.send(b"SUB tq q 1\r\nSUB tq 2\r\n").sync()
    writer.send(b"SUB trace 9\r\n" + hpub("tq", b"Nats-Trace-Dest: trace\r\n", b"x"))
    note_trace(talk, next_event(writer)[1])
    talk.any_order = True
    reader.sync()


def trace_destination_needs_the_right_to_publish(talk: Talk) -> None:
    writer = join(talk, "tight", name="writer")
    writer.send(b"SUB x 1\r\nSUB trace 9\r\n" + hpub("x", b"Nats-Trace-Dest: trace\r\n", b"y")).sync()
    writer.sync()


def empty_destination_traces_nothing(talk: Talk) -> None:
    writer = join(talk, "a")
    writer.send(b"SUB x 1\r\n" + hpub("x", b"Nats-Trace-Dest: \r\n", b"y") + pub("x", b"z")).sync()
    writer.sync()


SCRIPTS: list[Script] = [
    traced("x.one"),
    traced("x.two", only=True),
    traced("map.old"),
    trace_without_interest,
    trace_through_a_queue_group,
    trace_destination_needs_the_right_to_publish,
    empty_destination_traces_nothing,
]


@each(SCRIPTS)
def test_message_trace(both: Both, script: Script) -> None:
    both(CONFIG).agree(script)
