"""Accounts: separate subject spaces, streams and services shared between them, account limits."""

from __future__ import annotations

from support.normalise import Json
from support.servers import Both
from support.transcript import Peer, Script, Talk, each, hpub, in_any_order, pub

CONFIG = """
accounts {
  OWNER {
    users: [ { user: owner, password: p } ]
    exports: [
      { stream: "news.>" }
      { stream: "private.>", accounts: [ FRIEND ] }
      { service: "help" }
      { service: "many.*", response_type: stream }
      { service: "chunks", response_type: chunked }
      { service: "only.friend", accounts: [ FRIEND ] }
      { service: "quick", response_type: singleton, response_threshold: "50ms" }
      { service: "sized.*.end" }
    ]
  }
  FRIEND {
    users: [ { user: friend, password: p } ]
    imports: [
      { stream: { account: OWNER, subject: "news.>" } }
      { stream: { account: OWNER, subject: "private.one" }, to: "mine.one" }
      { stream: { account: OWNER, subject: "private.two" }, prefix: "pre.fix" }
      { service: { account: OWNER, subject: "help" } }
      { service: { account: OWNER, subject: "many.*" }, to: "local.many.$1" }
      { service: { account: OWNER, subject: "chunks" }, to: "my.chunks" }
      { service: { account: OWNER, subject: "only.friend" } }
      { service: { account: OWNER, subject: "quick" } }
      { service: { account: OWNER, subject: "sized.*.end" }, to: "s.$1" }
    ]
  }
  OTHER {
    users: [ { user: other, password: p } ]
    imports: [
      { stream: { account: OWNER, subject: "news.uk" }, prefix: "owner" }
      { service: { account: OWNER, subject: "help" }, to: "aid", share: true }
    ]
  }
  LIMITED {
    users: [ { user: limited, password: p } ]
    limits: { max_connections: 2, max_subscriptions: 3, max_payload: 64 }
  }
}
"""


def join(talk: Talk, user: str, name: str = "", /, **options: Json) -> Peer:
    """A peer connected as a user of the configuration."""
    return talk.connect(name or user, user=user, **{"pass": "p"}, **options)


def accounts_are_separate(talk: Talk) -> None:
    owner, friend, other = join(talk, "owner"), join(talk, "friend"), join(talk, "other")
    for peer in (owner, friend, other):
        peer.send(b"SUB plain 1\r\n").sync()
    friend.send(pub("plain", b"x")).sync()
    owner.sync()
    other.sync()


def stream_imports(talk: Talk) -> None:
    owner, friend, other = join(talk, "owner"), join(talk, "friend"), join(talk, "other")
    friend.send(b"SUB news.> 1\r\nSUB mine.> 2\r\nSUB pre.> 3\r\nSUB private.> 4\r\nSUB > 5\r\nUNSUB 5\r\n").sync()
    other.send(b"SUB news.> 1\r\nSUB owner.> 2\r\nSUB *.news.uk 3\r\n").sync()
    for subject in ("news.uk", "news.us", "private.one", "private.two", "private.three"):
        owner.send(pub(subject, subject.encode(), "re.ply")).sync()
    friend.sync()
    other.sync()
    talk.must_show(rb"MSG mine.one 2")


def stream_import_by_literal_and_queue(talk: Talk) -> None:
    owner, friend = join(talk, "owner"), join(talk, "friend")
    friend.send(b"SUB news.uk 1\r\nSUB news.* q 2\r\nSUB mine.one q 3\r\n").sync()
    owner.send(pub("news.uk", b"x") + hpub("private.one", b"A: b\r\n", b"y")).sync()
    friend.sync()


def stream_import_by_full_wildcard(talk: Talk) -> None:
    owner, friend = join(talk, "owner"), join(talk, "friend")
    friend.send(b"SUB > 1\r\n").sync()
    owner.send(pub("news.uk", b"x") + pub("plain", b"y")).sync()
    friend.sync()


def import_unsubscribes(talk: Talk) -> None:
    owner, friend = join(talk, "owner"), join(talk, "friend")
    friend.send(b"SUB news.* 1\r\nSUB mine.one 2\r\nUNSUB 1\r\n").sync()
    owner.send(pub("news.a") + pub("private.one")).sync()
    friend.send(b"UNSUB 2\r\n").sync()
    owner.send(pub("private.one")).sync()
    friend.sync()


def importer_does_not_publish_back(talk: Talk) -> None:
    owner, friend = join(talk, "owner"), join(talk, "friend")
    owner.send(b"SUB news.> 1\r\n").sync()
    friend.send(b"SUB news.> 1\r\n" + pub("news.uk", b"own")).sync()
    owner.sync()


def service(subject: str, local: str, answers: int, user: str = "friend") -> Script:
    """A script that asks an imported service; the owner answers so many times."""

    def run(talk: Talk) -> None:
        owner, asker = join(talk, "owner"), join(talk, user, "asker")
        owner.send(f"SUB {subject} 1\r\n".encode()).sync()
        asker.send(b"SUB in.* 1\r\n" + pub(local, b"?", "in.1")).sync()
        request = owner.sync()
        reply = request.split(b" ")[3].decode()
        for index in range(answers):
            owner.send(pub(reply, b"answer %d" % index)).sync()
        asker.sync()

    run.__name__ = f"{user} asks {local}, {answers} answers"
    return run


def service_without_responder(talk: Talk) -> None:
    asker = join(talk, "friend")
    asker.send(b"SUB in.* 1\r\n" + pub("help", b"?", "in.1") + pub("only.friend", b"?", "in.2")).sync()
    asker.sync()


def service_not_imported(talk: Talk) -> None:
    owner, other = join(talk, "owner"), join(talk, "other")
    owner.send(b"SUB only.friend 1\r\n").sync()
    other.send(b"SUB in.* 1\r\n" + pub("only.friend", b"?", "in.1")).sync()
    owner.sync()
    talk.must_show(rb"503")


def service_without_reply(talk: Talk) -> None:
    owner, friend = join(talk, "owner"), join(talk, "friend")
    owner.send(b"SUB help 1\r\nSUB many.* 2\r\nSUB sized.*.end 3\r\n").sync()
    friend.send(pub("help", b"?") + pub("local.many.a", b"?") + pub("s.b", b"?")).sync()
    owner.sync()
    talk.must_show(rb"HMSG sized.b.end 3 ")


def service_import_hides_local_subscribers(talk: Talk) -> None:
    owner, friend, local = join(talk, "owner"), join(talk, "friend"), join(talk, "friend", "local")
    owner.send(b"SUB help 1\r\n").sync()
    local.send(b"SUB help 1\r\n").sync()
    friend.send(pub("help", b"?")).sync()
    local.sync()
    owner.sync()


def service_with_queue_of_owners(talk: Talk) -> None:
    first, second, friend = join(talk, "owner", "first"), join(talk, "owner", "second"), join(talk, "friend")
    first.send(b"SUB help q 1\r\n").sync()
    second.send(b"SUB help q 1\r\n").sync()
    friend.send(pub("help", b"?") * 40).sync()
    total = sum(peer.sync().count(b"MSG help 1 ") for peer in (first, second))
    talk.note(total)
    first.received.clear()
    second.received.clear()


def service_shares_who_asks(talk: Talk) -> None:
    owner, other = join(talk, "owner"), join(talk, "other", name="me", version="9")
    owner.send(b"SUB help 1\r\n").sync()
    other.send(pub("aid", b"?")).sync()
    owner.sync()
    talk.must_show(rb'"acc":"OTHER"')


def spoofed_request_info_is_removed(talk: Talk) -> None:
    owner, friend = join(talk, "owner"), join(talk, "friend")
    owner.send(b"SUB help 1\r\n").sync()
    spoofed = b'Nats-Request-Info: {"acc":"BOSS"}\r\n'
    friend.send(hpub("help", spoofed + b"A: b\r\n", b"?") + hpub("help", spoofed, b"?")).sync()
    owner.sync()


def limits_of_an_account(talk: Talk) -> None:
    one = join(talk, "limited", "one")
    one.send(b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\nSUB d 4\r\n").sync()
    two = join(talk, "limited", "two")
    two.send(b"SUB e 1\r\n").sync()
    join(talk, "limited", "three")
    two.send(pub("a", b"x" * 64)).sync()
    one.sync()
    two.send(pub("a", b"x" * 65)).until_closed()
    talk.must_show(rb"maximum account active connections exceeded")


SCRIPTS: list[Script] = [
    accounts_are_separate,
    in_any_order(stream_imports),
    in_any_order(stream_import_by_literal_and_queue),
    stream_import_by_full_wildcard,
    import_unsubscribes,
    importer_does_not_publish_back,
    service("help", "help", 2),
    service("help", "aid", 1, "other"),
    service("many.*", "local.many.x", 5),
    service("chunks", "my.chunks", 3),
    service("only.friend", "only.friend", 1),
    service("sized.*.end", "s.big", 1),
    service_without_responder,
    service_not_imported,
    service_without_reply,
    service_import_hides_local_subscribers,
    service_with_queue_of_owners,
    service_shares_who_asks,
    spoofed_request_info_is_removed,
]


@each(SCRIPTS)
def test_accounts(both: Both, script: Script) -> None:
    both(CONFIG).agree(script)


def test_account_limits(both: Both) -> None:
    both.fresh(CONFIG).agree(limits_of_an_account)
