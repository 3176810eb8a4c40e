"""Exports beyond the plain ones: latency samples, token positions, narrow imports, chains of accounts, tracing."""

from __future__ import annotations

import re

from support.normalise import Json, shape
from support.requests import next_event, note_json
from support.servers import Both
from support.transcript import Peer, Script, Talk, each, hpub, in_any_order, pub

CONFIG = """
server_name: one
accounts {
  FIRST {
    users: [ { user: first, password: p } ]
    exports: [
      { service: "timed", latency: { sampling: 100%, subject: "latency.timed" } }
      { service: "headed", latency: { sampling: headers, subject: "latency.headed" } }
      { service: "impatient", response_type: singleton, response_threshold: "50ms",
        latency: { sampling: 100%, subject: "latency.impatient" } }
      { service: "wide.>" }
      { stream: "wide.>" }
      { service: "traced", allow_trace: true }
      { service: "untraced" }
    ]
  }
  SECOND {
    users: [ { user: second, password: p } ]
    imports: [
      { service: { account: FIRST, subject: "timed" } }
      { service: { account: FIRST, subject: "headed" } }
      { service: { account: FIRST, subject: "impatient" } }
      { service: { account: FIRST, subject: "wide.a.b" }, to: "narrow" }
      { service: { account: FIRST, subject: "wide.*.*" }, to: "swap.$2.$1" }
      { stream: { account: FIRST, subject: "wide.x.>" }, to: "here.>" }
      { service: { account: FIRST, subject: "traced" } }
      { service: { account: FIRST, subject: "untraced" } }
    ]
    exports: [ { service: "swap.*.*" }, { stream: "here.>" } ]
  }
  THIRD {
    users: [ { user: third, password: p } ]
    imports: [
      { service: { account: SECOND, subject: "swap.*.*" }, to: "again.$1.$2" }
      { stream: { account: SECOND, subject: "here.>" }, prefix: "third" }
    ]
  }
}
"""


def join(talk: Talk, user: str, /, **options: Json) -> Peer:
    """A peer connected as a user of the configuration."""
    return talk.connect(user, user=user, **{"pass": "p"}, **options)


def reply_of(request: bytes) -> str:
    """The reply subject of the only request in these bytes."""
    match = re.search(rb"H?MSG \S+ \S+ (\S+) \d", request)
    assert match, request
    return match[1].decode()


def sample(service: str, header: bytes = b"", answers: int = 1) -> Script:
    """A script that asks a timed service and compares the latency sample."""

    def run(talk: Talk) -> None:
        first, second = join(talk, "first", name="service"), join(talk, "second", name="asker")
        first.send(f"SUB {service} 1\r\nSUB latency.> 9\r\n".encode()).sync()
        question = hpub(service, header, b"?", "in") if header else pub(service, b"?", "in")
        second.send(b"SUB in 1\r\n" + question).sync()
        reply = reply_of(first.sync())
        first.received.clear()
        for _ in range(answers):
            first.send(pub(reply, b"!"))
        note_json(talk, service, shape(next_event(first)[1]))
        first.sync()  # the sample leaves before the answer does
        second.sync()

    run.__name__ = f"latency of {service} {header.decode().strip()} with {answers} answers"
    return run


def headed_service_is_sampled_by_request_only(talk: Talk) -> None:
    first, second = join(talk, "first"), join(talk, "second")
    first.send(b"SUB headed 1\r\nSUB latency.> 9\r\n").sync()
    second.send(b"SUB in 1\r\n" + pub("headed", b"?", "in")).sync()
    reply = reply_of(first.sync())
    first.send(pub(reply, b"!")).sync()
    first.sync()
    talk.note(b"latency.headed" in first.received)
    first.received.clear()
    second.sync()


def narrow_import_of_a_wide_export(talk: Talk) -> None:
    first, second = join(talk, "first"), join(talk, "second")
    first.send(b"SUB wide.> 1\r\n").sync()
    second.send(pub("narrow", b"1") + pub("swap.p.q", b"2") + pub("swap.p", b"3") + pub("wide.a.b", b"4")).sync()
    first.sync()
    talk.must_show(rb"wide.q.p 1")


def narrow_stream_of_a_wide_export(talk: Talk) -> None:
    first, second = join(talk, "first"), join(talk, "second")
    second.send(b"SUB here.> 1\r\nSUB wide.> 2\r\n").sync()
    first.send(pub("wide.x.1", b"a") + pub("wide.y.1", b"b") + pub("wide.x", b"c") + pub("wide.x.1.2", b"d")).sync()
    second.sync()
    talk.must_show(rb"MSG here.1 1")


def chain_of_services(talk: Talk) -> None:
    first, third = join(talk, "first"), join(talk, "third")
    first.send(b"SUB wide.> 1\r\n").sync()
    third.send(b"SUB in 1\r\n" + pub("again.p.q", b"?", "in")).sync()
    first.send(pub(reply_of(first.sync()), b"!")).sync()
    third.sync()
    talk.must_show(rb"MSG in 1 1\r\n!")


def chain_of_streams(talk: Talk) -> None:
    first, third = join(talk, "first"), join(talk, "third")
    third.send(b"SUB third.> 1\r\nSUB here.> 2\r\n").sync()
    first.send(pub("wide.x.1", b"a") + pub("here.2", b"b")).sync()
    third.sync()


def chain_of_services_without_responder(talk: Talk) -> None:
    third = join(talk, "third")
    third.send(b"SUB in 1\r\n" + pub("again.p.q", b"?", "in")).sync()
    third.sync()


def trace_across_an_import(service: str) -> Script:
    """A script that traces a request into another account, which may or may not allow it."""

    def run(talk: Talk) -> None:
        first, second = join(talk, "first", name="service"), join(talk, "second", name="asker")
        first.send(f"SUB {service} 1\r\n".encode()).sync()
        second.send(b"SUB trace 9\r\n" + hpub(service, b"Nats-Trace-Dest: trace\r\n", b"?"))
        event = next_event(second)[1]
        assert isinstance(event, dict)
        entries = event["events"]
        assert isinstance(entries, list)
        for entry in entries:
            note_json(talk, "event", {k: v for k, v in entry.items() if k not in ("ts", "cid")})  # type: ignore[union-attr]
        first.sync()

    run.__name__ = f"trace into {service}"
    return run


SCRIPTS: list[Script] = [
    sample("timed"),
    sample("timed", answers=2),
    sample("headed", b"X-B3-Sampled: 1\r\n"),
    sample("headed", b"Uber-Trace-Id: 1:2:3:1\r\n"),
    headed_service_is_sampled_by_request_only,
    in_any_order(narrow_import_of_a_wide_export),
    narrow_stream_of_a_wide_export,
    chain_of_services,
    chain_of_streams,
    chain_of_services_without_responder,
    trace_across_an_import("traced"),
    trace_across_an_import("untraced"),
]


@each(SCRIPTS)
def test_exports(both: Both, script: Script) -> None:
    both(CONFIG).agree(script)
