"""When and from where a user may connect: parts of the day in some place, and networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Final, TypeAlias

from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    from slipstream.auth.jwt.claims import RightsClaim

__all__ = ["Zones", "is_from", "remaining_ns", "seconds_of_day"]

# A time zone by name, "" for the one of the server; None when there is no such zone.
Zones: TypeAlias = "Callable[[str], tzinfo | None]"

_LENGTH = len("15:04:05")
_MAPPED_BITS: Final = 96  # before the IPv4 address in an IPv6 one


def is_from(networks: Sequence[str] | None, ip: str) -> bool:
    """Whether an address is in one of the networks; without any, every address is good."""
    if not networks:
        return True
    try:
        # A socket that hears both families shows IPv4 addresses inside IPv6.
        address = ip_address(ip.partition("%")[0])
        address = getattr(address, "ipv4_mapped", None) or address
        return any(address in _network(network) for network in networks)
    except ValueError:
        return False


def _network(text: str) -> IPv4Network | IPv6Network:
    """A network with its length: an address alone is none, and IPv4 inside IPv6 is IPv4.

    Raises:
        ValueError: it is no network.
    """
    if "/" not in text:
        raise ValueError(text)
    network = ip_network(text, strict=False)
    inside = getattr(network.network_address, "ipv4_mapped", None)
    if inside is None or network.prefixlen < _MAPPED_BITS:
        return network
    return IPv4Network((inside, network.prefixlen - _MAPPED_BITS))


def remaining_ns(rights: RightsClaim, now_ns: int, zones: Zones) -> int | None:
    """How long a user may stay: 0 without limit, None when this is not the time to come at all."""
    if not rights.times:
        return 0
    zone = zones(rights.times_location)
    if zone is None:
        return None
    now = datetime.fromtimestamp(now_ns // SECOND_NS, UTC).astimezone(zone)
    now += timedelta(microseconds=now_ns % SECOND_NS // 1000)
    longest = 0
    for window in rights.times:
        start_s, end_s = seconds_of_day(window.start), seconds_of_day(window.end)
        if start_s is None or end_s is None:
            return None
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        longest = max(longest, _remaining(_at(midnight, start_s), _at(midnight, end_s), now))
    return longest or None


def _at(midnight: datetime, seconds: int) -> datetime:
    return midnight.replace(hour=seconds // 3600, minute=seconds // 60 % 60, second=seconds % 60)


def _remaining(start: datetime, end: datetime, now: datetime) -> int:
    """Nanoseconds until the end of a window that `now` is in; 0 when it is outside."""
    if start > end:
        if now < end:
            return _ns(end - now)  # after midnight
        end += timedelta(days=1)
    return _ns(end - now) if start < now < end else 0


def _ns(span: timedelta) -> int:
    return (span // timedelta(microseconds=1)) * 1000


def seconds_of_day(text: str) -> int | None:
    """The second of the day that `15:04:05` stands for; None when it is no such text."""
    parts = text.split(":")
    if (
        len(parts) != 3
        or len(text) not in (_LENGTH - 1, _LENGTH)
        or not all(p.isascii() and p.isdigit() for p in parts)
    ):
        return None
    # Go takes hours of one digit, too.
    if len(parts[1]) != 2 or len(parts[2]) != 2:
        return None
    hours, minutes, seconds = (int(part) for part in parts)
    return hours * 3600 + minutes * 60 + seconds if hours < 24 and minutes < 60 and seconds < 60 else None
