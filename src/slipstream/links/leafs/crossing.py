"""What may cross a leaf link, in both directions.

The peer is judged as if it were a client here: what it may publish comes in, what it may subscribe to goes out.

    side    in (the peer publishes)              out (the peer subscribes)
    hub     the user's `publish`                 the user's `subscribe`, without the leaf's `deny_imports`
    leaf    `subscribe` of its user at the hub,  `publish` of its user at the hub,
            without `deny_imports`               without `deny_exports`

JetStream stays at home: `$JS.API`, `$KV` and `$OBJ` mean a server's own, and those of the other side are reached by the
name of a domain (`$JS.<domain>.API.>`). So these never cross, nor does what is addressed to the own domain.

Interest is told if the peer may send any of it; what a wildcard is wider than that is held back message by message. A
hub ends the link of a leaf that oversteps; a leaf says nothing and takes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from slipstream.auth.permissions import Permissions
from slipstream.config.account_options import PermissionsOptions, SubjectPermissionOptions
from slipstream.kernels.subjects.subject import is_literal, is_valid_subscription

if TYPE_CHECKING:
    from slipstream.config.account_options import ResponsePermissionOptions

__all__ = ["LOOP_PREFIX", "Crossing"]

LOOP_PREFIX = b"$LDS."
_OF_JETSTREAM = ("$JS.API.>", "$KV.>", "$OBJ.>")
# Ways back of requests, made by servers: nobody can guess one.
_ANSWERS = (b"_R_.", b"$JS.ACK.")
_RULED = frozenset((b"*", b">", LOOP_PREFIX[:-1]))  # first tokens that have to be looked at
_ALWAYS_TOLD = (LOOP_PREFIX, b"_R_.", b"_GR_.", b"$GR.")


class Crossing:
    """The rules of one link.

    Args:
        inward: what the peer may send; None: everything.
        outward: what the peer may receive; None: everything.
        domain: of this server's JetStream.
        strict: the peer has to know its rights (hub).
        shares_jetstream: JetStream's subjects cross as well.
        responses: the peer may answer requests, whatever `inward` says.
    """

    def __init__(
        self,
        inward: SubjectPermissionOptions | None,
        outward: SubjectPermissionOptions | None,
        *,
        domain: str,
        strict: bool,
        shares_jetstream: bool = False,
        responses: ResponsePermissionOptions | None = None,
    ) -> None:
        at_home = () if shares_jetstream else _OF_JETSTREAM
        own_api = (f"$JS.{domain}.API.>",) if domain and not shares_jetstream else ()
        denied_out = _without(outward, (*at_home, *own_api))
        denied_in = _without(inward, at_home)
        # First tokens of what may not leave and may not come in.
        self._untold, self._unheard = _first_tokens(denied_out), _first_tokens(denied_in)
        self._granted = None
        if strict and (inward is not None or responses is not None):
            self._granted = Permissions(PermissionsOptions(inward, None, responses))
        self.permissions = Permissions(PermissionsOptions(denied_in, denied_out, responses))

    def is_told(self, subject: bytes) -> bool:
        """Whether the peer learns that a subject is wanted here."""
        if self._unheard is not None:
            first = subject.partition(b".")[0]
            if first not in self._unheard and first not in _RULED:
                return True
        return subject.startswith(_ALWAYS_TOLD) or self.permissions.may_publish_some(subject)

    def may_want(self, subject: bytes, queue: bytes | None) -> bool:
        """Whether the peer may ask for a subject. What a pattern is wider than its rights is held back later."""
        return (
            subject.startswith(_ALWAYS_TOLD)
            or not is_literal(subject)
            or self.permissions.may_subscribe(subject, queue)
        )

    def is_of_other_groups(self, subject: bytes) -> bool:
        """Whether a subject that may not be asked for in a group may be without one; a leaf cannot tell these apart."""
        return self.permissions.may_subscribe(subject, None)

    def wants_freely(self, subject: bytes) -> bool:
        """Whether a subject is one, and no rule speaks of it: the peer may want it, and gets all that it matches."""
        if self._untold is None or not is_valid_subscription(subject):
            return False
        first = subject.partition(b".")[0]
        return first not in self._untold and first not in _RULED

    def may_send(self, subject: bytes) -> bool:
        """Whether the peer may send a message, by what does not change."""
        return subject.startswith(_ANSWERS) or self.permissions.may_publish(subject)

    def oversteps(self, subject: bytes) -> bool:
        """Whether a message that is not taken breaks a rule that the peer was told of."""
        return self._granted is not None and not self._granted.may_publish(subject)


def _first_tokens(rule: SubjectPermissionOptions) -> frozenset[bytes] | None:
    """The first tokens of all that a rule denies; None for one that speaks of everything."""
    found = frozenset(denied.encode().partition(b" ")[0].partition(b".")[0] for denied in rule.deny)
    return None if rule.allow is not None or found & {b"*", b">"} else found


def _without(given: SubjectPermissionOptions | None, denied: Iterable[str]) -> SubjectPermissionOptions:
    given = given or SubjectPermissionOptions()
    return SubjectPermissionOptions(given.allow, tuple(dict.fromkeys((*given.deny, *denied))))
