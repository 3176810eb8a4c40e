"""Accounts and what they share: resolved names, and refusals with the text of nats-server 2.15.1."""

import pytest

from slipstream.accounts.graph import AccountGraph, build_accounts
from slipstream.config.account_options import (
    AccountLimitsOptions,
    AccountOptions,
    ExportOptions,
    ImportOptions,
    LatencyOptions,
    MappingDestination,
    MappingOptions,
    UserOptions,
)
from slipstream.config.listener_options import ClusterOptions
from slipstream.config.options import Options
from slipstream.errors import ConfigError
from slipstream.limits import SERVICE_RESPONSE_THRESHOLD_NS


def _graph(*accounts: AccountOptions) -> AccountGraph:
    return build_accounts(Options(accounts=accounts))


def _exporter(name: str, *exports: ExportOptions, imports: tuple[ImportOptions, ...] = ()) -> AccountOptions:
    return AccountOptions(name=name, exports=exports, imports=imports)


def _importer(name: str, *imports: ImportOptions) -> AccountOptions:
    return AccountOptions(name=name, imports=imports)


def _stream(account: str, subject: str, to: str = "", prefix: str = "") -> ImportOptions:
    return ImportOptions("stream", account, subject, to=to, prefix=prefix)


def _service(account: str, subject: str, to: str = "") -> ImportOptions:
    return ImportOptions("service", account, subject, to=to)


def _refused(*accounts: AccountOptions) -> str:
    with pytest.raises(ConfigError) as refusal:
        _graph(*accounts)
    return str(refusal.value)


# --- which accounts there are ----------------------------------------------------------------------------------------


def test_a_server_without_configuration_has_the_global_and_the_system_account() -> None:
    graph = build_accounts(Options())
    assert list(graph.accounts) == ["$G", "$SYS"]
    assert graph.accounts["$SYS"].is_system and not graph.accounts["$G"].is_system


def test_the_system_account_can_be_named_or_turned_off() -> None:
    assert list(build_accounts(Options(no_system_account=True)).accounts) == ["$G"]
    named = build_accounts(Options(system_account="SYS", accounts=(AccountOptions("SYS"), AccountOptions("A"))))
    assert [name for name, account in named.accounts.items() if account.is_system] == ["SYS"]
    assert set(named.accounts) == {"$G", "SYS", "A"}
    own = build_accounts(Options(accounts=(AccountOptions("$SYS", users=(UserOptions("a", "p"),)),)))
    assert own.accounts["$SYS"].is_system and own.accounts["$SYS"].options.users
    assert build_accounts(Options(system_account="$G")).accounts["$G"].is_system


def test_a_named_system_account_has_to_exist() -> None:
    with pytest.raises(ConfigError, match="error resolving system account: account missing"):
        build_accounts(Options(system_account="FOO"))


def test_limits_and_mappings_are_those_of_the_account() -> None:
    def mapping(source: str, destination: str, cluster: str = "") -> MappingOptions:
        return MappingOptions(source, (MappingDestination(destination, cluster=cluster),))

    limits = AccountLimitsOptions(max_connections=3)
    account = AccountOptions("A", limits=limits, mappings=(mapping("x", "y", "EAST"),))
    graph = build_accounts(
        Options(accounts=(account,), mappings=(mapping("g", "h"),), cluster=ClusterOptions(name="EAST"))
    )
    assert graph.accounts["A"].limits is limits and graph.accounts["$SYS"].mappings is None
    for name, source, destination in (("$G", b"g", b"h"), ("A", b"x", b"y")):
        mappings = graph.accounts[name].mappings
        found = mappings and mappings.find(source)
        assert found is not None and found.destination(source) == destination


# --- streams ---------------------------------------------------------------------------------------------------------

STREAMS = [
    (_stream("A", "s.>"), "s.a.b", "s.a.b"),
    (_stream("A", "s.>", prefix="x"), "s.a.b", "x.s.a.b"),
    (_stream("A", "s.>", prefix="x.y."), "s.a", "x.y.s.a"),
    (_stream("A", "s.*.*", to="x.$2.$1"), "s.a.b", "x.b.a"),
    (_stream("A", "s.*.*", to="x.*.y.*"), "s.a.b", "x.a.y.b"),
    (_stream("A", "s.*.*", to="x.{{wildcard(2)}}.$1"), "s.a.b", "x.b.a"),
    (_stream("A", "s.a", to="x"), "s.a", "x"),
    (_stream("A", "s.a"), "s.a", "s.a"),
]


@pytest.mark.parametrize(("entry", "remote", "local"), STREAMS)
def test_names_of_imported_streams(entry: ImportOptions, remote: str, local: str) -> None:
    graph = _graph(_exporter("A", ExportOptions("stream", "s.>")), _importer("B", entry))
    (stream,) = graph.accounts["B"].stream_imports
    assert stream.exporter == "A"
    assert stream.local_subject(remote.encode()) == local.encode()
    assert stream.local_subject(b"other") is None
    assert graph.accounts["A"].dependents == ("B",) and graph.accounts["B"].dependents == ()


def test_the_pattern_here_is_what_subscribers_use() -> None:
    graph = _graph(_exporter("A", ExportOptions("stream", "s.>")), _importer("B", _stream("A", "s.*.*", to="x.$2.$1")))
    assert graph.accounts["B"].stream_imports[0].subject == b"x.*.*"


# --- services --------------------------------------------------------------------------------------------------------

SERVICES = [
    (_service("A", "q.*.*"), "q.*.*", "q.a.b", "q.a.b"),
    (_service("A", "q.*.*", to="x.*.y.*"), "x.*.y.*", "x.a.y.b", "q.a.b"),
    (_service("A", "q.*.*", to="x.$2.y.$1"), "x.*.y.*", "x.a.y.b", "q.b.a"),
    (_service("A", "q.*.*", to="x.{{wildcard(2)}}.y.$1"), "x.*.y.*", "x.a.y.b", "q.b.a"),
    (_service("A", "q.>", to="x.>"), "x.>", "x.a.b", "q.a.b"),
    (_service("A", "q.a", to="x"), "x", "x", "q.a"),
    (_service("A", "q.a", to="x.*"), "x.*", "x.y", "q.a"),
]


@pytest.mark.parametrize(("entry", "pattern", "local", "remote"), SERVICES)
def test_names_of_imported_services(entry: ImportOptions, pattern: str, local: str, remote: str) -> None:
    graph = _graph(_exporter("A", ExportOptions("service", "q.>")), _importer("B", entry))
    (service,) = graph.accounts["B"].service_imports
    assert (service.exporter, service.subject) == ("A", pattern.encode())
    assert service.remote_subject(local.encode()) == remote.encode()
    assert service.remote_subject(b"other") is None


def test_the_export_says_how_a_service_answers() -> None:
    latency = LatencyOptions("lat")
    export = ExportOptions("service", "q.*", response_type="stream", response_threshold_ns=7, latency=latency)
    entry = ImportOptions("service", "A", "q.a", share=True)
    graph = _graph(_exporter("A", export, ExportOptions("service", "r")), _importer("B", entry, _service("A", "r")))
    first, second = graph.accounts["B"].service_imports
    assert (first.response_type, first.response_threshold_ns, first.latency) == ("stream", 7, latency)
    assert first.share and not second.share
    assert (second.response_type, second.response_threshold_ns) == ("single", SERVICE_RESPONSE_THRESHOLD_NS)


def test_one_local_name_may_be_served_by_two_accounts() -> None:
    export = ExportOptions("service", "q")
    graph = _graph(
        _exporter("A", export), _exporter("C", export), _importer("B", _service("A", "q"), _service("C", "q"))
    )
    assert [service.exporter for service in graph.accounts["B"].service_imports] == ["A", "C"]


# --- who may import --------------------------------------------------------------------------------------------------


def test_what_is_not_exported_cannot_be_imported() -> None:
    offer = _exporter("A", ExportOptions("stream", "a"))
    assert (
        _refused(offer, _importer("B", _stream("A", "b")))
        == 'Error adding stream import "b": stream import not authorized'
    )
    assert (
        _refused(offer, _importer("B", _service("A", "a")))
        == 'Error adding service import "a": service import not authorized'
    )
    assert _refused(offer, _importer("B", _stream("A", "a.>"))).endswith("stream import not authorized")
    assert _refused(_exporter("A", ExportOptions("stream", "a.*")), _importer("B", _stream("A", "a.>"))).endswith(
        "stream import not authorized"
    )


def test_private_exports_are_for_the_accounts_they_name() -> None:
    """CVE-2025-30215 asks that nothing crosses accounts unless the exporter said so."""
    offer = _exporter("A", ExportOptions("stream", "a.>", accounts=("B",)))
    assert _graph(offer, _importer("B", _stream("A", "a.>"))).accounts["B"].stream_imports
    for subject in ("a.>", "a.b"):
        problem = _refused(offer, AccountOptions("B"), _importer("C", _stream("A", subject)))
        assert problem == f'Error adding stream import "{subject}": stream import not authorized'


def test_an_account_is_unknown() -> None:
    assert _refused(_importer("B", _stream("A", "a"))) == '"A" account not defined for stream import'
    assert _refused(_importer("B", _service("A", "a"))) == '"A" account not defined for service import'
    assert _refused(_importer("B", _stream("$G", "a"))) == '"$G" account not defined for stream import'
    offer = _exporter("A", ExportOptions("service", "a", accounts=("Z",)))
    assert _refused(offer) == '"Z" account not defined for service export'


def test_a_token_can_be_bound_to_the_importing_account() -> None:
    """CVE-2021-3127 in the form without tokens: what is bound to one account is of no use to another."""
    offer = _exporter("A", ExportOptions("service", "a.*.x", account_token_position=2))
    graph = _graph(offer, _importer("B", _service("A", "a.B.x", to="x")))
    assert graph.accounts["B"].service_imports[0].remote_subject(b"x") == b"a.B.x"
    for subject in ("a.B.x", "a.*.x"):
        assert _refused(offer, _importer("C", _service("A", subject))).endswith("service import not authorized")


def test_the_position_of_the_token_has_to_be_a_wildcard() -> None:
    for position in (1, 4):
        offer = _exporter("A", ExportOptions("stream", "a.*.x", account_token_position=position))
        assert _refused(offer) == 'Error adding stream export "a.*.x": invalid subject'


def test_the_narrowest_export_decides() -> None:
    wide, narrow = ExportOptions("service", "q.>"), ExportOptions("service", "q.secret.*", accounts=("C",))
    for exports in ((wide, narrow), (narrow, wide)):
        offer = _exporter("A", *exports)
        assert _graph(offer, AccountOptions("C"), _importer("B", _service("A", "q.open")))
        problem = _refused(offer, AccountOptions("C"), _importer("B", _service("A", "q.secret.x")))
        assert problem.endswith("service import not authorized")


def test_offering_a_subject_again_does_not_open_it() -> None:
    private, public = ExportOptions("stream", "a", accounts=("C",)), ExportOptions("stream", "a")
    for exports in ((private, public), (public, private)):
        problem = _refused(_exporter("A", *exports), AccountOptions("C"), _importer("B", _stream("A", "a")))
        assert problem.endswith("stream import not authorized")


# --- names that do not fit, duplicates, cycles -----------------------------------------------------------------------


def test_names_that_cannot_be_carried_over() -> None:
    offer = _exporter("A", ExportOptions("stream", "a.*"), ExportOptions("service", "a.*"))
    assert (
        _refused(offer, _importer("B", _stream("A", "a.*", to="x")))
        == 'Error adding stream import "a.*": failed to create mapping transform for stream import subject '
        'from "a.*" to "x": invalid mapping destination: not using all of the token wildcard(s) in x'
    )
    assert (
        _refused(offer, _importer("B", _service("A", "a.*", to="x")))
        == 'Error adding service import "a.*": failed to create mapping transform for service import subject '
        'from "x" to "a.*": invalid mapping destination: not using all of the token wildcard(s) in x'
    )
    assert (
        _refused(offer, _importer("B", _stream("A", "a.*", prefix="x.*")))
        == 'Error adding stream import "a.*": stream import prefix can not contain wildcard tokens'
    )
    for bad in ("x..y", "x y.*", "x.>.*"):
        assert 'import "a.*": ' in _refused(offer, _importer("B", _stream("A", "a.*", to=bad)))
        assert 'import "a.*": ' in _refused(offer, _importer("B", _service("A", "a.*", to=bad)))
    assert _refused(offer, _importer("B", _service("A", "a.b", to="x..y"))).endswith("invalid subject")


def test_duplicates() -> None:
    offer = _exporter("A", ExportOptions("stream", "a"), ExportOptions("service", "*"))
    assert (
        _refused(offer, _importer("B", _stream("A", "a", to="x"), _stream("A", "a", to="y")))
        == 'Error adding stream import "a": stream import already exists'
    )
    assert (
        _refused(offer, _importer("B", _service("A", "a", to="x"), _service("A", "b", to="x")))
        == 'Duplicate service import subject "x", previously used in import for account "A", subject "a"'
    )


@pytest.mark.parametrize("kind", ["stream", "service"])
def test_two_accounts_cannot_feed_each_other(kind: str) -> None:
    """CVE-2020-28466, CVE-2022-42709: import cycles crashed nats-server."""
    accounts = [
        AccountOptions(
            name,
            exports=(ExportOptions(kind, "a.>"),),  # type: ignore[arg-type]
            imports=(ImportOptions(kind, other, "a.>"),),  # type: ignore[arg-type]
        )
        for name, other in (("A", "B"), ("B", "A"))
    ]
    assert _refused(*accounts) == f'Error adding {kind} import "a.>": import forms a cycle'


def test_a_ring_is_found_behind_other_names() -> None:
    accounts = [
        _exporter(name, ExportOptions("service", own), imports=(_service(other, theirs, to=own),))
        for name, own, other, theirs in (("A", "a", "B", "b"), ("B", "b", "C", "c"), ("C", "c", "A", "a"))
    ]
    assert _refused(*accounts).endswith("import forms a cycle")


def test_a_chain_and_a_diamond_are_not_rings() -> None:
    exports = (ExportOptions("service", "q.*"),)
    chain = _graph(
        _exporter("A", *exports),
        _exporter("B", *exports, imports=(_service("A", "q.*"),)),
        _exporter("C", *exports, imports=(_service("A", "q.*"),)),
        _importer("D", _service("B", "q.*"), _service("C", "q.*")),
    )
    assert len(chain.accounts["D"].service_imports) == 2


def test_an_account_may_import_its_own_services() -> None:
    """Under the same names it changes nothing; under others it is an import like any other."""
    offer = ExportOptions("service", "q.*")
    same = _graph(_exporter("A", offer, imports=(_service("A", "q.*"),)))
    assert same.accounts["A"].service_imports == ()
    renamed = _graph(_exporter("A", offer, imports=(_service("A", "q.*", to="x.*"),)))
    assert renamed.accounts["A"].service_imports[0].remote_subject(b"x.1") == b"q.1"
    assert _refused(_exporter("A", ExportOptions("service", ">"), imports=(_service("A", ">", to="x.>"),))).endswith(
        "import forms a cycle"
    )


def test_a_long_chain_needs_no_recursion() -> None:
    offer = ExportOptions("service", "q")
    accounts = [_exporter("A0", offer)]
    accounts += [_exporter(f"A{n}", offer, imports=(_service(f"A{n - 1}", "q"),)) for n in range(1, 3000)]
    assert len(_graph(*accounts).accounts) == 3002
