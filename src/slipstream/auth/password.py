"""Passwords and tokens: compare what a client sent with what the configuration holds.

A stored value that looks like bcrypt (`$2a$11$...`, also 2b, 2x, 2y) is compared with bcrypt, which by design takes
from a tenth of a second (cost 11) to minutes. So it is never done here and now: `check` returns a job; the caller runs
it on a worker thread, `PASSWORD_CHECK_THREADS` at a time. Everything else is compared at once, in constant time.

Invariant: an empty stored value matches nothing. A user without a password is one that logs in by certificate or as
`no_auth_user`, and neither comes here.
"""

from __future__ import annotations

__all__ = ["BcryptCheck", "check", "is_bcrypt"]

# bcrypt looks at no more; nats-server accepts longer passwords, so what follows is cut instead of refused.
_BCRYPT_BYTES_MAX = 72


def is_bcrypt(stored: str) -> bool:
    """Tell whether a configured value is a bcrypt hash."""
    cost = stored[4:6]
    return stored[:4] in ("$2a$", "$2b$", "$2x$", "$2y$") and cost.isascii() and cost.isdigit() and stored[6:7] == "$"


def check(stored: str, given: str) -> bool | BcryptCheck:
    """Compare at once, or say what has to run on a worker thread to know."""
    if not stored or not given:
        return False
    if is_bcrypt(stored):
        return BcryptCheck(stored, given)
    from hmac import compare_digest

    return compare_digest(_encoded(stored), _encoded(given))


class BcryptCheck:
    """One pending comparison. Calling it blocks for as long as the hash's cost demands; it touches no shared state."""

    __slots__ = ("_given", "_stored")

    def __init__(self, stored: str, given: str) -> None:
        self._stored = stored
        self._given = given

    def __call__(self) -> bool:
        import bcrypt

        try:
            return bcrypt.checkpw(_encoded(self._given)[:_BCRYPT_BYTES_MAX], _encoded(self._stored))
        except ValueError:
            # Not a hash after all (bad cost, salt or length): nobody can log in with it.
            return False


def _encoded(text: str) -> bytes:
    # JSON can smuggle lone surrogates into a string; they must compare unequal, not raise.
    return text.encode("utf-8", "surrogatepass")
