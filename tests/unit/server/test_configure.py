"""From a command line to options or an exit: which text, which stream, which code."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from slipstream.config.jetstream_options import JetStreamOptions
from slipstream.config.options import Options
from slipstream.errors import ConfigError
from slipstream.server.errors import StartError
from slipstream.server.process.configure import Configured, Exit, configure, reconfigure
from slipstream.server.server import Server
from slipstream.version import SERVER_VERSION


def _options(*arguments: str) -> Options:
    result = configure(arguments, {})
    assert isinstance(result, Configured), result
    return result.options


def _exit(*arguments: str) -> Exit:
    result = configure(arguments, {})
    assert isinstance(result, Exit), result
    return result


def test_no_arguments() -> None:
    assert _options().port == 4222


@pytest.mark.parametrize("arguments", [["-v"], ["--version"], ["version"], ["-v", "-p", "1"]])
def test_version(arguments: list[str]) -> None:
    assert _exit(*arguments) == Exit(0, stdout=f"nats-server: v{SERVER_VERSION}\n")


@pytest.mark.parametrize("arguments", [["-h"], ["--help"], ["help"]])
def test_help(arguments: list[str]) -> None:
    result = _exit(*arguments)
    assert (result.code, result.stderr) == (0, "")
    assert result.stdout.startswith("Usage: nats-server")


def test_tls_help() -> None:
    assert "TLS_AES_128_GCM_SHA256" in _exit("--help_tls").stdout


def test_unknown_flag_shows_the_usage() -> None:
    result = _exit("-foo")
    assert (result.code, result.stderr) == (0, "flag provided but not defined: -foo\n")  # nats-server's exit code
    assert result.stdout.startswith("Usage: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["foo"], 'unrecognized command: "foo"'),
        (["-t"], "must specify [-c, --config] option to check configuration file syntax"),
        (["-c", "/nope/x.conf"], "open /nope/x.conf: no such file or directory"),
        (["-c", "/"], "read /: is a directory"),
        (["--tls"], "TLS Server certificate must be present and valid"),
        (["--routes", "nats://a"], "solicited routes require cluster capabilities, e.g. --cluster"),
        (["--signal", "stop=a=b"], "invalid signal parameters: [b]"),
        (["--signal", "stop=abc"], "invalid pid: abc"),
        (["--signal", "stop=abc*"], "invalid pid: abc"),
        (["--signal", "stop=0"], "invalid pid: 0"),
        (["--signal", "stop=-1"], "invalid pid: -1"),
        (["--signal", "stop=99999999999999"], "invalid pid: 99999999999999"),
        (["--signal", f"nope={os.getpid()}"], 'unknown signal "nope"'),
    ],
)
def test_refusals(arguments: list[str], message: str) -> None:
    assert _exit(*arguments) == Exit(1, stderr=f"nats-server: {message}\n")


def test_missing_tls_files() -> None:
    result = _exit("--tls", "--tlscert", "/nope/a", "--tlskey", "/nope/b")
    assert result.stderr == (
        "nats-server: error parsing X509 certificate/key pair: open /nope/a: no such file or directory\n"
    )


def test_signal_to_a_process_by_number_and_by_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    pid_file = tmp_path / "server.pid"
    pid_file.write_text("4711\n", encoding="utf-8")
    for name in ("stop", "quit", "term", "reopen", "reload", "ldm"):
        assert _exit("--signal", f"{name}=4711") == Exit(0)
    assert _exit("-sl", f"reload={pid_file}") == Exit(0)
    wanted = [signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGUSR2]
    assert sent == [(4711, number) for number in (*wanted, signal.SIGHUP)]


def test_signal_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def kill(_pid: int, _number: int) -> None:
        raise ProcessLookupError(3, "No such process")

    monkeypatch.setattr(os, "kill", kill)
    assert _exit("--signal", "stop=4711").stderr == 'nats-server: \nsignal "stop" 4711: no such process\n'


class TestWithFile:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "server.conf"

    def test_flags_override_it(self, path: Path) -> None:
        path.write_text("port: 1\nserver_name: $NAME\n", encoding="utf-8")
        result = configure(["-c", str(path), "-p", "2"], {"NAME": "n"})
        assert isinstance(result, Configured)
        assert (result.options.port, result.options.server_name) == (2, "n")
        assert result.warning_text() == ""

    def test_check(self, path: Path) -> None:
        path.write_text("port: 4222", encoding="utf-8")
        digest = "sha256:797533ebd0dfba7d34a0f9337ecf147e442871f48ddfd07ed751575a5737267e"
        text = f"nats-server: configuration file {path} is valid ({digest})\n"
        assert _exit("-t", "-c", str(path)) == Exit(0, stderr=text)

    def test_check_of_a_bad_file(self, path: Path) -> None:
        path.write_text("foo: 1\nport: x", encoding="utf-8")
        conversion = "interface conversion: interface {} is string, not int64"
        text = f'nats-server: {path}:1:0: unknown field "foo"\n{path}:2:1: {conversion}\n'
        assert _exit("-t", "-c", str(path)) == Exit(1, stderr=text)
        assert _exit("-c", str(path)) == Exit(1, stderr=text)

    def test_a_warning_fails_the_check_and_not_the_start(self, path: Path) -> None:
        path.write_text("ping_interval: 5", encoding="utf-8")
        assert _exit("-t", "-c", str(path)).code == 1
        result = configure(["-c", str(path)], {})
        assert isinstance(result, Configured)
        assert result.warning_text().startswith(f'{path}:1:0: invalid use of field "ping_interval"')

    def test_syntax_error(self, path: Path) -> None:
        path.write_text("port: [", encoding="utf-8")
        assert "nats-server: Parse error on line 1: " in _exit("-c", str(path)).stderr

    def test_what_cannot_be_served_is_refused(self, path: Path) -> None:
        path.write_text("debug: true\nmqtt { port: 1883 }", encoding="utf-8")
        text = f"nats-server: {path}:2:1: MQTT is not supported yet\n"
        assert _exit("-c", str(path)) == Exit(1, stderr=text)
        assert _exit("-t", "-c", str(path)) == Exit(1, stderr=text)

    def test_contradictions_are_refused_at_start_only(self, path: Path) -> None:
        path.write_text("websocket { port: 80 }", encoding="utf-8")
        assert _exit("-c", str(path)) == Exit(1, stderr="nats-server: websocket requires TLS configuration\n")
        assert _exit("-t", "-c", str(path)).code == 0

    def test_bad_mapping(self, path: Path) -> None:
        path.write_text('mappings { "a.*": "b.$2" }', encoding="utf-8")
        assert "wildcard index out of range" in _exit("-t", "-c", str(path)).stderr

    def test_read_again(self, path: Path) -> None:
        path.write_text("port: 1, debug: false", encoding="utf-8")
        first = configure(["-c", str(path), "-p", "2"], {})
        assert isinstance(first, Configured)
        path.write_text("port: 1, debug: true", encoding="utf-8")
        again = reconfigure(first.flags, {}).options
        assert (again.port, again.debug) == (2, True)
        path.write_text("port: x", encoding="utf-8")
        with pytest.raises(ConfigError):
            reconfigure(first.flags, {})

    def test_without_file_there_is_nothing_to_read_again(self) -> None:
        first = configure([], {})
        assert isinstance(first, Configured)
        with pytest.raises(ConfigError, match="can only reload config when a file is provided using -c or --config"):
            reconfigure(first.flags, {})


class TestEncryption:
    """Whoever asks for encryption gets it, or no server."""

    def test_every_way_in_takes_the_key_and_shows_it_nowhere(self, tmp_path: Path) -> None:
        path = tmp_path / "server.conf"
        path.write_text("jetstream { key: $JS_KEY, cipher: aes }\n", encoding="utf-8")
        for arguments in (["-c", str(path)], ["-js", "-sd", str(tmp_path), "-c", str(path)]):
            result = configure(arguments, {"JS_KEY": "secret"})
            assert not isinstance(result, Exit), arguments
            assert result.options.jetstream.key == "secret"
            assert "secret" not in repr(result)

    def test_a_cipher_without_a_key_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "server.conf"
        path.write_text("jetstream { cipher: aes }\n", encoding="utf-8")
        result = configure(["-c", str(path)], {})
        assert isinstance(result, Exit)
        assert result.code == 1

    async def test_a_server_inside_a_program_refuses_the_wrong_key(self, tmp_path: Path) -> None:
        def options(key: str) -> Options:
            return Options(port=-1, jetstream=JetStreamOptions(enabled=True, store_dir=str(tmp_path), key=key))

        async with Server(options("secret")):
            pass
        with pytest.raises(StartError, match="key"):
            await Server(options("another")).start()
