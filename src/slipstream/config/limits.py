"""Numbers that bound what `config` does, each with its unit and its reason."""

from __future__ import annotations

from typing import Final

from slipstream.units import KIB, MILLISECOND_NS

# Maps and arrays inside each other. Real files stay below 10; the parser keeps its own stack, this bounds it.
CONFIG_DEPTH_MAX: Final = 128
# `include` inside an included file.
CONFIG_INCLUDE_DEPTH_MAX: Final = 16
# All `include` statements of one load together.
CONFIG_INCLUDES_MAX: Final = 1024
# Errors reported at once; the rest is counted.
CONFIG_ERRORS_MAX: Final = 100
# A variable may refer to another variable this many times before it counts as a cycle.
CONFIG_VARIABLE_DEPTH_MAX: Final = 64
# Blocks of `lake`: each is a process with some 150 MB.
LAKE_BLOCKS_MAX: Final = 16
# Shorter turns would make more versions of tables than anybody reads.
LAKE_EVERY_MIN_NS: Final = 100 * MILLISECOND_NS
# Smaller files would be mostly their own footers.
LAKE_FILE_BYTES_MIN: Final = 64 * KIB
