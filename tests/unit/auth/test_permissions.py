"""Permissions as nats-server 2.15.1 was seen to apply them."""

import pytest

from slipstream.auth.limits import PERMISSION_CACHE_MAX, RESPONSE_PERMITS_MAX
from slipstream.auth.permissions import Permissions, ResponsePermits
from slipstream.config.account_options import (
    PermissionsOptions,
    ResponsePermissionOptions,
    SubjectPermissionOptions,
)
from slipstream.errors import ConfigError


def _compiled(options: PermissionsOptions) -> Permissions:
    permissions = Permissions.compile(options)
    assert permissions is not None
    return permissions


def _subscribe(*, allow: tuple[str, ...] | None = None, deny: tuple[str, ...] = ()) -> Permissions:
    return _compiled(PermissionsOptions(subscribe=SubjectPermissionOptions(allow=allow, deny=deny)))


def _publish(*, allow: tuple[str, ...] | None = None, deny: tuple[str, ...] = ()) -> Permissions:
    return _compiled(PermissionsOptions(publish=SubjectPermissionOptions(allow=allow, deny=deny)))


def test_no_permissions_restrict_nothing() -> None:
    assert Permissions.compile(None) is None
    assert Permissions.compile(PermissionsOptions()) is None


# (allow, deny, subject, queue, granted), recorded from nats-server 2.15.1.
RECORDED = [
    (("foo.*",), (), "foo.>", None, True),
    (("foo.*",), (), "foo.*", None, True),
    (("foo.*",), (), "*.a", None, False),
    (("foo.*",), (), ">", None, False),
    (("foo.*",), (), "foo.a", "q", True),
    (("foo.>",), ("foo.bar", "foo.qq q1"), "foo.bar", None, False),
    (("foo.>",), ("foo.bar", "foo.qq q1"), "foo.*", None, True),
    (("foo.>",), ("foo.bar", "foo.qq q1"), "foo.qq", "q1", False),
    (("foo.>",), ("foo.bar", "foo.qq q1"), "foo.qq", "q2", True),
    (("foo.>",), ("foo.bar", "foo.qq q1"), "foo.>", None, True),
    (("foo.* q1",), (), "foo.a", None, False),
    (("foo.* q1",), (), "foo.a", "q1", True),
    (("foo.* q1",), (), "foo.a", "q2", False),
    (("foo", "foo q1"), (), "foo", None, True),
    (("foo", "foo q1"), (), "foo", "q1", True),
    (("foo", "foo q1"), (), "foo", "q2", False),
    (("foo v*.x",), (), "foo", "v*.x", True),
    (("foo v*.x",), (), "foo", "v1.x", False),
    (("foo v1.*", "foo v2.>", "bar"), (), "foo", None, False),
    (("foo v1.*", "foo v2.>", "bar"), (), "foo", "v1.a", True),
    (("foo v1.*", "foo v2.>", "bar"), (), "foo", "v1.a.b", False),
    (("foo v1.*", "foo v2.>", "bar"), (), "foo", "v2.a.b", True),
    (("foo v1.*", "foo v2.>", "bar"), (), "foo", "v1", False),
    (("foo v1.*", "foo v2.>", "bar"), (), "bar", "v1", True),
    (None, ("foo.* q1",), "foo.a", None, True),
    (None, ("foo.* q1",), "foo.a", "q1", False),
    (None, ("foo.* q1",), "foo.>", "q1", False),
    (None, ("foo.* q1",), "foo.a", "q2", True),
    (None, ("foo.*",), "foo.>", None, False),
    (None, ("foo.*",), "*.a", None, True),
]


@pytest.mark.parametrize(("allow", "deny", "subject", "queue", "granted"), RECORDED)
def test_subscriptions_are_granted_as_by_nats_server(
    allow: tuple[str, ...] | None, deny: tuple[str, ...], subject: str, queue: str | None, granted: bool
) -> None:
    permissions = _subscribe(allow=allow, deny=deny)
    assert permissions.may_subscribe(subject.encode(), None if queue is None else queue.encode()) == granted


def test_denied_subjects_are_withheld_from_a_wider_subscription() -> None:
    """CVE-2022-29946: a queue subscription on a wildcard does not receive a denied subject."""
    permissions = _subscribe(allow=("foo.>",), deny=("foo.bar", "foo.qq q1"))
    for queue in (None, b"q1", b"q2"):
        assert permissions.may_subscribe(b"foo.*", queue) and permissions.needs_delivery_check(b"foo.*", queue)
        assert permissions.denies_delivery(b"foo.bar", queue)
        assert not permissions.denies_delivery(b"foo.ok", queue)
    assert permissions.denies_delivery(b"foo.qq", b"q1")
    assert not permissions.denies_delivery(b"foo.qq", b"q2")
    assert not permissions.denies_delivery(b"foo.qq", None)


def test_a_full_wildcard_accepted_under_a_narrower_allow_gets_only_what_is_allowed() -> None:
    """Advisory 2026-17: `foo.>` under allow `foo.*` must not see deeper subjects."""
    permissions = _subscribe(allow=("foo.*",))
    assert permissions.may_subscribe(b"foo.>") and permissions.needs_delivery_check(b"foo.>")
    assert permissions.denies_delivery(b"foo.a.b") and not permissions.denies_delivery(b"foo.a")


def test_checks_at_delivery_are_skipped_where_they_cannot_matter() -> None:
    assert not _publish(deny=("a",)).restricts_delivery
    permissions = _subscribe(allow=("foo.>", "bar"), deny=("foo.bar.>",))
    assert permissions.restricts_delivery
    assert not permissions.needs_delivery_check(b"bar")
    assert not permissions.needs_delivery_check(b"foo.x.*", b"q")
    assert permissions.needs_delivery_check(b"foo.*.x")


def test_publish_lists() -> None:
    permissions = _publish(allow=("foo.>", "bar"), deny=("foo.secret.*",))
    assert permissions.may_publish(b"foo.a") and permissions.may_publish(b"bar")
    assert not permissions.may_publish(b"foo.secret.a") and not permissions.may_publish(b"baz")
    assert permissions.may_subscribe(b">") and not permissions.restricts_delivery


def test_an_empty_allow_list_allows_nothing() -> None:
    assert not _publish(allow=()).may_publish(b"foo")
    assert not _subscribe(allow=()).may_subscribe(b"foo")


def test_no_internal_namespace_is_exempt() -> None:
    """CVE-2026-33217, advisory 2026-21: `$MQTT.` and the like are under the lists as any subject is."""
    for subject in (b"$MQTT.sub.x", b"$JS.API.INFO", b"$SYS.REQ.USER.INFO", b"_INBOX.x"):
        assert not _publish(allow=("foo",)).may_publish(subject)
        assert not _subscribe(allow=("foo",)).may_subscribe(subject)
        assert not _subscribe(deny=(">",)).may_subscribe(subject)


def test_right_to_respond_turns_other_publishing_off() -> None:
    responses = ResponsePermissionOptions()
    for publish in (None, SubjectPermissionOptions(deny=("x",))):
        permissions = _compiled(PermissionsOptions(publish=publish, allow_responses=responses))
        assert not permissions.may_publish(b"foo") and permissions.responses is responses
    allowed = SubjectPermissionOptions(allow=("foo",))
    assert _compiled(PermissionsOptions(publish=allowed, allow_responses=responses)).may_publish(b"foo")


@pytest.mark.parametrize("entry", ["", " ", "\t ", "a b c", "foo..bar", "foo. q", "foo q.", ".", "a.>.b", "foo q\0"])
def test_an_entry_that_cannot_be_understood_is_refused(entry: str) -> None:
    """S3: a whitespace-only permission once crashed nats-server; and a deny that is skipped would be a hole."""
    with pytest.raises(ConfigError, match="is not a valid"):
        _subscribe(deny=(entry,))
    with pytest.raises(ConfigError, match="is not a valid"):
        _subscribe(allow=(entry,))
    with pytest.raises(ConfigError, match="is not a valid"):
        _publish(deny=(entry,))


def test_publish_entries_have_no_queue() -> None:
    with pytest.raises(ConfigError, match='subject "foo q1" is not a valid subject'):
        _publish(deny=("foo q1",))


def test_memory_for_verdicts_is_bounded() -> None:
    permissions = _compiled(
        PermissionsOptions(
            publish=SubjectPermissionOptions(deny=("x",)), subscribe=SubjectPermissionOptions(deny=("x",))
        )
    )
    for number in range(PERMISSION_CACHE_MAX + 100):
        assert permissions.may_publish(b"s.%d" % number)
        assert not permissions.denies_delivery(b"s.%d" % number)
    assert len(permissions._publishes) == len(permissions._deliveries) == PERMISSION_CACHE_MAX


def test_one_response_by_default() -> None:
    permits = ResponsePermits(ResponsePermissionOptions())
    assert not permits.use(b"inbox", 0)
    permits.grant(b"inbox", 0)
    assert permits.use(b"inbox", 1) and not permits.use(b"inbox", 2)
    assert len(permits) == 0


def test_a_second_request_with_the_same_reply_earns_a_response_of_its_own() -> None:
    permits = ResponsePermits(ResponsePermissionOptions())
    permits.grant(b"inbox", 0)
    permits.grant(b"inbox", 1)
    assert permits.use(b"inbox", 2)


def test_grants_expire() -> None:
    permits = ResponsePermits(ResponsePermissionOptions(max_msgs=-1, expires_ns=10))
    permits.grant(b"inbox", 0)
    assert permits.use(b"inbox", 10) and not permits.use(b"inbox", 11)


def test_open_grants_are_bounded_and_expired_ones_leave_first() -> None:
    permits = ResponsePermits(ResponsePermissionOptions(expires_ns=RESPONSE_PERMITS_MAX * 2))
    for number in range(RESPONSE_PERMITS_MAX + 5):
        permits.grant(b"inbox.%d" % number, number)
    assert len(permits) == RESPONSE_PERMITS_MAX
    assert not permits.use(b"inbox.4", RESPONSE_PERMITS_MAX) and permits.use(b"inbox.5", RESPONSE_PERMITS_MAX)
    permits.grant(b"late", RESPONSE_PERMITS_MAX * 9)
    assert len(permits) == 1
