"""Numbers that bound what `jetstream/backup` does, each with its unit and its reason."""

from __future__ import annotations

from typing import Final

from slipstream.units import KIB, MIB, SECOND_NS

# Chunks of a backup: default, least and largest size, and how many bytes may be unconfirmed. nats-server's numbers.
BACKUP_CHUNK_BYTES: Final = 128 * KIB
BACKUP_CHUNK_BYTES_MIN: Final = 1 * KIB
BACKUP_CHUNK_BYTES_MAX: Final = 1 * MIB
BACKUP_WINDOW_BYTES: Final = 8 * MIB
BACKUP_WINDOW_BYTES_MAX: Final = 32 * MIB
# How long to wait for somebody to listen, for a chunk to be confirmed, and for the next chunk of what is restored.
BACKUP_INTEREST_NS: Final = 2 * SECOND_NS
BACKUP_CONFIRM_NS: Final = 5 * SECOND_NS
BACKUP_SILENCE_NS: Final = 5 * SECOND_NS
# Messages and bytes read for a backup before other work gets its turn: about a millisecond.
BACKUP_SLICE_MSGS: Final = 8_192
BACKUP_SLICE_BYTES: Final = 1 * MIB
# Largest name and content of an entry that is believed: a name is a subject, the content a message or a configuration.
BACKUP_NAME_BYTES_MAX: Final = 64 * KIB
BACKUP_ENTRY_BYTES_MAX: Final = 128 * MIB
