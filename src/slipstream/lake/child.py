"""`lake { … }` of a server: the process that it starts beside itself, which keeps tables up to date.

    server ── settings, one line of JSON ──► standard input; when it ends, so does this process
    server ◄── a report of each turn, one line of JSON ── standard output

The work is that of `slipstream lake run`. Secrets of the login come in the settings, so they are in no command line and
in no environment that others can read; those of object stores and catalogues are in the environment of the server.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from contextlib import suppress
from typing import Any, Final

from slipstream.bulk import ConnectOptions
from slipstream.errors import SlipstreamError
from slipstream.lake.opening import TablePlan
from slipstream.lake.service import LakeService, TurnReport
from slipstream.lake.writing import WriteSettings

__all__ = ["main", "serve"]

# The server and its clients come first: tables may be seconds late, publishers may not.
_NICENESS: Final = 10
_SECRETS: Final = {"password": "SLIPSTREAM_LAKE_PASSWORD", "token": "SLIPSTREAM_LAKE_TOKEN"}


def serve(settings: dict[str, Any], stop: threading.Event) -> None:
    """Write tables until `stop` is set.

    Raises:
        SlipstreamError: the settings cannot be used.
    """
    login: dict[str, Any] = settings["login"]
    for name, variable in _SECRETS.items():
        if name in login:
            os.environ[variable] = login.pop(name)
            login[f"{name}_env"] = variable
    reach = ConnectOptions(**login)
    plan = TablePlan(**settings["tables"])
    streams = settings["streams"]

    def told(report: TurnReport) -> None:
        _say(report.document())

    def failed(error: SlipstreamError) -> None:
        _say({"error": str(error)})

    payloads = plan.payloads(reach, streams)
    open_table = plan.opener((lambda: payloads.columns) if payloads is not None else None)
    writing = WriteSettings(**settings["writing"])
    # The server has started us, so we are in one session and one group with it: our low priority lets it go first.
    with LakeService(reach, open_table, streams, writing, payloads, may_pause=False) as lake:
        lake.run(settings["every"], stop, told, failed)


def main() -> int:
    """Read settings, work, and end when standard input does."""
    with suppress(OSError):
        os.nice(_NICENESS)
    settings = json.loads(sys.stdin.readline())
    stop = threading.Event()

    def watch() -> None:
        # The server's end of the pipe is closed when it asks for the end, and when it is gone.
        sys.stdin.read()
        stop.set()

    threading.Thread(target=watch, name="slipstream-lake-end", daemon=True).start()
    try:
        serve(settings, stop)
    except SlipstreamError as error:
        _say({"error": str(error)})
        return 1
    except BrokenPipeError:
        return 1  # the server is gone, and nobody is left to tell
    except Exception as error:  # libraries of formats and catalogues have no common root
        _say({"error": f"{type(error).__name__}: {error}"})
        return 1
    return 0


def _say(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
