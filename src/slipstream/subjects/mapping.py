"""Weighted subject mappings of an account: what a published subject becomes before anybody is asked who wants it.

A mapping has a source pattern and destinations with weights in percent. What the weights leave over goes to the
original subject, unless the source itself is listed as a destination: then it is dropped, which is how an operator
tests with artificial loss. Destinations for a cluster replace the general ones on the servers of that cluster.

What it is not: applied to what the server publishes itself, nor applied twice; the router sees to both.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from slipstream.errors import ConfigError
from slipstream.kernels.subjects.subject import is_literal, is_subset, is_valid_subscription

if TYPE_CHECKING:
    from slipstream.config.account_options import MappingDestination, MappingOptions
    from slipstream.subjects.transform import RandomBelow, SubjectTransform

__all__ = ["AccountMappings", "Mapping"]

_WHOLE = 100  # percent


class Mapping:
    """One source pattern and what becomes of its subjects."""

    __slots__ = ("_choices", "_kept", "is_static", "source")

    def __init__(self, options: MappingOptions, cluster: str = "") -> None:
        """Compile a mapping for a server of `cluster`.

        Raises:
            ConfigError: the source, a destination or the weights cannot be used, with nats-server's text.
        """
        from slipstream.subjects.transform import SubjectTransform

        self.source = options.source.encode()
        if not is_valid_subscription(self.source):
            raise ConfigError("invalid subject")
        _check_weights(options.destinations)
        compiled = [
            (destination, SubjectTransform(self.source, destination.destination.encode()))
            for destination in options.destinations
        ]
        scoped = [choice for choice in compiled if choice[0].cluster == cluster and cluster]
        effective = scoped or [choice for choice in compiled if not choice[0].cluster]

        # Upper bounds of a roll from 0 to 99, with what is then done.
        self._choices: list[tuple[int, SubjectTransform]] = []
        bound = 0
        for destination, transform in effective:
            bound += destination.weight
            if destination.weight:
                self._choices.append((bound, transform))
        # Rolls at or above the last bound: the original subject, or nothing if the source was listed.
        self._kept = all(destination.destination != options.source for destination in options.destinations)
        # Whether a subject always becomes the same one, so that the router may remember it.
        self.is_static = bound == _WHOLE and len(self._choices) == 1 and not self._choices[0][1].is_random

    def choose(self, subject: bytes, below: RandomBelow) -> bytes | None:
        """What one message on `subject` becomes: another subject, the same one, or None: it is dropped."""
        roll = 0 if self.is_static else below(_WHOLE)
        for bound, transform in self._choices:
            if roll < bound:
                return transform.apply(subject, below)
        return subject if self._kept else None

    def destination(self, subject: bytes) -> bytes:
        """What `subject` always becomes; only for a static mapping."""
        assert self.is_static
        return self._choices[0][1].apply(subject, _never_rolled)


class AccountMappings:
    """The mappings of one account. A literal source comes before patterns; among patterns the first one counts."""

    __slots__ = ("_literals", "_patterns")

    def __init__(self, mappings: Iterable[MappingOptions], cluster: str = "") -> None:
        """Compile the mappings for a server of `cluster`; a later one for the same source replaces an earlier one.

        Raises:
            ConfigError: a mapping cannot be used.
        """
        by_source = {mapping.source: mapping for mapping in (Mapping(options, cluster) for options in mappings)}
        self._literals = {source: mapping for source, mapping in by_source.items() if is_literal(source)}
        self._patterns = [mapping for source, mapping in by_source.items() if not is_literal(source)]

    def __bool__(self) -> bool:
        return bool(self._literals or self._patterns)

    def sources(self) -> list[bytes]:
        """What is mapped."""
        return [*self._literals, *(mapping.source for mapping in self._patterns)]

    def find(self, subject: bytes) -> Mapping | None:
        """The mapping that applies to a published subject."""
        literal = self._literals.get(subject)
        if literal is not None:
            return literal
        return next((mapping for mapping in self._patterns if is_subset(subject, mapping.source)), None)


def _check_weights(destinations: Iterable[MappingDestination]) -> None:
    seen: set[str] = set()
    weights: dict[str, int] = {}
    for destination in destinations:
        if destination.destination in seen:
            raise ConfigError(f'duplicate entry for "{destination.destination}"')
        seen.add(destination.destination)
        if not 0 <= destination.weight <= _WHOLE:
            raise ConfigError("individual weights need to be <= 100")
        weights[destination.cluster] = weights.get(destination.cluster, 0) + destination.weight
        if weights[destination.cluster] > _WHOLE:
            raise ConfigError("total weight needs to be <= 100")


def _never_rolled(_limit: int) -> int:
    raise AssertionError("a static mapping rolls no dice")
