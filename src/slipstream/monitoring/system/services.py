"""What the services of the system account answer: one row a service, with the options it reads.

    SERVER_SERVICES    $SYS.REQ.SERVER.<id or PING>.<name>     system account only
    COMMANDS           $SYS.REQ.SERVER.<id>.<name>             system account only; these change something
    ACCOUNT_SERVICES   $SYS.REQ.ACCOUNT.<account>.<name>       system account only
    OWN_SERVICES       whole subjects                          any account, about itself only

A service that is in none of the tables does not exist. The first three are reachable from the system account alone,
because only there somebody listens on their subjects; `requests` sees to that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from slipstream.errors import SlipstreamError
from slipstream.monitoring.endpoints.accountz import AccountzOptions, account_detail, accountz
from slipstream.monitoring.endpoints.accstatz import AccountStatzOptions, accstatz
from slipstream.monitoring.endpoints.connz import ConnzOptions, connz
from slipstream.monitoring.endpoints.expvarz import expvarz
from slipstream.monitoring.endpoints.gatewayz import GatewayzOptions, gatewayz
from slipstream.monitoring.endpoints.healthz import HealthzOptions, healthz
from slipstream.monitoring.endpoints.ipqueuesz import IpqueueszOptions, ipqueuesz
from slipstream.monitoring.endpoints.jsz import JszOptions, jsz, jsz_account
from slipstream.monitoring.endpoints.leafz import LeafzOptions, leafz
from slipstream.monitoring.endpoints.profilez import ProfilezOptions, profilez
from slipstream.monitoring.endpoints.raftz import RaftzOptions, raftz
from slipstream.monitoring.endpoints.routez import RoutezOptions, routez
from slipstream.monitoring.endpoints.subsz import Subsz, SubszOptions, subsz
from slipstream.monitoring.endpoints.varz import varz
from slipstream.monitoring.facts import Facts
from slipstream.monitoring.query import BadRequest
from slipstream.monitoring.worker import Steps
from slipstream.protocol.host import State
from slipstream.protocol.texts import CloseReason

if TYPE_CHECKING:
    from slipstream.protocol.connection import ClientConnection

__all__ = ["ACCOUNT_SERVICES", "COMMANDS", "OWN_SERVICES", "SERVER_SERVICES", "NoOptions", "Service", "Silence"]


class Silence(Exception):
    """This server has nothing to say to that."""


class NoOptions(msgspec.Struct):
    """A service without options."""


class Service(NamedTuple):
    """One service: the options it reads, nats-server's name for them, and the answer, which may come in steps."""

    options: type[msgspec.Struct]
    go_name: str
    answer: Callable[[Facts, Any], object]
    shows_null: bool = True  # nats-server answers an error with `"data": null` beside it, or without


class CidOptions(msgspec.Struct, kw_only=True):
    """Which client."""

    cid: int = 0


def _variables(facts: Facts) -> object:
    """As over HTTP, in nats-server's other order."""
    found = expvarz(facts)
    return {"memstats": found.memstats, "cmdline": found.cmdline}


SERVER_SERVICES: dict[str, Service] = {
    "VARZ": Service(NoOptions, "VarzEventOptions", lambda facts, _: varz(facts)),
    "SUBSZ": Service(SubszOptions, "SubszEventOptions", subsz),
    "CONNZ": Service(ConnzOptions, "ConnzEventOptions", connz),
    "ROUTEZ": Service(RoutezOptions, "RoutezEventOptions", routez),
    "GATEWAYZ": Service(GatewayzOptions, "GatewayzEventOptions", gatewayz),
    "LEAFZ": Service(LeafzOptions, "LeafzEventOptions", leafz),
    "ACCOUNTZ": Service(AccountzOptions, "AccountzEventOptions", accountz),
    "JSZ": Service(JszOptions, "JszEventOptions", jsz),
    "HEALTHZ": Service(HealthzOptions, "HealthzEventOptions", healthz),
    "PROFILEZ": Service(ProfilezOptions, "ProfilezEventOptions", lambda _facts, options: profilez(options)),
    "EXPVARZ": Service(NoOptions, "ExpvarzEventOptions", lambda facts, _: _variables(facts)),
    "IPQUEUESZ": Service(IpqueueszOptions, "IpqueueszEventOptions", ipqueuesz),
    "RAFTZ": Service(RaftzOptions, "RaftzEventOptions", lambda facts, options: raftz(facts, options) or {}),
}


def _account_subsz(facts: Facts, options: SubszOptions) -> Steps[Subsz]:
    options.subscriptions = True
    return subsz(facts, options)


def _account_statz(facts: Facts, options: AccountStatzOptions) -> object:
    found = accstatz(facts, options)
    if not found.account_statz and not options.include_unused:
        raise Silence
    return found


class AccountService(NamedTuple):
    """A service about one account: like `Service`, and how the account gets into the options."""

    service: Service
    about: Callable[[Any, str], None]


def _named(field: str) -> Callable[[Any, str], None]:
    return lambda options, account: setattr(options, field, account)


def _listed(options: AccountStatzOptions, account: str) -> None:
    options.accounts = [account]


ACCOUNT_SERVICES: dict[str, AccountService] = {
    "SUBSZ": AccountService(Service(SubszOptions, "SubszEventOptions", _account_subsz), _named("account")),
    "CONNZ": AccountService(Service(ConnzOptions, "ConnzEventOptions", connz), _named("acc")),
    "LEAFZ": AccountService(Service(LeafzOptions, "LeafzEventOptions", leafz), _named("account")),
    "JSZ": AccountService(Service(JszOptions, "JszEventOptions", jsz_account), _named("account")),
    "INFO": AccountService(
        Service(AccountzOptions, "AccInfoEventOptions", lambda facts, options: account_detail(facts, options.account)),
        _named("account"),
    ),
    "STATZ": AccountService(Service(AccountStatzOptions, "AccountStatzEventOptions", _account_statz), _listed),
}

# `$SYS.REQ.ACCOUNT.PING.STATZ` in the system account: every account that is in use.
ALL_ACCOUNTS_STATZ = Service(AccountStatzOptions, "AccountStatzEventOptions", _account_statz)

# Subjects that every account has, and the account service behind each; the account is always the asker's own.
OWN_SERVICES: dict[str, str] = {
    "$SYS.REQ.SERVER.PING.CONNZ": "CONNZ",
    "$SYS.REQ.ACCOUNT.PING.CONNZ": "CONNZ",
    "$SYS.REQ.ACCOUNT.PING.STATZ": "STATZ",
}


class CommandFailed(SlipstreamError):
    """A command could not be carried out."""


def _client(facts: Facts, cid: int, missing: str) -> ClientConnection:
    connection = facts.hub.connections.get(cid)
    if connection is None:
        raise CommandFailed(missing)
    return connection


def _kick(facts: Facts, options: CidOptions) -> None:
    _client(facts, options.cid, "no such client or leafnode id").close(CloseReason.KICKED)


def _ask_to_leave(facts: Facts, options: CidOptions) -> None:
    connection = _client(facts, options.cid, "no such client id")
    if connection.protocol < 1 or connection.state is not State.READY:
        raise CommandFailed("client does not support Lame Duck Mode or is not ready to receive the notification")
    connection.outbox.write(facts.hub.info_line(connection, lame_duck=True))


def _reload(facts: Facts, _options: NoOptions) -> None:
    reload = facts.server.on_reload_request
    if reload is None:
        raise CommandFailed("can only reload config when a file is provided using -c or --config")
    reload()


COMMANDS: dict[str, Service] = {
    "RELOAD": Service(NoOptions, "EventFilterOptions", _reload, shows_null=False),
    "KICK": Service(CidOptions, "KickClientReq", _kick, shows_null=False),
    "LDM": Service(CidOptions, "LDMClientReq", _ask_to_leave, shows_null=False),
}

# What a service may raise to refuse; everything else is a bug.
REFUSALS = (BadRequest, CommandFailed, SlipstreamError)
