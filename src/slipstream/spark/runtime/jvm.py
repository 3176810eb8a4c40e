"""Starts the Java machine of a Spark session directly, with a class-data archive when there is one.

spark-submit starts a Java machine to find out how to start a Java machine, through two shell scripts. Started directly,
and with the classes mapped from an archive made once (`make_archive`), a session is up in well under half the time.

What this is not: a replacement of spark-submit on a cluster. It starts the driver of a Python program, nothing else.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from slipstream.spark.runtime.errors import SetupError
from slipstream.spark.runtime.jvm_errors import relay

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway

__all__ = ["Java", "archive_path", "end", "end_at_exit", "find_java", "launch", "make_archive"]

JAVA_MIN = 17
_GATEWAY = "org.apache.spark.api.python.PythonGatewayServer"
_START_SECONDS_MAX = 120.0
_POLL_SECONDS = 0.02
_CORE_JAR = re.compile(r"spark-core_([\d.]+)-")
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_INSTALL = "Install one with `apt-get install openjdk-17-jre-headless`, or set JAVA_HOME."

# What spark-submit puts on the command line for Java 17 and later. `jdk.incubator.vector` is left out: reduced Java
# runtimes do not have it, with it every start prints a warning, and only Spark's linear algebra uses it.
_OPENED = [
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "jdk.internal.ref",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
]
_FLAGS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--enable-native-access=ALL-UNNAMED",
)
_FLAGS_FROM_24 = ("--sun-misc-unsafe-memory-access=allow", "-Dio.netty.noUnsafe=false")


@dataclass(frozen=True)
class Java:
    """A Java runtime that Spark can use."""

    program: str
    major: int
    version: str  # the first line of `java -version`: names build and vendor, so an archive fits only this runtime


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """The Java of JAVA_HOME, else the one on the path.

    Raises:
        SetupError: there is none, or it is too old.
    """
    home = environment.get("JAVA_HOME", "")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=environment.get("PATH")) or ""
    if not program:
        raise SetupError(f"Spark needs Java {JAVA_MIN} or later and there is no `java` here. {_INSTALL}")
    try:
        done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"{program} cannot be run: {error}. {_INSTALL}") from error
    text = done.stderr or done.stdout
    found = _VERSION.search(text)
    if done.returncode or found is None:
        raise SetupError(f"{program} -version says nothing useful: {text[:200]!r}. {_INSTALL}")
    major = int(found[2] or 8) if found[1] == "1" else int(found[1])
    if major < JAVA_MIN:
        raise SetupError(f"{program} is Java {major}; Spark needs {JAVA_MIN} or later. {_INSTALL}")
    return Java(program, major, text.strip().replace("\n", " "))


def launch(java: Java, flags: Iterable[str] = (), *, archive: Path | None = None) -> JavaGateway:
    """Start the Java machine of a driver and connect to it.

    It ends with this process: it watches a pipe that only this process holds.

    Args:
        java: the runtime.
        flags: further flags, for example `-Xmx2g`.
        archive: a class-data archive to map, if it exists.

    Raises:
        SetupError: it ended, or did not come up in time.
    """
    if archive is not None and archive.exists():
        flags = [*flags, f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:cds=off", "-Xlog:class+path=off"]
    with tempfile.TemporaryDirectory(prefix="slipstream-spark-") as directory:
        answer = Path(directory) / "gateway"
        process = _start(java, flags, answer)
        port, secret = _wait_for_gateway(process, answer)
    gateway = _connect(port, secret)
    gateway.proc = process
    return gateway


def archive_path(java: Java, spark_version: str, cache: Path | None = None) -> Path:
    """Where the class-data archive for this Java and this Spark is kept."""
    if cache is None:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        cache = Path(base).expanduser() / "slipstream"
    word = re.sub(r"[^0-9A-Za-z.]+", "-", java.version.partition("Server VM")[0]).strip("-")
    return cache / f"spark-{spark_version}-{word[:120]}.jsa"


def make_archive(java: Java, path: Path, warm_up: str, flags: Iterable[str] = ()) -> None:
    """Make a class-data archive from the classes that a short program loads; takes half a minute.

    Args:
        java: the runtime.
        path: where it is put; whole or not at all.
        warm_up: Python code; runs in a process of its own whose gateway is set by the environment.
        flags: flags that the archive depends on, such as the garbage collector.

    Raises:
        SetupError: it could not be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{secrets.token_hex(4)}.part")
    with tempfile.TemporaryDirectory(prefix="slipstream-spark-") as directory:
        answer = Path(directory) / "gateway"
        process = _start(java, [*flags, f"-XX:ArchiveClassesAtExit={part}", "-Xlog:cds=off"], answer)
        try:
            port, secret = _wait_for_gateway(process, answer)
            environment = dict(os.environ, PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret)
            _run_warm_up(warm_up, environment)
            assert process.stdin is not None
            process.stdin.close()  # the gateway ends, and writes the archive
            process.wait(_START_SECONDS_MAX)
            if not part.exists():
                raise SetupError(f"{java.program} made no class-data archive")
            part.replace(path)
        except subprocess.TimeoutExpired as error:
            raise SetupError(f"the class-data archive was not made in time: {error}") from error
        finally:
            process.kill()
            process.wait()
            part.unlink(missing_ok=True)


def _run_warm_up(code: str, environment: Mapping[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=_START_SECONDS_MAX,
        check=False,
    )
    if done.returncode:
        raise SetupError(f"the warm-up for the class-data archive failed: {done.stderr[-1000:]}")


def _start(java: Java, flags: Iterable[str], answer: Path) -> subprocess.Popen[bytes]:
    home = _spark_home()
    jars = sorted((home / "jars").glob("*.jar"), key=lambda jar: (not jar.name.startswith("slf4j-api-"), jar.name))
    if not jars:
        raise SetupError(
            f"there are no jars in {home}: pyspark is not installed whole; `pip install 'slipstream-server[spark]'`"
        )
    paths = [str(home / "conf"), *map(str, jars)]
    newer = _FLAGS_FROM_24 if java.major >= 24 else ()
    command = [java.program, "-cp", os.pathsep.join(paths), *_FLAGS, *newer, *flags, _GATEWAY]
    environment = dict(
        os.environ, SPARK_HOME=str(home), SPARK_CONNECT_MODE="0", _PYSPARK_DRIVER_CONN_INFO_PATH=str(answer)
    )
    for jar in jars:
        if found := _CORE_JAR.match(jar.name):
            # Spark's scripts set it; workers of a local cluster ask for it when they start executors.
            environment.setdefault("SPARK_SCALA_VERSION", found[1])
    with _errors() as errors:
        try:
            # A session of its own: Ctrl-C in a terminal is for Python, which then ends the query in an orderly way.
            return subprocess.Popen(
                command, stdin=subprocess.PIPE, stderr=errors, env=environment, start_new_session=True
            )
        except OSError as error:
            raise SetupError(f"{java.program} cannot be started: {error}") from error


@contextlib.contextmanager
def _errors() -> Iterator[int | None]:
    """A file descriptor for the standard error of a Java machine, which comes out at ours without noise.

    Ours is the one of the process: `sys.stderr` may be the cell of a notebook, which has none. Without one there is
    nothing to clean, and the Java machine inherits what there is.
    """
    try:
        target = os.dup(2)
    except OSError:
        yield None
        return
    source, errors = os.pipe()
    relay(source, target)
    try:
        yield errors
    finally:
        os.close(errors)  # the Java machine has its own: the relay ends with it


def _wait_for_gateway(process: subprocess.Popen[bytes], answer: Path) -> tuple[int, str]:
    """Port and secret, once the Java side has put them into the file (by renaming, so whole)."""
    deadline = time.monotonic() + _START_SECONDS_MAX
    while not answer.exists():
        if process.poll() is not None:
            end(process)
            raise SetupError(f"the Java machine ended with status {process.returncode} before it was ready")
        if time.monotonic() > deadline:
            end(process, 0.0)
            raise SetupError(f"the Java machine was not ready within {_START_SECONDS_MAX:g} s")
        time.sleep(_POLL_SECONDS)
    content = answer.read_bytes()
    size = int.from_bytes(content[4:8], "big")
    return int.from_bytes(content[:4], "big"), content[8 : 8 + size].decode()


def _connect(port: int, secret: str) -> JavaGateway:
    """Spark's own connection to a gateway that runs already, with the imports that it makes."""
    from pyspark.java_gateway import launch_gateway

    saved = {name: os.environ.get(name) for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")}
    os.environ.update(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret)
    try:
        return launch_gateway()  # type: ignore[no-untyped-call]  # pyspark has no types for it
    finally:
        for name, value in saved.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _spark_home() -> Path:
    import pyspark

    home = os.environ.get("SPARK_HOME")
    return Path(home) if home else Path(pyspark.__file__).parent


def end(process: subprocess.Popen[bytes], seconds: float = 10.0) -> None:
    """End a Java machine: politely by closing its pipe, else by force, or when Ctrl-C says that it takes too long."""
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    try:
        process.wait(seconds)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.send_signal(signal.SIGKILL)
        process.wait()


def end_at_exit(process: subprocess.Popen[bytes]) -> None:
    """Wait for the Java machine when Python ends, so that no process outlives its program."""
    atexit.register(_end_of_program, process, os.getpid())


def _end_of_program(process: subprocess.Popen[bytes], owner: int) -> None:
    from pyspark.core.context import SparkContext

    if os.getpid() != owner:
        return  # a process that was forked from ours
    context = SparkContext._active_spark_context
    if context is not None and process.poll() is None:
        # A session that the program did not stop: its thread for accumulators would print that Java is gone.
        with contextlib.suppress(Exception, KeyboardInterrupt):
            context.stop()
    end(process)
