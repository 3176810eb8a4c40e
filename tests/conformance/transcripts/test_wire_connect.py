"""INFO, CONNECT and what happens before CONNECT: the life of a connection up to its first subscription."""

from __future__ import annotations

import json

from support.raw_client import RawClient
from support.servers import Both
from support.transcript import Script, Talk, case, connect_line, each, pub, unconnected

HELLO = b"SUB foo 1\r\n" + pub("foo", b"hi")

CASES = [
    unconnected("greeting only", b"", rb"PONG"),
    unconnected("no CONNECT means verbose", HELLO, rb"\+OK\r\n\+OK\r\nMSG foo 1 2"),
    unconnected("no CONNECT means pedantic", b"PUB a.* 0\r\n\r\n", rb"Invalid Publish Subject"),
    unconnected("no CONNECT means echo", b"SUB x 1\r\n" + pub("x"), rb"MSG x 1 0"),
    unconnected("no CONNECT means no headers", b"HPUB x 12 12\r\nNATS/1.0\r\n\r\n\r\n", rb"<closed>"),
    unconnected("empty CONNECT", b"CONNECT {}\r\n", rb"\+OK"),
    unconnected("CONNECT keeps verbose when absent", b'CONNECT {"pedantic":false}\r\n' + HELLO, rb"\+OK"),
    unconnected("CONNECT turns verbose off", b'CONNECT {"verbose":false}\r\n' + HELLO, rb"MSG foo 1 2"),
    unconnected("CONNECT without JSON", b"CONNECT\r\n"),
    unconnected("CONNECT with blank only", b"CONNECT \r\n"),
    unconnected("CONNECT with bad JSON", b"CONNECT {\r\n", rb"<closed>"),
    unconnected("CONNECT with text", b"CONNECT hello\r\n", rb"<closed>"),
    unconnected("CONNECT with array", b"CONNECT []\r\n", rb"<closed>"),
    unconnected("CONNECT with null", b"CONNECT null\r\n"),
    unconnected("CONNECT with number", b"CONNECT 5\r\n"),
    unconnected("CONNECT with trailing junk", b"CONNECT {} junk\r\n", rb"<closed>"),
    unconnected("CONNECT with wrong type", b'CONNECT {"verbose":"yes"}\r\n', rb"<closed>"),
    unconnected("CONNECT with text for protocol", b'CONNECT {"protocol":"1"}\r\n', rb"<closed>"),
    unconnected("CONNECT with null values", b'CONNECT {"verbose":null,"user":null}\r\n', rb"\+OK"),
    unconnected("CONNECT with number for name", b'CONNECT {"name":1}\r\n'),
    unconnected("CONNECT with float protocol", b'CONNECT {"protocol":1.5}\r\n'),
    unconnected("CONNECT with unknown fields", b'CONNECT {"verbose":false,"zig":{"a":[1]}}\r\n', rb"PONG"),
    unconnected("CONNECT with other case of keys", b'CONNECT {"VERBOSE":false}\r\n' + HELLO, rb"MSG foo"),
    unconnected("CONNECT with repeated key", b'CONNECT {"verbose":true,"verbose":false}\r\n' + HELLO, rb"MSG foo"),
    unconnected("CONNECT in lower case", b'connect {"verbose":false}\r\n' + HELLO, rb"MSG foo"),
    unconnected("CONNECT in mixed case", b'CoNnEcT {"verbose":false}\r\n', rb"PONG"),
    unconnected("CONNECT after tabs", b'CONNECT\t \t{"verbose":false}\r\n', rb"PONG"),
    unconnected("CONNECT without blank", b'CONNECT{"verbose":false}\r\n'),
    unconnected("CONNECT with LF only", b'CONNECT {"verbose":false}\n', rb"PONG"),
    unconnected("CONNECT with trailing blanks", b'CONNECT {"verbose":false}  \r\n', rb"PONG"),
    unconnected("CONNECT with escapes", b'CONNECT {"verbose":false,"name":"\\u00e9\\n"}\r\n', rb"PONG"),
    unconnected("CONNECT with bad escape", b'CONNECT {"name":"\\x"}\r\n', rb"<closed>"),
    unconnected("CONNECT with invalid UTF-8", b'CONNECT {"verbose":false,"name":"\xff\xfe"}\r\n'),
    unconnected("CONNECT protocol 0", b'CONNECT {"verbose":false,"protocol":0}\r\n', rb"PONG"),
    unconnected("CONNECT protocol 1", b'CONNECT {"verbose":false,"protocol":1}\r\n', rb"connect_info"),
    unconnected("CONNECT protocol 2", b'CONNECT {"verbose":false,"protocol":2}\r\n', rb"invalid client protocol"),
    unconnected("CONNECT protocol negative", b'CONNECT {"verbose":false,"protocol":-1}\r\n', rb"invalid client"),
    unconnected("CONNECT names an account", b'CONNECT {"account":"A"}\r\n', rb"Authorization Violation"),
    unconnected("CONNECT asks a new account", b'CONNECT {"new_account":true}\r\n'),
    unconnected(
        "CONNECT no_responders without headers", b'CONNECT {"no_responders":true}\r\n', rb"no responders requires"
    ),
    unconnected("CONNECT credentials nobody asked for", b'CONNECT {"user":"u","pass":"p"}\r\n', rb"\+OK"),
    unconnected("CONNECT a token nobody asked for", b'CONNECT {"auth_token":"t"}\r\n', rb"\+OK"),
    unconnected("CONNECT an nkey nobody asked for", b'CONNECT {"nkey":"UXXX","sig":"x"}\r\n'),
    unconnected("CONNECT a JWT nobody asked for", b'CONNECT {"jwt":"a.b.c","sig":"x"}\r\n'),
    unconnected("CONNECT over the control line", b'CONNECT {"name":"' + b"x" * 5000 + b'"}\r\n'),
    case("second CONNECT", connect_line() + HELLO, rb"MSG foo 1 2"),
    case("second CONNECT turns verbose on", connect_line(verbose=True) + HELLO, rb"\+OK"),
    case("second CONNECT keeps or drops subscriptions", b"SUB foo 1\r\n" + connect_line() + pub("foo", b"hi")),
    case("second CONNECT turns echo off", connect_line(echo=False) + HELLO, rb"PONG"),
    case("second CONNECT bad JSON", b"CONNECT nonsense\r\n", rb"<closed>"),
    case("INFO from a client", b"INFO {}\r\n"),
    case("+OK from a client", b"+OK\r\n", rb"PONG"),
    case("-ERR from a client", b"-ERR 'x'\r\n"),
    case("PONG nobody asked for", b"PONG\r\nPONG\r\n", rb"PONG"),
    case("PONG with junk", b"PONG junk\r\n", rb"PONG"),
]


def info_comes_once_after_the_first_pong(talk: Talk) -> None:
    peer = talk.connect()
    peer.sync()
    peer.sync()
    talk.note(bytes(peer.received).count(b"connect_info"))


def second_connect_repeats_no_info(talk: Talk) -> None:
    peer = talk.connect()
    peer.send(connect_line(name="again")).sync()
    peer.sync()


def pong_before_connect_and_after(talk: Talk) -> None:
    peer = talk.open()
    peer.sync()
    peer.send(connect_line()).sync()
    peer.sync()


def every_ping_has_its_pong(talk: Talk) -> None:
    peer = talk.connect()
    peer.send(b"PING\r\nPING junk\r\nping\r\nPINGX\r\nPiNg\n").until(rb"(PONG\r\n){5}")
    peer.sync()


def client_ids_grow(talk: Talk) -> None:
    ids = []
    for name in "abc":
        line = bytes(talk.open(name).received)
        ids.append(int(line.partition(b'"client_id":')[2].partition(b",")[0]))
    talk.note(ids == sorted(set(ids)))


def half_closed_client_gets_its_answers(talk: Talk) -> None:
    peer = talk.connect()
    peer.send(HELLO + b"PING\r\n").client.shut_down_writing()
    peer.until_closed()


def connect_in_single_bytes(talk: Talk) -> None:
    peer = talk.open()
    for byte in connect_line() + HELLO:
        peer.send(bytes([byte]))
    peer.sync()
    talk.must_show(rb"MSG foo 1 2")


SCRIPTS: list[Script] = [
    info_comes_once_after_the_first_pong,
    second_connect_repeats_no_info,
    pong_before_connect_and_after,
    every_ping_has_its_pong,
    client_ids_grow,
    half_closed_client_gets_its_answers,
    connect_in_single_bytes,
]


@each([*CASES, *SCRIPTS])
def test_connection_set_up(both: Both, script: Script) -> None:
    both().agree(script)


@each([unconnected("greeting", b""), case("connected", b"")])
def test_named_server(both: Both, script: Script) -> None:
    both("server_name: west\nmax_payload: 2048\nno_header_support: false").agree(script)


@each([case("connected", b"HPUB x 12 12\r\nNATS/1.0\r\n\r\n\r\n", no_responders=False), case("no responders", b"")])
def test_server_without_headers(both: Both, script: Script) -> None:
    both("no_header_support: true").agree(script)


def test_api_level_goes_with_the_version(both: Both) -> None:
    pair = both()
    levels = []
    for server in (pair.real, pair.ours):
        with RawClient(server.port) as client:
            levels.append(json.loads(client.read_until(rb"\r\n")[len("INFO ") :])["api_lvl"])
    assert 0 < levels[1] <= levels[0]
