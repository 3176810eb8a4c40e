"""Delivered = allowed minus denied, on concrete subjects, whatever the patterns and queues."""

from hypothesis import given
from hypothesis import strategies as st

from models import subject as subjects
from models.permissions import Rules
from slipstream.auth.limits import PERMISSION_CACHE_MAX
from slipstream.auth.permissions import Permissions, ResponsePermits
from slipstream.config.account_options import (
    PermissionsOptions,
    ResponsePermissionOptions,
    SubjectPermissionOptions,
)

words = st.sampled_from([b"a", b"b", b"*"])
patterns = st.builds(
    lambda head, last: b".".join([*head, last]), st.lists(words, max_size=2), st.sampled_from([b"a", b"b", b"*", b">"])
)
literals = st.lists(st.sampled_from([b"a", b"b", b"c"]), min_size=1, max_size=4).map(b".".join)
queues = st.sampled_from([None, b"q1", b"q2", b"v.1"])
queue_patterns = st.sampled_from([None, None, b"q1", b"q2", b"v.*", b"*", b">"])
rules = st.lists(st.tuples(patterns, queue_patterns), max_size=4)


def _subscribe_permissions(model: Rules) -> Permissions:
    allow, deny = model.as_entries()
    compiled = Permissions.compile(PermissionsOptions(subscribe=SubjectPermissionOptions(allow=allow, deny=deny)))
    assert compiled is not None
    return compiled


@given(allow=st.none() | rules, deny=rules, subscription=patterns | literals, queue=queues, published=literals)
def test_delivered_is_allowed_minus_denied(
    allow: list[tuple[bytes, bytes | None]] | None,
    deny: list[tuple[bytes, bytes | None]],
    subscription: bytes,
    queue: bytes | None,
    published: bytes,
) -> None:
    """CVE-2022-29946, advisories 2026-17 and 2026-18: overlap and queue denies hold at delivery."""
    model = Rules(allow, deny)
    permissions = _subscribe_permissions(model)
    reaches = permissions.may_subscribe(subscription, queue) and subjects.matches(subscription, published)
    checked = permissions.needs_delivery_check(subscription, queue)
    delivered = reaches and not (checked and permissions.denies_delivery(published, queue))
    # Nothing forbidden gets through, also where the router skipped the check.
    assert not delivered or model.grants(published, queue)
    # What was subscribed to and is granted does get through.
    assert delivered or not (reaches and model.grants(published, queue))
    # A subscription to the very subject is granted exactly when the rules grant the subject.
    assert permissions.may_subscribe(published, queue) == model.grants(published, queue)
    assert permissions.denies_delivery(published, queue) != model.grants(published, queue)


@given(allow=st.lists(patterns, max_size=4), subscription=patterns, queue=queues)
def test_a_subscription_inside_the_allow_list_is_granted(
    allow: list[bytes], subscription: bytes, queue: bytes | None
) -> None:
    permissions = _subscribe_permissions(Rules([(pattern, None) for pattern in allow]))
    if any(subjects.is_subset(subscription, pattern) for pattern in allow):
        assert permissions.may_subscribe(subscription, queue)
        assert not permissions.needs_delivery_check(subscription, queue)


@given(allow=st.none() | st.lists(patterns, max_size=4), deny=st.lists(patterns, max_size=3), published=literals)
def test_publish_is_allowed_minus_denied(allow: list[bytes] | None, deny: list[bytes], published: bytes) -> None:
    options = SubjectPermissionOptions(
        allow=None if allow is None else tuple(pattern.decode() for pattern in allow),
        deny=tuple(pattern.decode() for pattern in deny),
    )
    permissions = Permissions.compile(PermissionsOptions(publish=options))
    assert permissions is not None
    allowed = allow is None or any(subjects.matches(pattern, published) for pattern in allow)
    denied = any(subjects.matches(pattern, published) for pattern in deny)
    expected = allowed and not denied
    assert permissions.may_publish(published) == expected
    assert permissions.may_publish(published) == expected, "the remembered verdict is the same"


@given(subjects=st.lists(st.integers(0, 3 * PERMISSION_CACHE_MAX), max_size=50))
def test_remembered_verdicts_stay_right_when_the_cache_turns_over(subjects: list[int]) -> None:
    permissions = Permissions.compile(PermissionsOptions(publish=SubjectPermissionOptions(deny=("odd.>",))))
    assert permissions is not None
    for number in subjects:
        name = b"odd" if number % 2 else b"even"
        assert permissions.may_publish(b"%s.%d" % (name, number)) == (number % 2 == 0)


steps = st.lists(
    st.tuples(st.sampled_from(["grant", "use", "use"]), st.sampled_from([b"r1", b"r2", b"r3"]), st.integers(0, 6)),
    max_size=30,
)


@given(steps=steps, max_msgs=st.sampled_from([-1, 1, 2]), expires_ns=st.sampled_from([-1, 5, 10]))
def test_response_permits_follow_the_plain_count(
    steps: list[tuple[str, bytes, int]], max_msgs: int, expires_ns: int
) -> None:
    permits = ResponsePermits(ResponsePermissionOptions(max_msgs=max_msgs, expires_ns=expires_ns))
    granted: dict[bytes, int] = {}
    used: dict[bytes, int] = {}
    now_ns = 0
    for action, reply, pause_ns in steps:
        now_ns += pause_ns
        if action == "grant":
            permits.grant(reply, now_ns)
            granted[reply], used[reply] = now_ns, 0
            continue
        fresh = reply in granted and (expires_ns < 0 or now_ns - granted[reply] <= expires_ns)
        expected = fresh and (max_msgs < 0 or used[reply] < max_msgs)
        assert permits.use(reply, now_ns) == expected
        if expected:
            used[reply] += 1
