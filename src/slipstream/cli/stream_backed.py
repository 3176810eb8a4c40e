"""What key-value buckets and object stores have in common: a stream with a prefix in its name, and how it is listed."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final

import click

from slipstream.cli.connection import Failure, Session
from slipstream.cli.human import format_bytes, format_time
from slipstream.cli.link import ApiRefusal, ClientLink, Reply, decoded
from slipstream.cli.messages import Headers, encode_header
from slipstream.cli.pulling import Feed
from slipstream.cli.render import Table, print_json, print_names
from slipstream.client.wire import NoResponders

__all__ = ["StreamBacked", "print_all"]

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]+")
_NO_MESSAGE: Final = 10037
_NO_STREAM: Final = 10059


class StreamBacked:
    """One bucket or store: the stream behind it, asked and written."""

    PREFIX: ClassVar[str]  # of the stream's name
    SUBJECTS: ClassVar[str]  # first token of its subjects
    KIND: ClassVar[str]  # what it is called: bucket, object store
    TITLE: ClassVar[str]  # and above a list

    def __init__(self, session: Session, name: str) -> None:
        """Name it; nothing is asked yet.

        Raises:
            Failure: the name cannot be one.
        """
        self.name = self.checked_name(name)
        self.stream = f"{self.PREFIX}{name}"
        self._session = session

    @classmethod
    def checked_name(cls, name: str) -> str:
        """A name.

        Raises:
            Failure: it cannot be one.
        """
        if not _NAME.fullmatch(name):
            article = "an" if cls.KIND[0] in "aeiou" else "a"
            raise Failure(f"{name!r} is no name of {article} {cls.KIND}: letters, digits, _ and - are allowed")
        return name

    @classmethod
    def names(cls, link: ClientLink) -> list[str]:
        """The names of all of its kind."""
        names = link.api_pages("STREAM.NAMES", "streams", {"subject": f"{cls.SUBJECTS}.>"})
        return sorted(name.removeprefix(cls.PREFIX) for name in names if name.startswith(cls.PREFIX))

    @property
    def link(self) -> ClientLink:
        """The connection."""
        return self._session.link()

    def info(self) -> Reply:
        """The stream's info.

        Raises:
            Failure: there is none of this name.
        """
        try:
            return self.link.api(f"STREAM.INFO.{self.stream}")
        except ApiRefusal as error:
            raise self._explained(error) from error

    def _message(self, wanted: Reply) -> Reply | None:
        """One message of the stream, its data and headers decoded; None if there is none."""
        try:
            message: dict[str, Any] = self.link.api(f"STREAM.MSG.GET.{self.stream}", wanted)["message"]
        except ApiRefusal as error:
            if error.err_code == _NO_MESSAGE:
                return None
            raise self._explained(error) from error
        return {**message, **{part: base64.b64decode(message.get(part, "")) for part in ("hdrs", "data")}}

    def _store(self, subject: str, payload: bytes, headers: Headers) -> int:
        """Store a message; its sequence.

        Raises:
            ApiRefusal: the server refuses it.
        """
        try:
            answer = self.link.request(subject, payload, header=encode_header(headers))
        except NoResponders:
            raise self._missing() from None
        sequence: int = decoded(answer)["seq"]
        return sequence

    @contextmanager
    def _feed(self, filter_subject: str, fields: Reply) -> Iterator[Feed]:
        feed = Feed(self._session, self.stream, config={"filter_subject": filter_subject, **fields})
        try:
            feed.open()
        except ApiRefusal as error:
            raise self._explained(error) from error
        try:
            yield feed
        finally:
            feed.close()

    def _missing(self) -> Failure:
        return Failure(f"there is no {self.KIND} {self.name!r}")

    def _explained(self, error: ApiRefusal) -> Exception:
        return self._missing() if error.err_code == _NO_STREAM else error


def print_all(session: Session, kind: type[StreamBacked], *, names: bool, as_json: bool, counted: bool = False) -> None:
    """All buckets or stores on the screen; `counted`: with the number of messages."""
    link = session.link()
    found = kind.names(link)
    if names:
        print_names(found)
        return
    infos = [link.api(f"STREAM.INFO.{kind.PREFIX}{name}") for name in found]
    if as_json:
        print_json(infos)
        return
    if not found:
        click.echo(f"No {kind.TITLE} buckets found")
        return
    headers = ("Bucket", "Description", "Created", "Size", *(["Values"] * counted), "Last Update")
    table = Table(f"{kind.TITLE} Buckets", *headers)
    for name, info in zip(found, infos, strict=True):
        state, description = info["state"], info["config"].get("description", "")
        size = [format_bytes(state["bytes"]), *([state["messages"]] * counted)]
        table.add(name, description, format_time(info["created"]), *size, format_time(state["last_ts"]) or "never")
    table.print(spare=("Description",))
