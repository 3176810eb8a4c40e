# The lines that a server sends, taken apart: what `serverscan` counts and `serverdecode` hands out.
#
#    MSG  <subject> <sid> [reply] <size>        CRLF  <size bytes of payload> CRLF
#    HMSG <subject> <sid> [reply] <hdr> <size>  CRLF  <hdr bytes of header, payload; size bytes in all> CRLF
#    +OK | PING | PONG | -ERR '<text>' | INFO {json}  CRLF
#
# Nothing to compile by itself: the functions become part of the kernels that cimport them, so that no call leaves the
# loop over the bytes. Every read is behind a test against `end - p`, and a size is refused above `SIZE_MAX` before it is
# used. Complexity: O(bytes of the line).

from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.string cimport memcmp, memset

cdef enum:
    SIZE_MAX = 0x7FFFFFFF  # what a NATS size field can say: a positive int32
    ARGS_MAX = 5           # words after the verb of an HMSG with reply
    REPEAT_MAX = 256       # longest head line that readers remember, to know it again when it repeats

cdef enum Kind:
    BAD
    MSG
    HMSG
    OK
    ERR
    PING
    PONG
    INFO

# A parsed head line. The pointers lie within the line it was parsed from and are as short-lived.
cdef struct Head:
    Kind kind
    const char* subject
    Py_ssize_t subject_size
    const char* sid
    Py_ssize_t sid_size
    const char* reply         # reply_size 0: no reply
    Py_ssize_t reply_size
    const char* text          # ERR, INFO: what follows the verb
    Py_ssize_t text_size
    Py_ssize_t header_size    # 0 for MSG
    Py_ssize_t total_size     # header and payload together


cdef inline bint is_blank(char c) noexcept nogil:
    return c == c" " or c == c"\t"


cdef inline bint is_verb(const char* p, const char* end, const char* verb, Py_ssize_t size) noexcept nogil:
    return end - p >= size and memcmp(p, verb, size) == 0 and (end - p == size or is_blank(p[size]))


cdef inline Py_ssize_t split(const char* p, const char* end, const char** words, Py_ssize_t* sizes) noexcept nogil:
    """Cut at blanks; return the number of words, ARGS_MAX + 1 meaning too many."""
    cdef Py_ssize_t count = 0
    while True:
        while p < end and is_blank(p[0]):
            p += 1
        if p == end or count > ARGS_MAX:
            return count
        words[count] = p
        while p < end and not is_blank(p[0]):
            p += 1
        sizes[count] = p - words[count]
        count += 1


cdef inline Py_ssize_t parse_size(const char* p, Py_ssize_t size) noexcept nogil:
    """Return the number these digits say, or -1 for none, for anything else and above SIZE_MAX."""
    cdef Py_ssize_t value = 0, i
    if size < 1 or size > 10:
        return -1
    for i in range(size):
        if p[i] < c"0" or p[i] > c"9":
            return -1
        value = value * 10 + (p[i] - c"0")
    return value if value <= SIZE_MAX else -1


cdef inline void take_text(const char* p, const char* end, Head* head) noexcept nogil:
    while p < end and is_blank(p[0]):
        p += 1
    while end > p and is_blank((end - 1)[0]):
        end -= 1
    head.text = p
    head.text_size = end - p


cdef inline void parse_head(const char* line, Py_ssize_t size, Head* head) noexcept nogil:
    """Parse one line that ends in LF. `kind` is BAD unless the whole line is in order."""
    cdef const char* end = line + size - 1
    cdef const char* words[ARGS_MAX + 1]
    cdef Py_ssize_t sizes[ARGS_MAX + 1]
    cdef Py_ssize_t count
    memset(head, 0, sizeof(Head))
    if end > line and (end - 1)[0] == c"\r":
        end -= 1
    if is_verb(line, end, b"MSG", 3):
        count = split(line + 3, end, words, sizes)
        head.kind = MSG if count == 3 or count == 4 else BAD
    elif is_verb(line, end, b"HMSG", 4):
        count = split(line + 4, end, words, sizes)
        head.kind = HMSG if count == 4 or count == 5 else BAD
    else:
        if is_verb(line, end, b"PONG", 4):
            head.kind = PONG
        elif is_verb(line, end, b"PING", 4):
            head.kind = PING
        elif is_verb(line, end, b"+OK", 3):
            head.kind = OK
        elif is_verb(line, end, b"-ERR", 4):
            head.kind = ERR
            take_text(line + 4, end, head)
        elif is_verb(line, end, b"INFO", 4):
            head.kind = INFO
            take_text(line + 4, end, head)
        return
    if head.kind == BAD:
        return
    head.subject, head.subject_size = words[0], sizes[0]
    head.sid, head.sid_size = words[1], sizes[1]
    head.total_size = parse_size(words[count - 1], sizes[count - 1])
    if head.kind == HMSG:
        head.header_size = parse_size(words[count - 2], sizes[count - 2])
        count -= 1
    if count == 4:
        head.reply, head.reply_size = words[2], sizes[2]
    if head.total_size < 0 or head.header_size < 0 or head.header_size > head.total_size:
        head.kind = BAD


cdef inline str decode_text(const char* p, Py_ssize_t size):
    return PyUnicode_DecodeUTF8(p, size, "surrogateescape") if size else ""
