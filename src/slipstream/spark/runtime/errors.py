"""Errors of the Spark side that say what to do about them."""

from __future__ import annotations

from slipstream.errors import SlipstreamError

__all__ = ["DataLoss", "OptionError", "SchemaError", "SetupError", "SparkSideError"]


class SparkSideError(SlipstreamError):
    """Root of what the Spark source, sink and session raise on purpose."""


class SetupError(SparkSideError):
    """Java or pyspark is missing, too old, or did not start; the text says what to install."""


class OptionError(SparkSideError):
    """An option of a read or a write cannot be used; `option` is its name."""

    def __init__(self, option: str, text: str) -> None:
        """Remember which option it is.

        Args:
            option: the option as users write it.
            text: what is wrong with it, and what would be right.
        """
        super().__init__(f"option {option!r}: {text}")
        self.option = option

    def __reduce__(self) -> tuple[object, ...]:
        return _option_error, (self.option, str(self))


class SchemaError(SparkSideError):
    """The columns of a DataFrame or of a requested schema are not those of streams, buckets or object stores."""


class DataLoss(SparkSideError):
    """What a query has still to read is gone: removed, purged, or the stream is another one of the same name."""


def _option_error(option: str, text: str) -> OptionError:
    """An `OptionError` from its parts; errors travel pickled from Spark's workers."""
    return OptionError(option, text.removeprefix(f"option {option!r}: "))
