"""A client of backups: takes them and gives them back."""

from __future__ import annotations

import json
from typing import Any

from support.consumer_oracle import ListeningOracle

API = "$JS.API."
Answer = tuple[bytes | None, bytes]


class BackupClient(ListeningOracle):
    """A connection that takes and restores backups."""

    def api(self, subject: str, body: Any = b"") -> Any:
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        ((_, answer),) = self.request(API + subject, payload, None, 1)
        return json.loads(answer)

    def back_up(self, stream: str, late: bool = False, **options: Any) -> tuple[Any, bytes, bytes, list[bytes]]:
        """The answer, the backup, the header of its end, and the reply subjects of its chunks.

        `late`: listen to the chunks only after the answer; the wildcard for answers covers their subject all the time.
        """
        target = f"_INBOX.backup{self._sid}" if late else f"backup.{self._sid}"
        sid = b"" if late else self.subscribe(target.encode())
        answer = self.api(f"STREAM.SNAPSHOT.{stream}", {"deliver_subject": target, **options})
        if late:
            for _ in range(20):  # turns in which a server that does not wait would send
                self.settled()
            sid = self.subscribe(target.encode())
        data, replies = bytearray(), []
        while "error" not in answer:
            ((_, reply, header, payload),) = self.take(sid, 1)
            if not payload:
                return answer, bytes(data), header, replies
            data += payload
            replies.append(reply)
            if reply:
                self.publish(reply, b"", b"")
        return answer, b"", b"", []

    def restore(self, stream: str, answer: Any, backup: bytes, chunk: int = 100_000) -> Any:
        """The last answer to a restore of `backup`, whose SNAPSHOT was answered with `answer`."""
        begun = self.api(f"STREAM.RESTORE.{stream}", {"config": answer["config"], "state": answer["state"]})
        if "error" in begun:
            return begun
        subject = begun["deliver_subject"]
        for at in range(0, len(backup), chunk):
            ((_, reply),) = self.request(subject, backup[at : at + chunk], None, 1)
            if reply:
                return json.loads(reply)
        ((_, reply),) = self.request(subject, b"", None, 1)
        return json.loads(reply)
