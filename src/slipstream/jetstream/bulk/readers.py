"""Bulk reads under way: who gets the next chunk, how fast, and when one is given up.

    asked ──answer with its id──► reading ⇄ waiting for credit ──► end mark ──files confirmed──► dropped
                                     └── gone, idle, stream removed ──► dropped, or an error

A reader gets chunks of records at its reply subject, each a message without headers, and at the end one with a status:
204 and a JSON body with rows, checksum and damaged sequences, or 500 and the error. It may have `credit` chunks that
it has not confirmed; a request to BULK.CREDIT.<stream>.<id> with a number confirms that many. So a reader that is slow,
or not there any more, costs the memory of its credit and no more.

A reader on this machine gets its chunks through memory: a ring with room for its credit, of which a message with the
status 100 says where the next chunk lies. If it wants to, it reads from files itself what lies there without gaps: a
message with the status 101 says where in memory the places are named. The files are kept open for it, and a number in
the memory says whether to pause in between. The keys of the checksums are among what is named there, and nowhere else:
they must not come to who could not read the files anyway. It begins when the reader has confirmed for the first time,
which it does after it has opened the memory; or it says that it cannot, and gets everything in messages. So does what
does not fit.

Publishes go first: see `pace`. Readers take turns: a few have a thread at work for them, the rest wait in a queue. On
the loop a chunk is chosen (tens of microseconds) and written to the connection; the copy between is made in the thread.

Invariants: a reader is in the queue, in flight, waiting for credit, ended, or gone; its chunks leave in order; the end
mark is sent only when every message of the range was sent or is named as damaged; a file stays open until the reader
has confirmed what was named of it, or others took its place.
"""

from __future__ import annotations

from collections import deque

from slipstream.errors import ApiError
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.bulk import errors
from slipstream.jetstream.bulk.limits import (
    BULK_BESIDE_CHUNK_BYTES,
    BULK_CONGESTED_NS,
    BULK_LOST_LISTED_MAX,
    BULK_OPENED_AT_ONCE_BYTES,
    BULK_READER_IDLE_NS,
    BULK_READERS_MAX,
    BULK_READS_IN_FLIGHT,
    BULK_SPAN_NS,
    BULK_STALE_MAX,
    BULK_SWEEP_NS,
    BULK_WATCH_NS,
    BULK_WATCHED_NS,
)
from slipstream.jetstream.bulk.pace import Pace
from slipstream.jetstream.bulk.reader import Reader
from slipstream.jetstream.bulk.requests import Range
from slipstream.jetstream.bulk.whole_frames import end_with_a_frame, is_opened
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.gojson import encode
from slipstream.jetstream.limits import BULK_LENT_FILES_MAX, BULK_PLACES_AGAIN, BULK_PLACES_CHUNKS
from slipstream.jetstream.ports import Cancel, Ports
from slipstream.jetstream.store.bulk import ReadJob, begin_read, find_places, read_slowly
from slipstream.jetstream.stream.commit.pubacks import error_object
from slipstream.jetstream.stream.stream import Stream
from slipstream.limits import BULK_PAUSED_PLACES_BYTES

__all__ = ["Readers"]

_END = b"NATS/1.0 204 EOB\r\n\r\n"
_FAILED = b"NATS/1.0 500 Failed\r\n\r\n"
_IN_MEMORY = b"NATS/1.0 100 Chunk\r\n\r\n"
_IN_FILES = b"NATS/1.0 101 Places\r\n\r\n"


class Readers:
    """The bulk readers of one account."""

    def __init__(self, ports: Ports, pace: Pace) -> None:
        """Nobody reads yet."""
        self._ports = ports
        self._pace = pace
        self._readers: dict[str, Reader] = {}
        self._queue: deque[Reader] = deque()
        self._in_flight = 0
        self._sweeping: Cancel | None = None
        self._watching: Cancel | None = None
        self._waiting = False  # for the next span of time

    def __len__(self) -> int:
        """Reads under way."""
        return len(self._readers)

    def begin(
        self,
        stream: Stream,
        wanted: Range,
        reply: bytes,
        *,
        credit: int,
        chunk_bytes: int,
        memory: bool = False,
        files: bool = False,
    ) -> Reader:
        """Let somebody read; the first chunk leaves after this turn, or when he has opened the memory he is given.

        Raises:
            ApiError: there are too many.
        """
        if len(self._readers) >= BULK_READERS_MAX:
            raise TableError(errors.TOO_MANY_READERS)
        now_ns = self._ports.now_ns()
        reader = Reader(self._ports.new_nuid(), stream, wanted, reply, credit, credit, chunk_bytes, now_ns)
        reader.next_seq = wanted.first
        reader.reads_files = files
        self._readers[reader.id] = reader
        if self._sweeping is None:
            self._sweeping = self._ports.call_later(BULK_SWEEP_NS, self._sweep)
        if memory:
            reader.memory = self._ports.share_memory(reader.memory_name, reader.memory_bytes)
        if reader.memory is not None:
            reader.credit = 0
            return reader
        reader.busy = True
        self._queue.append(reader)
        self._ports.call_soon(self._run)
        return reader

    def confirm(self, stream: str, id_: str, chunks: int, *, without_memory: bool = False) -> None:
        """A reader has dealt with so many chunks. Unknown ids are ignored: the read may have ended meanwhile."""
        reader = self._readers.get(id_)
        if reader is None or reader.stream.name != stream or chunks < 1:
            return
        if without_memory:
            reader.forget_memory()
        reader.active_ns = self._ports.now_ns()
        reader.credit = min(reader.credit + chunks, reader.window)
        if reader.ended:
            if reader.credit == reader.window:
                self._drop(reader)
        elif not reader.busy:
            reader.busy = True
            self._queue.append(reader)
            self._run()

    def drop_stream(self, stream: Stream) -> None:
        """A stream stops: its readers are told."""
        for reader in [reader for reader in self._readers.values() if reader.stream is stream]:
            self._fail(reader, TableError(table.CLUSTER_NOT_AVAIL if stream.is_replicated else errors.STREAM_GONE))

    def stop(self) -> None:
        """Forget everybody."""
        for reader in list(self._readers.values()):
            self._drop(reader)
        for cancel in (self._sweeping, self._watching):
            if cancel is not None:
                cancel()
        self._sweeping = self._watching = None

    def _run(self) -> None:
        """Give threads to the readers whose turn it is."""
        while self._queue and self._in_flight < BULK_READS_IN_FLIGHT:
            if self._waiting:
                return
            if not self._pace.may_begin():
                self._waiting = True
                self._ports.call_later(BULK_SPAN_NS, self._next_span)
                return
            reader = self._queue.popleft()
            if reader.gone:
                continue
            if not self._ports.has_interest(reader.reply):
                self._drop(reader)
            elif reader.next_seq > reader.wanted.last:
                self._end(reader)
            elif reader.credit <= 0:
                reader.busy = False
            else:
                self._read(reader)

    def _next_span(self) -> None:
        self._waiting = False
        self._run()

    def _read(self, reader: Reader) -> None:
        if reader.memory is not None and reader.reads_files and reader.chunks >= reader.places_from:
            if self._send_places(reader):
                return
            reader.places_from = reader.chunks + BULK_PLACES_AGAIN
        job = begin_read(
            reader.stream.store.bulk,
            reader.wanted.filters,
            reader.next_seq,
            reader.wanted.last,
            max_bytes=self._chunk_bytes(reader),
            selection=reader.selection,
            crc=reader.crc,
            room=reader.slot,
        )
        if is_opened(job) and job.next_seq <= reader.wanted.last:
            end_with_a_frame(job, reader.selection, reader.stream.store.bulk)
        self._in_flight += 1
        if not _takes_long(job) and job.run_at_once():
            # Nothing to wait for. It still ends the turn, so that nobody has the loop for himself.
            self._ports.call_soon(lambda: self._finish(reader, job))
        else:
            self._ports.run_blocking(job.run, lambda: self._finish(reader, job))

    def _send_places(self, reader: Reader) -> bool:
        """Let a reader on this machine read by itself; False if it cannot."""
        pause_ns = self._pace.pause_ns(len(self._readers))
        found = find_places(
            reader.stream.store.bulk,
            reader.wanted.filters,
            reader.next_seq,
            reader.wanted.last,
            max_bytes=BULK_PAUSED_PLACES_BYTES if pause_ns else BULK_PLACES_CHUNKS * reader.chunk_bytes,
        )
        if found is None:
            return False
        next_seq, rows, places = found
        named: list[list[object]] = []
        for place in places:
            file = reader.lent.get(place.path) or self._ports.lend_file(place.path)
            if file is None:
                return False
            reader.lent[place.path] = file
            where = [file.path, file.device, file.inode, place.offset, place.length]
            named.append([*where, place.salt, place.rows, place.first])
        while len(reader.lent) > BULK_LENT_FILES_MAX:
            reader.lent.pop(next(iter(reader.lent))).close()
        body = encode({"last": next_seq - 1, "rows": rows, "places": named})
        slot = reader.slot
        if slot is None or len(body) > len(slot):
            return False
        slot[: len(body)] = body
        reader.tell_pause(pause_ns)
        if self._watching is None:
            self._watching = self._ports.call_later(BULK_WATCH_NS, self._watch)
        reader.next_seq = next_seq
        reader.rows += rows
        reader.bytes += sum(place.length for place in places)
        reader.checksummed = False
        # It ends the turn, so that nobody has the loop for himself.
        self._in_flight += 1
        self._ports.call_soon(lambda: self._sent_places(reader, len(body)))
        return True

    def _sent_places(self, reader: Reader, size: int) -> None:
        self._in_flight -= 1
        if not reader.gone:
            self._deliver(reader, _IN_FILES, b"%d %d" % (reader.slot_at, size))
        self._run()

    def _watch(self) -> None:
        """Tell the readers of files, who have much to read before they ask again, whether others are heard."""
        self._watching = None
        self._pace.look()
        pause_ns, busy_ns = self._pace.pause_ns(len(self._readers)), self._ports.now_ns() - BULK_WATCHED_NS
        busy = False
        for reader in self._readers.values():
            reader.tell_pause(pause_ns)
            busy = busy or (bool(reader.lent) and reader.active_ns > busy_ns)
        if busy:
            self._watching = self._ports.call_later(BULK_WATCH_NS, self._watch)

    def _chunk_bytes(self, reader: Reader) -> int:
        return min(reader.chunk_bytes, BULK_BESIDE_CHUNK_BYTES) if self._pace.beside_others else reader.chunk_bytes

    def _finish(self, reader: Reader, job: ReadJob) -> None:
        self._in_flight -= 1
        if not reader.gone:
            self._send(reader, job)
        self._run()

    def _send(self, reader: Reader, job: ReadJob) -> None:
        if job.stale and reader.stale < BULK_STALE_MAX:
            reader.stale += 1
            self._queue.append(reader)
            return
        reader.stale = 0
        chunk = job.chunk
        if job.stale or chunk.rows < job.picked:
            store, wanted = reader.stream.store, reader.wanted
            slow = read_slowly(store, wanted.filters, reader.next_seq, job.next_seq - 1, reader.crc)
            reader.damaged += slow.damaged
            rows, reader.crc, data = slow.rows, slow.crc, slow.data
        else:
            rows, reader.crc, data = chunk.rows, chunk.crc, b"" if chunk.in_given else chunk.take()
        reader.next_seq = job.next_seq
        reader.rows += rows
        reader.bytes += len(data)
        header = None
        if rows and not data:
            reader.bytes += chunk.used
            header, data = _IN_MEMORY, b"%d %d" % (reader.slot_at, chunk.used)
        if not data:
            self._queue.append(reader)
            return
        self._deliver(reader, header, data)

    def _deliver(self, reader: Reader, header: bytes | None, data: bytes) -> None:
        reader.credit -= 1
        reader.chunks += 1
        if self._ports.deliver_many([(reader.reply, reader.reply, None, header, data)]):
            self._queue.append(reader)
        else:
            self._ports.call_later(BULK_CONGESTED_NS, lambda: self._again(reader))

    def _again(self, reader: Reader) -> None:
        self._queue.append(reader)
        self._run()

    def _end(self, reader: Reader) -> None:
        fields: dict[str, object] = {
            "rows": reader.rows,
            "bytes": reader.bytes,
            "crc": reader.crc if reader.checksummed else None,
            "last": reader.wanted.last,
        }
        lost = self._lost(reader)
        if lost:
            fields["lost"] = lost[:BULK_LOST_LISTED_MAX]
            fields["lost_count"] = len(lost)
        reader.ended, reader.busy = True, False
        if not reader.lent or reader.credit == reader.window:
            self._drop(reader)
        self._ports.publish(reader.reply, None, _END, encode(fields))

    def _lost(self, reader: Reader) -> list[int]:
        """Damaged sequences of the range; of those that recovery did not find, nobody knows the subject."""
        wanted = reader.wanted
        store = reader.stream.store
        known = [seq for seq in store.lost().seqs if wanted.first <= seq <= wanted.last]
        return sorted({*reader.damaged, *(seq for seq in known if store.next_seq((), seq) != seq)})

    def _fail(self, reader: Reader, error: ApiError) -> None:
        self._drop(reader)
        if not reader.ended:
            self._ports.publish(reader.reply, None, _FAILED, encode({"error": error_object(error)}))

    def _drop(self, reader: Reader) -> None:
        reader.gone = True
        self._readers.pop(reader.id, None)
        reader.forget_memory()

    def _sweep(self) -> None:
        """Drop readers that are gone or have confirmed nothing for long."""
        self._sweeping = None
        idle_ns = self._ports.now_ns() - BULK_READER_IDLE_NS
        for reader in list(self._readers.values()):
            if not self._ports.has_interest(reader.reply):
                self._drop(reader)
            elif not reader.busy and reader.active_ns < idle_ns:
                self._fail(reader, TableError(errors.READ_FAILED, err="nothing was confirmed for too long"))
        if self._readers:
            self._sweeping = self._ports.call_later(BULK_SWEEP_NS, self._sweep)


def _takes_long(job: ReadJob) -> bool:
    """Whether a chunk is not for the loop although everything is at hand: to open much takes a processor's time."""
    return is_opened(job) and sum(one.length for one in job.stretches) > BULK_OPENED_AT_ONCE_BYTES
