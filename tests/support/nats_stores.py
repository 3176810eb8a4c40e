"""Streams of every kind for the tests of migrations, and everything a client can see of them."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
from pathlib import Path
from typing import Any

import nats
from nats.js.api import KeyValueConfig

from support.backups import BackupClient

OBJECT = bytes(range(256)) * 1500
BLOCK_BYTES = 120_000  # `max_bytes` of streams that shall have several blocks, of 32,000 bytes each


class FilledStore:
    """Fills a server, and looks at what is in one."""

    def __init__(self, port: int) -> None:
        """Work with the server on a port."""
        self._port = port
        with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rb") as lines:
            info = json.loads(lines.readline().removeprefix(b"INFO "))
        self._version = tuple(int(part) for part in info["version"].split(".")[:2])

    def fill(self, *, with_kv: bool = True) -> None:
        """Make streams of every kind."""
        client = BackupClient(self._port)
        try:
            _limits(client)
            _removals(client)
            _queues(client)
            _compressed(client)
            if self._version >= (2, 11):
                _expiring(client)
        finally:
            client.close()
        if with_kv:
            asyncio.run(self._fill_buckets())

    def copy_orders(self, *, wait_for: int) -> None:
        """A mirror of ORDERS, a stream that collects from it, and one of whose copies nothing is left."""
        client = BackupClient(self._port)
        try:
            _create(client, "MIRROR", mirror={"name": "ORDERS"})
            _create(client, "COPIES", sources=[{"name": "ORDERS", "filter_subject": "orders.3"}, {"name": "LATER"}])
            _create(client, "WORKED", sources=[{"name": "LATER"}], retention="workqueue")
            for name, count in (("MIRROR", wait_for), ("COPIES", 1), ("WORKED", 5)):
                while client.api(f"STREAM.INFO.{name}")["state"]["messages"] < count:
                    pass
            client.api("STREAM.PURGE.WORKED")
        finally:
            client.close()

    def fill_small(self) -> None:
        """Make a few streams that need little room in an archive of tests."""
        client = BackupClient(self._port)
        try:
            _create(client, "ORDERS", max_msgs_per_subject=4, description="older")
            for number in range(40):
                _publish(
                    client, f"orders.{number % 7}", b"order %d" % number, f"K: {number}" if number % 3 == 0 else ""
                )
            for seq in (20, 30, 40):
                client.api("STREAM.MSG.DELETE.ORDERS", {"seq": seq, "no_erase": seq == 30})
            _consumer(client, "ORDERS", "worker", take=12, ack=5)
            _create(client, "JOBS", retention="workqueue")
            for number in range(12):
                _publish(client, f"jobs.{number}", b"job %d" % number)
            _consumer(client, "JOBS", "runner", take=6, ack=4)
            _create(client, "PACKED", compression="s2", max_bytes=BLOCK_BYTES)
            for number in range(60):
                _publish(client, f"packed.{number % 3}", b"some words that repeat %d " % number * 40)
            client.api("STREAM.MSG.DELETE.PACKED", {"seq": 7})
        finally:
            client.close()

    def in_memory(self) -> None:
        """Make a stream that is not on disk."""
        client = BackupClient(self._port)
        try:
            _create(client, "LIGHT", storage="memory")
            for number in range(10):
                _publish(client, "light.x", b"%d" % number)
        finally:
            client.close()

    async def _fill_buckets(self) -> None:
        connection = await nats.connect(f"nats://127.0.0.1:{self._port}")
        js = connection.jetstream()
        bucket = await js.create_key_value(KeyValueConfig(bucket="prices", history=3))
        for round_ in range(5):
            for key in ("gold", "silver", "tin.ore"):
                await bucket.put(key, f"{key} {round_}".encode())
        await bucket.delete("silver")
        await bucket.purge("tin.ore")
        store = await js.create_object_store("files")
        await store.put("picture", OBJECT)
        await store.put("gone", b"x" * 100)
        await store.delete("gone")
        await connection.close()

    def publish(self, subject: str, payload: bytes) -> None:
        """Store one message."""
        client = BackupClient(self._port)
        try:
            _publish(client, subject, payload)
        finally:
            client.close()

    def wait_for(self, *streams: str, last_payload: bytes) -> None:
        """Return when a message has arrived in streams that copy it."""
        client = BackupClient(self._port)
        try:
            for name in streams:
                wanted = base64.b64encode(last_payload).decode()
                while True:
                    last_seq = client.api(f"STREAM.INFO.{name}")["state"]["last_seq"]
                    found = client.api(f"STREAM.MSG.GET.{name}", {"seq": last_seq}).get("message", {})
                    if found.get("data") == wanted:
                        break
        finally:
            client.close()

    def buckets(self) -> Any:
        """What the official client reads from the bucket and the object store."""

        async def read() -> Any:
            connection = await nats.connect(f"nats://127.0.0.1:{self._port}")
            js = connection.jetstream()
            bucket = await js.key_value("prices")
            gold = await bucket.get("gold")
            history = [(e.value, e.operation, e.revision) for e in await bucket.history("gold")]
            keys = sorted(await bucket.keys())
            picture = await (await js.object_store("files")).get("picture")
            await connection.close()
            return gold.value, gold.revision, history, keys, picture.data

        return asyncio.run(read())

    def contents(self) -> dict[str, Any]:
        """Everything of every stream."""
        client = BackupClient(self._port)
        try:
            names = sorted(client.api("STREAM.NAMES")["streams"] or [])
            return {name: _stream(client, name) for name in names}
        finally:
            client.close()


def _publish(client: BackupClient, subject: str, payload: bytes, header: str = "") -> int:
    head = f"NATS/1.0\r\n{header}\r\n\r\n".encode() if header else None
    answer = json.loads(client.request(subject, payload, head, 1)[0][1])
    assert "error" not in answer, answer
    return int(answer["seq"])


def _create(client: BackupClient, name: str, **config: Any) -> None:
    subjects = [] if "mirror" in config or "sources" in config else [f"{name.lower()}.>"]
    answer = client.api(f"STREAM.CREATE.{name}", {"name": name, "subjects": subjects, "storage": "file", **config})
    assert "error" not in answer, answer


def _consumer(client: BackupClient, stream: str, name: str, *, take: int, ack: int, **config: Any) -> None:
    config = {"durable_name": name, "ack_policy": "explicit", "ack_wait": 3600 * 10**9, "max_deliver": 5, **config}
    answer = client.api(f"CONSUMER.DURABLE.CREATE.{stream}.{name}", {"stream_name": stream, "config": config})
    assert "error" not in answer, answer
    if take:
        sid = client.subscribe(f"pulled.{stream}.{name}".encode())
        client.publish(
            f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}".encode(), f"pulled.{stream}.{name}".encode(), b"%d" % take
        )
        taken = client.take(sid, take)
        for _, reply, _, _ in taken[:ack]:
            client.request(reply.decode(), b"+ACK", None, 1)
        if ack < take:
            client.request(taken[ack][1].decode(), b"-NAK", None, 1)
            client.publish(
                f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}".encode(), f"pulled.{stream}.{name}".encode(), b"1"
            )
            client.take(sid, 1)


def _limits(client: BackupClient) -> None:
    _create(client, "ORDERS", description="all of them", metadata={"team": "shop"})
    for number in range(200):
        _publish(
            client, f"orders.{number % 7}", b"payload %d " % number * 20, f"K: {number}" if number % 3 == 0 else ""
        )
    for seq in (1, 2, 50, 51, 52, 120, 199, 200):
        client.api("STREAM.MSG.DELETE.ORDERS", {"seq": seq, "no_erase": seq % 2 == 0})
    _consumer(client, "ORDERS", "worker", take=20, ack=7)
    _consumer(client, "ORDERS", "filtered", take=5, ack=5, filter_subject="orders.3")
    _consumer(client, "ORDERS", "untouched", take=0, ack=0, deliver_policy="new")
    _create(client, "LATEST", max_msgs_per_subject=2)
    for number in range(60):
        _publish(client, f"latest.{number % 4}", b"%d" % number)
    _create(client, "SHORT", max_msgs=25)
    for number in range(70):
        _publish(client, "short.x", b"%d" % number)
    _create(client, "LATER", first_seq=1000)
    for number in range(5):
        _publish(client, "later.x", b"%d" % number)


def _removals(client: BackupClient) -> None:
    _create(client, "PURGED")
    for number in range(50):
        _publish(client, f"purged.{number % 5}", b"%d" % number)
    client.api("STREAM.PURGE.PURGED", {"filter": "purged.3"})
    client.api("STREAM.PURGE.PURGED", {"seq": 11})
    _create(client, "EMPTY")
    for number in range(9):
        _publish(client, "empty.x", b"%d" % number)
    client.api("STREAM.PURGE.EMPTY")
    _create(client, "NEW")


def _queues(client: BackupClient) -> None:
    _create(client, "JOBS", retention="workqueue")
    for number in range(40):
        _publish(client, f"jobs.{number}", b"job %d" % number)
    _consumer(client, "JOBS", "runner", take=15, ack=10)
    _create(client, "EVENTS", retention="interest")
    _consumer(client, "EVENTS", "one", take=0, ack=0)
    _consumer(client, "EVENTS", "two", take=0, ack=0)
    for number in range(30):
        _publish(client, f"events.{number}", b"event %d" % number)
    sid = client.subscribe(b"events.pulled")
    for name, count in (("one", 12), ("two", 6)):
        client.publish(f"$JS.API.CONSUMER.MSG.NEXT.EVENTS.{name}".encode(), b"events.pulled", b"%d" % count)
        for _, reply, _, _ in client.take(sid, count):
            client.request(reply.decode(), b"+ACK", None, 1)


def _compressed(client: BackupClient) -> None:
    for name, compression in (("PACKED", "s2"), ("BLOCKS", "none")):
        _create(client, name, compression=compression, max_bytes=BLOCK_BYTES)
        for number in range(300):
            body = b"some words that repeat " * 40 if number % 2 else os.urandom(900)
            _publish(client, f"{name.lower()}.{number % 10}", body, f"N: {number}")
        for seq in (250, 251, 280):
            client.api(f"STREAM.MSG.DELETE.{name}", {"seq": seq})


def _expiring(client: BackupClient) -> None:
    _create(client, "BRIEF", allow_msg_ttl=True, subject_delete_marker_ttl=60 * 10**9, allow_rollup_hdrs=True)
    for number in range(20):
        _publish(client, f"brief.{number}", b"%d" % number, f"Nats-TTL: {'1h' if number % 2 else 'never'}")


def _stream(client: BackupClient, name: str) -> Any:
    info = client.api(f"STREAM.INFO.{name}", {"deleted_details": True, "subjects_filter": ">"})
    config, state = info["config"], info["state"]
    config["metadata"] = {
        key: value for key, value in config.get("metadata", {}).items() if not key.startswith("_nats.")
    }
    if state["last_seq"] == 0:
        # nats-server counts sequence 0 of a stream that never had a message.
        state.pop("deleted", None), state.pop("num_deleted", None)
    messages = []
    for seq in range(max(state["first_seq"], 1), state["last_seq"] + 1):
        message = client.api(f"STREAM.MSG.GET.{name}", {"seq": seq}).get("message")
        if message is not None:
            messages.append((seq, message["subject"], message["time"], message.get("hdrs"), message.get("data")))
    consumers = {consumer: _consumer_info(client, name, consumer) for consumer in _consumers(client, name)}
    return {"config": config, "created": info["created"], "state": state, "messages": messages, "consumers": consumers}


def _consumers(client: BackupClient, stream: str) -> list[str]:
    return sorted(client.api(f"CONSUMER.NAMES.{stream}")["consumers"] or [])


def _consumer_info(client: BackupClient, stream: str, name: str) -> Any:
    info = client.api(f"CONSUMER.INFO.{stream}.{name}")
    config = info["config"]
    config["metadata"] = {
        key: value for key, value in config.get("metadata", {}).items() if not key.startswith("_nats.")
    }
    kept = {field: info[field] for field in ("num_ack_pending", "num_redelivered", "num_pending", "created")}
    pairs = {field: (info[field]["consumer_seq"], info[field]["stream_seq"]) for field in ("delivered", "ack_floor")}
    return {"config": config, **kept, **pairs}


def stream_directory(store: Path, name: str, account: str = "$G") -> Path:
    """Where nats-server keeps a stream."""
    return store / "jetstream" / account / "streams" / name
