"""Sessions of Spark Connect: a client without a Java machine, for a Spark that runs elsewhere.

    spark = slipstream.spark.session(master="sc://spark.example:15002")

Plans go to a server over gRPC; it and its workers run our code, with the package in their own Python. A client can
change settings of SQL and no others: what belongs to the machine is set where the server starts.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from slipstream.spark.runtime.errors import SetupError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["is_remote", "remote_session", "remote_url"]

_SCHEME = "sc://"
_INSTALL = "Install what it needs with `pip install 'slipstream-server[spark-connect]'`."
_PORT = 15002
_CONNECT_SECONDS = 10.0
_SETTINGS = "spark.sql."  # what a client may say
_STATIC = frozenset(("spark.sql.catalogImplementation",))  # ... but for these, which are fixed when Spark starts


def remote_url(master: str | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """The address of a Spark Connect server, if that is what a master, or SPARK_REMOTE for want of one, names."""
    named = master or environment.get("SPARK_REMOTE") or ""
    return named if named.startswith(_SCHEME) else None


def is_remote(spark: SparkSession) -> bool:
    """Whether a session is a client of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def remote_session(url: str, app_name: str, chosen: Mapping[str, str], asked: Mapping[str, str]) -> SparkSession:
    """Connect to a Spark Connect server.

    Args:
        url: `sc://host:port`, with parameters as Spark takes them.
        app_name: shown by Spark.
        chosen: settings of a profile; those of the machine are left to the server.
        asked: settings of the user.

    Raises:
        SetupError: packages are missing, the server does not answer, or the user asks for what only the server can set.
    """
    for name in asked:
        if not name.startswith(_SETTINGS) or name in _STATIC:
            raise SetupError(f"{name} is a setting of the Spark Connect server: set it where that is started")
    settings = {name: value for name, value in chosen.items() if name.startswith(_SETTINGS) and name not in _STATIC}
    try:
        import grpc  # noqa: F401
        import pandas  # noqa: F401
        from pyspark.sql import SparkSession
        from pyspark.sql.connect.session import SparkSession as ConnectSession  # noqa: F401
    except ImportError as error:
        raise SetupError(f"Spark Connect lacks a package: {error}. {_INSTALL}") from error
    from pyspark.errors import PySparkException

    _check_reachable(url)
    builder: Any = SparkSession.builder.appName(app_name).remote(url)
    try:
        spark: SparkSession = builder.getOrCreate()
        for name, value in (settings | dict(asked)).items():
            spark.conf.set(name, value)
    except PySparkException as error:
        raise SetupError(f"the Spark Connect server at {url.partition(';')[0]} cannot be used: {error}") from error
    return spark


def _check_reachable(url: str) -> None:
    """Look whether somebody listens: Spark would try for minutes.

    Raises:
        SetupError: nobody does.
    """
    if any(name.lower() in ("grpc_proxy", "https_proxy", "http_proxy") for name in os.environ):
        return  # gRPC may go through it
    place = urlsplit(url.partition(";")[0])
    try:
        socket.create_connection((place.hostname or "", place.port or _PORT), _CONNECT_SECONDS).close()
    except (OSError, ValueError) as error:
        raise SetupError(
            f"the Spark Connect server at {place.scheme}://{place.netloc} does not answer: {error}"
        ) from error
