"""The parser of links against its plain model: the same calls, however the bytes are cut into reads."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from models.links import Rules, calls_of
from slipstream.kernels.links.linkparser import LinkParser
from slipstream.kernels.wire.delivery import Delivery
from slipstream.kernels.wire.interest import Interest
from slipstream.kernels.wire.outbox import FlushQueue, Outbox
from slipstream.kernels.wire.receivers import GATEWAY, HUB_LEAF, ROUTE, Link

LINE_MAX = 4096


class Recorder:
    """A sink that writes down what it is told, and knows every account."""

    def __init__(self, rules: Rules) -> None:
        self.calls: list[tuple[Any, ...]] = []
        kind = GATEWAY if rules.gateway else ROUTE if rules.routed else HUB_LEAF
        link = Link(kind, Outbox(FlushQueue(lambda: None), None, 1 << 20))
        link.headers = rules.headers
        self.parser = LinkParser(self, link, Delivery(1), rules.max_payload, LINE_MAX)
        self.parser.named_accounts, self.parser.ready = rules.named_accounts, rules.ready
        self.parser.arrivals.fast, self.parser.arrivals.addressed = False, rules.addressed

    def on_info(self, text: bytes) -> None:
        self.calls.append(("info", text))

    def on_connect(self, text: bytes) -> None:
        self.calls.append(("connect", text))

    def on_ping(self) -> None:
        self.calls.append(("ping",))

    def on_pong(self) -> None:
        self.calls.append(("pong",))

    def on_peer_error(self, text: bytes) -> None:
        self.calls.append(("error", text))

    def on_wanted(self, account: bytes, subjects: list[bytes]) -> None:
        assert subjects
        self.calls += [("wants", account, subject, None, 1, None) for subject in subjects]

    def on_interest(self, *wanted: object) -> None:
        assert wanted[2:] != (None, 1, None), "told with others"
        self.calls.append(("wants", *wanted))

    def on_interest_gone(self, *gone: object) -> None:
        self.calls.append(("gone", *gone))

    def on_account(self, *account: object) -> None:
        self.calls.append(("account", *account))

    def on_addressed(self, *message: object) -> None:
        self.calls.append(("addressed", *message))

    def on_unknown_account(self, account: bytes) -> bool:
        self.parser.arrivals.admit(account, Interest(), self)
        return True

    def may_publish(self, _account: bytes, _subject: bytes) -> bool:
        return True

    def on_message(self, *message: object) -> None:
        self.calls.append(("message", *message))

    def on_violation(self, _kind: int, _line: bytes) -> None:
        self.calls.append(("violation",))


word = st.sampled_from(
    [
        b"A",
        b"_GR_.cccccc.ssssss.r",
        b"a.b",
        b">",
        b"q",
        b"+",
        b"|",
        b"0",
        b"3",
        b"12",
        b"1234567890",
        b"-1",
        b"\xff",
        b"a\0b",
    ]
)
blanks = st.sampled_from([b" ", b"  ", b"\t", b" \t"])
verbs = st.sampled_from(
    [
        b"RS+",
        b"RS-",
        b"LS+",
        b"LS-",
        b"rs+",
        b"PING",
        b"pong",
        b"INFO",
        b"CONNECT",
        b"+OK",
        b"-ERR",
        b"PUB",
        b"RMSG",
        b"A+",
        b"a-",
    ]
)
ends = st.sampled_from([b"\r\n", b"\n"])


@st.composite
def any_line(draw: st.DrawFn) -> bytes:
    line = draw(verbs)
    for _ in range(draw(st.integers(0, 6))):
        line += draw(blanks) + draw(word)
    return line + draw(ends)


@st.composite
def message(draw: st.DrawFn) -> bytes:
    body = draw(st.binary(max_size=40))
    verb, between = draw(st.sampled_from([b"RMSG", b"HMSG", b"LMSG", b"hmsg"])), draw(st.lists(word, max_size=5))
    sizes = [b"%d" % draw(st.integers(0, 5)), b"%d" % len(body)] if draw(st.booleans()) else [b"%d" % len(body)]
    words = [verb, *between, *sizes]
    return b" ".join(words) + draw(ends) + body + draw(st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n", b"xx"]))


traffic = st.lists(st.one_of(any_line(), message(), message(), st.binary(max_size=6)), max_size=8).map(b"".join)
rules = st.one_of(
    st.builds(
        Rules,
        st.booleans(),
        st.booleans(),
        st.sampled_from([True, True, True, False]),
        st.booleans(),
        st.just(30),
        st.just(False),
        st.booleans(),
    ),
    st.builds(
        Rules,
        # Said because what is not said is made up: gateways speak as routes do.
        routed=st.just(True),
        named_accounts=st.just(True),
        ready=st.sampled_from([True, True, False]),
        headers=st.booleans(),
        max_payload=st.just(30),
        gateway=st.just(True),
        addressed=st.booleans(),
    ),
)


def fed(data: bytes, cuts: list[int], some: Rules) -> list[tuple[Any, ...]]:
    recorder = Recorder(some)
    marks = sorted({min(cut, len(data)) for cut in cuts})
    for first, last in itertools.pairwise([0, *marks, len(data)]):
        recorder.parser.feed(data[first:last])
    return recorder.calls


@example(b"RMSG A a.b 12\r\nhello, links\r\n", [3, 16], Rules())
@example(b"LMSG o A a.b + r q w 0 2\r\nok\r\nPING\r\n", [], Rules())
@example(b"RMSG A _GR_.cccccc.ssssss.r 2\r\nok\r\nA- A\r\nA+ A\r\n", [2, 40], Rules(gateway=True, addressed=True))
@example(b"RS+ A a.b q 0\r\nRS- A a.b q\r\nLS+ o A a.b q 3\r\n", [7], Rules())
@example(b"RS+ A a\r\nRS+ A b\r\nRS+ B c\r\nRS- A a\r\nrs+ A d\nPING\r\n", [9], Rules())
@example(b"LS+ a\r\nLS+ b\r\nLMSG a 0\r\n\r\nLS+ c\r\nNONSENSE\r\n", [], Rules(routed=False, named_accounts=False))
@given(traffic, st.lists(st.integers(0, 200), max_size=6), rules)
def test_calls_are_those_of_the_model_however_bytes_are_cut(data: bytes, cuts: list[int], some: Rules) -> None:
    assert_calls(data, cuts, some)
    assert_calls(data, list(range(len(data))), some)


def assert_calls(data: bytes, cuts: list[int], some: Rules) -> None:
    """The kernel makes the calls of the model, in one read and in several."""
    expected = calls_of(data, some)
    for calls in (fed(data, [], some), fed(data, cuts, some)):
        # What can never become an operation is refused before its end has come.
        assert calls in (expected, [*expected, ("violation",)])
        if data.endswith(b"\n") and not _ends_in_a_message(data, some):
            assert calls == expected


def _ends_in_a_message(data: bytes, some: Rules) -> bool:
    """Whether the last line may be a part of a body that is still coming."""
    return calls_of(data + b"?\n", some) == calls_of(data, some)
