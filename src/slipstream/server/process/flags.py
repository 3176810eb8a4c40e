"""The command line: nats-server's flags with the rules of Go's flag package.

One or two dashes are the same; `-flag value` or `-flag=value`; a boolean flag takes its value only with `=`; the first
argument that is not a flag ends the flags, and can be `version` or `help`; the last of several wins.

What this is not: it reads no file and sets no option by itself. The result says what was asked for; the values become
overrides of a configuration (`overrides`), keyed as `slipstream.config.load` wants them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from slipstream.config.listener_options import TLSOptions
from slipstream.config.record import EMPTY, Record
from slipstream.errors import ConfigError
from slipstream.limits import DEFAULT_PORT

__all__ = ["FLAGS", "Flag", "FlagError", "Flags", "help_text", "overrides", "parse_flags"]

FlagKind = Literal["string", "integer", "boolean"]

_INT64_MAX: Final = 2**63 - 1
_BOOLEANS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


class FlagError(ConfigError):
    """The command line cannot be understood; nats-server shows its usage then."""


class Flag(Record):
    """One flag with its names."""

    names: tuple[str, ...]  # without dashes
    kind: FlagKind
    help: str
    argument: str = ""  # shown in the help
    option: str = ""  # field of the options it overrides, if it is that simple


_SECTIONS: Final[tuple[tuple[str, tuple[Flag, ...]], ...]] = (
    (
        "Server",
        (
            Flag(("a", "addr", "net"), "string", "Address to listen on (0.0.0.0)", "host", "host"),
            Flag(("p", "port"), "integer", "Port for clients (4222); -1 picks a free one", "port"),
            Flag(("n", "name", "server_name"), "string", "Name of the server", "name", "server_name"),
            Flag(("P", "pid"), "string", "Write the process id to a file", "file", "pidfile"),
            Flag(("m", "http_port"), "integer", "Port for HTTP monitoring", "port", "http_port"),
            Flag(("ms", "https_port"), "integer", "Port for HTTPS monitoring", "port", "https_port"),
            Flag(("c", "config"), "string", "Configuration file", "file"),
            Flag(("t",), "boolean", "Check the configuration file and exit"),
            Flag(
                ("sl", "signal"),
                "string",
                "Send ldm, stop, quit, term, reopen or reload to a server; pid may be a pid file, may end in *, and is "
                "not needed for the only server",
                "signal[=pid]",
            ),
            Flag(("client_advertise",), "string", "Address that clients are told", "address", "client_advertise"),
            Flag(("ports_file_dir",), "string", "Write a file with the ports in use here", "dir", "ports_file_dir"),
        ),
    ),
    (
        "Logging",
        (
            Flag(("l", "log"), "string", "Log to a file", "file", "logfile"),
            Flag(("T", "logtime"), "boolean", "Log lines start with the time (true)", option="logtime"),
            Flag(("logtime_utc",), "boolean", "Times in UTC (false)", option="logtime_utc"),
            Flag(("s", "syslog"), "boolean", "Log to syslog", option="syslog"),
            Flag(("r", "remote_syslog"), "string", "Address of a syslog server", "address", "remote_syslog"),
            Flag(("D", "debug"), "boolean", "Log debug messages", option="debug"),
            Flag(("V", "trace"), "boolean", "Log protocol operations", option="trace"),
            Flag(("VV",), "boolean", "Log protocol operations, also of the system account"),
            Flag(("DV",), "boolean", "-D and -V"),
            Flag(("DVV",), "boolean", "-D and -VV"),
            Flag(("log_size_limit",), "integer", "Rotate the log file at this size", "bytes", "logfile_size_limit"),
            Flag(
                ("max_traced_msg_len",),
                "integer",
                "Bytes of a payload in the trace (all)",
                "bytes",
                "max_traced_msg_len",
            ),
        ),
    ),
    (
        "JetStream",
        (
            Flag(("js", "jetstream"), "boolean", "Turn JetStream on", option="jetstream.enabled"),
            Flag(("sd", "store_dir"), "string", "Directory of the streams", "dir", "jetstream.store_dir"),
        ),
    ),
    (
        "Authorization",
        (
            Flag(("user",), "string", "User that clients must give", "user", "authorization.user"),
            Flag(("pass",), "string", "Password that clients must give", "password", "authorization.password"),
            Flag(("auth",), "string", "Token that clients must give", "token", "authorization.token"),
        ),
    ),
    (
        "TLS",
        (
            Flag(("tls",), "boolean", "Use TLS without client certificates (false)"),
            Flag(("tlscert",), "string", "Certificate of the server", "file"),
            Flag(("tlskey",), "string", "Private key of the server", "file"),
            Flag(("tlsverify",), "boolean", "Use TLS and check client certificates"),
            Flag(("tlscacert",), "string", "Authority of client certificates", "file"),
        ),
    ),
    (
        "Cluster",
        (
            Flag(("routes",), "string", "Servers to connect to, separated by commas", "urls"),
            Flag(("cluster", "cluster_listen"), "string", "Address for routes, e.g. nats://0.0.0.0:6222", "url"),
            Flag(("cluster_name",), "string", "Name of the cluster", "name", "cluster.name"),
            Flag(("no_advertise",), "boolean", "Do not tell clients about other servers", "", "cluster.no_advertise"),
            Flag(("cluster_advertise",), "string", "Address that servers are told", "address", "cluster.advertise"),
            Flag(("connect_retries",), "integer", "Attempts to reach a server", "number", "cluster.connect_retries"),
        ),
    ),
    ("Profiling", (Flag(("profile",), "integer", "Port of the profiler", "port", "prof_port"),)),
    (
        "Common",
        (
            Flag(("h", "help"), "boolean", "Show this text"),
            Flag(("v", "version"), "boolean", "Show the version"),
            Flag(("help_tls",), "boolean", "Show the names of cipher suites and curves"),
        ),
    ),
)

FLAGS: Final[tuple[Flag, ...]] = tuple(flag for _, flags in _SECTIONS for flag in flags)
_BY_NAME: Final = {name: flag for flag in FLAGS for name in flag.names}


class Flags(Record):
    """What a command line asks for. Values are by the first name of their flag."""

    values: Mapping[str, str | int | bool] = EMPTY
    command: str = ""  # first argument that is not a flag

    def text(self, name: str) -> str:
        """Value of a string flag; empty if it was not given."""
        value = self.values.get(name, "")
        assert isinstance(value, str)
        return value

    def is_on(self, name: str) -> bool:
        """Whether a boolean flag is given and true."""
        return self.values.get(name) is True


def parse_flags(arguments: Sequence[str]) -> Flags:
    """Read the arguments after the program's name.

    Raises:
        FlagError: an unknown flag, or a value of the wrong kind.
    """
    values: dict[str, str | int | bool] = {}
    index = 0
    while index < len(arguments):
        argument = arguments[index]
        if len(argument) < 2 or not argument.startswith("-"):
            break
        index += 1
        if argument == "--":
            break
        name, equals, given = argument[2 if argument.startswith("--") else 1 :].partition("=")
        if not name or name.startswith("-"):
            raise FlagError(f"bad flag syntax: {argument}")
        flag = _BY_NAME.get(name)
        if flag is None:
            raise FlagError(f"flag provided but not defined: -{name}")
        if flag.kind == "boolean":
            if equals and given not in _BOOLEANS:
                raise FlagError(f"invalid boolean value {_quoted(given)} for -{name}: parse error")
            values[flag.names[0]] = _BOOLEANS[given] if equals else True
            continue
        if not equals:
            if index == len(arguments):
                raise FlagError(f"flag needs an argument: -{name}")
            given = arguments[index]
            index += 1
        values[flag.names[0]] = given if flag.kind == "string" else _integer(name, given)
    return Flags(values, arguments[index] if index < len(arguments) else "")


def _integer(name: str, given: str) -> int:
    """A number as Go reads it: decimal, or with a prefix for another base, with or without underscores."""
    digits = given.lstrip("+-")
    # Python reads "010" only with base 10, Go takes it as octal.
    base = 8 if len(digits) > 1 and digits[0] == "0" and digits[1] in "01234567_" else 0
    try:
        number = int(given, base) if len(given) <= 80 and given == given.strip() else None
    except ValueError:
        number = None
    if number is None:
        raise FlagError(f"invalid value {_quoted(given)} for flag -{name}: parse error")
    if not -_INT64_MAX - 1 <= number <= _INT64_MAX:
        raise FlagError(f"invalid value {_quoted(given)} for flag -{name}: value out of range")
    return number


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# --- flags as overrides ----------------------------------------------------------------------------------------------


def overrides(flags: Flags) -> dict[str, object]:
    """Fields of the options that flags set, whatever the file says.

    Raises:
        ConfigError: flags that contradict each other or need others.
    """
    fields: dict[str, object] = {}
    for name, value in flags.values.items():
        option = _BY_NAME[name].option
        if option:
            fields[option] = value
    if "p" in flags.values:
        fields["port"] = flags.values["p"] or DEFAULT_PORT
    for name, names in (("DV", ("debug", "trace")), ("DVV", _ALL_TRACES), ("VV", ("trace", "trace_verbose"))):
        if name in flags.values:
            fields.update(dict.fromkeys(names, flags.values[name]))
    fields.update(_tls_overrides(flags))
    fields.update(_cluster_overrides(flags))
    return fields


_ALL_TRACES: Final = ("debug", "trace", "trace_verbose")
_TLS_FLAGS: Final = ("tls", "tlscert", "tlskey", "tlsverify", "tlscacert")


def _tls_overrides(flags: Flags) -> dict[str, object]:
    if flags.values.get("tls") is False:
        return {"tls": None}
    if not any(name in flags.values for name in _TLS_FLAGS):
        return {}
    if not flags.text("tlscert"):
        raise ConfigError("TLS Server certificate must be present and valid")
    if not flags.text("tlskey"):
        raise ConfigError("TLS Server private key must be present and valid")
    tls = TLSOptions(
        cert_file=flags.text("tlscert"),
        key_file=flags.text("tlskey"),
        ca_file=flags.text("tlscacert"),
        verify=flags.is_on("tlsverify"),
    )
    return {"tls": tls}


def _cluster_overrides(flags: Flags) -> dict[str, object]:
    fields: dict[str, object] = {}
    if "routes" in flags.values:
        routes = (route.strip() for route in flags.text("routes").split(","))
        fields["cluster.routes"] = tuple(route for route in routes if route)
    if "cluster" not in flags.values:
        return fields
    listen = flags.text("cluster")
    if not listen:
        return {**fields, "cluster.port": 0}
    from urllib.parse import unquote, urlsplit

    from slipstream.config.addresses import split_host_port

    # A port of -1 is no URL; it is put back afterwards.
    random_port = listen.endswith(":-1")
    parts = urlsplit(f"{listen[:-3]}:0" if random_port else listen)
    user_info, _, address = parts.netloc.rpartition("@")
    split = split_host_port(address)
    if split is None or not split[1].isdecimal() or len(split[1]) > 5:
        raise ConfigError("missing port in address")
    user, colon, password = user_info.partition(":")
    if user_info and not colon:
        raise ConfigError("expected cluster password to be set")
    return {
        **fields,
        "cluster.host": split[0],
        "cluster.port": -1 if random_port else int(split[1]),
        "cluster.user": unquote(user),
        "cluster.password": unquote(password),
    }


# --- help ------------------------------------------------------------------------------------------------------------


_HELP_WIDTH: Final = 80
_HELP_COLUMN: Final = 38  # behind the longest list of names


def help_text(program: str = "nats-server") -> str:
    """All flags, by section."""
    from textwrap import wrap

    lines = [f"Usage: {program} [flags]"]
    for section, flags in _SECTIONS:
        lines += ["", f"{section}:"]
        for flag in flags:
            first, *others = flag.names
            names = ", ".join((f"-{first}" if len(first) <= 3 else f"--{first}", *(f"--{name}" for name in others)))
            left = f"  {names} <{flag.argument}>" if flag.argument else f"  {names}"
            first_line, *rest = wrap(flag.help, _HELP_WIDTH - _HELP_COLUMN)
            lines.append(f"{left:<{_HELP_COLUMN}}{first_line}")
            lines += (f"{'':<{_HELP_COLUMN}}{line}" for line in rest)
    return "\n".join(lines) + "\n"
