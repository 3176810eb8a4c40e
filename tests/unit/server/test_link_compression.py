"""Compressed links without sockets: streams in pieces, levels, and bytes that become far more than they are."""

from __future__ import annotations

import random

import pytest

from slipstream.config.listener_options import CompressionOptions
from slipstream.jetstream.backup.errors import BadBackup
from slipstream.jetstream.backup.s2 import IDENTITY
from slipstream.kernels.backup.s2block import encode_chunks
from slipstream.links.compression import agreed_mode, configured_mode, mode_by_rtt
from slipstream.server.links.compression import LinkCompression
from slipstream.units import MIB, MILLISECOND_NS


def read_all(compression: LinkCompression) -> bytes:
    found = bytearray()
    while (content := compression.next_content()) is not None:
        found += content
    return bytes(found)


@pytest.mark.parametrize("mode", ["s2_uncompressed", "s2_fast"])
@pytest.mark.parametrize("cut", [1, 7, 1_000, 1 << 20])
def test_what_is_packed_is_read_however_it_is_cut(mode: str, cut: int) -> None:
    rng = random.Random(cut)
    here, there = LinkCompression(mode), LinkCompression(mode)
    flushes = [rng.randbytes(rng.choice((1, 10, 70_000))) + b"same " * 1_000 for _ in range(5)]
    wire = b"".join(here.pack([flush[:3], memoryview(flush)[3:]]) for flush in flushes)
    got = b""
    for start in range(0, len(wire), cut):
        there.receive(wire[start : start + cut])
        got += read_all(there)
    assert got == b"".join(flushes)
    assert (len(wire) < len(got)) == (mode == "s2_fast")


def test_the_level_changes_between_two_flushes() -> None:
    here, there = LinkCompression("s2_uncompressed"), LinkCompression("s2_uncompressed")
    there.receive(here.pack([b"a" * 1_000]))
    here.mode = "s2_fast"
    packed = here.pack([b"a" * 1_000])
    there.receive(packed)
    assert len(packed) < 200
    assert read_all(there) == b"a" * 2_000


def test_a_bomb_is_unpacked_a_chunk_at_a_time() -> None:
    bomb = IDENTITY + encode_chunks(b"\0" * (64 * MIB))
    assert len(bomb) < 4 * MIB
    link = LinkCompression("s2_fast")
    link.receive(bomb)
    sizes = []
    while (content := link.next_content()) is not None:
        sizes.append(len(content))
    assert max(sizes) <= 4 * MIB
    assert len(sizes) > 10


@pytest.mark.parametrize(
    "data", [b"RS+ $G foo\r\n", IDENTITY + b"\x00\x08\x00\x00" + b"x" * 8, b"\xff\x06\x00\x00nonsen"]
)
def test_what_is_no_stream_is_refused(data: bytes) -> None:
    link = LinkCompression("s2_fast")
    link.receive(data)
    with pytest.raises(BadBackup):
        read_all(link)


def test_words_of_a_configuration() -> None:
    words = {"": "accept", "on": "s2_fast", "Enabled": "s2_fast", "false": "off", "auto": "s2_auto", "best": "s2_best"}
    assert {word: configured_mode(CompressionOptions(word)) for word in words} == words


def test_modes_that_nobody_knows_are_refused() -> None:
    assert agreed_mode("s2_fast", "zstd") is None
    assert agreed_mode("s2_fast", "") == "not supported"
    assert agreed_mode("off", "zstd") == "off"


def test_the_distance_decides() -> None:
    found = [mode_by_rtt(ms * MILLISECOND_NS, CompressionOptions("s2_auto")) for ms in (1, 20, 70, 200)]
    assert found == ["s2_uncompressed", "s2_fast", "s2_better", "s2_best"]
    near = CompressionOptions("s2_auto", (5 * MILLISECOND_NS, 20 * MILLISECOND_NS))
    assert [mode_by_rtt(ms * MILLISECOND_NS, near) for ms in (1, 10, 200)] == ["s2_uncompressed", "s2_fast", "s2_fast"]
