"""The command line has the rules of Go's flag package, and its values override a file."""

from __future__ import annotations

import pytest

from slipstream.config.listener_options import TLSOptions
from slipstream.errors import ConfigError
from slipstream.server.process.flags import FLAGS, FlagError, help_text, overrides, parse_flags


@pytest.mark.parametrize(
    ("arguments", "values", "command"),
    [
        ([], {}, ""),
        (["-p", "4333"], {"p": 4333}, ""),
        (["--port", "4333"], {"p": 4333}, ""),
        (["-port=4333"], {"p": 4333}, ""),
        (["--p=-1"], {"p": -1}, ""),
        (["-p", "1", "--port=2"], {"p": 2}, ""),
        (["-p", "0x10"], {"p": 16}, ""),
        (["-p", "010"], {"p": 8}, ""),
        (["-p", "1_000"], {"p": 1000}, ""),
        (["-D"], {"D": True}, ""),
        (["--debug=false"], {"D": False}, ""),
        (["-js=1", "-V=T"], {"js": True, "V": True}, ""),
        (["-D", "false"], {"D": True}, "false"),
        (["-a", "-x"], {"a": "-x"}, ""),
        (["-n="], {"n": ""}, ""),
        (["-n", "a=b"], {"n": "a=b"}, ""),
        (["-n=a=b"], {"n": "a=b"}, ""),
        (["version", "-p", "1"], {}, "version"),
        (["--", "-p"], {}, "-p"),
        (["-"], {}, "-"),
        (["-DV", "-sd", "x", "-sl", "stop=1"], {"DV": True, "sd": "x", "sl": "stop=1"}, ""),
    ],
)
def test_parsed(arguments: list[str], values: dict[str, object], command: str) -> None:
    flags = parse_flags(arguments)
    assert (dict(flags.values), flags.command) == (values, command)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-foo"], "flag provided but not defined: -foo"),
        (["--foo=1"], "flag provided but not defined: -foo"),
        (["-p"], "flag needs an argument: -p"),
        (["-p", "x"], 'invalid value "x" for flag -p: parse error'),
        (["--port="], 'invalid value "" for flag -port: parse error'),
        (["-p", " 1"], 'invalid value " 1" for flag -p: parse error'),
        (["-p", "9" * 20], f'invalid value "{"9" * 20}" for flag -p: value out of range'),
        (["-p", "9" * 10_000], f'invalid value "{"9" * 10_000}" for flag -p: parse error'),
        (["-D=maybe"], 'invalid boolean value "maybe" for -D: parse error'),
        (["---p"], "bad flag syntax: ---p"),
        (["-=x"], "bad flag syntax: -=x"),
    ],
)
def test_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(FlagError) as caught:
        parse_flags(arguments)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("-a h -p 1 -n name -P pid -m 2 -ms 3", {
            "host": "h", "port": 1, "server_name": "name", "pidfile": "pid", "http_port": 2, "https_port": 3}),
        ("-p 0", {"port": 4222}),
        ("-c file -t", {}),
        ("-DV", {"debug": True, "trace": True}),
        ("-DV=false", {"debug": False, "trace": False}),
        ("-VV", {"trace": True, "trace_verbose": True}),
        ("-DVV", {"debug": True, "trace": True, "trace_verbose": True}),
        ("-js -sd dir", {"jetstream.enabled": True, "jetstream.store_dir": "dir"}),
        ("--user u --pass p", {"authorization.user": "u", "authorization.password": "p"}),
        ("--auth t", {"authorization.token": "t"}),
        ("--tls=false --tlscert c", {"tls": None}),
        ("--tlscert c --tlskey k --tlscacert a --tlsverify", {"tls": TLSOptions("c", "k", "a", verify=True)}),
        ("--cluster nats://u:p%20w@h:6222", {
            "cluster.host": "h", "cluster.port": 6222, "cluster.user": "u", "cluster.password": "p w"}),
        ("--cluster_listen nats://h:-1", {
            "cluster.host": "h", "cluster.port": -1, "cluster.user": "", "cluster.password": ""}),
        ("--cluster=", {"cluster.port": 0}),
        ("--routes nats://a,nats://b --cluster_name c", {
            "cluster.routes": ("nats://a", "nats://b"), "cluster.name": "c"}),
    ],
)  # fmt: skip
def test_overrides(arguments: str, expected: dict[str, object]) -> None:
    assert overrides(parse_flags(arguments.split())) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tls"], "TLS Server certificate must be present and valid"),
        (["--tlsverify", "--tlscert", "c"], "TLS Server private key must be present and valid"),
        (["--cluster", "h"], "missing port in address"),
        (["--cluster", "nats://u@h:1"], "expected cluster password to be set"),
    ],
)
def test_contradictions(arguments: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        overrides(parse_flags(arguments))
    assert str(caught.value) == message


def test_every_flag_of_nats_server_is_there() -> None:
    """Read from `nats-server -h`."""
    theirs = (
        "a addr net p port n name server_name P pid m http_port ms https_port c config t sl signal client_advertise "
        "ports_file_dir l log T logtime logtime_utc s syslog r remote_syslog D debug V trace VV DV DVV log_size_limit "
        "max_traced_msg_len js jetstream sd store_dir user pass auth tls tlscert tlskey tlsverify tlscacert routes "
        "cluster cluster_name no_advertise cluster_advertise connect_retries cluster_listen profile h help v version "
        "help_tls"
    )
    assert {name for flag in FLAGS for name in flag.names} == set(theirs.split())


def test_help_names_every_flag() -> None:
    text = help_text()
    for flag in FLAGS:
        for name in flag.names:
            assert f"-{name}" in text
