"""From a command line to the options of a server, or to a reason to exit.

This is the edge of the configuration: it reads files, loads certificates to check them, sends signals to other
servers, and knows which text goes to which stream with which exit code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from slipstream.config.load import ConfigErrors, Loaded, Probes, load, unsupported
from slipstream.config.record import EMPTY, Record, replace
from slipstream.config.validate import problems
from slipstream.errors import ConfigError
from slipstream.server.process.flags import FlagError, Flags, help_text, overrides, parse_flags
from slipstream.version import SERVER_VERSION

if TYPE_CHECKING:
    from slipstream.config.listener_options import TLSOptions
    from slipstream.config.options import Options
    from slipstream.config.parser import Value

__all__ = ["Configured", "Exit", "configure", "reconfigure"]

_PROGRAM: Final = "nats-server"


class Exit(Record):
    """The process is to print and exit instead of serving."""

    code: int
    stdout: str = ""
    stderr: str = ""


class Configured(Record):
    """The process is to serve with these options."""

    options: Options
    flags: Flags
    warnings: tuple[ConfigError, ...] = ()

    def warning_text(self) -> str:
        """What to print on stderr before serving; empty if nothing is to be said."""
        return "".join(f"{warning}\n" for warning in self.warnings)


def configure(arguments: Sequence[str], environment: Mapping[str, str] = EMPTY) -> Configured | Exit:
    """Read the command line and the configuration file it names.

    Args:
        arguments: what follows the name of the program.
        environment: variables for `$NAME` in the file.
    """
    try:
        flags = parse_flags(arguments)
    except FlagError as error:
        # Exit code 0 is nats-server's: its usage function ends the process.
        return Exit(0, stdout=help_text(_PROGRAM), stderr=f"{error.message}\n")
    shown = _shown(flags)
    if shown is not None:
        return shown
    try:
        if flags.text("sl"):
            from slipstream.server.process.signals import send_signal

            send_signal(flags.text("sl"))
            return Exit(0)
        if flags.is_on("t"):
            return _checked(flags, environment)
        loaded = _loaded(flags, environment)
        _require_startable(loaded.options)
    except ConfigError as error:
        return Exit(1, stderr=f"{_PROGRAM}: {error}\n")
    return Configured(loaded.options, flags, loaded.warnings)


def reconfigure(flags: Flags, environment: Mapping[str, str] = EMPTY) -> Loaded:
    """Read the configuration file again, for a reload.

    Raises:
        ConfigError: there is no file, or it cannot be used.
    """
    if not flags.text("c"):
        raise ConfigError("can only reload config when a file is provided using -c or --config")
    loaded = _loaded(flags, environment)
    _require_startable(loaded.options)
    return loaded


def _shown(flags: Flags) -> Exit | None:
    """The answer to a command line that asks for a text."""
    command = flags.command.lower()
    if flags.is_on("v"):
        return Exit(0, stdout=f"{_PROGRAM}: v{SERVER_VERSION}\n")
    if flags.is_on("h"):
        return Exit(0, stdout=help_text(_PROGRAM))
    if flags.is_on("help_tls"):
        return Exit(0, stdout=_tls_help())
    if command == "version":
        return Exit(0, stdout=f"{_PROGRAM}: v{SERVER_VERSION}\n")
    if command == "help":
        return Exit(0, stdout=help_text(_PROGRAM))
    if command:
        return Exit(1, stderr=f'{_PROGRAM}: unrecognized command: "{flags.command}"\n')
    return None


def _tls_help() -> str:
    from slipstream.config.keys.tls import CIPHER_SUITES, CURVES, INSECURE_CIPHER_SUITES

    def listed(title: str, names: Sequence[str]) -> str:
        return f"\n{title}:\n" + "".join(f"    {name}\n" for name in names)

    return (
        "TLS is configured by a tls block: cert_file, key_file, ca_file, verify, cipher_suites, curve_preferences.\n"
        + listed("Cipher suites", CIPHER_SUITES)
        + listed("Cipher suites that need allow_insecure_cipher_suites", INSECURE_CIPHER_SUITES)
        + listed("Curves", CURVES)
    )


def _checked(flags: Flags, environment: Mapping[str, str]) -> Exit:
    """`-t`: the verdict about a file. A warning is a verdict, too, as in nats-server."""
    path = flags.text("c")
    if not path:
        raise ConfigError("must specify [-c, --config] option to check configuration file syntax")
    loaded = load(_parsed(path, environment), probes=_PROBES)
    if loaded.options.trusts_operators:
        from slipstream.server.logins.operators import with_tokens

        with_tokens(loaded.options)
    found = (*loaded.warnings, *unsupported(loaded.options))
    if found:
        raise ConfigErrors(found)
    text = f"{_PROGRAM}: configuration file {path} is valid ({loaded.options.config_digest})\n"
    return Exit(0, stderr=text)


def _loaded(flags: Flags, environment: Mapping[str, str]) -> Loaded:
    fields = overrides(flags)
    path = flags.text("c")
    loaded = load(_parsed(path, environment) if path else None, overrides=fields, probes=_PROBES)
    if loaded.options.trusts_operators:
        from slipstream.server.logins.operators import with_tokens

        loaded = replace(loaded, options=with_tokens(loaded.options))
    options = loaded.options
    if isinstance(fields.get("tls"), Record) and options.tls is not None:
        problem = _tls_problem(options.tls)
        if problem is not None:
            raise ConfigError(problem)
    if flags.text("routes") and not options.cluster.port and not options.cluster.host:
        raise ConfigError("solicited routes require cluster capabilities, e.g. --cluster")
    return loaded


def _require_startable(options: Options) -> None:
    found = [*problems(options), *unsupported(options)]
    if options.trusts_operators:
        from slipstream.server.logins.operators import operator_problems

        found += operator_problems(options)
    if found:
        raise ConfigErrors(tuple(found))


# --- the outside -----------------------------------------------------------------------------------------------------


def _parsed(path: str, environment: Mapping[str, str]) -> Value:
    from slipstream.config.parser import parse_file  # a start without a file does not need it

    return parse_file(path, read=_read_file, environment=environment)


def _read_file(path: str) -> bytes:
    from slipstream.limits import CONFIG_FILE_MAX_BYTES

    with open(path, "rb") as file:
        return file.read(CONFIG_FILE_MAX_BYTES + 1)


def _tls_problem(options: TLSOptions) -> str | None:
    from slipstream.server.sockets.tls import tls_problem  # loads OpenSSL

    return tls_problem(options)


def _mapping_problem(source: str, destination: str) -> str | None:
    from slipstream.subjects.transform import transform_problem

    return transform_problem(source, destination)


def _declared_problem(block: Value) -> tuple[str, tuple[str, int, int]] | None:
    from slipstream.declared.config_block import block_problem  # knows the JetStream API

    return block_problem(block)


_PROBES: Final = Probes(check_tls=_tls_problem, check_mapping=_mapping_problem, check_declared=_declared_problem)
