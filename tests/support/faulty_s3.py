"""A small S3 on h11, with faults: enough of the protocol for obstore, deltalake and pyarrow, and nothing more.

One bucket, in memory. Conditional writes hold (`If-None-Match: *`, `If-Match`), lists are strongly consistent, as in
S3. Faults are asked for by name and rolled by a seed:

- `unavailable`: 503 before anything is done;
- `lost`: it is done, and the connection closes instead of answering;
- `slow`: the answer comes in two pieces with a pause between;
- `orphans`: an upload in parts is begun and never ended, as by a writer that died.

Signatures are not looked at; that a request has one is.
"""

from __future__ import annotations

import hashlib
import random
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import h11

BUCKET: Final = "bucket"
_PAGE: Final = 1000
_READ: Final = 1 << 16


@dataclass
class Stored:
    """An object."""

    data: bytes
    tag: str
    modified: float


@dataclass
class Faults:
    """How many of a hundred requests go wrong, and how."""

    unavailable: int = 0
    lost: int = 0
    slow: int = 0
    seed: int = 1
    careless: bool = False  # conditions of writes are ignored, as by simple imitations of S3
    only: tuple[str, ...] = ("PUT", "POST", "GET", "HEAD", "DELETE")


@dataclass
class _Answer:
    status: int
    body: bytes = b""
    headers: list[tuple[str, str]] = field(default_factory=list)


class FaultyS3:
    """The server; threads, so that tests which block can use it."""

    def __init__(self) -> None:
        self.objects: dict[str, Stored] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.faults = Faults()
        self.seen: Counter[str] = Counter()
        self.unsigned = 0
        self._random = random.Random(1)
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: set[socket.socket] = set()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def environment(self) -> dict[str, str]:
        """What clients find it by."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "somebody",
            "AWS_SECRET_ACCESS_KEY": "hidden-key-of-somebody",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def break_with(self, **faults: object) -> None:
        """Let requests go wrong from now on; without arguments: no more."""
        with self._lock:
            self.faults = Faults(**faults)  # type: ignore[arg-type]
            self._random = random.Random(self.faults.seed)

    def names(self, prefix: str = "") -> list[str]:
        """What is there."""
        with self._lock:
            return sorted(name for name in self.objects if name.startswith(prefix))

    def close(self) -> None:
        """End."""
        self._listener.close()
        for connection in list(self._connections):
            connection.close()

    # --- connections ------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        machine = h11.Connection(h11.SERVER)
        try:
            while self._one(machine, connection):
                machine.start_next_cycle()
        except (OSError, h11.ProtocolError):
            pass
        finally:
            connection.close()
            self._connections.discard(connection)

    def _one(self, machine: h11.Connection, connection: socket.socket) -> bool:
        request: h11.Request | None = None
        body = bytearray()
        while True:
            event = machine.next_event()
            if event is h11.NEED_DATA:
                if machine.they_are_waiting_for_100_continue:
                    connection.sendall(machine.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
                machine.receive_data(connection.recv(_READ))
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                break
            else:
                return False
        assert request is not None
        method = request.method.decode()
        fault = self._fault(method)
        answer = _error(503, "SlowDown") if fault == "unavailable" else self._handle(request, bytes(body))
        if fault == "lost":
            return False
        length = [] if any(name.lower() == "content-length" for name, _ in answer.headers) else [len(answer.body)]
        headers = [*answer.headers, *(("Content-Length", str(size)) for size in length)]
        sent = machine.send(h11.Response(status_code=answer.status, headers=headers)) or b""
        if answer.body and method != "HEAD":
            sent += machine.send(h11.Data(data=answer.body)) or b""
        sent += machine.send(h11.EndOfMessage()) or b""
        if fault == "slow":
            connection.sendall(sent[: len(sent) // 2])
            time.sleep(0.02)
            sent = sent[len(sent) // 2 :]
        connection.sendall(sent)
        return machine.our_state is h11.DONE and machine.their_state is h11.DONE

    def _fault(self, method: str) -> str:
        with self._lock:
            rolled, faults = self._random.randrange(100), self.faults
            self.seen[method] += 1
            if method not in faults.only:
                return ""
            for name in ("unavailable", "lost", "slow"):
                rolled -= getattr(faults, name)
                if rolled < 0:
                    self.seen[name] += 1
                    return name
        return ""

    # --- requests ---------------------------------------------------------------------------------------------------

    def _handle(self, request: h11.Request, body: bytes) -> _Answer:
        target = urlsplit(request.target.decode())
        headers = {name.decode().lower(): value.decode() for name, value in request.headers}
        query = {name: values[0] for name, values in parse_qs(target.query, keep_blank_values=True).items()}
        name = unquote(target.path).removeprefix(f"/{BUCKET}").lstrip("/")
        with self._lock:
            if "authorization" not in headers and "X-Amz-Signature" not in query:
                self.unsigned += 1
                return _error(403, "AccessDenied")
            match request.method:
                case b"PUT":
                    return self._put(name, _unchunked(body, headers), headers, query)
                case b"POST":
                    return self._post(name, body, query)
                case b"DELETE":
                    if "uploadId" in query:
                        self.uploads.pop(query["uploadId"], None)
                    else:
                        self.objects.pop(name, None)
                    return _Answer(204)
                case b"GET" if not name:
                    return self._list(query)
                case b"GET" | b"HEAD":
                    return self._get(name, headers)
        return _error(405, "MethodNotAllowed")

    def _put(self, name: str, data: bytes, headers: dict[str, str], query: dict[str, str]) -> _Answer:
        if "uploadId" in query:
            self.uploads[query["uploadId"]][int(query["partNumber"])] = data
            return _Answer(200, headers=[("ETag", _tag(data))])
        if "x-amz-copy-source" in headers:
            data = self.objects[unquote(headers["x-amz-copy-source"]).removeprefix(f"/{BUCKET}/")].data
        known = self.objects.get(name)
        if self.faults.careless:
            headers = {}
        if headers.get("if-none-match") == "*" and known is not None:
            return _error(412, "PreconditionFailed")
        if "if-match" in headers and (known is None or known.tag != headers["if-match"]):
            return _error(404 if known is None else 412, "NoSuchKey" if known is None else "PreconditionFailed")
        self._store(name, data)
        return _Answer(200, headers=[("ETag", self.objects[name].tag)])

    def _store(self, name: str, data: bytes) -> None:
        # A tag is of a version, not of its bytes: the same written twice is told apart.
        self.objects[name] = Stored(data, f'"{hashlib.md5(data).hexdigest()}-{random.getrandbits(32)}"', time.time())

    def _post(self, name: str, body: bytes, query: dict[str, str]) -> _Answer:
        if "uploads" in query:
            number = f"upload{len(self.uploads)}-{random.getrandbits(32)}"
            self.uploads[number] = {}
            return _xml(f"<InitiateMultipartUploadResult><UploadId>{number}</UploadId></InitiateMultipartUploadResult>")
        if "uploadId" in query:
            parts = self.uploads.pop(query["uploadId"], None)
            if parts is None:
                return _error(404, "NoSuchUpload")
            self._store(name, b"".join(parts[number] for number in sorted(parts)))
            return _xml(
                f"<CompleteMultipartUploadResult><ETag>{escape(self.objects[name].tag)}</ETag>"
                "</CompleteMultipartUploadResult>"
            )
        if "delete" in query:
            import xml.etree.ElementTree as tree

            gone = [one.text or "" for one in tree.fromstring(body).iter() if one.tag.endswith("Key")]
            for one in gone:
                self.objects.pop(one, None)
            told = "".join(f"<Deleted><Key>{escape(one)}</Key></Deleted>" for one in gone)
            return _xml(f"<DeleteResult>{told}</DeleteResult>")
        return _error(400, "InvalidRequest")

    def _get(self, name: str, headers: dict[str, str]) -> _Answer:
        known = self.objects.get(name)
        if known is None:
            return _error(404, "NoSuchKey")
        about = [
            ("ETag", known.tag),
            ("Last-Modified", formatdate(known.modified, usegmt=True)),
            ("Accept-Ranges", "bytes"),
        ]
        wanted = headers.get("range", "")
        if not wanted.startswith("bytes="):
            return _Answer(200, known.data, [*about, ("Content-Length", str(len(known.data)))])
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        size = len(known.data)
        begin = int(first) if first else max(size - int(last), 0)
        end = min(int(last) + 1, size) if first and last else size
        if begin >= size:
            return _error(416, "InvalidRange")
        part = known.data[begin:end]
        return _Answer(206, part, [*about, ("Content-Range", f"bytes {begin}-{begin + len(part) - 1}/{size}")])

    def _list(self, query: dict[str, str]) -> _Answer:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token") or query.get("start-after", "")
        shown: list[str] = []
        folders: dict[str, None] = {}
        last = ""
        names = [name for name in sorted(self.objects) if name.startswith(prefix) and name > after]
        for at, name in enumerate(names):
            rest = name[len(prefix) :]
            last = name
            if delimiter and delimiter in rest:
                folders[prefix + rest.partition(delimiter)[0] + delimiter] = None
            else:
                shown.append(name)
            if len(shown) + len(folders) >= _PAGE:
                names = names[at + 1 :]
                break
        else:
            names = []
        entries = "".join(
            f"<Contents><Key>{escape(name)}</Key><Size>{len(self.objects[name].data)}</Size>"
            f"<LastModified>{time.strftime('%Y-%m-%dT%H:%M:%S.000Z', time.gmtime(self.objects[name].modified))}"
            f"</LastModified><ETag>{escape(self.objects[name].tag)}</ETag></Contents>"
            for name in shown
        )
        entries += "".join(f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in folders)
        more = f"<NextContinuationToken>{escape(last)}</NextContinuationToken>" if names else ""
        return _xml(
            f"<ListBucketResult><Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix>"
            f"<KeyCount>{len(shown) + len(folders)}</KeyCount><IsTruncated>{str(bool(names)).lower()}</IsTruncated>"
            f"{more}{entries}</ListBucketResult>"
        )


def _unchunked(body: bytes, headers: dict[str, str]) -> bytes:
    """A body as it was before it was signed in pieces."""
    if "aws-chunked" not in headers.get("content-encoding", "") and not headers.get(
        "x-amz-content-sha256", ""
    ).startswith("STREAMING"):
        return body
    data = bytearray()
    while body:
        line, _, rest = body.partition(b"\r\n")
        size = int(line.partition(b";")[0], 16)
        if not size:
            break
        data += rest[:size]
        body = rest[size + 2 :]
    return bytes(data)


def _tag(data: bytes) -> str:
    return f'"{hashlib.md5(data).hexdigest()}"'


def _xml(text: str) -> _Answer:
    return _Answer(200, f'<?xml version="1.0" encoding="UTF-8"?>{text}'.encode(), [("Content-Type", "application/xml")])


def _error(status: int, code: str) -> _Answer:
    body = f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>{code}</Message></Error>'
    return _Answer(status, body.encode(), [("Content-Type", "application/xml")])
