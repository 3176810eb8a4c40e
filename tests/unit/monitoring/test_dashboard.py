"""The dashboard's files over HTTP: which paths, types and headers, and nothing else."""

from __future__ import annotations

from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitoring.world import World
from slipstream.config.options import Options
from slipstream.monitoring.endpoints.dashboard import Dashboard
from slipstream.monitoring.endpoints.table import Endpoints
from slipstream.monitoring.exchange import Exchange, HttpRequest
from slipstream.monitoring.reply import Reply
from slipstream.monitoring.worker import finished

NAMES = sorted(entry.name for entry in (files("slipstream.monitoring") / "ui").iterdir())
WIRE_BYTES_MAX = 250 * 1024


def ask(path: str, known: str = "", **options: object) -> Reply:
    chosen = {"http_host": "127.0.0.1", "http_port": -1, **options}
    world = World(Options(server_name="unit", **chosen))  # type: ignore[arg-type]
    return finished(Endpoints(world.facts).reply(path, "", known))


def test_the_page() -> None:
    reply = ask("/ui/")
    assert (reply.status, reply.content_type) == (200, "text/html; charset=utf-8")
    assert b'<script type="module" src="app.js">' in reply.body
    assert reply.body == ask("/ui/index.html").body


@pytest.mark.parametrize("name", NAMES)
def test_every_file_is_served_with_its_type_and_policy(name: str) -> None:
    reply = ask(f"/ui/{name}")
    headers = dict(reply.headers)
    assert reply.status == 200
    kind = {"js": "text/javascript", "css": "text/css", "html": "text/html", "svg": "image/svg+xml"}[
        name.split(".")[-1]
    ]
    assert reply.content_type.partition(";")[0] == kind
    policy = headers["Content-Security-Policy"].split("; ")
    assert "default-src 'none'" in policy and "script-src 'self'" in policy and "connect-src 'self'" in policy
    assert "unsafe" not in headers["Content-Security-Policy"] and "http" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-cache"


def test_all_of_it_is_small() -> None:
    assert sum(len(ask(f"/ui/{name}").body) for name in NAMES) <= WIRE_BYTES_MAX


def test_nothing_is_loaded_from_elsewhere() -> None:
    for name in NAMES:
        text = ask(f"/ui/{name}").body.decode()
        for scheme in ("https://", "http://"):
            assert scheme not in text.replace("http://www.w3.org/2000/svg", ""), name
        assert "innerHTML" not in text and "insertAdjacentHTML" not in text and "eval(" not in text, name


def test_a_file_that_is_known_is_not_sent_again() -> None:
    etag = dict(ask("/ui/app.js").headers)["ETag"]
    for known in (etag, f"W/{etag}", f'"other", {etag}'):
        reply = ask("/ui/app.js", known)
        assert (reply.status, reply.body) == (304, b"")
        assert dict(reply.headers)["ETag"] == etag
    assert ask("/ui/app.js", '"other"').status == 200


def test_the_directory_is_where_names_are_relative_to() -> None:
    reply = ask("/ui")
    assert (reply.status, dict(reply.headers)["Location"]) == (307, "/ui/")
    reply = ask("/mon/ui", http_base_path="/mon")
    assert (reply.status, dict(reply.headers)["Location"]) == (307, "/mon/ui/")
    assert ask("/mon/ui/app.js", http_base_path="/mon").status == 200
    assert ask("/ui/app.js", http_base_path="/mon").status == 404


@pytest.mark.parametrize("path", ["/ui/../dashboard.py", "/ui//app.js", "/ui/./app.js", "/ui/../../config/load.py"])
def test_paths_that_climb_lead_to_plain_ones(path: str) -> None:
    assert ask(path).status == 307


@given(
    st.text(max_size=40) | st.sampled_from(["..", "../http.py", "..\\http.py", "app.js/", "app.js\0", "ui/app.js", "."])
)
def test_no_other_name_is_served(name: str) -> None:
    reply = Dashboard().reply(f"/ui/{name}", "", "")
    if name not in NAMES and name not in ("", "nats"):
        assert reply.status == 404
        assert "Content-Security-Policy" in dict(reply.headers)


def test_the_socket_has_to_be_asked_for_as_one() -> None:
    reply = ask("/ui/nats")
    assert (reply.status, dict(reply.headers)["Upgrade"]) == (426, "websocket")


@pytest.mark.parametrize(
    ("options", "served"),
    [
        ({"http_host": "127.0.0.1"}, True),
        ({"http_host": "localhost"}, True),
        ({"http_host": "::1"}, True),
        ({"http_host": "", "host": "127.0.0.1"}, True),
        ({"http_host": "", "host": "0.0.0.0"}, False),
        ({"http_host": "192.0.2.1"}, False),
        ({"http_host": "127.0.0.1.example.com"}, False),
        ({"http_host": "192.0.2.1", "dashboard": True}, True),
        ({"http_host": "127.0.0.1", "dashboard": False}, False),
    ],
)
def test_the_key_decides_and_loopback_if_it_is_not_set(options: dict[str, object], served: bool) -> None:
    assert (ask("/ui/", **options).status == 200) is served
    assert (b"Dashboard" in ask("/", **options).body) is served


def test_without_a_monitoring_port_there_is_none() -> None:
    assert not Options(host="127.0.0.1", dashboard=True).serves_dashboard


def test_a_head_request_has_the_headers_alone() -> None:
    exchange = Exchange(lambda: "now")
    exchange.receive(b"HEAD /ui/app.js HTTP/1.1\r\nHost: h\r\n\r\n")
    request = exchange.next_request()
    assert isinstance(request, HttpRequest)
    answer = exchange.answer(ask(request.path))
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n") and answer.endswith(b"\r\n\r\n")
    assert b"Content-Length: %d\r\n" % len(ask("/ui/app.js").body) in answer


def test_what_the_client_knows_and_wants_is_read() -> None:
    exchange = Exchange(lambda: "now")
    head = (
        b'GET /ui/nats HTTP/1.1\r\nHost: h\r\nUpgrade: WebSocket\r\nConnection: Upgrade\r\nIf-None-Match: "x"\r\n\r\n'
    )
    exchange.receive(head)
    request = exchange.next_request()
    assert isinstance(request, HttpRequest)
    assert request.known == '"x"'
    assert request.upgrade.lower() == head.lower()
