"""Which web pages may use the API.

A browser sends requests for any page that asks it to, also to servers that only this machine can reach. So a request
that comes from a page is refused unless its origin was allowed; a program sends neither `Origin` nor `Sec-Fetch-Site`.
"""

from __future__ import annotations

from slipstream.protocol.ws_origin import OriginPolicy, OriginRefused
from slipstream.rest.call import ApiCall
from slipstream.rest.handlers import METHODS
from slipstream.rest.steps import Answer, HttpProblem

__all__ = ["allowed_origin", "preflight"]

_TYPED_BY_SOMEBODY = "none"


def allowed_origin(call: ApiCall, policy: OriginPolicy) -> str:
    """The origin of the page that asks; empty when it is no page.

    Raises:
        HttpProblem: the page may not.
    """
    origin, site = call.header("origin"), call.header("sec-fetch-site")
    if not origin and site in ("", _TYPED_BY_SOMEBODY):
        return ""
    try:
        if not origin or not policy.allowed:
            raise OriginRefused("no page was allowed to")
        policy.check(origin, "", tls=False)
    except OriginRefused as error:
        raise HttpProblem(403, f"this page may not use the API ({error}); see `allowed_origins`") from error
    return origin


def preflight(call: ApiCall) -> Answer:
    """The answer to a browser that asks what a page may send."""
    asked = call.header("access-control-request-headers")
    allowed = (("Access-Control-Allow-Headers", asked),) if asked.isprintable() and asked else ()
    return Answer(204, headers=(("Allow", METHODS), ("Access-Control-Allow-Methods", METHODS), *allowed))
