"""Claims whose fields are missing, null, of another type, huge or cut short: both servers take the same tokens.

Short form: some of the fields with some of the values. Long form (`-m long`): all of them.
"""

from __future__ import annotations

import pytest

from support.jwt import account_claims, token, user_claims
from support.normalise import Json
from support.odd_claims import (
    ODD_SERVER,
    VALUES,
    World,
    app,
    body,
    changed,
    fields,
    other,
    scope,
    signed,
    signer,
    user,
)
from support.servers import Both
from support.shared_trees import OPERATOR_KEY

ACTIVATION = token(other, app, {"type": "activation", "subject": "priv.>", "kind": "stream"})
RIGHTS: dict[str, Json] = {
    "pub": {"allow": [">"], "deny": ["no"]},
    "sub": {"allow": [">"], "deny": ["no"]},
    "resp": {"max": 1, "ttl": 5},
}
TIER: dict[str, Json] = {"mem_storage": 1, "disk_storage": 1, "streams": 1, "consumer": 1}
LIMITS: dict[str, Json] = account_claims()["limits"]  # type: ignore[assignment]  # it is a dict
STORAGE: dict[str, Json] = {
    "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1, "max_ack_pending": 5,
    "mem_max_stream_bytes": 5, "disk_max_stream_bytes": 5, "max_bytes_required": False, "disallow_bearer": False,
    "tiered_limits": {"R1": TIER},
}  # fmt: skip
ACCOUNT_PART = account_claims(
    imports=[
        {"name": "i", "subject": "news.>", "account": other.public, "type": "stream", "local_subject": "n.>"},
        {"name": "j", "subject": "priv.>", "account": other.public, "type": "stream", "token": ACTIVATION},
        {"name": "s", "subject": "svc.*", "account": other.public, "type": "service", "share": True},
    ],
    exports=[
        {
            "name": "e", "subject": "e.*", "type": "stream", "token_req": True, "account_token_position": 2,
            "description": "d", "info_url": "http://a/b", "revocations": {"*": 5},
        },
        {
            "name": "f", "subject": "f", "type": "service", "response_type": "Singleton", "allow_trace": True,
            "response_threshold": 1_000_000, "service_latency": {"sampling": 50, "results": "lat"},
        },
    ],
    signing_keys=[
        signer.public,
        {"kind": "user_scope", "key": scope.public, "role": "r", "template": user_claims(pub={"allow": ["a"]})},
    ],
    limits=LIMITS | STORAGE,
    revocations={user.public: 5, "*": 4},
    default_permissions=RIGHTS,
    mappings={"m": [{"subject": "mm", "weight": 50, "cluster": "c"}, {"subject": "mn"}]},
    authorization={"auth_users": [], "allowed_accounts": [], "xkey": ""},
    trace={"dest": "tr", "sampling": 10},
    cluster_traffic="owner",
    description="d",
    info_url="http://x/y",
    tags=["a:b"],
)  # fmt: skip
USER_PART = user_claims(
    **RIGHTS,
    src=["127.0.0.0/8"],
    times=[{"start": "00:00:00", "end": "23:59:59"}],
    times_location="UTC",
    bearer_token=True,
    proxy_required=False,
    allowed_connection_types=["STANDARD"],
    tags=["a:b"],
    issuer_account="",
)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("step", [37, pytest.param(1, marks=pytest.mark.long)])
def test_the_same_tokens_are_taken(both: Both, step: int) -> None:
    """CVE-2020-26521, 2026-23: fields that are not there, and keys cut short."""
    with World(both.fresh(ODD_SERVER)) as world:
        good_account = body(ACCOUNT_PART, OPERATOR_KEY, app, "account")
        good_user = body(USER_PART, app, user, "user")
        assert world.push(signed(good_account, OPERATOR_KEY)) == [True, True]
        assert all(lines[-1] == b"PONG" for lines in world.login(signed(good_user, app)))
        for path, value in [(path, value) for path in fields(good_account) for value in VALUES][::step]:
            world.same_push(signed(changed(good_account, path, value), OPERATOR_KEY), path, value)
            # Whatever became of the account, its user sees the same.
            world.same_login(signed(good_user, app), path, value)
        world.push(signed(good_account | {"jti": "y"}, OPERATOR_KEY))
        for path, value in [(path, value) for path in fields(good_user) for value in VALUES][::step]:
            if path == ("exp",) and value in (-1, -2):
                continue  # both let him in and end him by a timer at once: what he hears before is chance
            world.same_login(signed(changed(good_user, path, value), app), path, value)
        world.check()
        assert step > 1 or world.compared == 2 * 3875 + 1238
