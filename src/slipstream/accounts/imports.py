"""What an account takes from others, resolved: which account, which subjects, under which names.

    stream    a message in the exporting account on `remote` is seen here on `local_subject(remote)`
    service   a request made here on `subject` goes to the exporting account as `remote_subject(subject)`

Wildcards are carried over: `to` may use `*` (in order) or `$n` for the wildcards of the exporter's subject.

What it is not: delivery, answers, nor the check that the exporter agrees (`graph`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from slipstream.config.record import Record
from slipstream.errors import ConfigError
from slipstream.kernels.subjects.subject import is_literal, is_valid_subscription, matches

if TYPE_CHECKING:
    from slipstream.accounts.exports import Export
    from slipstream.config.account_options import ImportOptions, LatencyOptions
    from slipstream.subjects.transform import SubjectTransform

__all__ = ["ServiceImport", "StreamImport", "resolve_service", "resolve_stream"]


class StreamImport(Record):
    """Subjects of another account that can be subscribed to here."""

    exporter: str  # name of the account
    remote: bytes  # pattern in the exporting account
    subject: bytes  # pattern here
    transform: SubjectTransform | None  # None: every match keeps its name, or has the one name `subject`
    allow_trace: bool = False

    def local_subject(self, remote: bytes) -> bytes | None:
        """What a message of the exporting account is called here; None when the import does not cover it."""
        if not matches(self.remote, remote):
            return None
        if self.transform is not None:
            return self.transform.apply(remote, _no_dice)
        return remote if self.subject == self.remote else self.subject


class ServiceImport(Record):
    """Requests that another account answers."""

    exporter: str  # name of the account
    subject: bytes  # pattern here
    remote: bytes  # pattern in the exporting account
    transform: SubjectTransform | None  # None: every match keeps its name, or has the one name `remote`
    response_type: Literal["single", "stream", "chunked"] = "single"
    response_threshold_ns: int = 0
    share: bool = False  # tell the exporter who asked
    latency: LatencyOptions | None = None
    allow_trace: bool = False

    def remote_subject(self, subject: bytes) -> bytes | None:
        """What a request made here is called in the exporting account; None when the import does not cover it."""
        if not matches(self.subject, subject):
            return None
        if self.transform is not None:
            return self.transform.apply(subject, _no_dice)
        return subject if self.subject == self.remote else self.remote


def resolve_stream(options: ImportOptions) -> StreamImport:
    """Work out the names of a stream import.

    Raises:
        ConfigError: the names cannot be used, with nats-server's text.
    """
    remote = options.subject.encode()
    local = (options.to or options.subject).encode()
    if options.prefix:
        prefix = options.prefix.encode()
        if not is_literal(prefix):
            raise ConfigError("stream import prefix can not contain wildcard tokens")
        local = prefix.removesuffix(b".") + b"." + remote
    transform = None
    if not is_literal(remote) and local != remote:
        transform = _transform("stream", remote, local)
        local = _with_wildcards(local)
    _check(remote, local)
    return StreamImport(options.account, remote, local, transform, options.allow_trace)


def resolve_service(options: ImportOptions, export: Export) -> ServiceImport:
    """Work out the names of a service import; the export says how it answers.

    Raises:
        ConfigError: the names cannot be used, with nats-server's text.
    """
    remote = options.subject.encode()
    local = (options.to or options.subject).encode()
    transform = None
    if not is_literal(remote) and local != remote:
        # Written from the exporter's side, where the wildcards are; used in the other direction.
        transform = _transform("service", remote, local).reversed()
        local = _with_wildcards(local)
    _check(local, remote)
    return ServiceImport(
        options.account,
        local,
        remote,
        transform,
        export.response_type,
        export.response_threshold_ns,
        options.share,
        export.latency,
        export.allow_trace,
    )


def _transform(kind: str, remote: bytes, local: bytes) -> SubjectTransform:
    from slipstream.subjects.transform import InvalidTransform, SubjectTransform

    try:
        return SubjectTransform(remote, _with_markers(local), reversible=True)
    except InvalidTransform as problem:
        # nats-server names the subjects in the order in which the messages travel.
        first, second = (remote, local) if kind == "stream" else (local, remote)
        names = f'from "{first.decode()}" to "{second.decode()}"'
        raise ConfigError(
            f"failed to create mapping transform for {kind} import subject {names}: {problem.message}"
        ) from problem


def _check(*subjects: bytes) -> None:
    if not all(is_valid_subscription(subject) for subject in subjects):
        raise ConfigError("invalid subject")


def _with_markers(subject: bytes) -> bytes:
    """`a.*.*` as a transform destination: `a.$1.$2`."""
    tokens, count = subject.split(b"."), 0
    for index, token in enumerate(tokens):
        if token == b"*":
            count += 1
            tokens[index] = b"$%d" % count
    return b".".join(tokens)


def _with_wildcards(subject: bytes) -> bytes:
    """A transform destination as a pattern: `a.$2.$1` becomes `a.*.*`."""
    return b".".join(b"*" if _is_marker(token) else token for token in subject.split(b"."))


def _is_marker(token: bytes) -> bool:
    return (token[:1] == b"$" and token[1:].isdigit()) or (token.startswith(b"{{") and token.endswith(b"}}"))


def _no_dice(_limit: int) -> int:
    raise AssertionError("an import is reversible, so it rolls no dice")
