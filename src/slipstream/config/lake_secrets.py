"""Where secrets of object stores and catalogues do not belong: in a table's location, in properties that are shown.

Both are in plans, logs, process lists and on the dashboard. Stores and catalogues take theirs from the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

__all__ = ["location_problem", "secret_property"]

# Words in the names of a catalogue's properties whose values are nobody's business.
_WORDS: Final = (
    "secret",
    "password",
    "token",
    "credential",
    "sas",
    "account-key",
    "connection-string",
    "authorization",
)
_WITH_ACCOUNT: Final = ("abfs", "abfss", "wasb", "wasbs")  # container@account is a place, and says no secret


def secret_property(properties: Mapping[str, str]) -> str:
    """The name of a property that is, or has, a secret; empty if there is none."""
    for name, value in properties.items():
        if any(word in name.lower() for word in _WORDS) or _has_password(value):
            return name
    return ""


def location_problem(location: str) -> str:
    """Why a place cannot be named like this, without its secrets; empty if it can."""
    scheme, mark, rest = location.partition("://")
    if not mark:
        return ""
    login = rest.partition("/")[0].rpartition("@")[0]
    if "?" in rest or "#" in rest or (login and (":" in login or scheme.lower() not in _WITH_ACCOUNT)):
        return (
            f"a location in {scheme}:// has no login, no ? and no #: keys and tokens of object stores belong into the "
            "environment"
        )
    return ""


def _has_password(value: str) -> bool:
    try:
        return "://" in value and bool(urlsplit(value).password)
    except ValueError:
        return False
