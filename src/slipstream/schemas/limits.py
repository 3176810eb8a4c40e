"""Numbers that bound what `schemas` does, each with its unit and its reason."""

from __future__ import annotations

from typing import Final

from slipstream.units import KIB

# All definitions of a stream are in its metadata, which has 128 KiB.
SCHEMA_BYTES_MAX: Final = 64 * KIB
SCHEMA_VERSIONS_MAX: Final = 32
SCHEMA_SUBJECTS_MAX: Final = 32
# Values inside each other, in definitions: real ones have less than ten.
SCHEMA_DEPTH_MAX: Final = 64
# A larger payload is not looked at but refused: a check is part of a publish, and 256 KiB take about ten milliseconds.
CHECKED_PAYLOAD_BYTES_MAX: Final = 256 * KIB
# Of what a library says about a payload, in errors and headers.
PROBLEM_CHARACTERS_MAX: Final = 200
