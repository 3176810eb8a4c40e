"""An OpenID issuer of a test: a process of its own, with private keys that nobody else sees.

    with Issuer() as issuer:
        issuer.url, issuer.token(sub="ann"), issuer.rotate(), issuer.behave("down")

Run as a program it is the issuer; imported it starts and asks one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

KINDS = ("RS256", "PS256", "ES256", "ES384", "ES512", "EdDSA")


class Issuer:
    """The process, from the side of a test."""

    def __init__(self, tls: tuple[str, str, str] | None = None) -> None:
        """Start it; `tls` are the files of its certificate, of its key, and of the authority of both."""
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__, *(tls or ())], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._context = None if tls is None else ssl.create_default_context(cafile=tls[2])
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}" if tls is None else f"https://localhost:{self.port}"

    def token(self, *, key: str = "RS256", header: dict[str, Any] | None = None, **claims: Any) -> str:
        """A signed token; claims of None are left out."""
        now = int(time.time())
        said = {"iss": self.url, "aud": "nats", "sub": "ann", "iat": now, "exp": now + 600, **claims}
        said = {name: value for name, value in said.items() if value is not None}
        return self._ask("sign", {"key": key, "header": header or {}, "claims": said})["token"]  # type: ignore[no-any-return]

    def rotate(self) -> None:
        """Sign with other keys from now on; the old ones are gone from the set."""
        self._ask("rotate", {})

    def behave(self, how: str) -> None:
        """`well`, `down`, `slow`, `drip`, `huge`, `junk`, `empty`, `redirect`, `stranger`, `downgrade` or `error`."""
        self._ask("behave", {"how": how})

    def fetches(self) -> int:
        """How often the key set was asked for."""
        return int(self._ask("fetches", {})["count"])

    def public_keys(self) -> list[dict[str, Any]]:
        """The public keys."""
        return self._ask("keys", {})["keys"]  # type: ignore[no-any-return]

    def _ask(self, what: str, said: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(f"{self.url}/control/{what}", json.dumps(said).encode())
        handlers = [urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self._context)]
        with urllib.request.build_opener(*handlers).open(request, timeout=10) as answer:
            return json.loads(answer.read())  # type: ignore[no-any-return]

    def stop(self) -> None:
        """End it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()


def encoded(part: object) -> str:
    """One part of a token."""
    raw = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def forged(header: dict[str, Any], claims: dict[str, Any], secret: bytes | None = None) -> str:
    """A token that nobody signed, or HMAC with some bytes that everybody knows."""
    text = f"{encoded(header)}.{encoded(claims)}"
    signature = b"" if secret is None else hmac.new(secret, text.encode(), hashlib.sha256).digest()
    return f"{text}.{encoded(signature)}"


# --- the process -----------------------------------------------------------------------------------------------------


class _Keys:
    def __init__(self) -> None:
        self.generation = 0
        self.private: dict[str, Any] = {}
        self.rotate()

    def rotate(self) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

        self.generation += 1
        shared = rsa.generate_private_key(65537, 2048)
        self.private = {
            "RS256": shared,
            "PS256": rsa.generate_private_key(65537, 2048),
            "ES256": ec.generate_private_key(ec.SECP256R1()),
            "ES384": ec.generate_private_key(ec.SECP384R1()),
            "ES512": ec.generate_private_key(ec.SECP521R1()),
            "EdDSA": ed25519.Ed25519PrivateKey.generate(),
        }

    def name(self, kind: str) -> str:
        return f"{kind}-{self.generation}"

    def public(self) -> list[dict[str, Any]]:
        from jwt.algorithms import get_default_algorithms

        found = []
        for kind, key in self.private.items():
            jwk = get_default_algorithms()[kind].to_jwk(key.public_key(), as_dict=True)
            found.append({**jwk, "kid": self.name(kind), "use": "sig"})
        found.append({"kty": "oct", "k": encoded(b"everybody knows it"), "kid": "shared", "alg": "HS256"})
        found.append({"kty": "RSA", "use": "enc", "kid": "sealed", "n": "AQAB", "e": "AQAB"})
        found.append({"kty": "from the future", "kid": 7})  # type: ignore[dict-item]
        return found

    def sign(self, kind: str, header: dict[str, Any], claims: dict[str, Any]) -> str:
        from jwt.algorithms import get_default_algorithms

        head = {"alg": kind, "typ": "JWT", "kid": self.name(kind), **header}
        head = {name: value for name, value in head.items() if value is not None}
        text = f"{encoded(head)}.{encoded(claims)}"
        algorithm = get_default_algorithms()[kind]
        return f"{text}.{encoded(algorithm.sign(text.encode(), algorithm.prepare_key(self.private[kind])))}"


class _State:
    def __init__(self) -> None:
        self.keys = _Keys()
        self.how = "well"
        self.changed = threading.Event()  # wakes those who answer slowly
        self.fetches = 0
        self.scheme = "http"


class _Handler(BaseHTTPRequestHandler):
    state: _State

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        state = self.state
        said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        what = self.path.rpartition("/")[2]
        answer: dict[str, Any] = {}
        if what == "sign":
            answer = {"token": state.keys.sign(said["key"], said["header"], said["claims"])}
        elif what == "rotate":
            state.keys.rotate()
        elif what == "behave":
            state.how = said["how"]
            state.changed.set()
            state.changed = threading.Event()
        elif what == "fetches":
            answer = {"count": state.fetches}
        elif what == "keys":
            answer = {"keys": state.keys.public()}
        self._answer(json.dumps(answer).encode())

    def do_GET(self) -> None:
        state = self.state
        host = self.headers["Host"]
        is_keys = self.path == "/keys"
        state.fetches += is_keys
        if state.how == "down":
            self.close_connection = True
            return
        if state.how == "slow":
            state.changed.wait(60)
            return
        if state.how == "error":
            self.send_error(503)
            return
        if state.how == "redirect":
            self.send_response(302)
            self.send_header("Location", f"http://{host}/keys")
            self.end_headers()
            return
        if not is_keys:
            own = f"{state.scheme}://{host}"
            issuer = "http://somebody.else" if state.how == "stranger" else own
            keys = own.replace("https:", "http:") if state.how == "downgrade" else own
            self._answer(json.dumps({"issuer": issuer, "jwks_uri": f"{keys}/keys"}).encode())
            return
        body = json.dumps({"keys": state.keys.public()}).encode()
        if state.how == "huge":
            body = b" " * 2_000_000 + body
        elif state.how == "junk":
            body = b"<html>sorry</html>"
        elif state.how == "empty":
            body = b'{"keys":[]}'
        elif state.how == "drip":
            self._drip(body)
            return
        self._answer(body)

    def _drip(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        changed = self.state.changed
        for byte in body:
            if changed.wait(0.2):
                return
            self.wfile.write(bytes([byte]))
            self.wfile.flush()

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _serve(*tls: str) -> None:
    _Handler.state = _State()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls[0], tls[1])
        server.socket = context.wrap_socket(server.socket, server_side=True)
        _Handler.state.scheme = "https"
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()  # until the test is over


if __name__ == "__main__":
    _serve(*sys.argv[1:])
