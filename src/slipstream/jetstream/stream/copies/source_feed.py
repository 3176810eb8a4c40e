"""One stream read by another, over subjects: a consumer at the origin, and its deliveries here.

States::

    waiting ──timer──► asking ──answer──► running ──gap, silence, refusal, fault──► waiting
                         ├────error────► waiting, longer each time
                         └────no answer────► asking again, which may take longer each time
    any ──close──► closed

Also an origin in the same account is read this way. The origin then need not know who reads, one account is like
another, and everything that keeps a consumer honest (order, flow control, heartbeats, what is committed) is there once.

The consumer numbers its deliveries. A number left out, a heartbeat that knows of more than came, or silence end this
consumer; a new one starts behind what is *stored* here. So nothing is lost and nothing is stored twice, whatever
breaks. A flow control request is answered after the commit of all that came before it: the answer paces the origin by
our disk, and lets a work queue forget only what is safe here.

What this is not: what happens with a message. That is the owner's, a `mirror.Mirror` or a `sources.Source`.
"""

from __future__ import annotations

from enum import Enum, auto
from functools import partial
from typing import Final, Protocol

from slipstream.errors import UNREADABLE, ApiError
from slipstream.jetstream import errors_table as table
from slipstream.jetstream import headers
from slipstream.jetstream.ack_subjects import account_hash as hashed
from slipstream.jetstream.config.structs import CONSUMER_CONFIG, StreamSource
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.gojson import encode
from slipstream.jetstream.guard import guarded
from slipstream.jetstream.ports import Cancel, LiveSubscription, Ports
from slipstream.jetstream.store.values import SEQ_LAST
from slipstream.jetstream.stream.commit.point import AfterCommit
from slipstream.jetstream.stream.copies.origin_request import (
    ANSWER,
    FeedKind,
    OriginAnswer,
    OriginReader,
    Start,
    api_subject,
    consumer_config,
    deliver_subject,
)
from slipstream.jetstream.stream.limits import (
    SOURCE_BACKOFF_MAX_NS,
    SOURCE_BACKOFF_NS,
    SOURCE_ERROR_LOG_NS,
    SOURCE_FIRST_TIMEOUT_NS,
    SOURCE_JITTER_NS,
    SOURCE_LASTING_TIMEOUT_NS,
    SOURCE_RETRY_NS,
    SOURCE_SILENCE_NS,
    SOURCE_TIMEOUT_NS,
)

__all__ = ["FeedOwner", "SourceFeed", "clean_header"]

_CONTROL = b"NATS/1.0 100 "
_FLOW_REPLIES = b"$JS.FC."
# Times that an origin may name, as `SEQ_LAST` is for sequences. It may be a client of another account that calls itself
# a stream, and more would not fit into the store.
_TIME_NS_MAX: Final = 1 << 62
_NUMBER_DIGITS_MAX: Final = 20
_ASK_HEADER = b"NATS/1.0\r\nNats-Required-Api-Level: 4\r\n\r\n"
_POSITION = b"NATS/1.0\r\nNats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n\r\n"
_DOUBLINGS: Final = 4  # of the time that an answer may take
_TOKENS_V1 = 9
_TOKENS_V2 = 11


class _State(Enum):
    WAITING = auto()
    ASKING = auto()
    RUNNING = auto()
    CLOSED = auto()


class FeedOwner(Protocol):
    """Whose messages these become."""

    def start(self) -> Start:
        """Where to begin now, from what is stored."""
        ...

    def began(self, delivered_seq: int) -> int:
        """The origin's consumer stands behind this sequence; the sequence up to which nothing more is needed here."""
        ...

    def take(self, subject: bytes, header: bytes, payload: bytes, seq: int, ts_ns: int) -> ApiError | None:
        """Store one message, which is the next of this origin; why not, if it cannot be."""
        ...

    def caught_up(self) -> None:
        """Nearly everything the origin has is here. Called for every message that finds it so."""
        ...

    def after_commit(self, callback: AfterCommit) -> None:
        """Call when everything taken so far is committed."""
        ...


class SourceFeed:
    """Reads one origin for one owner."""

    __slots__ = (
        "_account",
        "_answers",
        "_consumer",
        "_deliver_to",
        "_deliveries",
        "_domain",
        "_dseq",
        "_fails",
        "_kind",
        "_logged_ns",
        "_name",
        "_owner",
        "_ports",
        "_requested_ns",
        "_source",
        "_state",
        "_stream",
        "_timer",
        "_unanswered",
        "_watch",
        "error",
        "lag",
        "last_heard_ns",
        "seq",
    )

    def __init__(
        self,
        kind: FeedKind,
        source: StreamSource,
        owner: FeedOwner,
        ports: Ports,
        *,
        name: str,
        reader: tuple[str, str, str],
    ) -> None:
        """Nothing happens before `open`.

        Args:
            kind: mirror or source.
            source: what to read.
            owner: who gets it.
            ports: of the reading account.
            name: what the consumer is to be called, the same each time.
            reader: stream, account and domain that read.
        """
        self._kind = kind
        self._source = source
        self._owner = owner
        self._ports = ports
        self._name = name
        self._stream, self._account, self._domain = reader
        self._state = _State.WAITING
        self._answers: LiveSubscription | None = None  # for the answer to the request in flight
        self._deliveries: LiveSubscription | None = None
        self._deliver_to = ""  # what the consumer was asked to deliver to
        self._timer: Cancel | None = None  # next attempt, or the time an answer may take
        self._watch: Cancel | None = None  # looks for silence while running
        self._consumer = b""  # as the origin calls it
        self._dseq = 0  # deliveries of this consumer so far
        self._fails = 0  # attempts in a row that were refused
        self._unanswered = 0  # attempts in a row that nobody answered
        self._requested_ns = 0  # last attempt
        self._logged_ns = 0  # when a refusal was last logged
        self.seq = 0  # sequence at the origin up to which everything was taken
        self.lag = 0  # messages the origin had behind the last one taken
        self.last_heard_ns = 0
        self.error: ApiError | None = None

    @property
    def was_asked(self) -> bool:
        """Whether the origin was ever asked for a consumer."""
        return self._requested_ns > 0

    @property
    def origin(self) -> str | None:
        """The stream it reads, if that is in the same account."""
        return self._source.name if self._source.external is None else None

    # --- life ---

    def open(self) -> None:
        """Begin, after a moment: the origin may be made in the same breath."""
        self._wait()

    def close(self) -> None:
        """Read no more. A consumer that outlives its reader is removed by `remove_consumer`."""
        self._hang_up()
        self._state = _State.CLOSED

    def remove_consumer(self) -> None:
        """Have the origin forget a lasting consumer that was made for this reader. Call before `close`."""
        if self._source.consumer is None:
            subject = api_subject(self._source, f"CONSUMER.DELETE.{self._source.name}.{self._name}")
            self._ports.publish(subject, None, None, b"")

    def retry(self) -> None:
        """Something was missed, or did not last: begin again behind what is stored."""
        if self._state is _State.RUNNING:
            self._wait()

    def hurry(self) -> None:
        """The origin has just come into being: do not wait for the next attempt."""
        if self._state is _State.WAITING and self._fails:
            self._begin_anew()

    def reconnected(self) -> None:
        """Another server is there again: if the origin is there, do not wait for an answer that was lost on the way."""
        if self._source.external is not None and self._state in (_State.WAITING, _State.ASKING):
            self._begin_anew()

    def origin_moved(self) -> None:
        """Another server leads the origin: the consumer went with the old leader, or the request did."""
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._fails = self._unanswered = 0
        self._wait()

    def _hang_up(self) -> None:
        for subscription in (self._answers, self._deliveries):
            if subscription is not None:
                subscription.close()
        for cancel in (self._timer, self._watch):
            if cancel is not None:
                cancel()
        self._answers = self._deliveries = None
        self._timer = self._watch = None
        self._consumer = b""

    def _wait(self) -> None:
        if self._state is _State.CLOSED:
            return
        self._hang_up()
        self._state = _State.WAITING
        since_ns = self._ports.now_ns() - self._requested_ns
        delay_ns = max(SOURCE_RETRY_NS - since_ns, 0) if self._requested_ns else 0
        delay_ns += min(SOURCE_BACKOFF_NS * self._fails, SOURCE_BACKOFF_MAX_NS)
        delay_ns += SOURCE_JITTER_NS + self._ports.random_below(SOURCE_JITTER_NS)
        self._timer = self._ports.call_later(delay_ns, guarded(self._ask, self._broke))

    # --- asking for a consumer ---

    def _ask(self) -> None:
        self._timer = None
        self._state = _State.ASKING
        self._requested_ns = self._ports.now_ns()
        self.error = None
        reply = f"$JSC.R.{self._random_id()}".encode()
        self._answers = self._ports.subscribe(reply, self._on_answer)
        given = self._source.consumer
        if given is not None:
            # It exists, and keeps its own place: everything behind its last ack is to come again.
            subject = api_subject(self._source, f"CONSUMER.RESET.{self._source.name}.{given.name}")
            self._expect_answer(SOURCE_LASTING_TIMEOUT_NS)
            self._ports.publish(subject, reply, None, b"")
            return
        start = self._owner.start()
        self._deliver_to = deliver_subject(self._source, self._kind, self._random_id())
        reader = OriginReader(self._name, self._account, self._stream, self._domain)
        config = consumer_config(self._source, self._kind, start, reader, self._deliver_to)
        if config.filter_subject:
            path = f"CONSUMER.CREATE.{self._source.name}.{self._name}.{config.filter_subject}"
        else:
            path = f"CONSUMER.CREATE.{self._source.name}"
        body = encode({"stream_name": self._source.name, "config": CONSUMER_CONFIG.wire(config), "action": ""})
        self._expect_answer(SOURCE_FIRST_TIMEOUT_NS)
        self._ports.publish(api_subject(self._source, path), reply, _ASK_HEADER, body)

    def _expect_answer(self, first_ns: int) -> None:
        """Wait longer each time: an origin without a leader is silent for a moment, one far away may need long."""
        timeout_ns = min(first_ns << min(self._unanswered, _DOUBLINGS), SOURCE_TIMEOUT_NS)
        self._timer = self._ports.call_later(timeout_ns, guarded(self._no_answer, self._broke))

    def _random_id(self) -> str:
        return hashed(self._ports.new_nuid())

    def _on_answer(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        if self._state is not _State.ASKING:
            return
        try:
            answer = ANSWER.decode(payload)
        except UNREADABLE:
            self._failed(TableError(table.INVALID_JSON, err="invalid consumer create response"))
            return
        given = self._source.consumer
        if answer.error is not None:
            error = answer.error
            self._failed(ApiError(error.code, error.err_code, error.description))
        elif answer.config is None or answer.delivered.stream_seq > SEQ_LAST:
            self._failed(TableError(self._kind.setup_failed, err="invalid consumer create response"))
        elif given is not None and answer.config.ack_policy != "flow_control":
            self._failed(TableError(self._kind.requires_flow_acks))
        elif given is None and answer.config.deliver_subject != self._deliver_to:
            # Whoever answered must not make this account listen, and store, what it likes.
            self._failed(TableError(self._kind.setup_failed, err="invalid consumer create response"))
        else:
            target = given.deliver_subject if given is not None else self._deliver_to
            guarded(partial(self._run, answer, target), self._broke)()

    def _failed(self, error: ApiError) -> None:
        self._ports.log("WRN", f"Stream '{self._account} > {self._stream}' cannot read '{self._source.name}': {error}")
        self._fails += 1
        self._wait()
        self.error = error

    def _broke(self, error: Exception) -> None:
        """Something that nobody expected: the feed begins again, later each time."""
        self._ports.report(f"Stream '{self._account} > {self._stream}' reading '{self._source.name}'", error)
        self._fails += 1
        self._wait()

    def _no_answer(self) -> None:
        self._unanswered += 1
        self._wait()

    # --- reading ---

    def _run(self, answer: OriginAnswer, deliver_subject: str) -> None:
        self._hang_up()
        self._state = _State.RUNNING
        self._fails = self._unanswered = 0
        self._consumer = answer.name.encode()
        self._dseq = 0
        self.seq = self._owner.began(answer.delivered.stream_seq)
        self.last_heard_ns = self._ports.now_ns()
        self._watch = self._ports.call_later(SOURCE_SILENCE_NS, guarded(self._listen, self._broke))
        self._deliveries = self._ports.subscribe(deliver_subject.encode(), self._on_message)

    def _listen(self) -> None:
        """Look for silence: the origin beats once a second even if it has nothing to say."""
        quiet_ns = self._ports.now_ns() - self.last_heard_ns
        if quiet_ns >= SOURCE_SILENCE_NS:
            self._wait()
        else:
            self._watch = self._ports.call_later(SOURCE_SILENCE_NS - quiet_ns, guarded(self._listen, self._broke))

    def _on_message(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        self.last_heard_ns = self._ports.now_ns()
        if header and not payload and header.startswith(_CONTROL):
            self._on_control(reply, header)
            return
        tokens = reply.split(b".") if reply else []
        if len(tokens) == _TOKENS_V1:
            name, deliveries, seq_text, dseq_text, ts_text, pending_text = tokens[3:]
        elif len(tokens) >= _TOKENS_V2:
            name, deliveries, seq_text, dseq_text, ts_text, pending_text = tokens[5:11]
        else:
            return
        if name != self._consumer or deliveries != b"1":
            return  # of a consumer that was given up, or not a first delivery
        numbers = seq_text, dseq_text, ts_text, pending_text
        if not all(text.isdigit() and len(text) <= _NUMBER_DIGITS_MAX for text in numbers):
            return  # not from a consumer
        seq, dseq, ts_ns, pending = map(int, numbers)
        if seq > SEQ_LAST or ts_ns > _TIME_NS_MAX:
            return
        if dseq != self._dseq + 1:
            self._wait()
            return
        if seq > self.seq:
            refusal = self._owner.take(subject, header or b"", payload, seq, ts_ns)
            if refusal is not None:
                self._refused(refusal)
                return
            self.seq = seq
        self._dseq = dseq
        self.lag = max(pending - 1, 0)
        if pending < _CAUGHT_UP:
            self._owner.caught_up()

    def _refused(self, refusal: ApiError) -> None:
        now_ns = self._ports.now_ns()
        if now_ns - self._logged_ns >= SOURCE_ERROR_LOG_NS:
            self._logged_ns = now_ns
            text = f"cannot store a message of '{self._source.name}': {refusal}"
            self._ports.log("WRN", f"Stream '{self._account} > {self._stream}' {text}")
        self._wait()

    def _on_control(self, reply: bytes | None, header: bytes) -> None:
        """A flow control request has a reply; a heartbeat says what should have come."""
        if reply:
            self._confirm(reply)
            return
        last = headers.find(header, b"Nats-Last-Consumer") or b""
        if last.isdigit() and len(last) <= _NUMBER_DIGITS_MAX and 0 < int(last) != self._dseq:
            self._wait()
            return
        stalled = headers.find(header, b"Nats-Consumer-Stalled")
        if stalled:
            self._confirm(stalled)

    def _confirm(self, reply: bytes) -> None:
        """Answer flow control, and nothing else: it is the origin that says where to."""
        if not reply.startswith(_FLOW_REPLIES):
            return
        position = _POSITION % (self._dseq, self.seq)

        def send(error: ApiError | None) -> None:
            if error is None:
                self._ports.publish(reply, None, position, b"")

        self._owner.after_commit(send)


_CAUGHT_UP = 10  # messages behind: then a mirror is fresh enough to answer for its origin


def clean_header(header: bytes) -> bytes:
    """The header block of a copy: without what only made sense where it was published."""
    header = headers.without_status(header)
    if header.find(b"Nats-") < 0:
        return header
    return headers.remove_prefixed(headers.remove_prefixed(header, b"Nats-Expected-"), b"Nats-Batch-")
