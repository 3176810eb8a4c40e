"""What the Java machine writes to standard error: broken pipes of workers go, everything else stays as it is."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.spark.runtime import jvm
from slipstream.spark.runtime.jvm_errors import PipeErrorFilter, relay

ZIP = "/opt/venv/lib/python3.11/site-packages/pyspark/python/lib/pyspark.zip/pyspark"

# As Spark 4.3 prints it.
PLAIN = f"""\
Traceback (most recent call last):
  File "{ZIP}/daemon.py", line 264, in manager
  File "{ZIP}/daemon.py", line 95, in worker
BrokenPipeError: [Errno 32] Broken pipe
"""
WITH_CODE = """\
Traceback (most recent call last):
  File "/opt/spark/python/pyspark/daemon.py", line 264, in manager
    code = worker(sock, authenticated)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/opt/spark/python/pyspark/worker.py", line 3500, in main
    write_int(SpecialLengths.END_OF_STREAM, outfile)
  File "/opt/spark/python/pyspark/serializers.py", line 542, in write_int
    stream.write(struct.pack("!i", value))
ConnectionResetError: [Errno 104] Connection reset by peer
"""
CHAINED = f"""\
{WITH_CODE}
During handling of the above exception, another exception occurred:

{PLAIN}"""
FAILED_FLUSH = f"PySpark daemon failed to flush the output to the worker process:\n{PLAIN}\n"
IGNORED = f"Exception ignored in: <_io.BufferedWriter name=5>\n{PLAIN}"
IGNORED_SHORT = "Exception ignored in: <_io.BufferedWriter name=5>\nBrokenPipeError: [Errno 32] Broken pipe\n"
MIXED = "".join(line + line for line in PLAIN.splitlines(keepends=True))  # two workers at once
NOISE = [PLAIN, WITH_CODE, CHAINED, FAILED_FLUSH, IGNORED, IGNORED_SHORT, MIXED]

LOG = "26/11/15 11:45:35 WARN TaskSetManager: Lost task 0.0 in stage 1.0\n"
REAL = """\
Traceback (most recent call last):
  File "/opt/spark/python/pyspark/worker.py", line 3500, in main
  File "/home/me/job.py", line 3, in read
BrokenPipeError: [Errno 32] Broken pipe
"""
OF_PYSPARK = PLAIN.replace("BrokenPipeError: [Errno 32] Broken pipe", "ValueError: bad length")
REAL_LAST = f"""\
{PLAIN}
During handling of the above exception, another exception occurred:

{OF_PYSPARK}"""
REAL_FIRST = f"""\
{OF_PYSPARK}
The above exception was the direct cause of the following exception:

{PLAIN}"""
IN_A_LOG = f"""\
26/11/15 11:45:35 ERROR Executor: Exception in task
org.apache.spark.api.python.PythonException: {PLAIN}
During handling of the above exception, another exception occurred:

{PLAIN}
\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)
"""
ELSEWHERE = PLAIN.replace(ZIP, "/home/me/pyspark")
IGNORED_REAL = "Exception ignored in: <function Pool.__del__ at 0x7f>\nBrokenPipeError: [Errno 32] Broken pipe\n"
KEPT = [
    LOG,
    REAL,
    OF_PYSPARK,
    REAL_LAST,
    REAL_FIRST,
    IN_A_LOG,
    ELSEWHERE,
    IGNORED_REAL,
    "\n",
    "a\n\nb\r\n",
    "Trace",
    "Traceback (most recent call last):\n",
    "BrokenPipeError: [Errno 32] Broken pipe\n",
    f"{LOG[:-1]}{PLAIN}",
    "Exception ignored in: <_io.BufferedWriter name=5>\nOSError: [Errno 9] Bad file descriptor\n",
    f'Traceback (most recent call last):\n  File "{ZIP}/dae{LOG}mon.py", line 264, in manager\n',
]


def cleaned(*pieces: str | bytes) -> str:
    cleaner = PipeErrorFilter()
    data = [piece.encode() if isinstance(piece, str) else piece for piece in pieces]
    return b"".join([*map(cleaner.feed, data), cleaner.release()]).decode()


@pytest.mark.parametrize("noise", NOISE)
def test_broken_pipes_of_workers_go(noise: str) -> None:
    assert cleaned(noise) == ""
    assert cleaned(LOG + noise + LOG) == LOG + LOG
    assert cleaned(noise + noise + REAL) == REAL


@pytest.mark.parametrize("text", KEPT)
def test_everything_else_stays(text: str) -> None:
    assert cleaned(text) == text
    assert cleaned(PLAIN + text) == text


@given(st.lists(st.sampled_from([(text, "") for text in NOISE] + [(LOG, LOG), (REAL, REAL), ("\n", "\n")])), st.data())
def test_pieces_do_not_matter(parts: list[tuple[str, str]], data: st.DataObject) -> None:
    whole = "".join(text for text, _ in parts).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=12)))
    pieces = [whole[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert cleaned(*pieces) == "".join(wanted for _, wanted in parts)


@given(st.lists(st.sampled_from(["Traceback (most recent call last):", "  File ", "x", "\n", "\r", "Error: y", ""])))
def test_what_has_no_broken_pipe_is_never_changed(pieces: list[str]) -> None:
    assert cleaned(*pieces) == "".join(pieces)


@pytest.mark.parametrize("at", range(1, 4))
def test_lines_of_logs_in_between_stay(at: int) -> None:
    lines = PLAIN.splitlines(keepends=True)
    others = f"{LOG}\tat java.base/Thread.run\n"
    cleaner = PipeErrorFilter()
    assert cleaner.feed("".join([*lines[:at], others, *lines[at:]]).encode()).decode() == others
    assert not cleaner.holds and cleaner.feed(LOG.encode()).decode() == LOG


def test_nothing_waits_that_need_not() -> None:
    cleaner = PipeErrorFilter()
    assert cleaner.feed(b"[Stage 0:>  (0 + 1) / 1]\r") == b"[Stage 0:>  (0 + 1) / 1]\r"
    assert cleaner.feed(b"Password") == b"Password" and not cleaner.holds
    assert cleaner.feed(b": ") == b": "
    assert cleaner.feed(b"Traceback (most recent call last):\n") == b"Traceback (most recent call last):\n"
    head, first, foreign, *_ = REAL.encode().splitlines(keepends=True)
    assert cleaner.feed(head + first) == b"" and cleaner.holds
    assert cleaner.feed(foreign) == head + first + foreign and not cleaner.holds


def test_real_tracebacks_keep_their_place_among_logs() -> None:
    lines = OF_PYSPARK.splitlines(keepends=True)
    mixed = "".join([*lines[:2], LOG, *lines[2:3], LOG, *lines[3:], LOG])
    assert cleaned(mixed) == mixed


def test_what_is_held_goes_out_when_no_more_comes() -> None:
    cleaner = PipeErrorFilter()
    assert cleaner.feed(b"Tr") == b"" and cleaner.holds
    assert cleaner.release() == b"Tr" and not cleaner.holds
    assert cleaner.feed(b"ue\n") == b"ue\n"
    half = PLAIN[:-10].encode()
    assert cleaner.feed(half) == b"" and cleaner.release() == half
    assert cleaner.feed(PLAIN[-10:].encode()) == PLAIN[-10:].encode()
    assert cleaner.feed(PLAIN.encode()) == b"" and not cleaner.holds and cleaner.release() == b""


def test_a_traceback_that_the_end_cut_off() -> None:
    """A worker that was stopped while it wrote; what has a frame of somebody else in it stays."""
    *lines, last = PLAIN.encode().splitlines(keepends=True)
    for count in range(1, len(lines) + 1):
        cleaner = PipeErrorFilter()
        assert cleaner.feed(b"".join(lines[:count]) + LOG.encode()) == b""
        assert cleaner.finish() == LOG.encode()
        assert cleaner.feed(b"".join(lines[:count])[:-5]) == b""
        assert cleaner.finish() == (lines[0][:-5] if count == 1 else b"")
    for length in range(len(last)):
        assert cleaner.feed(b"".join(lines) + last[:length]) == b"" and cleaner.finish() == b""
    assert cleaner.feed(b"".join(lines) + b"ValueErr") == b""
    assert cleaner.finish() == b"".join(lines) + b"ValueErr"
    cleaner = PipeErrorFilter()
    head, first, foreign, *_ = REAL.encode().splitlines(keepends=True)
    assert cleaner.feed(head + first + foreign) + cleaner.finish() == head + first + foreign


def test_what_is_held_has_a_limit() -> None:
    cleaner = PipeErrorFilter()
    head, frame, *_ = PLAIN.encode().splitlines(keepends=True)
    passed = cleaner.feed(head) + b"".join(cleaner.feed(frame) for _ in range(1000))
    assert len(passed) > 65_536
    assert passed + cleaner.release() == head + frame * 1000


def test_the_relay_copies_until_the_end() -> None:
    (source, writer), (reader, target) = os.pipe(), os.pipe()
    thread = relay(source, target)
    os.write(writer, f"{LOG}{PLAIN}".encode())
    assert os.read(reader, 4096).decode() == LOG
    os.write(writer, f"{REAL}Trace".encode())
    os.close(writer)
    thread.join(10)
    with os.fdopen(reader) as found:
        assert found.read() == f"{REAL}Trace"
    assert thread.daemon and not thread.is_alive()


def test_nobody_reads_and_nobody_waits() -> None:
    (source, writer), (reader, target) = os.pipe(), os.pipe()
    thread = relay(source, target)
    os.close(reader)
    for _ in range(200):  # more than a pipe holds
        os.write(writer, LOG.encode() * 20)
    os.close(writer)
    thread.join(10)
    assert not thread.is_alive()


def test_last_words_come_out_before_a_program_ends() -> None:
    """The program ends while the relay holds back half a line; a file descriptor is all it needs."""
    code = f"""if 1:
        import subprocess, sys
        from slipstream.spark.runtime import jvm
        sys.stderr = None  # a notebook
        with jvm._errors() as errors:
            subprocess.run(["printf", "%s", {f"{LOG}{PLAIN}Trace"!r}], stderr=errors, stdout=errors)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, f"{LOG}Trace")


def test_a_process_without_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_descriptor(_: int) -> int:
        raise OSError(9, "Bad file descriptor")

    before = threading.active_count()
    monkeypatch.setattr("os.dup", no_descriptor)
    with jvm._errors() as errors:
        assert errors is None
    assert threading.active_count() == before
