"""`oidc`: which OpenID issuers are believed, and what their tokens make of a client.

Claims are named in templates: `{{claim(path)}}` stands for one token of a subject, `{{subjects(path)}}` for whole
subjects. A path is the name of a claim, or names with dots between them where claims are maps.
"""

from __future__ import annotations

import re
from typing import Final

from slipstream.config.account_options import PermissionsOptions
from slipstream.config.listener_options import TLSOptions
from slipstream.config.record import Record
from slipstream.units import MINUTE_NS, SECOND_NS

__all__ = [
    "CLAIM",
    "OIDC_ALGORITHMS",
    "OIDC_ISSUERS_MAX",
    "SUBJECTS",
    "OidcOptions",
    "OidcRuleOptions",
    "template_problem",
]

# Signatures that somebody who knows the public key cannot make: no `none`, no HMAC.
OIDC_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
# Issuers of one server: each may hold a thread while its keys are fetched.
OIDC_ISSUERS_MAX: Final = 8

CLAIM: Final = re.compile(r"\{\{claim\(([^(){}\s]+)\)\}\}")
SUBJECTS: Final = re.compile(r"\{\{subjects\(([^(){}\s]+)\)\}\}")


def template_problem(template: str) -> str:
    """What is wrong with a text that may name claims; empty if nothing is."""
    rest = "" if SUBJECTS.fullmatch(template) else CLAIM.sub("", template)
    if "{{" in rest or "}}" in rest:
        return "only {{claim(name)}} may stand in a text, and {{subjects(name)}} for the whole of it"
    return ""


class OidcRuleOptions(Record):
    """One entry of `rules`."""

    match: tuple[tuple[str, tuple[str, ...]], ...] = ()  # path of a claim, and the values of which one is enough
    account: str = ""  # empty: that of the issuer
    permissions: PermissionsOptions | None = None  # None: those of the issuer


class OidcOptions(Record):
    """One issuer."""

    issuer: str = ""
    audience: tuple[str, ...] = ()
    jwks: str = ""  # where the keys are; empty: the issuer is asked
    algorithms: tuple[str, ...] = OIDC_ALGORITHMS
    user: str = "{{claim(sub)}}"
    account: str = "$G"
    allowed_accounts: tuple[str, ...] = ()  # empty: all but the system account
    permissions: PermissionsOptions | None = None
    rules: tuple[OidcRuleOptions, ...] = ()
    allowed_connection_types: tuple[str, ...] = ()  # empty: all
    leeway_ns: int = 10 * SECOND_NS
    refresh_ns: int = 10 * MINUTE_NS
    tls: TLSOptions | None = None
