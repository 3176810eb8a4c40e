"""The audit trail: every administrative action as a message of a hash-chained stream of the system account (ADR 65).

Records are appended by the server itself, in the turn in which the action was answered, and committed like any message;
nobody else can publish here. An action is never held up for its record: one that cannot be written is told in the log,
with what it said.

What this is not: which calls are actions (`actions`), nor who may read (`server.jetstream_system`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from slipstream.errors import ApiError
from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.api.actions import Action
from slipstream.jetstream.api.limits import AUDIT_BODY_BYTES_MAX, AUDIT_WAITING_MAX
from slipstream.jetstream.config.chained import CHAIN_KEY
from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.gojson import encode
from slipstream.jetstream.gojson.times import format_time
from slipstream.jetstream.stream.commit.pubacks import error_object
from slipstream.jetstream.stream.stream import Stream

__all__ = ["AUDIT_STREAM", "AuditTrail", "audit_stream_config"]

AUDIT_STREAM: Final = "SLIPSTREAM_AUDIT"
_SUBJECT: Final = "$SLIPSTREAM.AUDIT."
_TYPE: Final = "io.slipstream.audit.v1.action"

Record = tuple[bytes, bytes, str]  # subject, JSON, and the line for the log if it cannot be written


def audit_stream_config(max_age_ns: int, max_bytes: int) -> StreamConfig:
    """The stream of the trail. What is too old or too much goes from its beginning, and the chain says so."""
    return StreamConfig(
        name=AUDIT_STREAM,
        description="Administrative actions",
        subjects=[f"{_SUBJECT}>"],
        storage=StorageType.FILE,
        max_age_ns=max_age_ns,
        max_bytes=max_bytes,
        allow_direct=True,
        deny_delete=True,
        deny_purge=True,
        metadata={CHAIN_KEY: "blake2b"},
    )


class AuditTrail:
    """Writes actions down."""

    def __init__(self, account: JetStreamAccount, config: StreamConfig) -> None:
        """Keep the trail in a recovered account; `open` comes next."""
        self._account = account
        self._config = config
        self._ports = account.ports
        self._server = account.facts.name
        self._waiting: deque[Record] = deque()  # until the stream is there
        self._problem = ""  # why there is no stream
        self._is_open = False
        self._readers: deque[Callable[[], None]] = deque()  # who came before it was

    def open(self) -> None:
        """Make the stream, or give it the limits of the configuration. Records wait until that is done."""
        make = self._account.update_stream if AUDIT_STREAM in self._account.streams else self._account.create_stream
        try:
            make(self._config, self._opened)
        except ApiError as error:
            self._opened(error)

    def when_open(self, callback: Callable[[], None]) -> None:
        """Call back when the stream is there, or will not be: at once but for the first start."""
        if self._is_open:
            callback()
        elif len(self._readers) < AUDIT_WAITING_MAX:
            self._readers.append(callback)

    def record(
        self,
        action: Action,
        *,
        account: str,
        subject: str = "",
        body: bytes = b"",
        client: Mapping[str, object] | None = None,
        error: Mapping[str, object] | None = None,
    ) -> None:
        """Write down an action that was answered.

        Args:
            action: what was asked for.
            account: where.
            subject: what was called; empty if it was no call.
            body: the request, kept up to a limit.
            client: who asked, and from where; None: nobody who is connected.
            error: how it was refused; None: it was done.
        """
        if action.stream == AUDIT_STREAM and action.name.startswith("consumer.") and account == self._account.name:
            return  # every look would add to what is looked at
        made = {"timestamp": format_time(self._ports.now_ns()), "server": self._server, "action": action.name}
        fields: dict[str, object] = {"type": _TYPE, "id": self._ports.new_nuid(), **made, "account": account}
        named = {"stream": action.stream, "consumer": action.consumer, "target": action.target, "subject": subject}
        fields |= {name: value for name, value in named.items() if value}
        fields["client"] = dict(client) if client is not None else {}
        if body:
            fields["request"] = body[:AUDIT_BODY_BYTES_MAX].decode("utf-8", "replace")
            if len(body) > AUDIT_BODY_BYTES_MAX:
                fields["request_bytes"] = len(body)
        fields["result"] = "ok" if error is None else "error"
        if error is not None:
            fields["error"] = dict(error)
        self._write(((_SUBJECT + action.name).encode(), encode(fields), _line(fields)))

    def called(
        self,
        action: Action,
        account: str,
        subject: str,
        body: bytes,
        client: Mapping[str, object] | None,
        error: ApiError | None,
    ) -> None:
        """Write down a call of the API."""
        told = None if error is None else error_object(error)
        self.record(action, account=account, subject=subject, body=body, client=client, error=told)

    def _opened(self, outcome: Stream | ApiError) -> None:
        if isinstance(outcome, ApiError):
            self._problem = outcome.description
            self._ports.log("ERR", f"Audit trail can not be kept: {self._problem}")
        self._is_open = True
        waiting, self._waiting = self._waiting, deque()
        for record in waiting:
            self._write(record)
        while self._readers:
            self._readers.popleft()()

    def _write(self, record: Record) -> None:
        subject, payload, line = record
        stream = self._account.streams.get(AUDIT_STREAM)
        if stream is None:
            if self._problem or len(self._waiting) >= AUDIT_WAITING_MAX:
                self._lost(line, self._problem or "its stream is not there yet")
            else:
                self._waiting.append(record)
            return
        error = stream.copy_in.store(subject, b"", payload)
        if error is None:
            stream.after_commit(partial(self._committed, line))
        else:
            self._lost(line, error.description)

    def _committed(self, line: str, error: ApiError | None) -> None:
        if error is not None:
            self._lost(line, error.description)

    def _lost(self, line: str, why: str) -> None:
        self._ports.log("ERR", f"Audit record not written, {why}: {line}")


def _line(fields: Mapping[str, object]) -> str:
    """A record in few words, for the log."""
    client = fields["client"]
    who = client if isinstance(client, dict) else {}
    names = ("stream", "consumer", "target")
    what = " > ".join(str(fields[name]) for name in ("account", *names) if fields.get(name))
    asker = f"{who.get('user', '') or 'nobody'} from {who.get('host', '') or 'here'} cid {who.get('id', 0)}"
    return f"{fields['action']} '{what}' by {asker}: {fields['result']}"
