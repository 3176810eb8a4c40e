"""What one client's work costs the others, and what it costs when there is much of everything.

A case prepares a server once and then does its actions on one connection, each while an idle client in another process
sends PINGs. The number of an action is the idle client's longest wait. A further case is one more line in `CASES`, of
this module or of one beside it.

Numbers that are no waits (how the cost of a creation grows, how long a stop takes) are scenarios of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks import growth_bulky, growth_clients, growth_control, growth_data
from benchmarks.bystander import bystander
from benchmarks.growth_case import PATIENT, Case
from benchmarks.scenario import Bar, Claim, Row, Scale, Scenario
from benchmarks.servers import Server
from slipstream.client.wire import WireClient

__all__ = ["CASES", "SCENARIOS"]

_CALM = Bar(Claim.AT_MOST_OR_TWICE, 50.0)

CASES: tuple[Case, ...] = (*growth_control.CASES, *growth_data.CASES, *growth_bulky.CASES, *growth_clients.CASES)


def _scenario(case: Case) -> Scenario:
    def run(server: Server, scale: Scale) -> Sequence[float]:
        case.prepare(server.url, scale)
        return [_worst_ms(server.url, action.act, scale) for action in case.actions]

    rows = tuple(Row(f"longest PING while {action.what}", "ms", _CALM) for action in case.actions)
    return Scenario(f"growth-{case.name}", rows, run, case.flags)


def _worst_ms(url: str, act: Callable[[WireClient, Scale], None], scale: Scale) -> float:
    with WireClient(url, PATIENT) as client, bystander(url) as waits:
        act(client, scale)
    return waits.worst_ms


SCENARIOS: tuple[Scenario, ...] = (
    *(_scenario(case) for case in CASES),
    *growth_control.SCENARIOS,
    *growth_data.SCENARIOS,
    *growth_bulky.SCENARIOS,
    *growth_clients.SCENARIOS,
)
