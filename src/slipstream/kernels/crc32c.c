/* CRC-32C (Castagnoli, reflected polynomial 0x82F63B78): SSE4.2, ARMv8 or slicing-by-8, chosen once at first use. */
#include "crc32c.h"
#include <string.h>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#ifndef HWCAP_CRC32
#define HWCAP_CRC32 (1 << 7)
#endif
#endif

typedef uint32_t (*crc_function)(uint32_t, const void *, size_t);
typedef void (*copy_function)(uint32_t *, uint32_t *, void *, const void *, size_t);

static uint32_t tables[8][256];
static int tables_ready;

static void make_tables(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++) c = (c & 1) ? (c >> 1) ^ 0x82F63B78u : c >> 1;
        tables[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int t = 1; t < 8; t++) tables[t][i] = (tables[t - 1][i] >> 8) ^ tables[0][tables[t - 1][i] & 0xFF];
    tables_ready = 1;
}

uint32_t slip_crc32c_table(uint32_t crc, const void *data, size_t n) {
    const uint8_t *p = (const uint8_t *)data;
    uint32_t c = ~crc;
    if (!tables_ready) make_tables();
    while (n >= 8) {
        /* Bytes are combined by hand, so the result does not depend on the byte order of the machine. */
        uint32_t lo = c ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        c = tables[7][lo & 0xFF] ^ tables[6][(lo >> 8) & 0xFF] ^ tables[5][(lo >> 16) & 0xFF] ^ tables[4][lo >> 24] ^
            tables[3][p[4]] ^ tables[2][p[5]] ^ tables[1][p[6]] ^ tables[0][p[7]];
        p += 8;
        n -= 8;
    }
    while (n--) c = (c >> 8) ^ tables[0][(c ^ *p++) & 0xFF];
    return ~c;
}

static void copy_plainly(uint32_t *first, uint32_t *second, void *to, const void *from, size_t n) {
    if (n) memcpy(to, from, n);
    *first = slip_crc32c(*first, from, n);
    *second = slip_crc32c(*second, from, n);
}

#if defined(__x86_64__)
/* The instruction takes three cycles and can begin every cycle. So long data is cut into blocks of which three are done
 * side by side; what the first becomes behind the other two is looked up, for it is linear: a register after B zero
 * bytes is the sum of what its four bytes become. */
enum { LONG_BLOCK = 1024, SHORT_BLOCK = 256 };
static uint32_t long_shift[4][256], short_shift[4][256];

__attribute__((target("sse4.2"))) static void fill_shift(uint32_t table[4][256], size_t block) {
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

static uint32_t shift_by(uint32_t table[4][256], uint32_t c) {
    return table[0][c & 255] ^ table[1][(c >> 8) & 255] ^ table[2][(c >> 16) & 255] ^ table[3][c >> 24];
}

__attribute__((target("sse4.2"))) static uint64_t three_blocks(
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
    return shift_by(table, shift_by(table, (uint32_t)a) ^ (uint32_t)b) ^ (uint32_t)c;
}

__attribute__((target("sse4.2"))) static uint32_t crc_hardware(uint32_t crc, const void *data, size_t n) {
    const uint8_t *p = (const uint8_t *)data;
    uint64_t c = (uint32_t)~crc;
    for (; n >= 3 * LONG_BLOCK; n -= 3 * LONG_BLOCK, p += 3 * LONG_BLOCK) c = three_blocks(c, p, LONG_BLOCK, long_shift);
    for (; n >= 3 * SHORT_BLOCK; n -= 3 * SHORT_BLOCK, p += 3 * SHORT_BLOCK) {
        c = three_blocks(c, p, SHORT_BLOCK, short_shift);
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
__attribute__((target("sse4.2"))) static void copy_hardware(
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
static int has_hardware(void) {
    if (!__builtin_cpu_supports("sse4.2")) return 0;
    fill_shift(long_shift, LONG_BLOCK);
    fill_shift(short_shift, SHORT_BLOCK);
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
#define copy_hardware copy_plainly
static int has_hardware(void) { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
#else
static uint32_t crc_hardware(uint32_t crc, const void *data, size_t n) { return slip_crc32c_table(crc, data, n); }
#define copy_hardware copy_plainly
static int has_hardware(void) { return 0; }
#endif

static uint32_t crc_first_use(uint32_t crc, const void *data, size_t n);
static crc_function chosen = crc_first_use;

static uint32_t crc_first_use(uint32_t crc, const void *data, size_t n) {
    /* Two threads may both come here; they store the same pointer and the same tables. */
    crc_function found = has_hardware() ? crc_hardware : slip_crc32c_table;
    __atomic_store_n(&chosen, found, __ATOMIC_RELEASE);
    return found(crc, data, n);
}

uint32_t slip_crc32c(uint32_t crc, const void *data, size_t n) { return chosen(crc, data, n); }

static void copy_first_use(uint32_t *first, uint32_t *second, void *to, const void *from, size_t n);
static copy_function chosen_copy = copy_first_use;

static void copy_first_use(uint32_t *first, uint32_t *second, void *to, const void *from, size_t n) {
    chosen_copy = has_hardware() ? copy_hardware : copy_plainly;
    chosen_copy(first, second, to, from, n);
}

void slip_crc32c_copy(uint32_t *first, uint32_t *second, void *to, const void *from, size_t n) {
    chosen_copy(first, second, to, from, n);
}
