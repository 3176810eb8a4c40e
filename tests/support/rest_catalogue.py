"""A small REST catalogue of Iceberg over pyiceberg's own catalogue in SQLite; its answers can be lost.

What it has is what pyiceberg's client asks for: configuration, namespaces, tables made, loaded and committed to.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest, CommitTableResponse, TableIdentifier


class RestCatalogue:
    """The server."""

    def __init__(self, directory: Path, port: int = 0) -> None:
        self._catalogue = SqlCatalog(
            "backing", uri=f"sqlite:///{directory}/rest.db", warehouse=f"file://{directory}/warehouse"
        )
        self._lock = threading.Lock()
        self.lost = 0  # answers to commits that will be lost: 503 after it was done
        self.commits = 0
        self.bugs: list[Exception] = []
        catalogue = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer(b"")

            def do_POST(self) -> None:
                self._answer(self.rfile.read(int(self.headers.get("Content-Length", "0"))))

            def do_HEAD(self) -> None:
                self._answer(b"")

            def _answer(self, body: bytes) -> None:
                status, document = catalogue.handle(self.command, unquote(urlsplit(self.path).path), body)
                data = document if isinstance(document, bytes) else json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """End."""
        self._server.shutdown()
        self._server.server_close()

    def handle(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        """One request; one at a time, as a database would have it."""
        words = path.strip("/").split("/")[1:]
        with self._lock:
            try:
                return self._handle(method, words, body)
            except NoSuchTableError as error:
                return _refused(404, "NoSuchTableException", error)
            except NamespaceAlreadyExistsError as error:
                return _refused(409, "AlreadyExistsException", error)
            except TableAlreadyExistsError as error:
                return _refused(409, "AlreadyExistsException", error)
            except CommitFailedException as error:
                return _refused(409, "CommitFailedException", error)
            except Exception as error:
                self.bugs.append(error)
                return _refused(400, "BadRequestException", error)

    def _handle(self, method: str, words: list[str], body: bytes) -> tuple[int, Any]:
        match method, words:
            case "GET", ["config"]:
                return 200, {"defaults": {}, "overrides": {}}
            case "POST", ["namespaces"]:
                asked = json.loads(body)
                self._catalogue.create_namespace(tuple(asked["namespace"]), asked.get("properties") or {})
                return 200, {"namespace": asked["namespace"], "properties": {}}
            case (("GET" | "HEAD"), ["namespaces", namespace, "tables", name]):
                return 200, _table(self._catalogue.load_table((namespace, name)))
            case "POST", ["namespaces", namespace, "tables"]:
                made = json.loads(body)
                identifier = (namespace, made["name"])
                if self._catalogue.table_exists(identifier):
                    raise TableAlreadyExistsError(f"{identifier} is there")
                staged = self._catalogue._create_staged_table(
                    identifier,
                    Schema.model_validate(made["schema"]),
                    made.get("location"),
                    properties=made.get("properties") or {},
                )
                assert made["stage-create"]  # all tables of streams are made in a transaction
                return 200, _table(staged)
            case "POST", ["namespaces", namespace, "tables", name]:
                return self._commit((namespace, name), json.loads(body))
        return 404, {"error": {"message": f"no {method} {words}", "type": "NotFound", "code": 404}}

    def _commit(self, identifier: tuple[str, str], asked: dict[str, Any]) -> tuple[int, Any]:
        namespace, name = identifier
        request = CommitTableRequest(
            identifier=TableIdentifier(namespace=[namespace], name=name),
            requirements=asked["requirements"],
            updates=asked["updates"],
        )
        try:
            table = self._catalogue.load_table(identifier)
        except NoSuchTableError:
            table = self._catalogue._create_staged_table(identifier, *_first_schema(request))
        done = self._catalogue.commit_table(table, request.requirements, request.updates)
        self.commits += 1
        if self.lost:
            self.lost -= 1
            return 503, {"error": {"message": "gone", "type": "ServiceUnavailableException", "code": 503}}
        answer = CommitTableResponse(metadata=done.metadata, metadata_location=done.metadata_location)
        return 200, answer.model_dump_json(by_alias=True, exclude_none=True).encode()


def _first_schema(request: CommitTableRequest) -> tuple[Any, str | None]:
    """What a table begins with that is made by its first commit."""
    schema = next(one.schema_ for one in request.updates if one.action == "add-schema")  # type: ignore[union-attr]
    location = next((one.location for one in request.updates if one.action == "set-location"), None)  # type: ignore[union-attr]
    return schema, location


def _table(table: Any) -> bytes:
    metadata = table.metadata.model_dump_json(by_alias=True, exclude_none=True)
    place = json.dumps(table.metadata_location)
    return f'{{"metadata-location": {place}, "metadata": {metadata}, "config": {{}}}}'.encode()


def _refused(status: int, kind: str, error: Exception) -> tuple[int, Any]:
    return status, {"error": {"message": str(error), "type": kind, "code": status}}
