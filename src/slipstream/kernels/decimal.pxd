# Numbers as text.
#
# Nothing to compile by itself: the function becomes part of the kernel that cimports it.

cdef enum:
    # Longest text of a 64-bit number.
    DIGITS = 20


cdef inline char *put_number(char *target, unsigned long long number) noexcept nogil:
    """Write decimal digits, at most `DIGITS`; where they end."""
    cdef char digits[DIGITS]
    cdef Py_ssize_t n = 0
    while True:
        digits[n] = <char>(48 + number % 10)
        number //= 10
        n += 1
        if number == 0:
            break
    while n:
        n -= 1
        target[0] = digits[n]
        target += 1
    return target
