"""The system account: requests about server and accounts, events about clients; compared by the form of their JSON."""

from __future__ import annotations

from support.normalise import Json, hide, shape
from support.requests import next_event, note_json, request
from support.servers import Both
from support.transcript import Peer, Script, Talk, each, pub

CONFIG = """
server_name: one
system_account: SYS
accounts {
  SYS { users: [ { user: admin, password: p } ] }
  APP { users: [ { user: app, password: p } ], exports: [ { stream: "s.>" }, { service: "help" } ] }
  USE {
    users: [ { user: use, password: p, permissions: {
      publish: { allow: ["a", "$SYS.REQ.USER.INFO"], deny: "b" }
      subscribe: ["in.>", "q one"]
      allow_responses: true } } ]
    imports: [ { stream: { account: APP, subject: "s.>" } }, { service: { account: APP, subject: "help" } } ]
  }
}
"""
# Maps whose keys are data, and parts that belong to one implementation.
FREE = frozenset({"http_req_stats", "feature_flags", "go", "cmdline", "memstats", "profile"})

SERVER_REQUESTS = [
    "STATSZ",
    "VARZ",
    "CONNZ",
    "SUBSZ",
    "ROUTEZ",
    "GATEWAYZ",
    "LEAFZ",
    "ACCOUNTZ",
    "JSZ",
    "HEALTHZ",
    "IDZ",
    "EXPVARZ",
    "RAFTZ",
    "NOSUCH",
]
ACCOUNT_REQUESTS = ["CONNZ", "SUBSZ", "LEAFZ", "JSZ", "INFO", "CONNS", "STATZ", "NOSUCH"]
OPTIONS = {
    "CONNZ all": ("CONNZ", b'{"auth":true,"subscriptions_detail":true,"sort":"subs"}'),
    "CONNZ limit": ("CONNZ", b'{"limit":1,"offset":1}'),
    "CONNZ by account": ("CONNZ", b'{"acc":"APP","auth":true}'),
    "CONNZ bad sort": ("CONNZ", b'{"sort":"nonsense"}'),
    "CONNZ bad JSON": ("CONNZ", b"{"),
    "SUBSZ detail": ("SUBSZ", b'{"subscriptions":true,"acc":"APP"}'),
    "SUBSZ test": ("SUBSZ", b'{"subscriptions":true,"test":"foo"}'),
    "ACCOUNTZ one": ("ACCOUNTZ", b'{"account":"APP"}'),
    "ACCOUNTZ importer": ("ACCOUNTZ", b'{"account":"USE"}'),
    "ACCOUNTZ unknown": ("ACCOUNTZ", b'{"account":"NOPE"}'),
    "HEALTHZ details": ("HEALTHZ", b'{"details":true}'),
    "VARZ of this server": ("VARZ", b'{"server_name":"one"}'),
    "PING with tags": ("STATSZ", b'{"tags":[]}'),
}


def admin(talk: Talk) -> Peer:
    """A peer of the system account, and one of an ordinary account with two subscriptions."""
    app = talk.connect("app", name="my app", user="app", **{"pass": "p"})
    app.send(b"SUB foo 1\r\nSUB bar q 2\r\n" + pub("foo", b"x")).sync()
    app.received.clear()
    return talk.connect("admin", user="admin", **{"pass": "p"})


def server_id(peer: Peer) -> str:
    """The server's id, as its answers give it."""
    answer = request(peer, "$SYS.REQ.SERVER.PING.IDZ")
    assert isinstance(answer, dict)
    return str(answer["id"])


def form_of(subject: str, payload: bytes = b"", name: str = "") -> Script:
    """A script that compares the form of the answer to a system request."""

    def ask(talk: Talk) -> None:
        peer = admin(talk)
        to = subject.replace("<id>", server_id(peer)) if "<id>" in subject else subject
        answer = request(peer, to, payload)
        note_json(
            talk, subject, shape(answer, free=FREE) if isinstance(answer, dict) else str(answer).replace(to, subject)
        )

    ask.__name__ = name or subject
    return ask


REQUESTS: list[Script] = [
    form_of("$SYS.REQ.SERVER.PING"),
    *[form_of(f"$SYS.REQ.SERVER.PING.{name}") for name in SERVER_REQUESTS],
    *[form_of(f"$SYS.REQ.SERVER.<id>.{name}") for name in ("VARZ", "CONNZ", "IDZ", "NOSUCH")],
    *[form_of(f"$SYS.REQ.ACCOUNT.APP.{name}") for name in ACCOUNT_REQUESTS],
    *[form_of(f"$SYS.REQ.SERVER.PING.{subject}", data, name) for name, (subject, data) in OPTIONS.items()],
    form_of("$SYS.REQ.ACCOUNT.PING.STATZ", b'{"accounts":["APP","USE"]}'),
    form_of("$SYS.REQ.ACCOUNT.NOPE.INFO"),
    form_of("$SYS.REQ.ACCOUNT.NSUBS", b'{"acc":"APP","subject":"foo"}'),
    form_of("$SYS.DEBUG.SUBSCRIBERS", b"foo"),
    form_of("$SYS.REQ.USER.INFO"),
]


def sorted_texts(value: Json) -> Json:
    """The value with lists of texts sorted: subjects of a permission come in no defined order."""
    if isinstance(value, dict):
        return {key: sorted_texts(item) for key, item in value.items()}
    return sorted(value, key=str) if isinstance(value, list) else value


def user_info(user: str) -> Script:
    """A script that compares who a user is told to be, value by value."""

    def ask(talk: Talk) -> None:
        peer = talk.connect(user, user=user, **{"pass": "p"})
        peer.send(b"SUB in.> 1\r\n" + pub("$SYS.REQ.USER.INFO", b"", "in.1"))
        note_json(talk, "user", hide(sorted_texts(next_event(peer)[1]), "server"))

    ask.__name__ = f"user info of {user}"
    return ask


def note_event(talk: Talk, event: tuple[str, Json]) -> None:
    """Adds an event by its form, with the subject's ids replaced and its reason as it is."""
    subject, body = event
    tokens = ["<id>" if len(token) == 56 else token for token in subject.split(".")]
    note_json(talk, ".".join(tokens), shape(body, free=FREE))
    if isinstance(body, dict):
        talk.note((body.get("type"), body.get("reason")))


def connect_and_disconnect_events(talk: Talk) -> None:
    watcher = talk.connect("watcher", user="admin", **{"pass": "p"})
    watcher.send(b"SUB $SYS.ACCOUNT.APP.CONNECT 1\r\nSUB $SYS.ACCOUNT.APP.DISCONNECT 2\r\n").sync()
    watcher.received.clear()
    app = talk.connect("app", name="my app", user="app", **{"pass": "p"})
    note_event(talk, next_event(watcher))
    app.send(b"SUB foo 1\r\n" + pub("foo", b"x") + b"FOO\r\n").until_closed()
    note_event(talk, next_event(watcher))


def disconnect_reasons(talk: Talk) -> None:
    watcher = talk.connect("watcher", user="admin", **{"pass": "p"})
    watcher.send(b"SUB $SYS.ACCOUNT.APP.DISCONNECT 1\r\n").sync()
    for bad in (b"FOO\r\n", b"PUB x\r\n", b"PUB x 99999999\r\n", b"SUB " + b"x" * 5000 + b" 1\r\n", b"CONNECT {\r\n"):
        talk.connect("app", user="app", **{"pass": "p"}).send(bad).until_closed()
        _, body = next_event(watcher)
        talk.note(body["reason"] if isinstance(body, dict) else body)
    talk.connect("app", user="app", **{"pass": "p"}).close()
    _, body = next_event(watcher)
    talk.note(body["reason"] if isinstance(body, dict) else body)


def failed_authentication_event(talk: Talk) -> None:
    watcher = talk.connect("watcher", user="admin", **{"pass": "p"})
    watcher.send(b"SUB $SYS.SERVER.*.CLIENT.AUTH.ERR 1\r\n").sync()
    watcher.received.clear()
    talk.connect("app", user="app", **{"pass": "wrong"})
    note_event(talk, next_event(watcher))


def connection_counts_event(talk: Talk) -> None:
    watcher = talk.connect("watcher", user="admin", **{"pass": "p"})
    watcher.send(b"SUB $SYS.ACCOUNT.USE.SERVER.CONNS 1\r\n").sync()
    watcher.received.clear()
    talk.connect("use", user="use", **{"pass": "p"})
    note_event(talk, next_event(watcher))


def client_is_kicked(talk: Talk) -> None:
    peer = talk.connect("admin", user="admin", **{"pass": "p"})
    app = talk.connect("app", user="app", **{"pass": "p"})
    cid = int(bytes(app.received).partition(b'"client_id":')[2].partition(b",")[0])
    note_json(
        talk, "kick", shape(request(peer, f"$SYS.REQ.SERVER.{server_id(peer)}.KICK", b'{"cid":%d}' % cid), free=FREE)
    )
    app.until_closed()


def client_is_told_lame_duck(talk: Talk) -> None:
    peer = talk.connect("admin", user="admin", **{"pass": "p"})
    app = talk.connect("app", user="app", **{"pass": "p"})
    cid = int(bytes(app.received).partition(b'"client_id":')[2].partition(b",")[0])
    note_json(
        talk, "ldm", shape(request(peer, f"$SYS.REQ.SERVER.{server_id(peer)}.LDM", b'{"cid":%d}' % cid), free=FREE)
    )
    app.until(rb'INFO [^\n]*"ldm":true[^\n]*\r\n')


def reload_by_request(talk: Talk) -> None:
    peer = talk.connect("admin", user="admin", **{"pass": "p"})
    note_json(talk, "reload", shape(request(peer, f"$SYS.REQ.SERVER.{server_id(peer)}.RELOAD"), free=FREE))


SCRIPTS: list[Script] = [
    user_info("admin"),
    user_info("app"),
    user_info("use"),
    connect_and_disconnect_events,
    disconnect_reasons,
    failed_authentication_event,
    connection_counts_event,
    client_is_kicked,
    client_is_told_lame_duck,
]


@each([*REQUESTS, *SCRIPTS])
def test_system_account(both: Both, script: Script) -> None:
    both(CONFIG).agree(script)


def test_reload_by_request(both: Both) -> None:
    both.fresh(CONFIG).agree(reload_by_request)
