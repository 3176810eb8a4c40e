# What a stamp is, for the kernel that reads it. See pubframes.pyx.

cdef enum:
    STAMP_BYTES = 16       # source and sequence, then time: two little-endian u64 at the front of a payload
    SEQ_BITS = 48          # of the first word; the source is above
    SOURCES = 256          # stamping publishers one scanner tells apart
