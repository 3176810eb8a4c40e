"""A tenant that misuses every resource in turn, beside one that works: what the server, and the neighbour, pay for it.

Each attack is made from an account that may store 1 MB. Judged are the server's memory, disk and descriptors, that the
neighbour's API calls are answered, and that the server starts again with everything the neighbour stored. How long the
neighbour waits is reported, not judged: that depends on the machine.

The control makes the same attacks from an account without limits, where memory and disk must be seen to grow.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from slipstream.jetstream.backup.archive import MAGIC, ArchiveEntry, encode_entry
from slipstream.kernels.bulk.bulkscan import encode_message
from slipstream.kernels.log.record import StoredMessage
from support.consumer_oracle import ListeningOracle
from support.server_process import ServerProcess
from support.servers import server_binary

__all__ = ["ATTACKS", "Hostile", "Paid"]

MIB = 1024 * 1024
ATTACK_BYTES = 64 * MIB  # what an attack sends, far above what the account may have
MEMORY_BYTES_MAX = 32 * MIB  # what it may cost, with buffers of sockets and of the allocator
DISK_BYTES_MAX = 16 * MIB  # the account's own, and files that are made larger in advance
DESCRIPTORS_MAX = 64
PINGS = 200
_LIMITS = "{ max_mem: 1MB, max_file: 1MB, max_streams: 20, max_consumers: 100 }"


class Tenant(ListeningOracle):
    """A client of one account, with inboxes of its own."""

    def __init__(self, port: int, user: str) -> None:
        super().__init__(port, f'"user":"{user}","pass":"p"')
        self._socket.settimeout(30)

    def api(self, subject: str, body: object = b"") -> dict[str, object]:
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        ((_, answer),) = self.request(f"$JS.API.{subject}", payload, None, 1)
        return dict(json.loads(answer)) if answer else {}

    def make(self, name: str, **config: object) -> None:
        self.api(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"], "storage": "file", **config})

    def ping_ns(self) -> int:
        began = time.perf_counter_ns()
        self.settled()
        return time.perf_counter_ns() - began


def open_batches(tenant: Tenant) -> None:
    tenant.make("B", storage="memory", allow_atomic=True)
    body = bytes(64 * 1024)
    for number in range(ATTACK_BYTES // len(body)):
        block = b"NATS/1.0\r\nNats-Batch-Id: %d\r\nNats-Batch-Sequence: %d\r\n\r\n" % (number // 20, number % 20 + 1)
        tenant.send("B.x", body, block)
    tenant.settled()


def message_ids(tenant: Tenant) -> None:
    tenant.make("I", storage="memory", max_msgs=1)
    for number in range(ATTACK_BYTES // 8_192):
        tenant.send("I.x", b"", b"NATS/1.0\r\nNats-Msg-Id: %d-%b\r\n\r\n" % (number, b"x" * 8_192))
    tenant.settled()


def staged_parts(tenant: Tenant) -> None:
    tenant.make("P")
    record = encode_message(StoredMessage(1, 0, b"P.x", b"", bytes(512 * 1024)))
    for number in range(ATTACK_BYTES // len(record)):
        begun = tenant.api("BULK.STAGE.P", {"txn": f"t{number}", "part": 0, "attempt": 0})
        if "id" in begun:
            tenant.api(f"BULK.STAGE.P.{begun['id']}.0", record)


def restores(tenant: Tenant) -> None:
    from slipstream.jetstream.backup.s2 import S2Writer

    for number in range(8):
        name = f"R{number}"
        asked = {"config": {"name": name, "subjects": [f"{name}.>"], "storage": "file"}, "state": {}}
        subject = tenant.api(f"STREAM.RESTORE.{name}", asked).get("deliver_subject")
        if not subject:
            continue
        writer = S2Writer()
        noise = os.urandom(256 * 1024)
        entries = [ArchiveEntry(b"state.json", 1, payload=b"{}")]
        entries += [ArchiveEntry(f"{name}.x".encode(), 1, seq, b"", noise) for seq in range(1, 33)]
        data = writer.write(MAGIC + b"".join(map(encode_entry, entries)))
        for at in range(0, len(data), MIB // 2):
            tenant.request(str(subject), data[at : at + MIB // 2], None, 1)


def messages(tenant: Tenant) -> None:
    for storage in ("file", "memory"):
        name = f"M{storage}"
        tenant.make(name, storage=storage)
        for number in range(ATTACK_BYTES // 2 // 65_536):
            tenant.send(f"{name}.{number}", bytes(65_536))
    tenant.settled()


def subjects(tenant: Tenant) -> None:
    tenant.make("S", storage="memory")
    for number in range(20_000):
        tenant.send(f"S.{number}.{'x' * 1_000}", b"")
    tenant.settled()


def streams_and_consumers(tenant: Tenant) -> None:
    for number in range(200):
        tenant.make(f"N{number}")
    tenant.make("C")
    for number in range(500):
        config = {"durable_name": f"c{number}", "ack_policy": "explicit"}
        tenant.api(f"CONSUMER.DURABLE.CREATE.C.c{number}", {"stream_name": "C", "config": config})


def waiting_pulls(tenant: Tenant) -> None:
    tenant.make("W", storage="memory")
    config = {"durable_name": "w", "ack_policy": "explicit", "max_waiting": 100_000}
    tenant.api("CONSUMER.DURABLE.CREATE.W.w", {"stream_name": "W", "config": config})
    for number in range(20_000):
        tenant.publish(b"$JS.API.CONSUMER.MSG.NEXT.W.w", b"_INBOX.w.%d" % number, b'{"batch":1,"expires":60000000000}')
    tenant.settled()


def api_flood(tenant: Tenant) -> None:
    tenant.make("F")
    for _ in range(10_000):
        tenant.publish(b"$JS.API.STREAM.INFO.F", b"_NOBODY.x", b"")
    tenant.settled()


def verdicts(tenant: Tenant) -> None:
    for number in range(8_192):
        tenant.send(f"{number}.{'x' * 3_900}", b"")
    tenant.settled()


_HEADERS = (
    "Nats-TTL: 9223372036854775807",
    "Nats-TTL: -1",
    "Nats-TTL: 1e9h",
    "Nats-Schedule: @every 1ns\r\nNats-Schedule-Target: H.y",
    "Nats-Schedule: @at 9999-12-31T23:59:59Z\r\nNats-Schedule-Target: H.y",
    "Nats-Schedule: * * * * * *\r\nNats-Schedule-Target: H.y\r\nNats-Schedule-TTL: 9223372036854775807",
    "Nats-Rollup: all",
    "Nats-Incr: 99999999999999999999999999",
    "Nats-Expected-Last-Sequence: 18446744073709551616",
    "Nats-Batch-Id: b\r\nNats-Batch-Sequence: 18446744073709551615",
    "Nats-Request-Info: {}",
    "Nats-Required-Api-Level: 99999",
)


def odd_messages(tenant: Tenant) -> None:
    """Everything a header can ask for, at its extremes; whatever of it was stored has to be read at the next start."""
    features = {"allow_msg_ttl": True, "allow_msg_schedules": True, "allow_rollup_hdrs": True, "allow_atomic": True}
    tenant.make("H", subjects=["H.>"], **features)
    tenant.make("J", subjects=["J.>"], allow_msg_counter=True, first_seq=2**62)
    tenant.make("K", subjects=["K.>"], max_age=2**62, duplicate_window=2**60, subject_delete_marker_ttl=2**62)
    for number, lines in enumerate(_HEADERS):
        for name in "HJK":
            tenant.send(f"{name}.{number}", b"x", f"NATS/1.0\r\n{lines}\r\n\r\n".encode())
    tenant.settled()


Attack = Callable[[Tenant], None]
ATTACKS: dict[str, Attack] = {
    attack.__name__: attack
    for attack in (
        open_batches,
        message_ids,
        staged_parts,
        restores,
        messages,
        subjects,
        streams_and_consumers,
        waiting_pulls,
        api_flood,
        verdicts,
        odd_messages,
    )
}


@dataclass
class Paid:
    """What one attack cost."""

    memory_bytes: int = 0
    disk_bytes: int = 0
    descriptors: int = 0
    p99_ns: int = 0
    answered: bool = False
    restarted: bool = False
    broken: list[str] = field(default_factory=list)


class Hostile:
    """One server and its two tenants."""

    def __init__(self, directory: Path, *, limited: bool = True) -> None:
        self._store = directory / "js"
        limits = _LIMITS if limited else "enabled"
        user = "{ user: h, password: p, permissions: { publish: { deny: nothing } } }"
        config = f"""
        port: -1
        jetstream {{ store_dir: "{self._store}" }}
        accounts {{
          H {{ jetstream: {limits}, users: [ {user} ] }}
          N {{ jetstream: enabled, users: [ {{ user: n, password: p }} ] }}
        }}
        """
        self._server = ServerProcess(server_binary("ours"), directory, config=config)

    def attacked(self, attack: Attack) -> Paid:
        """What an attack costs, from a fresh start to the next."""
        paid = Paid()
        self._server.start()
        try:
            neighbour = Tenant(self._server.port, "n")
            neighbour.make("KEPT")
            for number in range(100):
                neighbour.request(f"KEPT.{number}", b"x" * 100, None, 1)
            attacker = Tenant(self._server.port, "h")
            attacker.settled()
            memory, disk, descriptors = self._memory(), self._disk(), self._descriptors()
            attack(attacker)
            paid.p99_ns = sorted(neighbour.ping_ns() for _ in range(PINGS))[PINGS * 99 // 100]
            paid.memory_bytes = self._memory() - memory
            paid.disk_bytes = self._disk() - disk
            paid.descriptors = self._descriptors() - descriptors
            paid.answered = "error" not in neighbour.api("STREAM.INFO.KEPT")
            attacker.close()
            neighbour.close()
        finally:
            self._server.kill()
        self._server.start()
        try:
            again = Tenant(self._server.port, "n")
            state = again.api("STREAM.INFO.KEPT").get("state")
            paid.restarted = isinstance(state, dict) and state.get("messages") == 100
            again.close()
        finally:
            self._server.stop()
        self._judge(attack.__name__, paid)
        return paid

    def _judge(self, name: str, paid: Paid) -> None:
        for what, found, most in (
            ("bytes of memory", paid.memory_bytes, MEMORY_BYTES_MAX),
            ("bytes on disk", paid.disk_bytes, DISK_BYTES_MAX),
            ("descriptors", paid.descriptors, DESCRIPTORS_MAX),
        ):
            if found > most:
                paid.broken.append(f"{name}: {found} {what}, {most} are allowed")
        if not paid.answered:
            paid.broken.append(f"{name}: the neighbour's call was not answered")
        if not paid.restarted:
            paid.broken.append(f"{name}: the neighbour's messages were not there after a restart")

    def _memory(self) -> int:
        for line in Path(f"/proc/{self._server.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no memory")

    def _descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self._server.pid}/fd"))

    def _disk(self) -> int:
        total = 0
        for root, _, names in os.walk(self._store):
            for name in names:
                try:
                    total += os.stat(os.path.join(root, name)).st_blocks * 512
                except FileNotFoundError:
                    continue
        return total
