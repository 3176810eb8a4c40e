"""What the server may do with the replies of a client: remembered for many at once, and asked for each, is the same."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from slipstream.auth.permissions import Permissions
from slipstream.config.account_options import PermissionsOptions, SubjectPermissionOptions
from slipstream.kernels.wire.delivery import Delivery
from slipstream.kernels.wire.receivers import Route, Subscription
from slipstream.protocol.connection import ClientConnection
from slipstream.protocol.rights import Rights

token = st.sampled_from(["a", "b", "_R_", "c", "*"])
pattern = st.builds(
    lambda head, last: ".".join([*head, last]), st.lists(token, max_size=3), st.sampled_from(["a", "b", "*", ">"])
)
# Not those with empty tokens inside: no pattern matches them, so they reach nobody whatever is said about them.
reply = st.one_of(
    st.lists(st.sampled_from(["a", "b", "c", "_R_"]), min_size=1, max_size=4).map(
        lambda words: ".".join(words).encode()
    ),
    st.sampled_from([b"a.>", b"*.b", b"a.*.b", b">", b".a.b"]),
)
lists = st.lists(pattern, max_size=3)


class Client:
    """As much of a connection as decides about replies."""

    answerable = ClientConnection.answerable
    grants = ClientConnection.grants

    def __init__(self, permissions: Permissions, mapping: dict[bytes, bytes]) -> None:
        self.account = SimpleNamespace(maps_subjects=False)
        self.rights = Rights(permissions, lambda: 0)
        self._host = SimpleNamespace(mapped=lambda _who, subject: mapping.get(subject, subject))


def permissions_of(allow: list[str] | None, deny: list[str]) -> Permissions:
    options = SubjectPermissionOptions(allow=None if allow is None else tuple(allow), deny=tuple(deny))
    compiled = Permissions.compile(PermissionsOptions(publish=options))
    assert compiled is not None
    return compiled


@given(allow=st.none() | lists, deny=lists, steps=st.lists(reply | st.booleans(), max_size=12), crossed=st.booleans())
def test_what_is_remembered_is_what_would_be_said(
    allow: list[str] | None, deny: list[str], steps: list[Any], crossed: bool
) -> None:
    permissions, mapping = permissions_of(allow, deny), {b"a.b": b"c.c"}
    client = Client(permissions, mapping)
    seen: list[bytes] = []
    inside = Subscription(b"s", None, b"", None, None, lambda _who, _subject, reply, *_rest: seen.append(reply))
    route, delivery = Route((inside,), (), (b"x",) if crossed else None), Delivery(1)
    expected = []
    for step in steps:
        if isinstance(step, bool):
            client.account.maps_subjects = step
            continue
        delivery.deliver(route, client, b"s", step, 0, b"")
        fresh = Client(permissions, mapping)
        fresh.account.maps_subjects = client.account.maps_subjects
        expected.append(fresh.answerable(step, crossed))
    assert seen == expected


@given(allow=st.none() | lists, deny=lists, tokens=st.sampled_from([b"a", b"b", b"a.b", b"b.c"]), rest=reply)
def test_below_tokens_all_are_allowed_or_none(
    allow: list[str] | None, deny: list[str], tokens: bytes, rest: bytes
) -> None:
    permissions = permissions_of(allow, deny)
    below = permissions.may_publish_below(tokens)
    if below is not None and not rest.startswith(b"."):
        assert permissions.may_publish_all(tokens + b"." + rest) == below


def test_inboxes_are_asked_about_once() -> None:
    client = Client(permissions_of(["s.>"], []), {})
    asked: list[bytes] = []

    def grants(subject: bytes) -> bool:
        asked.append(subject)
        return ClientConnection.grants(client, subject)  # type: ignore[arg-type]

    client.grants = grants  # type: ignore[method-assign,assignment]
    seen: list[bytes] = []
    inside = Subscription(b"s", None, b"", None, None, lambda _who, _subject, reply, *_rest: seen.append(reply))
    for number in range(50):
        Delivery(1).deliver(Route((inside,)), client, b"s", b"_INBOX.x.%d" % number, 0, b"")
    assert seen == [b"._INBOX.x.%d" % number for number in range(50)]
    assert asked == [b"_INBOX.x.0"]
