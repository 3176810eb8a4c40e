"""The keys of `oidc` in the `authorization` block: OpenID issuers whose tokens let clients in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slipstream.config.checker import Checker, Key, KeyTable, go_type, quote, read_map, refusal
from slipstream.config.keys.tls import client_tls
from slipstream.config.keys.user import connection_types, permissions
from slipstream.config.oidc_options import (
    CLAIM,
    OIDC_ALGORITHMS,
    OIDC_ISSUERS_MAX,
    SUBJECTS,
    OidcOptions,
    OidcRuleOptions,
    template_problem,
)
from slipstream.config.readers import checked_url, duration, text, text_list
from slipstream.config.subject_rules import is_valid_subject
from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    from slipstream.config.account_options import PermissionsOptions
    from slipstream.config.parser import Value

__all__ = ["OIDC", "OIDC_RULE", "oidc"]

_LEEWAY_MAX_NS: Final = 300 * SECOND_NS  # more is no clock that is off, but a token that is over
_REFRESH_MIN_NS: Final = SECOND_NS


def _url(checker: Checker, value: Value, key: str) -> str:
    url = checked_url(value, text(checker, value, key), f"oidc {key.lower()}")
    scheme, separator, rest = url.partition("://")
    if scheme.lower() not in ("https", "http") or not separator or not rest.partition("/")[0] or "#" in rest:
        raise refusal(value, f"oidc {key.lower()} has to be a http or https address, got {quote(url)}")
    if "@" in rest.partition("/")[0]:
        raise refusal(value, f"oidc {key.lower()} must not hold a user or password")
    return url


def _algorithms(checker: Checker, value: Value, key: str) -> tuple[str, ...]:
    names = text_list("oidc algorithms")(checker, value, key)
    assert isinstance(names, tuple)
    for name in names:
        if name not in OIDC_ALGORITHMS:
            known = ", ".join(OIDC_ALGORITHMS)
            raise refusal(value, f"oidc algorithm {quote(name)} is not one of {known}")
    if not names:
        raise refusal(value, "oidc algorithms must name at least one")
    return names


def _name(checker: Checker, value: Value, key: str) -> str:
    """The name of a user or an account, which may name claims."""
    name = text(checker, value, key)
    problem = template_problem(name) or ("" if name else "it is empty")
    if not problem and SUBJECTS.search(name):
        problem = "a name is no list of subjects"
    if problem:
        raise refusal(value, f"oidc {key.lower()} {quote(name)} is not valid: {problem}")
    return name


def _permissions(checker: Checker, value: Value, key: str) -> PermissionsOptions:
    found = permissions(checker, value, key)
    for side in (found.publish, found.subscribe):
        for entry in (*(side.allow or ()), *side.deny) if side is not None else ():
            problem = template_problem(entry)
            filled = "x" if SUBJECTS.fullmatch(entry) else CLAIM.sub("x", entry)
            words = filled.split()
            if not problem and not all(map(is_valid_subject, words)):
                problem = "no claim makes it a subject"
            if problem:
                raise refusal(value, f"oidc permission {quote(entry)} is not valid: {problem}")
    return found


def _duration(name: str, least_ns: int, most_ns: int | None = None) -> object:
    plain = duration(name, seconds_warn=False)

    def read(checker: Checker, value: Value, key: str) -> int:
        length_ns = plain(checker, value, key)
        assert isinstance(length_ns, int)
        if length_ns < least_ns or (most_ns is not None and length_ns > most_ns):
            allowed = f"at least {least_ns // SECOND_NS}s" + (f", at most {most_ns // SECOND_NS}s" if most_ns else "")
            raise refusal(value, f"oidc {name} has to be {allowed}")
        return length_ns

    return read


def _match(checker: Checker, value: Value, key: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value.data, dict):
        raise refusal(value, f"Expected match of an oidc rule to be a map, got {go_type(value)}")
    one_or_more = text_list("match of an oidc rule")
    return tuple((path, one_or_more(checker, entry, key)) for path, entry in value.data.items())  # type: ignore[misc]


_ACCOUNT: Final = ("string, may name claims", _name)
_RIGHTS: Final = ("map, may name claims", _permissions)

OIDC_RULE: Final = KeyTable(
    Key(
        "match",
        ("map of claims to a value or values", _match),
        "Claims that the rule asks for, each with values of which one is enough; missing means everybody.",
        reloadable=True,
    ),
    Key("account", _ACCOUNT, "Account of clients that match; missing means that of the issuer.", reloadable=True),
    Key(
        "permissions permission",
        _RIGHTS,
        "Permissions of clients that match; missing means those of the issuer.",
        reloadable=True,
    ),
    unknown="Unknown field {} parsing oidc rule",
)


def _rules(checker: Checker, value: Value, _key: str) -> tuple[OidcRuleOptions, ...]:
    if not isinstance(value.data, list):
        raise refusal(value, f"Expected oidc rules to be an array, got {go_type(value)}")
    return tuple(
        OidcRuleOptions(**read_map(checker, entry, OIDC_RULE))  # type: ignore[arg-type]  # the table names its fields
        for entry in value.data
    )


OIDC: Final = KeyTable(
    Key("issuer", ("URL", _url), "Who signs the tokens: exactly what they name as `iss`.", reloadable=True),
    Key(
        "audience aud",
        ("string or list of strings", text_list("oidc audience")),
        "Whom the tokens are for: one of these has to be in `aud`.",
        reloadable=True,
    ),
    Key(
        "jwks jwks_uri",
        ("URL", _url),
        "Where the keys of the issuer are; missing means what the issuer says at `.well-known/openid-configuration`.",
        reloadable=True,
    ),
    Key(
        "algorithms",
        ("list of strings", _algorithms),
        f"Signatures that count; by default {', '.join(OIDC_ALGORITHMS)}.",
        reloadable=True,
    ),
    Key("user", _ACCOUNT, "Name of the user.", reloadable=True),
    Key("account", _ACCOUNT, "Account of the user.", reloadable=True),
    Key(
        "allowed_accounts",
        ("list of strings", text_list("oidc allowed_accounts")),
        "Accounts that claims may name; missing means all but the system account.",
        reloadable=True,
    ),
    Key(
        "permissions permission",
        _RIGHTS,
        "What the user may do; missing means the default permissions of its account, or everything.",
        reloadable=True,
    ),
    Key(
        "rules",
        ("list of rules", _rules),
        "Account and permissions by claims: the first rule that matches counts, and who matches none is refused.",
        reloadable=True,
    ),
    Key(
        "allowed_connection_types connection_types",
        ("list of types", connection_types),
        "How clients with such tokens may connect; missing means every way.",
        reloadable=True,
    ),
    Key(
        "leeway",
        ("duration", _duration("leeway", 0, _LEEWAY_MAX_NS)),  # type: ignore[arg-type]
        "How far the clocks of issuer and server may differ.",
        field="leeway_ns",
        reloadable=True,
    ),
    Key(
        "refresh",
        ("duration", _duration("refresh", _REFRESH_MIN_NS)),  # type: ignore[arg-type]
        "How often the keys are fetched again.",
        field="refresh_ns",
        reloadable=True,
    ),
    Key("tls", ("map", client_tls), "TLS to the issuer: `ca_file`, `cert_file`, `key_file`.", reloadable=True),
    unknown="Unknown field {} parsing oidc",
)


def oidc(checker: Checker, value: Value, _key: str) -> tuple[OidcOptions, ...]:
    """One issuer, or an array of them."""
    entries = value.data if isinstance(value.data, list) else [value]
    if len(entries) > OIDC_ISSUERS_MAX:
        raise refusal(value, f"oidc takes at most {OIDC_ISSUERS_MAX} issuers")
    found: list[OidcOptions] = []
    for entry in entries:
        if not isinstance(entry.data, dict):
            raise refusal(entry, f"Expected oidc to be a map/struct, got {entry.plain()}")
        before = len(checker.errors)
        options = OidcOptions(**read_map(checker, entry, OIDC))  # type: ignore[arg-type]  # the table names its fields
        if len(checker.errors) > before:
            continue
        if not options.issuer:
            raise refusal(entry, "oidc requires an issuer")
        if not all(options.audience or [""]):
            # Without it a token that was made for any other service would do.
            raise refusal(entry, "oidc requires an audience")
        if any(options.issuer == other.issuer for other in found):
            raise refusal(entry, f"oidc names the issuer {quote(options.issuer)} twice")
        found.append(options)
    return tuple(found)
