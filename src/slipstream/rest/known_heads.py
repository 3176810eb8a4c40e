"""What HTTP libraries repeat: the head of a request that came before, byte for byte, is not read again (ADR 83).

h11 takes a hundred microseconds for a request and its answer, nearly all of it for heads, which a client sends again
and again with another subject at most. So what h11 made of the header lines of a request is remembered by their exact
bytes, and what it wrote for an answer by what the answer says. There is no second parser: what is not remembered goes
to h11, and what is remembered came from there.

The request line, where the subject is, is read here if it has the plainest form: nothing escaped, HTTP/1.1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import h11

from slipstream.monitoring.query import UrlQuery
from slipstream.rest.call import CallHeaders
from slipstream.rest.limits import KNOWN_ANSWERS_MAX, KNOWN_HEAD_BYTES_MAX, KNOWN_HEADS_MAX, KNOWN_LINES_MAX

__all__ = ["HeaderLines", "KnownAnswers", "KnownHeads", "RequestLine", "phrase"]

# No `%`, so that nothing is to be decoded, and no `#`; methods whose answers are written in full.
_PLAIN_LINE: Final = re.compile(rb"(POST|GET|PUT|DELETE) /([A-Za-z0-9$_.*>/-]+)(?:\?([A-Za-z0-9=&._-]*))? HTTP/1\.1")
# Of lines in these names depends more than one request: how long its body is, and whether the connection goes on.
_STATEFUL: Final = frozenset((b"connection", b"expect", b"transfer-encoding", b"upgrade", b"keep-alive"))
_LINE_END: Final = b"\r\n"
_HEAD_END: Final = b"\r\n\r\n"
_DATE: Final = "Thu, 01 Jan 1970 00:00:00 GMT"


@dataclass(frozen=True, slots=True)
class RequestLine:
    """A request line in its plainest form."""

    method: str
    path: tuple[str, ...]
    query: UrlQuery


@dataclass(frozen=True, slots=True)
class HeaderLines:
    """What header lines say."""

    headers: CallHeaders
    length: int  # of the body


class KnownHeads:
    """Heads of the requests of one connection."""

    def __init__(self, size: int = KNOWN_HEADS_MAX) -> None:
        """Nothing is known; `size` header blocks are kept at most, none of them if it is 0."""
        self._size = size
        self._lines: dict[bytes, RequestLine] = {}
        self._blocks: dict[bytes, HeaderLines] = {}

    def find(self, data: bytes) -> tuple[RequestLine, HeaderLines, int] | None:
        """The head that `data` begins with, and where its body begins; None: ask h11."""
        if not self._blocks:
            return None
        at = data.find(_LINE_END)
        end = data.find(_HEAD_END, at)
        if at < 0 or end < 0:
            return None
        lines = self._blocks.get(data[at:end])
        if lines is None:
            return None
        line = self._lines.get(data[:at]) or self._read_line(data[:at])
        return None if line is None else (line, lines, end + len(_HEAD_END))

    def learn(self, data: bytes, request: h11.Request, headers: CallHeaders) -> None:
        """Remember what h11 made of the head that `data` begins with."""
        at = data.find(_LINE_END)
        end = data.find(_HEAD_END, at)
        if at < 0 or not 0 <= end - at <= KNOWN_HEAD_BYTES_MAX or not self._size:
            return
        block = data[at:end]
        rest = block.replace(_LINE_END, b"")
        if b"\r" in rest or b"\n" in rest or self._read_line(data[:at]) is None:
            return  # h11 may have seen the end of the head elsewhere
        names = [name for name, _ in request.headers]
        if not _STATEFUL.isdisjoint(names):
            return
        lengths = [value for name, value in request.headers if name == b"content-length"]
        if len(self._blocks) >= self._size:
            self._blocks.clear()
        self._blocks[block] = HeaderLines(headers, int(lengths[0]) if lengths else 0)

    def _read_line(self, line: bytes) -> RequestLine | None:
        found = _PLAIN_LINE.fullmatch(line)
        if found is None:
            return None
        method, path, query = (part or b"" for part in found.groups())
        read = RequestLine(method.decode(), tuple(path.decode().split("/")), UrlQuery(query.decode()))
        if len(self._lines) >= KNOWN_LINES_MAX:
            self._lines.clear()
        if len(line) <= KNOWN_HEAD_BYTES_MAX:
            self._lines[line] = read
        return read


class KnownAnswers:
    """Heads of plain answers, as h11 writes them, for all connections of a port."""

    def __init__(self) -> None:
        self._heads: dict[tuple[int, tuple[tuple[str, str], ...]], tuple[bytes, bytes]] = {}

    def head(self, status: int, headers: tuple[tuple[str, str], ...], date: str) -> bytes:
        """The head of an answer; `headers` are few and short, and the same for many."""
        found = self._heads.get((status, headers))
        if found is None:
            found = _written(status, headers)
            if len(self._heads) >= KNOWN_ANSWERS_MAX:
                self._heads.clear()
            self._heads[status, headers] = found
        return b"%b%b%b" % (found[0], date.encode(), found[1])


def phrase(status: int) -> str:
    """What is said behind the number of a status."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _written(status: int, headers: tuple[tuple[str, str], ...]) -> tuple[bytes, bytes]:
    """What h11 writes before and behind the date."""
    http = h11.Connection(h11.SERVER)
    http.receive_data(b"POST / HTTP/1.1\r\nHost: h\r\n\r\n")
    while not isinstance(http.next_event(), h11.EndOfMessage):
        pass
    lines = [(name, _DATE if name == "Date" else value) for name, value in headers]
    written = http.send(h11.Response(status_code=status, reason=phrase(status), headers=lines)) or b""
    before, _, after = written.partition(_DATE.encode())
    return before, after
