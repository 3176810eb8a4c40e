"""Files in Google Cloud, whose library asks again for a quarter of an hour unless it is told not to."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

import pytest

pytest.importorskip("pyiceberg")

from slipstream.lake import recorded_io


@pytest.mark.timeout(60)
def test_a_store_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded_io, "GCS_RETRY_SECONDS", 1)
    asked = 0

    def hang_up(listener: socket.socket) -> None:
        nonlocal asked
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(1 << 16)
                    asked += 1

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=hang_up, args=(listener,), daemon=True).start()
        files = recorded_io.RecordedFileIO(
            {
                "gcs.service.host": f"http://127.0.0.1:{listener.getsockname()[1]}",
                "gcs.oauth2.token": "token",
                "gcs.oauth2.token-expires-at": "4102444800000",
            }
        )
        with pytest.raises(OSError, match="Retry policy exhausted"):
            files.new_input("gs://tables/orders/file").exists()
        listener.shutdown(socket.SHUT_RDWR)
    assert asked >= 1
