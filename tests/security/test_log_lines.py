"""The log is text for people: one line an event, no control bytes of strangers, no secrets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipstream.protocol.info import decode_connect
from slipstream.protocol.tracelog import connect_line
from slipstream.server.process.logs import FileLog
from support.hub_world import HubWorld

SECRET = "hush-hush"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("été 日本 😀", "été 日本 😀"),
        ("two\nlines", "two\\nlines"),
        ("over\rwritten", "over\\rwritten"),
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("\x00\x7f\x85\x9b", "\\x00\\x7f\\u0085\\u009b"),
        ("a\u2028b\u202ec", "a\\u2028b\\u202ec"),
        ("tab\there", "tab\\there"),
        ("byte \udcff", "byte \\xff"),
    ],
)
def test_a_log_line_is_one_line_of_text(tmp_path: Path, text: str, shown: str) -> None:
    """Advisory 2026-22: what a client sends cannot forge log lines or command a terminal."""
    log = FileLog(str(tmp_path / "log"), timestamps=False)
    log("ERR", text)
    log.close()
    assert (tmp_path / "log").read_bytes().split(b"] [ERR] ", 1)[1] == shown.encode() + b"\n"


def test_a_fatal_text_may_have_several_lines(tmp_path: Path) -> None:
    """It comes from the configuration, not from a peer."""
    log = FileLog(str(tmp_path / "log"), timestamps=False)
    log("FTL", "a.conf:1:1: wrong\nb.conf:2:2: wrong too")
    log.close()
    assert (tmp_path / "log").read_bytes().count(b"\n") == 2


CONNECTS = {
    "plain": f'{{"user":"u","pass":"{SECRET}"}}',
    "other case": f'{{"user":"u","Pass":"{SECRET}","AUTH_TOKEN":"{SECRET}"}}',
    "blanks": f'{{"user" : "u" , "pass"  :\t"{SECRET}"}}',
    "escaped key": f'{{"user":"u","p\\u0061ss":"{SECRET}"}}',
    "escaped value": f'{{"user":"u","pass":"\\"{SECRET}"}}',
    "twice": f'{{"pass":"a","pass":"{SECRET}"}}',
    "token": f'{{"auth_token":"{SECRET}"}}',
    "jwt and signature": f'{{"jwt":"{SECRET}","sig":"{SECRET}","proxy_sig":"{SECRET}","nkey":"U"}}',
    "wrong type": f'{{"pass":["{SECRET}"]}}',
    "number": '{"pass":271828}',
    "no end": f'{{"user":"u","pass":"{SECRET}',
    "no quotes": f'{{"pass":{SECRET}}}',
    "single quotes": f"{{'pass':'{SECRET}'}}",
    "no JSON": f"user=u pass={SECRET}",
    "nested": f'{{"pass":{{"pass":"{SECRET}"}}}}',
    "in an array": f'[{{"pass":"{SECRET}"}}]',
    "not UTF-8": f'{{"name":"\udcff","pass":"{SECRET}"}}',
}


@pytest.mark.parametrize("text", CONNECTS.values(), ids=CONNECTS.keys())
def test_traces_of_connect_hold_no_secret(text: str) -> None:
    """CVE-2026-33216: credentials were shown; here in the log of a server that traces, in any spelling."""
    line = connect_line(text.encode("utf-8", "surrogateescape"))
    assert line.startswith("<<- [CONNECT ") and SECRET not in line and "271828" not in line


def test_traces_of_connect_show_the_rest() -> None:
    said = {"user": "bob", "pass": "x", "name": 'a "name"', "lang": "raw"}
    plain = json.dumps({**said, "name": "plain"})
    assert connect_line(plain.encode()) == f"<<- [CONNECT {plain}]".replace('"x"', '"[REDACTED]"')
    escaped = connect_line(json.dumps(said).encode())
    assert '"bob"' in escaped and '"a \\"name\\""' in escaped and '"x"' not in escaped


@pytest.mark.parametrize(
    "data",
    [
        b'CONNECT {"user":"u","pass":"hush-hush","name":"' + b"x" * 5000,
        b'CONNECT {"user":"u","pass":"hush-hush","name":"' + b"x" * 5000 + b'"}\r\n',
        b'CONNEC {"user":"u","pass":"hush-hush"}\r\n',
        b'CONN{"pass":"hush-hush"}\r\n',
        b'connect{"pass":"hush-hush"\r\n',
        b'CONNECT {"pass":"hush-hush","sig":1}\r\n',
    ],
)
def test_a_connect_that_is_refused_is_not_repeated(data: bytes) -> None:
    """CVE-2026-33216: the log says what is wrong with a line, and not the password in it."""
    world = HubWorld("authorization { user: u, password: hush-hush }\ntrace: true\ndebug: true")
    client = world.open().send(data)
    assert client.is_closed and world.lines
    assert not [line for line in world.lines if SECRET in line]


def test_connect_is_read_in_linear_time() -> None:
    """A quoted text of capitals was looked through once for each of its letters: a tenth of a second at 4 KiB."""
    assert decode_connect(b'{"' + b"A" * 5_000_000) is None
    assert decode_connect(b'{"' + b"A" * 5_000_000 + b'" ' + b" " * 5_000_000) is None
    options = decode_connect(b'{"NAME":"' + b"A" * 5_000_000 + b'"}')
    assert options is not None and options.name == "A" * 5_000_000
