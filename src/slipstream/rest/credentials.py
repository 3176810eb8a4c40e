"""Who an HTTP request comes from, in the words of a CONNECT."""

from __future__ import annotations

import base64
import binascii

from slipstream.rest.steps import HttpProblem

__all__ = ["credentials"]


def credentials(authorization: str, *, operator_mode: bool) -> dict[str, str]:
    """The fields of CONNECT that an `Authorization` header stands for; none without one.

    Args:
        authorization: the header's value.
        operator_mode: whether users have tokens of operators; a bearer token is such a one then.

    Raises:
        HttpProblem: it is of a kind that is not known, or not well formed.
    """
    if not authorization:
        return {}
    scheme, _, value = authorization.partition(" ")
    value = value.strip()
    if scheme.lower() == "bearer" and value:
        return {"jwt" if operator_mode else "auth_token": value}
    if scheme.lower() == "basic":
        try:
            user, colon, password = base64.b64decode(value, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            colon = ""
        if colon:
            return {"user": user, "pass": password}
    raise HttpProblem(401, "the Authorization header has to be `Basic` or `Bearer`, well formed")
