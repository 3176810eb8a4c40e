"""Damage at rest under a whole account: flipped bits, cut files, zeroed pages, missing files, old pages put back.

Whatever file is hit, the account starts; no wrong bytes are answered; what is missing is reported, by the stream or by
its directory being moved aside; the other stream has everything.

The control is `report=False`: the reports are not looked at, so that what is missing counts as silent.
"""

from __future__ import annotations

import random
from base64 import b64decode
from dataclasses import dataclass, field
from typing import Any

from slipstream.testing.sim_disk import SimDisk
from support.disk_world import disk_world
from support.jetstream_world import World

STREAMS = ("ORDERS", "PRICES")
WORDS = (*(name.encode() for name in STREAMS), b" message ", b"subjects")
"""What is stored and what it is called; nobody may read it in encrypted files."""
MESSAGES = 60
PAGE = 512


@dataclass
class DamageTally:
    """What damage did."""

    cases: dict[str, int] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)
    lost_most: dict[str, int] = field(default_factory=dict)  # in one case
    quarantined: int = 0
    violations: list[str] = field(default_factory=list)


def prepared() -> tuple[SimDisk, SimDisk, dict[str, dict[int, bytes]]]:
    """A disk with two streams at rest, the same disk earlier, and what the streams hold."""
    disk = SimDisk()
    world = disk_world(disk)
    stored: dict[str, dict[int, bytes]] = {name: {} for name in STREAMS}
    earlier = disk
    for name in STREAMS:
        world.create(name, subjects=[f"{name}.>"])
    for number in range(MESSAGES):
        if number == MESSAGES // 2:
            world.account.shutdown()
            earlier = disk.copy()
            world = disk_world(disk)
        for name in STREAMS:
            body = f"{name} message {number} ".encode() * (1 + number % 9)
            answer = world.publish(f"{name}.{number % 4}", body)
            stored[name][answer["seq"]] = body
    for name in STREAMS:
        for seq in (4, 9, 33):
            world.api(f"STREAM.MSG.DELETE.{name}", {"seq": seq})
            del stored[name][seq]
    world.ports.advance(5 * 10**9)
    world.account.shutdown()
    return disk.copy(), earlier, stored


def flip(disk: SimDisk, _earlier: SimDisk, path: str, rng: random.Random) -> None:
    """One bit."""
    disk.content(path)[rng.randrange(_used(disk, path))] ^= 1 << rng.randrange(8)


def cut(disk: SimDisk, _earlier: SimDisk, path: str, rng: random.Random) -> None:
    """The end of a file is gone."""
    del disk.content(path)[rng.randrange(_used(disk, path)) :]


def zero(disk: SimDisk, _earlier: SimDisk, path: str, rng: random.Random) -> None:
    """A page reads as zeros."""
    content = disk.content(path)
    start = rng.randrange(_used(disk, path)) // PAGE * PAGE
    content[start : start + PAGE] = bytes(len(content[start : start + PAGE]))


def remove(disk: SimDisk, _earlier: SimDisk, path: str, _rng: random.Random) -> None:
    """A file is not there."""
    disk.remove(path)


def swap(disk: SimDisk, earlier: SimDisk, path: str, rng: random.Random) -> None:
    """A page is as it was earlier."""
    if path not in earlier.paths():
        return
    old, content = earlier.content(path), disk.content(path)
    start = rng.randrange(_used(disk, path)) // PAGE * PAGE
    page = old[start : start + PAGE]
    content[start : start + len(page)] = page


def _used(disk: SimDisk, path: str) -> int:
    """Bytes up to the space that is only set aside, so that cases are not wasted on it."""
    return len(bytes(disk.content(path)).rstrip(b"\0")) or 1


KINDS = {kind.__name__: kind for kind in (flip, cut, zero, remove, swap)}


def damage(counts: dict[str, int], *, seed: int, report: bool = True) -> DamageTally:
    """Hit a fresh copy of the disk for each case, and look."""
    disk, earlier, stored = prepared()
    rng = random.Random(seed)
    tally = DamageTally()
    paths = [path for path in disk.paths() if disk.size(path)]
    for kind, count in counts.items():
        for case in range(count):
            # Every file in turn for files that go missing, any file otherwise.
            path = paths[case % len(paths)] if kind == "remove" else rng.choice(paths)
            victim = disk.copy()
            KINDS[kind](victim, earlier, path, rng)
            tally.cases[kind] = tally.cases.get(kind, 0) + 1
            lost = _look(victim, stored, path, tally, report=report)
            tally.lost[kind] = tally.lost.get(kind, 0) + lost
            tally.lost_most[kind] = max(tally.lost_most.get(kind, 0), lost)
            if kind == "flip" and lost > 1:
                tally.violations.append(f"{lost} messages lost to one bit of {path}")
    return tally


def _look(disk: SimDisk, stored: dict[str, dict[int, bytes]], path: str, tally: DamageTally, *, report: bool) -> int:
    try:
        world = disk_world(disk)
    except Exception as error:
        tally.violations.append(f"no start with damage in {path}: {error!r}")
        return 0
    aside = world.account.snapshot().quarantined
    tally.quarantined += len(aside)
    lost_in: dict[str, int] = {}
    for name, messages in stored.items():
        missing = _missing(world, name, messages, tally)
        lost_in[name] = len(missing)
        reported = _reported(world, name) if report else set()
        if missing and not missing <= reported and not (report and aside):
            tally.violations.append(f"silent: {sorted(missing - reported)[:5]} of {name}, damage in {path}")
    if sum(count > 0 for count in lost_in.values()) > 1:
        tally.violations.append(f"damage in {path} took from both streams")
    for name in STREAMS:
        if name in world.account.streams and "error" in world.publish(f"{name}.after"):
            tally.violations.append(f"{name} takes no messages after damage in {path}")
    return sum(lost_in.values())


def _missing(world: World, name: str, messages: dict[int, bytes], tally: DamageTally) -> set[int]:
    missing = set()
    for seq, body in messages.items():
        answer = world.api(f"STREAM.MSG.GET.{name}", {"seq": seq})
        if "error" in answer:
            missing.add(seq)
        elif b64decode(answer["message"].get("data", "")) != body:
            tally.violations.append(f"wrong bytes under {seq} of {name}")
    return missing


def _reported(world: World, name: str) -> set[int]:
    info: dict[str, Any] = world.api(f"STREAM.INFO.{name}")
    lost: dict[str, Any] = info.get("state", {}).get("lost") or {}
    return set(lost.get("msgs") or [])
