"""Streams that templates make: on the first publish to a subject that no stream collects, and away again when idle.

    publish ──no stream collects it──► held, its stream is made ──it starts──► taken by it, as any other
                                                                └──refused──► the publisher is told

A message that comes while its stream is made is held behind the first, so that the order stays. What is held is
bounded; more is refused.

Invariant: a subject is never both held here and taken by a stream.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from functools import partial
from typing import Final

from slipstream.dataclass import dataclass
from slipstream.errors import ApiError
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.config.templated import TEMPLATE_OF_KEY, TemplateRule, is_template, rule_of
from slipstream.jetstream.errors import TableError, invalid_config
from slipstream.jetstream.errors_table import ErrorSpec
from slipstream.jetstream.ports import Cancel, LiveSubscription
from slipstream.jetstream.stream.stream import Stream
from slipstream.units import MIB, SECOND_NS

__all__ = ["Templates", "made_by"]

_FULL: Final = ErrorSpec(400, 30105, "template {name} has made {limit} streams, which is the most")
_TAKEN: Final = ErrorSpec(400, 30106, "template {name} cannot make stream {stream}: another one has this name")
_MAKING_MAX: Final = 256  # streams that are made at a time, of one template
_HELD_BYTES_MAX: Final = 16 * MIB  # of one template
_HELD_MSGS_MAX: Final = 16_384
_LOOKS: Final = 4  # an idle stream is found after its time and a quarter of it at most
_LOOK_MAX_NS: Final = 60 * SECOND_NS

Held = tuple[bytes, bytes | None, bytes | None, bytes]


@dataclass(slots=True)
class _Template:
    """One of them, listening."""

    stream: Stream
    rule: TemplateRule
    subscription: LiveSubscription
    held: dict[str, list[Held]] = field(default_factory=dict)  # name of a stream that is made → messages for it
    held_bytes: int = 0
    held_msgs: int = 0
    timer: Cancel | None = None


class Templates:
    """The templates of one account."""

    def __init__(self, account: JetStreamAccount) -> None:
        """Watch the account's streams."""
        self._account = account
        self._ports = account.ports
        self._templates: dict[str, _Template] = {}
        account.on_started.append(self._started)
        account.on_updated.append(self._updated)
        account.on_stopped.append(self._stopped)

    # --- streams come, change and go ---

    def _started(self, stream: Stream) -> None:
        if is_template(stream.config):
            self._listen(stream)
            return
        maker = self._templates.get(stream.config.metadata.get(TEMPLATE_OF_KEY, ""))
        if maker is not None and stream.name in maker.held:
            for message in self._release(maker, stream.name):
                stream.ingest.on_publish(*message)

    def _updated(self, stream: Stream) -> None:
        old = self._templates.get(stream.name)
        if old is not None:
            self._hush(old)
            self._listen(stream, old)

    def _stopped(self, stream: Stream) -> None:
        template = self._templates.pop(stream.name, None)
        if template is not None:
            self._hush(template)
            for target in list(template.held):
                self._refuse(template, target, TableError(table.STREAM_NOT_FOUND))

    def _listen(self, stream: Stream, old: _Template | None = None) -> None:
        rule = rule_of(stream.config)
        subscription = self._ports.subscribe(rule.subject.encode(), partial(self._on_publish, stream.name))
        template = _Template(stream, rule, subscription)
        if old is not None:
            template.held, template.held_bytes, template.held_msgs = old.held, old.held_bytes, old.held_msgs
        self._templates[stream.name] = template
        if rule.idle_ns:
            self._look_later(template)

    def _hush(self, template: _Template) -> None:
        template.subscription.close()
        if template.timer is not None:
            template.timer()
            template.timer = None

    # --- making ---

    def _on_publish(self, name: str, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        template = self._templates[name]
        try:
            target = template.rule.name_for(subject.decode())
            if target in template.held:
                self._hold(template, target, (subject, reply, header, payload))
            elif not self._account.holdings.collecting(subject):
                self._make(template, target, (subject, reply, header, payload))
        except UnicodeDecodeError:
            template.stream.ingest.answers.refuse(reply, invalid_config("a stream cannot have this subject: not UTF-8"))
        except Exception as error:
            # Nobody expected it: the publisher is told all the same.
            self._ports.report(f"Template '{self._account.name} > {name}'", error)
            template.stream.ingest.answers.refuse(reply, TableError(table.STREAM_GENERAL, err="internal error"))

    def _make(self, template: _Template, target: str, message: Held) -> None:
        config = template.rule.stream_for(template.stream.config, message[0].decode())
        try:
            self._check(template, config)
            template.held[target] = []
            self._hold(template, target, message)
            self._account.create_stream(config, partial(self._made, template.stream.name, target))
        except ApiError as error:
            if target in template.held:
                self._refuse(template, target, error)
            else:
                template.stream.ingest.answers.refuse(message[1], error)

    def _check(self, template: _Template, config: StreamConfig) -> None:
        account, name = self._account, template.stream.name
        if template.stream.config.sealed:
            raise TableError(table.STREAM_SEALED)
        if config.name in account.streams or config.name in account.offline:
            raise TableError(_TAKEN, name=name, stream=config.name)
        if made_by(name, account.streams.values()) + len(template.held) >= template.rule.limit:
            raise TableError(_FULL, name=name, limit=template.rule.limit)
        if len(template.held) >= _MAKING_MAX:
            raise TableError(table.INSUFFICIENT_RESOURCES)

    def _made(self, name: str, target: str, outcome: Stream | ApiError) -> None:
        template = self._templates.get(name)
        if template is not None and isinstance(outcome, ApiError):
            self._refuse(template, target, outcome)

    def _hold(self, template: _Template, target: str, message: Held) -> None:
        size = sum(len(part) for part in message if part is not None)
        if template.held_bytes + size > _HELD_BYTES_MAX or template.held_msgs >= _HELD_MSGS_MAX:
            template.stream.ingest.answers.refuse(message[1], TableError(table.INSUFFICIENT_RESOURCES))
            return
        template.held[target].append(message)
        template.held_bytes += size
        template.held_msgs += 1

    def _release(self, template: _Template, target: str) -> list[Held]:
        messages = template.held.pop(target, [])
        template.held_msgs -= len(messages)
        template.held_bytes -= sum(len(part) for message in messages for part in message if part is not None)
        return messages

    def _refuse(self, template: _Template, target: str, error: ApiError) -> None:
        for message in self._release(template, target):
            template.stream.ingest.answers.refuse(message[1], error)

    # --- idle streams ---

    def _look_later(self, template: _Template) -> None:
        delay_ns = min(max(template.rule.idle_ns // _LOOKS, SECOND_NS // _LOOKS), _LOOK_MAX_NS)
        template.timer = self._ports.call_later(delay_ns, partial(self._look, template))

    def _look(self, template: _Template) -> None:
        self._look_later(template)
        now_ns = self._ports.now_ns()
        for stream in list(self._account.streams.values()):
            if stream.config.metadata.get(TEMPLATE_OF_KEY) == template.stream.name:
                used_ns = max(stream.appends.last_ts_ns, stream.created_ns)
                if now_ns - used_ns >= template.rule.idle_ns and _is_unused(stream):
                    self._account.delete_stream(stream.name, lambda _: None, only_if=_is_unused)


def made_by(template: str, streams: Iterable[Stream]) -> int:
    """How many of these a template made."""
    return sum(stream.config.metadata.get(TEMPLATE_OF_KEY) == template for stream in streams)


def _is_unused(stream: Stream) -> bool:
    """Whether nothing is in a stream or on its way into it, and nobody reads it."""
    return not (stream.store.assigned.messages or stream.interest.reader_count or stream.ingest.held)
