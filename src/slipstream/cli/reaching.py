"""How bulk clients and Spark's workers reach the server that the command line means."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from slipstream.cli.connection import Failure

if TYPE_CHECKING:
    from slipstream.bulk.options import ConnectOptions
    from slipstream.cli.settings import Settings

__all__ = ["reach_of"]


def reach_of(settings: Settings) -> ConnectOptions:
    """The connection by names of files, and secrets by variables of the environment.

    Raises:
        Failure: a secret was given that workers could only get in clear.
    """
    from slipstream.bulk.options import ConnectOptions

    if settings.jwt:
        raise Failure("bulk reads take tokens of users from a file of credentials (--creds), not from --jwt")
    secrets = {"NATS_PASSWORD": settings.password, "NATS_TOKEN": settings.token}
    for name, secret in secrets.items():
        if secret:
            os.environ[name] = secret  # workers inherit it; it is in no plan and no command line
    return ConnectOptions(
        servers=settings.server,
        creds_file=settings.creds or None,
        nkey_file=settings.nkey or None,
        user=settings.user or None,
        password_env="NATS_PASSWORD" if settings.password else None,
        token_env="NATS_TOKEN" if settings.token else None,
        tls_ca=settings.tlsca or None,
        tls_cert=settings.tlscert or None,
        tls_key=settings.tlskey or None,
        domain=settings.js_domain or None,
        api_prefix=settings.js_api_prefix or None,
    )
