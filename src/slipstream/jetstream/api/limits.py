"""Numbers that bound what `jetstream/api` does, each with its unit and its reason."""

from __future__ import annotations

from typing import Final

from slipstream.units import KIB

# Page sizes of the API: names, whole streams, subjects in one stream info. nats-server's numbers; clients page on.
API_NAMES_MAX: Final = 1_024
API_LIST_MAX: Final = 256
SUBJECT_DETAILS_MAX: Final = 100_000
# Deleted sequences listed in one stream info: beyond this the answer would not fit the default payload.
DELETED_DETAILS_MAX: Final = 100_000
# Subjects a `multi_last` direct get may match.
DIRECT_MULTI_LAST_MAX: Final = 1_024

# Backups and restores of one account at the same time: each holds a window in memory.
BACKUPS_MAX: Final = 8

# Of a request, in its record of the audit trail: configurations that people write are shorter by far.
AUDIT_BODY_BYTES_MAX: Final = 8 * KIB
# Records that wait for the stream of the trail, which is made with the first start: some milliseconds.
AUDIT_WAITING_MAX: Final = 1_000
