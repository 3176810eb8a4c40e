# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The messages of one segment put into the index of a stream, when it is opened and when the segment was rewritten.

    SegmentScan --load_into()--> a new run behind all others      SegmentScan --replace_in()--> one run in place of some

Subjects have numbers of their own in each scan and in the index; they are looked up once per subject, not per message.
A scan that was read from an index file is believed only so far: every subject number and every length of a name is
checked before it is used.

Complexity: O(messages + subjects); `replace_in` walks the old runs and the new one side by side. Memory: one number a
subject, or two a message, while it runs; the entries become arrays of the index (`runtable`).
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from slipstream.kernels.bytes_le cimport get32
from slipstream.kernels.heap cimport grown
from slipstream.kernels.runtable cimport Run, seq_at
from slipstream.kernels.segscan cimport SegmentScan
from slipstream.kernels.subjectindex cimport MessageIndex
from slipstream.kernels.subjecttable cimport NO_SUBJECT, SubjectTable


def load_into(SegmentScan scan not None, MessageIndex index not None, uint32_t seg):
    """Add every message; the segment must come after all that the index holds."""
    cdef uint32_t *numbers
    cdef uint32_t i, m = scan.n_names if scan.name_ends != NULL else scan.names.n_subjects
    cdef uint32_t sid
    cdef uint64_t seq, span
    cdef Run *r
    cdef bint dense
    if scan.n == 0:
        index.skip_to(scan.last_seq)
        return
    if scan.base_seq <= index.last_seq:
        raise ValueError("segments out of order")
    span = <uint64_t>(scan.rel[scan.n - 1] if scan.rel != NULL else scan.n - 1) + 1
    dense = span <= <uint64_t>scan.n + scan.n // 4 + 64
    for i in range(scan.n):
        if scan.sid[i] != NO_SUBJECT and scan.sid[i] >= m:
            raise ValueError("subject number")
    numbers = map_names(scan, index)
    try:
        r = index.new_run(index.n_runs, scan.base_seq, seg, <uint32_t>span if dense else scan.n, not dense)
        if dense and span != scan.n:
            memset(r.len, 0, <size_t>span * 4)
            memset(r.off, 0, <size_t>span * 4)
            memset(r.sid, 0xFF, <size_t>span * 4)
        r.n = <uint32_t>span if dense else scan.n
        memset(r.next, 0, <size_t>r.n * 4)
        r.last = scan.base_seq + span - 1
        for i in range(scan.n):
            sid = scan.sid[i]
            if sid != NO_SUBJECT:
                sid = numbers[sid]
            if dense:
                set_entry(r, scan.rel[i] if scan.rel != NULL else i, scan.off[i], scan.len[i], sid)
            else:
                r.rel[i] = scan.rel[i]
                set_entry(r, i, scan.off[i], scan.len[i], sid)
        for i in range(m):
            if numbers[i] != NO_SUBJECT:
                index.subjects[numbers[i]].count -= 1
        for i in range(r.n):
            sid = r.sid[i]
            if sid == NO_SUBJECT:
                continue
            seq = r.first + (i if r.rel == NULL else r.rel[i])
            index.link(sid, seq)
            r.live += 1
            if index.messages == 0:
                index.first_seq = seq
            index.messages += 1
            index.size_bytes += index.stated_size(r.len[i])
    finally:
        free(numbers)
    index.skip_to(max(r.last, scan.last_seq))


def replace_in(SegmentScan scan not None, MessageIndex index not None, set old not None, uint32_t seg):
    """Point the messages of neighbouring segments to this rewritten form of them, which holds all that live."""
    cdef Py_ssize_t first = 0, count = 0, k, run
    cdef uint32_t i, sid, pos = 0, live = 0
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
                seq = scan.base_seq + scan.rel[i]
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
                    if following and following - seq < 0xFFFFFFF0:
                        next_of[i] = <uint32_t>(following - seq)
            if live != 0:
                raise ValueError("the rewritten segment does not hold every live message")
            for k in range(count):
                index.free_run(index.runs[first + k])
            for k in range(first, index.n_runs - count):
                index.runs[k] = index.runs[k + count]
            index.n_runs -= count
            if scan.n:
                r = index.new_run(first, scan.base_seq, seg, scan.n, True)
                r.n = scan.n
                r.last = scan.base_seq + scan.rel[scan.n - 1]
                memcpy(r.rel, scan.rel, <size_t>scan.n * 4)
                memcpy(r.off, scan.off, <size_t>scan.n * 4)
                memcpy(r.len, scan.len, <size_t>scan.n * 4)
                memcpy(r.sid, sid_of, <size_t>scan.n * 4)
                memcpy(r.next, next_of, <size_t>scan.n * 4)
                for i in range(scan.n):
                    r.live += r.sid[i] != NO_SUBJECT
        finally:
            free(sid_of)
    finally:
        free(next_of)


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
                if end < begin or end - begin > 65535:
                    raise ValueError("name table")
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


cdef void set_entry(Run *r, uint32_t pos, uint32_t off, uint32_t length, uint32_t sid) noexcept nogil:
    r.off[pos] = off
    r.len[pos] = length
    r.sid[pos] = sid
