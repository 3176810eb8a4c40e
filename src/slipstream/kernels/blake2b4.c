/* BLAKE2b (RFC 7693) of four messages at once: one in each quarter of a 256-bit register.
 *
 * A message of a hundred bytes is one or two blocks, and a block is twelve rounds in which every step waits for the one
 * before: one message leaves most of the processor idle. Four that have nothing to do with each other do not. They may
 * have different lengths: a message that has ended keeps its state while the others go on. */
#include "blake2b4.h"
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))

enum { BLOCK = 128, DIGEST = 32, LANES = 4 };

static const uint64_t IV[8] = {
    0x6a09e667f3bcc908ULL, 0xbb67ae8584caa73bULL, 0x3c6ef372fe94f82bULL, 0xa54ff53a5f1d36f1ULL,
    0x510e527fade682d1ULL, 0x9b05688c2b3e6c1fULL, 0x1f83d9abfb41bd6bULL, 0x5be0cd19137e2179ULL,
};

static const uint8_t SIGMA[12][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
};

int slip_blake2b4_ready(void) { return __builtin_cpu_supports("avx2"); }

#define ADD(a, b) _mm256_add_epi64(a, b)
#define XOR(a, b) _mm256_xor_si256(a, b)
#define TURN32(a) _mm256_shuffle_epi32(a, _MM_SHUFFLE(2, 3, 0, 1))
#define TURN24(a) _mm256_shuffle_epi8(a, by24)
#define TURN16(a) _mm256_shuffle_epi8(a, by16)
#define TURN63(a) XOR(_mm256_srli_epi64(a, 63), ADD(a, a))

#define MIX(a, b, c, d, x, y) \
    a = ADD(ADD(a, b), x);    \
    d = TURN32(XOR(d, a));    \
    c = ADD(c, d);            \
    b = TURN24(XOR(b, c));    \
    a = ADD(ADD(a, b), y);    \
    d = TURN16(XOR(d, a));    \
    c = ADD(c, d);            \
    b = TURN63(XOR(b, c));

/* The words of one block of each message, side by side. */
AVX2 static void load_words(__m256i m[16], const unsigned char *const block[LANES]) {
    for (int at = 0; at < 4; at++) {
        __m256i a = _mm256_loadu_si256((const __m256i *)(block[0] + 32 * at));
        __m256i b = _mm256_loadu_si256((const __m256i *)(block[1] + 32 * at));
        __m256i c = _mm256_loadu_si256((const __m256i *)(block[2] + 32 * at));
        __m256i d = _mm256_loadu_si256((const __m256i *)(block[3] + 32 * at));
        __m256i ab_even = _mm256_unpacklo_epi64(a, b), ab_odd = _mm256_unpackhi_epi64(a, b);
        __m256i cd_even = _mm256_unpacklo_epi64(c, d), cd_odd = _mm256_unpackhi_epi64(c, d);
        m[4 * at] = _mm256_permute2x128_si256(ab_even, cd_even, 0x20);
        m[4 * at + 1] = _mm256_permute2x128_si256(ab_odd, cd_odd, 0x20);
        m[4 * at + 2] = _mm256_permute2x128_si256(ab_even, cd_even, 0x31);
        m[4 * at + 3] = _mm256_permute2x128_si256(ab_odd, cd_odd, 0x31);
    }
}

AVX2 static void compress(__m256i h[8], const __m256i m[16], __m256i count, __m256i last, __m256i active) {
    const __m256i by24 = _mm256_setr_epi8(
        3, 4, 5, 6, 7, 0, 1, 2, 11, 12, 13, 14, 15, 8, 9, 10, 3, 4, 5, 6, 7, 0, 1, 2, 11, 12, 13, 14, 15, 8, 9, 10);
    const __m256i by16 = _mm256_setr_epi8(
        2, 3, 4, 5, 6, 7, 0, 1, 10, 11, 12, 13, 14, 15, 8, 9, 2, 3, 4, 5, 6, 7, 0, 1, 10, 11, 12, 13, 14, 15, 8, 9);
    __m256i v0 = h[0], v1 = h[1], v2 = h[2], v3 = h[3], v4 = h[4], v5 = h[5], v6 = h[6], v7 = h[7];
    __m256i v8 = _mm256_set1_epi64x((long long)IV[0]), v9 = _mm256_set1_epi64x((long long)IV[1]);
    __m256i v10 = _mm256_set1_epi64x((long long)IV[2]), v11 = _mm256_set1_epi64x((long long)IV[3]);
    __m256i v12 = XOR(_mm256_set1_epi64x((long long)IV[4]), count), v13 = _mm256_set1_epi64x((long long)IV[5]);
    __m256i v14 = XOR(_mm256_set1_epi64x((long long)IV[6]), last), v15 = _mm256_set1_epi64x((long long)IV[7]);
#pragma GCC unroll 12
    for (int round = 0; round < 12; round++) {
        const uint8_t *s = SIGMA[round];
        MIX(v0, v4, v8, v12, m[s[0]], m[s[1]])
        MIX(v1, v5, v9, v13, m[s[2]], m[s[3]])
        MIX(v2, v6, v10, v14, m[s[4]], m[s[5]])
        MIX(v3, v7, v11, v15, m[s[6]], m[s[7]])
        MIX(v0, v5, v10, v15, m[s[8]], m[s[9]])
        MIX(v1, v6, v11, v12, m[s[10]], m[s[11]])
        MIX(v2, v7, v8, v13, m[s[12]], m[s[13]])
        MIX(v3, v4, v9, v14, m[s[14]], m[s[15]])
    }
    h[0] = XOR(h[0], _mm256_and_si256(active, XOR(v0, v8)));
    h[1] = XOR(h[1], _mm256_and_si256(active, XOR(v1, v9)));
    h[2] = XOR(h[2], _mm256_and_si256(active, XOR(v2, v10)));
    h[3] = XOR(h[3], _mm256_and_si256(active, XOR(v3, v11)));
    h[4] = XOR(h[4], _mm256_and_si256(active, XOR(v4, v12)));
    h[5] = XOR(h[5], _mm256_and_si256(active, XOR(v5, v13)));
    h[6] = XOR(h[6], _mm256_and_si256(active, XOR(v6, v14)));
    h[7] = XOR(h[7], _mm256_and_si256(active, XOR(v7, v15)));
}

AVX2 void slip_blake2b4(
    unsigned char *const out[4], const unsigned char *const data[4], const size_t length[4], const unsigned char *person) {
    unsigned char ends[LANES][BLOCK]; /* the last block of each, filled up with zeros */
    size_t whole[LANES], blocks = 0;  /* blocks in front of that one */
    __m256i h[8], m[16];
    uint64_t words[2], lanes[LANES];
    memcpy(words, person, sizeof words);
    for (int at = 0; at < 8; at++) {
        uint64_t word = IV[at];
        if (at == 0) word ^= 0x01010000u ^ DIGEST;
        if (at >= 6) word ^= words[at - 6];
        h[at] = _mm256_set1_epi64x((long long)word);
    }
    for (int lane = 0; lane < LANES; lane++) {
        whole[lane] = length[lane] ? (length[lane] - 1) / BLOCK : 0;
        size_t rest = length[lane] - whole[lane] * BLOCK;
        memset(ends[lane], 0, BLOCK);
        if (rest) memcpy(ends[lane], data[lane] + whole[lane] * BLOCK, rest);
        if (whole[lane] > blocks) blocks = whole[lane];
    }
    for (size_t at = 0; at <= blocks; at++) {
        const unsigned char *block[LANES];
        uint64_t count[LANES], last[LANES], active[LANES];
        for (int lane = 0; lane < LANES; lane++) {
            int ended = at >= whole[lane];
            block[lane] = ended ? ends[lane] : data[lane] + at * BLOCK;
            count[lane] = ended ? length[lane] : (at + 1) * BLOCK;
            last[lane] = ended ? ~(uint64_t)0 : 0;
            active[lane] = at <= whole[lane] ? ~(uint64_t)0 : 0;
        }
        load_words(m, block);
        compress(
            h, m, _mm256_loadu_si256((const __m256i *)count), _mm256_loadu_si256((const __m256i *)last),
            _mm256_loadu_si256((const __m256i *)active));
    }
    for (int at = 0; at < DIGEST / 8; at++) {
        _mm256_storeu_si256((__m256i *)lanes, h[at]);
        for (int lane = 0; lane < LANES; lane++) memcpy(out[lane] + 8 * at, &lanes[lane], 8);
    }
}

#else

int slip_blake2b4_ready(void) { return 0; }

void slip_blake2b4(
    unsigned char *const out[4], const unsigned char *const data[4], const size_t length[4], const unsigned char *person) {
    (void)out, (void)data, (void)length, (void)person;
}

#endif
