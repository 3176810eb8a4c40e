"""Where an exception that nobody expected ends: it is reported, the caller's state is put right, and the rest goes on.

A callback belongs to one stream, one consumer or one request, and runs among those of others. What goes wrong in it is
that one's trouble alone. So every loop over callbacks calls them through here, and every machine that would stand still
if its callback were lost (a committer, an open unit, a timer that arms itself) hands in what puts it right again.

What this is not: a place for errors that are expected. Those are `ApiError` and `StorageFault`, and are handled where
they happen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ParamSpec, Protocol, TypeVar

__all__ = ["Reporter", "call", "each", "guarded", "guarded_with"]


P = ParamSpec("P")
T = TypeVar("T")


class Reporter(Protocol):
    """The part of `Ports` that is needed here."""

    def report(self, what: str, error: Exception) -> None:
        """See `Ports.report`."""
        ...


def call(ports: Reporter, what: str, callback: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> bool:
    """Call; False if that raised, which was reported then."""
    try:
        callback(*args, **kwargs)
    except Exception as error:
        ports.report(what, error)
        return False
    return True


def each(
    ports: Reporter, what: str, callbacks: Iterable[Callable[P, object]], *args: P.args, **kwargs: P.kwargs
) -> None:
    """Call all of them, whatever some of them raise."""
    for callback in callbacks:
        try:
            callback(*args, **kwargs)
        except Exception as error:
            ports.report(what, error)


def guarded(callback: Callable[[], object], failed: Callable[[Exception], None]) -> Callable[[], None]:
    """A callback for a port that never raises: `failed` gets what the given one did, and puts things right."""

    def run() -> None:
        try:
            callback()
        except Exception as error:
            failed(error)

    return run


def guarded_with(callback: Callable[[T], object], failed: Callable[[Exception], None]) -> Callable[[T], None]:
    """The same for a callback that gets something."""

    def run(given: T) -> None:
        try:
            callback(given)
        except Exception as error:
            failed(error)

    return run
