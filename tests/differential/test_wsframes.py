"""The frame kernel against the plain model, for every way to cut the bytes, and against the websockets library."""

from __future__ import annotations

import itertools

from hypothesis import example, given
from hypothesis import strategies as st
from websockets.frames import Frame as LibraryFrame
from websockets.frames import Opcode

from models import wsframes as model
from models.wsframes import Frame, meaning
from slipstream.kernels.wire import wsframes
from slipstream.kernels.wire.wsframes import FrameReader

keys = st.none() | st.binary(min_size=4, max_size=4)
# Sizes on both sides of each form of the length and of the eight-byte steps of the unmasking loop.
payloads = st.binary(max_size=40) | st.sampled_from([125, 126, 127, 300, 65535, 65536]).map(lambda size: b"q" * size)
frames = st.builds(
    Frame,
    opcode=st.sampled_from([0, 0, 1, 2, 2, 2, 8, 9, 10, 3, 15]),
    payload=payloads,
    final=st.booleans() | st.just(True),
    reserved=st.sampled_from([0, 0, 0, 0, 4, 4, 1, 2, 7]),
    key=keys,
    length_bytes=st.sampled_from([None, None, None, 8]),
    length=st.sampled_from([None, None, None, None, 2**63, 2**63 - 1, 2**64 - 1]),
)
fine_frames = st.builds(Frame, opcode=st.just(2), payload=payloads, key=st.binary(min_size=4, max_size=4))
streams = st.lists(frames | fine_frames, max_size=6).map(lambda many: b"".join(frame.encode() for frame in many))


def test_compiled_kernel_is_the_one_loaded() -> None:
    assert wsframes.__file__ is not None and wsframes.__file__.endswith(".so")


@given(
    stream=streams | st.binary(max_size=60),
    cuts=st.lists(st.integers(0, 200), max_size=8),
    require_mask=st.booleans(),
    allow_compressed=st.booleans(),
)
@example(stream=Frame(2, length=2**63).encode(), cuts=[], require_mask=True, allow_compressed=True)
@example(stream=b"\xc2\x80\x00\x00\x00\x00", cuts=[1, 2, 3, 4, 5], require_mask=True, allow_compressed=True)
def test_kernel_agrees_with_the_model(
    stream: bytes, cuts: list[int], require_mask: bool, allow_compressed: bool
) -> None:
    fast = FrameReader(require_mask, allow_compressed)
    plain = model.Reader(require_mask, allow_compressed)
    expected = meaning(plain.feed(stream))
    events = [event for piece in _cut(stream, cuts) for event in fast.feed(piece)]
    data, others = meaning(events)
    if plain.dead:
        assert (data, others) == expected
    else:
        # The model waits for whole frames, so it may lag behind by the beginning of the last one.
        assert others == expected[1]
        assert _bytes_of(data).startswith(_bytes_of(expected[0]))
    assert fast.dead == plain.dead


@given(stream=streams, cuts=st.lists(st.integers(0, 200), max_size=8))
def test_every_cut_gives_the_same(stream: bytes, cuts: list[int]) -> None:
    whole, pieces = FrameReader(True, True), FrameReader(True, True)
    events = [event for piece in _cut(stream, cuts) for event in pieces.feed(memoryview(piece))]
    assert meaning(whole.feed(bytearray(stream))) == meaning(events)


@given(payload=payloads, key=st.binary(min_size=4, max_size=4))
def test_reads_what_the_websockets_library_writes(payload: bytes, key: bytes) -> None:
    library = LibraryFrame(Opcode.BINARY, payload).serialize(mask=True)
    events = FrameReader(True, False).feed(library + Frame(2, payload, key=key).encode())
    assert b"".join(piece for _, piece in events) == payload * 2


@given(payload=payloads, cuts=st.lists(st.integers(0, 200), max_size=8), key=st.binary(min_size=4, max_size=4))
def test_masks_what_a_client_sends(payload: bytes, cuts: list[int], key: bytes) -> None:
    """However it is cut into chunks: as the model masks the whole."""
    assert wsframes.masked(_cut(payload, cuts), key) == model.mask(payload, key)


def test_dead_reader_reads_nothing() -> None:
    reader = FrameReader(True, False)
    assert reader.feed(Frame(8, b"\x03\xe8").encode() + Frame(2, b"late").encode()) == [(wsframes.CLOSE, b"\x03\xe8")]
    assert reader.dead
    assert reader.feed(Frame(2, b"later").encode()) == []


def test_announced_length_costs_nothing() -> None:
    """A frame of 2^63 - 1 bytes is read piece by piece, like any other."""
    reader = FrameReader(True, False)
    head = Frame(2, length=2**63 - 1).encode()
    assert reader.feed(head + model.mask(b"abc", b"\x01\x02\x03\x04")) == [(wsframes.DATA, b"abc")]
    assert reader.feed(model.mask(b"\0\0\0d", b"\x01\x02\x03\x04")[3:]) == [(wsframes.DATA, b"d")]


def _cut(stream: bytes, places: list[int]) -> list[bytes]:
    borders = sorted({min(place, len(stream)) for place in places} | {0, len(stream)})
    return [stream[start:end] for start, end in itertools.pairwise(borders)] or [b""]


def _bytes_of(data: list[tuple[int, bytes]]) -> bytes:
    return b"".join(payload for _, payload in data)
