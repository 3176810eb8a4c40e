"""Cron patterns of six fields (second, minute, hour, day of month, month, day of week), and the next time they name.

Names (`jan`, `mon`), lists, ranges, steps and `?` for `*` are understood; a step behind a single number runs to the
field's end (`5/10` is `5-59/10`). If both day fields are restricted, either of them will do.

What this is not: a clock or a source of time zones; both are given. Times are seconds since 1970.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from slipstream.dataclass import dataclass

__all__ = ["Cron", "OffsetAt", "parse_cron", "utc"]

OffsetAt = Callable[[int], int]
"""Seconds a zone is ahead of UTC at an instant."""

_EPOCH = datetime(1970, 1, 1)
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS = {name: at for at, name in enumerate(_MONTH_NAMES, start=1)}
_DAYS = {name: at for at, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
_NO_NAMES: dict[str, int] = {}
_YEARS_AHEAD: Final = 5  # a pattern that names nothing for this long names nothing


def utc(_seconds: int) -> int:
    """The offset of UTC."""
    return 0


@dataclass(frozen=True, slots=True)
class _Field:
    """The values one field allows; `star`: it was not restricted."""

    values: frozenset[int]
    star: bool

    def __contains__(self, value: int) -> bool:
        return value in self.values


@dataclass(frozen=True, slots=True)
class Cron:
    """A parsed pattern."""

    second: _Field
    minute: _Field
    hour: _Field
    day: _Field
    month: _Field
    weekday: _Field

    def next_after(self, seconds: int, offset_at: OffsetAt) -> int | None:
        """The first second behind `seconds` that the pattern names in a zone; None if none is near."""
        if not (self.second.values and self.minute.values and self.hour.values and self.month.values):
            return None
        return _Search(self, seconds + 1, offset_at).run()

    def allows_day(self, local: datetime) -> bool:
        """Whether the two day fields, taken together, allow a date."""
        in_month = local.day in self.day
        in_week = local.isoweekday() % 7 in self.weekday
        return in_month and in_week if self.day.star or self.weekday.star else in_month or in_week


class _Search:
    """Goes forward field by field, from the month down; a field that overflows begins the search anew.

    The first step of a field cuts off what is below it, once in the whole search: later steps start from a round time,
    and cutting again could go back over a change of the clock.
    """

    def __init__(self, cron: Cron, at: int, offset_at: OffsetAt) -> None:
        self._cron = cron
        self._at = at
        self._offset_at = offset_at
        self._is_cut = False

    def run(self) -> int | None:
        year_max = self._local().year + _YEARS_AHEAD
        while self._local().year <= year_max:
            if self._month() and self._day() and self._hour() and self._minute() and self._second():
                return self._at
        return None

    def _local(self) -> datetime:
        return _EPOCH + timedelta(seconds=self._at + self._offset_at(self._at))

    def _go_to(self, local: datetime) -> None:
        """The instant of a local time; if the clock skips it, one beside it."""
        wall = round((local - _EPOCH).total_seconds())
        self._at = wall - self._offset_at(wall - self._offset_at(wall))

    def _cut(self, *, day: int | None = None, hour: int | None = None, minute: int | None = None) -> None:
        """Begin the present month, day, hour or minute, unless something was cut before."""
        if not self._is_cut:
            self._is_cut = True
            now = self._local()
            self._go_to(
                now.replace(
                    day=now.day if day is None else day,
                    hour=now.hour if hour is None else hour,
                    minute=now.minute if minute is None else minute,
                    second=0,
                )
            )

    def _month(self) -> bool:
        while self._local().month not in self._cron.month:
            self._cut(day=1, hour=0, minute=0)
            local = self._local()
            year, month = (local.year + 1, 1) if local.month == 12 else (local.year, local.month + 1)
            self._go_to(local.replace(year=year, month=month, day=1))
            if month == 1:
                return False
        return True

    def _day(self) -> bool:
        while not self._cron.allows_day(self._local()):
            self._cut(hour=0, minute=0)
            self._go_to(self._local() + timedelta(days=1))
            if self._local().day == 1:
                return False
        return True

    def _hour(self) -> bool:
        while self._local().hour not in self._cron.hour:
            self._cut(minute=0)
            self._at += 3600
            if self._local().hour == 0:
                return False
        return True

    def _minute(self) -> bool:
        while self._local().minute not in self._cron.minute:
            self._cut()
            self._at += 60
            if self._local().minute == 0:
                return False
        return True

    def _second(self) -> bool:
        while self._local().second not in self._cron.second:
            self._at += 1
            if self._local().second == 0:
                return False
        return True


def parse_cron(pattern: str) -> Cron | None:
    """The pattern, or None if it is not one."""
    fields = pattern.split()
    if len(fields) != 6:
        return None
    bounds = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
    names = (_NO_NAMES, _NO_NAMES, _NO_NAMES, _NO_NAMES, _MONTHS, _DAYS)
    parsed = [_field(text, low, high, known) for text, (low, high), known in zip(fields, bounds, names, strict=True)]
    second, minute, hour, day, month, weekday = parsed
    if second is None or minute is None or hour is None or day is None or month is None or weekday is None:
        return None
    return Cron(second, minute, hour, day, month, weekday)


def _field(text: str, low: int, high: int, names: dict[str, int]) -> _Field | None:
    values: set[int] = set()
    star = False
    for part in text.split(","):
        if not part:
            continue
        found = _range(part, low, high, names)
        if found is None:
            return None
        values |= found.values
        star = star or found.star
    return _Field(frozenset(values), star)


def _range(text: str, low: int, high: int, names: dict[str, int]) -> _Field | None:
    """`number`, `*`, `number-number`, each with `/step`."""
    span, *steps = text.split("/")
    first, *lasts = span.split("-")
    star = first in ("*", "?")
    start: int | None = low
    end: int | None = high
    if not star:
        if len(lasts) > 1:
            return None
        start = end = _number(first, names)
        if lasts:
            end = _number(lasts[0], names)
    step: int | None = 1
    if steps:
        step = _number(steps[0], _NO_NAMES) if len(steps) == 1 else None
        if not lasts:
            end = high
    if start is None or end is None or not step or not low <= start <= end <= high:
        return None
    return _Field(frozenset(range(start, end + 1, step)), star and step == 1)


def _number(text: str, names: dict[str, int]) -> int | None:
    known = names.get(text.lower())
    if known is not None:
        return known
    number = int(text) if _NUMBER.fullmatch(text) else -1
    return number if number >= 0 else None
