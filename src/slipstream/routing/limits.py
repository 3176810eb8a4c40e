"""Numbers that bound what `routing` does, each with its unit and its reason."""

from __future__ import annotations

from typing import Final

# Service requests of one exporting account that wait for an answer; the oldest is forgotten past it.
SERVICE_RESPONSES_MAX: Final = 262_144
