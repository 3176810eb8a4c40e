"""The subjects of a stream in STREAM.INFO, a sorted page at a time, without holding up others.

Few subjects are listed at once. Many are copied as they are at one moment, sorted and written as JSON in a thread. Who
pages through them gets the next page from the same copy, as long as the stream has not changed; otherwise all pages
would sort everything again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from slipstream.jetstream.api.limits import SUBJECT_DETAILS_MAX
from slipstream.jetstream.ports import Cancel, Ports
from slipstream.jetstream.stream.stream import Stream
from slipstream.kernels.index.subjectpages import SubjectPages
from slipstream.kernels.subjects.subject import is_literal
from slipstream.units import SECOND_NS

__all__ = ["SubjectDetails", "SubjectPage"]

_AT_ONCE_MAX: Final = 5_000  # subjects that are listed on the loop: 5 ms
_SLICE_SUBJECTS: Final = 50_000  # looked at in one turn, to find out which of them match: 10 ms
_KEEP_NS: Final = 5 * SECOND_NS  # a copy that nobody asks again goes; a million subjects have 40 MB

_State = tuple[int, ...]


class SubjectPage(NamedTuple):
    """A page: how many subjects there are in all, and the JSON object of those that are shown (None: none are)."""

    total: int
    shown: msgspec.Raw | None


class _Kept(NamedTuple):
    stream: Stream
    pattern: bytes
    state: _State
    pages: SubjectPages


class SubjectDetails:
    """Reads pages for one account; keeps at most one copy."""

    def __init__(self, ports: Ports) -> None:
        """Nothing is kept yet."""
        self._ports = ports
        self._kept: _Kept | None = None
        self._forgetting: Cancel | None = None

    def read(
        self,
        stream: Stream,
        pattern: bytes,
        offset: int,
        at: Callable[[], None],
        done: Callable[[SubjectPage], None],
        *,
        slices: int = 1,
    ) -> None:
        """Read one page.

        Args:
            stream: whose subjects.
            pattern: which of them.
            offset: how many come before the page.
            at: called in the moment that the page shows.
            done: gets the page, at once or later.
            slices: the turns that looking at subjects took, this one included.
        """
        store = stream.store
        if store.num_subjects <= _AT_ONCE_MAX or is_literal(pattern):
            found = store.subjects_matching(pattern)
            at()
            done(SubjectPage(len(found), _written(found[offset : offset + SUBJECT_DETAILS_MAX])))
            return
        kept = self._kept
        if kept is None or kept[:3] != (stream, pattern, _state(stream)):
            # What was learned may be forgotten again under many filters: no reason to go on for ever.
            slices_max = 1 + store.num_subjects // _SLICE_SUBJECTS
            if not store.prepare((pattern,), _SLICE_SUBJECTS) and slices < slices_max:
                # Others have their turn before more subjects are looked at.
                self._ports.call_soon(lambda: self.read(stream, pattern, offset, at, done, slices=slices + 1))
                return
            kept = _Kept(stream, pattern, _state(stream), store.subject_pages(pattern))
        at()
        self._keep(kept)
        pages, outcome = kept.pages, list[msgspec.Raw | None]()

        def cut() -> None:
            pages.sort()
            outcome.append(_written(pages.page(offset, SUBJECT_DETAILS_MAX)))

        self._ports.run_blocking(cut, lambda: done(SubjectPage(len(pages), outcome[0] if outcome else None)))

    def _keep(self, kept: _Kept) -> None:
        self._kept = kept
        if self._forgetting is not None:
            self._forgetting()
        self._forgetting = self._ports.call_later(_KEEP_NS, self._forget)

    def _forget(self) -> None:
        self._kept = self._forgetting = None


def _state(stream: Stream) -> _State:
    """Numbers of which at least one changes with every message that comes or goes for readers."""
    store = stream.store
    return (store.first_seq, store.committed_seq, store.messages, store.num_deleted, store.size_bytes)


def _written(page: list[tuple[bytes, int]]) -> msgspec.Raw | None:
    if not page:
        return None
    return msgspec.Raw(msgspec.json.encode({subject.decode("utf-8", "replace"): count for subject, count in page}))
