"""A collector, as OTLP over HTTP with JSON: no library is needed, and every collector takes it."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from slipstream.errors import SlipstreamError
from slipstream.otel.values import Json

__all__ = ["Collector", "CollectorRefused"]

_TIMEOUT_S: Final = 10.0
_ATTEMPTS: Final = 4
_PAUSE_S: Final = 0.5
# What passes, as OTLP has it; anything else stays wrong however often it is sent.
_PASSING: Final = frozenset((429, 502, 503, 504))
_SAID_MAX: Final = 300


class CollectorRefused(SlipstreamError):
    """It did not take what it was sent."""


class Collector:
    """Where metrics and spans go.

    Args:
        endpoint: as `http://127.0.0.1:4318`; the paths are added.
        headers: what every request carries, such as an API key.
        sleep: waits between attempts.
    """

    def __init__(
        self, endpoint: str, headers: Mapping[str, str], sleep: Callable[[float], object] = time.sleep
    ) -> None:
        if not endpoint.startswith(("http://", "https://")):
            raise CollectorRefused(f"the address of a collector begins with http:// or https://, not {endpoint!r}")
        self._endpoint = endpoint.rstrip("/")
        self._headers = {**headers, "Content-Type": "application/json"}
        self._sleep = sleep

    def send(self, path: str, body: Json) -> None:
        """Send one request, again if the collector is busy.

        Raises:
            CollectorRefused: it cannot be reached, or will not have it.
        """
        data = msgspec.json.encode(body)
        for attempt in range(1, _ATTEMPTS + 1):
            request = urllib.request.Request(f"{self._endpoint}/{path}", data, self._headers)
            try:
                with urllib.request.urlopen(request, timeout=_TIMEOUT_S):
                    return
            except urllib.error.HTTPError as error:
                with error:
                    said = error.read(_SAID_MAX).decode(errors="replace").strip()
                if error.code not in _PASSING or attempt == _ATTEMPTS:
                    raise CollectorRefused(f"the collector answers {error.code} {error.reason}: {said}") from error
            except (OSError, ValueError) as error:
                if attempt == _ATTEMPTS:
                    raise CollectorRefused(f"the collector cannot be reached: {error}") from error
            self._sleep(_PAUSE_S * 2 ** (attempt - 1))
