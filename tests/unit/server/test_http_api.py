"""The HTTP API of a whole server, asked by an ordinary HTTP client."""

from __future__ import annotations

import base64
import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection, IncompleteRead
from typing import Any, ClassVar

import pytest

from slipstream import connect
from slipstream.config.listener_options import HttpApiOptions
from slipstream.config.validate import problems
from slipstream.server.process.notices import notices
from slipstream.testing import ServerThread
from support.config_loading import options as load_text
from tlsfiles import Authority

USERS = """
port: -1
http_api {{ port: -1, {extra} }}
jetstream {{ store_dir: "{store}" }}
max_payload: 64KB
accounts {{
  A {{
    jetstream: enabled
    users: [
      {{user: all, password: a}}
      {{user: few, password: f, permissions: {{publish: ["ok.>"], subscribe: ["_INBOX.>"]}}}}
      {{user: mute, password: m, permissions: {{subscribe: {{deny: ">"}}}}}}
    ]
  }}
}}
"""


class Http:
    """One HTTP connection; a test's connections are closed with it."""

    opened: ClassVar[list[HTTPConnection]] = []
    responses: ClassVar[list[HTTPResponse]] = []

    def __init__(self, port: int, user: str = "") -> None:
        self.connection = HTTPConnection("127.0.0.1", port, timeout=20)
        self.opened.append(self.connection)
        self.headers = {"Authorization": "Basic " + base64.b64encode(user.encode()).decode()} if user else {}

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, Any, HTTPResponse]:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request(method, path, body or None, {**self.headers, **sent})
        response = self.connection.getresponse()
        data = response.read()
        is_json = response.headers.get("Content-Type") == "application/json"
        return response.status, json.loads(data) if is_json else data, response

    def open(self, path: str, **headers: str) -> HTTPResponse:
        """Begin to read an answer that goes on."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request("GET", path, headers={**self.headers, **sent})
        response = self.connection.getresponse()
        self.responses.append(response)
        return response


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    for opened in (*Http.responses, *Http.opened):
        opened.close()
    Http.responses.clear()
    Http.opened.clear()


def port_of(server: ServerThread) -> int:
    assert server.server.http_api is not None
    return server.server.http_api.port


def events(response: HTTPResponse, count: int) -> list[dict[str, Any]]:
    """So many events; comments are passed over."""
    found = []
    while len(found) < count:
        line = response.readline()
        assert line, "the events broke off"
        if line.startswith(b"data: "):
            found.append(json.loads(line[6:]))
    return found


@pytest.fixture
def server() -> Iterator[ServerThread]:
    with ServerThread(jetstream=True, http_api=HttpApiOptions(port=-1)) as thread:
        yield thread


@pytest.fixture
def http(server: ServerThread) -> Http:
    return Http(port_of(server))


@contextmanager
def with_users(tmp_path: Any, extra: str = "") -> Iterator[ServerThread]:
    options = load_text(USERS.format(store=tmp_path, extra=extra))
    with ServerThread(options) as thread:
        yield thread


def test_publish_reaches_subscribers(server: ServerThread, http: Http) -> None:
    with connect(server.url) as client, client.subscribe("orders.>") as subscription:
        status, _, _ = http.ask(
            "POST", "/v1/publish/orders.new", b"hi", Nats_Msg_Id="1", X_Nats_Color="red", Cookie="c"
        )
        assert status == 204
        message = subscription.next(timeout=10)
        assert (message.subject, message.data) == ("orders.new", b"hi")
        assert message.headers == {"Nats-Msg-Id": ["1"], "Color": ["red"]}


def make_stream(server: ServerThread, name: str = "S", **fields: Any) -> None:
    with connect(server.url) as client:
        client.jetstream().create_stream(name, **{"subjects": ["s.>"], **fields})


def make_bucket(server: ServerThread, **fields: Any) -> None:
    with connect(server.url) as client:
        client.jetstream().create_kv("B", **fields)


# --- publish and request --------------------------------------------------------------------------------------------


def test_a_publish_with_ack_says_where_it_is(server: ServerThread, http: Http) -> None:
    make_stream(server)
    assert http.ask("POST", "/v1/publish/s.1?ack=true", b"x", Nats_Msg_Id="a")[:2] == (200, {"stream": "S", "seq": 1})
    status, ack, _ = http.ask("POST", "/v1/publish/s.1?ack=true", b"x", Nats_Msg_Id="a")
    assert (status, ack["duplicate"]) == (200, True)
    status, refused, _ = http.ask("POST", "/v1/publish/s.1?ack=true", b"x", Nats_Expected_Last_Sequence="9")
    assert (status, refused["error"]["err_code"]) == (400, 10071)
    status, missing, _ = http.ask("POST", "/v1/publish/nobody?ack=true", b"x")
    assert (status, missing["error"]["description"]) == (404, "no stream takes 'nobody'")


def test_request_gives_the_reply(server: ServerThread, http: Http) -> None:
    with connect(server.url) as client, client.subscribe("time.*") as service:
        http.connection.request("POST", "/v1/request/time.now", b"in UTC")
        asked = service.next(timeout=10)
        client.publish(asked.reply, asked.data + b"!", headers={"Zone": "UTC", "Nats-Service-Error-Code": "7"})
        response = http.connection.getresponse()
        assert (response.status, response.read()) == (200, b"in UTC!")
        assert response.headers["X-Nats-Zone"] == "UTC"
        assert response.headers["Nats-Service-Error-Code"] == "7"


def test_nobody_answers(server: ServerThread, http: Http) -> None:
    assert http.ask("POST", "/v1/request/nobody")[0] == 503
    with connect(server.url) as client, client.subscribe("silent"):
        client.flush()
        assert http.ask("POST", "/v1/request/silent?timeout=10ms")[0] == 504
    assert http.ask("POST", "/v1/request/x?timeout=soon")[0] == 400
    assert http.ask("POST", "/v1/request/x?timeout=1h")[0] == 400


# --- buckets ----------------------------------------------------------------------------------------------------


def test_a_key_lives(server: ServerThread, http: Http) -> None:
    make_bucket(server, history=5)
    assert http.ask("GET", "/v1/kv/B")[:2] == (200, [])
    assert http.ask("GET", "/v1/kv/B/a/b.c")[0] == 404
    assert http.ask("PUT", "/v1/kv/B/a/b.c", b"1")[:2] == (200, {"revision": 1})
    status, value, response = http.ask("GET", "/v1/kv/B/a/b.c")
    assert (status, value, response.headers["ETag"]) == (200, b"1", '"1"')
    assert http.ask("PUT", "/v1/kv/B/a/b.c", b"2", If_Match='"1"')[1] == {"revision": 2}
    status, refused, _ = http.ask("PUT", "/v1/kv/B/a/b.c", b"3", If_Match='"1"')
    assert (status, refused["error"]["err_code"]) == (412, 10071)
    assert http.ask("GET", "/v1/kv/B/a/b.c?revision=1")[1] == b"1"
    assert http.ask("GET", "/v1/kv/B/other?revision=1")[0] == 404
    assert http.ask("GET", "/v1/kv/B")[1] == ["a/b.c"]
    assert http.ask("DELETE", "/v1/kv/B/a/b.c", If_Match="1")[0] == 412
    assert http.ask("DELETE", "/v1/kv/B/a/b.c", If_Match="2")[0] == 204
    assert http.ask("GET", "/v1/kv/B/a/b.c")[0] == 404
    assert http.ask("GET", "/v1/kv/B")[1] == []
    # Deleted, it can be created again; then it cannot.
    assert http.ask("PUT", "/v1/kv/B/a/b.c", b"4", If_None_Match="*")[1] == {"revision": 4}
    assert http.ask("PUT", "/v1/kv/B/a/b.c", b"5", If_None_Match="*")[0] == 412
    assert http.ask("DELETE", "/v1/kv/B/a/b.c?purge=true")[0] == 204
    assert http.ask("GET", "/v1/kv/B/a/b.c?revision=1")[0] == 404
    with connect(server.url) as client:
        assert client.jetstream().stream("KV_B").info()["state"]["messages"] == 1


def test_a_bucket_without_direct_gets(server: ServerThread, http: Http) -> None:
    make_stream(server, "KV_B", subjects=["$KV.B.>"], max_msgs_per_subject=1, allow_rollup_hdrs=True)
    assert http.ask("PUT", "/v1/kv/B/k", b"\xff1")[0] == 200
    assert http.ask("GET", "/v1/kv/B/k")[1] == b"\xff1"
    assert http.ask("GET", "/v1/kv/B/none")[0] == 404


def test_what_is_no_bucket_or_key(http: Http) -> None:
    for method, path in (("GET", "/v1/kv/none/k"), ("PUT", "/v1/kv/none/k"), ("GET", "/v1/kv/none")):
        assert http.ask(method, path, b"v" if method == "PUT" else b"")[0] == 404, path
    for path in ("/v1/kv/a.b/k", "/v1/kv/B/.k", "/v1/kv/B/k.", "/v1/kv/B/a%20b", "/v1/kv/B/*", "/v1/kv/B/a%0d%0aPUB"):
        assert http.ask("GET", path)[0] == 400, path
    assert http.ask("GET", "/v1/kv/B/k?revision=x")[0] == 400
    assert http.ask("PUT", "/v1/kv/B/k", b"v", If_Match="new")[0] == 400


def test_a_watch_shows_what_is_there_and_what_comes(server: ServerThread, http: Http) -> None:
    make_bucket(server)
    http.ask("PUT", "/v1/kv/B/a.1", b"one")
    http.ask("PUT", "/v1/kv/B/b.1", b"other")
    response = Http(port_of(server)).open("/v1/kv/B/a.*?watch=true")
    assert response.headers["Content-Type"] == "text/event-stream"
    [first] = events(response, 1)
    assert (first["key"], first["value"], first["operation"], first["pending"]) == ("a.1", "one", "PUT", 0)
    http.ask("PUT", "/v1/kv/B/a.2", b"\xff")
    http.ask("DELETE", "/v1/kv/B/a.1")
    second, third = events(response, 2)
    assert (second["key"], base64.b64decode(second["value_base64"])) == ("a.2", b"\xff")
    assert (third["key"], third["operation"], third["revision"]) == ("a.1", "DEL", 4)


# --- streams ----------------------------------------------------------------------------------------------------


def test_a_stream_as_events_from_a_sequence(server: ServerThread, http: Http) -> None:
    make_stream(server)
    for number in range(1, 6):
        http.ask("POST", f"/v1/publish/s.{number}?ack=true", b"%d" % number)
    response = http.open("/v1/streams/S/messages?from_seq=3")
    assert [(row["seq"], row["subject"], row["data"]) for row in events(response, 3)] == [
        (3, "s.3", "3"),
        (4, "s.4", "4"),
        (5, "s.5", "5"),
    ]
    Http(port_of(server)).ask("POST", "/v1/publish/s.6?ack=true", b"6", X_Nats_Color="red")
    [late] = events(response, 1)
    assert (late["seq"], late["headers"]) == (6, {"Color": ["red"]})
    response.close()
    again = Http(port_of(server)).open("/v1/streams/S/messages", Last_Event_ID="4")
    assert [row["seq"] for row in events(again, 2)] == [5, 6]


def test_a_stream_as_lines_has_an_end(server: ServerThread, http: Http) -> None:
    make_stream(server)
    lines = {"Accept": "application/x-ndjson"}
    assert http.ask("GET", "/v1/streams/S/messages", **lines)[:2] == (200, b"")
    for number in range(1, 2001):
        http.ask("POST", f"/v1/publish/s.{number % 2}", b"x" * 100)
    _, data, response = http.ask("GET", "/v1/streams/S/messages", **lines)
    assert response.headers["Content-Type"] == "application/x-ndjson"
    assert [json.loads(line)["seq"] for line in data.splitlines()] == list(range(1, 2001))
    _, data, _ = http.ask("GET", "/v1/streams/S/messages?subject=s.1&limit=3&from_seq=10", **lines)
    assert [json.loads(line)["seq"] for line in data.splitlines()] == [11, 13, 15]
    status, _, one = http.ask("GET", "/v1/streams/S/messages/7")
    assert (status, one.headers["Nats-Subject"], one.headers["Nats-Sequence"]) == (200, "s.1", "7")
    assert http.ask("HEAD", "/v1/streams/S/messages")[0] == 200
    for path, status in (
        ("/v1/streams/S/messages/9999", 404),
        ("/v1/streams/S/messages/x", 400),
        ("/v1/streams/none/messages", 404),
        ("/v1/streams/none/messages/1", 404),
        ("/v1/streams/S/messages?from_seq=1&new=true", 400),
        ("/v1/streams/S/messages?from_time=yesterday", 400),
    ):
        assert http.ask("GET", path)[0] == status, path


def test_a_reader_that_stops_is_not_sent_everything(server: ServerThread, http: Http) -> None:
    make_stream(server)
    with connect(server.url) as client:
        for _ in range(400):
            client.publish("s.1", b"x" * 50_000)
        client.flush()
    response = Http(port_of(server)).open("/v1/streams/S/messages")
    assert response.status == 200
    # Others are served meanwhile, and the rest is still there when it reads on.
    assert http.ask("POST", "/v1/publish/s.2?ack=true", b"x")[1]["seq"] == 401
    assert [row["seq"] for row in events(response, 401)] == list(range(1, 402))


# --- who may ----------------------------------------------------------------------------------------------------


def test_users_have_the_rights_they_have(tmp_path: Any) -> None:
    with with_users(tmp_path) as server:
        port = port_of(server)
        status, refused, response = Http(port).ask("POST", "/v1/publish/ok.1", b"x")
        assert (status, refused["error"]["code"]) == (401, 401)
        assert response.headers["WWW-Authenticate"].startswith("Basic")
        assert Http(port, "all:wrong").ask("POST", "/v1/publish/ok.1", b"x")[0] == 401
        few = Http(port, "few:f")
        assert few.ask("POST", "/v1/publish/ok.1", b"x")[0] == 204
        status, refused, _ = few.ask("POST", "/v1/publish/no.1", b"x")
        assert (status, refused["error"]["description"]) == (403, 'Permissions Violation for Publish to "no.1"')
        assert few.ask("GET", "/v1/kv/B/k")[0] == 403
        assert few.ask("POST", "/v1/publish/ok.1", b"x")[0] == 204  # the connection goes on
        assert Http(port, "mute:m").ask("POST", "/v1/request/ok.1", b"x")[0] == 403
        # Another user on the same connection is another client.
        few.headers = Http(port, "all:a").headers
        assert few.ask("POST", "/v1/publish/no.1", b"x")[0] == 204
        assert few.ask("POST", "/v1/publish/big", bytes(70_000))[0] == 413
        names = [connection.lang for connection in server.server.hub.connections.values()]
        assert set(names) <= {"http"}


def test_pages_are_refused_unless_allowed(tmp_path: Any) -> None:
    with with_users(tmp_path, 'allowed_origins: ["https://app.example"]') as server:
        http = Http(port_of(server), "all:a")
        assert http.ask("POST", "/v1/publish/a", b"x", Origin="https://evil.example")[0] == 403
        assert http.ask("GET", "/v1/kv/B", Sec_Fetch_Site="same-origin")[0] == 403
        status, _, response = http.ask("POST", "/v1/publish/a", b"x", Origin="https://app.example")
        assert (status, response.headers["Access-Control-Allow-Origin"]) == (204, "https://app.example")
        asked = {"Origin": "https://app.example", "Access_Control_Request_Headers": "authorization"}
        status, _, response = http.ask("OPTIONS", "/v1/publish/a", **asked)
        assert (status, response.headers["Access-Control-Allow-Headers"]) == (204, "authorization")


def test_paths_and_methods(http: Http) -> None:
    for method, path, status in (
        ("GET", "/", 404),
        ("GET", "/v2/publish/a", 404),
        ("GET", "/v1/publish/a", 405),
        ("POST", "/v1/publish/", 400),
        ("POST", "/v1/publish/a%20b", 400),
        ("POST", "/v1/publish/a.*", 400),
        ("POST", "/v1/publish/a..b", 400),
        ("PATCH", "/v1/kv/B/k", 405),
        ("POST", "/v1/publish/a?ack=maybe", 400),
    ):
        assert http.ask(method, path, b"x" if method == "POST" else b"")[0] == status, (method, path)


def test_a_client_leaves_with_its_connection(server: ServerThread, http: Http) -> None:
    make_stream(server)
    response = http.open("/v1/streams/S/messages")
    hub = server.server.hub
    assert [connection.lang for connection in hub.connections.values()] == ["http"]
    response.close()
    http.connection.close()
    with connect(server.url) as client, client.subscribe("$SYS.none"):
        # Each round trip is a turn of the server; the end of the other socket is one of its next events.
        while len(hub.connections) > 1:
            client.flush()


def test_a_server_that_stops_ends_what_goes_on(server: ServerThread, http: Http) -> None:
    make_stream(server)
    response = http.open("/v1/streams/S/messages")
    server.stop()
    with pytest.raises((IncompleteRead, ConnectionError)):  # broken off, and not taken for whole
        response.read()


def test_two_requests_at_once_are_answered_in_order(server: ServerThread) -> None:
    with socket.create_connection(("127.0.0.1", port_of(server)), 10) as raw:
        one = b"POST /v1/publish/a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx"
        raw.sendall(one * 50 + b"GET /none HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        answers = b"".join(iter(lambda: raw.recv(65536), b""))
    assert answers.count(b"HTTP/1.1 204 ") == 50
    assert answers.count(b"HTTP/1.1 404 ") == 1


def test_listen_host_and_tls(tmp_path: Any) -> None:
    authority = Authority(tmp_path)
    tls = f"tls {{ {authority.issue('127.0.0.1').block} }}"
    with ServerThread(load_text(f'port: -1\nhttp_api {{ listen: "127.0.0.1:-1", {tls} }}')) as server:
        context = ssl.create_default_context(cafile=str(authority.ca_file))
        secure = HTTPSConnection("127.0.0.1", port_of(server), timeout=20, context=context)
        Http.opened.append(secure)
        secure.request("POST", "/v1/publish/a", b"x")
        assert secure.getresponse().status == 204
    with ServerThread(load_text("port: -1\nhttp_api { host: localhost, port: -1 }")) as server:
        assert server.server.http_api is not None
        assert server.server.http_api.url.startswith("http://localhost:")
        assert Http(port_of(server)).ask("POST", "/v1/publish/a", b"x")[0] == 204


@pytest.mark.parametrize("setting", ["verify_and_map: true", "handshake_first: true", "connection_rate_limit: 5"])
def test_settings_of_tls_that_would_do_nothing_are_refused(setting: str, tmp_path: Any) -> None:
    authority = Authority(tmp_path)
    tls = f'{authority.issue("127.0.0.1").block}, ca_file: "{authority.ca_file}", {setting}'
    found = problems(load_text(f"http_api {{ port: 8280, tls {{ {tls} }} }}"))
    assert [str(problem) for problem in found] == [f"http_api: tls has no {setting.partition(':')[0]} here"]


def test_without_tls_beyond_this_machine_there_is_a_warning() -> None:
    assert not [text for _, text in notices(load_text("http_api { port: 8280 }")) if "http_api" in text]
    assert [text for _, text in notices(load_text('http_api { listen: "0.0.0.0:8280" }')) if "http_api" in text]
