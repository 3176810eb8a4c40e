"""What another server says, as plain Python: the specification of `slipstream.kernels.links.linkparser`."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Rules", "calls_of"]

_VERBS = ("ping", "pong", "connect", "info", "+ok", "-err ")


class Rules(NamedTuple):
    """What a link understands."""

    routed: bool = True
    named_accounts: bool = True
    ready: bool = True
    headers: bool = True
    max_payload: int = 1024
    gateway: bool = False  # a route to another cluster, with accounts that come and go
    addressed: bool = False


class _Violation(Exception):
    pass


def calls_of(data: bytes, rules: Rules) -> list[tuple[Any, ...]]:
    """The calls that whole operations lead to; the last one may be `violation`. An incomplete one leads to none."""
    calls: list[tuple[Any, ...]] = []
    try:
        while data:
            line, newline, rest = data.partition(b"\n")
            if not newline:
                break
            line = line[:-1] if line.endswith(b"\r") else line
            if line[:4].lower() in (b"rmsg", b"hmsg", b"lmsg") and line[4:5] in (b" ", b"\t"):
                used = _message(line, rest, rules, calls)
                if used is None:
                    break
                data = rest[used:]
            else:
                _control(line, rules, calls)
                data = rest
    except _Violation:
        calls.append(("violation",))
    return calls


def _words(line: bytes) -> list[bytes]:
    return [word for word in line.replace(b"\t", b" ").split(b" ") if word]


def _number(word: bytes) -> int:
    if not 1 <= len(word) <= 9 or not all(48 <= byte <= 57 for byte in word):
        raise _Violation
    return int(word)


def _is_clean(line: bytes) -> bool:
    return not any(byte in line for byte in (b"\0", b"\f", b"\r"))


def _message(line: bytes, rest: bytes, rules: Rules, calls: list[tuple[Any, ...]]) -> int | None:
    """Bytes of the body and its end; None while they are not all there."""
    kind, words = line[:1].lower(), _words(line[5:])
    if not rules.ready or (kind == b"r" and not rules.routed) or not _is_clean(line):
        raise _Violation
    if kind == b"l" and rules.gateway:
        raise _Violation
    has_origin = rules.routed and kind == b"l"
    leading, sizes = has_origin + rules.named_accounts + 1, 2 if kind == b"h" or has_origin else 1
    if len(words) < leading + sizes:
        raise _Violation
    origin = words[0] if has_origin else None
    account = words[has_origin] if rules.named_accounts else b""
    subject, between = words[leading - 1], words[leading:-sizes]
    size = _number(words[-1])
    header_size = _number(words[-2]) if sizes == 2 else 0
    if header_size > size or size > rules.max_payload or (header_size and not rules.headers):
        raise _Violation
    if len(rest) < size + 2:
        if len(rest) > size and rest[size : size + 1] != b"\r":
            raise _Violation
        return None
    if rest[size : size + 2] != b"\r\n":
        raise _Violation
    reply, queues = between[0] if between else None, None
    if reply in (b"+", b"|"):
        names = between[1:]
        reply = names.pop(0) if reply == b"+" and names else None
        if (between[0] == b"+" and reply is None) or not names:
            raise _Violation
        queues = tuple(names)
    elif len(between) > 1:
        raise _Violation
    if rules.addressed and subject.startswith(b"_GR_.") and len(subject) > 19:
        calls.append(("addressed", account, subject, reply, header_size, rest[:size]))
    else:
        calls.append(("message", account, subject, reply, queues, origin, header_size, rest[:size]))
    return size + 2


def _control(line: bytes, rules: Rules, calls: list[tuple[Any, ...]]) -> None:
    low = line.lower()
    if low[:3] in (b"ls+", b"ls-", b"rs+", b"rs-") and line[3:4] in (b" ", b"\t"):
        _interest(line, rules, calls)
        return
    if rules.gateway and low[:2] in (b"a+", b"a-") and line[2:3] in (b" ", b"\t"):
        words = _words(line[3:])
        if not rules.ready or len(words) != 1 or not _is_clean(line):
            raise _Violation
        calls.append(("account", words[0], low[1:2] == b"+"))
        return
    verb = next((verb for verb in _VERBS if low.startswith(verb.encode())), None)
    if verb is None and low.startswith(b"-err\t"):
        verb = "-err "
    if verb is None:
        raise _Violation
    if verb in ("ping", "pong"):
        calls.append((verb,))
    elif verb == "-err ":
        calls.append(("error", line[5:]))
    elif verb != "+ok":
        calls.append((verb, line[len(verb) :].lstrip(b" \t")))


def _interest(line: bytes, rules: Rules, calls: list[tuple[Any, ...]]) -> None:
    leaf, wanted, words = line[:1].lower() == b"l", line[2:3] == b"+", _words(line[4:])
    if not rules.ready or (not leaf and not rules.routed) or (leaf and rules.gateway) or not _is_clean(line[4:]):
        raise _Violation
    has_origin = rules.routed and leaf
    leading = has_origin + rules.named_accounts
    if len(words) - leading not in (1, 3 if wanted else 2):
        raise _Violation
    origin = words[0] if has_origin else None
    account = words[has_origin] if rules.named_accounts else b""
    subject, *queue = words[leading:]
    if not wanted:
        calls.append(("gone", account, subject, queue[0] if queue else None, origin))
        return
    weight = max(_number(queue[1]), 1) if queue else 1
    calls.append(("wants", account, subject, queue[0] if queue else None, weight, origin))
