# The keyed hash of subjects and their tokens, part of every kernel that cimports it. See subjecttable.pyx.

from libc.stdint cimport uint32_t, uint64_t

cdef extern from *:
    """
    #ifndef SLIP_NAMEHASH
    #define SLIP_NAMEHASH
    #include <stdint.h>
    #include <string.h>
    static inline uint64_t slip_mix(uint64_t a, uint64_t b) {
        unsigned __int128 m = (unsigned __int128)a * b;
        return (uint64_t)m ^ (uint64_t)(m >> 64);
    }
    static inline uint32_t slip_hash(uint64_t seed, const char *p, size_t n) {
        uint64_t h = seed ^ (n * 0x9E3779B97F4A7C15ull), w;
        while (n >= 8) { memcpy(&w, p, 8); h = slip_mix(h ^ w, 0xA0761D6478BD642Full); p += 8; n -= 8; }
        w = 0; memcpy(&w, p, n);
        h = slip_mix(h ^ w, 0xE7037ED1A0B428DBull);
        return (uint32_t)(h ^ (h >> 32));
    }
    #endif
    """
    uint32_t slip_hash(uint64_t seed, const char *p, size_t n) noexcept nogil
