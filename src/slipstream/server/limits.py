"""Numbers that bound what `server` does, each with its unit and its reason."""

from __future__ import annotations

from typing import Final

from slipstream.units import KIB, MIB, MILLISECOND_NS

# Bytes one read may bring: enough that a busy socket is drained in few system calls, few enough to stay in the cache.
READ_BUFFER_BYTES: Final = 256 * KIB
# Output of one connection that is sent before the turn ends: small enough to be still in the cache.
EARLY_FLUSH_BYTES: Final = 64 * KIB
# Bytes handed to the transport of one connection a turn. The operating system copies all of it to a reader that is fast
# enough, in one call, some milliseconds for 8 MB: the rest waits for a turn of the others.
TURN_SENT_BYTES: Final = 1 * MIB
# Pause of a producer whose message met a receiver near its limit, as long as nats-server stalls at most a read.
PRODUCER_STALL_NS: Final = 10 * MILLISECOND_NS
# Passwords (bcrypt) checked at the same time: each takes a core for a tenth of a second or more; the rest wait in turn.
PASSWORD_CHECK_THREADS: Final = 2

# Share of the machine's memory, and of the free disk, that streams may use when no limit is configured.
JETSTREAM_MEMORY_SHARE: Final = 0.75
JETSTREAM_DISK_SHARE: Final = 0.75
# Threads for commits: those of different streams wait for the disk side by side. Two a processor, within these bounds;
# more make more and smaller commits of the same messages (1,000 streams on 2 cores: 16 give 0.75 of what 4 do).
COMMIT_THREADS_MIN: Final = 4
COMMIT_THREADS_MAX: Final = 16
# Threads for all other file work, which may take a second each: upkeep, reads in bulk, backups.
FILE_THREADS: Final = 12

# How long an answer to a step of what is declared may take, and how long a start waits for all of them: then it goes on
# meanwhile. A stream takes some milliseconds.
DECLARED_ANSWER_S: Final = 5.0
DECLARED_START_S: Final = 30.0
# Between two attempts at what a cluster refuses because servers are missing.
DECLARED_AGAIN_S: Final = 1.0

# A read this short is a client that waits for answers. If no other client makes work for the end of the turn, the turn
# ends with it: what a publisher waits for leaves one round of the event loop earlier.
LONE_READ_BYTES_MAX: Final = 4 * KIB
# What an HTTP proxy may say before a tunnel through it is open.
TUNNEL_ANSWER_BYTES_MAX: Final = 16 * KIB

# A process that writes tables and ended is started again after a pause, twice as long each time it came to nothing. At
# a stop it has this long to finish its turn.
LAKE_PAUSE_S: Final = 1.0
LAKE_PAUSE_MAX_S: Final = 60.0
LAKE_STOP_S: Final = 5.0
