/* CRC-32C (Castagnoli): the checksum of every record and file header. */
#ifndef SLIPSTREAM_CRC32C_H
#define SLIPSTREAM_CRC32C_H
#include <stddef.h>
#include <stdint.h>

/* Continue `crc` (0 to start) over n bytes. Uses the instruction of the processor where it has one. */
uint32_t slip_crc32c(uint32_t crc, const void *data, size_t n);

/* Copy n bytes and continue two checksums over them, for the price of one: a record that changes its key on the way. */
void slip_crc32c_copy(uint32_t *first, uint32_t *second, void *to, const void *from, size_t n);

/* The portable form, kept visible so that tests can hold both against each other. */
uint32_t slip_crc32c_table(uint32_t crc, const void *data, size_t n);
#endif
