"""Monitoring of a server with JetStream: the same streams on both servers, totals and details compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.monitoring import VOLATILE, Asker, agree, get, outline, paths_agree, shown_answer
from support.normalise import Json
from support.server_process import ServerProcess
from support.servers import Both, Pair

CONFIG = """
http: "127.0.0.1:-1"
server_name: jsz
jetstream { store_dir: "js", max_mem: 64M, max_file: 128M }
accounts {
  SYS { users [{user: sys, password: s}] }
  A { users [{user: a, password: a}], jetstream: {max_mem: 16M, max_file: 32M} }
  B { users [{user: b, password: b}], jetstream: enabled }
  C { users [{user: c, password: c}] }
}
system_account: SYS
"""
# Sizes are those of two stores; levels and limits those of two versions; an acknowledgement here means more.
HIDDEN = ("level", "limits", "store_dir", "created", "bytes", "storage", "memory", "first_ts", "last_ts", "total")
HIDDEN += ("subscriptions", "num_subscriptions", "http_req_stats", "in_bytes", "out_bytes", "errors", "metadata")
HIDDEN += ("in_client_bytes", "out_client_bytes", "active_accounts", "ts")


STREAMS = [("a", "ORDERS", "orders.new"), ("a", "EVENTS", "events.seen"), ("b", "ORDERS", "orders.new")]


@pytest.fixture
def pair(both: Both) -> Pair:
    pair = both.fresh(CONFIG)
    for server in (pair.real, pair.ours):
        _create_streams(server)
    return pair


def _create_streams(server: ServerProcess) -> None:
    """Three streams of two messages each, and two consumers of one of them."""
    for user, name, subject in STREAMS:
        asker = Asker(server, user=user, **{"pass": user})
        config = json.dumps({"name": name, "subjects": [subject], "storage": "file", "retention": "limits"}).encode()
        asker.client.send(b"PUB $JS.API.STREAM.CREATE.%b in.x %d\r\n%b\r\n" % (name.encode(), len(config), config))
        assert b'"error"' not in asker.next_message()[1]
        for _ in range(2):
            asker.client.send(b"PUB %b in.x 5\r\nhello\r\n" % subject.encode())
            assert b'"seq"' in asker.next_message()[1]
        asker.close()
    asker = Asker(server, user="a", **{"pass": "a"})
    for name, more in (("pull", {}), ("push", {"deliver_subject": "to.nobody"})):
        config = {"durable_name": name, "ack_policy": "explicit", **more}
        body = json.dumps({"stream_name": "ORDERS", "config": config}).encode()
        subject = b"$JS.API.CONSUMER.DURABLE.CREATE.ORDERS.%b" % name.encode()
        asker.client.send(b"PUB %b in.x %d\r\n%b\r\n" % (subject, len(body), body))
        assert b'"error"' not in asker.next_message()[1]
    asker.close()


def _same(value: Json) -> Json:
    """Without what one of the two always says, and lists in one order."""
    if isinstance(value, dict):
        return {key: _same(item) for key, item in value.items() if key not in ("sync_always", "default_max_consumers")}
    if isinstance(value, list):
        return sorted((_same(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
    return value


def test_totals_and_accounts(pair: Pair) -> None:
    for query in ("", "accounts=1", "acc=A", "acc=C", "acc=nope", "accounts=1&limit=1", "accounts=1&offset=1&limit=5"):
        paths_agree(pair, f"/jsz?{query}", hide=HIDDEN, order=_same)
    paths_agree(pair, "/jsz?accounts=1&offset=9223372036854775807&limit=9223372036854775807", hide=HIDDEN, order=_same)
    paths_agree(pair, "/jsz?leader-only=1&raft=1", hide=HIDDEN, order=_same)


def test_streams(pair: Pair) -> None:
    for query in ("streams=1", "acc=A&streams=1", "streams=1&config=1", "acc=B&streams=1&consumers=1&config=1&raft=1"):
        paths_agree(pair, f"/jsz?{query}", hide=HIDDEN, order=_same)


def test_consumers(pair: Pair) -> None:
    for query in ("consumers=1", "acc=A&consumers=1", "streams=1&consumers=1&config=1", "acc=A&direct-consumers=1"):
        paths_agree(pair, f"/jsz?{query}", hide=HIDDEN, order=_same)
    for server in (pair.real, pair.ours):
        (account,) = json.loads(get(server, "/jsz?acc=A&consumers=1").body)["account_details"]
        streams = {stream["name"]: stream for stream in account["stream_detail"]}
        shown = {consumer["name"]: consumer for consumer in streams["ORDERS"]["consumer_detail"]}
        assert {name: consumer["num_pending"] for name, consumer in shown.items()} == {"pull": 2, "push": 2}
        assert "consumer_detail" not in streams["EVENTS"]


def test_mirrors_and_sources(pair: Pair) -> None:
    """Shown while they have nothing to read, so that no number depends on when it is looked at."""
    shown = []
    for server in (pair.real, pair.ours):
        asker = Asker(server, user="b", **{"pass": "b"})
        transforms = [{"src": "a", "dest": "b"}]
        for name, origin in (
            ("M", {"mirror": {"name": "NONE", "subject_transforms": transforms}}),
            ("S", {"sources": [{"name": "NONE", "filter_subject": "x"}]}),
        ):
            body = json.dumps({"name": name, **origin}).encode()
            asker.client.send(b"PUB $JS.API.STREAM.CREATE.%b in.x %d\r\n%b\r\n" % (name.encode(), len(body), body))
            assert b'"error"' not in asker.next_message()[1]
        asker.close()
        page = json.loads(get(server, "/jsz?streams=1&acc=B").body)
        details = {detail["name"]: detail for detail in page["account_details"][0]["stream_detail"]}
        found = [details["M"]["mirror"], *details["S"]["sources"]]
        # Whether the first attempt has failed already is a matter of a tenth of a second.
        shown.append([{key: value for key, value in one.items() if key != "error"} for one in found])
    assert shown[0] == shown[1]


def test_health(pair: Pair) -> None:
    named = ("", "account=A", "account=A&stream=ORDERS", "account=A&stream=NONE", "account=NONE", "stream=ORDERS")
    named += ("account=B&stream=ORDERS&consumer=NONE", "account=A&consumer=x")
    named += ("account=A&stream=ORDERS&consumer=pull", "account=A&stream=EVENTS&consumer=pull")
    for query in named:
        paths_agree(pair, f"/healthz?{query}")
        paths_agree(pair, f"/healthz?{query}&details=1")
    for switch in ("js-enabled-only", "js-server-only", "js-meta-only"):
        paths_agree(pair, f"/healthz?{switch}=1&account=NONE")


def test_varz_and_accounts(pair: Pair) -> None:
    paths_agree(pair, "/varz", hide=(*HIDDEN, "out_msgs", "out_client_msgs", "in_msgs", "in_client_msgs"), order=_same)
    for account in ("A", "C"):
        paths_agree(pair, f"/accountz?acc={account}", hide=HIDDEN, order=_same)


def test_services(pair: Pair) -> None:
    askers = [Asker(server, user="sys", **{"pass": "s"}) for server in (pair.real, pair.ours)]
    questions = [
        ("$SYS.REQ.SERVER.PING.JSZ", b'{"accounts":true,"streams":true}'),
        ("$SYS.REQ.SERVER.PING.JSZ", b'{"account":"A","streams":true,"config":true}'),
        ("$SYS.REQ.SERVER.PING.HEALTHZ", b'{"account":"A","stream":"NONE"}'),
        ("$SYS.REQ.ACCOUNT.A.JSZ", b'{"streams":true}'),
        ("$SYS.REQ.ACCOUNT.C.JSZ", b""),
        ("$SYS.REQ.ACCOUNT.NONE.JSZ", b""),
    ]
    for subject, payload in questions:
        shown = [
            shown_answer(asker.ask(subject, payload), VOLATILE | set(HIDDEN) | {"flags"}, _same) for asker in askers
        ]
        agree(*shown, what=f"{subject} {payload!r}")
    for asker in askers:
        asker.close()


def test_numbers_do_not_tell_the_directory(pair: Pair) -> None:
    shown = []
    for server in (pair.real, pair.ours):
        asker = Asker(server, user="sys", **{"pass": "s"})
        answer = json.loads(asker.ask("$SYS.REQ.SERVER.PING.STATSZ", barrier="STATSZ"))
        assert "store_dir" not in answer["statsz"]["jetstream"]["config"]
        shown.append(outline(_same(answer), VOLATILE | set(HIDDEN) | {"flags", "msgs"}))
        asker.close()
    agree(*shown, what="STATSZ")


def test_store_directory_is_shown(pair: Pair) -> None:
    for server in (pair.real, pair.ours):
        folder = Path(json.loads(get(server, "/jsz").body)["config"]["store_dir"])
        assert (server.directory / folder).is_dir()
        assert folder.name == "jetstream"


def test_what_waits_has_the_same_names(pair: Pair) -> None:
    real, ours = (set(json.loads(get(server, "/ipqueuesz?all=1").body)) for server in (pair.real, pair.ours))
    assert ours <= real
    assert {"JetStream API queue", "System recvQ", "[ACC:A] stream 'ORDERS' messages"} <= ours


def test_every_subscription_is_listed(pair: Pair) -> None:
    for server in (pair.real, pair.ours):
        page = json.loads(get(server, "/subsz?subs=1&limit=10000").body)
        assert page["total"] == page["num_subscriptions"] == len(page["subscriptions_list"])
        assert {one["account"] for one in page["subscriptions_list"]} == {"$G", "SYS", "A", "B", "C"}


def test_the_api_is_an_export_of_the_system_account(pair: Pair) -> None:
    pages = [json.loads(get(server, "/accountz?acc=SYS").body) for server in (pair.real, pair.ours)]
    real, ours = (sorted(map(str, page["account_detail"]["exports"])) for page in pages)
    assert real == ours
