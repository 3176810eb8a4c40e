"""Services and events of the system account, without sockets: interest, timers, who may ask what."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitoring.world import World, login, two_accounts
from slipstream.config.options import Options
from slipstream.monitoring.limits import STATSZ_FIRST_NS, STATSZ_INTERVAL_NS
from slipstream.monitoring.monitoring import Monitoring
from slipstream.monitoring.system.request_options import BadOptions, read_options
from slipstream.monitoring.system.requests import OWN_SUBJECTS, SYSTEM_SUBJECTS
from slipstream.monitoring.system.services import ACCOUNT_SERVICES, COMMANDS, OWN_SERVICES, SERVER_SERVICES, Service
from slipstream.protocol.connection import ClientConnection


class Party:
    """A monitored world with a system user."""

    def __init__(self, options: Options | None = None) -> None:
        self.world = World(options or two_accounts())
        self.monitoring = Monitoring(self.world)
        self.system = self.world.connect(feed=b"SUB in 1\r\n", **login("sys"))
        self.world.sent_to(self.system)

    async def start(self) -> Party:
        await self.monitoring.start()
        return self

    def ask(self, subject: str, body: bytes = b"", asker: ClientConnection | None = None) -> Any:
        """The answer as JSON, or the raw bytes if there is none."""
        client = asker or self.system
        client.parser.feed(b"PUB %b in %d\r\n%b\r\n" % (subject.encode(), len(body), body))
        sent = self.world.sent_to(client)
        return json.loads(sent.partition(b"\r\n")[2]) if sent.startswith(b"MSG in 1") else sent

    def heard(self, client: ClientConnection) -> list[tuple[str, Any]]:
        """Subjects and contents of the messages a client got."""
        found = []
        sent = self.world.sent_to(client)
        while sent.startswith(b"MSG "):
            line, _, rest = sent.partition(b"\r\n")
            size = int(line.split()[-1])
            found.append((line.split()[1].decode(), json.loads(rest[:size])))
            sent = rest[size + 2 :]
        return found


@pytest.fixture
async def party() -> Party:
    return await Party().start()


NO_RESPONDERS = b"NATS/1.0 503"


async def test_ordinary_accounts_reach_the_listed_services_only(party: Party) -> None:
    """Every service there is, asked from an account that is not the system's."""
    asker = party.world.connect(feed=b"SUB in 1\r\n", **login("a"))
    party.world.sent_to(asker)
    server_id = party.world.identity.id
    subjects = ["$SYS.REQ.SERVER.PING", "$SYS.DEBUG.SUBSCRIBERS", "$SYS.REQ.USER.A.INFO"]
    for name in (*SERVER_SERVICES, *COMMANDS, "IDZ", "STATSZ"):
        subjects += [f"$SYS.REQ.SERVER.PING.{name}", f"$SYS.REQ.SERVER.{server_id}.{name}"]
    for name in (*ACCOUNT_SERVICES, "CONNS"):
        subjects += [f"$SYS.REQ.ACCOUNT.{account}.{name}" for account in ("A", "B", "SYS", "PING")]
    allowed = {subject.decode() for subject in OWN_SUBJECTS}
    for subject in subjects:
        answer = party.ask(subject, b'{"cid":1}', asker)
        if subject in allowed:
            assert "server" in answer
        else:
            assert NO_RESPONDERS in answer, subject
    assert allowed == {*OWN_SERVICES, "$SYS.REQ.USER.INFO"}


async def test_own_services_never_show_another_account(party: Party) -> None:
    party.world.connect(name="of-b", **login("b"))
    asker = party.world.connect(feed=b"SUB in 1\r\n", **login("a"))
    party.world.sent_to(asker)
    for subject in OWN_SERVICES:
        for body in (b"", b'{"acc":"B"}', b'{"accounts":["B"],"include_unused":true}', b'{"cid":2}', b'{"state":2}'):
            answer = json.dumps(party.ask(subject, body, asker))
            assert "of-b" not in answer
            assert '"acc": "B"' not in answer


async def test_every_service_answers_the_system_account(party: Party) -> None:
    for name in SERVER_SERVICES:
        assert "data" in party.ask(f"$SYS.REQ.SERVER.PING.{name}"), name
    for name in ACCOUNT_SERVICES:
        assert {"data", "error"} & party.ask(f"$SYS.REQ.ACCOUNT.SYS.{name}").keys(), name
    assert SYSTEM_SUBJECTS.keys() >= {b"$SYS.REQ.SERVER.*.*", b"$SYS.REQ.ACCOUNT.*.*"}


async def test_answers_are_numbered(party: Party) -> None:
    numbers = [party.ask("$SYS.REQ.SERVER.PING.HEALTHZ")["server"]["seq"] for _ in range(3)]
    assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2]


async def test_no_system_account_no_services() -> None:
    party = await Party(Options(no_system_account=True)).start()
    assert NO_RESPONDERS in party.ask("$SYS.REQ.USER.INFO")
    assert not party.world.timers


async def test_nothing_is_left_after_stop(party: Party) -> None:
    await party.monitoring.stop()
    assert NO_RESPONDERS in party.ask("$SYS.REQ.SERVER.PING.VARZ")
    assert all(timer.cancelled for timer in party.world.timers)
    hub = party.world.hub
    assert not (hub.on_connected or hub.on_closed or hub.logins.on_denied)


async def test_events_are_built_only_for_listeners(party: Party) -> None:
    before = party.ask("$SYS.REQ.SERVER.PING.HEALTHZ")["server"]["seq"]
    party.world.connect(**login("a"))
    assert party.ask("$SYS.REQ.SERVER.PING.HEALTHZ")["server"]["seq"] == before + 1


async def test_events_of_a_client(party: Party) -> None:
    party.system.parser.feed(b"SUB $SYS.ACCOUNT.> 2\r\nSUB $SYS.SERVER.> 3\r\n")
    client = party.world.connect(feed=b"PUB x 2\r\nhi\r\n", name="n", **login("a"))
    party.world.pass_time(2)
    client.parser.feed(b"+BAD\r\n")
    subjects = [subject for subject, _ in party.heard(party.system)]
    assert subjects == [
        "$SYS.SERVER.ACCOUNT.A.CONNS",
        "$SYS.ACCOUNT.A.SERVER.CONNS",
        "$SYS.ACCOUNT.A.CONNECT",
        "$SYS.ACCOUNT.A.DISCONNECT",
        "$SYS.SERVER.ACCOUNT.A.CONNS",
        "$SYS.ACCOUNT.A.SERVER.CONNS",
    ]


async def test_refused_client_is_shown_without_its_secrets(party: Party) -> None:
    party.system.parser.feed(b"SUB $SYS.SERVER.*.CLIENT.AUTH.ERR 2\r\n")
    party.world.connect(auth_token="hush-hush", sig="hush-sig", jwt="hush.jwt.x")
    ((subject, event),) = party.heard(party.system)
    assert subject == f"$SYS.SERVER.{party.world.identity.id}.CLIENT.AUTH.ERR"
    assert event["client"]["user"] == "[REDACTED]"
    assert event["client"]["acc"] == "$G"
    assert "hush" not in json.dumps(event)


async def test_numbers_come_less_often_with_time(party: Party) -> None:
    party.system.parser.feed(b"SUB $SYS.SERVER.*.STATSZ 2\r\n")
    delays = []
    for _ in range(8):
        timer = next(timer for timer in reversed(party.world.timers) if timer.delay_ns <= STATSZ_INTERVAL_NS)
        party.world.timers.remove(timer)
        delays.append(timer.delay_ns)
        timer.callback()
    assert delays[:3] == [STATSZ_FIRST_NS, 2 * STATSZ_FIRST_NS, 4 * STATSZ_FIRST_NS]
    assert delays[-1] == STATSZ_INTERVAL_NS
    assert len(party.heard(party.system)) == 8


async def test_connection_counts_are_repeated(party: Party) -> None:
    party.world.connect(**login("a"))
    party.system.parser.feed(b"SUB $SYS.ACCOUNT.*.SERVER.CONNS 2\r\n")
    timer = next(timer for timer in party.world.timers if timer.delay_ns > STATSZ_INTERVAL_NS)
    timer.callback()
    assert [subject for subject, _ in party.heard(party.system)] == [
        "$SYS.ACCOUNT.A.SERVER.CONNS",
        "$SYS.ACCOUNT.SYS.SERVER.CONNS",
    ]


async def test_good_bye(party: Party) -> None:
    party.system.parser.feed(b"SUB $SYS.SERVER.> 2\r\n")
    party.monitoring.announce_lame_duck()
    party.monitoring.announce_shutdown()
    lame_duck, shutdown = party.heard(party.system)
    assert (lame_duck[0][-8:], shutdown[0][-8:]) == ("LAMEDUCK", "SHUTDOWN")
    assert shutdown[1]["name"] == "unit"
    # After the good-bye there are no more events.
    party.world.connect(**login("a"))
    assert party.heard(party.system) == []


async def test_reload_brings_services_to_new_accounts(party: Party) -> None:
    options = two_accounts()
    more = type(options.accounts[0])("NEW", users=(type(options.accounts[0].users[0])("new", "new-secret"),))
    party.world.hub.reload(Options(server_name="unit", accounts=(*options.accounts, more), system_account="SYS"))
    party.monitoring.reloaded()
    asker = party.world.connect(feed=b"SUB in 1\r\n", **login("new"))
    party.world.sent_to(asker)
    assert party.ask("$SYS.REQ.USER.INFO", asker=asker)["data"]["account"] == "NEW"
    assert len(party.ask("$SYS.REQ.ACCOUNT.PING.STATZ")["data"]["account_statz"]) == 2


async def test_reload_command_needs_somebody_who_knows_the_file(party: Party) -> None:
    subject = f"$SYS.REQ.SERVER.{party.world.identity.id}.RELOAD"
    assert party.ask(subject)["error"]["code"] == 500
    asked = []
    party.world.on_reload_request = lambda: asked.append(1)
    assert set(party.ask(subject)) == {"server"}
    assert asked == [1]


SERVICES: list[Service] = [
    *SERVER_SERVICES.values(),
    *COMMANDS.values(),
    *(row.service for row in ACCOUNT_SERVICES.values()),
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from(
    ["sort", "auth", "offset", "limit", "cid", "state", "acc", "account", "server_name", "tags", "exact_match", "all"]
)


@given(st.sampled_from(SERVICES), st.dictionaries(NAMES | st.text(), VALUES))
def test_any_options_are_read_or_refused(service: Service, given_options: dict[str, Any]) -> None:
    body = json.dumps(given_options).encode()
    try:
        read_options(body, service.options, service.go_name)
    except BadOptions as refused:
        assert str(refused).startswith("json: cannot unmarshal ")


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    try:
        read_options(body, SERVER_SERVICES["CONNZ"].options, "ConnzEventOptions")
    except BadOptions as refused:
        assert str(refused)
