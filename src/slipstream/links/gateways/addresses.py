"""Addresses in front of reply subjects: to which cluster, and which server of it, an answer leads.

    _GR_.<cluster>.<server>.<reply>        six characters for each name, of its SHA-256, as nats-server makes them

Who asks across clusters right after it has subscribed to its inbox cannot count on the other cluster having heard of
that. So its server puts its own address in front of the reply; the answer comes to the cluster whatever is known there
of the inbox, and from the server where it enters to the one that is named.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["ADDRESS_MARK", "Address", "short_hash"]

ADDRESS_MARK: Final = b"_GR_."
_HASH_SIZE: Final = 6
_DIGITS: Final = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SERVER_AT: Final = len(ADDRESS_MARK) + _HASH_SIZE + 1
_SUBJECT_AT: Final = _SERVER_AT + _HASH_SIZE + 1


def short_hash(name: str) -> bytes:
    """Six characters that stand for a cluster's name, or for a server's id."""
    from hashlib import sha256  # every start imports this module, few need this

    return bytes(_DIGITS[byte % len(_DIGITS)] for byte in sha256(name.encode()).digest()[:_HASH_SIZE])


class Address(NamedTuple):
    """Where an answer leads."""

    cluster: bytes
    server: bytes
    subject: bytes

    @classmethod
    def read(cls, subject: bytes) -> Address | None:
        """Take the subject of an answer apart; None where it has no address, or nothing behind it."""
        if not subject.startswith(ADDRESS_MARK) or len(subject) <= _SUBJECT_AT:
            return None
        cluster = subject[len(ADDRESS_MARK) : len(ADDRESS_MARK) + _HASH_SIZE]
        return cls(cluster, subject[_SERVER_AT : _SERVER_AT + _HASH_SIZE], subject[_SUBJECT_AT:])

    @staticmethod
    def prefix(cluster: bytes, server: bytes) -> bytes:
        """What stands before the subject."""
        return b"%b%b.%b." % (ADDRESS_MARK, cluster, server)
