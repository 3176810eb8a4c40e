"""The logins of a configuration: users with passwords and users with nkeys, each with account and permissions.

What it is not: the procedure of a login (`authenticator`), nor the single user or token of the `authorization` block,
which have no entry of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.auth.permissions import Permissions
from slipstream.config.record import Record

if TYPE_CHECKING:
    from slipstream.config.account_options import PermissionsOptions, UserOptions
    from slipstream.config.options import Options

__all__ = ["Login", "UserTable", "permissions_in"]


class Login(Record, secret=("password",)):
    """One configured user."""

    name: str  # user name, or the public nkey
    account: str
    password: str = ""  # clear text or bcrypt; empty for nkey users and those who come by certificate
    permissions: Permissions | None = None  # None: no restriction
    connection_types: tuple[str, ...] | None = None  # None: all
    proxy_required: bool = False

    def may_use(self, kind: str) -> bool:
        """Tell whether the user may come by this kind of connection."""
        return not self.connection_types or kind in self.connection_types


class UserTable:
    """Every configured user by name. Names are unique over all accounts; the configuration loader refuses others."""

    def __init__(self, options: Options) -> None:
        """Compile the users of all accounts.

        Raises:
            ConfigError: a permission of some user cannot be understood.
        """
        self.users: dict[str, Login] = {}
        self.nkeys: dict[str, Login] = {}
        for account, user in options.users():
            table = self.nkeys if user.nkey else self.users
            table[user.name] = _login(account, user, options)

    def __bool__(self) -> bool:
        return bool(self.users or self.nkeys)


def permissions_in(account: str, permissions: PermissionsOptions | None, options: Options) -> Permissions | None:
    """What a user of an account may do: where an auth callout listens, nobody but the server may ask it."""
    callout = options.authorization.auth_callout
    if callout is not None and callout.account == account:
        return Permissions.without_callout(permissions)
    return Permissions.compile(permissions)


def _login(account: str, user: UserOptions, options: Options) -> Login:
    return Login(
        name=user.name,
        account=account,
        password=user.password,
        permissions=permissions_in(account, user.permissions, options),
        connection_types=user.allowed_connection_types,
        proxy_required=user.proxy_required,
    )
