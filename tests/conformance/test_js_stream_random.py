"""Random histories asked of nats-server and of the account without a server: configurations, publishes, reads.

Each seed is one history and always the same. The tables hold values near the edges of the rules; what is known to
differ is left out: settings that are refused here, and an update to `republish: {}`, which nats-server turns into
republishing everything onto itself.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.jetstream_oracle import Both, Oracle
from support.jetstream_world import World
from support.servers import ServerPool

MEMORY = 1 << 30
STORAGE = 10 << 30


@pytest.fixture(scope="module")
def oracle(server_pool: ServerPool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    directory = tmp_path_factory.mktemp("oracle")
    config = f'jetstream {{ store_dir: "{directory}", max_mem: {MEMORY}, max_file: {STORAGE} }}\n'
    with server_pool.prepared("real", config, ()) as server:
        client = Oracle(server.port)
        yield client
        client.close()


@pytest.fixture
def both(oracle: Oracle) -> Iterator[Both]:
    asker = Both(oracle, World(max_memory=MEMORY, max_storage=STORAGE))
    yield asker
    asker.clear()


NUMBERS: list[Any] = [
    *(0, 1, -1, -2, 2, 5, 6, 100, 1000, 99_999_999, 10**8, 10**9, 120 * 10**9, 2**31 - 1, 2**31, 2**63 - 1, 2**63),
    *(1.5, True, None, "1", "", [], {}),
]
TEXTS: list[Any] = ["", "a", "a b", "a.b", "*", "é", "<&>", "x" * 300, None, 1, [], {}, True]
PATTERNS: list[Any] = ["a", "b", "a.b", "a.*", "a.>", "*", ">", "b.c", "$JS.x", None, 1]
FLAGS: list[Any] = [True, False, None]
SETTINGS: dict[str, Callable[[random.Random], Any]] = {
    "description": lambda rng: rng.choice(TEXTS),
    "subjects": lambda rng: rng.choice([rng.choices(PATTERNS, k=rng.randint(0, 3)), "a", None, 1]),
    "retention": lambda rng: rng.choice(["limits", "interest", "workqueue", "x", None]),
    **dict.fromkeys(
        ["max_consumers", "max_msgs", "max_bytes", "max_age", "max_msgs_per_subject", "max_msg_size"],
        lambda rng: rng.choice(NUMBERS),
    ),
    "duplicate_window": lambda rng: rng.choice(NUMBERS),
    "discard": lambda rng: rng.choice(["old", "new", "NEW", "x"]),
    "num_replicas": lambda rng: rng.choice([0, 1, 1, 2, 6, -1, None, "x"]),
    "placement": lambda rng: rng.choice([{}, {"cluster": "c"}, {"preferred": "x"}, None, 1, {"x": 1}]),
    "compression": lambda rng: rng.choice(["none", "s2", "x", None]),
    "first_seq": lambda rng: rng.choice([0, 1, 5, -1, None, "x", 1.5]),
    "subject_transform": lambda rng: {"src": rng.choice(PATTERNS), "dest": rng.choice(["b", "c.>", "{{x()}}", "", 1])},
    "republish": lambda rng: {"src": rng.choice(PATTERNS), "dest": rng.choice(["r", "r.>", "a"])},
    "consumer_limits": lambda rng: rng.choice([{}, {"max_ack_pending": rng.choice(NUMBERS)}, None, {"y": 1}]),
    "subject_delete_marker_ttl": lambda rng: rng.choice([0, 1, -1, 10**9, 5 * 10**9]),
    "metadata": lambda rng: rng.choice([None, {}, {"b": "1", "a": "2"}, {"_nats.ver": "x"}, {"a": 1}]),
    **dict.fromkeys(
        ["no_ack", "allow_direct", "discard_new_per_subject", "deny_delete", "deny_purge", "allow_rollup_hdrs"],
        lambda rng: rng.choice(FLAGS),
    ),
    **dict.fromkeys(["allow_msg_ttl", "sealed", "pedantic"], lambda rng: rng.choice(FLAGS)),
    "unknown": lambda _: 1,
}


@pytest.mark.parametrize("seed", range(6))
def test_configurations(both: Both, seed: int) -> None:
    rng = random.Random(seed)
    for step in range(150):
        name = f"R{seed}-{step % 3}"
        chosen = rng.sample(list(SETTINGS), rng.randint(0, 5))
        config = {"name": name, "storage": "memory", **{key: SETTINGS[key](rng) for key in chosen}}
        verb = rng.choices(["CREATE", "UPDATE", "DELETE", "INFO"], [5, 3, 1, 1])[0]
        both.api(f"STREAM.{verb}.{name}", config if verb in ("CREATE", "UPDATE") else b"")
        if step % 10 == 0:
            both.api("STREAM.NAMES", {"subject": rng.choice(["a", ">", "b.*"])})


SUBJECTS = ["s.a", "s.b", "s.a.b", "s.c"]
FILTERS = [*SUBJECTS, "s.*", "s.>"]
HEADERS: dict[str, Callable[[random.Random], str]] = {
    "Nats-Msg-Id": lambda rng: rng.choice("123"),
    "Nats-Expected-Last-Sequence": lambda rng: str(rng.randint(0, 12)),
    "Nats-Expected-Last-Subject-Sequence": lambda rng: str(rng.randint(0, 8)),
    "Nats-Expected-Last-Subject-Sequence-Subject": lambda rng: rng.choice(FILTERS),
    "Nats-Expected-Last-Msg-Id": lambda rng: rng.choice("123"),
    "Nats-Rollup": lambda rng: rng.choice(["sub", "all", "x"]),
    "Nats-TTL": lambda rng: rng.choice(["100", "never", "x", "1h"]),
    "Nats-Expected-Stream": lambda rng: rng.choice("ST"),
    "X": lambda rng: "y" * rng.randint(0, 30),
}
LIMITS: dict[str, list[Any]] = {
    "max_msgs": [3, 5],
    "max_bytes": [150, 300],
    "max_msgs_per_subject": [1, 2],
    "discard": ["new", "old"],
    "max_msg_size": [60],
    "allow_rollup_hdrs": [True],
    "allow_msg_ttl": [True],
    "deny_delete": [True],
    "subject_transform": [{"src": "s.*", "dest": "s.x.{{wildcard(1)}}"}],
    "retention": ["workqueue", "interest", "limits", "limits"],
    "first_seq": [7],
    "subject_delete_marker_ttl": [60 * 10**9],
}


@pytest.mark.parametrize("seed", range(40))
def test_histories(both: Both, seed: int) -> None:
    rng = random.Random(seed)
    limits = {key: rng.choice(values) for key, values in LIMITS.items() if rng.random() < 0.3}
    both.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "storage": "memory", "allow_direct": True, **limits})
    for _ in range(25):
        step = rng.choices([publish, delete, purge, look, get, get_directly], [11, 1, 1, 2, 2, 3])[0]
        step(both, rng)


def publish(both: Both, rng: random.Random) -> None:
    header = None
    if rng.random() < 0.6:
        lines = "".join(f"{key}: {HEADERS[key](rng)}\r\n" for key in rng.sample(list(HEADERS), rng.randint(1, 2)))
        header = f"NATS/1.0\r\n{lines}\r\n".encode()
    both.ask(rng.choice(SUBJECTS), b"p" * rng.randint(0, 40), header)


def delete(both: Both, rng: random.Random) -> None:
    both.api("STREAM.MSG.DELETE.S", {"seq": rng.randint(0, 15), "no_erase": rng.random() < 0.5})


def purge(both: Both, rng: random.Random) -> None:
    request: dict[str, Any] = {"filter": rng.choice(FILTERS)} if rng.random() < 0.6 else {}
    if rng.random() < 0.5:
        request[rng.choice(["seq", "keep"])] = rng.randint(0, 12)
    both.api("STREAM.PURGE.S", request)


def look(both: Both, rng: random.Random) -> None:
    both.api("STREAM.INFO.S", {"deleted_details": True, "subjects_filter": rng.choice(FILTERS)})


def get(both: Both, rng: random.Random) -> None:
    requests: list[dict[str, Any]] = [
        {"seq": rng.randint(1, 14)},
        {"last_by_subj": rng.choice(FILTERS)},
        {"next_by_subj": rng.choice(FILTERS), "seq": rng.randint(0, 12)},
    ]
    both.api("STREAM.MSG.GET.S", rng.choice(requests))


def get_directly(both: Both, rng: random.Random) -> None:
    requests: list[dict[str, Any]] = [
        {"seq": rng.randint(1, 14)},
        {"last_by_subj": rng.choice(FILTERS)},
        {"next_by_subj": rng.choice(FILTERS), "seq": rng.randint(0, 12)},
        {"seq": rng.randint(1, 10), "batch": rng.randint(1, 6)},
        {"next_by_subj": rng.choice(FILTERS), "batch": rng.randint(1, 6)},
        {"multi_last": [rng.choice(FILTERS)], "up_to_seq": rng.randint(0, 10)},
        {"multi_last": [">"], "batch": rng.randint(1, 3), "seq": rng.randint(0, 6)},
        {"seq": 1, "batch": 5, "max_bytes": rng.randint(1, 90)},
    ]
    both.api("DIRECT.GET.S", rng.choice(requests))
