"""Keeps one kind of noise off standard error: Spark's workers whose pipe was closed while they were about to write.

When Spark lets workers go it closes their sockets, and `pyspark.daemon` prints a traceback for each that had something
left to flush. Nothing is lost by that: errors of tasks are told over the socket before. `PipeErrorFilter` drops exactly
those tracebacks, which have nothing but files of pyspark in them and end with a broken pipe; `relay` puts it between
the standard error of a Java machine and ours.

What this is not: a filter of logs. Whatever is not surely such a traceback is passed on unchanged and in its order.
Only what may still become one is held back, with the lines in between, until a line tells, at most for `HELD_SECONDS`;
what the end of the Java machine cuts off in that state is dropped.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import selectors
import threading
import time
from enum import Enum, auto

__all__ = ["PipeErrorFilter", "relay"]

HELD_SECONDS = 10.0  # what is held back goes out after this: half a traceback. On a busy machine its end takes seconds
_HELD_BYTES_MAX = 64 << 10  # more than any such traceback has
_READ_BYTES = 64 << 10
_LAST_WORDS_SECONDS = 1.0  # at exit, for what the Java machine wrote before it ended

_HEAD = b"Traceback (most recent call last):"
_PREFACES = (b"PySpark daemon failed to flush the output to the worker process:", b"Exception ignored ")
_LINKS = (
    b"During handling of the above exception, another exception occurred:",
    b"The above exception was the direct cause of the following exception:",
)
_FRAME = re.compile(rb'  File "([^"]+)", line \d+, in .+')
_DETAIL = (b"    ", b"  [Previous line repeated ")  # below a frame: its code, and marks under it
_PYSPARK = rb"(?:.*/)?(?:pyspark\.zip|site-packages|dist-packages|python)/pyspark/"
_OF_WORKER = re.compile(_PYSPARK + rb"(?:daemon|worker|worker_util|serializers|sql/(?:worker|streaming)/\w+)\.py")
_HARMLESS = re.compile(_PYSPARK + rb"[\w/]+\.py|<frozen runpy>|.*/(?:runpy|socket)\.py")
_PIPE_ERRORS = (b"BrokenPipeError", b"ConnectionResetError")
_PIPE_ERROR = re.compile(rb"(?:%s)(?:: .*)?" % b"|".join(_PIPE_ERRORS))
_ANY_ERROR = re.compile(rb"[A-Za-z_][\w.]*(?::.*)?")  # a name in front of a colon; lines of logs begin with a date
_STREAM_IGNORED = re.compile(rb"Exception ignored [\w ]+:? ?<_io\.Buffered\w+ name=\d+>:?")


class _State(Enum):
    OUTSIDE = auto()  # nothing is held back
    ANNOUNCED = auto()  # the line in front of a traceback
    INSIDE = auto()  # at least one traceback has not come to its last line
    ENDED = auto()  # all have, with a broken pipe; another exception may be linked to them


class PipeErrorFilter:
    """Standard error without the tracebacks of workers whose pipe broke; bytes in, bytes out."""

    def __init__(self) -> None:
        """Nothing has come yet."""
        self._state = _State.OUTSIDE
        self._rest = b""  # the beginning of a line that may belong to such a traceback
        self._in_line = False  # the beginning of this line was passed on
        self._held: list[bytes] = []  # lines of what may be such a traceback, and those of others between them
        self._held_bytes = 0
        self._others: list[bytes] = []  # of these, the lines of others
        self._open = 0  # tracebacks without their last line; workers that end together mix theirs
        self._of_worker = False  # a frame that only workers have was seen
        self._blanks = b""  # empty lines behind a traceback that ended
        self._linked = False  # what was passed on last announces a traceback, which then belongs to it

    @property
    def holds(self) -> bool:
        """Something is held back that has to go out if nothing else comes."""
        return bool(self._rest or self._blanks) or self._state in (_State.ANNOUNCED, _State.INSIDE)

    def feed(self, data: bytes) -> bytes:
        """Take in what was written, in any pieces; what of all that came is to be passed on."""
        *lines, rest = (self._rest + data).split(b"\n")
        passed = [self._take(line + b"\n") for line in lines]
        self._rest = b""
        if rest:
            if self._in_line or (self._state is _State.OUTSIDE and not _begins(rest, (_HEAD, *_PREFACES))):
                self._in_line = not rest.endswith(b"\r")  # bars of progress begin their line again
                self._linked = False
                passed.append(rest)
            else:
                self._rest = rest
        if self._held_bytes + len(self._rest) > _HELD_BYTES_MAX:
            passed.append(self.release())
        return b"".join(passed)

    def release(self) -> bytes:
        """It took too long, or nothing more will come: what is held back, but for tracebacks that are complete."""
        passed = self._drop() if self._state is _State.ENDED else self._pass()
        if self._rest:
            passed += self._rest
            self._rest, self._in_line = b"", True
        return passed

    def finish(self) -> bytes:
        """Nothing more will come, for the Java machine has ended and its workers with it.

        A traceback that was cut off by that, with nothing but frames of pyspark up to there, tells nobody anything.
        """
        if self._state is _State.INSIDE and (self._rest.startswith(b"  ") or _begins(self._rest, _PIPE_ERRORS)):
            self._rest = b""
            passed = self._others_of_block()
            self._forget()
            return passed
        return self.release()

    def _take(self, line: bytes) -> bytes:
        if self._in_line:
            self._in_line = False
            return line
        text = line.rstrip(b"\r\n")
        if self._state is _State.ENDED:
            if not text:
                self._blanks += line
                return b""
            if text in _LINKS:
                self._hold(self._blanks + line, _State.ANNOUNCED)
                self._blanks = b""
                return b""
            return self._drop() + self._outside(line, text)
        if self._state is _State.OUTSIDE:
            return self._outside(line, text)
        return self._inside(line, text)

    def _outside(self, line: bytes, text: bytes) -> bytes:
        if text == _HEAD and not self._linked:
            self._open = 1
            self._hold(line, _State.INSIDE)
            return b""
        if text.startswith(_PREFACES):
            self._of_worker = _STREAM_IGNORED.fullmatch(text) is not None
            self._hold(line, _State.ANNOUNCED)
            return b""
        if text:
            self._linked = text in _LINKS
        return line

    def _inside(self, line: bytes, text: bytes) -> bytes:
        if text == _HEAD:
            self._open += 1
            self._hold(line, _State.INSIDE)
        elif frame := _FRAME.fullmatch(text):
            if not _HARMLESS.fullmatch(frame[1]):
                return self._pass() + line
            self._of_worker = self._of_worker or _OF_WORKER.fullmatch(frame[1]) is not None
            self._hold(line, self._state)
        elif _PIPE_ERROR.fullmatch(text) and self._of_worker:
            self._open = max(self._open - 1, 0)
            self._hold(line, _State.INSIDE if self._open else _State.ENDED)
            return b"" if self._open else self._others_of_block()
        elif not text or text.startswith(_DETAIL):
            self._hold(line, self._state)
        elif text.startswith(b"  ") or _ANY_ERROR.fullmatch(text):
            return self._pass() + line
        else:  # a log's, between ours
            self._others.append(line)
            self._hold(line, self._state)
        return b""

    def _hold(self, line: bytes, state: _State) -> None:
        self._held.append(line)
        self._held_bytes += len(line)
        self._state = state

    def _others_of_block(self) -> bytes:
        """What others wrote between the lines of tracebacks that ended; it need not wait any longer."""
        others = b"".join(self._others)
        self._held = [line for line in self._held if line not in self._others]
        self._others.clear()
        return others

    def _pass(self) -> bytes:
        passed = b"".join(self._held)
        self._forget()
        return passed

    def _drop(self) -> bytes:
        blanks = self._blanks
        if self._held[0].startswith(_PREFACES[0]):  # the daemon prints an empty line behind it
            blanks = blanks.partition(b"\n")[2]
        self._forget()
        return blanks

    def _forget(self) -> None:
        self._state = _State.OUTSIDE
        self._held.clear()
        self._others.clear()
        self._held_bytes = self._open = 0
        self._of_worker = self._linked = False
        self._blanks = b""


def _begins(rest: bytes, words: tuple[bytes, ...]) -> bool:
    """A line that begins like this may turn out to begin with one of the words."""
    return any(word.startswith(rest) or rest.startswith(word) for word in words)


def relay(source: int, target: int) -> threading.Thread:
    """Copy from one file descriptor to another through the filter, in a thread that keeps no program alive.

    Both descriptors belong to the thread from now on. If nobody reads `target` any more, what comes is thrown away, so
    that the writer never waits for it.
    """
    thread = threading.Thread(target=_copy, args=(source, target), name="slipstream-spark-errors", daemon=True)
    thread.start()
    atexit.register(thread.join, _LAST_WORDS_SECONDS)
    return thread


def _copy(source: int, target: int) -> None:
    cleaner = PipeErrorFilter()
    deadline: float | None = None  # of what is held back
    try:
        with selectors.DefaultSelector() as ready:
            ready.register(source, selectors.EVENT_READ)
            while True:
                wait = None if deadline is None else deadline - time.monotonic()
                if wait is not None and (wait <= 0 or not ready.select(wait)):
                    _write(target, cleaner.release())
                    deadline = None
                    continue
                data = os.read(source, _READ_BYTES)
                _write(target, cleaner.feed(data) if data else cleaner.finish())
                if not data:
                    return
                deadline = (deadline or time.monotonic() + HELD_SECONDS) if cleaner.holds else None
    finally:
        os.close(source)
        os.close(target)


def _write(target: int, data: bytes) -> None:
    with contextlib.suppress(OSError):
        while data:
            data = data[os.write(target, data) :]
