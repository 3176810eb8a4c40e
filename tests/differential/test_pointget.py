"""The kernel for single messages against its plain model: which requests it answers itself, and with which bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from models.pointget import answer, key_of
from slipstream.kernels.fastpath.pointget import PointGet
from slipstream.kernels.index.subjectindex import MessageIndex
from slipstream.kernels.log.logwriter import LogWriter
from slipstream.kernels.wire.delivery import Delivery
from slipstream.kernels.wire.interest import Interest
from slipstream.kernels.wire.outbox import FlushQueue, Outbox
from slipstream.kernels.wire.receivers import Subscription

SALT = 99
PREFIX = b"$JS.API.DIRECT.GET.S"
HEADER = b"NATS/1.0\r\nA: b\r\n\r\n"
TIME_MAX_NS = 2**63 - 1

subjects = st.sampled_from([b"a", b"a.b", b"orders.new", b"\xc3\xa9", b"x" * 300])
messages = st.lists(
    st.tuples(
        subjects,
        st.sampled_from([b"", HEADER]),
        st.binary(max_size=40),
        st.integers(0, 10**10),
        st.sampled_from([0, 7]),
    ),
    max_size=6,
)
requests = st.one_of(
    st.tuples(
        st.just(b"."), subjects | st.sampled_from([b"a.*", b">", b"none"]), st.sampled_from([b"", b"", b"", b"{}"])
    ),
    st.tuples(st.just(b""), st.just(b""), st.integers(0, 8).map(lambda n: b'{"seq":%d}' % n)),
    st.tuples(
        st.just(b""),
        st.just(b""),
        st.sampled_from(
            [b"", b"{}", b'{"seq": 2}', b'{"seq":  2}', b'{"seq":02}', b'{"seq":1,"batch":2}', b'{"seq":-1}']
        )
        | st.integers(10**17, 10**22).map(lambda n: b'{"seq":%d}' % n),
    ),
)
wrongs = st.sampled_from(["", "", "", "flip", "cut", "other"])


@given(
    stored=messages,
    start_ns=st.integers(0, TIME_MAX_NS),
    request=requests,
    header=st.sampled_from([b"", b"", HEADER]),
    reply=st.sampled_from([None, b"_INBOX.1"]),
    wrong=wrongs,
)
def test_kernel_agrees_with_model(
    stored: list[tuple[bytes, bytes, bytes, int, int]],
    start_ns: int,
    request: tuple[bytes, bytes, bytes],
    header: bytes,
    reply: bytes | None,
    wrong: str,
) -> None:
    index = MessageIndex(1)
    writer = LogWriter(index)
    writer.open_segment(1, SALT, 0, 1 << 20, 0)
    kept: dict[int, tuple[int, bytes, bytes, bytes]] = {}
    last: dict[bytes, int] = {}
    for seq, (subject, block, payload, step, expires) in enumerate(stored, start=1):
        start_ns = min(start_ns + step, TIME_MAX_NS)
        assert writer.append(seq, start_ns, subject, block, payload, expires)
        kept[seq] = (start_ns, subject, block, payload)
        last[subject] = seq
    data = writer.take()
    asked: list[bytes | int] = []
    slow: list[tuple[bytes, bytes | None, bytes | None, bytes]] = []

    def find(key: bytes | int) -> tuple[int, bytes, int, int] | None:
        asked.append(key)
        place = index.place(key)
        if place is None:
            return None
        seq, _segment, offset, length = place
        if wrong == "flip":
            at = offset + length - 1
            return seq, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], offset, SALT
        if wrong == "cut":
            return seq, data[: offset + length - 1], offset, SALT
        return seq + (wrong == "other"), data, offset, SALT

    outbox = Outbox(FlushQueue(lambda: None), None, 1 << 20)
    interest = Interest()
    interest.insert(Subscription(b"_INBOX.*", None, b"5", outbox, None))
    dot, key, body = request
    key_at = len(PREFIX) + 1 if dot else 0
    kernel = PointGet(b"S", key_at, lambda *what: slow.append(what), find)
    kernel.bind(Delivery(1), interest)
    kernel(None, PREFIX + dot + key, reply, len(header), header + body)

    wanted = key_of(key_at, PREFIX + dot + key, header, body) if reply else None
    assert asked == ([wanted] if wanted is not None else [])
    seq = last.get(wanted, 0) if isinstance(wanted, bytes) else wanted or 0
    if seq not in kept or wrong:
        assert slow == [(PREFIX + dot + key, reply, header or None, body)]
        assert outbox.take() == []
        return
    assert slow == []
    time_ns, subject, block, payload = kept[seq]
    head, rest = answer(b"S", seq, time_ns, subject, block, payload)
    line = b"HMSG _INBOX.1 5 %d %d\r\n" % (len(head), len(head) + len(rest))
    assert b"".join(outbox.take()) == line + head + rest + b"\r\n"


def test_nothing_is_answered_before_it_is_bound() -> None:
    slow: list[tuple[bytes, bytes | None, bytes | None, bytes]] = []
    kernel = PointGet(b"S", 0, lambda *what: slow.append(what), lambda _: None)
    kernel(None, PREFIX, b"r", 0, b'{"seq":1}')
    assert slow == [(PREFIX, b"r", None, b'{"seq":1}')]
