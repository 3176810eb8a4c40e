"""The services of the system account, asked on both servers: every service, every option, every refusal."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator

import pytest

from support.monitoring import VOLATILE, Asker, Load, agree, shown_answer
from support.normalise import Json
from support.server_process import ServerProcess
from support.servers import Both, Launcher, Pair

CONFIG = """
server_name: east-1
server_tags: ["blue", "Ssd"]
accounts {
  SYS { users [{user: sys, password: s}] }
  A {
    users [
      {user: a, password: a}
      {user: r, password: r, permissions {
        publish {allow: ["foo.>", "$SYS.REQ.USER.INFO"]}
        subscribe {allow: ["bar.> q", "_INBOX.>", "in.>"], deny: "bar.x"}
        allow_responses: {max: 5, expires: "1m"}
      }}
    ]
  }
  B { users [{user: b, password: b}] }
}
system_account: SYS
"""
HIDDEN = VOLATILE | {"subscriptions", "num_subscriptions", "config_digest", "memstats", "cmdline", "data_hidden"}

# What a client's own requests and their answers add to the counters depends on the moment, and on the server's texts.
COUNTS = frozenset(
    f"{where}{what}" for where in ("", "in_", "out_", "in_client_", "out_client_") for what in ("msgs", "bytes")
)


class Sides:
    """The same question to both servers."""

    def __init__(self, pair: Pair, **connect: Json) -> None:
        self.pair = pair
        self.real, self.ours = Asker(pair.real, **connect), Asker(pair.ours, **connect)
        self.ids = [_server_id(asker) for asker in (self.real, self.ours)] if connect.get("user") == "sys" else ["", ""]

    def agree(
        self, subject: str, payload: bytes = b"", *, hide: frozenset[str] = frozenset(), barrier: str = "IDZ"
    ) -> str:
        """Ask both and compare; returns the common answer. `<id>` in the subject is each server's own."""
        shown = [
            shown_answer(asker.ask(subject.replace("<id>", own), payload, barrier=barrier), HIDDEN | hide, _ordered)
            for asker, own in ((self.real, self.ids[0]), (self.ours, self.ids[1]))
        ]
        agree(*shown, what=f"{subject} {payload!r}")
        return shown[0]

    def close(self) -> None:
        self.real.close()
        self.ours.close()


def _server_id(asker: Asker) -> str:
    return str(json.loads(asker.ask("$SYS.REQ.SERVER.PING.IDZ"))["id"])


def _ordered(value: Json) -> Json:
    """Lists whose order means nothing, in one; and without the server's own listeners, which differ."""
    if isinstance(value, dict):
        shown = {key: _ordered(item) for key, item in value.items()}
        return {key: item for key, item in shown.items() if key != "subscriptions_list" or item}
    if isinstance(value, list):
        value = [
            item for item in value if not (isinstance(item, dict) and str(item.get("subject")).startswith("$SYS."))
        ]
        return sorted((_ordered(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
    return value


@pytest.fixture
def sys(both: Both) -> Iterator[Sides]:
    sides = Sides(both.fresh(CONFIG), user="sys", **{"pass": "s"})
    yield sides
    sides.close()


SERVER_SERVICES = [
    "VARZ",
    "SUBSZ",
    "CONNZ",
    "ROUTEZ",
    "GATEWAYZ",
    "LEAFZ",
    "ACCOUNTZ",
    "JSZ",
    "HEALTHZ",
    "RAFTZ",
    "IDZ",
]
NO_SERVICES = ["FOO", "varz", "RELOADX", "KICKS"]


def test_services_of_a_server(sys: Sides) -> None:
    for name in SERVER_SERVICES:
        for target in ("<id>", "PING"):
            answer = sys.agree(f"$SYS.REQ.SERVER.{target}.{name}", hide=COUNTS | {"total"})
            assert answer not in ("silence", "503"), name
    for target in ("<id>", "PING"):
        assert "statsz" in sys.agree(f"$SYS.REQ.SERVER.{target}.STATSZ", barrier="STATSZ", hide=COUNTS)
    assert "statsz" in sys.agree("$SYS.REQ.SERVER.PING", barrier="STATSZ", hide=COUNTS)
    for name in NO_SERVICES:
        assert sys.agree(f"$SYS.REQ.SERVER.PING.{name}") == "503"
    assert sys.agree("$SYS.REQ.SERVER.NOBODY.VARZ") == "503"
    # Commands need a server by its id.
    for name in ("RELOAD", "KICK", "LDM"):
        assert sys.agree(f"$SYS.REQ.SERVER.PING.{name}") == "503"


def test_process_services(sys: Sides) -> None:
    for asker in (sys.real, sys.ours):
        assert list(json.loads(asker.ask("$SYS.REQ.SERVER.PING.EXPVARZ"))["data"]) == ["memstats", "cmdline"]
    for payload in (b"", b'{"name":"nothing"}', b'{"name":""}'):
        # Each is answered by a thread of its own, so nothing that is asked afterwards shows that it was handled.
        for asker in (sys.real, sys.ours):
            asker.client.send(b"PUB $SYS.REQ.SERVER.PING.PROFILEZ in.x %d\r\n%b\r\n" % (len(payload), payload))
        agree(*(shown_answer(asker.next_message()[1]) for asker in (sys.real, sys.ours)), what=f"PROFILEZ {payload!r}")
    for payload in (b'{"filter":"nothing of that name"}', b'{"all":true,"filter":"nothing"}'):
        sys.agree("$SYS.REQ.SERVER.<id>.IPQUEUESZ", payload)


CONNZ_OPTIONS = [
    b"{}",
    b"null",
    b'{"limit":1}',
    b'{"LIMIT":1}',
    b'{"limit":null}',
    b'{"limit":1,"unknown":[{"a":1}]}',
    b'{"auth":true}',
    b'{"subscriptions":true}',
    b'{"subscriptions_detail":true}',
    b'{"sort":"subs"}',
    b'{"sort":"zip"}',
    b'{"sort":"stop"}',
    b'{"state":1}',
    b'{"state":2,"sort":"stop"}',
    b'{"state":7}',
    b'{"user":"sys"}',
    b'{"acc":"SYS"}',
    b'{"acc":"nope"}',
    b'{"filter_subject":"foo"}',
    b'{"filter_subject":"in.x","acc":"SYS"}',
    b'{"filter_subject":"other","acc":"SYS"}',
    b'{"offset":9223372036854775807,"limit":9223372036854775807}',
    b'{"offset":-9223372036854775808,"limit":-1}',
    b'{"mqtt_client":"x"}',
]
BROKEN = [
    b"{",
    b" ",
    b"[]",
    b"5",
    b'"x"',
    b"{}x",
    b"{'a':1}",
    b'{"limit":"x"}',
    b'{"limit":1.5}',
    b'{"limit":99999999999999999999}',
    b'{"limit":true}',
    b'{"cid":-1}',
    b'{"auth":1}',
    b'{"user":{}}',
    b'{"sort":[]}',
    b'{"server_name":5}',
    b'{"tags":"x"}',
]


def test_options_of_connz(sys: Sides) -> None:
    for payload in CONNZ_OPTIONS:
        sys.agree("$SYS.REQ.SERVER.<id>.CONNZ", payload, hide=COUNTS)


def test_options_that_cannot_be_read(sys: Sides) -> None:
    for payload in BROKEN:
        assert "code: 400" in sys.agree("$SYS.REQ.SERVER.<id>.CONNZ", payload)
    sys.agree("$SYS.REQ.SERVER.<id>.VARZ", b"[")
    sys.agree("$SYS.REQ.SERVER.<id>.STATSZ", b"[", barrier="STATSZ")
    sys.agree("$SYS.REQ.SERVER.<id>.HEALTHZ", b'{"js-enabled-only":"x"}')


OTHER_OPTIONS = [
    ("SUBSZ", b'{"subscriptions":true,"test":"in.x","account":"SYS"}'),
    ("SUBSZ", b'{"test":"in.*"}'),
    ("SUBSZ", b'{"limit":-1,"offset":-1}'),
    ("ACCOUNTZ", b'{"account":"A"}'),
    ("ACCOUNTZ", b'{"account":"nope"}'),
    ("JSZ", b'{"account":"A","streams":true,"consumer":true}'),
    ("JSZ", b'{"leader_only":true}'),
    ("HEALTHZ", b'{"stream":"x"}'),
    ("HEALTHZ", b'{"consumer":"x","details":true}'),
    ("HEALTHZ", b'{"js-server-only":true}'),
    ("LEAFZ", b'{"subscriptions":true,"account":"A"}'),
    ("ROUTEZ", b'{"subscriptions_detail":true}'),
    ("GATEWAYZ", b'{"name":"x","accounts":true}'),
    ("RAFTZ", b'{"account":"A","group":"g"}'),
]


def test_options_of_the_others(sys: Sides) -> None:
    for name, payload in OTHER_OPTIONS:
        sys.agree(f"$SYS.REQ.SERVER.<id>.{name}", payload, hide=frozenset({"total"}))


FILTERS = [
    (b'{"server_name":"east"}', True),
    (b'{"server_name":"east","exact_match":true}', False),
    (b'{"server_name":"east-1","exact_match":true}', True),
    (b'{"server_name":"west"}', False),
    (b'{"host":"127"}', True),
    (b'{"host":"127","exact_match":true}', False),
    (b'{"host":"elsewhere"}', False),
    (b'{"cluster":"c"}', False),
    (b'{"tags":["blue"]}', True),
    (b'{"tags":["BLUE"," ssd "]}', True),
    (b'{"tags":["blue","red"]}', False),
    (b'{"domain":"hub"}', False),
    (b'{"server_name":"","host":"","tags":[],"domain":""}', True),
]


def test_filters(sys: Sides) -> None:
    for payload, answers in FILTERS:
        assert (sys.agree("$SYS.REQ.SERVER.PING.HEALTHZ", payload) != "silence") == answers, payload
        statsz = sys.agree("$SYS.REQ.SERVER.PING", payload, barrier="STATSZ", hide=COUNTS)
        assert (statsz != "silence") == answers, payload
    # Who a server is, it says to everybody.
    assert sys.agree("$SYS.REQ.SERVER.PING.IDZ", b'{"server_name":"west"}') != "silence"


def test_services_of_an_account(sys: Sides) -> None:
    loads = [_account_load(server) for server in (sys.pair.real, sys.pair.ours)]
    for name in ("SUBSZ", "CONNZ", "LEAFZ", "JSZ", "INFO", "STATZ", "CONNS", "FOO"):
        for account in ("A", "B", "nope", "PING"):
            # nats-server adds to the counters of an account when it finds the time.
            sys.agree(f"$SYS.REQ.ACCOUNT.{account}.{name}", hide=COUNTS | {"total"})
    for payload in (b"", b'{"accounts":["B"]}', b'{"accounts":["B","x"],"include_unused":true}'):
        sys.agree("$SYS.REQ.ACCOUNT.PING.STATZ", payload, hide=COUNTS)
    sys.agree("$SYS.REQ.ACCOUNT.A.CONNZ", b'{"auth":true,"subscriptions":true,"acc":"B"}')
    sys.agree("$SYS.REQ.ACCOUNT.A.STATZ", b'{"accounts":["B"]}', hide=COUNTS)
    for load in loads:
        load.close()


def _account_load(server: ServerProcess) -> Load:
    load = Load(server)
    load.client(b"SUB foo 1\r\nPUB foo 2\r\nhi\r\n", user="a", **{"pass": "a"}, name="a-1")
    return load


def test_what_an_account_may_ask_about_itself(both: Both) -> None:
    pair = both.fresh(CONFIG)
    loads = [_account_load(server) for server in (pair.real, pair.ours)]
    sides = Sides(pair, user="b", **{"pass": "b"})
    # Ordinary accounts have no IDZ; CONNZ is answered by the same queue.
    for payload in (b"", b'{"auth":true}', b'{"acc":"A"}', b'{"state":2}', b'{"subscriptions":true}', b"["):
        for subject in ("$SYS.REQ.SERVER.PING.CONNZ", "$SYS.REQ.ACCOUNT.PING.CONNZ"):
            answer = sides.agree(subject, payload, barrier="CONNZ", hide=COUNTS)
            assert "a-1" not in answer
    for payload in (b"", b'{"accounts":["A"]}', b'{"accounts":["A"],"include_unused":true}'):
        answer = sides.agree("$SYS.REQ.ACCOUNT.PING.STATZ", payload, barrier="CONNZ", hide=COUNTS)
        assert "acc: 'B'" in answer
    cids = [
        json.loads(asker.ask("$SYS.REQ.SERVER.PING.CONNZ", barrier="CONNZ"))["data"]["connections"][0]["cid"] - 1
        for asker in (sides.real, sides.ours)
    ]
    answers = [
        shown_answer(asker.ask("$SYS.REQ.SERVER.PING.CONNZ", b'{"cid":%d}' % cid, barrier="CONNZ"), HIDDEN)
        for asker, cid in zip((sides.real, sides.ours), cids, strict=True)
    ]
    agree(*answers, what="a client of another account")
    assert "connections [\n    ]" in answers[0]
    for load in loads:
        load.close()
    sides.close()


FOREIGN = [
    *(f"$SYS.REQ.SERVER.PING.{name}" for name in SERVER_SERVICES if name != "CONNZ"),
    *(
        f"$SYS.REQ.ACCOUNT.{account}.{name}"
        for account in "AB"
        for name in ("SUBSZ", "CONNZ", "INFO", "STATZ", "CONNS")
    ),
    "$SYS.REQ.SERVER.PING",
    "$SYS.REQ.SERVER.PING.STATSZ",
    "$SYS.REQ.ACCOUNT.PING.SUBSZ",
    "$SYS.REQ.USER.B.INFO",
    "$SYS.DEBUG.SUBSCRIBERS",
    "$SYS.REQ.CLAIMS.LIST",
]


@pytest.mark.parametrize("subject", FOREIGN)
def test_everything_else_is_for_the_system_account_only(both: Both, subject: str) -> None:
    sides = Sides(both(CONFIG), user="b", **{"pass": "b"})
    assert sides.agree(subject, barrier="CONNZ") == "503"
    sides.close()


def test_an_account_cannot_command_a_server(launcher: Launcher) -> None:
    server = launcher(CONFIG)
    system, foreign = Asker(server, user="sys", **{"pass": "s"}), Asker(server, user="b", **{"pass": "b"})
    own = _server_id(system)
    for name in ("RELOAD", "KICK", "LDM", "VARZ", "CONNZ"):
        assert foreign.ask(f"$SYS.REQ.SERVER.{own}.{name}", b'{"cid":1}', barrier="CONNZ") == b"503"
    system.close()
    foreign.close()


@pytest.mark.parametrize("user", ["a", "r", "sys"])
def test_user_info(both: Both, user: str) -> None:
    sides = Sides(both(CONFIG), user=user, **{"pass": user.replace("sys", "s")})
    barrier = "IDZ" if user == "sys" else "CONNZ"
    if user == "r":
        # It may not ask for anything else, so there is no second request to wait for.
        for asker in (sides.real, sides.ours):
            asker.client.send(b"PUB $SYS.REQ.USER.INFO %b.answer 0\r\n\r\n" % asker.inbox)
        real, ours = (shown_answer(asker.next_message()[1], order=_ordered) for asker in (sides.real, sides.ours))
        agree(real, ours, "a user with permissions")
        assert "max: 5" in ours
    else:
        answer = sides.agree("$SYS.REQ.USER.INFO", barrier=barrier)
        assert f"user: '{user}'" in answer
    sides.close()


def test_user_info_without_a_user(both: Both) -> None:
    sides = Sides(both("server_name: open"))
    for payload in (b"", b"{}", b"nonsense"):
        sides.agree("$SYS.REQ.USER.INFO", payload, barrier="CONNZ")
    sides.close()


def test_kick_and_ask_to_leave(sys: Sides) -> None:
    for payload in (b"", b"{}", b'{"cid":999}', b'{"cid":"x"}', b'{"cid":-1}', b'{"cid":0}', b"[]"):
        for name in ("KICK", "LDM"):
            sys.agree(f"$SYS.REQ.SERVER.<id>.{name}", payload)
    for server, asker, own in ((sys.pair.real, sys.real, sys.ids[0]), (sys.pair.ours, sys.ours, sys.ids[1])):
        load = Load(server)
        victim = load.client(user="a", **{"pass": "a"}, name="victim")
        page = json.loads(asker.ask(f"$SYS.REQ.SERVER.{own}.CONNZ", b'{"acc":"A"}'))["data"]
        cid = b'{"cid":%d}' % page["connections"][0]["cid"]
        assert set(json.loads(asker.ask(f"$SYS.REQ.SERVER.{own}.LDM", cid))) == {"server"}
        victim.read_until(rb'INFO [^\n]*"ldm":true[^\n]*\r\n')
        assert set(json.loads(asker.ask(f"$SYS.REQ.SERVER.{own}.KICK", cid))) == {"server"}
        assert victim.read_to_close() == b""
        closed = json.loads(asker.ask(f"$SYS.REQ.SERVER.{own}.CONNZ", b'{"state":1}'))["data"]["connections"]
        assert [one["reason"] for one in closed if one["name"] == "victim"] == ["Kicked"]
        load.close()


def test_reload(sys: Sides) -> None:
    assert sys.agree("$SYS.REQ.SERVER.<id>.RELOAD", b'{"server_name":"west"}') == "silence"
    for server in (sys.pair.real, sys.pair.ours):
        server.config_path.write_text(CONFIG.replace("{user: b, password: b}", "{user: c, password: c}"))
    answer = sys.agree("$SYS.REQ.SERVER.<id>.RELOAD")
    assert "error" not in answer
    new = Sides(sys.pair, user="c", **{"pass": "c"})
    assert "user: 'c'" in new.agree("$SYS.REQ.USER.INFO", barrier="CONNZ")
    new.close()
    for server in (sys.pair.real, sys.pair.ours):
        server.config_path.write_text("accounts {")
    answer = sys.agree("$SYS.REQ.SERVER.<id>.RELOAD", hide=frozenset({"description"}))
    assert "code: 500" in answer


def test_new_accounts_can_ask_after_a_reload(both: Both) -> None:
    pair = both.fresh(CONFIG)
    Sides(pair, user="b", **{"pass": "b"}).close()
    for server in (pair.real, pair.ours):
        server.reload(CONFIG.replace("  B {", "  NEW { users [{user: n, password: n}] }\n  B {"))
    sides = Sides(pair, user="n", **{"pass": "n"})
    assert "acc: 'NEW'" in sides.agree("$SYS.REQ.ACCOUNT.PING.STATZ", barrier="CONNZ", hide=COUNTS)
    assert "account: 'NEW'" in sides.agree("$SYS.REQ.USER.INFO", barrier="CONNZ")
    sides.close()


def test_subscribers_are_counted(sys: Sides) -> None:
    loads = [Load(server) for server in (sys.pair.real, sys.pair.ours)]
    for load in loads:
        load.client(b"SUB deep.a 1\r\nSUB deep.* 2\r\nSUB deep.a work 3\r\n", user="sys", **{"pass": "s"})
    for payload in (b"deep.a", b"deep.b", b"deep.>", b"deep.*", b"deep.a work", b"deep.a play", b"none", b"", b"  "):
        sys.agree("$SYS.DEBUG.SUBSCRIBERS", payload)
    for load in loads:
        load.close()


@pytest.mark.parametrize("accepted", [b"gzip", b"deflate, GZIP;q=0.5", b"br"])
def test_compressed_answers(both: Both, accepted: bytes) -> None:
    pair = both(CONFIG)
    heads = []
    for server in (pair.real, pair.ours):
        asker = Asker(server, user="sys", **{"pass": "s"})
        header = b"NATS/1.0\r\nAccept-Encoding: " + accepted + b"\r\n\r\n"
        answer = asker.ask("$SYS.REQ.SERVER.PING.HEALTHZ", header=header)
        head, _, body = answer.partition(b"\r\n\r\n")
        heads.append(head)
        text = zlib.decompress(body, wbits=31) if b"gzip" in head else body
        assert json.loads(text)["data"] == {"status": "ok", "status_code": 200}
        asker.close()
    assert heads[0] == heads[1]
