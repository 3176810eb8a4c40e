"""What notebooks show: the facts, small, and nothing that a browser would run."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser

from slipstream.sync import JetStream
from slipstream.testing import ServerThread

pytest_plugins = ["slipstream.testing.fixtures"]
EVIL = '<script>alert(1)</script>"><img src=x onerror=alert(1)>'
ALLOWED = {"table", "caption", "thead", "tbody", "tr", "th", "td", "p"}


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)
        self.attributes |= {f"{name}={value}" for name, value in attrs}

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def _shown(value: object) -> str:
    """The texts of a display, which has harmless tags only."""
    text = value._repr_html_()  # type: ignore[attr-defined]
    tags = _Tags()
    tags.feed(text)
    assert tags.found <= ALLOWED
    assert tags.attributes <= {"style=text-align:left"}
    return " ".join(tags.texts)


def test_servers(nats_server: ServerThread) -> None:
    assert nats_server.url in _shown(nats_server)
    assert "running" in _shown(nats_server.server)
    with ServerThread(server_name=EVIL) as evil:
        assert EVIL in _shown(evil)
    assert "not running" in _shown(evil)


def test_a_server_says_where_it_is(nats_server: ServerThread) -> None:
    assert repr(nats_server) == f"<ServerThread {nats_server.url}>"
    assert repr(ServerThread()) == "<ServerThread, not running>"


def test_streams_and_their_table(jetstream: JetStream) -> None:
    jetstream.create_stream("ORDERS", subjects=["orders.>"], description=EVIL)
    jetstream.create_stream("ODD", subjects=[f"odd.{EVIL.replace(' ', '')}"])
    jetstream.publish("orders.us", b"x")
    one = _shown(jetstream.stream("ORDERS"))
    assert "orders.>" in one and EVIL in one and "1 at 2" in one
    whole = _shown(jetstream)
    assert "ORDERS" in whole and EVIL.replace(" ", "") in whole


def test_long_lists_are_cut_and_say_so(jetstream: JetStream) -> None:
    for number in range(60):
        jetstream.create_stream(f"S{number}", subjects=[f"s{number}"], storage="memory")
    assert "50 of 60 are shown." in _shown(jetstream)


def test_buckets_and_objects(jetstream: JetStream) -> None:
    bucket = jetstream.create_kv("config")
    bucket.put("a", EVIL.encode())
    bucket.put("b", b"\xff" * 1000)
    bucket.put("c", b"gone")
    bucket.delete("c")
    shown = _shown(bucket)
    assert EVIL in shown and "gone" not in shown and len(shown) < 1000
    store = jetstream.create_objects("files")
    store.put(EVIL, b"12345", description=EVIL)
    assert shown and EVIL in _shown(store)


def test_what_is_not_there_is_said(jetstream: JetStream) -> None:
    assert "stream not found" in html.unescape(re.sub("<.*?>", "", jetstream.stream("NO")._repr_html_()))
    assert "not found" in _shown_text(jetstream.kv("NO")._repr_html_())


def _shown_text(text: str) -> str:
    tags = _Tags()
    tags.feed(text)
    return " ".join(tags.texts)
