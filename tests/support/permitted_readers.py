"""Readers with random permissions and subscriptions, and what may come to them."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable

from models import subject as subjects
from models.permissions import Rules
from support.entrances import Client, Received

WORDS = ("a", "b", "c")
CONCRETE = [f"{one}.{two}" for one in WORDS for two in WORDS]
QUEUES = (None, None, "q1", "q2", "v.1")
QUEUE_RULES = (None, None, None, "q1", "v.*", "*", ">")
READERS = 6


def pattern(rng: random.Random) -> str:
    return f"{rng.choice((*WORDS, '*'))}.{rng.choice((*WORDS, '*', '>'))}"


def coded(queue: str | None) -> bytes | None:
    return None if queue is None else queue.encode()


def rules(rng: random.Random) -> Rules:
    def some(most: int) -> list[tuple[bytes, bytes | None]]:
        queues = [rng.choice(QUEUE_RULES) for _ in range(rng.randint(0, most))]
        return [(pattern(rng).encode(), coded(queue)) for queue in queues]

    return Rules(some(5) or None if rng.random() < 0.5 else None, some(3))


def entries(made: Rules) -> str:
    """As a block of the configuration."""
    allow, deny = made.as_entries()
    allowed = "" if allow is None else f"allow: {json.dumps(allow)}, "
    return f"{{ {allowed}deny: {json.dumps(deny)} }}"


class Reader:
    """Somebody with random subscriptions."""

    def __init__(self, rng: random.Random, right: Rules, client: Client) -> None:
        self.rules = right
        self.client = client
        self.subs: dict[int, tuple[str, str | None]] = {}
        wanted = [*CONCRETE, ">", "*.*", *(pattern(rng) for _ in range(6))]
        for sid, subject in enumerate(wanted, 1):
            queue = rng.choice(QUEUES)
            self.client.send(f"SUB {subject} {queue or ''} {sid}\r\n".encode())
            refused = bool(self.client.sync()[1])
            if subject in CONCRETE:
                # A subscription to the very subject is granted exactly when the rules grant it.
                granted = self.rules.grants(subject.encode(), coded(queue))
                assert refused is not granted, (subject, queue, self.rules)
            if not refused:
                self.subs[sid] = (subject, queue)

    def may_have(self, sid: int, subject: str) -> bool:
        wanted, queue = self.subs[sid]
        return subjects.matches(wanted.encode(), subject.encode()) and self.rules.grants(subject.encode(), coded(queue))


def check_deliveries(
    way: str, readers: list[Reader], came_to: Callable[[str, Received], str | None]
) -> set[tuple[str, str]]:
    """Each subscription has what is allowed on the concrete subject, each queue group at most one of it.

    Returns:
        Groups and subjects that nobody got though a member may have it.
    """
    group: Counter[tuple[str, str]] = Counter()
    allowed_to: set[tuple[str, str]] = set()
    for reader in readers:
        came = Counter((one.sid, came_to(way, one)) for one in reader.client.sync()[0])
        for sid, (_, queue) in reader.subs.items():
            for subject in CONCRETE:
                allowed, times = reader.may_have(sid, subject), came[sid, subject]
                if queue is None:
                    assert times == allowed, (way, subject, reader.subs[sid], reader.rules)
                    continue
                assert times <= allowed, (way, subject, reader.subs[sid], reader.rules)
                group[queue, subject] += times
                if allowed:
                    allowed_to.add((queue, subject))
    assert max(group.values(), default=0) <= 1, (way, group)
    return {place for place in allowed_to if not group[place]}
