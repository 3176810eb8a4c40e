"""What is compared with nats-server is compared: a run that cannot find it would pass over hundreds of tests."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from support.clusters import HAS_NATS_SERVER


def test_nats_server_is_found() -> None:
    assert HAS_NATS_SERVER
    assert shutil.which("nats-server") == str(Path(sys.executable).parent / "nats-server")
