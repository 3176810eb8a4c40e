"""`slipstream otel` with a server, and a collector that keeps what it gets."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from slipstream import connect
from slipstream.testing import ServerThread
from support.cli import Cli
from support.config_loading import options

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CONFIG = """
port: -1
http: "127.0.0.1:-1"
accounts { A { users: [{user: a, password: a}], msg_trace: { dest: "traces", sampling: 100 } } }
"""


class Receiver:
    """A collector."""

    def __init__(self) -> None:
        self.requests: SimpleQueue[tuple[str, str | None, Any]] = SimpleQueue()
        self.answers: list[int] = []  # statuses to give before it takes something
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = receiver.answers.pop(0) if receiver.answers else 200
                if status == 200:
                    receiver.requests.put((self.path, self.headers.get("X-Key"), json.loads(body)))
                self.send_response(status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def server() -> Iterator[ServerThread]:
    with ServerThread(options(CONFIG)) as thread:
        yield thread


def user_url(server: ServerThread) -> str:
    return server.url.replace("nats://", "nats://a:a@")


def test_traces_of_messages_with_a_traceparent(server: ServerThread, receiver: Receiver, tmp_path: Path) -> None:
    url = user_url(server)
    asked = ["otel", "--endpoint", receiver.url, "--header", "X-Key=k", "--traces", "traces", "--count", "1"]
    with Cli(tmp_path, url).terminal(*asked) as running, connect(url) as client, client.subscribe("orders.*"):
        running.expect("Listening on traces")
        client.publish("orders.new", b"x", headers={"traceparent": TRACE})
        client.flush()
        path, key, body = receiver.requests.get(timeout=20)
        running.finish()
    assert (path, key) == ("/v1/traces", "k")
    spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert [span["name"] for span in spans] == ["publish orders.new", "deliver"]
    assert spans[0]["traceId"] == TRACE.split("-")[1]
    assert spans[0]["parentSpanId"] == TRACE.split("-")[2]


def test_metrics_of_the_monitoring_port(server: ServerThread, receiver: Receiver, tmp_path: Path) -> None:
    assert server.server.monitoring is not None
    page = f"{server.server.monitoring.url}/metrics"
    receiver.answers = [503]  # busy at first: it is sent again
    Cli(tmp_path, user_url(server)).call("otel", "--endpoint", receiver.url, "--metrics", page, "--count", "1")
    path, _, body = receiver.requests.get(timeout=20)
    assert path == "/v1/metrics"
    names = {metric["name"] for metric in body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]}
    assert "gnatsd_varz_connections" in names


def test_a_collector_that_refuses(server: ServerThread, receiver: Receiver, tmp_path: Path) -> None:
    assert server.server.monitoring is not None
    page = f"{server.server.monitoring.url}/metrics"
    receiver.answers = [400]
    cli = Cli(tmp_path, user_url(server))
    done = cli.call("otel", "--endpoint", receiver.url, "--metrics", page, "--count", "1", status=1)
    assert "the collector answers 400 Bad Request" in done.stderr


@pytest.mark.parametrize(
    ("flags", "status"),
    [
        ((), 2),
        (("--metrics", "file:///etc/passwd"), 1),
        (("--traces", "t", "--header", "x"), 2),
        (("--traces", "t", "--endpoint", "x"), 1),
        (("--traces", "t", "--interval", "0s"), 2),
    ],
)
def test_wrong_usage(server: ServerThread, tmp_path: Path, flags: tuple[str, ...], status: int) -> None:
    Cli(tmp_path, user_url(server)).call("otel", *flags, status=status)
