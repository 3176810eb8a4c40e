"""The client protocol parser in plain Python: slow, obvious, and the specification of the kernel.

Takes the whole input at once and returns the list of sink calls the kernel has to make, whatever the reads.
"""

from __future__ import annotations

import re

BLANKS = re.compile(rb"[ \t]+")
VERBS = (b"pub", b"hpub", b"sub", b"unsub", b"connect", b"info", b"-err")
LOOSE = (b"connect", b"info")  # no blank needed behind these
BLANK = (b" ", b"\t")
BREAKING = (b"\x00", b"\x0c", b"\r")  # no argument may hold these
WORDS = (b"ping", b"pong", b"+ok")


def words(text: bytes) -> list[bytes]:
    return [word for word in BLANKS.split(text) if word]


def size_of(word: bytes) -> int:
    return int(word) if 0 < len(word) <= 9 and word.isascii() and word.isdigit() else -1


def parse(data: bytes, *, max_line: int, max_payload: int, headers: bool = True) -> list[tuple[object, ...]]:
    events: list[tuple[object, ...]] = []
    while data:
        line, newline, rest = data.partition(b"\n")
        lower = line.lower()
        if not newline:
            kind = partial_violation(lower, max_line)
            if kind:
                events.append(("violation", kind))
            return events
        line = line.removesuffix(b"\r")
        lower = line.lower()
        verb = next(
            (v for v in VERBS if lower.startswith(v) and (v in LOOSE or lower[len(v) : len(v) + 1] in BLANK)), None
        )
        if verb is None:
            word = next((w for w in WORDS if lower.startswith(w)), None)
            if word is None:
                return [*events, ("violation", "unknown")]
            if word != b"+ok":
                events.append((word.decode(),))
            data = rest
            continue
        text = line[len(verb) :].lstrip(b" \t") if verb in LOOSE else line[len(verb) + 1 :]
        if len(text.lstrip(b" \t")) > max_line:
            return [*events, ("violation", "line")]
        if verb in (b"info", b"-err"):
            events.append((verb.decode(),))
            data = rest
            continue
        args = words(text)
        if verb != b"connect" and any(byte in text for byte in BREAKING):
            args = []
        if verb in (b"pub", b"hpub"):
            extra = 1 if verb == b"hpub" else 0
            if extra and not headers:
                return [*events, ("violation", "headers")]
            if len(args) not in (2 + extra, 3 + extra):
                return [*events, ("violation", "args")]
            total = size_of(args[-1])
            header = size_of(args[-2]) if extra else 0
            if total < 0 or header < 0 or header > total:
                return [*events, ("violation", "args")]
            if total > max_payload:
                return [*events, ("violation", "payload")]
            if len(rest) > total and rest[total : total + 1] != b"\r":
                return [*events, ("violation", "unknown")]
            if len(rest) < total + 2:
                return events
            if rest[total : total + 2] != b"\r\n":
                return [*events, ("violation", "unknown")]
            reply = args[1] if len(args) == 3 + extra else None
            events.append(("publish", args[0], reply, header, rest[:total]))
            data = rest[total + 2 :]
            continue
        if verb == b"sub" and len(args) in (2, 3):
            events.append(("sub", args[0], args[1] if len(args) == 3 else None, args[-1]))
        elif verb == b"unsub" and len(args) in (1, 2):
            events.append(("unsub", args[0], size_of(args[1]) if len(args) == 2 else -1))
        elif verb == b"connect":
            events.append(("connect", text))
        else:
            return [*events, ("violation", "args")]
        data = rest
    return events


def partial_violation(lower: bytes, max_line: int) -> str | None:
    """What is wrong with a line whose end has not come yet."""
    for word in WORDS:
        if word.startswith(lower[: len(word)]) and lower.startswith(word[: len(lower)]):
            return None
    for verb in VERBS:
        if not verb.startswith(lower[: len(verb)]):
            continue
        if len(lower) > len(verb) and verb not in LOOSE and lower[len(verb) : len(verb) + 1] not in BLANK:
            return "unknown"
        return "line" if len(lower[len(verb) :].lstrip(b" \t")) > max_line + 1 else None
    return "unknown"
