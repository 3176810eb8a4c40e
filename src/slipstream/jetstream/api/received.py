"""Answers about many streams: what each had received before the question is committed first, and shown.

Streams with nothing under way cost one look. See `Stream.after_received` for one stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from slipstream.errors import ApiError
from slipstream.jetstream.stream.stream import Stream

__all__ = ["all_committed", "all_received"]


def all_received(streams: Iterable[Stream], done: Callable[[], None]) -> None:
    """Call when every message that these streams have received up to now can be read, or never will be.

    At once if nothing waits. What the account counts of them is brought up to date, too.
    """
    waiting = [stream for stream in streams if not stream.is_quiet]
    left = len(waiting)

    def one(stream: Stream) -> None:
        nonlocal left
        left -= 1
        stream.health.report_size()  # usually told after all who waited for a commit
        if not left:
            done()

    def gone(_error: ApiError) -> None:
        nonlocal left
        left -= 1
        if not left:
            done()

    for stream in waiting:
        stream.after_received(partial(one, stream), gone=gone)
    if not waiting:
        done()


def all_committed(streams: Iterable[Stream], failed: Callable[[Stream], None], done: Callable[[], None]) -> None:
    """Call `done` when everything decided in these streams up to now is committed; at once if nothing waits.

    `failed` is called before it for each stream of which some cannot be: its disk failed, or it was deleted.
    """
    waiting = [stream for stream in streams if not stream.is_quiet]
    left = len(waiting)

    def one(stream: Stream, error: ApiError | None) -> None:
        nonlocal left
        left -= 1
        if error is not None:
            failed(stream)
        if not left:
            done()

    for stream in waiting:
        stream.after_commit(partial(one, stream))
    if not waiting:
        done()
