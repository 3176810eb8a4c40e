"""Subjects that the server may send to, for somebody, as far as clients listen there.

A client names subjects for the server to publish to: the reply of a request, where a consumer delivers, where messages
are repeated. If the client may not publish there itself, neither may the server for it do more than hand the message
to those who subscribed: nothing inside the server, no stream, API or service import, gets it (ADR 19).

Such a subject is carried with a dot in front. No client can publish or subscribe to one, so code that knows nothing of
marks reaches nobody with it; `Interest.answer_route` takes the mark off.
"""

from __future__ import annotations

from typing import Final

__all__ = ["outside_only", "unmarked"]

_MARK: Final = b"."


def outside_only(subject: bytes) -> bytes:
    """The subject, for clients alone."""
    return subject if subject.startswith(_MARK) else _MARK + subject


def unmarked(subject: bytes) -> bytes:
    """The subject itself."""
    return subject.removeprefix(_MARK)
