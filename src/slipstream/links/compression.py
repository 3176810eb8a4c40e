"""Which compression two servers agree on: each says what it is configured to, and both come to the same.

`accept` goes along with whatever the other one starts, and starts nothing. `s2_auto` chooses by the round trip time,
again and again: what is near is not worth the work. A stream that is `s2_uncompressed` has the frames and checksums of
one that is compressed, so the level can change at any time without a word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.units import MILLISECOND_NS

if TYPE_CHECKING:
    from slipstream.config.listener_options import CompressionOptions

__all__ = [
    "AUTO",
    "BEST",
    "BETTER",
    "NOT_SUPPORTED",
    "OFF",
    "UNCOMPRESSED",
    "agreed_mode",
    "configured_mode",
    "is_framed",
    "mode_by_rtt",
]

OFF, ACCEPT, NOT_SUPPORTED = "off", "accept", "not supported"
AUTO, UNCOMPRESSED, FAST, BETTER, BEST = "s2_auto", "s2_uncompressed", "s2_fast", "s2_better", "s2_best"
_BY_DISTANCE = (UNCOMPRESSED, FAST, BETTER, BEST)
_THRESHOLDS_NS = (10 * MILLISECOND_NS, 50 * MILLISECOND_NS, 100 * MILLISECOND_NS)
_WORDS = {
    **dict.fromkeys(("disabled", "false"), OFF),
    "not_supported": NOT_SUPPORTED,
    "auto": AUTO,
    "fast": FAST,
    "better": BETTER,
    "best": BEST,
}


def configured_mode(options: CompressionOptions, *, default: str = ACCEPT, when_on: str = FAST) -> str:
    """The mode of a configuration by its one name."""
    word = options.mode.lower() or default
    return when_on if word in ("on", "enabled", "true") else _WORDS.get(word, word)


def is_framed(mode: str) -> bool:
    """Whether bytes travel in frames of S2."""
    return mode in _BY_DISTANCE


def agreed_mode(own: str, theirs: str) -> str | None:
    """What a link does, `s2_auto` if its distance decides; None for a word that nobody knows."""
    if own in (OFF, NOT_SUPPORTED) or theirs in ("", NOT_SUPPORTED, OFF):
        return NOT_SUPPORTED if theirs in ("", NOT_SUPPORTED) or own == NOT_SUPPORTED else OFF
    if theirs == ACCEPT:
        return OFF if own == ACCEPT else own
    if theirs != AUTO and theirs not in _BY_DISTANCE:
        return None
    if own != ACCEPT:
        return own
    return FAST if theirs == AUTO else theirs


def mode_by_rtt(rtt_ns: int, options: CompressionOptions) -> str:
    """The level for a distance."""
    thresholds = options.rtt_thresholds_ns or _THRESHOLDS_NS
    for place, threshold_ns in enumerate(thresholds[:3]):
        if rtt_ns <= threshold_ns:
            return _BY_DISTANCE[place]
    return BEST if len(thresholds) >= 3 else _BY_DISTANCE[len(thresholds) - 1]
