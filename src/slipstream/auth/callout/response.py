"""What the answer of an auth callout is worth: the token of a user who may come in, or a refusal.

Every check of nats-server, in its order: sealed or not; signed; for this request and this server; no error; by a key of
the account that was asked (operator mode); then the user in it: valid, the one that was asked for, through a proxy if
it must, now, by this kind of connection, from this network; signed by the configured issuer, or for an account that the
asking one may send users to.

Stricter than nats-server, where an answer that says less than it seems would be believed: the key that signed an answer
has to be one of the account also when the answer names that account itself; and kinds of connections, networks and
revocations that the token of a user names hold as for every other token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slipstream.auth.jwt.checks import answer_findings, user_findings
from slipstream.auth.jwt.token import InvalidToken, decode_answer, decode_user
from slipstream.auth.jwt.windows import is_from, remaining_ns
from slipstream.config.checker import quote
from slipstream.config.record import Record
from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    from collections.abc import Callable

    from slipstream.auth.identity import PeerFacts
    from slipstream.auth.jwt.claims import AccountClaims, AuthorizationAnswer, RightsClaim, UserClaims
    from slipstream.auth.jwt.windows import Zones

__all__ = ["CalloutRefusal", "Question", "answered_user", "end_of", "target_of"]

_TOKEN_START: Final = b"eyJ"  # base64 of `{"`
_ANY_ACCOUNT: Final = "*"
_KINDS: Final = frozenset(["STANDARD", "WEBSOCKET", "LEAFNODE", "LEAFNODE_WS", "MQTT", "MQTT_WS", "IN_PROCESS"])


class CalloutRefusal(Exception):
    """The client may not come in; the text is nats-server's."""

    def __init__(self, text: str) -> None:
        super().__init__(text[:1].upper() + text[1:])


class Question(Record):
    """What was asked, and about whom: an answer has to fit it."""

    user: str  # the public key that was made for this request: an answer to another one is of no use
    server: str  # id of the server that asked
    account: str  # where the service listens
    peer: PeerFacts
    proxied: bool = False
    issuer: str = ""  # who has to sign users; empty in operator mode
    claims: AccountClaims | None = None  # of the account, in operator mode
    opened: Callable[[bytes], bytes] | None = None  # unseals an answer; raises SealError. None: nothing was sealed


def answered_user(raw: bytes, question: Question, now_s: int, zones: Zones) -> UserClaims:
    """The user that an answer lets in.

    Raises:
        CalloutRefusal: it lets nobody in, or is not to be believed.
    """
    user = _user_in(raw, question, now_s)
    if user.nats.proxy_required and not question.proxied:
        raise CalloutRefusal("proxy connection required")
    for finding in user_findings(user, now_s, zones):
        raise CalloutRefusal(f"Error validating user JWT: {finding.text}")
    if user.sub != question.user:
        expected, got = quote(question.user), quote(user.sub)
        raise CalloutRefusal(
            f"Expected authorized user of {expected} but got {got} on account {quote(question.account)}"
        )
    return user


def _user_in(raw: bytes, question: Question, now_s: int) -> UserClaims:
    about = quote(question.account)
    if not raw:
        raise CalloutRefusal(f'auth callout violation: "no reason supplied" on account {about}')
    was_sealed = question.opened is not None and not raw.startswith(_TOKEN_START)
    if question.opened is not None and was_sealed:
        from slipstream.auth.callout.keys import SealError

        try:
            raw = question.opened(raw)
        except SealError as error:
            raise CalloutRefusal(f"error decrypting auth callout response on account {about}: {error}") from None
    try:
        answer = decode_answer(raw.decode("utf-8", "replace"))
        for finding in answer_findings(answer, now_s):
            raise CalloutRefusal(f"authorization response had validation errors: {finding.text}")
        if answer.sub != question.user:
            raise CalloutRefusal("auth callout violation: auth callout response is not for expected user")
        if answer.aud != question.server:
            raise CalloutRefusal("auth callout violation: auth callout response is not for server")
        if answer.nats.error:
            raise CalloutRefusal(f"auth callout service returned an error: {answer.nats.error}")
        # Who sealed it has the key that the account names: no other proof is needed.
        if question.claims is not None and not was_sealed:
            _check_signer(answer, question.claims)
        return decode_user(answer.nats.jwt)
    except InvalidToken as error:
        raise CalloutRefusal(str(error)) from None


def _check_signer(answer: AuthorizationAnswer, account: AccountClaims) -> None:
    is_own = answer.iss == account.sub or answer.iss in account.nats.signing_keys
    if not is_own or answer.nats.issuer_account not in ("", account.sub):
        raise CalloutRefusal("auth callout signing key is unknown")


def target_of(user: UserClaims, question: Question) -> str:
    """The account that a user is let into.

    Raises:
        CalloutRefusal: the service may not let users in there, or somebody else signed.
    """
    about = quote(question.account)
    if question.claims is None:
        if user.nats.issuer_account:
            raise CalloutRefusal(f"error non operator mode account {about}: attempted to use issuer_account")
        if user.iss != question.issuer:
            who = f"expected {quote(question.issuer)} got {quote(user.iss)}"
            raise CalloutRefusal(f"wrong issuer for auth callout response on account {about}, {who}")
        return user.aud
    if user.account != question.account:
        allowed = question.claims.nats.authorization.allowed_accounts or []
        if allowed != [_ANY_ACCOUNT] and user.account not in allowed:
            raise CalloutRefusal(
                f"account {quote(user.iss)} not permitted as valid account option for auth callout for account {about}"
            )
    return user.account


def end_of(user: UserClaims, rights: RightsClaim, question: Question, now_ns: int, zones: Zones) -> int:
    """When the connection of a user ends, 0: not by itself; after the last checks of whether it may begin.

    Raises:
        CalloutRefusal: not now, not from there, not directly, or not by this kind of connection.
    """
    about = quote(question.account)
    if rights.proxy_required and not question.proxied:
        raise CalloutRefusal("proxy connection required")
    left_ns = remaining_ns(rights, now_ns, zones)
    if left_ns is None:
        raise CalloutRefusal(f"authorized user on account {about} outside of valid connect times")
    named = [kind.upper() for kind in rights.allowed_connection_types or ()]
    if named and question.peer.kind not in _KINDS.intersection(named):
        raise CalloutRefusal(f"authorized user on account {about} using invalid connection type")
    if not is_from(rights.src, question.peer.ip):
        raise CalloutRefusal(f"authorized user on account {about} from bad src Ip {question.peer.ip}")
    ends = [user.exp * SECOND_NS] if user.exp else []
    return min([*ends, *([now_ns + left_ns] if left_ns else [])], default=0)
