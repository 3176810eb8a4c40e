"""The same files through `nats-server -t` and through our loader: same verdict, same lines, same words, same digest.

Known differences, on purpose: an array of plain numbers (`[1]`) is read here and refused there; a key without value in
a map, and a number with an unknown unit such as `1kbb`, are errors here and misread there.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from slipstream.config.load import Probes, load
from slipstream.config.parser import parse_file
from slipstream.config.validate import problems
from slipstream.errors import ConfigError
from slipstream.server.process.configure import Exit, configure
from slipstream.server.sockets.tls import tls_problem
from slipstream.subjects.transform import transform_problem
from support.servers import server_binary

CORPUS = dict(
    section.split("\n", 1)
    for section in Path(__file__).with_name("config_corpus.txt").read_text(encoding="utf-8").split("=== ")[1:]
)
FILES = {
    "included.conf": "port: 4333\nserver_name: included\n",
    "users.conf": "user: a\npassword: b\n",
    "broken.conf": "port: 1\nhost: a b\n",
}
ENVIRONMENT = {**os.environ, "SLIPSTREAM_TEST_NAME": "from-the-environment"}
_PLACE = re.compile(r"^\S+\.conf:(\d+):\d+: ")
_LINE = re.compile(r"on line (\d+)")
_VALID = re.compile(r"is valid \((sha256:[0-9a-f]{64})\)")

# Where our words differ from nats-server's, and why.
OTHER_WORDS = {
    "missing bracket": "it shows the end of the file as a NUL character",
    "key without value in a map": "it takes the key for one of the map around",
    "tls with a wrong key": "OpenSSL has other words than Go",
}
# It goes through maps in random order, so the column it names varies, and which of two keys it saw first.
RANDOM_COLUMN = {"user in two accounts", "store directory twice", "stream and service at once"}


@dataclass(frozen=True)
class Verdict:
    """What a server says about a file."""

    digest: str  # empty if the file is refused
    words: frozenset[str]  # each line, without the name of the program

    @property
    def lines(self) -> set[int]:
        """Line numbers it names."""
        places = (_PLACE.search(text) or _LINE.search(text) for text in self.words)
        return {int(place[1]) for place in places if place is not None}


@pytest.fixture(scope="session")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the corpus includes or names."""
    path = tmp_path_factory.mktemp("config")
    for name, text in FILES.items():
        (path / name).write_text(text, encoding="utf-8")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(path / "ca.pem")
    for name in ("server", "other"):
        issued = authority.issue_cert("localhost")
        issued.cert_chain_pems[0].write_to_path(path / f"{name}.pem")
        issued.private_key_pem.write_to_path(path / f"{name}.key")
    return path


def _real(directory: Path, file: str) -> Verdict:
    run = subprocess.run(
        [server_binary("real"), "-t", "-c", file],
        cwd=directory,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    valid = _VALID.search(run.stderr)
    assert (run.returncode == 0) == (valid is not None), run.stderr
    if valid is not None:
        return Verdict(valid[1], frozenset())
    texts = run.stderr.removeprefix("nats-server: ").splitlines()
    return Verdict("", frozenset(text for text in texts if text.strip()))


def _ours(file: str) -> Verdict:
    try:
        parsed = parse_file(file, read=lambda path: Path(path).read_bytes(), environment=ENVIRONMENT)
        loaded = load(parsed, probes=Probes(check_tls=tls_problem, check_mapping=transform_problem))
    except ConfigError as error:
        return Verdict("", frozenset(str(error).splitlines()))
    if loaded.warnings:
        return Verdict("", frozenset(str(warning) for warning in loaded.warnings))
    return Verdict(loaded.options.config_digest, frozenset())


@pytest.mark.parametrize("name", CORPUS)
def test_same_verdict(name: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(directory)
    file = re.sub(r"\W+", "_", name) + ".conf"
    Path(file).write_text(CORPUS[name], encoding="utf-8")
    real, ours = _real(directory, file), _ours(file)
    assert ours.digest == real.digest, (real, ours)
    if real.lines:
        assert ours.lines == real.lines, (real, ours)
    if name in RANDOM_COLUMN:
        assert len(ours.words) == len(real.words)
    elif name not in OTHER_WORDS:
        assert ours.words == real.words
    else:
        assert ours.words != real.words, "the words are the same; take the name off the list"


CONTRADICTIONS = (
    "max_payload: 1MB, max_pending: 1k",
    'lame_duck_duration: "30s", lame_duck_grace_period: "30s"',
    "no_auth_user: x",
    "no_auth_user: x, authorization { users: [{user: y}] }",
    "websocket { port: -1 }",
    'websocket { port: -1, no_tls: true, allowed_origins: ["ftp://a"] }',
    'websocket { port: -1, no_tls: true, allowed_origins: ["http://"] }',
    "websocket { port: -1, no_tls: true, authorization { user: u } }, authorization { users: [{user: y}] }",
    "websocket { port: -1, no_tls: true, headers { Host: a } }",
    "websocket { port: -1, no_tls: true, headers { Sec-WebSocket-X: a } }",
    "websocket { port: -1, no_tls: true, jwt_cookie: c }",
    "leafnodes { port: -1, authorization { user: a, account: X } }",
    "gateway { port: -1 }",
    "gateway { name: a }",
    "gateway { name: a, port: -1, gateways: [{name: b}] }",
    "jetstream: true, cluster { port: -1 }",
    'jetstream { domain: "a.b" }',
    "default_sentinel: x",
    "system_account: X",
    "leafnodes { port: -1, compression: foo }",
    "cluster { port: -1, accounts: [A, A] }",
)


@pytest.mark.parametrize("text", CONTRADICTIONS)
def test_same_contradictions_at_start(text: str, tmp_path: Path) -> None:
    file = tmp_path / "t.conf"
    file.write_text(f"{text}\nport: -1\n", encoding="utf-8")
    run = _run("-c", str(file))
    assert run.returncode == 1
    (found, *_) = problems(
        load(parse_file(str(file), read=lambda path: Path(path).read_bytes(), environment={})).options
    )
    assert run.stderr == f"nats-server: {found}\n"


COMMAND_LINES = (
    ["-foo"],
    ["-p"],
    ["-p", "x"],
    ["--port=1x"],
    ["-p", "99999999999999999999"],
    ["-p", ""],
    ["-D=maybe"],
    ["-js=yes"],
    ["---p"],
    ["-=x"],
    ["foo"],
    ["-"],
    ["--", "-v"],
    ["-D", "false"],
    ["-t"],
    ["-c", "missing.conf"],
    ["-t", "-c", "missing.conf"],
    ["--tls"],
    ["--tlscert", "a"],
    ["--tls", "--tlscert", "missing.pem", "--tlskey", "b"],
    ["--routes", "nats://x"],
    ["--cluster", "foo"],
    ["--cluster", "nats://a@h:1"],
    ["--signal", "stop=not-a-pid"],
    ["--signal", "stop=a=b"],
)


@pytest.mark.parametrize("arguments", COMMAND_LINES, ids=" ".join)
def test_same_command_lines_are_refused(arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = _run(*arguments)
    ours = configure(arguments, {})
    assert isinstance(ours, Exit)
    assert (ours.code, ours.stderr.split("\n")[0]) == (run.returncode, run.stderr.split("\n")[0])


def test_version_and_help_have_the_same_streams() -> None:
    for argument in ("-v", "--version", "version", "-h", "--help", "help"):
        run, ours = _run(argument), configure([argument], {})
        assert isinstance(ours, Exit)
        assert (ours.code, bool(ours.stdout), ours.stderr) == (run.returncode, bool(run.stdout), run.stderr)
        if "v" in argument:
            assert re.fullmatch(r"nats-server: v\d+\.\d+\.\d+\n", ours.stdout)
            assert re.fullmatch(r"nats-server: v\d+\.\d+\.\d+\n", run.stdout)


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = server_binary("real")
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=20, check=False)


def test_corpus_holds_both_kinds() -> None:
    assert len(CORPUS) > 100
    assert OTHER_WORDS.keys() | RANDOM_COLUMN <= CORPUS.keys()
