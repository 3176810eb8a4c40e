"""What one user may publish and subscribe to, compiled from the configuration and asked for every new subject.

What it is not: the place where an error is sent or a message dropped; the router asks and acts. It knows no accounts
and no reserved subjects, which hold for everybody.

Rules, as nats-server has them:
- no allow list allows everything, an empty one nothing; deny wins over allow;
- `allow_responses` without a publish allow list turns publishing off except for responses; a response grant also
  overrides a publish deny;
- an entry `subject queue` speaks of queue subscriptions only. Once such allow entries match a subject, the queue must
  match one of them, even if a plain entry allows the subject; the queue part may itself be a pattern (`v1.*`);
- a wildcard subscription wider than a deny entry is accepted, and the denied subjects are withheld at delivery.

One rule is stricter than nats-server's. There, allow `foo.*` admits a subscription to `foo.>`, which then receives
`foo.a.b`; and allow `foo.>` beside `foo.bar q1` lets queue q2 have `foo.bar` through `foo.*`. Here the subscription
is accepted too, but every delivery is judged on the concrete subject: a message is delivered only where a
subscription to exactly its subject, with the same queue, would have been granted. One rule for both moments.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from slipstream.auth.limits import PERMISSION_CACHE_MAX, PERMISSION_CACHE_SUBJECT_BYTES_MAX, RESPONSE_PERMITS_MAX
from slipstream.config.record import replace
from slipstream.errors import ConfigError
from slipstream.kernels.subjects.subject import is_literal, is_subset, is_valid_subscription, matches, overlaps
from slipstream.limits import ALLOW_RESPONSE_EXPIRES_NS, ALLOW_RESPONSE_MAX_MSGS

if TYPE_CHECKING:
    from slipstream.config.account_options import PermissionsOptions, ResponsePermissionOptions

__all__ = ["CALLOUT_SUBJECT", "Permissions", "ResponsePermits"]

# Where an auth callout is asked.
CALLOUT_SUBJECT = "$SYS.REQ.USER.AUTH"

_Key = TypeVar("_Key", bytes, tuple[bytes, bytes | None])


class Permissions:
    """Compiled permissions; immutable apart from the remembered verdicts, so connections of one user share it."""

    __slots__ = (
        "_deliveries",
        "_publish_allow",
        "_publish_deny",
        "_publishes",
        "_subscribe_allow",
        "_subscribe_deny",
        "options",
        "responses",
        "restricts_delivery",
        "restricts_publishing",
    )

    def __init__(self, options: PermissionsOptions) -> None:
        """Compile; see `compile` for the usual way in.

        Raises:
            ConfigError: an entry is not a subject, or not `subject queue` where that is allowed.
        """
        publish, subscribe = options.publish, options.subscribe
        # The configured lists, for whoever reports a user's permissions.
        self.options = options
        # Limits of temporary grants, or None when the user has no right to respond.
        self.responses = options.allow_responses

        publish_allow = None if publish is None else publish.allow
        if publish_allow is None and self.responses is not None:
            publish_allow = ()
        self._publish_allow = None if publish_allow is None else _Subjects(_publish_entries(publish_allow))
        self._publish_deny = _Subjects(_publish_entries(publish.deny if publish else ()))
        self._subscribe_allow = (
            None if subscribe is None or subscribe.allow is None else _QueueSubjects.parse(subscribe.allow)
        )
        self._subscribe_deny = _QueueSubjects.parse(subscribe.deny if subscribe else ())
        # Whether any subscription could ever need a check at delivery; if not, the router need not ask for each.
        self.restricts_delivery = self._subscribe_allow is not None or not self._subscribe_deny.is_empty

        # Whether any publish could ever be refused.
        self.restricts_publishing = self._publish_allow is not None or not self._publish_deny.is_empty

        self._publishes: dict[bytes, bool] = {}
        self._deliveries: dict[tuple[bytes, bytes | None], bool] = {}

    @staticmethod
    def compile(options: PermissionsOptions | None) -> Permissions | None:
        """Compile the permissions of a user; None when nothing is restricted.

        Raises:
            ConfigError: an entry is not a subject, or not `subject queue` where that is allowed.
        """
        if options is None or (options.publish, options.subscribe, options.allow_responses) == (None, None, None):
            return None
        return Permissions(options)

    @staticmethod
    def without_callout(options: PermissionsOptions | None) -> Permissions:
        """The permissions of a user in an account with an auth callout: nobody but the server may ask that.

        Raises:
            ConfigError: as for `compile`.
        """
        from slipstream.config.account_options import PermissionsOptions, SubjectPermissionOptions

        options = options or PermissionsOptions()
        publish = options.publish or SubjectPermissionOptions()
        if CALLOUT_SUBJECT not in publish.deny:
            publish = replace(publish, deny=(*publish.deny, CALLOUT_SUBJECT))
        return Permissions(replace(options, publish=publish))

    def may_publish(self, subject: bytes) -> bool:
        """Tell whether the lists let the user publish to `subject`; response grants are a separate question."""
        verdict = self._publishes.get(subject)
        if verdict is None:
            allow = self._publish_allow
            verdict = (allow is None or allow.match(subject)) and not self._publish_deny.match(subject)
            _remember(self._publishes, subject, verdict)
        return verdict

    def may_publish_all(self, pattern: bytes) -> bool:
        """Tell whether the lists let the user publish to every subject that `pattern` matches."""
        allow, deny = self._publish_allow, self._publish_deny
        if is_literal(pattern):
            # Not remembered: most of these are inboxes, which are used once.
            return (allow is None or allow.match(pattern)) and not deny.match(pattern)
        return (allow is None or allow.cover(pattern)) and not deny.touch(pattern)

    def may_publish_some(self, pattern: bytes) -> bool:
        """Tell whether the lists let the user publish to some subject that `pattern` matches."""
        allow = self._publish_allow
        return (allow is None or allow.touch(pattern)) and not self._publish_deny.cover(pattern)

    def may_publish_below(self, tokens: bytes) -> bool | None:
        """Tell whether the lists let the user publish to all subjects that begin with these tokens (True) or none.

        None: that depends on the subject.
        """
        allow, deny, pattern = self._publish_allow, self._publish_deny, tokens + b".>"
        if (allow is None or allow.cover(pattern)) and not deny.touch(pattern):
            return True
        return False if (allow is not None and not allow.touch(pattern)) or deny.cover(pattern) else None

    def may_subscribe(self, subject: bytes, queue: bytes | None = None) -> bool:
        """Tell whether a subscription, possibly with wildcards, is granted."""
        allow, deny = self._subscribe_allow, self._subscribe_deny
        return (allow is None or allow.admit(subject, queue)) and not deny.forbid(subject, queue)

    def needs_delivery_check(self, subject: bytes, queue: bytes | None = None) -> bool:
        """Tell whether a granted subscription can match subjects that may not be delivered to it."""
        if not self.restricts_delivery or is_literal(subject):
            return False
        allow = self._subscribe_allow
        return (allow is not None and not allow.cover(subject, queue)) or self._subscribe_deny.touch(subject, queue)

    def denies_delivery(self, subject: bytes, queue: bytes | None = None) -> bool:
        """Tell whether a message on this concrete subject is withheld from a subscription of this queue."""
        key = (subject, queue)
        verdict = self._deliveries.get(key)
        if verdict is None:
            verdict = not self.may_subscribe(subject, queue)
            _remember(self._deliveries, key, verdict)
        return verdict


class ResponsePermits:
    """The replies one connection may still send under `allow_responses`.

    Invariant: entries are in the order of their grant, so the oldest and first to expire is in front.
    """

    __slots__ = ("_expires_ns", "_grants", "_max_msgs")

    def __init__(self, limits: ResponsePermissionOptions) -> None:
        """Start without grants. Zero in `limits` means the default, a negative number no limit."""
        self._max_msgs = limits.max_msgs or ALLOW_RESPONSE_MAX_MSGS
        self._expires_ns = limits.expires_ns or ALLOW_RESPONSE_EXPIRES_NS
        # Reply subject → (time of the grant, responses sent).
        self._grants: dict[bytes, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._grants)

    def grant(self, reply: bytes, now_ns: int) -> None:
        """Note that a request with this reply subject was delivered; a repeated grant starts afresh.

        Needed only for replies that `Permissions.may_publish` refuses.
        """
        grants = self._grants
        grants.pop(reply, None)
        self._forget_expired(now_ns)
        if len(grants) >= RESPONSE_PERMITS_MAX:
            del grants[next(iter(grants))]
        grants[reply] = (now_ns, 0)

    def use(self, subject: bytes, now_ns: int) -> bool:
        """Tell whether a publish to `subject` is a permitted response, and count it."""
        grant = self._grants.get(subject)
        if grant is None:
            return False
        granted_ns, sent = grant
        if 0 < self._expires_ns < now_ns - granted_ns:
            del self._grants[subject]
            return False
        if sent + 1 == self._max_msgs:
            del self._grants[subject]
        else:
            # The value is replaced in place, which keeps the order of the grants.
            self._grants[subject] = (granted_ns, sent + 1)
        return True

    def _forget_expired(self, now_ns: int) -> None:
        if self._expires_ns <= 0:
            return
        oldest_kept_ns = now_ns - self._expires_ns
        while self._grants:
            reply = next(iter(self._grants))
            if self._grants[reply][0] >= oldest_kept_ns:
                return
            del self._grants[reply]


class _Subjects:
    """A set of patterns, literals apart: most permission lists are long in literals and short in wildcards."""

    __slots__ = ("literals", "patterns")

    def __init__(self, subjects: Iterable[bytes]) -> None:
        unique = dict.fromkeys(subjects)
        self.literals = frozenset(subject for subject in unique if is_literal(subject))
        self.patterns = tuple(subject for subject in unique if not is_literal(subject))

    @property
    def is_empty(self) -> bool:
        return not self.literals and not self.patterns

    def match(self, subject: bytes) -> bool:
        """Some entry matches `subject` token by token; a wildcard in `subject` counts as an ordinary token."""
        return subject in self.literals or any(matches(pattern, subject) for pattern in self.patterns)

    def cover(self, subject: bytes) -> bool:
        """Some entry matches everything that `subject` matches."""
        return subject in self.literals or any(is_subset(subject, pattern) for pattern in self.patterns)

    def touch(self, subject: bytes) -> bool:
        """Some entry has a concrete subject in common with `subject`."""
        return any(matches(subject, literal) for literal in self.literals) or any(
            overlaps(subject, pattern) for pattern in self.patterns
        )


class _QueueSubjects:
    """The entries of a subscribe list: plain ones, and those that speak of a queue only."""

    __slots__ = ("plain", "queued")

    def __init__(self, plain: _Subjects, queued: tuple[tuple[bytes, bytes], ...]) -> None:
        self.plain = plain
        self.queued = queued  # (subject pattern, queue pattern)

    @classmethod
    def parse(cls, entries: Iterable[str]) -> _QueueSubjects:
        plain: list[bytes] = []
        queued: list[tuple[bytes, bytes]] = []
        for entry in entries:
            subject, queue = _split_queue(entry)
            if queue is None:
                plain.append(subject)
            else:
                queued.append((subject, queue))
        return cls(_Subjects(plain), tuple(queued))

    @property
    def is_empty(self) -> bool:
        return self.plain.is_empty and not self.queued

    def admit(self, subject: bytes, queue: bytes | None) -> bool:
        """As an allow list: plain entries decide, unless entries for queues match and the subscription has a queue."""
        if queue:
            names = [name for pattern, name in self.queued if matches(pattern, subject)]
            if names:
                return any(_queue_matches(name, queue) for name in names)
        return self.plain.match(subject)

    def forbid(self, subject: bytes, queue: bytes | None) -> bool:
        """As a deny list: any matching entry, plain or for this queue, forbids."""
        return self.plain.match(subject) or any(
            queue and _queue_matches(name, queue) and matches(pattern, subject) for pattern, name in self.queued
        )

    def cover(self, subject: bytes, queue: bytes | None) -> bool:
        """As an allow list: every concrete subject that `subject` matches is admitted for this queue."""
        if not queue:
            return self.plain.cover(subject)
        if any(overlaps(pattern, subject) and not _queue_matches(name, queue) for pattern, name in self.queued):
            # Another queue's entry reaches some of the subjects; whether this queue may have them depends on each.
            return False
        return self.plain.cover(subject) or any(
            _queue_matches(name, queue) and is_subset(subject, pattern) for pattern, name in self.queued
        )

    def touch(self, subject: bytes, queue: bytes | None) -> bool:
        """As a deny list: some concrete subject that `subject` matches is forbidden for this queue."""
        return self.plain.touch(subject) or any(
            queue and _queue_matches(name, queue) and overlaps(pattern, subject) for pattern, name in self.queued
        )


def _queue_matches(pattern: bytes, queue: bytes) -> bool:
    # A queue may be named like a pattern, so the names are compared first; then a wildcard in the name of the actual
    # queue is not covered by a narrower wildcard, as for subjects.
    return pattern == queue or (not is_literal(pattern) and is_subset(queue, pattern))


def _publish_entries(entries: Iterable[str]) -> Iterable[bytes]:
    for entry in entries:
        subject = entry.encode()
        if not is_valid_subscription(subject):
            raise ConfigError(f'subject "{entry}" is not a valid subject')
        yield subject


def _split_queue(entry: str) -> tuple[bytes, bytes | None]:
    """Split `subject queue`; a permission that cannot be understood is refused, never skipped."""
    words = entry.encode().split()
    if len(words) not in (1, 2):
        raise ConfigError(f'subject "{entry}" is not a valid subject')
    if not is_valid_subscription(words[0]):
        raise ConfigError(f'subject "{words[0].decode()}" is not a valid subject')
    if len(words) == 1:
        return words[0], None
    if not is_valid_subscription(words[1]):
        raise ConfigError(f'queue "{words[1].decode()}" is not a valid queue')
    return words[0], words[1]


def _remember(verdicts: dict[_Key, bool], key: _Key, verdict: bool) -> None:
    """Keep a verdict, dropping the oldest one when the cache is full; not those of long subjects."""
    if len(key if isinstance(key, bytes) else key[0]) > PERMISSION_CACHE_SUBJECT_BYTES_MAX:
        return
    if len(verdicts) >= PERMISSION_CACHE_MAX:
        del verdicts[next(iter(verdicts))]
    verdicts[key] = verdict
