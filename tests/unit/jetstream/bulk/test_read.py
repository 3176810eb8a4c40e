"""BULK.INFO and BULK.READ: what is sent, when, and what happens when somebody goes or something breaks."""

from __future__ import annotations

import json

import pytest

from slipstream.jetstream.bulk.limits import (
    BULK_BESIDE_CHUNK_BYTES,
    BULK_HEARD_NS,
    BULK_HEARD_READS,
    BULK_READER_IDLE_NS,
    BULK_READERS_MAX,
    BULK_SPAN_NS,
    BULK_SWEEP_NS,
    BULK_WATCH_NS,
    BULK_WATCHED_NS,
)
from slipstream.jetstream.store.file import FileStore
from slipstream.kernels.bulk.arrowrows import RowDecoder
from slipstream.limits import BULK_PAUSE_NS
from support.bulk_world import BulkWorld, messages_of

CHUNK = 16 * 1024


@pytest.fixture(params=["file", "memory", "file, on this machine", "memory, on this machine"])
def world(request: pytest.FixtureRequest) -> BulkWorld:
    """A stream of 1000 messages under ten subjects."""
    made = BulkWorld()
    storage, _, where = request.param.partition(", ")
    made.create("S", subjects=["s.*"], storage=storage)
    made.fill(1000)
    made.reads_memory = bool(where)
    return made


def test_info(world: BulkWorld) -> None:
    info = world.api("BULK.INFO.S")
    assert (info["stream"], info["first_seq"], info["last_seq"], info["version"]) == ("S", 1, 1000, 1)
    created = world.account.streams["S"].created_ns
    assert info["identity"].startswith(f"{created}/")
    assert world.error("BULK.INFO.X") == (10059, "stream not found")


def test_everything_in_order(world: BulkWorld) -> None:
    reading = world.read(chunk_bytes=CHUNK)
    assert reading.answer["last"] == 1000
    assert len(reading.chunks) > 3
    stored = world.account.streams["S"].store
    for message in (message for chunk in reading.chunks for message in messages_of(chunk)):
        assert message == stored.get(message.seq)
    assert reading.seqs == list(range(1, 1001))
    decoder = RowDecoder((), max_rows=10_000)
    for chunk in reading.chunks:
        decoder.feed(chunk)
    assert reading.end == {
        "rows": 1000,
        "bytes": sum(map(len, reading.chunks)),
        "crc": decoder.crc,
        "last": 1000,
    }


def test_through_memory(world: BulkWorld) -> None:
    world.reads_memory = False
    plain = world.read(chunk_bytes=CHUNK)
    assert plain.in_memory == 0 and not world.ports.memories
    shared = world.read(chunk_bytes=CHUNK, memory=True, credit=3)
    assert shared.answer["memory"]["bytes"] == 3 * CHUNK + 8, "and how long to pause, for readers of files"
    assert shared.in_memory == len(shared.chunks) > 3
    assert b"".join(shared.chunks) == b"".join(plain.chunks)
    assert shared.end == plain.end
    assert not world.ports.memories  # nobody keeps it


def test_from_files(world: BulkWorld) -> None:
    """A reader that would look at files itself is told where; what is in no file comes through memory."""
    world.reads_memory = False
    plain = world.read(chunk_bytes=CHUNK)
    looking = world.read(chunk_bytes=CHUNK, memory=True, files=True)
    assert looking.in_files == (len(looking.chunks) if world.account.streams["S"].config.storage.value == "file" else 0)
    assert b"".join(looking.chunks) == b"".join(plain.chunks)
    if looking.in_files:
        assert looking.end == {**plain.end, "crc": None}, "nobody here has seen the checksums"
    assert not world.ports.loans and not world.ports.memories
    unable = world.begin_read(files=True)
    assert unable.in_files == 0, "only a reader that can open memory can open files"


def test_the_keys_of_checksums_are_in_no_message() -> None:
    """Who knows the salt of a segment can put records into a payload that pass for real ones when it is damaged."""
    world = BulkWorld()
    world.create("S", subjects=["s.*"])
    world.fill(400)
    world.reads_memory = False
    for how in ({}, {"memory": True}, {"memory": True, "files": True}):
        reading = world.read(chunk_bytes=CHUNK, **how)
        assert bool(reading.in_files) == ("files" in how)
    store = world.account.streams["S"].store
    assert isinstance(store, FileStore)
    for segment in store.log.segments:
        for key in (segment.header.salt, segment.header.salt & 0xFFFFFFFF):
            texts = (b"%d" % key, b"%x" % key, key.to_bytes(8, "little"), key.to_bytes(8, "little").rstrip(b"\0"))
            for message in world.ports.sent:
                assert not any(text in part for text in texts for part in message if part)


def test_gaps_are_left_out_of_files() -> None:
    world = BulkWorld()
    world.create("S", subjects=["s.*"])
    world.fill(400)
    for seq in (2, 3, 100, 399):
        assert world.api("STREAM.MSG.DELETE.S", {"seq": seq})["success"]
    reading = world.read(memory=True, files=True)
    assert reading.seqs == [seq for seq in range(1, 401) if seq not in (2, 3, 100, 399)]
    assert reading.in_files
    scattered = world.read(memory=True, files=True, subjects=["s.3"])
    assert scattered.in_files == 0 and scattered.in_memory, "too many places"
    assert scattered.seqs == list(range(4, 401, 10))


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("memory", [True, False])
def test_messages_that_lie_far_apart(memory: bool, cached: bool) -> None:
    """Each is read alone, in the loop or in a thread, so many for a chunk; what is close together comes in one read."""
    world = BulkWorld()
    world.disk.nothing_cached = not cached
    world.create("S", subjects=["s.*"])
    wide, narrow = b"p" * 4_000, b""
    world.fill(1_500, payload=wide)
    world.fill(1_500, payload=narrow)
    assert world.api("STREAM.MSG.DELETE.S", {"seq": 14})["success"]
    assert world.api("STREAM.MSG.DELETE.S", {"seq": 2_014})["success"]
    expected = [seq for seq in range(4, 3_001, 10) if seq not in (14, 2_014)]
    reading = world.read(subjects=["s.3"], chunk_bytes=CHUNK, memory=memory)
    assert reading.seqs == expected
    for message in (message for chunk in reading.chunks for message in messages_of(chunk)):
        assert message == world.account.streams["S"].store.get(message.seq)
    # A literal subject follows its chain, a wildcard looks at every message.
    assert world.read(subjects=["s.3", "none.*"], chunk_bytes=CHUNK, memory=memory).end == reading.end
    many = world.read(subjects=["s.3"], chunk_bytes=1 << 20, memory=memory)
    assert many.seqs == expected


def test_lent_files_go_with_their_reader(world: BulkWorld) -> None:
    world.fill(3000)
    reading = world.begin_read(memory=True, files=True, credit=1, chunk_bytes=CHUNK)
    held = world.begin_read(memory=True, files=True, credit=1, chunk_bytes=CHUNK)
    if not held.in_files:
        pytest.skip("no files")
    assert len(world.ports.loans) == 2
    reading.subscription.close()
    world.ports.advance(BULK_SWEEP_NS)
    assert len(world.ports.loans) == 1
    world.account.shutdown()
    assert not world.ports.loans


def test_lent_files_stay_until_the_reader_is_done_with_them(world: BulkWorld) -> None:
    """It may open them long after the last place was named."""
    kept = world.begin_read(memory=True, files=True, credit=8)
    if not kept.in_files:
        pytest.skip("no files")
    left = world.begin_read(memory=True, files=True, credit=8)
    assert kept.status.startswith(b"NATS/1.0 204") and left.status.startswith(b"NATS/1.0 204")
    assert len(world.ports.loans) == 2
    world.confirm(kept, len(kept.chunks))
    assert len(world.ports.loans) == 1
    left.subscription.close()
    world.ports.advance(BULK_SWEEP_NS)
    assert not world.ports.loans


def test_readers_that_have_ended_get_nothing_more(world: BulkWorld) -> None:
    ended = [world.begin_read(memory=True, files=True, credit=8) for _ in range(2)]
    ends = [one.end for one in ended]
    world.ports.advance(BULK_READER_IDLE_NS + BULK_SWEEP_NS)
    assert not world.ports.loans
    ended.append(world.begin_read(memory=True, files=True, credit=8))
    world.api("STREAM.DELETE.S")
    assert not world.ports.loans and not world.ports.memories
    assert [one.end for one in ended[:2]] == ends and "error" not in ended[2].end


def test_memory_waits_until_it_was_opened(world: BulkWorld) -> None:
    inbox, answers = b"_INBOX.m", []
    world.ports.subscribe(inbox, lambda _s, _r, header, payload: answers.append((header, payload)))
    world.ports.route(b"$JS.API.BULK.READ.S", inbox, None, b'{"memory":true,"chunk_bytes":16384}')
    world.ports.settle()
    ((_, begun),) = answers
    answer = json.loads(begun)
    assert list(world.ports.memories) == [answer["memory"]["name"]]
    world.ports.route(f"$JS.API.BULK.CREDIT.S.{answer['id']}".encode(), None, None, b"4 messages")
    world.ports.settle()
    assert not world.ports.memories
    assert len(answers) == 5 and all(header is None for header, _ in answers)


def test_without_memory_to_share(world: BulkWorld) -> None:
    world.ports.shares_memory = False
    reading = world.read(memory=True)
    assert "memory" not in reading.answer and reading.in_memory == 0
    assert reading.seqs == list(range(1, 1001))


def test_what_does_not_fit_into_memory_comes_in_messages() -> None:
    world = BulkWorld()
    world.create("S", subjects=["s.*"])
    world.fill(3)
    world.fill(2, payload=b"q" * 2 * CHUNK)
    world.fill(3)
    reading = world.read(memory=True, chunk_bytes=CHUNK)
    assert reading.seqs == list(range(1, 9))
    assert (len(reading.chunks), reading.in_memory) == (4, 2)


def test_memory_goes_with_its_reader(world: BulkWorld) -> None:
    gone = world.begin_read(memory=True, chunk_bytes=CHUNK, credit=1)
    other = world.begin_read(memory=True, chunk_bytes=CHUNK, credit=1)
    assert len(world.ports.memories) == 2
    gone.subscription.close()
    world.ports.advance(BULK_SWEEP_NS)
    assert list(world.ports.memories) == [other.answer["memory"]["name"]]
    world.account.shutdown()
    assert not world.ports.memories


def test_ranges_filters_and_times(world: BulkWorld) -> None:
    assert world.read(first=10, last=12).seqs == [10, 11, 12]
    assert world.read(first=990).seqs == list(range(990, 1001))
    assert world.read(first=5, last=4).seqs == []
    assert world.read(subjects=["s.3"], last=50).seqs == [4, 14, 24, 34, 44]
    assert world.read(subjects=["s.3", "s.5"], first=40, last=50).seqs == [44, 46]
    assert world.read(subjects=["x.*"]).seqs == []
    assert len(world.read(subjects=["*.3", ">"]).seqs) == 1000
    times = [world.account.streams["S"].store.get(seq).ts_ns for seq in (1, 1000)]
    world.ports.clock_ns += 10**9
    world.fill(5)
    assert world.read(start_time_ns=times[1] + 1).seqs == [1001, 1002, 1003, 1004, 1005]
    assert len(world.read(end_time_ns=times[1] + 1).seqs) == 1000
    assert world.read(start_time_ns=times[1] + 1, end_time_ns=times[1] + 2).seqs == []


def test_removed_messages_are_not_sent(world: BulkWorld) -> None:
    for seq, body in ((2, {"seq": 2}), (3, {"seq": 3, "no_erase": True})):
        assert world.api("STREAM.MSG.DELETE.S", body)["success"], seq
    world.api("STREAM.PURGE.S", {"filter": "s.9"})
    world.api("STREAM.PURGE.S", {"seq": 8})
    expected = [seq for seq in range(8, 1001) if seq % 10]
    assert world.read().seqs == expected
    assert b"p" * 50 not in b"".join(world.read(first=1, last=7).chunks)


def test_same_messages_same_checksum(world: BulkWorld) -> None:
    """It does not depend on chunks, nor on where records lie."""
    whole = world.read()
    assert world.read(chunk_bytes=CHUNK).end["crc"] == whole.end["crc"]
    assert world.read(last=999).end["crc"] != whole.end["crc"]


def test_credit(world: BulkWorld) -> None:
    reading = world.begin_read(credit=2, chunk_bytes=CHUNK)
    assert len(reading.chunks) == 2
    world.ports.advance(BULK_SWEEP_NS)
    assert len(reading.chunks) == 2
    world.confirm(reading)
    assert len(reading.chunks) == 3
    world.confirm(reading, 9999)
    assert len(reading.chunks) == 5, "nobody gets more than his window"
    world.ports.route(b"$JS.API.BULK.CREDIT.S.unknown", None, None, b"1")
    world.ports.route(f"$JS.API.BULK.CREDIT.T.{reading.answer['id']}".encode(), None, None, b"1")
    for nonsense in (b"", b"-1", b"x", b"99999999999", b"1.5"):
        world.ports.route(f"$JS.API.BULK.CREDIT.S.{reading.answer['id']}".encode(), None, None, nonsense)
    world.ports.settle()
    assert len(reading.chunks) == 5
    while not reading.status:
        world.confirm(reading)
    assert reading.status == b"NATS/1.0 204 EOB\r\n\r\n"
    assert reading.seqs == list(range(1, 1001))


def test_readers_that_are_gone_are_dropped(world: BulkWorld) -> None:
    readings = [world.begin_read(credit=1, chunk_bytes=CHUNK) for _ in range(BULK_READERS_MAX)]
    refused = world.begin_read()
    assert refused.answer["error"]["err_code"] == 30003
    readings[0].subscription.close()
    world.confirm(readings[0])  # it is noticed when the next chunk would go
    assert len(readings[0].chunks) == 1
    readings[1].subscription.close()
    world.ports.advance(BULK_SWEEP_NS)  # or after a while
    assert world.read(last=1).seqs == [1]
    world.ports.advance(BULK_READER_IDLE_NS + BULK_SWEEP_NS)
    assert readings[2].status == b"NATS/1.0 500 Failed\r\n\r\n"
    assert readings[2].end["error"]["err_code"] == 30007
    assert world.read(last=1).seqs == [1]


def test_congested_readers_pause(world: BulkWorld) -> None:
    world.ports.congested = True
    reading = world.begin_read(chunk_bytes=CHUNK)
    assert len(reading.chunks) == 1
    world.ports.congested = False
    world.ports.advance(10**9)
    assert reading.status or len(reading.chunks) > 1


def test_readers_take_turns(world: BulkWorld) -> None:
    order: list[bytes] = []
    for inbox in (b"_INBOX.a", b"_INBOX.b", b"_INBOX.c"):
        world.ports.subscribe(inbox, lambda subject, _reply, _header, _payload: order.append(subject))
        body = json.dumps({"chunk_bytes": CHUNK}).encode()
        world.ports.route(b"$JS.API.BULK.READ.S", inbox, None, body)
    world.ports.settle()
    first_rounds = order[3:9]  # the first answers are not chunks
    assert {first_rounds.count(inbox) for inbox in set(order)} == {2}


def test_publishes_go_first(world: BulkWorld) -> None:
    """While others are heard, readers get as many chunks in a span as there are processors to spare."""
    world.ports.cores = 4
    world.read(last=1)
    world.ports.advance(BULK_SPAN_NS)
    world.ports.reads += BULK_HEARD_READS  # somebody publishes
    reading = world.begin_read(chunk_bytes=CHUNK, credit=64)
    assert len(reading.chunks) == 2
    world.ports.advance(BULK_SPAN_NS - 1)
    assert len(reading.chunks) == 2
    world.ports.advance(1)
    assert len(reading.chunks) == 4
    world.ports.advance(2 * BULK_HEARD_NS)  # nobody was heard since
    assert reading.status.startswith(b"NATS/1.0 204")
    assert reading.seqs == list(range(1, 1001))


def test_readers_of_files_are_asked_to_pause() -> None:
    """As long as somebody else is heard; they get more at once than others, for they need not come back so soon."""
    world = BulkWorld()
    world.create("S", subjects=["s.*"])
    world.fill(100_000)
    reading = world.begin_read(chunk_bytes=CHUNK, memory=True, files=True, credit=1)
    world.ports.reads += BULK_HEARD_READS
    world.ports.advance(BULK_SPAN_NS)
    world.confirm(reading)
    assert reading.in_files == len(reading.chunks) == 2
    assert reading.pause_ns == BULK_PAUSE_NS
    assert len(reading.chunks[1]) > BULK_BESIDE_CHUNK_BYTES
    world.ports.advance(2 * BULK_HEARD_NS)
    world.confirm(reading)
    assert reading.pause_ns == 0
    while not reading.status:
        world.confirm(reading)
    assert reading.seqs == list(range(1, 100_001))


def test_readers_of_files_hear_of_others_while_they_read() -> None:
    """What was named to them before takes them a while; nobody who publishes should wait until they ask for more."""
    world = BulkWorld()
    world.create("S", subjects=["s.*"])
    world.fill(100_000)
    reading = world.begin_read(chunk_bytes=CHUNK, memory=True, files=True, credit=2)
    assert reading.in_files == 2 and reading.pause_ns == 0
    world.ports.reads += BULK_HEARD_READS
    world.ports.advance(BULK_WATCH_NS)
    assert reading.in_files == 2 and reading.pause_ns == BULK_PAUSE_NS
    world.ports.advance(2 * BULK_HEARD_NS)
    assert reading.pause_ns == 0, "nobody was heard for two windows"
    world.ports.advance(BULK_WATCHED_NS)
    world.ports.reads += BULK_HEARD_READS
    world.ports.advance(BULK_WATCH_NS)
    assert reading.pause_ns == 0, "nor was this one, which may be waiting for its own reader"
    world.confirm(reading)
    world.ports.reads += BULK_HEARD_READS
    world.ports.advance(BULK_WATCH_NS)
    assert reading.pause_ns == BULK_PAUSE_NS


def test_a_stream_that_goes(world: BulkWorld) -> None:
    reading = world.begin_read(credit=1, chunk_bytes=CHUNK)
    world.api("STREAM.DELETE.S")
    assert reading.end["error"]["err_code"] == 30006


def test_only_what_is_committed() -> None:
    world = BulkWorld()
    world.create("S", subjects=["s.*"])
    world.fill(3)
    world.ports.jobs_held = True
    world.fill(3)
    assert world.account.streams["S"].store.last_seq == 6
    world.ports.route(b"$JS.API.BULK.INFO.S", b"info", None, b"")
    world.ports.settle()
    assert not [sent for sent in world.ports.sent if sent[0] == b"info"], "it waits for what was published before"
    world.ports.jobs_held = False
    world.ports.settle()
    (info,) = [json.loads(sent[3]) for sent in world.ports.sent if sent[0] == b"info"]
    assert info["last_seq"] == 6
    refused = world.begin_read(last=7)
    assert refused.answer["error"]["err_code"] == 30004
    assert refused.answer["error"]["code"] == 503
    world.ports.jobs_held = True
    reading = world.begin_read()
    world.fill(3)
    world.ports.jobs_held = False
    world.ports.settle()
    assert reading.seqs == [1, 2, 3, 4, 5, 6]
    assert world.read(last=6).seqs == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("body", "number"),
    [
        ({"first": -1}, 30001),
        ({"first": 2**63}, 30001),
        ({"last": "x"}, 30001),
        ({"surprise": 1}, 30001),
        ({"subjects": ["a..b"]}, 30001),
        ({"subjects": ["a b"]}, 30001),
        ({"subjects": ["s"] * 300}, 30001),
        ({"identity": "1/2"}, 30005),
        ({"last": 1001}, 30004),
        ([], 30001),
    ],
)
def test_bad_requests(world: BulkWorld, body: object, number: int) -> None:
    assert world.error("BULK.READ.S", body)[0] == number
    assert world.error("BULK.READ.X", body)[0] == 10059


def test_identity_is_checked(world: BulkWorld) -> None:
    identity = world.api("BULK.INFO.S")["identity"]
    assert world.read(identity=identity, last=1).seqs == [1]
    world.api("STREAM.DELETE.S")
    world.ports.clock_ns += 1
    world.create("S", subjects=["s.*"])
    assert world.error("BULK.READ.S", {"identity": identity})[0] == 30005


def test_after_a_restart() -> None:
    world = BulkWorld()
    world.create("S", subjects=["s.*"])
    world.fill(100)
    before = world.read()
    again = world.restart()
    after = again.read()
    assert (after.chunks, after.end) == (before.chunks, before.end)
    assert again.api("BULK.INFO.S")["identity"] == before.answer["identity"]


def test_every_call_is_answered_or_done(world: BulkWorld) -> None:
    """The server counts calls that wait for an answer; confirmations are not among them when they are done."""
    world.read(chunk_bytes=CHUNK)
    world.api("BULK.PLAN.S")
    part = world.stage([("s.1", b"", b"x")])
    world.commit(1, [part])
    world.api("BULK.ABORT.S", {"txn": "T"})
    world.api("BULK.HOLD.S", {"first": 1})
    assert world.dispatcher.load.waiting == 0
    begun = world.api("BULK.STAGE.S", {"txn": "T", "part": 1})["id"]
    world.ports.jobs_held = True
    world.ports.route(f"$JS.API.BULK.STAGE.S.{begun}.0".encode(), b"_INBOX.x", None, b"bytes")
    world.ports.route(f"$JS.API.BULK.STAGE.S.{begun}.END".encode(), b"_INBOX.y", None, b'{"count":0,"crc":0,"bytes":5}')
    world.ports.route(b"$JS.API.STREAM.DELETE.S", b"_INBOX.z", None, b"")
    world.ports.settle()
    world.ports.jobs_held = False
    world.ports.settle()
    assert world.dispatcher.load.waiting == 0
