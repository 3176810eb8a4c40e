"""Who comes in as a leaf node: the users of the block, or those of everybody."""

from __future__ import annotations

import pytest

from slipstream.auth.authenticator import Authenticator
from slipstream.auth.identity import Denied, Granted, PeerFacts
from slipstream.auth.leaf_logins import LeafLogins
from slipstream.links.leafs.handshake import LeafConnect
from support.config_loading import loaded

PEER = PeerFacts(kind="LEAFNODE")


def logins(config: str) -> LeafLogins:
    options = loaded(config).options
    return LeafLogins(options, Authenticator(options))


@pytest.mark.parametrize(
    ("config", "connect", "account"),
    [
        ("", LeafConnect(), "$G"),
        ("leafnodes { authorization { account: A } }, accounts { A {} }", LeafConnect(), "A"),
        ("leafnodes { authorization { user: u, password: p } }", LeafConnect(user="u", password="p"), "$G"),
        ("leafnodes { authorization { user: u, password: p } }", LeafConnect(user="u", password="x"), None),
        ("leafnodes { authorization { user: u, password: p } }", LeafConnect(), None),
        ("accounts { A { users [ {user: u, password: p} ] } }", LeafConnect(user="u", password="p"), "A"),
        ("accounts { A { users [ {user: u, password: p} ] } }", LeafConnect(user="u"), None),
        ("authorization { token: t }", LeafConnect(auth_token="t"), "$G"),
        ("authorization { token: t }", LeafConnect(), None),
        ("authorization { user: u, password: p }", LeafConnect(user="u", password="p", account="A"), None),
        (
            "accounts { A { users [ {user: u, password: p, allowed_connection_types: [STANDARD]} ] } }",
            LeafConnect(user="u", password="p"),
            None,
        ),
        (
            "accounts { A { users [ {user: u, password: p, allowed_connection_types: [LEAFNODE]} ] } }",
            LeafConnect(user="u", password="p"),
            "A",
        ),
        # A block with users of its own asks for these alone.
        (
            "accounts { A { users [ {user: u, password: p} ] } }, leafnodes { authorization { user: l, password: p } }",
            LeafConnect(user="u", password="p"),
            None,
        ),
        (
            "leafnodes { authorization { user: u, password: p, proxy_required: true } }",
            LeafConnect(user="u", password="p"),
            None,
        ),
        (
            "leafnodes { authorization { users [ {user: u, password: p, proxy_required: true} ] } }",
            LeafConnect(user="u", password="p"),
            None,
        ),
    ],
)
def test_who_comes_in(config: str, connect: LeafConnect, account: str | None) -> None:
    verdict = logins(config).authenticate(connect, PEER)
    if account is None:
        assert isinstance(verdict, Denied)
    else:
        assert isinstance(verdict, Granted) and verdict.identity.account == account


def test_who_stays_after_a_reload() -> None:
    before = "leafnodes { authorization { users [ {user: u, password: p}, {user: v, password: p} ] } }"
    came = {name: logins(before).authenticate(LeafConnect(user=name, password="p"), PEER) for name in ("u", "v")}
    after = logins("leafnodes { authorization { users [ {user: u, password: p}, {user: v, password: new} ] } }")
    verdicts = {name: isinstance(v, Granted) and after.still_holds(v.identity) for name, v in came.items()}
    assert verdicts == {"u": True, "v": False}
    opened = logins("").authenticate(LeafConnect(), PEER)
    assert isinstance(opened, Granted)
    assert logins("").still_holds(opened.identity) and not after.still_holds(opened.identity)
