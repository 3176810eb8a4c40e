"""Whom a server trusts: the keys with which accounts may be signed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from slipstream.auth.jwt.token import InvalidToken, decode_operator, decode_user
from slipstream.auth.nkeys import KeyKind, is_public_key
from slipstream.config.checker import quote
from slipstream.config.record import Record
from slipstream.version import SERVER_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slipstream.auth.jwt.claims import OperatorClaims
    from slipstream.config.options import Options

__all__ = ["Trust", "trust_of", "trust_problems"]


class Trust(Record):
    """Operators and their keys."""

    operators: tuple[OperatorClaims, ...]
    keys: frozenset[str]  # who may sign an account
    strict: frozenset[str]  # of these, those whose accounts may not sign users with their own key


def trust_of(tokens: Sequence[str], keys: Sequence[str]) -> Trust:
    """Trust these operators, or else these keys.

    Raises:
        InvalidToken: one is not the token of an operator.
    """
    operators = tuple(decode_operator(text) for text in tokens)
    trusted: set[str] = set(keys)
    strict: set[str] = set()
    for operator in operators:
        signers = operator.nats.signing_keys or ()
        if operator.nats.strict_signing_key_usage:
            strict.update(signers)
        else:
            trusted.add(operator.sub)
        trusted.update(signers)
    return Trust(operators, frozenset(trusted), frozenset(strict))


def trust_problems(options: Options, trust: Trust) -> Iterator[str]:
    """What a configuration says that does not go with trusted operators."""
    if not trust.operators:
        return
    yield from _sentinel(options)
    if options.resolver is None:
        yield "operators require an account resolver to be configured"
    if options.accounts:
        yield "operators do not allow Accounts to be configured directly"
    if any(True for _ in options.users()):
        yield "operators do not allow users to be configured directly"
    if options.trusted_keys:
        yield "conflicting options for 'TrustedKeys' and 'TrustedOperators'"
    named = {operator.nats.system_account for operator in trust.operators} - {""}
    if options.system_account and named and options.system_account not in named:
        yield "system_account in config and operator JWT must be identical"
    is_directory = options.resolver is not None and options.resolver.type in ("full", "cache")
    if is_directory and not options.system_account and not trust.operators[0].nats.system_account:
        yield (
            "using nats based account resolver - the system account needs to be specified in configuration "
            "or the operator jwt"
        )
    for operator in trust.operators:
        yield from _version(operator)
    for key in sorted(trust.keys):
        if not is_public_key(key, KeyKind.OPERATOR):
            yield f"trusted Keys {quote(key)} are required to be a valid public operator nkey"
    for key in options.resolver_pinned_accounts:
        if not is_public_key(key, KeyKind.ACCOUNT):
            yield f"pinned account key {quote(key)} is not a valid public account nkey"
    if options.authorization.auth_callout is not None:
        yield "operators do not allow authorization callouts to be configured directly"


def _sentinel(options: Options) -> Iterator[str]:
    if not options.default_sentinel:
        return
    try:
        user = decode_user(options.default_sentinel)
    except InvalidToken:
        yield "default sentinel JWT not valid"
        return
    scoped = bool(user.nats.issuer_account) and user.nats.names_nothing()
    if not user.nats.bearer_token and not scoped:
        yield "default sentinel must be a bearer token"


def _version(operator: OperatorClaims) -> Iterator[str]:
    wanted = operator.nats.assert_server_version
    if not wanted:
        return
    about = f"operator {operator.sub}"
    numbers = wanted.split(".")
    if len(numbers) != 3:
        reason = "asserted server version must be of the form <major>.<minor>.<update>"
        yield f"{about} expects version {wanted} got error instead: {reason}"
        return
    if not all(number.isascii() and number.isdigit() and len(number) < 10 for number in numbers):
        wrong = next(number for number in numbers if not (number.isascii() and number.isdigit() and len(number) < 10))
        yield f"{about} expects version {wanted} got error instead: asserted server version cant parse {wrong} to int"
        return
    have = [int(number) for number in SERVER_VERSION.split("-")[0].split(".")]
    for name, expected, present in zip(("major", "minor", "update"), map(int, numbers), have, strict=True):
        if expected > present:
            yield f"{about} expected {name} version {expected} > server {name} version {present}"
        if expected != present:
            return
