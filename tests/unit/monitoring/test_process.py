"""What is told about the process, and what is not."""

from __future__ import annotations

from time import process_time_ns

import pytest

from slipstream.monitoring.process import Usage, redacted

SECOND = 10**9


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (["--user", "me", "--pass", "geheim"], ["--user", "[REDACTED]", "--pass", "[REDACTED]"]),
        (["-pass=geheim", "--auth=geheim"], ["-pass=[REDACTED]", "--auth=[REDACTED]"]),
        (["--pass"], ["--pass"]),
        (["--auth", "--pass"], ["--auth", "[REDACTED]"]),
        (["--routes", "nats://a:geheim@h:1,nats://b@h:2"], ["--routes", "nats://[REDACTED]@h:1,nats://[REDACTED]@h:2"]),
        (["--cluster=nats://a:ge%40heim@h:-1"], ["--cluster=nats://[REDACTED]@h:-1"]),
        (["-c", "a@b.conf", "-p", "4222"], ["-c", "a@b.conf", "-p", "4222"]),
        (["--user=a=b", "--passage", "x"], ["--user=[REDACTED]", "--passage", "x"]),
    ],
)
def test_secrets_on_the_command_line_are_hidden(given: list[str], shown: list[str]) -> None:
    assert redacted(["server", *given]) == ["server", *shown]


def test_no_secret_is_left_whatever_the_form() -> None:
    arguments = ["--pass", "geheim", "--auth=geheim", "-user", "geheim", "--routes=nats://x:geheim@h,tls://geheim@i"]
    assert "geheim" not in " ".join(redacted(arguments))


def test_usage_is_measured_over_a_second_at_least() -> None:
    usage = Usage(0, 0)
    first = usage.read(SECOND)
    assert first.resident_bytes > 1_000_000
    assert first.cores >= 1
    again = usage.read(SECOND + SECOND // 2)
    assert again.cpu_percent == first.cpu_percent


def test_what_a_program_used_before_it_made_a_server_is_not_the_server_s() -> None:
    assert Usage(0, 0).read(SECOND).cpu_percent > 20, "this process has taken more than that"
    assert Usage(0, process_time_ns()).read(SECOND).cpu_percent < 20
