"""What JetStream refuses, and what is not there. Connection errors are those of `slipstream.client`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from slipstream.client.options import ClientError

__all__ = ["JetStreamRefusal", "KeyExists", "NoSuchItem", "WrongRevision", "refusal"]

_WRONG_SEQUENCE: Final = frozenset((10070, 10071))  # of the stream, of the subject


class JetStreamRefusal(ClientError):
    """JetStream says no: `code` is as in HTTP, `err_code` the number of the error, the text the server's."""

    def __init__(self, text: str, *, code: int = 0, err_code: int = 0) -> None:
        """Keep the codes for those who act on them."""
        super().__init__(f"{text} ({err_code})" if err_code else text)
        self.code = code
        self.err_code = err_code


class NoSuchItem(JetStreamRefusal, KeyError):
    """A stream, consumer, message, key or object that is not there."""

    def __str__(self) -> str:
        """The text; `KeyError` would put it between quotes."""
        return str(self.args[0])


class WrongRevision(JetStreamRefusal):
    """It was changed meanwhile: the expected revision or sequence is not the last one."""


class KeyExists(WrongRevision):
    """A key that was to be created has a value already."""


def refusal(error: Mapping[str, Any]) -> JetStreamRefusal:
    """The `error` of an answer as an exception."""
    code, err_code = error.get("code", 0), error.get("err_code", 0)
    kind = WrongRevision if err_code in _WRONG_SEQUENCE else NoSuchItem if code == 404 else JetStreamRefusal
    return kind(error.get("description", "unknown error"), code=code, err_code=err_code)
