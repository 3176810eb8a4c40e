"""What goes wrong in a bulk call."""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.errors import SlipstreamError

__all__ = ["BulkError"]


class BulkError(SlipstreamError):
    """A bulk call did not do what it was asked for.

    `retryable`: the same call may succeed later (connection lost, short read, too many readers). `err_code` is the
    JetStream error number if the server refused, else 0. `seqs` names damaged or missing messages, as far as known.
    """

    def __init__(self, text: str, *, retryable: bool = False, err_code: int = 0, seqs: Sequence[int] = ()) -> None:
        """Remember what a caller decides by."""
        super().__init__(text)
        self.text = text
        self.retryable = retryable
        self.err_code = err_code
        self.seqs = tuple(seqs)

    def __reduce__(self) -> tuple[object, ...]:
        """Errors cross process borders in Spark."""
        return _restored, (self.text, self.retryable, self.err_code, self.seqs)


def _restored(text: str, retryable: bool, err_code: int, seqs: tuple[int, ...]) -> BulkError:
    return BulkError(text, retryable=retryable, err_code=err_code, seqs=seqs)
