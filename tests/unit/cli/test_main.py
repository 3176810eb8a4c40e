"""The root of the command line, through real processes."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from slipstream.cli import render, tools
from slipstream.cli.lazy import LazyGroup
from slipstream.cli.main import cli

PROGRAM = [sys.executable, "-c", "from slipstream.cli.main import main; main()"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, timeout=30, check=False)


def test_help_lists_the_commands() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert "bench" in done.stdout and "server" in done.stdout


def test_unknown_commands_suggest_the_nearest() -> None:
    done = run("sever")
    assert done.returncode == 2
    assert "Did you mean 'server'?" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("stream", "ls", "--bogus"), "No such option '--bogus'."),
        (("account", "restore", "--force"), "No such option '--force'."),
        (("stream", "add", "--subject", "a"), "No such option '--subject'. Did you mean '--subjects'?"),
        (("stream", "add", "--defualts"), "No such option '--defualts'. Did you mean '--defaults'?"),
        (("stream", "ls", "--sever", "x"), "No such option '--sever'. Did you mean '--server'?"),
        (("create",), "No such command 'create'."),
        (("stream", "lss"), "No such command 'lss'. Did you mean 'ls'?"),
    ],
)
def test_only_what_is_near_is_suggested(arguments: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(cli, arguments)
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (2, f"Error: {said}")


def test_small_tools_suggest_what_is_near() -> None:
    result = CliRunner().invoke(tools.sub, ["--bogus", "x"])
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (2, "Error: No such option '--bogus'.")
    result = CliRunner().invoke(tools.sub, ["--que", "x"])
    assert result.stderr.splitlines()[-1] == "Error: No such option '--que'. Did you mean '--queue'?"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("stream", "get", "ORDERS", "abc"), "Invalid value for 'SEQ': 'abc' is not a whole number."),
        (("bench", "pub", "foo", "--clients", "0"), "Invalid value for '--clients': 0 is not between 1 and 1000."),
        (
            ("bench", "pub", "foo", "--timeout", "soon"),
            "Invalid value for '--timeout': 'soon' is not a duration such as 2s, 1h30m or 7d",
        ),
        (("spark", "stats", "ORDERS", "--top", "-1"), "Invalid value for '--top': -1 is less than 0."),
    ],
)
def test_what_is_wrong_with_a_number_is_said_in_words(arguments: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == f"Error: {said}"


def test_server_takes_the_flags_of_nats_server(tmp_path: Path) -> None:
    assert run("server", "run", "--version").stdout.startswith("nats-server: v")
    config = tmp_path / "c.conf"
    config.write_text("port: -1\nnonsense: 1\n")
    done = run("server", "run", "-c", str(config))
    assert done.returncode == 1
    assert 'unknown field "nonsense"' in done.stderr


def test_server_runs_until_it_is_told_to_stop() -> None:
    process = subprocess.Popen(
        [*PROGRAM, "server", "run", "-p", "-1", "-a", "127.0.0.1"], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    with process.stderr:
        for line in process.stderr:
            if "Server is ready" in line:
                process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0


def test_help_imports_little() -> None:
    """Help is there at once because it imports neither the client nor rich, whatever commands there are."""
    code = "import sys; from slipstream.cli.main import cli; cli(['--help'], standalone_mode=False); "
    code += "print(sorted({'rich', 'asyncio', 'msgspec', 'ssl', 'nats', 'json'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def commands(command: click.Command, path: str = "slipstream") -> Iterator[tuple[str, click.Command]]:
    """A command and all below it, those that help does not list as well."""
    yield path, command
    if isinstance(command, LazyGroup):
        for name in command.entries:
            found = command.get_command(click.Context(command), name)
            assert found is not None
            yield from commands(found, f"{path} {name}")
    elif isinstance(command, click.Group):
        for name, found in command.commands.items():
            yield from commands(found, f"{path} {name}")


def test_help_fits_a_terminal_and_is_written_for_people() -> None:
    for path, command in commands(cli):
        if command.callback is None or not command.add_help_option:
            continue  # `server run` has the help of the server
        context = click.Context(command, info_name=path, terminal_width=80)
        text = command.get_help(context)
        assert max(map(len, text.splitlines())) <= 80, path
        assert "RANGE" not in text and "x>=" not in text, path
        flags = re.findall(r"^  (\S+)", text.rpartition("\nOptions:\n")[2].partition("\n\n")[0], re.MULTILINE)
        assert flags and all(flag.startswith("-") for flag in flags), (path, flags)
        assert not re.search(r"[a-z,]\.\.\.$", text, re.MULTILINE), f"a line of {path} is cut off"


def test_every_command_can_be_imported_and_explains_itself() -> None:
    from click.testing import CliRunner

    from slipstream.cli.lazy import LazyGroup
    from slipstream.cli.main import cli

    def check(group: LazyGroup, words: list[str]) -> None:
        for name in group.entries:
            result = CliRunner().invoke(cli, [*words, name, "--help"])
            assert result.exit_code == 0, (words, name, result.output)
            command = group.get_command(click.Context(group), name)
            if isinstance(command, LazyGroup):
                check(command, [*words, name])

    check(cli, [])


def test_aliases_are_not_used_twice() -> None:
    from slipstream.cli.lazy import LazyGroup
    from slipstream.cli.main import cli

    def check(group: LazyGroup) -> int:
        names = [alias for name, entry in group.entries.items() for alias in (name, *entry.aliases)]
        assert len(names) == len(set(names)), group.name
        commands = [group.get_command(click.Context(group), name) for name in group.entries]
        return 1 + sum(check(command) for command in commands if isinstance(command, LazyGroup))

    assert check(cli) > 10


def test_connection_flags_stand_anywhere() -> None:
    for arguments in (["-s", "x://y", "s", "ls"], ["s", "-s", "x://y", "ls"], ["s", "ls", "-s", "x://y"]):
        assert "not a server URL" in run(*arguments).stderr


def test_descriptions_of_errors_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "_WIDTH_UNLIMITED", 80)
    shown = CliRunner().invoke(cli, ["errors", "ls", "10058"]).stdout.splitlines()
    assert "│ 10058 │  400 │ stream name already in use with a different configuration │" in shown
