"""Replicated streams on real processes: servers die, stand still and lose each other, and nothing acknowledged is lost.

Each run starts a cluster in network namespaces, publishes to a replicated stream and writes to a replicated bucket from
clients of every server, and lets trouble happen meanwhile. Then all is healed, and every server in turn leads and is
asked for everything:

- acknowledged messages are there, once, with what was sent, on every server
- all servers have the same messages under the same sequences
- one order of events explains what clients of the bucket saw (`kv_history`)
- confirmed acknowledgements hold, and ordered readers miss nothing (`replicated_readers`)
- nothing can be read in the files and logs of servers that encrypt, which every second one does

With `power`, processes that are killed forget what they had not synced. nats-server runs under the same harness
(`kind="n"`, `"a"` with `sync_interval: always`): disks are then file systems of their own, and a death is a copy of
what they have written out (`support.cut_disk`). Controls: one copy, on a server that loses its disk; and nats-server,
which syncs every two minutes, with the power of all servers cut.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click
import nats
import nats.errors
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import KeyValueConfig, StoreCompression, StreamConfig
from nats.js.errors import APIError, KeyNotFoundError, KeyWrongLastSequenceError, NotFoundError
from nats.js.kv import KeyValue

from campaigns.figures import Figures
from campaigns.kv_history import PUT, READ, Event, History
from campaigns.replicated_node import Node, damage
from campaigns.replicated_readers import Readers
from support.network_namespaces import NetworkNamespaces
from support.raw_files import of_directory, told

TROUBLES: Final = (
    *("kill", "kill leader", "kill all", "pause", "pause leader", "split", "split leader"),
    *("wipe", "wipe leader", "damage", "damage leader", "move", "clock", "clock leader"),
)
POWER_TROUBLES: Final = tuple(trouble for trouble in TROUBLES if not trouble.startswith("damage"))
"""Files of a disk that forgets have other names, and are damaged in the simulator."""
_STREAM, _BUCKET, _KEYS = "QUEUE", "PLACES", ("a", "b", "c")
_WORDS = (b"PLACES", b"value ", b"num_replicas", b"max_msgs_per_subject")
_ANSWER_S, _FORM_S = 3.0, 90.0
_NEAR: Final = 20  # messages
_GONE = (nats.errors.Error, OSError, asyncio.TimeoutError, APIError)


@dataclass
class Replicated:
    """What a run found."""

    acked: int = 0
    lost: int = 0
    """Acknowledged, and not there on a server, the worst of them."""
    unanswered: int = 0
    troubles: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    searched: int = 0
    """Files of servers that encrypt."""
    plain: int = 0
    """Places in files of others where something can be read."""
    worst_gap_s: float = 0.0
    """The longest time without an acknowledgement after one member died or was cut off."""
    broken: list[str] = field(default_factory=list)
    history: History = field(default_factory=History)
    readers: Readers = field(default_factory=lambda: Readers(_STREAM))


class Trial:
    """One cluster under load, with trouble."""

    def __init__(
        self,
        kind: str,
        directory: Path,
        *,
        nodes: int = 3,
        copies: int = 0,
        seed: int = 1,
        power: bool = False,
        mounts: bool = False,
    ) -> None:
        """Nothing runs yet.

        Args:
            kind: `o` for ours, `n` for nats-server, `a` for nats-server that always syncs.
            directory: for everything that the servers write.
            nodes: how many servers.
            copies: of each stream; one a server if 0.
            seed: of what is random.
            power: a server that is killed forgets what it had not synced.
            mounts: disks are file systems of their own, also those of ours: the same trial for both kinds.
        """
        self._kind = kind
        self._power = power
        self._mounts = power and (mounts or kind != "o")
        self._directory = directory
        self._rng = random.Random(seed)
        self._count = nodes
        self._copies = copies or nodes
        self._found = Replicated()
        self._sent: dict[int, bool] = {}  # by number: whether it was acknowledged
        self._numbers = 0
        self._last_ack = time.monotonic()
        self._watch_gap = False
        self._stop = asyncio.Event()
        self.nodes: list[Node] = []
        self.settle_s = 90.0
        self.keeps_broken = True
        """Files of a run that found something, to be looked at."""

    async def run(self, seconds: float, troubles: tuple[str, ...] = TROUBLES, *, least: int = 0) -> Replicated:
        """So long in trouble, then until there is something to check: so many acks, and as many calls of the bucket."""
        with NetworkNamespaces(self._count) as namespaces:
            self._namespaces = namespaces
            self.nodes = [
                Node(namespaces, number, self._kind, self._directory, power=self._power, mounts=self._mounts)
                for number in range(self._count)
            ]
            try:
                for node in self.nodes:
                    node.start()
                await self._prepare()
                tasks = [
                    asyncio.create_task(self._again(node, work))
                    for node in self.nodes
                    for work in (self._publish, self._use_bucket, self._work, self._watcher(node.number))
                ]
                await self._make_trouble(seconds, troubles)
                if least:
                    await self._until_much_happened(least)
                self._stop.set()
                await asyncio.gather(*tasks)
                await self._check()
            finally:
                self._search()
                for node in self.nodes:
                    node.close()
        return self._found

    def _search(self) -> None:
        """What can be read of the files of those that encrypt, and of others, as a control."""
        for node in self.nodes:
            if node.store.is_dir():
                files = of_directory(node.store)
                found = told(files, _WORDS, node.key.encode() or bytes(32), node.log_text().splitlines())
                if node.key:
                    self._found.searched += len(files)
                    self._found.broken += [f"{node.name}: {what}" for what in found[:5]]
                else:
                    self._found.plain += len(found)

    # --- load -------------------------------------------------------------------------------------------------------

    async def _prepare(self) -> None:
        async def make() -> None:
            client = await self._client(self.nodes[0])
            try:
                js = client.jetstream(timeout=_ANSWER_S)
                config = StreamConfig(name=_STREAM, subjects=["q.>"], num_replicas=self._copies)
                await js.add_stream(config, compression=StoreCompression.S2)
                await self._found.readers.make(js, self._copies)
                await js.create_key_value(KeyValueConfig(bucket=_BUCKET, history=1, replicas=self._copies))
            finally:
                await client.close()

        await self._eventually(make, "a replicated stream and a bucket are made", _FORM_S)

    async def _client(self, node: Node) -> Client:
        return await nats.connect(node.url, allow_reconnect=False, connect_timeout=_ANSWER_S, error_cb=_silent)

    async def _again(self, node: Node, work: Callable[[Client, JetStreamContext], Any]) -> None:
        """A client of one server that comes back whenever it is lost."""
        while not self._stop.is_set():
            try:
                client = await self._client(node)
            except _GONE:
                await asyncio.sleep(0.1)
                continue
            try:
                js = client.jetstream(timeout=_ANSWER_S)
                while not self._stop.is_set() and client.is_connected:
                    await work(client, js)
            except _GONE:
                await asyncio.sleep(0.05)
            finally:
                with contextlib.suppress(*_GONE):
                    await client.close()

    async def _work(self, client: Client, _js: JetStreamContext) -> None:
        await self._found.readers.work(client)

    def _watcher(self, number: int) -> Callable[[Client, JetStreamContext], Any]:
        return lambda _, js: self._found.readers.watch(js, number, self._stop)

    async def _publish(self, _client: Client, js: JetStreamContext) -> None:
        self._numbers += 1
        number = self._numbers
        self._sent[number] = False
        ack = await js.publish(f"q.{number % 7}", b"%d" % number)
        if not ack.duplicate:
            self._sent[number] = True
            now = time.monotonic()
            if self._watch_gap:
                self._found.worst_gap_s = max(self._found.worst_gap_s, now - self._last_ack)
            self._last_ack = now

    async def _use_bucket(self, _client: Client, js: JetStreamContext) -> None:
        bucket: KeyValue = await js.key_value(_BUCKET)
        key = self._rng.choice(_KEYS)
        if self._rng.random() < 0.5:
            await self._read(bucket, key)
            return
        self._numbers += 1
        event = self._began(PUT, key, value=f"value {self._numbers}")
        if self._rng.random() < 0.4:
            seen = await self._read(bucket, key)
            event.began_ns = time.monotonic_ns()
            event.expected = seen.revision
        try:
            if event.expected > 0:
                event.revision = await bucket.update(key, event.value.encode(), last=event.expected)
            else:
                event.expected = -1
                event.revision = await bucket.put(key, event.value.encode())
        except KeyWrongLastSequenceError:
            self._found.history.events.remove(event)  # it did not happen
            return
        event.ended_ns = time.monotonic_ns()

    async def _read(self, bucket: KeyValue, key: str) -> Event:
        event = self._began(READ, key)
        try:
            entry = await bucket.get(key)
            event.revision, event.value = entry.revision or 0, (entry.value or b"").decode()
        except KeyNotFoundError:
            pass
        event.ended_ns = time.monotonic_ns()
        return event

    def _began(self, kind: str, key: str, **more: Any) -> Event:
        event = Event(kind, key, time.monotonic_ns(), **more)
        self._found.history.events.append(event)
        return event

    async def _until_much_happened(self, least: int) -> None:
        """All is healed: whatever the pace of the machine, the load goes on until there is enough of it."""
        found = self._found

        def is_enough() -> bool:
            return min(sum(self._sent.values()), len(found.history.events)) >= least and bool(found.readers.confirmed)

        try:
            async with asyncio.timeout(self.settle_s):
                while not is_enough():
                    await asyncio.sleep(0.05)
        except TimeoutError:
            found.broken.append("too little is acknowledged after all was healed")

    # --- trouble ----------------------------------------------------------------------------------------------------

    async def _make_trouble(self, seconds: float, troubles: tuple[str, ...]) -> None:
        end = time.monotonic() + seconds
        await asyncio.sleep(min(2.0, seconds / 4))
        while time.monotonic() < end:
            trouble = self._rng.choice(troubles)
            self._found.troubles.append(trouble)
            lasts = self._rng.uniform(1.0, 6.0)
            chosen = await self._chosen(leader=trouble.endswith("leader"))
            # A minority is in trouble: the others have to go on.
            self._last_ack, self._watch_gap = time.monotonic(), trouble != "kill all"
            if trouble == "kill all":
                for node in self.nodes:
                    node.kill()
                await asyncio.sleep(lasts / 4)
            elif trouble.startswith("kill"):
                chosen.kill()
                await asyncio.sleep(lasts)
            elif trouble.startswith("pause"):
                chosen.send(signal.SIGSTOP)
                await asyncio.sleep(lasts)
                chosen.send(signal.SIGCONT)
            elif trouble.startswith("split"):
                self._namespaces.split({chosen.number})
                await asyncio.sleep(lasts)
                self._namespaces.heal()
            elif trouble == "move":
                await self._move()
                await asyncio.sleep(lasts)
            elif trouble.startswith("clock"):
                chosen.set_clock(self._rng.choice((-1, 1)) * self._rng.choice((0.3, 10, 3600, 30 * 86_400)))
                await asyncio.sleep(lasts)
                chosen.set_clock(0)
            elif trouble.startswith("damage"):
                chosen.kill()
                self._found.damaged.append(damage(chosen.store, self._rng))
            else:
                assert trouble.startswith("wipe")
                chosen.kill()
                shutil.rmtree(chosen.store)
            for node in self.nodes:
                if not node.runs:
                    node.start()
            spoiled = trouble.startswith(("wipe", "damage")) and self._kind == "o"
            if (spoiled or trouble == "move") and self._copies > 1:
                # Two of three disks would be a majority: the first one is made good before the next is touched.
                await self._eventually(self._whole, f"all is whole after {trouble} of {chosen.name}")
            await asyncio.sleep(self._rng.uniform(1.0, 4.0))

    async def _move(self) -> None:
        """Fewer copies, and as many as before again: servers leave and come back, whoever dies meanwhile."""
        for copies in (self._rng.randrange(1, self._copies + 1), self._copies):

            async def change(copies: int = copies) -> None:
                client = await self._client(self._rng.choice(self.nodes))
                try:
                    for stream in (_STREAM, f"KV_{_BUCKET}"):
                        config = (await _api(client, f"STREAM.INFO.{stream}"))["config"]
                        await _api(client, f"STREAM.UPDATE.{stream}", {**config, "num_replicas": copies})
                finally:
                    await client.close()

            await self._eventually(change, f"both have {copies} copies")

    async def _whole(self) -> None:
        """Every server has its copy of both streams."""
        client = await self._client(self.nodes[0])
        try:
            for stream in (_STREAM, f"KV_{_BUCKET}"):
                replicas = (await _api(client, f"STREAM.INFO.{stream}"))["cluster"].get("replicas") or []
                # Who is sent what is new may miss the latest at any moment.
                near = [one for one in replicas if one["current"] or one.get("lag", 0) < _NEAR]
                good = {one["name"] for one in near if not one.get("offline")}
                if len(good) < self._copies - 1 or len(replicas) != self._copies - 1:
                    raise nats.errors.Error(f"{stream} has {replicas}")
        finally:
            await client.close()

    async def _chosen(self, *, leader: bool) -> Node:
        if leader:
            for node in self.nodes:
                with contextlib.suppress(*_GONE):
                    client = await self._client(node)
                    try:
                        info = await _api(client, f"STREAM.INFO.{_STREAM}")
                        name = info["cluster"]["leader"]
                        return next(node for node in self.nodes if node.name == name)
                    except (KeyError, StopIteration):
                        pass
                    finally:
                        await client.close()
        return self._rng.choice(self.nodes)

    # --- the end ----------------------------------------------------------------------------------------------------

    async def _check(self) -> None:
        found = self._found
        found.acked = sum(self._sent.values())
        found.unanswered = len(self._sent) - found.acked
        if not found.acked:
            found.broken.append("nothing was ever acknowledged")
        seen: dict[str, dict[int, bytes]] = {}
        for node in self.nodes:
            try:
                seen[node.name] = await self._eventually(lambda node=node: self._all_of(node), f"{node.name} leads")  # type: ignore[misc]
            except AssertionError as error:
                found.broken.append(str(error))
                if "stream not found" in str(error):
                    found.lost = found.acked
        for name, messages in seen.items():
            have = [int(payload) for payload in messages.values()]
            there = set(have)
            lost = [number for number, acked in self._sent.items() if acked and number not in there]
            found.lost = max(found.lost, len(lost))
            if lost:
                found.broken.append(f"{name}: {len(lost)} acknowledged messages are lost, as {lost[:5]}")
            if len(there) != len(have):
                found.broken.append(f"{name}: {len(have) - len(there)} messages are there twice")
            if strange := there - self._sent.keys():
                found.broken.append(f"{name}: {len(strange)} messages that nobody sent")
        first = next(iter(seen.values()), {})
        found.broken += [f"{name} has other messages" for name, messages in seen.items() if messages != first]
        found.broken += found.history.check()
        found.broken += found.readers.check(first)
        if found.broken and self.keeps_broken:
            kept = self._directory.with_name(self._directory.name + "-broken")
            shutil.copytree(self._directory, kept, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.img"))

    async def _all_of(self, node: Node) -> dict[int, bytes]:
        """Everything that a server has, which has to lead for that."""
        client = await self._client(node)
        try:
            info = await _api(client, f"STREAM.INFO.{_STREAM}")
            if info["cluster"]["leader"] != node.name:
                wanted = {"placement": {"preferred": node.name}}
                await _api(client, f"STREAM.LEADER.STEPDOWN.{_STREAM}", wanted)
                raise nats.errors.Error("it does not lead yet")
            state = info["state"]
            messages: dict[int, bytes] = {}
            js = client.jetstream(timeout=_ANSWER_S)
            for seq in range(state["first_seq"], state["last_seq"] + 1):
                try:
                    messages[seq] = (await js.get_msg(_STREAM, seq)).data or b""
                except NotFoundError:
                    continue
            after = await _api(client, f"STREAM.INFO.{_STREAM}")
            if after["cluster"]["leader"] != node.name:
                raise nats.errors.Error("it leads no more")
            return messages
        finally:
            await client.close()

    async def _eventually(self, attempt: Callable[[], Any], what: str, seconds: float = 0.0) -> Any:
        end = time.monotonic() + (seconds or self.settle_s)
        while True:
            try:
                return await attempt()
            except _GONE as error:
                if time.monotonic() > end:
                    raise AssertionError(f"it never came to be that {what}: {error}") from error
                await asyncio.sleep(0.2)


async def _silent(_error: Exception) -> None:
    return None


async def _api(client: Client, verb: str, body: object = None) -> dict[str, Any]:
    message = await client.request(f"$JS.API.{verb}", json.dumps(body or {}).encode(), timeout=_ANSWER_S)
    answer: dict[str, Any] = json.loads(message.data)
    if "error" in answer:
        raise nats.errors.Error(str(answer["error"]))
    return answer


def replicated_runs(seeds: range, seconds: float = 60.0) -> Figures:
    """A run a seed, of three servers and of five in turn."""
    counts: Counter[str] = Counter()
    broken: list[str] = []
    worst_s = 0.0
    for number, seed in enumerate(seeds, start=1):
        with tempfile.TemporaryDirectory(prefix="replicated-") as directory:
            power = seed % 4 >= 2
            trial = Trial("o", Path(directory), nodes=3 if seed % 2 == 0 else 5, seed=seed, power=power)
            found = asyncio.run(trial.run(seconds, POWER_TROUBLES if power else TROUBLES))
        counts.update(found.troubles)
        counts.update(acked=found.acked, unanswered=found.unanswered, events=len(found.history.events))
        counts.update(confirmed=len(found.readers.confirmed), watched=sum(found.readers.watched.values()))
        counts.update(power=power, five=seed % 2, searched=found.searched)
        worst_s = max(worst_s, found.worst_gap_s)
        broken += [f"seed {seed}: {problem}" for problem in found.broken]
        click.echo(f"{number:,} of {len(seeds):,} runs, {len(broken)} broken", err=True)
    return Figures(
        {
            "runs": len(seeds),
            "of five servers": counts["five"],
            "in which a death is a power cut": counts["power"],
            **{name: counts[name] for name in TROUBLES},
            "messages acknowledged": counts["acked"],
            "publishes without an answer": counts["unanswered"],
            "operations on the bucket": counts["events"],
            "acknowledgements of a consumer that were confirmed": counts["confirmed"],
            "messages seen by ordered readers": counts["watched"],
            "files of encrypted servers that were searched": counts["searched"],
            "longest time without an acknowledgement, s": round(worst_s, 1),
            "lost, doubled, different or out of order": len(broken),
        },
        broken,
    )


def replicated_control() -> Figures:
    """Whether the checks notice what is lost."""
    noticed = bool(asyncio.run(control_run()).broken)
    told = f"one copy, and its server's disk is gone: {'noticed' if noticed else 'NOT noticed'}"
    lost = asyncio.run(power_run("n"))
    told += f"; nats-server, as it is, and the power of all is cut: {_told(lost)}"
    always = asyncio.run(power_run("a"))
    told += f"; with sync_interval always: {_told(always)}; this server on the same disks: "
    ours = asyncio.run(power_run("o"))
    told += _told(ours)
    return Figures({}, ours.broken, told, noticed and bool(lost.broken))


def _told(found: Replicated) -> str:
    return f"{found.lost:,} of {found.acked:,} acknowledged messages lost"


async def control_run() -> Replicated:
    """What a stream with one copy loses with its server."""
    with tempfile.TemporaryDirectory(prefix="replicated-") as directory:
        trial = Trial("o", Path(directory), copies=1)
        trial.settle_s, trial.keeps_broken = 2.0, False
        return await trial.run(2.0, ("wipe leader",))


async def power_run(kind: str) -> Replicated:
    """What is lost when the power of all three servers is cut at once."""
    with tempfile.TemporaryDirectory(prefix="replicated-") as directory:
        trial = Trial(kind, Path(directory), power=True, mounts=True)
        trial.settle_s, trial.keeps_broken = (90.0, True) if kind == "o" else (20.0, False)
        return await trial.run(4.0, ("kill all",))
