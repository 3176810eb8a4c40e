"""The format `slipstream` with a fault in it, once: for tests of what Spark and the server do about it.

Options: `fault` names it, `faultDir` is a directory that says whether it has happened. Workers import this module, so
the directory of tests is on their path.

| fault | where | what |
|---|---|---|
| `read-raise`, `read-exit` | a task, after its first batch | an exception; the process ends |
| `read-wait` | the same | waits until the file `go` is there |
| `write-raise`, `write-exit`, `write-wait` | a task, after its first batch was taken | the same |
| `ask-wait` | the driver, before it asks the server to commit batch 1 | waits until the file `go` is there |
| `commit-wait` | the driver, after the server's commit of batch 1 | the same |
| `commit-kill` | the driver, after the server's commit of batch 1 | the Java machine is killed |
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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

    def after_first(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The batches, with the fault behind the first."""
        for number, batch in enumerate(batches):
            yield batch
            if number == 0 and self.once():
                self.strike()


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

    def read(self, partition: Any) -> Iterator[Any]:
        return self.fault.after_first(super().read(partition))  # type: ignore[misc]


class _Write:
    fault: Fault
    where: str

    def write(self, iterator: Iterator[Any]) -> Any:
        batches = self.fault.after_first(iterator) if self.where == "write" else iterator
        return super().write(batches)  # type: ignore[misc]

    def commit(self, messages: Any, *batch: int) -> None:
        if self.where == "ask":
            self._strike(batch)
        super().commit(messages, *batch)  # type: ignore[misc]
        if self.where == "commit":
            self._strike(batch)

    def _strike(self, batch: tuple[int, ...]) -> None:
        if batch == (KILL_BATCH,) and self.fault.once():
            self.fault.strike()


def _classes() -> dict[str, Any]:
    from slipstream.spark.readers.batch import FilteringReader, SlipstreamReader
    from slipstream.spark.readers.streaming import SlipstreamStreamReader
    from slipstream.spark.sink.writer import SlipstreamStreamWriter, SlipstreamWriter

    made: dict[str, Any] = {}
    for base, mixin in (
        (SlipstreamReader, _Read),
        (FilteringReader, _Read),
        (SlipstreamStreamReader, _Read),
        (SlipstreamWriter, _Write),
        (SlipstreamStreamWriter, _Write),
    ):
        made[base.__name__] = globals()[f"Faulty{base.__name__}"] = type(
            f"Faulty{base.__name__}", (mixin, base), {"__module__": __name__}
        )
    return made


_CLASSES = _classes()
