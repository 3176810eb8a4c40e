/* BLAKE2b of four messages at once, for machines that have AVX2. */
#ifndef SLIP_BLAKE2B4_H
#define SLIP_BLAKE2B4_H

#include <stddef.h>

/* Whether this machine can. */
int slip_blake2b4_ready(void);

/* Digests of 32 bytes of four messages, unkeyed and without a salt; `person` has 16 bytes. Only where it is ready. */
void slip_blake2b4(
    unsigned char *const out[4], const unsigned char *const data[4], const size_t length[4], const unsigned char *person);

#endif
