"""A Spark session that is set up for streams and starts fast.

    spark = slipstream.spark.session()                     # local, all cores
    spark = slipstream.spark.session("test")               # quick to start, slow at steady work
    spark = slipstream.spark.session(master="sc://host")   # a client of Spark Connect
    slipstream.spark.configure(SparkSession.builder).getOrCreate()   # your own session, our settings

Settings are chosen by measurements (docs/internals/spark.md). Anything in `config` wins over them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from slipstream.spark.runtime import jvm
from slipstream.spark.runtime.errors import SetupError
from slipstream.spark.runtime.pieces import TASKS_VARIABLE, local_tasks
from slipstream.spark.runtime.remote import remote_session, remote_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Profile", "configure", "prepare", "session", "settings"]

Profile = Literal["test", "batch", "stream"]
PROFILES: tuple[Profile, ...] = ("test", "batch", "stream")
_SPARK_MIN = (4, 2)
_SPARK_END = (5, 0)
_INSTALL = "Install it with `pip install 'slipstream-server[spark]'`."
_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_JVM_FLAGS: dict[Profile, tuple[str, ...]] = {
    # The quick compiler only, and the collector with the least set-up: up in half the time, 2.4 times slower later.
    "test": ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx1g", "-Dslipstream.log.level=error"),
    "batch": ("-XX:+UseParallelGC",),
    "stream": ("-XX:+UseParallelGC",),
}


def session(
    profile: Profile = "batch",
    *,
    master: str | None = None,
    app_name: str = "slipstream",
    config: Mapping[str, object] | None = None,
    heap: str | None = None,
    archive: Path | None = None,
) -> SparkSession:
    """Get the running session, or start one; in either case it is the session of the thread that asks.

    Spark's `writeStream.start()` looks for formats in the session of the Java thread behind the Python thread. A new
    thread has none, so that it finds no format until this is called there.

    Args:
        profile: `test` starts fastest; `batch` is for throughput; `stream` for micro-batches.
        master: `local[*]` by default, or what Spark takes, for example `spark://host:7077`; `sc://host:15002` is a
            server of Spark Connect.
        app_name: shown by Spark.
        config: further Spark settings; they win.
        heap: size of the driver's Java heap, for example `4g`.
        archive: a class-data archive made by `prepare`; by default the one in the cache, if it was made.

    Raises:
        SetupError: Java or pyspark is missing or too old; the text says what to install. Or a server of Spark Connect
            does not answer, or cannot do what is asked.
    """
    _check_profile(profile)
    check_spark()
    from pyspark.sql import SparkSession

    asked = {key: _text(value) for key, value in (config or {}).items()}
    running = SparkSession.getActiveSession() or _running_session()
    if running is not None:
        java: Any = getattr(running, "_jvm", None)  # Spark Connect has none
        if java is not None:
            java.SparkSession.setActiveSession(running._jsparkSession)
        return running
    if (url := remote_url(master)) is not None:
        if heap is not None or archive is not None:
            raise SetupError("heap and archive are for a Java machine of our own; a Spark Connect server has its own")
        return remote_session(url, app_name, settings(profile, url), asked)
    from pyspark.core.context import SparkContext

    master = master or os.environ.get("SPARK_MASTER") or ("local[2]" if profile == "test" else "local[*]")
    all_settings = settings(profile, master) | asked
    _set_environment(master)
    if SparkContext._gateway is None:
        java = jvm.find_java()
        path = archive or jvm.archive_path(java, _spark_version())
        gateway = jvm.launch(java, _flags(profile, heap), archive=path)
        jvm.end_at_exit(gateway.proc)
        SparkContext._ensure_initialized(gateway=gateway)
    builder = SparkSession.builder.appName(app_name).master(master)
    for key, value in all_settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def configure(builder: SparkSession.Builder, profile: Profile = "batch", *, master: str | None = None) -> Any:
    """Put the settings of a profile on a builder of your own; call it before the session is made.

    Raises:
        SetupError: pyspark is missing or too old.
    """
    _check_profile(profile)
    check_spark()
    _set_environment(master or "")
    for key, value in settings(profile, master or "").items():
        builder = builder.config(key, value)
    return builder


def settings(profile: Profile, master: str) -> dict[str, str]:
    """The settings of a profile as Spark takes them."""
    cores = os.cpu_count() or 1
    chosen = {
        "spark.ui.enabled": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.shuffle.partitions": "2" if profile == "test" else str(2 * cores),
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.sql.session.timeZone": "UTC",
    }
    if master.startswith("local"):
        chosen |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.python.unix.domain.socket.enabled": "true",
            # Only where checkpoints are on a local disk; object stores need Spark's default.
            "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS,
        }
    if profile == "test":
        chosen |= {
            "spark.log.level": "ERROR",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.adaptive.enabled": "false",
        }
    if profile == "stream":
        # A micro-batch is too short for re-planning and for keeping long histories.
        chosen |= {"spark.sql.adaptive.enabled": "false", "spark.sql.streaming.numRecentProgressUpdates": "100"}
    return chosen


def prepare(archive: Path | None = None) -> Path:
    """Make the class-data archive that lets sessions start in about half the time; takes half a minute, once.

    Returns:
        Where it is: 150 MB, for this Java and this Spark.

    Raises:
        SetupError: Java or pyspark is missing, or the archive could not be made.
    """
    check_spark()
    _set_environment("local[1]")
    java = jvm.find_java()
    path = archive or jvm.archive_path(java, _spark_version())
    jvm.make_archive(java, path, _WARM_UP, _flags("batch", None))
    return path


def check_spark() -> None:
    """Check that pyspark is there and of a version whose Python sources can do what ours need.

    Raises:
        SetupError: it is not.
    """
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise SetupError(f"pyspark is not installed. {_INSTALL}") from error
    version = _spark_version()
    found = tuple(int(part) if part.isdigit() else 0 for part in version.split(".")[:2])
    if not _SPARK_MIN <= found < _SPARK_END:
        raise SetupError(f"pyspark {version} is installed; 4.2 or later, before 5, is needed. {_INSTALL}")
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise SetupError(f"pyarrow is not installed. {_INSTALL}") from error


def _running_session() -> SparkSession | None:
    """The session that another thread started."""
    from pyspark.sql import SparkSession

    found = SparkSession._instantiatedSession
    return found if found is not None and found._sc._jsc is not None else None


def _spark_version() -> str:
    import pyspark

    return str(pyspark.__version__)


def _flags(profile: Profile, heap: str | None) -> list[str]:
    log = Path(__file__).with_name("log4j2.properties")
    flags = [f"-Dlog4j2.configurationFile={log}", *_JVM_FLAGS[profile]]
    return [*(flag for flag in flags if not flag.startswith("-Xmx")), f"-Xmx{heap}"] if heap else flags


def _set_environment(master: str) -> None:
    """What the Java side hands on to Python processes; it must be there before the Java machine starts."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ[TASKS_VARIABLE] = str(local_tasks(master) or "")


def _check_profile(profile: str) -> None:
    if profile not in PROFILES:
        raise SetupError(f"there is no profile {profile!r}; there are {', '.join(PROFILES)}")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_WARM_UP = """
from pyspark.sql import SparkSession, functions as F
from slipstream.spark.runtime.session import settings
builder = SparkSession.builder.appName("warm-up").master("local[2]")
for key, value in settings("batch", "local[2]").items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
frame = spark.range(1000).withColumn("k", F.col("id") % 7)
frame.groupBy("k").agg(F.count("*"), F.max("id")).orderBy("k").collect()
spark.sparkContext.parallelize([1, 2], 2).map(lambda n: n + 1).collect()
spark.stop()
"""
