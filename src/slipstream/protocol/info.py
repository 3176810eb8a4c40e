"""The two JSON documents of the handshake: INFO from the server, CONNECT from the client."""

from __future__ import annotations

import re

import msgspec

__all__ = ["ConnectInfo", "ServerInfo", "decode_connect", "encode_info", "encode_own"]


class ServerInfo(msgspec.Struct, omit_defaults=True, kw_only=True):
    """What INFO says. Fields at their default are left out, as nats-server does; the ones without default never are."""

    server_id: str
    server_name: str
    version: str
    proto: int
    git_commit: str = ""
    go: str
    host: str
    port: int
    headers: bool
    auth_required: bool = False
    tls_required: bool = False
    tls_verify: bool = False
    tls_available: bool = False
    max_payload: int
    jetstream: bool = False
    client_id: int = 0
    client_ip: str = ""
    nonce: str = ""
    cluster: str = ""
    domain: str = ""
    connect_urls: list[str] = []
    ldm: bool = False
    connect_info: bool = False
    remote_account: str = ""
    acc_is_sys: bool = False
    api_lvl: int = 0
    xkey: str = ""


class ConnectInfo(msgspec.Struct, kw_only=True):
    """What a client says about itself in CONNECT. A field that is absent keeps the value it had before."""

    verbose: bool | None = None
    pedantic: bool | None = None
    tls_required: bool | None = None
    echo: bool | None = None
    headers: bool | None = None
    no_responders: bool | None = None
    protocol: int | None = None
    auth_token: str | None = None
    user: str | None = None
    password: str | None = msgspec.field(default=None, name="pass")
    nkey: str | None = None
    sig: str | None = None
    jwt: str | None = None
    name: str | None = None
    lang: str | None = None
    version: str | None = None
    account: str | None = None
    new_account: bool | None = None
    proxy_sig: str | None = None


_connect_decoder = msgspec.json.Decoder(ConnectInfo)
# The last capital of a key. Each part begins where the one before must end, so a text is looked through once.
_odd_key = re.compile(rb'[A-Z][^"A-Z]*+"\s*+:').search
_info_encoder = msgspec.json.Encoder()


def decode_connect(text: bytes) -> ConnectInfo | None:
    """The options of a CONNECT line, or None when it is not the JSON it should be.

    As lenient as nats-server: `null` says nothing, keys may be written in any case, bytes that are not UTF-8 are
    replaced.
    """
    try:
        if _odd_key(text) is None:
            return _connect_decoder.decode(text)
        fields = msgspec.json.decode(text)
        if isinstance(fields, dict):
            fields = {key.lower(): value for key, value in fields.items()}
        return msgspec.convert(fields, ConnectInfo)
    except UnicodeDecodeError:
        return decode_connect(text.decode("utf-8", "replace").encode())
    except (msgspec.DecodeError, RecursionError):
        return ConnectInfo() if text.strip() == b"null" else None


def encode_info(info: ServerInfo) -> bytes:
    """The INFO line. The blank before the line end is part of what nats-server sends."""
    return b"INFO " + _info_encoder.encode(info) + b" \r\n"


def encode_own(client_id: int, client_ip: str, nonce: str) -> bytes:
    """The part of INFO that is a client's own, as `encode_info` has it."""
    own = b'"client_id":%d' % client_id
    if client_ip:
        own += b',"client_ip":' + _info_encoder.encode(client_ip)
    if nonce:
        own += b',"nonce":' + _info_encoder.encode(nonce)
    return own
