"""Option values as users write them: words, numbers, sizes, durations, times, lists.

Spark hands options over as texts with their names in lower case. Every reader here says which option it was, what was
written and what would be right.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime

from slipstream.config.durations import parse_duration
from slipstream.spark.runtime.errors import OptionError

__all__ = ["Values"]

_SIZE = re.compile(r"(\d{1,15})\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_SIZE_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_NUMBER = re.compile(r"\d{1,19}")
_TRUE, _FALSE = ("true", "yes", "1"), ("false", "no", "0")
# What Spark itself adds or understands; none of it is ours.
_OF_SPARK = {
    "checkpointlocation",
    "collation",
    "comment",
    "external",
    "is_managed_location",
    "location",
    "owner",
    "path",
    "provider",
    "queryname",
    "serialization.format",
}


class Values:
    """The options of one read or write."""

    def __init__(self, options: Mapping[str, str]) -> None:
        # The options of a table in a catalogue come with a prefix.
        self._texts = {name.lower().removeprefix("option."): text for name, text in options.items()}

    def refuse_unknown(self, known: Collection[str]) -> None:
        """Refuse what is not in `known`: a misspelt limit that is ignored is worse than an error.

        Raises:
            OptionError: with the closest known name.
        """
        self._refuse_secrets()
        names = {name.lower(): name for name in known}
        for name in self._texts:
            if name in names or name in _OF_SPARK:
                continue
            close = difflib.get_close_matches(name, names, 1)
            raise OptionError(name, f"is unknown; did you mean {names[close[0]]!r}?" if close else "is unknown")

    @property
    def any(self) -> bool:
        """Whether there is an option of ours at all."""
        return any(name not in _OF_SPARK for name in self._texts)

    def has(self, name: str) -> bool:
        """Whether the option is there and not empty."""
        return bool(self._texts.get(name.lower(), "").strip())

    def text(self, name: str, default: str = "") -> str:
        """The text, without blanks around it."""
        return self._texts.get(name.lower(), "").strip() or default

    def words(self, name: str) -> tuple[str, ...]:
        """The parts of a list separated by commas."""
        parts = (part.strip() for part in self.text(name).split(","))
        return tuple(dict.fromkeys(part for part in parts if part))

    def choice(self, name: str, choices: Collection[str], default: str) -> str:
        """One of some words."""
        word = self.text(name, default).lower()
        if word not in choices:
            raise OptionError(name, f"{word!r} is not one of {', '.join(choices)}")
        return word

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        word = self.text(name, "true" if default else "false").lower()
        if word not in _TRUE and word not in _FALSE:
            raise OptionError(name, f"{word!r} is neither true nor false")
        return word in _TRUE

    def number(self, name: str, default: int | None, *, least: int = 1, most: int = 2**63 - 1) -> int | None:
        """A whole number in a range."""
        if not self.has(name):
            return default
        text = self.text(name)
        if not _NUMBER.fullmatch(text) or not least <= int(text) <= most:
            raise OptionError(name, f"{text!r} is not a whole number from {least} to {most}")
        return int(text)

    def count(self, name: str, default: int, *, least: int = 1, most: int = 2**63 - 1) -> int:
        """A whole number in a range that has a default."""
        number = self.number(name, default, least=least, most=most)
        assert number is not None
        return number

    def size(self, name: str, default: int | None) -> int | None:
        """Bytes: `1048576`, `8m`, `8MiB`; units are powers of 1024."""
        if not self.has(name):
            return default
        text = self.text(name)
        found = _SIZE.fullmatch(text)
        size = int(found[1]) * _SIZE_UNITS[found[2].lower()] if found else 0
        if not 0 < size < 2**63:
            raise OptionError(name, f"{text!r} is not a size such as 1048576, 512k or 8m")
        return size

    def duration_ns(self, name: str, default: int | None) -> int | None:
        """Nanoseconds of a duration such as `500ms`, `1m30s`, `24h`."""
        if not self.has(name):
            return default
        text = self.text(name)
        try:
            duration = parse_duration(text.replace(" ", ""))
        except ValueError as error:
            raise OptionError(name, f"{text!r} is not a duration such as 500ms, 30s or 10m") from error
        if duration <= 0:
            raise OptionError(name, f"{text!r} is not more than nothing")
        return duration

    def time_ns(self, name: str) -> int | None:
        """Nanoseconds since 1970: ISO 8601 (UTC unless it says otherwise), or milliseconds since 1970 as a number."""
        if not self.has(name):
            return None
        text = self.text(name)
        if _NUMBER.fullmatch(text):
            return int(text) * 1_000_000
        try:
            moment = datetime.fromisoformat(text)
        except ValueError as error:
            raise OptionError(name, f"{text!r} is not a time such as 2026-01-31T12:00:00Z") from error
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        since = moment - datetime(1970, 1, 1, tzinfo=UTC)
        return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1_000

    def _refuse_secrets(self) -> None:
        """Refuse secrets as values: options show in query plans, event logs and the Spark UI.

        Raises:
            OptionError: with the option to use instead.
        """
        for name, instead in (("password", "passwordEnv"), ("token", "tokenEnv"), ("nkey", "nkeyFile")):
            if name in self._texts:
                raise OptionError(name, f"options show in query plans; use {instead!r} instead")
        if "creds" in self._texts:
            raise OptionError("creds", "options show in query plans; use 'credsFile' instead")
