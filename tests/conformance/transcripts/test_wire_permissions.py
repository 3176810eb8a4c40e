"""What a user may publish and subscribe to, what a refusal says, and rights that a request lends."""

from __future__ import annotations

from support.normalise import Json
from support.servers import Both
from support.transcript import Case, Peer, Script, Talk, case, each, hpub, pub

CONFIG = """
authorization {
  default_permissions: { publish: "default.>", subscribe: "default.>" }
  users = [
    { user: boss, password: p, permissions: { publish: ">", subscribe: ">" } }
    { user: plain, password: p }
    { user: lists, password: p, permissions: { publish: ["a", "b.*", "c.>"], subscribe: ["a", "b.*", "c.>"] } }
    { user: deny, password: p, permissions: {
        publish: { allow: ["a.>", "b"], deny: ["a.secret", "a.x.*"] }
        subscribe: { allow: ["a.>", "b"], deny: ["a.secret", "a.x.*"] } } }
    { user: denyonly, password: p, permissions: { publish: { deny: "no.>" }, subscribe: { deny: "no.>" } } }
    { user: nothing, password: p, permissions: { publish: { deny: ">" }, subscribe: { deny: ">" } } }
    { user: pubonly, password: p, permissions: { publish: "a.>" } }
    { user: subonly, password: p, permissions: { subscribe: "a.>" } }
    { user: queues, password: p, permissions: {
        publish: ">"
        subscribe: { allow: ["free", "work q1", "work v2.*", "bulk q.>", "x.* >"], deny: ["work v2.bad", "bulk"] } } }
    { user: denyqueue, password: p, permissions: { subscribe: { allow: ">", deny: ["> *.dev"] } } }
    { user: responder, password: p, permissions: { subscribe: "req.>", allow_responses: true } }
    { user: thrice, password: p, permissions: {
        subscribe: "req.>", publish: { deny: "never" }, allow_responses: { max: 3, expires: "1m" } } }
    { user: endless, password: p, permissions: { subscribe: "req.>", allow_responses: { max: -1, expires: "1m" } } }
    { user: brief, password: p, permissions: { subscribe: "req.>", allow_responses: { max: -1, expires: "1ms" } } }
    { user: inbox, password: p, permissions: { publish: "ask", subscribe: "_INBOX.me.>" } }
  ]
}
"""


def as_user(user: str, name: str, data: bytes, seen: bytes = rb"PONG", **options: Json) -> Case:
    """A case run by a user of the configuration."""
    return case(f"{user} {name}", data, seen, user=user, **{"pass": "p"}, **options)


def subs(*subjects: str) -> bytes:
    """A SUB for each subject (with its queue), ids counting from 1."""
    return b"".join(f"SUB {subject} {index}\r\n".encode() for index, subject in enumerate(subjects, 1))


def pubs(*subjects: str) -> bytes:
    """A PUB for each subject."""
    return b"".join(pub(subject, b"x") for subject in subjects)


REFUSED_PUB = rb'Permissions Violation for Publish to "'
REFUSED_SUB = rb'Permissions Violation for Subscription to "'

CASES: list[Script] = [
    as_user("plain", "publishes by default rights", pubs("default.x", "other"), REFUSED_PUB),
    as_user("plain", "subscribes by default rights", subs("default.*", "other", ">", "default"), REFUSED_SUB),
    as_user("lists", "publishes", pubs("a", "a.b", "b", "b.x", "b.x.y", "c", "c.x", "c.x.y"), REFUSED_PUB),
    as_user("lists", "subscribes", subs("a", "a.b", "b.x", "b.*", "b.>", "c.>", "c.*", "c", "*", ">"), REFUSED_SUB),
    as_user("lists", "verbose", subs("a", "x") + pubs("x"), REFUSED_PUB, verbose=True),
    as_user("lists", "pedantic", pubs("x", "b.*"), REFUSED_PUB, pedantic=True),
    as_user("lists", "with header", hpub("x", b"A: b\r\n", b"y"), REFUSED_PUB),
    as_user("lists", "publish wildcard subject", pubs("b.*", "c.>", "*")),
    as_user("lists", "publishes with any reply", subs("a") + pub("a", b"", "secret.reply"), rb"MSG a 1 secret.reply 0"),
    as_user("lists", "queue", subs("x q"), rb'to "x" using queue "q"'),
    as_user("deny", "publishes", pubs("a.b", "a.secret", "a.x.y", "a.x", "b", "c"), REFUSED_PUB),
    as_user("deny", "subscribes", subs("a.b", "a.secret", "a.x.y", "a.x.*", "a.x.>", "a.*", "a.>", "b"), REFUSED_SUB),
    as_user("deny", "receives less than it asked for", subs("a.>") + pubs("a.b", "a.secret", "a.x", "a.x.y.z")),
    as_user("deny", "receives less by star", subs("a.*") + pubs("a.b", "a.secret")),
    as_user("deny", "receives less in a queue", subs("a.> q") + pubs("a.b", "a.secret")),
    as_user("denyonly", "publishes", pubs("yes", "no", "no.x"), REFUSED_PUB),
    as_user("denyonly", "subscribes", subs("yes", "no.x", "no.>", "no") + pubs("yes", "no"), REFUSED_SUB),
    as_user("nothing", "publishes", pubs("x", "a.b"), REFUSED_PUB),
    as_user("nothing", "subscribes", subs("x", ">", "a.b q"), REFUSED_SUB),
    as_user("pubonly", "subscribes", subs("x", ">") + pubs("a.b", "x")),
    as_user("subonly", "publishes", subs("a.b") + pubs("a.b", "x")),
    as_user("queues", "free", subs("free", "free q1", "free z")),
    as_user("queues", "work", subs("work", "work q1", "work q2", "work v2.a", "work v2.bad", "work v2.a.b")),
    as_user("queues", "bulk", subs("bulk", "bulk q", "bulk q.a", "bulk q.a.b", "bulk z")),
    as_user("queues", "any queue", subs("x.1", "x.1 q", "x.* q", "x.> q")),
    as_user("queues", "delivery", subs("work q1", "free") + pubs("work", "free"), rb"MSG free 2"),
    as_user("denyqueue", "names", subs("a", "a prod", "a x.dev", "a dev"), REFUSED_SUB),
    as_user("denyqueue", "delivery", subs("b prod") + pubs("b")),
    as_user("responder", "publishes unasked", pubs("x", "req.x"), REFUSED_PUB),
    as_user("inbox", "own inbox", subs("_INBOX.me.*", "_INBOX.you.*", "_INBOX.>") + pubs("ask", "tell"), REFUSED_SUB),
    as_user("boss", "reserved reply stays refused", pub("x", b"", "$JS.ACK.x"), rb"Publish with Reply of"),
    as_user("inbox", "id of a refused SUB is free", b"SUB no 1\r\nSUB _INBOX.me.x 1\r\n", REFUSED_SUB),
    as_user("lists", "repeated refusals", pubs("x", "x", "x") + subs("y", "y"), REFUSED_PUB),
    as_user("lists", "long refused subject", pubs("x" * 600) + subs("y" * 600), REFUSED_PUB),
    as_user("lists", "quoted subject", pubs('say"hi"', "it's") + subs('say"hi"'), REFUSED_PUB),
    as_user("nothing", "no responders need no right", b"SUB in 1\r\n" + pub("x", b"", "in"), REFUSED_PUB),
]


def ask(talk: Talk, user: str) -> tuple[Peer, Peer]:
    """A responder that has received one request, and the asker with its inbox."""
    responder = talk.connect("responder", user=user, **{"pass": "p"})
    responder.send(b"SUB req.> 1\r\n").sync()
    asker = talk.connect("asker", user="boss", **{"pass": "p"})
    asker.send(b"SUB in.> 1\r\n" + pub("req.x", b"?", "in.1")).sync()
    responder.sync()
    return responder, asker


def answers(user: str, count: int) -> Script:
    """A script in which a responder answers one request several times."""

    def run(talk: Talk) -> None:
        responder, asker = ask(talk, user)
        for index in range(count):
            responder.send(pub("in.1", b"%d" % index)).sync()
        responder.send(pubs("in.2", "never")).sync()
        asker.sync()

    run.__name__ = f"{user} answers {count} times"
    return run


def each_request_lends_its_own_right(talk: Talk) -> None:
    responder, asker = ask(talk, "responder")
    asker.send(pub("req.y", b"?", "in.2") + pub("req.z", b"?")).sync()
    responder.sync()
    responder.send(pubs("in.2", "in.1", "in.2", "in.1")).sync()
    asker.sync()


def right_to_answer_expires(talk: Talk) -> None:
    responder, asker = ask(talk, "brief")
    # Rounds until the millisecond is over; the answer that ends them is the refusal.
    for _ in range(200):
        responder.send(pub("in.1", b"late"))
        if b"Permissions Violation" in responder.sync():
            break
    asker.sync()
    talk.note("refused" if b"Permissions Violation" in responder.received else "always allowed")
    responder.received.clear()
    asker.received.clear()


def answer_with_headers(talk: Talk) -> None:
    responder, asker = ask(talk, "responder")
    responder.send(hpub("in.1", b"A: b\r\n", b"yes")).sync()
    asker.sync()
    talk.must_show(rb"HMSG in.1 1")


SCRIPTS: list[Script] = [
    answers("responder", 2),
    answers("thrice", 4),
    answers("endless", 10),
    each_request_lends_its_own_right,
    right_to_answer_expires,
    answer_with_headers,
]


@each([*CASES, *SCRIPTS])
def test_permissions(both: Both, script: Script) -> None:
    both(CONFIG).agree(script)
