"""Starts Spark's Python workers, as `pyspark.daemon` does, without a word about workers that Spark has let go.

Spark closes the sockets of idle workers when a query or session ends; a worker that was about to say something finds
its pipe broken, and pyspark prints a traceback although nothing is wrong and nobody waits. Such a worker ends quietly
here. Errors of tasks do not come this way: they are told over the socket while Spark still listens.

Run by Spark (`spark.python.daemon.module`), never imported by anything else.
"""

from __future__ import annotations

import socket

from pyspark import daemon

_work = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Serve one worker's socket; 1 when it was closed under it."""
    try:
        return _work(sock, authenticated)
    except (BrokenPipeError, ConnectionResetError):
        return 1


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
