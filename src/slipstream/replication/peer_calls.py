"""Questions that servers of a cluster have for each other, and their answers.

A question goes to some servers, this one perhaps among them; each answers once, later or never. What nobody waits for
any more is dropped.

What this is not: reliable. A question or an answer that is lost is lost; whoever asks has a time limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from slipstream.jetstream.ports import Cancel

__all__ = ["Answer", "PeerCalls"]

Answer = Callable[[bytes], None]
"""Gives the answer, once."""
Handler = Callable[[str, bytes, Answer], None]
"""`(method, body, answer)`"""


class _Question(msgspec.Struct, array_like=True):
    number: int
    method: str
    body: bytes


class _Answer(msgspec.Struct, array_like=True):
    number: int
    body: bytes


class PeerCalls:
    """The questions of one server, and those it is asked."""

    def __init__(
        self,
        node: int,
        send_question: Callable[[int, bytes], None],
        send_answer: Callable[[int, bytes], None],
        call_soon: Callable[[Callable[[], None]], None],
        handle: Handler,
    ) -> None:
        """Ask and answer for the server `node`; `handle` answers questions."""
        self._node = node
        self._send_question = send_question
        self._send_answer = send_answer
        self._call_soon = call_soon
        self._handle = handle
        self._number = 0
        self._waiting: dict[int, Callable[[int, bytes], None]] = {}

    def ask(self, nodes: Iterable[int], method: str, body: bytes, answered: Callable[[int, bytes], None]) -> Cancel:
        """Ask servers; `answered` gets each answer, with who gives it, until the returned function is called."""
        self._number += 1
        number = self._number
        self._waiting[number] = answered
        question = msgspec.msgpack.encode(_Question(number, method, body))
        for node in nodes:
            if node != self._node:
                self._send_question(node, question)
            else:
                answer = partial(self._take, number, node)
                self._call_soon(partial(self._handle, method, body, answer))
        return lambda: self._waiting.pop(number, None) and None

    def asked(self, sender: int, data: bytes) -> None:
        """Another server asks. What makes no sense is dropped."""
        try:
            question = msgspec.msgpack.decode(data, type=_Question)
        except (msgspec.DecodeError, UnicodeError):
            return
        number = question.number

        def answer(body: bytes) -> None:
            self._send_answer(sender, msgspec.msgpack.encode(_Answer(number, body)))

        self._handle(question.method, question.body, answer)

    def answered(self, sender: int, data: bytes) -> None:
        """Another server answers."""
        try:
            found = msgspec.msgpack.decode(data, type=_Answer)
        except msgspec.DecodeError:
            return
        self._take(found.number, sender, found.body)

    def _take(self, number: int, node: int, body: bytes) -> None:
        waiting = self._waiting.get(number)
        if waiting is not None:
            waiting(node, body)
