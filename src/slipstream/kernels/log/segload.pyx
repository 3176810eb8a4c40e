# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The messages of one segment put into the index of a stream, when it is opened and when the segment was rewritten.

    SegmentScan --load_into()--> a new run behind all others      SegmentScan --replace_in()--> one run in place of some

Subjects have numbers of their own in each scan and in the index; they are looked up once per subject, not per message.
A segment may span any number of sequences. A run of the index may not, so a scan becomes as many runs as it needs.

Bounds: a scan is sound. What an index file says was held to that by `segindex.decode_index`; sequences grow, numbers of
subjects and lengths of names are those of its table.

Complexity: O(messages + subjects); `replace_in` walks the old runs and the new one side by side. Memory: one number a
subject, or two a message, while it runs; the entries become arrays of the index (`runtable`).
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from slipstream.kernels.bytes_le cimport get32
from slipstream.kernels.heap cimport grown
from slipstream.kernels.index.runtable cimport RELATIVE_MAX, Run, seq_at
from slipstream.kernels.log.segscan cimport SegmentScan, scanned_seq
from slipstream.kernels.index.subjectindex cimport MessageIndex
from slipstream.kernels.index.subjecttable cimport NO_SUBJECT, SubjectTable


def load_into(SegmentScan scan not None, MessageIndex index not None, uint32_t seg):
    """Add every message; the segment must come after all that the index holds."""
    cdef uint32_t *numbers
    cdef uint32_t i, stop, m = scan.n_names if scan.name_ends != NULL else scan.names.n_subjects
    if scan.n == 0:
        index.skip_to(scan.last_seq)
        return
    if scan.base_seq <= index.last_seq:
        raise ValueError("segments out of order")
    numbers = map_names(scan, index)
    try:
        for i in range(m):
            if numbers[i] != NO_SUBJECT:
                index.subjects[numbers[i]].count -= 1
        i = 0
        while i < scan.n:
            stop = stretch_end(scan, i)
            load_stretch(scan, index, seg, numbers, i, stop)
            i = stop
    finally:
        free(numbers)
    index.skip_to(max(scanned_seq(scan, scan.n - 1), scan.last_seq))


cdef uint32_t stretch_end(SegmentScan scan, uint32_t i) noexcept nogil:
    """Up to which message those from `i` on can be one run: its sequences are kept as distances to the first."""
    cdef uint32_t stop = scan.n
    cdef uint64_t first = scanned_seq(scan, i)
    if scanned_seq(scan, stop - 1) - first < RELATIVE_MAX:
        return stop
    stop = i + 1
    while scanned_seq(scan, stop) - first < RELATIVE_MAX:
        stop += 1
    return stop


cdef int load_stretch(
    SegmentScan scan, MessageIndex index, uint32_t seg, uint32_t *numbers, uint32_t start, uint32_t stop
) except -1:
    """One run behind all others."""
    cdef uint64_t first = scanned_seq(scan, start), span = scanned_seq(scan, stop - 1) - first + 1, seq
    cdef uint32_t i, pos, sid, n = stop - start
    cdef bint dense = span <= <uint64_t>n + n // 4 + 64
    cdef Run *r = index.new_run(index.n_runs, first, seg, <uint32_t>span if dense else n, not dense)
    if dense and span != n:
        memset(r.len, 0, <size_t>span * 4)
        memset(r.off, 0, <size_t>span * 4)
        memset(r.sid, 0xFF, <size_t>span * 4)
    r.n = <uint32_t>span if dense else n
    memset(r.next, 0, <size_t>r.n * 4)
    r.last = first + span - 1
    for i in range(start, stop):
        sid = scan.sid[i]
        if sid != NO_SUBJECT:
            sid = numbers[sid]
        pos = <uint32_t>(scanned_seq(scan, i) - first) if dense else i - start
        if not dense:
            r.rel[pos] = <uint32_t>(scanned_seq(scan, i) - first)
        r.off[pos] = scan.off[i]
        r.len[pos] = scan.len[i]
        r.sid[pos] = sid
    for pos in range(r.n):
        sid = r.sid[pos]
        if sid == NO_SUBJECT:
            continue
        seq = seq_at(r, pos)
        index.link(sid, seq)
        r.live += 1
        if index.messages == 0:
            index.first_seq = seq
        index.messages += 1
        index.size_bytes += index.stated_size(r.len[pos])
    return 0


def replace_in(SegmentScan scan not None, MessageIndex index not None, set old not None, uint32_t seg):
    """Point the messages of neighbouring segments to this rewritten form of them, which holds all that live."""
    cdef Py_ssize_t first = 0, count = 0, k, run
    cdef uint32_t i, stop, sid, pos = 0, live = 0
    cdef uint64_t seq, following
    cdef Run *r
    cdef uint32_t *next_of = <uint32_t *>grown(NULL, (<size_t>scan.n + 1) * 4)
    cdef uint32_t *sid_of
    while first < index.n_runs and index.runs[first].seg not in old:
        first += 1
    while first + count < index.n_runs and index.runs[first + count].seg in old:
        live += index.runs[first + count].live
        count += 1
    run = first
    try:
        sid_of = <uint32_t *>grown(NULL, (<size_t>scan.n + 1) * 4)
        try:
            # Both are in order, so the two are walked side by side. This runs on the event loop.
            for i in range(scan.n):
                seq = scanned_seq(scan, i)
                sid_of[i] = NO_SUBJECT
                next_of[i] = 0
                while run < first + count and index.runs[run].last < seq:
                    run += 1
                    pos = 0
                if run == first + count:
                    continue
                r = index.runs[run]
                while pos < r.n and seq_at(r, pos) < seq:
                    pos += 1
                if pos == r.n or seq_at(r, pos) != seq or r.sid[pos] == NO_SUBJECT:
                    continue
                sid = r.sid[pos]
                sid_of[i] = sid
                live -= 1
                if seq != index.subjects[sid].last:
                    following = index.follow_step(sid, seq, r.next[pos])
                    if following and following - seq < RELATIVE_MAX:
                        next_of[i] = <uint32_t>(following - seq)
            if live != 0:
                raise ValueError("the rewritten segment does not hold every live message")
            for k in range(count):
                index.free_run(index.runs[first + k])
            for k in range(first, index.n_runs - count):
                index.runs[k] = index.runs[k + count]
            index.n_runs -= count
            i = 0
            while i < scan.n:
                stop = stretch_end(scan, i)
                replace_stretch(scan, index, first, seg, i, stop, sid_of, next_of)
                first += 1
                i = stop
        finally:
            free(sid_of)
    finally:
        free(next_of)


cdef int replace_stretch(
    SegmentScan scan, MessageIndex index, Py_ssize_t at, uint32_t seg, uint32_t start, uint32_t stop, uint32_t *sid_of,
    uint32_t *next_of,
) except -1:
    """One run at this place among the others, of messages whose subjects and chains are known."""
    cdef uint64_t first = scanned_seq(scan, start)
    cdef uint32_t i, n = stop - start
    cdef Run *r = index.new_run(at, first, seg, n, True)
    r.n = n
    r.last = scanned_seq(scan, stop - 1)
    memcpy(r.off, scan.off + start, <size_t>n * 4)
    memcpy(r.len, scan.len + start, <size_t>n * 4)
    memcpy(r.sid, sid_of + start, <size_t>n * 4)
    memcpy(r.next, next_of + start, <size_t>n * 4)
    for i in range(n):
        r.rel[i] = <uint32_t>(scanned_seq(scan, start + i) - first)
        r.live += r.sid[i] != NO_SUBJECT
    return 0


cdef uint32_t *map_names(SegmentScan scan, MessageIndex index) except NULL:
    """Numbers of our subjects in the stream's table. The caller frees it."""
    cdef uint32_t m = scan.n_names if scan.name_ends != NULL else scan.names.n_subjects
    cdef uint32_t *out = <uint32_t *>grown(NULL, (<size_t>m + 1) * 4)
    cdef uint32_t i, begin = 0, end
    cdef SubjectTable t = scan.names
    try:
        for i in range(m):
            if scan.name_ends != NULL:
                end = get32(scan.name_ends + <size_t>i * 4)
                out[i] = index.intern(<const char *>scan.name_bytes + begin, end - begin)
                begin = end
            elif t.subjects[i].count:
                out[i] = index.intern(t.arena + (t.subjects[i].name >> 16), t.subjects[i].name & 0xFFFF)
            else:
                out[i] = NO_SUBJECT
                continue
            # A subject with no message yet would be taken for a free entry while names are moved around.
            index.subjects[out[i]].count += 1
    except BaseException:
        free(out)
        raise
    return out
