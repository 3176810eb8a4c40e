"""Which handler answers a call: the table behind the dispatcher."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from slipstream.jetstream.api.load import INFO_PATTERNS
from slipstream.jetstream.api.request import ApiRequest, ApiRoute, Fields, Handler
from slipstream.jetstream.api.subjects import API_PREFIX, TYPE_PREFIX

__all__ = ["ApiRoutes"]

_PATTERN_TOKENS_MAX: Final = 4  # literal tokens in front of the variable ones


class ApiRoutes:
    """Routes by literal prefix; under a prefix, by how many variable tokens follow."""

    def __init__(self) -> None:
        self._exact: dict[tuple[str, int], ApiRoute] = {}
        self._open_ended: dict[str, tuple[int, ApiRoute]] = {}  # prefix → least tokens, route

    def add(
        self,
        pattern: str,
        response_type: str,
        handler: Handler,
        *,
        error_fields: Fields | None = None,
        checks_level: bool = True,
        prepare: Callable[[ApiRequest], object] | None = None,
    ) -> None:
        """Answer calls on a subject.

        Args:
            pattern: behind `$JS.API.`: literal tokens, then `*`s, then perhaps `>`.
            response_type: behind `io.nats.jetstream.api.v1.`.
            handler: see `Handler`.
            error_fields: members an error answer has beside `error`.
            checks_level: whether `Nats-Required-Api-Level` is looked at first.
            prepare: what can be done for a call with a long body in a thread, before its turn: it changes nothing.
        """
        tokens = pattern.split(".")
        literal = [token for token in tokens if token not in ("*", ">")]
        assert tokens[: len(literal)] == literal and len(literal) <= _PATTERN_TOKENS_MAX, pattern
        route = ApiRoute(
            TYPE_PREFIX + response_type,
            handler,
            error_fields or {},
            checks_level,
            prepare,
            looks=pattern in INFO_PATTERNS,
        )
        prefix, variable = ".".join(literal), len(tokens) - len(literal)
        if tokens[-1] == ">":
            assert prefix not in self._open_ended, pattern
            self._open_ended[prefix] = (variable, route)
        else:
            assert (prefix, variable) not in self._exact, pattern
            self._exact[prefix, variable] = route

    def find(self, subject: str) -> tuple[ApiRoute, list[str]] | None:
        """The route of a call, with the variable tokens of its subject; None: nobody answers it."""
        if not subject.startswith(API_PREFIX):
            return None
        tokens = subject[len(API_PREFIX) :].split(".")
        if not all(tokens):
            return None
        for count in range(min(len(tokens), _PATTERN_TOKENS_MAX), 0, -1):
            prefix, names = ".".join(tokens[:count]), tokens[count:]
            route = self._exact.get((prefix, len(names)))
            if route is not None:
                return route, names
            least, open_route = self._open_ended.get(prefix, (0, None))
            if open_route is not None and len(names) >= least:
                return open_route, names
        return None
