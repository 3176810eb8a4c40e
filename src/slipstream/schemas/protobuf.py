"""Protobuf, by the official library: a definition is a FileDescriptorSet with its imports, as `protoc -o` writes it."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from slipstream.schemas.definitions import missing_package
from slipstream.schemas.errors import SchemaProblem
from slipstream.schemas.limits import PROBLEM_CHARACTERS_MAX

if TYPE_CHECKING:
    from slipstream.schemas.payloads import PayloadCheck

__all__ = ["message_class", "protobuf_check"]


def message_class(definition: str, message: str) -> Any:
    """The class of messages of a type.

    Raises:
        SchemaProblem: the definition cannot be read, or has no such type.
    """
    try:
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
        from google.protobuf.descriptor_pool import DescriptorPool
        from google.protobuf.message import DecodeError
        from google.protobuf.message_factory import GetMessageClass
    except ImportError as error:
        raise missing_package(error) from error
    try:
        files = FileDescriptorSet.FromString(base64.b64decode(definition, validate=True))
        pool = DescriptorPool()
        for file in files.file:
            pool.Add(file)
        return GetMessageClass(pool.FindMessageTypeByName(message))
    except (binascii.Error, DecodeError, TypeError, ValueError) as error:
        raise SchemaProblem(f"not a FileDescriptorSet with its imports: {error}") from error
    except KeyError as error:
        raise SchemaProblem(f"the definition has no message {message}") from error


def protobuf_check(definition: str, message: str) -> PayloadCheck:
    """What says why a payload does not fit.

    Raises:
        SchemaProblem: the definition cannot be used.
    """
    kind = message_class(definition, message)
    from google.protobuf.message import DecodeError

    def problem(payload: bytes) -> str | None:
        found = kind()
        try:
            found.MergeFromString(payload)
        except (DecodeError, ValueError) as error:
            return f"no {message}: {error}"[:PROBLEM_CHARACTERS_MAX]
        if not found.IsInitialized():
            return f"no {message}: required fields are missing"
        return None

    return problem
