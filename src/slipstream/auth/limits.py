"""Numbers that bound what `auth` does, each with its unit and its reason."""

from __future__ import annotations

from typing import Final

# Verdicts remembered for one user's permissions, publish and delivery each. nats-server keeps 128 and 256 a
# connection; ours are shared by the connections of a user, so there are more subjects to remember.
PERMISSION_CACHE_MAX: Final = 1024
# Longer subjects are judged each time, so that the cache is small whatever clients send.
PERMISSION_CACHE_SUBJECT_BYTES_MAX: Final = 128
# Open `allow_responses` grants of one connection; the oldest goes first. nats-server prunes after 4096 grants but
# keeps what has not expired, so a responder that never answers could grow without bound there.
RESPONSE_PERMITS_MAX: Final = 16_384
