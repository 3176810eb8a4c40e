"""What decides about logins beside the configuration's users: auth callouts, OpenID issuers, tokens of operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slipstream.routing.operators import OperatorMode
    from slipstream.server.server import Server

__all__ = ["LoginServices"]


class LoginServices:
    """Starts them as the options say, and ends them. Their modules are loaded when they are configured."""

    def __init__(
        self,
        server: Server,
        accounts_changed: Callable[[Iterable[str]], None],
        account_expired: Callable[[str], None],
    ) -> None:
        """Nothing runs yet; accounts of operator mode come, change and expire while the server runs."""
        self._server = server
        self._accounts_changed = accounts_changed
        self._account_expired = account_expired
        self.operators: OperatorMode | None = None

    def start(self) -> None:
        """Start what is configured.

        Raises:
            ConfigError: the tokens of operators do not fit the rest of the options.
            StartError: the system account cannot be had.
        """
        server = self._server
        if server.options.may_call_out:
            from slipstream.server.logins.callouts import start_callouts

            start_callouts(server)
        self.reload()
        if server.options.trusts_operators:
            from slipstream.server.logins.operators import operator_problems, start_operators

            for refused in operator_problems(server.options):
                raise refused
            self.operators = start_operators(server)
            self.operators.on_changed.append(self._accounts_changed)
            self.operators.on_expired.append(self._account_expired)

    def reload(self) -> None:
        """Believe the OpenID issuers of the options that hold now."""
        if self._server.options.authorization.oidc or self._server.hub.logins.openid is not None:
            from slipstream.server.logins.openid import start_openid

            start_openid(self._server)

    def close(self) -> None:
        """End their timers and threads."""
        logins = self._server.hub.logins
        if logins.ends is not None:
            logins.ends.close()
        if logins.openid is not None:
            logins.openid.close()
        if self.operators is not None:
            self.operators.close()
            self.operators.resolver.close()
