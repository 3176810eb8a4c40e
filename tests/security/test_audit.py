"""The audit trail: every administrative action once, with its result, where nobody can change it."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import nats
import pytest
from click.testing import CliRunner

import slipstream
from slipstream.cli.main import cli
from slipstream.client.options import ClientTimeout
from slipstream.config.record import replace
from slipstream.config.validate import unsupported
from slipstream.errors import ConfigError
from slipstream.sync.client import Client
from slipstream.testing import ServerThread
from support.config_loading import errors, options
from support.jwt import ACCOUNT, OPERATOR, USER, Key, account_claims, token, user_claims
from support.keys import url_base64
from support.servers import Launcher
from support.three_servers import three_servers

TRAIL = "SLIPSTREAM_AUDIT"
CONFIG = """
listen: "127.0.0.1:-1"
server_name: audited
accounts {
  APP { jetstream: enabled, users: [{user: ann, password: a}] }
  $SYS { users: [{user: admin, password: s}] }
}
jetstream { store_dir: "%s", audit: true }
"""


def configured(directory: Path, text: str = CONFIG) -> Any:
    return options(text % directory)


async def connect(server: slipstream.Server, user: str = "ann") -> Any:
    return await nats.connect(server.url, user=user, password={"ann": "a", "admin": "s"}[user])


async def ask(client: Any, verb: str, body: object = None) -> dict[str, Any]:
    answer = await client.request(f"$JS.API.{verb}", b"" if body is None else json.dumps(body).encode(), timeout=10)
    found: dict[str, Any] = json.loads(answer.data)
    return found


async def records(server: slipstream.Server) -> list[dict[str, Any]]:
    """What was written down, read as any stream is."""
    admin = await connect(server, "admin")
    info = await ask(admin, f"STREAM.INFO.{TRAIL}")
    state = info["state"]
    found = []
    for seq in range(state["first_seq"], state["last_seq"] + 1):
        message = await admin.jetstream().get_msg(TRAIL, seq)
        found.append(json.loads(message.data))
        assert message.subject == f"$SLIPSTREAM.AUDIT.{found[-1]['action']}"
    await admin.close()
    return found


STREAM = {"name": "S", "subjects": ["s.>"], "storage": "file"}
DURABLE = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}}
# what is called, with what, the action that it is, and the code it is refused with
CALLS: list[tuple[str, object, str, int]] = [
    ("STREAM.CREATE.S", STREAM, "stream.create", 0),
    ("STREAM.CREATE.S", {**STREAM, "subjects": ["t"]}, "stream.create", 10058),
    ("STREAM.UPDATE.S", {**STREAM, "max_msgs": 10}, "stream.update", 0),
    ("STREAM.UPDATE.S", {**STREAM, "storage": "memory"}, "stream.update", 10052),
    ("CONSUMER.CREATE.S.E", {"stream_name": "S", "config": {"name": "E"}}, "consumer.create", 0),
    ("CONSUMER.DURABLE.CREATE.S.C", DURABLE, "consumer.create", 0),
    ("CONSUMER.PAUSE.S.C", {"pause_until": "2099-01-01T00:00:00Z"}, "consumer.pause", 0),
    ("CONSUMER.RESET.S.C", None, "consumer.reset", 0),
    ("CONSUMER.RESET.S.C", {"seq": "x"}, "consumer.reset", 10025),
    ("CONSUMER.UNPIN.S.C", {"group": "g"}, "consumer.unpin", 10160),
    ("CONSUMER.DELETE.S.C", None, "consumer.delete", 0),
    ("CONSUMER.DELETE.S.C", None, "consumer.delete", 10014),
    ("STREAM.MSG.DELETE.S", {"seq": 1}, "message.delete", 0),
    ("STREAM.MSG.DELETE.S", {"seq": 99}, "message.delete", 10057),
    ("STREAM.PURGE.S", None, "stream.purge", 0),
    ("STREAM.RESTORE.S", {"config": STREAM, "state": {}}, "stream.restore", 10130),
    ("STREAM.SNAPSHOT.S", {"deliver_subject": ""}, "stream.snapshot", 10015),
    ("STREAM.PEER.REMOVE.S", {"peer": "p"}, "stream.peer_remove", 10010),
    ("STREAM.LEADER.STEPDOWN.S", None, "stream.leader_stepdown", 10010),
    ("CONSUMER.LEADER.STEPDOWN.S.C", None, "consumer.leader_stepdown", 10010),
    ("STREAM.DELETE.S", None, "stream.delete", 0),
    ("STREAM.DELETE.S", None, "stream.delete", 10059),
]


async def test_every_action_is_there_once_with_its_result_and_stays(tmp_path: Path) -> None:
    async with slipstream.Server(configured(tmp_path)) as server:
        client = await connect(server)
        for number, (verb, body, _, code) in enumerate(CALLS):
            answer = await ask(client, verb, body)
            assert answer.get("error", {}).get("err_code", 0) == code, (verb, answer)
            if number == 3:
                await client.jetstream().publish("s.a", b"1")
                await client.jetstream().publish("s.a", b"2")
        for looking in ("INFO", "STREAM.NAMES", "STREAM.LIST", "STREAM.INFO.S", "CONSUMER.LIST.S"):
            await ask(client, looking)
        found = await records(server)
        assert [one["action"] for one in found] == [action for _, _, action, _ in CALLS]
        assert [one.get("error", {}).get("err_code", 0) for one in found] == [code for *_, code in CALLS]
        for one, (verb, body, _, code) in zip(found, CALLS, strict=True):
            assert one["result"] == ("error" if code else "ok")
            assert (one["account"], one["server"], one["subject"]) == ("APP", "audited", f"$JS.API.{verb}")
            who = one["client"]
            assert (who["user"], who["acc"], who["host"], who["id"]) == ("ann", "APP", "127.0.0.1", client.client_id)
            assert json.loads(one.get("request", "null")) == body
            assert one["stream"] == "S" and one.get("consumer", "") == (verb.split(".")[-1] if ".S." in verb else "")
        await client.close()
    async with slipstream.Server(configured(tmp_path)) as server:
        assert await records(server) == found
        admin = await connect(server, "admin")
        verified = await ask(admin, f"STREAM.VERIFY.{TRAIL}")
        assert verified["chained"] and verified["intact"] and verified["last_seq"] == len(CALLS)
        assert "error" not in await ask(admin, f"STREAM.CHECKPOINT.{TRAIL}")
        await admin.close()


async def test_nobody_changes_the_trail(tmp_path: Path) -> None:
    async with slipstream.Server(configured(tmp_path)) as server:
        admin = await connect(server, "admin")
        await admin.publish("$SLIPSTREAM.AUDIT.stream.create", b"{}")
        refused = [
            (f"STREAM.DELETE.{TRAIL}", None),
            (f"STREAM.PURGE.{TRAIL}", None),
            (f"STREAM.MSG.DELETE.{TRAIL}", {"seq": 1}),
            (f"STREAM.UPDATE.{TRAIL}", {"name": TRAIL, "subjects": ["x"]}),
            ("STREAM.CREATE.MINE", {"name": "MINE", "subjects": ["mine"]}),
            ("ACCOUNT.PURGE.$SYS", None),
        ]
        for verb, body in refused:
            assert (await ask(admin, verb, body))["error"]["err_code"] == 10039
        found = await records(server)
        while len(found) < len(refused):
            found = await records(server)  # a record follows the answer
        assert [one["subject"] for one in found] == [f"$JS.API.{verb}" for verb, _ in refused]
        assert all(one["result"] == "error" and one["client"]["user"] == "admin" for one in found)
        client = await connect(server)
        assert (await ask(client, f"STREAM.INFO.{TRAIL}"))["error"]["err_code"] == 10059
        assert (await ask(admin, "ACCOUNT.PURGE.APP"))["initiated"]
        assert (await records(server))[-1]["target"] == "APP"
        await client.close()
        await admin.close()


async def test_off_unless_asked_for(tmp_path: Path) -> None:
    async with slipstream.Server(configured(tmp_path, CONFIG.replace(", audit: true", ""))) as server:
        client, admin = await connect(server), await connect(server, "admin")
        await ask(client, "STREAM.CREATE.S", STREAM)
        assert (await ask(admin, f"STREAM.INFO.{TRAIL}"))["error"]["err_code"] == 10039
        assert server.jetstream is not None and server.jetstream.trail is None
        assert list(server.jetstream.accounts) == ["APP"]
        await client.close()
        await admin.close()


async def test_limits_and_long_requests(tmp_path: Path) -> None:
    text = CONFIG.replace("audit: true", 'audit { max_age: "2160h", max_bytes: 2M }')
    for given, age, size in ((CONFIG, 0, 256 << 20), (text, 90 * 86_400 * 10**9, 2_000_000)):
        async with slipstream.Server(configured(tmp_path, given)) as server:
            client, admin = await connect(server), await connect(server, "admin")
            await ask(client, "STREAM.CREATE.S", {"name": "S", "description": "d" * 20_000})
            config = (await ask(admin, f"STREAM.INFO.{TRAIL}"))["config"]
            assert (config["max_age"], config["max_bytes"], config["discard"]) == (age, size, "old")
            assert config["metadata"]["slipstream.chain"] == "blake2b"
            last = (await records(server))[-1]
            assert last["request_bytes"] > 20_000 and len(last["request"]) == 8192
            await client.close()
            await admin.close()


async def test_an_encrypted_trail_and_what_monitoring_sees(tmp_path: Path) -> None:
    text = CONFIG.replace("audit: true", "key: hush, audit: true")
    for number in (1, 2):
        async with slipstream.Server(configured(tmp_path, text)) as server:
            client, admin = await connect(server), await connect(server, "admin")
            await ask(client, f"STREAM.CREATE.S{number}", {"name": f"S{number}"})
            assert [one["stream"] for one in await records(server)] == ["S1", "S2"][:number]
            server_id = server.identity.id
            answer = await admin.request(
                f"$SYS.REQ.SERVER.{server_id}.JSZ", b'{"accounts": true, "streams": true}', timeout=10
            )
            details = json.loads(answer.data)["data"]["account_details"]
            assert {one["name"]: [s["name"] for s in one["stream_detail"]] for one in details} == {
                "APP": ["S1", "S2"][:number],
                "$SYS": [TRAIL],
            }
            answer = await admin.request(f"$SYS.REQ.SERVER.{server_id}.HEALTHZ", b"", timeout=10)
            assert json.loads(answer.data)["data"]["status"] == "ok"
            await client.close()
            await admin.close()
    assert not any(b"stream.create" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("block", "complaint"),
    [
        ('audit: "yes"', "Expected map or bool to define audit"),
        ("audit { max_bytes: 1K }", "Expected 1M at least"),
        ('audit { max_age: "1ms" }', "Expected a duration of a second at least"),
        ("audit { max_msgs: 1 }", "unknown field"),
    ],
)
def test_what_cannot_be_is_refused(block: str, complaint: str) -> None:
    assert any(complaint in error for error in errors(f"jetstream {{ {block} }}"))


def test_there_must_be_a_system_account() -> None:
    (found,) = unsupported(options("no_system_account: true\njetstream { audit: true }"))
    assert "audit is kept in the system account" in str(found)


async def test_what_cannot_be_written_is_told_and_blocks_nothing(tmp_path: Path) -> None:
    lines: list[str] = []

    def log(level: str, text: str) -> None:
        lines.append(f"{level} {text}")

    text = CONFIG.replace("audit: true", "max_file_store: 1M, audit: true")
    async with slipstream.Server(configured(tmp_path, text), log=log) as server:  # type: ignore[arg-type]
        client = await connect(server)
        assert "error" not in await ask(client, "STREAM.CREATE.S", STREAM)
        await client.close()
    assert any("ERR Audit trail can not be kept: insufficient storage" in line for line in lines)
    (lost,) = (line for line in lines if "Audit record not written" in line)
    assert "stream.create 'APP > S' by ann from 127.0.0.1" in lost and lost.endswith(": ok")


async def test_reload_and_commands(tmp_path: Path) -> None:
    problem = ""

    def reload() -> None:
        if problem:
            raise ConfigError(problem)

    async with slipstream.Server(configured(tmp_path), on_reload_request=reload) as server:
        admin = await connect(server, "admin")
        subject = f"$SYS.REQ.SERVER.{server.identity.id}"
        await admin.request(f"{subject}.RELOAD", b"", timeout=10)
        problem = "the file is wrong"
        await admin.request(f"{subject}.RELOAD", b"", timeout=10)
        await admin.request(f"{subject}.KICK", json.dumps({"cid": 999_999}).encode(), timeout=10)
        server.reload(replace(server.options, max_connections=100))
        found = await records(server)
        assert [one["action"] for one in found] == ["server.reload", "server.reload", "server.kick"]
        assert [one["result"] for one in found] == ["ok", "error", "error"]
        assert found[1]["error"]["description"] == "the file is wrong"
        assert [one["client"].get("user") for one in found] == ["admin", "admin", "admin"]
        await admin.close()


def test_a_reload_by_signal(ours: Launcher, tmp_path: Path) -> None:
    text = CONFIG.replace('listen: "127.0.0.1:-1"', "") % tmp_path
    server = ours.fresh(text)
    server.reload(text + "max_payload: 64K\n")
    server.reload(text + "max_payload: wrong\n")
    with slipstream.connect(f"nats://admin:s@127.0.0.1:{server.port}") as admin:
        found = [json.loads(message.data) for message in admin.jetstream().stream(TRAIL).read()]
    assert [(one["action"], one["target"], one["result"]) for one in found] == [
        ("server.reload", "hangup", "ok"),
        ("server.reload", "hangup", "error"),
    ]


operator, stranger = Key(OPERATOR, "operator"), Key(OPERATOR, "stranger")
system, app, boss = Key(ACCOUNT, "SYS"), Key(ACCOUNT, "APP"), Key(USER, "boss")


async def test_claims_that_were_pushed(tmp_path: Path) -> None:
    text = f"""
    listen: "127.0.0.1:-1"
    operator: {token(operator, operator, {"system_account": system.public})}
    resolver {{ type: full, dir: "{tmp_path}/jwts", allow_delete: true }}
    resolver_preload {{ {system.public}: {token(operator, system, account_claims())} }}
    jetstream {{ store_dir: "{tmp_path}/store", audit: true }}
    """
    async with slipstream.Server(options(text)) as server:
        mine = token(system, boss, user_claims())
        admin = await nats.connect(
            server.url,
            user_jwt_cb=lambda: mine.encode(),
            signature_cb=lambda nonce: _signed(boss, nonce),
        )
        subject = f"$SYS.REQ.ACCOUNT.{app.public}.CLAIMS.UPDATE"
        await admin.request(subject, token(operator, app, account_claims()).encode(), timeout=10)
        await admin.request(subject, token(stranger, app, account_claims()).encode(), timeout=10)
        await admin.request("$SYS.REQ.CLAIMS.DELETE", b"no token", timeout=10)
        messages = [await admin.jetstream().get_msg(TRAIL, seq) for seq in (1, 2, 3)]
        found = [json.loads(message.data or b"") for message in messages]
        assert [(one["action"], one["result"]) for one in found] == [
            ("claims.update", "ok"),
            ("claims.update", "error"),
            ("claims.delete", "error"),
        ]
        assert found[0]["target"] == app.public and found[0]["subject"] == subject
        assert all(one["client"]["user"] == boss.public for one in found)
        await admin.close()


def _signed(key: Key, nonce: str) -> bytes:
    return url_base64(key.sign(nonce.encode())).encode()


def run(server: ServerThread, user: str, *words: str) -> tuple[int, str]:
    login = ("-s", server.url, "--user", user, "--password", {"ann": "a", "admin": "s"}[user])
    done = CliRunner().invoke(cli, [*login, *words], catch_exceptions=False)
    return done.exit_code, done.output


def test_the_command_line_and_restores(tmp_path: Path) -> None:
    with ServerThread(configured(tmp_path / "store")) as server:
        assert run(server, "ann", "stream", "add", "S", "--subjects", "s.>", "--defaults")[0] == 0
        assert run(server, "ann", "stream", "backup", "S", str(tmp_path / "backup"))[0] == 0
        assert run(server, "ann", "stream", "rm", "S", "-f")[0] == 0
        code, said = run(server, "ann", "stream", "restore", str(tmp_path / "backup"))
        assert code == 0, said
        assert run(server, "ann", "stream", "rm", "NONE", "-f")[0] != 0

        def listed(*flags: str) -> list[tuple[str, str]]:
            code, said = run(server, "admin", "audit", "--json", *flags)
            assert code == 0, said
            return [(one["action"], one["result"]) for one in map(json.loads, said.splitlines())]

        everything = listed()
        assert [one for one in everything if one[1] == "ok"] == [
            ("stream.create", "ok"),
            ("stream.snapshot", "ok"),
            ("stream.delete", "ok"),
            ("stream.restore", "ok"),
        ]
        assert listed("--since", "1h", "--user", "ann", "--account", "APP") == everything
        assert listed("--user", "bob") == listed("--stream", "T") == []
        assert listed("--action", "stream.restore") == [("stream.restore", "ok")]
        program = [sys.executable, "-c", "from slipstream.cli.main import main; main()", "-s", server.url]
        flags = ["--follow", "--json", "--count", str(len(everything) + 1)]
        words = [*program, "--user", "admin", "--password", "s", "audit", *flags]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as following:
            assert run(server, "ann", "stream", "purge", "S", "-f")[0] == 0
            everything.append(("stream.purge", "ok"))
            said, _ = following.communicate(timeout=60)
        assert [(one["action"], one["result"]) for one in map(json.loads, said.splitlines())] == everything
        assert listed("--failed") == [one for one in everything if one[1] == "error"]
        code, said = run(server, "admin", "audit", "--stream", "S", "--action", "stream.delete")
        assert code == 0 and "stream.delete APP > S by ann from 127.0.0.1 cid" in said and said.endswith(": ok\n")
        assert "No actions found" in run(server, "admin", "audit", "--user", "bob")[1]
        code, said = run(server, "admin", "stream", "verify", TRAIL)
        assert code == 0 and f"Stream {TRAIL} is intact" in said
        code, said = run(server, "ann", "audit")
        assert code == 1 and "there is no audit trail to read here" in " ".join(said.split())


def wait_for_answers_of_all(client: Client, count: int) -> None:
    """Until so many servers know each other: routes of some may be made later than those of the meta group."""
    for attempt in range(60):
        with client.subscribe(f"ready.{attempt}") as answers:
            client.publish("$SYS.REQ.SERVER.PING.IDZ", b"", reply=f"ready.{attempt}")
            try:
                for _ in range(count):
                    answers.next(timeout=1)
            except ClientTimeout:
                continue
            return
    raise AssertionError("not all servers answer")


def test_each_server_of_a_cluster_shows_its_own_trail(tmp_path: Path) -> None:
    pytest.importorskip("slipstream_raft")
    accounts = "accounts { $SYS { users: [{user: admin, password: s}] } }"
    with three_servers(tmp_path, each=accounts, jetstream="audit: true") as servers, ExitStack() as open_:
        clients = {
            name: open_.enter_context(slipstream.connect(server.url, user="admin", password="s", timeout=30))
            for name, server in servers.items()
        }
        for client in clients.values():
            wait_for_answers_of_all(client, len(servers))
            heard = open_.enter_context(client.subscribe("heard"))
            client.publish(f"$JS.API.STREAM.INFO.{TRAIL}", b"", reply="heard")
            # What another server says to this comes before what it says to the next question.
            client.publish("$SYS.REQ.SERVER.PING.IDZ", b"", reply="heard")
            said = [heard.next(timeout=30).json() for _ in range(4)]
            assert sum("config" in one for one in said) == 1
            heard.close()
