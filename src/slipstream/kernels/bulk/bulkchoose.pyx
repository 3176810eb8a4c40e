# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Bulk reads of a log: which messages of the index are meant, where they lie and how large they are.

    index ──pick──► Selection, for copies of the records (bulkscan.pyx)
          ──name_places──► stretches of files without gaps, for readers that look themselves
          ──measure──► marks: every so many bytes the last sequence, with messages and bytes since the mark before

The messages of one subject are chained in the index: a filter that is a literal subject goes from one to the next, and
looks at entries one by one only where the chain is broken by removals.
"""

from libc.stdint cimport uint32_t, uint64_t

from slipstream.kernels.index.runtable cimport Cursor, Run, lower, padded, seq_at
from slipstream.kernels.index.subjectindex cimport MessageIndex, Selection
from slipstream.kernels.index.subjecttable cimport NO_SUBJECT, FilterView

cdef enum:
    HOP = 16    # entries that could be looked at in the time it takes to follow a chain
    BLOCK = 64  # entries that are measured at once where every one is a message that passes


cdef struct Walk:
    # Through the entries of an index, from one message that passes a filter to the next.
    Run *run         # of the message found last
    uint32_t pos     # its entry
    uint64_t seq     # its sequence
    uint32_t next    # entry of the run to look at next
    Py_ssize_t runs  # index of the run to look at next
    Py_ssize_t left  # entries that may still be looked at
    uint32_t wanted  # subject, when the filter is one literal
    uint64_t from_seq
    uint64_t up_to
    uint64_t after   # at the end: the sequence to go on from


cdef bint begin(
    MessageIndex index, FilterView view, uint64_t from_seq, uint64_t up_to, Py_ssize_t scan_max, Walk *w
) noexcept:
    """Look at `scan_max` entries from `from_seq` on; False when there is nothing to find."""
    w.run = NULL
    w.pos = w.next = 0
    w.seq = 0
    w.left = max(scan_max, 1)
    w.wanted = NO_SUBJECT
    w.from_seq = max(from_seq, index.first_seq)
    w.up_to = up_to
    w.after = up_to + 1
    if w.from_seq > up_to or index.messages == 0:
        return False
    if view.kind == 1:
        w.wanted = index.literal(view)
        if (
            w.wanted == NO_SUBJECT
            or index.subjects[w.wanted].last < w.from_seq
            or index.subjects[w.wanted].first > up_to
        ):
            return False
        w.from_seq = max(w.from_seq, index.subjects[w.wanted].first)
    w.runs = max(index.run_at(w.from_seq), 0)
    return True


cdef inline bint advance(MessageIndex index, FilterView view, Walk *w) except -1:
    """Find the next message that passes; False when there is none or enough was looked at: then see `after`."""
    cdef Run *r = w.run
    cdef uint32_t sid, pos = w.next
    cdef Cursor c
    if r != NULL and w.wanted != NO_SUBJECT and w.left > 0 and r.next[w.pos]:
        if index.locate_entry(w.seq + r.next[w.pos], &c) and index.runs[c.run].sid[c.pos] == w.wanted:
            w.left -= HOP
            w.runs = c.run + 1
            w.run = index.runs[c.run]
            w.pos = c.pos
            w.next = c.pos + 1
            w.seq = c.seq
            return w.seq <= w.up_to
    while True:
        if r != NULL and w.left <= 0:
            w.after = min(seq_at(r, pos) if pos < r.n else r.last + 1, w.up_to + 1)
            return False
        if r == NULL or pos >= r.n:
            if w.runs >= index.n_runs or index.runs[w.runs].first > w.up_to:
                return False
            r = index.runs[w.runs]
            w.runs += 1
            pos = lower(r, w.from_seq) if r.live else r.n
            continue
        sid = r.sid[pos]
        pos += 1
        w.left -= 1
        if sid != NO_SUBJECT and (
            view.kind == 0
            or (view.kind == 1 and sid == w.wanted)
            or (view.kind == 2 and (
                (sid < view.cap and view.verdicts[sid] == 2)
                or ((sid >= view.cap or view.verdicts[sid] == 0) and index.passes(view, sid))
            ))
        ):
            w.run = r
            w.pos = pos - 1
            w.next = pos
            w.seq = seq_at(r, pos - 1)
            return w.seq <= w.up_to


def pick(
    MessageIndex index not None, filters, uint64_t from_seq, uint64_t up_to, Py_ssize_t max_msgs, Py_ssize_t max_bytes,
    Py_ssize_t scan_max, Selection out not None,
):
    """Fill `out` with places of messages that pass, at most `max_bytes` of records, at least one if there is one.

    Returns the sequence to go on from: behind the last one chosen, or behind what was looked at when `scan_max` entries
    of the index were; `up_to + 1` when there is no more.
    """
    cdef FilterView view = index.view(filters)
    cdef Py_ssize_t used = 0, size
    cdef Walk w
    out.n = 0
    if not begin(index, view, from_seq, up_to, scan_max, &w):
        return w.after
    while advance(index, view, &w):
        size = padded(w.run.len[w.pos])
        if out.n and (used + size > max_bytes or out.n >= max_msgs):
            return w.seq
        used += size
        out.push(w.seq, w.run.seg, w.run.off[w.pos], w.run.len[w.pos])
    return w.after


def name_places(
    MessageIndex index not None, filters, uint64_t from_seq, uint64_t up_to, Py_ssize_t max_msgs, Py_ssize_t max_bytes,
    Py_ssize_t scan_max, uint64_t place_max, Py_ssize_t places_max, list places not None,
):
    """Add `(segment, offset, length, messages, first sequence)` to `places`: messages that pass and lie back to back.

    All of them together are as `pick` would choose them, or fewer if that would be more than `places_max` places. None
    is longer than `place_max` unless one record is. Returns the sequence to go on from, as `pick` does, and how many
    messages that are.
    """
    cdef FilterView view = index.view(filters)
    cdef Py_ssize_t used = 0, count = 0
    cdef uint64_t size, begin_at = 0, length = 0, first = 0, rows = 0
    cdef uint32_t seg = 0
    cdef Walk w
    if not begin(index, view, from_seq, up_to, scan_max, &w):
        return w.after, 0
    while advance(index, view, &w):
        size = <uint64_t>padded(w.run.len[w.pos])
        if count and (used + <Py_ssize_t>size > max_bytes or count >= max_msgs):
            w.after = w.seq
            break
        if rows and w.run.seg == seg and w.run.off[w.pos] == begin_at + length and length + size <= place_max:
            length += size
            rows += 1
        else:
            if rows:
                places.append((seg, begin_at, length, rows, first))
                rows = 0
                if len(places) >= places_max:
                    w.after = w.seq
                    break
            seg, begin_at, length, rows, first = w.run.seg, w.run.off[w.pos], size, 1, w.seq
        used += <Py_ssize_t>size
        count += 1
    if rows:
        places.append((seg, begin_at, length, rows, first))
    return w.after, count


cdef inline bint has_block(const Walk *w) noexcept:
    """Whether the next entries are all messages, of the present run and of the range."""
    return (
        w.run != NULL
        and w.run.live == w.run.n
        and w.left >= BLOCK
        and w.run.n - w.next >= BLOCK
        and seq_at(w.run, w.next + BLOCK - 1) <= w.up_to
    )


cdef inline uint64_t block_bytes(const Walk *w) noexcept:
    """Bytes of their records."""
    cdef const uint32_t *length = w.run.len + w.next
    cdef uint64_t size = 0
    cdef int i
    for i in range(BLOCK):
        size += <uint64_t>padded(length[i])
    return size


def measure(
    MessageIndex index not None, filters, uint64_t from_seq, uint64_t up_to, uint64_t every, uint64_t max_msgs,
    uint64_t max_bytes, Py_ssize_t scan_max, list marks not None, Py_ssize_t marks_max,
):
    """Add marks `(last sequence, messages, bytes)` to `marks`, one whenever `every` bytes of records were passed.

    Stops before the message that would exceed `max_msgs` or `max_bytes` in this call (but takes at least one), when
    `scan_max` entries were looked at, or when there are `marks_max` marks. Returns the sequence to go on from, as `pick`
    does, and whether a limit was what stopped it. The rest since the last mark is a mark of its own.
    """
    cdef FilterView view = index.view(filters)
    cdef uint64_t size, count = 0, used = 0, total_count = 0, total = 0, last = 0
    cdef Py_ssize_t one_by_one = 0
    cdef bint limited = False
    cdef Walk w
    if not begin(index, view, from_seq, up_to, scan_max, &w):
        return w.after, False
    while True:
        while one_by_one <= 0 and view.kind == 0 and has_block(&w):
            size = block_bytes(&w)
            if used + size >= every or total_count + BLOCK > max_msgs or total + size > max_bytes:
                one_by_one = BLOCK
                break
            total_count += BLOCK
            total += size
            count += BLOCK
            used += size
            w.left -= BLOCK
            w.next += BLOCK
            last = seq_at(w.run, w.next - 1)
        if not advance(index, view, &w):
            break
        one_by_one -= 1
        size = <uint64_t>padded(w.run.len[w.pos])
        if total_count and (total_count >= max_msgs or total + size > max_bytes):
            w.after = w.seq
            limited = True
            break
        total_count += 1
        total += size
        count += 1
        used += size
        last = w.seq
        if used >= every:
            marks.append((last, count, used))
            count = used = one_by_one = 0
            if len(marks) >= marks_max:
                w.left = 0
    if count:
        marks.append((last, count, used))
    return w.after, limited
