"""Streams that the configuration declares: there before the first client, changed by a reload, never deleted."""

from __future__ import annotations

import json
import urllib.request

import slipstream
from slipstream.sync import JetStream
from support.server_process import ServerProcess
from support.servers import Launcher

_BLOCK = """
  declared {
    streams {
      ORDERS {
        subjects: ["orders.>"], max_age: 7d, max_bytes: 1GB
        consumers { billing { ack_wait: 30s, filter_subject: orders.us } }
      }
      COPY { mirror: {name: ORDERS} }
    }
    kv { settings { history: 5, ttl: 1h } }
    objects { files { max_bucket_size: 10MiB } }
  }
"""


def _config(block: str) -> str:
    return f'jetstream {{ store_dir: "js"\n{block}\n}}\n'


def _names(js: JetStream) -> list[str]:
    return sorted(stream.name for stream in js.streams())


def _reload(server: ServerProcess, config: str, *, until: str) -> str:
    position = len(server.log_lines)
    server.reload(config)
    return server.wait_for_log(until, after=position)


def test_everything_is_there_before_the_server_is_ready(ours: Launcher) -> None:
    server = ours.fresh(_config(_BLOCK))
    lines = [line for line in server.log_lines if "declared" in line or "Server is ready" in line]
    assert len(lines) == 6 and lines[-1].endswith("Server is ready")
    with slipstream.connect(server.url) as client:
        js = client.jetstream()
        assert _names(js) == ["COPY", "KV_settings", "OBJ_files", "ORDERS"]
        config = js.api("STREAM.INFO.ORDERS")["config"]
        assert (config["subjects"], config["max_age"], config["max_bytes"]) == (
            ["orders.>"],
            7 * 86400 * 10**9,
            1 << 30,
        )
        assert js.api("CONSUMER.INFO.ORDERS.billing")["config"]["ack_wait"] == 30 * 10**9
        assert js.api("STREAM.INFO.KV_settings")["config"]["max_msgs_per_subject"] == 5
        assert js.publish("orders.us", b"1").seq == 1
    server.restart()
    assert not any("declared" in line for line in server.log_lines)  # nothing was left to do
    with slipstream.connect(server.url) as client:
        assert client.jetstream().api("STREAM.INFO.ORDERS")["state"]["messages"] == 1


def test_a_reload_makes_the_difference_and_deletes_nothing(ours: Launcher) -> None:
    server = ours.fresh(_config(_BLOCK))
    with slipstream.connect(server.url) as client:
        js = client.jetstream()
        js.create_stream("MINE", subjects=["mine"])
        other = _BLOCK.replace("7d", "8d").replace("COPY { mirror: {name: ORDERS} }", 'MORE { subjects: ["more"] }')
        said = _reload(server, _config(other), until="Updated declared stream ORDERS")
        assert "- max_age: 7d" in said and "+ max_age: 8d" in said
        server.wait_for_log("Created declared stream MORE")
        assert _names(js) == ["COPY", "KV_settings", "MINE", "MORE", "OBJ_files", "ORDERS"]
        assert js.api("STREAM.INFO.ORDERS")["config"]["max_age"] == 8 * 86400 * 10**9


def test_what_is_refused_is_told_with_its_place_and_the_rest_is_there(ours: Launcher) -> None:
    block = 'declared { streams {\n A { subjects: ["a"] }\n B { subjects: ["a"] }\n C { subjects: ["c"] } } }'
    server = ours.fresh(_config(block))
    said = server.wait_for_log("Declared stream B")
    assert ".conf:4: Declared stream B of account '$G' was not created: subjects overlap" in said
    with slipstream.connect(server.url) as client:
        assert _names(client.jetstream()) == ["A", "C"]


def test_each_account_has_its_own(ours: Launcher) -> None:
    account = "{{ users: [{{user: {0}, password: p}}], jetstream {{ declared {{ streams {{ {1} {{}} }} }} }} }}"
    accounts = "\n".join(f"{name} {account.format(name.lower(), f'OF_{name}')}" for name in "AB")
    server = ours.fresh(f'http: -1\njetstream {{ store_dir: "js" }}\naccounts {{ {accounts} }}')
    for name in "AB":
        with slipstream.connect(server.url, user=name.lower(), password="p") as client:
            assert _names(client.jetstream()) == [f"OF_{name}"]
    port = server.wait_for_log(r"Starting http monitor on .*:(\d+)").rsplit(":", 1)[1]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/jsz") as answer:
        assert json.load(answer)["streams"] == 2


def test_a_mistake_keeps_the_server_from_starting(ours: Launcher) -> None:
    server = ours.prepared(_config("declared { streams {\n A { subjets: [a] } } }"))
    assert server.run_to_end() == 1
    assert any(":3:" in line and "did you mean 'subjects'?" in line for line in server.log_lines)


def test_a_reload_with_a_mistake_changes_nothing(ours: Launcher) -> None:
    server = ours.fresh(_config(_BLOCK))
    position = len(server.log_lines)
    server.reload(_config(_BLOCK.replace("7d", "soon")))
    assert "'soon' is not a duration" in server.wait_for_log("Failed to reload", after=position)


def test_without_jetstream_it_is_said_that_nothing_is_there(ours: Launcher) -> None:
    server = ours.fresh("jetstream { enabled: false, declared { streams { A {} } } }")
    server.wait_for_log("JetStream is off: what is declared in the configuration is not there")


def test_the_audit_trail_has_what_the_server_made(ours: Launcher) -> None:
    config = _config("audit: true\ndeclared { streams { A { subjects: [a.b] } } }")
    server = ours.fresh(
        config + "accounts { $SYS { users: [{user: s, password: p}] } }\nno_auth_user: n\n"
        "authorization { users: [{user: n, password: n}] }\n"
    )
    with slipstream.connect(server.url, user="s", password="p") as client:
        message = client.jetstream().stream("SLIPSTREAM_AUDIT").get(1)
        record = json.loads(message.data)
    assert (record["action"], record["stream"], record["account"]) == ("stream.create", "A", "$G")
