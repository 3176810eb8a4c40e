/* CRC-32C (Castagnoli, reflected polynomial 0x82F63B78): the checksum of every record and file header.
 *
 * SSE4.2, ARMv8 or slicing-by-8, chosen once at first use. All of it stands in the header, and each kernel has its own:
 * a source named by several kernels is compiled once for each, and where they are compiled side by side one of them
 * may be linked while the object is being written for another. */
#ifndef SLIPSTREAM_CRC32C_H
#define SLIPSTREAM_CRC32C_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Continue `crc` (0 to start) over n bytes. Uses the instruction of the processor where it has one. */
static inline uint32_t slip_crc32c(uint32_t crc, const void *data, size_t n);

/* Copy n bytes and continue two checksums over them, for the price of one: a record that changes its key on the way. */
static inline void slip_crc32c_copy(uint32_t *first, uint32_t *second, void *to, const void *from, size_t n);

/* The portable form, kept visible so that tests can hold both against each other. */
static inline uint32_t slip_crc32c_table(uint32_t crc, const void *data, size_t n);

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#ifndef HWCAP_CRC32
#define HWCAP_CRC32 (1 << 7)
#endif
#endif

typedef uint32_t (*crc_function)(uint32_t, const void *, size_t);
typedef void (*crc_copy_function)(uint32_t *, uint32_t *, void *, const void *, size_t);

static uint32_t crc_tables[8][256];
static int crc_tables_ready;

static void make_crc_tables(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++) c = (c & 1) ? (c >> 1) ^ 0x82F63B78u : c >> 1;
        crc_tables[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int t = 1; t < 8; t++) crc_tables[t][i] = (crc_tables[t - 1][i] >> 8) ^ crc_tables[0][crc_tables[t - 1][i] & 0xFF];
    /* Who sees that they are ready has to see what is in them, on processors that reorder stores, too. */
    __atomic_store_n(&crc_tables_ready, 1, __ATOMIC_RELEASE);
}

static inline uint32_t slip_crc32c_table(uint32_t crc, const void *data, size_t n) {
    const uint8_t *p = (const uint8_t *)data;
    uint32_t c = ~crc;
    if (!__atomic_load_n(&crc_tables_ready, __ATOMIC_ACQUIRE)) make_crc_tables();
    while (n >= 8) {
        /* Bytes are combined by hand, so the result does not depend on the byte order of the machine. */
        uint32_t lo = c ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        c = crc_tables[7][lo & 0xFF] ^ crc_tables[6][(lo >> 8) & 0xFF] ^ crc_tables[5][(lo >> 16) & 0xFF] ^ crc_tables[4][lo >> 24] ^
            crc_tables[3][p[4]] ^ crc_tables[2][p[5]] ^ crc_tables[1][p[6]] ^ crc_tables[0][p[7]];
        p += 8;
        n -= 8;
    }
    while (n--) c = (c >> 8) ^ crc_tables[0][(c ^ *p++) & 0xFF];
    return ~c;
}

static void crc_copy_plainly(uint32_t *first, uint32_t *second, void *to, const void *from, size_t n) {
    if (n) memcpy(to, from, n);
    *first = slip_crc32c(*first, from, n);
    *second = slip_crc32c(*second, from, n);
}

#if defined(__x86_64__)
/* The instruction takes three cycles and can begin every cycle. So long data is cut into blocks of which three are done
 * side by side; what the first becomes behind the other two is looked up, for it is linear: a register after B zero
 * bytes is the sum of what its four bytes become. */
enum { CRC_LONG_BLOCK = 1024, CRC_SHORT_BLOCK = 256 };
static uint32_t crc_long_shift[4][256], crc_short_shift[4][256];

__attribute__((target("sse4.2"))) static void crc_fill_shift(uint32_t table[4][256], size_t block) {
    for (int bit = 0; bit < 32; bit++) {
        uint64_t c = (uint32_t)1 << bit;
        for (size_t i = 0; i < block; i += 8) c = __builtin_ia32_crc32di(c, 0);
        table[bit / 8][1 << bit % 8] = (uint32_t)c;
    }
    for (int byte = 0; byte < 4; byte++) {
        for (uint32_t value = 1; value < 256; value++) {
            uint32_t rest = value & (value - 1);
            table[byte][value] = table[byte][rest] ^ table[byte][value ^ rest];
        }
    }
}

static uint32_t crc_shift_by(uint32_t table[4][256], uint32_t c) {
    return table[0][c & 255] ^ table[1][(c >> 8) & 255] ^ table[2][(c >> 16) & 255] ^ table[3][c >> 24];
}

__attribute__((target("sse4.2"))) static uint64_t crc_three_blocks(
    uint64_t a, const uint8_t *p, size_t block, uint32_t table[4][256]) {
    uint64_t b = 0, c = 0;
    for (size_t i = 0; i < block; i += 8) {
        uint64_t first, second, third;
        memcpy(&first, p + i, 8);
        memcpy(&second, p + block + i, 8);
        memcpy(&third, p + 2 * block + i, 8);
        a = __builtin_ia32_crc32di(a, first);
        b = __builtin_ia32_crc32di(b, second);
        c = __builtin_ia32_crc32di(c, third);
    }
    return crc_shift_by(table, crc_shift_by(table, (uint32_t)a) ^ (uint32_t)b) ^ (uint32_t)c;
}

__attribute__((target("sse4.2"))) static uint32_t crc_hardware(uint32_t crc, const void *data, size_t n) {
    const uint8_t *p = (const uint8_t *)data;
    uint64_t c = (uint32_t)~crc;
    for (; n >= 3 * CRC_LONG_BLOCK; n -= 3 * CRC_LONG_BLOCK, p += 3 * CRC_LONG_BLOCK) c = crc_three_blocks(c, p, CRC_LONG_BLOCK, crc_long_shift);
    for (; n >= 3 * CRC_SHORT_BLOCK; n -= 3 * CRC_SHORT_BLOCK, p += 3 * CRC_SHORT_BLOCK) {
        c = crc_three_blocks(c, p, CRC_SHORT_BLOCK, crc_short_shift);
    }
    while (n >= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        c = __builtin_ia32_crc32di(c, word);
        p += 8;
        n -= 8;
    }
    if (n & 4) {
        uint32_t half;
        memcpy(&half, p, 4);
        c = __builtin_ia32_crc32si((uint32_t)c, half);
        p += 4;
    }
    for (n &= 3; n; n--) c = __builtin_ia32_crc32qi((uint32_t)c, *p++);
    return ~(uint32_t)c;
}

/* A second chain beside the first costs nothing, for the same reason. */
__attribute__((target("sse4.2"))) static void crc_copy_hardware(
    uint32_t *first, uint32_t *second, void *to, const void *from, size_t n) {
    const uint8_t *p = (const uint8_t *)from;
    uint8_t *q = (uint8_t *)to;
    uint64_t a = (uint32_t)~*first, b = (uint32_t)~*second;
    for (; n >= 8; n -= 8, p += 8, q += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        memcpy(q, &word, 8);
        a = __builtin_ia32_crc32di(a, word);
        b = __builtin_ia32_crc32di(b, word);
    }
    if (n & 4) {
        uint32_t half;
        memcpy(&half, p, 4);
        memcpy(q, &half, 4);
        a = __builtin_ia32_crc32si((uint32_t)a, half);
        b = __builtin_ia32_crc32si((uint32_t)b, half);
        p += 4;
        q += 4;
    }
    for (n &= 3; n; n--) {
        a = __builtin_ia32_crc32qi((uint32_t)a, *p);
        b = __builtin_ia32_crc32qi((uint32_t)b, *p);
        *q++ = *p++;
    }
    *first = ~(uint32_t)a;
    *second = ~(uint32_t)b;
}
static int crc_has_hardware(void) {
    if (!__builtin_cpu_supports("sse4.2")) return 0;
    crc_fill_shift(crc_long_shift, CRC_LONG_BLOCK);
    crc_fill_shift(crc_short_shift, CRC_SHORT_BLOCK);
    return 1;
}
#elif defined(__aarch64__) && defined(__linux__)
__attribute__((target("+crc"))) static uint32_t crc_hardware(uint32_t crc, const void *data, size_t n) {
    const uint8_t *p = (const uint8_t *)data;
    uint32_t c = ~crc;
    while (n >= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        __asm__("crc32cx %w0, %w0, %x1" : "+r"(c) : "r"(word));
        p += 8;
        n -= 8;
    }
    while (n--) {
        uint32_t byte = *p++;
        __asm__("crc32cb %w0, %w0, %w1" : "+r"(c) : "r"(byte));
    }
    return ~c;
}
#define crc_copy_hardware crc_copy_plainly
static int crc_has_hardware(void) { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
#else
static uint32_t crc_hardware(uint32_t crc, const void *data, size_t n) { return slip_crc32c_table(crc, data, n); }
#define crc_copy_hardware crc_copy_plainly
static int crc_has_hardware(void) { return 0; }
#endif

static uint32_t crc_first_use(uint32_t crc, const void *data, size_t n);
static crc_function crc_chosen = crc_first_use;

static uint32_t crc_first_use(uint32_t crc, const void *data, size_t n) {
    /* Two threads may both come here; they store the same pointer and the same crc_tables. */
    crc_function found = crc_has_hardware() ? crc_hardware : slip_crc32c_table;
    __atomic_store_n(&crc_chosen, found, __ATOMIC_RELEASE);
    return found(crc, data, n);
}

static inline uint32_t slip_crc32c(uint32_t crc, const void *data, size_t n) { return crc_chosen(crc, data, n); }

static void crc_copy_first_use(uint32_t *first, uint32_t *second, void *to, const void *from, size_t n);
static crc_copy_function crc_copy_chosen = crc_copy_first_use;

static void crc_copy_first_use(uint32_t *first, uint32_t *second, void *to, const void *from, size_t n) {
    crc_copy_chosen = crc_has_hardware() ? crc_copy_hardware : crc_copy_plainly;
    crc_copy_chosen(first, second, to, from, n);
}

static inline void slip_crc32c_copy(uint32_t *first, uint32_t *second, void *to, const void *from, size_t n) {
    crc_copy_chosen(first, second, to, from, n);
}
#endif
