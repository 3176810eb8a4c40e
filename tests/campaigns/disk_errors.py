"""Errors of the disk at every call, under a whole account with two streams.

A run is a fixed script of publishes and API calls. For every call the script makes to the disk, the script is run with
that call failing: with EIO, or with ENOSPC. Whatever was answered with success is there afterwards, also after a crash
at the end; the stream whose files were not hit answers everything with success.

The control is a disk whose syncs do nothing: then the crash at the end must cost what was acknowledged.
"""

from __future__ import annotations

import errno
import json
import os
import random
from base64 import b64decode
from dataclasses import dataclass, field
from typing import Any

from slipstream.testing.sim_disk import SimDisk
from support.disk_world import disk_world
from support.jetstream_world import FakePorts, World

STREAMS = ("ORDERS", "PRICES")
WORDS = (*(name.encode() for name in STREAMS), b"message ", b"change ", b"subjects")
"""What is stored and what it is called; nobody may read it in encrypted files."""
CODES = (errno.EIO, errno.ENOSPC)


class FailingDisk(SimDisk):
    """Fails once, and remembers where."""

    def __init__(self, fails_at: int = 0, code: int = 0, *, drops_syncs: bool = False) -> None:
        super().__init__(drops_syncs=drops_syncs)
        self.failed = ""
        if fails_at:
            self.faults[fails_at] = code

    def _call(self, path: str) -> None:
        try:
            super()._call(path)
        except OSError:
            self.failed = path
            raise


@dataclass
class Promises:
    """What an account answered with success."""

    messages: dict[str, dict[int, bytes]] = field(default_factory=dict)
    unsure: dict[str, set[int]] = field(default_factory=dict)  # removal was asked and refused
    gone: dict[str, set[int]] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    config: dict[str, str] = field(default_factory=dict)


@dataclass
class ErrorTally:
    """What the errors did."""

    calls: int = 0
    runs: int = 0
    refusals: int = 0
    violations: list[str] = field(default_factory=list)


def script(world: World, *, rounds: int) -> Promises:
    """Everything a stream does to its files; what fails is refused and the script goes on."""
    promises = Promises()
    for name in STREAMS:
        for table in (promises.unsure, promises.gone):
            table[name] = set()
        promises.messages[name] = {}
        promises.refused[name] = 0
        answer = world.api(f"STREAM.CREATE.{name}", _config(name))
        if "error" in answer:
            promises.refused[name] += 1
            answer = world.api(f"STREAM.CREATE.{name}", _config(name))
        promises.config[name] = ""
    for number in range(rounds):
        for name in STREAMS:
            if name not in world.account.streams:
                continue
            _round(world, name, number, promises)
        world.ports.advance(2 * 10**9)
    return promises


def _config(name: str, **extra: Any) -> dict[str, Any]:
    return {"name": name, "subjects": [f"{name}.>"], **extra}


def _round(world: World, name: str, number: int, promises: Promises) -> None:
    messages = promises.messages[name]
    for k in range(3):
        body = f"{name} message {number} {k} ".encode() * 20
        answer = world.publish(f"{name}.{k}", body)
        if "error" in answer:
            promises.refused[name] += 1
        else:
            messages[answer["seq"]] = body
    if number % 3 == 1 and messages:
        _remove(world, promises, name, [min(messages)], f"STREAM.MSG.DELETE.{name}", {"seq": min(messages)})
    if number % 5 == 4:
        store, wanted = world.account.streams[name].store, f"{name}.1".encode()
        doomed = [seq for seq in messages if getattr(store.get(seq), "subject", b"") == wanted]
        _remove(world, promises, name, doomed, f"STREAM.PURGE.{name}", {"filter": f"{name}.1"})
    if number % 4 == 2:
        text = f"change {number}"
        answer = world.api(f"STREAM.UPDATE.{name}", _config(name, description=text))
        if "error" in answer:
            promises.refused[name] += 1
            promises.config[name] = "?"
        else:
            promises.config[name] = text


def _remove(world: World, promises: Promises, name: str, seqs: list[int], subject: str, body: Any) -> None:
    answer = world.api(subject, body) or _later_answer(world)
    if "error" in answer:
        promises.refused[name] += 1
        promises.unsure[name] |= set(seqs)
    else:
        promises.gone[name] |= set(seqs)
    for seq in seqs:
        promises.messages[name].pop(seq, None)


def _later_answer(world: World) -> Any:
    """To erase something in encrypted files takes space: who asked for it waits until the disk is looked at again."""
    before = len(world.ports.sent)
    world.ports.advance(2 * 10**9)
    (answer,) = (payload for subject, _, _, payload in world.ports.sent[before:] if subject.startswith(b"_INBOX."))
    return json.loads(answer)


def calls_of(rounds: int) -> int:
    """Calls that the script makes when none of them fails."""
    quiet = FailingDisk()
    script(disk_world(quiet), rounds=rounds)
    return quiet.calls


def every_call(*, rounds: int, only: range | None = None) -> ErrorTally:
    """One run for every call of the script and every code; `only`: some of them, by number."""
    tally = ErrorTally(calls_of(rounds))
    runs = range(len(CODES) * tally.calls)
    for number in runs if only is None else only:
        if number not in runs:
            break
        at, code = number // len(CODES) + 1, CODES[number % len(CODES)]
        disk = FailingDisk(at, code)
        world = disk_world(disk)
        promises = script(world, rounds=rounds)
        tally.runs += 1
        tally.refusals += sum(promises.refused.values())
        where = f"{os.strerror(code)} at call {at}, {disk.failed.rsplit('/', 1)[-1]}"
        tally.violations += [f"{found} ({where})" for found in _broken(world, promises)]
        tally.violations += [f"{found} ({where})" for found in _spread(world, promises, disk.failed)]
        after = _reopened(disk.crash(random.Random(number), keep=0.0, torn=False), world)
        tally.violations += [f"after a crash: {found} ({where})" for found in _broken(after, promises)]
    return tally


def without_syncs(*, rounds: int) -> list[str]:
    """The control: what a crash costs when syncs do nothing."""
    disk = FailingDisk()
    world = disk_world(disk)
    for name in STREAMS:
        world.create(name, subjects=[f"{name}.>"])
    disk.drops_syncs = True
    promises = script(world, rounds=rounds)
    return _broken(_reopened(disk.crash(random.Random(1), keep=0.0, torn=False), world), promises)


def _spread(world: World, promises: Promises, failed: str) -> list[str]:
    """Streams that refused something although the error was not in their files."""
    refusing = {name for name, count in promises.refused.items() if count}
    owners = {name for name, stream in world.account.streams.items() if stream.store.directory in failed}
    if owners:
        return [f"{name} refused, {owners} was hit" for name in refusing - owners]
    # It was in a directory that is gone: the first attempt to make one of the streams.
    return [f"{sorted(refusing)} refused"] if len(refusing) > 1 else []


def _reopened(disk: SimDisk, before: World) -> World:
    ports = FakePorts()
    ports.clock_ns = before.ports.clock_ns
    world = disk_world(disk, ports)
    world.ports.settle()
    return world


def _broken(world: World, promises: Promises) -> list[str]:
    broken = []
    for name in STREAMS:
        if name not in world.account.streams:
            broken.append(f"{name} is gone")
            continue
        for seq, body in promises.messages[name].items():
            answer = world.api(f"STREAM.MSG.GET.{name}", {"seq": seq})
            if "error" in answer:
                broken.append(f"{name}: {seq} was acknowledged and is gone")
            elif b64decode(answer["message"]["data"]) != body:
                broken.append(f"{name}: other bytes under {seq}")
        broken += [
            f"{name}: {seq} was removed and is back"
            for seq in promises.gone[name] - promises.unsure[name]
            if "error" not in world.api(f"STREAM.MSG.GET.{name}", {"seq": seq})
        ]
        description = world.account.streams[name].config.description
        if promises.config[name] not in ("?", description):
            broken.append(f"{name}: configuration {promises.config[name]!r} is {description!r}")
        if "error" in world.publish(f"{name}.after"):
            broken.append(f"{name} takes no messages")
    return broken
