"""A server that dies at random moments under load: killed, or with the power cut.

Killed means that the process ends and the operating system stays. A power cut also takes every write that was not
synced (`forgetful_server.py`). The control of both is a server whose syncs do nothing, so that its acknowledgements
come before its writes: the same checks must find messages lost.
"""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass, field
from pathlib import Path

from campaigns.forgetful_server import forgetful_program
from campaigns.load import API, Connection, Counter, Ledger, Publisher, payload_of, run_all
from support.server_process import ServerProcess, ServerStartError
from support.servers import server_binary

PLAIN, BOUNDED = "PLAIN", "BOUNDED"  # a stream that keeps all, and one that drops its oldest
STREAMS = {PLAIN: {"subjects": ["PLAIN.>"]}, BOUNDED: {"subjects": ["BOUNDED.>"], "max_msgs": 800}}
# On a busy machine a server may be away for longer than the two minutes in which ids are remembered by default.
WINDOW_NS = 3_600_000_000_000
SHORT_WINDOW_NS = 100_000_000
PAGE = 500
KEY = "the-key-of-the-campaign-of-deaths"
START_S = 120.0  # campaigns run beside other work


@dataclass
class Outcome:
    """What a run of deaths found."""

    cycles: int = 0
    acked: int = 0
    sent_again: int = 0
    lost: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    duplicates: list[str] = field(default_factory=list)
    regressions: list[str] = field(default_factory=list)
    streams_lost: list[str] = field(default_factory=list)
    starts_refused: int = 0
    readable: list[str] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        """Count what another run found as well."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    @property
    def broken(self) -> list[str]:
        """Every broken promise, in words."""
        return [
            *self.lost,
            *self.wrong,
            *self.duplicates,
            *self.regressions,
            *self.streams_lost,
            *self.readable,
            *(["a start was refused"] * self.starts_refused),
        ]


def readable(directory: Path) -> list[str]:
    """Files that tell of what was stored, of streams or of the key; those of the disk that forgets as well."""
    words = (*(f"{name}.".encode() for name in STREAMS), b"Nats-Msg-Id", b"MADE", KEY.encode())
    found = [path for name in ("store", "disk") for path in (directory / name).rglob("*") if path.is_file()]
    return [f"{path} can be read" for path in found if any(word in path.read_bytes() for word in words)]


class Deaths:
    """One server directory, and clients that come back after each death."""

    def __init__(
        self,
        directory: Path,
        *,
        power: bool,
        drops_syncs: bool = False,
        window_ns: int = WINDOW_NS,
        encrypted: bool = False,
        seed: int = 1,
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            directory: for everything.
            power: cut the power instead of killing.
            drops_syncs: the control for what is lost.
            encrypted: with encryption at rest; nothing may be readable then.
            window_ns: how long message ids are remembered; shorter than a start is the control for duplicates.
            seed: decides the moments.
        """
        self._rng = random.Random(seed)
        self._window_ns = window_ns
        self._ledger = Ledger()
        self._outcome = Outcome()
        self._highest_last: dict[str, int] = {}
        self._configs: dict[str, str] = {}  # stream -> description that was acknowledged
        self._deleted: set[str] = set()
        self._checked: dict[str, int] = {}
        self._seen: dict[str, dict[str, tuple[int, str]]] = {name: {} for name in STREAMS}  # id → sequence, time
        self._workers: list[Publisher | Counter] = [
            *(Publisher(self._ledger, stream, number) for stream in STREAMS for number in range(3)),
            *(Counter(self._ledger, PLAIN, number) for number in range(2)),
        ]
        binary = server_binary("ours")
        if power or drops_syncs:
            binary = forgetful_program(directory, DROPS_SYNCS="1" if drops_syncs else "0")
        self._directory = directory if encrypted else None
        encryption = f"key: {KEY}, cipher: aes" if encrypted else ""
        config = f'jetstream {{ store_dir: "{directory / "store"}", {encryption} }}'
        self._server = ServerProcess(binary, directory, config=config)
        self._server.start_timeout_s = START_S

    def run(self, cycles: int, *, most_s: float = 0.4, least_acks: int = 1) -> Outcome:
        """Let the server die that often, each time after so many messages were acknowledged; look at everything."""
        self._server.start()
        self._make_streams()
        for cycle in range(cycles):
            self._change_configuration(cycle)
            pause_s = self._rng.uniform(0.01, most_s)
            enough = self._ledger.acks + least_acks

            def die(pause_s: float = pause_s, enough: int = enough) -> None:
                time.sleep(pause_s)  # the moment of death
                deadline = time.monotonic() + START_S
                while self._ledger.acks < enough and time.monotonic() < deadline:
                    time.sleep(0.01)  # a machine so busy that nothing was to be lost yet
                self._server.kill()

            run_all(self._workers, self._server.port, die)
            self._outcome.cycles += 1
            if not self._come_back():
                break
            self._check(everything=cycle == cycles - 1)
            if self._outcome.broken:
                break
        self._server.end()
        if self._directory is not None:
            self._outcome.readable += readable(self._directory)
        self._outcome.acked = self._ledger.acks
        self._outcome.sent_again = self._ledger.duplicates_refused
        self._outcome.regressions += self._ledger.regressions
        return self._outcome

    def _come_back(self) -> bool:
        try:
            self._server.start()
        except ServerStartError as error:
            self._outcome.starts_refused += 1
            self._outcome.wrong.append(str(error)[-2000:])
            return False
        return True

    def _make_streams(self) -> None:
        connection = Connection(self._server.port)
        for name, config in STREAMS.items():
            settings = {"name": name, "allow_direct": True, "duplicate_window": self._window_ns, **config}
            answer = connection.ask(f"{API}STREAM.CREATE.{name}", settings)
            assert "error" not in answer, answer
        connection.close()

    def _change_configuration(self, cycle: int) -> None:
        """Make, change and delete a stream; what was answered has to be there afterwards."""
        connection = Connection(self._server.port)
        made = f"MADE{cycle}"
        answer = connection.ask(f"{API}STREAM.CREATE.{made}", {"name": made, "description": "first"})
        assert "error" not in answer, answer
        self._configs[made] = "first"
        if len(self._configs) > 2:
            changed, doomed = list(self._configs)[-2], next(iter(self._configs))
            text = f"changed in {cycle}"
            answer = connection.ask(f"{API}STREAM.UPDATE.{changed}", {"name": changed, "description": text})
            if "error" in answer:
                self._outcome.streams_lost.append(f"{changed}: {answer['error']}")
            self._configs[changed] = text
            answer = connection.ask(f"{API}STREAM.DELETE.{doomed}")
            if "error" in answer:
                self._outcome.streams_lost.append(f"{doomed}: {answer['error']}")
            del self._configs[doomed]
            self._deleted.add(doomed)
        connection.close()

    def _check(self, *, everything: bool) -> None:
        connection = Connection(self._server.port)
        listed = connection.ask(f"{API}STREAM.LIST")
        found = {stream["config"]["name"]: stream for stream in listed["streams"]}
        for name, text in self._configs.items():
            if name not in found:
                self._outcome.streams_lost.append(f"{name} is gone")
            elif found[name]["config"].get("description") != text:
                self._outcome.streams_lost.append(f"{name} has lost its change {text!r}")
        self._outcome.streams_lost += [f"{name} is back" for name in self._deleted & set(found)]
        for name in STREAMS:
            if name not in found:
                self._outcome.streams_lost.append(f"{name} is gone")
                self._outcome.lost += [f"{name}: {message_id}" for message_id in self._ledger.acked.get(name, {})]
                continue
            self._check_messages(connection, name, found[name]["state"], everything=everything)
        connection.close()

    def _check_messages(self, connection: Connection, name: str, state: dict[str, int], *, everything: bool) -> None:
        first, last = state["first_seq"], state["last_seq"]
        if "lost" in state:
            self._outcome.lost.append(f"{name} reports {state['lost']}")
        before = max(self._highest_last.get(name, 0), self._ledger.highest.get(name, 0))
        if last < before:
            self._outcome.regressions.append(f"{name}: last sequence {last}, was {before}")
        self._highest_last[name] = last
        start = first if everything else max(first, self._checked.get(name, 0) + 1)
        stored = self._read(connection, name, start, last)
        by_id: dict[str, int] = {}
        seen = self._seen[name]
        for seq, (message_id, body, time_stored) in stored.items():
            before_seq, before_time = seen.setdefault(message_id, (seq, time_stored))
            if before_seq != seq:
                self._outcome.duplicates.append(
                    f"{name}: {message_id} under {before_seq} of {before_time} and {seq} of {time_stored}"
                )
            by_id[message_id] = seq
            if body != payload_of(message_id):
                self._outcome.wrong.append(f"{name}: wrong bytes under {seq}")
        for message_id, seq in self._ledger.acked.get(name, {}).items():
            if seq < start:
                continue  # dropped by the stream's limit, or looked at in an earlier cycle
            if by_id.get(message_id) != seq:
                self._outcome.lost.append(f"{name}: {message_id}, acknowledged as {seq}, is {by_id.get(message_id)}")
        self._checked[name] = last

    def _read(self, connection: Connection, name: str, first: int, last: int) -> dict[int, tuple[str, bytes, str]]:
        found: dict[int, tuple[str, bytes, str]] = {}
        seq = first
        while seq <= last:
            request = {"seq": seq, "batch": PAGE}
            number = connection.send(f"{API}DIRECT.GET.{name}", json.dumps(request).encode())
            while True:
                answered, head, body = connection.receive()
                if answered != number:
                    continue
                fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n") if b": " in line)
                if b"Nats-Sequence" not in fields:
                    break
                at = int(fields[b"Nats-Sequence"])
                found[at] = (fields[b"Nats-Msg-Id"].decode(), body, fields[b"Nats-Time-Stamp"].decode())
            seq = max(found, default=last) + 1 if found and max(found) >= seq else last + 1
        return found
