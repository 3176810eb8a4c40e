"""The bulk client against running servers: ours with bulk calls, nats-server without, and every way to sign in."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

import slipstream  # noqa: E402
from slipstream.bulk import BulkClient, BulkError, ConnectOptions, Plan, StreamIdentity, connect  # noqa: E402
from slipstream.bulk.arrow import ALL_COLUMNS  # noqa: E402
from slipstream.bulk.lent import LentFiles, LentPlace  # noqa: E402
from slipstream.client.wire import WireClient  # noqa: E402
from slipstream.jetstream.bulk.limits import BULK_MEMORY_CHUNK_BYTES, BULK_MEMORY_CREDIT  # noqa: E402
from slipstream.jetstream.limits import BULK_PLACES_CHUNKS  # noqa: E402
from slipstream.units import KIB  # noqa: E402
from support.jwt import ACCOUNT, OPERATOR, USER, Key, account_claims, token, user_claims  # noqa: E402
from support.keys import USER_KEY, USER_SEED  # noqa: E402
from support.server_process import ServerProcess  # noqa: E402
from support.servers import Launcher  # noqa: E402
from tlsfiles import Authority  # noqa: E402

CONFIG = 'jetstream: {store_dir: "%s"}\n'
MESSAGES = 2_500


def api(wire: WireClient, call: str, body: Any = b"") -> dict[str, Any]:
    payload = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer: dict[str, Any] = json.loads(wire.request(f"$JS.API.{call}", payload).payload)
    assert "error" not in answer, answer
    return answer


def make_stream(wire: WireClient, name: str = "ORDERS", count: int = MESSAGES, **config: Any) -> None:
    """Messages of every kind: with and without headers, repeated headers, empty, removed."""
    api(wire, f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"], **config})
    for number in range(count):
        header = b""
        if number % 5 == 0:
            header = b"NATS/1.0\r\nTrace: %d\r\nTag: a\r\nTag: b\r\n\r\n" % number
        elif number % 7 == 0:
            header = b"NATS/1.0\r\nNats-Subject: not.this\r\nNats-Sequence: 1\r\n\r\n"
        wire.publish(f"{name}.eu.{number % 10}", b"payload-%d" % number if number % 11 else b"", header=header)
    wire.flush()
    while api(wire, f"STREAM.INFO.{name}")["state"]["messages"] < count:
        pass
    for seq in (3, count // 2, count - 1):
        api(wire, f"STREAM.MSG.DELETE.{name}", {"seq": seq})


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the servers of this module keep their streams."""
    return tmp_path_factory.mktemp("bulk")


def running(launcher: Launcher, directory: Path) -> ServerProcess:
    return launcher(CONFIG % (directory / launcher.kind))


@pytest.fixture
def server(launcher: Launcher, directory: Path) -> Iterator[ServerProcess]:
    """Either kind of server, with a stream that allows direct gets and one that does not."""
    process = running(launcher, directory)
    with WireClient(process.url) as wire:
        names = json.loads(wire.request("$JS.API.STREAM.NAMES").payload)["streams"] or []
        if "ORDERS" not in names:
            make_stream(wire, allow_direct=True)
            make_stream(wire, "PLAIN", 20)
    yield process


def rows(client: BulkClient, stream: str = "ORDERS", first: int = 1, last: int = MESSAGES, **options: Any) -> list[Any]:
    reader = client.read(stream, first, last, **options)
    found = [row for batch in reader for row in batch.to_pylist()]
    assert reader.rows == len(found)
    return found


def test_every_transport_gives_the_same_rows(launcher: Launcher, server: ServerProcess) -> None:
    transports = ["auto", "direct", "consumer"] + (["bulk"] if launcher.kind == "ours" else [])
    with connect(ConnectOptions(server.url)) as client:
        assert client.is_slipstream is (launcher.kind == "ours")
        found = {transport: rows(client, columns=ALL_COLUMNS, transport=transport) for transport in transports}
        assert all(each == found["auto"] for each in found.values())
        expected = [seq for seq in range(1, MESSAGES + 1) if seq not in (3, MESSAGES // 2, MESSAGES - 1)]
        assert [row["seq"] for row in found["auto"]] == expected
        sixth, eighth, first = (found["auto"][expected.index(seq)] for seq in (6, 8, 1))
        assert sixth["headers"] == [("Trace", ["5"]), ("Tag", ["a", "b"])]
        assert eighth["headers"] == [("Nats-Subject", ["not.this"]), ("Nats-Sequence", ["1"])]
        assert (first["payload"], first["subject"], first["stream"]) == (b"", "ORDERS.eu.0", "ORDERS")
        assert client.read("ORDERS", 1, 5).transport == ("bulk" if launcher.kind == "ours" else "direct")
        assert client.read("PLAIN", 1, 5).transport == ("bulk" if launcher.kind == "ours" else "consumer")
        checksums = set()
        for transport in transports:
            reader = client.read("ORDERS", 1, MESSAGES, transport=transport)
            list(reader)
            checksums.add(reader.crc)
        assert len(checksums) == 1, "records are the same, byte for byte"
        assert b"".join(client.read_records("ORDERS", 1, 50)) == b"".join(
            client.read_records("ORDERS", 1, 50, transport="direct")
        )


def test_through_memory_and_in_messages(ours: Launcher, tmp_path: Path) -> None:
    server = ours(CONFIG % tmp_path)
    with WireClient(server.url) as wire:
        make_stream(wire, count=300)
    found: list[list[Any]] = []
    for shares in (True, False):
        with connect(ConnectOptions(server.url)) as client:
            assert client.link.may_share_memory
            client.link.may_share_memory = shares
            found.append(rows(client, last=300))
            assert client.link.may_share_memory is shares
    assert found[0] == found[1]
    while holds_memory(server.pid):  # until it has heard that the client is gone; pytest's timeout bounds this
        pass


def holds_memory(pid: int) -> bool:
    """Whether a process has anonymous memory open; what it closes meanwhile does not count."""
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            if "memfd" in os.readlink(descriptor):
                return True
    return False


def test_written_through_memory_and_in_messages(ours: Launcher, tmp_path: Path) -> None:
    """Rows that fit the memory and one that does not; the same messages either way."""
    server = ours(CONFIG % tmp_path)
    payloads = [b"%d" % number * 50 for number in range(20_000)] + [b"x" * 700_000, b"last"]
    batch = pa.RecordBatch.from_arrays(
        [pa.array(["w.x"] * len(payloads)), pa.array(payloads, pa.binary())], names=["subject", "payload"]
    )
    found: list[list[bytes]] = []
    for shares in (True, False):
        name = f"W{shares:d}"
        with WireClient(server.url) as wire:
            api(wire, f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"]})
        with connect(ConnectOptions(server.url)) as client:
            client.link.may_share_memory = shares
            writer = client.stage(name, "T", subject=f"{name}.x")
            assert bool(writer._slots) is shares
            part = writer.write(batch).write(batch).close()
            assert client.commit(name, "T", 1, [part]).count == 2 * len(payloads)
            read = client.read(name, 1, 2 * len(payloads), columns=("payload",))
            found.append([one for batch in read for one in batch.column("payload").to_pylist()])
    assert found[0] == found[1] == payloads * 2


def test_filters_and_times(launcher: Launcher, server: ServerProcess) -> None:
    transports = ["direct", "consumer"] + (["bulk"] if launcher.kind == "ours" else [])
    with connect(ConnectOptions(server.url)) as client:
        times = {row["seq"]: row["ts_ns"] for row in rows(client, columns=("seq", "ts_ns"))}
        for transport in transports:
            chosen = {"columns": ("seq",), "transport": transport}
            one = rows(client, subjects=["ORDERS.eu.3"], first=1, last=100, **chosen)
            assert [row["seq"] for row in one] == list(range(4, 101, 10))
            two = rows(client, subjects=["ORDERS.eu.3", "ORDERS.*.5"], first=50, last=60, **chosen)
            assert [row["seq"] for row in two] == [54, 56]
            assert rows(client, subjects=["other"], **chosen) == []
            start, end = times[100], times[200]
            expected = [seq for seq, time in times.items() if start <= time < end]
            timed = rows(client, start_time_ns=start, end_time_ns=end, **chosen)
            assert [row["seq"] for row in timed] == expected


def test_plans(launcher: Launcher, server: ServerProcess) -> None:
    with connect(ConnectOptions(server.url)) as client:
        plan = client.plan("ORDERS", partitions=4)
        assert plan.exact is (launcher.kind == "ours")
        assert (plan.first, plan.last, len(plan.splits), plan.stream_last) == (1, MESSAGES, 4, MESSAGES)
        assert StreamIdentity.parse(plan.identity).created > 0
        assert plan.identity == client.stream_info("ORDERS")["identity"]
        expect = {split: split.messages if plan.exact else None for split in plan.splits}
        total = [
            row["seq"]
            for split in plan.splits
            for row in rows(client, first=split.first, last=split.last, expect_messages=expect[split])
        ]
        assert len(total) == MESSAGES - 3 and total == sorted(total)
        assert abs(plan.messages - len(total)) <= (0 if plan.exact else 30)
        assert client.plan("ORDERS", max_msgs=100).last == pytest.approx(101, abs=3)
        assert client.plan("ORDERS", first=MESSAGES, last=MESSAGES).messages == 1
        assert pickle.loads(pickle.dumps(plan)) == plan
        for refused in ({"last": MESSAGES + 1}, {"identity": "1/x"}):
            with pytest.raises(BulkError) as caught:
                client.plan("ORDERS", **refused)  # type: ignore[arg-type]
            assert caught.value.retryable is ("last" in refused)


def test_what_is_wrong_is_said(launcher: Launcher, server: ServerProcess) -> None:
    with connect(ConnectOptions(server.url)) as client:
        with pytest.raises(BulkError, match="stream not found") as caught:
            rows(client, "NOBODY")
        assert caught.value.err_code == 10059 and not caught.value.retryable
        with pytest.raises(BulkError) as caught:
            rows(client, last=MESSAGES + 1)
        assert caught.value.retryable
        with pytest.raises(BulkError, match=r"is not the (stream|one) asked for"):
            rows(client, identity="1/x")
        for wrong in ({"transport": "pigeon"}, {"columns": ("x",)}, {"headers": "x"}, {"batch_rows": 0}):
            with pytest.raises(BulkError):
                rows(client, **wrong)
        with pytest.raises(BulkError, match="not the name of a stream"):
            client.plan("A.B")
        with pytest.raises(BulkError, match="were planned"):
            rows(client, first=1, last=11, expect_messages=11)
        if launcher.kind == "real":
            calls = (
                lambda: rows(client, transport="bulk"),
                lambda: client.stage("ORDERS", "t"),
                lambda: client.commit("ORDERS", "t", 0, []),
                lambda: client.hold("ORDERS", 1),
            )
            for call in calls:
                with pytest.raises(BulkError, match="no bulk calls here"):
                    call()
        with pytest.raises(BulkError, match="does not offer direct gets"):
            rows(client, "PLAIN", last=20, transport="direct")


def test_several_reads_and_requests_on_one_connection(server: ServerProcess) -> None:
    with connect(ConnectOptions(server.url)) as client:
        one = client.read("ORDERS", 1, MESSAGES, columns=("seq",), batch_rows=100)
        two = client.read("PLAIN", 1, 20, columns=("seq",), batch_rows=5)
        taken = [next(one), next(two)]
        assert client.stream_info("PLAIN")["state"]["messages"] == 17
        taken += list(two)
        taken += list(one)
        assert sum(batch.num_rows for batch in taken) == MESSAGES - 3 + 17
        half = client.read("ORDERS", 1, MESSAGES, batch_rows=10)
        next(half)
        half.close()
        assert len(rows(client, "PLAIN", last=20)) == 17


def test_an_arrow_reader_in_one_call(server: ServerProcess) -> None:
    reader = slipstream.read_arrow(server.url, "ORDERS", columns=("seq", "payload"), subjects=["ORDERS.eu.1"])
    table = reader.read_all()
    assert table.schema.names == ["seq", "payload"]
    assert table.num_rows == MESSAGES // 10
    few = slipstream.read_arrow(ConnectOptions(server.url), "ORDERS", first=10, max_msgs=5, headers="raw").read_all()
    assert few.num_rows in (5, 6) and "hdr_raw" in few.schema.names
    with pytest.raises(BulkError):
        slipstream.read_arrow(server.url, "NOBODY")


# --- writing, which only our server offers ---------------------------------------------------------------------------


def batch(*numbers: int, width: int = 0) -> Any:
    payloads = [b"%0*d" % (width, n) for n in numbers]
    return pa.RecordBatch.from_pydict({"subject": ["W.x"] * len(numbers), "payload": payloads})


def test_writes_come_once_and_whole(ours: Launcher, tmp_path: Path) -> None:
    server = ours.fresh(CONFIG % tmp_path)
    with connect(ConnectOptions(server.url)) as client, WireClient(server.url) as wire:
        api(wire, "STREAM.CREATE.W", {"name": "W", "subjects": ["W.>"]})
        numbers = range(70_000)
        winner = client.stage("W", "query", part=0, attempt=1).write(batch(*numbers)).close()
        client.stage("W", "query", part=0, attempt=0).write(batch(1, 2, 3)).close()
        empty = client.stage("W", "query", part=1).close()
        assert json.loads(json.dumps(winner)) == winner
        done = client.commit("W", "query", 0, [winner, empty])
        assert (done.first_seq, done.last_seq, done.count, done.duplicate) == (1, 70_000, 70_000, False)
        assert client.commit("W", "query", 0, [winner, empty]).duplicate
        found = rows(client, "W", last=70_000, columns=("payload",))
        assert [row["payload"] for row in found] == [b"%d" % n for n in numbers]
        assert client.abort("W", "query") == 1
        with pytest.raises(BulkError, match="does not take this subject"):
            client.commit("W", "query", 1, [client.stage("W", "query", subject="other").write(batch(1)).close()])
        with client.stage("W", "query") as writer, pytest.raises(BulkError):
            writer.write(pa.RecordBatch.from_pydict({"payload": [b"x"]}))
        with pytest.raises(BulkError, match="keep_s is a number of seconds from 60 to 86400"):
            client.stage("W", "query", keep_s=59)
        part = client.stage("W", "query", keep_s=3600).write(batch(7)).close()
    server.kill()
    server.restart()
    with connect(ConnectOptions(server.url)) as client:
        assert client.commit("W", "query", 0, []).duplicate
        assert client.commit("W", "query", 1, [part]).first_seq == 70_001


def test_holds(ours: Launcher, tmp_path: Path) -> None:
    server = ours.fresh(CONFIG % tmp_path)
    with connect(ConnectOptions(server.url)) as client, WireClient(server.url) as wire:
        api(wire, "STREAM.CREATE.W", {"name": "W", "subjects": ["W.>"], "max_msgs": 10})
        client.commit("W", "t", 0, [client.stage("W", "t").write(batch(*range(10))).close()])
        plan = client.plan("W")
        hold = client.hold("W", plan.first, ttl_s=60)
        client.commit("W", "t", 1, [client.stage("W", "t").write(batch(*range(5))).close()])
        assert len(rows(client, "W", last=plan.last, expect_messages=plan.messages)) == 10
        assert client.hold("W", plan.first, hold_id=hold) == hold
        assert client.release("W", hold)
        assert not client.release("W", hold)
        with pytest.raises(BulkError, match="were planned"):
            rows(client, "W", last=plan.last, expect_messages=plan.messages)
    with pytest.raises(BulkError, match="hold not found"), connect(ConnectOptions(server.url)) as client:
        client.hold("W", 1, hold_id=hold)


def test_a_server_that_stops_is_an_error_that_may_pass(ours: Launcher, tmp_path: Path) -> None:
    server = ours.fresh(CONFIG % tmp_path)
    with connect(ConnectOptions(server.url, timeout=5)) as client, WireClient(server.url) as wire:
        api(wire, "STREAM.CREATE.W", {"name": "W", "subjects": ["W.>"]})
        # More than a reader is lent at once: what it was lent it reads to the end, with or without a server.
        lent = BULK_MEMORY_CREDIT * BULK_PLACES_CHUNKS * BULK_MEMORY_CHUNK_BYTES
        messages = 2 * lent // (16 * KIB)
        part = client.stage("W", "t").write(batch(*range(messages), width=16 * KIB)).close()
        client.commit("W", "t", 0, [part])
        reader = client.read("W", 1, messages, batch_rows=100)
        next(reader)
        server.kill()
        with pytest.raises(BulkError) as caught:
            for _ in reader:
                pass
        assert caught.value.retryable
        assert pickle.loads(pickle.dumps(caught.value)).retryable
    with pytest.raises(BulkError) as caught:
        connect(ConnectOptions(server.url, timeout=1))
    assert caught.value.retryable


# --- signing in ------------------------------------------------------------------------------------------------------


def connected(options: ConnectOptions) -> bool:
    with connect(pickle.loads(pickle.dumps(options))) as client:
        return bool(client.link.request("INFO")["type"])


def test_secrets_come_from_the_environment(launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BULK_SECRET", "s3cret")
    users = 'authorization {users: [{user: "joe", password: "s3cret"}]}'
    server = launcher.fresh(CONFIG % (tmp_path / "a") + users)
    good = ConnectOptions(f"nats://127.0.0.1:1,{server.url}", user="joe", password_env="BULK_SECRET")
    assert connected(good) and "s3cret" not in repr(good)
    assert connected(ConnectOptions(server.url.replace("//", "//joe:s3cret@")))
    for wrong in (ConnectOptions(server.url), ConnectOptions(server.url, user="joe", password_env="HOME")):
        with pytest.raises(BulkError, match="Authorization Violation"):
            connect(wrong)
    with pytest.raises(BulkError, match="BULK_NOTHING is not set"):
        connect(ConnectOptions(server.url, user="joe", password_env="BULK_NOTHING"))
    server = launcher.fresh(CONFIG % (tmp_path / "b") + 'authorization {token: "s3cret"}')
    assert connected(ConnectOptions(server.url, token_env="BULK_SECRET"))


def test_nkeys(launcher: Launcher, tmp_path: Path) -> None:
    (tmp_path / "user.nk").write_bytes(USER_SEED + b"\n")
    server = launcher.fresh(CONFIG % (tmp_path / "js") + "authorization {users: [{nkey: " + USER_KEY + "}]}")
    assert connected(ConnectOptions(server.url, nkey_file=str(tmp_path / "user.nk")))
    with pytest.raises(BulkError, match="cannot read"):
        connect(ConnectOptions(server.url, nkey_file=str(tmp_path / "none.nk")))
    with pytest.raises(BulkError, match="use one"):
        connect(ConnectOptions(server.url, nkey_file="a", creds_file="b"))


def test_credentials_files(real: Launcher, tmp_path: Path) -> None:
    operator, account, user = Key(OPERATOR, "O"), Key(ACCOUNT, "A"), Key(USER, "U")
    system = Key(ACCOUNT, "SYS")
    limits = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
    claims = account_claims()
    claims["limits"] = {**claims["limits"], **limits}  # type: ignore[dict-item]
    config = (
        f"operator: {token(operator, operator, {})}\nresolver: MEMORY\nsystem_account: {system.public}\n"
        f"resolver_preload: {{{account.public}: {token(operator, account, claims)}\n"
        f"{system.public}: {token(operator, system, account_claims())}}}\n"
    )
    server = real.fresh(CONFIG % (tmp_path / "js") + config)
    seed = user.seed.decode()
    (tmp_path / "user.creds").write_text(
        f"-----BEGIN NATS USER JWT-----\n{token(account, user, user_claims())}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )
    assert connected(ConnectOptions(server.url, creds_file=str(tmp_path / "user.creds")))


def test_tls(launcher: Launcher, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair, client = authority.issue("127.0.0.1", "localhost"), authority.issue("joe@example.com", name="client")
    tls = f'tls {{{pair.block}, ca_file: "{authority.ca_file}", verify: true}}'
    server = launcher.fresh(CONFIG % (tmp_path / "js") + tls)
    files = {"tls_cert": str(client.cert_file), "tls_key": str(client.key_file)}
    assert connected(ConnectOptions(server.url, tls_ca=str(authority.ca_file), **files))
    with pytest.raises(BulkError):
        connected(ConnectOptions(server.url))
    with pytest.raises(BulkError):
        connected(ConnectOptions(server.url, tls_ca=str(authority.ca_file)))
    with pytest.raises(BulkError, match="TLS files"):
        connect(ConnectOptions(server.url, tls_ca=str(tmp_path / "none.pem")))


def test_bulk_calls_need_the_right_to_publish_them(ours: Launcher, tmp_path: Path) -> None:
    """Without it the client falls back; with it alone it can read and do nothing else."""
    config = CONFIG % tmp_path + (
        'authorization {users: [{user: "all", password: "p"},'
        ' {user: "old", password: "p", permissions: {publish: {deny: "$JS.API.BULK.>"}}},'
        ' {user: "bulk", password: "p", permissions: {publish: "$JS.API.BULK.>", subscribe: "_INBOX.>"}}]}'
    )
    server = ours.fresh(config)
    url = server.url.replace("//", "//%s:p@")
    with WireClient(url % "all") as wire:
        make_stream(wire, count=30, allow_direct=True)
    with connect(ConnectOptions(url % "old")) as client:
        assert not client.is_slipstream
        assert client.read("ORDERS", 1, 30).transport == "direct"
        assert len(rows(client, last=30)) == 27
        with pytest.raises(BulkError, match="no bulk calls here") as caught:
            rows(client, last=30, transport="bulk")
        assert not caught.value.retryable
    with connect(ConnectOptions(url % "bulk")) as client:
        plan: Plan = client.plan("ORDERS")
        assert len(rows(client, last=plan.last, expect_messages=27)) == 27
        with pytest.raises(BulkError, match="Permissions Violation"):
            client.stream_info("ORDERS")


def test_accounts_and_domains(ours: Launcher, tmp_path: Path) -> None:
    """Another account's stream is not there; a service import gives the right to read it."""
    config = (
        f'jetstream: {{store_dir: "{tmp_path}", domain: "hub"}}\n'
        + 'accounts {A: {jetstream: enabled, users: [{user: "a", password: "p"}],'
        ' exports: [{service: "$JS.API.BULK.>", response: stream}]},'
        ' B: {jetstream: enabled, users: [{user: "b", password: "p"}],'
        ' imports: [{service: {account: A, subject: "$JS.API.BULK.>"}, to: "lake.BULK.>"}]}}'
    )
    server = ours.fresh(config)
    url = server.url.replace("//", "//%s:p@")
    with WireClient(url % "a") as wire:
        make_stream(wire, count=30)
    with connect(ConnectOptions(url % "a", domain="hub")) as client:
        assert client.is_slipstream and len(rows(client, last=30)) == 27
    with connect(ConnectOptions(url % "b")) as client, pytest.raises(BulkError, match="stream not found"):
        client.plan("ORDERS")
    with connect(ConnectOptions(url % "b", api_prefix="lake")) as client:
        assert client.is_slipstream
        assert client.plan("ORDERS").messages == 27
        assert len(rows(client, last=30)) == 27


def test_a_connection_that_is_gone_is_on_no_machine(ours: Launcher, tmp_path: Path) -> None:
    wire = WireClient(ours(CONFIG % tmp_path).url)
    assert wire.is_local
    wire.close()
    assert not wire.is_local


def test_files_are_there_for_a_reader_that_comes_late(
    ours: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has long said everything, also that this was all, when the reader opens the first file."""
    looks: list[bool] = []
    look = LentFiles.look

    def late(files: LentFiles, place: LentPlace, last: int) -> memoryview | None:
        if not looks:
            for _ in range(50):
                client.link.flush()
        found = look(files, place, last)
        looks.append(found is not None)
        return found

    monkeypatch.setattr(LentFiles, "look", late)
    server = ours(CONFIG % tmp_path)
    with WireClient(server.url) as wire:
        api(wire, "STREAM.CREATE.W", {"name": "W", "subjects": ["W.>"]})
    with connect(ConnectOptions(server.url)) as client:
        # One commit, so that the messages lie without gaps.
        client.commit("W", "t", 0, [client.stage("W", "t").write(batch(*range(1000))).close()])
        for _ in range(2):
            assert sum(found.num_rows for found in client.read("W", 1, 1000)) == 1000
    assert len(looks) >= 2 and all(looks)
