"""What backups are made of, from stored messages in one call: kernels against the plain forms."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from models import natsblock as model
from slipstream.jetstream.backup.archive import ArchiveEntry, encode_entry
from slipstream.jetstream.backup.s2 import S2Reader
from slipstream.jetstream.store.memory import MemoryStore
from slipstream.kernels.backup import archiveentries, natsblock
from slipstream.kernels.backup.s2block import encode_block, encode_chunks
from slipstream.kernels.log.record import crc32c

IDENTITY = b"\xff\x06\x00\x00S2sTwO"
HEADER = b"NATS/1.0\r\nA: b\r\n\r\n"

message = st.tuples(
    st.integers(1, 1 << 40),  # how far behind the one before
    st.integers(0, 1 << 61),
    st.one_of(st.just(b"a"), st.binary(min_size=1, max_size=200)),
    st.sampled_from([b"", HEADER]),
    st.binary(max_size=300),
    st.sampled_from([0, 0, 1_900_000_000_000_000_000]),
)
Message = tuple[int, int, bytes, bytes, bytes, int]


def filled(messages: list[Message]) -> MemoryStore:
    store, seq = MemoryStore(b"", random64=lambda: 7), 0
    for step, ts_ns, subject, headers, payload, expires_ns in messages:
        seq += step
        store.append(seq, ts_ns, subject, headers, payload, expires_ns)
    job = store.begin_commit()
    assert job is not None
    job.run()
    store.finish_commit(job)
    return store


@given(st.lists(message, min_size=1, max_size=12), st.binary(min_size=32, max_size=32), st.integers(1, 12))
def test_a_batch_is_encoded_as_its_messages_are(messages: list[Message], key: bytes, most: int) -> None:
    store = filled(messages)
    batch = store.gather((), 0, max_msgs=most, max_bytes=1 << 20, up_to_seq=store.last_seq)
    found = [batch.message(i) for i in range(len(batch))]
    assert len(found) == min(most, len(messages))
    assert natsblock.encode_batch(batch, key) == b"".join(
        model.record(key, one.seq, one.ts_ns, one.subject, one.headers, one.payload) for one in found
    )
    assert archiveentries.encode(batch) == b"".join(
        encode_entry(ArchiveEntry(one.subject, one.ts_ns, one.seq, one.headers, one.payload)) for one in found
    )


@given(st.lists(message, min_size=1, max_size=12), st.integers(0, 11), st.integers(1, 13))
def test_the_longest_message(messages: list[Message], removed: int, limit: int) -> None:
    store = filled(messages)
    seqs = [one.seq for one in store.read_batch((), 0, max_msgs=99, max_bytes=1 << 20, up_to_seq=store.last_seq)]
    gone = seqs[removed % len(seqs)]
    sizes = {seq: sum(map(len, one[2:5])) for seq, one in zip(seqs, messages, strict=True)}
    store.delete(gone)
    job = store.begin_commit()
    assert job is not None
    job.run()
    store.finish_commit(job)
    bound = seqs[-1] if len(seqs) % 2 else seqs[len(seqs) // 2]
    longest, seq = 0, seqs[0]
    while seq:
        found, after = store.longest_message(seq, bound, limit)
        assert after == 0 or seq < after <= bound
        longest, seq = max(longest, found), after
    assert longest == max([sizes[seq] for seq in seqs if seq <= bound and seq != gone], default=0)


def _chunk(content: bytes) -> bytes:
    block = encode_block(content)
    kind, body = (b"\0", block) if len(block) < len(content) - len(content) // 8 else (b"\1", content)
    crc = crc32c(content)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return kind + (len(body) + 4).to_bytes(3, "little") + masked.to_bytes(4, "little") + body


@given(
    st.lists(st.one_of(st.binary(min_size=1, max_size=100), st.just(b"ab" * 40)), min_size=1, max_size=6),
    st.sampled_from([1, 3, 400, 700]),
    st.integers(0, 70_000),
)
def test_chunks(parts: list[bytes], times: int, cut: int) -> None:
    content = b"".join(parts) * times
    content = content[: max(len(content) - cut, 0)]
    chunks = encode_chunks(content)
    assert chunks == b"".join(_chunk(content[at : at + 65_536]) for at in range(0, len(content), 65_536))
    assert b"".join(S2Reader().feed(IDENTITY + chunks)) == content
