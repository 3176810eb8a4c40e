"""Streams that templates make: on the first publish to a subject that no stream collects, and away again when idle.

    publish ──no stream collects it──► held, its stream is made ──it starts──► taken by it, as any other
                                                                └──refused──► the publisher is told

A message that comes while its stream is made is held behind the first, so that the order stays. What is held is
bounded; more is refused.

Invariant: a subject is never both held here and taken by a stream.
"""

from __future__ import annotations

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
_LED_WITHIN_NS: Final = 5 * SECOND_NS  # in a cluster: from when a stream is agreed on until this server leads it

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
            is_alone = self._account.cluster_streams is None
            # In a cluster another server may lead the template from now on, and make them.
            error = TableError(table.STREAM_NOT_FOUND if is_alone else table.CLUSTER_NOT_AVAIL)
            for target in list(template.held):
                self._refuse(template, target, error)

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
            elif not self._is_collected(subject):
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
            self._create(template.stream.name, config)
        except ApiError as error:
            if target in template.held:
                self._refuse(template, target, error)
            else:
                template.stream.ingest.answers.refuse(message[1], error)

    def _is_collected(self, subject: bytes) -> bool:
        cluster = self._account.cluster_streams
        return bool(self._account.holdings.collecting(subject)) if cluster is None else cluster.collects(subject)

    def _create(self, name: str, config: StreamConfig) -> None:
        cluster = self._account.cluster_streams
        if cluster is None:
            self._account.create_stream(config, partial(self._made, name, config.name))
            return

        held = self._templates[name].held[config.name]

        def agreed(error: ApiError | None) -> None:
            if error is not None:
                self._made(name, config.name, error)
            else:
                self._ports.call_later(_LED_WITHIN_NS, late)

        def late() -> None:
            """It should have started here, and got what is held. If another server leads it, publishers try again."""
            template = self._templates.get(name)
            if template is not None and template.held.get(config.name) is held:
                self._made(name, config.name, TableError(table.CLUSTER_NOT_AVAIL))

        cluster.create(config, agreed)

    def _check(self, template: _Template, config: StreamConfig) -> None:
        account, name, cluster = self._account, template.stream.name, self._account.cluster_streams
        if template.stream.config.sealed:
            raise TableError(table.STREAM_SEALED)
        is_taken = config.name in account.streams or config.name in account.offline
        if is_taken or (cluster is not None and cluster.has(config.name)):
            raise TableError(_TAKEN, name=name, stream=config.name)
        if made_by(name, account) + len(template.held) >= template.rule.limit:
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


def made_by(template: str, account: JetStreamAccount) -> int:
    """How many streams of an account a template made."""
    cluster = account.cluster_streams
    configs = (one.config for one in account.streams.values()) if cluster is None else cluster.configs()
    return sum(config.metadata.get(TEMPLATE_OF_KEY) == template for config in configs)


def _is_unused(stream: Stream) -> bool:
    """Whether nothing is in a stream or on its way into it, and nobody reads it."""
    return not (stream.store.assigned.messages or stream.interest.reader_count or stream.ingest.held)
