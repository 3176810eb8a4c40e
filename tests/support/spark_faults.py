"""The format `slipstream` with a fault in it, once: for tests of what Spark and the server do about it.

Options: `fault` names it, `faultDir` is a directory that says whether it has happened. Workers import this module, so
the directory of tests is on their path.

| fault | where | what |
|---|---|---|
| `read-raise`, `read-exit` | a task, after its first batch | an exception; the process ends |
| `write-raise`, `write-exit` | a task, after its first batch was taken | the same |
| `commit-raise`, `commit-kill` | the driver, after the server's commit of batch 1 | the same; Java is killed |
| `PHASE-wait` | in the phase | waits until the file `go` is there |

Phases of a source: `initial` (the driver, before it asks where a query begins), `latest` (before it asks where batch 1
ends), `plan` (before it cuts batch 1 into tasks), `open` (a task, before it opens its read), `read` (after its first
batch), `last` (after its last), `done` (the driver, before the source hears that a batch is done). Phases of a sink:
`begin` (a task, before it stages anything), `write` (after its first batch was taken), `staged` (its part is whole, and
the driver does not know yet), `ask` (the driver, before it asks for the commit of batch 1), `lost` (the server has
committed it, and the answer does not arrive), `commit` (it did).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from slipstream.bulk import BulkClient, BulkError
from slipstream.spark.data_source import SlipstreamSource

WAIT_SECONDS_MAX = 60.0
KILL_BATCH = 1


class Fault:
    """One fault; picklable."""

    def __init__(self, name: str, directory: str) -> None:
        self.name = name
        self.directory = directory

    def once(self) -> bool:
        """True for the first who asks, over all processes."""
        try:
            os.close(os.open(Path(self.directory) / f"{self.name}.happened", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def strike(self) -> None:
        """What is wrong."""
        kind = self.name.partition("-")[2]
        if kind == "raise":
            raise RuntimeError(f"fault {self.name}")
        if kind == "exit":
            os._exit(9)
        if kind == "kill":
            os.kill(int((Path(self.directory) / "java.pid").read_text()), signal.SIGKILL)
            os._exit(9)
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while not (Path(self.directory) / "go").exists():
            if time.monotonic() > deadline:
                raise TimeoutError("nobody said go")
            time.sleep(0.01)

    def strike_once(self) -> None:
        """What is wrong, if nobody has had it yet."""
        if self.once():
            self.strike()

    def after_first(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The batches, with the fault behind the first."""
        for number, batch in enumerate(batches):
            yield batch
            if number == 0:
                self.strike_once()

    def around(self, phase: str, batches: Iterator[Any]) -> Iterator[Any]:
        """The batches, with the fault before all or behind all."""
        if phase == "open":
            self.strike_once()
        yield from batches
        if phase == "last":
            self.strike_once()


class FaultySource(SlipstreamSource):
    """See the module docstring."""

    @classmethod
    def name(cls) -> str:
        return "slipstream_faulty"

    def _plain(self) -> SlipstreamSource:
        return SlipstreamSource({name: text for name, text in self.options.items() if not name.startswith("fault")})

    def _with_fault(self, made: Any) -> Any:
        kind = _CLASSES[type(made).__name__]
        faulty = kind.__new__(kind)
        faulty.__dict__.update(made.__dict__)
        faulty.fault = Fault(self.options["fault"], self.options["faultDir"])
        faulty.where = faulty.fault.name.partition("-")[0]
        return faulty

    def schema(self) -> str:
        return self._plain().schema()

    def reader(self, schema: Any) -> Any:
        return self._with_fault(self._plain().reader(schema))

    def streamReader(self, schema: Any) -> Any:
        return self._with_fault(self._plain().streamReader(schema))

    def writer(self, schema: Any, overwrite: bool) -> Any:
        return self._with_fault(self._plain().writer(schema, overwrite))

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        return self._with_fault(self._plain().streamWriter(schema, overwrite))


class _Read:
    fault: Fault
    where: str

    def read(self, partition: Any) -> Iterator[Any]:
        batches = super().read(partition)  # type: ignore[misc]
        return self.fault.after_first(batches) if self.where == "read" else self.fault.around(self.where, batches)


class _StreamRead(_Read):
    def initialOffset(self) -> dict[str, Any]:
        self._strike("initial")
        return super().initialOffset()  # type: ignore[misc, no-any-return]

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        self._strike("latest", start)
        return super().latestOffset(start, limit)  # type: ignore[misc, no-any-return]

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Any:
        self._strike("plan", start)
        return super().partitions(start, end)  # type: ignore[misc]

    def commit(self, end: dict[str, Any]) -> None:
        self._strike("done", end)
        super().commit(end)  # type: ignore[misc]

    def _strike(self, phase: str, offset: dict[str, Any] | None = None) -> None:
        if phase == self.where and (offset is None or all(one["q"] > 1 for one in offset["s"].values())):
            self.fault.strike_once()


class _Write:
    fault: Fault
    where: str

    def write(self, iterator: Iterator[Any]) -> Any:
        if self.where == "begin":
            self.fault.strike_once()
        batches = self.fault.after_first(iterator) if self.where == "write" else iterator
        done = super().write(batches)  # type: ignore[misc]
        if self.where == "staged":
            self.fault.strike_once()
        return done

    def commit(self, messages: Any, *batch: int) -> None:
        is_struck = batch in ((), (KILL_BATCH,))
        if self.where == "ask" and is_struck:
            self.fault.strike_once()
        with answer_lost(self.fault) if self.where == "lost" and is_struck else nullcontext():
            super().commit(messages, *batch)  # type: ignore[misc]
        if self.where == "commit" and is_struck:
            self.fault.strike_once()


@contextmanager
def answer_lost(fault: Fault) -> Iterator[None]:
    """The server commits, the fault strikes, and the client is told that its connection is gone."""
    asked = BulkClient.commit

    def commit(client: BulkClient, *what: Any, **how: Any) -> Any:
        result = asked(client, *what, **how)
        if fault.once():
            fault.strike()
            raise BulkError("BULK.COMMIT: the connection was lost", retryable=True)
        return result

    BulkClient.commit = commit  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        BulkClient.commit = asked  # type: ignore[method-assign]


def _classes() -> dict[str, Any]:
    from slipstream.spark.readers.batch import FilteringReader, SlipstreamReader
    from slipstream.spark.readers.streaming import SlipstreamStreamReader
    from slipstream.spark.sink.writer import SlipstreamStreamWriter, SlipstreamWriter

    made: dict[str, Any] = {}
    for base, mixin in (
        (SlipstreamReader, _Read),
        (FilteringReader, _Read),
        (SlipstreamStreamReader, _StreamRead),
        (SlipstreamWriter, _Write),
        (SlipstreamStreamWriter, _Write),
    ):
        made[base.__name__] = globals()[f"Faulty{base.__name__}"] = type(
            f"Faulty{base.__name__}", (mixin, base), {"__module__": __name__}
        )
    return made


_CLASSES = _classes()
