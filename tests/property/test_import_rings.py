"""Random imports between a few accounts: either refused, or every request comes to an end."""

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from models import subject as subjects
from slipstream.accounts.claimed import Claimed, ClaimedAccounts
from slipstream.accounts.graph import AccountGraph, ResolvedAccount, build_accounts
from slipstream.auth.jwt.claims import AccountClaims, AccountPart, ExportClaim, ImportClaim
from slipstream.config.account_options import AccountOptions, ExportOptions, ImportOptions
from slipstream.config.options import Options
from slipstream.errors import ConfigError

NAMES = ("A", "B", "C")
patterns = st.sampled_from(["x", "y", "x.y", "*", "x.*", "*.y", ">", "x.>"])
imports = st.builds(
    lambda exporter, subject, to: ImportOptions("service", exporter, subject, to=to),
    st.sampled_from(NAMES),
    patterns,
    st.sampled_from(["", "x", "y", "x.y", "x.*", "z.*", "z.>", "x.>"]),
)


def _build(taken: list[tuple[str, ImportOptions]]) -> AccountGraph | ConfigError:
    accounts = tuple(
        AccountOptions(
            name,
            exports=(ExportOptions("service", ">"),),
            imports=tuple(entry for importer, entry in taken if importer == name),
        )
        for name in NAMES
    )
    try:
        return build_accounts(Options(accounts=accounts))
    except ConfigError as refusal:
        return refusal


def _hops(accounts: Mapping[str, ResolvedAccount], account: str, subject: bytes, limit: int) -> int:
    """Follow a request and all it sets off; the number of accounts it was seen in, at most `limit`."""
    waiting, seen = [(account, subject)], 0
    while waiting and seen < limit:
        account, subject = waiting.pop()
        seen += 1
        for service in accounts[account].service_imports:
            remote = service.remote_subject(subject)
            if remote is not None and service.exporter in accounts:
                waiting.append((service.exporter, remote))
    return seen


@settings(max_examples=300)
@given(
    taken=st.lists(st.tuples(st.sampled_from(NAMES), imports), max_size=5),
    account=st.sampled_from(NAMES),
    subject=st.sampled_from([b"x", b"y", b"x.y", b"z.x.y", b"x.x.x", b"z.z.z.z"]),
)
def test_requests_come_to_an_end_or_the_configuration_is_refused(
    taken: list[tuple[str, ImportOptions]], account: str, subject: bytes
) -> None:
    """CVE-2020-28466, CVE-2022-42709: cycles of imports."""
    graph = _build(taken)
    if isinstance(graph, AccountGraph):
        # A request passes each import at most once on any way; with 5 imports there are fewer than 400 ways.
        assert _hops(graph.accounts, account, subject, 400) < 400


@settings(max_examples=200)
@given(
    taken=st.lists(st.tuples(st.sampled_from(NAMES), imports), max_size=5),
    order=st.permutations(NAMES),
    subject=st.sampled_from([b"x", b"y", b"x.y", b"z.x.y", b"x.x.x", b"z.z.z.z"]),
)
def test_tokens_of_accounts_close_no_ring(
    taken: list[tuple[str, ImportOptions]], order: list[str], subject: bytes
) -> None:
    """CVE-2020-28466, CVE-2022-42709 in operator mode: tokens come one by one, and again, in any order."""
    claimed = ClaimedAccounts()
    resolved: dict[str, ResolvedAccount] = {}
    for name in (*order, *order[::-1]):
        imported = [
            ImportClaim(type="service", account=entry.account, subject=entry.subject, local_subject=entry.to)
            for importer, entry in taken
            if importer == name
        ]
        part = AccountPart(exports=[ExportClaim(type="service", subject=">")], imports=list(imported))
        for changed in claimed.put(Claimed(AccountClaims(sub=name, nats=part), "", 0)):
            resolved[changed] = claimed.resolve(changed, Options(), 0)[0]
        for account in resolved:
            assert _hops(resolved, account, subject, 400) < 400


@given(taken=st.lists(st.tuples(st.sampled_from(NAMES), imports), max_size=4))
def test_a_ring_is_refused_only_where_patterns_can_meet(taken: list[tuple[str, ImportOptions]]) -> None:
    graph = _build(taken)
    if not isinstance(graph, ConfigError) or not str(graph).endswith("import forms a cycle"):
        return
    resolved = []
    for importer, entry in taken:
        alone = _build([(importer, entry)])
        if isinstance(alone, AccountGraph):
            resolved += [(importer, service) for service in alone.accounts[importer].service_imports]
        else:
            return  # an import that is a ring by itself
    # Take away, again and again, imports that lead nowhere: what remains of a real ring is the ring.
    while True:
        alive = [
            (importer, service)
            for importer, service in resolved
            if any(service.exporter == i and subjects.overlaps(service.remote, s.subject) for i, s in resolved)
        ]
        if len(alive) == len(resolved):
            break
        resolved = alive
    assert resolved
