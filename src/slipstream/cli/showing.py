"""How `sub` shows a message: in words, raw, as files, matched with its answer, or only counted."""

from __future__ import annotations

import base64
import json
import sys
import time
from collections import Counter, OrderedDict
from datetime import datetime
from pathlib import Path
from typing import Final

import click

from slipstream.cli.human import format_bytes, format_duration, visible
from slipstream.cli.messages import decode_header, print_body, print_headers, read_delivery
from slipstream.cli.render import Table, counted, print_json, say, tied
from slipstream.client.wire import Message
from slipstream.kernels.subjects.subject import matches

__all__ = ["Shower"]

_REQUESTS_MAX: Final = 10_000  # requests that wait for their answer


class Shower:
    """Prints messages and counts them."""

    def __init__(
        self,
        *,
        raw: bool = False,
        headers_only: bool = False,
        subjects_only: bool = False,
        timestamp: bool = False,
        delta_time: bool = False,
        translate: str = "",
        dump: str = "",
        match_replies: bool = False,
        ignored: list[str] | None = None,
        count_subjects: bool = False,
        as_json: bool = False,
    ) -> None:
        """Take the wishes of the user."""
        self.shown = 0
        self._raw = raw
        self._headers_only = headers_only
        self._subjects_only = subjects_only
        self._timestamp = timestamp
        self._delta_time = delta_time
        self._translate = translate
        self._dump = dump
        self._match_replies = match_replies
        self._ignored = ignored or []
        self._count_subjects = count_subjects
        self._as_json = as_json
        self._started_ns = time.monotonic_ns()
        self._requests: OrderedDict[str, Message] = OrderedDict()
        self._messages: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        if dump and dump != "-":
            Path(dump).mkdir(parents=True, exist_ok=True)

    def show(self, message: Message) -> None:
        """Show one message, unless it is ignored or waits for its answer."""
        if any(matches(pattern.encode(), message.subject.encode()) for pattern in self._ignored):
            return
        if self._match_replies:
            self._match(message)
            return
        self.shown += 1
        if self._count_subjects:
            self._messages[message.subject] += 1
            self._bytes[message.subject] += len(message.payload) + len(message.header)
        elif self._dump:
            self._write(message)
        elif self._as_json:
            click.echo(json.dumps(_record(message)))
        elif self._subjects_only:
            click.echo(visible(message.subject))
        elif self._raw:
            self._print_payload(message)
        else:
            self._print(message, f"[#{self.shown}]")

    def finish(self, top: int) -> None:
        """Print the report on subjects, if one is wanted."""
        if not top:
            return
        if self._as_json:
            print_json(dict(self._messages.most_common(top)))
            return
        table = Table(counted(len(self._messages), "Subject"), "Subject", "Messages", "Bytes")
        for subject, count in self._messages.most_common(top):
            table.add(subject, count, format_bytes(self._bytes[subject]))
        table.print()

    def _match(self, message: Message) -> None:
        request = self._requests.pop(message.subject, None)
        if request is not None:
            self.shown += 1
            self._print(request, f"[#{self.shown}]")
            self._print(message, f"[#{self.shown}] Matched reply:")
        elif message.reply:
            self._requests[message.reply] = message
            if len(self._requests) > _REQUESTS_MAX:
                self._requests.popitem(last=False)

    def _print(self, message: Message, prefix: str) -> None:
        delivery, subject = read_delivery(message.reply), visible(message.subject)
        stamp = ""
        if self._timestamp:
            stamp = f" @ {datetime.now().strftime('%H:%M:%S.%f')}"
        elif self._delta_time:
            stamp = f" @ {format_duration(time.monotonic_ns() - self._started_ns)}"
        indent, prefix = len(prefix) + 1, click.style(prefix, fg="cyan")
        if delivery is not None:
            place = tied(f"stream: {delivery.stream} seq {delivery.stream_seq}")
            place += f" / {tied(f'subject: {subject}')} / {tied(f'time: {delivery.time}')}"
            say(f"{prefix}{stamp} Received JetStream message: {place}", indent=indent)
        else:
            reply = f' with reply "{visible(message.reply)}"' if message.reply else ""
            say(f'{prefix}{stamp} Received on "{subject}"{reply}', indent=indent)
        headers = decode_header(message.header)
        print_headers(headers)
        if not self._headers_only:
            if headers:
                click.echo()
            self._print_payload(message)
        click.echo()

    def _print_payload(self, message: Message) -> None:
        print_body(message.payload, self._translate, subject=message.subject)

    def _write(self, message: Message) -> None:
        """A file with everything about one message, or a JSON text ended by a zero byte for `xargs -0`."""
        record = _record(message)
        if self._dump == "-":
            sys.stdout.write(json.dumps(record) + "\0")
            sys.stdout.flush()
            return
        text = json.dumps(record, indent=2)
        (Path(self._dump) / f"{self.shown:08}.json").write_text(text)


def _record(message: Message) -> dict[str, object]:
    """A message as JSON has it; its body is base64, because it may be anything."""
    return {
        "Subject": message.subject,
        "Reply": message.reply,
        "Header": _lists(decode_header(message.header)),
        "Data": base64.b64encode(message.payload).decode(),
    }


def _lists(headers: list[tuple[str, str]]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for name, value in headers:
        grouped.setdefault(name, []).append(value)
    return grouped
