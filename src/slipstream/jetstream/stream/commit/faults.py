"""A store's trouble in the words of others."""

from __future__ import annotations

from slipstream.errors import ApiError, StorageFault
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.store.values import StoreUnavailable

__all__ = ["fault_of", "store_error"]


def fault_of(error: Exception) -> StorageFault:
    """Anything that file work ended with, as a fault: a bug there must not leave a client without an answer."""
    return error if isinstance(error, StorageFault) else StorageFault(f"{type(error).__name__}: {error}")


def store_error(fault: StorageFault) -> ApiError:
    """How a store's trouble is told to a client: no space is 10047, anything else 10077 with its text."""
    if isinstance(fault, StoreUnavailable) and fault.full:
        return TableError(table.STORAGE_RESOURCES_EXCEEDED)
    return TableError(table.STREAM_STORE_FAILED, err=fault.text)
